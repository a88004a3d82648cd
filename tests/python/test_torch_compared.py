"""Nothing is believed that was not compared: each plan's first run against what the plan was made for, and a rehearsal beside eager mode."""

import copy
import functools
import pathlib

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, torch, twin

import lowtide
from lowtide.pytorch import first_run, room
from lowtide.pytorch import step as step_module

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4))
    return model, torch.randn(5, 8)


def loss_of(model, x):
    return model(x).square().mean()


def exchange(step, op, other):
    """The kernel of an op in the step's code is another function."""
    scope = step._now.code.run.__globals__  # both forms of the code have it
    names = [name for name, value in scope.items() if value is op._op]
    assert names, f"no {op} in the step"
    scope.update(dict.fromkeys(names, other))


def transposed(op):
    def kernel(*args, **kwargs):
        made = op(*args, **kwargs)
        return torch.empty_strided(made.shape, (1, made.shape[0]), dtype=made.dtype).copy_(made)
    return kernel


def wider(op):
    return lambda *args, **kwargs: op(*args, **kwargs).double()


def larger(op):
    return lambda *args, **kwargs: torch.cat([op(*args, **kwargs)] * 2)


def in_its_operand(op):
    def kernel(bias, x, *more):
        made = op(bias, x, *more)
        return x.as_strided(made.shape, made.stride())
    return kernel


WRONG = {
    "strides": (aten.addmm.default, transposed), "type": (aten.addmm.default, wider), "shape": (aten.addmm.default, larger),
    "memory of another": (aten.addmm.default, in_its_operand), "view that is a copy": (aten.t.default, lambda op: lambda x: op(x).clone()),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_kernel_that_makes_something_else_than_planned_ends_the_first_step(name, optimizer):
    op, wrong = WRONG[name]
    model, batch = network()
    mine = OPTIMIZERS[optimizer](model.parameters())
    step = lowtide.compile_step(model, loss_of, mine, batch, effort=0.1, rehearse=False)
    exchange(step, op, wrong(op))
    before, stream = copy.deepcopy((model.state_dict(), mine.state_dict())), torch.get_rng_state()
    with pytest.raises(lowtide.Internal, match=op.__name__.split(".")[0]):
        step(batch)
    after = (model.state_dict(), mine.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(before[0].values(), after[0].values(), strict=True))
    assert str(before[1]) == str(after[1]) and torch.equal(stream, torch.get_rng_state())


def test_later_steps_do_not_look():
    model, batch = network()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, loss_of, mine, batch, effort=0.1)
    assert_equal_steps(step, model, mine, other, its, loss_of, batch)
    assert step._now.looked and "seen(" not in step.source
    exchange(step, aten.mm.default, transposed(aten.mm.default))
    step(batch)  # a kernel that changes its mind later is nobody's


# ---- the rehearsal


def with_kernel(monkeypatch, op, other):
    """Plans run another function in the place of a kernel."""
    generate = step_module.generate

    def generated(*them):
        made = generate(*them)
        scope = made.run.__globals__
        scope.update(dict.fromkeys([name for name, value in scope.items() if value is op._op], other))
        return made

    monkeypatch.setattr(step_module, "generate", generated)


def doubled(op):
    return lambda *args, **kwargs: op(*args, **kwargs) * 2


def with_other_statistics(op):
    return lambda x, w, b, mean, var, training, momentum, eps: op(x, w, b, mean, var, training, momentum / 2, eps)


def drawing_once_more(op):
    def kernel(*args, **kwargs):
        torch.default_generator.manual_seed(5)
        return op(*args, **kwargs)
    return kernel


