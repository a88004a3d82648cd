"""All Python objects that can be reached from a model, a loss function and an optimizer, as rooms with entries.

A room is one place that can be written (rooms.py): an object's attributes, a dict, a list, a set, a deque, a closure's cell, the globals
that a function names, the data of a class, the inside of an object of C (insides.py). The walk goes breadth first over

    attributes (`__dict__` and `__slots__`) of any object, modules' dictionaries of parameters, buffers, parts and hooks among them,
    entries of containers, the tensors of TorchScript parts,
    of functions that no package has: cells, defaults, and globals under the names that their code has; also of the methods of classes
    that no package has, and of Python modules of the user's the entries under these names,
    what partials and bound methods are bound to, and tensors with their own attributes, hooks and gradients.

It calls no property, no `__getattr__` and no `__eq__` of the user's: attributes are taken out of the dictionaries and slots themselves.
Not walked into: packages' modules and classes, types of Python's library that hold threads and locks, entries of containers with
more than LARGE of them (data; the container itself is a room), and anything beyond MOST objects.
Tests: tests/python/test_torch_untouched.py.
"""

from __future__ import annotations

import collections
import contextvars
import dis
import enum
import functools
import gc
import os
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .barred import StandIn
from .insides import BARRED, READ_ONLY, Insides
from .made_names import IMPORTING, in_patterns, in_texts
from .rooms import (MISSING, Cell, ClassCode, ClassData, Dictionary, Globals, Local, Names, Place, Room, Scripted, Sequence, Set, Slots, State, Weak,  # noqa: F401
                    slots_of)

LARGE = 10_000  # entries of a container
MOST = 1_000_000  # objects

ATOMS = frozenset({int, float, bool, str, bytes, complex, type(None), type(...), type(NotImplemented), range, slice, torch.dtype,
                   torch.device, torch.Size, torch.layout, torch.memory_format, types.BuiltinFunctionType, types.CodeType,
                   types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
                   types.FrameType, types.TracebackType, property, StandIn})
_SYSTEM = frozenset("""lowtide _io _queue _thread _weakref asyncio concurrent contextvars ctypes datetime decimal fractions importlib inspect io
    logging mmap multiprocessing pathlib queue re select selectors signal socket sqlite3 ssl subprocess tempfile threading traceback
    unittest warnings weakref""".split())
SHOWING = frozenset({types.MappingProxyType, *(type(show(made())) for made in (dict, collections.OrderedDict) for show in (
    made.keys, made.values, made.items))})  # what they show is a dict that somebody else may hold
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of tensors
_WRITING = frozenset({"globals", "exec", "setattr", "delattr", "vars", "__dict__"}) | IMPORTING  # what may write globals by names that are made
_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")})


def is_packaged_file(file: str) -> bool:
    """Whether code in this file is a package's, Python's or ours."""
    return ("site-packages" in file or "dist-packages" in file or file.startswith((_HERE, *_LIBRARY))
            or file.startswith("<") and not file.startswith(("<stdin>", "<string>", "<ipython", "<cell", "<doctest")))


@functools.cache
def _is_packaged_module(name: str) -> bool:
    module = sys.modules.get(name)
    if name == "__main__" or module is None:
        return False
    own = vars(module) if isinstance(module, types.ModuleType) else {}  # a lazy one answers any name
    file = own.get("__file__")
    if file is None and own.get("__spec__") is None:  # made while the program runs, by the user or a package's C
        return "." in name and _is_packaged_module(name.partition(".")[0])
    return not isinstance(file, str) or is_packaged_file(file)


def is_packaged(thing: Any) -> bool:
    """Whether a function, a class or a Python module is a package's."""
    if isinstance(thing, types.FunctionType):
        return is_packaged_file(thing.__code__.co_filename)
    if isinstance(thing, types.ModuleType):
        return type(thing) is not types.ModuleType or _is_packaged_module(thing.__name__)  # the first: a namespace of PyTorch's ops
    return _is_packaged_module(thing.__module__) if isinstance(thing.__module__, str) else True


