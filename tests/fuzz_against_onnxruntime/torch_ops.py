"""ONNX nodes in PyTorch, by ONNX's definitions: what gradients are judged by. A row takes the node, its operands (tensors,
or None where one is absent) and answers the outputs. Shapes, axes and indices are read from their values."""

import math

import numpy as np
import torch
import torch.nn.functional as F

ROWS = {}


def row(*names):
    def enter(function):
        for name in names:
            ROWS[name] = function
        return function
    return enter


def ints(tensor) -> list[int]:
    return [int(v) for v in tensor.flatten().tolist()]


def real(node, name: str, default: float) -> float:
    """A default is a float as what a file says is."""
    return node.attrs.get(name, float(np.float32(default)))


UNARY = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "Exp": torch.exp, "Neg": torch.neg,
    "Abs": torch.abs, "Sin": torch.sin, "Cos": torch.cos, "Softplus": F.softplus, "Softsign": F.softsign,
    "HardSwish": F.hardswish, "Mish": F.mish, "Identity": lambda x: x, "Log": torch.log, "Sqrt": torch.sqrt,
    "Reciprocal": torch.reciprocal, "Atan": torch.atan, "Asinh": torch.asinh,
}


@row(*UNARY)
def unary(node, x):
    return UNARY[node.op](x)


@row("HardSigmoid")
def hard_sigmoid(node, x):
    return torch.clamp(real(node, "alpha", 0.2) * x + real(node, "beta", 0.5), 0, 1)


@row("LeakyRelu")
def leaky(node, x):
    return F.leaky_relu(x, real(node, "alpha", 0.01))


@row("Elu")
def elu(node, x):
    return F.elu(x, real(node, "alpha", 1.0))


@row("Selu")
def selu(node, x):
    """PyTorch's own has its two numbers in double."""
    return real(node, "gamma", 1.0507009873554805) * F.elu(x, real(node, "alpha", 1.6732632423543772))


@row("Celu")
def celu(node, x):
    return F.celu(x, real(node, "alpha", 1.0))


@row("ThresholdedRelu")
def thresholded(node, x):
    return F.threshold(x, real(node, "alpha", 1.0), 0.0)


@row("Gelu")
def gelu(node, x):
    return F.gelu(x, approximate=node.attrs.get("approximate", "none"))


@row("PRelu")
def prelu(node, x, slope):
    return torch.where(x > 0, x, slope * x)  # the slope counts at 0, as in PyTorch


BINARY = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow}


@row(*BINARY)
def binary(node, a, b):
    return BINARY[node.op](a, b)


@row("Max", "Min")
def extreme(node, first, *more):
    for other in more:
        first = (torch.maximum if node.op == "Max" else torch.minimum)(first, other)
    return first


@row("Sum", "Mean")
def total(node, *operands):
    joined = operands[0]
    for other in operands[1:]:
        joined = joined + other
    return joined / len(operands) if node.op == "Mean" else joined


@row("Clip")
def clip(node, x, low=None, high=None):
    if low is None and high is None:
        return x
    return torch.clamp(x, low, high)


@row("Where")
def where(node, condition, a, b):
    return torch.where(condition, a, b)


# ---- movement

@row("Reshape")
def reshape(node, x, shape):
    asked = ints(shape)
    return x.reshape([x.shape[d] if e == 0 else e for d, e in enumerate(asked)])


@row("Flatten")
def flatten(node, x):
    axis = node.attrs["axis"] % (x.dim() + 1) if node.attrs["axis"] < 0 else node.attrs["axis"]
    axis = node.attrs["axis"] + x.dim() if node.attrs["axis"] < 0 else axis
    rows = 1
    for extent in x.shape[:axis]:
        rows *= extent
    return x.reshape(rows, -1)


@row("Squeeze")
def squeeze(node, x, axes=None):
    return x.squeeze() if axes is None else x.squeeze(ints(axes))


@row("Unsqueeze")
def unsqueeze(node, x, axes):
    for axis in sorted(axis % (x.dim() + axes.numel()) for axis in ints(axes)):
        x = x.unsqueeze(axis)
    return x


@row("Transpose")
def transpose(node, x):
    return x.permute(node.attrs.get("perm", list(range(x.dim()))[::-1]))


