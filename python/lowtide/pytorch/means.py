"""Means over samples as sums that are divided once: parts of a sum only add up.

The divisor of a loss that ignores labels is counted first: it depends on the labels alone. Results differ from PyTorch's own by
rounding, so this is done only to steps in parts (samples.py), and not in 16 bits, where a sum has no room for what a mean has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .axes import LOSSES, LOSSES_BACKWARD
from .calls import Call, Program, Ref, instead_of
from .parts import count_labels, nll_sum

aten = torch.ops.aten


def sums_for_means(program: Program) -> None:
    """Exchanges the calls."""
    calls: list[Call] = []
    for call in program.calls:
        is_known = call.target in _MEANS and program.tensors[call.outs[0]].dtype.itemsize >= 4
        calls += _MEANS[call.target](program, call) if is_known else [call]
    program.calls = calls


def _count(program: Program, tensor: Ref) -> int:
    return torch.Size(program.tensors[tensor.id].shape).numel()


def _nll(program: Program, call: Call) -> list[Call]:
    scores, labels, weight, reduction, ignored = call.args
    if weight is not None or reduction not in (1, 2):
        return [call]
    loss, total = call.outs
    like = program.tensors[loss]
    made = program.add_tensor(like, None)
    end = (aten.div.Tensor, (Ref(made), Ref(total))) if reduction == 1 else (aten.clone.default, (Ref(made),))
    return [instead_of(call, count_labels, (labels, ignored, like.dtype), total),
            instead_of(call, nll_sum, (scores, labels, ignored), made), instead_of(call, *end, loss)]


def _reduction(call: Call) -> tuple[int, int]:
    """Where the argument stands, and what it is: 0 none, 1 mean, 2 sum."""
    place = [argument.name for argument in call.target._schema.arguments].index("reduction")
    return place, call.args[place] if place < len(call.args) else call.kwargs.get("reduction", 1)


def _as_sum(call: Call, place: int, first: tuple = ()) -> tuple:
    """The arguments with `first` in the place of the first, and a sum asked for."""
    given = [argument.default_value for argument in call.target._schema.arguments[:max(place + 1, len(call.args))]]
    given[:len(call.args)] = call.args
    given[place] = 2
    return (*first, *given[len(first):])


def _loss(program: Program, call: Call) -> list[Call]:
    place, reduction = _reduction(call)
    if reduction != 1 or call.kwargs:
        return [call]
    made = program.add_tensor(program.tensors[call.outs[0]], None)
    return [instead_of(call, call.target, _as_sum(call, place), made),
            instead_of(call, aten.div.Scalar, (Ref(made), _count(program, call.args[0])), call.outs[0])]


def _loss_backward(program: Program, call: Call) -> list[Call]:
    place, reduction = _reduction(call)
    if reduction != 1 or call.kwargs:
        return [call]
    gradient = call.args[0]
    like = program.tensors[gradient.id]
    made = program.add_tensor(torch.empty(like.shape, dtype=like.dtype), None)
    program.tensors[made].device = like.device
    return [instead_of(call, aten.div.Scalar, (gradient, _count(program, call.args[1])), made),
            instead_of(call, call.target, _as_sum(call, place, (Ref(made),)), call.outs[0])]


def _mean(program: Program, call: Call) -> list[Call]:
    if call.kwargs:
        return [call]
    out, x = call.outs[0], call.args[0]
    made = program.add_tensor(program.tensors[out], None)
    whole = call.target is aten.mean.default
    over = _count(program, x) // max(1, _count(program, Ref(out)))
    return [instead_of(call, aten.sum.default if whole else aten.sum.dim_IntList, call.args, made),
            instead_of(call, aten.div.Scalar, (Ref(made), over), out)]


_MEANS: dict[Any, Callable[[Program, Call], list[Call]]] = {
    aten.nll_loss_forward.default: _nll, aten.nll_loss2d_forward.default: _nll, aten.mean.default: _mean, aten.mean.dim: _mean,
    **dict.fromkeys(LOSSES, _loss), **dict.fromkeys(LOSSES_BACKWARD, _loss_backward)}
