#!/usr/bin/env python3
"""Peak and seconds of one training step of PyTorch on the CPU, in one of its ways to save memory, in turn with eager mode.

    .venv/bin/python bench/pytorch/ways.py MODEL WAY [--steps N] [--threads N] [--tiny]

    eager             AdamW(fused) as everywhere here
    hook              each parameter is updated as soon as its gradient is complete
    checkpoint        each block of a language model runs again in the backward pass
    checkpoint+hook
    accumulate=N      gradient accumulation by hand: N micro-batches one after another, then the update. What batch
                      norm sees is a micro-batch, so with it that is another step
    budget=X          torch.compile with aot_eager, whose min-cut partitioner keeps the share X of activations
    linear            the last layer and the loss by F.linear_cross_entropy, as its options choose
    linear=N          with N rows in a chunk
    chunker           inductor with its auto-chunker
    chunker=N         with N chunks
    hand=N            the last layer and the loss in N chunks of rows, each with its own backward pass, as Liger's kernel does

Prints a line of JSON: `peak_bytes`, `step_seconds` and `eager_seconds` (medians; steps are taken in turn in
this process), `processor_share` (seconds of processors over eager mode's, which a busy machine changes less),
`first_seconds` (with what is compiled), `same_loss` (as eager mode's, bit for bit), `loss_error` (relative; of a sum in another order it is not 0).

The peak is parameters, buffers, optimizer state and batch, and the most that PyTorch's allocator gave out
beside them in one step, scratch of its kernels included (counting_allocator.cpp of the tests).
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "python"), str(pathlib.Path(__file__).parent)]

import torch  # noqa: E402
from torch._functorch import config  # noqa: E402

from cases import CASES, Case, fused, make, step_in_eager_mode  # noqa: E402

from lowtide.pytorch import addresses  # noqa: E402

LANGUAGE = ("gpt2", "bert", "llama")


def chunked(name: str) -> list[str]:
    """Ways to cut the loss of a language model into so many chunks, or chunks of so many rows."""
    chunks = [f"{kind}={n}" for kind, counts in (("chunker", (4, 16, 64)), ("linear", (256, 64)), ("hand", (4, 16, 64))) for n in counts]
    return chunks if name in LANGUAGE else []


def ways(name: str) -> list[str]:
    language = ["checkpoint", "checkpoint+hook", "linear", "chunker"] if name in LANGUAGE else []
    micro = [f"accumulate={n}" for n in ((2, 4) if name in LANGUAGE else (2,))]
    return ["eager", "hook", *language, *micro, *(f"budget={x}" for x in (1.0, 0.7, 0.5, 0.3, 0.1, 0.0))]


class Counter:
    """The counting allocator, put upon PyTorch's."""

    def __init__(self) -> None:
        source = ROOT / "tests/python/counting_allocator.cpp"
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "counting.so"
            command = addresses._command(addresses.compiler() or ["c++"], "cpu", made)
            subprocess.run([str(source) if part == str(addresses._source("cpu")) else part for part in command], check=True)
            self.library = ctypes.CDLL(str(made))
        self.library.count_begin.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
        for name in ("count_peak", "count_outside_peak", "count_reach"):
            getattr(self.library, name).restype = ctypes.c_longlong

    def peak_of(self, run: Callable) -> int:
        self.library.count_begin(None, 0)
        run()
        return self.library.count_peak()

    def begin(self, arena: int | None, size: int) -> None:
        """Watches an arena from now on: all of it that is reached is taken for the whole time."""
        self.library.count_begin(arena, size)

    def peak_with_arena(self) -> int:
        """The arena as far as it was reached, and the most that lived outside of it."""
        return self.library.count_reach() + self.library.count_outside_peak()


@functools.cache
def counter() -> Counter:
    """The process's one; what is put upon it later is not seen."""
    return Counter()