@functools.lru_cache(maxsize=10_000)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The globals and attributes that a code names, with the code in it."""
    names = {name for inner in _codes(code) for found in (inner.co_names, in_patterns(inner), in_texts(inner)) for name in found}
    return frozenset(names | words_of(code))


@functools.lru_cache(maxsize=10_000)
def names_loaded(code: types.CodeType) -> frozenset[str]:
    """The same without attributes that it only sets, as __init__ does."""
    stored = {step.argval for inner in _codes(code) for step in dis.get_instructions(inner) if step.opname in ("STORE_ATTR", "STORE_GLOBAL")}
    loaded = {step.argval for inner in _codes(code) for step in dis.get_instructions(inner) if step.opcode in dis.hasname
              and not step.opname.startswith("STORE_")}
    return names_of(code) - (stored - loaded)


@functools.lru_cache(maxsize=10_000)
def words_of(code: types.CodeType) -> frozenset[str]:
    """Names that a code has as words: those of getattr and hasattr among them."""
    words = (c for inner in _codes(code) for c in inner.co_consts if isinstance(c, str))
    return frozenset(word for word in words if word.isidentifier() and len(word) < 64)


@functools.lru_cache(maxsize=10_000)
def words_with_dots(code: types.CodeType) -> frozenset[str]:
    """Words that may be names of modules."""
    return frozenset(c for inner in _codes(code) for c in inner.co_consts if isinstance(c, str) and all(part.isidentifier() for part in c.split(".")))


@functools.lru_cache(maxsize=10_000)
def names_tried(code: types.CodeType) -> frozenset[str]:
    """The attributes and globals of code that catches exceptions: they may be looked for where they are not."""
    found = set()
    for inner in _codes(code):
        steps = list(dis.get_instructions(inner))
        named = collections.Counter(step.opname for step in steps)
        catches = any("EXC_MATCH" in name for name in named) or named["PUSH_EXC_INFO"] > named["WITH_EXCEPT_START"] or "suppress" in inner.co_names
        found |= {step.argval for step in steps if catches and step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME")}
    return frozenset(found)


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """A code and that of the functions in it."""
    found = [code]
    for inner in found:
        found += [c for c in inner.co_consts if isinstance(c, types.CodeType)]
    return found


@functools.lru_cache(maxsize=10_000)
def _dictionary_of(kind: type) -> Any:
    """The descriptor of `__dict__` that Python itself made for a class."""
    found = next((vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)), None)
    return found if isinstance(found, (types.GetSetDescriptorType, types.MemberDescriptorType)) else None


def attributes_of(thing: Any) -> dict[str, Any] | None:
    """The dictionary of an object's attributes itself; of one that has others in each thread, this thread's."""
    if issubclass(type(thing), threading.local):
        return threading.local.__getattribute__(thing, "__dict__")
    descriptor = _dictionary_of(type(thing))
    return None if descriptor is None else descriptor.__get__(thing)


class Reachable:
    """The rooms, in the order in which they are found, and the tensors with where they are: room, key, and places in the tuples that
    lie there."""

    def __init__(self, roots: Iterable[tuple[str, Any]]) -> None:
        self.rooms: list[Room] = []
        self.tensors: dict[int, tuple[torch.Tensor, Place | None]] = {}
        self.containers: dict[int, Place] = {}  # of dicts and lists, by id, where they lie
        self.insides = Insides()
        self.barred: list[tuple[Any, str]] = []  # iterators, queues, files
        self.read_only: list[Any] = []  # arrays too large to copy
        self.seen: set[int] = set()
        self.classes: set[type] = set()
        self.whole_globals: set[int] = set()
        self.alive: list[Any] = []  # that no id is used twice
        self.waiting: collections.deque[tuple[Any, str, Place | None]] = collections.deque()
        self.roots = dict(roots)
        for name, root in self.roots.items():
            self.later(root, name)
        while self.waiting and len(self.seen) < MOST:
            self.visit(*self.waiting.popleft())

    def later(self, thing: Any, path: str, place: Place | None = None) -> None:
        if type(thing) is types.BuiltinMethodType:  # of an object: `table.append`
            thing, place = thing.__self__, None
        if type(thing) not in ATOMS and id(thing) not in self.seen:
            self.seen.add(id(thing))
            self.waiting.append((thing, path, place))

    def add(self, room: Room, into: bool = True) -> None:
        self.rooms.append(room)
        if into and len(room.seen) <= LARGE:
            for key, value in room.seen.items():
                if type(value) not in ATOMS or type(value) is types.BuiltinMethodType:
                    self.later(value, room.named(key), Place(room, key))

    def rooted(self, place: Place) -> Place:
        """The same place by the attribute, cell or global that the container lies in, which may be put anew."""
        while (outer := self.containers.get(id(place.room.owner))) is not None:
            place = Place(outer.room, outer.key, (*outer.inside, place.key, *place.inside))
        return place

    def visit(self, thing: Any, path: str, place: Place | None) -> None:
        kind = type(thing)
        if place is not None and issubclass(kind, (dict, list, collections.deque)):
            self.containers[id(thing)] = place
        if issubclass(kind, torch.Tensor):
            self.tensor(thing, path, place)
        elif issubclass(kind, dict):
            self.add(Dictionary(thing, path))
            self.attributes(thing, path)
            for entry in thing:  # an optimizer's state is by parameter
                if isinstance(entry, torch.Tensor):
                    self.later(entry, f"{path}'s key")
        elif issubclass(kind, (list, collections.deque)):
            self.add(Sequence(thing, path))
            self.attributes(thing, path)
        elif issubclass(kind, (tuple, frozenset)):
            self.alive.append(thing)
            for k, entry in enumerate(thing if len(thing) <= LARGE else ()):
                self.later(entry, f"{path}[{k}]", place and place._replace(inside=(*place.inside, k)))
        elif issubclass(kind, set):
            self.add(Set(thing, path))
        elif kind is types.FunctionType:
            self.function(thing, path)
        elif kind is types.MethodType:
            self.later(thing.__self__, "self" if path == "loss_fn" else path)
            self.later(thing.__func__, path)
        elif issubclass(kind, functools.partial):
            for k, value in enumerate(thing.args):
                self.later(value, f"argument {k} of {path}")
            self.later(thing.keywords, f"{path}.keywords")
            self.later(thing.func, path)
        elif issubclass(kind, (types.ModuleType, type)):
            if issubclass(kind, type):
                self.class_of(thing)
        else:
            self.object(thing, kind, path)

    def tensor(self, tensor: torch.Tensor, path: str, place: Place | None) -> None:
        self.tensors[id(tensor)] = (tensor, place)
        attributes = attributes_of(tensor)
        if attributes is not None:
            self.add(Dictionary(attributes, path, of_object=True))
        if tensor.is_leaf and tensor.grad is not None:
            self.later(tensor.grad, f"{path}.grad")
        for folder in _HOOKS if tensor.is_leaf else ():
            for hook in (getattr(tensor, folder) or {}).values():
                self.later(hook, f"a hook of {path}")

    def attributes(self, thing: Any, path: str) -> None:
        found = attributes_of(thing)
        if found is not None:
            self.add(Dictionary(found, path, of_object=True))

    def object(self, thing: Any, kind: type, path: str) -> None:
        inside = self.insides.of(thing, path)
        if inside is not None:
            self.inside(thing, inside, path)
            if is_packaged(kind):
                return
        if issubclass(kind, _WEAK):
            self.add(Weak(attributes_of(thing)["data"], path))
        if kind in SHOWING:
            for shown in gc.get_referents(thing):
                self.later(shown, path)
        if _is_of_system(kind) or issubclass(kind, (enum.Enum, BaseException)):
            return
        if kind.__name__ == "OrderedDictWrapper" and kind.__module__ == "torch.jit._script":
            self.add(Scripted(thing, path))
            return
        found = attributes_of(thing)
        if issubclass(kind, threading.local):
            self.add(Local(thing, attributes_of, path))
        elif found is not None:
            self.add(Dictionary(found, path, of_object=True, of_package=kind.__module__.startswith(("torch._ops", "torch._library"))))
        if slots_of(kind):
            self.add(Slots(thing, path))
        self.class_of(kind)

    def inside(self, thing: Any, inside: Any, path: str) -> None:
        if inside is BARRED:
            self.barred.append((thing, path))
        elif inside is READ_ONLY:
            self.read_only.append(thing)
            if thing.dtype.hasobject and thing.size <= LARGE:
                for k, entry in enumerate(thing.flat):
                    self.later(entry, f"{path}[{k}]")
        else:
            self.add(inside, into=type(thing) is contextvars.ContextVar)

    def class_of(self, kind: type) -> None:
        """The data of a class and of those that it is made of, and what their methods name."""
        for base in kind.__mro__:
            if base in self.classes:
                continue
            self.classes.add(base)
            if base is object or is_packaged(base):
                continue
            if type(base) is not type:
                self.class_of(type(base))
            self.add(ClassData(base, base.__qualname__))
            for function in _functions_of(base):
                self.later(function, f"{base.__qualname__}.{function.__name__}")

    def function(self, function: types.FunctionType, path: str) -> None:
        self.alive.append(function)
        packaged = is_packaged(function)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if id(cell) not in self.seen:
                self.seen.add(id(cell))
                self.add(Cell(cell, name, of_package=packaged))
        for k, value in enumerate(function.__defaults__ or ()):
            self.later(value, f"default {k} of {function.__name__}")
        if function.__kwdefaults__:
            self.later(function.__kwdefaults__, f"defaults of {function.__name__}")
        if function.__dict__ or not packaged:
            self.add(Dictionary(function.__dict__, function.__name__, of_object=True))
        if packaged:
            return
        names = names_of(function.__code__)
        if names & {"environ", "putenv"}:
            self.later(os.environ, "os.environ")
        self.add(Names(function.__globals__, "", names))
        modules = {name: function.__globals__.get(name) for name in names} | dict(modules_named(function, names))
        for name, found in modules.items():
            if isinstance(found, types.ModuleType) and not is_packaged(found):
                self.add(Names(vars(found), name, names))
                self.globals_written(vars(found), name, names)
        self.globals_written(function.__globals__, "", names)

    def globals_written(self, owner: dict[str, Any], path: str, names: frozenset[str]) -> None:
        """All globals of a module, whatever their names, where code may write them by names that it makes."""
        if names & _WRITING and id(owner) not in self.whole_globals:
            self.whole_globals.add(id(owner))
            self.add(Globals(owner, path), into=False)


def modules_named(function: types.FunctionType, names: frozenset[str]) -> Iterator[tuple[str, types.ModuleType]]:
    """Modules of the user's that a function imports itself, or any of those that are there where it makes their names."""
    package = function.__globals__.get("__package__") or ""
    parents = ["", *(f"{'.'.join(package.split('.')[:k + 1])}." for k in range(package.count(".") + 1 if package else 0))]
    wanted = sorted(sys.modules) if names & IMPORTING else [parent + name for name in sorted(names) for parent in parents]
    for name in wanted:
        found = sys.modules.get(name)
        if type(found) is types.ModuleType and not is_packaged(found):
            yield name, found


def _is_of_system(kind: type) -> bool:
    """Whether its objects are walked past. What threads have apart and mocks note are plain attributes."""
    return kind.__module__.split(".")[0] in _SYSTEM and kind is not threading.local and kind.__module__ != "unittest.mock"


def _functions_of(kind: type) -> Iterator[types.FunctionType]:
    for value in list(vars(kind).values()):
        kind = type(value)
        found = value.fget if issubclass(kind, property) else value.__func__ if issubclass(kind, (staticmethod, classmethod)) else value
        if type(found) is types.FunctionType:
            yield found
