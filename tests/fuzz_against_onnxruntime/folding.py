"""Graphs without inputs: all that Lowtide evaluates on the host while it reads a model (shapes, masks, positions), beside
ONNX Runtime's results.

Every node is drawn with its numpy result, so that what comes out of one may be the axis, the index or the target shape of
the next: negative indices and axes, empty tensors, broadcasts, steps of both signs, integers that wrap around. Every value
that a node makes is an output.
"""

import os

import numpy as np

import judge
from graph import Graph, Node, to_model
from inference import Invalid, Refused, Wrong, expected, run_plan  # noqa: F401: the verdicts belong to the kind
from library import INPUT, Failure, Library, Model, Plan

I64, I32, U8, F32, F64, BOOL = (np.dtype(t) for t in (np.int64, np.int32, np.uint8, np.float32, np.float64, np.bool_))
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
MOST_ELEMENTS = 400
OPSETS = [13, 15, 17, 18, 19, 20, 21]


class State:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng([seed, 3])
        self.graph = Graph(int(self.rng.choice(OPSETS)))
        self.values: dict[str, np.ndarray] = {}
        self.count = 0

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0

    def choose(self, items):
        return items[self.below(len(items))]

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        shape = tuple(self.choose([1, 1, 2, 3, 3, 4, 5]) for _ in range(low + self.below(high - low + 1)))
        shape = tuple(0 if self.chance(40) else extent for extent in shape)
        return shape if np.prod(shape, dtype=np.int64) <= MOST_ELEMENTS else self.shape(low, high)

    def contents(self, dtype, shape) -> np.ndarray:
        if dtype == BOOL:
            return self.rng.integers(0, 2, shape).astype(BOOL)
        if dtype == U8:
            return self.rng.integers(0, 256 if self.chance(3) else 7, shape).astype(U8)
        if dtype == I32 and self.chance(12):
            return self.rng.choice([-(2**31), 2**31 - 1, 2**30, 7, -3], shape).astype(I32)
        if dtype.kind == "i":
            return self.rng.integers(-6, 7, shape).astype(dtype)
        array = self.rng.uniform(-4, 4, shape) if self.chance(2) else self.rng.integers(-8, 9, shape) / 2
        if self.chance(15):
            array = np.where(self.rng.random(shape) < 0.2, self.choose([np.inf, -np.inf, np.nan, -0.0]), array)
        return np.asarray(array, np.float32).astype(dtype)

    def keep(self, name: str, array: np.ndarray) -> str:
        self.values[name] = array
        self.graph.types[name] = (array.dtype, array.shape)
        return name

    def constant(self, array) -> str:
        array = np.asarray(array)
        self.count += 1
        name = f"c{self.count}"
        if self.chance(5):
            self.graph.nodes.append(Node("Constant", [], [name], {"value": array}))
        else:
            self.graph.constants[name] = array
        return self.keep(name, array)

    def ints(self, values, dtype=I64) -> str:
        return self.constant(np.asarray(values, dtype))

    def pick(self, dtypes, low: int = 0, high: int = 5, fits=lambda array: True) -> str | None:
        """A value made so far, or a new constant where the condition is only on types and ranks."""
        found = [name for name, array in self.values.items()
                 if array.dtype in dtypes and low <= array.ndim <= high and fits(array)]
        found += [name for name in found if not name.startswith("c")] * 2
        if found and not self.chance(5):
            return self.choose(found)
        array = self.contents(self.choose(dtypes), self.shape(low, min(high, 4) if low <= 4 else low))
        return self.constant(array) if fits(array) else (self.choose(found) if found else None)

    def partner(self, name: str) -> str:
        """An operand of the same type that broadcasts with `name`."""
        mine = self.values[name]
        found = [other for other, array in self.values.items()
                 if array.dtype == mine.dtype and joined(mine.shape, array.shape) is not None]
        if found and not self.chance(3):
            return self.choose(found)
        shape = [1 if self.chance(3) else extent for extent in mine.shape]
        return self.constant(self.contents(mine.dtype, tuple(shape[self.below(len(shape) + 1):])))

    def integers(self, wanted) -> str:
        """A value with these integers that is there already (what another node made), or a constant."""
        wanted = np.asarray(wanted, I64)
        found = [name for name, array in self.values.items()
                 if array.dtype == I64 and array.shape == wanted.shape and np.array_equal(array, wanted)]
        return self.choose(found) if found and not self.chance(4) else self.ints(wanted)

    def node(self, op: str, inputs, outputs, **attrs) -> bool:
        """outputs: what numpy makes of it. False where it would be too large."""
        outputs = [np.asarray(array) for array in outputs]
        if any(array.size > MOST_ELEMENTS or array.ndim > 6 for array in outputs):
            return False
        names = []
        for array in outputs:
            self.count += 1
            names.append(self.keep(f"v{self.count}", array))
        self.graph.nodes.append(Node(op, list(inputs), names, attrs))
        return True


