"""When are two results different?

Two right programs differ by rounding, and a graph can magnify that without limit. So a difference that is not plainly small
is held against what the judge itself makes of numbers that differ in their last bits, those between the ops too: only a difference far beyond that is a
fault. Values that are not floats must be equal, unless such noise changes the judge's own.
"""

import numpy as np

from graph import Graph, Node

NOISE = {np.dtype(np.float32): 3e-7, np.dtype(np.float64): 1e-15}
PLAIN = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}
SAMPLES = 6
FACTOR = 40.0
# Ops that choose, move or count and never round. Their results are not moved: what is equal has to stay so.
EXACT = {
    "Abs", "ArgMax", "ArgMin", "BitShift", "Cast", "CastLike", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat", "Constant",
    "ConstantOfShape", "DepthToSpace", "Dropout", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND",
    "GlobalMaxPool", "Identity", "Max", "MaxPool", "MaxUnpool", "Min", "Neg", "OneHot", "Pad", "PRelu", "ReduceMax", "ReduceMin",
    "Relu", "Reshape", "ReverseSequence", "Round", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where",
}
RECURRENT = {"GRU", "LSTM", "RNN"}


def difference(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Element by element; 0 where both are the same number or both NaN, infinite where only one is finite."""
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(ours - theirs)
    same = np.isnan(ours) & np.isnan(theirs) | (ours == theirs)
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def plainly_equal(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if ours.dtype.kind not in "f":
        return bool(np.array_equal(ours, theirs))
    finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
    return bool(np.all(difference(ours, theirs) <= PLAIN[theirs.dtype] * (1 + (finite.max() if finite.size else 0))))


def moved(array: np.ndarray, rng: np.random.Generator, whole_too: bool = False) -> np.ndarray:
    """By about an ulp, but for small whole numbers, which are exact on purpose."""
    if array.dtype not in NOISE:
        return array
    shift = 1 + NOISE[array.dtype] * rng.standard_normal(array.shape)
    whole = (array == np.floor(array)) & (np.abs(array) < 1000) & (not whole_too)
    return np.where(whole, array, (array * shift).astype(array.dtype)).astype(array.dtype)


def with_noise(graph: Graph, rng: np.random.Generator) -> Graph:
    """The graph with its floats moved: what it is fed, its constants, and whatever an op computes with rounding. A recurrent op
    rounds between its steps, which only what it reads can stand for."""
    still = graph.shaping()
    repeated = {name for node in graph.nodes if node.op in RECURRENT for name in node.inputs}
    inputs, constants = ({name: array if name in still else moved(array, rng, name in repeated) for name, array in group.items()}
                         for group in (graph.inputs, graph.constants))
    nodes, types = [], dict(graph.types)
    for node in graph.nodes:
        outputs, behind = list(node.outputs), []
        for i, name in enumerate(node.outputs):
            if name and node.op not in EXACT and types[name][0] in NOISE:
                outputs[i] = f"{name}.still"
                types[outputs[i]] = types[name]
                behind += shaken(name, types, constants, rng)
        nodes += [Node(node.op, node.inputs, outputs, node.attrs), *behind]
    return Graph(graph.opset, inputs, constants, nodes, types, graph.outputs)


def shaken(name: str, types: dict, constants: dict, rng: np.random.Generator) -> list[Node]:
    """Nodes that make `name` of `name`.still: moved by an ulp of each element, and of the tensor's largest finite one, which
    is what sums of terms that cancel differ by."""
    dtype, shape = types[name]
    for part in ("factor", "shift"):
        types[f"{name}.{part}"] = types[name]
        constants[f"{name}.{part}"] = (NOISE[dtype] * rng.standard_normal(shape) + (part == "factor")).astype(dtype)
    types[f"{name}.none"] = (dtype, ())
    constants[f"{name}.none"] = np.zeros((), dtype)
    made, nodes = f"{name}.still", []

    def add(op: str, inputs: list[str], output: str, kind, **attrs) -> str:
        types[output] = kind
        nodes.append(Node(op, inputs, [output], attrs))
        return output

    flags, scalar = (np.dtype(bool), shape), (dtype, ())
    odd = add("Or", [add("IsInf", [made], f"{name}.inf", flags), add("IsNaN", [made], f"{name}.nan", flags)], f"{name}.odd", flags)
    finite = add("Where", [odd, f"{name}.none", add("Abs", [made], f"{name}.abs", types[name])], f"{name}.finite", types[name])
    largest = add("ReduceMax", [finite], f"{name}.largest", scalar, keepdims=0)
    shift = add("Mul", [largest, f"{name}.shift"], f"{name}.moved", types[name])
    scaled = add("Mul", [made, f"{name}.factor"], f"{name}.scaled", types[name])
    add("Add", [scaled, shift], name, types[name])
    return nodes


def within_noise(ours: np.ndarray, theirs: np.ndarray, samples: list[np.ndarray]) -> bool:
    """Samples are the judge's answers to moved inputs."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    spread = np.zeros(theirs.shape)
    for sample in samples:
        spread = np.maximum(spread, difference(sample, theirs))
    if theirs.dtype.kind != "f":
        return bool(np.all((ours == theirs) | (spread > 0)))
    finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
    scale = PLAIN[theirs.dtype] * (1 + (finite.max() if finite.size else 0))
    # One element's noise says little of its own: that of the tensor's worst counts for all.
    worst = spread.max() if spread.size else 0
    return bool(np.all(difference(ours, theirs) <= scale + FACTOR * worst))
