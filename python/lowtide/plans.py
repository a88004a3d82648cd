"""Plans: made by the library's search, watched, interrupted, read.

A search runs in a thread of its own, so that Ctrl-C reaches Python at once: it raises the search's flag, and the
search gives the best plan that it has (`plan.cut_short`). On a terminal a line shows where a long search stands.
"""

from __future__ import annotations

import ctypes
import html
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_void_p
from dataclasses import dataclass
from typing import Any

from . import _library
from .errors import Error, Usage

GIB, MIB = 2**30, 2**20


def bytes_text(count: float) -> str:
    """ "1.9 GiB", "560 MiB", "12 KiB" """
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{int(count)} B"


@dataclass(frozen=True)
class PlannedStep:
    """One step of a plan (include/lowtide/steps.h). `makes`: (storage, address, storage reused or -1)."""

    kind: int
    op: int
    storage: int
    address: int
    workspace_address: int
    makes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class PlannedStorage:
    """Where a buffer lies: `address` is that of a resident one. `home_slow`: a resident that lies in slow memory between
    its loads and stores. `slow_address`: of the slot of one that moves; -1 of others."""

    bytes: int
    category: str
    resident: bool
    address: int
    home_slow: bool = False
    slow_address: int = -1


@dataclass(frozen=True)
class PlannedValue:
    """A tensor of the plan: `dtype` is "f32", "i64", ..."""

    name: str
    dtype: str
    dims: tuple[int, ...]


class Plan:
    """An execution plan. `repr` is the verdict.

    All sizes are in bytes of the whole device: parameters, gradients, state, inputs, activations, workspace.
    """

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle
        self.communication: dict[str, int] = {}  # bytes that FSDP2 takes beside it (pytorch/shards.py)

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            _library.library().lowtide_plan_free(handle)

    @staticmethod
    def load(path: str | os.PathLike) -> Plan:
        """Reads a plan file and verifies it. Raises BadInput, Refused."""
        library, handle = _library.library(), c_void_p()
        _library.check(library.lowtide_plan_load(os.fsencode(path), byref(handle)))
        plan = Plan(handle)
        _library.check(library.lowtide_plan_verify(handle))
        return plan

    def save(self, path: str | os.PathLike) -> None:
        """Writes the plan file, as `lowtide plan -o` does."""
        _library.check(_library.library().lowtide_plan_save(self._handle, os.fsencode(path)))

    @property
    def peak_before_bytes(self) -> int:
        """The high-water mark of the order that came in, each op once."""
        return _library.library().lowtide_plan_peak_before_bytes(self._handle)

    @property
    def peak_bytes(self) -> int:
        """The high-water mark of the planned order."""
        return _library.library().lowtide_plan_peak_bytes(self._handle)

    @property
    def lower_bound_bytes(self) -> int:
        """Proven: what every order needs, each op once."""
        return _library.library().lowtide_plan_lower_bound_bytes(self._handle)

    @property
    def arena_bytes(self) -> int:
        """The peak with addresses: what the step needs in all."""
        return _library.library().lowtide_plan_arena_bytes(self._handle)

    @property
    def text(self) -> str:
        """The verdict, for people."""
        return _library.library().lowtide_plan_text(self._handle).decode()

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict with stable keys (docs/formats.md, "plan --json")."""
        return {**json.loads(_library.library().lowtide_plan_json(self._handle)), **self.communication}

    @property
    def cut_short(self) -> bool:
        """Whether a time limit or Ctrl-C ended the search that made it."""
        return bool(self.verdict.get("cut_short", False))

    def steps(self) -> Iterator[PlannedStep]:
        """In the order in which they run."""
        library, step, make = _library.library(), _library.Step(), _library.Placement()
        for index in range(library.lowtide_plan_step_count(self._handle)):
            _library.check(library.lowtide_plan_step(self._handle, index, byref(step)))
            makes = []
            for k in range(step.make_count):
                _library.check(library.lowtide_plan_step_make(self._handle, index, k, byref(make)))
                makes.append((make.storage, make.address, make.reuses))
            yield PlannedStep(step.kind, step.op, step.storage, step.address, step.workspace_address, tuple(makes))

    def op_names(self) -> list[str]:
        """By the number of the op."""
        library, info, names = _library.library(), _library.OpInfo(), []
        for index in range(library.lowtide_plan_op_count(self._handle)):
            _library.check(library.lowtide_plan_op(self._handle, index, byref(info)))
            names.append(info.name.decode())
        return names

    def storages(self) -> list[PlannedStorage]:
        """By the number of the storage."""
        library, info, found = _library.library(), _library.StorageInfo(), []
        for index in range(library.lowtide_plan_storage_count(self._handle)):
            _library.check(library.lowtide_plan_storage(self._handle, index, byref(info)))
            slot = info.slow_address if info.slow_tier >= 0 else -1
            found.append(PlannedStorage(info.bytes, info.category.decode(), bool(info.resident), info.address,
                                        bool(info.home_slow), slot))
        return found

    def storage_of_values(self) -> dict[str, int]:
        """The storage of each value that brought one, by the value's name."""
        library, info, found = _library.library(), _library.ValueInfo(), {}
        for index in range(library.lowtide_plan_value_count(self._handle)):
            _library.check(library.lowtide_plan_value(self._handle, index, byref(info)))
            if info.alias == 0:
                found[info.name.decode()] = info.storage
        return found

    def given(self) -> list[PlannedValue]:
        """What is there before the step."""
        library, info, found = _library.library(), _library.ValueInfo(), []
        for index in range(library.lowtide_plan_value_count(self._handle)):
            _library.check(library.lowtide_plan_value(self._handle, index, byref(info)))
            if info.producer < 0:
                found.append(PlannedValue(info.name.decode(), info.dtype.decode(), tuple(info.dims[:info.rank])))
        return found

    def op_kinds(self) -> set[str]:
        library, info, kinds = _library.library(), _library.OpInfo(), set()
        for index in range(library.lowtide_plan_op_count(self._handle)):
            _library.check(library.lowtide_plan_op(self._handle, index, byref(info)))
            kinds.add(info.kind.decode())
        return kinds

    def __repr__(self) -> str:
        said = [f"{bytes_text(size)} to {name.removesuffix('_bytes')}" for name, size in self.communication.items()]
        return self.text.rstrip("\n") + (f"\nbeside it FSDP2 takes {' and '.join(said)}" if said else "")

    def _repr_html_(self) -> str:
        rows = [("arena", self.arena_bytes), ("peak", self.peak_bytes), ("as written", self.peak_before_bytes),
                ("proven for every order", self.lower_bound_bytes)]
        most = max(1, *(size for _, size in rows))
        bars = "".join(
            f"<tr><td>{name}</td><td style='text-align:right'>{bytes_text(size)}</td><td><div style='background:#4a7;"
            f"height:0.8em;width:{200 * size // most}px'></div></td></tr>" for name, size in rows)
        return f"<table>{bars}</table><pre>{html.escape(self.text)}</pre>"


