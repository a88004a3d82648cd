"""While a step is captured a stand-in lies in the place of each iterator, queue and file, which refuses by name when it is used.

How far an iterator is, or what lies in a queue, nobody can put back. So the user's code does not get at them: each entry of a room
(rooms.py) that holds one, also inside a tuple, is given a stand-in, and the object itself is there again behind the capture. What is
only held and passed on is not refused. Other threads that meet a stand-in meanwhile use the object through it, as before.

Big arrays of numpy are read only meanwhile. Tests: tests/python/test_torch_untouched_insides.py.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import Unsupported
from ..plans import bytes_text
from .insides import is_iterator
from .rooms import Room, Set

_ITERATOR = ("'{}' is a {}, which a step would advance once, while it is captured, and nobody can put back; call next() outside of "
             "loss_fn and give what it gives in the batch")
_OTHER = ("'{}' is a {}, which a step would use once, while it is captured, and nobody can put back; use it outside of loss_fn and give "
          "what it gives in the batch")


def refusal_of(thing: Any, path: str) -> Unsupported:
    said = _ITERATOR if is_iterator(type(thing)) and not isinstance(thing, io.IOBase) else _OTHER
    return Unsupported(said.format(path, type(thing).__name__))


class StandIn:
    """Stands for an object. `check`: raises where this thread captures."""

    __slots__ = ("check", "real")

    def __init__(self, real: Any, check: Callable[[], None]) -> None:
        _REAL.__set__(self, real)
        _CHECK.__set__(self, check)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return type(_REAL.__get__(self))
        _CHECK.__get__(self)()
        return getattr(_REAL.__get__(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        _CHECK.__get__(self)()
        setattr(_REAL.__get__(self), name, value)

    def __repr__(self) -> str:
        return repr(_REAL.__get__(self))

    def __bool__(self) -> bool:
        return bool(_REAL.__get__(self))

    def __eq__(self, other: Any) -> bool:
        return self is other or _REAL.__get__(self) == other

    def __hash__(self) -> int:
        return hash(_REAL.__get__(self))


_REAL, _CHECK = vars(StandIn)["real"], vars(StandIn)["check"]


def _passed_on(name: str) -> Callable:
    def called(self: StandIn, *args: Any) -> Any:
        _CHECK.__get__(self)()
        real = _REAL.__get__(self)
        return getattr(type(real), name)(real, *args)

    return called


for _name in ("__next__", "__iter__", "__len__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__enter__", "__exit__", "__anext__",
              "__aiter__", "__await__", "__length_hint__", "__reduce_ex__"):
    setattr(StandIn, _name, _passed_on(_name))


def real_of(thing: Any) -> Any:
    """What a stand-in stands for; anything else itself."""
    return _REAL.__get__(thing) if type(thing) is StandIn else thing


class Barred:
    """The objects of one capture that are kept from the user's code. `things`: with their paths; `arrays`: of numpy."""

    def __init__(self, things: Iterable[tuple[Any, str]], arrays: Iterable[Any]) -> None:
        self.mine = threading.get_ident()
        self.closed, self.used = False, None
        self.instead = {id(thing): StandIn(thing, self.check_of(thing, path)) for thing, path in things}
        self.put_in: list[tuple[Room, dict[Any, Any]]] = []  # what each room was seen with
        self.arrays = sorted((a for a in arrays if a.flags.writeable), key=lambda a: a.base is not None)
        for held in self.arrays:
            held.flags.writeable = False

    def check_of(self, thing: Any, path: str) -> Callable[[], None]:
        def check() -> None:
            if self.closed and threading.get_ident() == self.mine:
                self.used = self.used or refusal_of(thing, path)
                raise self.used

        return check

    def close(self, rooms: Iterable[Room]) -> None:
        """Puts the stand-ins in. What a room was seen with has them, too, as no change."""
        for room in rooms if self.instead else ():
            made = {key: self.replaced(value) for key, value in room.seen.items()}
            changed = [key for key, value in room.seen.items() if made[key] is not value]
            if not changed:
                continue
            self.put_in.append((room, room.seen))
            if isinstance(room, Set):
                room.write(made)
                made = {id(value): value for value in made.values()}
            else:
                for key in changed:
                    room.put(key, made[key])
            room.seen = made
        self.closed = True

    def replaced(self, value: Any, depth: int = 0) -> Any:
        """The stand-in for a value, or a tuple with stand-ins in it; else the value."""
        if id(value) in self.instead:
            return self.instead[id(value)]
        if not isinstance(value, tuple) or depth > 8:
            return value
        made = [self.replaced(inner, depth + 1) for inner in value]
        return value if all(a is b for a, b in zip(made, value, strict=True)) else tuple.__new__(type(value), made)

    def open(self) -> None:
        """The rooms are to be as before again: who compares and writes them back next does so."""
        self.closed = False
        for room, seen in self.put_in:
            room.seen = seen
        for held in self.arrays:
            held.flags.writeable = True

    def refusal_of_write(self, problem: Exception, place: str) -> Unsupported | None:
        """The refusal where an array that is read-only was written."""
        if not self.arrays or not isinstance(problem, ValueError) or "read-only" not in str(problem):
            return None
        return Unsupported(f"{place and place + ': '}an array of numpy is written, which a step would do once, while it is captured; a tensor in its "
                           f"place is written in each step (arrays of {bytes_text(sum(a.nbytes for a in self.arrays))} are read-only meanwhile)")

    def missed(self, thing: Any) -> bool:
        """Whether no room had it."""
        return not any(_holds(value, thing) for _, seen in self.put_in for value in seen.values())


def _holds(value: Any, thing: Any, depth: int = 0) -> bool:
    return value is thing or (isinstance(value, tuple) and depth <= 8 and any(_holds(inner, thing, depth + 1) for inner in value))
