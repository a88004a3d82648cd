"""A training step of a file by PyTorch, node by node after ONNX's definitions: for networks of which there is only the file.

The rows are those by which random graphs are judged (tests/fuzz_against_onnxruntime/torch_ops.py) and the few that only whole
files have: casts, comparisons, ranges. What trains is what tensors of a file without a word about it are taken for: floats of
more than one element, but for running statistics and the settings of ops.
"""

import pathlib
import sys

import numpy as np
import onnx
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fuzz_against_onnxruntime"))
from graph import Node  # noqa: E402
from judge import EXACT, NOISE  # noqa: E402
from torch_ops import ROWS  # noqa: E402
from training import SETTINGS_FROM, as_written, shaken  # noqa: E402

ULP = NOISE[np.dtype(np.float32)]
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
CHOICES = {"Equal": torch.eq, "LessOrEqual": torch.le, "GreaterOrEqual": torch.ge, "And": torch.logical_and}
MORE_ROWS = ROWS | {kind: lambda node, a, b, function=function: function(a, b) for kind, function in CHOICES.items()} | {
    "Not": lambda node, x: ~x,
    "Dropout": lambda node, x, *rest: x,
    # Before opset 13 the axes are an attribute.
    "Unsqueeze": lambda node, x, *axes: ROWS["Unsqueeze"](node, x, *(axes or [torch.tensor(node.attrs["axes"])])),
    "Shape": lambda node, x: torch.tensor(x.shape[node.attrs.get("start", 0):node.attrs.get("end", x.dim())]),
    "Range": lambda node, start, limit, delta: torch.arange(start.item(), limit.item(), delta.item()),
    "Cast": lambda node, x: x.double() if node.attrs["to"] in FLOATS else x.to(TORCH_TYPES[node.attrs["to"]]),
}
TORCH_TYPES = {onnx.TensorProto.INT64: torch.int64, onnx.TensorProto.INT32: torch.int32, onnx.TensorProto.BOOL: torch.bool}


def as_node(node: onnx.NodeProto, opset: int) -> Node:
    """With the attributes that the file leaves at their defaults."""
    schema = onnx.defs.get_schema(node.op_type, opset)
    attrs = {name: onnx.helper.get_attribute_value(attribute.default_value) for name, attribute in schema.attributes.items()
             if attribute.default_value.type != onnx.AttributeProto.UNDEFINED}
    attrs |= {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    attrs = {name: value.decode() if isinstance(value, bytes) else value for name, value in attrs.items()}
    if "value" in attrs and isinstance(attrs["value"], onnx.TensorProto):
        attrs["value"] = onnx.numpy_helper.to_array(attrs["value"])
    return Node(node.op_type, list(node.input), list(node.output), attrs)


def with_window(node: Node, operands) -> Node:
    """The extents of a window in numbers, where the file leaves them out or says SAME."""
    if node.op not in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        return node
    x = operands[0]
    spatial = x.dim() - 2
    kernel = node.attrs.get("kernel_shape") or list(operands[1].shape[2:])
    strides, dilations = (node.attrs.get(name) or [1] * spatial for name in ("strides", "dilations"))
    pads = list(node.attrs.get("pads") or [0] * 2 * spatial)
    if node.attrs.get("auto_pad", "NOTSET").startswith("SAME"):
        upper = node.attrs["auto_pad"] == "SAME_UPPER"
        for d, extent in enumerate(x.shape[2:]):
            reach = dilations[d] * (kernel[d] - 1) + 1
            if node.op == "ConvTranspose":
                total = max(reach + (node.attrs.get("output_padding") or [0] * spatial)[d] - strides[d], 0)
            else:
                total = max((-(-extent // strides[d]) - 1) * strides[d] + reach - extent, 0)
            pads[d], pads[d + spatial] = (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)
    more = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads, "auto_pad": "NOTSET"}
    return Node(node.op, node.inputs, node.outputs, node.attrs | more)


def constants_of(model: onnx.ModelProto, path: pathlib.Path) -> dict[str, np.ndarray]:
    known = {tensor.name: onnx.numpy_helper.to_array(tensor, str(path.parent)) for tensor in model.graph.initializer}
    return known | {node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t) for node in model.graph.node
                    if node.op_type == "Constant"}


def settings(model: onnx.ModelProto) -> set[str]:
    return {name for node in model.graph.node for name in node.input[SETTINGS_FROM.get(node.op_type, len(node.input)):]}


def step(path: pathlib.Path, feeds: dict[str, np.ndarray], loss_of, dtype: torch.dtype, noise: np.random.Generator | None = None):
    """The loss, by name the parameters as leaves with their gradients, and what running statistics have become; `loss_of` makes
    the loss of the first output of floats. With noise, what an op computes is moved as rounding to f32 would."""
    model = onnx.load(str(path), load_external_data=False)
    opset = next(entry.version for entry in model.opset_import if entry.domain == "")
    fixed = settings(model)
    values, parameters = {"": None}, {}
    for name, array in (constants_of(model, path) | feeds).items():
        values[name] = torch.from_numpy(np.array(array))
        if values[name].is_floating_point():
            values[name] = values[name].to(dtype)
            if name not in feeds and name not in fixed and array.size > 1:
                parameters[name] = values[name].requires_grad_()
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        operands = [values[name] for name in node.input]
        made = MORE_ROWS[node.op_type](as_written(with_window(as_node(node, opset), operands)), *operands)
        for name, value in zip(node.output, made if isinstance(made, tuple) else (made,)):
            values[name] = value.to(dtype) if value.is_floating_point() else value
            if noise is not None and value.is_floating_point() and node.op_type not in EXACT:
                values[name] = shaken(values[name], ULP, noise)
    output = next(values[output.name] for output in model.graph.output if values[output.name].is_floating_point())
    loss = loss_of(output)
    loss.backward()
    statistics = {name: values[name] for node in model.graph.node if node.op_type == "BatchNormalization"
                  for name in node.input[3:]}
    return loss.item(), parameters, statistics
