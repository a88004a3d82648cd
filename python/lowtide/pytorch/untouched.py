"""Capture touches nothing: what can be reached is noted before, and compared and put back after.

The user's own Python runs while a step is captured, on tensors without contents. Whatever it leaves in modules, lists, closures or
random streams would be there afterwards: a table of fake tensors, a counter one too far. So

    before   every room that can be reached is noted (reachable.py), of every tensor its geometry, flags, attributes, gradient and version, of
             small ones the contents, and the states of the random streams of PyTorch, Python and numpy
    after    whether it went well, was refused or was interrupted, all of it is compared, and what differs is put back; Ctrl-C waits

Contents of tensors are not changed in the first place: ops on tensors that were there before are ops of the graph (externals.py).
What cannot be put back is kept from the user's code: in the place of iterators, queues and files lie objects that refuse (barred.py).
Tests: tests/python/test_torch_untouched.py.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from ..errors import Unsupported, Usage
from .barred import Barred, refusal_of
from .entering import handlers_wait
from .hooks import OF_ALL_MODULES
from .insides import context_apart
from .left_behind import Left, empty_caches_of_fakes
from .log_records import Logs, lines_refused
from .made_names import NOTED, Read
from .reachable import attributes_of, Reachable
from .rooms import MISSING, Names, Room, State

PLAIN = (int, float, bool, str, bytes, complex)
SMALL = 4096  # bytes of a tensor whose contents are noted, too


def same(before: Any, after: Any) -> bool:
    """Whether an entry of a room is what it was."""
    if before is after:
        return True
    kind = type(before)
    if kind is not type(after):
        return False
    if kind in PLAIN:
        return before == after and (before != 0 or str(before) == str(after)) or (before != before and after != after)
    return kind is tuple and len(before) == len(after) and all(map(same, before, after))


class Change(NamedTuple):
    """An entry that was given another value."""

    room: Room
    key: Any
    before: Any
    after: Any

    @property
    def name(self) -> str:
        return self.room.named(self.key)


class _Tensor:
    """What is noted of a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.version = None if tensor.is_inference() else tensor._version
        self.requires_grad, self.leaf = tensor.requires_grad, tensor.is_leaf
        self.grad = tensor.grad if tensor.is_leaf else None
        self.hooks = [(name, getattr(tensor, name), dict(getattr(tensor, name) or {}))
                      for name in ("_backward_hooks", "_post_accumulate_grad_hooks")]
        self.attributes = dict(vars(tensor))
        self.kept = None
        if tensor.layout is torch.strided and tensor.device.type == "cpu" and tensor.nbytes <= SMALL and not tensor.is_quantized:
            self.kept = tensor.detach().clone()

    def was_written(self) -> bool:
        return self.version is not None and self.tensor._version != self.version

    def put_back(self) -> None:
        tensor = self.tensor
        if tensor.requires_grad != self.requires_grad or tensor.is_leaf != self.leaf:
            if self.leaf and not tensor.is_leaf:
                tensor.detach_()
            if tensor.is_leaf:
                tensor.requires_grad_(self.requires_grad)
        if self.leaf and tensor.is_leaf and tensor.grad is not self.grad:
            tensor.grad = self.grad
        for name, hooks, entries in self.hooks:
            if getattr(tensor, name) is not hooks or dict(hooks or {}) != entries:
                if hooks is not None:
                    hooks.clear()
                    hooks.update(entries)
                setattr(tensor, name, hooks)
        attributes = vars(tensor)
        if not _same_entries(attributes, self.attributes):
            attributes.clear()
            attributes.update(self.attributes)
        if self.version is None or tensor._version == self.version:
            return
        if self.kept is not None and not equal_bits(tensor.detach(), self.kept):
            with torch.no_grad():
                tensor.copy_(self.kept)
        torch._C._autograd._unsafe_set_version_counter((tensor,), (self.version,))


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """As a NaN is equal to itself."""
    return a.shape == b.shape and a.dtype == b.dtype and a.contiguous().view(-1).view(torch.uint8).equal(
        b.contiguous().view(-1).view(torch.uint8))


