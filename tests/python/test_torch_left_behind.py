"""Tensors and numbers of the traced step, wherever the user's code puts them: made again in each step, put back, or refused by name, and never left."""

import collections
import copy
import functools
import gc
import itertools
import logging
import logging.handlers
import pickle
import sys
import threading
import types
import unittest.mock
import weakref
from concurrent.futures import Future

import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch import left_behind

nn = torch.nn


def small():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(2, 4)


def raised(y):
    try:
        raise ValueError(y)
    except ValueError as problem:
        return problem


def raised_beside(y):
    inner = y * 2  # held by the frame that the exception remembers
    try:
        raise ValueError("no tensor here", tuple(inner.shape))
    except ValueError as problem:
        return problem


OBJECTS = {
    "generator": lambda y: (value for value in [y]), "exception": raised, "frame": raised_beside, "cause": lambda y: [setattr(e := KeyError(1), "__cause__", raised(y)), e][1],
    "iterator": lambda y: iter([y]), "map": lambda y: map(abs, [y]), "chain": lambda y: itertools.chain([y], [1]), "method": lambda y: y.add, "partial of a function":
    lambda y: functools.partial(lambda x: x, y), "number": lambda y: (value for value in [y.sum().item()])}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_that_holds_something_of_the_step_is_refused_by_name(kind):
    model, optimizer, batch = small()
    kept = []

    def loss_fn(model, batch):
        y = model(batch)
        kept.append(OBJECTS[kind](y))
        return y.square().mean()

    with pytest.raises(lowtide.Unsupported, match=r"'kept\[0\]' is a \w+ that holds (tensors|numbers) of the step"):
        lowtide.compile_step(model, loss_fn, optimizer, batch, rehearse=False)
    assert not kept


def step_and_eager(put, taken, steps=2):
    """What `taken()` gives behind each planned step, and behind each of eager mode's."""
    def loss_fn(model, batch):
        y = model(batch)
        put(model, y.detach())
        return y.square().mean()

    found = []
    model, optimizer, batch = small()
    step = lowtide.compile_step(model, loss_fn, optimizer, batch, rehearse=False)
    for _ in range(steps):
        step(batch)
        found.append(taken().clone())
    model, optimizer, batch = small()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(model, batch).backward()
        optimizer.step()
        assert torch.equal(found.pop(0), taken())


THREADS, MADE, MOCK, RESULT = threading.local(), types.ModuleType("made_for_a_test"), unittest.mock.Mock(), Future()
MADE.__file__ = __file__


class Apart(threading.local):
    def __init__(self):
        self.last = None


APART = Apart()


def set_of_made(model, y):
    sys.modules["made_for_a_test"].last = y


PLACES = {"thread": (lambda model, y: setattr(THREADS, "last", y), lambda: THREADS.last), "apart": (lambda model, y: setattr(APART, "last", y), lambda: APART.last),
          "module": (set_of_made, lambda: MADE.last)}


@pytest.mark.parametrize("kind", PLACES)
def test_what_threads_have_apart_and_modules_by_name_are_written_in_each_step(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "made_for_a_test", MADE)
    for holder in (THREADS, MADE):
        vars(holder).pop("last", None)
    step_and_eager(*PLACES[kind])


@pytest.mark.parametrize(("put", "name"), [(lambda y: MOCK(y), r"'MOCK\._mock"), (lambda y: MOCK.method(y, key=1), r"'MOCK\._mock"), (lambda y: RESULT.set_result(y), "'RESULT' is changed")])
def test_mocks_and_futures_are_refused_by_name_and_put_back(put, name):
    def loss_fn(model, batch):
        y = model(batch)
        put(y)
        return y.square().mean()

    model, optimizer, batch = small()
    with pytest.raises(lowtide.Unsupported, match=name):
        lowtide.compile_step(model, loss_fn, optimizer, batch, rehearse=False)
    assert not MOCK.called and not MOCK.mock_calls and not MOCK.call_args_list and not RESULT.done()


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = collections.deque(["before"])

    def emit(self, record):
        self.lines.append(self.format(record))


@pytest.mark.parametrize("handler", [logging.handlers.MemoryHandler(100), Lines()])
def test_handlers_keep_no_record_of_a_capture(handler):
    log = logging.getLogger("of a test")
    log.addHandler(handler)
    held = handler.buffer if hasattr(handler, "buffer") else handler.lines
    before = list(held)

    def loss_fn(model, batch):
        y = model(batch)
        log.warning("seen %s of %s", y.mean().item(), y)
        return y.square().mean()

    model, optimizer, batch = small()
    try:
        step = lowtide.compile_step(model, loss_fn, optimizer, batch, rehearse=False)
        step(batch)
        assert list(held) == before
    finally:
        log.removeHandler(handler)


