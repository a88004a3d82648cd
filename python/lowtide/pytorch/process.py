"""Settings of the process: what loss_fn leaves changed is put back and refused by name, and what it reads is part of what a plan holds for.

A setting belongs to nobody's objects: sys.path, the collector's thresholds, PyTorch's and numpy's modes, the locale, the current folder. A step that
sets one would do so once, while it is captured. So each is read before loss_fn runs and behind it; one that differs is put back, and the step is
refused with the line of the last call that sets it. What is set for a while (`with numpy.errstate(...)`) differs in nothing. What a module's import
sets is the import's: warnings' filters and the environment are not compared where one was imported.

    Setting   one of them: how it is read and written, the names by which code reads it, and the functions that set it
    acts      functions that do something which nobody could see behind them, or put back (signal handlers, functions at exit, bytes to a
              descriptor): refused by name before it is done where the user's own code calls them, like files (opened.py)
    read_by   the settings that code with some names reads; a plan holds for these (guards.py)

Tests: tests/python/test_torch_process.py.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import gc
import locale
import logging
import operator
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from .this_thread import bound, exchanged, lent

_OF_COMPILERS = ("TORCH", "TRITON") if os.name == "nt" else (b"TORCH", b"TRITON")
ONCE = ", which a step would do once, while it is captured; do it outside of loss_fn"


ABSENT = object()


class Setting(NamedTuple):
    """`read` gives ABSENT where there is no such setting."""

    words: str
    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None  # none: nobody sets it, or it is refused before
    names: frozenset[str] = frozenset()  # by which code reads it
    setters: tuple[tuple[Any, str], ...] = ()
    of_imports: bool = False
    same: Callable[[Any, Any], bool] = operator.eq

    def now(self) -> Any:
        """What code reads of it, to be compared later."""
        return _noted(self.read())


def _at(holder: Any, name: str, words: str = "", names: str = "") -> Setting:
    """One that is an attribute."""
    return Setting(words or f"{getattr(holder, '__name__', type(holder).__name__)}.{name}", functools.partial(getattr, holder, name, ABSENT),
                   functools.partial(setattr, holder, name), frozenset((names or name).split()))


def environment(environ: Any) -> tuple:
    """But for the folders that PyTorch's compilers put there when they are first used."""
    return tuple((name, value) for name, value in environ._data.items() if not name.startswith(_OF_COMPILERS))


def set_environment(environ: Any, state: tuple) -> None:
    for name in {name for name, _ in environment(environ)} - dict(state).keys():
        del environ[environ.decodekey(name)]
    for name, value in state:
        if environ._data.get(name) != value:
            environ[environ.decodekey(name)] = environ.decodevalue(value)


def _but_for_packages(before: list[str], now: list[str]) -> bool:
    """Whether a path is what it was, but for folders that packages have put there for their own (setuptools does, where it is imported)."""
    return [path for path in now if path in before or not ("site-packages" in path or "dist-packages" in path)] == before


def _set_filters(value: Any) -> None:
    warnings.filters[:] = value  # type: ignore[index]
    getattr(warnings, "_filters_mutated", lambda: None)()


def _collector() -> tuple:
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _set_collector(value: tuple) -> None:
    (gc.enable if value[0] else gc.disable)()
    gc.set_threshold(*value[1])
    gc.set_debug(value[2])


def _of_numpy(name: str) -> Callable[[], Any]:
    def read() -> Any:
        return getattr(sys.modules.get("numpy"), name, lambda: ABSENT)()

    return read


def _of_decimal() -> Any:
    if "decimal" not in sys.modules:
        return ABSENT
    found = sys.modules["decimal"].getcontext()  # type: ignore[attr-defined]
    return (*(getattr(found, name) for name in _OF_DECIMAL), dict(found.traps))


def _set_decimal(value: tuple) -> None:
    context = sys.modules["decimal"].getcontext()  # type: ignore[attr-defined]
    for name, one in zip(_OF_DECIMAL, value, strict=False):
        setattr(context, name, one)
    context.traps.update(value[-1])


_OF_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def functions_around() -> tuple:
    """The default device, where anything stands around PyTorch's functions (a default device, or a mode)."""
    depth = torch._C._len_torch_function_stack()
    return (depth, *default_device()) if depth else ()