@row("Slice")
def cut(node, x, starts, ends, axes=None, steps=None):
    for i, axis in enumerate(ints(axes) if axes is not None else range(starts.numel())):
        step = ints(steps)[i] if steps is not None else 1
        places = range(x.shape[axis])[slice(*bounds(ints(starts)[i], ints(ends)[i], step, x.shape[axis]))]
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))
    return x


def bounds(start, end, step, extent):
    """Python's slice of an ONNX one: an end before the first element is None when stepping backwards."""
    return start, None if step < 0 and end < -extent else end, step


@row("Split")
def split(node, x, sizes):
    return torch.split(x, ints(sizes), node.attrs["axis"])


@row("Concat")
def concat(node, *parts):
    return torch.cat(parts, node.attrs["axis"])


@row("Expand")
def expand(node, x, shape):
    return x.broadcast_to(torch.broadcast_shapes(tuple(x.shape), tuple(ints(shape))))


@row("Tile")
def tile(node, x, repeats):
    return x.repeat(ints(repeats))


@row("Gather")
def gather(node, x, index):
    axis = node.attrs["axis"]
    flat = (index % x.shape[axis]).flatten()
    axis = axis % x.dim()
    return x.index_select(axis, flat).reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1:]])


@row("GatherElements")
def gather_elements(node, x, index):
    return torch.gather(x, node.attrs["axis"], index % x.shape[node.attrs["axis"]])


@row("ScatterElements")
def scatter_elements(node, x, index, updates):
    axis = node.attrs["axis"]
    adds = node.attrs.get("reduction", "none") == "add"
    return (torch.scatter_add if adds else torch.scatter)(x, axis, index % x.shape[axis], updates)


@row("Pad")
def pad(node, x, pads, value=None):
    sizes, mode = ints(pads), node.attrs.get("mode", "constant")
    for axis in range(x.dim()):
        begin, end = sizes[axis], sizes[axis + x.dim()]
        extent = x.shape[axis]
        places = torch.arange(-begin, extent + end)
        if mode == "reflect":
            period = max(1, 2 * (extent - 1))
            places = places.abs() % period
            places = torch.where(places >= extent, period - places, places)
        if mode == "wrap":
            places = places % extent
        outside = (places < 0) | (places >= extent)
        x = x.index_select(axis, places.clamp(0, extent - 1))
        if mode == "constant":
            shape = [-1 if d == axis else 1 for d in range(x.dim())]
            x = torch.where(outside.reshape(shape), torch.tensor(0.0 if value is None else float(value.detach()), dtype=x.dtype), x)
    return x


@row("Trilu")
def triangle(node, x, k=None):
    return (torch.triu if node.attrs.get("upper", 1) else torch.tril)(x, 0 if k is None else int(k))


