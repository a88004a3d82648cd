"""Optimizers whose step() runs once for all parameters: of every kind, bit for bit as in eager mode; and what is refused."""

import copy
import random

import pytest
from test_torch_optimizers import Small, Stepping, check, loss_fn, same, two_groups
from torch_models import torch

import lowtide
from lowtide.pytorch import whole_rehearsal
from lowtide.pytorch.whole_step import WholeUpdates

nn, F = torch.nn, torch.nn.functional
o = torch.optim


class Given(o.Optimizer):
    """`update(group, parameters with a gradient)` is of each kind below."""

    def __init__(self, params, lr=0.05, **more):
        super().__init__(params, {"lr": lr, **more})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            self.update(group, [p for p in group["params"] if p.grad is not None])


class Counting(Given):
    """Bias corrections by a count in the group."""

    def update(self, group, given):
        group["k"] = group.get("k", 0) + 1
        for p in given:
            m = self.state[p].setdefault("m", torch.zeros_like(p))
            m.lerp_(p.grad, 0.1)
            p.sub_(m, alpha=group["lr"] / (1 - 0.9 ** group["k"]))


class ByGlobalNorm(Given):
    """One norm of all gradients, as Lamb's and Adan's clipping."""

    def step(self, closure=None):
        every = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        self.scale = 1 / (torch.stack([g.norm() for g in every]).norm() + 1)
        super().step()

    def update(self, group, given):
        for p in given:
            p.sub_(p.grad * self.scale, alpha=group["lr"])


class Distance(Given):
    """The rate grows with the way from where it began, which all parameters go together (Prodigy, D-Adaptation)."""

    def update(self, group, given):
        far = 0.0
        for p in given:
            first = self.state[p].setdefault("first", p.detach().clone())
            far += (p - first).norm().item()
        group["d"] = max(group.get("d", 1e-3), far)
        for p in given:
            p.sub_(p.grad, alpha=group["d"])


class Noisy(Given):
    """Langevin noise: of PyTorch's stream, and of Python's."""

    def update(self, group, given):
        for p in given:
            p.sub_(p.grad + 0.1 * torch.randn_like(p), alpha=group["lr"] * (1 + random.random()))


class Kronecker(Given):
    """Two factors for each matrix, their roots every second step by eigenvalues (Shampoo, SOAP)."""

    def update(self, group, given):
        self.count = getattr(self, "count", 0) + 1
        for p in given:
            if p.ndim != 2:
                p.sub_(p.grad, alpha=group["lr"])
                continue
            state = self.state[p]
            if not state:
                state["factors"] = [torch.eye(n) for n in p.shape]
            state["factors"] = [state["factors"][0] + p.grad @ p.grad.T, state["factors"][1] + p.grad.T @ p.grad]
            if self.count % 2:
                state["roots"] = [v @ torch.diag(w.clamp(min=1e-9) ** -0.25) @ v.T for w, v in map(torch.linalg.eigh, state["factors"])]
            p.sub_(state["roots"][0] @ p.grad @ state["roots"][1], alpha=group["lr"])


class ScheduleFree(Given):
    """Gradients are taken between two iterates; train() and eval() exchange them."""

    def exchange(self, training):
        for group in self.param_groups:
            if group.get("training", True) != training:
                for p in group["params"]:
                    if "z" in self.state[p]:
                        p.data.lerp_(self.state[p]["z"], 1 - 1 / 0.9 if not training else 0.1)
            group["training"] = training

    def train(self):
        self.exchange(True)

    def eval(self):
        self.exchange(False)

    def update(self, group, given):
        if not group.get("training", True):
            raise RuntimeError("call train() first")
        group["k"] = group.get("k", 0) + 1
        for p in given:
            z = self.state[p].setdefault("z", p.detach().clone())
            p.lerp_(z, 1 / group["k"])
            p.sub_(p.grad, alpha=group["lr"] * 0.1)
            z.sub_(p.grad, alpha=group["lr"])


class Around(o.Optimizer):
    """Holds another optimizer, and pulls parameters back to slow copies every second step (Lookahead)."""

    def __init__(self, inner):
        self.inner, self.slow, self.count = inner, {}, 0
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}

    param_groups = property(lambda self: self.inner.param_groups)
    state = property(lambda self: self.inner.state)

    def state_dict(self):
        return {"inner": self.inner.state_dict(), "count": self.count, "slow": list(self.slow.values())}

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and id(p) not in self.slow:
                    self.slow[id(p)] = p.detach().clone()
        self.inner.step()
        self.count += 1
        for p in [p for group in self.param_groups for p in group["params"] if id(p) in self.slow and not self.count % 2]:
            self.slow[id(p)].lerp_(p, 0.5)
            p.copy_(self.slow[id(p)])


