"""A seed's graph."""

import numpy as np

import draw_elementwise
import draw_indexing
import draw_movement
import draw_network
import draw_vision
from draw import State
from graph import Graph, prune

ALL = [*draw_elementwise.DRAWERS, *draw_movement.DRAWERS, *draw_network.DRAWERS, *draw_vision.DRAWERS,
       *draw_indexing.DRAWERS]
OPSETS = [13, 15, 17, 18, 19, 20, 21, 22]
FAMILIES = [None, draw_elementwise, draw_movement, draw_network, draw_vision, draw_indexing]


def draw_graph(seed: int, differentiable: bool, without: frozenset[str] = frozenset()) -> Graph:
    """The graph of a seed. Ops of `without` are not drawn (what the library refuses by name)."""
    rng = np.random.default_rng([seed, 1])
    opset = int(rng.choice(OPSETS))
    real = np.float64 if rng.random() < 0.08 else np.float32
    exact = not differentiable and rng.random() < 0.2
    state = State(seed, opset, real, differentiable, exact)
    weights = np.array([weight for _, weight, trains in ALL if trains or not differentiable], float)
    drawers = [drawer for drawer, _, trains in ALL if trains or not differentiable]
    favoured = FAMILIES[int(rng.integers(len(FAMILIES)))]  # some graphs are mostly of one kind
    if favoured is not None:
        weights *= [4 if drawer.__module__ == favoured.__name__ else 1 for drawer in drawers]
    wanted = int(rng.integers(1, 11))
    for _ in range(60):
        if sum(op != "Constant" for op in state.graph.ops()) >= wanted:
            break
        before = snapshot(state)
        drawer = drawers[int(rng.choice(len(drawers), p=weights / weights.sum()))]
        fits = drawer(state)
        if not fits or without.intersection(state.graph.ops()[before[0]:]) or too_large(state):
            restore(state, before)
    return with_outputs(state, rng)


def snapshot(state: State):
    g = state.graph
    return len(g.nodes), dict(g.inputs), dict(g.constants), dict(g.types)


def restore(state: State, before) -> None:
    g = state.graph
    del g.nodes[before[0]:]
    g.inputs, g.constants, g.types = before[1], before[2], before[3]


def too_large(state: State) -> bool:
    return any(len(shape) > 6 or 0 in shape for _, shape in state.graph.types.values())


def with_outputs(state: State, rng: np.random.Generator) -> Graph:
    graph = state.graph
    read = {name for node in graph.nodes for name in node.inputs}
    leaves = [name for name in graph.made() if name not in read]
    if state.differentiable:
        graph.outputs = trained_output(state, [name for name in leaves if graph.types[name][0] == state.real])
    else:
        inner = [name for name in graph.made() if name in read and rng.random() < 0.1]
        graph.outputs = leaves + inner
        if rng.random() < 0.05:  # an input or a constant as an output
            graph.outputs += [str(rng.choice([*graph.inputs, *graph.constants]))] if graph.inputs or graph.constants else []
    return prune(graph)


def trained_output(state: State, leaves: list[str]) -> list[str]:
    """One output, which depends on a parameter: mostly all leaves joined, so that gradients reach everything."""
    if not leaves:
        return []
    last = leaves[-1]
    if len(leaves) > 1 and not state.chance(4):
        flat = [state.node("Reshape", [name, state.ints([-1])],
                           [(state.real, (int(np.prod(state.dims(name), dtype=np.int64)),))])[0] for name in leaves]
        last = state.node("Concat", flat, [(state.real, (sum(state.dims(name)[0] for name in flat),))], axis=0)[0]
    if not any(array.dtype == state.real and array.size > 1 for array in state.graph.constants.values()) or state.chance(6):
        shape = state.dims(last)
        if int(np.prod(shape, dtype=np.int64)) > 1:
            last = state.node("Mul", [last, state.weight(shape)], [(state.real, shape)])[0]
    return [last]
