#!/usr/bin/env python3
"""A model's ONNX file again, with a cross-entropy of its own behind its last output: for steps whose labels may be ignored.

    own_loss.py MODEL.onnx OUT.onnx [--ignore-index N]

Rows of classes, [batch, seq, classes], are flattened, as exported language models do it; classes elsewhere lie in dimension 1. Planned by
`lowtide plan OUT.onnx --train --loss model --loss-output loss`.
"""
import argparse

import onnx
from onnx import TensorProto, helper


def add_loss(model, ignore_index):
    graph = model.graph
    logits = graph.output[-1]
    dims = [dim.dim_param or dim.dim_value for dim in logits.type.tensor_type.shape.dim]
    name, label_dims = logits.name, [dims[0], *dims[2:]]
    if len(dims) == 3:
        label_dims = dims[:2]
        graph.initializer.append(helper.make_tensor("loss/rows", TensorProto.INT64, [2], [-1, dims[2]]))
        graph.initializer.append(helper.make_tensor("loss/all", TensorProto.INT64, [1], [-1]))
        graph.node.append(helper.make_node("Reshape", [name, "loss/rows"], ["loss/logits"], name="loss/logits"))
        graph.node.append(helper.make_node("Reshape", ["labels", "loss/all"], ["loss/labels"], name="loss/labels"))
    operands = ["loss/logits", "loss/labels"] if len(dims) == 3 else [name, "labels"]
    ignored = {} if ignore_index is None else dict(ignore_index=ignore_index)
    graph.node.append(helper.make_node("SoftmaxCrossEntropyLoss", operands, ["loss"], name="loss", **ignored))
    graph.input.append(helper.make_tensor_value_info("labels", TensorProto.INT64, label_dims))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--ignore-index", type=int)
    arguments = parser.parse_args()
    model = onnx.load(arguments.model, load_external_data=False)
    add_loss(model, arguments.ignore_index)
    onnx.save(model, arguments.out)


if __name__ == "__main__":
    main()
