"""Functions that are exchanged for the thread that traces, and stay PyTorch's for all others."""

import threading
import types

import pytest

pytest.importorskip("torch")

from lowtide.pytorch import this_thread  # noqa: E402


def in_another_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_only_this_thread_sees_what_is_exchanged():
    holder = types.SimpleNamespace(add=lambda a, b: a + b, name=lambda: "theirs")
    add, name = holder.add, holder.name
    with this_thread.exchanged((holder, "add", lambda before, a, b: 10 * before(a, b)), (holder, "name", lambda before: "ours")):
        assert (holder.add(1, b=2), holder.name()) == (30, "ours")
        assert in_another_thread(lambda: (holder.add(1, 2), holder.name())) == (3, "theirs")
    assert holder.add is add and holder.name is name


def test_an_error_puts_all_back():
    holder = types.SimpleNamespace(add=lambda a, b: a + b)
    add = holder.add
    with pytest.raises(ZeroDivisionError), this_thread.exchanged((holder, "add", lambda before, a, b: a / b)):
        holder.add(1, 0)
    assert holder.add is add


def test_one_within_another_goes_through_both():
    holder = types.SimpleNamespace(add=lambda a, b: a + b)
    with this_thread.exchanged((holder, "add", lambda before, a, b: 10 * before(a, b))):
        with this_thread.exchanged((holder, "add", lambda before, a, b: before(a, b) + 1)):
            assert holder.add(1, 2) == 31
        assert holder.add(1, 2) == 30
