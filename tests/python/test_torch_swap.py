"""Steps whose values, parameters and states move to host memory and back: within budgets that nothing else reaches, equal to
eager mode bit for bit, at planned addresses; and what a copy that fails leaves behind."""

import copy
import functools
import itertools
import re
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from torch_models import LARGE_IMAGES, OPTIMIZERS, assert_equal_steps, build, differences, eager_step, torch, trained, twin

import lowtide
from lowtide import _library

LINK = {"swap": "host", "link": "4GiB/s"}


@pytest.fixture(autouse=True)
def equal_seconds(monkeypatch):
    """Every op is measured as half a millisecond, so the plans, and with them what moves when, are the same on any machine."""
    ticks = itertools.count()
    monkeypatch.setattr("lowtide.pytorch.devices.time", SimpleNamespace(perf_counter=lambda: next(ticks) * 5e-4))


def floor_of(*step, **options):
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(*step, budget=1, effort=0.05, **options)
    return int(re.search(r"needs at least (\d+) bytes", str(refused.value))[1])


@functools.cache
def below_the_floor(name, dropout, optimizer):
    """A budget that no schedule keeps in which nothing moves, and one that does keeps easily."""
    model, batch, loss_fn = build(name, dropout, **LARGE_IMAGES)
    mine = OPTIMIZERS[optimizer](trained(model))
    without, least = (floor_of(model, loss_fn, mine, batch, **options) for options in ({}, LINK))
    assert least < without
    return without - (without - least) // 3


def swapped(name, dropout=0.1, optimizer="adamw", **options):
    """(step, model, its optimizer), (eager model, its optimizer), loss_fn, batch"""
    model, batch, loss_fn = build(name, dropout, **LARGE_IMAGES)
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    budget = below_the_floor(name, dropout, optimizer)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=budget, effort=0.1, **LINK, **options)
    assert step.plan.arena_bytes <= budget
    return step, model, mine, other, its, loss_fn, batch


