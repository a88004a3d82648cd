"""State that the forward pass keeps in plain attributes, lists, dicts and closures: written behind each step as eager mode writes it.

What the user's code leaves in the rooms that can be reached (untouched.py) is compared with the note at the end of the traced step:

    a tensor of the step           becomes an output; behind each step it is put where the code put it (a hidden state, a running mean)
    a view of what was there       is the view again, of what is there then (the batch that a hook keeps, a parameter's `.detach()`)
    a number, a word, a flag, None is put there, too; of a number that moves (a counter) what the code makes of it (moving.py)
    a number of the step           becomes an output, too, and is Python's number there; one that it is added to is read in each step (step_numbers.py)
    lists and deques               grow, or lose entries at their front, by as much as in the trace

    a table of constants   that the step has made is put there where none lies (tables.py)

Whether the captured step depends on what changed is found out by tracing once more (settling.py). Tests: tests/python/test_torch_state.py.
"""

from __future__ import annotations

import collections
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import Unsupported
from .barred import real_of
from .externals import Geometry, geometry_of
from .guards import Entry, Turned
from .held_places import Kind, OneOf
from .held_whole import Length
from .known import KnownValues
from .moving import Outcomes, Record, evaluate, expression_of, is_number, value_of
from .reachable import MISSING, Dictionary, Place, Room, Sequence, Set, State
from .step_numbers import KINDS, Texts, as_tensor, is_symbol, refuse_inside
from .tables import Table
from .untouched import PLAIN, Change, Note, same


class Output(NamedTuple):
    """The step's output of this number."""

    number: int
    geometry: Geometry


class Number(NamedTuple):
    """The number in the step's output of this number, as Python's of this kind."""

    number: int
    kind: type


class View(NamedTuple):
    """A tensor that is there before the step: all of it, or a part. `of`: its place in `given`, or where it is found."""

    find: Callable[[list[torch.Tensor]], torch.Tensor]
    part: tuple[tuple[int, ...], tuple[int, ...], int] | None

    def make(self, given: list[torch.Tensor]) -> torch.Tensor:
        whole = self.find(given)
        if self.part is None:
            return whole
        shape, stride, offset = self.part
        return whole.detach().as_strided(shape, stride, whole.storage_offset() + offset)


class Held(NamedTuple):
    """A tensor of constants alone, as it was computed."""

    tensor: torch.Tensor


class Moving(NamedTuple):
    """What the code makes of numbers that it moves. `value`: behind the traced step."""

    of: Any
    value: Any


class Opaque(NamedTuple):
    """An object that no step can make."""

    value: Any


@dataclass
class Write:
    """An entry that the step gives another value. `sources` are the leaves of the value, `tree` its form."""

    room: Room
    key: Any
    before: Any
    sources: list[Any]
    tree: Any
    held: bool = False  # the plan holds for what it was
    values: tuple[Any, ...] | None = None  # of which the plan serves each
    table: Table | None = None  # of constants alone

    @property
    def name(self) -> str:
        return self.room.named(self.key)

    @property
    def moves(self) -> bool:
        """Whether it is made of numbers that move, and of nothing else."""
        return bool(self.sources) and all(isinstance(source, Moving) for source in self.sources)

    def value(self, outputs: list[torch.Tensor], given: list[torch.Tensor], numbers: list[Any]) -> Any:
        return pytree.tree_unflatten([made(source, outputs, given, numbers) for source in self.sources], self.tree)


@dataclass
class Growth:
    """A list or deque: so many entries go from its front, and these come to its end."""

    room: Sequence
    dropped: int
    added: list[Write]
    held: bool = False  # the plan holds for what is in it
    unread: bool = False  # nothing is read off it, however long it is

    @property
    def grows(self) -> bool:
        return self.dropped < len(self.added)

    @property
    def name(self) -> str:
        return self.room.path


