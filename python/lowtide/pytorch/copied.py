"""copy.deepcopy, copy.copy and pickle of tensors while a step is traced.

PyTorch copies the memory of a tensor past its ops: of a tensor of the step there is none to copy, and of one that was there before, what the copy
holds would be a constant of the plan. So a copy is a clone, an op of the step. Of a tensor that shows a part of its memory eager mode's copy has all of
that memory, and strides of its own; it is refused, with the way round, and so is what takes a tensor apart. Tests: tests/python/test_torch_left_behind.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from .this_thread import exchanged


def _copied(before: Callable, tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    if get_proxy_mode() is None or not tensor.is_leaf or tensor.layout is not torch.strided or id(tensor) in memo:
        return before(tensor, memo)
    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
        raise NotImplementedError("copy.deepcopy of a tensor that shows a part of its memory copies all of that memory; .clone() in its place is planned")
    with torch.no_grad():
        memo[id(tensor)] = made = tensor.detach().clone()
    made.requires_grad_(tensor.requires_grad)
    return made


def _taken_apart(before: Callable, tensor: torch.Tensor, protocol: int) -> Any:
    if type(tensor) is not FakeTensor or get_proxy_mode() is None:
        return before(tensor, protocol)
    raise NotImplementedError("a tensor of the step is pickled, or copied by copy.copy, which takes its memory past PyTorch's ops; .detach() shares its "
                              "memory and .clone() copies it, and both are planned")


def traced() -> AbstractContextManager:
    """While a step is traced."""
    return exchanged((torch.Tensor, "__deepcopy__", _copied), (torch.Tensor, "__reduce_ex__", _taken_apart))
