"""What a GPU's steps are planned and measured by, as far as that runs without one (test_torch_cuda.py is for those who have one)."""

import json
import pathlib
import re

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_models import build, trained  # noqa: E402

import lowtide  # noqa: E402
from lowtide.pytorch import devices, planning, streams, transfers  # noqa: E402
from lowtide.pytorch.devices import CPU, DIGESTED, Cuda  # noqa: E402

PROFILE = {"name": "a GPU", "source": "a test", "memory_bytes": 1 << 34, "alignment_bytes": 512, "bytes_per_second": 4e12,
           "launch_seconds": 5e-6, "matmul_flops_per_second": 5e13, "vector_flops_per_second": 5e13,
           "slow_tiers": [{"name": "host", "out_bytes_per_second": 5e10, "in_bytes_per_second": 5e10,
                           "latency_seconds": 4e-6}]}


class OnTheCpu(Cuda):
    """A GPU's arithmetic on tensors of the CPU."""

    def __init__(self):
        self.device = torch.device("cpu")


def test_a_gpus_digest_tells_any_bit_any_order_and_any_length():
    device, numbers = OnTheCpu(), torch.randn(4 * DIGESTED + 5)
    first = device.digest(numbers.untyped_storage())
    assert device.digest(numbers.clone().untyped_storage()) == first
    seen = {first, device.digest(numbers[:-1].clone().untyped_storage())}
    for place in (0, 7, 2 * DIGESTED, 2 * DIGESTED + 1, numbers.numel() - 1):
        changed = numbers.clone()
        changed.view(torch.int32)[place] ^= 1 << place % 31
        seen.add(device.digest(changed.untyped_storage()))
    for dtype, places in ((torch.float64, (1, 777)), (torch.float32, (1, 3, 5, 7)), (torch.bfloat16, (3, 7))):
        zeros = torch.zeros(4096, dtype=dtype)
        signs = zeros.clone()
        signs[list(places)] = -0.0
        assert device.digest(zeros.untyped_storage()) != device.digest(signs.untyped_storage()), dtype
    parts = numbers.split(2 * DIGESTED)
    seen.add(device.digest(torch.cat([parts[1], parts[0], parts[2]]).untyped_storage()))
    assert len(seen) == 8
    assert device.digest(torch.zeros(0).untyped_storage()) != device.digest(torch.zeros(2).untyped_storage())


def test_the_planner_takes_a_measured_profile_and_its_alignment(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    path = devices._written(PROFILE)
    assert json.loads(path.read_text()) == PROFILE and devices._written(PROFILE) == path
    monkeypatch.setattr(devices.Cpu, "planning", lambda *_: {"device": str(path), "swap_residents": False})
    model, batch, loss_fn = build("gpt2", 0.1)
    optimizer = torch.optim.AdamW(trained(model), fused=True)
    planned = planning.best_plan(model, loss_fn, optimizer, batch, lowtide.pytorch.options.StepOptions(effort=0.2))
    storages = planned.plan.storages()
    assert all(storage.bytes % 512 == 0 and storage.address % 512 == 0 for storage in storages)
    planned.plan.save(tmp_path / "step.lt")
    assert '"device": "a GPU"' in (tmp_path / "step.lt").read_text()
    best, asked = planned.plan.arena_bytes, {"effort": 0.2, "swap": "host"}
    moving = lowtide.plan(model, loss_fn, optimizer, batch, budget=int(best * 0.9), **asked)
    assert moving.arena_bytes <= best * 0.9 and not any(storage.home_slow for storage in moving.storages())
    slots = [storage for storage in moving.storages() if storage.slow_address >= 0]
    assert slots and not any(storage.resident for storage in slots)


def test_a_folder_that_cannot_be_written_leaves_the_profile_in_the_temporary_one(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    assert devices._written(PROFILE).parent == tmp_path


def test_what_is_away_is_read_behind_its_copy():
    """The host's look at a value is ordered by no stream."""
    waited = []

    class Event:
        def synchronize(self):
            waited.append(self)

    moves = object.__new__(transfers.StreamTransfers)
    moves.homes, moves.kept, moves.slots, moves.events, moves.stored, moves.on_host = {}, {}, {0: (8, 4)}, {}, {0: Event()}, {}
    moves.stored_bytes = moves.loaded_bytes = 0
    moves.memory = torch.arange(16, dtype=torch.uint8)
    moves.kept[0] = transfers.Layout.of(torch.zeros(1))
    assert moves.look(0).view(torch.uint8).tolist() == [8, 9, 10, 11] and waited == [moves.stored[0]]
    moves.store(1, torch.ones(2))  # on the CPU: it stays there
    assert torch.equal(moves.load(1), torch.ones(2)) and 1 not in moves.slots


def test_a_batch_on_another_device_is_another_shape():
    model, batch, loss_fn = build("gpt2")
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(trained(model), lr=0.1), batch, shapes="fixed")
    with pytest.raises(lowtide.Usage, match="no plan"):
        step({key: tensor.to("meta") for key, tensor in batch.items()})


def test_other_kernels_of_attention_are_another_plan():
    before = CPU.around()
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        assert CPU.around() != before
    finally:
        torch.backends.cuda.enable_flash_sdp(True)


def test_the_allocator_hands_on_all_that_pytorchs_has():
    """Of the header of the installed torch, where it has that (CUDA builds)."""
    header = pathlib.Path(torch.__file__).parent / "include/c10/cuda/CUDACachingAllocator.h"
    if not header.exists():
        pytest.skip("this torch has no headers of CUDA")
    text = header.read_text().split("class CUDAAllocator")[1].split("\n};")[0]
    ours = (pathlib.Path(devices.__file__).parent / "cuda_allocator.cpp").read_text()
    names = set(re.findall(r"virtual [^;{]*?(\w+)\(", text)) | {"allocate", "raw_deleter"}
    assert len(names) > 25 and {name for name in names if f"{name}(" not in ours} == set()


def test_streams_of_a_step_are_put_back_and_a_change_of_the_generator_is_refused():
    before = torch.get_rng_state()
    with streams.traced(CPU):
        assert torch.equal(CPU.get_state(), before), "the generator itself, not the op that is traced"
    with pytest.raises(lowtide.Unsupported, match="sets a generator's state"), streams.unchanged(CPU):
        torch.default_generator.manual_seed(5)
    assert torch.equal(torch.get_rng_state(), before)


def test_other_devices_are_refused_by_name():
    model = nn.Linear(2, 2, device="meta")
    given = model, lambda m, x: m(x).sum(), torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(1, 2)
    with pytest.raises(lowtide.Unsupported, match="'weight' is on meta; steps run on the CPU and on GPUs under CUDA"):
        lowtide.plan(*given)
    with pytest.raises(lowtide.Unsupported, match="'weight' is on meta; steps run on the CPU and on GPUs under CUDA"):
        lowtide.compile_step(*given)