@dataclass
class Carried:
    """All of one trace."""

    writes: list[Write] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)
    gone: list[tuple[Room, Any]] = field(default_factory=list)  # entries that the step removes
    outputs: int = 0
    steady: bool = True  # the graph does not depend on what changes
    record: Record | None = None  # of the numbers that move

    def __bool__(self) -> bool:
        return bool(self.writes or self.growths or self.gone)

    def is_of_values(self) -> bool:
        """Whether there are no more than entries of Python's plain values, and tables of constants."""
        return not self.growths and not self.gone and all(source is None or type(source) in (*PLAIN, Moving, Held) for write in self.writes
                                                          for source in write.sources)

    def names(self) -> list[str]:
        found = [*self.writes, *self.growths]
        return [f"'{one.name}'" for one in found[:3]] + [f"'{room.named(key)}'" for room, key in self.gone[:1]]

    def owns(self) -> set[tuple[int, Any]]:
        """Entries that plans do not hold for by their value: by owner and key."""
        writes = [write for write in self.writes if write.moves or write.held or self.steady]
        found = {(id(write.room.owner), write.key) for write in writes}
        found |= {(id(room.owner), "") for room in self._longer()}
        rooms = [write.room for write in writes]
        if self.steady:
            found |= {(id(room.owner), key) for room, key in self.gone}
            rooms += [room for room, _ in self.gone]
        found |= {(id(room.owner), "") for room in rooms if isinstance(room, Set)}
        for growth in (growth for growth in self.growths if growth.unread or self.steady and not growth.held):
            found |= {(id(growth.room.owner), key) for key in range(len(growth.room.seen) + len(growth.added))}
            found.add((id(growth.room.owner), ""))
        return found

    def kinds(self) -> list[Any]:
        """What has to lie at the places that the step writes before it begins."""
        steady = [write for write in self.writes if self.steady and not write.held and not write.moves and write.table is None]
        found: list[Any] = [OneOf(Place(w.room, w.key), w.values) for w in steady if w.values is not None]
        found += [Kind(Place(w.room, w.key), w.before) for w in steady if w.values is None and w.before is not MISSING]
        for growth in (growth for growth in self.growths if self.steady and not growth.held and not growth.unread):
            found += [Kind(Place(growth.room, k), value) for k, value in growth.room.seen.items()]
        found += [write.table for write in self.writes if write.table is not None]
        for room, more in self._longer().items():
            found.append(OneOf(Place(Length(room.owner, f"len({room.path})"), ""), (len(room.seen), len(room.seen) + more)))
        return [*found, Outcomes(self.record)] if self.record is not None else found

    def _longer(self) -> collections.Counter[Room]:
        """Dictionaries that get tables under keys of their own, and how many."""
        return collections.Counter(w.room for w in self.writes if w.table is not None and w.table.serves and w.before is MISSING
                                   and type(w.room) is Dictionary and not w.room.of_object)

    def entries(self) -> list[Entry]:
        """What the graph depends on and the step changes: the next one is another."""
        return [(Turned if w.held else Entry)(w.room, w.key, w.before) for w in self.writes if w.held or not self.steady and not w.moves]

    def write(self, outputs: list[torch.Tensor], given: list[torch.Tensor]) -> None:
        """Behind a step: all values first, then all entries."""
        numbers = self.record.numbers() if self.record is not None else []
        writes = [write for write in self.writes if write.table is None or not write.table.lies(write.room.get(write.key))]
        values = [(write, write.value(outputs, given, numbers)) for write in writes]
        grown = [(growth, [write.value(outputs, given, numbers) for write in growth.added]) for growth in self.growths]
        for write, value in values:
            write.room.put(write.key, value)
        for growth, values in grown:
            growth.room.grow(growth.dropped, values)
        for room, key in self.gone:
            room.write({name: value for name, value in room.read().items() if name != key})


