"""Drawers of ops that move data, and of shape arithmetic."""

import numpy as np

from draw import MOST_ELEMENTS, State
from graph import Node


def any_type(s: State):
    return None if s.differentiable else s.choose([s.real, s.real, s.real, np.int64, np.bool_])


def factor(s: State, count: int, rank: int) -> list[int]:
    """A random shape of `rank` dims with `count` elements."""
    dims = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        dims.append(s.choose(divisors))
        count //= dims[-1]
    dims.append(count)
    s.rng.shuffle(dims)
    return [int(d) for d in dims]


def reshape(s: State) -> bool:
    x = s.pick(any_type(s))
    shape = s.dims(x)
    count = int(np.prod(shape, dtype=np.int64))
    to = factor(s, count, 1 + s.below(4))
    asked = list(to)
    if s.chance(2):
        asked[s.below(len(to))] = -1
    if s.chance(4) and shape:  # 0: the extent stays
        for d in range(min(len(to), len(shape))):
            if to[d] == shape[d] and asked[d] != -1:
                asked[d] = 0
    s.node("Reshape", [x, s.ints(asked)], [(s.type(x)[0], to)])
    return True


def reshape_by_shape(s: State) -> bool:
    """To the shape of another value, taken apart and joined again as exporters write it."""
    x = s.pick(low=1, high=4)
    shape = s.dims(x)
    taken = s.node("Shape", [x], [(np.int64, (len(shape),))])[0]
    first = s.node("Slice", [taken, s.ints([0]), s.ints([1])], [(np.int64, (1,))])[0]
    rest = int(np.prod(shape[1:], dtype=np.int64))
    joined = s.node("Concat", [first, s.ints([rest if s.chance(2) or shape[0] * rest == 0 else -1])], [(np.int64, (2,))], axis=0)[0]
    s.node("Reshape", [x, joined], [(s.type(x)[0], (shape[0], rest))])
    return True


def flatten(s: State) -> bool:
    x = s.pick(any_type(s), low=1)
    shape = s.dims(x)
    axis = s.below(len(shape) + 1)
    to = (int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64)))
    s.node("Flatten", [x], [(s.type(x)[0], to)], axis=axis if axis == len(shape) or s.chance(2) else axis - len(shape))
    return True


def squeeze(s: State) -> bool:
    x = s.pick(any_type(s), fits=lambda shape: 1 in shape)
    if x is None:
        return False
    shape = s.dims(x)
    ones = [d for d, extent in enumerate(shape) if extent == 1]
    gone = ones if s.chance(3) else [s.choose(ones)]
    to = [extent for d, extent in enumerate(shape) if d not in gone]
    axes = [d - len(shape) if s.chance(3) else d for d in gone]
    s.node("Squeeze", [x] if gone == ones and s.chance(3) else [x, s.ints(axes)], [(s.type(x)[0], to)])
    return True


def unsqueeze(s: State) -> bool:
    x = s.pick(any_type(s), high=4)
    shape = list(s.dims(x))
    at = s.below(len(shape) + 1)
    s.node("Unsqueeze", [x, s.ints([at - len(shape) - 1 if s.chance(3) else at])],
           [(s.type(x)[0], shape[:at] + [1] + shape[at:])])
    return True


def transpose(s: State) -> bool:
    x = s.pick(any_type(s), low=1)
    shape = s.dims(x)
    perm = [int(p) for p in s.rng.permutation(len(shape))]
    if s.chance(6):
        s.node("Transpose", [x], [(s.type(x)[0], shape[::-1])])
    else:
        s.node("Transpose", [x], [(s.type(x)[0], [shape[p] for p in perm])], perm=perm)
    return True


def cut(s: State) -> bool:
    """Slice: one or more axes, any bounds, steps of either sign."""
    x = s.pick(any_type(s), low=1)
    shape = list(s.dims(x))
    axes = sorted(int(a) for a in s.rng.choice(len(shape), 1 + s.below(len(shape)), replace=False))
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = shape[axis]
        begin = s.below(extent)
        end = begin + 1 + s.below(extent - begin)
        step = s.choose([1, 1, 1, 1, 2, 3])
        if s.chance(6):  # backwards
            shape[axis] = len(range(end - 1, begin - 1, -step))
            starts.append(end - 1)
            ends.append(begin - 1 if begin > 0 else -extent - 1)
            steps.append(-step)
            continue
        shape[axis] = len(range(begin, end, step))
        starts.append(begin - extent if s.chance(4) else begin)
        ends.append(s.choose([end - extent, end]) if end < extent else s.choose([end, 2**62]))
        steps.append(step)
    inputs = [x, s.ints(starts), s.ints(ends), s.ints([a - len(s.dims(x)) if s.chance(4) else a for a in axes])]
    if any(step != 1 for step in steps) or s.chance(2):
        inputs.append(s.ints(steps))
    s.node("Slice", inputs, [(s.type(x)[0], shape)])
    return True


