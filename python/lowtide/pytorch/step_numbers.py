"""Numbers that only a step knows, while Python holds them: what stands for them in a trace, and where they may stay.

`.item()` and `.tolist()` of a tensor of the step give a SymInt, SymFloat or SymBool while the step is traced. Sums and products of these are nodes of
the graph. What of them is there behind the traced step becomes an output, a tensor of one, and behind each step Python's own number of it is put
where the code put it (carried.py), or into aux (trace.py). None of the three types is ever left with the user.

    a number of before    that the code adds to (`self.total += loss.item()`) is read in each step: a node of the graph stands for it, too (`Before`)
    a text                that is made of such a number is no output. It has an invisible mark in it while the step is traced, by which it is found
                          where it stays, and refused with the line that made it
    an object             that nobody can make again is looked into for all of these, and for tensors without contents

Tests: tests/python/test_torch_kept_numbers.py.
"""

from __future__ import annotations

import gc
import linecache
import os
import re
import sys
import types
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import Unsupported
from .externals import External, as_node
from .reachable import Place

KINDS: dict[type, tuple[type, torch.dtype]] = {
    torch.SymInt: (int, torch.int64), torch.SymFloat: (float, torch.float64), torch.SymBool: (bool, torch.bool)}
_TYPES = {int: torch.int64, float: torch.float64}
WAY = "the number itself may be kept (.item()), or given back, `return loss, aux`, and written down behind step(batch)"


def is_symbol(leaf: Any) -> bool:
    return type(leaf) in KINDS


def as_tensor(leaf: Any) -> torch.Tensor:
    """A number of the step as a tensor of one, an op of the graph."""
    return torch.scalar_tensor(leaf, dtype=KINDS[type(leaf)][1])


def stand_in(kind: type, before: Any) -> Any:
    """A number as the step may leave it, another one than was there before, and none with which a sum or product is what it was."""
    if kind is bool:
        return before is not True
    first, second = (1.6180339887498949, 2.718281828459045) if kind is float else (5, 7)
    return second if before == first else first


class Before(External):
    """A number that lies somewhere before the step, for which the graph has a tensor of one."""

    def now(self) -> torch.Tensor:
        if self.alias is None:
            self.alias = torch.zeros((), dtype=self.tensor.dtype)
        return self.alias.fill_(self.place.now())


def put_before(places: list[Place], found: list[External], fake_mode: FakeTensorMode) -> None:
    """Puts nodes of the graph in the place of numbers. The caller's note puts the numbers back."""
    for place in places:
        number = place.room.get(place.key)
        if type(number) not in _TYPES:
            continue
        with _disable_current_modes():
            real = torch.tensor(number, dtype=_TYPES[type(number)])
        target = f"_number{len(found)}"
        fake = as_node(real, target, fake_mode)
        found.append(Before(real, fake, target, number, place))
        place.room.put(place.key, fake.item())


# ---- texts

MARK = "\u2063"  # seen by nobody
_DIGITS = "\u200b\u200c"
_MARKED = re.compile(f"{MARK}(?:([{_DIGITS}]+){MARK})?")
_FOLDER = os.path.dirname(torch.__file__) + os.sep
_SAYING = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *(
    _FOLDER + name for name in ("_tensor.py", "__init__.py", os.path.join("nn", "parameter.py"))))


class Texts:
    """The lines of the user's code that make texts of what only a step knows."""

    def __init__(self) -> None:
        self.places: list[tuple[str, int]] = []

    def marked(self, text: str) -> str:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_SAYING):
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(_FOLDER):
            return text  # PyTorch writes its own code
        self.places.append((frame.f_code.co_filename, frame.f_lineno))
        digits = "".join(_DIGITS[int(digit)] for digit in f"{len(self.places) - 1:b}")
        return f"{text}{MARK}{digits}{MARK}"

    def exchanges(self) -> list[tuple[Any, str, Callable]]:
        """As this_thread.exchanged takes them."""
        def of_number(_: Callable, __: Any, *___: Any) -> str:
            return self.marked("?")

        def said(before: Callable, number: Any) -> str:
            text = self.marked("?")
            return before(number) if text == "?" else text

        def of_tensor(before: Callable, tensor: Any, **named: Any) -> str:
            text = before(tensor, **named)
            return self.marked(text) if isinstance(tensor, FakeTensor) else text

        return [(torch.Tensor, "__repr__", of_tensor), *((kind, "__format__", of_number) for kind in KINDS),
                *((kind, name, said) for kind in KINDS for name in ("__str__", "__repr__"))]

    def refuse(self, value: Any, name: str) -> None:
        """Raises Unsupported where a value is a text made of what only a step knows."""
        text = value.decode(errors="replace") if type(value) is bytes else value
        found = _MARKED.search(text) if type(text) is str else None
        if found is None:
            return
        number = int("".join(str(_DIGITS.index(digit)) for digit in found[1]), 2) if found[1] else -1
        file, line = self.places[number] if number < len(self.places) else self.places[-1]
        raise Unsupported(f"{file}:{line}: {linecache.getline(file, line).strip()}: the step cannot be captured: {name} is a text made of a number or "
                          f"tensor that only a step knows, and no planned step writes it anew; {WAY}")


def unmarked(text: str) -> str:
    return _MARKED.sub("", text)


# ---- objects

MOST_INSIDE = 100_000  # objects that are looked into
_NOT_INTO = (type, types.ModuleType, types.CodeType, torch.Tensor)


def refuse_inside(thing: Any, name: str, texts: Texts, way: str, known: Container[int] = ()) -> None:
    """Raises Unsupported where an object holds something of the step. `known`: ids of what was there before the step, which is looked at elsewhere."""
    for value in inside(thing, known):
        if type(value) is FakeTensor:
            raise Unsupported(f"{name} is a {type(thing).__name__} that holds tensors of the step, {way}")
        if is_symbol(value):
            raise Unsupported(f"{name} is a {type(thing).__name__} that holds numbers of the step, {way}")
        texts.refuse(value, f"a text in {name}")


def inside(thing: Any, known: Container[int] = ()) -> Iterator[Any]:
    """An object and all that it holds, as the garbage collector sees it: also what exceptions, generators, iterators and functions hold, to any depth."""
    waiting, seen = [thing], {id(thing)}
    while waiting and len(seen) < MOST_INSIDE:
        one = waiting.pop()
        yield one
        if issubclass(type(one), _NOT_INTO):
            continue
        held = [one.__closure__, one.__defaults__, one.__kwdefaults__, one.__dict__] if type(one) is types.FunctionType else gc.get_referents(one)
        if type(one).__module__ == "numpy" and getattr(getattr(one, "dtype", None), "hasobject", False):
            held += one.flat
        for value in held:
            if id(value) not in seen and id(value) not in known:
                seen.add(id(value))
                waiting.append(value)
