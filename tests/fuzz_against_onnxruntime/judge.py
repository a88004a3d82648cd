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


def moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By about an ulp, but for small whole numbers, which are exact on purpose."""
    if array.dtype not in NOISE:
        return array
    shift = 1 + NOISE[array.dtype] * rng.standard_normal(array.shape)
    whole = (array == np.floor(array)) & (np.abs(array) < 1000)
    return np.where(whole, array, (array * shift).astype(array.dtype)).astype(array.dtype)


def with_noise(graph: Graph, rng: np.random.Generator) -> Graph:
    """The graph with its floats moved: what it is fed, its constants, and whatever an op computes with rounding."""
    still = graph.shaping()
    inputs, constants = ({name: array if name in still else moved(array, rng) for name, array in group.items()}
                         for group in (graph.inputs, graph.constants))
    nodes, types = [], dict(graph.types)
    for node in graph.nodes:
        outputs = list(node.outputs)
        behind = []
        for i, name in enumerate(node.outputs):
            if not name or node.op in EXACT or types[name][0] not in NOISE:
                continue
            dtype, shape = types[name]
            before, factor = f"{name}.still", f"{name}.noise"
            types[before], types[factor] = types[name], types[name]
            constants[factor] = (1 + NOISE[dtype] * rng.standard_normal(shape)).astype(dtype)
            behind.append(Node("Mul", [before, factor], [name], {}))
            outputs[i] = before
        nodes += [Node(node.op, node.inputs, outputs, node.attrs), *behind]
    return Graph(graph.opset, inputs, constants, nodes, types, graph.outputs)


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