@pytest.mark.parametrize(("name", "threads"), [("gpt2", 1), ("bert", 2), ("resnet", 1)])
def test_three_steps_within_what_only_transfers_reach_are_equal_to_eager_mode(name, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        step, *rest = swapped(name)
        assert_equal_steps(step, *rest)
    finally:
        torch.set_num_threads(before)
    memory, moves = step.memory, step._now.code.transfers
    assert memory.beside == 0 and memory.planned > 0 and memory.top_bytes <= memory.arena_bytes
    assert memory.arena_bytes + memory.resident_bytes == step.plan.arena_bytes, "what is away is not counted"
    assert memory.loaded_bytes >= memory.home_bytes > 0 and memory.stored_bytes > 0
    assert memory.host_bytes == moves.memory.nbytes and bool(moves.slots) == (memory.host_bytes > 0)
    assert "of host memory for values that are away" in repr(step)


def test_values_that_are_away_come_back_to_the_addresses_of_the_plan():
    step, *_, batch = swapped("resnet")
    moves, arena, seen = step._now.code.transfers, step._now.arena, []
    load, base = moves.load, step._now.arena.allocator.library.lt_arena_base(arena.handle)
    names = step._now.code.run.__globals__

    def watched(storage):
        made = load(storage)
        seen.append((storage in moves.homes, made.untyped_storage().data_ptr() - base))
        return made

    names["load"] = watched
    step(batch)
    resident = step.memory.resident_bytes
    wanted = [s.address for s in step.plan.steps() if s.kind == _library.LOAD]
    # Residents lie below all else here, so an offset is the plan's address less their bytes.
    assert [at + resident for _, at in seen] == wanted
    assert {home for home, _ in seen} == {True, False}, "values move as well as what is there before the step"


def test_running_statistics_that_move_are_kept():
    """The plan takes them for read only, so it never stores them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 512), torch.nn.BatchNorm1d(512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
    batch, (other, mine, its) = (torch.randn(6, 4), torch.randn(6, 64)), twin(model, OPTIMIZERS["sgd"])

    def loss_fn(model, batch):
        return torch.nn.functional.mse_loss(model(batch[0]), batch[1])

    least = floor_of(model, loss_fn, mine, batch, **LINK)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=least + 2048, effort=0.1, **LINK)
    program, moves = step._now.planned.captured.program, step._now.code.transfers
    moved = {program.storages[s].name for s in moves.homes}
    assert {"1.running_mean", "1.running_var"} <= moved, moved
    assert "write_back(" in step.source
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)


def test_without_the_allocator_values_move_just_so(monkeypatch):
    for user in ("step", "planning"):
        monkeypatch.setattr(f"lowtide.pytorch.{user}.allocator", lambda _: None)
    step, *rest = swapped("resnet")
    assert not step.addresses
    assert_equal_steps(step, *rest)
    assert step.memory.loaded_bytes > 0 and step.memory.planned == 0


class LostError(Exception):
    pass


def waited_copies(monkeypatch, step, failing=None):
    """Of each copy, in the order of the plan, whether an update had begun when the step waited for it, which is where its
    failure shows; that of the number `failing` fails."""
    moves, names, number, waited = step._now.code.transfers, step._now.code.run.__globals__, {}, []
    begin, wait = moves.begin, names["wait"]

    def begun(direction, storage, copies):
        number[storage] = len(waited)
        waited.append(None)
        begin(direction, storage, [] if number[storage] == failing else copies)
        if number[storage] == failing:
            moves.under_way[storage].result()
            moves.under_way[storage] = lost = Future()
            lost.set_exception(LostError(f"copy {failing}"))

    def ended(storage):
        waited[number[storage]] = step._updating
        wait(storage)

    monkeypatch.setattr(moves, "begin", begun)
    monkeypatch.setitem(names, "wait", ended)
    return waited


def copies_of_a_step(monkeypatch, step, *rest):
    """Every step makes the copies of its plan: one shows which are waited for before an update, and which in it."""
    with monkeypatch.context() as patch:
        waited = waited_copies(patch, step)
        assert_equal_steps(step, *rest, steps=1)
    return waited


def test_a_copy_that_fails_before_the_update_leaves_the_model_as_it_was(monkeypatch):
    step, model, mine, other, its, loss_fn, batch = swapped("resnet")
    copies = copies_of_a_step(monkeypatch, step, model, mine, other, its, loss_fn, batch)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    with monkeypatch.context() as patch:
        waited_copies(patch, step, failing=copies.index(False))
        with pytest.raises(LostError) as failed:
            step(batch)
    assert "the model is as before the step" in failed.value.__notes__[0]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    del failed
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=1)


def test_a_copy_that_fails_behind_an_update_leaves_each_parameter_with_its_own_state(monkeypatch):
    step, model, mine, other, its, loss_fn, batch = swapped("resnet")
    copies = copies_of_a_step(monkeypatch, step, model, mine, other, its, loss_fn, batch)
    in_update = [number for number, updating in enumerate(copies) if updating]
    assert differences(model, mine, other, its) == []
    with monkeypatch.context() as patch:
        waited_copies(patch, step, failing=in_update[len(in_update) // 2])
        with pytest.raises(LostError) as failed:
            torch.manual_seed(0)
            step(batch)
    assert "some parameters are updated and some are not" in failed.value.__notes__[0]
    torch.manual_seed(0)
    untouched = copy.deepcopy(other.state_dict())
    old_state = {name: copy.deepcopy(its.state[value]) for name, value in other.named_parameters()}
    eager_step(other, loss_fn, its, batch)
    updated = 0
    for (name, mine_now), its_now in zip(model.named_parameters(), other.parameters(), strict=True):
        parts = [(mine_now, its_now, untouched[name])]
        parts += [(mine.state[mine_now][k], its.state[its_now][k], old_state[name][k])
                  for k in ("exp_avg", "exp_avg_sq", "step")]
        after = [torch.equal(a, new) for a, new, _ in parts]
        as_before = [torch.equal(a, old) for a, _, old in parts]
        assert all(after) or all(as_before), (name, after, as_before)
        updated += all(after) and not all(as_before)
    assert 0 < updated < len(list(other.parameters()))


def test_a_room_too_small_for_what_should_move_is_kept():
    model, batch, loss_fn = build("resnet", 0.1, **LARGE_IMAGES)
    mine = OPTIMIZERS["adamw"](trained(model))
    budget = below_the_floor("resnet", 0.1, "adamw")
    plan = lowtide.plan(model, loss_fn, mine, batch, budget=budget, effort=0.1, swap="host=2MiB", link=4e9)
    slots = [s.slow_address + s.bytes for s in plan.storages() if s.slow_address >= 0]
    assert slots and max(slots) <= 2 << 20


class Counted(torch.nn.Module):
    """Adds to a buffer of its own in place."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))
        self.register_buffer("sums", torch.zeros(16, 16))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        self.sums.add_(x.detach().T @ x.detach())
        return x


def test_a_buffer_written_in_its_copy_and_a_momentum_that_moves_before_its_first_step():
    torch.manual_seed(0)
    model, x = Counted(), torch.randn(16, 16)
    other, mine, its = twin(model, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.3))
    rest = model, mine, other, its, lambda m, batch: m(batch).square().mean(), x
    step = lowtide.compile_step(model, rest[4], mine, x, budget="50%", effort=0.1, **LINK)
    names = {step._now.planned.captured.program.storages[s].name for s in step._now.code.transfers.homes}
    assert "sums" in names and any(name.startswith("momentum_buffer/") for name in names)
    assert_equal_steps(step, *rest)