SILENT = {
    "a gradient": (aten.mm.default, doubled, "the gradient of"),
    "the loss": (aten.mean.default, doubled, "the loss"),
    "a buffer": (aten.native_batch_norm.default, with_other_statistics, "running_mean"),
    "the random stream": (aten.mean.default, drawing_once_more, "the random stream"),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_step_that_is_not_eager_modes_is_an_internal_error_and_nothing_changes(name, monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    op, wrong, said = SILENT[name]
    model, batch = network()
    mine = OPTIMIZERS["adamw"](model.parameters())
    kept = model[0].weight.grad = torch.ones_like(model[0].weight)
    before, stream = copy.deepcopy((model.state_dict(), mine.state_dict())), torch.get_rng_state()
    with_kernel(monkeypatch, op, wrong(op))
    with pytest.raises(lowtide.Internal, match=said) as told:
        lowtide.compile_step(model, loss_of, mine, batch, effort=0.1, rehearse=True)
    assert all(torch.equal(a, b) for a, b in zip(before[0].values(), model.state_dict().values(), strict=True))
    assert str(before[1]) == str(mine.state_dict()) and torch.equal(stream, torch.get_rng_state())
    assert model[0].weight.grad is kept and bool((kept == 1).all()) and model[3].weight.grad is None
    folder = pathlib.Path(str(told.value).rsplit(" ", 1)[1])
    assert {f.name for f in folder.iterdir()} == {"differences.txt", "graph.txt", "step.py.txt", "versions.json", "plan.lt"}
    assert said in (folder / "differences.txt").read_text()
    assert lowtide.compile_step(model, loss_of, mine, batch, effort=0.1, rehearse=False).rehearsal == ""


def test_a_rehearsed_model_is_as_before():
    model, batch = network()
    mine = OPTIMIZERS["sgd"](model.parameters())
    calls = []

    def loss_fn(model, x):
        calls.append(type(x))
        return loss_of(model, x)

    before, stream = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    versions = [t._version for t in model.state_dict().values()]
    step = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.1, rehearse=True)
    assert step.rehearsal == "rehearsed beside eager mode: equal bits" and step.rehearsal in repr(step)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    assert versions == [t._version for t in model.state_dict().values()]
    assert torch.equal(stream, torch.get_rng_state()) and not mine.state_dict()["state"]
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("options", [{"clip_norm": 0.1}, {"clip_value": 0.01}, {"accumulate": 2}, {"check_finite": True}, {"swap": "host"}], ids=str)
def test_options_that_change_gradients_are_part_of_the_rehearsal(options):
    model, batch = network()
    batch = [batch, batch * 2] if "accumulate" in options else batch
    step = lowtide.compile_step(model, loss_of, OPTIMIZERS["sgd"](model.parameters()), batch, effort=0.1, rehearse=True, **options)
    assert step.rehearsal == "rehearsed beside eager mode: equal bits"


def test_parts_are_compared_within_a_tolerance():
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4)), torch.randn(8, 8)
    step = lowtide.compile_step(model, loss_of, OPTIMIZERS["sgd"](model.parameters()), batch, effort=0.1, rehearse=True, split="samples:4")
    assert step.parts == 4 and "within a tolerance, as sums add in another order" in step.rehearsal


def test_eager_mode_that_is_not_equal_to_itself_is_a_tolerance():
    model, batch = network()
    counted = functools.lru_cache(lambda thing: thing)  # how often it was called is C's, which no walk sees

    def loss_fn(model, x):
        counted(object())
        return loss_of(model, x) * (1 + counted.cache_info().misses * 1e-6)

    step = lowtide.compile_step(model, loss_fn, OPTIMIZERS["sgd"](model.parameters()), batch, effort=0.1, rehearse=True)
    assert "eager mode is not equal to itself" in step.rehearsal


def test_where_there_is_no_room_it_is_refused(monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda device: 0)
    model, batch = network()
    mine = OPTIMIZERS["sgd"](model.parameters())
    with pytest.raises(lowtide.Usage, match="rehearse=True cannot be"):
        lowtide.compile_step(model, loss_of, mine, batch, effort=0.1, rehearse=True)
    with pytest.raises(lowtide.Usage, match="rehearse="):
        lowtide.compile_step(model, loss_of, mine, batch, rehearse="yes")


def test_a_sample_batch_that_eager_mode_refuses_is_not_rehearsed():
    model = nn.Linear(8, 4)
    batch = (torch.randn(5, 8), torch.full((5,), 9))
    step = lowtide.compile_step(model, lambda m, b: F.cross_entropy(m(b[0]), b[1]), OPTIMIZERS["sgd"](model.parameters()), batch, effort=0.1, rehearse=True)
    assert step.rehearsal == "not rehearsed: eager mode raises IndexError"
    assert torch.isfinite(step((batch[0], batch[1] - 8)))


def test_strides_of_one_element_are_no_difference():
    """A view may have any stride along one element (windows of Swin, one head of keys); every other stride counts."""
    whole = torch.zeros(64)
    assert first_run._lies_alike(whole.as_strided((2, 1, 4), (4, 4, 1)), (4, 1, 1))
    assert first_run._lies_alike(whole[:0].view(0, 4), (9, 9))
    assert not first_run._lies_alike(whole.as_strided((2, 1, 4), (4, 4, 1)), (8, 4, 1))
    assert not first_run._lies_alike(whole.as_strided((2, 4), (1, 2)), (4, 1))
