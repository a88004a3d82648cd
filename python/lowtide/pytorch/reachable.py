"""All Python objects that can be reached from a model, a loss function and an optimizer, as rooms with entries.

A room is one place that can be written: an object's attributes, a dict, a list, a set, a deque, a closure's cell, the globals that
a function names, the data of a class. It can be read, compared and written back. The walk goes breadth first over

    attributes (`__dict__` and `__slots__`) of any object, modules' dictionaries of parameters, buffers, parts and hooks among them,
    entries of containers, the tensors of TorchScript parts,
    of functions that no package has: cells, defaults, and globals under the names that their code has; also of the methods of classes
    that no package has, and of Python modules of the user's the entries under these names,
    what partials and bound methods are bound to, and tensors with their own attributes and gradients.

It calls no property, no `__getattr__` and no `__eq__` of the user's: attributes are taken out of the dictionaries and slots themselves.
Not walked into: packages' modules and classes, types of Python's library that hold threads, files and locks, entries of containers with
more than LARGE of them (data; the container itself is a room), and anything beyond MOST objects.
Tests: tests/python/test_torch_untouched.py.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

LARGE = 10_000  # entries of a container
MOST = 1_000_000  # objects
MISSING = type("Missing", (), {"__repr__": lambda _: "nothing"})()

ATOMS = frozenset({int, float, bool, str, bytes, complex, type(None), type(...), type(NotImplemented), range, slice, torch.dtype,
                   torch.device, torch.Size, torch.layout, torch.memory_format, types.BuiltinFunctionType, types.CodeType,
                   types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
                   types.FrameType, types.TracebackType, property})
_OF_MODULES = ("_parameters", "_buffers", "_modules")  # dicts of a module whose entries are its attributes, in words
_SYSTEM = frozenset("""_io _queue _thread _weakref asyncio concurrent contextvars ctypes datetime decimal fractions importlib inspect io
    logging mmap multiprocessing pathlib queue re select selectors signal socket sqlite3 ssl subprocess tempfile threading traceback
    unittest warnings weakref""".split())
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")})


def is_packaged_file(file: str) -> bool:
    """Whether code in this file is a package's, Python's or ours."""
    return ("site-packages" in file or "dist-packages" in file or file.startswith((_HERE, *_LIBRARY))
            or file.startswith("<") and not file.startswith(("<stdin>", "<string>", "<ipython", "<cell", "<doctest")))


@functools.cache
def _is_packaged_module(name: str) -> bool:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name == "__main__" or module is None:
        return False
    return file is None or is_packaged_file(file)


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
    names = {name for inner in _codes(code) for name in inner.co_names}
    return frozenset(names | words_of(code))


@functools.lru_cache(maxsize=10_000)
def words_of(code: types.CodeType) -> frozenset[str]:
    """Names that a code has as words: those of getattr and hasattr among them."""
    words = (c for inner in _codes(code) for c in inner.co_consts if isinstance(c, str))
    return frozenset(word for word in words if word.isidentifier() and len(word) < 64)


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


@functools.lru_cache(maxsize=10_000)
def slots_of(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((name, slot) for base in kind.__mro__ if "__slots__" in vars(base)
                 for name, slot in vars(base).items() if isinstance(slot, types.MemberDescriptorType))


def attributes_of(thing: Any) -> dict[str, Any] | None:
    """The dictionary of an object's attributes itself."""
    descriptor = _dictionary_of(type(thing))
    return None if descriptor is None else descriptor.__get__(thing)


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
        self.kind = collections.OrderedDict if isinstance(owner, collections.OrderedDict) else dict
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


class Names(Dictionary):
    """The entries of a dict of globals under some names."""

    def __init__(self, owner: dict[str, Any], path: str, names: frozenset[str]) -> None:
        self.names = names
        super().__init__(owner, path, of_object=True)

    def read(self) -> dict[Any, Any]:
        return {name: self.owner[name] for name in sorted(self.names) if name in self.owner}

    def write(self, entries: dict[Any, Any]) -> None:
        for name in self.names:
            if name not in entries:
                self.owner.pop(name, None)
            elif self.owner.get(name, MISSING) is not entries[name]:
                self.owner[name] = entries[name]


class Sequence(Room):
    """A list or a deque. Its keys are places."""

    def read(self) -> dict[Any, Any]:
        return dict(enumerate(self.owner))

    def write(self, entries: dict[Any, Any]) -> None:
        self.owner.clear()
        self.owner.extend(entries.values())

    def get(self, key: Any) -> Any:
        return self.owner[key] if key < len(self.owner) else MISSING


class Set(Room):
    """Its entries are by identity, as nothing of the user's is called."""

    def read(self) -> dict[Any, Any]:
        return {id(entry): entry for entry in self.owner}

    def write(self, entries: dict[Any, Any]) -> None:
        self.owner.clear()
        self.owner.update(entries.values())


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


_ARRAY_BYTES = 1 << 20  # of an array that is noted with its contents
_ITERATORS = (types.GeneratorType, itertools.count, itertools.cycle, itertools.repeat, itertools.chain, itertools.islice, zip, map, filter,
              enumerate, reversed, type(iter([])), type(iter(())), type(iter({})), type(iter(set())), type(iter(range(0))))


