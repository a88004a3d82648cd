// Where this thread's Python stands: by that the step's own allocations are told from those of a
// signal handler, a finalizer or a trace function, which run in other frames
// (planned_addresses.h). Frames are read as CPython's header lays them out, where it was there when
// this was built (LOWTIDE_PYTHON); else they are all the same one, and own calls are told by their
// sizes alone. All of it may be asked with or without the interpreter's lock: only this thread
// changes what it reads.
#pragma once

#ifdef LOWTIDE_PYTHON
#include <Python.h>
#endif

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

#else

inline void find_python() {}

inline const void* frame_now() {
  return &collecting;
}

inline bool is_tracing() {
  return false;
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

PyObject* lt_mark_function() {
  return PyCFunction_New(&mark_method, nullptr);
}

}  // extern "C"
#endif
