"""Whether there is memory for what no plan counts: a rehearsal."""

from __future__ import annotations

import torch

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


def there_is_room(device: torch.device, more: int) -> bool:
    """For so many bytes beside what is taken already."""
    return more <= free_bytes(device) * SPARE
