"""A model whose parameters and buffers are others for a while.

torch.func.functional_call goes by names, and puts the tensors of a module that the model holds under two names back in the order in which
it took them out, so that what stands there in the end is the other tensor. Here each place is exchanged once: a place is a module and
a name in its own dictionary, and goes by what lies in it, so tied tensors stay tied.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch


class Place(NamedTuple):
    """Where a module holds a tensor."""

    folder: Any  # the module's dictionary
    name: str
    tensor: torch.Tensor
    buffer: bool


def places_of(model: torch.nn.Module) -> list[Place]:
    """Each once, in the order of the modules."""
    found = []
    for module in model.modules():
        for folder, buffer in ((module._parameters, False), (module._buffers, True)):
            found += [Place(folder, name, tensor, buffer) for name, tensor in folder.items() if tensor is not None]
    return found


def now_in(place: Place) -> torch.Tensor | None:
    """TorchScript's dictionaries have no `get`."""
    return place.folder[place.name] if place.name in place.folder else None


class Followed:
    """Where a module holds parameters and buffers, to find in each step those that it holds no more."""

    def __init__(self, module: torch.nn.Module, names: list[str], tensors: list[torch.Tensor], buffers: set[str]) -> None:
        by_tensor: dict[int, Place] = {}
        for place in places_of(module):
            by_tensor.setdefault(id(place.tensor), place)
        self.names, self.buffers = names, buffers
        self.places = [by_tensor[id(tensor)] for tensor in tensors]
        plain = all(isinstance(place.folder, dict) for place in self.places)
        self.folders = [place.folder for place in self.places] if plain else None
        self.leaves = [place.name for place in self.places]

    def exchanged(self, tensors: list[torch.Tensor]) -> Iterator[tuple[str, torch.Tensor, torch.Tensor | None]]:
        """What is held no more, and what lies in its place."""
        if self.folders is not None and all(map(operator.is_, map(dict.get, self.folders, self.leaves), tensors)):
            return
        for name, place, held in zip(self.names, self.places, tensors, strict=True):
            found = now_in(place)
            if found is not held:
                yield name, held, found


@contextlib.contextmanager
def exchanged_for(model: torch.nn.Module, tensors: Mapping[int, torch.Tensor]) -> Iterator[list[Place]]:
    """Within, each tensor stands for the one whose id it has; gives the places as they are then."""
    before = [place for place in places_of(model) if id(place.tensor) in tensors]
    try:
        for place in before:
            place.folder[place.name] = tensors[id(place.tensor)]
        yield [place._replace(tensor=tensors[id(place.tensor)]) for place in before]
    finally:
        for place in before:  # what the forward pass has put anew is for the note to find (untouched.py)
            if now_in(place) is tensors[id(place.tensor)]:
                place.folder[place.name] = place.tensor


def write_buffers(places: list[Place]) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """A buffer that was assigned anew, with numbers that lie alike, is written where it was. Gives each by its storage, and a copy of what it was."""
    written = []
    for place in places:
        now = now_in(place)
        if place.buffer and now is not place.tensor and isinstance(now, torch.Tensor) and _lies_as(now, place.tensor):
            written.append((place, now))
    new = _apart([now for _, now in written], [place.tensor for place, _ in written])
    was = {} if torch.compiler.is_dynamo_compiling() else {
        place.tensor.untyped_storage()._cdata: (place.tensor, place.tensor.clone()) for place, _ in written}
    for (place, _), now in zip(written, new, strict=True):
        place.tensor.copy_(now)
        place.folder[place.name] = place.tensor
    return was


def _lies_as(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether one can be written where the other lies, and the next step computes the same bits of it: kernels go by strides, too."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and all(
        size == 1 or mine == its for size, mine, its in zip(a.shape, a.stride(), b.stride(), strict=True))


def _apart(new: list[torch.Tensor], written: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of what lies in memory that is written (`self.old = self.new; self.new = y`, `self.table = self.table.t()`)."""
    if torch.compiler.is_dynamo_compiling():
        return [now.clone() for now in new] if len(new) > 1 else new
    storages = {tensor.untyped_storage()._cdata for tensor in written}
    return [now.clone() if now.untyped_storage()._cdata in storages else now for now in new]
