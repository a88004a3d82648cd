"""How the results of ordinary ops lie, said by rules: no fake kernel runs for them.

A fake kernel is mostly one of PyTorch's formulas in Python, which takes .5 to 2 ms and 20 to 40 ms for a batch norm: a quarter of the time of a
capture, though all it finds is that the result of a kernel on dense operands is dense. Here a few rules say that of the ops that every network
has, and decline all else. Views are computed by PyTorch's own function on a tensor without memory.

A rule speaks only where tensors are on the CPU, of floating types, not empty, and lie densely in the order of their dimensions (products take any
strides), where operands of an op have one type, and where nothing is lazily conjugated. A rule that would have to refuse declines, so what is
wrong is refused by the fake kernel. tests/python/test_torch_plain_ops.py holds every rule against the fake kernel and the real one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
DEVICE = torch.device("cpu")  # of all that rules speak of
_META = torch.device("meta")
_NUMBERS = (int, float, bool, str, type(None))
_WHOLE = (torch.float32, torch.float64)  # types whose norms keep statistics of the same type


class Lies(NamedTuple):
    """A result. `of`: the place, among the tensors of the op, of the one whose memory it shows; None where it has its own."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    of: int | None = None


class _Declined(Exception):
    """No rule says how this lies."""


def _need(holds: bool) -> None:
    if not holds:
        raise _Declined


@functools.lru_cache(4096)
def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that lies densely, the last dimension innermost."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _new(shape: tuple[int, ...], like: torch.Tensor) -> Lies:
    return Lies(tuple(shape), _dense(tuple(shape)), 0, like.dtype)


def _plain(*tensors: torch.Tensor) -> torch.Tensor:
    """The first; all lie densely and have its type."""
    first = tensors[0]
    for tensor in tensors:
        shape = tuple(tensor.shape)
        _need(tensor.dtype is first.dtype and len(shape) > 0 and 0 not in shape and tensor.stride() == _dense(shape))
    return first


