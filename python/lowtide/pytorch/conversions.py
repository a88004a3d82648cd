"""Modules that convert themselves in the forward pass: `self.router.to(x.dtype)`, `.float()`, `.to(x.device)`.

Where all is of that type and there already, such a call changes nothing in eager mode and is none of the step's ops. PyTorch's own, on the
tensors that a step is traced with, would put new tensors in the place of each and fail (they are referred to elsewhere). What does convert
is refused: it makes other parameters than the optimizer has.

Tests: tests/python/test_torch_conversions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .this_thread import exchanged


def _converted(_: Callable, module: torch.nn.Module, function: Callable, *more: object, **named: object) -> torch.nn.Module:
    with _disable_current_modes(), torch.no_grad():  # which would write the asking down
        alone = [(name, tensor.detach()) for name, tensor in (*module.named_parameters(), *module.named_buffers())]
        changed = next((name for name, tensor in alone if function(tensor) is not tensor), None)
    if changed is not None:
        raise NotImplementedError(f"the forward pass converts {type(module).__name__}'s '{changed}' to another type or device, which makes another "
                                  "parameter of it; convert the module before the step is made, or its tensors where they are used (weight.to(x.dtype))")
    return module


def traced() -> AbstractContextManager:
    """While a step is traced."""
    return exchanged((torch.nn.Module, "_apply", _converted))
