"""What objects of C hold inside, so that a capture can put it back, or keep its hands off.

A walk over Python's objects (reachable.py) does not see the contents of an array or how far an iterator is. Each such object is one of three:

    a room (State)   generators of random numbers, context variables, the environment, results of futures, and arrays of numpy, `array` and ctypes, as long as all their contents
                     together take no more than COPIED bytes: these are copied, compared and put back
    read only        arrays of numpy beyond that: nobody writes into them while the step is traced (their own flag says so)
    barred           iterators, generators, queues, files, other arrays beyond that: an object stands in their place that refuses by name when
                     it is used (barred.py)

What is none of these has attributes of Python's, or nothing that could be known of it. Tests: tests/python/test_torch_untouched_insides.py.
"""

from __future__ import annotations

import array
import concurrent.futures
import contextlib
import contextvars
import ctypes
import io
import mmap
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .process import environment, set_environment
from .rooms import MISSING, Room, State

COPIED = 64 << 20  # bytes of all arrays that are noted with their contents
BARRED, READ_ONLY = object(), object()
_C_DATA = tuple(base for base in ctypes.Array.__mro__ if base.__name__ == "_CData")
_BUFFERS = (bytearray, array.array, memoryview, mmap.mmap, *_C_DATA)
_FUNCTIONS_OF_C = (types.WrapperDescriptorType, types.MethodDescriptorType)
_OF_FUTURES = ("_state", "_result", "_exception")
_RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def is_iterator(kind: type) -> bool:
    """Whether how far it is lies in C: a generator, or one of Python's own iterators."""
    return issubclass(kind, _RUNNING) or isinstance(getattr(kind, "__next__", None), _FUNCTIONS_OF_C)


def is_buffer(kind: type) -> bool:
    """Whether its contents lie in memory of C, in no tensor and no array of numpy."""
    return issubclass(kind, _BUFFERS)


def _is_barred(thing: Any, kind: type) -> bool:
    if issubclass(kind, io.IOBase):  # also those of C; what Python itself prints to is everybody's
        return not any(thing is stream for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__))
    queues = any(base.__module__ in ("queue", "_queue", "multiprocessing.queues", "tempfile") for base in kind.__mro__)
    return queues or is_iterator(kind)


class Insides:
    """The objects of one walk. Arrays are copied in the order in which they are found."""

    def __init__(self) -> None:
        self.left = COPIED

    def of(self, thing: Any, path: str) -> Any:
        """A room, BARRED, READ_ONLY, or None for what has no inside that is known."""
        kind = type(thing)
        if thing is os.environ:
            return State(thing, path, environment, set_environment)
        if kind is torch.Generator:
            return State(thing, path, _state_of, _set_state)
        if issubclass(kind, random.Random) and kind is not random.SystemRandom:
            return State(thing, path, lambda g: random.Random.getstate(g), lambda g, s: random.Random.setstate(g, s))
        if kind is contextvars.ContextVar:
            return State(thing, path, lambda var: var.get(MISSING), _set_variable)
        if any(base.__module__ == "numpy" and base.__name__ == "ndarray" for base in kind.__mro__):
            return self.array(thing, path)
        if kind.__module__.startswith("numpy.random") and kind.__name__ in ("Generator", "RandomState"):
            owner = thing.bit_generator if kind.__name__ == "Generator" else thing._bit_generator
            return State(owner, path, lambda g: repr(g.state), _rewind(owner.state))
        if issubclass(kind, _BUFFERS):
            return self.buffer(thing, kind, path)
        if issubclass(kind, concurrent.futures.Future):
            return State(thing, path, lambda future: tuple(map(vars(future).get, _OF_FUTURES)), lambda future, state: vars(future).update(zip(_OF_FUTURES, state)))
        return BARRED if _is_barred(thing, kind) else None

    def array(self, thing: Any, path: str) -> Any:
        if thing.dtype.hasobject or thing.nbytes > self.left:
            return READ_ONLY
        self.left -= thing.nbytes
        return State(thing, path, lambda a: (a.shape, a.dtype, a.tobytes()), _refill)

    def buffer(self, thing: Any, kind: type, path: str) -> Any:
        try:
            with memoryview(thing) as view:
                size = MISSING if view.readonly else view.nbytes
        except (ValueError, TypeError, BufferError):  # a closed mmap, a released view, pointers of ctypes
            return None
        if size is MISSING:
            return None
        if size > self.left or issubclass(kind, mmap.mmap):
            return BARRED
        self.left -= size
        give: Callable = _refill_bytes if issubclass(kind, bytearray) else _refill_array if issubclass(kind, array.array) else _refill_memory
        return State(thing, path, lambda held: memoryview(held).tobytes(), give)


def _state_of(generator: torch.Generator) -> bytes:
    with _disable_current_modes():  # those by which the step is traced
        return bytes(generator.get_state().numpy())


def _set_state(generator: torch.Generator, state: bytes) -> None:
    with _disable_current_modes():
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _refill(held: Any, state: tuple) -> None:
    import numpy  # noqa: PLC0415: there is an array of it
    held[...] = numpy.frombuffer(state[2], dtype=state[1]).reshape(state[0])


def _refill_bytes(held: bytearray, state: bytes) -> None:
    bytearray.__setitem__(held, slice(None), state)


def _refill_array(held: array.array, state: bytes) -> None:
    array.array.__setitem__(held, slice(None), array.array(held.typecode, state))


def _refill_memory(held: Any, state: bytes) -> None:
    with memoryview(held) as view, view.cast("B") as plain:
        plain[:] = state


def _rewind(state: Any) -> Callable[[Any, Any], None]:
    return lambda generator, _: setattr(generator, "state", state)


def _set_variable(variable: contextvars.ContextVar, value: Any) -> None:
    if value is not MISSING:  # one that had no value has none again when `context_apart` ends
        variable.set(value)


@contextlib.contextmanager
def context_apart() -> Iterator[None]:
    """Within, the context is a copy: what is set in it is as before behind it."""
    enter, leave = (getattr(getattr(ctypes, "pythonapi", None), name, None) for name in ("PyContext_Enter", "PyContext_Exit"))
    if enter is None or leave is None:  # no CPython
        yield
        return
    context = ctypes.py_object(contextvars.copy_context())
    enter(context)
    try:
        yield
    finally:
        leave(context)
