"""What a planned step promises beside its memory: optimizers with their groups and schedules, clipping, accumulation,
autocast, aux results, new shapes, and what is left when something goes wrong."""

import copy
import os
import signal
import threading

import pytest
from torch_models import assert_equal_steps, build, differences, eager_step, torch, trained, twin

import lowtide
from lowtide.pytorch import devices

nn, F = torch.nn, torch.nn.functional
OPTIMIZERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01),
    "nesterov": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "sgd_fused": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, fused=True),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01, weight_decay=0.1),
    "adam_fused": lambda ps: torch.optim.Adam(ps, lr=0.01, amsgrad=True, fused=True),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01, amsgrad=True),
    "adamw_fused": lambda ps: torch.optim.AdamW(ps, lr=0.01, fused=True),
}


class Small(nn.Module):
    """Linear layers, of which two are tied, a norm with buffers, dropout; a layer that is frozen, one without gradient."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.two.weight = self.one.weight
        self.frozen, self.unused, self.head = nn.Linear(8, 8).requires_grad_(False), nn.Linear(2, 2), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        x = self.drop(torch.relu_(self.norm(self.one(x))))
        return self.head(F.gelu(self.frozen(self.two(x))))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def make(rows=6):
    torch.manual_seed(0)
    return Small(), {"x": torch.randn(rows, 8), "y": torch.randint(0, 3, (rows,))}


def groups(model):
    decayed = [p for p in trained(model) if p.ndim > 1]
    return [{"params": decayed}, {"params": [p for p in trained(model) if p.ndim == 1], "weight_decay": 0.0, "lr": 0.05}]


def pair(kind="adamw_fused", rows=6, **options):
    """(step, model, optimizer), (eager model, its optimizer), batch"""
    model, batch = make(rows)
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS[kind](groups(model)), OPTIMIZERS[kind](groups(other))
    step = lowtide.compile_step(model, loss_fn, mine, batch, **options)
    return step, model, mine, other, its, batch


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_with_groups_and_a_schedule_are_as_in_eager_mode(kind):
    step, model, mine, other, its, batch = pair(kind)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (mine, its)]
    for seed in range(3):
        torch.manual_seed(seed)
        loss = step(batch)
        torch.manual_seed(seed)
        assert torch.equal(loss, eager_step(other, loss_fn, its, batch))
        assert differences(model, mine, other, its) == []
        for schedule in schedules:
            schedule.step()
    assert len(step._ready) == 1, "no new capture"


def test_a_run_is_saved_and_resumed_as_ever():
    step, model, mine, other, its, batch = pair("momentum")
    torch.manual_seed(0)
    step(batch)
    torch.manual_seed(0)
    eager_step(other, loss_fn, its, batch)
    state = copy.deepcopy((model.state_dict(), mine.state_dict()))
    step(batch)
    model.load_state_dict(state[0])
    mine.load_state_dict(state[1])
    torch.manual_seed(1)
    loss = step(batch)
    torch.manual_seed(1)
    assert torch.equal(loss, eager_step(other, loss_fn, its, batch))
    assert differences(model, mine, other, its) == []


@pytest.mark.parametrize("way", ["clear", "load"])
@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_a_state_that_was_taken_away_is_made_anew_as_the_optimizer_would(kind, way):
    step, model, mine, other, its, batch = pair(kind)
    fresh = copy.deepcopy(its.state_dict())
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=1)
    for optimizer in (mine, its):
        optimizer.state.clear() if way == "clear" else optimizer.load_state_dict(copy.deepcopy(fresh))
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=2)
    assert len(step._ready) == 1, "no new capture"


@pytest.mark.parametrize("options", [{"clip_norm": 0.05}, {"clip_value": 0.01}, {"clip_norm": 0.1, "clip_value": 0.05}])
def test_gradients_are_clipped_as_torch_does_it(options):
    step, model, mine, other, its, batch = pair(**options)
    for seed in range(2):
        torch.manual_seed(seed)
        loss = step(batch)
        torch.manual_seed(seed)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        if "clip_value" in options:
            nn.utils.clip_grad_value_(trained(other), options["clip_value"])
        if "clip_norm" in options:
            nn.utils.clip_grad_norm_(trained(other), options["clip_norm"])
        its.step()
        assert torch.equal(loss, wanted) and differences(model, mine, other, its) == []


def test_accumulated_batches_make_one_update():
    model, batch = make()
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS["adamw_fused"](trained(model)), OPTIMIZERS["adamw_fused"](trained(other))
    batches = [batch, {"x": batch["x"] + 1, "y": batch["y"]}]
    step = lowtide.compile_step(model, loss_fn, mine, batches, accumulate=2)
    torch.manual_seed(0)
    loss = step(batches)
    torch.manual_seed(0)
    losses = [loss_fn(other, each) for each in batches[:1]]
    losses[0].backward()
    losses.append(loss_fn(other, batches[1]))
    losses[1].backward()
    its.step()
    assert torch.equal(loss, losses[0] + losses[1]) and differences(model, mine, other, its) == []


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_tensor_that_the_sample_batch_has_twice_is_two_in_later_batches(engine):
    def difference(model, batch):
        return (model.head(batch[0]) * 2 - model.head(batch[1])).square().mean()

    model, batch = make()
    other, step = copy.deepcopy(model), lowtide.compile_step(
        model, difference, torch.optim.SGD(trained(model), lr=0.1), [batch["x"], batch["x"]], engine=engine, effort=0.1)
    later = [batch["x"], batch["x"] + 1]
    torch.testing.assert_close(step(later), difference(other, later).detach())


def test_aux_holds_numbers_that_the_step_computes_and_what_python_knows():
    def counted(model, batch):
        out = model(batch["x"])
        loss = F.cross_entropy(out, batch["y"])
        shown = {"loss": loss.item(), "more": 2 * loss.item(), "high": batch["x"].max().item() > 20, "seen": (out > 0).sum().item()}
        return loss, {**shown, "name": "a", "none": None, "rate": 0.5, "out": out}

    model, batch = make()
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS["adamw"](trained(model)), OPTIMIZERS["adamw"](trained(other))
    step = lowtide.compile_step(model, counted, mine, batch)
    for scale in (1, 40):
        batch["x"] *= scale
        torch.manual_seed(0)
        loss, aux = step(batch)
        torch.manual_seed(0)
        wanted, its_aux = counted(other, batch)
        its.zero_grad()
        wanted.backward()
        its.step()
        assert torch.equal(aux.pop("out"), its_aux.pop("out")) and torch.equal(loss, wanted)
        assert aux == its_aux and [type(v) for v in aux.values()] == [type(v) for v in its_aux.values()]
        assert aux["high"] == (scale > 1)


def test_autocast_to_bf16_and_aux_results():
    def typed(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch["x"])
        return F.cross_entropy(logits.float(), batch["y"]), {"logits": logits, "count": batch["y"].sum()}

    model, batch = make()
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS["adamw_fused"](trained(model)), OPTIMIZERS["adamw_fused"](trained(other))
    step = lowtide.compile_step(model, typed, mine, batch)
    torch.manual_seed(0)
    loss, aux = step(batch)
    torch.manual_seed(0)
    wanted, other_aux = typed(other, batch)
    wanted.backward()
    its.step()
    assert torch.equal(loss, wanted) and differences(model, mine, other, its) == []
    assert aux["logits"].dtype == torch.bfloat16 and torch.equal(aux["logits"], other_aux["logits"])
    assert torch.equal(aux["count"], other_aux["count"])
    kept = aux["logits"].clone()
    step(batch)
    assert torch.equal(aux["logits"], kept), "results are the caller's"


def test_evaluation_between_steps_is_eager_mode():
    step, model, _, other, its, batch = pair()
    torch.manual_seed(0)
    step(batch)
    torch.manual_seed(0)
    eager_step(other, loss_fn, its, batch)
    with torch.no_grad():
        assert torch.equal(model.eval()(batch["x"]), other.eval()(batch["x"]))


def test_another_shape_is_planned_once_or_refused():
    step, model, mine, other, its, _ = pair()
    _, larger = make(rows=9)
    for seed in range(2):
        torch.manual_seed(seed)
        loss = step(larger)
        torch.manual_seed(seed)
        assert torch.equal(loss, eager_step(other, loss_fn, its, larger))
    assert len(step._ready) == 2 and differences(model, mine, other, its) == []
    fixed, *_ = pair(shapes="fixed")
    with pytest.raises(lowtide.Usage, match=r"\(9, 8\)"):
        fixed(larger)


def test_what_changes_the_graph_makes_a_new_plan():
    step, model, mine, other, its, batch = pair("sgd")
    torch.manual_seed(0)
    step(batch)
    torch.manual_seed(0)
    eager_step(other, loss_fn, its, batch)
    for change in (lambda m: m.eval(), lambda m: m.head.requires_grad_(False), lambda m: m.train()):
        change(model)
        change(other)
        torch.manual_seed(1)
        loss = step(batch)
        torch.manual_seed(1)
        assert torch.equal(loss, eager_step(other, loss_fn, its, batch))
        assert differences(model, mine, other, its) == []
    assert len(step._ready) == 4


# ---- what goes wrong


def untouched(model, before):
    return all(torch.equal(a, before[name]) for name, a in model.state_dict().items())


def test_an_exception_in_an_op_leaves_the_model_as_it_was():
    step, model, *_, batch = pair()
    before, stream = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    with pytest.raises(IndexError) as problem:
        step({"x": batch["x"], "y": batch["y"] + 7})
    assert untouched(model, before) and torch.equal(stream, torch.get_rng_state())
    note = " ".join(problem.value.__notes__)
    assert "as before the step" in note and "test_torch_contract.py" in note


def test_a_loss_that_is_not_finite_can_be_refused():
    step, model, *_, batch = pair(check_finite=True)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(FloatingPointError, match="nan"):
        step({"x": batch["x"] * float("nan"), "y": batch["y"]})
    assert untouched(model, before)


class Rooted(nn.Module):
    """Whose loss is finite where its gradient is not: the root's slope at zero."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.body(x))).abs().sum() + (self.head.weight * x.sum()).square().sum().sqrt()


