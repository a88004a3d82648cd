"""Whether there is memory for copies that a plan does not count: of what the first run may have to put back, of a rehearsal."""

from __future__ import annotations

import torch

from ..amounts import amount_of
from ..plans import Plan
from .options import StepOptions

SPARE = 0.8  # of what the system says is free


def free_bytes(device: torch.device) -> int:
    """What the system could give. Where it does not say, nothing."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo") as said:
            return next(int(line.split()[1]) << 10 for line in said if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 0


def there_is_room(device: torch.device, plan: Plan, options: StepOptions, more: int) -> bool:
    """For so many bytes beside the plan: within its budget, and within what is free."""
    asked = amount_of(options.budget)
    limit = asked.limit(plan.verdict["peak_before_bytes"]) if asked is not None else None
    if asked is not None and (limit is None or plan.arena_bytes + more > limit):
        return False
    return more <= free_bytes(device) * SPARE
