"""The first run of a plan: every result is held against what the plan was made for.

Kinds of units are measured alone, and plans, addresses and code go by what was seen then. Whether the kernels do the same in
the step is looked at in the first step of each plan: shape, strides, type and device of each result, and whose memory it lies in
(its own; a view's is its storage's; a result in the place of an operand lies there). The generated code has these looks in
its first form (`seen(5, t5)`), blank lines in their place in the form that runs ever after; a look takes no memory.
What differs is a bug of Lowtide's: `lowtide.Internal` names op and line. Before the first update the model is as before; a rehearsal
(beside_eager.py) is such a first run on copies.

Tests: tests/python/test_torch_compared.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..errors import Internal
from .calls import Program
from .units import Unit

NAME = "seen"


def is_look(line: str) -> bool:
    """Whether a line of the generated code is there for the first run alone."""
    return line.startswith(f"{NAME}(") or line.startswith(f"{NAME}_gone(")


class FirstRun:
    """What a plan's results are to be, by tensor."""

    def __init__(self, program: Program, units: Iterable[Unit], strides_of_views: bool) -> None:
        self.program, self.strides_of_views = program, strides_of_views
        self.maker = {storage: unit for unit in units for storage in unit.makes}
        self.places: dict[int, int] = {}  # of the storages that are there: address
        self.owners: dict[int, int] = {}  # address -> storage

    def begin(self, given: Iterable[tuple[int, torch.Tensor]]) -> None:
        """`given`: what is there before the step and lies where it lies."""
        self.places, self.owners = {}, {}
        for number, tensor in given:
            address = tensor.untyped_storage().data_ptr()
            if address:
                storage = self.program.tensors[number].storage
                self.places[storage], self.owners[address] = address, storage

    def look(self, number: int, tensor: torch.Tensor, taken: int = -1) -> None:
        """At a tensor that was just made. `taken`: the storage whose place it has. Raises Internal."""
        wanted, address = self.program.tensors[number], tensor.untyped_storage().data_ptr()
        storage, is_view = wanted.storage, wanted.recipe is not None
        if (tensor.dtype, tuple(tensor.shape), tensor.device) != (wanted.dtype, wanted.shape, wanted.device) or (
                not _lies_alike(tensor, wanted.stride) and (self.strides_of_views or not is_view)):
            self.wrong(number, f"made {_said(tensor.dtype, tensor.shape, tensor.stride(), tensor.device)}, and the plan is made for "
                               f"{_said(wanted.dtype, wanted.shape, wanted.stride, wanted.device)}")
        if tensor.untyped_storage().nbytes() == 0:
            return
        if is_view:
            if self.places.setdefault(storage, address) != address:
                self.wrong(number, "gives a copy where the plan has a view")
            return
        if taken >= 0:
            if address != self.places.get(taken, address):
                self.wrong(number, "made its result in memory of its own, and the plan has it in the place of its operand")
            self.gone(taken)
        elif address in self.owners and self.owners[address] != storage:
            self.wrong(number, f"made its result in the memory of {self.called(self.owners[address])}")
        self.gone(storage)
        self.places[storage], self.owners[address] = address, storage

    def gone(self, storage: int) -> None:
        """Its memory may be another's from here on."""
        address = self.places.pop(storage, None)
        if address is not None and self.owners.get(address) == storage:
            del self.owners[address]

    def called(self, storage: int) -> str:
        found = self.program.storages[storage]
        return f"'{found.name}'" if found.name else f"what {self.maker[storage].name} made" if storage in self.maker else "another value"

    def wrong(self, number: int, said: str) -> None:
        storage = self.program.tensors[number].storage
        unit, recipe = self.maker.get(storage), self.program.tensors[number].recipe
        name = recipe.name if recipe is not None else unit.name if unit is not None else self.called(storage)
        place = unit.place if unit is not None else ""
        raise Internal(f"{place and place + ': '}{name} {said}; this is a bug of Lowtide's")


def _lies_alike(tensor: torch.Tensor, stride: tuple[int, ...]) -> bool:
    """Whether the elements lie as these strides say. A dimension of one element has no step, whatever its stride is."""
    if tensor.stride() == stride or tensor.numel() == 0:
        return True
    return all(a == b or n == 1 for n, a, b in zip(tensor.shape, tensor.stride(), stride, strict=True))


def _said(dtype: torch.dtype, shape: Iterable[int], stride: Iterable[int], device: torch.device) -> str:
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)} with strides {tuple(stride)} on {device}"
