"""Where a step runs, the CPU or one GPU under CUDA, and all that differs between them.

    random stream   the CPU's generator, or the GPU's: a seed and a count, which the host keeps, so nobody waits for it
    seconds         on the host's clock; of a GPU between two events behind a kernel that only waits, so that the host
                    has queued all of the unit before the first kernel of it begins
    addresses       multiples of 64 bytes; on a GPU of 512, as PyTorch's own: kernels are chosen by alignment
    costs           a GPU's own profile: name, memory, and the speed of copies and of one product, measured once

A step is on one device. Numbers that eager mode keeps on the CPU beside a GPU (an optimizer's count, `torch.tensor(2.0)`)
stay there: they are counted in the plan, and lie outside of the arena.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import pathlib
import platform
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from .. import cache
from ..errors import Unsupported, Usage
from .process import functions_around


class Cpu:
    """The CPU's PyTorch."""

    type = "cpu"
    device = torch.device("cpu")
    alignment = 64
    state_bytes = 5056  # of the random stream
    dispatch_key = "CPU"

    # The generator itself is asked: PyTorch's functions are exchanged while a step is traced.
    get_state, set_state = torch.default_generator.get_state, torch.default_generator.set_state

    def timed(self, function: Callable, given: list) -> tuple[Any, float]:
        """What the function makes of the list, and seconds."""
        began = time.perf_counter()
        made = function(given)
        return made, time.perf_counter() - began

    def finish(self) -> None:
        """Waits for what runs."""

    def host_memory(self, size: int) -> torch.Tensor:
        """Bytes for values that are away."""
        return torch.empty(size, dtype=torch.uint8)

    def digest(self, whole: torch.UntypedStorage) -> bytes:
        """A checksum of the bits of all bytes."""
        contents = (ctypes.c_char * whole.nbytes()).from_address(whole.data_ptr()) if whole.nbytes() else b""
        return hashlib.sha1(contents, usedforsecurity=False).digest()  # processors have instructions for it

    def prepare(self) -> None:
        """Makes what the process's first step would make for all later ones."""

    def stream(self) -> Any:
        """What a step is queued to. Raises Usage where none can be."""

    def around(self) -> tuple:
        """What changes the captured graph or its kernels without standing in model or batch."""
        return (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.get_num_threads(), torch.get_default_dtype(),
                torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic,
                torch.get_float32_matmul_precision(), functions_around(), _attentions())

    def machine(self) -> list[Any]:
        """What measurements hold for."""
        return [torch.__version__, torch.get_num_threads(), platform.machine(), platform.processor(),
                torch.backends.cpu.get_cpu_capability()]

    def planning(self, keep: bool) -> dict[str, Any]:  # noqa: ARG002: as of a GPU
        """Options of the planner."""
        return {}


SPIN = 1 << 21  # cycles of a kernel that waits: about a millisecond, longer than Python takes to queue a unit
COPIED = 1 << 28  # bytes of a copy whose speed is measured
DIGESTED = 1 << 18  # words of 4 bytes at once
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
SIDE = 4096  # of the square matrices whose product is measured