class Streams:
    """The random streams of PyTorch's CPU, Python and numpy."""

    def __init__(self) -> None:
        self.torch, self.python = torch.random.default_generator.get_state(), random.getstate()
        self.cuda = [torch.cuda.get_rng_state(k) for k in range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy is not None else None

    def put_back(self) -> None:
        torch.random.default_generator.set_state(self.torch)
        for k, state in enumerate(self.cuda):
            torch.cuda.set_rng_state(state, k)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


class Note:
    """What can be reached from a model, a loss function and an optimizer, as it is now."""

    def __init__(self, model: torch.nn.Module | None, loss_fn: Callable | None, optimizer: Any = None) -> None:
        hooks = [hook for folder in OF_ALL_MODULES for hook in getattr(torch.nn.modules.module, folder).values()]
        self.reachable = Reachable([("", model), ("loss_fn", loss_fn), *([("optimizer", optimizer)] if optimizer is not None else []),
                                    *((f"hook {k} of all modules", hook) for k, hook in enumerate(hooks))])
        for tensor, place in self.reachable.tensors.values():
            if is_lazy(tensor):
                name = place.name if place is not None else "a parameter of the optimizer"
                raise Usage(f"'{name}' has no shape yet, as its module is a lazy one: run one batch through the module, model(x), and make the "
                            "optimizer, before the step is compiled")
        self.tensors = [_Tensor(tensor) for tensor, _ in self.reachable.tensors.values()]
        self.streams = Streams()
        self.logs, self.left = Logs(), Left()
        self.barred: Barred | None = None
        self.read = Read()
        self.touched: dict[tuple[int, Any], Change] = {}  # what was put back, by owner of the room and key

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Within, what the user's code reads under names that it makes is noted in `read`, and it changes nothing outside of Python's objects."""
        found = [room for room in self.reachable.rooms if isinstance(room, Names)]
        naming = {id(room.owner): room.owner for room in found if not NOTED.isdisjoint(room.names)}
        with self.read.noting(naming.values(), {id(room.owner): room.owner for room in found}.values()), lines_refused(self.read.paths):
            yield

    def changes(self) -> list[Change]:
        """Entries of rooms that are no more what they were."""
        return [Change(room, key, before, after) for room in self.reachable.rooms for key, before, after in _differences(room)]

    def refuse_moved(self, optimizer: Any, said: str) -> None:
        """Raises Unsupported, beginning with `said`, where step() has changed something that is no attribute of the optimizer."""
        own = attributes_of(optimizer)
        named = [change.room.named(change.key) for change in self.changes() if change.room.owner is not own]
        places = [place for (tensor, place), kept in zip(self.reachable.tensors.values(), self.tensors, strict=True) if kept.was_written()]
        for name in [*named, *(place.name if place is not None else "a tensor" for place in places)]:
            raise Unsupported(f"{said}: its step() writes '{name}', once for each call")

    def put_back(self) -> None:
        """Makes all as it was."""
        rooms = self.reachable.rooms
        touched = [room for room in rooms if not _untouched(room)]
        for room in touched:
            for key, before, after in _differences(room):
                self.touched.setdefault((id(room.owner), key), Change(room, key, before, after))
        for room in rooms if touched else ():  # all: what is put back may be kept in several
            if not _untouched(room):
                room.write(room.seen)
        for tensor in self.tensors:
            tensor.put_back()
        self.streams.put_back()
        self.logs.put_back()

    def bar(self) -> None:
        """Keeps what nobody could put back from the user's code. Raises Unsupported for what is handed to loss_fn with each call."""
        self.barred = Barred(self.reachable.barred, self.reachable.read_only)
        self.barred.close(self.reachable.rooms)
        for thing, path in self.reachable.barred:
            if path.startswith(("argument ", "default ")) and self.barred.missed(thing):
                raise refusal_of(thing, path)

    def refuse_used(self) -> None:
        """Raises Unsupported if something that is barred was used, whatever became of the exception then."""
        if self.barred is not None and self.barred.used is not None:
            raise self.barred.used


def _untouched(room: Room) -> bool:
    """The same entries in the same order."""
    now = room.read()
    if isinstance(room, State):
        return same(room.seen[""], now[""])
    return _same_entries(now, room.seen)


def _same_entries(now: dict[Any, Any], seen: dict[Any, Any]) -> bool:
    return len(now) == len(seen) and all(map(is_, now.values(), seen.values())) and (all(map(is_, now, seen)) or list(now) == list(seen))


def _differences(room: Room) -> Iterator[tuple[Any, Any, Any]]:
    if _untouched(room):
        return
    now = room.read()
    for key, before in room.seen.items():
        after = now.get(key, MISSING)
        if not same(before, after):
            yield key, before, after
    for key in [key for key in now if key not in room.seen]:
        yield key, MISSING, now[key]


@contextlib.contextmanager
def untouched(model: torch.nn.Module, loss_fn: Callable, optimizer: Any = None) -> Iterator[Note]:
    """Within, a step is captured and planned. Behind it all that can be reached is as it was before. Raises Unsupported for what could
    not be put back."""
    note = Note(model, loss_fn, optimizer)
    try:
        with context_apart():
            with handlers_wait():  # what is barred is known before somebody else runs
                note.bar()
            yield note
    finally:
        with handlers_wait():
            if note.barred is not None:
                note.barred.open()
            note.put_back()
            if not note.left.clean:
                empty_caches_of_fakes()
    note.refuse_used()


@contextlib.contextmanager
def optimizer_untouched(optimizer: Any) -> Iterator[Note]:
    """Within, step() of copies of an optimizer is tried, which may share objects with it. Behind it all that it holds, and that the code of its class
    names, is as it was before."""
    note = Note(None, None, optimizer)
    try:
        yield note
    finally:
        with handlers_wait():
            note.put_back()
