#!/usr/bin/env python3
"""Write the networks of networks.py as small, weight-free, trainable ONNX files, and those of zoo/ as files with values.

    python models/export.py [--out DIR] [name ...]                       (default: all, beside this file)
    python models/export.py --zoo --out DIR [--training] [name ...]      (default: all of the zoo)

A planner needs shapes, not weights. Every parameter and buffer keeps its name, type and shape but becomes a reference to
a data file ("weights.bin") that is never written. What remains is a few hundred kilobytes of text-like structure, the
same bytes on every machine: no paths, no times, no source lines, no word on how torch was built.

The exporter's default output cannot be trained: it folds batch normalization into convolutions and transposed weights
into nameless constants. So the model is traced in training mode without optimization, and the optimizer passes run
afterwards without those two (training_passes).

The zoo is written as users get it: for inference with the exporter's own passes, in either of PyTorch's exporters and in many
opsets; with --training as above, from which gradients can be compared by their parameters' names.
"""

import argparse
import contextlib
import io
import logging
import pathlib
import warnings

import onnx
import onnxscript.optimizer
import torch
from onnxscript import rewriter

from networks import NETWORKS
from zoo import ZOO, Entry
from zoo.spec import draw_values

KIND_KEY = "pkg.torch.export.graph_signature.InputSpec.kind"  # PARAMETER, BUFFER, CONSTANT_TENSOR or USER_INPUT
SCOPE_KEY = "pkg.torch.onnx.name_scopes"  # the module path of a node
WEIGHT_KINDS = ("PARAMETER", "BUFFER")
WEIGHT_FILE = "weights.bin"
WEIGHT_ALIGNMENT = 4096


def make_parameters_distinct(model: torch.nn.Module) -> None:
    """Fresh models hold many equal vectors (zeros, ones), and the exporter merges equal constants into one, which
    would silently tie the biases of different layers together. The values never reach the file."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5, generator=generator)


@contextlib.contextmanager
def training_passes():
    """Withholds the rewrite rules that fold batch normalization into its neighbours."""
    saved = rewriter._DEFAULT_REWRITE_RULES
    rewriter._DEFAULT_REWRITE_RULES = tuple(r for r in saved if "FuseBatchNorm" not in (r.name or ""))
    try:
        yield
    finally:
        rewriter._DEFAULT_REWRITE_RULES = saved


def keep_parameters(node):
    """Forbids constant folding of any op that reads a parameter's values (None leaves the choice to the folder)."""
    reads_weight = any(v is not None and v.metadata_props.get(KIND_KEY) == "PARAMETER" for v in node.inputs)
    return False if reads_weight and node.op_type != "Shape" else None


def trace(name: str) -> onnx.ModelProto:
    network = NETWORKS[name]
    model = network.build().float().train()
    make_parameters_distinct(model)
    examples = tuple(
        torch.zeros(i.example_shape, dtype=torch.float32 if i.limit is None else torch.int64) for i in network.inputs
    )
    with torch.no_grad():
        program = torch.onnx.export(
            model,
            examples,
            input_names=[i.name for i in network.inputs],
            output_names=["logits"],
            dynamic_shapes=tuple(i.dynamic_dims for i in network.inputs),
            optimize=False,
            verbose=False,
        )
    with training_passes():
        onnxscript.optimizer.optimize_ir(program.model, should_fold=keep_parameters)
    proto = program.model_proto
    name_tied_parameters(proto, model)
    return proto


