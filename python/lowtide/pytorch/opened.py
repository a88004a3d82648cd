"""Files, processes and connections that loss_fn would use: once, while it is captured, and in no step behind it.

A file that is read would be read once, and its old numbers used for ever; a file that is written would get a line without numbers. So the
opening is refused by name before it is done, by Python's own audit events, which open() in any library raises. What Python opens for
itself is let through: modules that are imported, the files of packages, devices. Where code only asks whether a file is there
(os.path.exists, Path.is_file) or what os.stat says of it, the answer is part of what a plan holds for.
Source: PEP 578. Tests: tests/python/test_torch_opened.py.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .clocks import not_read
from .process import ONCE, as_before
from .this_thread import exchanged

_CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod", "os.chown", "os.utime", "os.setxattr",
             "os.removexattr", "os.chflags")
_MOVING = ("os.chdir", "os.fchdir")
_LISTING = ("os.listdir", "os.scandir")
_STARTING = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty")
_CONNECTING = ("socket.__new__", "socket.connect", "socket.bind", "sqlite3.connect")
_ENVIRONMENT = ("os.putenv", "os.unsetenv")
_SETTING = (*_ENVIRONMENT, "resource.setrlimit", "resource.prlimit", "os.lockf", "fcntl.fcntl",
            "fcntl.flock", "fcntl.ioctl", "fcntl.lockf", "syslog.syslog", "syslog.openlog")
_EVENTS = frozenset(("open", *_CHANGING, *_LISTING, *_STARTING, *_CONNECTING, *_MOVING, *_SETTING))
_OF_PYTHON = (".py", ".pyc", ".pyd", ".so", ".pth")
_DEVICES = ("/proc/", "/sys/", "/dev/")
_KINDS = frozenset({"exists", "lexists", "isfile", "isdir", "islink", "is_file", "is_dir", "is_symlink"})  # they ask for no more than the kind
_KEEPING = ("torch._inductor", "torch._dynamo", "triton", "torch.utils.cpp_extension", "numba")  # modules of compilers
_LATER = "; read what it needs before the step is compiled, or outside of loss_fn and give it in the batch"


_stat = os.stat


class Opened(Exception):
    """The user's code would use something outside of the process once, while a step is captured. `line`: where."""

    def __init__(self, said: str, line: str) -> None:
        super().__init__(said)
        self.line = line


_refusals: dict[int, Callable[[str, tuple], None]] = {}  # by thread


@functools.cache
def _listen() -> None:
    """An audit hook lasts as long as the process, so there is one."""
    def heard(event: str, args: tuple, events: frozenset = _EVENTS, refusals: dict = _refusals, thread: Callable = threading.get_ident) -> None:
        if event in events and (refuse := refusals.get(thread())) is not None:
            refuse(event, args)

    sys.addaudithook(heard)


@contextlib.contextmanager
def all_allowed() -> Iterator[Callable | None]:
    """Within, this thread may open what it likes: what a signal's handler does is no part of a step. Gives what has refused it before."""
    mine = threading.get_ident()
    before = _refusals.pop(mine, None)
    try:
        yield before
    finally:
        if before is not None:
            _refusals[mine] = before


def _said(event: str, args: tuple) -> str:
    """What would be done, in words, with the way round."""
    what = args[0] if args else ""
    what = os.fsdecode(what) if isinstance(what, (str, bytes, os.PathLike)) else repr(what)
    if event == "open":
        if _writes(args):
            return (f"'{what}' is opened to be written, which a step would do once, while it is captured; write it behind step(batch), with what "
                    "`return loss, aux` gives")
        return f"'{what}' is opened, which a step would do once, while it is captured{_LATER}"
    if event in _CHANGING:
        return f"'{what}' is changed on the disk ({event}), which a step would do once, while it is captured; do it behind step(batch)"
    if event in _MOVING:
        return f"the process goes to the folder '{what}', which a step would do once, while it is captured; do it outside of loss_fn"
    if event in _LISTING:
        return f"the folder '{what}' is read, which a step would do once, while it is captured{_LATER}"
    if event in _CONNECTING:
        return f"a connection is made ({event}), which a step would do once, while it is captured; use it outside of loss_fn"
    if event in _SETTING:
        return f"something is done outside of Python's objects ({event}){ONCE}"
    return f"a process is started ({event} {what}), which a step would do once, while it is captured{_LATER}"


