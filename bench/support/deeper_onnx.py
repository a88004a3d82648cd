"""Makes a GPT-2 ONNX file deeper (one layer's nodes in the middle are repeated, each copy with parameters of its own) or shallower.

The file of models/ has no values, and neither has the deeper one. A layer is what stands from its first normalization to the next
layer's; layers pass on one value, and all else that a layer reads is parameters of its own or made before the first layer.
"""

import pathlib

import onnx


def layer_starts(graph: onnx.GraphProto) -> list[int]:
    """Positions of the nodes that begin the layers, and of the one behind the last."""
    first = [f"transformer.h.{k}.ln_1.weight" for k in range(len(graph.node))]
    reads = {name: index for index, node in enumerate(graph.node) for name in node.input}
    starts = [reads[name] for name in first if name in reads]
    return [*starts, reads["transformer.ln_f.weight"]]


def copies(graph: onnx.GraphProto, layer: int, count: int) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], str, str]:
    """Nodes and parameters of `count` copies behind the layer; what the layer passes on, and what the last copy does."""
    starts = layer_starts(graph)
    nodes = [graph.node[index] for index in range(starts[layer], starts[layer + 1])]
    parameters = {t.name: t for t in graph.initializer if t.name.startswith(f"transformer.h.{layer}.")}
    made = {name for node in nodes for name in node.output}
    enters, leaves = nodes[0].input[0], graph.node[starts[layer + 1]].input[0]
    assert leaves in made and enters not in made
    later = {name for node in list(graph.node)[starts[layer + 1]:] for name in node.input}
    assert later & made == {leaves}, "a layer passes on one value"
    new_nodes, new_parameters, passed = [], [], leaves
    for k in range(1, count + 1):
        def renamed(name: str) -> str:
            if name == enters:
                return passed  # noqa: B023: used in this round only
            return f"{name}.copy{k}" if name in made or name in parameters else name  # noqa: B023
        for node in nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = f"{node.name}.copy{k}"
            copy.input[:], copy.output[:] = map(renamed, node.input), [renamed(name) for name in node.output]
            new_nodes.append(copy)
        for tensor in parameters.values():
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = renamed(tensor.name)
            new_parameters.append(copy)
        passed = f"{leaves}.copy{k}"
    return new_nodes, new_parameters, leaves, passed


def set_nodes(graph: onnx.GraphProto, before: list[onnx.NodeProto], behind: list[onnx.NodeProto], old: str, new: str) -> None:
    """The nodes become the graph's; those behind read `new` where they read `old`."""
    for node in behind:
        node.input[:] = [new if name == old else name for name in node.input]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in [*before, *behind]]
    del graph.node[:]
    graph.node.extend(kept)


def drop_layers(graph: onnx.GraphProto, first: int, count: int) -> None:
    starts, nodes = layer_starts(graph), list(graph.node)
    begin, end = starts[first], starts[first + count]
    leaves, enters = nodes[end].input[0], nodes[begin].input[0]
    dropped = {name for node in nodes[begin:end] for name in node.output}
    assert {name for node in nodes[end:] for name in node.input} & dropped == {leaves}, "layers pass on one value"
    set_nodes(graph, nodes[:begin], nodes[end:], leaves, enters)
    parameters = [t for t in graph.initializer if not any(t.name.startswith(f"transformer.h.{k}.") for k in range(first, first + count))]
    del graph.initializer[:]
    graph.initializer.extend(parameters)


def repeat_layer(graph: onnx.GraphProto, layer: int, count: int) -> None:
    nodes, parameters, leaves, passed = copies(graph, layer, count)
    border, old = layer_starts(graph)[layer + 1], list(graph.node)
    set_nodes(graph, [*old[:border], *nodes], old[border:], leaves, passed)
    graph.initializer.extend(parameters)
    # What says that an initializer is a parameter.
    infos = {info.name: info for info in graph.value_info}
    for tensor in parameters:
        original = infos.get(tensor.name.rsplit(".copy", 1)[0])
        if original is not None:
            info = graph.value_info.add()
            info.CopyFrom(original)
            info.name = tensor.name


def deeper_gpt2_onnx(source: pathlib.Path, target: pathlib.Path, layers: int) -> None:
    """Writes the file with so many layers: more of them than it has, or fewer."""
    model = onnx.load(str(source), load_external_data=False)
    have = len(layer_starts(model.graph)) - 1
    if layers < have:
        drop_layers(model.graph, 1, have - layers)
    elif layers > have:
        repeat_layer(model.graph, have // 2, layers - have)
    target.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(target))