class _Line:
    """One line on a terminal that says where a search stands, from its second second on."""

    def __init__(self, wanted: bool | None) -> None:
        self.shown = 0
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.began = time.monotonic()

    def update(self, progress: _library.Progress) -> None:
        if not self.wanted or time.monotonic() - self.began < 1:
            return
        best = f", best {progress.seconds:.4g} s" if progress.seconds > 0 else ""
        bound = f" (bound {progress.lower_bound_seconds:.4g} s)" if progress.lower_bound_seconds > 0 else ""
        line = f"lowtide: {progress.stage.decode()} {100 * progress.share:3.0f} %{best}{bound}"
        sys.stderr.write("\r" + line.ljust(self.shown))
        sys.stderr.flush()
        self.shown = max(self.shown, len(line))

    def end(self) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * self.shown + "\r")


def _wait(ended: threading.Event, cancel: c_void_p) -> None:
    """Until the search ends; Ctrl-C asks it to end with what it has. Not by join: one that is interrupted takes its
    thread for ended (CPython before 3.12)."""
    while not ended.is_set():
        try:
            ended.wait(0.1)
        except KeyboardInterrupt:
            _library.library().lowtide_cancel_raise(cancel)


def _search(model: c_void_p, options: dict[str, Any], progress: bool | None) -> Plan:
    library, handle, cancel = _library.library(), c_void_p(), c_void_p()
    line, problems, ended = _Line(progress), [], threading.Event()
    watcher = _library.Watcher(lambda _, now: line.update(now.contents))

    def work() -> None:  # the library's last error is the thread's own
        try:
            _library.check(library.lowtide_plan_make_watched(
                model, json.dumps(options).encode(), watcher, None, cancel, byref(handle)))
        except Error as problem:
            problems.append(problem)
        finally:
            ended.set()

    _library.check(library.lowtide_cancel_make(byref(cancel)))
    try:
        threading.Thread(target=work, name="lowtide-plan", daemon=True).start()
        _wait(ended, cancel)
    finally:
        line.end()
        library.lowtide_cancel_free(cancel)
    if problems:
        raise problems[0]
    return Plan(handle)


def _with_model(open_model: Callable[[Any], int], options: dict[str, Any], progress: bool | None) -> Plan:
    model = c_void_p()
    _library.check(open_model(byref(model)))
    try:
        return _search(model, options, progress)
    finally:
        _library.library().lowtide_model_free(model)


def search(model: c_void_p, options: dict[str, Any], progress: bool | None = None) -> Plan:
    """Plans a model that was read, which the caller frees."""
    return _search(model, options, progress)


def plan_text(text: str, origin: str, options: dict[str, Any], progress: bool | None = None) -> Plan:
    """Plans a graph in text form (docs/formats.md, "Graph text"). `options`: as lowtide_plan_make takes them."""
    library = _library.library()
    return _with_model(lambda out: library.lowtide_model_parse(text.encode(), origin.encode(), None, out), options,
                       progress)


def plan_file(path: str | os.PathLike, dims: dict[str, int] | None = None, progress: bool | None = None,
              **options: Any) -> Plan:
    """Plans a model file (ONNX, or a graph as text). `options`: as lowtide_plan_make takes them; a
    budget may be a number of bytes, too."""
    library = _library.library()
    if isinstance(options.get("budget"), int) and not isinstance(options["budget"], bool):
        options["budget_bytes"] = options.pop("budget")
    if not isinstance(dims, (dict, type(None))):
        raise Usage(f"dims={dims!r} is no dict of names and sizes")
    for name, value in [*options.items(), *(dims or {}).items()]:
        if not isinstance(value, (str, int, float, list, dict, type(None))):
            raise Usage(f"{name} is a {type(value).__name__}, which is neither a number nor a text")
    reading = json.dumps({"dims": dims or {}, "training": bool(options.get("train", False))}).encode()
    return _with_model(lambda out: library.lowtide_model_read(os.fsencode(path), reading, out), options, progress)


assert ctypes.sizeof(_library.Step) == 48, "lowtide_step as the C compiler lays it out"
