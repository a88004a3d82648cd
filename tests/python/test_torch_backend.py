"""torch.compile(model, backend="lowtide"): loss, gradients and buffers are eager mode's bit for bit, and what the forward pass saves
shrinks with the budget."""

import collections
import copy
import importlib
import json
import os
import weakref

import pytest
from lowtide_cli import ROOT
from torch.utils._python_dispatch import TorchDispatchMode
from torch_models import build, differences, torch

from lowtide.pytorch import backend, planning, transfers

nn, F = torch.nn, torch.nn.functional
OPTIONS = {"effort": 0.2}
NETWORKS = ["gpt2", "resnet", "transformer", "bert"] if os.environ.get("LOWTIDE_LONG") else ["gpt2", "resnet"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backend.last_plans.clear()


def register():
    if "lowtide" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(backend.lowtide, name="lowtide")


def both(name, options, dropout=0.1, steps=2):
    """Compiled and eager mode, each with the user's own loop."""
    register()
    model, batch, loss_fn = build(name, dropout)
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="lowtide", fullgraph=True, dynamic=False, options=options)
    mine, its = (torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=0.01) for m in (model, other))
    for seed in range(steps):
        for m, run, optimizer in ((model, compiled, mine), (other, other, its)):
            torch.manual_seed(seed)
            optimizer.zero_grad()
            loss = loss_fn(run, batch)
            loss.backward()
            m.last = float(loss.detach())
            optimizer.step()
        assert model.last == other.last
        for (key, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None) and (a.grad is None or torch.equal(a.grad, b.grad)), key
        assert differences(model, mine, other, its) == []
    return model


@pytest.mark.parametrize("name", NETWORKS)
def test_a_loop_with_the_backend_is_eager_mode(name):
    both(name, OPTIONS)
    assert len(backend.last_plans) == 1


def test_batch_norms_are_functional_and_their_statistics_are_copied_into_the_buffers():
    register()
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)), torch.randn(5, 4)
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="lowtide", fullgraph=True, dynamic=False, options=OPTIONS)
    for _ in range(2):
        for each in (run, other):
            each(x).square().sum().backward()
    for (name, a), (_, b) in zip(model.state_dict().items(), other.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    kinds = [name for name in backend.last_plans[-1].op_names() if "batch_norm" in name and "backward" not in name]
    assert kinds and all("_native_batch_norm_legit_functional" in name for name in kinds)


@pytest.mark.parametrize("causal", [False, True])
def test_a_target_mask_is_looked_into_and_breaks_the_graph_unless_it_is_said_to_be_causal(causal):
    register()
    model, batch, loss_fn = build("transformer", 0.0)
    model.causal = causal
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="lowtide", fullgraph=causal, dynamic=False, options=OPTIONS)
    for each in (run, other):
        loss_fn(each, batch).backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert (len(backend.last_plans) == 1) == causal


