"""Convolutions of captured steps: how their arguments are said, and the gradient that does not read the input (convolutions.py)."""

import copy

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, torch, twin

import lowtide

nn, F = torch.nn, torch.nn.functional


class Between(nn.Module):
    """A convolution whose input needs a gradient, called as `call(x, weight)`."""

    def __init__(self, call, weight, dimensions):
        super().__init__()
        convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
        self.first, self.weight, self.call = convolution(3, 4, 1), nn.Parameter(torch.randn(weight) * 0.2), call

    def forward(self, x):
        return self.call(torch.tanh(self.first(x)), self.weight)


SHORT = {
    "stride and padding as lists of one": (lambda x, w: F.conv2d(x, w, stride=[2], padding=[1]), (4, 4, 3, 3), 2),
    "dilation as a list of one": (lambda x, w: F.conv2d(x, w, dilation=[2], padding=[2]), (4, 2, 3, 3), 2),
    "the other direction": (lambda x, w: F.conv_transpose2d(x, w, stride=[2], output_padding=[1], padding=[1]), (4, 5, 3, 3), 2),
    "three dimensions, numbers": (lambda x, w: F.conv3d(x, w, stride=2, padding=1), (4, 4, 3, 3, 3), 3),
    "three dimensions, valid, dilated": (lambda x, w: F.conv3d(x, w, dilation=[2], padding="valid"), (4, 4, 2, 2, 2), 3),
    "one dimension, same, dilated": (lambda x, w: F.conv1d(x, w, dilation=2, padding="same"), (4, 4, 3), 1),
    "one sample": (lambda x, w: F.conv2d(x[0], w, padding="valid"), (4, 4, 3, 3), 2),
}


@pytest.mark.parametrize("name", SHORT)
def test_a_number_may_stand_for_all_dimensions(name):
    call, weight, dimensions = SHORT[name]
    if "dilation" in name:
        grouped = call
        call = lambda x, w: grouped(x[:, :2], w)  # noqa: E731
    torch.manual_seed(0)
    model, batch = Between(call, weight, dimensions), torch.randn(2, 3, *[8] * dimensions)
    loss_fn = lambda m, x: m(x).square().mean()  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.1)
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch, steps=2)


def test_samples_of_a_convolution_with_short_arguments_run_in_parts():
    torch.manual_seed(0)
    model, batch = Between(*SHORT["stride and padding as lists of one"]), torch.randn(4, 3, 8, 8)
    made = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), OPTIMIZERS["sgd"](model.parameters()), batch,
                                effort=0.1, split="samples:2")
    assert made.parts == 2 and not [line for line in made.coupled if "convolution" in line]


class Stages(nn.Module):
    """A pyramid of transformers: convolutions between norms and layers on rows of channels, joined by transposes and contiguous copies."""

    def __init__(self, convolution):
        super().__init__()
        widths = (3, 4, 8, 8)
        self.stages = nn.ModuleList(nn.ModuleList([convolution(a, b), nn.LayerNorm(b), nn.LayerNorm(b), nn.Linear(b, b)])
                                    for a, b in zip(widths, widths[1:], strict=False))

    def forward(self, x):
        for convolution, norm, end, layer in self.stages:
            x = convolution(x)
            extents = x.shape[2:]
            x = norm(x.flatten(2).transpose(1, 2))
            x = (x + layer(end(x))).transpose(1, 2).reshape(x.shape[0], -1, *extents).contiguous()
        return x.square().mean()


@pytest.mark.parametrize(("convolution", "sizes"), [
    (lambda a, b: nn.Conv2d(a, b, 2, 2), (2, 3, 16, 16)), (lambda a, b: nn.Conv2d(a, b, 3, 2, 1), (2, 3, 16, 16)),
    (lambda a, b: nn.ConvTranspose2d(a, b, 2, 2), (2, 3, 2, 2)), (lambda a, b: nn.Conv3d(a, b, 2, 2), (2, 3, 8, 8, 8))], ids=["2d", "with overlap", "up", "3d"])
def test_a_gradient_whose_operands_lie_otherwise_than_traced_lies_as_eager_modes(convolution, sizes):
    """The other direction's kernel follows the gradient's strides, PyTorch's own the input's: where both are known only after a first
    round of measuring, what the first makes says nothing about the second."""
    torch.manual_seed(0)
    model, x = Stages(convolution), torch.randn(sizes)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    step = lowtide.compile_step(model, lambda m, x: m(x), mine, x, effort=0.1, cache=False)
    for _ in range(2):
        its.zero_grad()
        wanted = other(x)
        wanted.backward()
        its.step()
        assert torch.equal(step(x), wanted.detach())
    assert all(map(torch.equal, model.parameters(), other.parameters()))
