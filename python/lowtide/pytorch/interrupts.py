"""Ctrl-C that waits: what must be done whole, or not at all, is not cut in two by it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C is seen when the block has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    seen: list[tuple] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            before(*seen[0])
