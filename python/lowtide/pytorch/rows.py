"""Which row of Lowtide's op table an ATen call is, so that the planner's fission can cut it (samples.py).

    row_of(program, call)    Row(kind, attributes, operands), or None: the call stays opaque

`kind` is a row's where table and overload mean the same: operands, results, shapes. Elsewhere it is "Opaque" with `axes`: how the
call's loops walk its operands, in the op table's own notation (docs/ops.md, "Opaque ops"). An axis that walks operands
alone adds up. What is in neither list is Opaque without axes: nothing cuts it, and it needs its operands whole.

An axis is only said here; that the parts of a call make what its axes promise is tried on the shapes (samples.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .calls import Call, Number, Program, Ref
from .graph_text import DTYPES
from .parts import nll_sum

aten = torch.ops.aten


@dataclass
class Row:
    """`operands`: places among the tensors of the call's arguments, in the order of the row; None: absent."""

    kind: str
    attrs: dict[str, Any] = field(default_factory=dict)
    operands: list[int | None] | None = None  # None: all, as they stand


def refs(call: Call) -> list[int]:
    """The tensors among the arguments, each as often as it stands there."""
    return list(call.tensors())


class _Reader:
    """A call, and what its operands and results are."""

    def __init__(self, program: Program, call: Call) -> None:
        self.program, self.call = program, call
        self.inputs = [program.tensors[t] for t in refs(call)]
        self.outs = [program.tensors[o] for o in call.outs if o is not None]

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        if place < len(self.call.args):
            return self.call.args[place]
        return self.call.kwargs.get(name, default)

    def rank(self, place: int = 0) -> int:
        return len(self.inputs[place].shape)

    def alike(self) -> bool:
        """Whether all operands and results have one type of numbers, as most rows want it."""
        types = {t.dtype for t in (*self.inputs, *self.outs)}
        return len(types) == 1 and types.pop().is_floating_point

    def axis(self, dim: int, place: int = 0) -> int:
        return dim % max(self.rank(place), 1)


def _axes(text: str) -> Row:
    return Row("Opaque", {"axes": text})


def _names(count: int, letter: str = "a") -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


def _said(words: list[str]) -> str:
    return " ".join(words) if words else "()"


# ---- rows whose meaning is the overload's


def _same(kind: str) -> Callable[[_Reader], Row | None]:
    """Operands as they stand, no attributes."""
    return lambda r: Row(kind) if r.alike() and not r.call.kwargs and len(refs(r.call)) == len(r.call.args) else None


def _gelu(kind: str) -> Callable[[_Reader], Row | None]:
    return lambda r: Row(kind, {"approximate": r.call.kwargs.get("approximate", "none")}) \
        if r.alike() and len(r.call.args) == len(r.inputs) else None


def _scaled(kind: str) -> Callable[[_Reader], Row | None]:
    """add and sub of two tensors, with alpha 1."""
    def row(r: _Reader) -> Row | None:
        two = len(refs(r.call)) == 2 and len(r.call.args) == 2
        return Row(kind) if two and r.alike() and r.call.kwargs.get("alpha", 1) == 1 else None
    return row


def _addmm(r: _Reader) -> Row | None:
    plain = not r.call.kwargs and r.rank(0) == 1 and r.alike() and r.inputs[0].shape[0] == r.outs[0].shape[1]
    return Row("MatMul", {}, [1, 2, 0]) if plain else None


def _softmax(kind: str) -> Callable[[_Reader], Row | None]:
    return lambda r: Row(kind, {"axis": r.axis(r.call.args[1])}) if r.alike() and r.rank() and not r.call.args[2] else None


def _softmax_backward(kind: str) -> Callable[[_Reader], Row | None]:
    return lambda r: Row(kind, {"axis": r.axis(r.call.args[2])}) if r.alike() and r.rank() else None


def _relu_backward(r: _Reader) -> Row | None:
    return Row("ReluGrad") if r.alike() and r.call.args[2] == 0 else None


def _sum(r: _Reader) -> Row | None:
    if not r.alike() or r.call.kwargs or r.rank() == 0:
        return None
    dims = r.argument(1, "dim")
    keep = bool(r.argument(2, "keepdim", False)) if dims is not None else False
    over = sorted({r.axis(d) for d in dims}) if dims else list(range(r.rank()))
    return Row("ReduceSum", {"axes": over, "keepdims": int(keep)})


