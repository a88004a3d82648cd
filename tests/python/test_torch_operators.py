"""Neural operators plan and run: ops of torch.fft and of complex numbers, which no row of the op
table knows, and parameters that are complex themselves. (The networks with numbers in pairs are
among those of test_torch_steps.py.)"""

import copy
import os

import neural_operators
import pytest
from torch_models import assert_equal_steps, build, torch, twin

import lowtide
from lowtide.pytorch import backend

LONG = os.environ.get("LOWTIDE_LONG")
OPTIMIZERS = {  # fused ones refuse complex parameters
    "fno": lambda ps: torch.optim.Adam(ps, lr=1e-3),
    "tfno": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "uno": lambda ps: torch.optim.AdamW(ps, lr=1e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS if LONG else ["uno"])
def test_operators_with_complex_parameters_are_eager_mode_within_a_budget(name):
    _, batch, loss_fn = build(name)
    model = neural_operators.BUILD[name](numbers="complex")
    assert any(p.is_complex() for p in model.parameters())
    other, mine, its = twin(model, OPTIMIZERS[name])
    best = lowtide.plan(model, loss_fn, mine, batch, effort=0.2).arena_bytes
    limit = best * 95 // 100
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, effort=0.2)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=2)
    assert step.plan.arena_bytes <= limit < best and step._now.code.reruns > 0
    assert step.memory.beside == 0 and step.memory.planned > 0
    names = {call.name for unit in step._now.planned.captured.units for call in unit.calls}
    assert {"aten._fft_r2c", "aten._fft_c2r"} <= names


@pytest.mark.parametrize("name", OPTIMIZERS if LONG else ["tfno"])
def test_operators_with_the_backend_are_as_without_a_plan(name):
    """UNO's interpolation is taken apart by AOTAutograd itself, which costs it eager mode's last
    bits: what is compared
    is AOTAutograd with its own partition."""
    model, batch, loss_fn = build(name)
    other, losses = copy.deepcopy(model), []
    ways = (model, backend.lowtide, {"effort": 0.2}), (other, "aot_eager_default_partitioner", None)
    for one, way, options in ways:
        torch._dynamo.reset()
        run = torch.compile(one, backend=way, fullgraph=True, dynamic=False, options=options)
        losses.append(loss_fn(run, batch))
        losses[-1].backward()
    assert torch.equal(*losses)
    for (key, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad), key
