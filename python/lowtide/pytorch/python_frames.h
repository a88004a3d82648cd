// Where this thread's Python stands: by that the step's own allocations are told from those of a
// signal handler, a finalizer or a trace function, which run in other frames
// (planned_addresses.h). Frames are read as CPython's header lays them out, where it was there when
// this was built (LOWTIDE_PYTHON); else they are all the same one, and own calls are told by their
// sizes alone. Allocations that functions of an optimizer make are told by the names of all
// functions from its step() on (`functions_now`). All of it may be asked with or without the
// interpreter's lock: only this thread changes what it reads.
#pragma once

#ifdef LOWTIDE_PYTHON
#include <Python.h>
#endif

#include <cstddef>
#include <cstdint>

namespace planned {

thread_local bool collecting = false;  // the garbage collector runs, and what it calls

#ifdef LOWTIDE_PYTHON

thread_local PyThreadState* python = nullptr;

inline void find_python() {
  python = PyThreadState_Get();
}

inline const void* frame_now() {
#if PY_VERSION_HEX >= 0x030D0000
  return python->current_frame;
#elif PY_VERSION_HEX >= 0x030B0000
  return python->cframe->current_frame;
#else
  return python->frame;
#endif
}

inline bool is_tracing() {
  return python->tracing > 0;
}

// The head of a frame. Python has no public name for it in most versions, so what is read by it is
// compared once with what Python says (lt_read_code, addresses.py).
#if PY_VERSION_HEX >= 0x030C0000
struct Frame {
  std::uintptr_t code;  // of 3.14: the lowest bits are a tag
  const Frame* previous;
};
#elif PY_VERSION_HEX >= 0x030B0000
struct Frame {
  void *function, *globals, *builtins, *locals;
  std::uintptr_t code;
  void* object;
  const Frame* previous;
};
#endif

inline PyObject* code_of(const void* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return reinterpret_cast<PyObject*>(static_cast<const Frame*>(frame)->code & ~std::uintptr_t{3});
#else
  return reinterpret_cast<PyObject*>(static_cast<const PyFrameObject*>(frame)->f_code);
#endif
}

inline const void* frame_behind(const void* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<const Frame*>(frame)->previous;
#else
  return static_cast<const PyFrameObject*>(frame)->f_back;
#endif
}

bool reads_code = false;              // what code_of reads is what Python says
const PyObject* outermost = nullptr;  // the code of the function that calls an optimizer's step()

inline uint64_t mixed(uint64_t hash, const PyObject* text) {
  auto* object = const_cast<PyObject*>(text);
  const auto* bytes = static_cast<const unsigned char*>(PyUnicode_DATA(object));
  const auto count = static_cast<size_t>(PyUnicode_GET_LENGTH(object)) * PyUnicode_KIND(object);
  for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
  return (hash ^ 0xFF) * 0x100000001B3;
}

// The functions that run now, from the innermost to the one that `own` or `outermost` has called,
// as a number over 1 of their names; 0: it cannot be told. What a finalizer calls has the
// finalizer among them.
inline int64_t functions_now(const void* own) {
  if (!reads_code) return 0;
  uint64_t hash = 0xCBF29CE484222325;
  for (const void* frame = frame_now(); frame != nullptr && frame != own;
       frame = frame_behind(frame)) {
    PyObject* code = code_of(frame);
    if (code == nullptr || !PyCode_Check(code)) continue;
    if (code == outermost) break;
#if PY_VERSION_HEX >= 0x030B0000
    hash = mixed(hash, reinterpret_cast<PyCodeObject*>(code)->co_qualname);
#else
    hash = mixed(hash, reinterpret_cast<PyCodeObject*>(code)->co_name);
#endif
  }
  return static_cast<int64_t>(hash >> 1) | 2;
}

#else

inline void find_python() {}

inline const void* frame_now() {
  return &collecting;
}

inline bool is_tracing() {
  return false;
}

inline int64_t functions_now(const void*) {
  return 0;
}

#endif

}  // namespace planned

#ifdef LOWTIDE_PYTHON
extern "C" {

// The first and the last callback of the garbage collector, in the thread that collects. Not in
// Python: whatever runs there at that moment is in the middle of something.
void lt_collection_begins(PyObject* phase, PyObject*) {
  if (PyUnicode_CompareWithASCIIString(phase, "start") == 0) planned::collecting = true;
}

void lt_collection_ends(PyObject* phase, PyObject*) {
  if (PyUnicode_CompareWithASCIIString(phase, "stop") == 0) planned::collecting = false;
}

// lt_mark as a function of Python's: a call of it takes a fraction of one through ctypes. A new
// reference.
void lt_mark(int64_t part);

static PyObject* mark_part(PyObject*, PyObject* part) {
  const long long number = PyLong_AsLongLong(part);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  lt_mark(number);
  Py_RETURN_NONE;
}

static PyMethodDef mark_method = {"mark", mark_part, METH_O, nullptr};

// The code of the function that calls this: what Python says it is, `now`, is compared with what is
// read. 1: they are the same, and `outermost` is known from now on.
int lt_read_code(PyObject* now, PyObject* outermost) {
  planned::find_python();
  const void* frame = planned::frame_now();
  planned::reads_code = frame != nullptr && planned::code_of(frame) == now;
  planned::outermost = outermost;
  return planned::reads_code ? 1 : 0;
}

PyObject* lt_mark_function() {
  return PyCFunction_New(&mark_method, nullptr);
}

}  // extern "C"
#endif
