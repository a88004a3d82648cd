"""Records that handlers of Python's logging keep (MemoryHandler's buffer, a test runner's list), while a step is captured.

A line that loss_fn logs is said when the step is captured, as one that it prints. A handler that keeps the record keeps what was to be said with it:
tensors without contents. So what a capture adds to lists of handlers goes again, the user's own thread's alone: others log meanwhile. Handlers
are reached from the logging module, not from the user's code, which may call a package that logs. A line for a file that is open already, of what only a
step knows, is refused: it would stand there without its numbers. Tests: tests/python/test_torch_left_behind.py.
"""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Callable
from typing import Any

from .opened import Paths
from .step_numbers import MARK
from .this_thread import exchanged


class Logs:
    """The lists of all handlers, as they are now."""

    def __init__(self) -> None:
        handlers = [found for found in (reference() for reference in list(getattr(logging, "_handlerList", ()))) if found is not None]
        self.thread = threading.get_ident()
        self.lists = [(held, list(held)) for handler in handlers for held in vars(handler).values() if type(held) in (list, collections.deque)]

    def put_back(self) -> None:
        """Takes out what this thread has logged since."""
        for held, before in self.lists:
            if len(held) == len(before) and all(a is b for a, b in zip(held, before, strict=True)):
                continue
            known = set(map(id, before))
            for place in reversed(range(len(held))):
                if id(held[place]) not in known and self.is_ours(held[place]):
                    del held[place]

    def is_ours(self, entry: Any) -> bool:
        return isinstance(entry, logging.LogRecord) and entry.thread == self.thread or type(entry) is str and MARK in entry


def lines_refused(paths: Paths) -> Any:
    """Within, no handler writes a line into a file that has something in it which only a step knows."""
    def emitted(real: Callable, handler: logging.FileHandler, record: logging.LogRecord) -> None:
        if MARK in record.getMessage():
            said = f"'{handler.baseFilename}' gets a line with what only a step knows, which a step would do once, while it is captured, without its numbers"
            raise paths.first(f"{said}; log it behind step(batch), with what `return loss, aux` gives", paths.line() or "")
        real(handler, record)

    return exchanged((logging.FileHandler, "emit", emitted))
