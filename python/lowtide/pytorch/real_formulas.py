"""Formulas of PyTorch's that take another way on fake tensors than on real ones, by the real ones' way.

Some formulas of autograd and of losses ask whether a tensor is a subclass, as fake tensors are, and then compute the same in another
order, with other last bits: the gradient of torch.prod looks for zeros on real tensors and multiplies twice on others, and a cross-entropy
with class weights and label smoothing selects the weights of the labels that count, or sets those of the others to zero. While a step
is traced these calls are exchanged: an op of ours stands in the graph for what the real way does with contents, and does that when it runs.

    torch.prod, Tensor.prod           lowtide::prod_gradient runs autograd's own formula on the real tensors
    F.cross_entropy(weight, label_smoothing)    lowtide::counted_weights sums the selected weights; all else is as PyTorch writes it
    torch._grouped_mm                 has a fake kernel for all types that its real one takes

A mode is off within its own calls. So F.cross_entropy is exchanged too, as a mode meets this function before the one that it calls, and
the mode is put on anew around autograd's engine, under which checkpoints run the forward pass again. Other threads keep PyTorch's.

Tests: tests/python/test_torch_real_formulas.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._meta_registrations as _metas
from torch.nn import _reduction as _Reduction
from torch.overrides import TorchFunctionMode

from . import this_thread

torch.library.define("lowtide::prod_gradient", "(Tensor gradient, Tensor input, int? dim, bool keepdim, ScalarType? dtype) -> Tensor")
torch.library.define("lowtide::counted_weights", "(Tensor weight, Tensor target, int ignore_index) -> Tensor")


def _product(x: torch.Tensor, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:
    return torch.prod(x, dtype=dtype) if dim is None else torch.prod(x, dim, keepdim, dtype=dtype)


@torch.library.impl("lowtide::prod_gradient", "default")
def _(gradient: torch.Tensor, input: torch.Tensor, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:  # noqa: A002
    with torch.enable_grad():
        x = input.detach().requires_grad_()
        found = torch.autograd.grad(_product(x, dim, keepdim, dtype), x, gradient)[0]
    return found.contiguous() if found.data_ptr() != gradient.data_ptr() else found.clone()


@torch.library.register_fake("lowtide::prod_gradient")
def _(gradient: torch.Tensor, input: torch.Tensor, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:  # noqa: A002
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@torch.library.impl("lowtide::counted_weights", "default")
def _(weight: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    return weight.gather(0, target.masked_select(target != ignore_index).flatten()).sum()


@torch.library.register_fake("lowtide::counted_weights")
def _(weight: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    return weight.new_empty(())


class _Prod(torch.autograd.Function):
    """torch.prod with autograd's own gradient of real tensors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.how = dim, keepdim, dtype
        return _product(x, dim, keepdim, dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return torch.ops.lowtide.prod_gradient(gradient, ctx.saved_tensors[0], *ctx.how), None, None, None


def _prod(input: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> torch.Tensor:  # noqa: A002
    if not torch.is_grad_enabled() or not input.requires_grad or input.dim() == 0:
        return _product(input, dim, keepdim, dtype)
    return _Prod.apply(input, dim, keepdim, dtype)


def _smoothed(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, ignore_index: int, smoothing: float) -> torch.Tensor:
    """The mean cross-entropy with class weights and label smoothing, op by op as PyTorch computes it on real tensors."""
    along = 0 if logits.dim() == 1 else 1
    logs = torch.log_softmax(logits, along, logits.dtype)
    plain = torch._C._nn.nll_loss_nd(logs, target, weight, 1, ignore_index)
    shape = [1] * logs.dim()
    shape[along] = weight.shape[0]
    smooth = -(logs * weight.view(shape)).sum(along)
    smooth = smooth.masked_fill_(target == ignore_index, 0.0)
    smooth = smooth.sum() / torch.ops.lowtide.counted_weights(weight, target, ignore_index)
    return (1 - smoothing) * plain + smooth * (smoothing / logs.shape[along])


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = 1,
                   ignore_index: int = -100, label_smoothing: float = 0.0) -> Any:
    is_of_classes = not target.is_floating_point() and weight is not None and not weight.requires_grad
    if reduction == 1 and label_smoothing > 0 and is_of_classes:
        return _smoothed(logits, target, weight, ignore_index, label_smoothing)
    return torch._C._nn.cross_entropy_loss(logits, target, weight, reduction, ignore_index, label_smoothing)


def _functional_cross_entropy(input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, size_average: Any = None,  # noqa: A002
                              ignore_index: int = -100, reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    return _cross_entropy(input, target, weight, _Reduction.get_enum(reduction), ignore_index, label_smoothing)


def _grouped(of_bf16: Callable, mat_a: torch.Tensor, mat_b: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
    """What torch._grouped_mm makes of other types than bf16, too, as its kernels on the CPU take them."""
    if mat_a.dtype is torch.bfloat16 or more or named.get("scale_a") is not None:
        return of_bf16(mat_a, mat_b, *more, **named)
    return _metas._create_grouped_mm_output_tensor(mat_a, mat_b, named.get("offs"), named.get("out_dtype"))


_INSTEAD = {torch.prod: _prod, torch.Tensor.prod: _prod, torch._C._nn.cross_entropy_loss: _cross_entropy,
            torch.nn.functional.cross_entropy: _functional_cross_entropy}


class _RealFormulas(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return _INSTEAD.get(func, func)(*args, **(kwargs or {}))

    def within(self, engine: Callable, *args: Any, **named: Any) -> Any:
        with self:
            return engine(*args, **named)


@contextlib.contextmanager
def real_formulas() -> Iterator[None]:
    """Within, these calls are exchanged."""
    mode = _RealFormulas()
    with this_thread.exchanged((torch.autograd, "_engine_run_backward", mode.within)), fake_kernels(), mode:
        yield


def fake_kernels() -> contextlib.AbstractContextManager[None]:
    """Within, ops have fake kernels for all that their real ones take: that much a step in parts needs, too."""
    place = (_metas, "_meta_grouped_mm_common", _grouped)
    return this_thread.exchanged(place) if hasattr(*place[:2]) else contextlib.nullcontext()
