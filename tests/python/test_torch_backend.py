"""torch.compile(model, backend="lowtide"): loss, gradients and buffers are eager mode's bit for bit, and what the forward pass saves
shrinks with the budget."""

import copy
import os

import pytest
from torch_models import build, differences, torch

import lowtide
from lowtide.pytorch import backend

OPTIONS = {"effort": 0.2}
NETWORKS = ["gpt2", "resnet", "transformer", "bert"] if os.environ.get("LOWTIDE_LONG") else ["gpt2", "resnet"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backend.last_plans.clear()


def register():
    if "lowtide" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(backend.lowtide, name="lowtide")


def both(name, options, dropout=0.1, steps=2):
    """Compiled and eager mode, each with the user's own loop."""
    register()
    model, batch, loss_fn = build(name, dropout)
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="lowtide", fullgraph=True, dynamic=False, options=options)
    mine, its = (torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=0.01) for m in (model, other))
    for seed in range(steps):
        for m, run, optimizer in ((model, compiled, mine), (other, other, its)):
            torch.manual_seed(seed)
            optimizer.zero_grad()
            loss = loss_fn(run, batch)
            loss.backward()
            m.last = float(loss.detach())
            optimizer.step()
        assert model.last == other.last
        for (key, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None) and (a.grad is None or torch.equal(a.grad, b.grad)), key
        assert differences(model, mine, other, its) == []
    return model


@pytest.mark.parametrize("name", NETWORKS)
def test_a_loop_with_the_backend_is_eager_mode(name):
    both(name, OPTIONS)
    assert len(backend.last_plans) == 1


def test_a_budget_is_kept_by_running_ops_again():
    both("unet", OPTIONS)
    best = backend.last_plans[-1].arena_bytes
    torch._dynamo.reset()
    both("unet", {**OPTIONS, "budget": best * 9 // 10})
    plan = backend.last_plans[-1]
    ran = [step.op for step in plan.steps() if step.kind == 0]
    assert plan.arena_bytes <= best * 9 // 10 and len(ran) > len(set(ran))


def test_evaluation_takes_the_same_backend():
    register()
    model, batch, loss_fn = build("resnet")
    compiled = torch.compile(model.eval(), backend="lowtide", dynamic=False)
    with torch.no_grad():
        assert torch.equal(loss_fn(compiled, batch), loss_fn(model, batch))


def test_options_that_are_not_known_are_named():
    register()
    model, batch, loss_fn = build("lora")
    with pytest.raises(Exception, match="option 'bugdet' of backend lowtide is not known; known are budget"):
        loss_fn(torch.compile(model, backend="lowtide", options={"bugdet": 1}), batch)


def test_a_budget_below_the_floor_is_refused():
    register()
    model, batch, loss_fn = build("lora")
    with pytest.raises(Exception, match="every schedule needs at least"):
        loss_fn(torch.compile(model, backend="lowtide", dynamic=False, options={"budget": 1000}), batch)
    assert issubclass(lowtide.Infeasible, lowtide.Error)
