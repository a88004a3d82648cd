"""Numbers that the forward pass moves from step to step: what the code asks of them while a step is traced, and what it makes of them.

A counter (`self.calls += 1`) may matter later: `if self.calls > 1000`. So a step that moves numbers is traced once more with objects in
their place that note what is done with them (an interpreter of one path, as in concolic testing):

    arithmetic with Python's numbers   gives such an object again, which knows its expression
    comparisons, truth                 give what the number gives, and the outcome is noted: the plan holds where each comes out the same
    all else (an operand of a tensor   gives the number itself, which is noted: the plan holds where the expression has that value
    op, an index, a key, a text)

The object is no int for C, so nothing reads it past these. The traced path depends on nothing else of the numbers, hence the plan serves each
state in which all that was noted comes out as it did, and what lies in the entry behind the step is the expression's value then.
Lists that grow have a copy in their place that notes whether it was used for anything but getting longer.
Tests: tests/python/test_torch_moving.py.
"""

from __future__ import annotations

import collections
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch.overrides import TorchFunctionMode

from .reachable import Place, Room

NUMBERS = (int, float)
LARGEST = 100  # ops of an expression
_CONSTANTS = (int, float, bool, str, bytes, complex, type(None))


class Of(NamedTuple):
    """A number: the place of it and which leaf of the value that lies there, as tuples have several."""

    room: Room
    key: Any
    leaf: int

    def now(self) -> Any:
        leaves = _leaves(self.room.get(self.key))
        return leaves[self.leaf] if self.leaf < len(leaves) else None


class Constant(NamedTuple):
    """An operand that is no expression."""

    value: Any


class Root(NamedTuple):
    """The number of this place in `Record.roots`."""

    number: int


class Op(NamedTuple):
    function: Callable
    operands: tuple[Any, ...]
    size: int


class Asked(NamedTuple):
    """What the code was told: that of an expression, by a function of the two."""

    of: Any
    answer: Any
    exact: bool  # the number itself was taken

    def holds(self, numbers: list[Any]) -> bool:
        try:
            now = evaluate(self.of, numbers)
        except ArithmeticError:
            return False
        return type(now) is type(self.answer) and (now == self.answer or now != now and self.answer != self.answer)


def evaluate(expression: Any, numbers: list[Any]) -> Any:
    """Raises ArithmeticError, as the numbers do. Of at most LARGEST ops."""
    if isinstance(expression, Root):
        return numbers[expression.number]
    if isinstance(expression, Constant):
        return expression.value
    return expression.function(*(evaluate(operand, numbers) for operand in expression.operands))


class Record:
    """What one trace does with the numbers."""

    def __init__(self, roots: list[Of]) -> None:
        self.roots = roots
        self.before = [root.now() for root in roots]
        self.asked: dict[Asked, None] = {}

    def note(self, of: Any, answer: Any, exact: bool) -> Any:
        if not isinstance(of, Constant):
            self.asked[Asked(of, answer, exact)] = None
        return answer

    def places(self) -> list[tuple[Room, Any]]:
        return list({(id(root.room.owner), root.key): (root.room, root.key) for root in self.roots}.values())

    def enter(self) -> None:
        """Puts objects in the place of the numbers, for one trace."""
        self.asked.clear()
        for room, key in self.places():
            leaves, tree = pytree.tree_flatten(room.get(key))
            for number, root in enumerate(self.roots):
                if root.room is room and root.key == key:
                    leaves[root.leaf] = Number(self, leaves[root.leaf], Root(number))
            room.put(key, pytree.tree_unflatten(leaves, tree))

    def numbers(self) -> list[Any]:
        return [root.now() for root in self.roots]

    def hold(self, numbers: list[Any]) -> bool:
        return all(type(now) is type(before) for now, before in zip(numbers, self.before, strict=True)) and all(
            [asked.holds(numbers) for asked in self.asked])

    def moves_always(self, states: list[list[Any]]) -> Of | None:
        """The first number of which something was taken that is another in each of these states: no plan would serve two steps."""
        for asked in self.asked:
            if not asked.exact:
                continue
            try:
                seen = [evaluate(asked.of, numbers) for numbers in states]
            except ArithmeticError:
                continue
            if all(a != b for a, b in zip(seen, seen[1:], strict=False)):
                return self.roots[next(_roots(asked.of))]
        return None