@row("DepthToSpace")
def depth(node, x):
    n, c, h, w = x.shape
    if node.attrs.get("mode", "DCR") == "DCR":
        return x.reshape(n, 2, 2, c // 4, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)
    return x.reshape(n, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)


@row("SpaceToDepth")
def space(node, x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


@row("CumSum")
def cumulate(node, x, axis):
    axis = int(axis)
    flip = bool(node.attrs.get("reverse", 0))
    x = x.flip(axis) if flip else x
    y = torch.cumsum(x, axis)
    if node.attrs.get("exclusive", 0):
        y = y - x
    return y.flip(axis) if flip else y


@row("Shape")
def shape_of(node, x):
    return torch.tensor(x.shape, dtype=torch.int64)


@row("ConstantOfShape")
def constant_of_shape(node, shape):
    return torch.full(ints(shape), node.attrs["value"].item(), dtype=torch.float64)


# ---- products, windows, norms

@row("MatMul")
def matmul(node, a, b):
    return a @ b


@row("Gemm")
def gemm(node, a, b, c=None):
    a = a.T if node.attrs.get("transA") else a
    b = b.T if node.attrs.get("transB") else b
    y = real(node, "alpha", 1.0) * (a @ b)
    return y if c is None else y + real(node, "beta", 1.0) * c


def padded(x, pads, value=0.0):
    spatial = len(pads) // 2
    flat = [p for d in reversed(range(spatial)) for p in (pads[d], pads[d + spatial])]
    return F.pad(x, flat, value=value)


@row("Conv")
def conv(node, x, w, b=None):
    a, spatial = node.attrs, x.dim() - 2
    function = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    return function(padded(x, a["pads"]), w, b, a["strides"], 0, a["dilations"], a["group"])


@row("ConvTranspose")
def conv_transpose(node, x, w, b=None):
    a, spatial = node.attrs, x.dim() - 2
    function = (F.conv_transpose1d, F.conv_transpose2d)[spatial - 1]
    y = function(x, w, b, a["strides"], 0, a.get("output_padding", 0), a["group"])
    for d in range(spatial):
        y = y.narrow(d + 2, a["pads"][d], y.shape[d + 2] - a["pads"][d] - a["pads"][d + spatial])
    return y


@row("MaxPool")
def max_pool(node, x):
    a, spatial = node.attrs, x.dim() - 2
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[spatial - 1]
    return function(padded(x, a["pads"], -torch.inf), a["kernel_shape"], a["strides"])


@row("AveragePool")
def average_pool(node, x):
    a, spatial = node.attrs, x.dim() - 2
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[spatial - 1]
    sums = function(padded(x, a["pads"]), a["kernel_shape"], a["strides"])
    if a["count_include_pad"]:
        return sums
    return sums / function(padded(torch.ones_like(x), a["pads"]), a["kernel_shape"], a["strides"])


@row("LpPool")
def norm_pool(node, x):
    a, spatial, p = node.attrs, x.dim() - 2, node.attrs["p"]
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[spatial - 1]
    volume = 1
    for taps in a["kernel_shape"]:
        volume *= taps
    return (function(padded(x.abs() ** p, a["pads"]), a["kernel_shape"], a["strides"]) * volume) ** (1 / p)


@row("GridSample")
def grid_sample(node, x, grid):
    a = node.attrs
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(a["mode"], a["mode"])
    return F.grid_sample(x, grid, mode, a["padding_mode"], bool(a["align_corners"]))


@row("Resize")
def resize(node, x, roi=None, scales=None, sizes=None):
    """Along each axis a matrix, written out from ONNX's definition."""
    a = node.attrs
    for i, axis in enumerate(a.get("axes", range(x.dim()))):
        extent = x.shape[axis]
        scale = float(scales[i].detach()) if scales is not None else int(sizes[i]) / extent
        to = int(scale * extent) if scales is not None else int(sizes[i])
        if scale != 1 or to != extent:
            matrix = torch.tensor(resize_matrix(a, extent, to, scale), dtype=x.dtype)
            x = torch.tensordot(x, matrix, ([axis], [1])).movedim(-1, axis)
    return x


def resize_matrix(a, extent, to, scale):
    rows = []
    for position in range(to):
        place = resize_place(a["coordinate_transformation_mode"], position, extent, to, scale)
        row = [0.0] * extent
        if a["mode"] == "nearest":
            row[nearest_place(a["nearest_mode"], place, extent)] = 1.0
            rows.append(row)
            continue
        wide = max(1.0, 1 / scale) if a.get("antialias") else 1.0
        taps = [(i, filter_weight(a, (i - place) / wide)) for i in range(math.floor(place - 2 * wide), math.ceil(place + 2 * wide) + 1)]
        if a.get("exclude_outside"):
            taps = [(i, w) for i, w in taps if 0 <= i < extent]
        total = sum(w for _, w in taps)
        for i, w in taps:
            row[min(max(i, 0), extent - 1)] += w / total
        rows.append(row)
    return rows


def resize_place(mode, position, extent, to, scale):
    if mode == "asymmetric":
        return position / scale
    if mode == "align_corners":
        return 0.0 if to == 1 else position * (extent - 1) / (to - 1)
    if mode == "pytorch_half_pixel" and to == 1:
        return 0.0
    shift = extent / 2 * (1 - to / (scale * extent)) if mode == "half_pixel_symmetric" else 0.0
    return shift + (position + 0.5) / scale - 0.5


def nearest_place(mode, place, extent):
    if mode == "floor":
        found = math.floor(place)
    elif mode == "ceil":
        found = math.ceil(place)
    else:
        below = math.floor(place)
        beyond = place - below > 0.5 or (mode == "round_prefer_ceil" and place - below == 0.5)
        found = below + beyond
    return min(max(found, 0), extent - 1)


def filter_weight(a, away):
    away = abs(away)
    if a["mode"] == "linear":
        return max(0.0, 1 - away)
    k = a.get("cubic_coeff_a", -0.75)
    if away < 1:
        return ((k + 2) * away - (k + 3)) * away * away + 1
    return ((away - 5) * away + 8) * away * k - 4 * k if away < 2 else 0.0


@row("GlobalAveragePool")
def global_average(node, x):
    return x.mean(list(range(2, x.dim())), keepdim=True)


@row("GlobalMaxPool")
def global_max(node, x):
    return x.amax(list(range(2, x.dim())), keepdim=True)


def normalized(x, dims, epsilon):
    """By the definition: the gradient of PyTorch's own is wrong where what comes back is a view that lies otherwise."""
    centred = x - x.mean(dims, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(dims, keepdim=True) + epsilon)


def by_channel(x, scale, bias):
    shape = [1, -1] + [1] * (x.dim() - 2)
    return x * scale.reshape(shape) + bias.reshape(shape)


@row("BatchNormalization")
def batch_norm(node, x, scale, bias, mean, variance):
    """Training form: statistics of the batch, to which running ones are moved (the variance without bias)."""
    others, moved = [d for d in range(x.dim()) if d != 1], 1 - real(node, "momentum", 0.9)
    with torch.no_grad():
        mean += moved * (x.mean(others) - mean)
        variance += moved * (x.var(others) - variance)
    return by_channel(normalized(x, others, real(node, "epsilon", 1e-5)), scale, bias)


@row("LayerNormalization")
def layer_norm(node, x, scale, bias=None):
    y = normalized(x, list(range(node.attrs["axis"] % x.dim(), x.dim())), node.attrs["epsilon"]) * scale
    return y if bias is None else y + bias


@row("InstanceNormalization")
def instance_norm(node, x, scale, bias):
    return by_channel(normalized(x, list(range(2, x.dim())), node.attrs["epsilon"]), scale, bias)


@row("GroupNormalization")
def group_norm(node, x, scale, bias):
    parted = x.reshape(x.shape[0], node.attrs["num_groups"], -1)
    return by_channel(normalized(parted, [2], node.attrs["epsilon"]).reshape(x.shape), scale, bias)


@row("Softmax", "LogSoftmax")
def softmax(node, x):
    return (F.softmax if node.op == "Softmax" else F.log_softmax)(x, node.attrs["axis"])


@row("LRN")
def local_norm(node, x):
    a = node.attrs
    return F.local_response_norm(x, a["size"], a["alpha"], a["beta"], a["bias"])


@row("LpNormalization")
def lp_norm(node, x):
    return x / x.norm(node.attrs["p"], node.attrs["axis"], keepdim=True)


# ---- reductions

def log_sum_exp(x, axes, keep):
    return torch.logsumexp(x, axes, keep)


def product(x, axes, keep):
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


REDUCTIONS = {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keep), "ReduceMean": lambda x, axes, keep: x.mean(axes, keep),
    "ReduceMax": lambda x, axes, keep: x.amax(axes, keep), "ReduceMin": lambda x, axes, keep: x.amin(axes, keep),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keep), "ReduceL2": lambda x, axes, keep: x.square().sum(axes, keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axes, keep), "ReduceLogSumExp": log_sum_exp, "ReduceProd": product,
}


