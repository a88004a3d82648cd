"""Lowtide through its C ABI, in this process: reading, planning and running a small graph takes milliseconds, a program's
start would take more. Only what the comparisons need; include/lowtide/lowtide.h says what each function does.
"""

import ctypes
import json
import os
import pathlib

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
INFEASIBLE, INPUT, LIMIT = 3, 4, 5
INPUTS, PARAMETERS, OUTPUTS = 0, 1, 2
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}


class Failure(Exception):
    """A call that answered something other than OK: the status (an exit code of the program) and its line."""

    def __init__(self, status: int, message: str):
        super().__init__(f"status {status}: {message}")
        self.status = status
        self.message = message


class Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_size_t), ("bytes", ctypes.c_size_t)]


def find_library() -> pathlib.Path | None:
    folder = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
    found = sorted(folder.glob("liblowtide.so*")) + sorted(folder.glob("*/liblowtide.so*"))
    return found[0] if found else None


class Library:
    def __init__(self, path: pathlib.Path | None = None):
        path = path or find_library()
        if path is None:
            raise FileNotFoundError("there is no liblowtide.so in the build folder; build first (LOWTIDE_BUILD_DIR names another)")
        self.c = ctypes.CDLL(str(path))
        self.c.lowtide_last_error.restype = ctypes.c_char_p
        self.c.lowtide_plan_json.restype = ctypes.c_char_p
        self.c.lowtide_plan_arena_bytes.restype = ctypes.c_int64
        self.c.lowtide_session_value_count.restype = ctypes.c_size_t
        for name in ("model_free", "plan_free", "session_free"):
            getattr(self.c, f"lowtide_{name}").argtypes = [ctypes.c_void_p]

    def check(self, status: int) -> None:
        if status != 0:
            raise Failure(status, self.c.lowtide_last_error().decode(errors="replace"))

    def make(self, function: str, *arguments) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.check(getattr(self.c, f"lowtide_{function}")(*arguments, ctypes.byref(handle)))
        return handle


class Handle:
    """Frees what the library made."""

    free = ""

    def __init__(self, library: Library, handle: ctypes.c_void_p):
        self.library, self.handle = library, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        getattr(self.library.c, self.free)(self.handle)


def as_json(options: dict) -> bytes:
    return json.dumps(options).encode()


class Model(Handle):
    free = "lowtide_model_free"

    def __init__(self, library: Library, path: str, **options):
        super().__init__(library, library.make("model_read", path.encode(), as_json(options)))


class Plan(Handle):
    free = "lowtide_plan_free"

    def __init__(self, model: Model, **options):
        super().__init__(model.library, model.library.make("plan_make", model.handle, as_json(options)))

    @property
    def arena_bytes(self) -> int:
        return self.library.c.lowtide_plan_arena_bytes(self.handle)

    def verify(self) -> None:
        self.library.check(self.library.c.lowtide_plan_verify(self.handle))


class Session(Handle):
    free = "lowtide_session_free"

    def __init__(self, plan: Plan, **options):
        super().__init__(plan.library, plan.library.make("session_open", plan.handle, as_json(options)))

    def values(self, role: int) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        c, found = self.library.c, {}
        for index in range(c.lowtide_session_value_count(self.handle, role)):
            value = Value()
            self.library.check(c.lowtide_session_value(self.handle, role, ctypes.c_size_t(index), ctypes.byref(value)))
            dims = tuple(value.dims[d] for d in range(value.rank))
            found[value.name.decode()] = (np.dtype(DTYPES[value.dtype.decode()]), dims)
        return found

    def set(self, name: str, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array)
        self.library.check(self.library.c.lowtide_session_set(
            self.handle, name.encode(), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))

    def get(self, name: str, dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
        array = np.empty(dims, dtype)
        self.library.check(self.library.c.lowtide_session_get(
            self.handle, name.encode(), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))
        return array

    def all(self, role: int) -> dict[str, np.ndarray]:
        return {name: self.get(name, *kind) for name, kind in self.values(role).items()}

    def run(self, steps: int = 1) -> None:
        self.library.check(self.library.c.lowtide_session_run(self.handle, ctypes.c_size_t(steps)))