def joined(a, b):
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return None
    return shape if np.prod(shape, dtype=np.int64) <= MOST_ELEMENTS else None


def turned(state: State, place: int, extent: int) -> int:
    """A place, or the same counted from the end."""
    return place - extent if state.chance(2) else place


# ---- arithmetic


def towards_zero(a, b):
    return np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)


def arithmetic(state: State) -> bool:
    op = state.choose(["Add", "Sub", "Mul", "Div"])
    a = state.pick([I64, I64, I32, F32, F64])
    if a is None:
        return False
    x, b = state.values[a], state.partner(a)
    y = state.values[b]
    if state.chance(2):
        a, b, x, y = b, a, y, x
    if joined(x.shape, y.shape) is None:
        return False
    if x.dtype.kind == "i":
        if op == "Div":
            if any((array == np.iinfo(x.dtype).min).any() for array in (x, y)) or (y == 0).any():
                return False
            return state.node(op, [a, b], [towards_zero(*np.broadcast_arrays(x, y))])
        if x.dtype == I64 and x.size and y.size and abs(int(np.abs(x).max())) * (abs(int(np.abs(y).max())) + 1) > 2**40:
            return False
    return state.node(op, [a, b], [{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op](x, y)])


def modulo(state: State) -> bool:
    a = state.pick([I64, I64, I32, U8, F32, F64])
    if a is None:
        return False
    b = state.partner(a)
    x, y = state.values[a], state.values[b]
    real = x.dtype.kind == "f"
    if not real and ((y == 0).any() or (x.dtype.kind == "i" and (x == np.iinfo(x.dtype).min).any())):
        return False
    if real or state.chance(3):
        if any(np.abs(array.astype(F64)).max(initial=0) > 2**53 for array in (x, y)) and not real:
            return False  # ONNX Runtime divides these in double
        return state.node("Mod", [a, b], [np.fmod(x, y)], fmod=1)
    return state.node("Mod", [a, b], [np.mod(x, y)])


def power(state: State) -> bool:
    a = state.pick([I64, I32, F32, F64])
    if a is None:
        return False
    x = state.values[a]
    if x.dtype.kind == "i":
        exponent = state.rng.integers(0, 4, state.choose([(), x.shape])).astype(state.choose([I64, I32, F32]))
        if x.size and np.abs(x.astype(np.float64)).max() > 300:
            return False
        return state.node("Pow", [a, state.constant(exponent)], [np.power(x.astype(F64), exponent.astype(F64)).astype(I64).astype(x.dtype)])
    exponent = state.rng.integers(-2, 4, state.choose([(), x.shape])).astype(state.choose([x.dtype, I64]))
    return state.node("Pow", [a, state.constant(exponent)], [np.power(x, exponent.astype(x.dtype))])


