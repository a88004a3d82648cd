"""Nothing is believed that was not compared: each plan's first run against what the plan was made for, and a rehearsal beside eager mode."""

import copy

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, torch, twin

import lowtide

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4))
    return model, torch.randn(5, 8)


def loss_of(model, x):
    return model(x).square().mean()


def exchange(step, op, other):
    """The kernel of an op in the step's code is another function."""
    for run in (step._now.code.run, step._now.code.first):
        names = [name for name, value in run.__globals__.items() if value is op]
        assert names, f"no {op} in the step"
        run.__globals__.update(dict.fromkeys(names, other))


def transposed(op):
    def kernel(*args, **kwargs):
        made = op(*args, **kwargs)
        return torch.empty_strided(made.shape, (1, made.shape[0]), dtype=made.dtype).copy_(made)
    return kernel


def wider(op):
    return lambda *args, **kwargs: op(*args, **kwargs).double()


def larger(op):
    return lambda *args, **kwargs: torch.cat([op(*args, **kwargs)] * 2)


def in_its_operand(op):
    def kernel(bias, x, *more):
        made = op(bias, x, *more)
        return x.as_strided(made.shape, made.stride())
    return kernel


WRONG = {
    "strides": (aten.mm.default, transposed), "type": (aten.mm.default, wider), "shape": (aten.mm.default, larger),
    "memory of another": (aten.addmm.default, in_its_operand), "view that is a copy": (aten.t.default, lambda op: lambda x: op(x).clone()),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_kernel_that_makes_something_else_than_planned_ends_the_first_step(name, optimizer):
    op, wrong = WRONG[name]
    model, batch = network()
    mine = OPTIMIZERS[optimizer](model.parameters())
    step = lowtide.compile_step(model, loss_of, mine, batch, effort=0.1)
    exchange(step, op, wrong(op))
    before, stream = copy.deepcopy((model.state_dict(), mine.state_dict())), torch.get_rng_state()
    with pytest.raises(lowtide.Internal, match=op.__name__.split(".")[0]):
        step(batch)
    after = (model.state_dict(), mine.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(before[0].values(), after[0].values(), strict=True))
    assert str(before[1]) == str(after[1]) and torch.equal(stream, torch.get_rng_state())


def test_later_steps_do_not_look():
    model, batch = network()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, loss_of, mine, batch, effort=0.1)
    assert_equal_steps(step, model, mine, other, its, loss_of, batch)
    assert step._now.looked and "seen(" not in step.source
    exchange(step, aten.mm.default, transposed(aten.mm.default))
    step(batch)  # a kernel that changes its mind later is nobody's
