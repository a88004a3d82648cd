"""Python's own values that a captured step has taken in, and which of them have changed since.

A graph holds a Python number as it was: the weight of a loss that is annealed, a dropout's probability. So a plan
holds for the numbers that loss_fn and the modules read, and where one has changed the step is captured anew, with a
warning, as that takes long. What is read is told by the code: numbers, truth values and strings

    that loss_fn closes over, has as defaults or takes from its module, also in lists, tuples and dicts,
    of the objects among these, under the names that the code has for attributes,
    of modules, under the names that a method of their class (not __init__) reads;

and the same of the functions that loss_fn calls by these ways, unless a package has them. A number that the forward pass
itself changes (it counts its calls) is not held: in a planned step it stands still. Where Python's or numpy's random
numbers are drawn while the step is captured, it is refused: the plan would have drawn once for all steps.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

PLAIN = (int, float, bool, str)
MANY = 64  # entries of a container; what is longer is data


def _codes(function: types.FunctionType) -> list[types.CodeType]:
    """A function's code and that of the functions in it."""
    found = [function.__code__]
    for code in found:
        found += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return found


@functools.cache
def _names_read(kind: type) -> frozenset[str]:
    """Attributes that methods of a class of modules name."""
    names: set[str] = set()
    for base in kind.__mro__:
        if base in (torch.nn.Module, object):
            continue
        for name, method in vars(base).items():
            if isinstance(method, types.FunctionType) and name != "__init__":
                names |= {n for code in _codes(method) for n in code.co_names}
    return frozenset(names)


def _is_packaged(function: types.FunctionType) -> bool:
    file = function.__code__.co_filename
    return "site-packages" in file or "dist-packages" in file or file.startswith((sys.base_prefix, "<"))


def _values_of(value: Any, name: str, names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Plain values in what a function reads, with how it calls them; functions among them as they are."""
    if isinstance(value, PLAIN) or isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        yield name, value
    elif isinstance(value, (list, tuple)) and len(value) <= MANY:
        for k, entry in enumerate(value):
            if isinstance(entry, PLAIN):
                yield f"{name}[{k}]", entry
    elif isinstance(value, dict) and len(value) <= MANY:
        for key, entry in value.items():
            if isinstance(entry, PLAIN):
                yield f"{name}[{key!r}]", entry
    elif not isinstance(value, (torch.nn.Module, torch.Tensor, type, types.ModuleType)):
        for key, entry in getattr(value, "__dict__", {}).items():
            if key in names and isinstance(entry, PLAIN):
                yield f"{name}.{key}", entry


def _read_by(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function reads from around it, by name."""
    names = frozenset(n for code in _codes(function) for n in code.co_names)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that has no value yet
            yield from _values_of(cell.cell_contents, name, names)
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    for k, value in enumerate(defaults):
        yield from _values_of(value, f"default {k} of {function.__name__}", names)
    for name in names:
        if name in function.__globals__:
            yield from _values_of(function.__globals__[name], name, names)


def _of_function(start: Callable) -> Iterator[tuple[str, Any]]:
    waiting, seen = [start], set()
    while waiting:
        now: Any = waiting.pop()
        if id(now) in seen:
            continue
        seen.add(id(now))
        if isinstance(now, functools.partial):
            for key, value in [*enumerate(now.args), *now.keywords.items()]:
                yield from _values_of(value, f"argument {key}", frozenset())
            waiting.append(now.func)
            continue
        if isinstance(now, types.MethodType):
            names = frozenset(n for code in _codes(now.__func__) for n in code.co_names)
            yield from _values_of(now.__self__, "self", names)
            now = now.__func__
        if not isinstance(now, types.FunctionType) or _is_packaged(now):
            continue
        for name, value in _read_by(now):
            if isinstance(value, PLAIN):
                yield name, value
            else:
                waiting.append(value)


def numbers(model: torch.nn.Module, loss_fn: Callable) -> dict[str, Any]:
    """The plain values that the step reads now, by name."""
    found = dict(_of_function(loss_fn))
    for path, module in model.named_modules():
        names = _names_read(type(module))
        for key, value in vars(module).items():
            if isinstance(value, PLAIN) and key in names and key != "training":
                found[f"{path}.{key}" if path else key] = value
    return found


class Held:
    """The values that plans of a step hold for."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable) -> None:
        self.model, self.loss_fn = model, loss_fn
        self.own: set[str] = set()  # that capturing itself changes
        self.last: dict[str, Any] | None = None
        self.told: set[str] = set()

    def now(self) -> tuple:
        """A key: equal where no value has changed. Warns, once for each name, of one that has."""
        found = {name: value for name, value in numbers(self.model, self.loss_fn).items() if name not in self.own}
        before, self.last = self.last, found
        changed = [] if before is None else [n for n, v in found.items() if before.get(n) != v and n not in self.told]
        if changed:
            self.told |= set(changed)
            warnings.warn(f"lowtide: {', '.join(f'{n} is {found[n]!r} now' for n in changed)}: a plan holds for Python's values, so the step "
                          "is captured anew for each; a tensor in the place of a number needs no new plan", stacklevel=4)
        return tuple((name, type(value), value) for name, value in found.items())

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """What is changed within is the forward pass's own."""
        before = numbers(self.model, self.loss_fn)
        yield
        after = numbers(self.model, self.loss_fn)
        self.own |= {name for name, value in after.items() if before.get(name) != value}


class DrawnOnce(Exception):
    """Python's or numpy's random numbers were drawn while a step was captured."""


class Draws:
    """Whether Python's or numpy's random numbers are drawn after this was made."""

    def __init__(self) -> None:
        self.before, self.numpys = random.getstate()[1], self._numpys()
        self.place: str | None = None

    @staticmethod
    def _numpys() -> tuple:
        numpy = sys.modules.get("numpy")
        return numpy.random.get_state()[2:] if numpy is not None else ()

    def look(self, place: str) -> None:
        """Notes the first place behind a draw of Python's, by the position in its stream: this is asked at each op."""
        if self.place is None and random.getstate()[1][-1] != self.before[-1]:
            self.place = place

    def check(self) -> None:
        """Raises where one was drawn."""
        if self.place is None and (random.getstate()[1] != self.before or self._numpys() != self.numpys):
            self.place = ""
        if self.place is not None:
            raise DrawnOnce(f"{self.place and f'before {self.place!r} '}numbers are drawn from Python's or numpy's random "
                            "generator, which would then stand for all steps; torch.rand draws in each")