@row(*REDUCTIONS)
def reduce(node, x, axes=None):
    named = ints(axes) if axes is not None else node.attrs.get("axes", list(range(x.dim())))
    return REDUCTIONS[node.op](x, named, bool(node.attrs.get("keepdims", 1)))


@row("TopK")
def top_k(node, x, k):
    """Of equal elements the first; PyTorch's own takes any."""
    axis = node.attrs["axis"]
    values, places = torch.sort(x, dim=axis, descending=bool(node.attrs["largest"]), stable=True)
    return values.narrow(axis, 0, int(k)), places.narrow(axis, 0, int(k))


@row("Einsum")
def einsum(node, *operands):
    return torch.einsum(node.attrs["equation"], *operands)


@row("GatherND")
def gather_nd(node, x, index):
    batch = node.attrs.get("batch_dims", 0)
    flat = index.reshape([-1, *index.shape[batch:]]) if batch else index.unsqueeze(0)
    rows = x.reshape([-1, *x.shape[batch:]]) if batch else x.unsqueeze(0)
    made = torch.stack([row_[places(one, row_)] for row_, one in zip(rows, flat)])
    return made.reshape([*x.shape[:batch], *made.shape[1:]])


def places(index, x):
    """The tuples in the last dim of an index, one tensor for each dimension."""
    return tuple(index[..., d] % x.shape[d] for d in range(index.shape[-1]))


