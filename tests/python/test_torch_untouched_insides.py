"""What objects of C hold inside is as before a capture: put back, or refused before anything is used; subclasses of containers, too."""

import array
import collections
import contextvars
import copy
import ctypes
import io
import itertools
import queue
import random
import re
import threading
import types
import weakref

import numpy as np
import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch import insides
from lowtide.pytorch.barred import StandIn
from lowtide.pytorch.untouched import untouched

nn = torch.nn


def planned(loss_fn, model=None):
    model = model or nn.Linear(4, 4)
    return lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 4), effort=0.1)


def loss_of(model, batch):
    return model(batch).square().mean()


class Feed(nn.Module):
    """Holds something in an attribute, in a tuple in a list, and in a class."""

    shared = None

    def __init__(self, held):
        super().__init__()
        self.one, self.held, self.inner = nn.Linear(4, 4), held, [("word", held)]
        self.members = set() if not isinstance(held, collections.abc.Iterator) else {held}
        Feed.shared = held

    def forward(self, x):
        return self.one(x)


def filled(of):
    made = of()
    made.put(3.0)
    return made


USED = {
    "list_iterator": (lambda: iter([1.0, 2.0]), next), "generator": (lambda: (x for x in (1.0, 2.0)), next),
    "count": (lambda: itertools.count(1), next), "zip": (lambda: zip([1.0, 2.0], [1.0, 2.0]), lambda z: next(z)[0]),
    "enumerate": (lambda: enumerate("ab", 1), lambda e: next(e)[0]), "callable_iterator": (lambda: re.finditer("a", "aa"), lambda f: next(f).end()),
    "reader": (lambda: __import__("csv").reader(["1", "2"]), lambda r: float(next(r)[0])),
    "for": (lambda: iter([1.0, 2.0]), lambda it: sum(it)),
    "Queue": (lambda: filled(queue.Queue), lambda q: q.get_nowait()), "LifoQueue": (lambda: filled(queue.LifoQueue), lambda q: q.get()),
    "SimpleQueue": (lambda: filled(queue.SimpleQueue), lambda q: q.get()), "len of a queue": (lambda: filled(queue.Queue), lambda q: q.qsize()),
    "StringIO": (lambda: io.StringIO("1\n2\n"), lambda f: float(f.readline())), "BytesIO": (lambda: io.BytesIO(b"12"), lambda f: float(f.read(1))),
}


PLACES = {"attribute": lambda m: m.held, "tuple": lambda m: m.inner[0][1], "class": lambda m: Feed.shared}


@pytest.mark.parametrize("kind, where", [*((kind, PLACES["attribute"]) for kind in USED), ("zip", PLACES["tuple"]), ("Queue", PLACES["class"]),
                                          ("count", lambda m: next(iter(m.members)))])
def test_what_nobody_can_put_back_is_refused_before_it_is_used(kind, where):
    make, use = USED[kind]
    model = Feed(make())
    with pytest.raises(lowtide.Unsupported, match=r"'.*(held|inner|shared|members).*' is a \w+, which a step would .* once.*nobody can put back"):
        planned(lambda m, b: loss_of(m, b) * use(where(m)), model)
    assert model.held is model.inner[0][1] is Feed.shared and type(model.held) is not StandIn
    assert use(model.held) == use(make()), "nothing was taken"


def test_a_refusal_that_the_users_code_catches_is_one():
    held = [iter([1.0])]

    def loss_fn(model, batch):
        try:
            return loss_of(model, batch) * next(held[0])
        except Exception:  # noqa: BLE001: as people write it
            return loss_of(model, batch)

    with pytest.raises(lowtide.Unsupported, match=r"'held\[0\]' is a list_iterator"):
        planned(loss_fn)
    assert next(held[0]) == 1.0


