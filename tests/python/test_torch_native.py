"""The native engine against eager mode: three steps of ten kinds of networks in f64, where rounding hides nothing, on the
model's own tensors; learning rates, accumulation, resuming, seeds, steps that do not happen; the choice of an engine.

In f64, as the first updates of Adam are as large as the learning rate wherever a gradient is more than epsilon, also where it
is nothing but rounding (of a bias before a softmax, in f32).
"""

import copy
import itertools
import math
import os

import pytest
from torch_models import NAMES, build, eager_step, trained, twin

import lowtide

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

OPTIMIZERS = {
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-3, weight_decay=0.1),
    # With an epsilon of 1e-8 each step makes what is nothing but rounding 10,000 times as large: lr weight_decay / eps.
    "adam": lambda ps: torch.optim.Adam(ps, lr=1e-3, weight_decay=0.1, eps=1e-4),
    "sgd": lambda ps: torch.optim.SGD(ps, lr=1e-2, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "plain": lambda ps: torch.optim.SGD(ps, lr=1e-2),
}
OPERATORS = ("fno", "tfno", "uno")  # neural ones, by Fourier transforms, which the runtime has not
NETWORKS = [name for name in NAMES if name not in OPERATORS]
if os.environ.get("LOWTIDE_LONG"):
    CASES = list(itertools.product(NETWORKS, OPTIMIZERS, (None, "tight")))
else:
    CASES = [(name, list(OPTIMIZERS)[i % 4], "tight" if i in (2, 4) else None) for i, name in enumerate(NETWORKS[::2])]
TOLERANCE = {"rtol": 1e-8, "atol": 1e-8}
LOOSE = {"rtol": 1e-5, "atol": 1e-5}  # where the model itself computes norms, rotations or its loss in f32
IN_F32 = {"gpt2", "llama", "lora", "t5"}


def in_double(name):
    model, batch, loss_fn = build(name)
    if name == "resnet":  # the norm of two numbers is their order: two images make steps that rounding decides
        batch = (torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))
    cast = torch.utils._pytree.tree_map(lambda t: t.double() if t.is_floating_point() else t, batch)
    return model.double(), cast, loss_fn