def extremes(state: State) -> bool:
    a = state.pick([I64, I32, F32, F64])
    if a is None:
        return False
    names = [a]
    for _ in range(state.below(3)):
        names.append(state.partner(names[-1]))
    shape = ()
    for name in names:
        shape = joined(shape, state.values[name].shape)
        if shape is None:
            return False
    op = state.choose(["Min", "Max"])
    result = state.values[names[0]]
    for name in names[1:]:
        result = (np.minimum if op == "Min" else np.maximum)(result, state.values[name])
    return state.node(op, names, [result])


def compare_two(state: State) -> bool:
    op = state.choose(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
    a = state.pick([I64, I64, I32, F32, F64] + ([BOOL] if op == "Equal" else []))
    if a is None:
        return False
    b = state.partner(a)
    x, y = state.values[a], state.values[b]
    if op.endswith("OrEqual") and state.graph.opset < 16 and x.dtype in (I64, I32) and state.graph.opset < 12:
        return False
    function = {"Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal,
                "GreaterOrEqual": np.greater_equal}[op]
    return state.node(op, [a, b], [function(x, y)])


def logic(state: State) -> bool:
    a = state.pick([BOOL])
    if a is None:
        return False
    if state.chance(4):
        return state.node("Not", [a], [~state.values[a]])
    b = state.partner(a)
    op = state.choose(["And", "Or", "Xor"])
    function = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}[op]
    return state.node(op, [a, b], [function(state.values[a], state.values[b])])


def one_operand(state: State) -> bool:
    op = state.choose(["Neg", "Neg", "Abs", "Abs", "Sqrt", "Exp", "Log", "Sin", "Cos", "Floor", "Ceil", "Round", "Reciprocal", "IsNaN"])
    integers = op in ("Neg", "Abs")
    a = state.pick([I64, I64, I32, F32, F64] if integers else [F32, F64])
    if a is None:
        return False
    x = state.values[a]
    if integers and x.dtype.kind == "i" and (x == np.iinfo(x.dtype).min).any():
        return False
    function = {"Neg": np.negative, "Abs": np.abs, "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Sin": np.sin, "Cos": np.cos,
                "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Reciprocal": np.reciprocal, "IsNaN": np.isnan}[op]
    return state.node(op, [a], [function(x)])


def cast(state: State) -> bool:
    from graph import element_type
    a = state.pick([I64, I64, I32, U8, F32, F64, BOOL])
    if a is None:
        return False
    x, to = state.values[a], state.choose([I64, I64, I32, U8, F32, F64, BOOL])
    if x.dtype.kind == "f" and to.kind in "iu":
        if not np.isfinite(x).all() or (x.size and (np.abs(x).max() > 1e6 or (to == U8 and (x.min() < 0 or x.max() > 255)))):
            return False
    result = x.astype(to)
    if state.chance(4):
        like = state.constant(state.contents(to, ()))
        return state.node("CastLike", [a, like], [result]) if state.graph.opset >= 15 else False
    return state.node("Cast", [a], [result], to=int(element_type(to)))


def where(state: State) -> bool:
    a = state.pick([I64, I32, U8, F32, F64])
    condition = state.pick([BOOL])
    if a is None or condition is None:
        return False
    b = state.partner(a)
    c, x, y = state.values[condition], state.values[a], state.values[b]
    if any(array.dtype.kind == "f" and (np.signbit(array) & (array == 0)).any() for array in (x, y)):
        return False  # ONNX Runtime adds the two sides, which loses the sign of a zero
    both = joined(x.shape, y.shape)
    if both is None or joined(c.shape, both) is None:
        condition = state.constant(state.contents(BOOL, x.shape))
        c = state.values[condition]
        if both is None or joined(c.shape, both) is None:
            return False
    return state.node("Where", [condition, a, b], [np.where(c, x, y)])


