"""Makes a GPT-2 ONNX file deeper: one layer's nodes in the middle are repeated, each copy with parameters of its own.

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


def deeper_gpt2_onnx(source: pathlib.Path, target: pathlib.Path, layers: int) -> None:
    model = onnx.load(str(source), load_external_data=False)
    graph = model.graph
    starts = layer_starts(graph)
    layer = (len(starts) - 1) // 2
    nodes, parameters, leaves, passed = copies(graph, layer, layers - (len(starts) - 1))
    before, after = list(graph.node)[:starts[layer + 1]], list(graph.node)[starts[layer + 1]:]
    for node in after:
        node.input[:] = [passed if name == leaves else name for name in node.input]
    del graph.node[:]
    graph.node.extend([*before, *nodes, *after])
    graph.initializer.extend(parameters)
    # What says that an initializer is a parameter.
    infos = {info.name: info for info in graph.value_info}
    for tensor in parameters:
        original = infos.get(tensor.name.rsplit(".copy", 1)[0])
        if original is not None:
            info = graph.value_info.add()
            info.CopyFrom(original)
            info.name = tensor.name
    target.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(target))
