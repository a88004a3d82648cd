"""Capture leaves the user's objects as they were: after plans, steps, refusals, Ctrl-C, exceptions and other shapes; by as_before.py in
every test, and here by what is done with them afterwards."""

import functools
import copy
import pickle
import random
import weakref

import numpy as np
import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch.reachable import Reachable
from lowtide.pytorch.untouched import Note, untouched

nn, F = torch.nn, torch.nn.functional


class Universal(nn.Module):
    """One layer under four names, twice in a ModuleDict, with a head that is tied to the table of words."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.layers, self.named = nn.ModuleList([layer] * 2), nn.ModuleDict({"a": layer, "b": layer})
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        for layer in (*self.layers, self.named["b"]):
            x = layer(x)
        return self.head(x)


class Shared(nn.Module):
    """A norm with buffers that two parts hold, and one parameter in two modules."""

    def __init__(self):
        super().__init__()
        norm = nn.BatchNorm1d(8)
        self.a, self.b = nn.Sequential(nn.Linear(8, 8), norm), nn.Sequential(norm, nn.Linear(8, 8))
        self.b[1].weight = self.a[0].weight

    def forward(self, x):
        return self.b(self.a(x).relu())


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell, self.out = kind(8, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x):
        return self.out(self.cell(x[:, None])[0][:, 0])


class Lazy(nn.Module):
    """Keeps tables in an attribute, a dict by size, a function's attribute and a class."""

    kept = None

    def __init__(self):
        super().__init__()
        self.layer, self.tables = nn.Linear(8, 8), {}

    def forward(self, x):
        n = len(x)
        if n not in self.tables:
            self.tables[n] = torch.arange(n)[:, None] * torch.ones(8)
        if Lazy.kept is None:
            Lazy.kept = torch.linspace(0, 1, 8)
        if not hasattr(helper, "table"):
            helper.table = torch.eye(8)
        return self.layer(x) @ helper.table * self.tables[n].cos() + Lazy.kept


def helper():
    """Only holds an attribute."""


def features(model, batch):
    return model(batch).square().mean()


def words(model, batch):
    return F.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


MODELS = {"universal": (Universal, words, lambda n: torch.randint(0, 12, (n, 5), generator=torch.Generator().manual_seed(n))),
          "shared": (Shared, features, lambda n: torch.randn(n, 8, generator=torch.Generator().manual_seed(n)))}
for _name, _made in (("gru", lambda: Recurrent(nn.GRU)), ("rnn", lambda: Recurrent(nn.RNN)), ("lstm", lambda: Recurrent(nn.LSTM)), ("lazy", Lazy)):
    MODELS[_name] = (_made, features, MODELS["shared"][2])


@pytest.fixture(autouse=True)
def _nothing_kept():
    yield
    Lazy.kept = None
    vars(helper).pop("table", None)


def usable(model, loss_fn, batch, wanted):
    """Eager mode gives what it gave, and the model can be copied and pickled."""
    assert torch.equal(loss_fn(model, batch), wanted)
    copy.deepcopy(model)
    pickle.loads(pickle.dumps(model.state_dict()))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_can_be_used_after_plans_refusals_and_steps(name):
    make, loss_fn, batch_of = MODELS[name]
    torch.manual_seed(0)
    model = make()
    other = copy.deepcopy(model)
    mine, its = (torch.optim.AdamW(m.parameters()) for m in (model, other))
    batch, fresh = batch_of(4), copy.deepcopy(model)

    def refused(model, batch):
        loss = loss_fn(model, batch)
        return loss * 2 if loss > 1 else loss

    for capture in (lambda: lowtide.plan(model, loss_fn, mine, batch, effort=0.1),
                    lambda: lowtide.plan(model, refused, mine, batch),
                    lambda: lowtide.plan(model, loss_fn, mine, batch, budget=100)):
        try:
            capture()
        except (lowtide.Unsupported, lowtide.Infeasible):
            pass
        assert not mine.state and (name != "lazy" or (not model.tables and Lazy.kept is None and not vars(helper)))
    step = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.1)
    assert not mine.state
    for n in (4, 3, 4):
        wanted = loss_fn(other, batch_of(n))
        its.zero_grad()
        wanted.backward()
        its.step()
        assert torch.equal(step(batch_of(n)), wanted.detach())
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
    model.load_state_dict(fresh.state_dict())
    usable(model.eval(), loss_fn, batch, loss_fn(fresh.eval(), batch))


