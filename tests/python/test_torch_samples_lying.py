"""Parts of one sample lie as the whole's samples do: PyTorch's views give an axis that is 1 long any stride, and kernels go by them."""

import copy

import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch.calls import functional

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


class Tokens(nn.Module):
    """Pixels as tokens and back, as convolutional transformers have them."""

    def __init__(self, *parts):
        super().__init__()
        self.parts, self.into, self.layer = parts, nn.Conv2d(3, 8, 1), nn.LayerNorm(8)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, stride, 1, groups=8, bias=False) for stride in (1, 2, 2))
        self.group, self.weight = nn.GroupNorm(2, 8), nn.Parameter(torch.arange(1.0, 9.0))

    def forward(self, x):
        y = self.into(x)
        if "norm first" in self.parts:
            y = self.norms[0](y)
        n, c, h, w = y.shape
        t = y.view(n, c, h * w).permute(0, 2, 1)
        if "layer norm" in self.parts:
            t = self.layer(t)
        if "split" in self.parts:
            t = torch.cat([part * 2 for part in torch.split(t, [1, h * w - 1], 1)], 1)
        t = t * self.weight
        y = t.permute(0, 2, 1).view(n, c, h, w)
        if "group norm" in self.parts:
            y = self.group(y)
        if "convolutions" in self.parts:
            made = [norm(layer(y)) if "norms" in self.parts else layer(y) for norm, layer in zip(self.norms, self.layers, strict=True)]
            t = torch.cat([one.flatten(2).transpose(1, 2) for one in made], 1)
            return (t @ t.transpose(1, 2)).softmax(-1) @ t
        return (y.flatten(2).transpose(1, 2) * self.weight).sigmoid()


@pytest.mark.parametrize("parts", [("norm first",), ("norm first", "layer norm"), ("norm first", "split", "group norm"), ("convolutions",),
                                   ("convolutions", "norms"), ("layer norm", "convolutions", "norms"), ("group norm", "convolutions", "norms")], ids="+".join)
@pytest.mark.parametrize("side", [2, 4])
def test_parts_of_one_sample_compute_what_the_whole_does(parts, side):
    torch.manual_seed(0)
    model = Tokens(*parts).double()
    x, other = torch.randn(2, 3, side, side, dtype=torch.double), copy.deepcopy(model)
    optimizer, its = (torch.optim.SGD(m.parameters(), lr=1.0) for m in (model, other))

    def loss_fn(model, x):
        return model(x).square().mean()

    step = lowtide.compile_step(model, loss_fn, optimizer, x, split="samples:2", effort=0.1, rehearse=False)
    assert step.parts == 2
    wanted = loss_fn(other, x)
    wanted.backward()
    its.step()
    torch.testing.assert_close(step(x), wanted.detach(), rtol=1e-13, atol=0)
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=name)


def test_a_write_in_place_has_the_functional_form_with_its_operands():
    assert functional(aten.pow_.Scalar) is aten.pow.Tensor_Scalar and functional(aten.pow_.Tensor) is aten.pow.Tensor_Tensor
    assert functional(aten.float_power_.Scalar) is aten.float_power.Tensor_Scalar and functional(aten.add_.Tensor) is aten.add.Tensor
    assert functional(aten.floor_divide_.Tensor) is aten.floor_divide.default and functional(aten.polygamma_.default) is None
    assert functional(aten.normal_.default) is None and functional(aten.relu.default) is None


@pytest.mark.parametrize("kind", ["pow_", "float_power_", "floor_divide_", "pow_ of a tensor"])
def test_powers_in_place_in_parts(kind):
    def loss_fn(model, x):
        degrees = x.abs().double() + 1
        if kind == "pow_":
            degrees.pow_(-0.5)
        elif kind == "float_power_":
            degrees.float_power_(1.5)
        elif kind == "floor_divide_":
            degrees.floor_divide_(torch.full((6,), 0.25, dtype=torch.double))
        else:
            degrees.pow_(x.double())
        return (model(x) * degrees.sum(1, keepdim=True)).square().mean()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    other, x = copy.deepcopy(model), torch.rand(8, 6)
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), x, split="samples:4", effort=0.1)
    torch.testing.assert_close(step(x), loss_fn(other, x).detach(), rtol=1e-6, atol=1e-7)
