"""Sessions: a plan's steps run by the library's own kernels, on memory that the caller lends (include/lowtide/lending.h).

Addresses are plain numbers here; who owns the memory keeps it alive.
"""

from __future__ import annotations

import json
from ctypes import byref, c_double, c_int32, c_void_p
from dataclasses import dataclass
from typing import Any

from . import _library
from .plans import Plan, PlannedValue

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
    """One arena and the steps that run in it. `lent`: names of the values that lie in the caller's memory."""

    def __init__(self, plan: Plan, lent: list[str], **options: Any) -> None:
        self._library, self._handle = _library.library(), c_void_p()
        asked = json.dumps({"lent": lent, **options}).encode()
        _library.check(self._library.lowtide_session_open(plan._handle, asked, byref(self._handle)))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Gives the arena back."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._library.lowtide_session_free(handle)

    def values(self, role: int) -> list[PlannedValue]:
        """INPUTS, PARAMETERS or OUTPUTS."""
        value, found = _library.Value(), []
        for index in range(self._library.lowtide_session_value_count(self._handle, role)):
            _library.check(self._library.lowtide_session_value(self._handle, role, index, byref(value)))
            found.append(PlannedValue(value.name.decode(), value.dtype.decode(), tuple(value.dims[:value.rank])))
        return found

    @property
    def lent_bytes(self) -> int:
        return self._library.lowtide_session_lent_bytes(self._handle)

    def lend(self, name: str, address: int, size: int) -> None:
        _library.check(self._library.lowtide_session_lend(self._handle, name.encode(), address, size))

    def set(self, name: str, address: int, size: int) -> None:
        """Copies row-major contents in."""
        _library.check(self._library.lowtide_session_set(self._handle, name.encode(), address, size))

    def get(self, name: str, address: int, size: int) -> None:
        """Copies row-major contents out."""
        _library.check(self._library.lowtide_session_get(self._handle, name.encode(), address, size))

    def set_update(self, parameter: str, now: UpdateNow) -> None:
        update = _library.Update(now.learning_rate, now.weight_decay, now.momentum, now.beta1, now.beta2, now.epsilon,
                                 now.step, int(now.nesterov), int(now.coupled))
        _library.check(self._library.lowtide_session_set_update(self._handle, parameter.encode(), byref(update)))

    def set_seed(self, seed: int) -> None:
        _library.check(self._library.lowtide_session_set_seed(self._handle, seed))

    def run(self) -> None:
        _library.check(self._library.lowtide_session_run(self._handle, 1))

    def run_if_finite(self, name: str) -> bool:
        """One step, or nothing where the result `name` is not finite."""
        done = c_int32()
        _library.check(self._library.lowtide_session_run_if_finite(self._handle, name.encode(), byref(done)))
        return bool(done.value)

    def rehearse(self) -> float:
        """The seconds of a step that changes nothing that is lent."""
        seconds = c_double()
        _library.check(self._library.lowtide_session_rehearse(self._handle, byref(seconds)))
        return seconds.value
