"""Names of values that the code does not have as such: they are made while it runs, or stand in patterns and texts.

A plan holds for the values under the names that the code has (guards.py). Other names are found here, in two ways:

    while a step is captured, Python's own functions that take a name (getattr, hasattr, vars, dir, globals, eval, exec) lie as other ones
    in the globals of the user's modules that name them: they do what Python's do and note the name, or whose values were all given out,
    attributes in the classes of `match` and in the fields of texts (`"{0.rate}".format(config)`) are read out of the code.

Only the globals of the user's own modules are lent, and only while loss_fn and its gradients run; a module that has a function of its own
under such a name keeps it. What nobody can note (`__dict__` in code, a capture by way of torch.compile) is asked of the code by
`walks_over_attributes`, and then all plain values of an object are held. Tests: tests/python/test_torch_stale_names.py.
"""

from __future__ import annotations

import _string
import builtins
import contextlib
import dis
import functools
import string
import sys
import types
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

import torch

from .opened import Paths

NOTED = frozenset({"getattr", "hasattr", "vars", "dir", "globals", "eval", "exec"})
WALKING = frozenset({"__dict__", "__slots__", "attrgetter", "getmembers", "getattr_static", "__getattribute__"})
IMPORTING = frozenset({"import_module", "__import__", "modules"})
POSITIONS = "__match_args__"
MISSING = object()
_FORMATTING = frozenset({"format", "format_map", "vformat"})


# ---- names in the code

def in_patterns(code: types.CodeType) -> Iterator[str]:
    """The attributes that `case Settings(rate=v)` reads, and where it goes by position, the name under which the class lists them."""
    match_class = dis.opmap.get("MATCH_CLASS", -1)
    if match_class not in code.co_code[::2]:
        return
    last: Any = ()
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_CONST":
            last = step.argval
        elif step.opcode == match_class:
            yield from (last if isinstance(last, tuple) else ())
            yield POSITIONS


def in_format(text: str) -> Iterator[str]:
    """The attributes that the fields of a text name."""
    if "{" not in text or "." not in text:
        return
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
        for field in fields:
            yield from (part for is_attribute, part in _string.formatter_field_name_split(field)[1] if is_attribute)
    except ValueError:  # no text for format()
        return


def in_texts(code: types.CodeType) -> Iterator[str]:
    if _FORMATTING.intersection(code.co_names):
        for text in code.co_consts:
            if isinstance(text, str):
                yield from in_format(text)


def walks_over_attributes(names: Iterable[str], blind: bool) -> bool:
    """Whether code with these names may read attributes that it does not name. `blind`: nothing was noted while it ran."""
    return not WALKING.isdisjoint(names) or blind and not NOTED.isdisjoint(names)


# ---- names that are noted while the code runs

class Read:
    """What was read in a capture under names that were made then."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.of_globals: list[tuple[dict[str, Any], str]] = []
        self.whole: list[Any] = []  # objects whose attributes were given out together
        self.missed: dict[tuple[int, str], tuple[Any, str]] = {}  # attributes that were asked for and not there
        self.on_tensors: set[str] = set()  # the same of tensors, as those that are traced are others
        self.paths = Paths()
        self.blind = False  # some code ran where nothing is noted

    def attribute(self, thing: Any, name: Any, there: bool) -> None:
        if not isinstance(name, str):
            return
        self.names.add(str(name))
        if issubclass(type(thing), torch.Tensor):
            self.on_tensors |= {name} - {name if there else None}
        elif not there:
            self.missed[id(thing), name] = (thing, name)

    def of_code(self, code: types.CodeType, where: dict[str, Any]) -> None:
        """Of a text that was made and run."""
        from .reachable import names_of  # noqa: PLC0415: it takes the names in patterns from here
        names = names_of(code)
        self.names |= names
        self.of_globals += [(where, name) for name in sorted(names)]

    @contextlib.contextmanager
    def noting(self, folders: Iterable[dict[str, Any]], of_users: Iterable[dict[str, Any]]) -> Iterator[None]:
        """Within, code with these globals calls functions that note what they are asked, opens no file, and changes nothing of the process.
        `of_users`: globals of all modules of the user's. Raises Opened."""
        lent: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for folder in folders:
                for name in NOTED - folder.keys():
                    lent.append((folder, name, made := _Noting(name, self)))
                    folder[name] = made
            with self.paths.apart(of_users):
                yield
        finally:
            for folder, name, made in lent:
                if folder.get(name) is made:
                    del folder[name]


class _Noting:
    """Stands for one of Python's functions."""

    def __init__(self, name: str, read: Read) -> None:
        self.read, self.real, self.done = read, getattr(builtins, name), _DOES[name]
        functools.update_wrapper(self, self.real)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if torch.compiler.is_dynamo_compiling() or self.read is None:
            return self.real(*args, **named)
        return self.done(self.read, self.real, sys._getframe(1), *args, **named)

    def __deepcopy__(self, _: Any) -> Any:
        return self.real

    def __reduce__(self) -> Any:
        return self.real.__name__


def is_noting(value: Any) -> bool:
    """Whether it stands for one of Python's functions while a step is captured."""
    return type(value) is _Noting


def _getattr(read: Read, real: Callable, _frame: types.FrameType, *args: Any) -> Any:
    if len(args) != 3:
        found = real(*args)
        read.attribute(*args, True)
        return found
    found = real(*args[:2], MISSING)
    read.attribute(*args[:2], found is not MISSING)
    return args[2] if found is MISSING else found


def _hasattr(read: Read, real: Callable, _frame: types.FrameType, *args: Any) -> Any:
    found = real(*args)
    read.attribute(*args, found)
    return found


def _vars(read: Read, real: Callable, frame: types.FrameType, *args: Any) -> Any:
    if not args:
        return frame.f_locals
    found = real(*args)
    if type(args[0]) is types.ModuleType and isinstance(found, dict):
        return _Globals(found, read)
    read.whole.append(args[0])
    return found


def _dir(read: Read, real: Callable, frame: types.FrameType, *args: Any) -> Any:
    if not args:
        return sorted(frame.f_locals)
    read.whole.append(args[0])
    return real(*args)


def _globals(read: Read, _real: Callable, frame: types.FrameType) -> Any:
    return _Globals(frame.f_globals, read)


def _run(read: Read, real: Callable, frame: types.FrameType, source: Any, *rest: Any, **named: Any) -> Any:
    where = [dict_of(given) for given in rest] or [frame.f_globals, frame.f_locals]
    code = source if isinstance(source, types.CodeType) else compile(source, "<string>", real.__name__, dont_inherit=True)
    read.of_code(code, where[0] if where[0] is not None else frame.f_globals)
    return real(code, *where, **named)


_DOES: dict[str, Callable] = {"getattr": _getattr, "hasattr": _hasattr, "vars": _vars, "dir": _dir, "globals": _globals, "eval": _run,
                               "exec": _run}


class _Globals(MutableMapping):
    """The globals of a module as globals() gives them, which notes the names that are asked for."""

    def __init__(self, real: dict[str, Any], read: Read) -> None:
        self.real, self.read = real, read

    def __getitem__(self, name: str) -> Any:
        self.read.of_globals.append((self.real, name))
        return self.real[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.real[name] = value

    def __delitem__(self, name: str) -> None:
        del self.real[name]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, value in self.real.items() if not is_noting(value)])

    def __len__(self) -> int:
        return len(list(iter(self)))


def dict_of(folder: Any) -> Any:
    """The dictionary itself, as eval() takes no other mapping for globals."""
    return folder.real if type(folder) is _Globals else folder
