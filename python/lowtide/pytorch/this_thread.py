"""PyTorch's functions, exchanged while a step is traced, for the thread that traces it alone.

    with exchanged((torch.autograd, "backward", kept)):    kept(backward, *args) is called for torch.autograd.backward(*args)

Other threads train, evaluate and load data meanwhile, and call the function that was there. What stands in its place gets that
function first. A module of the user's may have it under a name of its own: globals are lent other ones, too (`lent`). Tests: tests/python/test_torch_this_thread.py.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# What holds the function, its name there (one of Python's own may be found elsewhere), and what is called in its place.
Place = tuple[Any, str, Callable]


def bound(function: Callable, instead: Callable) -> Callable:
    """`instead` in the thread that asks for it, with the function before its arguments; the function in all others."""
    mine = threading.get_ident()

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        return instead(function, *args, **named) if threading.get_ident() == mine else function(*args, **named)

    return called


@contextlib.contextmanager
def exchanged(*places: Place) -> Iterator[None]:
    """Within, the functions are others for this thread."""
    before = [(holder, name, getattr(holder, name, None) or getattr(builtins, name), name in vars(holder)) for holder, name, _ in places]
    try:
        for (holder, name, function, _), (_, _, instead) in zip(before, places, strict=True):
            setattr(holder, name, bound(function, instead))
        yield
    finally:
        for holder, name, function, own in before:
            if own:
                setattr(holder, name, function)
            else:  # it was inherited
                delattr(holder, name)


_standing_in: dict[int, Any] = {}  # what the stand-ins in globals are for, by their ids


def real_global(value: Any) -> Any:
    """What lies in the globals of a module but for a capture."""
    return _standing_in.get(id(value), value) if _standing_in else value


@contextlib.contextmanager
def lent(folders: Iterable[dict[str, Any]], stand_ins: dict[int, Any]) -> Iterator[None]:
    """Within, globals that are some function or module (`from signal import signal`) are its stand-in. `folders`: the globals of modules; `stand_ins`: by the id
    of what they are for."""
    made = [(folder, name, value, stand_ins[id(value)]) for folder in folders for name, value in list(folder.items()) if id(value) in stand_ins]
    try:
        for folder, name, value, instead in made:
            folder[name], _standing_in[id(instead)] = instead, value
        yield
    finally:
        for folder, name, value, instead in made:
            _standing_in.pop(id(instead), None)
            if folder.get(name) is instead:
                folder[name] = value