def _leaves(value: Any) -> list[Any]:
    return [value] if type(value) in NUMBERS else pytree.tree_leaves(value)


def numbers_in(room: Room, key: Any, value: Any) -> list[Of]:
    return [Of(room, key, k) for k, leaf in enumerate(_leaves(value)) if type(leaf) in NUMBERS]


def _roots(expression: Any) -> Iterator[int]:
    waiting = [expression]
    while waiting:
        found = waiting.pop(0)
        if isinstance(found, Root):
            yield found.number
        elif isinstance(found, Op):
            waiting += found.operands


class Number:
    """Stands for a number while a step is traced."""

    __slots__ = ("_record", "_value", "_of")

    def __init__(self, record: Record, value: Any, of: Any) -> None:
        self._record, self._value, self._of = record, value, of

    @property
    def __class__(self) -> type:  # what isinstance asks
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        return getattr(taken(self), name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        args, kwargs = stripped((args, kwargs or {}))
        return func(*args, **kwargs)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, _: Any) -> Number:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return taken(self).__reduce_ex__(protocol)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Number.__slots__:
            raise AttributeError(f"'{type(self._value).__name__}' object has no attribute '{name}'")
        object.__setattr__(self, name, value)


def is_number(value: Any) -> bool:
    return type(value) is Number


def expression_of(value: Any) -> Any:
    return value._of if type(value) is Number else Constant(value)


def value_of(value: Number) -> Any:
    """As it is behind the traced code; nothing is noted."""
    return value._value


def taken(value: Any) -> Any:
    """The number itself: the plan holds for it."""
    return value._record.note(value._of, value._value, True) if type(value) is Number else value


def stripped(tree: Any) -> Any:
    """The same with each number itself in it."""
    return pytree.tree_map(taken, tree) if any(map(is_number, pytree.tree_leaves(tree))) else tree


def _operation(function: Callable, swapped: bool = False) -> Callable:
    def operation(self: Number, *others: Any) -> Any:
        given = (*others, self) if swapped else (self, *others)
        if not all(type(other) is Number or type(other) in (int, float, bool) for other in others):
            return function(*map(taken, given))
        value = function(*(one._value if type(one) is Number else one for one in given))
        operands = tuple(map(expression_of, given))
        size = 1 + sum(operand.size for operand in operands if isinstance(operand, Op))
        if type(value) not in NUMBERS or size > LARGEST:
            return function(*map(taken, given))
        return Number(self._record, value, Op(function, operands, size))

    return operation


def _comparison(function: Callable) -> Callable:
    def comparison(self: Number, other: Any) -> Any:
        if type(other) is not Number and type(other) not in _CONSTANTS:
            return function(taken(self), other)
        answer = function(self._value, other._value if type(other) is Number else other)
        return self._record.note(Op(function, (self._of, expression_of(other)), 0), answer, False)

    return comparison


def _exact(name: str) -> Callable:
    return lambda self, *args: getattr(taken(self), name)(*args)


_BINARY = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv,
           "mod": operator.mod, "pow": operator.pow, "lshift": operator.lshift, "rshift": operator.rshift, "and": operator.and_,
           "or": operator.or_, "xor": operator.xor}
for _name, _function in _BINARY.items():
    setattr(Number, f"__{_name}__", _operation(_function))
    setattr(Number, f"__r{_name}__", _operation(_function, swapped=True))
for _name, _function in {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs, "invert": operator.invert, "round": round,
                         "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil}.items():
    setattr(Number, f"__{_name}__", _operation(_function))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))