def _writes(args: tuple) -> bool:
    mode, flags = args[1] if len(args) > 1 else None, args[2] if len(args) > 2 else 0
    if isinstance(mode, str):
        return not set(mode).isdisjoint("wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _is_pythons(args: tuple, is_packaged_file: Callable[[str], bool]) -> bool:
    """Whether a path is opened for Python itself: a module, a package's own file, a device."""
    if not args or not isinstance(args[0], (str, bytes, os.PathLike)):
        return True  # a number, of what is open already
    path = os.path.abspath(os.fsdecode(args[0]))
    return path.endswith(_OF_PYTHON) or path.startswith(_DEVICES) or is_packaged_file(path)


def _line_that_asks(is_packaged_file: Callable[[str], bool]) -> str | None:
    """The innermost line of the user's code, "file:line: code"; None where further in a module is imported, or PyTorch's compilers keep on the
    disk what they have made."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == __file__ or is_packaged_file(frame.f_code.co_filename)):
        if frame.f_globals.get("__name__", "").startswith(_KEEPING) or frame.f_code.co_filename.startswith("<frozen importlib"):
            return None
        frame = frame.f_back
    if frame is None:
        return ""
    file, line = frame.f_code.co_filename, frame.f_lineno
    return f"{file}:{line}: {linecache.getline(file, line).strip()}"


class Paths:
    """What the code would open, and what it asks of paths, while it is captured."""

    def __init__(self) -> None:
        self.opened: Opened | None = None  # the first, which the code may have caught
        self.asked: dict[tuple[str, bool], Any] = {}  # by path and whether its kind is all that counts

    def refuse(self, event: str, args: tuple) -> None:
        from .reachable import is_packaged_file  # noqa: PLC0415: the note that has this is made of reachable.py
        if event in ("open", *_LISTING) and _is_pythons(args, is_packaged_file):
            return
        if event in _ENVIRONMENT and sys._getframe(2).f_code.co_filename == os.__file__:
            return  # by os.environ, which is put back
        line = self.line()
        if line is not None:
            raise self.first(_said(event, args), line)

    def first(self, said: str, line: str) -> Opened:
        """The refusal of this, or of what was refused before."""
        self.opened = self.opened or Opened(said, line)
        return self.opened

    def line(self) -> str | None:
        """As _line_that_asks; None in a signal's handler. It is read from a file, meanwhile nothing is refused."""
        from .reachable import is_packaged_file  # noqa: PLC0415: the note that has this is made of reachable.py
        with all_allowed() as before:
            return None if before is None else _line_that_asks(is_packaged_file)

    def written(self, real: Callable, file: Any, *args: Any, **named: Any) -> Any:
        """torch.save opens its file in C++."""
        if isinstance(file, (str, bytes, os.PathLike)):
            self.refuse("open", (file, "w"))
        return real(file, *args, **named)

    def stat(self, real: Callable, path: Any, *args: Any, **named: Any) -> Any:
        caller = sys._getframe(2).f_code.co_name
        if isinstance(path, (str, bytes, os.PathLike)) and not named.get("dir_fd") and not path_is_modules(path):
            only_kind = caller in _KINDS
            where = os.path.abspath(os.fsdecode(path))
            self.asked[where, only_kind] = stated(where, only_kind)
        return real(path, *args, **named)

    @contextlib.contextmanager
    def apart(self, folders: Iterable[dict[str, Any]] = ()) -> Iterator[None]:
        """Within, this thread opens nothing, and the process is as before behind it. Raises Opened behind it, also where the code has caught what it raised.
        `folders`: globals of the user's modules."""
        from .reachable import is_packaged_file  # noqa: PLC0415: as above
        _listen()
        mine, folders = threading.get_ident(), list(folders)
        before = _refusals.get(mine)
        try:
            _refusals[mine] = self.refuse
            with exchanged((os, "stat", self.stat), (torch._C, "PyTorchFileWriter", self.written)), as_before(folders, self.line, self.first), \
                    not_read(folders, self.line, self.first, is_packaged_file):
                yield
        finally:
            if before is None:
                _refusals.pop(mine, None)
            else:
                _refusals[mine] = before
        if self.opened is not None:
            raise self.opened


def path_is_modules(path: Any) -> bool:
    """Whether Python looks for a module there."""
    return os.fsdecode(path).endswith(_OF_PYTHON)


def stated(path: str, only_kind: bool) -> tuple[int, ...]:
    """What lies at a path: its kind, or kind, bytes and time of the last change; nothing where nothing does."""
    try:
        found = _stat(path)
    except OSError:
        return ()
    return (found.st_mode >> 12,) if only_kind else (found.st_mode >> 12, found.st_size, found.st_mtime_ns)