def assert_close(model, optimizer, other, other_optimizer, tolerance=TOLERANCE):
    pairs = [*zip(model.named_parameters(), other.parameters(), strict=True),
             *zip(model.named_buffers(), other.buffers(), strict=True)]
    for (name, ours), theirs in pairs:
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}", **tolerance)
    for (name, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        its = other_optimizer.state.get(theirs, {})
        for key, value in its.items():
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(optimizer.state[ours][key], value,
                                           msg=lambda text, where=(key, name): f"{where}: {text}", **tolerance)


def assert_follows(step, model, optimizer, other, other_optimizer, loss_fn, batch, steps=3, tolerance=TOLERANCE):
    for _ in range(steps):
        torch.testing.assert_close(step(batch), eager_step(other, loss_fn, other_optimizer, batch), **tolerance)
        assert_close(model, optimizer, other, other_optimizer, tolerance)


@pytest.mark.parametrize(("name", "optimizer", "budget"), CASES)
def test_three_steps_follow_eager_mode(name, optimizer, budget):
    model, batch, loss_fn = in_double(name)
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    limit = None
    if budget is not None:
        best = lowtide.plan(model, loss_fn, mine, batch, engine="native").arena_bytes
        with pytest.raises(lowtide.Infeasible) as refused:
            lowtide.plan(model, loss_fn, mine, batch, engine="native", budget=1)
        assert str(refused.value).startswith(f"{type(model).__name__}: --budget")
        floor = int(str(refused.value).split("needs at least ")[1].split(" bytes")[0])
        limit = best - (best - floor) // 2
    step = lowtide.compile_step(model, loss_fn, mine, batch, engine="native", budget=limit, effort=0.2)
    before = [p.data_ptr() for p in model.parameters()]
    assert_follows(step, model, mine, other, its, loss_fn, batch, tolerance=LOOSE if name in IN_F32 else TOLERANCE)
    assert step.engine == "native" and "engine native" in repr(step)
    assert [p.data_ptr() for p in model.parameters()] == before
    assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes
    lent = [p for p in model.parameters()] + [b for b in model.buffers() if b.is_floating_point()]
    lent += [s for state in mine.state.values() for s in state.values() if isinstance(s, torch.Tensor) and s.dim() > 0]
    assert step.memory.resident_bytes >= sum(t.nbytes for t in trained(model))
    assert step.memory.resident_bytes <= sum(-(-t.nbytes // 64) * 64 for t in lent)
    assert limit is None or step.plan.arena_bytes <= limit


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(dropout))
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.body(x))


def entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def small(dropout=0.0, rows=8):
    torch.manual_seed(0)
    model = Net(dropout).double()
    return model, (torch.randn(rows, 6, dtype=torch.float64), torch.randint(0, 4, (rows,)))


def test_one_arena_at_a_time_and_what_lies_beside_it_is_said():
    model, batch = small()
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS["adamw"](model.parameters()), OPTIMIZERS["adamw"](other.parameters())
    step = lowtide.compile_step(model, entropy, mine, batch, engine="native", effort=0.1)
    for rows in (8, 12, 8):
        given = small(rows=rows)[1]
        assert_follows(step, model, mine, other, its, entropy, given, steps=1)
        assert [ready.session is not None for ready in step._ready.values()].count(True) == 1
        assert step._now.session is not None and step.memory.held_bytes == step.memory.arena_bytes
        assert step.memory.kept_bytes == given[0].nbytes + given[1].nbytes + 8


def test_learning_rates_and_groups_are_those_of_now():
    model, batch = small()
    other = copy.deepcopy(model)

    def make(m):
        groups = [{"params": m.body.parameters()}, {"params": m.head.parameters(), "lr": 0.1, "betas": (0.5, 0.9)}]
        return torch.optim.AdamW(groups, lr=1e-2)

    mine, its = make(model), make(other)
    rates = [torch.optim.lr_scheduler.StepLR(o, 1, gamma=0.5) for o in (mine, its)]
    step = lowtide.compile_step(model, entropy, mine, batch, engine="native")
    for _ in range(3):
        assert_follows(step, model, mine, other, its, entropy, batch, steps=1)
        for rate in rates:
            rate.step()


def test_state_is_saved_and_resumed_as_ever(tmp_path):
    model, batch = small()
    mine = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = lowtide.compile_step(model, entropy, mine, batch, engine="native")
    step(batch)
    torch.save([model.state_dict(), mine.state_dict()], tmp_path / "saved.pt")
    wanted = [step(batch), step(batch)]
    saved = torch.load(tmp_path / "saved.pt")
    other = Net().double()
    its = torch.optim.AdamW(other.parameters(), lr=1e-2)
    resumed = lowtide.compile_step(other, entropy, its, batch, engine="native")
    other.load_state_dict(saved[0])
    its.load_state_dict(saved[1])  # other tensors than when the step was compiled
    assert [resumed(batch), resumed(batch)] == wanted
    assert_close(other, its, model, mine, {"rtol": 0, "atol": 0})


def test_accumulated_batches_make_one_update():
    model, batch = small()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    batches = [batch, (batch[0] + 1, batch[1])]
    step = lowtide.compile_step(model, entropy, mine, batches, engine="native", accumulate=2)
    assert_follows(step, model, mine, other, its, lambda m, both: sum(entropy(m, each) for each in both), batches)


def test_dropout_follows_the_seed_of_pytorch():
    model, batch = small(0.25, rows=400)

    def with_mask(m, batch):
        x = m.body(batch[0])
        return F.cross_entropy(m.head(x), batch[1]), {"dropped": x == 0, "kept": [None, 3]}

    step = lowtide.compile_step(model, with_mask, torch.optim.SGD(model.parameters(), lr=0.0), batch, engine="native")
    seen = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        loss, aux = step(batch)
        seen.append((loss, aux["dropped"]))
        assert aux["kept"] == [None, 3]
    assert torch.equal(seen[0][1], seen[1][1]) and torch.equal(seen[0][0], seen[1][0])
    assert not torch.equal(seen[0][1], seen[2][1])
    assert abs(seen[0][1].double().mean() - 0.25) < 0.02  # 12,800 draws: four standard deviations


@pytest.mark.parametrize("name", ["gpt2", "convnext"])
def test_networks_with_dropout_train_and_follow_the_seed(name):
    """Masks of attention and of whole branches: other ones than PyTorch's, of the same law."""
    model, batch, loss_fn = build(name, 0.3)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "layer_scale" in key:
                parameter.fill_(1)  # at its start of 1e-6 no branch counts
    start = copy.deepcopy(model.state_dict())
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), batch, engine="native")
    losses = []
    for seed in (1, 1, *range(2, 40)):
        torch.manual_seed(seed)
        losses.append(step(batch))
    eager = [loss_fn(model, batch).detach() for _ in range(40)]
    assert losses[0] == losses[1] and losses[0] != losses[2]
    ours, theirs = torch.stack(losses[1:]), torch.stack(eager)
    assert abs(ours.mean() - theirs.mean()) < 5 * (ours.var() / len(ours) + theirs.var() / len(theirs)).sqrt()
    torch.testing.assert_close(model.state_dict(), start, rtol=0, atol=0)


