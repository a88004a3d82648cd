"""Sessions: a plan's steps run by the library's own kernels, on memory that the caller lends (include/lowtide/lending.h).

Addresses are plain numbers here; who owns the memory keeps it alive.
"""

from __future__ import annotations

import threading
from ctypes import byref, c_double, c_int32
from dataclasses import dataclass
from typing import Any

from . import _library
from .errors import Usage
from .plans import Plan, PlannedValue
from .searches import as_json

INPUTS, PARAMETERS, OUTPUTS = range(3)


@dataclass(frozen=True)
class UpdateNow:
    """What an optimizer's update does now; `step` counts from 1."""

    learning_rate: float
    weight_decay: float
    step: int
    momentum: float = 0.0
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0
    nesterov: bool = False
    coupled: bool = False


class Session:
    """One arena and the steps that run in it. `lent`: names of the values that lie in the caller's memory. Threads that
    call it at once take turns; a closed one raises Usage."""

    def __init__(self, plan: Plan, lent: list[str], **options: Any) -> None:
        self._turn, self._handle = threading.RLock(), None
        handle, asked = _library.Handle("lowtide_session_free"), as_json({"lent": lent, **options})
        _library.check(_library.library().lowtide_session_open(plan._handle, asked, handle.place))
        self._handle: _library.Handle | None = handle

    def __reduce__(self) -> tuple:
        raise Usage("a session is an arena of this process: neither copied nor pickled; its plan is, and Session(plan, ...) opens another")

    def close(self) -> None:
        """Gives the arena back, when what runs in it has ended."""
        with self._turn:
            self._handle = None

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._turn:
            if self._handle is None:
                raise Usage("the session is closed")
            return getattr(_library.library(), f"lowtide_session_{name}")(self._handle, *arguments)

    def _do(self, name: str, *arguments: Any) -> None:
        _library.check(self._ask(name, *arguments))

    def values(self, role: int) -> list[PlannedValue]:
        """INPUTS, PARAMETERS or OUTPUTS."""
        value, found = _library.Value(), []
        for index in range(self._ask("value_count", role)):
            self._do("value", role, index, byref(value))
            found.append(PlannedValue(value.name.decode(), value.dtype.decode(), tuple(value.dims[:value.rank])))
        return found

    @property
    def lent_bytes(self) -> int:
        return self._ask("lent_bytes")

    def lend(self, name: str, address: int, size: int) -> None:
        self._do("lend", name.encode(), address, size)

    def set(self, name: str, address: int, size: int) -> None:
        """Copies row-major contents in."""
        self._do("set", name.encode(), address, size)

    def get(self, name: str, address: int, size: int) -> None:
        """Copies row-major contents out."""
        self._do("get", name.encode(), address, size)

    def set_update(self, parameter: str, now: UpdateNow) -> None:
        update = _library.Update(now.learning_rate, now.weight_decay, now.momentum, now.beta1, now.beta2, now.epsilon,
                                 now.step, int(now.nesterov), int(now.coupled))
        self._do("set_update", parameter.encode(), byref(update))

    def set_seed(self, seed: int) -> None:
        self._do("set_seed", seed)

    def run(self) -> None:
        self._do("run", 1)

    def run_if_finite(self, name: str) -> bool:
        """One step, or nothing where the result `name` is not finite."""
        done = c_int32()
        self._do("run_if_finite", name.encode(), byref(done))
        return bool(done.value)

    def rehearse(self) -> float:
        """The seconds of a step that changes nothing that is lent."""
        seconds = c_double()
        self._do("rehearse", byref(seconds))
        return seconds.value
