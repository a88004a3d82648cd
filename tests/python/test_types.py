"""Elementwise ops and casts in every element type beside ONNX Runtime's, by small models that are made here and run through
the C ABI; and the numerics that a shortcut would lose. Integers must be equal, exact float ops bit for bit."""

import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
onnxruntime = pytest.importorskip("onnxruntime")
library = pytest.importorskip("library")

FLOATS = [np.float32, np.float64, np.float16]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED
SPECIALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.0, -7.0, 1e4, -300.25]
onnxruntime.set_default_logger_severity(4)


@pytest.fixture(scope="module")
def lowtide():
    if library.find_library() is None:
        pytest.skip("there is no liblowtide.so; build first")
    return library.Library()


def model_of(op: str, inputs: dict[str, np.ndarray], attrs: dict, opset: int, constants: dict[str, np.ndarray],
             outputs=("y",), order=None):
    """One node; its inputs are all names in order of the alphabet, or `order`, where an empty name is an input left out."""
    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    names = order or sorted([*inputs, *constants])
    graph = helper.make_graph([helper.make_node(op, names, outputs, **attrs)], "made",
                              [info(name, array) for name, array in inputs.items()],
                              [onnx.ValueInfoProto(name=name) for name in outputs if name],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def theirs(data: bytes, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
    results = all_of_theirs(data, inputs)
    return None if results is None else results[0]


def all_of_theirs(data: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """None where ONNX Runtime has no kernel, or the type is not in ONNX."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # the binding raises many kinds
        assert "NOT_IMPLEMENTED" in str(problem) or "INVALID_GRAPH" in str(problem), problem
        return None
    return session.run(None, inputs)


def ours(lowtide, tmp_path, data: bytes, inputs: dict[str, np.ndarray]) -> np.ndarray:
    (result,) = all_of_ours(lowtide, tmp_path, data, inputs).values()
    return result


def all_of_ours(lowtide, tmp_path, data: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    path = tmp_path / "made.onnx"
    path.write_bytes(data)
    with library.Model(lowtide, str(path)) as model, library.Plan(model, threads=1, effort=0.02) as plan:
        plan.verify()
        with library.Session(plan, threads=1) as session:
            for name, array in inputs.items():
                session.set(name, array)
            session.run()
            return session.all(library.OUTPUTS)


def compare(lowtide, tmp_path, op, inputs, attrs=None, opset=21, constants=None, exact=True) -> bool:
    data = model_of(op, inputs, attrs or {}, opset, constants or {}).SerializeToString()
    expected = theirs(data, inputs)
    if expected is None:
        return False
    got = ours(lowtide, tmp_path, data, inputs)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if exact or got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected, err_msg=f"{op} {expected.dtype}")
    else:
        size = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-12, np.dtype(np.float16): 1e-3}[got.dtype]
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=size, atol=size,
                                   err_msg=f"{op} {expected.dtype}")
    return True


def numbers(dtype, rng, count=400) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        values = rng.uniform(-4, 4, count)
        values[: len(SPECIALS)] = SPECIALS
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    values = rng.integers(max(-9, limits.min), 10, count, dtype=dtype)
    values[:3] = limits.min, limits.max, limits.max - 1
    return values


def tame(dtype, rng, count=400) -> np.ndarray:
    return rng.uniform(0.1, 3, count).astype(dtype)


EXACT = ["Abs", "Neg", "Sign", "Relu", "Floor", "Ceil", "Round", "IsNaN"]
SMOOTH = ["Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Softplus", "HardSwish", "Mish",
          "HardSigmoid", "Elu", "Gelu", "Softsign", "LeakyRelu", "ThresholdedRelu", "Sinh", "Cosh", "Atan", "Asinh", "Tan"]
INVERSE = {"Asin": (-1, 1), "Acos": (-1, 1), "Atanh": (-0.99, 0.99), "Acosh": (1, 50)}


@pytest.mark.parametrize("op", EXACT)
def test_exact_unary_ops(op, lowtide, tmp_path):
    rng = np.random.default_rng(1)
    compared = 0
    for dtype in FLOATS + INTEGERS:
        x = numbers(dtype, rng)
        if op == "Sign" and dtype == np.float16:
            x = x[1:]  # ONNX Runtime's makes 0 of a NaN, of f16 alone
        compared += compare(lowtide, tmp_path, op, {"x": x})
    assert compared >= 2


@pytest.mark.parametrize("op", SMOOTH)
def test_smooth_ops(op, lowtide, tmp_path):
    rng = np.random.default_rng(2)
    compared = sum(compare(lowtide, tmp_path, op, {"x": tame(dtype, rng)}, opset=22, exact=False) for dtype in FLOATS)
    assert compared >= 1


@pytest.mark.parametrize("op", INVERSE)
def test_inverse_functions(op, lowtide, tmp_path):
    rng = np.random.default_rng(18)
    inputs = [{"x": np.append(rng.uniform(*INVERSE[op], 400), [*INVERSE[op], 99, -99, np.nan]).astype(dtype)} for dtype in FLOATS]
    assert sum(compare(lowtide, tmp_path, op, x, opset=22, exact=False) for x in inputs) >= 1


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater",
                                "GreaterOrEqual"])
def test_binary_ops(op, lowtide, tmp_path):
    rng = np.random.default_rng(3)
    compared = 0
    for dtype in FLOATS + INTEGERS:
        a, b = numbers(dtype, rng), rng.permutation(numbers(dtype, rng))
        if op == "Div" and np.dtype(dtype).kind in "iu":
            b = np.where((b == 0) | (b == -1) if np.dtype(dtype).kind == "i" else b == 0, 3, b).astype(dtype)
        compared += compare(lowtide, tmp_path, op, {"a": a, "b": b})
    assert compared >= 8


@pytest.mark.parametrize("fmod", [0, 1])
def test_mod(fmod, lowtide, tmp_path):
    rng = np.random.default_rng(4)
    compared = 0
    for dtype in INTEGERS + (FLOATS if fmod else []):
        a, b = numbers(dtype, rng), rng.permutation(numbers(dtype, rng))
        if np.dtype(dtype).kind != "f":
            b = np.where((b == 0) | (b.astype(np.float64) == -1), 3, b).astype(dtype)
            if fmod and np.dtype(dtype).itemsize == 8:
                a, b = a % 1000, np.where(b % 1000 == 0, 3, b % 1000).astype(dtype)  # ONNX Runtime's goes through f64
        compared += compare(lowtide, tmp_path, "Mod", {"a": a, "b": b}, {"fmod": fmod})
    assert compared >= 8


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
def test_bits(op, lowtide, tmp_path):
    rng = np.random.default_rng(16)
    function = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
                "BitwiseNot": np.invert}[op]
    compared = 0
    for dtype in INTEGERS:
        a, b = numbers(dtype, rng).reshape(20, 20), numbers(dtype, rng, 20).reshape(20, 1)
        inputs = {"a": a} if op == "BitwiseNot" else {"a": a, "b": b}
        compared += compare(lowtide, tmp_path, op, inputs)
        data = model_of(op, {}, {}, 21, inputs).SerializeToString()  # known when the model is read
        np.testing.assert_array_equal(ours(lowtide, tmp_path, data, {}), function(*inputs.values()))
    assert compared == 8


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(direction, lowtide, tmp_path):
    """By as many places as there are bits, or more, gives 0, as numpy and the specification's reference have it; ONNX
    Runtime's result is what C++ leaves open."""
    rng = np.random.default_rng(17)
    compared = 0
    for dtype in UNSIGNED:
        width = np.dtype(dtype).itemsize * 8
        a, b = numbers(dtype, rng), rng.integers(0, width, 400).astype(dtype)
        compared += compare(lowtide, tmp_path, "BitShift", {"a": a, "b": b}, {"direction": direction})
        b[:6] = width - 1, width, width + 1, 2 * width, np.iinfo(dtype).max, 0
        function = np.left_shift if direction == "LEFT" else np.right_shift
        for inputs in ({"a": a, "b": b}, {}):
            data = model_of("BitShift", inputs, {"direction": direction}, 21, {} if inputs else {"a": a, "b": b})
            np.testing.assert_array_equal(ours(lowtide, tmp_path, data.SerializeToString(), inputs), function(a, b))
    assert compared >= 3


def test_clip(lowtide, tmp_path):
    rng = np.random.default_rng(5)
    compared = 0
    for dtype in FLOATS + INTEGERS:
        x, low, high = numbers(dtype, rng), np.array(2, dtype), np.array(5, dtype)
        compared += compare(lowtide, tmp_path, "Clip", {"a": x}, constants={"lo": low, "up": high})
        compared += compare(lowtide, tmp_path, "Clip", {"a": x, "lo": low, "up": high})  # limits from data
    large = np.array([2**60 + 1, 2**60 + 7, -5], np.int64)
    assert compare(lowtide, tmp_path, "Clip", {"a": large},
                   constants={"lo": np.array(0, np.int64), "up": np.array(2**60 + 3, np.int64)})
    assert compared >= 12


def test_where(lowtide, tmp_path):
    rng = np.random.default_rng(6)
    condition = rng.random(400) < 0.5
    compared = sum(compare(lowtide, tmp_path, "Where", {"a": condition, "b": numbers(dtype, rng), "c": numbers(dtype, rng)})
                   for dtype in FLOATS + INTEGERS)
    assert compared >= 4


def test_powers_of_mixed_types(lowtide, tmp_path):
    bases = [2, 3, 0, 1, 4, 9, 2, 10]
    exponents = [3, 2, 0, 5, 0.5, 0.5, 0.5, 2]
    compared = 0
    for base in (np.int32, np.int64, np.float32, np.float64):
        for exponent in (np.int32, np.int64, np.float32, np.float64):
            inputs = {"a": np.array(bases, base), "b": np.array(exponents, exponent)}
            compared += compare(lowtide, tmp_path, "Pow", inputs, exact=False)
            for power in (2, 3, 0):
                compared += compare(lowtide, tmp_path, "Pow", {"a": np.array(bases, base)},
                                    constants={"b": np.array(power, exponent)}, exact=False)
    assert compared >= 48


CASTS = [300.7, -1.5, -129.9, 70000, -70000, 2147483648, 3e9, 1e19, -1e19, 9.3e18, 2e19, np.nan, np.inf, -np.inf, 0.0, -0.0,
         65504, 65519.9, 65520, 1e-7, 3e-8, 2.0**-24, 1.0009765625]


def test_casts_between_all_types(lowtide, tmp_path):
    compared = 0
    for source in FLOATS + INTEGERS + [np.bool_]:
        rng = np.random.default_rng(7)
        with np.errstate(all="ignore"):
            x = np.array(CASTS).astype(source) if np.dtype(source).kind == "f" else (
                numbers(source, rng) if source is not np.bool_ else rng.random(9) < 0.5)
        for target in FLOATS + INTEGERS + [np.bool_, ml_dtypes.bfloat16]:
            code = helper.np_dtype_to_tensor_dtype(np.dtype(target))
            fed = x
            if target is np.uint32 and fed.dtype.kind == "f":
                fed = fed[(fed >= 0) & (fed < 2.0**32)]  # ONNX Runtime's depends on the element's place
            if target is ml_dtypes.bfloat16:
                got = ours(lowtide, tmp_path, model_of("Cast", {"x": fed}, {"to": code}, 21, {}).SerializeToString(), {"x": fed})
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(got.astype(np.float32), fed.astype(np.float32).astype(target).astype(np.float32))
                continue
            compared += compare(lowtide, tmp_path, "Cast", {"x": fed}, {"to": code})
    assert compared == 144


def test_division_by_a_constant_stays_a_division(lowtide, tmp_path):
    rng = np.random.default_rng(8)
    for dtype, divisors in {np.float32: [41, 3, 1e-40, 7e30, 0.25], np.float64: [41, 49, 1e-310, 0.1], np.float16: [41, 3, 6e-8]}.items():
        for divisor in divisors:
            x = (rng.integers(-99, 99, 500) * float(divisor)).astype(dtype)
            assert compare(lowtide, tmp_path, "Div", {"a": x}, constants={"b": np.array(divisor, dtype)})


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_multiple_divided_by_its_constant_is_the_whole_number(dtype, lowtide, tmp_path):
    """Times the reciprocal 41 / 41 is a little below 1, and a denormal's reciprocal is no number."""
    times = np.arange(-20, 21)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    for divisor in (41, 49, 3, tiny, 7 * tiny):
        x = (times * float(divisor)).astype(dtype)  # exact: few digits
        nodes = [helper.make_node("Div", ["x", "c"], ["q"]), helper.make_node("Floor", ["q"], ["y"])]
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(nodes, "made", [helper.make_tensor_value_info("x", code, x.shape)],
                                  [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.array(divisor, dtype), "c")])
        data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
        np.testing.assert_array_equal(ours(lowtide, tmp_path, data, {"x": x}), times)


@pytest.mark.parametrize("dtype", [*FLOATS, ml_dtypes.bfloat16])
def test_the_sign_of_nan_is_nan(dtype, lowtide, tmp_path):
    x = np.array([np.nan, -np.nan, 0, -0.0, 3, -3, np.inf, -np.inf] * 9).astype(dtype)
    y = ours(lowtide, tmp_path, model_of("Sign", {"x": x}, {}, 21, {}).SerializeToString(), {"x": x})
    np.testing.assert_array_equal(y.astype(np.float64), np.sign(x.astype(np.float64)))


@pytest.mark.parametrize("op, attrs", [("LeakyRelu", {}), ("HardSigmoid", {}), ("Selu", {}), ("ThresholdedRelu", {}),
                                       ("LRN", {"size": 3})])
def test_an_attribute_left_out_is_its_default_as_a_float(op, attrs, lowtide, tmp_path):
    """In f64 0.01 is another number than the float 0.01 that a file holds when it says so."""
    x = np.random.default_rng(8).uniform(-4, 4, (2, 4, 3, 3))
    defaults = {name: attribute.default_value.f for name, attribute in onnx.defs.get_schema(op, 21).attributes.items()
                if attribute.default_value.type == onnx.AttributeProto.FLOAT}
    assert defaults
    said, left_out = (ours(lowtide, tmp_path, model_of(op, {"x": x}, given, 21, {}).SerializeToString(), {"x": x})
                      for given in (attrs | defaults, attrs))
    np.testing.assert_array_equal(left_out, said)
    assert not np.array_equal(left_out, x)


def test_a_product_with_a_constant_keeps_the_sign_of_zero(lowtide, tmp_path):
    x = np.array([-0.0, 0.0, -1.0, 1.0], np.float32)
    data = model_of("Mul", {"a": x}, {}, 21, {"b": np.array(3, np.float32)}).SerializeToString()
    np.testing.assert_array_equal(np.signbit(ours(lowtide, tmp_path, data, {"a": x})), np.signbit(x))


def test_log_sum_exp_does_not_overflow(lowtide, tmp_path):
    rng = np.random.default_rng(9)
    for dtype in (np.float32, np.float64):
        x = rng.uniform(-900, 900, (3, 7, 5)).astype(dtype)
        x[0, 0] = 1000, 1000, -np.inf, 3, np.inf
        x[1] = -np.inf
        for axes in ([0], [1], [2], [0, 2], [0, 1, 2]):
            assert compare(lowtide, tmp_path, "ReduceLogSumExp", {"a": x}, {"keepdims": 0},
                           constants={"b": np.array(axes, np.int64)}, exact=False)


# Op, attributes, opset, constants: nodes that are several ops, whose sums or squares f16 does not hold at magnitude 300
# (the means and sums: at 40000) though it holds the results.
SEVERAL_OPS = {
    "ReduceL2": (300, {}, 18, {"b": np.array([1])}), "ReduceSumSquare": (9, {}, 18, {"b": np.array([1])}),
    "ReduceLogSum": (9000, {}, 18, {"b": np.array([1])}), "ReduceLogSumExp": (300, {}, 18, {"b": np.array([1])}),
    "LpNormalization": (300, {"axis": 1}, 22, {}), "MeanVarianceNormalization": (300, {"axes": [0, 2]}, 13, {}),
    "LpPool": (300, {"kernel_shape": [8]}, 22, {}), "GlobalLpPool": (300, {}, 21, {}),
    "Celu": (40000, {"alpha": 0.25}, 12, {}),
    "Mean": (40000, {}, 13, {"b": None, "c": None}), "Sum": (40000, {}, 13, {"b": None, "c": None}),
}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", SEVERAL_OPS)
def test_nodes_of_several_ops_do_not_overflow_between_them(op, dtype, lowtide, tmp_path):
    """Beside ONNX Runtime's result in f32, rounded once."""
    size, attrs, opset, constants = SEVERAL_OPS[op]
    x = np.random.default_rng(21).uniform(0.5, 1, (2, 3, 40)) * size
    inputs = {"a": x.astype(dtype)} | {name: (x * sign).astype(dtype) for (name, value), sign in
                                       zip(constants.items(), (0.9, -1), strict=False) if value is None}
    constants = {name: value for name, value in constants.items() if value is not None}
    wide = {name: array.astype(np.float32) for name, array in inputs.items()}
    expected = theirs(model_of(op, wide, attrs, opset, constants).SerializeToString(), wide).astype(dtype).astype(np.float64)
    got = ours(lowtide, tmp_path, model_of(op, inputs, attrs, opset, constants).SerializeToString(), inputs)
    assert got.dtype == dtype and np.isfinite(expected).all() and expected.any()
    ulp = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=ulp, atol=ulp * np.abs(expected).max())


@pytest.mark.parametrize("with_c", [False, True])
def test_a_scaled_product_of_16_bits_does_not_overflow(with_c, lowtide, tmp_path):
    rng = np.random.default_rng(23)
    a, b, c = (rng.uniform(100, 300, shape).astype(np.float16) for shape in ((5, 40), (40, 3), (3,)))
    inputs = {"a": a, "b": b} | ({"c": c} if with_c else {})
    attrs = {"alpha": 1 / 64, "beta": 2.0}
    expected = a.astype(np.float64) @ b / 64 + (2 * c.astype(np.float64) if with_c else 0)
    assert 64 * expected.min() > np.finfo(np.float16).max > expected.max()
    got = ours(lowtide, tmp_path, model_of("Gemm", inputs, attrs, 13, {}).SerializeToString(), inputs)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_a_mean_loss_of_16_bits_does_not_overflow(op, weighted, lowtide, tmp_path):
    """9,000 rows that lose about 20 each; one class is ignored."""
    rng = np.random.default_rng(24)
    scores, labels = rng.uniform(-40, 0, (9000, 4)).astype(np.float16), rng.integers(0, 4, 9000)
    constants = {"c": np.array([0.5, 1, 2, 1], np.float16)} if weighted else {}
    x = scores.astype(np.float64)
    if op == "SoftmaxCrossEntropyLoss":
        x = x - np.log(np.exp(x).sum(1, keepdims=True))
    weights = (constants["c"].astype(np.float64) if weighted else np.ones(4)) * [1, 1, 1, 0]
    share = weights[labels]
    expected = -(share * x[np.arange(9000), labels]).sum() / share.sum()
    inputs = {"a": scores, "b": labels}
    got = ours(lowtide, tmp_path, model_of(op, inputs, {"ignore_index": 3}, 13, constants).SerializeToString(), inputs)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=2e-3)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("stored", [np.int16, np.uint16, np.int8, np.uint8])
