#!/usr/bin/env python3
"""One training step of a network in PyTorch, written out for comparison with Lowtide's.

    .venv/bin/python tests/python/pytorch_reference.py NETWORK -o FILE.npz [--batch N] [--seq N] [--size N] [--seed N]
        [--elements N]

Parameters, running statistics, the inputs and the labels come from seeded_values.py (the labels' tensor name is "labels").
The loss is the mean cross-entropy over all positions, pixels or images. The optimizer is AdamW on every parameter: learning
rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8, decoupled weight decay 0.01. Dropout is off, batch normalization uses the
statistics of the batch.

The file holds `loss` (float64), and for the logits, every gradient and every updated weight the arrays

    logits, grad/NAME, after/NAME       every k-th element of the flattened tensor, k the least that keeps --elements
    norm/logits, norm/grad/NAME, ...    the Euclidean norm of the whole tensor

so that a GPT-2 step is a few megabytes; --elements 0 keeps everything. `shape/...` has the whole tensor's shape.
"""

import argparse
import dataclasses
import math
import pathlib
import sys

import numpy as np
import torch

import seeded_values

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "models"))
from networks import NETWORKS, Input, Network  # noqa: E402  (a path of the repository, not a package)

ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


@dataclasses.dataclass
class Step:
    loss: float
    logits: torch.Tensor
    gradients: dict[str, torch.Tensor]
    updated: dict[str, torch.Tensor]


def build(name: str, seed: int) -> torch.nn.Module:
    """The network in training mode without dropout, with seeded parameters and running statistics."""
    network = NETWORKS[name]
    model = network.build(dropout=0.0) if network.has_dropout else network.build()
    with torch.no_grad():
        for key, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(seeded_values.parameter(seed, key, tuple(tensor.shape))))
    return model.float().train()


def input_shape(entry: Input, batch: int, seq: int, size: int | None) -> tuple[int, ...]:
    if "seq" in entry.dynamic_dims.values():
        return batch, seq
    channels, height, width = entry.example_shape[1:]
    return batch, channels, size or height, size or width


def make_input(entry: Input, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    if entry.limit is None:
        return torch.from_numpy(seeded_values.float_input(seed, entry.name, shape))
    return torch.from_numpy(seeded_values.integer_input(seed, entry.name, shape, entry.limit))


def make_inputs(network: Network, batch: int, seq: int = 0, size: int | None = None, *,
                seed: int) -> tuple[torch.Tensor, ...]:
    return tuple(make_input(entry, input_shape(entry, batch, seq, size), seed) for entry in network.inputs)


def make_labels(network: Network, logits_shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """One class for every element of the logits' other dims."""
    shape = tuple(extent for dim, extent in enumerate(logits_shape) if dim != network.class_dim)
    return torch.from_numpy(seeded_values.integer_input(seed, "labels", shape, network.classes))


def cross_entropy(network: Network, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    rows = logits.movedim(network.class_dim, -1).reshape(-1, network.classes)
    return torch.nn.functional.cross_entropy(rows, labels.reshape(-1))


def training_step(name: str, batch: int = 1, seq: int = 64, size: int | None = None, seed: int = 1,
                  dtype: torch.dtype = torch.float32) -> Step:
    """In float64 the same float32 values are the start, so that what differs is rounding alone."""
    network = NETWORKS[name]
    model = build(name, seed).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    inputs = make_inputs(network, batch, seq, size, seed=seed)
    logits = model(*(data.to(dtype) if data.is_floating_point() else data for data in inputs))
    loss = cross_entropy(network, logits, make_labels(network, tuple(logits.shape), seed))
    loss.backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters()}
    optimizer.step()
    updated = {key: p.detach() for key, p in model.named_parameters()}
    return Step(loss.item(), logits.detach(), gradients, updated)


def sampled(tensor: torch.Tensor, elements: int) -> np.ndarray:
    flat = tensor.contiguous().flatten().numpy()
    stride = math.ceil(flat.size / elements) if elements else 1
    return flat[::stride]


def to_arrays(step: Step, elements: int) -> dict[str, np.ndarray]:
    tensors = {"logits": step.logits}
    tensors |= {f"grad/{key}": value for key, value in step.gradients.items()}
    tensors |= {f"after/{key}": value for key, value in step.updated.items()}
    arrays = {"loss": np.float64(step.loss)}
    for key, tensor in tensors.items():
        arrays[key] = sampled(tensor, elements)
        arrays[f"norm/{key}"] = np.float64(tensor.double().norm().item())
        arrays[f"shape/{key}"] = np.array(tensor.shape, dtype=np.int64)
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=64, help="tokens per sequence (gpt2, bert)")
    parser.add_argument("--size", type=int, help="height and width of the images (default: as exported)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--elements", type=int, default=4096, help="kept of each tensor; 0 keeps all")
    arguments = parser.parse_args()
    step = training_step(arguments.network, arguments.batch, arguments.seq, arguments.size, arguments.seed)
    np.savez(arguments.output, **to_arrays(step, arguments.elements))
    print(f"{arguments.output}: loss {step.loss:.9g}, {len(step.gradients)} gradients")


if __name__ == "__main__":
    main()