def _convolution(r: _Reader) -> Row | None:
    _, _, _, stride, padding, dilation, transposed, _, groups = r.call.args
    spatial = r.rank() - 2
    if not r.alike() or spatial not in (1, 2, 3) or len(stride) != spatial or len(padding) != spatial:
        return None
    attrs = {"strides": list(stride), "pads": [*padding, *padding], "dilations": list(dilation), "group": groups}
    if transposed:
        return Row("ConvDataGrad", {**attrs, "output_spatial": list(r.outs[0].shape[2:])})
    return Row("Conv", attrs)


def _transpose(r: _Reader) -> Row | None:
    order = list(range(r.rank()))
    if r.call.target is aten.permute.default:
        order = [r.axis(d) for d in r.call.args[1]]
    elif r.rank() > 1:
        one, other = (0, 1) if r.call.target is aten.t.default else map(r.axis, r.call.args[1:3])
        order[one], order[other] = order[other], order[one]
    return Row("Transpose", {"perm": order}) if r.rank() > 1 else None


def _reshape(r: _Reader) -> Row | None:
    return Row("Reshape", {"shape": list(r.outs[0].shape)}) if 0 not in r.outs[0].shape else None


def _concat(r: _Reader) -> Row | None:
    if not r.alike() or any(0 in t.shape or len(t.shape) != len(r.outs[0].shape) for t in r.inputs):
        return None
    return Row("Concat", {"axis": r.axis(r.argument(1, "dim", 0))})


def _embedding(r: _Reader) -> Row | None:
    return Row("Gather", {"axis": 0}) if r.inputs[0].dtype == r.outs[0].dtype else None


def _embedding_backward(r: _Reader) -> Row | None:
    plain = not r.call.args[4] and r.inputs[0].dtype == r.outs[0].dtype
    return Row("GatherGrad", {"axis": 0, "dim": r.call.args[2]}) if plain else None


# ---- axes of calls that no row is


def _pointwise(r: _Reader) -> Row | None:
    """Element by element; operands broadcast to the result."""
    if len(r.outs) != 1:
        return None
    names, shape = _names(len(r.outs[0].shape)), r.outs[0].shape
    said = []
    for operand in r.inputs:
        behind = len(shape) - len(operand.shape)
        if behind < 0:
            return None
        words = [names[behind + d] if n == shape[behind + d] else "1" if n == 1 else "" for d, n in enumerate(operand.shape)]
        if "" in words:
            return None
        said.append(_said(words))
    return _axes(f"{', '.join(said)} -> {_said(names)}")


def _slice(r: _Reader) -> Row | None:
    """slice, select, split: one dimension of the operand is cut by the call itself."""
    target = r.call.target
    place = 2 if target in (aten.split.Tensor, aten.split_with_sizes.default) else 1
    dim = r.axis(r.argument(place, "dim", 0))
    names, said = _names(r.rank()), []
    for k, _ in enumerate(r.outs):
        inside = [] if target is aten.select.int else [f"p{k}"]
        said.append(_said([*names[:dim], *inside, *names[dim + 1:]]))
    operand = [*names[:dim], f"[{names[dim]}]", *names[dim + 1:]]
    return _axes(f"{_said(operand)} -> {', '.join(said)}")


def _uncut(r: _Reader) -> Row | None:
    """The gradient of a slice or of a selected place: zeros around it."""
    dim = r.call.args[2] % len(r.outs[0].shape)
    names = _names(len(r.outs[0].shape))
    inside = [] if r.call.target is aten.select_backward.default else ["[p]"]
    return _axes(f"{_said([*names[:dim], *inside, *names[dim + 1:]])} -> "
                 f"{_said([*names[:dim], f'[{names[dim]}]', *names[dim + 1:]])}")


def _along_rows(r: _Reader) -> Row | None:
    """A softmax of which the op table has no row."""
    dim, names = r.axis(r.call.args[1]), _names(r.rank())
    row = _said([*names[:dim], f"[{names[dim]}]", *names[dim + 1:]])
    return _axes(f"{row} -> {row}") if names else None


