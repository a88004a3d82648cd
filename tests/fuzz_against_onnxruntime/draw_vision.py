"""Drawers of ops that read images on another grid: Resize, Pad with the image's own elements, GridSample, pooling in all its
forms, and what turns images by blocks.

Where ONNX Runtime departs from ONNX the drawers stay away: it leaves a dimension alone whose extent stays, even where a
region of interest or a scale says otherwise, and rounds nearest places beside half in float.
"""

import numpy as np

from draw import MOST_ELEMENTS, State
from draw_network import images

COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


def fits(shape) -> bool:
    return min(shape) > 0 and np.prod(shape, dtype=np.int64) <= MOST_ELEMENTS


def beside_a_tie(mode: str, extent: int, scale: float, to: int) -> bool:
    """Whether a place lies where the last bit of its computing decides which pixel is nearest. Scales of few bits are exact."""
    at = np.arange(to)
    places = {
        "asymmetric": at / scale,
        "align_corners": at * (extent - 1) / max(to - 1, 1),
        "half_pixel_symmetric": extent / 2 * (1 - to / (scale * extent)) + (at + 0.5) / scale - 0.5,
    }.get(mode, (at + 0.5) / scale - 0.5)
    exact = mode != "half_pixel_symmetric" and (mode != "align_corners" or (to - 1) in (0, 1, 2, 4, 8)) and scale * 4 == int(scale * 4)
    return not exact and bool(np.any(np.abs(2 * places - np.round(2 * places)) < 1e-5))


