"""Plans: made by the library's search (searches.py), read, copied.

A plan is never changed once it is there. A copy shares the library's; a pickle holds the bytes of the plan file, which are
verified where it is read, as any plan file's. Tests: tests/python/test_plan_objects.py.
"""

from __future__ import annotations

import ctypes
import html
import json
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from . import _library
from .errors import Usage
from .searches import as_json, searched

GIB, MIB = 2**30, 2**20
UPDATE = 2  # lowtide_alias of a value that an op writes where its operand lies


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

    def __init__(self, handle: _library.Handle) -> None:
        self._handle = handle
        self._reading = threading.Lock()  # of its texts, which the library makes when they are first asked for
        self.communication: dict[str, int] = {}  # bytes that FSDP2 takes beside it (pytorch/shards.py)

    def __copy__(self) -> Plan:
        made = Plan(self._handle)
        made.communication = dict(self.communication)
        return made

    def __deepcopy__(self, memo: dict) -> Plan:
        return self.__copy__()

    def __reduce__(self) -> tuple:
        return _unpickled, (self._file(), dict(self.communication))

    @staticmethod
    def load(path: str | os.PathLike) -> Plan:
        """Reads a plan file and verifies it. Raises BadInput, Refused."""
        library, handle = _library.library(), _library.Handle("lowtide_plan_free")
        _library.check(library.lowtide_plan_load(os.fsencode(path), handle.place))
        _library.check(library.lowtide_plan_verify(handle))
        return Plan(handle)

    def _file(self) -> bytes:
        with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
            path = pathlib.Path(folder) / "plan.lt"
            self.save(path)
            return path.read_bytes()

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
        with self._reading:
            return _library.library().lowtide_plan_text(self._handle).decode()

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict with stable keys (docs/formats.md, "plan --json")."""
        with self._reading:
            text = _library.library().lowtide_plan_json(self._handle)
        return {**json.loads(text), **self.communication}

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

    def updates_of_given(self) -> dict[str, int]:
        """How often the plan's ops write what is there before the step, by the name of the value."""
        library, info = _library.library(), _library.ValueInfo()
        given, written = {}, {}
        for index in range(library.lowtide_plan_value_count(self._handle)):
            _library.check(library.lowtide_plan_value(self._handle, index, byref(info)))
            if info.producer < 0:
                given[info.storage] = info.name.decode()
            elif info.alias == UPDATE:
                written[info.storage] = written.get(info.storage, 0) + 1
        return {given[storage]: count for storage, count in written.items() if storage in given}

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


def _unpickled(file: bytes, communication: dict[str, int]) -> Plan:
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        path = pathlib.Path(folder) / "plan.lt"
        path.write_bytes(file)
        plan = Plan.load(path)
    plan.communication = communication
    return plan


def search(model: _library.Handle, options: dict[str, Any], progress: bool | None = None) -> Plan:
    """Plans a model that was read."""
    return Plan(searched(model, options, progress))


def _read(open_model: Callable[[Any], int]) -> _library.Handle:
    model = _library.Handle("lowtide_model_free")
    _library.check(open_model(model.place))
    return model


def plan_text(text: str, origin: str, options: dict[str, Any], progress: bool | None = None) -> Plan:
    """Plans a graph in text form (docs/formats.md, "Graph text"). `options`: as lowtide_plan_make takes them."""
    library = _library.library()
    model = _read(lambda out: library.lowtide_model_parse(text.encode(), origin.encode(), None, out))
    return search(model, options, progress)


def plan_file(path: str | os.PathLike, dims: dict[str, int] | None = None, progress: bool | None = None,
              **options: Any) -> Plan:
    """Plans a model file (ONNX, or a graph as text). `options`: as lowtide_plan_make takes them; a
    budget may be a number of bytes, too."""
    library = _library.library()
    if isinstance(options.get("budget"), int) and not isinstance(options["budget"], bool):
        options["budget_bytes"] = options.pop("budget")
    if not isinstance(dims, (dict, type(None))):
        raise Usage(f"dims={dims!r} is no dict of names and sizes")
    as_json(options)
    reading = as_json({"dims": dims or {}, "training": bool(options.get("train", False))})
    return search(_read(lambda out: library.lowtide_model_read(os.fsencode(path), reading, out)), options, progress)


assert ctypes.sizeof(_library.Step) == 48, "lowtide_step as the C compiler lays it out"