def test_a_loss_that_is_not_finite_changes_nothing():
    model, batch = small()
    mine = OPTIMIZERS["adamw"](model.parameters())
    step = lowtide.compile_step(model, entropy, mine, batch, engine="native", check_finite="loss")
    step(batch)
    before = copy.deepcopy([model.state_dict(), mine.state_dict()["state"]])
    with pytest.raises(FloatingPointError, match="not finite") as raised:
        step((batch[0] * float("nan"), batch[1]))
    assert raised.value.__notes__ == ["lowtide: the model is as before the step"]
    torch.testing.assert_close([model.state_dict(), mine.state_dict()["state"]], before, rtol=0, atol=0)
    assert torch.isfinite(step(batch)) and int(model.body[1].num_batches_tracked) == 2


@pytest.mark.parametrize("checked", [False, "loss"])
def test_a_step_that_makes_a_label_that_is_no_class_is_not_the_last(checked):
    """What the step computes is not checked before it."""
    def computed(model, batch):
        return F.cross_entropy(model(batch[0]), (batch[1] * 1.0).long())

    model, (x, labels) = small()
    batch, bad = (x, labels.double()), (x + 1, labels.double() + 50)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, computed, mine, batch, engine="native", **({"check_finite": checked} if checked else {}))
    assert_follows(step, model, mine, other, its, computed, batch, steps=1)
    norm, its_norm = model.body[1], other.body[1]
    for _ in range(2):
        before = norm.running_mean.clone()
        with pytest.raises(lowtide.BadInput, match="label 5[0-3] of row 0 of this op's 8, counted from 0, is none of the 4 classes"):
            step(bad)
        assert torch.equal(norm.running_mean, before) == bool(checked)
        its_norm.running_mean.copy_(norm.running_mean)
        its_norm.running_var.copy_(norm.running_var)
        assert_close(model, mine, other, its)  # all else is as before
        assert_follows(step, model, mine, other, its, computed, batch, steps=2)


def test_pytorch_sees_that_its_tensors_change():
    model, batch = small()
    step = lowtide.compile_step(model, entropy, OPTIMIZERS["sgd"](model.parameters()), batch, engine="native")
    loss = entropy(model, batch)
    step(batch)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return torch.linalg.matrix_exp(self.weight) @ x


