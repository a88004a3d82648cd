"""Ops that few models have beside ONNX Runtime's, or numpy's where it has no kernel, by small models that are made here."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from test_types import all_of_ours, all_of_theirs, library, lowtide, model_of, ours, theirs  # noqa: F401: lowtide is a fixture

RNG = np.random.default_rng(19)


def compare(lowtide, tmp_path, op, inputs, attrs, opset, constants, expected=None):  # noqa: F811
    """Beside `expected`, or ONNX Runtime's, which has to know the op."""
    data = model_of(op, inputs, attrs, opset, constants).SerializeToString()
    expected = theirs(data, inputs) if expected is None else expected
    got = ours(lowtide, tmp_path, data, inputs)
    assert expected is not None and got.dtype == expected.dtype and got.shape == expected.shape
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, expected)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("image, block, attrs", [
    ([4, 4], [2, 2], {"strides": [2, 2]}),
    ([5, 6], [3, 2], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ([7, 9], [2, 3], {"dilations": [2, 3], "pads": [1, 2, 1, 2], "strides": [1, 3]}),
    ([3, 4, 5], [1, 2, 5], {"pads": [0, 0, 3, 0, 1, 3], "strides": [1, 1, 2]}),
])
def test_col2im(image, block, attrs, lowtide, tmp_path):  # noqa: F811
    rank = len(image)
    strides, dilations = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    pads = attrs.get("pads", [0] * 2 * rank)
    places = [(image[d] + pads[d] + pads[d + rank] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(rank)]
    x = normal(2, 3 * int(np.prod(block)), int(np.prod(places)))
    shapes = {"s": np.array(image, np.int64), "t": np.array(block, np.int64)}
    compare(lowtide, tmp_path, "Col2Im", {"a": x}, attrs, 18, shapes)


@pytest.mark.parametrize("image, kernel, group, groups, attrs", [
    ((7, 6), (3, 3), 1, 1, {"pads": [1, 1, 1, 1]}),
    ((9, 8), (3, 2), 2, 2, {"pads": [0, 1, 2, 0], "strides": [2, 1], "dilations": [1, 2]}),
    ((5, 5), (1, 1), 4, 1, {}),
])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_deformable_convolution(image, kernel, group, groups, attrs, dtype, lowtide, tmp_path):  # noqa: F811
    """Offsets leave the image; 16 bits beside ONNX Runtime's result in f32."""
    pads, strides, dilations = (attrs.get(name, [default] * size) for name, default, size in
                                (("pads", 0, 4), ("strides", 1, 2), ("dilations", 1, 2)))
    out = [(image[d] + pads[d] + pads[d + 2] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
    taps = kernel[0] * kernel[1]
    inputs = {"a": normal(2, 4, *image), "c": normal(2, groups * taps * 2, *out) * 3, "e": normal(2, groups * taps, *out)}
    weights = {"b": normal(8, 4 // group, *kernel), "d": normal(8)}
    inputs, weights = ({name: array.astype(dtype) for name, array in given.items()} for given in (inputs, weights))
    data = model_of("DeformConv", inputs, {**attrs, "group": group, "offset_group": groups}, 19, weights)
    wide = {name: array.astype(np.float32) if dtype == np.float16 else array for name, array in {**inputs, **weights}.items()}
    single = model_of("DeformConv", wide, {**attrs, "group": group, "offset_group": groups}, 19, {})
    expected = theirs(single.SerializeToString(), wide)
    got = ours(lowtide, tmp_path, data.SerializeToString(), inputs)
    tolerance = 3e-2 if dtype == np.float16 else 2e-5
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def test_max_unpool(lowtide, tmp_path):  # noqa: F811
    attrs = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
    places = np.sort(RNG.choice(5 * 8, 12, replace=False)).reshape(1, 1, 3, 4)
    places = np.concatenate([places + 40 * plane for plane in range(4)]).reshape(2, 2, 3, 4)
    compare(lowtide, tmp_path, "MaxUnpool", {"a": normal(2, 2, 3, 4), "b": places.astype(np.int64)}, attrs, 11, {})
    compare(lowtide, tmp_path, "MaxUnpool", {"a": normal(2, 2, 3, 4), "b": places.astype(np.int64)}, attrs, 11,
            {"c": np.array([2, 2, 5, 8], np.int64)})
    data = model_of("MaxUnpool", {"a": normal(2, 2, 3, 4), "b": places}, attrs, 11, {"c": np.array([2, 2, 6, 8])})
    with pytest.raises(library.Failure, match=r"an output_shape of \[2, 2, 6, 8\] where the window makes \[2, 2, 5, 8\]"):
        ours(lowtide, tmp_path, data.SerializeToString(), {})


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("cache, axis, length", [((2, 6, 3), 1, 2), ((2, 4, 5, 3), -2, 1), ((3, 2, 5, 3), 2, 5)])
def test_tensor_scatter(mode, cache, axis, length, lowtide, tmp_path):  # noqa: F811
    update = list(cache)
    update[axis] = length
    inputs = {"a": normal(*cache), "b": normal(*update)}
    compare(lowtide, tmp_path, "TensorScatter", inputs, {"axis": axis, "mode": mode}, 24, {})
    most = 9 if mode == "circular" else cache[axis] - length
    inputs["c"] = RNG.integers(0, most + 1, cache[0]).astype(np.int64)
    compare(lowtide, tmp_path, "TensorScatter", inputs, {"axis": axis, "mode": mode}, 24, {})


@pytest.mark.parametrize("axis, condition", [(0, [1, 0]), (1, [0, 1, 1]), (-1, [1, 1, 0, 0, 1]), (None, [1, 0, 0, 1, 1, 0, 1])])
def test_compress(axis, condition, lowtide, tmp_path):  # noqa: F811
    attrs = {} if axis is None else {"axis": axis}
    for dtype in (np.float32, np.int64, np.uint8):
        x = RNG.integers(0, 99, (2, 3, 5)).astype(dtype)
        compare(lowtide, tmp_path, "Compress", {"a": x}, attrs, 11, {"b": np.array(condition, bool)})


def test_non_zero_of_what_is_known(lowtide, tmp_path):  # noqa: F811
    for x in (RNG.integers(0, 2, (3, 4)).astype(np.int32), RNG.random((2, 2, 3)) < 0.5):
        compare(lowtide, tmp_path, "NonZero", {}, {}, 13, {"a": x})


def test_bits_of_another_type(lowtide, tmp_path):  # noqa: F811
    pairs = [(np.float32, np.int32), (np.float64, np.uint64), (np.float16, np.uint16), (np.uint8, np.int8), (np.int64, np.float64)]
    for source, target in pairs:
        x = (RNG.standard_normal((3, 5)) * 40).astype(source)
        code = helper.np_dtype_to_tensor_dtype(np.dtype(target))
        compare(lowtide, tmp_path, "BitCast", {"a": x}, {"to": code}, 26, {}, x.view(target))
        compare(lowtide, tmp_path, "BitCast", {}, {"to": code}, 26, {"a": x}, x.view(target))


def test_places_of_the_largest_of_u64(lowtide, tmp_path):  # noqa: F811
    x = RNG.integers(0, 2**64, (4, 9), np.uint64)
    for op, reduce in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        compare(lowtide, tmp_path, op, {"a": x}, {"axis": 1, "keepdims": 0}, 13, {}, reduce(x, 1))


ALLOWED = RNG.random((2, 1, 4, 5)) < 0.6
ALLOWED[0, 0, 1] = ALLOWED[1] = False  # a query that may read nothing, and a sequence of nothing but padding
ALLOWED[0, 0, 0, 0] = True
ADDED = np.where(ALLOWED, RNG.standard_normal(ALLOWED.shape), -np.inf).astype(np.float32)
MASKS = {"bool": ALLOWED, "added": ADDED, "of queries": ALLOWED[0, 0], "short": ADDED[..., :3], "short bool": ALLOWED[..., :3]}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("attrs", [{}, {"is_causal": 1}, {"qk_matmul_output_mode": 2}, {"qk_matmul_output_mode": 3}])
def test_attention_of_a_query_that_may_read_nothing_is_0(kind, attrs, lowtide, tmp_path):  # noqa: F811
    """ONNX Runtime reads no mask that ends before the last key, so it gets the missing places; and its scores hold the
    smallest float for what is forbidden."""
    mask = MASKS[kind]
    missing = np.full((*mask.shape[:-1], 5 - mask.shape[-1]), False if mask.dtype == bool else -np.inf, mask.dtype)
    inputs = {"a": normal(2, 2, 4, 6), "b": normal(2, 2, 5, 6), "c": normal(2, 2, 5, 6)}
    outputs = ("y", "", "", "scores") if "qk_matmul_output_mode" in attrs else ("y",)
    given, whole = (inputs | {"d": array} for array in (mask, np.concatenate([mask, missing], -1)))
    expected = all_of_theirs(model_of("Attention", whole, attrs, 24, {}, outputs).SerializeToString(), whole)
    got = all_of_ours(lowtide, tmp_path, model_of("Attention", given, attrs, 24, {}, outputs).SerializeToString(), given)
    assert not expected[0][0, :, 1].any()
    least = np.finfo(np.float32).min
    for name, array in zip(filter(None, outputs), expected, strict=True):
        np.testing.assert_allclose(np.maximum(got[name], least), np.maximum(array, least), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask", [None, np.array([[True, False], [False, True]]), np.array([[0, 1], [-np.inf, 2]], np.float32)])
@pytest.mark.parametrize("heads", [None, 2])
def test_attention_to_a_sequence_of_no_length_is_0(mask, heads, lowtide, tmp_path):  # noqa: F811
    """Together with each of the other masks; heads apart and in the last dim."""
    inputs = {name: normal(*((2, 1, 2, 4) if heads is None else (2, 2, 4))) for name in "abc"} | {"g": np.array([0, 2])}
    inputs |= {} if mask is None else {"d": mask}
    given = {} if heads is None else {"q_num_heads": heads, "kv_num_heads": heads}
    for attrs in (given, given | {"is_causal": 1}):
        order = ["a", "b", "c", "" if mask is None else "d", "", "", "g"]
        data = model_of("Attention", inputs, attrs, 24, {}, order=order).SerializeToString()
        got, expected = ours(lowtide, tmp_path, data, inputs), theirs(data, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        assert not got[0].any()


def test_attention_scales_before_the_product(lowtide, tmp_path):  # noqa: F811
    """64 products of 60 and 60 are more than f16 holds; an eighth of them is not."""
    inputs = {"a": np.full((1, 1, 2, 64), 60, np.float16)}
    data = model_of("Attention", inputs, {}, 23, {}, order=["a", "a", "a"]).SerializeToString()
    np.testing.assert_array_equal(ours(lowtide, tmp_path, data, inputs), inputs["a"])


def with_parameters(data, parameters):
    """The model with its first inputs as parameters, marked as PyTorch's exporter does."""
    model = onnx.load_from_string(data)
    infos = [info for info in model.graph.input if info.name in parameters]
    for info in infos:
        model.graph.input.remove(info)
        info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value="PARAMETER")
    model.graph.value_info.extend(infos)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in parameters.items())
    return model.SerializeToString()


@pytest.mark.parametrize("kind", ["bool", "added", "trained"])
@pytest.mark.parametrize("causal", [0, 1])
def test_nothing_flows_back_from_a_query_that_may_read_nothing(kind, causal, lowtide, tmp_path):  # noqa: F811
    torch = pytest.importorskip("torch")
    mask = ALLOWED if kind == "bool" else ADDED
    arrays = {"a": normal(2, 2, 4, 6), "b": normal(2, 2, 5, 6), "c": normal(2, 2, 5, 6), "d": mask}
    fed = {} if kind == "trained" else {"d": mask}
    parameters = {name: array for name, array in arrays.items() if name not in fed}
    path = tmp_path / "trained.onnx"
    path.write_bytes(with_parameters(model_of("Attention", arrays, {"is_causal": causal}, 24, {}).SerializeToString(), parameters))
    tensors = {name: torch.tensor(array.astype(np.float64) if array.dtype != bool else array, requires_grad=name in parameters)
               for name, array in arrays.items()}
    added = torch.where(tensors["d"], 0.0, -np.inf) if kind == "bool" else tensors["d"]
    if causal:
        added = added + torch.full((4, 5), -np.inf, dtype=torch.float64).triu(1)
    blind = (added == -np.inf).all(-1, keepdim=True)
    scores = tensors["a"] @ tensors["b"].mT / 6**0.5 + torch.where(blind, 0.0, added)
    result = torch.where(blind, 0.0, scores.softmax(-1) @ tensors["c"])
    target = RNG.standard_normal(tuple(result.shape)).astype(np.float32)
    torch.nn.functional.mse_loss(result, torch.tensor(target).double()).backward()
    options = dict(train=True, loss="mse", optimizer="sgd", learning_rate=1.0, momentum=0.0, weight_decay=0.0)
    with library.Model(lowtide, str(path), training=True) as model, \
            library.Plan(model, threads=1, effort=0.02, **options) as plan:
        plan.verify()
        with library.Session(plan, threads=1) as session:
            for name, array in (fed | {"target": target}).items():
                session.set(name, array)
            session.run()
            after = session.all(library.PARAMETERS)
    for name, array in parameters.items():
        known = np.isfinite(array)
        np.testing.assert_allclose((array - after[name])[known], tensors[name].grad.numpy()[known], rtol=1e-4, atol=1e-6,
                                   err_msg=name)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("shape", [(4,), (1,), (), (2, 3)])
def test_one_scale_in_a_vector_is_for_all(shape, dtype, lowtide, tmp_path):  # noqa: F811
    """As static quantizers write the scale of a bias, whatever the default axis means for its rank."""
    x = np.asarray(RNG.integers(0, 100, shape), dtype)
    scale, zero = np.array([0.5], np.float32), np.array([0 if dtype == np.int32 else 7], dtype)
    compare(lowtide, tmp_path, "DequantizeLinear", {"a": x}, {}, 13, {"b": scale, "c": zero})
    if dtype != np.int32:
        compare(lowtide, tmp_path, "QuantizeLinear", {"a": np.asarray(normal(*shape))}, {}, 13, {"b": scale, "c": zero})


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel, stride, attrs", [
    (2, 3, {}), (3, 2, {}), (1, 4, {}), (4, 2, {}), (2, 2, {"dilations": [2, 2]}), (2, 3, {"output_padding": [1, 1]}),
    (2, 4, {"output_padding": [2, 2]}), (3, 2, {"output_padding": [1, 1]}),
])
def test_transposed_convolution_of_the_same_size(kernel, stride, attrs, mode, lowtide, tmp_path):  # noqa: F811
    """Also where windows do not touch: there is nothing to cut off then, and the last one ends the result."""
    attrs = {"strides": [stride] * 2, "auto_pad": mode, **attrs}
    compare(lowtide, tmp_path, "ConvTranspose", {"a": normal(1, 2, 5, 5)}, attrs, 17, {"b": normal(2, 3, kernel, kernel)})


@pytest.mark.parametrize("op, shapes, attrs", [
    ("BatchNormalization", [(3,), (3,), (3,), (3,)], {}),
    ("LayerNormalization", [(4,), (4,)], {}),
    ("LayerNormalization", [(3, 4), (3, 4)], {"axis": 1}),
])
def test_half_precision_data_with_single_precision_weights(op, shapes, attrs, lowtide, tmp_path):  # noqa: F811
    """As exporters write a model that ran under autocast; it computes in f32."""
    x = normal(2, 3, 4)
    weights = {name: np.abs(normal(*shape)) for name, shape in zip("bcde", shapes)}
    data = model_of(op, {"a": x.astype(np.float16)}, attrs, 17, weights).SerializeToString()
    wide = model_of(op, {"a": x}, attrs, 17, weights).SerializeToString()
    got = ours(lowtide, tmp_path, data, {"a": x.astype(np.float16)})
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float32), theirs(wide, {"a": x.astype(np.float16).astype(np.float32)}), rtol=1e-3,
                               atol=1e-3)


@pytest.mark.parametrize("scale, bias", [((4,), (4,)), ((3, 4), (4,)), ((1, 4), (3, 1))])
def test_layer_normalization_with_weights_that_broadcast(scale, bias, lowtide, tmp_path):  # noqa: F811
    weights = {"b": normal(*scale), "c": normal(*bias)}
    compare(lowtide, tmp_path, "LayerNormalization", {"a": normal(2, 3, 4)}, {"axis": 1}, 17, weights)


@pytest.mark.parametrize("op, kernel, attrs", [
    ("Conv", (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("ConvTranspose", (3, 4, 2, 2), {"strides": [2, 2]}),
])
def test_a_batch_of_nothing(op, kernel, attrs, lowtide, tmp_path):  # noqa: F811
    compare(lowtide, tmp_path, op, {"a": normal(0, 3, 5, 5)}, attrs, 17, {"b": normal(*kernel)})


def test_the_first_output_left_out(lowtide, tmp_path):  # noqa: F811
    """ONNX Runtime wants it there, so the judge computes both."""
    x, k = normal(4, 6), {"b": np.array([2])}
    data = model_of("TopK", {"a": x}, {}, 11, k, outputs=("", "i")).SerializeToString()
    both = all_of_theirs(model_of("TopK", {"a": x}, {}, 11, k, outputs=("y", "i")).SerializeToString(), {"a": x})
    got = all_of_ours(lowtide, tmp_path, data, {"a": x})
    assert list(got) == ["i"]
    np.testing.assert_array_equal(got["i"], both[1])
