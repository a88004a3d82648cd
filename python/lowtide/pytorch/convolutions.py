"""The gradient of a convolution's input without the input.

Asked for that alone, `convolution_backward` takes the input for its shape, and so keeps it in memory. The gradient is a
convolution of the other direction, of the result's gradient with the same weights, which takes no input. Whether its
kernel gives the same bits is tried on drawn numbers, once for each kind, which lie as the step's do; it is taken where it does and lies alike, and where its
scratch is not larger than what is saved.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from .addresses import Allocator
from .calls import Call, Program
from .measure import drawn_run, kind_of, note_layout
from .units import Unit

aten = torch.ops.aten
MOST_LONGER = 1.02  # on a GPU, whose kernels of the two directions differ in speed; a CPU's are the same


def _other_direction(program: Program, call: Call) -> Call | None:
    """The same gradient by a convolution that does not read the input."""
    gradient, given, weight, _, stride, padding, dilation, transposed, _, groups, mask = call.args
    if list(mask) != [True, False, False]:
        return None
    extents = program.tensors[given.id].shape[2:]
    kernel = program.tensors[weight.id].shape[2:]
    beyond = [0] * len(extents)
    if not transposed:
        beyond = [(n + 2 * p - d * (k - 1) - 1) % s
                  for n, p, d, k, s in zip(extents, padding, dilation, kernel, stride, strict=True)]
    args = (gradient, weight, None, stride, padding, dilation, not transposed, beyond, groups)
    return replace(call, target=aten.convolution.default, args=args, outs=call.outs[:1], many=False, said=call)


def candidate(program: Program, unit: Unit) -> Unit | None:
    """The unit that computes what this one does without the input; None where there is none."""
    calls = [call for call in unit.calls if not call.view]
    if len(calls) != 1 or calls[0].target is not aten.convolution_backward.default or len(unit.makes) != 1:
        return None
    call = calls[0]
    other = _other_direction(program, call)
    if other is None:
        return None
    reads = list(dict.fromkeys(program.tensors[t].storage for t in other.tensors()))
    return replace(unit, calls=[other], reads=reads)


def choose(program: Program, units: list[Unit], allocator: Allocator | None) -> list[int]:
    """Places in `units` of those that the other form is better for."""
    chosen, kinds = [], {}
    for index, unit in enumerate(units):
        other = candidate(program, unit)
        if other is None:
            continue
        kind = kind_of(program, unit)
        if kind not in kinds:
            kinds[kind] = _is_better(program, unit, other, allocator)
        if kinds[kind]:
            chosen.append(index)
    return chosen


def _is_better(program: Program, unit: Unit, other: Unit, allocator: Allocator | None) -> bool:
    try:
        return _is_as_good(program, unit, other, allocator)
    except RuntimeError:  # a view of what lies otherwise than traced: measuring finds that out
        return False


def _is_as_good(program: Program, unit: Unit, other: Unit, allocator: Allocator | None) -> bool:
    with torch.no_grad():
        (made, scratch, seconds), (its, more, longer) = (drawn_run(program, u, allocator) for u in (unit, other))
    note_layout(program, unit, program.storages[unit.makes[0]].base, made.made)
    if made != its or (program.device.type != "cpu" and longer > seconds * MOST_LONGER):
        return False
    saved = sum(program.storages[s].bytes for s in set(unit.reads) - set(other.reads))
    return more - scratch <= saved // 2


def take(program: Program, units: list[Unit], chosen: list[int]) -> None:
    """Exchanges the units at these places."""
    for index in chosen:
        other = candidate(program, units[index])
        if other is not None:
            units[index] = other
