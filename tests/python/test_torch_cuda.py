"""Planned steps on a GPU: equal to eager mode there bit for bit, in their budget, at their addresses.

Without a GPU nothing of this runs. Kernels that add in any order would differ between two runs of eager mode, too, so
PyTorch is asked for deterministic ones.
"""

import gc
import os

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU under CUDA", allow_module_level=True)
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch.utils._pytree as pytree  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_models import NAMES, OPTIMIZERS, build, differences, eager_step, trained, twin  # noqa: E402

import lowtide  # noqa: E402
from lowtide.pytorch import addresses, backend  # noqa: E402
from lowtide.pytorch.devices import DIGESTED  # noqa: E402
from lowtide.pytorch.measure import digest  # noqa: E402

FLOOR_OF = "needs at least "


@pytest.fixture(autouse=True)
def _deterministic():
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.use_deterministic_algorithms(False)


def on_gpu(name, dropout=0.0):
    model, batch, loss_fn = build(name, dropout)
    if name == "unet":  # the loss of images has no deterministic kernel
        def loss_fn(net, given):
            return F.cross_entropy(net(given[0]).movedim(1, -1).flatten(0, -2), given[1].flatten())
    return model.cuda(), pytree.tree_map(lambda t: t.cuda() if isinstance(t, torch.Tensor) else t, batch), loss_fn


def within(share, model, loss_fn, optimizer, batch):
    """Bytes between what the best order needs and the least possible."""
    best = lowtide.plan(model, loss_fn, optimizer, batch).arena_bytes
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(model, loss_fn, optimizer, batch, budget=1)
    floor = int(str(refused.value).split(FLOOR_OF)[1].split(" bytes")[0])
    return best if best - floor < 8192 else best - int((best - floor) * share)


def assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=3):
    for k in range(steps):
        torch.manual_seed(k)
        loss = step(batch)
        after = torch.cuda.get_rng_state()
        torch.manual_seed(k)
        wanted = eager_step(other, loss_fn, its, batch)
        assert torch.equal(loss, wanted), (k, loss, wanted)
        assert differences(model, mine, other, its) == []
        assert torch.equal(after, torch.cuda.get_rng_state()), "the random stream"


def test_there_is_an_allocator():
    assert addresses.allocator("cuda") is not None


@pytest.mark.parametrize(("name", "optimizer", "share"), [
    (name, ("adamw", "sgd")[i % 2], (0, 0.3)[i // 2 % 2]) for i, name in enumerate(NAMES)] + [
    ("gpt2", "adamw", 0.3), ("resnet", "sgd", 0.3), ("bert", "sgd", 0.5)])
def test_three_steps_are_equal_to_eager_mode(name, optimizer, share):
    model, batch, loss_fn = on_gpu(name, 0.1)
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    limit = within(share, model, loss_fn, mine, batch) if share else None
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, effort=0.2)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
    assert step.memory.beside == 0 and step.memory.planned > 0, step.memory
    assert step.memory.top_bytes <= step.memory.arena_bytes
    assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes
    assert limit is None or step.plan.arena_bytes <= limit


@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_pytorchs_own_count_of_memory_sees_nothing_beside_the_plan(name):
    model, batch, loss_fn = on_gpu(name, 0.1)
    optimizer = OPTIMIZERS["adamw"](trained(model))
    step = lowtide.compile_step(model, loss_fn, optimizer, batch)
    loss = step(batch)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = step(batch)
    assert torch.cuda.max_memory_allocated() - before <= 512, "the loss that is handed out"
    assert torch.isfinite(loss)
    addresses_before = step.memory.held_bytes
    del step
    gc.collect()
    assert before - torch.cuda.memory_allocated() >= addresses_before, "the arena is given back"


def test_a_digest_tells_any_bit():
    numbers = torch.randn(3 * DIGESTED + 5, device="cuda")
    seen = {digest(numbers)}
    for place in (0, 7, DIGESTED, 2 * DIGESTED + 1, numbers.numel() - 1):
        changed = numbers.clone()
        changed.view(torch.int32)[place] ^= 1 << place % 31
        seen.add(digest(changed))
        assert digest(numbers.clone()) in seen
    assert len(seen) == 6


def test_addresses_are_multiples_of_what_pytorch_gives():
    model, batch, loss_fn = on_gpu("bert", 0.1)
    step = lowtide.compile_step(model, loss_fn, OPTIMIZERS["adamw"](trained(model)), batch)
    offsets = [place.offset for part in step._now.code.parts for place in part]
    assert offsets and all(offset % 512 == 0 for offset in offsets)


def test_dropout_under_checkpointing_draws_the_same_mask_twice():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 8)).cuda()
    batch = torch.randn(32, 64, device="cuda")

    def loss_fn(net, x):
        return checkpoint(lambda y: net(y), x, use_reentrant=False).square().mean()

    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)


