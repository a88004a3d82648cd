"""Python's values at any depth of what loss_fn and the modules read are seen when they change: a new plan, with a warning that names them."""

import collections
import copy
import dataclasses
import enum
import functools
import types
import warnings

import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch import guards

nn, F = torch.nn, torch.nn.functional
SETTINGS = types.SimpleNamespace(loss=types.SimpleNamespace(scale=1.0))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def data():
    g = torch.Generator().manual_seed(1)
    return torch.randn(5, 6, generator=g), torch.randint(0, 4, (5,), generator=g)


def ce(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


@dataclasses.dataclass
class Weights:
    main: float = 1.0
    parts: list = dataclasses.field(default_factory=lambda: [{"of": 1.0}])
    reduction: str = "mean"
    extra: object = None


class Slotted:
    __slots__ = ("inner",)

    def __init__(self):
        self.inner = Weights()


class Way(enum.Enum):
    PLAIN, SQUARED = 1, 2


class Schedule:
    """A property and a class attribute, read by methods that loss_fn calls by name."""

    rate = 1.0

    def __init__(self):
        self.epoch, self.log = 1, []

    @property
    def factor(self):
        return self.rate * self.epoch

    def scaled(self, loss):
        return self._times(loss)

    def _times(self, loss):
        return loss * self.factor


class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings, self.inner = {"gamma": 1.0}, nn.CrossEntropyLoss()

    def forward(self, y, labels):
        return self.inner(y, labels) * self.settings["gamma"]


class Trainer:
    def __init__(self):
        self.criterion, self.schedule, self.seen = Focal(), Schedule(), 0

    def loss(self, model, batch):
        return self.helped(self.criterion(model(batch[0]), batch[1]))

    def helped(self, loss):
        return self.schedule.scaled(loss)

    def run(self, step, batch):  # not read by loss
        self.seen += 1
        return step(batch)


def with_settings(model, batch):
    return ce(model, batch) * SETTINGS.loss.scale


def by_getattr(weights, model, batch):
    return ce(model, batch) * getattr(weights, "main")


def kinds():
    """By kind: loss_fn, and what changes what it reads."""
    weights, slotted, way, schedule, focal, trainer = Weights(), Slotted(), [Way.PLAIN], Schedule(), Focal(), Trainer()
    chained = collections.UserDict(a=1.0)
    return {
        "dataclass": (lambda m, b: ce(m, b) * weights.main, lambda: setattr(weights, "main", 3.0)),
        "dict in a list of a dataclass": (lambda m, b: ce(m, b) * weights.parts[0]["of"], lambda: weights.parts[0].update(of=2.0)),
        "word": (lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction=weights.reduction), lambda: setattr(weights, "reduction", "sum")),
        "None": (lambda m, b: ce(m, b) * (2.0 if weights.extra is None else 5.0), lambda: setattr(weights, "extra", ())),
        "slots": (lambda m, b: ce(m, b) * slotted.inner.main, lambda: setattr(slotted, "inner", Weights(main=4.0))),
        "enum": (lambda m, b: ce(m, b) if way[0] is Way.PLAIN else ce(m, b).square(), lambda: way.__setitem__(0, Way.SQUARED)),
        "property": (lambda m, b: ce(m, b) * schedule.factor, lambda: setattr(schedule, "epoch", 3)),
        "class attribute": (lambda m, b: schedule.scaled(ce(m, b)), lambda: setattr(Schedule, "rate", Schedule.rate + 1)),
        "module's dict": (lambda m, b: focal(m(b[0]), b[1]), lambda: focal.settings.update(gamma=2.0)),
        "module's part": (lambda m, b: focal(m(b[0]), b[1]), lambda: setattr(focal.inner, "label_smoothing", 0.2)),
        "method": (trainer.loss, lambda: setattr(trainer.schedule, "epoch", 7)),
        "namespace of globals": (with_settings, lambda: setattr(SETTINGS.loss, "scale", SETTINGS.loss.scale + 1)),
        "getattr in a partial": (functools.partial(by_getattr, weights), lambda: setattr(weights, "main", weights.main + 1)),
        "mapping": (lambda m, b: ce(m, b) * chained["a"], lambda: chained.update(a=6.0)),
        "object put anew": (lambda m, b: ce(m, b) * way[-1].value if isinstance(way[-1], Way) else ce(m, b) * way[-1].main,
                            lambda: way.append(Weights(main=9.0))),
    }


