"""A small ONNX graph as plain data, so that it can be drawn, cut down and written to a file.

Every value has a numpy type and a shape. A node is (op, inputs, outputs, attributes); an input may be "" (absent).
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOMAIN_IR = {13: 8, 15: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
WIDEST_INLINE = 1 << 16


@dataclasses.dataclass
class Node:
    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict


@dataclasses.dataclass
class Graph:
    opset: int
    inputs: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # fed, with the contents of one step
    constants: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # initializers
    nodes: list[Node] = dataclasses.field(default_factory=list)
    types: dict[str, tuple[np.dtype, tuple[int, ...]]] = dataclasses.field(default_factory=dict)  # of every value
    outputs: list[str] = dataclasses.field(default_factory=list)

    def made(self) -> list[str]:
        return [name for node in self.nodes for name in node.outputs if name]

    def shaping(self) -> set[str]:
        """Floats that decide shapes."""
        return {name for node in self.nodes if node.op == "Resize" for name in node.inputs[1:]}

    def ops(self) -> list[str]:
        return [node.op for node in self.nodes]

    def text(self) -> str:
        lines = [f"opset {self.opset}"]
        lines += [f"input {name} {array.dtype}{list(array.shape)}" for name, array in self.inputs.items()]
        for name, array in self.constants.items():
            shown = f" = {array.tolist()}" if array.size <= 12 else ""
            lines.append(f"constant {name} {array.dtype}{list(array.shape)}{shown}")
        for node in self.nodes:
            made = ", ".join(f"{name} {self.types[name][0]}{list(self.types[name][1])}" for name in node.outputs if name)
            attrs = " ".join(f"{key}={value}" for key, value in node.attrs.items())
            lines.append(f"{made} = {node.op}({', '.join(node.inputs)}) {attrs}".rstrip())
        return "\n".join([*lines, "outputs " + ", ".join(self.outputs)])


def element_type(dtype: np.dtype) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def to_model(graph: Graph) -> onnx.ModelProto:
    def info(name):
        dtype, shape = graph.types[name]
        return helper.make_tensor_value_info(name, element_type(dtype), list(shape))

    nodes = []
    for index, node in enumerate(graph.nodes):
        attrs = {key: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
                 for key, value in node.attrs.items()}
        nodes.append(helper.make_node(node.op, node.inputs, node.outputs, name=f"n{index}_{node.op}", **attrs))
    made = helper.make_graph(nodes, "drawn", [info(name) for name in graph.inputs], [info(name) for name in graph.outputs],
                             [numpy_helper.from_array(array, name) for name, array in graph.constants.items()])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", graph.opset)],
                             ir_version=DOMAIN_IR.get(graph.opset, 10), producer_name="fuzz_against_onnxruntime")


def save_case(graph: Graph, path: str) -> None:
    """The model as PATH and what it was fed beside it."""
    onnx.save(to_model(graph), path)
    np.savez(path.removesuffix(".onnx") + ".npz", **graph.inputs)


def prune(graph: Graph) -> Graph:
    """Without the nodes, inputs and constants that no output needs."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(name for name in node.inputs if name)
    return dataclasses.replace(
        graph, nodes=kept[::-1],
        inputs={name: array for name, array in graph.inputs.items() if name in needed},
        constants={name: array for name, array in graph.constants.items() if name in needed})