def total(state: State) -> bool:
    a = state.pick([F32, F64])
    if a is None:
        return False
    names = [a] + [state.partner(a) for _ in range(state.below(2))]
    shape, result = (), state.values[a]
    for name in names:
        shape = joined(shape, state.values[name].shape)
        if shape is None:
            return False
    for name in names[1:]:
        result = result + state.values[name]
    return state.node("Sum", names, [result])


# ---- moving

ANY = [I64, I64, I64, I32, U8, F32, F64, BOOL]


def same(state: State) -> bool:
    a = state.pick(ANY)
    return a is not None and state.node("Identity", [a], [state.values[a]])


def squeeze(state: State) -> bool:
    a = state.pick(ANY, low=1, fits=lambda array: 1 in array.shape)
    if a is None:
        return False
    x = state.values[a]
    if state.chance(4):
        return state.node("Squeeze", [a], [x.squeeze()])
    ones = [d for d in range(x.ndim) if x.shape[d] == 1]
    axes = [turned(state, d, x.ndim) for d in ones if state.chance(2)] or [turned(state, ones[0], x.ndim)]
    return state.node("Squeeze", [a, state.integers(axes)], [np.squeeze(x, tuple(axes))])


def unsqueeze(state: State) -> bool:
    a = state.pick(ANY, high=3)
    if a is None:
        return False
    x, more = state.values[a], 1 + state.below(2)
    rank = x.ndim + more
    axes = [turned(state, int(d), rank) for d in state.rng.permutation(rank)[:more]]
    return state.node("Unsqueeze", [a, state.integers(axes)], [np.expand_dims(x, tuple(axes))])


def reshape(state: State) -> bool:
    a = state.pick(ANY)
    if a is None:
        return False
    x = state.values[a]
    if state.chance(4):
        axis = state.below(x.ndim + 1)
        shown = axis - x.ndim if axis < x.ndim and state.chance(2) else axis
        rows = int(np.prod(x.shape[:axis], dtype=np.int64))
        columns = int(np.prod(x.shape[axis:], dtype=np.int64))
        return state.node("Flatten", [a], [x.reshape(rows, columns)], axis=shown)
    if x.size == 0:
        target = [0] * x.ndim
        return state.node("Reshape", [a, state.integers(target)], [x])
    left, target = x.size, []
    while left > 1 and len(target) < 4 and not state.chance(4):
        factor = state.choose([f for f in range(1, left + 1) if left % f == 0])
        target.append(factor)
        left //= factor
    target.append(left)
    shape = list(target)
    if state.chance(3):
        target[state.below(len(target))] = -1
    for d in range(min(len(target), x.ndim)):
        if target[d] == x.shape[d] and state.chance(3):
            target[d] = 0
    return state.node("Reshape", [a, state.integers(target)], [x.reshape(shape)])


def transpose(state: State) -> bool:
    a = state.pick(ANY, low=1)
    if a is None:
        return False
    x = state.values[a]
    if state.chance(4):
        return state.node("Transpose", [a], [x.T])
    perm = [int(d) for d in state.rng.permutation(x.ndim)]
    return state.node("Transpose", [a], [x.transpose(perm)], perm=perm)


def slice_bounds(state: State, extent: int):
    step = state.choose([1, 1, 1, 2, 3, -1, -1, -2])
    start, end = (int(state.rng.integers(-extent - 2, extent + 3)) for _ in range(2))
    if state.chance(4):
        end = 2**63 - 1 if step > 0 else -(2**63)
    return start, end, step


def clamped(start: int, end: int, step: int, extent: int):
    """The specification's rule, which is not numpy's where a start lies outside."""
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    low, high = (0, extent) if step > 0 else (0, extent - 1)
    start = min(max(start, low), high)
    end = min(max(end, 0 if step > 0 else -1), extent)
    return range(start, end, step)