for _name in ("int", "float", "complex", "index", "hash", "str", "repr", "format", "divmod", "rdivmod", "sizeof"):
    setattr(Number, f"__{_name}__", _exact(f"__{_name}__"))
Number.__bool__ = lambda self: self._record.note(Op(operator.truth, (self._of,), 0), bool(self._value), False)  # type: ignore[attr-defined]


class Taken(TorchFunctionMode):
    """PyTorch's functions are given numbers themselves in lists, too, and lists that are watched are used by them."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        for leaf in pytree.tree_leaves((args, kwargs)):
            if type(leaf) in (WatchedList, WatchedDeque):
                leaf.look()
        args, kwargs = stripped((args, kwargs or {}))
        return func(*args, **kwargs)


# ---- lists that grow


def _watched(kind: type) -> type:
    def looking(name: str) -> Callable:
        def method(self: Any, *args: Any, **named: Any) -> Any:
            self.look()
            return getattr(kind, name)(self, *args, **named)

        return method

    def longer(name: str) -> Callable:
        def method(self: Any, values: Any) -> Any:
            values = [values] if name == "append" else list(values)
            self.added += values
            return getattr(kind, name)(self, values[0] if name == "append" else values)

        return method

    used = [name for name in dir(kind) if callable(getattr(kind, name)) and name not in dir(object) and name not in _LONGER]
    used += ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__repr__", "__str__", "__format__", "__reduce_ex__"]
    methods = {name: looking(name) for name in used} | {name: longer(name) for name in _LONGER}
    return type(f"Watched{kind.__name__.capitalize()}", (kind,), methods)


_LONGER = ("append", "extend", "__iadd__")
WatchedList, WatchedDeque = _watched(list), _watched(collections.deque)


class Watch:
    """Copies in the places of lists while a step is traced. `used`: ids of lists that the code read something off, or that have no place."""

    def __init__(self, lists: list[tuple[Any, Place | None]]) -> None:
        self.lists = lists
        self.copies: list[tuple[Any, Any]] = []  # of each list that is watched, and what is in its place
        self.used = {id(owner) for owner, place in lists if place is None or place.inside}

    def enter(self) -> None:
        for owner, place in self.lists:
            if id(owner) not in self.used:
                made = WatchedList(owner) if isinstance(owner, list) else WatchedDeque(owner, owner.maxlen)
                made.look, made.added = lambda of=id(owner): self.used.add(of), []
                self.copies.append((owner, made))
                place.room.put(place.key, made)

    def in_the_end(self) -> set[int]:
        """`used`, and lists that are otherwise longer than by methods of theirs: functions of C (`heapq.heappush`, `list.insert(self.kept, 0, x)`)
        write past these."""
        for owner, made in self.copies:
            kind = list if isinstance(owner, list) else collections.deque
            expected = [*owner, *made.added]
            expected = expected if kind is list or owner.maxlen is None else expected[-owner.maxlen:] if owner.maxlen else []
            now = list(kind.__iter__(made))
            if len(now) != len(expected) or not all(map(operator.is_, now, expected)):
                self.used.add(id(owner))
        return self.used


class Outcomes:
    """What a plan asks of numbers before each step, as Kind (guards.py) asks it of a place."""

    number = None

    def __init__(self, record: Record) -> None:
        self.record = record

    @property
    def place(self) -> Place:
        """Of a number of which something came out otherwise."""
        numbers = self.record.numbers()
        failed = next((asked for asked in self.record.asked if not asked.holds(numbers)), None)
        root = self.record.roots[next(_roots(failed.of), 0) if failed is not None else 0]
        return Place(root.room, root.key)

    @property
    def held(self) -> Any:
        return self.record.before[0] if any(asked.exact for asked in self.record.asked) else OTHERWISE

    def holds(self) -> bool:
        return self.record.hold(self.record.numbers())


OTHERWISE = type("Otherwise", (), {"__repr__": lambda _: "otherwise"})()
