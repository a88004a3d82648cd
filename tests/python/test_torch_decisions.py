"""Decisions on contents: those that only raise are checked in every step, those that parameters and buffers decide are part of what a
plan holds for, and those that the batch decides are refused."""

import copy

import pytest
from torch_models import differences, torch

import lowtide
from lowtide.pytorch import decisions, trace

nn, F = torch.nn, torch.nn.functional
FAST = {"effort": 0.1, "cache": False}


def twins(model):
    other = copy.deepcopy(model)
    return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), other, torch.optim.SGD(other.parameters(), 0.1, momentum=0.9)


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 4)


def numbers(seed, count=5):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def raised(run):
    with pytest.raises(Exception) as found:  # noqa: PT011: which one is compared
        run()
    return found.value


# ---- checks

class Mine(Exception):
    def __init__(self, what, where):
        super().__init__(f"{what} at {where}")


def asserts(m, b):
    y = m(b)
    assert (b < 100).all(), "numbers are below 100"
    return y.square().mean()


def labels(m, b):
    y = m(b)
    if b.min() < -100 or b.max() >= 100:
        raise IndexError(f"labels are {tuple(b.shape)}", 100)
    return y.square().mean()


def numbers_read(m, b):
    if b.abs().max().item() > 100:
        raise ValueError(f"{b.abs().max().item():.2f} is above 100")
    return m(b).square().mean()


def in_every_layer(m, b):
    for _ in range(12):
        b = m(b)
        if torch.isnan(b).any() or not torch.isfinite(b).all():
            raise FloatingPointError("a layer gives no numbers")
    return b.square().mean()


def of_a_class(m, b):
    if (b.abs() > 100).any():
        raise Mine("wrong", "here")
    return m(b).square().mean()


def by_torch(m, b):
    torch._assert((b.abs() < 100).all(), "as torch asserts it")
    return m(b).square().mean()


def compared(m, b):
    if torch.equal(b, torch.full_like(b, 1e3)) or torch.allclose(b, torch.full_like(b, float("nan")), equal_nan=True):
        raise RuntimeError("all the same")
    return m(b).square().mean()


def variances(m, b):
    return F.gaussian_nll_loss(m(b), b, 100 - b)