def noisy(raised):
    """loss_fn that writes whatever it can reach and then raises."""
    state = {"count": 0, "list": [], "table": torch.zeros(3), "array": np.zeros(3), "stream": random.Random(0), "words": {"a"}}

    def loss_fn(model, batch):
        state["count"] += 1
        state["list"].append(model)
        state["table"].add_(1)
        state["new"] = model(batch)
        state["array"] += 1
        state["stream"].random()
        state["words"].add("b")
        model.extra = state["new"]
        model[0].register_forward_hook(lambda *_: None)
        model[0].register_buffer("late", torch.ones(2))
        next(iter(model.parameters())).note = state["new"]
        raise raised

    return loss_fn, state


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("wrong"), SystemExit(3)], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_an_exception_in_the_midst_of_loss_fn_leaves_nothing(raised, engine):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    loss_fn, state = noisy(raised)
    before, stream = dict(vars(model[0])), state["stream"].getstate()
    with pytest.raises((type(raised), lowtide.Unsupported)):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8), engine=engine)
    assert state["count"] == 0 and state["list"] == [] and "new" not in state and state["words"] == {"a"}
    assert state["table"].tolist() == [0, 0, 0] and state["array"].tolist() == [0, 0, 0] and state["stream"].getstate() == stream
    assert "extra" not in vars(model) and vars(model[0]).keys() == before.keys() and not model[0]._forward_hooks and not model[0]._buffers
    copy.deepcopy(model)(torch.randn(2, 8))


def test_an_exception_on_a_second_shape_leaves_the_step_as_it_was():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    seen = []

    def loss_fn(model, batch):
        if len(batch) > 5:
            seen.append(batch)
            raise ValueError("too many")
        return model(batch).square().mean()

    other = copy.deepcopy(model)
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(4, 8), effort=0.1)
    with pytest.raises(ValueError, match="too many"):
        step(torch.ones(6, 8))
    assert seen == [] and all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert torch.equal(step(torch.ones(4, 8)), loss_fn(other, torch.ones(4, 8)).detach())


@pytest.mark.parametrize("made", [lambda: iter([1.0, 2.0]), lambda: (x for x in (1.0, 2.0)), lambda: __import__("itertools").count(1)],
                         ids=["list", "generator", "count"])
def test_an_iterator_that_loss_fn_reads_is_refused_before_anything_is_traced(made):
    rates, model, calls = made(), nn.Linear(4, 4), []

    def loss_fn(model, batch):
        calls.append(1)
        return model(batch).square().mean() * next(rates)

    with pytest.raises(lowtide.Unsupported, match="'rates' is a .*nobody can put back; call next"):
        lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 4))
    assert calls == [] and next(rates) == 1.0


def test_an_iterator_further_away_is_refused_where_it_was_advanced():
    class Feed:
        def __init__(self):
            self.rates = [iter([1.0, 2.0])]

        def next(self):
            return next(self.rates[0])

    feed, model, kept = Feed(), nn.Linear(4, 4), []

    def loss_fn(model, batch):
        kept.append(1)
        return model(batch).square().mean() * feed.next()

    with pytest.raises(lowtide.Unsupported, match=r"'feed.rates\[0\]' is a list_iterator, which a step would advance"):
        lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 4))
    assert kept == []


def test_the_walk_calls_nothing_and_ends():
    class Proxy:
        def __getattr__(self, name):
            raise RuntimeError(name)

        @property
        def __class__(self):
            raise RuntimeError("asked for its class")

        @property
        def shape(self):
            raise RuntimeError("a property was called")

    proxy, long = Proxy(), list(range(50_000))
    proxy.me, proxy.long, proxy.tensors = proxy, long, [torch.zeros(2) for _ in range(100)]
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    found = Reachable([("", nn.Sequential(scripted)), ("loss_fn", lambda m, b: proxy.long)])
    assert len(found.tensors) == 102, "tensors of a long list are tensors"
    assert len(found.rooms) < 400
    note = Note(nn.Linear(2, 2), lambda m, b: proxy)
    proxy.tensors.append(1)
    proxy.more = 2
    assert {change.name for change in note.changes()} == {"proxy.tensors[100]", "proxy.more"}
    note.put_back()
    assert len(proxy.tensors) == 100 and "more" not in object.__getattribute__(proxy, "__dict__")