class Remembering(Given):
    """Keeps gradients as they are, and a part of one; exchanges its tensors and those of parameters."""

    def update(self, group, given):
        self.last = getattr(self, "last", {})
        for p in given:
            if id(p) in self.last:
                p.data = p.data - group["lr"] * (p.grad - self.last[id(p)])
            self.last[id(p)] = p.grad
            self.state[p]["part"] = p.grad.view(-1)[:2]


class Recording(Given):
    """Keeps objects of its own, and what it did."""

    class Entry:
        def __init__(self):
            self.seen, self.sums = 0, []

    def update(self, group, given):
        for p in given:
            entry = self.state[p].setdefault("entry", self.Entry())
            entry.seen += 1
            entry.sums.append(p.grad.sum())
            p.sub_(p.grad * torch.stack(entry.sums).tanh().mean(), alpha=group["lr"])


KINDS = {
    "counting": Counting, "norm": ByGlobalNorm, "distance": Distance, "noisy": Noisy, "kronecker": Kronecker, "schedule-free": ScheduleFree,
    "around": lambda groups: Around(o.SGD(groups, lr=0.1, momentum=0.9)), "around two": lambda groups: Around(Around(o.Adam(groups))),
    "remembering": Remembering,
    **{what: lambda groups, what=what: Stepping(groups, what)
       for what in ("together", "numbers", "threshold", "attribute", "option", "random", "key", "later", "types")},
}


def pair(make, groups=two_groups, **options):
    torch.manual_seed(0)
    model, batch = Small(), {"x": torch.randn(7, 6), "y": torch.randint(0, 3, (7,))}
    other = copy.deepcopy(model)
    mine, its = make(groups(model)), make(groups(other))
    before = random.getstate(), torch.get_rng_state(), copy.deepcopy({k: v for k, v in vars(mine).items() if k in ("last", "slow", "count")})
    step = lowtide.compile_step(model, loss_fn, mine, batch, **options)
    after = random.getstate(), torch.get_rng_state(), {k: v for k, v in vars(mine).items() if k in ("last", "slow", "count")}
    assert before[0] == after[0] and torch.equal(before[1], after[1]) and same(before[2], after[2]) and not mine.state
    assert isinstance(step.planned.captured.updates, WholeUpdates)
    return step, model, mine, other, its, batch


def alike(found, steps=3):
    """Both from the same random state."""
    step, model, mine, other, its, batch = found
    for k in range(steps):
        torch.manual_seed(k)
        random.seed(k)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        streams = torch.get_rng_state(), random.getstate()
        torch.manual_seed(k)
        random.seed(k)
        assert torch.equal(step(batch), wanted)
        assert torch.equal(torch.get_rng_state(), streams[0]) and random.getstate() == streams[1]
        assert same(model.state_dict(), other.state_dict()), k
        assert same(mine.state_dict(), its.state_dict()), k
        assert same([v for k, v in vars(mine).items() if k in ("count", "scale")], [v for k, v in vars(its).items() if k in ("count", "scale")])


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimizer_that_takes_its_parameters_together_is_eager_modes(kind):
    found = pair(KINDS[kind])
    alike(found, steps=4)
    assert len(found[0]._ready) == 1 and all(p.grad is None for p in found[1].parameters())


def test_objects_in_the_state_are_the_optimizers_own():
    step, model, mine, other, its, batch = pair(Recording)
    for _ in range(3):
        its.zero_grad()
        loss_fn(other, batch).backward()
        its.step()
        step(batch)
        assert same(model.state_dict(), other.state_dict())
    assert all(same(mine.state[a]["entry"].sums, its.state[b]["entry"].sums) for a, b in zip(mine.state, its.state, strict=True))


def test_train_and_eval_of_a_schedule_free_optimizer_between_steps():
    found = pair(ScheduleFree)
    alike(found, 2)
    for optimizer in (found[2], found[4]):
        optimizer.eval()
    assert same(found[1].state_dict(), found[3].state_dict())
    with pytest.raises(RuntimeError, match="call train") as problem:
        found[0](found[5])
    assert "the update had begun; some parameters" in problem.value.__notes__[-1]
    found[3].load_state_dict(found[1].state_dict())  # the running statistics of the step that failed
    for optimizer in (found[2], found[4]):
        optimizer.train()
    alike(found, 2)


def test_the_gradients_that_the_user_had_are_put_back_and_those_of_others_are_not_read():
    step, model, mine, other, its, batch = found = pair(Counting)
    for p in model.parameters():
        p.grad = torch.full_like(p, 3.0)
    had = [p.grad for p in model.parameters()]
    alike(found, 2)
    assert all(p.grad is kept and bool((kept == 3).all()) for p, kept in zip(model.parameters(), had, strict=True))
    assert torch.equal(model.unused.weight, other.unused.weight)


