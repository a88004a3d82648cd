"""Networks that ONNX Runtime's own quantizing tools rewrote, at their default settings (but for weights of 7 bits: on
processors without VNNI its products of 8 bits saturate).

  static    scales from two batches of inputs; QuantizeLinear and DequantizeLinear around every op, the biases in int32 with a
            scale of one element, the value of a Pad in int8
  dynamic   DynamicQuantizeLinear and integer products
"""

import pathlib
import tempfile

import numpy as np
import onnx

from .classification import mobilenet_v2
from .foreign import STEP, keras_mobilenet, nhwc
from .spec import Entry, Feed, images, tokens
from .text import MASKED, bert

BATCHES = 2


def batches(feeds: tuple[Feed, ...]):
    random = np.random.default_rng(5)
    for _ in range(BATCHES):
        yield {feed.name: random.uniform(-1, 1, feed.shape).astype(np.float32) if feed.limit is None
               else random.integers(0, feed.limit, feed.shape) for feed in feeds}


def rewritten(model: onnx.ModelProto, rewrite) -> onnx.ModelProto:
    """By a tool that reads a file and writes one."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = (pathlib.Path(folder) / f"{name}.onnx" for name in ("before", "after"))
        onnx.save(model, before)
        rewrite(before, after)
        return onnx.load(after)


def static(feeds: tuple[Feed, ...], **settings):
    def rewrite(model: onnx.ModelProto) -> onnx.ModelProto:
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.left = batches(feeds)

            def get_next(self):
                return next(self.left, None)

        return rewritten(model, lambda before, after: quantize_static(before, after, Reader(), reduce_range=True, **settings))

    return rewrite


def dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    return rewritten(model, lambda before, after: quantize_dynamic(before, after, reduce_range=True))


DEEP = 2 * STEP  # steps add up on the way

NETWORKS = {
    "static_mobilenet_v2": Entry(images(64), ("logits",), build=mobilenet_v2, route="script", opset=13,
                                 rewrite=static(images(64)), tolerance=DEEP),
    "static_keras_mobilenet": Entry(nhwc("input_1", 32), ("dense",), tolerance=DEEP,
                                    write=lambda: static(nhwc("input_1", 32), per_channel=True)(keras_mobilenet())),
    "dynamic_bert": Entry(tokens(**MASKED), ("logits",), build=lambda: bert("eager"), route="script", opset=13, rewrite=dynamic,
                          tolerance=DEEP),
}