def cut(state: State) -> bool:
    a = state.pick(ANY, low=1)
    if a is None:
        return False
    x = state.values[a]
    axes = sorted(int(d) for d in state.rng.permutation(x.ndim)[:1 + state.below(x.ndim)])
    bounds = [slice_bounds(state, x.shape[d]) for d in axes]
    result = x
    for d, (start, end, step) in zip(axes, bounds):
        result = result.take(list(clamped(start, end, step, x.shape[d])), axis=d) if x.shape[d] else result
    starts, ends, steps = ([bound[i] for bound in bounds] for i in range(3))
    inputs = [a, state.integers(starts), state.integers(ends)]
    if axes != list(range(len(axes))) or state.chance(2) or any(step != 1 for step in steps):
        inputs.append(state.integers([turned(state, d, x.ndim) for d in axes]))
        if any(step != 1 for step in steps) or state.chance(3):
            inputs.append(state.integers(steps))
    return state.node("Slice", inputs, [result])


def split(state: State) -> bool:
    a = state.pick([I64, I64, I32, F32, F64, BOOL], low=1, fits=lambda array: array.size > 0)
    if a is None:
        return False
    x = state.values[a]
    axis = state.below(x.ndim)
    points = sorted(int(p) for p in state.rng.integers(0, x.shape[axis] + 1, state.below(3)))
    sizes = np.diff([0, *points, x.shape[axis]])
    return state.node("Split", [a, state.integers(sizes)], np.split(x, points, axis), axis=turned(state, axis, x.ndim))


def expand(state: State) -> bool:
    a = state.pick([I64, I64, I32, U8, F32, F64, BOOL], high=4)
    if a is None:
        return False
    x = state.values[a]
    target = [state.choose([1, 2, 3]) if extent == 1 else state.choose([1, extent]) for extent in x.shape]
    target = [state.choose([1, 2])] * state.below(2) + target if state.chance(2) else target[state.below(len(target) + 1):]
    shape = joined(x.shape, tuple(target))
    return shape is not None and state.node("Expand", [a, state.integers(target)], [np.broadcast_to(x, shape)])


def tile(state: State) -> bool:
    a = state.pick([I64, I64, I32, U8, F32, F64, BOOL], low=1, high=3)
    if a is None:
        return False
    x = state.values[a]
    repeats = [state.choose([0, 1, 1, 2, 3]) if state.chance(2) else 1 for _ in x.shape]
    return state.node("Tile", [a, state.integers(repeats)], [np.tile(x, repeats)])


def constant_of_shape(state: State) -> bool:
    shape = state.shape(0, 3)
    element = state.contents(state.choose(ANY), (1,))
    if state.chance(4):
        return state.node("ConstantOfShape", [state.integers(shape)], [np.zeros(shape, F32)])
    return state.node("ConstantOfShape", [state.integers(shape)], [np.full(shape, element[0])], value=element)


def span(state: State) -> bool:
    dtype = state.choose([I64, I64, I64, I32, F32, F64])
    start, limit = state.rng.integers(-9, 10, 2).astype(dtype)
    delta = np.asarray(state.choose([1, 1, 1, 2, 3, -1, -2]), dtype)
    if dtype.kind == "f":
        start, delta = start / 2, np.asarray(delta / 2, dtype)
    names = [state.constant(np.asarray(bound, dtype)) for bound in (start, limit, delta)]
    return state.node("Range", names, [np.arange(start, limit, delta).astype(dtype)])


def shape_of(state: State) -> bool:
    a = state.pick(ANY)
    if a is None:
        return False
    x = state.values[a]
    if state.chance(3):
        return state.node("Size", [a], [np.asarray(x.size, I64)])
    shape = np.asarray(x.shape, I64)
    if state.graph.opset < 15 or state.chance(2):
        return state.node("Shape", [a], [shape])
    start, end = (int(bound) for bound in state.rng.integers(-x.ndim - 1, x.ndim + 2, 2))
    return state.node("Shape", [a], [shape[start:end] if start >= -x.ndim and end >= -x.ndim else
                                     shape[max(start, -x.ndim):(end if end >= -x.ndim else 0)]], start=start, end=end)