class Cuda:
    """One GPU. A step runs in the stream that was current when it was compiled."""

    type = "cuda"
    alignment = 512
    state_bytes = 16
    dispatch_key = "CUDA"

    def __init__(self, index: int) -> None:
        torch.cuda.init()
        self.device = torch.device("cuda", index)
        self.generator = torch.cuda.default_generators[index]
        self.get_state, self.set_state = self.generator.get_state, self.generator.set_state

    def timed(self, function: Callable, given: list) -> tuple[Any, float]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.finish()
        torch.cuda._sleep(SPIN)
        begin.record()
        made = function(given)
        end.record()
        end.synchronize()
        return made, begin.elapsed_time(end) / 1000

    def finish(self) -> None:
        torch.cuda.synchronize(self.device)

    def host_memory(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def digest(self, whole: torch.UntypedStorage) -> bytes:
        """Two sums, modulo 2**64, of the words of 32 bits times drawn numbers: what differs has another digest, but for a
        chance of less than one in 2**60. It stays on the GPU; large values would take half a second each on their way to the host."""
        contents = torch.empty(0, dtype=torch.uint8, device=self.device).set_(whole)
        rest = whole.nbytes() % 4
        words = contents[:whole.nbytes() - rest].view(torch.int32)
        drawn = torch.Generator().manual_seed(1)
        factors = torch.randint(-2**63, 2**63 - 1, (2, DIGESTED), generator=drawn).to(self.device)
        total = torch.zeros(2, dtype=torch.int64, device=self.device)
        for part in words.split(DIGESTED):
            total = total * _ODD + (part.long() * factors[:, :part.numel()]).sum(1)
        return f"{total.tolist()} {contents[whole.nbytes() - rest:].tolist()} {whole.nbytes()}".encode()

    def prepare(self) -> None:
        """cuBLAS keeps its workspace once it has one."""
        for dtype in (torch.float32, torch.bfloat16):
            small = torch.ones(16, 16, dtype=dtype, device=self.device)
            torch.addmm(small[0], small, small)
            torch.bmm(small[None], small[None])

    def stream(self) -> torch.cuda.Stream:
        if torch.cuda.current_device() != self.device.index:
            raise Usage(f"the model is on {self.device} and the current device is cuda:{torch.cuda.current_device()}; "
                        f"torch.cuda.set_device({self.device.index}) makes it that")
        if torch.cuda.is_current_stream_capturing():
            raise Usage("a planned step cannot be captured as a CUDA graph: it reads options of the optimizer in every step")
        return torch.cuda.current_stream()

    def around(self) -> tuple:
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        return (str(self.device), torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda"), cudnn.enabled,
                cudnn.benchmark, cudnn.deterministic, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision,
                matmul.fp32_precision, torch.are_deterministic_algorithms_enabled(), functions_around(), _attentions())

    def machine(self) -> list[Any]:
        return [torch.__version__, torch.version.cuda, torch.backends.cudnn.version(),
                torch.cuda.get_device_name(self.device), *map(str, self.around())]

    def planning(self, keep: bool) -> dict[str, Any]:
        return {"device": str(_written(self.profile(keep))), "swap_residents": False}

    def profile(self, keep: bool) -> dict[str, Any]:
        """As docs/formats.md has it ("Device profile"). Measured once, where it can be kept."""
        key = cache.key("profile", torch.__version__, torch.cuda.get_device_name(self.device))
        kept = cache.load_rows(key) if keep else None
        if kept is None:
            kept = [self._measured()]
            if keep:
                cache.store_rows(key, kept)
        return kept[0]

    @functools.cache  # noqa: B019: there are as many as GPUs
    def _measured(self) -> dict[str, Any]:
        facts = torch.cuda.get_device_properties(self.device)
        free = torch.cuda.mem_get_info(self.device)[0]
        copied = min(COPIED, max(1 << 20, free // 8))  # a GPU that is nearly full is measured by smaller copies
        host = torch.empty(copied, dtype=torch.uint8, pin_memory=True)
        here, other = (torch.empty(copied, dtype=torch.uint8, device=self.device) for _ in range(2))
        square = torch.rand(SIDE, SIDE, device=self.device)

        def seconds(function: Callable[[], Any]) -> float:
            return min(self.timed(lambda _: function(), [])[1] for _ in range(4))

        product = 2 * SIDE**3 / seconds(lambda: torch.mm(square, square))
        link = {"name": "host", "out_bytes_per_second": copied / seconds(lambda: host.copy_(here, non_blocking=True)),
                "in_bytes_per_second": copied / seconds(lambda: here.copy_(host, non_blocking=True)),
                "latency_seconds": seconds(lambda: here[:1].copy_(host[:1], non_blocking=True))}
        return {"name": facts.name, "source": "measured by this package when it first planned for it",
                "memory_bytes": facts.total_memory, "alignment_bytes": self.alignment,
                "bytes_per_second": 2 * copied / seconds(lambda: here.copy_(other)),
                "launch_seconds": 5e-6, "matmul_flops_per_second": product, "vector_flops_per_second": product,
                "slow_tiers": [link]}


def _attentions() -> tuple[bool, ...]:
    """Which kernels of scaled_dot_product_attention may be taken."""
    backends = torch.backends.cuda
    return (backends.flash_sdp_enabled(), backends.mem_efficient_sdp_enabled(), backends.math_sdp_enabled(),
            backends.cudnn_sdp_enabled())


def _written(profile: dict[str, Any]) -> pathlib.Path:
    """A file with the profile; the library takes a path. Its name says what is in it."""
    text = json.dumps(profile, indent=2)
    name = f"device-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    own = f"lowtide-{os.getuid()}-"  # where others write, too
    for folder, name in ((cache.folder, name), (lambda: pathlib.Path(tempfile.gettempdir()), own + name)):
        try:
            path = folder() / name
            if not path.exists() or path.read_text() != text:
                with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as made:
                    made.write(text)
                pathlib.Path(made.name).replace(path)
            return path
        except OSError:
            continue
    raise OSError(f"neither the cache nor {tempfile.gettempdir()} takes {name}")


CPU = Cpu()


@functools.cache
def _gpu(index: int) -> Cuda:
    return Cuda(index)


def device_of(device: torch.device) -> Cpu | Cuda:
    """Raises Unsupported for another kind of device."""
    if device.type == "cuda":
        return _gpu(device.index if device.index is not None else torch.cuda.current_device())
    if device.type != "cpu":
        raise Unsupported(f"steps run on the CPU and on GPUs under CUDA, not on {device}")
    return CPU
