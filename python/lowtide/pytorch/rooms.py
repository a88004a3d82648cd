"""Rooms: places that can be written, one object each, with entries that are read, compared and written back.

They are told apart by how Python writes them: a dict, a list, a set, a cell, slots. Each is read and written by the methods of Python's own
type, so nothing of the user's is called. What an object of C holds inside (a generator of random numbers, an array) is a room with one
entry, `State`, that a pair of functions takes and gives. Tests: tests/python/test_torch_untouched.py.
"""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from .made_names import is_noting
from .this_thread import real_global

MISSING = type("Missing", (), {"__repr__": lambda _: "nothing"})()
_OF_MODULES = ("_parameters", "_buffers", "_modules")  # dicts of a module whose entries are its attributes, in words


@functools.lru_cache(maxsize=10_000)
def slots_of(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((name, slot) for base in kind.__mro__ if "__slots__" in vars(base)
                 for name, slot in vars(base).items() if isinstance(slot, types.MemberDescriptorType))


class Room:
    """One place that can be written. `seen`: its entries when it was noted; `of_package`: code of a package alone keeps something here,
    about itself (which kernels it has looked up)."""

    def __init__(self, owner: Any, path: str, of_package: bool = False) -> None:
        self.owner, self.path, self.of_package = owner, path, of_package
        self.seen = self.read()

    def read(self) -> dict[Any, Any]:
        raise NotImplementedError

    def write(self, entries: dict[Any, Any]) -> None:
        """Makes the entries these, and no others."""
        raise NotImplementedError

    def get(self, key: Any) -> Any:
        return self.read().get(key, MISSING)

    def put(self, key: Any, value: Any) -> None:
        """One entry."""
        self.write({**self.read(), key: value})

    def named(self, key: Any) -> str:
        return f"{self.path}[{key!r}]" if self.path else str(key)


class Dictionary(Room):
    """A dict, of whatever class, by the methods of Python's own."""

    def __init__(self, owner: Any, path: str, of_object: bool = False, of_package: bool = False) -> None:
        self.of_object = of_object
        self.kind: Any = collections.OrderedDict if isinstance(owner, collections.OrderedDict) else dict
        super().__init__(owner, path, of_package)

    def read(self) -> dict[Any, Any]:
        return dict(self.kind.items(self.owner))

    def write(self, entries: dict[Any, Any]) -> None:
        if list(self.kind.keys(self.owner)) == list(entries):
            for key, value in entries.items():
                if dict.get(self.owner, key, MISSING) is not value:
                    self.kind.__setitem__(self.owner, key, value)
            return
        self.kind.clear(self.owner)
        for key, value in entries.items():
            self.kind.__setitem__(self.owner, key, value)

    def get(self, key: Any) -> Any:
        return dict.get(self.owner, key, MISSING)

    def put(self, key: Any, value: Any) -> None:
        self.kind.__setitem__(self.owner, key, value)

    def named(self, key: Any) -> str:
        folder, _, last = self.path.rpartition(".")
        if last in _OF_MODULES and isinstance(key, str):
            return f"{folder}.{key}" if folder else key
        if isinstance(key, str) and (self.of_object or not self.path):
            return f"{self.path}.{key}" if self.path else key
        return f"{self.path}[{_said(key)}]"


class Weak(Dictionary):
    """The dict inside a weak container of Python's library. What is gone since is not put back."""

    def write(self, entries: dict[Any, Any]) -> None:
        def is_there(thing: Any) -> bool:
            return not isinstance(thing, weakref.ref) or thing() is not None

        super().write({key: value for key, value in entries.items() if is_there(key) and is_there(value)})


class Local(Dictionary):
    """The attributes of a threading.local, as the thread that asks has them."""

    def __init__(self, local: Any, attributes_of: Callable[[Any], dict[str, Any]], path: str) -> None:
        self.local, self.attributes_of = local, attributes_of
        super().__init__(None, path, of_object=True)

    @property
    def owner(self) -> dict[str, Any]:
        return self.attributes_of(self.local)

    @owner.setter
    def owner(self, _: Any) -> None:
        pass


class Names(Dictionary):
    """The entries of a dict of globals under some names."""

    def __init__(self, owner: dict[str, Any], path: str, names: frozenset[str]) -> None:
        self.names = names
        super().__init__(owner, path, of_object=True)

    def read(self) -> dict[Any, Any]:
        return {name: real_global(self.owner[name]) for name in sorted(self.names) if name in self.owner and not is_noting(self.owner[name])}

    def write(self, entries: dict[Any, Any]) -> None:
        for name in self.names:
            if name not in entries:
                self.owner.pop(name, None)
            elif self.owner.get(name, MISSING) is not entries[name]:
                self.owner[name] = entries[name]


class Globals(Names):
    """All entries of the globals of a module, where code makes names of its own for them."""

    def __init__(self, owner: dict[str, Any], path: str) -> None:
        super().__init__(owner, path, frozenset())

    def read(self) -> dict[Any, Any]:
        return {name: real_global(value) for name, value in self.owner.items() if not is_noting(value)}

    def write(self, entries: dict[Any, Any]) -> None:
        self.names = frozenset(self.read().keys() | entries.keys())
        super().write(entries)


class Sequence(Room):
    """A list or a deque. Its keys are places."""

    def __init__(self, owner: Any, path: str) -> None:
        self.kind: Any = list if isinstance(owner, list) else collections.deque
        super().__init__(owner, path)

    def read(self) -> dict[Any, Any]:
        return dict(enumerate(self.kind.__iter__(self.owner)))

    def write(self, entries: dict[Any, Any]) -> None:
        self.kind.clear(self.owner)
        self.kind.extend(self.owner, entries.values())

    def get(self, key: Any) -> Any:
        return self.kind.__getitem__(self.owner, key) if key < self.kind.__len__(self.owner) else MISSING

    def put(self, key: Any, value: Any) -> None:
        self.kind.__setitem__(self.owner, key, value)

    def grow(self, dropped: int, added: list[Any]) -> None:
        """So many entries go from its front, and these come to its end."""
        for _ in range(min(dropped, self.kind.__len__(self.owner))):
            self.kind.__delitem__(self.owner, 0)
        self.kind.extend(self.owner, added)


class Set(Room):
    """Its entries are by identity, as nothing of the user's is called."""

    def read(self) -> dict[Any, Any]:
        return {id(entry): entry for entry in set.__iter__(self.owner)}

    def write(self, entries: dict[Any, Any]) -> None:
        set.clear(self.owner)
        set.update(self.owner, entries.values())

    def put(self, key: Any, value: Any) -> None:
        set.add(self.owner, value)

    def named(self, key: Any) -> str:
        return f"an entry of {self.path}"


class Cell(Room):
    """What a function closes over, by its name."""

    def read(self) -> dict[Any, Any]:
        try:
            return {"": self.owner.cell_contents}
        except ValueError:  # a name that has no value yet
            return {}

    def write(self, entries: dict[Any, Any]) -> None:
        if entries:
            self.owner.cell_contents = entries[""]
        elif self.read():
            del self.owner.cell_contents

    def put(self, key: Any, value: Any) -> None:
        self.owner.cell_contents = value

    def named(self, key: Any) -> str:
        return self.path


class Slots(Room):
    """Attributes of an object that has no dict for them."""

    def read(self) -> dict[Any, Any]:
        found = {}
        for name, slot in slots_of(type(self.owner)):
            try:
                found[name] = slot.__get__(self.owner)
            except AttributeError:
                continue
        return found

    def write(self, entries: dict[Any, Any]) -> None:
        now = self.read()
        for name, slot in slots_of(type(self.owner)):
            if name in entries and now.get(name, MISSING) is not entries[name]:
                slot.__set__(self.owner, entries[name])
            elif name in now and name not in entries:
                slot.__delete__(self.owner)

    def named(self, key: Any) -> str:
        return f"{self.path}.{key}"


class ClassData(Room):
    """What is no code in a class: counters of instances, defaults."""

    def read(self) -> dict[Any, Any]:
        code = (types.FunctionType, classmethod, staticmethod, property, types.GetSetDescriptorType, types.MemberDescriptorType)
        return {name: value for name, value in vars(self.owner).items() if not isinstance(value, code) and not name.startswith("__")
                and not name.startswith("_abc_")}

    def write(self, entries: dict[Any, Any]) -> None:
        now = self.read()
        for name in now.keys() - entries.keys():
            type.__delattr__(self.owner, name)
        for name, value in entries.items():
            if now.get(name, MISSING) is not value:
                type.__setattr__(self.owner, name, value)

    def named(self, key: Any) -> str:
        return f"{self.owner.__qualname__}.{key}"


class ClassCode(Room):
    """Methods of a class. They are compared and not written."""

    def read(self) -> dict[Any, Any]:
        return dict(vars(self.owner))

    def get(self, key: Any) -> Any:
        return vars(self.owner).get(key, MISSING)

    def named(self, key: Any) -> str:
        return f"{self.owner.__qualname__}.{key}"


class Scripted(Room):
    """Parameters or buffers of a TorchScript part, which lie in its own object."""

    def read(self) -> dict[Any, Any]:
        return dict(self.owner.items())

    def write(self, entries: dict[Any, Any]) -> None:
        now = self.read()
        for name, value in entries.items():
            if now.get(name) is not value:
                self.owner[name] = value

    def named(self, key: Any) -> str:
        return f"{self.path.rpartition('.')[0]}.{key}"


class State(Room):
    """What an object of a package holds inside, by a pair of functions: generators of random numbers, arrays."""

    def __init__(self, owner: Any, path: str, take: Callable[[Any], Any], give: Callable[[Any, Any], Any] | None) -> None:
        self.take, self.give = take, give
        super().__init__(owner, path)

    def read(self) -> dict[Any, Any]:
        return {"": self.take(self.owner)}

    def write(self, entries: dict[Any, Any]) -> None:
        if self.give is None:
            raise TypeError(f"'{self.path}' cannot be put back")
        self.give(self.owner, entries[""])

    def named(self, key: Any) -> str:
        return self.path


class Place(NamedTuple):
    """Where something lies: an entry of a room, or further inside it, by keys of the tuples and containers that lie there."""

    room: Room
    key: Any
    inside: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        return self.room.named(self.key) + "".join(f"[{_said(key)}]" for key in self.inside)

    def now(self) -> Any:
        """What lies there; MISSING where nothing does."""
        found = self.room.get(self.key)
        try:
            for key in self.inside:
                found = found[key]
        except (LookupError, TypeError):
            return MISSING
        return found


def _said(key: Any) -> str:
    return repr(key) if isinstance(key, (str, int, float, bool, tuple, type(None))) else f"a {type(key).__name__}"
