"""Files in the style of exporters that are not PyTorch's, put together node by node, and rewrites of files into such styles.

  tf2onnx, Keras      images in NHWC with Transposes around convolutions, Pad before strided ones, Relu6 as Clip, shapes that
                      are computed (Shape, StridedSlice as Slice, Concat, Reshape), ReduceMean in place of pooling
  PaddlePaddle        opset 11, every weight a Constant node, sizes of Resize and Reshape too
  scikit-learn        scaling by Sub and Div, a network of MatMul and Add, ArgMax, Cast and a Gather of the labels
  quantizing tools    DequantizeLinear of integer weights between QuantizeLinear and DequantizeLinear of activations; weights of 7
                      bits, as the tools advise: on processors without VNNI ONNX Runtime's products of 8 bits saturate
  converters to f16   the same network with f16 weights between two Casts
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .classification import mobilenet_v3, resnet18
from .dense import StyleTransfer
from .sequence import LineRecognizer
from .spec import Entry, Feed, images

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class File:
    """Nodes in order, with values that a seeded generator draws."""

    def __init__(self, seed: int):
        self.random, self.nodes, self.tensors, self.count = np.random.default_rng(seed), [], [], 0

    def tensor(self, array, name: str | None = None) -> str:
        self.count += 1
        name = name or f"const__{self.count}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int, name: str | None = None) -> str:
        fan = np.prod(shape[1:]) if len(shape) > 1 else 100
        return self.tensor((self.random.uniform(-1, 1, shape) * np.sqrt(3 / fan)).astype(np.float32), name)

    def add(self, op: str, *inputs: str, name: str | None = None, outputs: int = 1, **attributes):
        self.count += 1
        name = name or f"{op}__{self.count}"
        made = [f"{name}:{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def finish(self, inputs, outputs, opset: int, producer: str, ir: int = 8) -> onnx.ModelProto:
        """Inputs and outputs as (name, type, dims); an output's name is made by an Identity, as converters do it."""
        for name, _, _, value in outputs:
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        graph = helper.make_graph(
            self.nodes, "graph", [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs],
            [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims, _ in outputs], self.tensors)
        model = helper.make_model(graph, producer_name=producer, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
        onnx.checker.check_model(model)
        return model


def separable(file: File, x: str, i: int, o: int, stride: int, residual: bool) -> str:
    """A block of MobileNet in NHWC: what comes in and goes out is (n, h, w, c)."""

    def normed(y: str, channels: int) -> str:
        return file.add("BatchNormalization", y, file.tensor(file.random.uniform(0.9, 1.1, channels).astype(np.float32)),
                        file.weight(channels), file.weight(channels),
                        file.tensor(file.random.uniform(0.9, 1.1, channels).astype(np.float32)), epsilon=1e-3)

    zero, six = file.tensor(np.float32(0)), file.tensor(np.float32(6))
    y = file.add("Transpose", x, perm=[0, 3, 1, 2])
    y = file.add("Clip", normed(file.add("Conv", y, file.weight(4 * i, i, 1, 1), kernel_shape=[1, 1]), 4 * i), zero, six)
    if stride == 2:  # Keras pads by hand where the size is even
        y = file.add("Transpose", y, perm=[0, 2, 3, 1])
        y = file.add("Pad", y, file.tensor(np.array([0, 0, 0, 0, 0, 1, 1, 0], np.int64)), zero, mode="constant")
        y = file.add("Transpose", y, perm=[0, 3, 1, 2])
    pads = {"pads": [0, 0, 0, 0]} if stride == 2 else {"auto_pad": "SAME_UPPER"}
    y = file.add("Conv", y, file.weight(4 * i, 1, 3, 3), group=4 * i, strides=[stride, stride], kernel_shape=[3, 3], **pads)
    y = file.add("Clip", normed(y, 4 * i), zero, six)
    y = normed(file.add("Conv", y, file.weight(o, 4 * i, 1, 1), kernel_shape=[1, 1]), o)
    y = file.add("Transpose", y, perm=[0, 2, 3, 1])
    return file.add("Add", x, y) if residual else y


def keras_mobilenet() -> onnx.ModelProto:
    file = File(1)
    x = file.add("Transpose", "input_1", perm=[0, 3, 1, 2])
    x = file.add("Conv", x, file.weight(8, 3, 3, 3), file.weight(8), strides=[2, 2], auto_pad="SAME_UPPER", kernel_shape=[3, 3])
    x = file.add("Transpose", file.add("Relu", x), perm=[0, 2, 3, 1])
    x = separable(file, x, 8, 12, 2, False)
    x = separable(file, x, 12, 12, 1, True)
    x = file.add("ReduceMean", x, axes=[1, 2], keepdims=0)
    x = file.add("Add", file.add("MatMul", x, file.weight(12, 10)), file.weight(10))
    return file.finish([("input_1", FLOAT, ["unk__0", 32, 32, 3])],
                       [("dense", FLOAT, ["unk__0", 10], file.add("Softmax", x, axis=-1))], 13, "tf2onnx")


def keras_squeeze_excite() -> onnx.ModelProto:
    """EfficientNet's block as Keras writes it: normalized in the file, swish spelled out, gates reshaped to (n, 1, 1, c)."""
    file = File(2)
    scale, mean = file.tensor(np.float32(1 / 0.3)), file.tensor(np.array([0.1, 0.0, -0.1], np.float32).reshape(1, 1, 1, 3))
    x = file.add("Mul", file.add("Sub", "images", mean), scale)

    def swish(y: str) -> str:
        return file.add("Mul", y, file.add("Sigmoid", y))

    x = file.add("Pad", x, file.tensor(np.array([0, 0, 0, 0, 0, 1, 1, 0], np.int64)))
    x = file.add("Conv", file.add("Transpose", x, perm=[0, 3, 1, 2]), file.weight(16, 3, 3, 3), strides=[2, 2], kernel_shape=[3, 3])
    x = swish(file.add("Mul", x, file.weight(1, 16, 1, 1)))
    x = swish(file.add("Conv", x, file.weight(16, 1, 5, 5), group=16, auto_pad="SAME_LOWER", kernel_shape=[5, 5]))
    gate = file.add("ReduceMean", x, axes=[2, 3], keepdims=0)
    shape = file.add("Concat", file.add("Slice", file.add("Shape", gate), file.tensor(np.array([0])), file.tensor(np.array([1])),
                                        file.tensor(np.array([0]))), file.tensor(np.array([1, 1, 16])), axis=0)
    gate = file.add("Transpose", file.add("Reshape", gate, shape), perm=[0, 3, 1, 2])
    gate = swish(file.add("Conv", gate, file.weight(4, 16, 1, 1), file.weight(4)))
    gate = file.add("Sigmoid", file.add("Conv", gate, file.weight(16, 4, 1, 1), file.weight(16)))
    x = file.add("Conv", file.add("Mul", x, gate), file.weight(24, 16, 1, 1))
    x = file.add("Squeeze", file.add("GlobalAveragePool", x), file.tensor(np.array([2, 3])))
    x = file.add("Gemm", x, file.weight(24, 10), file.weight(10), alpha=1.0, beta=1.0)
    return file.finish([("images", FLOAT, ["unk__0", 32, 32, 3])], [("predictions", FLOAT, ["unk__0", 10], x)], 15, "tf2onnx")


def keras_segmenter() -> onnx.ModelProto:
    """Enlarges by Resize with computed sizes and by transposed convolutions with SAME padding; ends in NHWC."""
    file = File(3)
    x = file.add("Transpose", "image", perm=[0, 3, 1, 2])
    early = file.add("LeakyRelu", file.add("Conv", x, file.weight(8, 3, 3, 3), file.weight(8), auto_pad="SAME_UPPER"), alpha=0.3)
    late = file.add("MaxPool", early, kernel_shape=[2, 2], strides=[2, 2], auto_pad="VALID")
    late = file.add("Relu", file.add("Conv", late, file.weight(16, 8, 3, 3), auto_pad="SAME_UPPER"))
    size = file.add("Slice", file.add("Shape", early), file.tensor(np.array([2])), file.tensor(np.array([4])))
    sizes = file.add("Concat", file.add("Slice", file.add("Shape", late), file.tensor(np.array([0])), file.tensor(np.array([2]))),
                     size, axis=0)
    up = file.add("Resize", late, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    side = file.add("ConvTranspose", late, file.weight(16, 8, 3, 3), file.weight(8), strides=[2, 2], auto_pad="SAME_UPPER",
                    kernel_shape=[3, 3])
    x = file.add("Concat", up, side, early, axis=1)
    x = file.add("Conv", x, file.weight(3, 32, 1, 1), file.weight(3))
    x = file.add("Softmax", file.add("Transpose", x, perm=[0, 2, 3, 1]), axis=-1)
    return file.finish([("image", FLOAT, ["unk__0", 24, 24, 3])], [("mask", FLOAT, ["unk__0", 24, 24, 3], x)], 13, "tf2onnx")


def keras_lstm() -> onnx.ModelProto:
    """Time goes first between Transposes, the direction's axis is squeezed away, the last step is sliced off."""
    file = File(4)
    x = file.add("Transpose", "series", perm=[1, 0, 2])
    y, h, _ = file.add("LSTM", x, file.weight(1, 64, 6), file.weight(1, 64, 16), file.weight(1, 128), hidden_size=16, outputs=3)
    y = file.add("Transpose", file.add("Squeeze", y, file.tensor(np.array([1]))), perm=[1, 0, 2])
    last = file.add("Squeeze", h, file.tensor(np.array([0])))
    pooled = file.add("ReduceMax", y, axes=[1], keepdims=0)
    x = file.add("Add", file.add("MatMul", file.add("Concat", last, pooled, axis=1), file.weight(32, 4)), file.weight(4))
    return file.finish([("series", FLOAT, ["unk__0", 12, 6])], [("dense", FLOAT, ["unk__0", 4], x)], 13, "tf2onnx")


def keras_gru() -> onnx.ModelProto:
    file = File(5)
    x = file.add("Transpose", file.add("Gather", file.weight(40, 8), "words"), perm=[1, 0, 2])
    _, h = file.add("GRU", x, file.weight(2, 36, 8), file.weight(2, 36, 12), file.weight(2, 72), hidden_size=12,
                    direction="bidirectional", linear_before_reset=1, outputs=2)
    x = file.add("Reshape", file.add("Transpose", h, perm=[1, 0, 2]), file.tensor(np.array([-1, 24])))
    x = file.add("Sigmoid", file.add("Add", file.add("MatMul", x, file.weight(24, 1)), file.weight(1)))
    return file.finish([("words", TensorProto.INT32, ["unk__0", 9])], [("sentiment", FLOAT, ["unk__0", 1], x)], 13, "tf2onnx")


def scikit_classifier() -> onnx.ModelProto:
    file = File(6)
    x = file.add("Div", file.add("Sub", "X", file.weight(1, 7)), file.tensor(file.random.uniform(0.5, 2, (1, 7)).astype(np.float32)))
    x = file.add("Relu", file.add("Add", file.add("MatMul", x, file.weight(7, 20)), file.weight(1, 20)))
    x = file.add("Tanh", file.add("Add", file.add("MatMul", x, file.weight(20, 12)), file.weight(1, 12)))
    x = file.add("Softmax", file.add("Add", file.add("MatMul", x, file.weight(12, 3)), file.weight(1, 3)), axis=1)
    best = file.add("Cast", file.add("ArgMax", x, axis=1, keepdims=0), to=INT64)
    label = file.add("Gather", file.tensor(np.array([10, 20, 30])), best)
    return file.finish([("X", FLOAT, [None, 7])],
                       [("label", INT64, [None], label), ("probabilities", FLOAT, [None, 3], x)], 15, "skl2onnx")


def scikit_regressor() -> onnx.ModelProto:
    """In f64, as scikit-learn computes; polynomial features and principal components before a linear model."""
    file = File(7)

    def double(*shape: int) -> str:
        return file.tensor(file.random.uniform(-1, 1, shape))

    x = file.add("MatMul", file.add("Sub", "X", double(1, 6)), double(6, 4))
    x = file.add("Concat", x, file.add("Mul", x, x), file.add("Pow", x, file.tensor(np.float64(3))), axis=1)
    x = file.add("Add", file.add("MatMul", x, double(12, 2)), double(2))
    return file.finish([("X", TensorProto.DOUBLE, [None, 6])], [("variable", TensorProto.DOUBLE, [None, 2], x)], 15, "skl2onnx")


def quantized_network() -> onnx.ModelProto:
    """A convolutional network between QuantizeLinear and DequantizeLinear, weights per channel in int8."""
    file = File(8)

    def quantized(x: str, scale: float, zero: int) -> str:
        scale_name, zero_name = file.tensor(np.float32(scale)), file.tensor(np.uint8(zero))
        return file.add("DequantizeLinear", file.add("QuantizeLinear", x, scale_name, zero_name), scale_name, zero_name)

    def weights(o: int, *rest: int) -> str:
        values = file.tensor(file.random.integers(-63, 64, (o, *rest)).astype(np.int8))
        scales = file.tensor((file.random.uniform(0.7, 1, o) / 63 / np.sqrt(np.prod(rest) / 3)).astype(np.float32))
        return file.add("DequantizeLinear", values, scales, file.tensor(np.zeros(o, np.int8)), axis=0)

    x = quantized("x", 2 / 255, 128)
    x = quantized(file.add("Relu", file.add("Conv", x, weights(8, 3, 3, 3), file.weight(8), pads=[1] * 4)), 0.012, 0)
    y = quantized(file.add("Relu", file.add("Conv", x, weights(8, 8, 3, 3), file.weight(8), pads=[1] * 4)), 0.012, 0)
    x = quantized(file.add("Add", x, y), 0.02, 0)
    x = quantized(file.add("Flatten", file.add("GlobalAveragePool", x), axis=1), 0.01, 0)
    x = file.add("Gemm", x, weights(10, 8), file.weight(10), transB=1)
    return file.finish([("x", FLOAT, ["batch", 3, 16, 16])], [("logits", FLOAT, ["batch", 10], quantized(x, 0.02, 128))], 13,
                       "onnx.quantize")


def dynamically_quantized_network() -> onnx.ModelProto:
    """Linear layers on integers whose scales are found at run time."""
    file = File(9)

    def linear(x: str, i: int, o: int) -> str:
        values, scale, zero = file.add("DynamicQuantizeLinear", x, outputs=3)
        weights = file.tensor(file.random.integers(-63, 64, (i, o)).astype(np.int8))
        product = file.add("MatMulInteger", values, weights, zero, file.tensor(np.zeros(o, np.int8)))
        factor = file.add("Mul", scale, file.tensor((file.random.uniform(0.7, 1, o) / 63 / np.sqrt(i / 3)).astype(np.float32)))
        return file.add("Add", file.add("Mul", file.add("Cast", product, to=FLOAT), factor), file.weight(o))

    x = file.add("Gather", file.weight(50, 24), "input_ids")
    x = file.add("Relu", linear(x, 24, 48))
    x = linear(x, 48, 24)
    x = linear(file.add("ReduceMean", x, axes=[1], keepdims=0), 24, 5)
    return file.finish([("input_ids", INT64, ["batch", "seq"])], [("logits", FLOAT, ["batch", 5], x)], 13, "onnx.quantize")


def conditional_network() -> onnx.ModelProto:
    """As PyTorch's scripts write `squeeze` of an axis that may not be 1: an If whose condition the shapes decide."""
    file = File(10)
    x = file.add("Relu", file.add("Conv", "x", file.weight(8, 3, 3, 3), file.weight(8), pads=[1] * 4))
    x = file.add("GlobalAveragePool", x)
    extent = file.add("Gather", file.add("Shape", x), file.tensor(np.array([3])), axis=0)
    is_one = file.add("Equal", extent, file.tensor(np.array([1])))

    def branch(op: str, *inputs: str) -> onnx.GraphProto:
        made = helper.make_tensor_value_info(f"{op}_made", FLOAT, None)
        return helper.make_graph([helper.make_node(op, list(inputs), [made.name])], op, [], [made])

    axes = file.tensor(np.array([3]))
    x = file.add("If", is_one, then_branch=branch("Squeeze", x, axes), else_branch=branch("Identity", x))
    x = file.add("Gemm", file.add("Flatten", x, axis=1), file.weight(5, 8), file.weight(5), transB=1)
    return file.finish([("x", FLOAT, ["batch", 3, 12, 12])], [("logits", FLOAT, ["batch", 5], x)], 13, "pytorch")


def detector_with_suppression() -> onnx.ModelProto:
    """A detector that ends in NonMaxSuppression: how many boxes come out, only the data decides."""
    file = File(11)
    x = file.add("Relu", file.add("Conv", "x", file.weight(8, 3, 3, 3), file.weight(8), pads=[1] * 4, strides=[4, 4]))
    boxes = file.add("Reshape", file.add("Conv", x, file.weight(4, 8, 1, 1)), file.tensor(np.array([1, -1, 4])))
    scores = file.add("Reshape", file.add("Conv", x, file.weight(2, 8, 1, 1)), file.tensor(np.array([1, 2, -1])))
    kept = file.add("NonMaxSuppression", boxes, file.add("Sigmoid", scores), file.tensor(np.array([10])),
                    file.tensor(np.float32([0.5])), file.tensor(np.float32([0.4])))
    return file.finish([("x", FLOAT, [1, 3, 16, 16])], [("kept", INT64, [None, 3], kept)], 13, "pytorch")


def weights_as_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """PaddlePaddle's style: no initializers, a Constant node for each, in front."""
    constants = []
    for tensor in model.graph.initializer:
        value = onnx.TensorProto()
        value.CopyFrom(tensor)
        value.ClearField("name")
        constants.append(helper.make_node("Constant", [], [tensor.name], value=value))
    nodes = list(model.graph.node)
    for field in ("initializer", "node"):
        model.graph.ClearField(field)
    model.graph.node.extend([*constants, *nodes])
    model.producer_name = "PaddlePaddle"
    return model


def in_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Converters to f16: every weight and every inner value is f16, the file's inputs and outputs stay f32."""
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.data_type == FLOAT:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float16)))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = TensorProto.FLOAT16
    graph.ClearField("value_info")
    inputs = {value.name: f"{value.name}_f16" for value in graph.input if value.type.tensor_type.elem_type == FLOAT}
    outputs = {value.name: f"{value.name}_f16" for value in graph.output if value.type.tensor_type.elem_type == FLOAT}
    renamed = inputs | outputs
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    nodes = [helper.make_node("Cast", [name], [half], to=TensorProto.FLOAT16) for name, half in inputs.items()]
    nodes += [*graph.node, *(helper.make_node("Cast", [half], [name], to=FLOAT) for name, half in outputs.items())]
    graph.ClearField("node")
    graph.node.extend(nodes)
    return model


