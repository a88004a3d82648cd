#!/usr/bin/env python3
"""Writes random networks that resemble NASNet (Zoph et al. 2018) as weight-free, trainable ONNX files: wide, irregular graphs.

    python models/nasnet.py --out DIR [seed ...]                         (default: 0 to 9)

MAGIS's paper (section 7.3) schedules ten such networks; it has no generator, so this is ours. A seed draws two cells, a normal one and
a reduction cell, as NASNet's search space has them: five blocks, each of which takes two of what is there so far (the outputs of
the two cells before and of the blocks before), applies an operation to each and adds the results; what no block took is joined by
a Concat of channels. Operations: identity, separable convolutions 3x3, 5x5 and 7x7, convolutions 1x1, 3x3 and 1x7 followed by 7x1,
average and maximum pooling 3x3. A reduction cell's operations on the cells before have stride 2. The network: a 3x3 convolution,
three stacks of two normal cells with a reduction cell and twice the channels between them, the mean over space and ten classes.

The batch is a symbol; images are 32x32. A network has 250 to 450 nodes. The same seed gives the same bytes with any version of Python.
"""

import argparse
import dataclasses
import hashlib
import pathlib
from collections.abc import Iterator

import onnx
from magis_networks import Builder

SEEDS = range(10)
CLASSES, BLOCKS = 10, 5  # blocks of a cell
OPERATIONS = ("identity", "sep3", "sep5", "sep7", "conv1", "conv3", "conv1x7", "avg3", "max3")


@dataclasses.dataclass(frozen=True)
class Size:
    extent: int = 32  # of images
    filters: int = 32
    stacks: int = 3
    cells: int = 2  # normal cells of a stack


Block = tuple[int, int, str, str]  # which two of what is there, and the operation on each


def drawn(seed: int) -> Iterator[int]:
    """Numbers that a seed decides, by SHA-256 of a count: random.Random may change with Python."""
    count = 0
    while True:
        yield int.from_bytes(hashlib.sha256(f"nasnet {seed} {count}".encode()).digest()[:8], "big")
        count += 1


def cell(numbers: Iterator[int]) -> list[Block]:
    def choose(options):
        return options[next(numbers) % len(options)]
    return [(choose(range(2 + block)), choose(range(2 + block)), choose(OPERATIONS), choose(OPERATIONS)) for block in range(BLOCKS)]


class Network:
    def __init__(self, seed: int, size: Size):
        numbers = drawn(seed)
        self.size = size
        self.normal, self.reduction = cell(numbers), cell(numbers)
        self.net = Builder(f"nasnet{seed}")
        self.channels: dict[str, int] = {}
        self.extent: dict[str, int] = {}

    def made(self, name: str, channels: int, extent: int) -> str:
        self.channels[name], self.extent[name] = channels, extent
        return name

    def conv(self, x: str, name: str, channels: int, kernel: tuple[int, int], stride: int = 1, groups: int = 1) -> str:
        weight = self.net.weight(name, channels, self.channels[x] // groups, *kernel)
        pads = (kernel[0] // 2, kernel[1] // 2) * 2
        y = self.net.op("Conv", x, weight, pads=pads, kernel_shape=kernel, strides=(stride, stride), group=groups)
        return self.made(y, channels, -(-self.extent[x] // stride))

    def relu(self, x: str) -> str:
        return self.made(self.net.op("Relu", x), self.channels[x], self.extent[x])

    def squeezed(self, x: str, name: str, channels: int, extent: int) -> str:
        """ReLU and a 1x1 convolution to so many channels; a larger extent is halved with it."""
        return self.conv(self.relu(x), name, channels, (1, 1), stride=self.extent[x] // extent)

    def apply(self, operation: str, x: str, stride: int) -> str:
        channels = self.channels[x]
        if operation == "identity":
            return x if stride == 1 else self.conv(self.relu(x), "identity", channels, (1, 1), stride)
        if operation in ("avg3", "max3"):
            kind = {"avg3": "AveragePool", "max3": "MaxPool"}[operation]
            y = self.net.op(kind, x, kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(stride, stride))
            return self.made(y, channels, -(-self.extent[x] // stride))
        if operation.startswith("sep"):
            width = int(operation[3])
            for turn, step in enumerate((stride, 1)):
                x = self.conv(self.relu(x), f"{operation}.{turn}.depth", channels, (width, width), step, groups=channels)
                x = self.conv(x, f"{operation}.{turn}.point", channels, (1, 1))
            return x
        if operation == "conv1x7":
            return self.conv(self.conv(self.relu(x), "row", channels, (1, 7), stride), "column", channels, (7, 1))
        return self.conv(self.relu(x), operation, channels, {"conv1": (1, 1), "conv3": (3, 3)}[operation], stride)

    def add_cell(self, name: str, blocks: list[Block], before: tuple[str, str], channels: int, stride: int) -> str:
        self.net.scope = name
        extent = self.extent[before[1]]
        there = [self.squeezed(x, f"squeeze.{i}", channels, extent) for i, x in enumerate(before)]
        unused = set(range(len(there)))
        for index, (first, second, *operations) in enumerate(blocks):
            sides = []
            for side, (source, operation) in enumerate(zip((first, second), operations)):
                self.net.scope = f"{name}.block.{index}.{side}"
                sides.append(self.apply(operation, there[source], stride if source < 2 else 1))
                unused.discard(source)
            there.append(self.made(self.net.op("Add", *sides), channels, self.extent[sides[0]]))
            unused.add(len(there) - 1)
        # With a stride, an unused input of the cell has another extent than its blocks.
        parts = [there[i] for i in sorted(unused) if i >= 2 or stride == 1]
        if len(parts) == 1:
            return parts[0]
        return self.made(self.net.op("Concat", *parts, axis=1), channels * len(parts), self.extent[parts[0]])

    def model(self) -> onnx.ModelProto:
        size = self.size
        image = self.made(self.net.input("x", ("batch", 3, size.extent, size.extent)), 3, size.extent)
        self.net.scope = "stem"
        stem = self.conv(image, "weight", 3 * size.filters, (3, 3))
        before = (stem, stem)
        for stack in range(size.stacks):
            channels = size.filters << stack
            if stack > 0:
                before = (before[1], self.add_cell(f"reduction.{stack}", self.reduction, before, channels, stride=2))
            for index in range(size.cells):
                before = (before[1], self.add_cell(f"stack.{stack}.{index}", self.normal, before, channels, stride=1))
        self.net.scope = "head"
        last = self.relu(before[1])
        mean = self.net.reshape(self.net.op("GlobalAveragePool", last), 0, self.channels[last])
        scores = self.net.op("MatMul", mean, self.net.weight("weight", self.channels[last], CLASSES))
        return self.net.model(scores, ("batch", CLASSES))


def network(seed: int, size: Size = Size()) -> onnx.ModelProto:
    return Network(seed, size).model()


def write(seed: int, folder: pathlib.Path, size: Size = Size()) -> pathlib.Path:
    """Writes one network; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"nasnet{seed}.onnx"
    path.write_bytes(network(seed, size).SerializeToString(deterministic=True))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("seeds", nargs="*", type=int, metavar="seed")
    arguments = parser.parse_args()
    for seed in arguments.seeds or SEEDS:
        path = write(seed, arguments.out)
        graph = onnx.load(path, load_external_data=False).graph
        print(f"{path}: {len(graph.node)} nodes, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