def resident_bytes(case: Case, optimizers: list[torch.optim.Optimizer]) -> int:
    tensors = [*case.model.parameters(), *case.model.buffers(), *case.batch.values()]
    tensors += [t for o in optimizers for state in o.state.values() for t in state.values()]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def early_updates(case: Case) -> list[torch.optim.Optimizer]:
    made = []
    for parameter in case.model.parameters():
        optimizer = fused([parameter])

        def update(_: torch.Tensor, optimizer: torch.optim.Optimizer = optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        parameter.register_post_accumulate_grad_hook(update)
        made.append(optimizer)
    return made


def loss_of(case: Case, way: str) -> Callable:
    kind, _, number = way.partition("=")
    if kind == "linear":
        options = torch.nn.LinearCrossEntropyOptions(**({"batch_chunk_size": int(number), "chunking_method": None} if number else {}))

        def linear(model: torch.nn.Module, batch: dict) -> torch.Tensor:
            rows, weight, bias = case.head(model, batch)
            return torch.nn.functional.linear_cross_entropy(
                rows.flatten(0, 1), weight, batch["labels"].flatten(), linear_bias=bias, options=options)

        return linear
    if kind == "chunker":
        options = {"auto_chunker.enable": True, **({"auto_chunker.num_chunk": int(number)} if number else {})}
        return torch.compile(case.loss_fn, dynamic=False, options=options)
    return case.loss_fn


def accumulated(case: Case, parts: int, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """The mean loss of the batch as that of equal micro-batches."""
    sizes = {tensor.shape[0] for tensor in case.batch.values()}
    if len(sizes) != 1 or next(iter(sizes)) % parts:
        raise SystemExit(f"accumulate={parts}: a batch of {sizes} is not cut into {parts} equal parts")
    losses = []
    for k in range(parts):
        micro = {name: tensor.chunk(parts)[k] for name, tensor in case.batch.items()}
        loss = case.loss_fn(case.model, micro) / parts
        loss.backward()
        losses.append(loss.detach())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return torch.stack(losses).sum()


def in_chunks(case: Case, chunks: int, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Each chunk's logits are there for its loss and its gradients alone."""
    rows, weight, bias = case.head(case.model, case.batch)
    rows, labels = rows.flatten(0, 1), case.batch["labels"].flatten()
    cut = rows.detach().requires_grad_()
    total = torch.zeros(())
    for some, classes in zip(cut.tensor_split(chunks), labels.tensor_split(chunks)):
        logits = torch.nn.functional.linear(some, weight, bias)
        loss = torch.nn.functional.cross_entropy(logits, classes, reduction="sum") / len(labels)
        del logits
        loss.backward()
        total += loss.detach()
    rows.backward(cut.grad)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def prepare(case: Case, way: str) -> tuple[Callable[[], torch.Tensor], list[torch.optim.Optimizer]]:
    """The step, and the optimizers that it has."""
    if way.startswith("checkpoint"):
        case.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if way.startswith("budget="):
        config.activation_memory_budget = float(way.removeprefix("budget="))
        case.model.compile(backend="aot_eager", dynamic=False)
    loss_fn = loss_of(case, way)
    if way.endswith("hook"):
        return lambda: step_in_eager_mode(case, loss_fn, None), early_updates(case)
    optimizer = fused(case.model.parameters())
    if way.startswith("accumulate="):
        parts = int(way.removeprefix("accumulate="))
        return lambda: accumulated(case, parts, optimizer), [optimizer]
    if way.startswith("hand="):
        chunks = int(way.removeprefix("hand="))
        return lambda: in_chunks(case, chunks, optimizer), [optimizer]
    return lambda: step_in_eager_mode(case, loss_fn, optimizer), [optimizer]


def timed(run: Callable[[], torch.Tensor], seed: int) -> tuple[float, torch.Tensor]:
    torch.manual_seed(seed)
    start = time.perf_counter()
    loss = run()
    return time.perf_counter() - start, loss


def measured(name: str, way: str, tiny: bool, steps: int) -> dict:
    case = make(name, tiny)
    step, optimizers = prepare(case, way)
    first, loss = timed(step, 0)
    found = {"torch": torch.__version__, "first_seconds": first,
             "peak_bytes": Counter().peak_of(step) + resident_bytes(case, optimizers)}
    if steps == 0:
        return found
    eager, _ = prepare(make(name, tiny), "eager")
    wanted = timed(eager, 0)[1]
    eager()
    mine, theirs, shares = [], [], []
    for seed in range(1, steps + 1):
        marks = [time.process_time()]
        for run, seconds in ((step, mine), (eager, theirs)):
            seconds.append(timed(run, seed)[0])
            marks.append(time.process_time())
        shares.append((marks[1] - marks[0]) / (marks[2] - marks[1]))
    return {**found, "step_seconds": statistics.median(mine), "eager_seconds": statistics.median(theirs),
            "processor_share": statistics.median(shares), "same_loss": torch.equal(loss, wanted),
            "loss_error": abs(float(loss - wanted)) / abs(float(wanted))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=CASES)
    parser.add_argument("way")
    parser.add_argument("--steps", type=int, default=2, help="timed ones; 0: the peak alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    known = [*ways(arguments.model), *chunked(arguments.model)]
    if arguments.way not in known:
        raise SystemExit(f"{arguments.model} has no way '{arguments.way}'; it has {', '.join(known)}")
    torch.set_num_threads(arguments.threads)
    print(json.dumps(measured(arguments.model, arguments.way, arguments.tiny, arguments.steps)))


if __name__ == "__main__":
    main()