# ---- joining and looking up


def concat(state: State) -> bool:
    a = state.pick(ANY, low=1)
    if a is None:
        return False
    x = state.values[a]
    axis = state.below(x.ndim)
    names = [a]
    for _ in range(state.below(3)):
        shape = list(x.shape)
        shape[axis] = None
        found = [name for name, array in state.values.items() if array.dtype == x.dtype and array.ndim == x.ndim
                 and all(d == axis or array.shape[d] == shape[d] for d in range(x.ndim))]
        if state.chance(3):
            shape[axis] = 1 + state.below(3)
            names.append(state.constant(state.contents(x.dtype, tuple(shape))))
        else:
            names.append(state.choose(found))
    return state.node("Concat", names, [np.concatenate([state.values[name] for name in names], axis)],
                      axis=turned(state, axis, x.ndim))


def indices_for(state: State, extent: int, shape=None) -> str | None:
    """Integers that are places of a dim, among them values that other nodes made."""
    found = [name for name, array in state.values.items()
             if array.dtype in (I64, I32) and array.ndim <= 2 and (shape is None or array.shape == shape)
             and ((array >= -extent) & (array < extent)).all()]
    if found and not state.chance(3):
        return state.choose(found)
    if extent == 0:
        return None
    places = state.rng.integers(-extent, extent, state.shape(0, 2) if shape is None else shape)
    return state.constant(places.astype(state.choose([I64, I64, I32])))


def gather(state: State) -> bool:
    a = state.pick(ANY, low=1)
    if a is None:
        return False
    x = state.values[a]
    axis = state.below(x.ndim)
    places = indices_for(state, x.shape[axis])
    if places is None:
        return False
    return state.node("Gather", [a, places], [x.take(state.values[places], axis=axis)], axis=turned(state, axis, x.ndim))


def gather_elements(state: State) -> bool:
    a = state.pick(ANY, low=1, high=3, fits=lambda array: array.size > 0)
    if a is None:
        return False
    x = state.values[a]
    axis = state.below(x.ndim)
    shape = [1 + state.below(extent) for extent in x.shape]
    shape[axis] = 1 + state.below(4)
    places = indices_for(state, x.shape[axis], tuple(shape))
    if places is None:
        return False
    index = state.values[places]
    grid = list(np.indices(index.shape))
    grid[axis] = index
    return state.node("GatherElements", [a, places], [x[tuple(grid)]], axis=turned(state, axis, x.ndim))


def tuples(state: State, x: np.ndarray, width: int) -> str:
    lead = state.shape(1, 2)
    places = np.stack([state.rng.integers(-x.shape[d], x.shape[d], lead) for d in range(width)], -1)
    return state.constant(places.astype(I64))


def gather_nd(state: State) -> bool:
    a = state.pick(ANY, low=1, high=4, fits=lambda array: array.size > 0)
    if a is None:
        return False
    x = state.values[a]
    width = 1 + state.below(x.ndim)
    places = tuples(state, x, width)
    if state.chance(2):  # tuples put together from ranges, as masks are indexed
        columns = []
        for d in range(width):
            found = [name for name, array in state.values.items()
                     if array.dtype == I64 and array.ndim == 2 and array.shape[1] == 1 and array.shape[0] == 3
                     and ((array >= -x.shape[d]) & (array < x.shape[d])).all()]
            columns.append(state.choose(found) if found and not state.chance(3)
                           else state.constant(state.rng.integers(-x.shape[d], x.shape[d], (3, 1)).astype(I64)))
        if not state.node("Concat", columns, [np.concatenate([state.values[name] for name in columns], 1)], axis=-1):
            return False
        places = list(state.values)[-1]
    index = state.values[places]
    return state.node("GatherND", [a, places], [x[tuple(np.moveaxis(index, -1, 0))]])


