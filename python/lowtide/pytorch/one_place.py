"""A place that a tensor of one whole number says: `buffer[y.argmax()] += 1`, `x[0, k] = row`.

PyTorch reads such a number at once (`.item()`) and takes or writes a view. While a step is traced the number is not known, so what is read or
written is planned as an op on indices, `aten.index` and `aten.index_put_`, which hold for each number:

    x[k] = v    writes the same numbers at the same place
    x[k]        is a copy of what eager mode has a view of. Nobody may write into that but by `x[k] = ...`, as `x[k] += v` does, or into x while the
                copy is there: else it is refused

A tensor that requires a gradient is read as it is, and refused: the gradient of a view and that of an index differ in the signs of zeros. Only where PyTorch
would refuse a place does one of this come. Tests: tests/python/test_torch_indices.py.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .this_thread import exchanged

aten = torch.ops.aten
WAY = ("a place that a tensor says is read by x.index_select(dim, k.view(1)).squeeze(dim), and written by x.index_copy_(dim, k.view(1), rows) or "
       "x.index_add_(dim, k.view(1), rows)")


class WrittenInto(NotImplementedError):
    """What lies at such a place is written through a name of its own."""


def _is_place(entry: Any) -> bool:
    return isinstance(entry, FakeTensor) and entry.dim() == 0 and not (entry.is_floating_point() or entry.is_complex() or entry.dtype in (
        torch.bool, torch.uint8))


def _by_indices(x: torch.Tensor, asked: Any) -> tuple[torch.Tensor, list[torch.Tensor | None]] | None:
    """A view of `x`, and what `asked` is in its dimensions; None where it has other indices, too."""
    entries = list(asked) if isinstance(asked, tuple) else [asked]
    if not any(map(_is_place, entries)) or not all(_is_place(e) or e is None or e is ... or type(e) in (int, slice) for e in entries):
        return None
    given = sum(e is not None and e is not ... for e in entries)
    if not any(e is ... for e in entries):
        entries.append(...)
    indices: list[torch.Tensor | None] = []
    for entry in entries:
        if entry is ...:
            indices += [None] * (x.dim() - given)
        elif type(entry) is not int:
            indices.append(entry if _is_place(entry) else None)
    return x[tuple(slice(None) if _is_place(e) else e for e in entries)], indices


class _Read:
    """One that was read. `same`: an alias of it, which has its version."""

    def __init__(self, made: torch.Tensor, x: torch.Tensor) -> None:
        self.x, self.same, self.versions = x, made.detach(), (made._version, x._version)
        self.let_go = False  # before x was written
        self.made = weakref.ref(made, self.gone)

    def gone(self, _: Any) -> None:
        self.let_go = self.x._version == self.versions[1]

    def is_as_a_view(self) -> bool:
        return self.same._version == self.versions[0] and (self.let_go or self.x._version == self.versions[1])


class Places:
    """Those of one run of the trace."""

    def __init__(self) -> None:
        self.read: list[_Read] = []

    def get(self, before: Callable, x: torch.Tensor, asked: Any) -> Any:
        try:
            return before(x, asked)
        except GuardOnDataDependentSymNode:
            found = None if x.requires_grad and torch.is_grad_enabled() else _by_indices(x, asked)
            if found is None:
                raise
        made = aten.index.Tensor(*found)
        self.read.append(_Read(made, x))
        return made

    def set(self, before: Callable, x: torch.Tensor, asked: Any, value: Any) -> Any:
        try:
            return before(x, asked, value)
        except GuardOnDataDependentSymNode:
            found = _by_indices(x, asked)
            if found is None:
                raise
        self.read = [one for one in self.read if one.made() is not value or one.x is not x]  # what was written into it lies in x now
        value = value.to(x.dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=x.dtype, device=x.device)
        aten.index_put_.default(*found, value)

    def check(self) -> None:
        """Raises WrittenInto."""
        if not all(one.is_as_a_view() for one in self.read):
            raise WrittenInto(f"what lies at a place that a tensor says (x[k]) is written through a name of its own, or has one while x is written; x[k].clone() "
                              f"is a copy; {WAY}")


@contextlib.contextmanager
def planned() -> Iterator[Places]:
    """Within, such places are planned."""
    places = Places()
    with exchanged((torch.Tensor, "__getitem__", places.get), (torch.Tensor, "__setitem__", places.set)):
        yield places
