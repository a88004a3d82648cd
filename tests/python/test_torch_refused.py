"""What no step can hold for is refused in one line that names it and a way round, and nothing has changed."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import lowtide  # noqa: E402

OWN = torch.Generator().manual_seed(3)
DRAWS = {
    "randn": lambda x: x + torch.randn(x.shape, generator=OWN),
    "in place": lambda x: x + torch.empty_like(x).uniform_(generator=OWN),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5), generator=OWN),
    "randperm": lambda x: x[torch.randperm(x.shape[0], generator=OWN)],
    "multinomial": lambda x: x[torch.multinomial(torch.ones(6), 6, generator=OWN)],
    "trunc_normal_": lambda x: x + nn.init.trunc_normal_(torch.empty(6, 8), generator=OWN),
}


def linear():
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(6, 8)


@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_its_own(name, engine):
    model, optimizer, x = linear()
    before, stream = OWN.get_state(), torch.get_rng_state()
    with pytest.raises(lowtide.Unsupported, match="torch.Generator") as refused:
        lowtide.compile_step(model, lambda m, b: m(DRAWS[name](b)).mean(), optimizer, x, engine=engine)
    assert "\n" not in str(refused.value) and "in the batch" in str(refused.value)
    assert torch.equal(OWN.get_state(), before) and torch.equal(torch.get_rng_state(), stream)


def test_the_default_generator_by_its_name_is_eager_modes():
    model, optimizer, x = linear()

    def loss_fn(m, b):
        return m(b + torch.randn(b.shape, generator=torch.default_generator)).square().mean()
    step = lowtide.compile_step(model, loss_fn, optimizer, x, effort=0.2)
    torch.manual_seed(5)
    wanted = loss_fn(model, x).detach()
    torch.manual_seed(5)
    assert torch.equal(step(x), wanted)


class Taught(nn.Module):
    """A lazy teacher that is no part of the model."""

    def __init__(self):
        super().__init__()
        self.student, self.teachers = nn.Linear(8, 4), [nn.LazyConv1d(4, 1)]

    def forward(self, x):
        return self.student(x) + self.teachers[0](x[..., None])[..., 0]


LAZY = {
    "a layer": (lambda: nn.Sequential(nn.LazyLinear(4)), "'0.weight'"),
    "a norm": (lambda: nn.Sequential(nn.Linear(8, 4), nn.LazyBatchNorm1d()), "'1.weight'"),
    "a teacher": (Taught, "'teachers"),
}


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_module_is_to_see_a_batch_first(name):
    make, said = LAZY[name]
    model, x = make(), torch.randn(6, 8)
    for way in (lowtide.compile_step, lowtide.plan):
        for engine in ("torch", "native"):
            with pytest.raises(lowtide.Usage, match=r"run one batch through the module, model\(x\)") as refused:
                way(model, lambda m, b: m(b).mean(), torch.optim.SGD(model.parameters(), lr=0.1), x, engine=engine)
            assert said in str(refused.value) and "\n" not in str(refused.value)
    model(x)
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), x, effort=0.2)
    assert torch.isfinite(step(x))
