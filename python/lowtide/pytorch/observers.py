"""Observers of quantization-aware training (torch.ao.quantization) while a step is traced.

Their modules work on buffers (min_val, max_val, scale, zero_point), by ops that are the step's. Whether such a minimum is valid they ask
of what the step has just written: they raise where it is above the maximum, and give default values, with a warning, where nothing was
observed. Both become checks of every step, the second a refusal, as both of its answers go on. Flags (`observer_enabled`) are read
before the step and have a plan for each value, as any other buffer's. Buffers without elements get their size in the first run: calls.py
refuses that, with the way round.
Tests: tests/python/test_torch_observers.py.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import torch

from ..errors import Unsupported
from .decisions import remembered
from .this_thread import exchanged

_NAME = "check_min_max_valid"
_HOLDERS = ("torch.ao.quantization.utils", "torch.ao.quantization.observer")


def _valid(before: Callable, low: torch.Tensor, high: torch.Tensor) -> bool:
    if low.numel() == 0 or high.numel() == 0:
        return before(low, high)
    if low.dim() == 0 or high.dim() == 0:
        _demand(~((low == float("inf")) & (high == float("-inf"))), Unsupported(
            "an observer has observed nothing yet (its minimum is inf, its maximum -inf), and eager mode goes on with default values; run one batch "
            "through the model before the step is compiled, or disable its observers and fake quantization"))
    _demand(~(low > high).any(), AssertionError("min ? should be less than max ?"))
    return True


def _demand(holds: torch.Tensor, problem: Exception) -> None:
    torch.ops.lowtide.demand(holds.reshape(()), remembered(problem))


def traced() -> contextlib.AbstractContextManager[None]:
    """While a step is traced."""
    holders = [sys.modules[name] for name in _HOLDERS if name in sys.modules]
    return exchanged(*((holder, _NAME, _valid) for holder in holders if hasattr(holder, _NAME)))
