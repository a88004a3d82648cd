"""Steps with torch.linalg.lstsq and its gradient are eager mode's, bit for bit where eager mode has the same bits twice."""

import copy

import pytest

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402

nn = torch.nn


class Fit(nn.Module):
    """Fits the targets by features that are learnt."""

    def __init__(self, solve, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.features, self.targets, self.solve = nn.Linear(6, 4, dtype=dtype), nn.Linear(6, 2, dtype=dtype), solve

    def forward(self, x):
        return self.solve(self.features(x), self.targets(x))


def lstsq(a, b, **options):
    return torch.linalg.lstsq(a, b, **options)


def gels(a, b):
    return torch.linalg.lstsq(a, b, driver="gels")


KINDS = {  # the second: whether eager mode has the same bits twice
    "tall": (lambda a, b: lstsq(a, b).solution, False), "many": (lambda a, b: lstsq(a.view(3, 6, 4), b.view(3, 6, 2)).solution, False),
    "rank": (lambda a, b: lstsq(a, b, rcond=1e-6).solution * lstsq(a, b).rank, False), "gels": (lambda a, b: gels(a, b).solution, True),
    "wide": (lambda a, b: gels(a[:3], b[:3]).solution, True), "square": (lambda a, b: gels(a[:4], b[:4]).solution, True),
    "a row": (lambda a, b: gels(a.view(3, 6, 4), b[:, 0].reshape(3, 6)).solution, True), "residuals": (lambda a, b: gels(a, b).residuals, True),
    "transposed": (lambda a, b: gels(a[:4].t(), b[:4]).solution, True), "residual": (lambda a, b: a @ gels(a, b).solution - b, True),
}


@pytest.mark.parametrize("kind, dtype", [*((kind, torch.float32) for kind in KINDS), ("many", torch.float64), ("residuals", torch.float64)])
def test_three_steps_are_eager_modes(kind, dtype):
    solve, exact = KINDS[kind]

    def same(a, b):
        return torch.equal(a, b) if exact else torch.allclose(a, b, rtol=1e-3, atol=1e-5)

    model = Fit(solve, dtype)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.01) for m in (model, other))
    batches = [torch.randn(18, 6, dtype=dtype, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, batches[0], effort=0.1)
    assert ("equal bits" in step.rehearsal) == exact
    for batch in batches:
        its.zero_grad()
        wanted = other(batch).square().mean()
        wanted.backward()
        its.step()
        assert same(step(batch), wanted.detach())
    assert all(same(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))
    assert step.memory.beside == 0 or not step.addresses


def test_drivers_whose_results_have_no_size_of_their_own_are_refused_with_a_way_round():
    model = Fit(lambda a, b: lstsq(a, b, driver="gelsd").solution)
    with pytest.raises(lowtide.Unsupported, match="driver='gelsd' gives residuals whose size depends on contents; by 'gelsy' or 'gels' it is planned"):
        lowtide.plan(model, lambda m, x: m(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(18, 6))