def test_a_step_that_raises_in_the_middle_says_so():
    class Failing(Given):
        def update(self, group, given):
            for k, p in enumerate(given):
                if group.get("fails") and k == 1:
                    raise ArithmeticError("a root that does not converge")
                p.sub_(p.grad, alpha=group["lr"])
            group["k"] = group.get("k", 0) + 1

    step, model, mine, *_, batch = pair(Failing)
    step(batch)
    before = copy.deepcopy(model.state_dict())
    mine.param_groups[0]["fails"] = True
    with pytest.raises(ArithmeticError, match="does not converge") as problem:
        step(batch)
    assert "all parameters: the update had begun; some parameters are updated and some are not" in problem.value.__notes__[0]
    assert not torch.equal(model.one.weight, before["one.weight"]) and all(p.grad is None for p in model.parameters())


def test_a_loss_that_is_not_finite_changes_nothing():
    step, model, mine, *_, batch = pair(Counting, check_finite=True)
    before = copy.deepcopy((model.state_dict(), mine.state_dict()))
    with pytest.raises(FloatingPointError):
        step({**batch, "x": batch["x"] / 0})
    assert same((model.state_dict(), mine.state_dict()), before)


def test_with_other_options():
    for options in ({"budget": "floor"}, {"budget": "100%", "split": 2}, {"clip_norm": 0.1}, {"engine": "auto"}):
        step, model, mine, other, its, batch = found = pair(Counting, **options)
        if "clip_norm" in options:
            step(batch)
            loss_fn(other, batch).backward()
            nn.utils.clip_grad_norm_(other.parameters(), 0.1)
            its.step()
            assert same(model.state_dict(), other.state_dict())
        elif "split" not in options:
            alike(found, 2)


# ---- its memory