def resize(s: State) -> bool:
    """By sizes or scales, of all dims or (since opset 18) of some axes."""
    x = images(s, s.choose([1, 2, 2, 3]))
    shape = s.dims(x)
    mode = s.choose(["nearest", "linear", "cubic"]) if len(shape) == 4 else s.choose(["nearest", "linear"])
    attrs = {"mode": mode, "coordinate_transformation_mode": s.choose(
        COORDINATES + (["half_pixel_symmetric"] if s.graph.opset >= 19 else []))}
    if mode == "nearest":
        attrs["nearest_mode"] = s.choose(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if mode == "cubic":
        attrs["cubic_coeff_a"] = s.choose([-0.5, -0.75])
    if s.graph.opset >= 18 and mode != "nearest" and len(shape) == 4 and s.chance(3):
        attrs["antialias"] = 1
    if (mode == "cubic" or "antialias" in attrs) and s.chance(2):
        attrs["exclude_outside"] = 1
    axes = list(range(len(shape)))
    if s.graph.opset >= 18 and s.chance(2):
        axes = attrs["axes"] = axes[2:]
    scales = np.ones(len(axes), np.float32)
    to = list(shape)
    for i, axis in enumerate(axes):
        if axis >= 2:
            scales[i] = s.choose([0.5, 0.75, 1.5, 2, 2, 3])
            to[axis] = int(scales[i] * np.float32(shape[axis]))
    if not fits(to):
        return False
    if s.chance(2):
        inputs = [x, "", s.constant(scales)]
    else:
        to = [to[d] if d < 2 or not s.chance(3) else s.extent() for d in range(len(shape))]
        if not fits(to):
            return False
        scales = np.array([to[axis] / shape[axis] for axis in axes])
        inputs = [x, "", "", s.ints([to[axis] for axis in axes])]
    if mode == "nearest" and any(beside_a_tie(attrs["coordinate_transformation_mode"], shape[axis], float(scales[i]), to[axis])
                                 for i, axis in enumerate(axes)):
        return False
    s.node("Resize", inputs, [(s.real, to)], **attrs)
    return True


def pad_repeat(s: State) -> bool:
    x = s.pick(low=1, high=4)
    shape = s.dims(x)
    mode = s.choose(["reflect", "edge"] + (["wrap"] if s.graph.opset >= 19 else []))
    pads = []
    for _ in range(2):
        for extent in shape:
            pads.append(s.below(1 + min(3, {"reflect": extent - 1, "edge": 3, "wrap": extent}[mode])))
    to = [pads[d] + extent + pads[d + len(shape)] for d, extent in enumerate(shape)]
    if not fits(to):
        return False
    s.node("Pad", [x, s.ints(pads)], [(s.type(x)[0], to)], mode=mode)
    return True


def grid_sample(s: State) -> bool:
    if s.graph.opset < 16:
        return False
    spatial = 2 if s.graph.opset < 20 or s.chance(2) else 3
    x = images(s, spatial)
    n, c = s.dims(x)[:2]
    points = [1 + s.below(3) for _ in range(spatial)]
    mode = s.choose(["linear", "nearest"] + (["cubic"] if spatial == 2 else []))
    if s.graph.opset < 20:
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    grid_dims = (n, *points, spatial)
    # Places beside the whole and the half pixels, where a rounding decides.
    places = s.rng.uniform(-1.5, 1.5, grid_dims).astype(s.real)
    found = s.values(lambda d, shape: d == s.real and shape == grid_dims)
    if found and s.chance(2) and not s.exact:
        grid = s.choose(found)
    elif s.chance(2):
        grid = s.constant(places)
    else:
        grid = s.input(s.real, grid_dims)
        s.graph.inputs[grid] = places
    s.node("GridSample", [x, grid], [(s.real, (n, c, *points))], mode=mode, align_corners=s.below(2),
           padding_mode=s.choose(["zeros", "border", "reflection"]))
    return True


def pooled_extents(extents, kernel, strides, dilations, pads, ceil):
    """None where a window does not fit."""
    spatial, to = len(extents), []
    for d, extent in enumerate(extents):
        room = extent + pads[d] + pads[d + spatial] - (dilations[d] * (kernel[d] - 1) + 1)
        if room < 0:
            return None
        count = (-(-room // strides[d]) if ceil else room // strides[d]) + 1
        if ceil and (count - 1) * strides[d] >= extent + pads[d]:
            count -= 1
        to.append(count)
    return to


def every_window_sees_data(extents, kernel, strides, dilations, pads, to) -> bool:
    return all(any(0 <= at * strides[d] - pads[d] + tap * dilations[d] < extent for tap in range(kernel[d]))
               for d, extent in enumerate(extents) for at in range(to[d]))


def pool(s: State) -> bool:
    """With dilations, a last window that hangs over, automatic pads, indices of maxima and Lp norms."""
    x = images(s)
    n, c, *extents = s.dims(x)
    spatial = len(extents)
    op = s.choose(["MaxPool", "AveragePool", "LpPool"])
    kernel = [s.choose([1, 2, 3]) for _ in range(spatial)]
    strides = [s.choose([1, 2, 3]) for _ in range(spatial)]
    late = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    new = s.graph.opset >= late and not s.differentiable
    dilations = [s.choose([1, 2]) if new else 1 for _ in range(spatial)]
    pads = [s.below(1 + (k - 1) * d // 2) for k, d in zip(kernel * 2, dilations * 2)]
    ceil = s.below(2) if new and s.graph.opset >= 22 else 0
    to = pooled_extents(extents, kernel, strides, dilations, pads, ceil)
    if to is None or not fits([n, c, *to]):
        return False
    if op == "MaxPool" and not every_window_sees_data(extents, kernel, strides, dilations, pads, to):
        return False  # the largest of nothing is minus infinity here, the lowest number in ONNX Runtime
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if any(d != 1 for d in dilations):
        attrs["dilations"] = dilations
    if ceil:
        attrs["ceil_mode"] = 1
    outputs = [(s.real, (n, c, *to))]
    if op == "AveragePool":
        attrs["count_include_pad"] = s.below(2)
    if op == "LpPool":
        x = s.node("Add", [s.same("Abs", x), s.constant(np.asarray(0.5, s.real))], [s.type(x)])[0]
        attrs["p"] = s.choose([1, 2, 3])
    if op == "MaxPool" and not s.differentiable and s.chance(3):
        outputs.append((np.int64, (n, c, *to)))
        if spatial > 1:
            attrs["storage_order"] = s.below(2)
    s.node(op, [x], outputs, **attrs)
    return True


def center(s: State) -> bool:
    if s.graph.opset < 18:
        return False
    x = s.pick(low=1, high=4)
    shape = list(s.dims(x))
    axes = sorted({s.below(len(shape)) for _ in range(2)})
    to = [s.extent() if d in axes else extent for d, extent in enumerate(shape)]
    if not fits(to):
        return False
    s.node("CenterCropPad", [x, s.ints([to[a] for a in axes])], [(s.type(x)[0], to)], axes=axes)
    return True


DRAWERS = [(resize, 3, True), (pad_repeat, 2, True), (grid_sample, 2, True), (pool, 3, True), (center, 1, False)]
