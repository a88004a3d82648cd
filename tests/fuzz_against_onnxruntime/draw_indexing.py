"""Drawers of ops that read and write at places given by data, of Einsum by any equation, and of recurrent networks with
all their operands."""

import numpy as np

from draw import MOST_ELEMENTS, State

LETTERS = "abcd"


def fed(s: State, array: np.ndarray) -> str:
    """Integers with given contents, as an input or a constant."""
    if s.chance(2):
        return s.constant(array)
    name = s.input(array.dtype, array.shape)
    s.graph.inputs[name] = array
    return name


def tuples(s: State, extents, count: int, distinct: bool) -> np.ndarray:
    """[count, len(extents)] places, a third of them counted from the end."""
    places = int(np.prod(extents, dtype=np.int64))
    flat = s.rng.permutation(places)[:count] if distinct else s.rng.integers(0, places, count)
    index = np.stack(np.unravel_index(flat, extents), axis=-1).astype(np.int64)
    return np.where(s.rng.integers(0, 3, index.shape) == 0, index - np.asarray(extents), index)


def gather_nd(s: State) -> bool:
    x = s.pick(low=1, high=4)
    shape = s.dims(x)
    batch = s.below(len(shape)) if s.chance(2) else 0
    width = 1 + s.below(len(shape) - batch)
    lead = s.shape(0, 2)
    count = int(np.prod(lead, dtype=np.int64)) * int(np.prod(shape[:batch], dtype=np.int64))
    to = [*shape[:batch], *lead, *shape[batch + width:]]
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS or count > 500:
        return False
    index = tuples(s, shape[batch:batch + width], count, False).reshape([*shape[:batch], *lead, width])
    s.node("GatherND", [x, fed(s, index)], [(s.type(x)[0], to)], batch_dims=batch)
    return True


def reduction(s: State) -> str:
    if s.graph.opset < 16 or s.chance(2):
        return "none"
    return s.choose(["add", "mul", "max", "min"] if s.graph.opset >= 18 and not s.differentiable else
                    ["add"] if s.differentiable else ["add", "mul"])


def scatter_nd(s: State) -> bool:
    x = s.pick(low=1, high=4)
    shape = s.dims(x)
    width = 1 + s.below(len(shape))
    places = int(np.prod(shape[:width], dtype=np.int64))
    how = reduction(s)
    count = 1 + s.below(min(places, 6))
    index = tuples(s, shape[:width], count, how == "none" or s.chance(2))
    updates = s.like(s.real, (count, *shape[width:]))
    attrs = {"reduction": how} if how != "none" else {}
    s.node("ScatterND", [x, fed(s, index), updates], [s.type(x)], **attrs)
    return True


def scatter_reduced(s: State) -> bool:
    if s.graph.opset < 16:
        return False
    x = s.pick(low=1, high=3)
    shape = s.dims(x)
    axis = s.below(len(shape))
    picked = [1 + s.below(2 * e) if d == axis else 1 + s.below(e) for d, e in enumerate(shape)]
    index = s.rng.integers(-shape[axis], shape[axis], picked).astype(np.int64)
    how = s.choose(["add", "mul", "max", "min"] if s.graph.opset >= 18 else ["add", "mul"])
    s.node("ScatterElements", [x, fed(s, index), s.like(s.real, picked)], [s.type(x)],
           axis=axis - len(shape) if s.chance(3) else axis, reduction=how)
    return True


def reverse_sequence(s: State) -> bool:
    x = s.pick(low=2, high=4)
    shape = s.dims(x)
    time = s.below(2)
    lengths = s.rng.integers(1, shape[time] + 1, shape[1 - time]).astype(np.int64)
    s.same("ReverseSequence", x, fed(s, lengths), time_axis=time, batch_axis=1 - time)
    return True


def hardmax(s: State) -> bool:
    x = s.pick(low=1, high=4)
    s.same("Hardmax", x, axis=s.below(len(s.dims(x))))
    return True


def eye_like(s: State) -> bool:
    x = s.pick(low=2, high=2)
    made = s.same("EyeLike", x, k=s.below(5) - 2)
    s.same("Add", x, made)
    return True