def default_device() -> tuple:
    """As torch.set_default_device has put it."""
    return (getattr(getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), "device", None),)


def _log_level() -> tuple[int, int]:
    return logging.root.level, logging.root.manager.disable


def _set_log_level(value: tuple[int, int]) -> None:
    logging.root.setLevel(value[0])
    logging.disable(value[1])


def _set_prints(value: dict[str, Any]) -> None:
    torch._tensor_str.PRINT_OPTS.__dict__.update(value)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BACKENDS = torch.backends
_SETTINGS = [
    Setting("the current folder", os.getcwd, None, _words("getcwd getcwdb cwd abspath realpath relpath")),
    Setting("sys.path", lambda: list(sys.path), lambda value: sys.path.__setitem__(slice(None), value), same=_but_for_packages),
    Setting("the environment", lambda: environment(os.environ), functools.partial(set_environment, os.environ),
            setters=((type(os.environ), "__setitem__"), (type(os.environ), "__delitem__")), of_imports=True),
    Setting("the filters of warnings", lambda: list(warnings.filters), _set_filters, of_imports=True,
            setters=tuple((warnings, name) for name in ("simplefilter", "filterwarnings", "resetwarnings"))),
    Setting("the collector of cycles (gc)", _collector, _set_collector, _words("isenabled get_threshold get_debug"),
            tuple((gc, name) for name in ("enable", "disable", "set_threshold", "set_debug"))),
    Setting("the stack size of threads", threading.stack_size, threading.stack_size, _words("stack_size")),
    Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, _words("getrecursionlimit"), ((sys, "setrecursionlimit"),),
            of_imports=True),
    Setting("the switch interval of threads", sys.getswitchinterval, sys.setswitchinterval, _words("getswitchinterval"), ((sys, "setswitchinterval"),)),
    Setting("the locale", lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value),
            _words("getlocale localeconv setlocale nl_langinfo"), ((locale, "setlocale"),)),
    Setting("the level of logging", _log_level, _set_log_level, setters=((logging, "disable"),)),
    *(_at(sys, name, names="-") for name in ("stdout", "stderr", "excepthook", "displayhook")),
    Setting("numpy's way with errors (numpy.seterr)", _of_numpy("geterr"), lambda value: sys.modules["numpy"].seterr(**value), _words("geterr")),
    Setting("numpy's print options", _of_numpy("get_printoptions"), lambda value: sys.modules["numpy"].set_printoptions(
        **{key: one for key, one in value.items() if key != "override_repr"}), _words("get_printoptions")),
    Setting("the context of decimal", _of_decimal, _set_decimal, _words("getcontext")),
    Setting("the default timeout of sockets", lambda: getattr(sys.modules.get("socket"), "getdefaulttimeout", lambda: ABSENT)(),
            lambda value: sys.modules["socket"].setdefaulttimeout(value), _words("getdefaulttimeout")),
    Setting("the number of threads (torch.set_num_threads)", torch.get_num_threads, torch.set_num_threads, frozenset(), ((torch, "set_num_threads"),)),
    Setting("the number of threads between ops", torch.get_num_interop_threads, None, _words("get_num_interop_threads")),
    Setting("the default type", torch.get_default_dtype, torch.set_default_dtype, frozenset(), ((torch, "set_default_dtype"),)),
    Setting("the default device", default_device, lambda value: torch.set_default_device(*value), frozenset(), ((torch, "set_default_device"),)),
    Setting("whether algorithms are deterministic", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode,
            _words("get_deterministic_debug_mode is_deterministic_algorithms_warn_only_enabled"), ((torch, "use_deterministic_algorithms"),)),
    Setting("torch.set_warn_always", torch.is_warn_always_enabled, torch.set_warn_always, _words("is_warn_always_enabled"), ((torch, "set_warn_always"),)),
    Setting("the precision of products", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, frozenset(),
            ((torch, "set_float32_matmul_precision"),)),
    Setting("PyTorch's print options", lambda: dict(vars(torch._tensor_str.PRINT_OPTS)), _set_prints, _words("PRINT_OPTS"), ((torch, "set_printoptions"),)),
    _at(torch.utils.deterministic, "fill_uninitialized_memory"),
    *(_at(_BACKENDS.cudnn, name) for name in ("enabled", "benchmark", "deterministic", "benchmark_limit")),
    *(_at(_BACKENDS.mkldnn, name) for name in ("enabled", "deterministic")),
    *(_at(_BACKENDS.opt_einsum, name) for name in ("enabled", "strategy")),
    _at(_BACKENDS.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
]