@pytest.mark.parametrize("kind", kinds())
def test_a_value_that_changes_is_seen(kind):
    loss_fn, change = kinds()[kind]
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = lowtide.compile_step(model, loss_fn, optimizer, data(), effort=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = step(data())
        assert torch.equal(before, loss_fn(model, data()).detach())
    change()
    with pytest.warns(UserWarning, match="a plan holds for Python's values"):
        after = step(data())
    assert torch.equal(after, loss_fn(model, data()).detach()) and not torch.equal(before, after)


def test_what_a_loop_counts_beside_the_loss_asks_for_no_plan():
    trainer, model = Trainer(), net()
    step = lowtide.compile_step(model, trainer.loss, torch.optim.SGD(model.parameters(), lr=0.1), data(), effort=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            trainer.run(step, data())
            trainer.schedule.log.append(1)
    assert len(step._ready) == 1


def test_a_module_or_a_hook_that_is_put_in_is_another_plan():
    model = net()
    step = lowtide.compile_step(model, ce, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1)
    for change in (lambda: model.__setitem__(1, nn.Tanh()), lambda: model[0].register_forward_hook(lambda m, given, out: out * 2)):
        change()
        with pytest.warns(UserWarning, match="now"):
            got = step(data())
        assert torch.equal(got, ce(copy.deepcopy(model), data()).detach())


def test_guards_are_a_flat_list_that_objects_of_equal_value_pass():
    trainer, model = Trainer(), net()
    held = guards.Guards(guards.entries_of(model, trainer.loss))
    assert held.hold() and list(held.changed()) == []
    trainer.schedule.epoch = int("1000") - 999
    trainer.criterion.settings["gamma"] = float("1.0")
    assert held.hold(), "equal numbers are other objects"
    trainer.criterion.settings["more"] = 1
    assert not held.hold()
    del trainer.criterion.settings["more"]
    assert held.hold()
    model.eval()
    assert not held.hold() and {entry.key for entry, _ in held.changed()} == {"training"}


def test_nothing_of_the_users_is_called_to_find_values():
    class Touchy:
        def __getattr__(self, name):
            raise RuntimeError(f"asked for {name}")

        def __eq__(self, other):
            raise RuntimeError("compared")

        __hash__ = None

        @property
        def value(self):
            raise RuntimeError("a property was called")

    touchy = Touchy()
    touchy.me, touchy.weight = touchy, 2.0
    model = net()

    def loss_fn(model, batch):
        return ce(model, batch) * touchy.weight

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1)
    assert torch.equal(step(data()), loss_fn(model, data()).detach())


class _Patched(torch.nn.Module):
    gain = staticmethod(torch.tanh)

    def __init__(self):
        super().__init__()
        self.one, self.flags = torch.nn.Linear(4, 4), {"on"}
        self.part = functools.partial(torch.mul, other=1.0)

    def act(self, x):
        return x.tanh()

    def forward(self, x):
        y = self.part(self.act(self.one(x)))
        y = self.gain(y) if "on" in self.flags else y
        return y * getattr(self, "scale", 1.0)


@pytest.mark.parametrize("change", [
    lambda m: lambda: setattr(m, "act", lambda x: x.sigmoid()),
    lambda m: lambda: setattr(m, "forward", lambda x: m.one(x).relu()),
    lambda m: lambda: setattr(m.one, "forward", lambda x: x @ m.one.weight),
    lambda m: lambda: m.flags.clear(),
    lambda m: lambda: m.part.keywords.update(other=3.0),
    lambda m: lambda: setattr(m, "scale", 2.0),
], ids=["method", "forward", "forward of a package's module", "set", "partial", "absent attribute"])
def test_code_and_what_was_absent_are_seen(change):
    torch.manual_seed(0)
    model, batch = _Patched(), torch.randn(3, 4)
    change = change(model)
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), torch.optim.SGD(model.parameters(), lr=0.0), batch, effort=0.2)
    step(batch)
    change()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(step(batch), model(batch).square().mean().detach())