def _plain_or_none(first: torch.Tensor, *tensors: torch.Tensor | None) -> None:
    _plain(first, *(t for t in tensors if t is not None))


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a tensor of the first shape is repeated to the second."""
    return len(shape) <= len(whole) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(whole), strict=False))


# ---- rules: of the arguments, and the tensors among them


def _elementwise(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    for value in (*args, *kwargs.values()):
        _need(isinstance(value, torch.Tensor) or type(value) in _NUMBERS)
    first = _plain(*tensors)
    whole = max((tuple(t.shape) for t in tensors), key=lambda shape: (len(shape), shape))
    _need(all(_fits(tuple(t.shape), whole) for t in tensors))
    return _new(whole, first)


def _written(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> int:
    made = _elementwise(args, kwargs, tensors)
    _need(made.shape == tuple(tensors[0].shape) and len({t.untyped_storage()._cdata for t in tensors}) == len(tensors))
    return 0


def _view(func: Callable, args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Any:
    x = tensors[0]
    _need(len(tensors) == 1 and not kwargs and args[0] is x)
    like = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=_META)
    try:
        made = func(like, *args[1:])
    except (RuntimeError, IndexError, TypeError):
        raise _Declined from None

    def shown(one: torch.Tensor) -> Lies:
        return Lies(tuple(one.shape), one.stride(), x.storage_offset() + one.storage_offset(), x.dtype, 0)

    return shown(made) if isinstance(made, torch.Tensor) else [shown(one) for one in made]


def _product(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    """mm and bmm; addmm behind what is added."""
    _need(len(tensors) == len(args) and not kwargs)
    a, b = tensors[-2:]
    _need(all(t.dtype is a.dtype and 0 not in t.shape for t in tensors))
    _need(len(a.shape) == len(b.shape) and len(a.shape) in (2, 3) and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2])
    made = _new((*a.shape[:-1], b.shape[-1]), a)
    if len(tensors) == 3:
        _need(len(a.shape) == 2 and _fits(tuple(_plain(tensors[0]).shape), made.shape))
    return made


def _as_first(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    """Soft maxima, their gradients, and copies: all tensors lie as the first."""
    first = _plain(*tensors)
    _need(all(t.shape == first.shape for t in tensors) and not kwargs)
    _need(all(isinstance(v, torch.Tensor) or type(v) is int or v is False or v is first.dtype for v in args))
    return _new(first.shape, first)


def _reduced(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    x = _plain(*tensors)
    rank = len(x.shape)
    _need(not kwargs and len(args) in (2, 3) and isinstance(args[1], (list, tuple)) and len(args[1]) > 0)
    _need(all(type(d) is int and -rank <= d < rank for d in args[1]))
    along, keep = {d % rank for d in args[1]}, len(args) == 3 and args[2]
    _need(len(along) == len(args[1]) and (len(args) == 2 or type(args[2]) is bool))
    return _new(tuple(1 if d in along else n for d, n in enumerate(x.shape) if keep or d not in along), x)


def _joined(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    """cat. A tensor of the shape (0,) counts for nothing."""
    parts = [t for t in tensors if tuple(t.shape) != (0,)]
    _need(not kwargs and len(parts) > 0 and all(t.dtype is parts[0].dtype for t in tensors))
    shape, dim = list(_plain(*parts).shape), args[1] if len(args) > 1 else 0
    _need(type(dim) is int and -len(shape) <= dim < len(shape))
    dim %= len(shape)
    for part in parts[1:]:
        _need(len(part.shape) == len(shape) and all(n == m or d == dim for d, (n, m) in enumerate(zip(part.shape, shape, strict=True))))
    shape[dim] = sum(part.shape[dim] for part in parts)
    return _new(tuple(shape), parts[0])


def _part_of_zeros(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    """Gradients of slice and select."""
    _need(len(tensors) == 1 and not kwargs and len(args[1]) > 0 and all(type(n) is int and n > 0 for n in args[1]))
    return _new(tuple(args[1]), tensors[0])


def _batch_norm(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[Lies, ...]:
    x, training = args[0], args[5]
    _need(training is True and not kwargs and len(x.shape) >= 2 and x.numel() > x.shape[1])
    _plain_or_none(x, *args[1:5])
    _need(x.dtype in _WHOLE and all(tuple(t.shape) == (x.shape[1],) for t in tensors[1:]))
    return _new(x.shape, x), _new((x.shape[1],), x), _new((x.shape[1],), x)


def _batch_norm_gradient(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[Lies, ...]:
    gradient, x, weight, training, mask = args[0], args[1], args[2], args[7], args[9]
    _need(training is True and list(mask) == [True, True, True] and weight is not None and not kwargs and len(x.shape) >= 2)
    _plain_or_none(x, gradient, *args[2:7])
    _need(x.dtype in _WHOLE and gradient.shape == x.shape and all(tuple(t.shape) == (x.shape[1],) for t in tensors[2:]))
    return _new(x.shape, x), _new((x.shape[1],), x), _new((x.shape[1],), x)


def _normed(x: torch.Tensor, shape: Any) -> tuple[int, ...]:
    """The shape of a layer norm's statistics."""
    rank = len(x.shape) - len(shape)
    _need(x.dtype in _WHOLE and rank > 0 and tuple(x.shape[rank:]) == tuple(shape))
    return (*x.shape[:rank], *[1] * len(shape))


