"""What a plan holds for beside its batch: Python's own values that the captured code reads, as a flat list that is compared in each step.

A graph holds a Python number as it was: the weight of a loss that is annealed, a dropout's probability. What is read is told by the
code. A walk begins at loss_fn and collects the code that it can come to and the names in it; of every object that code can come to

    attributes under these names (of modules and other objects of packages: under the names that methods of their class have),
    entries of lists, tuples, dicts and sets with at most MANY of them, and of those with at most LARGE that have nothing but plain values
    in them (what is longer is data: as a tensor it is read in each step),
    methods, properties and hooks under these names, also of metaclasses; those that nobody names because Python or PyTorch calls them
    (operators, a named class's __init__, forward, the methods of an autograd.Function, what a package's base class calls of its own),
    hooks of all modules, on modules and on tensors, and what lies on a tensor as an attribute,
    what objects of C hold: numpy's and other arrays of at most ARRAY bytes, context variables, and the environment,
    what was read under names that were made when the step was captured, or may be (made_names.py),

and so to any depth: configs of objects, methods of closed-over objects, losses that are modules. All of it that is no tensor is held, by
identity, or equality of plain values; of a tensor that it is one, as its contents are read in each step (externals.py).

In each step the list is compared by three loops that Python runs in C: some microseconds for a hundred modules. Only where an entry is
another object is it looked at, and named in the warning. Tests: tests/python/test_torch_stale_values.py,
test_torch_stale_called.py, test_torch_stale_names.py, test_torch_numbers.py.
"""

from __future__ import annotations

import abc
import builtins
import collections
import contextvars
import functools
import itertools
import operator
import os
import sys
import types
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from .externals import geometry_of
from .called_names import MAKING, UNREAD, called_by_itself, methods_of, names_read
from .held_whole import BARE_NAMESPACES, CodeOf, Inside, KindOf, Length, Members, Order, Value, Whole, bytes_in, contents_of, names_in, registered_at
from .held_places import MANY, Kind
from .hooks import OF_ALL_MODULES
from .insides import environment, is_buffer
from .made_names import POSITIONS, Read, in_format, walks_over_attributes
from .opened import stated
from .process import read_by
from .reachable import (ATOMS, MISSING, Cell, ClassCode, ClassData, Dictionary, Names, Room, Sequence, Slots, attributes_of,
                        is_packaged, modules_named, names_loaded, names_of, names_tried, slots_of, words_of, words_with_dots)
from .untouched import PLAIN, same

LARGE = 10_000  # of one with nothing but plain values
READ = "what was read off it"  # in the place of a tensor's numbers
ARRAY = 1 << 20  # bytes of an array
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_CALLED_BEHIND = (types.FunctionType, types.MethodType, functools.partial, dict)
_CONTAINERS = (dict, list, tuple, collections.deque, set, frozenset)


class Entry(NamedTuple):
    """One value that the plan holds for."""

    room: Room
    key: Any
    value: Any

    @property
    def name(self) -> str:
        return self.room.named(self.key)


class Turned(Entry):
    """One that the step itself gives another value in each step."""


def _gradient(tensor: torch.Tensor) -> Any:
    """Which one a tensor has, as its contents are read in each step."""
    return id(tensor.grad) if tensor.grad is not None else None


_version = operator.attrgetter("_version")