def test_what_cannot_be_run_is_refused_by_name_and_auto_falls_back():
    net, x = Unknown(), torch.randn(4, 4)
    mine = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(lowtide.Unsupported, match="matrix_exp"):
        lowtide.compile_step(net, lambda m, x: m(x).sum(), mine, x, engine="native")
    step = lowtide.compile_step(net, lambda m, x: m(x).sum(), mine, x, engine="auto")
    assert step.engine == "torch" and "matrix_exp" in repr(step)
    model, batch = small()
    for options, optimizer, line in (
            ({"clip_norm": 1.0}, OPTIMIZERS["sgd"], "clip_norm"),
            ({}, lambda ps: torch.optim.Adam(ps, amsgrad=True), "amsgrad"),
            ({}, lambda ps: torch.optim.SGD(ps, momentum=0.9, dampening=0.5), "dampening")):
        with pytest.raises(lowtide.Unsupported, match=line):
            lowtide.compile_step(model, entropy, optimizer(model.parameters()), batch, engine="native", **options)
    with pytest.raises(lowtide.Usage, match="none of torch, native, auto"):
        lowtide.compile_step(model, entropy, OPTIMIZERS["sgd"](model.parameters()), batch, engine="eager")


@pytest.mark.parametrize("make", [lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
                                  lambda m: torch.optim.AdamW(m.parameters(), lr=0.01)], ids=["sgd", "adamw"])
def test_a_state_that_was_taken_away_is_made_anew(make):
    torch.manual_seed(0)
    model, batch = nn.Linear(8, 3).double(), torch.randn(4, 8, dtype=torch.float64)
    other = copy.deepcopy(model)
    mine, its = make(model), make(other)
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, batch, engine="native", effort=0.1)
    for _ in range(2):
        for _ in range(2):
            torch.testing.assert_close(step(batch), eager_step(other, lambda m, x: m(x).square().mean(), its, batch))
        torch.testing.assert_close(model.weight, other.weight)
        mine.state.clear()
        its.state.clear()


@pytest.mark.parametrize("where", ["loss", "part", "around"])
def test_autocast_is_refused_by_name_wherever_it_stands(where):
    """Its casts are in no op of an exported program: a step without them would train on, in f32."""
    model, batch = nn.Linear(8, 3), (torch.randn(4, 8), torch.randint(0, 3, (4,)))

    def loss_fn(model, b):
        with torch.autocast("cpu", torch.bfloat16, enabled=where != "around"):
            y = model(b[0])
            if where == "loss":
                return F.cross_entropy(y, b[1])
        return F.cross_entropy(y.float(), b[1])

    with torch.autocast("cpu", torch.bfloat16, enabled=where == "around"):
        with pytest.raises(lowtide.Unsupported, match="autocast is not there in the native engine"):
            lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), batch, engine="native",
                                 effort=0.1)


def test_what_the_door_would_take_for_something_else_is_refused():
    model, batch = small(0.5)
    mine = OPTIMIZERS["sgd"](model.parameters())
    with pytest.raises(lowtide.Unsupported, match="gives 'head.weight' itself as a result"):
        lowtide.compile_step(model, lambda m, b: (entropy(m, b), m.head.weight), mine, batch, engine="native")
    with pytest.raises(lowtide.Unsupported, match="'head.weight' is torch.bfloat16"):
        other = copy.deepcopy(model)
        other.head.bfloat16()
        lowtide.compile_step(other, entropy, OPTIMIZERS["sgd"](other.head.parameters()), batch, engine="native")


@pytest.mark.parametrize("norm", ["eval", "train"])
def test_batch_norms_train_as_they_stand(norm):
    """In eval mode with the running statistics, which stay; the dropout is off in either case."""
    model, batch = small(0.5)
    model.eval().body[1].train(norm == "train")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    before = model.body[1].running_mean.clone()
    step = lowtide.compile_step(model, entropy, mine, batch, engine="native")
    assert_follows(step, model, mine, other, its, entropy, batch)
    assert torch.equal(before, model.body[1].running_mean) is (norm == "eval")
    assert ("BatchNormTrain" in step.plan.op_kinds()) is (norm == "train")


