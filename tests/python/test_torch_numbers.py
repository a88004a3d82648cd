"""Python's own values in a captured step: a plan holds for them, and what draws from Python's random numbers is refused."""

import copy
import functools
import random
import warnings

import pytest
from torch_models import build, torch, trained

import lowtide
from lowtide.pytorch import guards

nn, F = torch.nn, torch.nn.functional
RATE = 1.0


class Settings:
    def __init__(self):
        self.weight, self.steps = 1.0, 0


class Scaled(nn.Linear):
    """Counts its calls, which changes nothing, and scales its result."""

    def __init__(self):
        super().__init__(4, 4)
        self.scale, self.calls = 1.0, 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * self.scale


def with_a_global(model, batch):
    return model(batch).square().mean() * RATE


def closures():
    """By kind: loss_fn and what changes its number to the one given."""
    held, settings, number = [1.0], Settings(), 1.0

    def of_a_number(model, batch):
        return model(batch).square().mean() * number

    def set_number(value):
        nonlocal number
        number = value

    def helper(loss):
        return loss * settings.weight

    factor = {"of": 1.0}
    return {
        "closure": (of_a_number, set_number),
        "list": (lambda model, batch: model(batch).square().mean() * held[0], lambda v: held.__setitem__(0, v)),
        "object": (lambda model, batch: helper(model(batch).square().mean()), lambda v: setattr(settings, "weight", v)),
        "global": (with_a_global, lambda v: globals().update(RATE=v)),
        "partial": (functools.partial(lambda of, model, batch: model(batch).square().mean() * of["of"], factor),
                    lambda v: factor.update(of=v)),
    }


def both(step, loss_fn, model, batch):
    """The step's loss and eager mode's."""
    wanted = loss_fn(model, batch).detach()
    return step(batch), wanted


@pytest.mark.parametrize("kind", closures())
def test_a_number_that_changes_is_seen(kind):
    torch.manual_seed(0)
    loss_fn, change = closures()[kind]
    model, batch = nn.Linear(4, 4), torch.randn(3, 4)
    change(1.0)
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(trained(model), lr=0.1), batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(*both(step, loss_fn, model, batch))
    change(5.0)
    with pytest.warns(UserWarning, match="is 5.0 now: a plan holds for Python's values"):
        assert torch.equal(*both(step, loss_fn, model, batch))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been told
        change(2.0)
        assert torch.equal(*both(step, loss_fn, model, batch))
    assert len(step._ready) == 1, "plans for numbers that are gone are not kept"
    change(1.0)


def test_numbers_of_modules_are_held_but_for_those_that_the_forward_pass_changes():
    torch.manual_seed(0)
    model, batch = nn.Sequential(Scaled(), nn.Dropout(0.5)), torch.randn(3, 4)
    loss_fn = lambda m, x: m(x).square().mean()  # noqa: E731
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(trained(model), lr=0.1), batch)
    for _ in range(2):
        model[0].calls += 1
        step(batch)
    for change in (lambda: setattr(model[0], "scale", 3.0), lambda: setattr(model[1], "p", 0.1)):
        change()
        other = copy.deepcopy(model)
        torch.manual_seed(1)
        with pytest.warns(UserWarning, match=r"(0.scale is 3.0|1.p is 0.1) now"):
            loss = step(batch)
        torch.manual_seed(1)
        assert torch.equal(loss, loss_fn(other, batch))


def held_values(model, loss_fn):
    """The plain values that a plan holds for, by name."""
    return {e.name: e.value for e in guards.entries_of(model, loss_fn) if isinstance(e.value, (float, bool, str)) and e.key != "training"}


def test_what_the_code_does_not_name_is_not_held():
    settings = Settings()
    loss_fn = lambda m, x: m(x).sum() * settings.weight  # noqa: E731
    before = held_values(nn.Linear(2, 2), loss_fn)
    settings.steps += 1
    assert before["settings.weight"] == 1.0 and held_values(nn.Linear(2, 2), loss_fn) == before


def test_the_probabilities_of_dropouts_are_held():
    model, _, loss_fn = build("bert")
    held = held_values(model, loss_fn)
    assert any(name.endswith("dropout.p") for name in held)
    assert not any("training" in name for name in held)


@pytest.mark.parametrize("draw", [random.random, lambda: __import__("numpy").random.rand()])
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_pythons_random_numbers_are_refused(draw, engine):
    class Layers(nn.Linear):
        def forward(self, x):
            return super().forward(x) if draw() < 2 else x

    model = Layers(4, 4)
    line = r"before '.*test_torch_numbers.py:\d+: .*' " if engine == "torch" and draw is random.random else ""
    with pytest.raises(lowtide.Unsupported, match=line + "numbers are drawn from Python's or numpy's random generator"):
        lowtide.compile_step(model, lambda m, x: m(x).square().mean(), torch.optim.SGD(trained(model), lr=0.1),
                             torch.randn(3, 4), engine=engine)