def written(write, feeds: tuple[Feed, ...], *outputs: str, **more) -> Entry:
    return Entry(feeds, outputs, write=write, **more)


STEP = 0.03  # of the largest value: where rounding decides between two integers, results are a step of the scale apart


def nhwc(name: str, extent: int) -> tuple[Feed, ...]:
    return (Feed(name, (2, extent, extent, 3), ((0, "unk__0"),)),)


PADDLE = dict(route="script", opset=11, rewrite=weights_as_constants)

NETWORKS = {
    "keras_mobilenet": written(keras_mobilenet, nhwc("input_1", 32), "dense", loss="mse"),
    "keras_squeeze_excite": written(keras_squeeze_excite, nhwc("images", 32), "predictions", loss="mse"),
    "keras_segmenter": written(keras_segmenter, nhwc("image", 24), "mask", loss="mse"),
    "keras_lstm": written(keras_lstm, (Feed("series", (2, 12, 6), ((0, "unk__0"),)),), "dense", loss="mse"),
    "keras_gru": written(keras_gru, (Feed("words", (2, 9), ((0, "unk__0"),), 40),), "sentiment", loss="mse"),
    "paddle_mobilenet_v3": Entry(images(64), ("logits",), build=mobilenet_v3, loss="cross-entropy", **PADDLE),
    "paddle_recognizer": Entry(images(32, name="x"), ("scores",), build=LineRecognizer, loss="mse", **PADDLE),
    "paddle_style": Entry(images(24), ("image",), build=StyleTransfer, loss="mse", **PADDLE),
    "scikit_classifier": written(scikit_classifier, (Feed("X", (5, 7), ((0, "X_dim0"),)),), "label", "probabilities"),
    "scikit_regressor": written(scikit_regressor, (Feed("X", (5, 6), ((0, "X_dim0"),)),), "variable", loss="mse"),
    "quantized": written(quantized_network, images(16), "logits", tolerance=STEP),
    "dynamically_quantized": written(dynamically_quantized_network,
                                     (Feed("input_ids", (2, 7), ((0, "batch"), (1, "seq")), 50),), "logits", tolerance=STEP),
    "conditional": written(conditional_network, images(12), "logits"),
    "detector_with_suppression": written(detector_with_suppression, (Feed("x", (1, 3, 16, 16)),), "kept"),
    "half_resnet18": Entry(images(64), ("logits",), build=resnet18, opset=18, rewrite=in_half),
}