def test_a_failed_step_leaves_model_and_stream_as_before():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).cuda()
    optimizer = OPTIMIZERS["sgd"](trained(model))
    batch = torch.randn(4, 8, device="cuda")
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), optimizer, batch, check_finite=True)
    before, stream = {k: v.clone() for k, v in model.state_dict().items()}, torch.cuda.get_rng_state()
    with pytest.raises(FloatingPointError):
        step(batch * float("nan"))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(stream, torch.cuda.get_rng_state())


def test_another_shape_is_planned_into_the_same_arena():
    model, batch, loss_fn = on_gpu("resnet")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    large = tuple(torch.cat([t, t]) for t in batch)
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    for each in (batch, large, batch):
        assert_equal_steps(step, model, mine, other, its, loss_fn, each, steps=1)
        assert step.memory.beside == 0
    model.eval(), other.eval()
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=1)


def test_autocast_to_bf16_is_planned():
    model, batch, loss_fn = on_gpu("gpt2", 0.1)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])

    def cast(m, b):
        with torch.autocast("cuda", torch.bfloat16):
            return loss_fn(m, b)

    limit = within(0.3, model, cast, mine, batch)
    step = lowtide.compile_step(model, cast, mine, batch, budget=limit)
    assert_equal_steps(step, model, mine, other, its, cast, batch)
    assert step.memory.beside == 0


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_values_move_to_host_memory_and_back(name):
    model, batch, loss_fn = on_gpu(name, 0.1)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    limit = within(0.9, model, loss_fn, mine, batch)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, swap="host", effort=0.2)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
    assert step.memory.stored_bytes > 0 and step.memory.loaded_bytes > 0 and step.memory.home_bytes == 0
    assert step.memory.beside == 0 and step.plan.arena_bytes <= limit


@pytest.mark.parametrize(("name", "dropout", "dtype"), [
    ("gpt2", 0, None), ("gpt2", 0.1, None), ("gpt2", 0.1, torch.bfloat16), ("bert", 0.3, torch.float16)])
def test_a_step_in_parts_is_eager_mode_but_for_rounding(name, dropout, dtype):
    model, batch, loss_fn = on_gpu(name, dropout)
    other, mine, its = twin(model, OPTIMIZERS["sgd"])

    def cast(m, b):
        with torch.autocast("cuda", dtype, enabled=dtype is not None):
            return loss_fn(m, b)

    step = lowtide.compile_step(model, cast, mine, batch, split="samples:2")
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype is None else {"rtol": 1e-2, "atol": 1e-3}
    for seed in range(2):
        torch.manual_seed(seed)
        loss = step(batch)
        torch.manual_seed(seed)
        torch.testing.assert_close(loss, eager_step(other, cast, its, batch), **close)
        torch.testing.assert_close(dict(model.named_parameters()), dict(other.named_parameters()), **close)
    assert step.parts == 2 and step.memory.beside == 0
    assert not any("dropout" in line for line in step.coupled), step.coupled


def test_the_backend_runs_a_loop_on_the_gpu():
    model, batch, loss_fn = on_gpu("gpt2", 0.1)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    model.compile(backend=backend.lowtide, options={"budget": "90%"})
    for k in range(2):
        torch.manual_seed(k)
        loss = eager_step(model, loss_fn, mine, batch)
        torch.manual_seed(k)
        assert torch.equal(loss, eager_step(other, loss_fn, its, batch))
    assert differences(model, mine, other, its) == []