class Entropy(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        return entropy(self.net, (x, labels))


@pytest.mark.parametrize("norm", ["eval", "train"])
def test_the_command_line_takes_batch_norms_of_a_program_as_the_engine_does(norm, tmp_path):
    model, batch = small(0.0)
    model.eval().body[1].train(norm == "train")
    step = lowtide.compile_step(model, entropy, OPTIMIZERS["sgd"](model.parameters()), batch, engine="native")
    torch.export.save(torch.export.export(Entropy(model), batch), tmp_path / "step.pt2")
    plan = lowtide.plan(tmp_path / "step.pt2", train=True, loss="model")
    norms = {kind for kind in plan.op_kinds() if kind.startswith("BatchNorm")}
    assert norms == {kind for kind in step.plan.op_kinds() if kind.startswith("BatchNorm")}


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen.mul_(0.9)
        return self.linear(x) + self.seen


def test_a_buffer_that_the_runtime_would_not_keep_is_refused():
    net = Counter()
    with pytest.raises(lowtide.Unsupported, match="changes buffer 'seen' by aten.mul_"):
        lowtide.compile_step(net, lambda m, x: m(x).sum(), torch.optim.SGD(net.parameters(), lr=0.1),
                             torch.randn(4, 4), engine="native")


def test_auto_takes_the_faster_engine_and_rehearses_on_copies(monkeypatch):
    from lowtide.pytorch import native, step as torch_step

    model, batch = small(0.1)
    mine = OPTIMIZERS["sgd"](model.parameters())
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    made = lowtide.compile_step(model, entropy, mine, batch, engine="auto")
    assert made.engine in ("torch", "native") and "a rehearsed step took" in repr(made)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(bool((s["momentum_buffer"] == 0).all()) for s in mine.state.values())
    assert torch.equal(state, torch.get_rng_state())
    for slow, chosen in ((native.NativeStep, "torch"), (torch_step.Step, "native")):
        with monkeypatch.context() as patch:
            for kind in (native.NativeStep, torch_step.Step):
                patch.setattr(kind, "rehearse", lambda self, batch, slow=kind is slow: 2.0 if slow else 1.0)
            step = lowtide.compile_step(model, entropy, mine, batch, engine="auto")
        assert step.engine == chosen
        assert torch.isfinite(step(batch))


def test_another_shape_is_planned_once():
    model, batch = small()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, entropy, mine, batch, engine="native")
    for rows in (8, 5, 8):
        part = (batch[0][:rows], batch[1][:rows])
        assert_follows(step, model, mine, other, its, entropy, part, steps=1)


@pytest.mark.parametrize(("equation", "kind", "sizes"), [
    ("i,j->ij", torch.int64, (8,)), ("j,ij->ij", torch.int32, (4, 8)), ("ij,j->ij", torch.float32, (4, 8)), ("...i,i->...i", torch.uint8, (2, 3, 8))])
def test_products_of_two_types_that_are_written_as_einsum_promote(equation, kind, sizes):
    """Rotary embeddings count positions in whole numbers: einsum without a sum is a product, whose operands promote."""
    model, batch = small()
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS["plain"](model.parameters()), OPTIMIZERS["plain"](other.parameters())
    fixed = (torch.arange(math.prod(sizes)) % 5).to(kind).view(sizes)

    def loss_fn(m, given):
        hidden = m.body(given[0])
        pair = (fixed, hidden[0, :8]) if equation != "j,ij->ij" else (hidden[0, :8].float(), fixed.double())
        return torch.einsum(equation, *pair).square().mean() + entropy(m, given)
    step = lowtide.compile_step(model, loss_fn, mine, batch, engine="native", effort=0.1)
    assert_follows(step, model, mine, other, its, loss_fn, batch, steps=2)