def test_a_budget_is_kept_by_running_ops_again():
    both("unet", OPTIONS)
    best = backend.last_plans[-1].arena_bytes
    torch._dynamo.reset()
    both("unet", {**OPTIONS, "budget": best * 9 // 10})
    plan = backend.last_plans[-1]
    ran = [step.op for step in plan.steps() if step.kind == 0]
    assert plan.arena_bytes <= best * 9 // 10 and len(ran) > len(set(ran))


@pytest.mark.parametrize("name", ["gpt2", "resnet"] if os.environ.get("LOWTIDE_LONG") else ["gpt2"])
def test_a_budget_is_kept_by_moves_to_host_memory(name):
    both(name, OPTIONS, steps=1)
    best = backend.last_plans[-1].arena_bytes
    torch._dynamo.reset()
    both(name, {**OPTIONS, "budget": best * 6 // 10, "swap": "host", "link": "4GiB/s"})
    plan = backend.last_plans[-1]
    kinds = [(step.kind, plan.storages()[step.storage].home_slow) for step in plan.steps() if step.kind in (2, 3)]
    assert plan.arena_bytes <= best * 6 // 10
    assert {(2, False), (3, False), (3, True)} <= set(kinds), "values leave and come back, inputs come from their homes"
    assert not transfers._copying, "every copy has been waited for"


class Watch(TorchDispatchMode):
    """Counts ops, and the bytes of the storages that are alive: each enters when an op gives it out
    and leaves when it dies."""

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __init__(self, given):
        super().__init__()
        self.ops, self.known, self.live = collections.Counter(), set(), 0
        for tensor in given:
            self.add(tensor.detach())
        self.peak = self.live

    def add(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.known:
            self.known.add(storage._cdata)
            self.live += storage.nbytes()
            weakref.finalize(storage, self.remove, storage._cdata, storage.nbytes())

    def remove(self, key, size):
        self.known.discard(key)
        self.live -= size

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        self.ops[str(function)] += 1
        for leaf in torch.utils._pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        self.peak = max(self.peak, self.live)
        return result


def layers():
    """Cheap to compile: views, writes in place, statistics, random numbers."""
    torch.manual_seed(0)
    body = [nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.1))
            for _ in range(4)]
    batch = torch.randn(256, 8), torch.randint(0, 8, (256,))
    return nn.Sequential(*body), batch, lambda m, b: F.cross_entropy(m(b[0]), b[1])


@pytest.mark.parametrize("name", ["layers", *(NETWORKS if os.environ.get("LOWTIDE_LONG") else [])])
def test_every_op_runs_as_often_as_planned_and_no_value_outlives_its_last_use(name, monkeypatch):
    cuts, halves = [], backend.halves
    monkeypatch.setattr(backend, "halves", lambda *them: cuts.append(them) or halves(*them))
    model, batch, loss_fn = layers() if name == "layers" else build(name, 0.1)
    step = nn.Module()  # the loss in the graph too, so that nothing is outside of the plan
    step.model, step.forward = model, lambda: loss_fn(model, batch)
    for budget in ({}, {"budget": "90%"}):
        torch._dynamo.reset()
        run = torch.compile(step, backend=backend.lowtide, fullgraph=True, dynamic=False,
                            options={**OPTIONS, **budget})
        run().backward()
        model.zero_grad()
        given = [*model.parameters(), *model.buffers(), *torch.utils._pytree.tree_leaves(batch)]
        with Watch(given) as watch:
            run().backward()
        model.zero_grad()
        cut, early, later = cuts[-1][:3]
        calls = [call for _, i in early + later for call in cut.units[i].calls if not call.view]
        wanted = collections.Counter(str(call.target) for call in calls)
        views = {str(call.target) for call in cut.program.calls if call.view}
        views |= {"aten.detach.default", "aten.alias.default"}
        ran = {op: n for op, n in watch.ops.items() if op not in views}
        assert ran == {**wanted, "aten.ones_like.default": 1}, "and the gradient of the loss"
        plan, storages = backend.last_plans[-1], len(cut.program.storages)
        assert plan.peak_bytes - 64 * storages <= watch.peak <= plan.peak_bytes
    assert len(early + later) > len(set(early + later)), "nothing ran again"


def test_gradients_that_come_from_outside_are_not_made_again(monkeypatch):
    """To a plan the op that makes them is the cheapest of all; what it makes is used first and last."""

    class Outputs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            first = self.layers[0](x)
            y = first
            for layer in self.layers[1:]:
                y = torch.tanh(layer(y))
            return first, y

    torch.manual_seed(0)
    model, x, cuts, halves = Outputs(), torch.randn(512, 8), [], backend.halves
    monkeypatch.setattr(backend, "halves", lambda *them: cuts.append(them) or halves(*them))
    other = copy.deepcopy(model)
    for budget in ("90%", "80%"):
        torch._dynamo.reset()
        run = torch.compile(model, backend=backend.lowtide, fullgraph=True, dynamic=False,
                            options={**OPTIONS, "budget": budget})
        for forward, its in ((run, model), (other, other)):
            its.zero_grad()
            first, last = forward(x)
            (first.square().sum() + last.sum()).backward()
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)
        cut, early, later = cuts[-1][:3]
        assert cut.boundary not in early + later and len(later) > len(set(later) - set(early))


@pytest.mark.parametrize("dynamic", [None, True])
def test_each_size_of_a_batch_is_planned_within_the_budget_once(dynamic, recwarn):
    """Dynamo hands over a graph with symbolic sizes, at once or at the second size."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    other = copy.deepcopy(model)
    run = torch.compile(model, backend=backend.lowtide, fullgraph=True, dynamic=dynamic,
                        options={**OPTIONS, "budget": "100%"})
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    for k, count in enumerate((4, 7, 5, 7, 5)):
        batch = torch.randn(count, 8), torch.randint(0, 3, (count,))
        for called, m, optimizer in ((run, model, mine), (other, other, its)):
            torch.manual_seed(k)
            optimizer.zero_grad()
            m.last = F.cross_entropy(called(batch[0]), batch[1])
            m.last.backward()
            optimizer.step()
        assert torch.equal(model.last, other.last) and differences(model, mine, other, its) == []
    arenas = [plan.arena_bytes for plan in backend.last_plans]
    assert len(arenas) == 3 and arenas[0] < arenas[2] < arenas[1], arenas
    assert not [w for w in recwarn if "lowtide" in str(w.message)]


def test_another_size_can_be_refused_by_pytorch_itself():
    model = nn.Linear(8, 3)
    run = torch.compile(model, backend=backend.lowtide, options=OPTIONS)
    run(torch.randn(4, 8)).sum().backward()
    with torch._dynamo.config.patch(error_on_recompile=True):
        with pytest.raises(torch._dynamo.exc.RecompileError):
            run(torch.randn(7, 8))
        run(torch.randn(4, 8)).sum().backward()
    assert len(backend.last_plans) == 1


def test_a_budget_of_a_graph_that_breaks_is_that_of_each_piece_and_one_warning_says_so(recwarn):
    model, batch, _ = layers()

    def broken(b):
        y = model(b[0])
        torch._dynamo.graph_break()
        return F.cross_entropy(y, b[1])

    options = {**OPTIONS, "budget": "1MiB"}
    torch.compile(broken, backend=backend.lowtide, dynamic=False, options=options)(batch).backward()
    told = [str(w.message) for w in recwarn if "lowtide: the graph breaks" in str(w.message)]
    assert len(backend.last_plans) == 2 and len(told) == 1
    assert "within the whole budget" in told[0] and "fullgraph=True" in told[0]


def test_plans_and_what_was_measured_are_kept_between_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    asked, measured = [], []
    plan_text, measure_all = planning.plan_text, planning.measure_all
    monkeypatch.setattr(planning, "plan_text", lambda *them: asked.append(1) or plan_text(*them))
    monkeypatch.setattr(planning, "measure_all", lambda *them: measured.append(1) or measure_all(*them))
    model, batch, loss_fn = layers()
    other = copy.deepcopy(model)
    for options, plans, rows in (({}, 1, 1), ({}, 1, 1), ({"budget": "100%"}, 2, 1), ({"cache": False}, 3, 2)):
        torch._dynamo.reset()
        run = torch.compile(model, backend=backend.lowtide, dynamic=False, options={**OPTIONS, **options})
        for called, its in ((run, model), (other, other)):
            torch.manual_seed(0)
            its.zero_grad()
            loss_fn(called, batch).backward()
        assert (len(asked), len(measured)) == (plans, rows), options
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)


def test_a_graph_that_breaks_is_planned_in_pieces():
    """As where a loss logs a warning (GPT-2 of transformers without a loss_type)."""
    model, batch, loss_fn = layers()

    def broken(run, b):
        y = run(b[0])
        torch._dynamo.graph_break()
        return F.cross_entropy(y, b[1])

    other = copy.deepcopy(model)
    pieces = torch.compile(broken, backend=backend.lowtide, dynamic=False, options=OPTIONS)
    for run, its in ((pieces, model), (loss_fn, other)):
        torch.manual_seed(0)
        its.last = run(its, batch)
        its.last.backward()
    assert len(backend.last_plans) == 2 and torch.equal(model.last, other.last)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)


def test_a_trainer_of_hugging_face_trains_as_in_eager_mode(capsys):
    for name in ("transformers", "accelerate"):
        pytest.importorskip(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples/pytorch"))
        importlib.import_module("trainer").main()
    assert "1 plan, arena" in capsys.readouterr().out


TRAINERS = [{"gradient_accumulation_steps": 2}, {"gradient_checkpointing": True}, {"bf16": True},
            {"dataloader_drop_last": False, "per_device_train_batch_size": 3}]


@pytest.mark.skipif(not os.environ.get("LOWTIDE_LONG"), reason="long")
@pytest.mark.parametrize("arguments", TRAINERS, ids=lambda them: next(iter(them)))
def test_what_a_trainer_may_be_told_beside(arguments, tmp_path, monkeypatch):
    for name in ("transformers", "accelerate"):
        pytest.importorskip(name)
    monkeypatch.syspath_prepend(str(ROOT / "examples/pytorch"))
    trainer = importlib.import_module("trainer")
    model, other = trainer.network(), trainer.network()
    for m in (model, other):
        for layer in m.modules() if "bf16" in arguments else ():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0  # under autocast its gradients are not eager mode's bits, in no backend
    model.compile(backend=backend.lowtide, options={"budget": "90%", **OPTIONS}, dynamic=False)
    assert trainer.trained(model, str(tmp_path), **arguments) == trainer.trained(other, str(tmp_path), **arguments)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    shapes = 2 if "dataloader_drop_last" in arguments else 1
    assert len(backend.last_plans) == shapes, "one for each size of batch"


def test_training_arguments_take_no_backend_that_accelerate_does_not_list(tmp_path):
    for name in ("transformers", "accelerate"):
        pytest.importorskip(name)
    register()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples/pytorch"))
        trainer = importlib.import_module("trainer")
    with pytest.raises(ValueError, match="'LOWTIDE' is not a valid DynamoBackend"):
        trainer.trained(trainer.network(), str(tmp_path), torch_compile_backend="lowtide")


def test_evaluation_takes_the_same_backend():
    register()
    model, batch, loss_fn = build("resnet")
    compiled = torch.compile(model.eval(), backend="lowtide", dynamic=False)
    with torch.no_grad():
        assert torch.equal(loss_fn(compiled, batch), loss_fn(model, batch))


def test_options_that_are_not_known_are_named():
    register()
    model, batch, loss_fn = build("lora")
    with pytest.raises(Exception, match="option 'bugdet' of backend lowtide is not known; known are budget"):
        loss_fn(torch.compile(model, backend="lowtide", options={"bugdet": 1}), batch)


def test_its_plans_say_which_line_each_op_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))  # a plan that was kept says the lines of then
    register()
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def loss(x):
        return model(x).tanh().sum()

    torch.compile(loss, backend="lowtide")(torch.randn(3, 8)).backward()
    backend.last_plans[-1].save(tmp_path / "joint.lt")
    ops = json.loads((tmp_path / "joint.lt").read_text())["ops"]
    line = loss.__code__.co_firstlineno + 1
    told = {op["name"].split(":")[1]: op.get("source") for op in ops}
    for name in ("addmm", "relu", "tanh", "tanh_backward", "mm"):
        assert told[name] == f"python/test_torch_backend.py:{line}", told
