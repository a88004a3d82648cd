"""Optimizers whose own step() a planned step runs: PyTorch's and a user's, bit for bit as in eager mode; and refusals."""

import copy

import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch import rehearsal

nn, F = torch.nn, torch.nn.functional
o = torch.optim


class Late(o.Optimizer):
    """Its momentum begins as a copy of the gradient; it puts new tensors in the place of its state and of parameters."""

    def __init__(self, params, lr=0.1, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "before" not in state:
                    state["before"], state["steps"] = p.grad.clone(), 0
                state["before"] = group["momentum"] * state["before"] + p.grad
                state["steps"] += 1
                p.data = p.data - group["lr"] / state["steps"] * state["before"]


class Spoiling(o.SGD):
    """A subclass that writes the gradient before the step that it inherits."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(p.grad.norm() + 1)
        super().step()


class Branching(o.Optimizer):
    """Takes other ops where a gradient is large, which small copies do not show."""

    def __init__(self, params, lr=0.1, above=1e6):
        super().__init__(params, {"lr": lr, "above": above})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                half = p.grad * 0.5
                if p.grad.abs().max().item() > group["above"]:
                    more = half * 0.1
                    half = more + half.clone()
                p.sub_(half + half * half, alpha=group["lr"])


OPTIMIZERS = {
    "RMSprop": lambda ps: o.RMSprop(ps, lr=0.01, momentum=0.9, centered=True, weight_decay=0.1),
    "Adagrad": lambda ps: o.Adagrad(ps, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1),
    "Adamax": lambda ps: o.Adamax(ps, lr=0.01, weight_decay=0.1),
    "NAdam": lambda ps: o.NAdam(ps, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "RAdam": lambda ps: o.RAdam(ps, lr=0.01, weight_decay=0.1),
    "Adadelta": lambda ps: o.Adadelta(ps, lr=0.5, foreach=True, weight_decay=0.1),
    "Rprop": lambda ps: o.Rprop(ps, lr=0.01),
    "ASGD": lambda ps: o.ASGD(ps, lr=0.1, t0=1, weight_decay=0.1),
    "Adafactor": lambda ps: o.Adafactor(ps, lr=0.01, weight_decay=0.1),
    "AdamWOfOnesOwn": lambda ps: type("Mine", (o.AdamW,), {})(ps, lr=0.01, amsgrad=True),
    "Late": Late,
    "Spoiling": lambda ps: Spoiling(ps, lr=0.1, momentum=0.9, nesterov=True),
}


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)
        self.frozen, self.unused = nn.Linear(3, 3).requires_grad_(False), nn.Linear(2, 2)

    def forward(self, x):
        return self.frozen(self.two(torch.relu(self.norm(self.one(x)))))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def pair(make, groups=None, **options):
    torch.manual_seed(0)
    model, batch = Small(), {"x": torch.randn(7, 6), "y": torch.randint(0, 3, (7,))}
    other = copy.deepcopy(model)
    mine, its = (make((groups or two_groups)(each)) for each in (model, other))
    return lowtide.compile_step(model, loss_fn, mine, batch, **options), model, mine, other, its, batch


def two_groups(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return [{"params": [p for p in trained if p.ndim > 1]}, {"params": [p for p in trained if p.ndim == 1], "lr": 0.05}]


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def check(found, steps=3, scheduled=True):
    step, model, mine, other, its, batch = found
    schedules = [o.lr_scheduler.ExponentialLR(each, 0.5) for each in (mine, its)] if scheduled else []
    for _ in range(steps):
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        assert torch.equal(step(batch), wanted)
        assert same(model.state_dict(), other.state_dict())
        assert same(mine.state_dict(), its.state_dict())
        for schedule in schedules:
            schedule.step()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizers_own_step_is_eager_modes_with_groups_and_a_schedule(kind):
    found = pair(OPTIMIZERS[kind])
    check(found, steps=1)
    assert (found[0].memory.beside > 0) == (kind in ("Late", "Spoiling")), "a late state's first step alone"
    check(found)
    assert found[0].memory.beside == 0
    assert len(found[0]._ready) == (2 if kind == "ASGD" else 1), "ASGD averages from its second step on"
    assert all(p.grad is None for p in found[1].parameters())


@pytest.mark.skipif(not hasattr(o, "Muon"), reason="not in this version")
def test_muon_is_eager_modes():
    check(pair(lambda groups: o.Muon(groups, lr=0.02), lambda m: [{"params": [m.one.weight]}, {"params": [m.two.weight]}]))


def test_an_adafactor_whose_rate_comes_from_its_parameters_is_eager_modes():
    """Its state begins with a number that becomes a tensor, which the next step looks into."""
    transformers = pytest.importorskip("transformers")
    check(pair(transformers.Adafactor, lambda m: [{"params": list(m.parameters())[:4]}, {"params": [m.two.weight]}]),
          scheduled=False)


def test_a_step_that_takes_other_ops_later_gets_another_plan():
    found = pair(OPTIMIZERS["RAdam"])
    check(found, steps=8)
    assert len(found[0]._ready) == 2 and found[0].memory.beside == 0


def test_ops_that_depend_on_contents_take_memory_beside_the_arena():
    found = pair(Branching)
    check(found, steps=1)
    assert found[0].memory.beside == 0
    for each in (found[2], found[4]):
        each.param_groups[0]["above"] = 1.0  # the small copies' gradients are below
    with torch.no_grad():
        for model in (found[1], found[3]):
            model.two.weight.mul_(200)
    check(found, steps=2)
    assert found[0].memory.beside > 0 and len(found[0]._ready) == 1


# ---- parameters of every form, and state of those alone that get a gradient


class Odd(nn.Module):
    """Parameters without dimensions, of one element, without elements and of another type, before all others; two that the
    loss does not reach come first and last."""

    def __init__(self, names):
        super().__init__()
        made = {"unused": torch.ones(4), "scale": torch.tensor(1.5), "one": torch.ones(1, 1), "none": torch.empty(0, 6),
                "sixteen": torch.ones(6, dtype=torch.bfloat16), "sixtyfour": torch.tensor(0.5, dtype=torch.float64)}
        for name in names:
            setattr(self, name, nn.Parameter(made[name]))
        self.linear, self.beside = nn.Linear(6, 3), nn.Linear(3, 2)

    def forward(self, x):
        for name, p in self.named_parameters(recurse=False):
            if name == "none":
                x = torch.cat([x, p])
            elif name != "unused":
                x = x * p.to(x.dtype)
        return self.linear(x)


KNOWN = {
    "sgd": lambda ps: o.SGD(ps, lr=0.1), "momentum": lambda ps: o.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda ps: o.Adam(ps, weight_decay=0.1, amsgrad=True), "adamw": lambda ps: o.AdamW(ps, lr=0.1), "fused": lambda ps: o.AdamW(ps, fused=True),
    "rmsprop": lambda ps: o.RMSprop(ps, weight_decay=0.1), "nadam": lambda ps: o.NAdam(ps),
}
FIRST = {"scalar": ["scale"], "unused": ["unused", "scale", "one"], "empty": ["none", "one"], "types": ["sixtyfour", "sixteen", "scale"]}


def odd_pair(names, make):
    torch.manual_seed(0)
    model, batch = Odd(names), {"x": torch.randn(7, 6), "y": torch.randint(0, 3, (7,))}
    other = copy.deepcopy(model)
    return model, make(model.parameters()), other, make(other.parameters()), batch


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("first", FIRST)
def test_whatever_parameter_comes_first_in_a_group(first, kind):
    model, mine, other, its, batch = odd_pair(FIRST[first], KNOWN[kind])
    if kind == "fused" and first == "types":
        pytest.skip("PyTorch's fused kernels take one type")
    before = copy.deepcopy(mine.state_dict())
    lowtide.plan(model, loss_fn, mine, batch)
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    assert same(mine.state_dict(), before) and not mine.state, "capturing and planning leave no state behind"
    check((step, model, mine, other, its, batch), steps=2)
    reached = [p for name, p in model.named_parameters() if "unused" not in name and "beside" not in name]
    assert set(map(id, mine.state)) <= set(map(id, reached))


@pytest.mark.parametrize("engine", ["torch", "native", "auto"])
def test_no_engine_makes_state_before_its_first_step_or_for_what_gets_no_gradient(engine):
    model, mine, other, its, batch = odd_pair(["unused", "scale"], lambda ps: o.AdamW(ps, weight_decay=0.1))
    step = lowtide.compile_step(model, loss_fn, mine, batch, engine=engine)
    assert not mine.state
    step(batch)
    loss_fn(other, batch).backward()
    its.step()
    assert mine.state_dict()["state"].keys() == its.state_dict()["state"].keys()
    assert torch.equal(model.unused, other.unused), "no weight decay either"


def test_the_memory_of_a_state_that_is_not_made_is_not_planned():
    sizes = []
    for wide in (1, 1000):
        model = nn.ModuleDict({"unused": nn.Linear(wide, wide), "used": nn.Linear(6, 3)})
        batch = {"x": torch.ones(7, 6), "y": torch.zeros(7, dtype=torch.long)}
        found = lowtide.plan(model, lambda m, b: F.cross_entropy(m["used"](b["x"]), b["y"]), o.AdamW(model.parameters()), batch)
        sizes.append(found.arena_bytes)
    assert sizes[1] - sizes[0] < 1.1 * 4 * 1001 * 1000, "the parameter alone"


def test_a_step_that_fails_before_its_updates_leaves_no_state():
    model, mine, *_, batch = odd_pair(["scale"], lambda ps: o.SGD(ps, lr=0.1, momentum=0.9))
    step = lowtide.compile_step(model, loss_fn, mine, batch, check_finite=True)
    with pytest.raises(FloatingPointError):
        step({**batch, "x": batch["x"] * float("nan")})
    assert not mine.state
    step(batch)
    assert len(mine.state) == 3


# ---- what is refused


class Stepping(o.SGD):
    """`what` says what its step() does beside."""

    def __init__(self, params, what, lr=0.1):
        super().__init__(params, lr=lr)
        self.what, self.count = what, 0

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        given = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        if self.what == "together":
            torch.stack([p.grad.norm() for p in given]) if len(given) > 1 else None
        elif self.what == "numbers":
            total = sum(p.grad.norm().item() for p in given)
            for p in given:
                p.mul_(1 + total)
        elif self.what == "threshold":  # that no rehearsed gradient reaches
            if sum(p.grad.norm().item() for p in given) < 1e30:
                for p in given:
                    p.sub_(p.grad)
        elif self.what == "attribute":
            self.count += 1
        elif self.what == "option":
            self.param_groups[0]["count"] = self.param_groups[0].get("count", 0) + 1
        elif self.what == "random":
            for p in given:
                p.add_(torch.randn_like(p))
        elif self.what == "key":
            self.state["all"]["norm"] = 1.0
        elif self.what == "object":
            for p in given:
                self.state[p]["object"] = object()
        elif self.what == "later":
            for p in given:
                self.state[p]["at"] = self.state[p].get("at", 0) + 1
                if self.state[p]["at"] == 2:
                    self.state[p]["slow"] = p.clone()
        elif self.what == "types":
            for p in given:
                before = self.state[p].get("total")
                self.state[p]["total"] = p.grad.bfloat16() if before is None else before + p.grad
        elif self.what == "names":
            self.names[id(given[0])]

    names: dict = {}


REFUSED = {
    "together": "its step\\(\\) takes two parameters together \\(aten::stack\\)",
    "numbers": "its step\\(\\) takes two parameters together \\(aten::_local_scalar_dense\\)",
    "threshold": "its step\\(\\) takes two parameters together \\(aten::_local_scalar_dense\\)",
    "attribute": "its step\\(\\) changes 'count' of the optimizer, which all parameters share",
    "option": "its step\\(\\) changes 'count' of group 0, which all parameters share",
    "random": "its step\\(\\) draws random numbers, whose order would be the plan's",
    "key": "its state has 'all', which is no parameter's",
    "object": "its state holds a object; tensors and numbers are planned",
    "later": "its step\\(\\) puts tensors of other kinds into its state, or more of them, than there were",
    "types": "its step\\(\\) puts tensors of other kinds into its state, or more of them, than there were",
    "names": "its step\\(\\) on small copies of the parameters: KeyError",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_step_that_is_not_of_one_parameter_is_not_taken_apart_and_a_line_says_why(what):
    with pytest.raises(lowtide.Unsupported, match=f"^optimizer test_torch_optimizers.Stepping cannot be planned: {REFUSED[what]}"):
        rehearsal.Rehearsal(Stepping(two_groups(Small()), what))


def test_what_fails_on_copies_is_refused():
    with pytest.raises(lowtide.Unsupported, match="Stepping cannot be planned: its step\\(\\) on copies of the parameters: KeyError"):
        pair(lambda groups: Stepping(groups, "names"))


def test_optimizers_of_another_form_are_refused():
    with pytest.raises(lowtide.Unsupported, match="LBFGS cannot be planned: its step\\(\\) needs 'closure', and in a planned step the "):
        pair(lambda groups: o.LBFGS(groups[0]["params"]))
    with pytest.raises(lowtide.Unsupported, match="SparseAdam cannot be planned: its step.* does not support dense gradients"):
        pair(o.SparseAdam)

    def exchanged(groups):
        optimizer = o.RMSprop(groups)
        optimizer.step = lambda closure=None: None
        return optimizer

    with pytest.raises(lowtide.Unsupported, match="RMSprop cannot be planned: its step\\(\\) was exchanged on the object"):
        pair(exchanged)
    with pytest.raises(lowtide.Unsupported, match="RMSprop has no update in the native engine; engine='torch' runs its own step"):
        pair(OPTIMIZERS["RMSprop"], engine="native")


def test_parameters_on_another_device_are_refused():
    """Nothing of it was run on a GPU."""
    with pytest.raises(lowtide.Unsupported, match="RMSprop cannot be planned: a parameter is on meta, where the updates of SGD"):
        rehearsal.Rehearsal(o.RMSprop(nn.Linear(2, 2, device="meta").parameters()))


def test_a_wrong_option_is_found_before_the_step_begins():
    step, model, mine, *_, batch = pair(OPTIMIZERS["NAdam"])
    before = copy.deepcopy(model.state_dict())
    mine.param_groups[1]["betas"] = ("0.1", 0.9)
    with pytest.raises(TypeError) as problem:
        step(batch)
    assert "the optimizer's group 1 as it is now makes no update" in problem.value.__notes__[0]
    assert same(model.state_dict(), before)


# ---- with other options


def test_states_move_to_host_memory_with_an_optimizers_own_step():
    found = pair(Late, budget=2500, swap="host", effort=0.1)
    check(found)
    assert found[0].memory.stored_bytes > 0


def test_a_run_is_saved_and_resumed_with_an_optimizers_own_step():
    step, model, mine, other, its, batch = found = pair(OPTIMIZERS["NAdam"])
    check(found, steps=2, scheduled=False)
    saved = copy.deepcopy((model.state_dict(), mine.state_dict()))
    step(batch)
    model.load_state_dict(saved[0])
    mine.load_state_dict(saved[1])
    check(found, steps=2, scheduled=False)
    for optimizer in (mine, its):
        optimizer.state.clear()
    check(found, steps=2, scheduled=False)


def test_a_plan_alone_leaves_the_optimizers_state_as_it_was():
    torch.manual_seed(0)
    model, batch = Small(), {"x": torch.randn(7, 6), "y": torch.randint(0, 3, (7,))}
    for make in (OPTIMIZERS["RMSprop"], Late):
        optimizer = make(two_groups(model))
        before = copy.deepcopy(optimizer.state_dict())
        lowtide.plan(model, loss_fn, optimizer, batch)
        assert same(optimizer.state_dict(), before)


def test_an_optimizer_that_counts_beside_is_as_it_was_when_it_is_planned():
    class Logging(torch.optim.SGD):
        def __init__(self, params):
            super().__init__(params, lr=torch.tensor(0.1))
            self.log = []

        def step(self, closure=None):
            self.log.append(1)
            for group in self.param_groups:
                group["lr"].mul_(0.5)
            return super().step(closure)

    model = torch.nn.Linear(3, 3)
    optimizer = Logging(model.parameters())
    lowtide.plan(model, lambda m, x: m(x).sum(), optimizer, torch.ones(2, 3))
    assert optimizer.log == [] and optimizer.param_groups[0]["lr"] == torch.tensor(0.1)


def test_small_copies_are_stepped_ever_less_often_while_their_ops_stay():
    model = torch.nn.Linear(3, 3)
    optimizer = Late(model.parameters())
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    found = []
    for _ in range(8):
        kept = rehearsal.kept_sequences(optimizer)
        found.append(kept.left)
        kept.left = 0
    assert found == [64, 128, 256, 512, 1024, 2048, 4096, 4096]
    rehearsal.kept_sequences(optimizer).doubt()
    assert rehearsal.kept_sequences(optimizer).left == 64
    rehearsal.kept_sequences(optimizer).left = 0
    assert rehearsal.kept_sequences(optimizer).left == 64, "looked at as often as at first, once something lay beside the arena"
