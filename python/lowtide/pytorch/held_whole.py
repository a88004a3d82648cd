"""Rooms that a plan holds for as one: how long a list is, the order of a dict, a set's members, the numbers of an array, a function's code.

They are read and compared (guards.py), and never written. Tests: tests/python/test_torch_stale_values.py, test_torch_stale_insides.py,
test_torch_stale_names.py.
"""

from __future__ import annotations

import _abc
import abc
import argparse
import collections
import functools
import gc
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from .reachable import SHOWING
from .rooms import Room
from .untouched import same

BARE_NAMESPACES = frozenset({types.SimpleNamespace, argparse.Namespace})  # classes of Python's that hold what users give them


class AsOne(Room):
    """One entry, by the room's own name."""

    def named(self, key: Any) -> str:
        return self.path


class Length(AsOne):
    """How many entries a container has."""

    def read(self) -> dict[Any, Any]:
        return {"": len(self.owner)}


class Members(AsOne):
    """What a set has in it."""

    def read(self) -> dict[Any, Any]:
        return {"": frozenset(self.owner)}


class Whole(AsOne):
    """All entries of a list, a deque or a dict, as one."""

    @staticmethod
    def contents(thing: Any) -> tuple:
        return (*thing.keys(), *dict.values(thing)) if isinstance(thing, dict) else tuple(thing)

    def read(self) -> dict[Any, Any]:
        return {"": self.contents(self.owner)}


class Inside(AsOne):
    """What an object of C holds."""

    def __init__(self, owner: Any, path: str, take: Callable[[Any], Any]) -> None:
        self.take = take
        super().__init__(owner, path)

    def read(self) -> dict[Any, Any]:
        return {"": self.take(self.owner)}


class Value:
    """A value that is compared as an entry of a room."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return same(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]


class Order(AsOne):
    """The keys of a dict, in their order: the length, and what comes first in it."""

    def __init__(self, owner: dict[Any, Any], path: str) -> None:
        self.keys = (collections.OrderedDict if isinstance(owner, collections.OrderedDict) else dict).keys(owner)
        super().__init__(owner, path)

    def read(self) -> dict[Any, Any]:
        return {"": tuple(self.keys)}


class CodeOf(AsOne):
    """The code and the defaults of a function, by identity."""

    seen_of = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")

    def __init__(self, owner: types.FunctionType) -> None:
        super().__init__(owner, f"the code of {owner.__qualname__}")

    def read(self) -> dict[Any, Any]:
        return {"": CodeOf.seen_of(self.owner)}


class KindOf(AsOne):
    """The class of an object, which may be given another one."""

    def read(self) -> dict[Any, Any]:
        return {"": type(self.owner)}


def registered_at(kind: abc.ABCMeta) -> frozenset[type]:
    """The classes that `kind.register` has made its own."""
    found = _abc._get_dump(kind)[0] if hasattr(_abc, "_get_dump") else ()
    return frozenset(one for one in (reference() for reference in found) if one is not None)


def _laid_open(thing: Any, take: Callable[[memoryview], Any]) -> Any:
    """Something of the bytes that an object of C lays open; None where it is closed, released, or has pointers in it."""
    try:
        with memoryview(thing) as view:
            return take(view)
    except (ValueError, TypeError, BufferError):
        return None


def bytes_in(thing: Any) -> int | None:
    """How many they are."""
    return _laid_open(thing, lambda view: view.nbytes)


def contents_of(thing: Any) -> bytes | None:
    """A copy of them."""
    return _laid_open(thing, memoryview.tobytes)


class Shown(NamedTuple):
    """What an object of C stands for: names that it asks for, and objects behind it."""

    names: set[str]
    things: list[Any]


def names_in(thing: Any, kind: type) -> Shown | None:
    """None where it is no such object."""
    if kind is operator.attrgetter:
        return Shown({part for text in thing.__reduce__()[1] for part in text.split(".")}, [])
    if kind is operator.methodcaller:
        made, given = thing.__reduce__()[:2]  # with named arguments it is a partial of the class
        return Shown({made.args[0] if isinstance(made, functools.partial) else given[0]}, [given])
    if kind in SHOWING:
        return Shown(set(), gc.get_referents(thing))
    if issubclass(kind, weakref.ref):
        return Shown(set(), [thing()])
    return None