def scatter_nd(state: State) -> bool:
    a = state.pick([I64, I64, I32, F32, F64, BOOL], low=1, high=3, fits=lambda array: array.size > 0)
    if a is None:
        return False
    x = state.values[a]
    width = 1 + state.below(x.ndim)
    count = int(np.prod(x.shape[:width]))
    chosen = state.rng.permutation(count)[:1 + state.below(min(count, 4))]  # each place once: the order is not defined
    places = np.stack(np.unravel_index(chosen, x.shape[:width]), -1).astype(I64)
    shown = places - np.asarray(x.shape[:width]) * state.rng.integers(0, 2, places.shape)
    updates = state.contents(x.dtype, (len(chosen), *x.shape[width:]))
    result = x.copy()
    result[tuple(places.T)] = updates
    return state.node("ScatterND", [a, state.constant(shown.astype(I64)), state.constant(updates)], [result])


# ---- running over a dim


def running_sum(state: State) -> bool:
    a = state.pick([I64, I64, I32, F32, F64], low=1, fits=lambda array: array.size > 0)
    if a is None:
        return False
    x = state.values[a]
    axis, exclusive, reverse = state.below(x.ndim), state.below(2), state.below(2)
    y = np.flip(x, axis) if reverse else x
    summed = np.cumsum(y, axis, dtype=x.dtype)
    if exclusive:
        summed = np.concatenate([np.zeros_like(summed.take([0], axis)), summed.take(range(x.shape[axis] - 1), axis)], axis)
    result = np.flip(summed, axis) if reverse else summed
    place = state.constant(np.asarray(turned(state, axis, x.ndim), state.choose([I64, I32])))
    return state.node("CumSum", [a, place], [result], exclusive=exclusive, reverse=reverse)


def triangle(state: State) -> bool:
    a = state.pick([I64, F32, F64, BOOL], low=2, high=4, fits=lambda array: array.size > 0)
    if a is None or state.graph.opset < 14:
        return False
    x, upper, k = state.values[a], state.below(2), int(state.rng.integers(-3, 4))
    inputs = [a] if k == 0 else [a, state.constant(np.asarray(k, I64))]
    return state.node("Trilu", inputs, [np.triu(x, k) if upper else np.tril(x, k)], upper=upper)


def reduction(state: State) -> bool:
    op = state.choose(["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"])
    a = state.pick([I64, I32, F32, F64], fits=lambda array: array.size > 0 and np.isfinite(array).all())
    if a is None:
        return False
    x = state.values[a]
    if x.dtype == I32 and x.size and np.abs(x.astype(I64)).max() > 2**24:  # how a sum overflows is not defined
        return False
    if op == "ReduceMean" and x.dtype == I64 or op == "ReduceProd" and x.size and np.abs(x.astype(np.float64)).max() > 8:
        return False
    if op == "ReduceSum" and x.dtype == I64 and np.abs(x.astype(F64)).sum() > 2**53:  # ONNX Runtime sums these in double
        return False
    axes = [int(d) for d in state.rng.permutation(x.ndim)[:state.below(x.ndim + 1)]]
    keep = state.below(2)
    over = tuple(axes) or None
    if op == "ReduceMean" and x.dtype == I32:
        return False
    function = {"ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceMean": np.mean}[op]
    more = {} if op in ("ReduceMax", "ReduceMin") else {"dtype": x.dtype}
    if op == "ReduceProd" and x.dtype.kind == "i" and np.prod(np.maximum(np.abs(x.astype(F64)), 1)) > 2**30:
        return False  # how a product overflows is not defined
    result = function(x, axis=over, keepdims=bool(keep), **more)
    shown = [turned(state, d, x.ndim) for d in axes]
    if op == "ReduceSum" or state.graph.opset >= 18:
        return state.node(op, [a, state.integers(shown)] if axes else [a], [result], keepdims=keep)
    return state.node(op, [a], [result], keepdims=keep, **({"axes": shown} if axes else {}))


