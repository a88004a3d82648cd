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