def test_floats_of_16_bits_are_quantised_exactly(dtype, stored, lowtide, tmp_path):
    """By definition: the quotient in the scale's type or in that of `precision`, everything behind it exactly."""
    limits = np.iinfo(stored)
    x = np.append(np.random.default_rng(22).uniform(-300, 300, 300), [0, 1, -1, 30000, -30000, 60000, -60000]).astype(dtype)
    for scale in (1, 0.5, 0.01):
        for zero in {0, 3001 % limits.max, limits.max, limits.max - 1, limits.min}:
            constants = {"b": np.array(scale, dtype), "c": np.array(zero, stored)}
            for precision in (None, np.float32):
                attrs = {} if precision is None else {"precision": helper.np_dtype_to_tensor_dtype(np.dtype(precision))}
                divided = precision or dtype
                with np.errstate(over="ignore"):
                    ratio = (x.astype(divided) / constants["b"].astype(divided)).astype(np.float64)
                expected = np.clip(np.rint(ratio) + zero, limits.min, limits.max).astype(stored)
                data = model_of("QuantizeLinear", {"a": x}, attrs, 23, constants).SerializeToString()
                np.testing.assert_array_equal(ours(lowtide, tmp_path, data, {"a": x}), expected, err_msg=f"{scale} {zero}")


