"""Attributes of tensors, the user's and those that dynamo puts there, are after capture what they were."""

import pytest
from torch_models import asserted, torch

import lowtide

nn, F = torch.nn, torch.nn.functional


class Branches(nn.Module):
    """Looks into a tensor, so that dynamo captures it: it marks the parameters and buffers that it meets."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        return self.layer(asserted(x)) * self.scale


class Marks(Branches):
    def forward(self, x):
        self.layer.weight.seen = True
        self.layer.bias.uses = self.layer.bias.uses + 1
        self.scale.last = x * 2
        return self.layer(x) * self.scale


def gaussian(model, x):
    return F.gaussian_nll_loss(model(x), x, x.abs() + 0.5)


def squares(model, x):
    return model(x).square().mean()


@pytest.mark.parametrize("call", ["plan", "compile_step"])
@pytest.mark.parametrize("kind,loss_fn", [(Branches, squares), (Branches, gaussian), (Marks, squares)])
def test_attributes_of_tensors_are_as_before(kind, loss_fn, call):
    torch.manual_seed(0)
    model, batch = kind(), torch.randn(3, 4)
    model.layer.bias.uses, kept = 3, [1]
    model.layer.weight.mine = kept
    getattr(lowtide, call)(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), batch, effort=0.1)
    assert vars(model.layer.weight) == {"mine": kept} and vars(model.layer.weight)["mine"] is kept
    assert vars(model.layer.bias) == {"uses": 3} and vars(model.scale) == {}


def test_attributes_are_as_before_after_a_refusal():
    torch.manual_seed(0)
    model = Marks()
    model.layer.bias.uses = 0
    with pytest.raises(lowtide.Unsupported):
        lowtide.compile_step(model, lambda m, x: m(x).mean() * (1.0 if m(x).sum() > 0 else 2.0), torch.optim.SGD(model.parameters(), lr=0.1),
                             torch.randn(3, 4))
    assert vars(model.layer.bias) == {"uses": 0} and vars(model.layer.weight) == {} and vars(model.scale) == {}


class Scaled(nn.Module):
    """Keeps on a buffer what it last scaled, and on a parameter how often; takes an attribute away."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        self.scale.last = x * 2
        self.layer.weight.seen = True
        self.layer.weight.sums = (self.layer.weight.sums[1], x.sum())
        if hasattr(self.layer.bias, "once"):
            del self.layer.bias.once
        return self.layer(x + self.scale.total) * self.scale


def test_steps_leave_the_attributes_that_eager_mode_leaves():
    torch.manual_seed(0)
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        model = Scaled()
        model.scale.total, model.layer.weight.sums, model.layer.bias.once = torch.ones(4), (torch.zeros(()), torch.zeros(())), 1
        made.append((model, torch.optim.SGD(model.parameters(), lr=0.1)))
    (model, mine), (other, its) = made
    step = lowtide.compile_step(model, squares, mine, torch.randn(3, 4), effort=0.1, cache=False)
    assert step.rehearsal == "rehearsed beside eager mode: equal bits" and vars(model.layer.bias) == {"once": 1}
    for _ in range(3):
        batch = torch.randn(3, 4)
        step(batch)
        squares(other, batch).backward()
        its.step()
        its.zero_grad()
        for ours, theirs in zip((*model.parameters(), model.scale), (*other.parameters(), other.scale), strict=True):
            a, b = vars(ours), vars(theirs)
            assert a.keys() == b.keys()
            assert all(map(torch.equal, *([torch.as_tensor(t) for t in torch.utils._pytree.tree_leaves(list(v.values()))] for v in (a, b))))
