"""Searches for a plan, each in a thread of its own, so that Ctrl-C and other exceptions reach Python at once.

The first Ctrl-C raises the search's flag, and the search gives the best plan that it has (`plan.cut_short`). Any other
exception that is raised in the waiting thread (the timeout of a test runner, SystemExit, a second Ctrl-C) raises the
flag too, and goes on when the search has ended, a fraction of a second later. Invariant: nothing that a search uses is
freed while it runs. The thread itself holds model, flag and result (`_library.Handle`), so this does not hang on who
waits for it. What goes wrong in the thread comes out of `searched` as it is. At the end of the process searches that
daemon threads wait for are stopped, too. On a terminal a line shows where a long search stands.
Tests: tests/python/test_searches.py.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from typing import Any

from . import _library
from .errors import Usage


def as_json(what: dict[str, Any]) -> bytes:
    """Options as the library takes them. Raises Usage, naming the one that is neither numbers nor texts."""
    name = ""

    def refuse(value: Any) -> None:
        raise Usage(f"{name} holds something of type {type(value).__name__}, which is neither a number nor a text")

    try:
        for name, value in what.items():
            json.dumps(value, default=refuse)
    except Usage:
        raise
    except (TypeError, ValueError, RecursionError) as problem:
        raise Usage(f"{name} cannot be written as numbers, texts, lists and dicts: {problem}") from None
    return json.dumps(what).encode()


class _Line:
    """One line on a terminal that says where a search stands, from its second second on."""

    def __init__(self, wanted: bool | None) -> None:
        self.shown = 0
        self.wanted = bool(sys.stderr is not None and sys.stderr.isatty()) if wanted is None else wanted
        self.began = time.monotonic()

    def update(self, progress: _library.Progress) -> None:
        if not self.wanted or time.monotonic() - self.began < 1:
            return
        best = f", best {progress.seconds:.4g} s" if progress.seconds > 0 else ""
        bound = f" (bound {progress.lower_bound_seconds:.4g} s)" if progress.lower_bound_seconds > 0 else ""
        line = f"lowtide: {progress.stage.decode()} {100 * progress.share:3.0f} %{best}{bound}"
        self._write("\r" + line.ljust(self.shown))
        self.shown = max(self.shown, len(line))

    def end(self) -> None:
        if self.shown:
            self._write("\r" + " " * self.shown + "\r")
            self.shown = 0

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # it is closed, or gone: nobody reads it
            self.wanted = False


class _Search:
    """What a search uses. It is held by the thread that searches and by the one that waits."""

    def __init__(self, model: _library.Handle, options: dict[str, Any], progress: bool | None) -> None:
        self.options = as_json(options)
        self.model, self.line, self.ended = model, _Line(progress), threading.Event()
        self.plan = _library.Handle("lowtide_plan_free")
        self.flag = _library.Handle("lowtide_cancel_free")
        _library.check(_library.library().lowtide_cancel_make(self.flag.place))
        self.problem: BaseException | None = None
        self.begun = False
        # Set where something was raised, before anything else: CPython looks at signals in calls and loops, so that nothing can come
        # between. The thread, in which no signal is handled, then stops the search whatever happens to the call that would.
        self.left = False

    def run(self) -> None:
        """In a thread of its own: the library's last error is the thread's."""
        watcher = _library.Watcher(lambda _, now: self.watch(now.contents))
        try:
            _library.check(_library.library().lowtide_plan_make_watched(
                self.model, self.options, watcher, None, self.flag, self.plan.place))
        except BaseException as problem:  # noqa: BLE001: it is raised where the plan is asked for
            self.problem = problem
        finally:
            self.ended.set()

    def watch(self, progress: _library.Progress) -> None:
        if self.left:
            self.stop()
        self.line.update(progress)

    def stop(self) -> None:
        """Asks it to end with what it has."""
        _library.library().lowtide_cancel_raise(self.flag)

    def start(self) -> None:
        thread = threading.Thread(target=self.run, name="lowtide-plan", daemon=True)
        try:
            self.begun = True
            thread.start()
        except RuntimeError:  # no thread can be started (the process is at its end)
            if thread.ident is not None:
                raise
            self.run()
        except BaseException:
            _end_of_start(thread, self.ended)
            raise

    def wait(self) -> None:
        """Until it ends, whatever is raised here meanwhile. Not by join: one that is interrupted takes its thread for ended
        (CPython before 3.12)."""
        raised: list[BaseException] = []
        while not self.ended.is_set():
            try:
                self.ended.wait(0.1)
            except BaseException as problem:  # noqa: BLE001: it is raised below
                self.left = True
                self.stop()
                raised.append(problem)
        if raised and isinstance(raised[0], KeyboardInterrupt):
            del raised[0]  # it asked for the best plan so far
        if raised:
            raise raised[0]


def _end_of_start(thread: threading.Thread, ended: threading.Event) -> None:
    """Something was raised while the thread was started: if it does not run, nobody waits for it."""
    for _ in range(100):
        if thread.ident is not None:
            return
        time.sleep(0.01)
    ended.set()


_running: set[_Search] = set()


def _stop_all() -> None:
    """At the end of the process: a thread that is in the library then would call a Python that is gone."""
    for search in list(_running):
        search.stop()
    for search in list(_running):
        search.ended.wait()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_running.clear)  # threads do not live on in a fork


def searched(model: _library.Handle, options: dict[str, Any], progress: bool | None = None) -> _library.Handle:
    """The plan of a model that was read. Raises what the library says, and what is raised in this thread meanwhile."""
    search = _Search(model, options, progress)
    try:
        _running.add(search)
        search.start()
        search.wait()
    except BaseException:  # also one that came between two lines above
        search.left = True
        search.stop()
        while search.begun and not search.ended.is_set():
            search.ended.wait(0.1)
        raise
    finally:
        _running.discard(search)
        search.line.end()
    if search.problem is not None:
        raise search.problem
    return search.plan