# What nobody could put back: where it is called, and what it does in words.
_ACTS: list[tuple[Any, str, str]] = [
    *((signal, name, "a signal's handler or timer is set") for name in ("signal", "setitimer", "alarm", "pthread_sigmask", "siginterrupt", "set_wakeup_fd")),
    *((atexit, name, "what runs at the end of the process is changed") for name in ("register", "unregister")),
    *((os, name, "the process is set otherwise") for name in ("umask", "nice", "setpriority", "sched_setaffinity")),
    *((os, name, "a descriptor that is open is written") for name in ("write", "pwrite", "writev", "pwritev", "sendfile", "dup2")),
]
_ACTS = [act for act in _ACTS if hasattr(act[0], act[1])]
_STANDARD = (1, 2)  # what is said there is said once, as by print


def read_by(names: Container[str]) -> Iterator[Setting]:
    """The settings that code with these names reads."""
    for setting in _SETTINGS:
        if any(name in names for name in setting.names) and setting.read() is not ABSENT:
            yield setting


def _noted(value: Any) -> Any:
    """A value that is compared by equality, with nothing in it that is changed in place."""
    return dict(value) if isinstance(value, dict) else dataclasses.replace(value) if dataclasses.is_dataclass(value) else value


@contextlib.contextmanager
def as_before(folders: Iterable[dict[str, Any]], line_that_asks: Callable[[], str | None], refuse: Callable[[str, str], Exception]) -> Iterator[None]:
    """Within, loss_fn runs. `folders`: globals of the user's modules; `line_that_asks`: of the user's code, "" where there is none and None where Python or
    PyTorch ask for themselves; `refuse`: notes the refusal, by words and line, and gives what is to be raised."""
    from .reachable import is_packaged_file  # noqa: PLC0415: it is made of objects that have settings
    lines: dict[str, str] = {}  # of the user's code, which set something, by the setting's words

    def noted(setting: Setting) -> Callable:
        def called(real: Callable, *args: Any, **named: Any) -> Any:
            line = line_that_asks()
            if line:
                lines[setting.words] = line
            return real(*args, **named)

        return called

    def acting(said: str, name: str) -> Callable:
        def called(real: Callable, *args: Any, **named: Any) -> Any:
            said_once = name in ("write", "writev") and args and args[0] in _STANDARD
            line = None if said_once or is_packaged_file(sys._getframe(2).f_code.co_filename) else line_that_asks()
            if line is not None:
                raise refuse(f"{said} ({real.__module__}.{name}){ONCE}", line)
            return real(*args, **named)

        return called

    places = [(holder, name, noted(setting)) for setting in _SETTINGS for holder, name in setting.setters]
    places += [(holder, name, acting(said, name)) for holder, name, said in _ACTS]
    before = [(setting, _noted(setting.read())) for setting in _SETTINGS if setting.write is not None]
    try:
        with lent(folders, {id(getattr(holder, name)): bound(getattr(holder, name), instead) for holder, name, instead in places
                            if not isinstance(holder, type)}), exchanged(*places):
            yield
    except BaseException:
        _put_back(before, lines)
        raise
    changed = _put_back(before, lines)
    for setting in changed[:1]:
        refuse(f"{setting.words} is another one behind loss_fn{ONCE}", lines.get(setting.words, ""))


def _put_back(before: list[tuple[Setting, Any]], lines: dict[str, str]) -> list[Setting]:
    """The settings that were others, and are as before again."""
    changed = []
    for setting, value in before:
        if value is ABSENT or setting.same(value, setting.read()) or setting.of_imports and setting.words not in lines:
            continue
        changed.append(setting)
        setting.write(value)  # type: ignore[misc]
    return changed
