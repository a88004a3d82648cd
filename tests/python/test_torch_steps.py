"""Planned training steps of thirteen kinds of networks are equal to eager mode bit for bit, in their budget, at their addresses."""

import itertools
import os

import pytest
from torch_models import NAMES, OPTIMIZERS, assert_equal_steps, build, twin

import lowtide

# Every second network once, within a tight budget, with dropout; all of them, optimizers, budgets and dropouts with LOWTIDE_LONG.
if os.environ.get("LOWTIDE_LONG"):
    CASES = list(itertools.product(NAMES, OPTIMIZERS, (None, "middle", "tight"), (0.0, 0.1)))
else:
    CASES = [(name, ("adamw", "sgd")[i % 2], "tight", 0.1) for i, name in enumerate(NAMES[:12:2])]


def limit_of(budget, model, loss_fn, optimizer, batch):
    """A budget between what the best order needs and the floor, with which a budget of nothing is refused."""
    if budget is None:
        return None
    best = lowtide.plan(model, loss_fn, optimizer, batch).arena_bytes
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(model, loss_fn, optimizer, batch, budget=1)
    floor = int(str(refused.value).split("needs at least ")[1].split(" bytes")[0])
    return best if best - floor < 1024 else best - (best - floor) // (3 if budget == "tight" else 10)


@pytest.mark.parametrize(("name", "optimizer", "budget", "dropout"), CASES)
def test_three_steps_are_equal_to_eager_mode(name, optimizer, budget, dropout):
    model, batch, loss_fn = build(name, dropout)
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    limit = limit_of(budget, model, loss_fn, mine, batch)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, effort=0.2)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
    assert step.memory.beside == 0 and step.memory.planned > 0
    assert step.memory.top_bytes <= step.memory.arena_bytes
    assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes
    if limit is not None:
        assert step.plan.arena_bytes <= limit
