"""What a step keeps beside its arena, counted in its plan as one value that is there all the time.

- A copy of each buffer that the step writes, to be put back if it fails (step.py), and the state of the random stream.
- The results that are handed out, loss and aux: they are the caller's, so they are copied out of the arena, which is
  still there then.

A plan without these would promise less memory than the step takes. Nothing reads the value, so it moves nowhere but with
swap, where a plan may put away whatever is not read: there it is shown (`step.memory.kept_bytes`), not planned.
"""

from __future__ import annotations

from .calls import BUFFER, CONSTANT, MADE, PARAMETER, Program
from .units import Unit

NAME = "kept: copies of buffers, results"


def written_buffers(program: Program, units: list[Unit]) -> list[int]:
    """Places in `program.given` of the buffers that the step writes, of what loss_fn holds itself and writes (a queue, a teacher),
    and of parameters that it writes before it updates them (an embedding with max_norm)."""
    written = {s for unit in units if unit.update is None for s in (*unit.updates, *unit.statistics)}
    return [i for i, t in enumerate(program.given)
            if program.storage_of(t).role in (BUFFER, PARAMETER, CONSTANT) and program.tensors[t].storage in written]


def kept_bytes(program: Program, units: list[Unit]) -> int:
    """The state of a stream that the step draws from is an operand of its own and not counted again."""
    tensors = [program.given[i] for i in written_buffers(program, units)]
    tensors += [o for o in program.outputs if o is not None]
    draws = any(s.base < 0 and s.role != MADE for s in program.storages)
    return sum(_bytes(program, t) for t in tensors) + (0 if draws else program.device.state_bytes)


def _bytes(program: Program, tensor: int) -> int:
    found, count = program.tensors[tensor], 1
    for extent in found.shape:
        count *= extent
    return count * found.dtype.itemsize
