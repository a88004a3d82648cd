"""Every allocation of a planned step at its planned address: cpu_allocator.cpp or cuda_allocator.cpp, built when needed.

It is compiled against the installed torch (about two seconds, once for each version of torch and of this package) and
kept in the cache folder; where that cannot be written, every process builds its own. That for CUDA needs the headers of
the CUDA runtime, of the toolkit or as a dependency of torch. Where no compiler is on hand, or it cannot build it,
`allocator(..)` is None: steps then free every value after its last use, and PyTorch's allocator puts it where it likes.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from ctypes import POINTER, c_int, c_int64, c_void_p, py_object
from typing import Any, NamedTuple

import torch

from .. import cache
from .called_step import call_step

FOLDER = pathlib.Path(__file__).parent


UNKNOWN, OWN = 0, 1  # who has a kernel run that allocates: Python functions, of any names; the part's own code


class Event(NamedTuple):
    """An allocation, or a release: that has no bytes."""

    number: int
    bytes: int
    caller: int  # OWN, or the names of the Python functions that it calls, as a number (python_frames.h)


class Place(NamedTuple):
    """The place of an allocation in the arena."""

    bytes: int
    offset: int
    caller: int = OWN


class Allocator:
    """The library's functions. One for each kind of device."""

    def __init__(self, kind: str, path: pathlib.Path) -> None:
        self.trims = kind == "cpu"  # whether memory of a part of an arena can be given back; else all of it is
        self.library = ctypes.PyDLL(str(path))  # calls are shorter than letting go of the interpreter's lock
        pointer = POINTER(c_int64)
        for name, result, arguments in (
                ("lt_install", c_int, []), ("lt_record_begin", None, []),
                ("lt_record_end", c_int64, [pointer, c_int64]), ("lt_own", None, [c_int64]),
                ("lt_recorded_id", c_int64, [c_void_p]),
                ("lt_arena_make", c_void_p, [c_int64]), ("lt_arena_free", None, [c_void_p]),
                ("lt_arena_base", c_void_p, [c_void_p]), ("lt_arena_trim", None, [c_void_p, c_int64]),
                ("lt_lists_make", c_void_p, [pointer, pointer, pointer, c_int64, pointer, c_int64]),
                ("lt_lists_free", None, [c_void_p]),
                ("lt_step_begin", c_int64, [c_void_p, c_void_p, c_int64]), ("lt_mark", None, [c_int64]),
                ("lt_step_end", None, [pointer])):
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        # What the garbage collector calls first and last; None where the library was built without Python's headers.
        self.collections = self._callbacks() if hasattr(self.library, "lt_collection_begins") else None
        self.mark = self._mark()
        self.knows_functions = self._read_code()
        self.installed = bool(self.library.lt_install())

    def _mark(self) -> Callable[[int], Any]:
        """Called before each part of a step."""
        if not hasattr(self.library, "lt_mark_function"):
            return self.library.lt_mark
        self.library.lt_mark_function.restype, self.library.lt_mark_function.argtypes = py_object, []
        return self.library.lt_mark_function()

    def _read_code(self) -> bool:
        """Whether functions are told by their names. Else what they allocate is told by its size and order."""
        if not hasattr(self.library, "lt_read_code"):
            return False
        self.library.lt_read_code.restype, self.library.lt_read_code.argtypes = c_int, [py_object, py_object]
        return bool(self.library.lt_read_code(sys._getframe().f_code, call_step.__code__))

    def _callbacks(self) -> tuple[Any, Any]:
        both = self.library.lt_collection_begins, self.library.lt_collection_ends
        for function in both:
            function.restype, function.argtypes = None, [py_object, py_object]
        return both

    def record_begin(self) -> None:
        _see_collections()
        self.library.lt_record_begin()

    def record_end(self) -> list[Event]:
        """In order."""
        room = 1 << 14
        while True:
            numbers = (c_int64 * (3 * room))()
            count = self.library.lt_record_end(numbers, room)
            if count <= room:
                return [Event(numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]) for i in range(count)]
            room = count

    def recorded_id(self, address: int) -> int:
        return self.library.lt_recorded_id(address) if address else 0


class Lists:
    """The allocations of one plan, part by part."""

    def __init__(self, allocator: Allocator, parts: list[list[Place]]) -> None:
        def numbers(values: list[int]) -> ctypes.Array:
            return (c_int64 * max(1, len(values)))(*values)

        begins = [0]
        for part in parts:
            begins.append(begins[-1] + len(part))
        flat = [place for part in parts for place in part]
        self.library = allocator.library
        self.handle = self.library.lt_lists_make(
            numbers([p.bytes for p in flat]), numbers([p.offset for p in flat]), numbers([p.caller for p in flat]),
            len(flat), numbers(begins), len(parts))

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", None), None
        if handle:
            self.library.lt_lists_free(handle)


