"""Instance norms with running statistics: PyTorch makes them of batch norms on repeated statistics, and takes the mean of what these write."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import lowtide  # noqa: E402


class Twice(nn.Module):
    """One norm that runs twice: the second adds to what the first has written."""

    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm1d(6, track_running_stats=True)

    def forward(self, x):
        return self.norm(x.tanh() + self.norm(x))


class Checkpointed(Twice):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


class Read(Twice):
    """The statistics are read behind the norm."""

    def forward(self, x):
        return self.norm(x) * self.norm.running_var[:, None]


NORMS = {
    "1d": lambda: nn.InstanceNorm1d(6, track_running_stats=True, affine=True),
    "2d": lambda: nn.Sequential(nn.Unflatten(2, (4, 2)), nn.InstanceNorm2d(6, track_running_stats=True), nn.Flatten(2)),
    "3d": lambda: nn.Sequential(nn.Unflatten(2, (2, 2, 2)), nn.InstanceNorm3d(6, track_running_stats=True, affine=True), nn.Flatten(2)),
    "momentum": lambda: nn.InstanceNorm1d(6, track_running_stats=True, momentum=0.7),
    "none": lambda: nn.InstanceNorm1d(6, track_running_stats=True, momentum=None),
    "twice": Twice, "checkpointed": Checkpointed, "read": Read,
}


def loss_fn(model, x):
    return model(x).square().mean()


def steps(name, model, other, step, its, batches):
    for x in batches:
        found = step(x)
        its.zero_grad()
        wanted = loss_fn(other, x)
        wanted.backward()
        its.step()
        assert torch.equal(found, wanted.detach()), name
        for key, value in other.state_dict().items():
            assert torch.equal(model.state_dict()[key], value), (name, key)


def made(name, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(3, 6, 1), NORMS[name](), nn.Flatten(), nn.Linear(48, 4))
    other, batches = copy.deepcopy(model), [torch.randn(3, 3, 8) for _ in range(3)]
    mine, its = (torch.optim.AdamW(m.parameters(), lr=0.1) for m in (model, other))
    before = copy.deepcopy(model.state_dict())
    step = lowtide.compile_step(model, loss_fn, mine, batches[0], effort=0.2, **options)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    return model, other, step, its, batches


@pytest.mark.parametrize("name", NORMS)
def test_steps_are_eager_modes(name):
    model, other, step, its, batches = made(name)
    assert any("running_mean" in key for key in model.state_dict())
    steps(name, model, other, step, its, batches)
    for each in (model, other):
        each.eval()
    steps(name, model, other, step, its, batches)


def test_a_tight_budget_and_native():
    free = made("2d")[2].plan
    model, other, step, its, batches = made("2d", budget="floor")
    assert step.plan.arena_bytes <= free.arena_bytes
    steps("2d", model, other, step, its, batches)
    model, other, step, its, batches = made("1d", engine="auto")
    assert step.engine == "torch" and "statistics" in step.why
    steps("1d", model, other, step, its, batches)


def test_a_failing_step_leaves_the_statistics_as_they_were():
    model, _, step, _, batches = made("1d", check_finite=True)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(FloatingPointError):
        step(batches[0] * float("inf"))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