def _samples(reduced: int = 0) -> Callable[[_Reader], Row | None]:
    """The first dimension of results, and of operands that _walked names, is that of samples, which the call takes one by
    one; other operands (weights) are whole. The last `reduced` results are sums over samples."""
    def row(r: _Reader) -> Row | None:
        samples, fresh, walked = r.inputs[0].shape[0] if r.rank() else 0, itertools.count(), _walked(r)

        def words(shape: tuple[int, ...], has_samples: bool) -> str:
            first = ["n"] if has_samples else []
            return _said(first + [f"[x{next(fresh)}]" for _ in shape[len(first):]])

        said = [words(t.shape, k in walked) for k, t in enumerate(r.inputs)]
        made = [words(t.shape, k < len(r.outs) - reduced) for k, t in enumerate(r.outs)]
        counted = all(r.inputs[k].shape and r.inputs[k].shape[0] == samples for k in walked)
        return _axes(f"{', '.join(said)} -> {', '.join(made)}") if samples and counted else None
    return row


# Of calls by samples the arguments that have them, by name; all others are whole.
_BY_SAMPLES = {"input", "self", "grad_output", "grad_out", "out", "indices", "mean", "rstd", "save_mean", "query", "key", "value",
               "logsumexp", "output"}


def _one_a_sample(r: _Reader, place: int) -> bool:
    """Of an attention's mask: there is one for each sample."""
    mask, query = r.inputs[place].shape, r.inputs[0].shape
    return len(mask) == len(query) and mask[0] == query[0] > 1


def _walked(r: _Reader) -> set[int]:
    found, place = set(), 0
    for position, argument in enumerate(r.call.target._schema.arguments):
        value = r.argument(position, argument.name)
        if isinstance(value, Ref):
            if argument.name in _BY_SAMPLES or argument.name == "attn_mask" and _one_a_sample(r, place):
                found.add(place)
            place += 1
    return found


def _convolution_backward(r: _Reader) -> Row | None:
    mask = r.call.args[-1]
    return _samples(0 if mask[0] else sum(mask[1:]))(r) if not (mask[0] and any(mask[1:])) else None


def _group_norm_backward(r: _Reader) -> Row | None:
    return _samples(sum(r.call.args[-1][1:]))(r) if r.call.args[-1][0] else None


def _layer_norm(r: _Reader) -> Row | None:
    """Rows are taken one by one; mean and deviation have extent 1 where the norm reduces."""
    behind = len(r.call.args[1])
    rows = _names(r.rank() - behind)
    row, ones = [f"[c{i}]" for i in range(behind)], ["1"] * behind
    weights = ", ".join(_said(row) for _ in r.inputs[1:])
    stat = _said([*rows, *ones])
    return _axes(f"{_said([*rows, *row])}{weights and ', ' + weights} -> {_said([*rows, *row])}, {stat}, {stat}")


def _layer_norm_backward(r: _Reader) -> Row | None:
    behind, mask = len(r.call.args[2]), r.call.args[-1]
    if not mask[0]:
        return None
    rows = _names(r.rank() - behind)
    row, ones = [f"[c{i}]" for i in range(behind)], ["1"] * behind
    whole, stat = _said([*rows, *row]), _said([*rows, *ones])
    weights = [_said(row) for _ in r.inputs[4:]]
    made = [whole, *(_said(row) for wanted in mask[1:] if wanted)]
    return _axes(f"{', '.join([whole, whole, stat, stat, *weights])} -> {', '.join(made)}")


def _nll_sum_row(r: _Reader) -> Row | None:
    rows = _names(r.rank(1))
    return _axes(f"{_said([*rows[:1], '[c]', *rows[1:]])}, {_said(rows)} -> ()")


def _nll_backward(r: _Reader) -> Row | None:
    if r.call.args[3] is not None or r.call.args[4] not in (1, 2):
        return None
    rows = _names(r.rank(2))
    scores = _said([*rows[:1], "[c]", *rows[1:]])
    return _axes(f"(), {scores}, {_said(rows)}, () -> {scores}")


def _mse(r: _Reader) -> Row | None:
    words = _said(_names(r.rank()))
    return _axes(f"{words}, {words} -> ()") if r.argument(2, "reduction", 1) == 2 and r.inputs[0].shape == r.inputs[1].shape else None


def _mse_backward(r: _Reader) -> Row | None:
    return _pointwise(r) if r.call.args[3] == 2 else None


def _batch_norm(r: _Reader) -> Row | None:
    """Its samples are those before and behind it, and it needs all of them at once."""
    def said(shape: tuple[int, ...]) -> str:
        if len(shape) != len(r.outs[0].shape):
            return "[c]" if shape else "()"
        return _said(["[n]", "[c]", *(f"[s{d}]" for d in range(2, len(shape)))])

    if any(0 in t.shape for t in (*r.inputs, *r.outs)):
        return None
    return _axes(f"{', '.join(said(t.shape) for t in r.inputs)} -> {', '.join(said(t.shape) for t in r.outs)}")


