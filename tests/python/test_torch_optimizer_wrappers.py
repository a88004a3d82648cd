"""Optimizers around other optimizers: each entry of what these keep is compared by itself in the rehearsal, from the same state."""

import copy
import types

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


class Around(torch.optim.Optimizer):
    """Lookahead: every other step the parameters go half-way back to where they were. The other optimizer has all state."""

    def __init__(self, base):
        self.base, self.count = base, 0
        super().__init__([p for group in base.param_groups for p in group["params"]], {})
        self.slow = [p.detach().clone() for p in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
        self.count += 1
        if self.count % 2 == 0:
            for slow, p in zip(self.slow, self.param_groups[0]["params"], strict=True):
                p.copy_(slow.lerp_(p, 0.5))


class Both(Around):
    """Two, one after the other."""

    def __init__(self, base):
        super().__init__(base)
        self.others = [torch.optim.RMSprop(self.param_groups[0]["params"], lr=1e-3)]

    def step(self, closure=None):
        super().step()
        self.others[0].step()


class Held(Around):
    """It keeps a dict by parameter of its own, in an object."""

    def __init__(self, base):
        super().__init__(base)
        self.of = {"last": {}}

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            self.of["last"][p] = {"gradient": p.grad.detach().clone(), "norm": p.grad.norm()}
        super().step()


class Noting(Around):
    """It notes in an object, and in a list in a list."""

    def __init__(self, base):
        super().__init__(base)
        self.seen, self.rows = types.SimpleNamespace(norms=None), [[0.0]]

    def step(self, closure=None):
        self.seen.norms = [p.grad.norm() for p in self.param_groups[0]["params"]]
        self.rows[0][0] = len(self.seen.norms) * 1.5
        super().step()


@pytest.mark.parametrize("kind", [Around, Both, Held, Noting])
@pytest.mark.parametrize("begun", [False, True])
def test_an_optimizer_around_others_is_rehearsed_bit_for_bit(kind, begun):
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(3, 4)
    other = copy.deepcopy(model)

    def loss_fn(model, batch):
        return model(batch).square().mean()

    mine, its = (kind(torch.optim.Adam(net.parameters(), lr=0.01)) for net in (model, other))
    if begun:
        for net, optimizer in ((model, mine), (other, its)):
            loss_fn(net, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    assert step.rehearsal == "rehearsed beside eager mode: equal bits"
    for _ in range(3):
        step(batch)
        its.zero_grad()
        loss_fn(other, batch).backward()
        its.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_a_loss_that_learns_is_planned_in_one_module_with_the_model():
    def both(seed=0):
        torch.manual_seed(seed)
        return nn.ModuleDict({"model": nn.Linear(4, 3), "loss": nn.Bilinear(3, 3, 1)})

    def loss_fn(nets, batch):
        y = nets["model"](batch)
        return nets["loss"](y, y).square().mean()

    nets, batch = both(), torch.randn(5, 4)
    with pytest.raises(lowtide.Usage, match="parameter 2 of the optimizer's group 0 .*none of the model.*ModuleDict"):
        lowtide.compile_step(nets["model"], lambda model, batch: loss_fn(nets, batch), torch.optim.SGD(nets.parameters(), lr=0.1), batch)
    step, other = lowtide.compile_step(nets, loss_fn, torch.optim.SGD(nets.parameters(), lr=0.1), batch, rehearse=False), both()
    its = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(2):
        step(batch)
        its.zero_grad()
        loss_fn(other, batch).backward()
        its.step()
    assert all(torch.equal(a, b) for a, b in zip(nets.parameters(), other.parameters(), strict=True))