FAR = [(lambda y: setattr(torch, "put_by_a_test", y), "torch.put_by_a_test", lambda: not hasattr(torch, "put_by_a_test")),
       (lambda y: setattr(nn.Tanh, "put_by_a_test", y), "Tanh.put_by_a_test", lambda: not hasattr(nn.Tanh, "put_by_a_test")),
       (lambda y: logging.getLogger("far of a test").__dict__.update(put=[y]), "Logger", lambda: not logging.getLogger("far of a test").put),
       (lambda y: sys.modules["unittest.mock"].__dict__.update(put={1: (y,)}), "unittest.mock", lambda: not sys.modules["unittest.mock"].put),
       (lambda y: weakref.finalize(nn, print, y) and None, "finalize", lambda: not [info for info in weakref.finalize._registry.values() if info.func is print])]


@pytest.mark.parametrize(("put", "name", "is_gone"), FAR, ids=[name for _, name, _ in FAR])
def test_a_tensor_where_no_walk_comes_is_taken_out_and_refused(put, name, is_gone):
    def loss_fn(model, batch):
        y = model(batch)
        put(y)
        return y.square().mean()

    model, optimizer, batch = small()
    frozen = is_frozen()  # by who runs the tests
    with pytest.raises(lowtide.Unsupported, match=f"loss_fn leaves a tensor in (a )?{name}"):
        lowtide.plan(model, loss_fn, optimizer, batch)
    assert is_gone() and is_frozen() == frozen
    sys.modules["unittest.mock"].__dict__.pop("put", None)


def test_a_holder_that_the_collector_does_not_look_at_is_found():
    def loss_fn(model, batch):
        y = model(batch)
        nn.Tanh.put_by_a_test = y
        return y.square().mean()

    gc.freeze()
    try:
        model, optimizer, batch = small()
        with pytest.raises(lowtide.Unsupported, match="loss_fn leaves a tensor in Tanh.put_by_a_test"):
            lowtide.plan(model, loss_fn, optimizer, batch)
        assert gc.get_freeze_count() > 0 and not hasattr(nn.Tanh, "put_by_a_test")
    finally:
        gc.unfreeze()


def test_captures_leave_no_tensor_alive():
    from torch._subclasses.fake_tensor import FakeTensor  # noqa: PLC0415: torch may be absent

    model, optimizer, batch = small()
    gc.collect()
    frozen, before = is_frozen(), sum(type(found) is FakeTensor for found in gc.get_referrers(FakeTensor))
    for _ in range(2):
        lowtide.plan(model, lambda model, batch: model(batch).square().mean(), optimizer, batch)
    gc.collect()
    assert sum(type(found) is FakeTensor for found in gc.get_referrers(FakeTensor)) == before and is_frozen() == frozen


def is_frozen():
    return gc.get_freeze_count() > 0


class Usual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.norm(self.first(x))
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        return self.last(nn.functional.dropout(torch.utils.checkpoint.checkpoint(torch.tanh, y, use_reentrant=False)))


@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}, {"split": 2}, {"accumulate": 2}])
def test_what_a_usual_capture_leaves_is_gone_without_a_search(options, monkeypatch):
    """A search takes a collection of all objects and passes over them: most of a second in a large process."""
    def searched(tensors):
        raise AssertionError(f"{len(tensors)} are left")

    monkeypatch.setattr(left_behind, "_taken_out", searched)
    model, batch = Usual(), torch.randn(6, 4)
    loss_fn = lambda model, batch: ((y := model(batch)).square().mean(), y.detach())  # noqa: E731
    lowtide.plan(model, loss_fn, torch.optim.AdamW(model.parameters()), [batch, batch] if "accumulate" in options else batch, **options)


QUEUE = torch.zeros(3)


def of_model(model, y):
    return (copy.deepcopy(model)(torch.ones(2, 4)).detach() * y).sum()


COPIES = {"detached": lambda model, y: copy.deepcopy(y.detach()).sum(), "tree": lambda model, y: copy.deepcopy({"y": [y.detach()], "n": 1})["y"][0].mean(),
          "of before": lambda model, y: copy.deepcopy(QUEUE).sum(), "parameter": lambda model, y: copy.deepcopy(model.weight).detach().sum(), "model": of_model}


@pytest.mark.parametrize("kind", COPIES)
def test_deep_copies_are_those_of_each_step(kind):
    def loss_fn(model, batch):
        y = model(batch)
        return (y * COPIES[kind](model, y)).square().mean()

    QUEUE.fill_(1)
    model, optimizer, batch = small()
    step = lowtide.compile_step(model, loss_fn, optimizer, batch, rehearse=False)
    other, its, _ = small()
    for k in range(2):
        QUEUE.fill_(k + 2)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        assert torch.equal(step(batch), wanted)
        wanted.backward()
        its.step()


@pytest.mark.parametrize("taken", [lambda y: copy.deepcopy(y.detach()[0]), lambda y: copy.copy(y.detach()), lambda y: pickle.dumps(y.detach())])
def test_what_takes_the_memory_of_a_tensor_is_refused_with_the_users_line(taken):
    def loss_fn(model, batch):
        y = model(batch)
        taken(y)
        return y.square().mean()

    model, optimizer, batch = small()
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_left_behind.py:\d+: .*\.clone\(\).* planned"):
        lowtide.plan(model, loss_fn, optimizer, batch)
