"""One caller runs a step at a time: one thread at a time, never from within itself, and no signal handler in the middle.

    Turn            of one step, or of capturing, which exchanges functions of PyTorch for a while. A second thread waits for its turn; the thread that is inside already is refused before
                    anything is written. A fork in the middle of a step has a model that is half updated: refused, too
    handlers_wait   Python's signal handlers run when the step has ended: a step is done or not begun, whatever a
                    handler raises, and what a handler allocates is not taken for the step's (planned_addresses.h)
    capturing       one thread at a time captures, and handlers are no part of what is traced; what they raise comes out as it is
    rehearsing      the same of a rehearsal
    collector_waits Python's collector of cycles, which would walk all objects of the process several times while nodes are made, goes on behind it

The first two cost some microseconds a step. Handlers are looked up by CPython's own functions, as those of `signal` make an
enumeration of every answer, which takes twenty times as long. Tests: tests/python/test_torch_owns.py.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import Usage
from .opened import all_allowed

try:
    from _signal import getsignal as _handler_of
    from _signal import signal as _set_handler
except ImportError:
    from signal import getsignal as _handler_of
    from signal import signal as _set_handler

_NUMBERS = sorted(int(n) for n in signal.valid_signals() if n not in (signal.SIGKILL, signal.SIGSTOP))


class Turn:
    """A context: inside of it a thread has the step for itself."""

    def __init__(self, within: str) -> None:
        self.within = within  # the line for the thread that is inside already
        self.lock, self.inside, self.lost = threading.RLock(), False, False
        _all.add(self)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Raises Usage where this thread is inside."""
        with self.lock:
            if self.lost:
                raise Usage("this process was forked while another thread was in here, so model and optimizer may be half updated; "
                            "fork between steps, or load them anew and compile the step again")
            if self.inside:
                raise Usage(self.within)
            self.inside = True
            try:
                yield
            finally:
                self.inside = False

    def forked(self) -> None:
        """In the new process there are no other threads."""
        mine = self.lock._is_owned()  # type: ignore[attr-defined]
        if not mine:
            self.lock, self.lost = threading.RLock(), self.lost or self.inside


_all: weakref.WeakSet[Turn] = weakref.WeakSet()


def _forked() -> None:
    for turn in list(_all):
        turn.forked()


os.register_at_fork(after_in_child=_forked)


WITHIN_STEP = ("the step is called from within itself (by a hook, a handler or a kernel of its own); this call has changed nothing, and "
               "it may be made when the step that runs has ended")
CAPTURE = Turn("a step is compiled or planned from within the capture of another (by its loss_fn or a hook); compile it before")


@contextlib.contextmanager
def handlers_wait() -> Iterator[None]:
    """Signals are seen within, and handled behind it, in the order in which they came, each once."""
    seen: dict[int, Any] = {}
    with _handlers_are(lambda _: seen.setdefault, seen):
        yield


_raised: list[list[BaseException]] = []  # by what runs now, the innermost last: what handlers have raised in it


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """One thread at a time captures, and what a signal handler does meanwhile is no part of the step: it runs at once, as it
    may be what ends a long capture, but without the modes by which PyTorch traces. What it raises comes out as it is."""
    with CAPTURE.taken(), _handlers_come_out(lambda: (_disable_current_modes(), torch._C.DisableTorchFunction(), torch._C._DisablePythonDispatcher(),
                                                            all_allowed())):
        yield


@contextlib.contextmanager
def rehearsing() -> Iterator[None]:
    """No other thread captures: that sets random streams and hooks of all modules for a while, which a rehearsal compares.
    What a signal handler raises meanwhile comes out as it is."""
    with CAPTURE.lock, _handlers_come_out(tuple):
        yield


@contextlib.contextmanager
def collector_waits() -> Iterator[None]:
    """Not around kernels that are measured: what a finalizer frees there belongs to another moment of the step."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _handlers_come_out(around: Callable[[], tuple]) -> Iterator[None]:
    """An exception of a handler ends what runs, whoever takes it for one of the user's model and goes on."""
    raised: list[BaseException] = []

    def apart(handler: Callable) -> Callable:
        def called(number: int, frame: Any) -> None:
            with contextlib.ExitStack() as stack:
                for each in around():
                    stack.enter_context(each)
                try:
                    handler(number, frame)
                except BaseException as problem:
                    raised.append(problem)
                    raise

        return called

    _raised.append(raised)
    try:
        with _handlers_are(apart, {}):
            yield
    except BaseException as problem:
        if raised and problem is not raised[0]:
            raise raised[0] from None
        raise
    finally:
        _raised.remove(raised)
    if raised:
        raise raised[0]


def is_of_a_handler(problem: BaseException) -> bool:
    return any(problem is one for raised in _raised for one in raised)


@contextlib.contextmanager
def _handlers_are(instead: Callable[[Callable], Callable], seen: dict[int, Any]) -> Iterator[None]:
    """Others in the place of Python's signal handlers, which are put back; those of the signals in `seen` are called then."""
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread alone
        yield
        return
    before: dict[int, Callable] = {}
    try:
        for number, handler in zip(_NUMBERS, map(_handler_of, _NUMBERS), strict=True):
            if callable(handler):
                before[number] = handler
                _set_handler(number, instead(handler))
        yield
    finally:
        _put_back(seen, before)


def _put_back(seen: dict[int, Any], before: dict[int, Callable]) -> None:
    """All handlers are put back and all that were seen are called, whatever one of them raises; the first exception goes on."""
    raised: list[BaseException] = []
    left = dict(before)
    while left or seen:
        try:
            while left:
                number = next(iter(left))
                _set_handler(number, left[number])
                del left[number]
            while seen:
                number = next(iter(seen))
                frame = seen.pop(number)
                before[number](number, frame)
        except BaseException as problem:  # noqa: BLE001: it is raised below
            raised.append(problem)
    if raised:
        raise raised[0]