def test_what_is_held_and_not_used_is_no_hindrance():
    model = Feed(iter([1.0, 2.0]))
    model.loader, model.log, model.kept, model.weights = iter(range(3)), io.StringIO(), queue.Queue(), model.one.weight.data
    data = iter([1.0])  # noqa: F841: a name that the code has, too

    def loss_fn(m, b):
        m.last = m.held
        assert isinstance(m.held, collections.abc.Iterator) and m.loader and m.kept is not None
        return loss_of(m, b) + 0 * m.one.weight.data.sum()

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 4), effort=0.1)
    step(torch.ones(2, 4))
    assert model.last is model.held and next(model.held) == 1.0 and next(model.loader) == 0


def test_other_threads_use_what_is_barred_meanwhile():
    feed, seen, model = types.SimpleNamespace(jobs=queue.Queue(), numbers=iter([7])), [], nn.Linear(4, 4)

    def other():
        feed.jobs.put(1)
        seen.append((feed.jobs.qsize(), next(feed.numbers)))

    with untouched(model, lambda m, b: feed):
        assert type(feed.jobs) is StandIn
        thread = threading.Thread(target=other)
        thread.start(), thread.join()
    assert seen == [(1, 7)] and feed.jobs.get_nowait() == 1 and type(feed.jobs) is queue.Queue


WRITTEN = {
    "array": (lambda: array.array("d", [1, 2]), lambda a: a.__setitem__(0, 5.0)), "array grows": (lambda: array.array("i", [1]), lambda a: a.append(2)),
    "bytearray": (lambda: bytearray(b"ab"), lambda a: a.extend(b"c")), "ctypes": (lambda: (ctypes.c_float * 3)(1, 2), lambda a: a.__setitem__(0, 4)),
    "c_int": (lambda: ctypes.c_int(4), lambda c: setattr(c, "value", 5)), "numpy": (lambda: np.arange(300_000.0), lambda a: a.__iadd__(1)),
    "numpy's records": (lambda: np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]), lambda a: a["b"].fill(2)),
    "numpy's generator": (lambda: np.random.default_rng(3), lambda g: g.normal()), "Random": (lambda: random.Random(3), lambda g: g.random()),
    "torch's generator": (lambda: torch.Generator().manual_seed(2), lambda g: g.manual_seed(3)),
    "context": (lambda: contextvars.ContextVar("c", default=1), lambda c: c.set(2)),
}


def inside(thing):
    if isinstance(thing, contextvars.ContextVar):
        return thing.get()
    for name in ("getstate", "get_state"):
        if hasattr(thing, name):
            return repr(getattr(thing, name)())
    return repr(thing.bit_generator.state) if isinstance(thing, np.random.Generator) else (
        (thing.shape, thing.tobytes()) if isinstance(thing, np.ndarray) else bytes(memoryview(thing)))


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_lies_in_objects_of_c_is_put_back_and_a_change_is_refused(kind):
    make, write = WRITTEN[kind]
    model = Feed(make())
    before = inside(model.held)

    def loss_fn(m, b):
        write(m.held)
        return loss_of(m, b)

    with pytest.raises(lowtide.Unsupported, match=r"'held' is changed by the forward pass"):
        planned(loss_fn, model)
    assert inside(model.held) == before


@pytest.mark.parametrize("make", [lambda: np.arange(100.0), lambda: np.array([1.0, None], dtype=object), lambda: np.arange(64.0).reshape(8, 8).T],
                         ids=["large", "objects", "view"])
def test_arrays_beyond_what_is_copied_are_read_only_meanwhile(make, monkeypatch):
    monkeypatch.setattr(insides, "COPIED", 64)
    held = types.SimpleNamespace(rows=make())
    before = held.rows.tolist()

    def loss_fn(m, b):
        held.rows[0] += 1
        return loss_of(m, b)

    with pytest.raises(lowtide.Unsupported, match="read-only"):
        planned(loss_fn)
    assert held.rows.tolist() == before
    held.rows[0] = 3
    assert planned(lambda m, b: loss_of(m, b) + float(np.asarray(held.rows).ravel()[0])) is not None


class Loud(list):
    """A list whose own methods do more."""

    def clear(self):
        raise RuntimeError("cleared")

    extend = append = __iter__ = __getitem__ = clear


class Row(collections.deque):
    def clear(self):
        raise RuntimeError("cleared")

    extend = clear


