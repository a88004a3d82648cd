"""PyTorch's functions, exchanged while a step is traced, for the thread that traces it alone.

    with exchanged((torch.autograd, "backward", kept)):    kept(backward, *args) is called for torch.autograd.backward(*args)

Other threads train, evaluate and load data meanwhile, and call the function that was there. What stands in its place gets that
function first. Tests: tests/python/test_torch_this_thread.py.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
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