class Walk:
    """The entries that the code reads. Objects are looked at again when more names are known."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable, read: Read | None = None) -> None:
        self.noted = read or Read()
        self.entries: dict[tuple[int, Any], Entry] = {}
        self.methods: dict[tuple[int, str], Entry] = {}
        self.names: set[str] = set(self.noted.names)
        self.words: set[str] = set()  # names that the code has as words, which may be looked for where they are not
        self.tried: set[str] = set()  # names that code looks for and catches that they are not there
        self.whole = set(map(id, self.noted.whole))  # objects of which all attributes are held
        self.walking = False  # any function of the user's, but methods, may read attributes that it does not name
        self.unseen: dict[str, int] = {}  # arrays that are too large to compare, with their bytes
        self.code: set[types.CodeType] = set()
        self.objects: dict[int, tuple[Any, str, frozenset[str]]] = {}
        self.rooms: dict[int, Room] = {}
        self.waiting = collections.deque([(model, "", frozenset()), (loss_fn, "loss_fn", frozenset())])
        self.waiting += [(builtins, "builtins", frozenset()), *((thing, type(thing).__name__, frozenset()) for thing in self.noted.whole)]
        self.hooks_of_all_modules()
        self.made_when_run()
        known = -1
        while known < len(self.names):
            known = len(self.names)
            self.waiting += list(self.objects.values())
            self.objects = {}
            while self.waiting:
                self.visit(*self.waiting.popleft())

        for (path, only_kind), seen in self.noted.paths.asked.items():
            room = Inside(path, f"what lies at '{path}'", functools.partial(stated, only_kind=only_kind))
            self.entries[id(room), ""] = Entry(room, "", seen)
        for name in filter(functools.partial(hasattr, torch.Tensor), self.names):
            self.method(torch.Tensor, name, vars(torch.Tensor).get(name, MISSING))
        if self.names & {"environ", "getenv"}:
            self.inside(os.environ, "os.environ", environment)
        for setting in read_by(self.names):
            self.inside(setting, setting.words, type(setting).now)

    # ---- what is found

    def made_when_run(self) -> None:
        """What was noted while the step was captured."""
        for folder, name in self.noted.of_globals:
            room = self.room(lambda folder=folder: Names(folder, "", frozenset()), folder)
            self.hold(room, name, folder.get(name, MISSING), frozenset())
        for thing, name in self.noted.missed.values():
            attributes = vars(thing) if issubclass(type(thing), types.ModuleType) else attributes_of(thing)
            if issubclass(type(thing), type):
                self.entries[id(thing), name] = Entry(ClassData(thing, thing.__qualname__), name, MISSING)
            elif attributes is not None and name not in attributes:
                room = self.room(lambda: Dictionary(attributes, type(thing).__name__, of_object=True), attributes)
                self.entries[id(attributes), name] = Entry(room, name, MISSING)

    def hooks_of_all_modules(self) -> None:
        for folder in OF_ALL_MODULES:
            hooks, path = getattr(torch.nn.modules.module, folder), f"torch.nn.modules.module.{folder}"
            room = self.room(lambda hooks=hooks, path=path: Dictionary(hooks, path), hooks)
            for key, hook in hooks.items():
                self.hold(room, key, hook, frozenset())
            self.length(hooks, path)

    def inside(self, thing: Any, path: str, take: Callable[[Any], Any], what: Any = Inside) -> None:
        """What a function takes out of an object of C, compared by its equality. `what`: of several that are taken out of it."""
        room = Inside(thing, path, take)
        self.entries[id(thing), what] = Entry(room, "", room.seen[""])

    def room(self, made: Callable[[], Room], owner: Any) -> Room:
        found = self.rooms.get(id(owner))
        if found is None:
            found = self.rooms[id(owner)] = made()
        return found

    def hold(self, room: Room, key: Any, value: Any, names: frozenset[str]) -> None:
        self.entries[id(room.owner), key] = Entry(room, key, value)
        if type(value) is types.BuiltinMethodType:  # of an object: `table.get`
            value = value.__self__
        if type(value) is str:
            self.names.update(in_format(value))
        if type(value) not in ATOMS:
            self.waiting.append((value, room.named(key), names))

    def visit(self, thing: Any, path: str, names: frozenset[str]) -> None:
        kind = type(thing)
        if kind in ATOMS or str(kind.__module__).startswith("lowtide."):  # a step that the loss's owner holds
            return
        before = self.objects.get(id(thing))
        if before is not None and names <= before[2]:
            return
        names = names if before is None else names | before[2]
        self.objects[id(thing)] = (thing, path, names)
        if issubclass(kind, torch.Tensor):
            self.tensor(thing, kind, path, names)
        elif kind is types.FunctionType:
            self.function(thing, path)
        elif kind is types.MethodType:
            self.later(thing.__self__, "self" if path == "loss_fn" else path, names)
            self.later(thing.__func__, path, names)
        elif issubclass(kind, functools.partial):
            for k, value in enumerate(thing.args):
                self.later(value, f"argument {k}", names)
            self.later(thing.keywords, f"{path}.keywords", names)
            self.later(thing.func, path, names)
        elif issubclass(kind, types.ModuleType):
            self.python_module(thing, path)
        elif kind is contextvars.ContextVar:
            self.inside(thing, path, lambda variable: Value(variable.get(MISSING)))
            self.later(thing.get(None), path, names)
        elif any(base.__module__ == "numpy" and base.__name__ == "ndarray" for base in kind.__mro__):
            if thing.nbytes > ARRAY:
                self.unseen[path] = thing.nbytes
            elif thing.dtype.hasobject:
                self.inside(thing, path, lambda array: tuple(map(id, array.flat)))
                self.inner(thing.flat, f"an entry of {path}", names)
            else:
                self.inside(thing, path, lambda array: (array.shape, str(array.dtype), array.tobytes()))
        elif is_buffer(kind):
            size = bytes_in(thing)
            if size is not None and size > ARRAY:
                self.unseen[path] = size
            else:
                self.inside(thing, path, contents_of)
        elif (shown := names_in(thing, kind)) is not None:
            self.names |= shown.names
            for inner in shown.things:
                self.later(inner, path, names)
        elif thing is os.environ:
            self.names.add("environ")
        elif issubclass(kind, BaseException):
            self.inside(thing, path, lambda problem: tuple(map(id, problem.args)))
            self.inner(thing.args, f"{path}.args", names)
        elif issubclass(kind, type):
            self.class_data(thing, names, called=True)
        else:
            self.object(thing, kind, path, names)

    def later(self, thing: Any, path: str, names: frozenset[str]) -> None:
        self.waiting.append((thing, path, names))

    # ---- code

    def function(self, function: types.FunctionType, path: str) -> None:
        if is_packaged(function):
            self.behind(function, path)
            return
        self.read(function.__code__)
        names = names_of(function.__code__)
        of_class = "." in function.__qualname__ and not function.__qualname__.rpartition(".")[0].endswith("<locals>")
        self.walking |= not of_class and walks_over_attributes(names, self.noted.blind)
        for name, module in modules_named(function, names):
            self.hold(self.room(lambda: Names(sys.modules, "sys.modules", frozenset()), sys.modules), name, module, frozenset())
        if "modules" in names:
            for name in words_with_dots(function.__code__):
                self.entries[id(sys.modules), name] = Entry(self.room(lambda: Names(sys.modules, "sys.modules", frozenset()), sys.modules), name,
                                                            sys.modules.get(name, MISSING))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            room = self.room(lambda cell=cell, name=name: Cell(cell, name), cell)
            for key, value in room.read().items():
                if name == "__class__" and isinstance(value, type):  # where super() is called, which makes no object
                    self.class_data(value, frozenset())
                else:
                    self.hold(room, key, value, frozenset())
        self.entries[id(function), CodeOf] = Entry(CodeOf(function), "", CodeOf.seen_of(function))
        for k, value in enumerate(function.__defaults__ or ()):
            self.later(value, f"default {k} of {function.__name__}", frozenset())
        for folder, named in ((function.__kwdefaults__ or {}, True), (function.__dict__, False)):
            room = self.room(lambda folder=folder: Dictionary(folder, path or function.__name__, of_object=True), folder)
            for name in [*folder] if named else (self.names & folder.keys()) | ({"__wrapped__"} & folder.keys()):
                self.hold(room, name, folder[name], frozenset())
        room = self.room(lambda: Names(function.__globals__, "", frozenset()), function.__globals__)
        for name in names:
            if name in function.__globals__:
                self.hold(room, name, function.__globals__[name], frozenset())
        modules = self.room(lambda: Names(sys.modules, "sys.modules", frozenset()), sys.modules)
        for name in names_tried(function.__code__) - function.__globals__.keys() - vars(builtins).keys():
            self.entries[id(function.__globals__), name] = Entry(room, name, MISSING)
            if name not in sys.modules:
                self.entries[id(sys.modules), name] = Entry(modules, name, MISSING)

    def behind(self, function: types.FunctionType, path: str) -> None:
        """The user's functions that a package's function calls, as those of decorators do (contextlib.contextmanager, torch.no_grad(), singledispatch)."""
        for cell in function.__closure__ or ():
            value = Cell(cell, "").read().get("", MISSING)
            if isinstance(value, _CALLED_BEHIND) or not is_packaged(type(value)):
                self.later(value, path, frozenset())

    def read(self, code: types.CodeType) -> None:
        if code not in self.code:
            self.code.add(code)
            self.names |= names_loaded(code) if code.co_name in MAKING else names_of(code)
            self.words |= words_of(code)
            self.tried |= names_tried(code)

    def python_module(self, module: types.ModuleType, path: str) -> None:
        """Its entries under the names of the code; a package's functions and classes by identity alone."""
        packaged = is_packaged(module)
        room = self.room(lambda: Names(vars(module), path, frozenset()), vars(module))
        if type(module) is not types.ModuleType:
            self.properties(module, path)
        for name in (self.names | {"__getattr__"}) & vars(module).keys():
            value = vars(module)[name]
            if packaged and (callable(value) or isinstance(value, types.ModuleType)):
                self.entries[id(vars(module)), name] = Entry(room, name, value)
            else:
                self.hold(room, name, value, frozenset())

    def properties(self, module: types.ModuleType, path: str) -> None:
        """Plain values that the class of a module gives under the names of the code (torch.backends.cudnn.benchmark)."""
        for name in self.names & {name for base in type(module).__mro__ for name, found in vars(base).items() if hasattr(type(found), "__set__")}:
            take = operator.attrgetter(name)
            if type(take(module)) in PLAIN:
                self.inside(module, f"{path}.{name}", take, name)

    def class_data(self, kind: type, names: frozenset[str], thing: Any = MISSING, called: bool = False) -> None:
        """Data of a class and its bases under the names of the code, and the methods that can be called; those of its metaclass, too.
        `thing`: an object of the class, if there is one; `called`: the code may make others."""
        if type(kind) is not type and not is_packaged(type(kind)):
            self.class_data(type(kind), names, kind)
        if called and isinstance(kind, abc.ABCMeta) and self.names & {"isinstance", "issubclass", POSITIONS}:
            self.inside(kind, f"the classes that are registered at {kind.__qualname__}", registered_at, registered_at)
        if "__subclasses__" in self.names and not is_packaged(kind):
            self.inside(kind, f"{kind.__qualname__}.__subclasses__()", type.__subclasses__, type.__subclasses__)
            self.inner(type.__subclasses__(kind), f"a subclass of {kind.__qualname__}", names)
        for base in kind.__mro__:
            if base is object or is_packaged(base):
                if "forward" in vars(base):  # libraries put one of their own there
                    self.method(base, "forward", vars(base)["forward"])
                continue
            room = self.room(lambda base=base: ClassData(base, base.__qualname__), base)
            data = room.read()
            if POSITIONS in self.names:
                self.names.update(vars(base).get(POSITIONS, ()))
            for name in (self.names | names) & data.keys():
                self.hold(room, name, data[name], names)
            if issubclass(base, torch.nn.Module) and "__call__" not in vars(base):
                self.method(base, "__call__", MISSING)
            for name, method in list(vars(base).items()):
                by_itself = (called or thing is not MISSING) and called_by_itself(name, kind, called)
                if not by_itself and (name in UNREAD or name not in self.names and name not in names):
                    continue
                found = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
                if isinstance(method, (types.FunctionType, property, classmethod, staticmethod)):
                    self.method(base, name, method)
                if isinstance(found, types.FunctionType):
                    self.later(found, name, names)

    def method(self, kind: type, name: str, method: Any) -> None:
        """A method by its class: another one there is other code."""
        if (id(kind), name) not in self.methods:
            self.methods[id(kind), name] = Entry(ClassCode(kind, kind.__qualname__), name, method)

    # ---- objects

    def object(self, thing: Any, kind: type, path: str, names: frozenset[str]) -> None:
        if issubclass(kind, _CONTAINERS):
            self.container(thing, kind, path, names)
        packaged = is_packaged(kind)
        if not packaged or issubclass(kind, torch.nn.Module):
            self.entries[id(thing), KindOf] = Entry(KindOf(thing, f"the class of {path}" if path else "the model's class"), "", kind)
        if not issubclass(kind, (torch.optim.Optimizer, *_CONTAINERS)):
            names = names | names_read(kind)
        self.class_data(kind, names, thing)
        attributes, wanted = attributes_of(thing), self.names | names
        is_open = self.is_open(thing, kind, packaged)
        if is_open and attributes is not None and not issubclass(kind, torch.nn.Module):
            self.length(attributes, f"{path}.__dict__")
        if attributes is not None:
            room = self.room(lambda: Dictionary(attributes, path, of_object=True), attributes)
            wanted = wanted | {name for name in attributes if is_open and isinstance(name, str) and not (
                issubclass(kind, torch.nn.Module) and (name.startswith("_") or name == "training"))}
            for name in (wanted | {"__wrapped__"}) & attributes.keys():
                self.hold(room, name, attributes[name], names)
            for name in (self.absent(kind, packaged) | self.tried) - attributes.keys():
                self.entries[id(attributes), name] = Entry(room, name, MISSING)
            if issubclass(kind, torch.nn.Module):
                self.module(attributes, room, path, names)
        slots = dict(slots_of(kind))
        if slots:
            room = self.room(lambda: Slots(thing, path), thing)
            held = room.read()
            for name, value in held.items():
                if name in wanted or is_open:
                    self.hold(room, name, value, names)
            for name in self.tried & slots.keys() - held.keys():
                self.entries[id(thing), name] = Entry(room, name, MISSING)

    def is_open(self, thing: Any, kind: type, packaged: bool) -> bool:
        """Whether all attributes of an object are held, as code may read them without their names."""
        if id(thing) in self.whole:
            return True
        if self.walking and (not packaged or kind in BARE_NAMESPACES):
            return True
        return any(walks_over_attributes(names_of(function.__code__), self.noted.blind) for name, function in methods_of(kind)
                   if name in self.names or name.startswith("__"))

    def tensor(self, tensor: torch.Tensor, kind: type, path: str, names: frozenset[str]) -> None:
        """What lies on it as an attribute, and the code of its hooks."""
        attributes = attributes_of(tensor)
        attributes = {} if attributes is None else attributes  # an empty one is the tensor's own
        found = (self.names | names) & attributes.keys()
        if found:
            room = self.room(lambda: Dictionary(attributes, path, of_object=True), attributes)
            for name in found:
                self.hold(room, name, attributes[name], names)
        if "grad" in self.names and tensor.is_leaf:
            self.inside(tensor, f"{path}.grad", _gradient, _gradient)
        if "_version" in self.names and not isinstance(tensor, torch.nn.Parameter) and not tensor.is_inference():
            self.inside(tensor, f"{path}._version", _version, _version)
        for folder in _OF_TENSORS if tensor.is_leaf else ():
            for hook in (getattr(tensor, folder) or {}).values():
                self.later(hook, f"a hook of {path}", names)
        for name in self.noted.on_tensors - attributes.keys() if tensor.is_leaf else ():
            room = self.room(lambda: Dictionary(attributes, path, of_object=True), attributes)
            self.entries[id(attributes), name] = Entry(room, name, MISSING)
        if not is_packaged(kind):
            self.class_data(kind, names, tensor)

    def absent(self, kind: type, packaged: bool) -> set[str]:
        """Names that an object may be given later, and then has in the place of its class's, or of nothing."""
        found = {"forward"} if issubclass(kind, torch.nn.Module) else set()
        if packaged:
            return found
        own = {name for base in kind.__mro__ if base is not object and not is_packaged(base) for name in vars(base)}
        return found | self.words | {name for name in own & self.names if name not in UNREAD}

    def module(self, attributes: dict[str, Any], room: Room, path: str, names: frozenset[str]) -> None:
        self.entries[id(attributes), "training"] = Entry(room, "training", attributes.get("training", MISSING))
        prefix = f"{path}." if path else ""
        for folder in ("_modules", *_HOOKS):
            inside = attributes.get(folder)
            if isinstance(inside, dict):
                parts = self.room(lambda inside=inside, folder=folder: Dictionary(inside, prefix + folder), inside)
                for key, value in inside.items():
                    self.hold(parts, key, value, frozenset())
                self.length(inside, prefix + folder)
        for folder in ("_parameters", "_buffers"):
            inside = attributes.get(folder)
            for key, value in (inside or {}).items():
                if value is not None:
                    self.later(value, f"{prefix}{key}", names)
            if isinstance(inside, dict) and self.names & {folder, folder[1:], f"named{folder}", "state_dict"}:
                self.length(inside, prefix + folder)

    def container(self, thing: Any, kind: type, path: str, names: frozenset[str]) -> None:
        if len(thing) > LARGE:
            return
        if len(thing) > MANY and not issubclass(kind, (set, frozenset, tuple)):
            whole = dict.values if issubclass(kind, dict) else iter
            if all(type(value) in ATOMS for value in whole(thing)):
                self.entries[id(thing), Whole] = Entry(Whole(thing, path), "", Whole.contents(thing))
            return
        if issubclass(kind, (set, frozenset)):
            self.entries[id(thing), Members] = Entry(Members(thing, path), "", frozenset(thing))
            self.inner(thing, f"an entry of {path}", names)
            return
        if issubclass(kind, tuple):
            for k, value in enumerate(thing):
                if type(value) not in ATOMS:
                    self.later(value, f"{path}[{k}]", names)
            return
        if issubclass(kind, dict):
            self.inner(dict.keys(thing), f"a key of {path}", names)
            if isinstance(thing, collections.defaultdict):
                self.later(thing.default_factory, f"{path}.default_factory", names)
        made = Dictionary if issubclass(kind, dict) else Sequence
        room = self.room(lambda: made(thing, path), thing)
        for key, value in room.read().items():
            self.hold(room, key, value, names)
        self.length(thing, path)

    def inner(self, things: Iterable[Any], path: str, names: frozenset[str]) -> None:
        for inner in things:
            if type(inner) not in ATOMS:
                self.later(inner, path, names)

    def length(self, thing: Any, path: str) -> None:
        """How long it is; where its entries have an order beside their places, the order."""
        if isinstance(thing, dict) and len(thing) > 1:
            room: Room = Order(thing, f"the order of {path}")
            self.entries[id(thing), Length] = Entry(room, "", room.seen[""])
        else:
            self.entries[id(thing), Length] = Entry(Length(thing, f"len({path})"), "", len(thing))


