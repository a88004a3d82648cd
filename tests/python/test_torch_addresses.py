"""Every allocation of a step lies where the plan says, and a counting allocator that knows nothing of plans sees the same peak."""

import copy
import ctypes
import gc
import os
import pathlib
import subprocess
import sys

import pytest
from lowtide_cli import ROOT
from torch_models import LARGE_IMAGES, OPTIMIZERS, build, eager_step, torch, trained, twin

import lowtide
from lowtide import cache
from lowtide.pytorch import addresses

SOURCE = pathlib.Path(__file__).with_name("counting_allocator.cpp")
STREAM = 5056  # bytes of the random stream's state
NETWORKS = ["gpt2", "resnet", "unet", "convnext", "t5"] if os.environ.get("LOWTIDE_LONG") else ["gpt2", "resnet", "unet"]


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    if addresses.compiler() is None:
        pytest.skip("no C++ compiler")
    assert addresses.allocator() is not None, "the planned allocator lies below"
    path = tmp_path_factory.mktemp("counting") / "counting.so"
    command = addresses._command(addresses.compiler(), "cpu", path)
    subprocess.run([str(SOURCE) if part == str(addresses._source("cpu")) else part for part in command], check=True)
    library = ctypes.CDLL(str(path))
    library.count_begin.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
    for name in ("count_peak", "count_live", "count_reach"):
        getattr(library, name).restype = ctypes.c_longlong
    return library


def state_bytes(optimizer):
    return sum(t.nbytes for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_is_the_plans_arena(counting, name):
    model, batch, loss_fn = build(name, 0.1, **LARGE_IMAGES)
    optimizer = OPTIMIZERS["adamw"](trained(model))
    step = lowtide.compile_step(model, loss_fn, optimizer, batch, effort=0.2)
    arena, size = step._now.arena, step._now.code.arena_bytes
    for turn in range(2):  # the first step counts: what it makes to keep is in the plan, too
        gc.collect()
        counting.count_begin(arena.allocator.library.lt_arena_base(arena.handle), size)
        loss = step(batch)
        peak, memory, plan = counting.count_peak(), step.memory, step.plan
        draws = any(value.name.startswith("random.") for value in plan.given())
        saved = sum(b.nbytes for b in model.buffers() if name != "gpt2")
        assert memory.kept_bytes == saved + loss.nbytes + (0 if draws else STREAM)
        assert memory.beside == 0 and plan.arena_bytes == memory.resident_bytes + memory.arena_bytes
        assert memory.arena_bytes == memory.held_bytes == size
        assert size - 64 < counting.count_reach() <= size, "sizes are rounded up to 64"
        kept = saved + state_bytes(optimizer) if turn == 0 else 0  # the state is a resident of the plan
        assert 0.9 * (plan.peak_bytes - memory.resident_bytes) <= peak, "scratch may go before results come"
        assert peak <= size + STREAM + loss.nbytes + kept
        assert loss.nbytes + kept <= memory.kept_bytes + state_bytes(optimizer)
        assert counting.count_live() == loss.nbytes + kept, "nothing else stays"
        del loss


def test_results_that_are_handed_out_are_in_the_plan(counting):
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = torch.nn.Embedding(400, 8), torch.nn.Linear(8, 400)

        def forward(self, ids):
            return self.head(self.words(ids))

    def loss_fn(model, ids):
        logits = model(ids)
        return torch.nn.functional.cross_entropy(logits, ids), {"logits": logits}

    model, ids = Words(), torch.randint(0, 400, (500,))
    optimizer = OPTIMIZERS["adamw"](trained(model))
    step = lowtide.compile_step(model, loss_fn, optimizer, ids, effort=0.1)
    gc.collect()
    counting.count_begin(None, 0)
    loss, aux = step(ids)
    memory, size = step.memory, aux["logits"].nbytes
    assert memory.kept_bytes == size + loss.nbytes + STREAM and memory.beside == 0
    assert counting.count_live() == size + loss.nbytes + state_bytes(optimizer), "the first step makes the state"
    resident = sum(t.nbytes for t in model.parameters()) * 3 + ids.nbytes
    assert resident + memory.kept_bytes <= memory.resident_bytes <= resident + memory.kept_bytes + 2000
    assert step.plan.arena_bytes == memory.arena_bytes + memory.resident_bytes
    assert "of copies of buffers and of results" in repr(step)


@pytest.mark.parametrize("kind", ["table", "pointwise", "convolution"])
def test_measuring_takes_no_more_than_the_step(counting, kind):
    """Of what is large in turn: parameters and state that an update writes, results in their operands' places, and both
    ways to compute a gradient."""
    net = {"table": lambda: torch.nn.Sequential(torch.nn.Embedding(8192, 128), torch.nn.Linear(128, 4)),
           "pointwise": lambda: torch.nn.Sequential(torch.nn.Linear(4, 2048), torch.nn.GELU(), torch.nn.Softmax(-1), torch.nn.Tanh()),
           "convolution": lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 3, padding=1))}
    inputs = {"table": lambda: torch.randint(0, 8192, (4, 8)), "pointwise": lambda: torch.randn(500, 4),
              "convolution": lambda: torch.randn(2, 3, 64, 64)}
    model, batch = net[kind](), inputs[kind]()
    optimizer = OPTIMIZERS["adamw"](trained(model))
    eager_step(model, lambda m, b: m(b).square().mean(), optimizer, batch)  # the optimizer has its state
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    counting.count_begin(None, 0)
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), optimizer, batch, effort=0.1, cache=False, rehearse=False)
    assert counting.count_peak() <= step._now.code.arena_bytes + 64 * 1024, "beside small values of the capture"


