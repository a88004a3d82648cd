"""An optimizer's step() as it runs within a planned step: for one parameter after the other, so what PyTorch wraps around it counts.

The profiler's name for it and, where gradients are off already, `torch.no_grad` are left out: they take as long as a small parameter's
update. Tests: tests/python/test_torch_called_step.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch


def call_step(optimizer: torch.optim.Optimizer) -> None:
    """step(), without the profiler's name for it, and without `no_grad` around it where gradients are off anyway."""
    step = type(optimizer).step
    (_within_no_grad(step) if not torch.is_grad_enabled() else _unhooked(step))(optimizer)


def _unhooked(step: Callable) -> Callable:
    return step.__wrapped__ if getattr(step, "hooked", False) else step


_NO_GRAD_CODE = torch.no_grad()(lambda: None).__code__


@functools.lru_cache(maxsize=1000)
def _within_no_grad(step: Callable) -> Callable:
    """The function that torch.no_grad decorates, of a step that is decorated so."""
    found = _unhooked(step)
    if getattr(found, "__code__", None) is not _NO_GRAD_CODE:
        return found
    held = dict(zip(found.__code__.co_freevars, found.__closure__ or (), strict=True))
    made = getattr(held["ctx_factory"].cell_contents, "__self__", None)
    return held["func"].cell_contents if type(made) is torch.no_grad else found
