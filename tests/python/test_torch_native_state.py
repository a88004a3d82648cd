"""The native engine on what changes between steps, and on parameters that eager mode treats in a special way.

An exported program has the contents of some tensors (whole numbers, tensors from outside of the model): where somebody writes
another number there, a step reads it. Which parameters get a state and an update is what eager mode says: those without
elements get one, those without a gradient none, and those with a gradient of zeros move by their decay.
"""

import copy
import warnings

import pytest

import lowtide

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

CLOSE = {"rtol": 1e-8, "atol": 1e-8}
F64 = torch.float64
X = torch.randn(5, 4, dtype=F64, generator=torch.Generator().manual_seed(7))
OPTIMIZERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    "plain": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01),
}


def mean_square(model, x):
    return model(x).square().mean()


def follow(make, loss_fn=mean_square, optimizer="sgd", between=lambda model, k: None, steps=3):
    """Three steps beside eager mode, with `between` done to both models before each."""
    torch.manual_seed(0)
    model = make().double()
    other = copy.deepcopy(model)
    mine, its = (OPTIMIZERS[optimizer](m.parameters()) for m in (model, other))
    step = lowtide.compile_step(model, loss_fn, mine, X, engine="native", effort=0.05)
    for k in range(steps):
        between(model, k)
        ours = step(X)
        between(other, k)
        its.zero_grad()
        theirs = loss_fn(other, X)
        theirs.backward()
        its.step()
        torch.testing.assert_close(ours, theirs.detach(), **CLOSE)
        torch.testing.assert_close(model.state_dict(), other.state_dict(), **CLOSE)
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine.state.get(p, {}), its.state.get(q, {}), **CLOSE)
    return step


OUTSIDE = torch.ones(4, dtype=F64)


class Reads(nn.Module):
    """Tensors of all kinds that are read and not trained."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("unsaved", torch.tensor(2), persistent=False)
        self.plain = torch.ones(4, dtype=F64)
        self.config = {"weights": torch.ones(4, dtype=F64)}

    def forward(self, x):
        y = torch.where(self.mask, self.linear(x), 0.0)[:, self.order] * self.scale * self.plain
        return y * self.config["weights"] * OUTSIDE + self.unsaved


def _flip(model, k):
    model.mask.logical_not_()


def _turn(model, k):
    with torch.no_grad():
        model.order.copy_(model.order.roll(1))


CHANGES = {
    "mask": _flip,
    "order": _turn,
    "order_by_data": lambda model, k: model.order.data.add_(1).remainder_(4),
    "scale": lambda model, k: model.scale.fill_(k + 1.0),
    "unsaved": lambda model, k: model.unsaved.add_(1),
    "plain": lambda model, k: model.plain.mul_(1.5),
    "config": lambda model, k: model.config["weights"].fill_(2.0 + k),
    "outside": lambda model, k: OUTSIDE.fill_(2.0 + k),
    "mask_anew": lambda model, k: setattr(model, "mask", torch.tensor([k == 1, True, False, True])),
    "scale_anew": lambda model, k: setattr(model, "scale", torch.full((4,), 2.0 + k, dtype=F64)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_somebody_writes_between_steps_is_read(name):
    OUTSIDE.fill_(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        follow(Reads, between=CHANGES[name])


def test_a_tensor_whose_contents_change_is_named_once_and_equal_contents_need_no_plan():
    def between(model, k):
        model.mask.copy_(torch.tensor([True, False, True, k < 1]))

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        step = follow(Reads, between=between, steps=4)
    said = [str(w.message) for w in seen if "contents of mask have changed" in str(w.message)]
    assert len(said) == 1 and len(step._ready) == 1


class Odd(nn.Module):
    """A parameter without elements, one that nobody reads, one that gets no gradient."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.empty, self.unread = nn.Parameter(torch.zeros(0, 4)), nn.Parameter(torch.zeros(3))
        self.cut = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.linear(x) * self.cut.detach() + self.empty.sum(0)


class Cut(nn.Module):
    """A first layer that is held fast for this loss."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = torch.tanh(self.first(x))
        return self.second(y)


class Shared(nn.Module):
    """One module under two names, and a weight that two modules have."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.again = self.first

    def forward(self, x):
        return self.again(self.second(torch.tanh(self.first(x))))


class Views(nn.Module):
    """Buffers in one storage."""

    def __init__(self):
        super().__init__()
        both = torch.arange(8, dtype=F64)
        self.linear = nn.Linear(4, 4)
        self.register_buffer("low", both[:4])
        self.register_buffer("high", both[4:])

    def forward(self, x):
        return self.linear(x) * self.low + self.high


@pytest.mark.parametrize(("make", "optimizer"), [(Odd, "sgd"), (Odd, "adamw"), (Cut, "sgd"), (Cut, "plain"), (Shared, "adamw"), (Views, "plain")])
def test_the_parameters_that_eager_mode_updates_are_updated(make, optimizer):
    follow(make, optimizer=optimizer)


def test_a_gradient_of_zeros_moves_a_parameter_in_eager_mode_and_is_refused():
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.second(torch.floor(self.first(x)))

    model = Rounded().double()
    with pytest.raises(lowtide.Unsupported, match="'first.weight' has a gradient .of zeros, perhaps.*engine='torch' has it"):
        lowtide.compile_step(model, mean_square, OPTIMIZERS["sgd"](model.parameters()), X, engine="native", effort=0.05)


def test_a_loss_of_one_number_keeps_its_shape():
    follow(lambda: nn.Linear(4, 4), loss_fn=lambda model, x: model(x).square().mean().reshape(1))


@pytest.mark.parametrize("momentum", [0.0, 0.3])
def test_modes_change_between_steps(momentum):
    def between(model, k):
        model.train(k % 2 == 0)

    follow(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=momentum)), between=between, steps=4)


@pytest.mark.parametrize("sizes", [(0, 6), (4, 0), (0,)])
def test_a_parameter_without_elements_that_the_step_reads_is_lent_too(sizes):
    """MobileBERT joins its embedding's rows with a weight of no columns where both widths are one."""
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.empty = nn.Linear(6, 4), nn.Parameter(torch.empty(sizes))

        def forward(self, x):
            out = self.first(x)
            return out + (self.empty.sum() if len(sizes) == 1 else 0 * torch.cat([self.first.weight, self.empty], 0 if sizes[0] == 0 else 1).sum())

    torch.manual_seed(0)
    model, x = Joined().double(), torch.randn(3, 6, dtype=torch.float64)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, x, engine="native", effort=0.1)
    for _ in range(2):
        its.zero_grad()
        loss = other(x).square().mean()
        loss.backward()
        its.step()
        torch.testing.assert_close(step(x), loss.detach())
    torch.testing.assert_close(model.first.weight, other.first.weight)