def test_versions_flags_gradients_and_hooks_of_tensors_are_put_back():
    model = nn.Linear(2, 2)
    kept, base = torch.zeros(3), torch.zeros(4)
    kept.grad, hook = None, model.weight.register_hook(lambda g: g)
    product = (model.weight * 2).sum()
    with untouched(model, lambda m, b: (kept, base)):
        with torch.no_grad():
            kept.add_(1)
        model.weight.requires_grad_(False)
        hook.remove()
        model.bias.grad = torch.ones(2)
        base.add_(product)
        assert base.grad_fn is not None
    assert kept.tolist() == [0, 0, 0] and kept._version == 0
    assert model.weight.requires_grad and len(model.weight._backward_hooks) == 1 and model.bias.grad is None
    assert base.grad_fn is None and not base.requires_grad and base.tolist() == [0] * 4
    product.backward()


def test_the_walk_keeps_nothing_alive():
    model = nn.Linear(2, 2)
    gone = weakref.ref(model)
    lowtide.plan(model, lambda m, x: m(x).sum(), torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 2))
    del model
    __import__("gc").collect()
    assert gone() is None


@functools.lru_cache
def _table(rows):
    return torch.arange(rows).float().cos()


class _Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(4, 4)

    @functools.lru_cache(maxsize=None)  # noqa: B019: as people write it
    def row(self, rows):
        return torch.ones(rows)

    @functools.cached_property
    def four(self):
        return torch.full((4,), 2.0)

    def forward(self, x):
        return self.one(x) * _table(x.shape[0])[:, None] * self.row(x.shape[0])[:, None] * self.four


def test_caches_of_functions_hold_no_tensors_without_contents():
    torch.manual_seed(0)
    model, batch = _Cached(), torch.randn(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wanted = copy.deepcopy(model)(batch)
    for _ in range(2):
        lowtide.plan(model, lambda m, b: m(b).square().mean(), optimizer, batch, effort=0.2)
        assert torch.equal(model(batch), wanted)


class _Grows(nn.Module):
    """Keeps the last result, and a table by size in a part of its own."""

    def __init__(self):
        super().__init__()
        self.one, self.tables, self.last = nn.Linear(4, 4), {}, None

    def forward(self, x):
        self.last = self.one(x).detach()
        return self.one(x) * self.tables.setdefault(len(x), torch.ones(len(x), 1))


@pytest.mark.parametrize("fault", [
    lambda m, o: setattr(m, "extra", 1),
    lambda m, o: m.one.register_forward_hook(lambda *_: None),
    lambda m, o: m.one.weight.requires_grad_(False),
    lambda m, o: setattr(m.one.weight, "grad", torch.ones(4, 4)),
    lambda m, o: m.one.bias.register_hook(lambda g: g),
    lambda m, o: m.tables.clear(),
    lambda m, o: o.append(1),
], ids=["attribute", "hook", "flag", "gradient", "hook of a tensor", "dict", "list of loss_fn"])
def test_the_watch_of_all_tests_sees_what_a_step_with_a_new_shape_leaves(fault, monkeypatch):
    seen = [0]

    def loss_fn(model, batch):
        return model(batch).square().mean() * len(seen)

    model = _Grows()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.ones(2, 4), effort=0.1)
    step(torch.ones(2, 4)), step(torch.ones(3, 4))
    run = type(step)._called
    monkeypatch.setattr(type(step), "_called", lambda step, batch: [run(step, batch), fault(model, seen)])
    with pytest.raises(AssertionError, match="a step with a new shape has changed more than a step of eager mode"):
        step(torch.ones(5, 4))
