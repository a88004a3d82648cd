"""Drawers of products, windows, normalisations and reductions."""

import numpy as np

from draw import MOST_ELEMENTS, State, broadcast


def matmul(s: State) -> bool:
    a = s.pick(low=1, high=4)
    shape = s.dims(a)
    inner, cols = shape[-1], s.extent()
    found = s.values(lambda d, o: d == s.real and len(o) >= 2 and o[-2] == inner
                     and broadcast(shape[:-2], o[:-2]) is not None)
    if found and s.chance(2):
        b = s.choose(found)
    else:
        b = s.weight((inner, cols)) if s.chance(2) else s.input(s.real, (*shape[:-2][:s.below(2)], inner, cols)
                                                                if len(shape) < 4 else (inner, cols))
    other = s.dims(b)
    batch = broadcast(shape[:-2], other[:-2])
    if batch is None:
        return False
    to = (*batch, *shape[-2:-1], other[-1])
    if np.prod(to, dtype=np.int64) > MOST_ELEMENTS:
        return False
    y = s.node("MatMul", [a, b], [(s.real, to)])[0]
    if s.chance(3):
        s.node("Add", [y, s.weight((to[-1],))], [(s.real, to)])
    return True


def transposed_product(s: State) -> bool:
    """A b^T, the transposition written out: doors fold it."""
    a = s.pick(low=2, high=4)
    shape = s.dims(a)
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    b = s.like(s.real, shape)
    turned = s.node("Transpose", [b], [(s.real, [shape[p] for p in perm])], perm=perm)[0]
    s.node("MatMul", [a, turned], [(s.real, (*shape[:-1], shape[-2]))])
    return True


def gemm(s: State) -> bool:
    a = s.pick(low=2, high=2)
    trans_a, trans_b = s.below(2), s.below(2)
    rows, inner = s.dims(a)[::-1] if trans_a else s.dims(a)
    cols = s.extent()
    b = s.weight((cols, inner) if trans_b else (inner, cols))
    attrs = {"transA": trans_a, "transB": trans_b}
    if s.chance(4):
        attrs["alpha"] = 0.5
    inputs = [a, b]
    if s.chance(2):
        inputs.append(s.weight(s.choose([(cols,), (1, cols), (rows, cols), (rows, 1)])))
        if s.chance(4):
            attrs["beta"] = 2.0
    s.node("Gemm", inputs, [(s.real, (rows, cols))], **attrs)
    return True


def images(s: State, spatial: int | None = None) -> str:
    spatial = spatial or s.choose([1, 2, 2, 2, 3])
    rank = 2 + spatial
    found = s.values(lambda d, shape: d == s.real and len(shape) == rank)
    if found and not s.chance(4):
        return s.choose(found)
    extents = [s.choose([1, 2, 3, 5, 6, 7, 8] if spatial < 3 else [1, 2, 3, 4]) for _ in range(spatial)]
    return s.input(s.real, (s.choose([1, 2, 3]), s.choose([1, 2, 3, 4, 8]), *extents))


