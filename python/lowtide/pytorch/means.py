"""Means over samples as sums that are divided once: parts of a sum only add up.

The divisor of a loss that ignores labels is counted first: it depends on the labels alone. Results differ from PyTorch's own by
rounding, so this is done only to steps in parts (samples.py), and not in 16 bits, where a sum has no room for what a mean has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .calls import Call, Program, Ref
from .parts import count_labels, nll_sum

aten = torch.ops.aten


def sums_for_means(program: Program) -> None:
    """Exchanges the calls."""
    calls: list[Call] = []
    for call in program.calls:
        is_known = call.target in _MEANS and program.tensors[call.outs[0]].dtype.itemsize >= 4
        calls += _MEANS[call.target](program, call) if is_known else [call]
    program.calls = calls


def instead_of(call: Call, target: Callable, args: tuple, out: int) -> Call:
    return Call(target, args, {}, [out], False, call.phase, call.place)


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


def _mse(program: Program, call: Call) -> list[Call]:
    x, target = call.args[:2]
    if (call.args[2] if len(call.args) > 2 else 1) != 1:
        return [call]
    made = program.add_tensor(program.tensors[call.outs[0]], None)
    return [instead_of(call, call.target, (x, target, 2), made),
            instead_of(call, aten.div.Scalar, (Ref(made), _count(program, x)), call.outs[0])]


def _mse_backward(program: Program, call: Call) -> list[Call]:
    gradient, x, target, reduction = call.args
    if reduction != 1:
        return [call]
    made = program.add_tensor(torch.empty(program.tensors[gradient.id].shape, dtype=program.tensors[gradient.id].dtype), None)
    return [instead_of(call, aten.div.Scalar, (gradient, _count(program, x)), made),
            instead_of(call, call.target, (Ref(made), x, target, 2), call.outs[0])]


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
    aten.nll_loss_forward.default: _nll, aten.nll_loss2d_forward.default: _nll, aten.mse_loss.default: _mse,
    aten.mse_loss_backward.default: _mse_backward, aten.mean.default: _mean, aten.mean.dim: _mean}
