"""lowtide.measure: the kernels of a planned step timed again, for longer, and kept for the plans that come.

Compiling times each kind of unit twice, which is enough for a plan and little on a busy machine. Here each kind runs as often
as is asked for, and the least time replaces what was kept before (cache.py). The step stays as it is; whoever
compiles the same step again gets a plan by the new times.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from .. import cache
from ..errors import Unsupported, Usage
from .measure import kind_of, seconds_of
from .optimizers import state_as_before
from .planning import Planned, there
from .step import Step


class Timed(NamedTuple):
    """A unit of the step, in the order of the graph. Seconds of its first run."""

    name: str
    before: float
    now: float


def measure(step: Step, rounds: int = 10) -> list[Timed]:
    """Raises Usage where nothing is kept for the step (cache=False, no folder for it), or rounds is no count; Unsupported for a
    step whose engine has kernels of its own, or that runs on many ranks."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise Usage(f"rounds={rounds!r} is no whole number of at least 1")
    if not hasattr(step, "planned") and not hasattr(step, "engine"):
        raise Usage(f"lowtide.measure takes a step that lowtide.compile_step has made; this is a {type(step).__name__}")
    if step.engine != "torch":
        raise Unsupported(f"lowtide.measure times PyTorch's kernels, and this step's engine is {step.engine}; "
                          "`lowtide run --measure` times Lowtide's own")
    if step.data_parallel:
        raise Unsupported("lowtide.measure on many ranks: all ranks plan by what rank 0 measured when the step was compiled")
    with step.at_rest(), state_as_before(step.planned.captured.updates.optimizer):
        return _again(step.planned, rounds)


def _again(planned: Planned, rounds: int) -> list[Timed]:
    kept = cache.load_rows(planned.measured_key)
    units, program = planned.captured.units, planned.captured.program
    if kept is None or len(kept) != 2 or len(kept[1]) != len(units):
        raise Usage("nothing is kept of this step's times: it was compiled with cache=False, or LOWTIDE_CACHE cannot be written")
    given, seconds = there(planned.captured), {}
    state, found = program.device.get_state(), []
    try:
        with torch.no_grad():
            for unit, row in zip(units, kept[1], strict=True):
                kind = kind_of(program, unit, unit.what and planned.captured.updates.kind(unit.what))
                if kind not in seconds:
                    again = seconds_of(program, unit, rounds, given)
                    seconds[kind] = row[0] if again is None else again  # it runs on the step's own values alone
                found.append(Timed(unit.name, row[0], seconds[kind]))
                row[0] = seconds[kind]
    finally:
        program.device.set_state(state)
    cache.store_rows(planned.measured_key, kept)
    return found