def window(s: State, extents, dilated=True):
    """Kernel, strides, dilations and pads that leave at least one position."""
    spatial = len(extents)
    kernel = [s.choose([1, 2, 3, 3]) for _ in range(spatial)]
    strides = [s.choose([1, 1, 2, 3]) for _ in range(spatial)]
    dilations = [s.choose([1, 1, 1, 2]) if dilated else 1 for _ in range(spatial)]
    pads = [s.below(min(2, (k - 1) * d + 1)) for k, d in zip(kernel, dilations)] + [
        s.below(min(2, (k - 1) * d + 1)) for k, d in zip(kernel, dilations)]
    to = []
    for d, extent in enumerate(extents):
        room = extent + pads[d] + pads[d + spatial] - (dilations[d] * (kernel[d] - 1) + 1)
        if room < 0:
            return None
        to.append(room // strides[d] + 1)
    return kernel, strides, dilations, pads, to


def conv(s: State) -> bool:
    x = images(s)
    n, c, *extents = s.dims(x)
    drawn = window(s, extents)
    if drawn is None:
        return False
    kernel, strides, dilations, pads, to = drawn
    group = s.choose([g for g in (1, 1, 2, c) if c % g == 0])
    features = group * s.choose([1, 2, 3, 8 // group or 1])
    if n * features * np.prod(to) > MOST_ELEMENTS:
        return False
    w = s.weight((features, c // group, *kernel))
    inputs = [x, w, s.weight((features,))] if s.chance(2) else [x, w]
    s.node("Conv", inputs, [(s.real, (n, features, *to))], kernel_shape=kernel, strides=strides, dilations=dilations,
           pads=pads, group=group)
    return True


def conv_transpose(s: State) -> bool:
    x = images(s, s.choose([1, 2, 2]))
    n, c, *extents = s.dims(x)
    spatial = len(extents)
    kernel = [s.choose([1, 2, 3]) for _ in range(spatial)]
    strides = [s.choose([1, 2]) for _ in range(spatial)]
    more = [s.below(stride) for stride in strides]
    pads = [s.below(min(2, k)) for k in kernel] * 2
    to = [(e - 1) * t - 2 * p + k + o for e, t, p, k, o in zip(extents, strides, pads, kernel, more)]
    group = s.choose([g for g in (1, 1, 2) if c % g == 0])
    features = s.choose([1, 2, 3])
    if min(to) < 1 or n * group * features * np.prod(to) > MOST_ELEMENTS:
        return False
    w = s.weight((c, features, *kernel))
    inputs = [x, w, s.weight((group * features,))] if s.chance(2) else [x, w]
    attrs = {"output_padding": more} if any(more) else {}
    s.node("ConvTranspose", inputs, [(s.real, (n, group * features, *to))], kernel_shape=kernel, strides=strides, pads=pads,
           group=group, **attrs)
    return True


def pool(s: State) -> bool:
    x = images(s)
    n, c, *extents = s.dims(x)
    drawn = window(s, extents, dilated=False)
    if drawn is None:
        return False
    kernel, strides, _, pads, to = drawn
    if s.chance(2):
        s.node("MaxPool", [x], [(s.real, (n, c, *to))], kernel_shape=kernel, strides=strides, pads=pads)
    else:
        s.node("AveragePool", [x], [(s.real, (n, c, *to))], kernel_shape=kernel, strides=strides, pads=pads,
               count_include_pad=s.below(2))
    return True


def whole_pool(s: State) -> bool:
    x = images(s)
    n, c, *extents = s.dims(x)
    s.node(s.choose(["GlobalAveragePool", "GlobalMaxPool"]), [x], [(s.real, (n, c, *[1] * len(extents)))])
    return True


def batch_norm(s: State) -> bool:
    x = images(s)
    n, c, *extents = s.dims(x)
    if s.differentiable and n * np.prod(extents) < 4:
        return False
    statistics = [s.constant(s.rng.uniform(-0.5, 0.5, c).astype(s.real)), s.constant(s.rng.uniform(0.5, 1.5, c).astype(s.real))]
    s.same("BatchNormalization", x, s.weight((c,)), s.weight((c,)), *statistics)
    return True


def layer_norm(s: State) -> bool:
    x = s.pick(low=1, high=4, fits=lambda shape: len(shape) > 0 and shape[-1] > 1)
    if x is None:
        return False
    shape = s.dims(x)
    axis = s.below(len(shape))
    inputs = [x, s.weight(shape[axis:])]
    if s.chance(2):
        inputs.append(s.weight(shape[axis:]))
    s.node("LayerNormalization", inputs, [(s.real, shape)], axis=axis - len(shape), epsilon=1e-2)
    return True


def group_norm(s: State) -> bool:
    x = images(s)
    n, c, *extents = s.dims(x)
    if np.prod(extents) < 2:
        return False
    if s.graph.opset >= 21 and s.chance(2):
        groups = s.choose([g for g in (1, 2, c) if c % g == 0])
        in_double = {"stash_type": 11} if s.real == np.float64 else {}
        s.same("GroupNormalization", x, s.weight((c,)), s.weight((c,)), num_groups=groups, epsilon=1e-2, **in_double)
    else:
        s.same("InstanceNormalization", x, s.weight((c,)), s.weight((c,)), epsilon=1e-2)
    return True


def softmax(s: State) -> bool:
    x = s.pick(low=1, high=4)
    axis = s.below(len(s.dims(x)))
    s.same(s.choose(["Softmax", "Softmax", "LogSoftmax"]), x, axis=axis - len(s.dims(x)) if s.chance(2) else axis)
    return True


def local_norm(s: State) -> bool:
    x = images(s, 2)
    s.same("LRN", x, size=s.choose([1, 3, 5]), alpha=0.1, beta=0.75, bias=1.0)
    return True


def lp_norm(s: State) -> bool:
    x = s.pick(low=1, high=4)
    lifted = s.node("Add", [s.same("Abs", x), s.constant(np.asarray(0.5, s.real))], [s.type(x)])[0]
    s.same("LpNormalization", lifted, axis=s.below(len(s.dims(x))), p=1 + s.below(2))
    return True


def reduce(s: State) -> bool:
    integer = not s.differentiable and s.chance(6)
    x = s.pick(np.int64 if integer else None, low=1)
    shape = s.dims(x)
    if integer and np.abs(s.graph.constants.get(x, np.zeros(1)).astype(np.float64)).max() > 2**53:
        return False  # ONNX Runtime sums these in double
    ops = ["ReduceSum", "ReduceMax", "ReduceMin"] if integer else [
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp",
        "ReduceProd"]
    op = s.choose(ops)
    if op in ("ReduceL2",) and s.differentiable:
        x = s.node("Add", [s.same("Abs", x), s.constant(np.asarray(0.5, s.real))], [s.type(x)])[0]
    axes = sorted(int(a) for a in s.rng.choice(len(shape), 1 + s.below(len(shape)), replace=False))
    keep = s.below(2)
    to = [1 if d in axes else e for d, e in enumerate(shape) if keep or d not in axes]
    named = [a - len(shape) if s.chance(3) else a for a in axes]
    if s.chance(6):
        to, named = ([1] * len(shape) if keep else []), None
    as_input = s.graph.opset >= 18 or op == "ReduceSum"
    if named is None:
        s.node(op, [x], [(s.type(x)[0], to)], keepdims=keep)
    elif as_input:
        s.node(op, [x, s.ints(named)], [(s.type(x)[0], to)], keepdims=keep)
    else:
        s.node(op, [x], [(s.type(x)[0], to)], keepdims=keep, axes=named)
    return True


def arg_max(s: State) -> bool:
    x = s.pick(low=1, high=4)
    shape = s.dims(x)
    axis, keep = s.below(len(shape)), s.below(2)
    to = [1 if d == axis else e for d, e in enumerate(shape) if keep or d != axis]
    s.node(s.choose(["ArgMax", "ArgMin"]), [x], [(np.int64, to)], axis=axis, keepdims=keep, select_last_index=s.below(2))
    return True


def top_k(s: State) -> bool:
    x = s.pick(low=1, high=4)
    shape = list(s.dims(x))
    axis = s.below(len(shape))
    k = 1 + s.below(shape[axis])
    to = [k if d == axis else e for d, e in enumerate(shape)]
    s.node("TopK", [x, s.ints([k])], [(s.real, to), (np.int64, to)], axis=axis, largest=s.below(2), sorted=1)
    return True


def einsum(s: State) -> bool:
    a = s.pick(low=2, high=3)
    shape = s.dims(a)
    cols = s.extent()
    if len(shape) == 2:
        b, equation, to = s.weight((cols, shape[1])), s.choose(["ij,kj->ik", "ij,kj->ki"]), None
        to = (shape[0], cols) if equation.endswith("ik") else (cols, shape[0])
    else:
        b, equation, to = s.like(s.real, (shape[0], cols, shape[2])), "bij,bkj->bik", (shape[0], shape[1], cols)
    s.node("Einsum", [a, b], [(s.real, to)], equation=equation)
    return True


def recurrent(s: State) -> bool:
    op = s.choose(["LSTM", "GRU"])
    gates = 4 if op == "LSTM" else 3
    length, batch, size, hidden = 1 + s.below(4), 1 + s.below(3), s.extent(), 1 + s.below(4)
    found = s.values(lambda d, shape: d == s.real and len(shape) == 3)
    x = s.choose(found) if found and s.chance(2) else s.input(s.real, (length, batch, size))
    length, batch, size = s.dims(x)
    ways = s.choose([1, 1, 2])
    inputs = [x, s.weight((ways, gates * hidden, size)), s.weight((ways, gates * hidden, hidden))]
    if s.chance(2):
        inputs.append(s.weight((ways, 2 * gates * hidden)))
    attrs = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else s.choose(["forward", "reverse"])}
    if op == "GRU":
        attrs["linear_before_reset"] = s.below(2)
    outputs = [(s.real, (length, ways, batch, hidden))]
    if s.chance(2):
        outputs.append((s.real, (ways, batch, hidden)))
    s.node(op, inputs, outputs, **attrs)
    return True


DRAWERS = [(matmul, 4, True), (transposed_product, 2, True), (gemm, 2, True), (conv, 5, True), (conv_transpose, 2, True),
           (pool, 3, True), (whole_pool, 1, True), (batch_norm, 2, True), (layer_norm, 2, True), (group_norm, 2, True),
           (softmax, 2, True), (local_norm, 1, True), (lp_norm, 1, True), (reduce, 4, True),
           (arg_max, 1, False), (top_k, 1, True), (einsum, 1, True), (recurrent, 1, True)]
