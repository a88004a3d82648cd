"""Other memory under a tensor, `tensor.data = other`: no op sees it, so no plan has it.

While a step is traced what is put there would be a tensor without contents, and stay there: a teacher's weights would be lost. So it is
refused before it is done, with the tensor's name, for whatever tensor: those of the model, teachers and queues, those that the step makes.
Tests: tests/python/test_torch_externals.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .reachable import Reachable
from .this_thread import bound

_DATA = torch._C.TensorBase.data  # what torch.Tensor inherits


class NewData(Exception):
    """The user's code puts other memory under a tensor."""


def _named(module: torch.nn.Module, reachable: Reachable, tensor: torch.Tensor) -> str:
    for name, found in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
        if found is tensor:
            return f"'{name}'"
    _, place = reachable.tensors.get(id(tensor), (None, None))
    return f"'{place.name}'" if place is not None else f"a tensor {tuple(tensor.shape)}"


@contextlib.contextmanager
def data_kept(module: torch.nn.Module, reachable: Reachable) -> Iterator[None]:
    """Within, this thread puts no other memory under a tensor: that raises NewData. The module's parameters may be stand-ins."""
    def refused(_: Callable, tensor: torch.Tensor, __: Any) -> None:
        raise NewData(f"{_named(module, reachable, tensor)} is given other memory by `.data`, which no op sees; copy_ under torch.no_grad() is planned")

    torch.Tensor.data = property(_DATA.__get__, bound(_DATA.__set__, refused))  # type: ignore[assignment]
    try:
        yield
    finally:
        del torch.Tensor.data