def made(source: Any, outputs: list[torch.Tensor], given: list[torch.Tensor], numbers: list[Any]) -> Any:
    if isinstance(source, Output):
        return outputs[source.number]
    if isinstance(source, Number):
        return source.kind(outputs[source.number].item())
    if isinstance(source, View):
        return source.make(given)
    if isinstance(source, Held):
        return source.tensor.clone()
    if isinstance(source, Moving):
        return evaluate(source.of, numbers)
    return real_of(source.value) if isinstance(source, Opaque) else source


class Lasting:
    """What was there before the traced step, by the storage of its fake: where the step finds it."""

    def __init__(self, flat: list[torch.Tensor], externals: list[Any], was: Mapping[int, tuple[torch.Tensor, torch.Tensor]]) -> None:
        """`was`: buffers that were put anew, and copies of what they were (shell.py)."""
        self.was = was
        self.of: dict[int, tuple[torch.Tensor, Callable[[list[torch.Tensor]], torch.Tensor]]] = {}
        for position, fake in enumerate(flat):
            self.of.setdefault(fake.untyped_storage()._cdata, (fake, lambda given, position=position: given[position]))
        for external in externals:
            self.of.setdefault(external.fake.untyped_storage()._cdata, (external.fake, lambda _, external=external: external.now()))

    def view(self, fake: torch.Tensor) -> View | None:
        storage = fake.untyped_storage()._cdata
        found = self.of.get(storage)
        if found is None or storage in self.was:
            return None
        whole, find = found
        if geometry_of(whole) == geometry_of(fake) and whole.storage_offset() == fake.storage_offset():
            return View(find, None)
        return View(find, (tuple(fake.shape), fake.stride(), fake.storage_offset() - whole.storage_offset()))


    def as_was(self, fake: torch.Tensor) -> torch.Tensor:
        """A tensor as the user's code has it: of a buffer that it has put anew, what that was."""
        whole, copy = self.was.get(fake.untyped_storage()._cdata, (fake, fake))
        if geometry_of(whole) == geometry_of(fake) and whole.storage_offset() == fake.storage_offset():
            return copy
        return copy.as_strided(fake.shape, fake.stride(), fake.storage_offset() - whole.storage_offset())


