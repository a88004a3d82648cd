"""A dropout's mask as one byte an element.

Eager dropout draws zeros and ones as floats, divides them by the probability to stay and keeps that, four bytes an
element, for the backward pass. Here the draw gives a bool, and the scaled floats are made of it by an op that may run
again: a byte stays where four would, for a pass over the mask instead of a new draw (a draw on the CPU takes
some ten times as long). Ones divided are the same bits as before.

On a GPU one kernel draws and applies the mask. Of a step in parts that is taken apart, too: the mask is drawn whole, as eager
mode draws it, and applied in parts.
"""

from __future__ import annotations

import math

import torch

from .calls import Call, Program, Ref, Tensor
from .units import Unit

aten = torch.ops.aten
DRAWN = [aten.empty_like.default, aten.bernoulli_.float, aten.div_.Scalar]


def _is_dropout(program: Program, unit: Unit) -> bool:
    calls = [call for call in unit.calls if not call.view]
    if [call.target for call in calls] != DRAWN or len(unit.makes) != 1:
        return False
    base = program.storages[unit.makes[0]].base
    tensor = program.tensors[base]
    whole = all(call.args[0] == Ref(base) for call in calls[1:]) and calls[0].outs == [base]
    return whole and tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1


def _bool_drawn(program: Program, floats: Tensor, draw: Call) -> tuple[int, int, list[Call]]:
    """What is drawn into, the mask that is kept of it, and the calls that make it."""
    drawn, mask = program.add_tensor(floats, None), program.add_tensor(floats, None)
    program.tensors[mask].dtype = torch.bool
    program.storage_of(mask).bytes //= floats.dtype.itemsize
    common = {"phase": draw.phase, "place": draw.place}
    return drawn, mask, [
        Call(draw.target, (Ref(drawn), *draw.args[1:]), draw.kwargs, [drawn], False, writes=(drawn,), random=True, **common),
        Call(aten.ne.Scalar, (Ref(drawn), 0), {}, [mask], False, **common)]


def _byte_mask(program: Program, unit: Unit, number: int) -> Unit:
    """Makes the unit draw the bool; gives the unit that makes the floats of it."""
    base = program.storages[unit.makes[0]].base
    floats = program.tensors[base]
    empty, draw, divide = (call for call in unit.calls if not call.view)
    common = {"phase": draw.phase, "place": draw.place}
    drawn, mask, calls = _bool_drawn(program, floats, draw)
    unit.calls = [
        *(call for call in unit.calls if call.view),
        Call(empty.target, empty.args, empty.kwargs, [drawn], False, **common), *calls]
    scaled = [Call(aten._to_copy.default, (Ref(mask),), {"dtype": floats.dtype}, [base], False, **common), divide]
    made = Unit(number, scaled, unit.phase, [program.tensors[mask].storage], unit.makes, after=set())
    unit.makes = [program.tensors[mask].storage]
    return made


def keep_masks_as_bytes(program: Program, units: list[Unit]) -> list[Unit]:
    """The units with every dropout in two."""
    number, found = max((unit.number for unit in units), default=0) + 1, []
    for unit in units:
        found.append(unit)
        if _is_dropout(program, unit):
            found.append(_byte_mask(program, unit, number))
            number += 1
    return found


def draws_of_bytes(program: Program) -> None:
    """The same before there are units: a call that draws the mask, and calls that make the floats of it, which may run in
    parts."""
    for call in [call for call in program.calls if _is_one_kernel(program, call)]:
        _draw_first(program, call)
    written: dict[int, list[Call]] = {}
    for call in program.calls:
        for t in (*call.writes, *(o for o in call.outs if o is not None and call.target is DRAWN[0])):
            written.setdefault(t, []).append(call)
    for base, group in written.items():
        if [call.target for call in group] == DRAWN and program.storages[program.tensors[base].storage].base == base:
            if not _is_read_between(program, base, group):
                _draw_bytes(program, base, *group)


def _is_read_between(program: Program, base: int, group: list[Call]) -> bool:
    """Whether somebody reads what was drawn before it is divided."""
    at = [next(k for k, call in enumerate(program.calls) if call is part) for part in (group[0], group[-1])]
    others = (call for call in program.calls[at[0]:at[1]] if not any(call is part for part in group))
    storage = program.tensors[base].storage
    return any(program.tensors[t].storage == storage for call in others for t in call.tensors())


def _draw_bytes(program: Program, base: int, empty: Call, draw: Call, divide: Call) -> None:
    floats = program.tensors[base]
    if not floats.dtype.is_floating_point or floats.dtype.itemsize == 1:
        return
    common = {"phase": draw.phase, "place": draw.place}
    drawn, mask, calls = _bool_drawn(program, floats, draw)
    ones = program.add_tensor(floats, None)
    begin = program.calls.index(draw)
    program.calls[begin:begin + 1] = calls
    # By numbers, as the operand would have to be there whole for its shape.
    empty.target, empty.args, empty.kwargs = aten.empty_strided.default, (list(floats.shape), list(floats.stride)), {"dtype": floats.dtype, "device": floats.device}
    empty.outs = [drawn]
    end = program.calls.index(divide)
    program.calls[end:end + 1] = [
        Call(aten._to_copy.default, (Ref(mask),), {"dtype": floats.dtype}, [ones], False, **common),
        Call(aten.div.Scalar, (Ref(ones), divide.args[1]), {}, [base], False, **common)]


def _is_one_kernel(program: Program, call: Call) -> bool:
    """A dropout by one kernel whose mask does not hang on where its operand lies: a kernel may draw in another order where that
    is not aligned, so the operand has to be all of a storage."""
    if call.target is not aten.native_dropout.default or not call.random or call.args[2] is False or not 0 < call.args[1] < 1:
        return False
    given, out = program.tensors[call.args[0].id], call.outs[0]
    is_all = program.storages[given.storage].bytes == math.prod(given.shape) * given.dtype.itemsize
    return is_all and out is not None and program.tensors[out].stride == given.stride


def _draw_first(program: Program, call: Call) -> None:
    """A call that draws the whole mask, and one that applies it, which may run in parts. No mask depends on what the kernel
    reads, so it reads memory that nobody has written; what it makes of that is thrown away. Both are there while it draws."""
    given, out, mask = call.args[0], *call.outs
    like = program.tensors[given.id]
    unwritten = program.add_tensor(program.tensors[out], None)
    if mask is None:
        mask = program.add_tensor(program.tensors[out], None)
        program.tensors[mask].dtype = torch.bool
        program.storage_of(mask).bytes //= like.dtype.itemsize
    common = {"phase": call.phase, "place": call.place}
    at = program.calls.index(call)
    program.calls[at:at + 1] = [
        Call(aten.empty_strided.default, (list(like.shape), list(like.stride)), {"dtype": like.dtype, "device": like.device},
             [unwritten], False, **common),
        Call(call.target, (Ref(unwritten), *call.args[1:]), call.kwargs, [None, mask], call.many, random=True, **common),
        Call(aten.native_dropout_backward.default, (given, Ref(mask), _scale(call.args[1], like)), {}, [out], False, **common)]


def _scale(p: float, like: Tensor) -> float:
    """What stays is multiplied by this, to the bit: kernels of GPUs divide in the type in which they compute."""
    if like.device.type == "cpu" or like.dtype is torch.float64:
        return 1 / (1 - p)
    return (1 / torch.tensor(1 - p, dtype=torch.float32)).item()