DRAWERS = [
    (arithmetic, 6), (modulo, 2), (power, 1), (extremes, 2), (compare_two, 3), (logic, 2), (one_operand, 3), (cast, 3),
    (where, 3), (total, 1), (same, 1), (squeeze, 2), (unsqueeze, 3), (reshape, 4), (transpose, 2), (cut, 5), (split, 2),
    (expand, 3), (tile, 2), (constant_of_shape, 2), (span, 5), (shape_of, 3), (concat, 4), (gather, 6), (gather_elements, 2),
    (gather_nd, 2), (scatter_nd, 1), (running_sum, 2), (triangle, 2), (reduction, 3),
]


def draw(seed: int, without: frozenset[str] = frozenset()) -> Graph:
    """The graph of a seed. Ops of `without` are not drawn (what the library refuses by name)."""
    state = State(seed)
    weights = np.array([weight for _, weight in DRAWERS], float)
    wanted = 1 + state.below(10)
    with np.errstate(all="ignore"):
        for _ in range(4 * wanted):
            graph = state.graph
            if sum(node.op != "Constant" for node in graph.nodes) >= wanted:
                break
            before = len(graph.nodes), dict(graph.constants), dict(graph.types), dict(state.values)
            drawer = DRAWERS[int(state.rng.choice(len(DRAWERS), p=weights / weights.sum()))][0]
            if not drawer(state) or without.intersection(node.op for node in graph.nodes[before[0]:]):
                del graph.nodes[before[0]:]
                graph.constants, graph.types, state.values = before[1:]
    state.graph.outputs = [name for node in state.graph.nodes if node.op != "Constant" for name in node.outputs]
    return state.graph


def told_constant(graph: Graph):
    """The model, which says of its initializers that they are constants: else floats would be taken for weights."""
    model = to_model(graph)
    for name in graph.constants:
        info = model.graph.value_info.add()
        info.name = name
        prop = info.metadata_props.add()
        prop.key, prop.value = KIND, "CONSTANT_TENSOR"
    return model


def noisy(session_of, graph: Graph, rng) -> dict[str, np.ndarray]:
    """Only the constants are moved: what is computed from them may be a shape."""
    constants = {name: judge.moved(array, rng) for name, array in graph.constants.items()}
    moved = Graph(graph.opset, graph.inputs, constants, graph.nodes, graph.types, graph.outputs)
    return dict(zip(graph.outputs, session_of(to_model(moved).SerializeToString()).run(graph.outputs, graph.inputs)))


def compare(library: Library, graph: Graph, path: str, budgets: bool = True, seed: int = 0) -> None:
    """Raises Wrong, Refused or Invalid."""
    from inference import judge_session
    theirs = expected(graph)
    with open(path, "wb") as file:
        file.write(told_constant(graph).SerializeToString())
    try:
        with Model(library, path) as model, Plan(model, threads=1, effort=0.02) as plan:
            ours = run_plan(plan, graph)
    except Failure as failure:
        if failure.status == INPUT:
            raise Refused(failure.message) from None
        raise Wrong(str(failure)) from None
    finally:
        os.unlink(path)
    if ours.keys() != theirs.keys():
        raise Wrong(f"outputs are called {sorted(ours)}, not {sorted(theirs)}")
    rng = np.random.default_rng([seed, 4])
    doubtful = [name for name in theirs if not judge.plainly_equal(ours[name], theirs[name])]
    samples = [noisy(judge_session, graph, rng) for _ in range(judge.SAMPLES if doubtful else 0)]
    for name in doubtful:
        if not judge.within_noise(ours[name], theirs[name], [sample[name] for sample in samples]):
            raise Wrong(f"'{name}' is {ours[name].dtype}{list(ours[name].shape)} {ours[name].ravel()[:8]}, "
                        f"not {theirs[name].dtype}{list(theirs[name].shape)} {theirs[name].ravel()[:8]}")
