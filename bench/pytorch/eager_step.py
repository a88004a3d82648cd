#!/usr/bin/env python3
"""Times one training step of PyTorch's eager mode on the CPU: the baseline beside which Lowtide's times are printed.

    .venv/bin/python bench/pytorch/eager_step.py [--steps N] [--threads N] [--channels-last] [--json FILE] [case ...]

Cases: gpt2 (batch 4 x 256 tokens), bert (batch 4 x 128 tokens), resnet50 (batch 8 x 224 x 224), unet (batch 2 x 256 x 256),
all float32: forward, mean cross-entropy, backward, AdamW. Gradients are set to none after each step, as is usual. Dropout is off, so that Lowtide
and PyTorch do the same work.

The steps of the cases are interleaved, so that a busy spell of the machine falls on all of them, and the median is
reported beside the least and the greatest. The first step of each case warms up and is not counted.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import time

os.environ.pop("OPENBLAS_CORETYPE", None)  # it may force slow kernels; must be unset before numpy loads

import torch  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
sys.path += [str(ROOT / "models"), str(ROOT / "tests/python")]
import pytorch_reference as reference  # noqa: E402
from networks import NETWORKS  # noqa: E402

SEED = 1
CASES = {"gpt2": dict(batch=4, seq=256), "bert": dict(batch=4, seq=128), "resnet50": dict(batch=8, seq=0),
         "unet": dict(batch=2, seq=0)}


class Trainer:
    """A network, its optimizer and one batch."""

    def __init__(self, name: str, channels_last: bool):
        self.network = NETWORKS[name]
        self.model = reference.build(name, SEED)
        self.inputs = reference.make_inputs(self.network, **CASES[name], seed=SEED)
        if channels_last and "seq" not in self.network.inputs[0].dynamic_dims.values():
            self.model = self.model.to(memory_format=torch.channels_last)
            self.inputs = tuple(data.to(memory_format=torch.channels_last) for data in self.inputs)
        self.labels = None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **reference.ADAMW)

    def step(self) -> float:
        """Runs one training step and returns its seconds."""
        start = time.perf_counter()
        logits = self.model(*self.inputs)
        if self.labels is None:  # in the warm-up step
            self.labels = reference.make_labels(self.network, tuple(logits.shape), SEED)
        loss = reference.cross_entropy(self.network, logits, self.labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - start


def cpu_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="case")
    parser.add_argument("--steps", type=int, default=5, help="counted steps of each case")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels-last", action="store_true", help="memory format of the networks on images")
    parser.add_argument("--json", type=pathlib.Path, help="write the result here as well")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")

    torch.set_num_threads(arguments.threads)
    load_before = os.getloadavg()[0]
    trainers = {name: Trainer(name, arguments.channels_last) for name in arguments.cases}
    for trainer in trainers.values():
        trainer.step()
    seconds = {name: [] for name in trainers}
    for _ in range(arguments.steps):
        for name, trainer in trainers.items():
            seconds[name].append(trainer.step())

    result = {
        "torch": torch.__version__,
        "cpu": cpu_name(),
        "threads": arguments.threads,
        "channels_last": arguments.channels_last,
        "load_average_before": round(load_before, 2),
        "steps": arguments.steps,
        "cases": {
            name: {
                **{key: value for key, value in CASES[name].items() if value},
                "median_s": round(statistics.median(times), 4),
                "least_s": round(min(times), 4),
                "greatest_s": round(max(times), 4),
            }
            for name, times in seconds.items()
        },
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
