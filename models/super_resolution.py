#!/usr/bin/env python3
"""A network of super-resolution kind, for images of any size: convolutions of full resolution alone, so that activations are nearly all of its
memory. One from 3 channels to many, residual blocks of two with a ReLU between them, one back to 3. Weights are drawn from a seed.

    super_resolution.py HEIGHT WIDTH CHANNELS BLOCKS FILE.onnx
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    def __init__(self) -> None:
        self.nodes, self.weights = [], []
        self.draw = np.random.default_rng(0)

    def add(self, kind: str, name: str, operands: list[str], **attributes) -> str:
        self.nodes.append(helper.make_node(kind, operands, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def conv(self, name: str, image: str, channels: int, filters: int) -> str:
        weight = self.draw.standard_normal((filters, channels, 3, 3)) / np.sqrt(9 * channels)
        self.weights.append(numpy_helper.from_array(weight.astype(np.float32), f"{name}_weight"))
        self.weights.append(numpy_helper.from_array(np.zeros(filters, np.float32), f"{name}_bias"))
        return self.add("Conv", name, [image, f"{name}_weight", f"{name}_bias"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def write(height: int, width: int, channels: int, blocks: int, path: str) -> None:
    net = Network()
    image = net.conv("head", "image", 3, channels)
    for block in range(blocks):
        inner = net.add("Relu", f"block{block}.relu", [net.conv(f"block{block}.first", image, channels, channels)])
        image = net.add("Add", f"block{block}.add", [image, net.conv(f"block{block}.second", inner, channels, channels)])
    result = net.conv("tail", image, channels, 3)
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, height, width]) for name in ("image", result)]
    graph = helper.make_graph(net.nodes, "super_resolution", types[:1], types[1:], net.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


if __name__ == "__main__":
    write(*map(int, sys.argv[1:5]), sys.argv[5])