@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}, {"split": 2}, {"accumulate": 2}])
def test_a_gradient_that_is_not_finite_can_be_refused_though_the_loss_is(options):
    torch.manual_seed(0)
    model, good, bad = Rooted(), torch.ones(6, 4), torch.zeros(6, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    given = (lambda x: [x, good]) if "accumulate" in options else lambda x: x
    step = lowtide.compile_step(model, lambda m, x: m(x), optimizer, given(good), check_finite=True, effort=0.1, **options)
    other = copy.deepcopy(model)
    its = torch.optim.AdamW(other.parameters(), lr=0.1)
    loss = step(given(good))
    assert isinstance(loss, torch.Tensor) and torch.isfinite(loss) and step.memory.beside == 0
    if not options:
        assert torch.equal(loss, eager_step(other, lambda m, x: m(x), its, good)) and differences(model, optimizer, other, its) == []
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    with pytest.raises(FloatingPointError, match="the gradient of 'head.weight' is nan") as problem:
        step(given(bad))
    assert "as before the step" in problem.value.__notes__[0] and untouched(model, before[0])
    after = optimizer.state_dict()["state"]
    assert all(torch.equal(t, before[1][p][k]) for p, state in after.items() for k, t in state.items())
    alone = lowtide.compile_step(model, lambda m, x: m(x), optimizer, given(good), check_finite="loss", effort=0.1, **options)
    alone(given(bad))
    assert not torch.isfinite(model.head.weight).all(), "what check_finite='loss' lets through, as eager mode does"


def test_a_tensor_that_was_exchanged_is_named():
    step, model, *_, batch = pair()
    model.head.weight = nn.Parameter(torch.zeros(3, 8))
    with pytest.raises(lowtide.Usage, match=r"'head.weight' is another tensor"):
        step(batch)


_victims: list[torch.Tensor] = []


@torch.library.custom_op("lowtide_contract::meddle", mutates_args=())
def meddle(x: torch.Tensor) -> torch.Tensor:
    """Changes what it has no business with."""
    for victim in _victims:
        victim.add_(1)
    return x.clone()


meddle.register_fake(lambda x: torch.empty_like(x))
meddle.register_autograd(lambda ctx, grad: grad)


@pytest.mark.parametrize("name", ["head.weight", "frozen.weight", "unused.bias", "norm.running_mean", "norm.num_batches_tracked",
                                  "still", "batch.0", "exp_avg/head.weight"])
def test_a_tensor_that_somebody_changes_during_the_step_is_noticed(name):
    model, batch = make()
    model.register_buffer("still", torch.ones(3))
    optimizer = OPTIMIZERS["adamw_fused"](trained(model))

    def meddled(model, batch):
        return F.cross_entropy(meddle(model(batch["x"])) + model.still, batch["y"])

    step = lowtide.compile_step(model, meddled, optimizer, batch, effort=0.1)
    step(batch)
    before = copy.deepcopy(model.state_dict())
    kinds = {"batch.0": batch["x"], "exp_avg/head.weight": optimizer.state[model.head.weight]["exp_avg"]}
    victim = kinds[name] if name in kinds else dict([*model.named_parameters(), *model.named_buffers()])[name]
    _victims.append(victim.detach())
    try:
        with pytest.raises(lowtide.Usage, match=f"'{name}' .*changed by somebody else"):
            step(batch)
    finally:
        _victims.clear()
    kept = {key: t for key, t in model.state_dict().items() if key != name}
    assert all(torch.equal(t, before[key]) for key, t in kept.items()), "nothing else has changed"
    step(batch)


def test_a_group_whose_update_would_fail_is_found_before_the_first_update():
    step, model, mine, *_, batch = pair("momentum")
    step(batch)
    before, stream = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    mine.param_groups[1]["lr"] = "0.1"
    with pytest.raises((TypeError, ValueError, RuntimeError)) as problem:
        step(batch)
    assert "the optimizer's group 1" in problem.value.__notes__[0] and "as before the step" in problem.value.__notes__[0]
    assert untouched(model, before) and torch.equal(stream, torch.get_rng_state())
    mine.param_groups[1]["lr"] = 0.1
    mine.state[model.head.bias]["momentum_buffer"] = torch.zeros(2)
    with pytest.raises(lowtide.Usage, match=r"'momentum_buffer/head.bias' is torch.float32 \(2,\); when"):
        step(batch)
    assert untouched(model, before)
    mine.state[model.head.bias]["momentum_buffer"] = torch.zeros(3)
    step(batch)
    assert not untouched(model, before)


def test_ctrl_c_is_seen_when_the_step_has_ended():
    step, model, mine, other, its, batch = pair()
    run = step._now.code.run

    def interrupted(given):
        os.kill(os.getpid(), signal.SIGINT)
        return run(given)

    step._now.code.run = interrupted
    torch.manual_seed(0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            step(batch)
    finally:
        signal.signal(signal.SIGINT, before)
    torch.manual_seed(0)
    eager_step(other, loss_fn, its, batch)
    assert differences(model, mine, other, its) == []


def test_a_step_runs_in_another_thread():
    step, model, mine, other, its, batch = pair()
    torch.manual_seed(0)
    worker = threading.Thread(target=step, args=(batch,))
    worker.start()
    worker.join()
    torch.manual_seed(0)
    eager_step(other, loss_fn, its, batch)
    assert differences(model, mine, other, its) == [] and step.memory.beside == 0


def test_kernels_are_timed_again_and_the_next_plan_goes_by_that(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    model, batch, loss_fn = build("gpt2", 0.1)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    state, before = torch.get_rng_state(), {name: p.clone() for name, p in model.named_parameters()}
    monkeypatch.setattr(devices.Cpu, "timed", lambda _, function, given: (function(given), 0.25))
    found = lowtide.measure(step, rounds=2)
    assert [each.name for each in found] == [unit.name for unit in step.planned.captured.units]
    assert all(each.now == 0.25 != each.before for each in found)
    assert torch.equal(state, torch.get_rng_state()) and all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    monkeypatch.undo()
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    again = lowtide.compile_step(model, loss_fn, mine, batch)
    assert again.plan.verdict["once_seconds"] == pytest.approx(0.25 * len(found))
    assert_equal_steps(again, model, mine, other, its, loss_fn, batch, steps=1)


@pytest.mark.parametrize(("options", "rounds", "said"), [
    ({"cache": False}, 1, "cache=False"), ({}, 0, "rounds=0 is no"), ({"engine": "native"}, 1, "engine is native")])
def test_what_cannot_be_timed_again_is_refused(options, rounds, said, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    model = nn.Linear(4, 4)
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1),
                                torch.ones(2, 4), **options)
    with pytest.raises((lowtide.Usage, lowtide.Unsupported), match=said):
        lowtide.measure(step, rounds)


def test_what_makes_no_sense_is_refused_by_name():
    model, batch = make()
    optimizer = torch.optim.AdamW(trained(model))
    refusals = [
        ({"bugdet": 1}, lowtide.Usage, "option 'bugdet' is not known; known are budget"),
        ({"budget": True}, lowtide.Usage, "budget=True"),
        ({"budget": "lots"}, lowtide.Usage, "lots"),
        ({"engine": "cuda"}, lowtide.Usage, "engine='cuda' is none of torch, native, auto"),
        ({"budget": 1000}, lowtide.Infeasible, "every schedule needs at least"),
    ]
    for options, kind, words in refusals:
        with pytest.raises(kind, match=words):
            lowtide.compile_step(model, loss_fn, optimizer, batch, **options)
    with pytest.raises(lowtide.Unsupported, match="torch.optim.lbfgs.LBFGS cannot be planned: its step"):
        lowtide.plan(model, loss_fn, torch.optim.LBFGS(model.parameters()), batch)
    with pytest.raises(lowtide.Usage, match="loss_fn is a int"):
        lowtide.plan(model, 3, optimizer, batch)
    with pytest.raises(lowtide.Usage, match="gave \\(6, 3\\) for a loss"):
        lowtide.plan(model, lambda m, b: m(b["x"]), optimizer, batch)
    with pytest.raises(lowtide.Usage, match="the batch's \\['scale'\\] is the number 0.5: give it as a tensor"):
        lowtide.plan(model, loss_fn, optimizer, {**batch, "scale": 0.5})


def test_a_budget_below_the_floor_names_the_op_and_its_module():
    model, batch = make()
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(model, loss_fn, torch.optim.AdamW(trained(model), fused=True), batch, budget="2KiB")
    line = str(refused.value)
    assert "set by op '" in line and "\n" not in line
    assert any(name in line for name in ("one", "two", "head", "norm", "frozen", "the update of")), line


def test_a_decision_on_the_batch_is_refused_with_the_line():
    def peeks(model, batch):
        if batch["y"].sum() > 3:  # the line that is named
            return loss_fn(model, batch)
        return loss_fn(model, batch) * 2

    model, batch = make()
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_contract.py:\d+: if batch\[\"y\"\].sum\(\) > 3.*contents of a tensor"):
        lowtide.plan(model, peeks, torch.optim.SGD(trained(model), lr=0.1), batch)


def test_plan_alone_changes_nothing():
    model, batch = make()
    before, optimizer = copy.deepcopy(model.state_dict()), OPTIMIZERS["momentum"](trained(model))
    plan = lowtide.plan(model, loss_fn, optimizer, batch)
    assert untouched(model, before) and not optimizer.state
    assert plan.arena_bytes >= plan.peak_bytes >= plan.lower_bound_bytes > 0
    assert "peak" in repr(plan) and "<table>" in plan._repr_html_()