def test_zero_points_of_32_bits_are_exact(lowtide, tmp_path):
    x = np.array([2**30 + 1, 2**30 + 3, 2**30 - 5], np.int32)
    constants = {"b": np.array(0.5, np.float32), "c": np.array(2**30, np.int32)}
    data = model_of("DequantizeLinear", {"a": x}, {}, 21, constants).SerializeToString()
    np.testing.assert_array_equal(ours(lowtide, tmp_path, data, {"a": x}), [0.5, 1.5, -2.5])


@pytest.mark.parametrize("dtype", [*FLOATS, ml_dtypes.bfloat16])
def test_statistics_of_a_layer_normalization_have_the_type_of_stash_type(dtype, lowtide, tmp_path):
    rng = np.random.default_rng(23)
    x, scale = rng.uniform(99, 101, (3, 64)).astype(dtype), rng.uniform(1, 2, 64).astype(dtype)
    outputs = ("y", "mean", "scale_of_it")
    for attrs in ({}, {"stash_type": 1}):
        data = model_of("LayerNormalization", {"a": x}, attrs, 17, {"b": scale}, outputs).SerializeToString()
        got = all_of_ours(lowtide, tmp_path, data, {"a": x})
        assert [got[name].dtype for name in outputs] == [dtype, np.float32, np.float32]
        mean = x.astype(np.float64).mean(1, keepdims=True)
        np.testing.assert_allclose(got["mean"], mean, rtol=2e-7)
        np.testing.assert_allclose(got["scale_of_it"], (x.astype(np.float64).var(1, keepdims=True) + 1e-5)**-0.5, rtol=1e-4)
        if dtype == ml_dtypes.bfloat16:
            continue  # ONNX Runtime's binding has none
        for name, array in zip(outputs, all_of_theirs(data, {"a": x}), strict=True):
            assert got[name].dtype == array.dtype
            np.testing.assert_allclose(got[name].astype(np.float64), array.astype(np.float64), rtol=2e-3, atol=2e-3)


def test_integers_in_pads_keep_all_digits(lowtide, tmp_path):
    x = np.array([2**62 + 1, -3], np.int64)
    assert compare(lowtide, tmp_path, "Pad", {"a": x}, constants={"b": np.array([1, 2], np.int64),
                                                                  "c": np.array(2**60 + 1, np.int64)})


@pytest.mark.parametrize("code", [TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.STRING, TensorProto.COMPLEX64])
def test_other_types_are_refused_by_name(code, lowtide, tmp_path):
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "made",
                              [helper.make_tensor_value_info("x", code, [2])], [onnx.ValueInfoProto(name="y")])
    path = tmp_path / "other.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString())
    with pytest.raises(library.Failure) as refused:
        library.Model(lowtide, str(path))
    assert refused.value.status == library.INPUT
    assert TensorProto.DataType.Name(code) in refused.value.message