class Crf(nn.Module):
    """As CRF layers check their masks: through values that short circuits leave behind."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        first = (x[0] < 100).all()
        batch_first = False
        no_empty = not batch_first and first
        no_empty_bf = batch_first and first
        if not no_empty and not no_empty_bf:
            raise ValueError("mask of the first timestep must all be on")
        return self.l(x)


CHECKS = {f.__name__: f for f in (asserts, labels, numbers_read, in_every_layer, of_a_class, by_torch, compared, variances)}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_raises_what_eager_mode_raises_and_nothing_changes(name):
    loss_fn = CHECKS[name]
    model, mine, other, its = twins(linear())
    step = lowtide.compile_step(model, loss_fn, mine, numbers(0), **FAST)
    for seed in (1, 2):
        its.zero_grad()
        expected = loss_fn(other, numbers(seed))
        expected.backward()
        its.step()
        assert torch.equal(step(numbers(seed)), expected.detach())
    assert differences(model, mine, other, its) == []
    bad = torch.full((5, 4), float("nan") if name == "in_every_layer" else 1e3)
    wanted, found = raised(lambda: loss_fn(other, bad)), raised(lambda: step(bad))
    assert type(found) is type(wanted)
    if name not in ("numbers_read", "asserts"):  # the words have a number of the batch; pytest's own say what is compared
        assert found.args == wanted.args
    assert differences(model, mine, other, its) == []
    assert any("the model is as before the step" in note for note in found.__notes__)
    assert torch.equal(step(numbers(3)), loss_fn(other, numbers(3)).detach()), "the next step runs"


def test_a_check_in_a_module_of_somebody_elses_and_through_short_circuits():
    model, mine, other, its = twins(Crf())
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), mine, numbers(0), **FAST)
    assert torch.equal(step(numbers(1)), other(numbers(1)).square().mean().detach())
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="mask of the first timestep must all be on"):
        step(numbers(1) + 1000)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))


def test_a_check_in_each_of_many_layers_is_tried_once(monkeypatch):
    runs, made_graph = [], trace.made_graph

    def counted(*args, **kwargs):
        runs.append(1)
        return made_graph(*args, **kwargs)

    monkeypatch.setattr(trace, "made_graph", counted)
    model, mine, _, _ = twins(linear())
    lowtide.plan(model, in_every_layer, mine, numbers(0), **FAST)
    assert len(runs) == 3, "both conditions, then the step"


def test_a_check_behind_a_written_buffer_puts_it_back():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total += x.sum(0)
            if (self.total > 100).any():
                raise OverflowError("the total is above 100")
            return self.l(x)

    model, mine, other, its = twins(Counting())
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), mine, numbers(0), **FAST)
    step(numbers(1))
    total = model.total.clone()
    with pytest.raises(OverflowError, match="above 100"):
        step(numbers(1) + 1000)
    assert torch.equal(model.total, total)


@pytest.mark.parametrize("kind", ["Normal", "Categorical", "Bernoulli"])
def test_arguments_of_distributions_are_checked_as_their_own_kind_of_error(kind):
    def loss_fn(m, b):
        y = m(b)
        made = {"Normal": lambda: torch.distributions.Normal(y, y.exp(), validate_args=True), "Categorical": lambda: torch.distributions.Categorical(y.softmax(-1), validate_args=True),
                "Bernoulli": lambda: torch.distributions.Bernoulli(y.sigmoid(), validate_args=True)}[kind]()
        return -made.log_prob({"Normal": b, "Categorical": b.argmax(-1), "Bernoulli": (b > 0).float()}[kind]).mean()

    model, mine, other, its = twins(linear())
    step = lowtide.compile_step(model, loss_fn, mine, numbers(0), **FAST)
    assert torch.equal(step(numbers(1)), loss_fn(other, numbers(1)).detach())
    bad = numbers(1) * float("nan")
    assert type(raised(lambda: step(bad))) is type(raised(lambda: loss_fn(other, bad))) is ValueError


def test_an_exception_that_comes_whatever_is_answered_is_a_refusal_of_its_own():
    def loss_fn(m, b):
        y = m(b)
        if b.sum() > 0:
            raise ValueError("one way")
        raise KeyError("the other way")

    model, mine, _, _ = twins(linear())
    with pytest.raises(lowtide.Unsupported, match="one way|other way"):
        lowtide.plan(model, loss_fn, mine, numbers(0), **FAST)


def test_checks_in_a_checkpoint_run_in_both_of_its_runs():
    def loss_fn(m, b):
        def part(x):
            y = m(x)
            if (y.abs() > 1e4).any():
                raise ArithmeticError("too large")
            return y.tanh()

        return torch.utils.checkpoint.checkpoint(part, m(b), use_reentrant=False).square().mean()

    model, mine, other, its = twins(linear())
    step = lowtide.compile_step(model, loss_fn, mine, numbers(0), **FAST)
    assert torch.equal(step(numbers(1)), loss_fn(other, numbers(1)).detach())
    with pytest.raises(ArithmeticError, match="too large"):
        step(numbers(1) * 1e6)


# ---- branches on what is there before the step

class ActNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.register_buffer("initialised", torch.tensor(False))

    def forward(self, x):
        if not self.initialised:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.scale.copy_(1 / (x.std(0) + 1e-6))
                self.initialised.fill_(True)
        return (x + self.shift) * self.scale


class EverySecond(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.l(x)
        self.steps += 1
        if self.steps % 2 == 0:  # of the count as this step leaves it
            self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        return y - self.mean


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        first = self.num_batches_tracked.item() == 0
        self.num_batches_tracked.add_(1)
        return self.l(x) if first else self.l(x).tanh()


class LargeWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return self.l(x) if self.l.weight.norm() > 1.1 else self.l(x) * 3


class Observed(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.register_buffer("enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("low", torch.tensor(float("inf")))

    def forward(self, x):
        y = self.l(x)
        if self.enabled[0] == 1:
            self.low.copy_(y.detach().min() if torch.isinf(self.low) else torch.minimum(self.low, y.detach().min()))
        return y


@pytest.mark.parametrize(("kind", "plans"), [(ActNorm, 2), (EverySecond, 2), (First, 2), (LargeWeights, None), (Observed, 2)])
def test_a_branch_on_what_is_there_before_the_step_has_a_plan_for_each_answer(kind, plans):
    torch.manual_seed(0)
    model, mine, other, its = twins(nn.Sequential(nn.Linear(4, 4), kind()))
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), mine, numbers(0), **FAST)
    for seed in range(5):
        its.zero_grad()
        expected = other(numbers(seed)).square().mean()
        expected.backward()
        its.step()
        assert torch.equal(step(numbers(seed)), expected.detach()), seed
        assert differences(model, mine, other, its) == [], seed
    assert plans is None or len(step._ready) == plans


def test_a_flag_that_goes_back_takes_the_plan_from_before():
    model, mine, other, its = twins(Observed())
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), mine, numbers(0), **FAST)
    for seed, enabled in enumerate((1, 1, 0, 1, 0)):
        for m in (model, other):
            m.enabled.fill_(enabled)
        its.zero_grad()
        other(numbers(seed)).square().mean().backward()
        its.step()
        step(numbers(seed))
        assert differences(model, mine, other, its) == []
    assert len(step._ready) == 3, "first, enabled, not"


def test_a_flag_that_is_a_plain_tensor_or_closed_over_is_read_before_each_step():
    closed = torch.tensor(3)

    class Flagged(nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.flag = nn.Linear(4, 4), torch.tensor(False)

        def forward(self, x):
            return self.l(x) * 2 if self.flag else self.l(x)

    def loss_fn(m, b):
        return m(b).mean() if closed > 2 else m(b).square().mean()

    model, mine, other, its = twins(Flagged())
    step = lowtide.compile_step(model, loss_fn, mine, numbers(0), **FAST)
    for seed, (flag, value) in enumerate([(False, 3), (True, 3), (True, 1), (False, 3), (False, 1)]):
        model.flag.fill_(flag)
        other.flag.fill_(flag)
        closed.fill_(value)
        its.zero_grad()
        loss_fn(other, numbers(seed)).backward()
        its.step()
        step(numbers(seed))
        assert differences(model, mine, other, its) == []
    assert len(step._ready) == 4


def test_what_was_planned_leaves_a_flag_alone():
    model, mine, _, _ = twins(ActNorm())
    lowtide.plan(model, lambda m, b: m(b).square().mean(), mine, numbers(0), **FAST)
    assert not model.initialised
    assert torch.equal(model.scale, torch.ones(4))


# ---- branches that the batch decides

@pytest.mark.parametrize("loss_fn", [
    lambda m, b: m(b).mean() if b.sum() > 0 else m(b).square().mean(),
    lambda m, b: m(b).mean() if b.sum().item() > 0 else m(b).square().mean(),
    lambda m, b: m(b).mean() if torch.equal(b, b * 2) else m(b).square().mean()])
def test_a_branch_on_the_batch_is_refused_with_its_line_and_the_way_round(loss_fn):
    model, mine, _, _ = twins(linear())
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_decisions\.py:\d+: .*both answers go on; torch.where"):
        lowtide.plan(model, loss_fn, mine, numbers(0), **FAST)


def test_a_check_whose_exception_is_caught_is_a_branch():
    def loss_fn(m, b):
        try:
            asserts(m, b)
        except AssertionError:
            return m(b).mean()
        return m(b).square().mean()

    model, mine, _, _ = twins(linear())
    with pytest.raises(lowtide.Unsupported, match=r"assert \(b < 100\).all\(\).*both answers go on"):
        lowtide.plan(model, loss_fn, mine, numbers(0), **FAST)


def test_a_flag_that_the_batch_has_written_is_no_more_known_before_the_step():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.register_buffer("low", torch.zeros(()))

        def forward(self, x):
            self.low.copy_(x.min())
            return self.l(x) if self.low > 0 else self.l(x) * 2

    model, mine, _, _ = twins(Late())
    with pytest.raises(lowtide.Unsupported, match="both answers go on"):
        lowtide.plan(model, lambda m, b: m(b).square().mean(), mine, numbers(0), **FAST)


def test_python_asks_tensors_as_ever_when_a_trace_has_ended():
    before = torch.Tensor.__bool__, torch.SymBool.__bool__, torch.SymFloat.__format__
    model, mine, _, _ = twins(linear())
    with pytest.raises(lowtide.Unsupported):
        lowtide.plan(model, lambda m, b: m(b).mean() if b.sum() > 0 else m(b).sum(), mine, numbers(0), **FAST)
    lowtide.plan(model, asserts, mine, numbers(0), **FAST)
    assert (torch.Tensor.__bool__, torch.SymBool.__bool__, torch.SymFloat.__format__) == before


def test_an_exception_is_remembered_by_its_kind_and_its_words():
    key = decisions.remembered(Mine("wrong", "here"))
    with pytest.raises(Mine, match="wrong at here"):
        torch.ops.lowtide.demand(torch.tensor(False), key)
    torch.ops.lowtide.demand(torch.tensor(True), key)
    assert decisions.remembered(Mine("wrong", "here")) == key != decisions.remembered(ValueError("wrong at here"))
