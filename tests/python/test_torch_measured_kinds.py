"""Ops that look at what they get, while each kind of them is measured: a step is planned, and every result is eager mode's bit for bit."""

import copy

import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch import backend, measure, planning, true_operands
from lowtide.pytorch.calls import Storage, Tensor
from lowtide.pytorch.units import Unit

nn, F = torch.nn, torch.nn.functional
FAST = {"effort": 0.1, "cache": False}


class Part(nn.Module):
    """A parameter w, and x = a linear map of the batch."""

    def __init__(self, formula):
        super().__init__()
        self.w, self.linear, self.formula = nn.Parameter(torch.eye(4) + 0.1 * torch.randn(4, 4)), nn.Linear(4, 4), formula

    def forward(self, batch):
        return self.formula(self.w, self.linear(batch))


def definite(w):
    return w @ w.t() + torch.eye(4)


FORMULAS = {
    "lu_solve of a transpose": lambda w, x: torch.linalg.lu_solve(*torch.linalg.lu_factor(w), x.t(), adjoint=True).square().mean(),
    "lu_unpack": lambda w, x: sum(t.square().mean() for t in torch.lu_unpack(*torch.linalg.lu_factor(w @ x.t() + 3 * torch.eye(4)))[1:]),
    "gradient of a batch of determinants": lambda w, x: torch.linalg.det(torch.stack([w, w.t()])).sum() + x.mean(),
    "gradient of tensorsolve": lambda w, x: torch.linalg.tensorsolve(w.reshape(2, 2, 2, 2), x[:2, :2]).square().mean(),
    "negative powers": lambda w, x: (x @ torch.linalg.matrix_power(w, -2)).square().mean(),
    "a normal distribution": lambda w, x: -torch.distributions.MultivariateNormal(
        x[0], scale_tril=torch.linalg.cholesky(definite(w))).log_prob(x).mean(),
    "cholesky_inverse": lambda w, x: (torch.cholesky_inverse(torch.linalg.cholesky(definite(w))) @ x).square().mean(),
    "one_hot": lambda w, x: (F.one_hot(x.argmax(1), 4).float() @ w - x).square().mean(),
    "searchsorted": lambda w, x: w.flatten()[torch.searchsorted(torch.linspace(-2, 2, 8), x.detach())].square().mean() + x.mean(),
    "multinomial": lambda w, x: w.flatten()[torch.multinomial(x.softmax(1), 2, replacement=True)].square().mean() + x.mean(),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_step_with_it_is_eager_modes(name):
    torch.manual_seed(0)
    model = Part(FORMULAS[name])
    other, batch = copy.deepcopy(model), torch.randn(4, 4)
    optimizer, others = (torch.optim.SGD(m.parameters(), 0.1) for m in (model, other))
    before = torch.get_rng_state()
    step = lowtide.compile_step(model, lambda m, b: m(b), optimizer, batch, **FAST)
    assert torch.equal(torch.get_rng_state(), before)
    for seed in (1, 2):
        torch.manual_seed(seed)
        loss = step(batch)
        torch.manual_seed(seed)
        others.zero_grad()
        expected = other(batch)
        expected.backward()
        others.step()
        assert torch.equal(loss, expected.detach())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert step.memory.beside == 0  # the kind was measured, its allocations are planned


lib = torch.library.Library("measured_kinds", "DEF")
lib.define("positive(Tensor x) -> Tensor")


def _positive(x):
    if (x <= 1).any():
        raise ValueError("every number is to be above 1")
    return x.clone()


lib.impl("positive", _positive, "CPU")
torch.library.register_fake("measured_kinds::positive", torch.empty_like, lib=lib)


class Checked(nn.Module):
    """Sixteen numbers go through an op that takes none up to 1, behind a batch norm and a dropout, which write and draw."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear, self.drop = nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x, more):
        y = self.drop(self.norm(self.linear(x)))
        return (torch.ops.measured_kinds.positive(y.detach().square() + 1 + more) * y).mean()


def checked_step(more):
    torch.manual_seed(0)
    model = Checked()
    step = lowtide.compile_step(model, lambda m, b: m(*b), torch.optim.SGD(model.parameters(), 0.1), (torch.randn(4, 4), torch.tensor(more)), **FAST)
    return model, step


def test_what_is_measured_on_true_values_changes_none_of_the_users():
    torch.manual_seed(0)
    fresh = Checked()
    model, step = checked_step(1.0)
    assert all(torch.equal(a, b) for a, b in zip(fresh.state_dict().values(), model.state_dict().values(), strict=True))
    step((torch.randn(4, 4), torch.tensor(1.0)))
    assert step.memory.beside == 0


def test_what_no_operands_at_hand_can_run_is_estimated_and_raises_its_own_error_in_the_step():
    model, step = checked_step(-3.0)  # a sample batch that the op refuses in eager mode, too
    batch = torch.randn(4, 4)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="above 1"):
        step((batch, torch.tensor(-3.0)))
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    torch.manual_seed(3)
    loss = step((batch, torch.tensor(1.0)))
    torch.manual_seed(3)
    model.load_state_dict(before)
    assert torch.equal(loss, model(batch, torch.tensor(1.0)).detach())
    assert step.memory.beside > 0  # what was not measured lies beside the arena, and is counted


def test_the_backend_measures_such_kinds_without_the_users_values():
    torch.manual_seed(0)
    w = torch.randn(4, 4, requires_grad=True)

    def f(x):
        return torch.linalg.slogdet(w @ w.t() + torch.eye(4))[1] + (w @ x).sum()

    x = torch.randn(4, 4)
    expected, = torch.autograd.grad(f(x), w)
    found, = torch.autograd.grad(torch.compile(f, backend=backend.lowtide, options={"cache": False, "effort": 0.1})(x), w)
    assert torch.equal(found, expected)


def test_lowtide_measure_keeps_the_times_of_kinds_that_need_true_values(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    torch.manual_seed(0)
    model, batch = Part(FORMULAS["gradient of a batch of determinants"]), torch.randn(4, 4)
    step = lowtide.compile_step(model, lambda m, b: m(b), torch.optim.SGD(model.parameters(), 0.1), batch, effort=0.1)
    timed = lowtide.measure(step, rounds=1)
    solves = [t for t in timed if "lu_solve" in t.name]
    assert solves and all(t.now == t.before > 0 for t in solves)


def test_a_pass_runs_what_a_target_depends_on_and_nothing_else():
    """Five units: 1 makes 10 of 1; 2 makes 20 of 2; 3 writes 1 in place; 4 makes 30 of 10 and 1; the target reads 30 and 1."""
    units = [Unit(1, [], "forward", reads=[1], makes=[10]), Unit(2, [], "forward", reads=[2], makes=[20]),
             Unit(3, [], "forward", reads=[1], updates=[1]), Unit(4, [], "forward", reads=[10, 1], makes=[30]),
             Unit(5, [], "forward", reads=[30, 1], makes=[40])]
    ran, first = [], {1: torch.tensor(1.0), 2: torch.tensor(2.0)}

    def run(unit, given):
        ran.append(unit.number)
        if unit.number == 3:
            given[0].add_(10)
            return []
        return [sum(given) + unit.number]

    for unit, operands in true_operands.stopping_at(units, {5}, first.__getitem__, run):
        assert unit.number == 5
        assert [t.item() for t in operands()] == [2 + 11 + 4, 11]
    assert ran == [1, 3, 4]
    assert first[1].item() == 1  # the user's own


@pytest.mark.parametrize("refusal", [MemoryError("no"), lowtide.Unsupported("no"), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_an_error_that_no_operands_would_mend_comes_out_as_it_is(refusal, monkeypatch):
    def fails(*_):
        raise refusal

    monkeypatch.setattr(measure, "_run", fails)
    with pytest.raises(type(refusal), match="no|allocate"):
        checked_step(1.0)


def test_an_estimate_knows_bytes_and_types_of_its_results():
    program = planning.Program()
    program.storages = [Storage(0, 0, 64), Storage(1, 1, 4096)]
    program.tensors = [Tensor(0, 0, (4, 4), (4, 1), torch.float32), Tensor(1, 1, (32, 32), (1, 32), torch.float32)]
    found = measure.estimated(program, Unit(0, [], "forward", reads=[0], makes=[1]))
    assert found.result_bytes == [4096]
    assert found.types == [["float32", [32, 32], [1, 32], "cpu"]]
    assert found.first == []
    assert found.seconds > true_operands.LEAST_SECONDS


def test_what_record_function_marks_runs_as_it_is():
    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            with torch.profiler.record_function("outer"), torch.autograd.profiler.record_function("inner"):
                y = self.l(x)
            with torch.profiler.record_function("loss"):
                return y.square().mean()

    torch.manual_seed(0)
    model = Marked()
    other, batch = copy.deepcopy(model), torch.randn(4, 4)
    step = lowtide.compile_step(model, lambda m, b: m(b), torch.optim.SGD(model.parameters(), 0.1), batch, **FAST)
    expected = other(batch)
    assert torch.equal(step(batch), expected.detach())
    assert "record_function" not in step.source


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.n = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return torch.relu(self.n(self.l(x)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", ["script", "trace", "all of it"])
def test_parts_that_are_torchscript_run(make):
    torch.manual_seed(0)
    part, batch = Scripted(), torch.randn(4, 4)

    def model_of(part):
        script = torch.jit.trace(part, batch) if make == "trace" else torch.jit.script(part)
        return script if make == "all of it" else nn.Sequential(script, nn.Linear(4, 2))

    torch.manual_seed(1)
    model = model_of(copy.deepcopy(part))
    torch.manual_seed(1)
    other = model_of(copy.deepcopy(part))
    optimizer, others = (torch.optim.AdamW(m.parameters()) for m in (model, other))
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), optimizer, batch, **FAST)
    for _ in range(2):
        others.zero_grad()
        expected = other(batch).square().mean()
        expected.backward()
        others.step()
        assert torch.equal(step(batch), expected.detach())
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
