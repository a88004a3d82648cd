"""Modules that convert themselves in the forward pass: what changes nothing is planned, what converts is refused by name."""

import pytest
from torch_models import eager_step, torch, twin

import lowtide

nn, F = torch.nn, torch.nn.functional


class Converts(nn.Module):
    """A layer with a part that is converted before it is used."""

    def __init__(self, part, convert):
        super().__init__()
        self.body, self.part, self.head, self.convert = nn.Linear(6, 8), part, nn.Linear(8, 3), convert

    def forward(self, x):
        hidden = self.body(x)
        self.part = self.convert(self.part, hidden)
        return self.head(self.part(hidden))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch[0]).float(), batch[1])


PLANNED = {
    "to the type of x": (lambda: nn.Linear(8, 8), lambda m, x: m.to(x.dtype)),
    "to where x is": (lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), lambda m, x: m.to(x.device)),
    "to floats": (lambda: nn.LayerNorm(8), lambda m, x: m.float()),
    "as another tensor is": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh()), lambda m, x: m.to(x)),
    "by two words": (lambda: nn.RMSNorm(8), lambda m, x: m.to(device=x.device, dtype=torch.float32)),
}


@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("kind", PLANNED)
def test_a_conversion_that_changes_nothing_is_planned(kind, engine):
    make, convert = PLANNED[kind]
    torch.manual_seed(0)
    model = Converts(make(), convert)
    batch = (torch.randn(4, 6), torch.tensor([0, 1, 2, 0]))
    other, mine, its = twin(model, lambda ps: torch.optim.SGD(ps, lr=0.1))
    held = dict(model.named_parameters())
    step = lowtide.compile_step(model, loss_fn, mine, batch, engine=engine, effort=0.1)
    for _ in range(2):
        torch.testing.assert_close(step(batch), eager_step(other, loss_fn, its, batch), rtol=1e-5 if engine == "native" else 0, atol=0)
    assert all(held[name] is p for name, p in model.named_parameters())
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5 if engine == "native" else 0, atol=1e-6 if engine == "native" else 0)


@pytest.mark.parametrize("convert", [lambda m, x: m.double(), lambda m, x: m.to(torch.bfloat16), lambda m, x: m.half()], ids=["f64", "bf16", "f16"])
def test_a_conversion_is_refused_by_name_and_leaves_the_model_alone(convert):
    model = Converts(nn.Linear(8, 8), convert)
    batch = (torch.randn(4, 6), torch.tensor([0, 1, 2, 0]))
    with pytest.raises(lowtide.Unsupported, match="the forward pass converts Linear's 'weight' to another type or device.*before the step is made"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), batch, effort=0.1)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