def _layer_norm(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[Lies, ...]:
    x, shape, weight, bias = args[:4]
    _plain_or_none(x, weight, bias)
    _need(not kwargs and all(tuple(t.shape) == tuple(shape) for t in tensors[1:]))
    statistics = _new(_normed(x, shape), x)
    return _new(x.shape, x), statistics, statistics


def _layer_norm_gradient(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[Lies, ...]:
    gradient, x, shape, mean, scale, weight, bias, mask = args
    _need(len(tensors) == 6 and not kwargs and list(mask) == [True, True, True])
    statistics = _normed(_plain(x, gradient, mean, scale, weight, bias), shape)
    _need(gradient.shape == x.shape and tuple(mean.shape) == tuple(scale.shape) == statistics)
    _need(tuple(weight.shape) == tuple(bias.shape) == tuple(shape))
    return _new(x.shape, x), _new(tuple(shape), x), _new(tuple(shape), x)


def _is_of_classes(x: torch.Tensor, target: torch.Tensor, weight: Any, reduction: int) -> None:
    _need(weight is None and reduction in (1, 2) and len(_plain(x).shape) == 2)
    _need(tuple(target.shape) == (x.shape[0],) and target.dtype is torch.int64)


def _class_loss(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[Lies, ...]:
    x, target, weight, reduction = args[:4]
    _is_of_classes(x, target, weight, reduction)
    _need(not kwargs)
    return _new((), x), _new((), x)


def _class_loss_gradient(args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Lies:
    gradient, x, target, weight, reduction, _, total = args
    _is_of_classes(x, target, weight, reduction)
    _need(not kwargs and all(tuple(t.shape) == () and t.dtype is x.dtype for t in (gradient, total)))
    return _new(x.shape, x)


_ELEMENTWISE = ("relu", "silu", "gelu", "neg", "rsqrt", "sqrt", "exp", "tanh", "sigmoid", "cos", "sin", "abs", "pow.Tensor_Scalar", "add.Scalar", "mul.Scalar",
                "div.Scalar", "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "threshold_backward", "silu_backward", "gelu_backward",
                "tanh_backward", "sigmoid_backward")
_WRITTEN = ("relu_", "add_.Tensor", "mul_.Tensor", "sub_.Tensor", "div_.Tensor", "mul_.Scalar", "add_.Scalar")
_VIEWS = ("view", "t", "transpose.int", "detach", "slice.Tensor", "expand", "unsqueeze", "select.int", "permute", "alias", "squeeze.dim", "split.Tensor",
          "split_with_sizes", "unbind.int")


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _rules() -> dict[Any, Callable]:
    rules: dict[str, Callable] = {**dict.fromkeys(_ELEMENTWISE, _elementwise), **dict.fromkeys(_WRITTEN, _written)}
    rules |= {name: functools.partial(_view, _overload(name)) for name in _VIEWS} | {"_unsafe_view": functools.partial(_view, aten.view.default)}
    rules |= dict.fromkeys(("mm", "bmm", "addmm"), _product) | dict.fromkeys(("sum.dim_IntList", "mean.dim"), _reduced)
    rules |= dict.fromkeys(("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "clone"), _as_first)
    rules |= {"cat": _joined, "slice_backward": _part_of_zeros, "select_backward": _part_of_zeros,
              "native_batch_norm": _batch_norm, "native_batch_norm_backward": _batch_norm_gradient,
              "native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_gradient,
              "nll_loss_forward": _class_loss, "nll_loss_backward": _class_loss_gradient}
    return {_overload(name): rule for name, rule in rules.items()}


RULES = _rules()


def told(func: Any, args: tuple, kwargs: dict[str, Any], tensors: list[FakeTensor]) -> Any:
    """How what the op makes lies, as it makes it: one result, a list or tuple of them, or the place of the tensor that it is; None where
    no rule says it. To be called where no mode is on."""
    rule = RULES.get(func)
    if rule is None or not tensors or torch.is_inference_mode_enabled():
        return None
    try:
        for tensor in tensors:
            _need(tensor._fake_device == DEVICE and not tensor.is_conj() and not tensor.is_neg() and all(type(n) is int for n in tensor.shape))
        _need(tensors[0].is_floating_point() or func in _ANY_TYPE)
        return rule(args, kwargs, tensors)
    except _Declined:
        return None


_ANY_TYPE = {_overload(name) for name in _VIEWS}
