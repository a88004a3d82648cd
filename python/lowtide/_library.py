"""The C library, loaded with ctypes: types, declarations, and statuses as exceptions.

The declarations follow include/lowtide/lowtide.h, steps.h and lending.h; tests/python/test_package.py holds them against
the headers. The library is looked for at LOWTIDE_LIBRARY (a path), then inside the package (a wheel), then
where the loader finds it. Nothing but this file speaks ctypes to it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from .errors import BadInput, Usage, error_of

ABI_VERSION = 1
COMPUTE, FREE, STORE, LOAD, WAIT = range(5)


class Step(Structure):
    """lowtide_step"""

    _fields_ = [("kind", c_int32), ("op", c_int64), ("storage", c_int64), ("address", c_int64),
                ("workspace_address", c_int64), ("make_count", c_size_t)]


class Placement(Structure):
    """lowtide_placement"""

    _fields_ = [("storage", c_int64), ("address", c_int64), ("reuses", c_int64)]


class OpInfo(Structure):
    """lowtide_plan_op_info"""

    _fields_ = [("kind", c_char_p), ("name", c_char_p), ("foreign", c_char_p), ("input_count", c_size_t),
                ("output_count", c_size_t), ("workspace_bytes", c_int64), ("predicted_seconds", c_double)]


class ValueInfo(Structure):
    """lowtide_plan_value_info"""

    _fields_ = [("name", c_char_p), ("dtype", c_char_p), ("dims", POINTER(c_int64)), ("rank", c_size_t),
                ("layout", c_char_p), ("alias", c_int32), ("base", c_int64), ("storage", c_int64),
                ("offset_bytes", c_int64), ("producer", c_int64), ("is_output", c_int32)]


class StorageInfo(Structure):
    """lowtide_plan_storage_info"""

    _fields_ = [("bytes", c_int64), ("category", c_char_p), ("root", c_int64), ("resident", c_int32),
                ("home_slow", c_int32), ("address", c_int64), ("slow_tier", c_int64), ("slow_address", c_int64)]


class Progress(Structure):
    """lowtide_progress"""

    _fields_ = [("budget_bytes", c_int64), ("seconds", c_double), ("peak_bytes", c_int64),
                ("lower_bound_seconds", c_double), ("share", c_double), ("unpacked_seconds", c_double),
                ("stage", c_char_p)]


class Value(Structure):
    """lowtide_value"""

    _fields_ = [("name", c_char_p), ("dtype", c_char_p), ("dims", POINTER(c_int64)), ("rank", c_size_t),
                ("bytes", c_size_t)]


class Update(Structure):
    """lowtide_update"""

    _fields_ = [("learning_rate", c_double), ("weight_decay", c_double), ("momentum", c_double), ("beta1", c_double),
                ("beta2", c_double), ("epsilon", c_double), ("step", c_int64), ("nesterov", c_int32),
                ("coupled", c_int32)]


Watcher = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Progress))

_STATUS = c_int32
# name: (result, arguments). A handle is a void pointer.
DECLARATIONS = {
    "lowtide_abi_version": (c_uint32, []),
    "lowtide_version": (c_char_p, []),
    "lowtide_last_error": (c_char_p, []),
    "lowtide_model_read": (_STATUS, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "lowtide_model_parse": (_STATUS, [c_char_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "lowtide_model_free": (None, [c_void_p]),
    "lowtide_model_text": (c_char_p, [c_void_p]),
    "lowtide_model_json": (c_char_p, [c_void_p]),
    "lowtide_model_in_parts": (_STATUS, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "lowtide_plan_make_watched": (_STATUS, [c_void_p, c_char_p, Watcher, c_void_p, c_void_p, POINTER(c_void_p)]),
    "lowtide_plan_load": (_STATUS, [c_char_p, POINTER(c_void_p)]),
    "lowtide_plan_free": (None, [c_void_p]),
    "lowtide_plan_save": (_STATUS, [c_void_p, c_char_p]),
    "lowtide_plan_verify": (_STATUS, [c_void_p]),
    "lowtide_plan_peak_before_bytes": (c_int64, [c_void_p]),
    "lowtide_plan_peak_bytes": (c_int64, [c_void_p]),
    "lowtide_plan_lower_bound_bytes": (c_int64, [c_void_p]),
    "lowtide_plan_arena_bytes": (c_int64, [c_void_p]),
    "lowtide_plan_order_proven": (c_int32, [c_void_p]),
    "lowtide_plan_text": (c_char_p, [c_void_p]),
    "lowtide_plan_json": (c_char_p, [c_void_p]),
    "lowtide_cancel_make": (_STATUS, [POINTER(c_void_p)]),
    "lowtide_cancel_free": (None, [c_void_p]),
    "lowtide_cancel_raise": (None, [c_void_p]),
    "lowtide_plan_step_count": (c_size_t, [c_void_p]),
    "lowtide_plan_step": (_STATUS, [c_void_p, c_size_t, POINTER(Step)]),
    "lowtide_plan_step_make": (_STATUS, [c_void_p, c_size_t, c_size_t, POINTER(Placement)]),
    "lowtide_plan_op_count": (c_size_t, [c_void_p]),
    "lowtide_plan_op": (_STATUS, [c_void_p, c_size_t, POINTER(OpInfo)]),
    "lowtide_plan_op_input": (_STATUS, [c_void_p, c_size_t, c_size_t, POINTER(c_int64)]),
    "lowtide_plan_op_output": (_STATUS, [c_void_p, c_size_t, c_size_t, POINTER(c_int64)]),
    "lowtide_plan_value_count": (c_size_t, [c_void_p]),
    "lowtide_plan_value": (_STATUS, [c_void_p, c_size_t, POINTER(ValueInfo)]),
    "lowtide_plan_storage_count": (c_size_t, [c_void_p]),
    "lowtide_session_open": (_STATUS, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "lowtide_session_free": (None, [c_void_p]),
    "lowtide_session_value_count": (c_size_t, [c_void_p, c_int32]),
    "lowtide_session_value": (_STATUS, [c_void_p, c_int32, c_size_t, POINTER(Value)]),
    "lowtide_session_set": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "lowtide_session_get": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "lowtide_session_run": (_STATUS, [c_void_p, c_size_t]),
    "lowtide_session_lend": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "lowtide_session_lent_bytes": (c_int64, [c_void_p]),
    "lowtide_session_set_update": (_STATUS, [c_void_p, c_char_p, POINTER(Update)]),
    "lowtide_session_set_seed": (_STATUS, [c_void_p, c_uint64]),
    "lowtide_session_run_if_finite": (_STATUS, [c_void_p, c_char_p, POINTER(c_int32)]),
    "lowtide_session_rehearse": (_STATUS, [c_void_p, POINTER(c_double)]),
    "lowtide_plan_storage": (_STATUS, [c_void_p, c_size_t, POINTER(StorageInfo)]),
}


def _candidates() -> list[str]:
    named = os.environ.get("LOWTIDE_LIBRARY")
    if named:
        return [named]
    folder = pathlib.Path(__file__).parent / "lib"
    inside = sorted(str(path) for path in folder.glob("liblowtide.so*"))
    return [*inside[:1], *filter(None, [ctypes.util.find_library("lowtide")])]


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded once. Raises BadInput where there is none, or one of another ABI version."""
    tried = _candidates()
    if not tried:
        raise BadInput("there is no liblowtide: install the wheel, or set LOWTIDE_LIBRARY to the path of liblowtide.so")
    try:
        loaded = ctypes.CDLL(tried[0])
    except OSError as problem:
        raise BadInput(f"{tried[0]} cannot be loaded: {problem}") from problem
    for name, (result, arguments) in DECLARATIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    if loaded.lowtide_abi_version() != ABI_VERSION:
        raise BadInput(f"{tried[0]} has ABI version {loaded.lowtide_abi_version()}; this package speaks {ABI_VERSION}")
    return loaded


class Handle:
    """Something of the library's, freed once: when nobody holds it any more.

    Whoever still uses it holds it (a thread that searches holds its model and its flag), so no exception in another
    thread or between two lines frees what is in use. It is given to the library's functions as it is.
    """

    def __init__(self, free: str) -> None:
        self._free = getattr(library(), free)
        self._as_parameter_ = c_void_p()

    @property
    def place(self) -> Any:
        """Where a function of the library puts what it makes."""
        return ctypes.byref(self._as_parameter_)

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, memo: dict) -> Handle:
        return self

    def __reduce__(self) -> tuple:
        raise Usage("what the library holds in memory has no pickle")

    def __del__(self) -> None:
        held, self._as_parameter_ = getattr(self, "_as_parameter_", None), None
        if held:
            self._free(held)


def check(status: int) -> None:
    """Raises the exception of a status, with the line that the library has for it."""
    if status != 0:
        raise error_of(status, library().lowtide_last_error().decode("utf-8", "replace"))


def version() -> str:
    """The library's version, such as "0.1.0"."""
    return library().lowtide_version().decode()