def entries_of(model: torch.nn.Module, loss_fn: Callable, read: Read | None = None) -> list[Entry]:
    """`read`: what was noted while the step was captured. Warns, once for each, of arrays that are too large to be compared."""
    found = Walk(model, loss_fn, read)
    for path, size in found.unseen.items():
        warnings.warn(f"lowtide: '{path}' is an array of {size:,} bytes: what is in it now is what the plan holds for, and arrays of more than {ARRAY:,} "
                      "bytes are not looked at again; a tensor in its place is read in each step", stacklevel=6)
    return [*found.entries.values(), *found.methods.values()]


def _holds(entry: Entry, now: Any) -> bool:
    """Whether an entry may be `now` in the place of what it was."""
    if isinstance(entry.value, torch.Tensor) and isinstance(now, torch.Tensor):
        return geometry_of(entry.value) == geometry_of(now)  # its contents are read in each step
    return entry.value == now if isinstance(entry.room, (Members, Inside, Order, CodeOf)) else same(entry.value, now)


class Guards:
    """The entries of one plan. `owns`: entries that the step itself writes, by owner and key, which hold for nothing. `kinds`: places of
    tensors that it reads beside model and batch, and of what it writes itself."""

    def __init__(self, entries: Iterable[Entry], owns: Container[tuple[int, Any]] = (), kinds: Iterable[Kind] = ()) -> None:
        kept = [entry for entry in entries if isinstance(entry, Turned) or (id(entry.room.owner), entry.key) not in owns]
        self.kinds = list(kinds)
        plain = [e for e in kept if isinstance(e.room, Dictionary)]
        self.of_dicts, self.others = plain, [e for e in kept if not isinstance(e.room, Dictionary)]
        self.dicts, self.keys = [e.room.owner for e in plain], [e.key for e in plain]
        self.seen = [e.value for e in plain]
        cells = [e for e in self.others if isinstance(e.room, Cell)]
        lists = [e for e in self.others if isinstance(e.room, Sequence)]
        lengths = [e for e in self.others if isinstance(e.room, Length)]
        self.cells, self.in_cells, self.of_cells = [e.room.owner for e in cells], [e.value for e in cells], cells
        self.lengths, self.long = [e.room.owner for e in lengths], [e.value for e in lengths]
        orders = [e for e in self.others if isinstance(e.room, Order)]
        self.keys_of, self.orders = [e.room.keys for e in orders], [e.value for e in orders]
        kinds_of = [e for e in self.others if isinstance(e.room, KindOf)]
        self.things, self.kinds_of = [e.room.owner for e in kinds_of], [e.value for e in kinds_of]
        functions = [e for e in self.others if isinstance(e.room, CodeOf)]
        self.functions, self.code = [e.room.owner for e in functions], [e.value for e in functions]
        self.lists, self.at, self.in_lists = [e.room.owner for e in lists], [e.key for e in lists], [e.value for e in lists]
        self.of_lists = lists
        self.codes = [(vars(e.room.owner).get, e.key, None if e.value is MISSING else e.value) for e in self.others if isinstance(e.room, ClassCode)]
        sets = [e for e in self.others if isinstance(e.room, Members)]
        self.sets, self.members = [e.room.owner for e in sets], [e.value for e in sets]
        self.wholes = [(Whole.contents, e.room.owner, e.value) for e in self.others if isinstance(e.room, Whole)]
        self.inside = [(e.room.take, e.room.owner, e.value) for e in self.others if isinstance(e.room, Inside)]
        self.tensors = [e for e in kept if isinstance(e.value, torch.Tensor)]
        self.laid = [e.value for e in self.tensors]
        self.alike, self.shapes = _which_are_one(self.laid), list(map(_shape_of, self.laid))
        self.rest = [e for e in self.others if not isinstance(e.room, (Cell, Sequence, Length, Order, CodeOf, KindOf, ClassCode, Members, Whole, Inside))]

    def hold(self) -> bool:
        """Whether the plan may run. It compares by identity first, and looks closer only where that fails."""
        if list(map(len, self.lengths)) != self.long or not all(map(operator.eq, self.sets, self.members)):
            return False
        if list(map(type, self.things)) != self.kinds_of or list(map(tuple, self.keys_of)) != self.orders or list(map(CodeOf.seen_of, self.functions)) != self.code:
            return False
        if not all([get(name) is method for get, name, method in self.codes]) or not all([
                take(thing) == value for take, thing, value in self.inside]):
            return False
        for take, thing, value in self.wholes:
            now = take(thing)
            if len(now) != len(value) or not all(map(operator.is_, now, value)) and not same(now, value):
                return False
        try:
            alike = (all(map(operator.is_, map(dict.get, self.dicts, self.keys, itertools.repeat(MISSING)), self.seen))
                     and all(map(operator.is_, map(_contents, self.cells), self.in_cells))
                     and all(map(operator.is_, map(operator.getitem, self.lists, self.at), self.in_lists)))
        except (ValueError, IndexError):
            return False
        if not alike or not all(e.room.get(e.key) is e.value for e in self.rest) or list(map(_shape_of, self.laid)) != self.shapes:
            return self.look()
        return all(kind.holds() for kind in self.kinds)

    def look(self) -> bool:
        """The same, entry by entry; what is equal, though another object, is what is compared with from now on."""
        laid = [e.room.get(e.key) for e in self.tensors]
        if _which_are_one(laid) != self.alike or not all(isinstance(now, torch.Tensor) for now in laid) or list(map(_shape_of, laid)) != self.shapes:
            return False
        self.laid = laid
        for entries, seen in ((self.of_dicts, self.seen), (self.of_cells, self.in_cells), (self.of_lists, self.in_lists)):
            for k, entry in enumerate(entries):
                now = entry.room.get(entry.key)
                if now is not seen[k]:
                    if not _holds(entry, now):
                        return False
                    seen[k] = now
        return all(_holds(e, e.room.get(e.key)) for e in self.rest) and all(kind.holds() for kind in self.kinds)

    def changed(self) -> Iterator[tuple[Entry, Any]]:
        """The entries that are other ones now."""
        for entry in (*self.of_dicts, *self.others):
            now = entry.room.get(entry.key)
            if not _holds(entry, now):
                yield entry, now
        now = [entry.room.get(entry.key) for entry in self.tensors]
        for entry, tensor, before, after in zip(self.tensors, now, self.alike, _which_are_one(now), strict=True):
            if before != after and _holds(entry, tensor):
                yield entry, tensor
        for kind in (kind for kind in self.kinds if not kind.holds()):
            yield Entry(kind.place.room, kind.place.key, kind.held if kind.number is None else READ), kind.place.now()


def _which_are_one(tensors: list[Any]) -> list[int]:
    """Of each the first place at which the same one lies: what code may ask by `is`, and a write on one is a write on all."""
    first: dict[int, int] = {}
    return [first.setdefault(id(tensor), k) for k, tensor in enumerate(tensors)]


_contents = operator.attrgetter("cell_contents")
_shape_of = operator.attrgetter("shape", "dtype")  # that `tensor.data = ...` may exchange