def pages_in(arena):
    """Bytes of the arena for which the system has given memory."""
    page, begin = os.sysconf("SC_PAGESIZE"), arena.allocator.library.lt_arena_base(arena.handle)
    count = -(-arena.bytes // page)
    with pathlib.Path("/proc/self/pagemap").open("rb") as file:
        file.seek(begin // page * 8)
        entries = memoryview(file.read(8 * count)).cast("Q")
    return page * sum(entry >> 63 for entry in entries)


class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Tanh(), torch.nn.Dropout(0.1),
                                          torch.nn.Linear(64, 64))

    def forward(self, x):
        return self.layers(x)


def sums(model, batch):
    return model(batch["x"]).square().mean() + batch["y"].sum()


def shaped(rows, more):
    return {"x": torch.randn(rows, 64), "y": torch.ones(more)}


def test_all_shapes_share_one_arena_as_large_as_the_largest_needs():
    model = Sums()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    batches = [shaped(rows, 10) for rows in (100, 900, 300)]
    step = lowtide.compile_step(model, sums, mine, batches[0], effort=0.1)
    for batch in (*batches, *batches):
        torch.manual_seed(0)
        loss = step(batch)
        torch.manual_seed(0)
        assert torch.equal(loss, eager_step(other, sums, its, batch)) and step.memory.beside == 0
        assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes
        assert step.memory.held_bytes == max(ready.code.arena_bytes for ready in step._ready.values())
    largest = max(ready.planned.plan.arena_bytes for ready in step._ready.values())
    assert len(step._ready) == 3 and len({id(ready.arena) for ready in step._ready.values()}) == 1
    assert pages_in(step._arena) + step.memory.resident_bytes <= largest + 4096


def test_what_a_smaller_plan_leaves_of_the_arena_goes_back_where_its_batch_is_larger():
    """Arena and residents together stay within the largest plan: with a large batch beside it, the arena gives pages back."""
    model = Sums()
    step = lowtide.compile_step(model, sums, OPTIMIZERS["adamw"](trained(model)), shaped(2000, 10), effort=0.1)
    step(shaped(2000, 10))
    wide = pages_in(step._arena)
    step(shaped(10, 300_000))
    largest = max(ready.planned.plan.arena_bytes for ready in step._ready.values())
    assert pages_in(step._arena) < wide
    assert pages_in(step._arena) + step.memory.resident_bytes <= largest + 4096


def test_the_peak_of_a_step_whose_values_move_is_the_arena_and_host_memory_lies_apart(counting):
    model, batch, loss_fn = build("resnet", 0.1, **LARGE_IMAGES)
    mine = OPTIMIZERS["adamw"](trained(model))
    best = lowtide.plan(model, loss_fn, mine, batch, effort=0.1).arena_bytes
    counting.count_begin(None, 0)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=best * 6 // 10, effort=0.1, swap="host", link="4GiB/s")
    moves, arena = step._now.code.transfers, step._now.arena
    gc.collect()
    assert moves.slots and counting.count_live() >= moves.memory.nbytes == moves.bytes == step._host.nbytes, "host memory is taken once"
    step(batch)
    gc.collect()
    counting.count_begin(arena.allocator.library.lt_arena_base(arena.handle), step.memory.arena_bytes)
    loss = step(batch)
    peak, memory, plan = counting.count_peak(), step.memory, step.plan
    assert memory.beside == 0 and plan.arena_bytes == memory.resident_bytes + memory.arena_bytes
    assert memory.host_bytes == moves.bytes and memory.stored_bytes > 0 and memory.loaded_bytes > 0
    assert memory.arena_bytes - 64 < counting.count_reach() <= memory.arena_bytes, "sizes are rounded up to 64"
    beside = 5056 + loss.untyped_storage().nbytes()
    assert 0.9 * (plan.peak_bytes - memory.resident_bytes) <= peak <= memory.arena_bytes + beside
    assert counting.count_live() == loss.untyped_storage().nbytes(), "nothing of what moved stays in the arena"


def test_values_of_other_threads_and_between_steps_are_not_touched(counting):
    model, batch, loss_fn = build("gpt2")
    step = lowtide.compile_step(model, loss_fn, OPTIMIZERS["adamw"](trained(model)), batch)
    kept = [torch.full((64, 64), float(k)) for k in range(50)]
    for _ in range(3):
        step(batch)
        kept += [t * 2 for t in kept[:5]]
    assert all(torch.equal(t, torch.full((64, 64), float(t[0, 0]))) for t in kept)
    base, size = step._now.arena.allocator.library.lt_arena_base(step._now.arena.handle), step.memory.arena_bytes
    assert not any(base <= t.data_ptr() < base + size for t in [*kept, *model.parameters()])


def test_an_allocation_that_the_plan_does_not_know_lies_beside_and_is_counted():
    model, batch, loss_fn = build("gpt2")
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    run, library = step._now.code.run, step._now.arena.allocator.library

    def wasteful(given):
        library.lt_mark(0)
        torch.empty(12345, dtype=torch.uint8)
        return run(given)

    step._now.code.run = wasteful
    loss = step(batch)
    assert step.memory.beside == 1 and step.memory.largest_beside_bytes == 12345
    assert torch.equal(loss, eager_step(other, loss_fn, its, batch))


class TwoWays(torch.optim.Optimizer):
    """It reads a number off each parameter, and takes other temporaries, in another order, where it is small."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state.setdefault("mean", torch.zeros_like(p))
                if p.abs().mean() > 0.01:
                    scale = (p * p).sum().sqrt() / 3
                    update = (p.grad + 0.1 * p) * scale
                else:
                    update = (p.grad - 1 / (1 + p.grad * 2)) / 7 - 2
                state["mean"].mul_(0.9).add_(update, alpha=0.1)
                p.sub_(state["mean"] + update * 2, alpha=group["lr"])


def test_updates_that_read_numbers_stay_in_the_arena_whichever_way_they_take():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Linear(5, 5), torch.nn.Linear(5, 5))
    with torch.no_grad():
        for layer in model[:2]:
            layer.bias.zero_()
        model[1].weight.mul_(1e-3)
    other = copy.deepcopy(model)
    mine, its = TwoWays(model.parameters()), TwoWays(other.parameters())
    batch = torch.randn(4, 5)
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, batch, effort=0.1, rehearse=False)
    for turn in range(4):
        loss = step(batch)
        assert torch.equal(loss, eager_step(other, lambda m, x: m(x).square().mean(), its, batch))
        assert turn == 0 or step.memory.beside == 0
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


def test_a_value_that_outlives_its_step_keeps_the_arena():
    model, batch, loss_fn = build("gpt2")
    step = lowtide.compile_step(model, loss_fn, OPTIMIZERS["adamw"](trained(model)), batch)
    arena = step._now.arena
    arena.begin(step._now.lists, step._now.code.arena_bytes)
    arena.allocator.library.lt_mark(0)
    size = step._now.code.parts[0][0][0]
    kept = torch.empty(size, dtype=torch.uint8)
    arena.end()
    assert kept.data_ptr() >= arena.allocator.library.lt_arena_base(arena.handle)
    kept.fill_(7)
    del step, arena
    gc.collect()
    assert bool((kept == 7).all())


def test_without_a_compiler_values_are_freed_and_the_reserve_is_said(tmp_path):
    code = """
import torch, lowtide
from torch_models import *
model, batch, loss_fn = build("resnet")
other, mine, its = twin(model, OPTIMIZERS["sgd"])
step = lowtide.compile_step(model, loss_fn, mine, batch)
assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
assert not step.addresses and step.reserve_bytes > 0
assert "no C++ compiler" in repr(step) and "reserve" in repr(step), repr(step)
"""
    in_a_process(code, tmp_path, CXX="")


SMALL = """
import torch, lowtide
model = torch.nn.Linear(4, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
step = lowtide.compile_step(model, lambda m, x: m(x).sum(), optimizer, torch.randn(3, 4), effort=.1)
step(torch.randn(3, 4))
print(step.memory.beside if step.addresses else "no addresses")
"""


def in_a_process(code, cache, **more):
    folders = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests/python")])
    environment = {**os.environ, "LOWTIDE_CACHE": str(cache), "PYTHONPATH": folders, **more}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def damage(library, kind):
    content = library.read_bytes()
    library.unlink()  # it is open in this process
    if kind == "cut short":
        library.write_bytes(content[:len(content) // 2])
    elif kind == "a byte":
        library.write_bytes(content[:9000] + bytes([content[9000] ^ 1]) + content[9001:])
    elif kind == "empty":
        library.write_bytes(b"")
    else:
        library.mkdir()


def test_a_damaged_library_in_the_cache_is_built_anew(tmp_path, monkeypatch):
    kept = cache.load_library(addresses._name("cpu")) if addresses.allocator() is not None else None
    if kept is None:
        pytest.skip("no C++ compiler")
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    library = tmp_path / kept.name
    library.write_bytes(kept.read_bytes())
    assert cache.load_library(kept.name) == library
    for kind in ("a byte", "empty", "a folder"):
        damage(library, kind)
        assert cache.load_library(kept.name) is None, kind
        if library.is_dir():
            library.rmdir()
        library.write_bytes(kept.read_bytes())
    damage(library, "cut short")
    assert in_a_process(SMALL, tmp_path) == "0", "every allocation has its planned address"
    assert cache.load_library(kept.name) == library, "it is whole again"


def test_without_a_folder_to_write_in_nothing_is_kept_and_all_else_works(tmp_path):
    if addresses.compiler() is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "file").write_text("no folder")
    assert in_a_process(SMALL, tmp_path / "file/below") == "0"
