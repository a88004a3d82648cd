#!/usr/bin/env python3
"""Bytes and seconds of one training step of PyTorch on the CPU, by the ways it has to save memory.

    .venv/bin/python bench/pytorch/memory.py MODEL WAY [--steps N] [--threads N] [--dropout P]

WAY is `eager`; `hook` (AdamW applied to each parameter as soon as its gradient is complete); `checkpoint` (each transformer block
recomputed in the backward pass); `checkpoint+hook`; or `budget=X` (torch.compile with the aot_eager backend, whose min-cut
partitioner keeps the fraction X of the activations). Prints one line of JSON: `total_bytes`, `step_seconds` (median; the first
step warms up), `first_seconds`.

Total bytes are the parameters, gradients, optimizer state, inputs and everything else that is alive, at the moment of the most:
what Lowtide's arena holds. They are counted by storage: each enters when an op gives it out and leaves when it dies, so that
memory inside a kernel is not seen.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
import weakref

os.environ.pop("OPENBLAS_CORETYPE", None)  # it may force slow kernels; must be unset before numpy loads

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
sys.path += [str(ROOT / "models"), str(ROOT / "tests/python")]
import pytorch_reference as reference  # noqa: E402
from networks import NETWORKS  # noqa: E402

SEED = 1
CASES = {"gpt2": dict(batch=4, seq=256), "bert": dict(batch=4, seq=128), "resnet50": dict(batch=8), "unet": dict(batch=2)}


class LiveBytes(TorchDispatchMode):
    """The bytes of all storages that are alive, and their greatest sum."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self):
        super().__init__()
        self.live, self.peak, self._known = 0, 0, set()

    def add(self, value) -> None:
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            return
        storage = value.untyped_storage()
        if storage._cdata in self._known:
            return
        self._known.add(storage._cdata)
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._remove, storage._cdata, storage.nbytes())

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for leaf in tree_leaves(result):
            self.add(leaf)
        return result


class Step:
    """A network in one way, and its training step."""

    def __init__(self, name: str, way: str, dropout: float):
        torch.manual_seed(SEED)
        network = NETWORKS[name]
        self.network = network
        self.model = (network.build(dropout=dropout) if network.has_dropout else network.build()).train()
        self.inputs = reference.make_inputs(network, **CASES[name], seed=SEED)
        self.labels = None
        if "checkpoint" in way:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.optimizers = self._optimizers("hook" in way)
        self.forward = self.model
        if way.startswith("budget="):
            from torch._functorch import config

            config.activation_memory_budget = float(way.removeprefix("budget="))
            self.forward = torch.compile(self.model, backend="aot_eager")

    def _optimizers(self, early: bool) -> list[torch.optim.Optimizer]:
        if not early:
            return [torch.optim.AdamW(self.model.parameters(), foreach=False, **reference.ADAMW)]
        for parameter in self.model.parameters():
            optimizer = torch.optim.AdamW([parameter], foreach=False, **reference.ADAMW)

            def update(_, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            parameter.register_post_accumulate_grad_hook(update)
        return []

    def run(self) -> None:
        logits = self.forward(*self.inputs)
        if self.labels is None:  # in the warm-up step
            self.labels = reference.make_labels(self.network, tuple(logits.shape), SEED)
        loss = reference.cross_entropy(self.network, logits, self.labels)
        del logits
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()


def timed(step: Step) -> float:
    start = time.perf_counter()
    step.run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=CASES)
    parser.add_argument("way")
    parser.add_argument("--steps", type=int, default=2, help="timed ones")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1, help="of models that have it")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    counter = LiveBytes()
    with counter:
        step = Step(arguments.model, arguments.way, arguments.dropout)
        first = timed(step)
        counter.peak = counter.live
        step.run()
    seconds = [timed(step) for _ in range(arguments.steps)]
    print(json.dumps({"torch": torch.__version__, "total_bytes": counter.peak, "step_seconds": statistics.median(seconds),
                      "first_seconds": first}))


if __name__ == "__main__":
    main()
