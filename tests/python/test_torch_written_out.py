"""The native engine on composite ops, on writes into views, on Python's values that the forward pass leaves in attributes, and on numbers that
the loss reads off tensors: as eager mode, or refused by name."""

import copy

import pytest

import lowtide

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

CLOSE = {"rtol": 1e-8, "atol": 1e-8}
X = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


class Net(nn.Module):
    def __init__(self, formula, norm=False):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.formula = nn.Linear(4, 4), formula
        self.norm = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.config = {"kind": None}
        self.calls, self.seen = 0, None

    def forward(self, x):
        return self.formula(self, self.norm(self.layer(x)))


def native(formula, loss_fn=lambda m, x: m(x).square().mean(), norm=False, batches=(X, X * 2, X[:3])):
    """The model that native steps have left, equal to eager mode's after each."""
    model = Net(formula, norm).double()
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, other))
    step = lowtide.compile_step(model, loss_fn, mine, batches[0], engine="native", effort=0.05)
    for batch in batches:
        loss = step(batch)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        torch.testing.assert_close(loss, wanted.detach(), **CLOSE)
        for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, **CLOSE)
        assert (model.config, model.calls, model.seen) == (other.config, other.calls, other.seen)
    return model


def on_a_grid(m, y):
    rows, columns = torch.meshgrid(torch.arange(2, dtype=y.dtype), torch.arange(4, dtype=y.dtype), indexing="ij")
    return y * (rows - columns).mean()



COMPOSITE = {
    "subtract": lambda m, y: torch.subtract(y, 1.5), "kl_div": lambda m, y: F.kl_div(y.log_softmax(-1), (y.detach() * 2).log_softmax(-1), reduction="none", log_target=True),
    "meshgrid": on_a_grid, "multiply": lambda m, y: torch.multiply(y, y)}


@pytest.mark.parametrize("name", COMPOSITE)
def test_an_op_that_pytorch_runs_as_others_is_written_out(name):
    native(COMPOSITE[name])


def clamped(m, y):
    y.reshape(2, -1).clamp_(min=0.1)
    return y * 2


def added(m, y):
    y = y * 1
    y.reshape(-1).add_(1)
    return y


def masked(m, y):
    y = y + 0
    y.reshape(-1, 2).masked_fill_(torch.tensor([True, False]), 0.5)
    return y


@pytest.mark.parametrize("formula", [clamped, added, masked])
def test_writes_into_views_are_written_out_as_values(formula):
    native(formula, batches=(X, X * 2))


def test_what_writes_buffers_is_not_written_out():
    with pytest.raises(lowtide.Unsupported, match="view whose places are not known"):
        native(clamped, norm=True)


def named(m, y):
    m.config["kind"] = "regression"
    return y


def counted(m, y):
    m.calls += 1
    return y


def told(m, y):
    m.seen = f"{y.shape[1]} columns" if m.seen is None else m.seen
    return y


@pytest.mark.parametrize("formula", [named, counted, told])
@pytest.mark.filterwarnings("ignore:lowtide. the forward pass itself moves")
def test_values_of_python_are_left_as_eager_mode_leaves_them(formula):
    native(formula, batches=(X, X * 2))


def test_a_value_of_python_that_decides_has_a_plan_of_its_own():
    def first(m, y):
        begun, m.seen = m.seen, "begun"
        return y if begun else y * 3

    native(first, batches=(X, X * 2, X * 3))


def test_a_tensor_in_an_attribute_is_refused():
    def kept(m, y):
        m.seen = y.detach()
        return y

    with pytest.raises(lowtide.Unsupported, match="the forward pass keeps 'seen'.*engine='torch'"):
        native(kept)


@pytest.mark.parametrize("number", [lambda y: y.mean().item(), lambda y: {"count": (y > 0).sum().item()}, lambda y: [1.5, (y > 0).any().item()]])
def test_a_number_that_is_read_off_a_tensor_is_not_handed_out(number):
    def loss_fn(m, x):
        y = m(x)
        return y.square().mean(), number(y.detach())

    with pytest.raises(lowtide.Unsupported, match=r"hands out a number.*\.detach\(\).*engine='torch'"):
        native(lambda m, y: y, loss_fn)