class Wide(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.one, self.two = nn.Linear(6, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def states(plan):
    return sum(s.bytes for s in plan.storages() if s.resident and s.category == "optimizer_state")


def held(optimizer):
    return whole_rehearsal.state_there(optimizer)


@pytest.mark.parametrize("kind", ["counting", "distance", "kronecker", "schedule-free", "around"])
@pytest.mark.parametrize("way", ["copies", "fake", "small"])
def test_the_state_that_the_first_step_will_make_is_counted(kind, way, monkeypatch):
    if way == "fake" and kind in ("distance",):
        pytest.skip("it looks into its tensors")
    monkeypatch.setattr(whole_rehearsal, "COPIED", 1 << 24 if way == "copies" else 0)
    if way == "small":
        monkeypatch.setattr(whole_rehearsal, "FakeTensorMode", None)
    model, batch = Wide(), {"x": torch.randn(7, 6), "y": torch.randint(0, 3, (7,))}
    optimizer = KINDS[kind]([{"params": list(model.parameters())}])
    step = lowtide.compile_step(model, loss_fn, optimizer, batch)
    planned = states(step.plan)
    assert not optimizer.state
    step(batch)
    assert 0 <= planned - held(optimizer) < (held(optimizer) / 8 if way == "small" else 64) < planned, "to a line of the cache"
    assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes


def test_a_state_that_is_there_is_counted_as_it_is():
    model, batch = Wide(), {"x": torch.randn(7, 6), "y": torch.randint(0, 3, (7,))}
    optimizer = Kronecker(model.parameters())
    loss_fn(model, batch).backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.state[model.one.weight]["more"] = torch.zeros(1000)
    assert 0 <= states(lowtide.plan(model, loss_fn, optimizer, batch)) - held(optimizer) < 64 and held(optimizer) > 4000


def test_all_gradients_are_planned_to_live_until_the_update():
    """One parameter at a time, gradients go as they come."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(6)])
    batch = torch.randn(2, 64)
    sizes = {}
    for name, make in (("whole", Counting), ("each", lambda ps: o.SGD(ps, lr=0.1))):
        sizes[name] = lowtide.plan(model, lambda m, x: m(x).square().sum(), make(model.parameters()), batch)
    gradients = 6 * 4 * 64 * 64
    assert sizes["whole"].peak_bytes - states(sizes["whole"]) >= 2 * gradients > sizes["each"].peak_bytes


# ---- what is refused


class Sharpness(Given):
    """Needs the loss a second time, and says so when it is called."""

    def step(self, closure=None):
        if closure is None:
            raise ValueError("needs a closure")


def test_a_step_that_calls_its_closure_is_refused():
    with pytest.raises(lowtide.Unsupported, match="Sharpness cannot be planned: its step.* on copies of the parameters: ValueError: needs a closure"):
        pair(Sharpness)
    with pytest.raises(lowtide.Unsupported, match="LBFGS cannot be planned: its step\\(\\) needs 'closure'.* backend='lowtide'"):
        pair(lambda groups: o.LBFGS(groups[0]["params"]))


def test_moves_to_host_memory_are_refused():
    with pytest.raises(lowtide.Unsupported, match="Counting runs its own step.. on all parameters, .* it is planned without swap"):
        pair(Counting, swap="host")


def test_a_refused_optimizer_and_what_it_holds_are_as_they_were():
    class Late(Given):
        def __init__(self, groups):
            super().__init__(groups)
            self.log, self.inner = [], o.SGD([nn.Parameter(torch.ones(2))], lr=0.1)

        def update(self, group, given):
            self.log.append(len(given))
            group["lr"] *= 0.5
            self.inner.param_groups[0]["lr"] = 7.0
            random.random()
            torch.rand(3)
            for p in given:
                self.state[p]["there"] = 1
            raise RuntimeError("too late")

    streams = torch.get_rng_state(), random.getstate()
    model = Wide()
    torch.set_rng_state(streams[0])
    optimizer = Late(model.parameters())
    with pytest.raises(lowtide.Unsupported, match="RuntimeError: too late"):
        lowtide.plan(model, loss_fn, optimizer, {"x": torch.ones(7, 6), "y": torch.zeros(7, dtype=torch.long)})
    assert optimizer.log == [] and optimizer.param_groups[0]["lr"] == 0.05 and optimizer.inner.param_groups[0]["lr"] == 0.1
    assert not optimizer.state and torch.equal(streams[0], torch.get_rng_state()) and streams[1] == random.getstate()


def test_schedules_and_resuming():
    step, model, mine, other, its, batch = found = pair(Counting)
    check(found, steps=2)
    saved = copy.deepcopy((model.state_dict(), mine.state_dict()))
    step(batch)
    model.load_state_dict(saved[0])
    mine.load_state_dict(saved[1])
    check(found, steps=2)


class DecaysAll(torch.optim.Optimizer):
    """Parameters without a gradient shrink, too."""

    def __init__(self, parameters, rate=0.05):
        super().__init__(parameters, {"rate": rate})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(0.9)
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["rate"])


def test_parameters_without_a_gradient_are_the_optimizers_to_change():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Linear(4, 3), torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x).square().mean()

    torch.manual_seed(0)
    model, batch = Net(), torch.randn(5, 4)
    other = copy.deepcopy(model)
    its = DecaysAll(other.parameters())
    step = lowtide.compile_step(model, lambda m, b: m(b), DecaysAll(model.parameters()), batch, effort=0.2)
    for _ in range(3):
        step(batch)
        its.zero_grad()
        other(batch).backward()
        its.step()
    assert all(map(torch.equal, model.parameters(), other.parameters()))


BESIDE = {"calls": [0], "rates": [], "average": torch.zeros(2), "named": {"k": 0}}


class Counting(torch.optim.SGD):
    def step(self, closure=None):
        BESIDE["calls"][0] += 1
        return super().step(closure)


class Logging(torch.optim.SGD):
    def step(self, closure=None):
        BESIDE["rates"].append(self.param_groups[0]["lr"])
        return super().step(closure)


class Averaging(torch.optim.RMSprop):
    def step(self, closure=None):
        with torch.no_grad():
            BESIDE["average"].add_(1)
        return super().step(closure)


class OfItself(torch.optim.AdamW):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        self.log = []

    def step(self, closure=None):
        self.log.append(len(self.log))
        BESIDE["named"]["k"] += 1
        return super().step(closure)


@pytest.mark.parametrize("rehearse", [None, False])
@pytest.mark.parametrize("kind", [Counting, Logging, Averaging, OfItself])
def test_what_step_writes_beside_its_state_is_written_once_in_each_step(kind, rehearse):
    found = []
    for planned in (True, False):
        BESIDE.update(calls=[0], rates=[], average=torch.zeros(2), named={"k": 0})
        torch.manual_seed(0)
        model, x = nn.Linear(6, 3), torch.randn(4, 6)
        optimizer = kind(model.parameters(), lr=0.1)
        step = lowtide.compile_step(model, lambda model, x: model(x).square().mean(), optimizer, x, effort=0.1, rehearse=rehearse) if planned else None
        for _ in range(3):
            if planned:
                step(x)
            else:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        found.append(([*BESIDE["calls"], *BESIDE["rates"], *BESIDE["average"].tolist(), BESIDE["named"]["k"], len(getattr(optimizer, "log", []))],
                      [*model.parameters()]))
    assert found[0][0] == found[1][0] and all(map(torch.equal, found[0][1], found[1][1]))


def test_an_optimizer_under_a_schedule_is_still_taken_apart():
    model = nn.Linear(6, 3)
    optimizer = torch.optim.RMSprop(model.parameters(), 0.01)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    step = lowtide.compile_step(model, lambda model, x: model(x).square().mean(), optimizer, torch.randn(4, 6), effort=0.1)
    step(torch.randn(4, 6))
    assert not step._now.planned.captured.updates.whole