def split(s: State) -> bool:
    x = s.pick(any_type(s), low=1, fits=lambda shape: any(extent > 1 for extent in shape))
    if x is None:
        return False
    shape = list(s.dims(x))
    axis = s.choose([d for d, extent in enumerate(shape) if extent > 1])
    first = 1 + s.below(shape[axis] - 1)
    parts = [first, shape[axis] - first]
    made = s.node("Split", [x, s.ints(parts)], [(s.type(x)[0], shape[:axis] + [p] + shape[axis + 1:]) for p in parts], axis=axis)
    return bool(made)


def concat(s: State) -> bool:
    x = s.pick(any_type(s), low=1)
    dtype, shape = s.type(x)
    axis = s.below(len(shape))
    def fits(d, other):
        return d == dtype and len(other) == len(shape) and all(
            a == b for k, (a, b) in enumerate(zip(other, shape)) if k != axis)
    parts = [x] + [s.choose(s.values(fits)) for _ in range(1 + s.below(3))]
    if s.chance(2):
        narrow = list(shape)
        narrow[axis] = 1 + s.below(3)
        parts.append(s.like(dtype, narrow))
    s.rng.shuffle(parts)
    extent = sum(s.dims(p)[axis] for p in parts)
    to = [extent if d == axis else e for d, e in enumerate(shape)]
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    s.node("Concat", parts, [(dtype, to)], axis=axis - len(shape) if s.chance(3) else axis)
    return True


def expand(s: State) -> bool:
    x = s.pick(any_type(s), high=3)
    to = [s.extent() if extent == 1 else extent for extent in s.dims(x)]
    to = [s.extent() for _ in range(s.below(2))] + to
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    asked = [1 if extent == s.dims(x)[d - len(to) + len(s.dims(x))] and s.chance(4) else extent
             for d, extent in enumerate(to)] if len(to) == len(s.dims(x)) else to
    s.node("Expand", [x, s.ints(asked)], [(s.type(x)[0], to)])
    return True


def tile(s: State) -> bool:
    x = s.pick(any_type(s), low=1, high=3)
    repeats = [1 + s.below(3) for _ in s.dims(x)]
    to = [e * r for e, r in zip(s.dims(x), repeats)]
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    s.node("Tile", [x, s.ints(repeats)], [(s.type(x)[0], to)])
    return True


def indices(s: State, shape, extent: int) -> str:
    """Known when the model is read, or fed."""
    array = s.rng.integers(-extent, extent, shape).astype(np.int64)
    if s.chance(2):
        return s.constant(array)
    name = s.input(np.int64, array.shape)
    s.graph.inputs[name] = array
    return name


def gather(s: State) -> bool:
    x = s.pick(any_type(s), low=1, high=4)
    shape = s.dims(x)
    axis = s.below(len(shape))
    picked = s.shape(0, 2)
    to = list(shape[:axis]) + list(picked) + list(shape[axis + 1:])
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    s.node("Gather", [x, indices(s, picked, shape[axis])], [(s.type(x)[0], to)], axis=axis - len(shape) if s.chance(3) else axis)
    return True


def gather_elements(s: State) -> bool:
    x = s.pick(low=1, high=3)
    shape = s.dims(x)
    axis = s.below(len(shape))
    picked = [s.extent() if d == axis else 1 + s.below(e) for d, e in enumerate(shape)]
    s.node("GatherElements", [x, indices(s, picked, shape[axis])], [(s.type(x)[0], picked)], axis=axis)
    return True


def scatter_elements(s: State) -> bool:
    x = s.pick(low=1, high=3)
    shape = s.dims(x)
    axis = s.below(len(shape))
    count = 1 + s.below(shape[axis])
    picked = [count if d == axis else 1 + s.below(e) for d, e in enumerate(shape)]
    lanes = int(np.prod(picked, dtype=np.int64)) // count
    # without repetition along the axis: what a repeated index leaves behind is not defined
    rows = np.stack([s.rng.permutation(shape[axis])[:count] for _ in range(lanes)]) if lanes else np.zeros((0, count))
    moved = [e for d, e in enumerate(picked) if d != axis]
    array = np.moveaxis(rows.reshape([*moved, count]), -1, axis).astype(np.int64)
    name = s.constant(array)
    attrs = {"axis": axis}
    if s.graph.opset >= 16 and s.chance(2):
        attrs["reduction"] = "add"
    s.node("ScatterElements", [x, name, s.like(s.real, picked)], [s.type(x)], **attrs)
    return True