@pytest.mark.parametrize("made, change", [
    (lambda: Loud([1, 2]), lambda a: list.append(a, 3)), (lambda: Row([1, 2], maxlen=2), lambda a: a.append(3)),
    (lambda: collections.deque([1, 2, 3], maxlen=5), lambda a: a.rotate(1)), (lambda: collections.Counter("aab"), lambda a: a.update("b")),
    (lambda: collections.defaultdict(list, a=[1]), lambda a: a["b"].append(1)), (lambda: collections.ChainMap({"a": 1}), lambda a: a.update(b=1)),
    (lambda: collections.OrderedDict(a=1, b=2), lambda a: a.move_to_end("a")), (lambda: collections.UserList([1]), lambda a: a.append(2)),
    (lambda: types.MappingProxyType({"a": [1]}), lambda a: a["a"].append(2)),
], ids=["list", "deque", "rotated", "Counter", "defaultdict", "ChainMap", "OrderedDict", "UserList", "MappingProxyType"])
def test_containers_of_any_class_are_put_back(made, change):
    held = {"one": made()}
    before = repr(held)
    with untouched(nn.Linear(2, 2), lambda m, b: held):
        change(held["one"])
        assert repr(held) != before
    assert repr(held) == before


def test_weak_containers_are_put_back_without_what_is_gone():
    model = nn.Linear(2, 2)
    cache, values, kept = weakref.WeakKeyDictionary({model: [1]}), weakref.WeakValueDictionary(), nn.Linear(1, 1)
    values["kept"] = kept
    held, other = types.SimpleNamespace(cache=cache, values=values), nn.Linear(1, 1)
    cache[other] = 1
    with untouched(model, lambda m, b: held):
        cache[model].append(torch.zeros(1))
        cache[model.weight] = values["new"] = model
        del other
    assert dict(cache) == {model: [1]} and dict(values) == {"kept": kept} and len(cache) == len(values) == 1


class Sees(nn.Module):
    """Keeps what it saw in a set and in a dict."""

    def __init__(self, see):
        super().__init__()
        self.one, self.see, self.seen, self.table, self.count = nn.Linear(4, 4), see, {"first"}, {"first": 0}, 0

    def forward(self, x):
        y = self.one(x)
        self.see(self, y)
        return y


def discards(m, y):
    m.seen.discard("first")


@pytest.mark.parametrize("see", [lambda m, y: m.seen.add("word"), lambda m, y: m.seen.add(y.detach()), discards, lambda m, y: m.seen.add(len(y)),
                                 lambda m, y: m.table.update(last=y.detach())], ids=["word", "tensor", "discard", "size", "dict"])
def test_a_set_that_the_forward_pass_writes_is_eager_modes(see):
    model = Sees(see)
    other = copy.deepcopy(model)
    steps = lowtide.compile_step(model, loss_of, torch.optim.SGD(model.parameters(), lr=0.0), torch.ones(2, 4), effort=0.1)
    for n in (2, 3, 2, 2):
        steps(torch.ones(n, 4))
        loss_of(other, torch.ones(n, 4))
        mine, its = ([x for x in m.seen if not isinstance(x, torch.Tensor)] for m in (model, other))
        assert set(mine) == set(its) and len(model.seen) == len(other.seen) and model.table.keys() == other.table.keys()
    assert len(steps._ready) <= 4 - (see.__name__ == "<lambda>"), "no plan for each step"


def counted(change):
    def see(m, y):
        change(m)
        m.count += 1
    return see


@pytest.mark.parametrize("change", [lambda m: m.seen.add(m.count), lambda m: m.table.update({m.count: 1}), lambda m: m.table.pop(m.count, None)],
                         ids=["set", "dict", "pop"])
def test_other_entries_in_each_step_are_refused(change):
    model = Sees(counted(change))
    model.table.update({0: 0, 1: 0, 2: 0} if "pop" in change.__code__.co_names else {})
    with pytest.raises(lowtide.Unsupported, match="'(seen|table)' elsewhere in each step|the forward pass moves"):
        planned(loss_of, model)
    assert model.count == 0 and model.seen == {"first"}
