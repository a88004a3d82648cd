"""Which row of Lowtide's op table an ATen call is, so that the planner's fission can cut it (samples.py).

    row_of(program, call)    Row(kind, attributes, operands), or None: the call stays opaque

`kind` is a row's where table and overload mean the same: operands, results, shapes. Elsewhere it is "Opaque" with `axes`: how the
call's loops walk its operands (axes.py). What is in neither list is Opaque without axes: nothing cuts it, and it needs its
operands whole.

An axis is only said here; that the parts of a call make what its axes promise is tried on the shapes (samples.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .axes import AXES, COUPLED, UPSAMPLED_BACKWARD, Reader, Row, pointwise, refs
from .calls import Call, Number, Program, Ref
from .graph_text import DTYPES

aten = torch.ops.aten


def _same(kind: str) -> Callable[[Reader], Row | None]:
    """Operands as they stand, no attributes."""
    return lambda r: Row(kind) if r.alike() and not r.call.kwargs and len(refs(r.call)) == len(r.call.args) else None


def _gelu(kind: str) -> Callable[[Reader], Row | None]:
    return lambda r: Row(kind, {"approximate": r.call.kwargs.get("approximate", "none")}) \
        if r.alike() and len(r.call.args) == len(r.inputs) else None


def _scaled(kind: str) -> Callable[[Reader], Row | None]:
    """add and sub of two tensors, with alpha 1."""
    def row(r: Reader) -> Row | None:
        two = len(refs(r.call)) == 2 and len(r.call.args) == 2
        return Row(kind) if two and r.alike() and r.call.kwargs.get("alpha", 1) == 1 else None
    return row


def _addmm(r: Reader) -> Row | None:
    plain = not r.call.kwargs and r.rank(0) == 1 and r.alike() and r.inputs[0].shape[0] == r.outs[0].shape[1]
    return Row("MatMul", {}, [1, 2, 0]) if plain else None


def _softmax(kind: str) -> Callable[[Reader], Row | None]:
    return lambda r: Row(kind, {"axis": r.axis(r.call.args[1])}) if r.alike() and r.rank() and not r.call.args[2] else None


def _softmax_backward(kind: str) -> Callable[[Reader], Row | None]:
    return lambda r: Row(kind, {"axis": r.axis(r.call.args[2])}) if r.alike() and r.rank() else None


def _relu_backward(r: Reader) -> Row | None:
    return Row("ReluGrad") if r.alike() and r.call.args[2] == 0 else None


def _sum(r: Reader) -> Row | None:
    if not r.alike() or r.call.kwargs or r.rank() == 0:
        return None
    dims = r.argument(1, "dim")
    keep = bool(r.argument(2, "keepdim", False)) if dims is not None else False
    over = sorted({r.axis(d) for d in dims}) if dims else list(range(r.rank()))
    return Row("ReduceSum", {"axes": over, "keepdims": int(keep)})


def _convolution(r: Reader) -> Row | None:
    _, _, _, stride, padding, dilation, transposed, _, groups = r.call.args
    spatial = r.rank() - 2
    if not r.alike() or spatial not in (1, 2, 3) or len(stride) != spatial or len(padding) != spatial:
        return None
    attrs = {"strides": list(stride), "pads": [*padding, *padding], "dilations": list(dilation), "group": groups}
    if transposed:
        return Row("ConvDataGrad", {**attrs, "output_spatial": list(r.outs[0].shape[2:])})
    return Row("Conv", attrs)


def _transpose(r: Reader) -> Row | None:
    order = list(range(r.rank()))
    if r.call.target is aten.permute.default:
        order = [r.axis(d) for d in r.call.args[1]]
    elif r.rank() > 1:
        one, other = (0, 1) if r.call.target is aten.t.default else map(r.axis, r.call.args[1:3])
        order[one], order[other] = order[other], order[one]
    return Row("Transpose", {"perm": order}) if r.rank() > 1 else None


def _reshape(r: Reader) -> Row | None:
    return Row("Reshape", {"shape": list(r.outs[0].shape)}) if 0 not in r.outs[0].shape else None


def _concat(r: Reader) -> Row | None:
    if not r.alike() or any(0 in t.shape or len(t.shape) != len(r.outs[0].shape) for t in r.inputs):
        return None
    return Row("Concat", {"axis": r.axis(r.argument(1, "dim", 0))})


def _embedding(r: Reader) -> Row | None:
    return Row("Gather", {"axis": 0}) if r.inputs[0].dtype == r.outs[0].dtype else None


def _embedding_backward(r: Reader) -> Row | None:
    plain = not r.call.args[4] and r.inputs[0].dtype == r.outs[0].dtype
    return Row("GatherGrad", {"axis": 0, "dim": r.call.args[2]}) if plain else None


_SAME = {aten.mm: "MatMul", aten.bmm: "MatMul", aten.relu: "Relu", aten.sigmoid: "Sigmoid", aten.tanh: "Tanh", aten.exp: "Exp",
         aten.log: "Log", aten.neg: "Neg", aten.sqrt: "Sqrt", aten.abs: "Abs", aten.sin: "Sin", aten.cos: "Cos",
         aten.silu: "Silu", aten.reciprocal: "Reciprocal", aten.erf: "Erf", aten.tanh_backward: "TanhGrad",
         aten.sigmoid_backward: "SigmoidGrad", aten.silu_backward: "SiluGrad"}
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
          aten.squeeze.default, aten.detach.default, aten.alias.default)
_BY_TARGET: dict[Any, Callable[[Reader], Row | None]] = {
    **{packet.default: _same(kind) for packet, kind in _SAME.items()},
    **dict.fromkeys(_VIEWS, _reshape),
    **dict.fromkeys((aten.t.default, aten.transpose.int, aten.permute.default), _transpose),
    aten.mul.Tensor: _same("Mul"), aten.div.Tensor: _same("Div"), aten.add.Tensor: _scaled("Add"), aten.sub.Tensor: _scaled("Sub"),
    aten.gelu.default: _gelu("Gelu"), aten.gelu_backward.default: _gelu("GeluGrad"),
    aten.addmm.default: _addmm,
    aten._softmax.default: _softmax("Softmax"), aten._log_softmax.default: _softmax("LogSoftmax"),
    aten._softmax_backward_data.default: _softmax_backward("SoftmaxGrad"),
    aten._log_softmax_backward_data.default: _softmax_backward("LogSoftmaxGrad"),
    aten.threshold_backward.default: _relu_backward,
    aten.sum.dim_IntList: _sum, aten.sum.default: _sum,
    aten.convolution.default: _convolution,
    aten.cat.default: _concat,
    aten.embedding.default: _embedding, aten.embedding_dense_backward.default: _embedding_backward,
}


def coupled_row(program: Program, call: Call) -> Row | None:
    rule = COUPLED.get(call.target)
    return rule(Reader(program, call)) if rule is not None else None


def row_of(program: Program, call: Call) -> Row | None:
    """None: the call is opaque, and so it is where any of it has no place in the op table: types, numbers read at run time."""
    if call.writes or call.hidden or call.random or not any(o is not None for o in call.outs):
        return None
    reader = Reader(program, call)
    if any(t.dtype not in DTYPES or 0 in t.shape for t in (*reader.inputs, *reader.outs)) or _has_numbers(call):
        return None
    row = None
    for rules in (_BY_TARGET, AXES):
        if row is None and call.target in rules:
            row = rules[call.target](reader)
    is_pointwise = isinstance(call.target, torch._ops.OpOverload) and torch.Tag.pointwise in call.target.tags
    return pointwise(reader) if row is None and is_pointwise else row


def _has_numbers(call: Call) -> bool:
    waiting: list[Any] = [call.args, tuple(call.kwargs.values())]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Number):
            return True
        if isinstance(value, (tuple, list)) and not isinstance(value, Ref):
            waiting += value
    return False


def sized(call: Call, shapes: list[tuple[int, ...]], inputs: list[tuple[int, ...]]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a part: sizes among them are those of its results (`shapes`) or operands (`inputs`)."""
    args, target = list(call.args), call.target
    if target in (aten.view.default, aten._unsafe_view.default, aten.expand.default):
        args[1] = list(shapes[0])
    elif target is aten.full.default:
        args[0] = list(shapes[0])
    elif target is aten.native_group_norm.default:
        args[3] = inputs[0][0]
    elif target is aten.native_group_norm_backward.default:
        args[5] = inputs[0][0]
    elif target in (aten.slice_backward.default, aten.select_backward.default):
        args[1] = list(shapes[0])
    elif target in UPSAMPLED_BACKWARD:
        args[2] = [shapes[0][0], *args[2][1:]]
    return tuple(args), dict(call.kwargs)
