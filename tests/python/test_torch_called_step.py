"""step() of an optimizer within a planned step runs as it is written, whatever its author decorates it with."""

import copy
import functools

import pytest
import torch

import lowtide
from lowtide.pytorch import own_step
from lowtide.pytorch.called_step import call_step

SEEN = []


def update(optimizer):
    SEEN.append(torch.is_grad_enabled())
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                with torch.no_grad():
                    p.sub_(p.grad.sign(), alpha=group["lr"])


def doubled(function):
    @functools.wraps(function)
    def called(optimizer):
        function(optimizer)
        function(optimizer)

    return called


# Each decorator, and whether gradients are enabled within while they are not without.
DECORATED = {"none": (lambda f: f, False), "no_grad": (torch.no_grad(), False), "no_grad without brackets": (torch.no_grad, False),
             "enable_grad": (torch.enable_grad(), True), "set_grad_enabled": (torch.set_grad_enabled(True), True),
             "inference_mode": (torch.inference_mode(False), True), "twice": (doubled, False),
             "no_grad of twice": (lambda f: torch.no_grad()(doubled(f)), False), "twice of no_grad": (lambda f: doubled(torch.no_grad()(f)), False)}


def optimizer_of(name):
    decorated = DECORATED[name][0](update)
    return type("Signs", (torch.optim.Optimizer,), {"__init__": lambda self, params: torch.optim.Optimizer.__init__(self, params, {"lr": 0.125}),
                                                    "step": decorated})


@pytest.mark.parametrize("name", DECORATED)
def test_a_decorated_step_does_what_it_does(name):
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    its, mine = optimizer_of(name)([p]), optimizer_of(name)([p])
    for around in (torch.no_grad, torch.enable_grad):
        SEEN.clear()
        with around():
            its.step()
            wanted = [*SEEN]
            SEEN.clear()
            call_step(mine)
            assert wanted == SEEN
            assert torch.is_grad_enabled() == (around is torch.enable_grad)
    with torch.no_grad():
        SEEN.clear()
        call_step(mine)
        assert set(SEEN) == {DECORATED[name][1]}


@pytest.mark.parametrize("name", ["no_grad", "twice of no_grad", "no_grad of twice"])
def test_planned_steps_are_eager_modes(name):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    other = copy.deepcopy(model)
    kind = optimizer_of(name)
    mine, its = kind(model.parameters()), kind(other.parameters())
    x = torch.randn(3, 4)
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, x, effort=0.1, rehearse=False)
    for _ in range(3):
        its.zero_grad()
        loss = other(x).square().mean()
        loss.backward()
        its.step()
        assert torch.equal(step(x), loss.detach())
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


def test_what_is_known_of_a_state_is_forgotten_when_its_entries_change():
    """A number in a tensor's place, a tensor in a number's, one more, one of another shape: each is seen, and tensors come back into their own."""
    alone = own_step._Alone(torch.optim.RMSprop([torch.nn.Parameter(torch.ones(2))]))
    first, second, third = torch.zeros(2), torch.zeros(()), torch.ones(2)
    state = {"average": first, "scale": second, "count": 1}
    assert alone.holds(state, (first, second)) and alone.holds(state, (first, second))
    assert not alone.holds(state, (second, first)) and not alone.holds(state, (first,)) and not alone.holds(None, (first,)) and alone.holds(None, ())
    assert alone.holds(state, (first, second))
    state["scale"] = torch.tensor(3.0)
    assert alone.take_back(state, (first, second)) and state["scale"] is second and second == 3
    state["count"] = third
    assert not alone.take_back(state, (first, second))
    state["scale"] = 1
    assert not alone.holds(state, (first, second)) and alone.holds(state, (first, third))
    assert alone.tensors == ["average", "count"] and alone.others == ["scale"]
    assert not alone.take_back({**state, "average": torch.zeros(3)}, (first, third))
    assert not alone.take_back({**state, "more": torch.zeros(3)}, (first, third))
