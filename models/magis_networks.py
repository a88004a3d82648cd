#!/usr/bin/env python3
"""Writes the networks of MAGIS's evaluation (Chen et al. 2024, table 2) as weight-free, trainable ONNX files.

    python models/magis_networks.py --out DIR [name ...]                 (default: all)

No file of them is committed: each takes a second to make, the same bytes every time, with `onnx` alone (no torch: three billion
parameters need not exist to have shapes). The batch, and of BERT, GPT-Neo and BTLM the sequence, are symbols.

The transformers are what MAGIS's own code builds: a dense input instead of tokens, normalization before attention and before the
two-layer network, no biases, masks, dropout, learned scales or vocabulary, ReLU between the two layers, and ViT's 1000 classes at
every token. U-Net++ has one convolution for each of its 15 nodes, all skips, one head; it goes up by transposed convolutions, which
halve the channels, as the U-Net of this folder does (MAGIS repeats pixels). ResNet-50 and U-Net are the files of this folder.

MAGIS has no batch normalization. So the networks of convolutions come in two variants: NAME without it, and NAME_bn with it, as the
papers of those networks have it. In training form it couples the samples of a batch.
"""

import argparse
import pathlib
from collections.abc import Callable, Sequence

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

KIND_KEY = "pkg.torch.export.graph_signature.InputSpec.kind"  # as in the files that export.py writes
SCOPE_KEY = "pkg.torch.onnx.name_scopes"
WEIGHT_FILE, WEIGHT_ALIGNMENT = "weights.bin", 4096
OPSET, IR_VERSION = 20, 10
FOLDER = pathlib.Path(__file__).parent


class Builder:
    """A network written down node by node. Each method that adds a node returns the name of its first output."""

    def __init__(self, name: str):
        self.graph = onnx.GraphProto(name=name)
        self.scope, self.offset, self.count = "", 0, 0

    def input(self, name: str, dims: Sequence[int | str]) -> str:
        self.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        return name

    def weight(self, name: str, *dims: int, kind: str = "PARAMETER") -> str:
        """A parameter or buffer: type and shape, and a reference into a file that does not exist."""
        name = f"{self.scope}.{name}" if self.scope else name
        length = 4
        for dim in dims:
            length *= dim
        tensor = self.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", WEIGHT_FILE), ("offset", self.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.offset += -(-length // WEIGHT_ALIGNMENT) * WEIGHT_ALIGNMENT
        self.add_info(name, TensorProto.FLOAT, dims, kind)
        return name

    def constant(self, values: numpy.ndarray, name: str) -> str:
        """Values that no training step changes."""
        if all(tensor.name != name for tensor in self.graph.initializer):
            self.graph.initializer.append(numpy_helper.from_array(values, name))
            self.add_info(name, self.graph.initializer[-1].data_type, values.shape, "CONSTANT_TENSOR")
        return name

    def add_info(self, name: str, element_type: int, dims: Sequence[int], kind: str) -> None:
        info = helper.make_tensor_value_info(name, element_type, dims)
        info.metadata_props.add(key=KIND_KEY, value=kind)
        self.graph.value_info.append(info)

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        self.count += 1
        name = f"{kind.lower()}_{self.count}"
        node = helper.make_node(kind, inputs, [name], name=f"node_{name}", **attributes)
        node.metadata_props.add(key=SCOPE_KEY, value=str(["", self.scope]))
        self.graph.node.append(node)
        return name

    def reshape(self, x: str, *dims: int) -> str:
        """0 keeps a dim, -1 takes what is left."""
        return self.op("Reshape", x, self.constant(numpy.array(dims, numpy.int64), "to_" + "_".join(map(str, dims))))

    def model(self, output: str, dims: Sequence[int | str]) -> onnx.ModelProto:
        """The network whose output is `output`, under the name that all networks' outputs have."""
        self.graph.node[-1].output[0] = "logits"
        assert self.graph.node[-1].name == f"node_{output}"
        self.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, dims))
        return helper.make_model(self.graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)],
                                 producer_name="lowtide")


def normalized(net: Builder, x: str, hidden: int) -> str:
    """Layer normalization without learned scale or shift: ONNX wants a scale, so it is a constant of ones."""
    return net.op("LayerNormalization", x, net.constant(numpy.ones(hidden, numpy.float32), "ones"), axis=-1, epsilon=1e-5)


def attention(net: Builder, x: str, hidden: int, heads: int) -> str:
    """softmax(Q K^T / sqrt(d)) V for each head, and the product that joins the heads."""
    width = hidden // heads

    def projected(name: str, *order: int) -> str:
        product = net.op("MatMul", x, net.weight(name, hidden, hidden))
        return net.op("Transpose", net.reshape(product, 0, 0, heads, width), perm=order)

    scores = net.op("MatMul", projected("query", 0, 2, 1, 3), projected("key", 0, 2, 3, 1))
    scaled = net.op("Div", scores, net.constant(numpy.array(width**0.5, numpy.float32), "sqrt_width"))
    mixed = net.op("MatMul", net.op("Softmax", scaled, axis=-1), projected("value", 0, 2, 1, 3))
    joined = net.reshape(net.op("Transpose", mixed, perm=(0, 2, 1, 3)), 0, 0, hidden)
    return net.op("MatMul", joined, net.weight("output", hidden, hidden))