class Arena:
    """Memory for the values that a step makes. The plans of all shapes of batch share it: it is as large as the largest
    needs, and what a smaller one leaves unused can be given back for as long."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator, self.bytes, self.handle = allocator, 0, None
        self.touched = 0  # bytes for which the system may have given memory

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        handle, self.handle, self.bytes, self.touched = getattr(self, "handle", None), None, 0, 0
        if handle:
            self.allocator.library.lt_arena_free(handle)

    def fit(self, size: int) -> None:
        """Makes it as large as a plan needs: the old memory goes first."""
        if self.handle and size <= self.bytes:
            return
        self.close()
        self.handle = self.allocator.library.lt_arena_make(size)
        if not self.handle:
            raise MemoryError(f"no room for an arena of {size} bytes")
        self.bytes = size

    def trim(self, kept: int) -> None:
        """The memory behind the first `kept` bytes goes back to the system until it is written again."""
        if self.handle is None or self.touched <= kept:
            return
        if self.allocator.trims:
            self.allocator.library.lt_arena_trim(self.handle, kept)
            self.touched = kept
        else:  # made anew when a step begins
            self.close()

    def begin(self, lists: Lists, size: int) -> None:
        """A step of a plan that needs `size` bytes. Where something still lies in the arena (a failed step's traceback
        holds it), it stays there, and the step gets another arena."""
        self.fit(size)
        _see_collections()
        watched = torch._C._len_torch_dispatch_stack()
        if self.allocator.library.lt_step_begin(self.handle, lists.handle, watched):
            self.close()
            self.fit(size)
            self.allocator.library.lt_step_begin(self.handle, lists.handle, watched)
        self.touched = max(self.touched, size)

    def end(self) -> tuple[int, int, int, int]:
        """Allocations at planned addresses, others, bytes of the largest other, end of the highest address given."""
        numbers = (c_int64 * 4)()
        self.allocator.library.lt_step_end(numbers)
        return tuple(numbers)  # type: ignore[return-value]


def compiler() -> list[str] | None:
    """The command of the C++ compiler; None where there is none. CXX names another, or "" for none."""
    named = os.environ.get("CXX")
    if named is not None:
        command = shlex.split(named)
        return command if command and shutil.which(command[0]) else None
    return next(([found] for found in map(shutil.which, ("c++", "g++", "clang++")) if found), None)


def _cuda_headers() -> list[pathlib.Path]:
    """Folders with those of the CUDA runtime: of a toolkit, and of the packages that torch depends on."""
    site = pathlib.Path(torch.__file__).parents[1] / "nvidia"
    named = [pathlib.Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [*named, *sorted(site.glob("*/include")), pathlib.Path("/usr/local/cuda/include")]
    return [place for place in places if (place / "cuda_runtime_api.h").exists()]


def _source(kind: str) -> pathlib.Path:
    return FOLDER / f"{kind}_allocator.cpp"


_WITH_PYTHON = "-DLOWTIDE_PYTHON"


def _command(build: list[str], kind: str, target: pathlib.Path) -> list[str]:
    root = pathlib.Path(torch.__file__).parent
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    more = [f"-I{folder}" for folder in _cuda_headers()[:1]] if kind == "cuda" else []
    pythons = pathlib.Path(sysconfig.get_path("include"))
    more += [_WITH_PYTHON, f"-I{pythons}"] if (pythons / "Python.h").exists() else []
    libraries = ["-lc10", *(["-lc10_cuda"] if kind == "cuda" else [])]
    return [*build, "-shared", "-fPIC", "-std=c++20", "-O2", "-fvisibility=default", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            f"-I{root}/include", *more, str(_source(kind)), "-o", str(target), f"-L{root}/lib", *libraries,
            f"-Wl,-rpath,{root}/lib"]


def _name(kind: str) -> str:
    """The name of the library in the cache."""
    sources = (_source(kind), *(FOLDER / f"{name}.h" for name in ("planned_addresses", "arenas", "python_frames")))
    text = b"".join(source.read_bytes() for source in sources) + f"{torch.__file__} {sys.version}".encode()
    return f"{kind}-allocator-torch-{torch.__version__}-{hashlib.sha256(text).hexdigest()[:16]}.so"


def _opened(kind: str, path: pathlib.Path) -> Allocator | None:
    """None where it cannot be opened, or is not what its name says."""
    try:
        return Allocator(kind, path)
    except (OSError, AttributeError):
        return None


def _built(kind: str) -> Allocator | None:
    """Built, kept in the cache if that takes it, and opened. None without a compiler that can build it."""
    build = compiler()
    if build is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        made = pathlib.Path(scratch) / _name(kind)
        command = _command(build, kind, made)
        plainly = [word for word in command if word != _WITH_PYTHON]  # own calls are told by their sizes then
        if all(subprocess.run(words, capture_output=True).returncode != 0 for words in (command, plainly)):
            return None
        return _opened(kind, cache.store_library(_name(kind), made) or made)  # once opened, a library needs its file no more


def allocator(kind: str = "cpu") -> Allocator | None:
    """The allocator of a kind of device, in place; None where it cannot be (no compiler, or an allocator that nothing can
    be put upon)."""
    return _put_in_place(kind)


@functools.cache  # by a name that has one form: a second one's callbacks would be somebody else's
def _put_in_place(kind: str) -> Allocator | None:
    if os.environ.get("LOWTIDE_ALLOCATOR") == "0":
        return None
    if kind == "cuda":
        torch.cuda.init()  # PyTorch's own allocator is there then
    kept = cache.load_library(_name(kind))
    made = (_opened(kind, kept) if kept is not None else None) or _built(kind)
    if made is None or not made.installed:
        return None
    _in_place[kind] = made
    return made


_in_place: dict[str, Allocator] = {}


def _see_collections() -> None:
    """What the garbage collector calls may allocate, and is not the step's: the libraries know of it from before the first
    of its callbacks to behind the last one."""
    called, own = gc.callbacks, [made.collections for made in _in_place.values() if made.collections is not None]
    begins, ends = [begin for begin, _ in own], [end for _, end in own]
    if own and (called[:len(own)] != begins or called[-len(own):] != ends):
        called[:] = [*begins, *(other for other in called if other not in begins and other not in ends), *ends]


def own_mark(kind: str) -> Callable[[int], Any]:
    """What recorded code calls with 1 when it begins and with 0 when it ends: what it allocates between them is its own."""
    return _in_place[kind].library.lt_own if kind in _in_place else int
