"""Tensors of the step that are shown to numpy: refused with the line, as no trace sees what numpy does with them."""

import pytest
from torch_models import torch

import lowtide

np = pytest.importorskip("numpy")
nn = torch.nn


class OfNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.from_numpy(np.sinh(x.detach().numpy()))
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.cosh(ctx.saved_tensors[0])


class BackwardOfNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, gradient):
        return torch.from_numpy(2 * np.asarray(ctx.saved_tensors[0]) * np.asarray(gradient))


def in_forward(y):
    return OfNumpy.apply(y), None


def in_backward(y):
    return BackwardOfNumpy.apply(y), None


def given_back(y):
    return y, {"rows": y.detach().numpy()}


def weights(y):
    """A histogram of the outputs, as weights."""
    counts, _ = np.histogram(y.detach(), bins=3)
    return y * torch.tensor(counts.sum()), None


@pytest.mark.parametrize("use", [in_forward, in_backward, given_back, weights], ids=lambda f: f.__name__)
def test_what_numpy_computes_is_refused_with_the_line(use):
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3), torch.randn(5, 4)

    def loss_fn(m, x):
        y, aux = use(m(x))
        return y.mean(), aux
    loss, _ = loss_fn(model, x)
    loss.backward()  # eager mode runs it
    model.zero_grad(set_to_none=True)
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_shown\.py:\d+: .*shown to numpy.*return loss, aux"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), x, effort=0.1)


def test_what_is_known_of_shapes_alone_may_be_shown():
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3), torch.randn(5, 4)

    def loss_fn(m, x):
        table = np.cos(np.arange(3, dtype=np.float32))
        return (m(x) * torch.from_numpy(table)).mean()
    wanted = loss_fn(model, x).detach()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), x, effort=0.1)
    assert torch.equal(step(x), wanted)
