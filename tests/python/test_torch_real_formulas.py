"""Formulas that PyTorch computes otherwise on fake tensors: planned steps have the real ones' bits."""

import copy

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = torch.nn

from torch.utils.checkpoint import checkpoint  # noqa: E402

import lowtide  # noqa: E402


def with_zeros(y):
    return torch.where(y > 0, y, torch.zeros_like(y))


LOSS = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 1.5, 5), ignore_index=3, label_smoothing=0.05)


def again_in_the_backward_pass(y, t):
    return checkpoint(lambda z: (z.sigmoid() + 0.5).prod(1).mean() + F.cross_entropy(z, t, LOSS.weight, label_smoothing=0.2), y, use_reentrant=False)


LOSSES = {
    "prod of all": lambda y, t: torch.prod(y.flatten()[:6].sigmoid() + 0.5),
    "prod along a dimension": lambda y, t: (y.sigmoid() + 0.5).prod(1).mean(),
    "prod, kept": lambda y, t: torch.prod(y.sigmoid() + 0.5, 0, True).square().mean(),
    "prod of zeros": lambda y, t: torch.prod(with_zeros(y), dim=1).sum() + y.square().mean(),
    "prod in f64": lambda y, t: torch.prod(y.sigmoid(), 1, dtype=torch.float64).mean().float(),
    "smoothed with weights": lambda y, t: F.cross_entropy(y, t, weight=torch.linspace(0.5, 1.5, 5), label_smoothing=0.1),
    "smoothed with weights and ignored": lambda y, t: F.cross_entropy(y, t.masked_fill(t == 2, -100), weight=torch.linspace(0.5, 1.5, 5),
                                                                      label_smoothing=0.3),
    "smoothed, as a module": lambda y, t: LOSS(y, t),
    "smoothed, of places": lambda y, t: F.cross_entropy(y.view(3, 8, 5).mT, t.view(3, 8), LOSS.weight, ignore_index=1, label_smoothing=0.2),
    "smoothed, all said": lambda y, t: F.cross_entropy(y, target=t, weight=LOSS.weight, size_average=True, label_smoothing=0.2),
    "in a checkpoint, smoothed": again_in_the_backward_pass,
    "smoothed alone": lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_bits_are_eager_modes(name):
    torch.manual_seed(0)
    model, batches = nn.Linear(7, 5), [(torch.randn(24, 7), torch.randint(0, 5, (24,))) for _ in range(8)]
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, other))

    def loss_fn(m, b):
        return LOSSES[name](m(b[0]), b[1])

    step = lowtide.compile_step(model, loss_fn, mine, batches[0], effort=0.2)
    ops = {str(call.target) for unit in step.planned.captured.units for call in unit.calls}
    assert ("lowtide.counted_weights.default" in ops) == ("smoothed" in name and name != "smoothed alone")
    for batch in batches:
        found = step(batch)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        assert torch.equal(found, wanted.detach())
        assert all(map(torch.equal, model.parameters(), other.parameters()))


@pytest.mark.parametrize("split", [None, "samples:2", "samples:3", "auto"])
def test_experts_take_eager_modes_kernels(split):
    """torch._grouped_mm of f32: libraries that are refused it while a step is traced take another way, with other bits."""
    torch.manual_seed(0)

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.weights = nn.Linear(16, 3), nn.Parameter(torch.randn(3, 16, 16) * 0.1)

        def forward(self, x):
            chosen = self.gate(x).argmax(-1)
            order = chosen.argsort(stable=True)
            ends = (chosen[:, None] == torch.arange(3)).sum(0).cumsum(0).to(torch.int32)
            return torch._grouped_mm(x[order], self.weights, offs=ends).square().mean() + self.gate(x).square().mean()

    model, batch = Experts(), torch.randn(24, 16)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, other))
    step = lowtide.compile_step(model, lambda m, b: m(b), mine, batch, effort=0.2, split=split)
    same = torch.equal if split is None else torch.allclose
    for _ in range(2):
        found = step(batch)
        its.zero_grad()
        wanted = other(batch)
        wanted.backward()
        its.step()
        assert same(found, wanted.detach())
        assert all(map(same, model.parameters(), other.parameters()))