def _filled(r: _Reader) -> Row | None:
    return _axes(f"-> {_said(_names(len(r.outs[0].shape)))}") if r.outs[0].shape and not r.inputs else None


_SAME = {aten.mm: "MatMul", aten.bmm: "MatMul", aten.relu: "Relu", aten.sigmoid: "Sigmoid", aten.tanh: "Tanh", aten.exp: "Exp",
         aten.log: "Log", aten.neg: "Neg", aten.sqrt: "Sqrt", aten.abs: "Abs", aten.sin: "Sin", aten.cos: "Cos",
         aten.silu: "Silu", aten.reciprocal: "Reciprocal", aten.erf: "Erf", aten.tanh_backward: "TanhGrad",
         aten.sigmoid_backward: "SigmoidGrad", aten.silu_backward: "SiluGrad"}
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
          aten.squeeze.default, aten.detach.default, aten.alias.default)
_BY_TARGET: dict[Any, Callable[[_Reader], Row | None]] = {
    **{packet.default: _same(kind) for packet, kind in _SAME.items()},
    **dict.fromkeys(_VIEWS, _reshape),
    **dict.fromkeys((aten.t.default, aten.transpose.int, aten.permute.default), _transpose),
    **dict.fromkeys((aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default), _slice),
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
    aten.slice_backward.default: _uncut, aten.select_backward.default: _uncut, aten._safe_softmax.default: _along_rows,
    aten.embedding.default: _embedding, aten.embedding_dense_backward.default: _embedding_backward,
    aten.expand.default: _pointwise, aten.clone.default: _pointwise, aten._to_copy.default: _pointwise,
    aten.full.default: _filled,
    aten.convolution_backward.default: _convolution_backward,
    aten.native_group_norm.default: _samples(), aten.native_group_norm_backward.default: _group_norm_backward,
    aten.native_layer_norm.default: _layer_norm, aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.max_pool2d_with_indices.default: _samples(), aten.max_pool2d_with_indices_backward.default: _samples(),
    aten.avg_pool2d.default: _samples(), aten.avg_pool2d_backward.default: _samples(),
    aten._adaptive_avg_pool2d.default: _samples(), aten._adaptive_avg_pool2d_backward.default: _samples(),
    aten.upsample_nearest2d.default: _samples(), aten.upsample_nearest2d_backward.default: _samples(),
    aten.upsample_bilinear2d.default: _samples(), aten.upsample_bilinear2d_backward.default: _samples(),
    aten._scaled_dot_product_flash_attention_for_cpu.default: _samples(),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _samples(),
    nll_sum: _nll_sum_row,
    aten.nll_loss_backward.default: _nll_backward, aten.nll_loss2d_backward.default: _nll_backward,
    aten.mse_loss.default: _mse, aten.mse_loss_backward.default: _mse_backward,
}


# What nothing cuts, though it is known which dimensions are one: these may write.
_COUPLED = {aten.native_batch_norm.default: _batch_norm, aten.native_batch_norm_backward.default: _batch_norm}


def coupled_row(program: Program, call: Call) -> Row | None:
    rule = _COUPLED.get(call.target)
    return rule(_Reader(program, call)) if rule is not None else None


def row_of(program: Program, call: Call) -> Row | None:
    """None: the call is opaque, and so it is where any of it has no place in the op table: types, numbers read at run time."""
    if call.writes or call.hidden or call.random or not any(o is not None for o in call.outs):
        return None
    reader = _Reader(program, call)
    if any(t.dtype not in DTYPES or 0 in t.shape for t in (*reader.inputs, *reader.outs)) or _has_numbers(call):
        return None
    rule = _BY_TARGET.get(call.target)
    row = rule(reader) if rule is not None else None
    pointwise = isinstance(call.target, torch._ops.OpOverload) and torch.Tag.pointwise in call.target.tags
    return _pointwise(reader) if row is None and pointwise else row


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
    elif target in (aten.upsample_nearest2d_backward.default, aten.upsample_bilinear2d_backward.default):
        args[2] = [shapes[0][0], *args[2][1:]]
    return tuple(args), dict(call.kwargs)
