"""Makes a graph on which a comparison fails smaller while it still fails: outputs and nodes are left out, and what a node
made becomes an input (delta debugging, one change at a time until none helps)."""

import dataclasses

import numpy as np

from graph import Graph, prune


def candidates(graph: Graph, contents):
    for name in graph.outputs:
        if len(graph.outputs) > 1:
            yield prune(dataclasses.replace(graph, outputs=[other for other in graph.outputs if other != name]))
            yield prune(dataclasses.replace(graph, outputs=[name]))
    for index, node in enumerate(graph.nodes):
        for name in node.inputs:  # its operand as the output instead of what follows
            if name in graph.made():
                yield prune(dataclasses.replace(graph, outputs=[name]))
        made = [name for name in node.outputs if name]
        if any(name in graph.outputs for name in made):
            continue
        inputs = dict(graph.inputs)
        for name in made:
            inputs[name] = contents.get(name, np.zeros(0))
            if inputs[name].shape != graph.types[name][1]:
                inputs[name] = np.ones(graph.types[name][1], graph.types[name][0])
        yield prune(dataclasses.replace(graph, nodes=graph.nodes[:index] + graph.nodes[index + 1:], inputs=inputs))


def shrink(graph: Graph, fails, contents=None, most: int = 400) -> Graph:
    """`fails(graph)` says whether it still goes wrong."""
    tries, helped = 0, True
    while helped:
        helped = False
        for smaller in candidates(graph, contents or {}):
            tries += 1
            if tries > most:
                return graph
            if len(smaller.nodes) + len(smaller.outputs) < len(graph.nodes) + len(graph.outputs) and smaller.outputs and fails(smaller):
                graph, helped = smaller, True
                break
    return graph