@row("ScatterND")
def scatter_nd(node, x, index, updates):
    return x.index_put(places(index, x), updates, accumulate=node.attrs.get("reduction", "none") == "add")


@row("ReverseSequence")
def reverse_sequence(node, x, lengths):
    time = node.attrs["time_axis"]
    x = x if time == 0 else x.transpose(0, 1)
    made = [torch.cat([x[:n, b].flip(0), x[n:, b]]) for b, n in enumerate(ints(lengths))]
    made = torch.stack(made, 1)
    return made if time == 0 else made.transpose(0, 1)


@row("EyeLike")
def eye_like(node, x):
    k = node.attrs.get("k", 0)
    return torch.ones_like(x).triu(k).tril(k).detach()


ACTIVATIONS = {"Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Relu": torch.relu}
CELLS = {"LSTM": (4, ["Sigmoid", "Tanh", "Tanh"]), "GRU": (3, ["Sigmoid", "Tanh"]), "RNN": (1, ["Tanh"])}


@row("LSTM", "GRU", "RNN")
def recurrent(node, x, w, r, b=None, lengths=None, h0=None, c0=None, peepholes=None):
    """Y, Y_h and Y_c, gate by gate, without PyTorch's own modules, whose gates stand in another order."""
    hidden, ways, zero = node.attrs["hidden_size"], w.shape[0], x.new_zeros(x.shape[1], node.attrs["hidden_size"])
    gates, names = CELLS[node.op]
    names = node.attrs.get("activations", names * ways)
    outs, states, cells = [], [], []
    for way in range(ways):
        acts = [ACTIVATIONS[name] for name in names[way * len(names) // ways:]]
        wb, rb = (b[way, :gates * hidden], b[way, gates * hidden:]) if b is not None else (x.new_zeros(gates * hidden),) * 2
        h, c = zero if h0 is None else h0[way], zero if c0 is None else c0[way]
        peep = peepholes[way].chunk(3) if peepholes is not None else (x.new_zeros(hidden),) * 3
        made = [None] * x.shape[0]
        steps = range(x.shape[0])
        for t in reversed(steps) if node.attrs["direction"] == "reverse" or way == 1 else steps:
            live = torch.ones(x.shape[1], 1, dtype=torch.bool) if lengths is None else (t < lengths).unsqueeze(1)
            fed = x[t] @ w[way].T + wb
            if node.op == "LSTM":
                new, cell = lstm_step(fed, h, c, r[way], rb, peep, acts)
                c = torch.where(live, cell, c)
            elif node.op == "GRU":
                new = gru_step(fed, h, r[way], rb, acts, node.attrs.get("linear_before_reset", 0))
            else:
                new = acts[0](fed + h @ r[way].T + rb)
            made[t] = torch.where(live, new, torch.zeros_like(new))
            h = torch.where(live, new, h)
        outs.append(torch.stack(made))
        states.append(h)
        cells.append(c)
    return torch.stack(outs, 1), torch.stack(states), torch.stack(cells)


def lstm_step(fed, h, c, r, rb, peep, acts):
    i, o, f, g = (fed + h @ r.T + rb).chunk(4, -1)
    i, f = acts[0](i + peep[0] * c), acts[0](f + peep[2] * c)
    c = f * c + i * acts[1](g)
    return acts[0](o + peep[1] * c) * acts[2](c), c


def gru_step(fed, h, r, rb, acts, linear_before_reset):
    (xz, xr, xh), (rz, rr, rh), (bz, br, bh) = fed.chunk(3, -1), r.chunk(3, 0), rb.chunk(3, -1)
    z, reset = acts[0](xz + h @ rz.T + bz), acts[0](xr + h @ rr.T + br)
    inner = reset * (h @ rh.T + bh) if linear_before_reset else (reset * h) @ rh.T + bh
    return (1 - z) * acts[1](xh + inner) + z * h