# ---- Einsum

def einsum(s: State) -> bool:
    extents = {letter: s.choose([1, 2, 3, 4, 5]) for letter in LETTERS}
    rest = [s.choose([1, 2, 3]) for _ in range(s.below(3))] if s.chance(3) else None
    terms, operands = [], []
    for _ in range(s.choose([1, 2, 2, 2, 3])):
        letters = [LETTERS[int(i)] for i in s.rng.permutation(len(LETTERS))[:s.below(4)]]
        if s.chance(8) and letters and len(letters) < 3:
            letters.append(s.choose(letters))
        at = s.below(len(letters) + 1) if rest is not None else None
        term = "".join(letters) if at is None else "".join(letters[:at]) + "..." + "".join(letters[at:])
        shape = [extents[letter] for letter in letters]
        if at is not None:
            shape[at:at] = rest
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return False
        terms.append(term)
        operands.append(s.like(s.real, shape))
    used = sorted({letter for term in terms for letter in term if letter != "."})
    kept = [used[int(i)] for i in s.rng.permutation(len(used))[:s.below(len(used) + 1)]]
    at = s.below(len(kept) + 1)
    result = "".join(kept) if rest is None else "".join(kept[:at]) + "..." + "".join(kept[at:])
    to = [extents[letter] for letter in kept]
    if rest is not None:
        to[at:at] = rest
    if np.prod([extents[letter] for letter in used] + (rest or []), dtype=np.int64) > 20 * MOST_ELEMENTS:
        return False
    if len(to) > 5 or np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    s.node("Einsum", operands, [(s.real, to)], equation=",".join(terms) + "->" + result)
    return True


# ---- recurrent networks

def recurrent(s: State) -> bool:
    """Any cell with initial states, lengths, peepholes, other activations; any of the results."""
    op = s.choose(["LSTM", "GRU", "RNN"])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    steps, batch, size, hidden = 1 + s.below(5), 1 + s.below(3), s.extent(), 1 + s.below(5)
    ways = s.choose([1, 1, 2])
    x = s.input(s.real, (steps, batch, size))
    inputs = [x, s.weight((ways, gates * hidden, size)), s.weight((ways, gates * hidden, hidden))]
    inputs.append(s.weight((ways, 2 * gates * hidden)) if s.chance(2) else "")
    lengths = s.rng.integers(1, steps + 1, batch).astype(np.int32)
    lengths[s.below(batch)] = steps  # one whole sequence: the judge's kernels stop at the longest
    inputs.append(fed(s, lengths) if s.chance(2) else "")
    state = (ways, batch, hidden)
    for _ in range(2 if op == "LSTM" else 1):
        inputs.append(s.input(s.real, state) if s.chance(2) else "")
    if op == "LSTM" and s.chance(3):
        inputs.append(s.weight((ways, 3 * hidden)))
    while inputs[-1] == "":
        inputs.pop()
    attrs = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else s.choose(["forward", "reverse"])}
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    if s.chance(3):
        drawn = [s.choose(["Sigmoid", "Tanh", "Tanh", "Relu"]) for _ in range(count)]
        if op != "RNN" and drawn[0] == "Relu":
            drawn[0] = "Tanh"  # gates without bound magnify the absolute error of ONNX Runtime's sigmoid
        attrs["activations"] = drawn * ways
    if op == "GRU":
        attrs["linear_before_reset"] = s.below(2)
    if not s.differentiable and s.chance(6):
        attrs["clip"] = 0.6
    wanted = [(s.real, (steps, ways, batch, hidden)), (s.real, state), (s.real, state)][:3 if op == "LSTM" else 2]
    outputs = [made if s.chance(2) else None for made in wanted]
    if not any(outputs):
        last = s.below(len(wanted))
        outputs[last] = wanted[last]
    while outputs[-1] is None:
        outputs.pop()
    s.node(op, inputs, outputs, **attrs)
    return True


DRAWERS = [(gather_nd, 2, True), (scatter_nd, 2, True), (scatter_reduced, 1, False), (reverse_sequence, 1, True),
           (hardmax, 1, False), (eye_like, 1, True), (einsum, 2, True), (recurrent, 2, True)]
