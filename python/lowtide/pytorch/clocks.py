"""Clocks that loss_fn reads: a number that is another one in each step, and would be read once, while the step is captured.

Code reads clocks to say how long something took, and that is said once, as other words are. So a clock that the user's own code reads gives an
object in the place of its number while a step is captured, and

    sums, products and differences with Python's numbers   give such an object again
    texts                                                  are those of the number
    all else (an operand of a tensor op, a comparison, an index, int()) is refused by name, and so is what is kept behind loss_fn

Dates, and bytes that the system draws, are refused where they are asked for. Packages may read what they like. Tests: tests/python/test_torch_process.py.
"""

from __future__ import annotations

import contextlib
import datetime
import operator
import os
import random
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch.utils._pytree as pytree

from .this_thread import bound, exchanged, lent

WAY = (", which a step would do once, while it is captured; read it outside of loss_fn (around step(batch), for how long that takes), and give what a "
       "loss depends on in the batch, as a tensor")
_NUMBERS = [(time, name) for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time", "time_ns", "perf_counter_ns", "monotonic_ns",
                                      "process_time_ns", "thread_time_ns") if hasattr(time, name)]
_BYTES = [(os, "urandom"), (random, "_urandom")]
_KINDS = (int, float, bool)


class Reading(NamedTuple):
    """That of a clock. `refuse`: raises, with what is done with its number; `made`: what stands for that, and the line of the reading."""

    refuse: Callable[[str], Any]
    made: list[tuple[weakref.ref, str]]
    line: str


class Time:
    """Stands for a number of a clock, or one that is made of it."""

    __slots__ = ("_value", "_of", "__weakref__")

    def __init__(self, value: Any, of: Reading) -> None:
        self._value, self._of = value, of
        of.made.append((weakref.ref(self), of.line))

    def _refuse(self, used: str) -> Any:
        self._of.refuse(used)

    @property
    def __class__(self) -> type:  # what isinstance asks
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse("used")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return next(one for one in pytree.tree_leaves((args, kwargs)) if type(one) is Time)._refuse("an operand of a tensor op")

    def __repr__(self) -> str:
        return repr(self._value)

    def __format__(self, form: str) -> str:
        return format(self._value, form)

    def __round__(self, digits: int | None = None) -> Time:
        return Time(round(self._value, digits), self._of)


def _operation(function: Callable, swapped: bool = False) -> Callable:
    def operation(self: Time, *others: Any) -> Any:
        if not all(type(other) is Time or type(other) in _KINDS for other in others):
            return NotImplemented
        given = [one._value if type(one) is Time else one for one in ((*others, self) if swapped else (self, *others))]
        return Time(function(*given), self._of)

    return operation


def _refused(used: str) -> Callable:
    return lambda self, *_: self._refuse(used)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    setattr(Time, f"__{_name}__", _operation(getattr(operator, _name)))
    setattr(Time, f"__r{_name}__", _operation(getattr(operator, _name), swapped=True))
for _name in ("neg", "pos", "abs"):
    setattr(Time, f"__{_name}__", _operation(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "bool"):
    setattr(Time, f"__{_name}__", _refused("compared"))
for _name in ("int", "float", "complex", "index", "hash", "trunc", "floor", "ceil", "pow", "rpow", "divmod", "rdivmod", "reduce_ex"):
    setattr(Time, f"__{_name}__", _refused("used"))


class _Dates(type):
    """Of the stand-in of a class of datetime: what is no clock is the class's own."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        return cls.real(*args, **named)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, cls.real)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.real)


def _dates(real: type, asked: Callable[[str], None]) -> type:
    """A class in the place of one of datetime's. `asked`: refuses."""
    def clock(name: str) -> classmethod:
        def read(_: type, *args: Any, **named: Any) -> Any:
            asked(f"{real.__name__}.{name}")
            return getattr(real, name)(*args, **named)

        return classmethod(read)

    return _Dates(real.__name__, (), {"real": real, **{name: clock(name) for name in ("now", "utcnow", "today") if hasattr(real, name)}})


class _Module(types.ModuleType):
    """A module with some entries of its own, and those of another."""

    def __init__(self, real: types.ModuleType, own: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        vars(self).update(own, _real=real)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_real"], name)


@contextlib.contextmanager
def not_read(folders: Iterable[dict[str, Any]], line_that_asks: Callable[[], str | None], refuse: Callable[[str, str], Exception],
             is_packaged_file: Callable[[str], bool]) -> Iterator[None]:
    """Within, loss_fn runs. As process.as_before."""
    mine, made = threading.get_ident(), list[tuple[weakref.ref, str]]()

    def user_line(depth: int) -> str | None:
        """The line, if it is the user's own code that calls."""
        return None if is_packaged_file(sys._getframe(depth + 1).f_code.co_filename) else line_that_asks()

    def number(name: str) -> Callable:
        def used(how: str) -> Any:
            raise refuse(f"a clock's number (time.{name}) is {how}{WAY}", line_that_asks() or "")

        def called(real: Callable) -> Any:
            line = user_line(2)
            if line is None:
                return real()
            return Time(real(), Reading(used, made, line))

        return called

    def drawn(real: Callable, count: int) -> bytes:
        line = line_that_asks()
        if line:
            raise refuse("bytes are drawn from the system's random numbers (os.urandom), which would then stand for all steps; torch.rand draws in each", line)
        return real(count)

    def fields(real: Callable, *args: Any) -> Any:
        if not args:
            line = user_line(2)
            if line is not None:
                raise refuse(f"the time of day is asked for (time.{real.__name__}){WAY}", line)
        return real(*args)

    def dated(name: str) -> None:
        line = user_line(2) if threading.get_ident() == mine else None
        if line is not None:
            raise refuse(f"the date is asked for ({name}){WAY}", line)

    dates = {kind: _dates(getattr(datetime, kind), dated) for kind in ("datetime", "date")}
    stand_ins = {id(getattr(holder, name)): bound(getattr(holder, name), number(name)) for holder, name in _NUMBERS}
    stand_ins |= {id(getattr(datetime, kind)): stand_in for kind, stand_in in dates.items()}
    stand_ins[id(datetime)] = _Module(datetime, dates)
    stand_ins |= {id(real): bound(real, fields) for real in (time.localtime, time.gmtime)}
    with lent(folders, stand_ins), exchanged(*((holder, name, number(name)) for holder, name in _NUMBERS), *((holder, name, drawn) for holder, name in _BYTES),
                                             (time, "localtime", fields), (time, "gmtime", fields)):
        try:
            yield
        except RuntimeError as problem:
            if "infer dtype of Time" not in str(problem):
                raise
            raise refuse(f"a clock's number is an operand of a tensor op{WAY}", made[-1][1]) from None  # torch.tensor looks at types alone
    for line in [line for found, line in made if found() is not None][:1]:
        refuse(f"a clock's number is kept behind loss_fn, or given back{WAY}", line)
