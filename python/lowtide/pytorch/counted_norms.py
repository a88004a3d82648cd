"""Batch norms whose momentum is None: their statistics are the means over all batches so far.

The module reads its count of batches as a Python number, and the norm takes one over it as its
momentum: a number that a captured step would keep from the step that was captured. So while a step
is traced, what such a module computes of its count is kept as the tensor that it is, and the norm
is an op of its own, which reads the count whenever it runs:

    lowtide::counted_batch_norm    native_batch_norm with the momentum 1 / count

Like that it writes its running statistics without saying so (calls.py knows); its gradient is
native_batch_norm's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.nn.modules import batchnorm

from . import this_thread
from .devices import Cpu, Cuda

aten = torch.ops.aten
torch.library.define("lowtide::counted_batch_norm",
                     "(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
                     "bool training, Tensor count, float eps) -> (Tensor, Tensor, Tensor)")


@torch.library.impl("lowtide::counted_batch_norm", "CPU")
def _(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, count: torch.Tensor,
      eps: float) -> Any:
    share = 1.0 / max(float(count), 1.0)  # none yet: it is measured
    return aten.native_batch_norm(x, weight, bias, mean, var, training, share, eps)


@torch.library.register_fake("lowtide::counted_batch_norm")
def _(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, count: torch.Tensor,
      eps: float) -> Any:
    return aten.native_batch_norm(x, weight, bias, mean, var, training, 0.1, eps)


class _Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, count: Any,
                eps: float) -> torch.Tensor:
        out, center, scale = torch.ops.lowtide.counted_batch_norm(x, weight, bias, mean, var, True,
                                                                  count, eps)
        ctx.save_for_backward(x, weight, mean, var, center, scale)
        ctx.eps = eps
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight, mean, var, center, scale = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:3])
        found = aten.native_batch_norm_backward(gradient, x, weight, mean, var, center, scale, True,
                                                ctx.eps, wanted)
        asked = [g if needed else None for g, needed in zip(found, wanted, strict=True)]
        return (*asked, None, None, None, None)


class _Count:
    """In the place of float(count)."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __rtruediv__(self, one: float) -> _Share:
        return _Share(self.tensor)


class _Share(_Count):
    """1.0 / float(count)"""


def _as_number(number: Callable, value: Any) -> Any:
    return _Count(value) if isinstance(value, torch.Tensor) else number(value)


def _norm(batch_norm: Callable, x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None,
          training: bool = False, momentum: Any = 0.1, eps: float = 1e-5) -> torch.Tensor:
    """torch.nn.functional.batch_norm, but for the norm of a share."""
    if not isinstance(momentum, _Share):
        return batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    functional._verify_batch_size(x.size())
    return _Counted.apply(x, weight, bias, mean, var, momentum.tensor, eps)


@contextlib.contextmanager
def counted(device: Cpu | Cuda) -> Iterator[None]:
    """Within, modules of batch norms with momentum=None run by their count. On a GPU it would be
    another kernel."""
    if device.type != "cpu":
        yield
        return
    with this_thread.exchanged((functional, "batch_norm", _norm), (batchnorm, "float", _as_number)):
        yield