def _progress(iterator: Any) -> Any:
    """How far an iterator is, as far as it can be told without a step of it."""
    if isinstance(iterator, types.GeneratorType):
        return iterator.gi_frame.f_lasti if iterator.gi_frame is not None else None
    if isinstance(iterator, itertools.count):
        return repr(iterator)
    hint = getattr(type(iterator), "__length_hint__", None)
    return hint(iterator) if hint is not None else None


def _state_of(thing: Any, path: str) -> Room | None:
    kind = type(thing)
    if kind is torch.Generator:
        return State(thing, path, lambda g: bytes(g.get_state().numpy()), lambda g, s: g.set_state(
            torch.frombuffer(bytearray(s), dtype=torch.uint8)))
    if kind.__module__ == "random" and hasattr(kind, "getstate"):
        return State(thing, path, lambda g: g.getstate(), lambda g, s: g.setstate(s))
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
        if thing.nbytes > _ARRAY_BYTES or thing.dtype.hasobject:
            return None
        return State(thing, path, lambda a: (a.shape, a.dtype, a.tobytes()), _refill)
    if kind.__module__.startswith("numpy.random") and kind.__name__ in ("Generator", "RandomState"):
        owner = thing.bit_generator if kind.__name__ == "Generator" else thing._bit_generator
        return State(owner, path, lambda g: repr(g.state), _rewind(owner.state))
    if kind is bytearray:
        return State(thing, path, bytes, lambda b, s: b.__setitem__(slice(None), s))
    if issubclass(kind, _ITERATORS):
        return State(thing, path, _progress, None)
    return None


def _refill(array: Any, state: tuple) -> None:
    import numpy  # noqa: PLC0415: there is an array of it
    array[...] = numpy.frombuffer(state[2], dtype=state[1]).reshape(state[0])


def _rewind(state: Any) -> Callable[[Any, Any], None]:
    return lambda generator, _: setattr(generator, "state", state)


class Reachable:
    """The rooms, in the order in which they are found, and the tensors with where they are: room, key, and places in the tuples that
    lie there."""

    def __init__(self, roots: Iterable[tuple[str, Any]]) -> None:
        self.rooms: list[Room] = []
        self.tensors: dict[int, tuple[torch.Tensor, Place | None]] = {}
        self.containers: dict[int, Place] = {}  # of dicts and lists, by id, where they lie
        self.iterators: list[Room] = []
        self.seen: set[int] = set()
        self.classes: set[type] = set()
        self.alive: list[Any] = []  # that no id is used twice
        self.waiting: collections.deque[tuple[Any, str, Place | None]] = collections.deque()
        self.roots = dict(roots)
        for name, root in self.roots.items():
            self.later(root, name)
        while self.waiting and len(self.seen) < MOST:
            self.visit(*self.waiting.popleft())

    def later(self, thing: Any, path: str, place: Place | None = None) -> None:
        if type(thing) not in ATOMS and id(thing) not in self.seen:
            self.seen.add(id(thing))
            self.waiting.append((thing, path, place))

    def add(self, room: Room, into: bool = True) -> None:
        self.rooms.append(room)
        if into and len(room.seen) <= LARGE:
            for key, value in room.seen.items():
                if type(value) not in ATOMS:
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
            for k, value in [*enumerate(thing.args), *thing.keywords.items()]:
                self.later(value, f"argument {k} of {path}")
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

    def attributes(self, thing: Any, path: str) -> None:
        found = attributes_of(thing)
        if found is not None:
            self.add(Dictionary(found, path, of_object=True))

    def object(self, thing: Any, kind: type, path: str) -> None:
        state = _state_of(thing, path)
        if state is not None:
            (self.iterators if isinstance(state, State) and state.give is None else self.rooms).append(state)
            return
        if kind.__module__.split(".")[0] in _SYSTEM or issubclass(kind, (enum.Enum, BaseException)):
            return
        if kind.__name__ == "OrderedDictWrapper" and kind.__module__ == "torch.jit._script":
            self.add(Scripted(thing, path))
            return
        found = attributes_of(thing)
        if found is not None:
            self.add(Dictionary(found, path, of_object=True, of_package=kind.__module__.startswith(("torch._ops", "torch._library"))))
        if slots_of(kind):
            self.add(Slots(thing, path))
        self.class_of(kind)

    def class_of(self, kind: type) -> None:
        """The data of a class and of those that it is made of, and what their methods name."""
        for base in kind.__mro__:
            if base in self.classes:
                continue
            self.classes.add(base)
            if base is object or is_packaged(base):
                continue
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
        self.add(Names(function.__globals__, "", names))
        for name in names:
            found = function.__globals__.get(name)
            if isinstance(found, types.ModuleType) and not is_packaged(found):
                self.add(Names(vars(found), name, names))


def _functions_of(kind: type) -> Iterator[types.FunctionType]:
    for value in list(vars(kind).values()):
        found = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(found, types.FunctionType):
            yield found