def pad(s: State) -> bool:
    x = s.pick(low=1, high=4)
    shape = s.dims(x)
    mode = s.choose(["constant", "constant", "reflect", "edge"])
    begins, ends = [], []
    for extent in shape:
        most = 2 if mode != "reflect" else min(2, extent - 1)
        begins.append(s.below(most + 1))
        ends.append(s.below(most + 1))
        if mode == "constant" and extent > 2 and s.chance(5):
            begins[-1] = -1
    to = [b + e + extent for b, e, extent in zip(begins, ends, shape)]
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    inputs = [x, s.ints(begins + ends)]
    if mode == "constant" and s.chance(2):
        inputs.append(s.constant(np.asarray(s.choose([0, 1.5, -2]), s.type(x)[0])))
    s.node("Pad", inputs, [(s.type(x)[0], to)], mode=mode)
    return True


def triangle(s: State) -> bool:
    if s.graph.opset < 14:
        return False
    x = s.pick(low=2, high=4)
    inputs = [x] if s.chance(2) else [x, s.constant(np.asarray(s.below(3) - 1, np.int64))]
    s.node("Trilu", inputs, [s.type(x)], upper=s.below(2))
    return True


def depth(s: State) -> bool:
    x = s.pick(low=4, high=4, fits=lambda shape: len(shape) == 4 and shape[1] % 4 == 0)
    if x is None:
        n, h, w = 1 + s.below(2), s.extent(), s.extent()
        x = s.input(s.real, (n, 4 * (1 + s.below(2)), h, w))
    n, c, h, w = s.dims(x)
    s.node("DepthToSpace", [x], [(s.type(x)[0], (n, c // 4, 2 * h, 2 * w))], blocksize=2, mode=s.choose(["DCR", "CRD"]))
    return True


def space(s: State) -> bool:
    x = s.pick(low=4, high=4, fits=lambda shape: len(shape) == 4 and shape[2] % 2 == 0 and shape[3] % 2 == 0)
    if x is None:
        return False
    n, c, h, w = s.dims(x)
    s.node("SpaceToDepth", [x], [(s.type(x)[0], (n, 4 * c, h // 2, w // 2))], blocksize=2)
    return True


def cumulate(s: State) -> bool:
    x = s.pick(low=1, high=4)
    axis = s.below(len(s.dims(x)))
    s.same("CumSum", x, s.constant(np.asarray(axis, np.int64)), exclusive=s.below(2), reverse=s.below(2))
    return True


def one_hot(s: State) -> bool:
    shape = s.shape(1, 2)
    depth = 2 + s.below(4)
    axis = s.below(len(shape) + 1)
    to = list(shape[:axis]) + [depth] + list(shape[axis:])
    s.node("OneHot", [indices(s, shape, depth), s.constant(np.asarray(depth, np.int64)),
                      s.constant(np.asarray([0.5, 2], s.real))], [(s.real, to)], axis=axis if axis < len(shape) else -1)
    return True


def alias(s: State) -> bool:
    """Two names for a constant or an input; weights that are used twice."""
    found = [name for name in (*s.graph.constants, *s.graph.inputs) if s.type(name)[0] == s.real and s.dims(name)]
    if not found:
        return False
    s.same("Identity", s.choose(found))
    return True


def constant_of_shape(s: State) -> bool:
    x = s.pick(high=3)
    taken = s.node("Shape", [x], [(np.int64, (len(s.dims(x)),))])[0]
    made = s.name("v")
    s.graph.types[made] = s.type(x)
    value = np.asarray([s.choose([0, 1, 2.5])], s.real)
    s.graph.nodes.append(Node("ConstantOfShape", [taken], [made], {"value": value}))
    s.same("Add", x, made)
    return True


DRAWERS = [(reshape, 4, True), (reshape_by_shape, 1, True), (flatten, 2, True), (squeeze, 3, True), (unsqueeze, 3, True),
           (transpose, 4, True), (cut, 6, True), (split, 3, True), (concat, 4, True), (expand, 2, True), (tile, 1, True),
           (gather, 3, True), (gather_elements, 1, True), (scatter_elements, 1, True), (pad, 2, True), (triangle, 1, True),
           (depth, 1, True), (space, 1, True), (cumulate, 1, True), (one_hot, 1, False), (alias, 1, True),
           (constant_of_shape, 1, True)]
