"""How the loops of an ATen call walk its operands, where no row of the op table is the call (rows.py).

A rule answers an "Opaque" row with `axes` in the op table's notation (docs/ops.md, "Opaque ops"), or None: nothing
cuts the call. Families of overloads share a rule, which reads dimensions off the arguments by their names in PyTorch's schema:

    pointwise      element by element, operands broadcast
    along          the call works along some dimensions (a softmax, cumsum, amax, flip), row by row of the others
    samples        the call takes its samples one by one, whatever it does within each (convolution, pooling)

An axis that walks operands alone adds up over parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .calls import Call, Program, Ref
from .norms import gradient_of_x, squares_about
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


class Reader:
    """A call, and what its operands and results are."""

    def __init__(self, program: Program, call: Call) -> None:
        self.program, self.call = program, call
        self.inputs = [program.tensors[t] for t in refs(call)]
        self.outs = [program.tensors[o] for o in call.outs if o is not None]

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        if place < len(self.call.args):
            return self.call.args[place]
        return self.call.kwargs.get(name, default)

    def named(self, name: str) -> Any:
        """An argument by its name in the schema."""
        for place, argument in enumerate(self.call.target._schema.arguments):
            if argument.name == name:
                return self.argument(place, name, argument.default_value)
        raise KeyError(name)

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


def pointwise(r: Reader) -> Row | None:
    """Element by element; operands broadcast to the results, which have one shape."""
    if len({out.shape for out in r.outs}) != 1:
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
    return _axes(f"{', '.join(said)} -> {', '.join(_said(names) for _ in r.outs)}")


# ---- along some dimensions, row by row of the others


def _along(dims_of: Callable[[Reader], Iterable[int] | None]) -> Callable[[Reader], Row | None]:
    """`dims_of` gives the dimensions of the first operand along which the call works; None: it is not known. Operands of another
    shape are whole. Results have the first operand's other dimensions, and may lack those."""
    def row(r: Reader) -> Row | None:
        given = dims_of(r) if r.rank() else None
        if given is None:
            return None
        dims, like = {r.axis(d) for d in given}, r.inputs[0].shape
        fresh, names = itertools.count(), _names(r.rank())
        others = [d for d in range(r.rank()) if d not in dims]

        def agrees(shape: tuple[int, ...]) -> bool:
            return len(shape) == len(like) and all(shape[d] == like[d] for d in others)

        def words(shape: tuple[int, ...]) -> list[str] | None:
            if len(shape) == len(others) < len(like):
                return [names[d] for d in others] if shape == tuple(like[d] for d in others) else None
            if not agrees(shape):
                return None
            along = {d: "1" if shape[d] == 1 else f"[p{next(fresh)}]" for d in dims}
            return [along.get(d, name) for d, name in enumerate(names)]

        made = [words(t.shape) for t in r.outs]
        if None in made:
            return None
        said = [words(t.shape) if agrees(t.shape) else [f"[p{next(fresh)}]" for _ in t.shape] for t in r.inputs]
        return _axes(f"{', '.join(map(_said, said))} -> {', '.join(map(_said, made))}")
    return row


def _its_dim(r: Reader) -> list[int] | None:
    """What the argument `dim` says; all, where it says nothing."""
    dim = r.named("dim")
    return list(range(r.rank())) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)


def _its_dims(r: Reader) -> list[int] | None:
    """No axis of a roll without dimensions, which goes over their borders, is known."""
    return list(r.named("dims")) or None


def _last_two(r: Reader) -> list[int] | None:
    return [-2, -1] if r.rank() > 1 else None


