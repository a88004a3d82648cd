#!/usr/bin/env python3
"""Bytes and seconds of a training step of a network's head in PyTorch on the CPU, by the ways it has to cut the loss into chunks.

    .venv/bin/python bench/pytorch/chunked_loss.py WAY [--rows N] [--width N] [--classes N] [--steps N] [--threads N]

The head is a hidden layer, the layer that makes the logits, and the cross-entropy; the step ends with SGD. WAY is `eager`; `compile`
(inductor); `chunker=N` (inductor's auto-chunker with N chunks); `linear` (`F.linear_cross_entropy` as its options choose) or
`linear=N` (with N rows in a chunk); `hand=N` (N chunks, each with its own backward pass, as Liger's kernel does). Prints one line of
JSON: `total_bytes`, `step_seconds` (median; the first two steps warm up), `loss`.

Total bytes are what the process has in memory at the moment of the most, beyond what it had before the head was made: kernels' scratch
is in it, which is right beside an arena that has it, too.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

os.environ.pop("OPENBLAS_CORETYPE", None)  # it may force slow kernels; must be unset before numpy loads
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "131072")  # what is freed goes back

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

RATE = 0.01


def memory(key: str) -> int:
    """Bytes: VmRSS (now) or VmHWM (the most since reset)."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return 1024 * int(line.split()[1])
    raise SystemExit(f"/proc/self/status has no {key}")


def reset_most() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


class Head(torch.nn.Module):
    def __init__(self, width: int, classes: int):
        super().__init__()
        self.hidden = torch.nn.Linear(width, width, bias=False)
        self.logits = torch.nn.Linear(width, classes, bias=False)


def step_of(head: Head, way: str):
    """The step's forward and backward pass: x, target -> loss."""
    kind, _, number = way.partition("=")

    def loss_of(x, target):
        return F.cross_entropy(head.logits(torch.tanh(head.hidden(x))), target)

    def whole(x, target, loss=loss_of):
        result = loss(x, target)
        result.backward()
        return result.detach()

    if kind == "eager":
        return whole
    if kind == "compile":
        compiled = torch.compile(loss_of)
        return lambda x, target: whole(x, target, compiled)
    if kind == "chunker":
        compiled = torch.compile(loss_of, options={"auto_chunker.enable": True, "auto_chunker.num_chunk": int(number)})
        return lambda x, target: whole(x, target, compiled)
    if kind == "linear":
        options = torch.nn.LinearCrossEntropyOptions(**({"batch_chunk_size": int(number), "chunking_method": None} if number else {}))
        return lambda x, target: whole(x, target, lambda x, target: F.linear_cross_entropy(
            torch.tanh(head.hidden(x)), head.logits.weight, target, options=options))
    if kind == "hand":
        return lambda x, target: by_hand(head, x, target, int(number))
    raise SystemExit(f"there is no way '{way}'")


def by_hand(head: Head, x, target, chunks: int):
    hidden = torch.tanh(head.hidden(x))
    cut = hidden.detach().requires_grad_()
    total = torch.zeros(())
    for rows, classes in zip(cut.tensor_split(chunks), target.tensor_split(chunks)):
        loss = F.cross_entropy(head.logits(rows), classes, reduction="sum") / len(target)
        loss.backward()
        total += loss.detach()
    hidden.backward(cut.grad)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way")
    for name, default in [("rows", 1024), ("width", 768), ("classes", 50257), ("steps", 5), ("threads", 2)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    warm = torch.ones(64, 64, requires_grad=True)
    (warm @ warm).sum().backward()
    before = memory("VmRSS")
    head = Head(arguments.width, arguments.classes)
    x, target = torch.randn(arguments.rows, arguments.width), torch.randint(arguments.classes, (arguments.rows,))
    step = step_of(head, arguments.way)
    seconds, most = [], 0
    for turn in range(2 + arguments.steps):
        if turn == 2:
            reset_most()
        start = time.perf_counter()
        loss = step(x, target)
        with torch.no_grad():
            for parameter in head.parameters():
                parameter.add_(parameter.grad, alpha=-RATE)
                parameter.grad = None
        seconds.append(time.perf_counter() - start)
        most = memory("VmHWM") - before
    print(json.dumps({"way": arguments.way, "total_bytes": most, "step_seconds": statistics.median(seconds[2:]), "loss": float(loss)}))


if __name__ == "__main__":
    main()