class Marked:
    """What user code puts on the tensors of a model as attributes, while others stand in for them. Behind the traced step the tensors have them,
    until the note puts them back. What PyTorch itself puts there (dynamo's marks, what a fake tensor remembers) is none of it."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], stand_ins: Mapping[str, torch.Tensor]) -> None:
        self.pairs = [(vars(tensor), vars(stand_ins[name])) for name, tensor in tensors.items()]
        for mine, its in self.pairs:
            its.update(mine)
        self.before = [dict(its) for _, its in self.pairs]

    def give_back(self) -> None:
        for (mine, its), before in zip(self.pairs, self.before, strict=True):
            for name in [name for name in mine if name not in its]:
                del mine[name]
            mine.update({name: value for name, value in its.items() if before.get(name, MISSING) is not value and not _OF_PYTORCH.search(name)})


_MADE = ("the forward pass itself makes '{}', {} that neither the model nor the optimizer knows yet: run one batch through the module, model(x), "
         "and make the optimizer, before the step is compiled")
_OF_PYTORCH = re.compile("^_dynamo|_memo(_|$)")


class Finder:
    """Reads the changes of a traced step. `outputs`: the fake tensors that become outputs. `texts`: those that were made of numbers of the step."""

    def __init__(self, note: Note, values: KnownValues, lasting: Lasting, leaves: Mapping[int, torch.Tensor], texts: Texts) -> None:
        self.note, self.values, self.lasting, self.leaves, self.texts = note, values, lasting, leaves, texts
        self.outputs: list[torch.Tensor] = []
        self.carried = Carried()
        changes = [change for change in note.changes() if not self.is_no_change(change)]
        grown = self.grown(changes)
        for change in changes:
            if id(change.room) in grown:
                continue
            if change.after is MISSING:
                self.carried.gone.append((change.room, change.key))
            else:
                self.take(change)
        self.carried.outputs = len(self.outputs)

    def is_no_change(self, change: Change) -> bool:
        """The model's own tensors, exchanged while it was traced, in a list that was made anew (recurrent layers do that)."""
        before, after = (pytree.tree_leaves(value, is_leaf=lambda v: v is None) for value in (change.before, change.after))
        return len(before) == len(after) > 0 and all(
            b is self.leaves.get(id(a), a) or (isinstance(a, weakref.ref) and isinstance(b, weakref.ref)) for b, a in
            zip(before, after, strict=True))

    def grown(self, changes: list[Change]) -> set[int]:
        """Rooms that are lists whose ends have moved."""
        found: set[int] = set()
        for room in {id(change.room): change.room for change in changes if isinstance(change.room, Sequence)}.values():
            before, now = list(room.seen.values()), list(room.read().values())
            dropped = next((k for k in range(len(before) + 1) if len(now) >= len(before) - k
                            and all(map(same, before[k:], now))), len(before))
            anew = dropped == len(before) == len(now) and (len(before) > 1 or len(before) == 1 and is_symbol(now[0]))
            if dropped == 0 and len(now) == len(before) or anew:
                continue  # entries of it were put anew
            added = [self.write(room, k, MISSING, value) for k, value in enumerate(now[len(before) - dropped:], len(before) - dropped)]
            self.carried.growths.append(Growth(room, dropped, added))
            found.add(id(room))
        return found

    def take(self, change: Change) -> None:
        if isinstance(change.room, State):
            raise Unsupported(f"'{change.name}' is changed by the forward pass: contents of arrays, results of futures and states of generators are "
                              "not those of a step; a tensor in its place is read and written in each step")
        self.carried.writes.append(self.write(change.room, change.key, change.before, change.after))

    def write(self, room: Room, key: Any, before: Any, after: Any) -> Write:
        self.texts.refuse(key, f"a key of '{room.path}'")
        leaves, tree = pytree.tree_flatten(after)
        return Write(room, key, before, [self.source(leaf, room.named(key)) for leaf in leaves], tree)

    def source(self, leaf: Any, name: str) -> Any:
        if is_number(leaf):
            return Moving(expression_of(leaf), value_of(leaf))
        if is_symbol(leaf):
            self.outputs.append(as_tensor(leaf))
            return Number(len(self.outputs) - 1, KINDS[type(leaf)][0])
        if type(leaf) in PLAIN or leaf is None:
            self.texts.refuse(leaf, f"'{name}'")
            return leaf
        if not isinstance(leaf, torch.Tensor):
            if isinstance(leaf, torch.nn.Module) and any(isinstance(tensor, FakeTensor) for tensor in (*leaf.parameters(), *leaf.buffers())):
                raise Unsupported(_MADE.format(name, "a module"))
            refuse_inside(leaf, f"'{name}'", self.texts, "that the forward pass puts there, which no step can make again; as tuples, lists or dicts of "
                                                         "tensors and numbers, or registered with torch.utils._pytree, it can", self.note.reachable.seen)
            return Opaque(leaf)
        own = self.leaves.get(id(leaf))
        if own is not None and self.lasting.as_was(leaf) is leaf:
            return Opaque(own)
        if isinstance(leaf, torch.nn.Parameter) or leaf.requires_grad and leaf.is_leaf and isinstance(leaf, FakeTensor):
            raise Unsupported(_MADE.format(name, "a parameter"))
        known = self.values.value(leaf)
        if known is not None:
            return Held(known)
        there = self.note.reachable.tensors.get(id(leaf))
        if there is not None and there[1] is not None:
            return View(lambda _, place=self.note.reachable.rooted(there[1]): place.now(), None)
        view = self.lasting.view(leaf)
        if view is not None:
            return view
        self.outputs.append(self.lasting.as_was(leaf).detach())
        return Output(len(self.outputs) - 1, geometry_of(leaf))
