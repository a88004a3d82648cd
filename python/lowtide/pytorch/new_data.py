"""Other memory under a tensor, `tensor.data = other` and `tensor.set_(other)`: no op sees it, so no plan has it.

While a step is traced what is put there would be a tensor without contents, and stay there: a teacher's weights would be lost. So it is
refused before it is done, with the tensor's name, for whatever tensor: those of the model, teachers and queues, those that the step makes.
Tests: tests/python/test_torch_externals.py.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .reachable import Reachable, is_packaged_file
from .this_thread import bound, exchanged

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

    def set_refused(before: Callable, tensor: torch.Tensor, *args: Any, **named: Any) -> Any:
        if is_packaged_file(sys._getframe(2).f_code.co_filename):  # PyTorch makes tensors without contents so
            return before(tensor, *args, **named)
        raise NewData(f"{_named(module, reachable, tensor)} is given other memory by set_(), which no plan follows; copy_ under torch.no_grad() is planned")

    torch.Tensor.data = property(_DATA.__get__, bound(_DATA.__set__, refused))  # type: ignore[assignment]
    try:
        with exchanged((torch.Tensor, "set_", set_refused)):
            yield
    finally:
        del torch.Tensor.data