def name_tied_parameters(proto: onnx.ModelProto, model: torch.nn.Module) -> None:
    """A parameter with two names gets the one that model.named_parameters() and optimizers know it by."""
    first_name: dict[int, str] = {}
    renamed = {
        name: first_name[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if first_name.setdefault(id(parameter), name) != name
    }
    graph = proto.graph
    for entry in (*graph.initializer, *graph.value_info):
        entry.name = renamed.get(entry.name, entry.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]


def keep_metadata(entry, *keys: str) -> None:
    kept = sorted((p.key, p.value) for p in entry.metadata_props if p.key in keys)
    del entry.metadata_props[:]
    for key, value in kept:
        entry.metadata_props.add(key=key, value=value)


def strip_weights(proto: onnx.ModelProto) -> None:
    """Replaces the bytes of every parameter and floating-point buffer by a reference into WEIGHT_FILE."""
    kinds = {v.name: p.value for v in proto.graph.value_info for p in v.metadata_props if p.key == KIND_KEY}
    offset = 0
    for tensor in proto.graph.initializer:
        if kinds.get(tensor.name) not in WEIGHT_KINDS or tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        length = 4
        for dim in tensor.dims:
            length *= dim
        reference = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        reference.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", WEIGHT_FILE), ("offset", offset), ("length", length)):
            reference.external_data.add(key=key, value=str(value))
        tensor.CopyFrom(reference)
        offset += -(-length // WEIGHT_ALIGNMENT) * WEIGHT_ALIGNMENT


def strip_metadata(proto: onnx.ModelProto) -> None:
    """Keeps each node's module path and each initializer's kind; the rest holds source paths of this machine."""
    graph = proto.graph
    for entry in (proto, graph):
        del entry.metadata_props[:]
    for node in graph.node:
        keep_metadata(node, SCOPE_KEY)
        node.ClearField("doc_string")
    for value in (*graph.value_info, *graph.input, *graph.output):
        keep_metadata(value, KIND_KEY)


def export(name: str) -> bytes:
    """Returns the ONNX file of a network as bytes."""
    proto = trace(name)
    strip_weights(proto)
    strip_metadata(proto)
    proto.producer_version = torch.__version__.split("+")[0]  # the same from every build of this release
    return proto.SerializeToString(deterministic=True)


def zoo_module(name: str) -> torch.nn.Module:
    """A network of the zoo with its values, in evaluation mode."""
    torch.manual_seed(0)  # what draw_values leaves alone: buffers that a constructor draws
    return draw_values(ZOO[name].build()).to(ZOO[name].dtype).eval()


def dynamo_file(entry: Entry, model: torch.nn.Module, training: bool) -> onnx.ModelProto:
    program = torch.onnx.export(
        model,
        tuple(feed.example() for feed in entry.feeds),
        input_names=[feed.name for feed in entry.feeds],
        output_names=list(entry.outputs),
        dynamic_shapes=tuple(dict(feed.dims) for feed in entry.feeds),
        opset_version=entry.opset,
        optimize=not training,
        verbose=False,
    )
    if training:
        with training_passes():
            onnxscript.optimizer.optimize_ir(program.model, should_fold=keep_parameters)
    return program.model_proto


def script_file(entry: Entry, model: torch.nn.Module, training: bool) -> onnx.ModelProto:
    """By the exporter that traces TorchScript: it runs the model, which in training moves running statistics."""
    buffer = io.BytesIO()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    modes = torch.onnx.TrainingMode
    torch.onnx.export(
        model,
        tuple(feed.example() for feed in entry.feeds),
        buffer,
        dynamo=False,
        input_names=[feed.name for feed in entry.feeds],
        output_names=list(entry.outputs),
        dynamic_axes={feed.name: dict(feed.dims) for feed in entry.feeds if feed.dims},
        opset_version=entry.opset,
        training=modes.TRAINING if training else modes.EVAL,
        do_constant_folding=not training,
    )
    proto = onnx.load_model_from_string(buffer.getvalue())
    for tensor in proto.graph.initializer:
        if tensor.name.rsplit(".", 1)[-1].startswith("running_"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(before[tensor.name].numpy(), tensor.name))
    return proto


def zoo_file(name: str, training: bool = False) -> onnx.ModelProto:
    """Returns a network of the zoo as a file with values: as users get it, or in training form with all parameters."""
    entry = ZOO[name]
    if entry.write is not None:
        return entry.write()
    model = zoo_module(name).train(training)
    with torch.no_grad():
        proto = (dynamo_file if entry.route == "dynamo" else script_file)(entry, model, training)
    if training:
        name_tied_parameters(proto, model)
    return proto if entry.rewrite is None else entry.rewrite(proto)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("--zoo", action="store_true", help="networks of zoo/")
    parser.add_argument("--training", action="store_true", help="of the zoo: those that train, in training form")
    parser.add_argument("names", nargs="*", metavar="name")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    known = [name for name in ZOO if ZOO[name].loss or not arguments.training] if arguments.zoo else list(NETWORKS)
    for name in arguments.names or known:
        data = zoo_file(name, arguments.training).SerializeToString() if arguments.zoo else export(name)
        path = arguments.out / f"{name}.onnx"
        path.write_bytes(data)
        nodes = len(onnx.load_model_from_string(data).graph.node)
        print(f"{path}: {nodes} nodes, {len(data)} bytes")


if __name__ == "__main__":
    main()