def transformer(name: str, layers: int, hidden: int, heads: int, sequence: int | str, classes: int = 0) -> onnx.ModelProto:
    net = Builder(name)
    x = net.input("x", ("batch", sequence, hidden))
    for layer in range(layers):
        net.scope = f"layer.{layer}"
        x = net.op("Add", x, attention(net, normalized(net, x, hidden), hidden, heads))
        wide = net.op("Relu", net.op("MatMul", normalized(net, x, hidden), net.weight("up", hidden, 4 * hidden)))
        x = net.op("Add", x, net.op("MatMul", wide, net.weight("down", 4 * hidden, hidden)))
    net.scope = ""
    if classes:
        x = net.op("MatMul", x, net.weight("head", hidden, classes))
    return net.model(x, ("batch", sequence, classes or hidden))


def batch_normalized(net: Builder, x: str, name: str, channels: int) -> str:
    learned = [net.weight(f"{name}.{part}", channels) for part in ("weight", "bias")]
    running = [net.weight(f"{name}.running_{part}", channels, kind="BUFFER") for part in ("mean", "var")]
    return net.op("BatchNormalization", x, *learned, *running, epsilon=1e-5, momentum=0.9)


def unet_plus_plus(name: str, with_norm: bool, extent: int = 256, width: int = 64, levels: int = 5) -> onnx.ModelProto:
    """x[i][j]: at level i, from all x[i][k] with k < j and x[i + 1][j - 1] one level up (Zhou et al. 2018, figure 1)."""
    net = Builder(name)
    widths = [width << level for level in range(levels)]
    image = net.input("x", ("batch", 3, extent, extent))

    def node(x: str, level: int, column: int, channels: int) -> str:
        net.scope = f"node.{level}.{column}"
        x = net.op("Conv", x, net.weight("conv.weight", widths[level], channels, 3, 3), pads=(1, 1, 1, 1), kernel_shape=(3, 3))
        return net.op("Relu", batch_normalized(net, x, "norm", widths[level]) if with_norm else x)

    rows: list[list[str]] = []
    for level in range(levels):
        pooled = net.op("MaxPool", rows[-1][0], kernel_shape=(2, 2), strides=(2, 2)) if level else image
        rows.append([node(pooled, level, 0, widths[level - 1] if level else 3)])
    for column in range(1, levels):
        for level in range(levels - column):
            net.scope = f"up.{level}.{column}"
            up = net.op("ConvTranspose", rows[level + 1][column - 1], net.weight("weight", widths[level + 1], widths[level], 2, 2),
                        kernel_shape=(2, 2), strides=(2, 2))
            joined = net.op("Concat", *rows[level], up, axis=1)
            rows[level].append(node(joined, level, column, (column + 1) * widths[level]))
    net.scope = "head"
    head = net.op("Conv", rows[0][-1], net.weight("weight", 2, width, 1, 1), kernel_shape=(1, 1))
    return net.model(head, ("batch", 2, extent, extent))


def committed(name: str, with_norm: bool) -> onnx.ModelProto:
    """A network of this folder; without batch normalization, what read its result reads its operand."""
    model = onnx.load(FOLDER / f"{name}.onnx", load_external_data=False)
    if with_norm:
        return model
    graph, renamed, unused = model.graph, {}, set()
    nodes = []
    for node in graph.node:
        inputs = [renamed.get(x, x) for x in node.input]
        if node.op_type == "BatchNormalization":
            renamed[node.output[0]] = inputs[0]
            unused.update([*inputs[1:], *node.output])
            continue
        node.input[:] = inputs
        nodes.append(node)
    result = onnx.ModelProto.FromString(model.SerializeToString())
    for field, entries in ((result.graph.node, nodes), (result.graph.initializer, graph.initializer),
                           (result.graph.value_info, graph.value_info)):
        del field[:]
        field.extend(entry for entry in entries if entry.name not in unused)
    return result


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "magis_tiny": lambda: transformer("tiny", layers=2, hidden=64, heads=4, sequence="seq"),  # for tests
    "magis_resnet50": lambda: committed("resnet50", with_norm=False),
    "magis_resnet50_bn": lambda: committed("resnet50", with_norm=True),
    "magis_bert": lambda: transformer("bert", layers=12, hidden=768, heads=12, sequence="seq"),
    "magis_vit": lambda: transformer("vit", layers=12, hidden=768, heads=12, sequence=14 * 14, classes=1000),
    "magis_unet": lambda: committed("unet", with_norm=False),
    "magis_unet_bn": lambda: committed("unet", with_norm=True),
    "magis_unetpp": lambda: unet_plus_plus("unetpp", with_norm=False),
    "magis_unetpp_bn": lambda: unet_plus_plus("unetpp", with_norm=True),
    "magis_gptneo": lambda: transformer("gptneo", layers=24, hidden=2048, heads=16, sequence="seq"),
    "magis_btlm": lambda: transformer("btlm", layers=32, hidden=2560, heads=32, sequence="seq"),
}


def write(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes one network; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    path.write_bytes(NETWORKS[name]().SerializeToString(deterministic=True))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", metavar="name")
    arguments = parser.parse_args()
    for name in arguments.names or NETWORKS:
        path = write(name, arguments.out)
        graph = onnx.load(path, load_external_data=False).graph
        elements = sum(int(numpy.prod(x.dims)) for x in graph.initializer if x.data_location == TensorProto.EXTERNAL)
        print(f"{path}: {len(graph.node)} nodes, {elements:,} elements of weights, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