def _padded(r: Reader) -> list[int]:
    """Those that a constant_pad_nd changes; its numbers begin with the last dimension."""
    pads = r.named("pad")
    return [-1 - k for k in range(len(pads) // 2) if pads[2 * k] or pads[2 * k + 1]]


def _repeated(r: Reader) -> list[int] | None:
    repeats = r.named("repeats")
    return [d for d, n in enumerate(repeats) if n != 1] if len(repeats) == r.rank() else None


def _stack(r: Reader) -> Row | None:
    rank = r.rank()
    dim, names = r.named("dim") % (rank + 1), _names(rank)
    return _axes(f"{', '.join(_said(names) for _ in r.inputs)} -> {_said([*names[:dim], '[p]', *names[dim:]])}")


# ---- a part of one dimension


def _slice(r: Reader) -> Row | None:
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


def _uncut(r: Reader) -> Row | None:
    """The gradient of a slice or of a selected place: zeros around it."""
    dim = r.call.args[2] % len(r.outs[0].shape)
    names = _names(len(r.outs[0].shape))
    inside = [] if r.call.target is aten.select_backward.default else ["[p]"]
    return _axes(f"{_said([*names[:dim], *inside, *names[dim + 1:]])} -> "
                 f"{_said([*names[:dim], f'[{names[dim]}]', *names[dim + 1:]])}")


# ---- sample by sample


def _samples(reduced: int = 0) -> Callable[[Reader], Row | None]:
    """The first dimension of results, and of operands that _walked names, is that of samples, which the call takes one by
    one; other operands (weights) are whole. The last `reduced` results are sums over samples."""
    def row(r: Reader) -> Row | None:
        samples, fresh, walked = r.inputs[0].shape[0] if r.rank() else 0, itertools.count(), _walked(r)

        def words(shape: tuple[int, ...], has_samples: bool) -> str:
            first = ["n"] if has_samples else []
            return _said(first + [f"[x{next(fresh)}]" for _ in shape[len(first):]])

        said = [words(t.shape, k in walked) for k, t in enumerate(r.inputs)]
        made = [words(t.shape, k < len(r.outs) - reduced) for k, t in enumerate(r.outs)]
        counted = all(r.inputs[k].shape and r.inputs[k].shape[0] == samples for k in walked)
        return _axes(f"{', '.join(said)} -> {', '.join(made)}") if samples and counted else None
    return row


# The arguments of calls by samples that have them, by name; all others are whole.
_BY_SAMPLES = {"input", "self", "grad_output", "grad_out", "out", "indices", "mean", "rstd", "save_mean", "query", "key", "value",
               "logsumexp", "output", "grid"}


def _one_a_sample(r: Reader, place: int) -> bool:
    """Whether an attention has one mask for each sample."""
    mask, query = r.inputs[place].shape, r.inputs[0].shape
    return len(mask) == len(query) and mask[0] == query[0] > 1


def _walked(r: Reader) -> set[int]:
    found, place = set(), 0
    for position, argument in enumerate(r.call.target._schema.arguments):
        value = r.argument(position, argument.name)
        if isinstance(value, Ref):
            if argument.name in _BY_SAMPLES or argument.name == "attn_mask" and _one_a_sample(r, place):
                found.add(place)
            place += 1
    return found


def _convolution_backward(r: Reader) -> Row | None:
    mask = r.call.args[-1]
    return _samples(0 if mask[0] else sum(mask[1:]))(r) if not (mask[0] and any(mask[1:])) else None


def _group_norm_backward(r: Reader) -> Row | None:
    return _samples(sum(r.call.args[-1][1:]))(r) if r.call.args[-1][0] else None


# ---- norms


def _layer_norm(r: Reader) -> Row | None:
    """Rows are taken one by one; mean and deviation have extent 1 where the norm reduces."""
    behind = len(r.call.args[1])
    rows = _names(r.rank() - behind)
    row, ones = [f"[c{i}]" for i in range(behind)], ["1"] * behind
    weights = ", ".join(_said(row) for _ in r.inputs[1:])
    stat = _said([*rows, *ones])
    return _axes(f"{_said([*rows, *row])}{weights and ', ' + weights} -> {_said([*rows, *row])}, {stat}, {stat}")


def _layer_norm_backward(r: Reader) -> Row | None:
    behind, mask = len(r.call.args[2]), r.call.args[-1]
    if not mask[0]:
        return None
    rows = _names(r.rank() - behind)
    row, ones = [f"[c{i}]" for i in range(behind)], ["1"] * behind
    whole, stat = _said([*rows, *row]), _said([*rows, *ones])
    weights = [_said(row) for _ in r.inputs[4:]]
    made = [whole, *(_said(row) for wanted in mask[1:] if wanted)]
    return _axes(f"{', '.join([whole, whole, stat, stat, *weights])} -> {', '.join(made)}")


# ---- losses


def _nll_sum_row(r: Reader) -> Row | None:
    rows = _names(r.rank(1))
    return _axes(f"{_said([*rows[:1], '[c]', *rows[1:]])}, {_said(rows)} -> ()")


def _nll_backward(r: Reader) -> Row | None:
    if r.call.args[3] is not None:
        return None
    rows = _names(r.rank(2))
    scores = _said([*rows[:1], "[c]", *rows[1:]])
    gradient = _said(rows) if r.call.args[4] == 0 else "()"
    return _axes(f"{gradient}, {scores}, {_said(rows)}, () -> {scores}")


def _nll_each(r: Reader) -> Row | None:
    """A loss for each label, and the weight of all, which nobody asks for."""
    if r.call.args[2] is not None or r.call.args[3] != 0:
        return None
    rows = _names(r.rank(1))
    return _axes(f"{_said([*rows[:1], '[c]', *rows[1:]])}, {_said(rows)} -> {_said(rows)}, ()")


def _loss(r: Reader) -> Row | None:
    """The row of a loss of two values of one shape; a sum adds up. A mean is taken apart before (means.py)."""
    words = _said(_names(r.rank()))
    each = pointwise(r) if r.named("reduction") == 0 else None
    alike = r.named("reduction") == 2 and all(t.shape == r.inputs[0].shape for t in r.inputs)
    return _axes(f"{', '.join(words for _ in r.inputs)} -> ()") if alike else each


def _loss_backward(r: Reader) -> Row | None:
    return pointwise(r) if r.named("reduction") != 1 else None


def _batch_norm(r: Reader) -> Row | None:
    """Its samples are those before and behind it, and it needs all of them at once."""
    def said(shape: tuple[int, ...]) -> str:
        if len(shape) != len(r.outs[0].shape):
            return "[c]" if shape else "()"
        return _said(["[n]", "[c]", *(f"[s{d}]" for d in range(2, len(shape)))])

    if any(0 in t.shape for t in (*r.inputs, *r.outs)):
        return None
    return _axes(f"{', '.join(said(t.shape) for t in r.inputs)} -> {', '.join(said(t.shape) for t in r.outs)}")


def _norm_in_evaluation(r: Reader) -> Row | None:
    """By statistics that are there before the step it takes its samples one by one."""
    return _samples()(r) if not r.named("training") else None


def _norm_backward(r: Reader) -> Row | None:
    """In evaluation all of it, in training the sums over samples and positions."""
    mask = r.named("output_mask")
    if mask[0]:
        return _samples(sum(mask[1:]))(r) if not r.named("train") else None
    row, weights = _channel_row(r), ", ".join("[c]" for _ in r.inputs[2:])
    return _axes(f"{row}, {row}, {weights} -> {', '.join('[c]' for _ in r.outs)}")


def _channel_row(r: Reader) -> str:
    return _said(["n", "[c]", *(f"s{d}" for d in range(2, r.rank()))])


def _squares(r: Reader) -> Row | None:
    return _axes(f"{_channel_row(r)}, [c] -> [c]")


def _norm_gradient(r: Reader) -> Row | None:
    row = _channel_row(r)
    return _axes(f"{row}, {row}, {', '.join('[c]' for _ in r.inputs[2:])} -> {row}")


def _filled(r: Reader) -> Row | None:
    return _axes(f"-> {_said(_names(len(r.outs[0].shape)))}") if r.outs[0].shape and not r.inputs else None


def _baddbmm(r: Reader) -> Row | None:
    full = r.inputs[0].shape == r.outs[0].shape
    return _axes("b n p, b n [k], b [k] p -> b n p") if full else None


def _searched(r: Reader) -> Row | None:
    """Places in a row of numbers, of each element."""
    numbers, elements = (1, 0) if r.call.target is not aten.searchsorted.Tensor else (0, 1)
    words = [_said(_names(r.rank(elements))), _said(_names(r.rank(elements)))]
    words[numbers] = _said([f"[p{d}]" for d in range(r.rank(numbers))])
    return _axes(f"{', '.join(words)} -> {words[elements]}") if r.rank(numbers) == 1 else None


_POINTWISE = (  # which PyTorch does not tag so
    aten.expand.default, aten.clone.default, aten._to_copy.default, aten.elu_backward.default, aten.hardtanh_backward.default,
    aten.leaky_relu_backward.default, aten.softplus_backward.default, aten.softshrink_backward.default,
    aten.hardshrink_backward.default, aten.hardsigmoid_backward.default, aten.hardswish.default, aten.hardswish_backward.default,
    aten.mish_backward.default, aten.log_sigmoid_forward.default, aten.log_sigmoid_backward.default, aten._prelu_kernel.default,
    aten._prelu_kernel_backward.default, aten.isin.Tensor_Scalar)
_ALONG_DIM = (
    aten._softmax.default, aten._log_softmax.default, aten._safe_softmax.default, aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default, aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default, aten.cummax.default,
    aten.cummin.default, aten.sort.default, aten.sort.stable, aten.topk.default, aten.kthvalue.default, aten.median.dim, aten.mode.default,
    aten.max.dim, aten.min.dim, aten.amax.default, aten.amin.default, aten.argmax.default, aten.argmin.default, aten.any.dim,
    aten.any.dims, aten.all.dim, aten.all.dims, aten.prod.dim_int, aten.nansum.default, aten.logsumexp.default, aten.var.correction,
    aten.std.correction, aten.var_mean.correction, aten.linalg_vector_norm.default, aten.norm.ScalarOpt_dim, aten.mean.dim,
    aten.sum.dim_IntList, aten.index_select.default, aten.gather.default, aten.scatter.src, aten.scatter.value, aten.scatter_add.default,
    aten.index_add.default, aten.glu.default, aten.glu_backward.default, aten.linalg_cross.default, aten.unbind.int)
_BY_SAMPLE = (
    aten.native_group_norm.default, aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default,
    aten.max_pool3d_with_indices.default, aten.max_pool3d_with_indices_backward.default, aten.avg_pool2d.default,
    aten.avg_pool2d_backward.default, aten.avg_pool3d.default, aten.avg_pool3d_backward.default, aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool2d_backward.default, aten._adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d_backward.default,
    aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default, aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default, aten.im2col.default, aten.col2im.default, aten.grid_sampler_2d.default,
    aten.grid_sampler_2d_backward.default, aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    *(getattr(aten, f"{kind}_pad{n}d{way}").default for kind in ("reflection", "replication") for n in (1, 2, 3)
      for way in ("", "_backward")))
_UPSAMPLED = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
              "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
              "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
UPSAMPLED_BACKWARD = {getattr(aten, f"{name}_backward").default for name in _UPSAMPLED}
LOSSES = {getattr(aten, name).default for name in (
    "mse_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "smooth_l1_loss", "huber_loss", "soft_margin_loss")}
LOSSES_BACKWARD = {getattr(aten, name).default for name in (
    "mse_loss_backward", "binary_cross_entropy_backward", "smooth_l1_loss_backward", "huber_loss_backward",
    "soft_margin_loss_backward")}

AXES: dict[Any, Callable[[Reader], Row | None]] = {
    **dict.fromkeys(_POINTWISE, pointwise),
    **dict.fromkeys(_ALONG_DIM, _along(_its_dim)),
    **dict.fromkeys((aten.flip.default, aten.roll.default), _along(_its_dims)),
    **dict.fromkeys((aten.tril.default, aten.triu.default), _along(_last_two)),
    aten.constant_pad_nd.default: _along(_padded), aten.repeat.default: _along(_repeated), aten.stack.default: _stack,
    **dict.fromkeys((aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default), _slice),
    **dict.fromkeys((aten.slice_backward.default, aten.select_backward.default), _uncut),
    **dict.fromkeys(_BY_SAMPLE, _samples()),
    **dict.fromkeys((getattr(aten, name).default for name in _UPSAMPLED), _samples()),
    **dict.fromkeys(UPSAMPLED_BACKWARD, _samples()),
    aten.convolution_backward.default: _convolution_backward,
    aten.native_group_norm_backward.default: _group_norm_backward,
    aten.native_layer_norm.default: _layer_norm, aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_batch_norm.default: _norm_in_evaluation,
    aten.native_batch_norm_backward.default: _norm_backward,
    squares_about: _squares, gradient_of_x: _norm_gradient,
    aten.full.default: _filled,
    aten.mv.default: lambda r: _axes("n k, k -> n"), aten.dot.default: lambda r: _axes("k, k -> ()"), aten.baddbmm.default: _baddbmm,
    **dict.fromkeys((aten.bucketize.Tensor, aten.searchsorted.Tensor, aten.isin.Tensor_Tensor), _searched),
    nll_sum: _nll_sum_row, aten.nll_loss_forward.default: _nll_each, aten.nll_loss2d_forward.default: _nll_each,
    aten.nll_loss_backward.default: _nll_backward, aten.nll_loss2d_backward.default: _nll_backward,
    **dict.fromkeys(LOSSES, _loss), **dict.fromkeys(LOSSES_BACKWARD, _loss_backward),
}

# What nothing cuts, though it is known which dimensions are one: these may write.
COUPLED = {aten.native_batch_norm.default: _batch_norm, aten.native_batch_norm_backward.default: _batch_norm}
