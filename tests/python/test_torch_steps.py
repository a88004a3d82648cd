"""Planned training steps of ten kinds of networks are equal to eager mode bit for bit, in their budget, at their addresses."""

import pytest
from torch_models import NAMES, OPTIMIZERS, assert_equal_steps, build, twin

import lowtide

# Each network once with each optimizer, without a budget and with one between that and the floor; dropout on in one of
# the two.
CASES = [(name, optimizer, budget, dropout) for name in NAMES
         for optimizer, budget, dropout in (("adamw", None, 0.1), ("sgd", "tight", 0.0))]


def least(model, loss_fn, optimizer, batch):
    """The floor that a budget of nothing is refused with, and what the best order needs."""
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(model, loss_fn, optimizer, batch, budget=1)
    floor = int(str(refused.value).split("needs at least ")[1].split(" bytes")[0])
    return floor, lowtide.plan(model, loss_fn, optimizer, batch).arena_bytes


@pytest.mark.parametrize(("name", "optimizer", "budget", "dropout"), CASES)
def test_three_steps_are_equal_to_eager_mode(name, optimizer, budget, dropout):
    model, batch, loss_fn = build(name, dropout)
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    limit = None
    if budget == "tight":
        floor, best = least(model, loss_fn, mine, batch)
        limit = floor + (best - floor) // 2
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, effort=1)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
    assert step.memory.beside == 0 and step.memory.planned > 0
    assert step.memory.top_bytes <= step.memory.arena_bytes
    assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes
    if limit is not None:
        assert step.plan.arena_bytes <= limit