def test_another_stream_and_a_capture_are_refused_and_nothing_is_changed():
    model, batch, loss_fn = on_gpu("resnet")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), pytest.raises(lowtide.Usage, match="compiled in another stream"):
        step(batch)
    torch.cuda.synchronize()
    with pytest.raises(lowtide.Usage, match="cannot be captured as a CUDA graph"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        step(batch)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=2)
    assert step.memory.beside == 0


@pytest.mark.parametrize("options", [{"clip_norm": 0.05}, {"clip_value": 0.01}])
def test_gradients_are_clipped(options):
    model, batch, loss_fn = on_gpu("bert")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, **options)
    for _ in range(2):
        loss = step(batch)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        if "clip_value" in options:
            nn.utils.clip_grad_value_(trained(other), options["clip_value"])
        else:
            assert nn.utils.clip_grad_norm_(trained(other), options["clip_norm"]) > options["clip_norm"]
        its.step()
        torch.testing.assert_close(loss, wanted)
        torch.testing.assert_close(dict(model.named_parameters()), dict(other.named_parameters()))
    assert "clip_norm" in options or differences(model, mine, other, its) == []
    assert step.memory.beside == 0


def test_accumulated_batches_make_one_update():
    model, batch, loss_fn = on_gpu("gpt2", 0.1)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    batches = [batch, {key: tensor.flip(0) for key, tensor in batch.items()}]
    step = lowtide.compile_step(model, loss_fn, mine, batches, accumulate=2)
    for seed in range(2):
        torch.manual_seed(seed)
        loss = step(batches)
        torch.manual_seed(seed)
        its.zero_grad()
        losses = []
        for each in batches:
            losses.append(loss_fn(other, each))
            losses[-1].backward()
        its.step()
        assert torch.equal(loss, losses[0] + losses[1]) and differences(model, mine, other, its) == []
    assert step.memory.beside == 0


def test_kernels_are_timed_again_and_the_next_plan_goes_by_that(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    model, batch, loss_fn = on_gpu("gpt2", 0.1)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    step = lowtide.compile_step(model, loss_fn, mine, batch)
    state, before = torch.cuda.get_rng_state(), {name: p.clone() for name, p in model.named_parameters()}
    found = lowtide.measure(step, rounds=3)
    assert [each.name for each in found] == [unit.name for unit in step.planned.captured.units]
    assert all(each.now > 0 for each in found)
    assert torch.equal(state, torch.cuda.get_rng_state()) and all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    again = lowtide.compile_step(model, loss_fn, mine, batch)
    assert again.plan.verdict["once_seconds"] == pytest.approx(sum(each.now for each in found))
    assert_equal_steps(again, model, mine, other, its, loss_fn, batch, steps=1)


def test_parts_are_found_for_a_budget_beside_transfers():
    model, batch, loss_fn = on_gpu("gpt2")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    limit = within(0.9, model, loss_fn, mine, batch)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, split="auto", swap="host", effort=0.2)
    for _ in range(2):
        torch.testing.assert_close(step(batch), eager_step(other, loss_fn, its, batch))
    torch.testing.assert_close(dict(model.named_parameters()), dict(other.named_parameters()))
    assert step.plan.arena_bytes <= limit and step.memory.beside == 0


def test_what_lies_on_two_devices_is_refused_by_name():
    model = nn.Sequential(nn.Linear(4, 4).cuda(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(lowtide.Unsupported, match="'1.weight' is on cpu, parameter '0.weight' on cuda:0"):
        lowtide.plan(model, lambda m, x: m(x).sum(), optimizer, torch.ones(1, 4, device="cuda"))


def test_the_native_engine_and_draws_on_the_cpu_are_refused_by_name():
    model = nn.Linear(4, 4).cuda()
    optimizer, batch = torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(1, 4, device="cuda")
    with pytest.raises(lowtide.Unsupported, match="native engine runs on the CPU"):
        lowtide.plan(model, lambda m, x: m(x).sum(), optimizer, batch, engine="native")
    with pytest.raises(lowtide.Unsupported, match="draws on cpu in a step on cuda:0"):
        lowtide.plan(model, lambda m, x: F.relu(m(x) + torch.rand(4).cuda()).sum(), optimizer, batch)
