"""Small graphs as exporters of opsets 7 to 12 write them, and such as only whole files have (initializers among the inputs,
limits that are computed, steps that fall, every element type), beside ONNX Runtime."""

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(11)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
IMAGE = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
CHANNELS = [RNG.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4)]
TYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64,
         np.bool_)

# (opset, op, [fed or "name" of a constant], constants, attributes, outputs)
CASES = [
    *[(11, op, [X], [], {"axis": axis}, 1) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (0, 1, 2, -1, -2)],
    *[(opset, op, [X], [], {}, 1) for op in ("Softmax", "LogSoftmax", "Hardmax") for opset in (7, 11, 12, 13)],
    (7, "Clip", [X], [], {"min": -0.5, "max": 0.25}, 1),
    (10, "Clip", [X], [], {"max": 0.25}, 1),
    (10, "Clip", [X], [], {}, 1),
    (11, "Clip", [X], [np.float32(-0.5), np.float32(0.25)], {}, 1),
    (13, "Clip", [X, np.float32(-0.5), np.float32(0.25)], [], {}, 1),
    (13, "Clip", [X, np.float32(-0.5)], [], {}, 1),
    (10, "Pad", [X], [], {"pads": [1, 0, 2, 0, 3, 1], "value": 1.5}, 1),
    (10, "Pad", [IMAGE], [], {"pads": [0, 0, 2, 1, 0, 0, 1, 3], "mode": "reflect"}, 1),
    (10, "Pad", [IMAGE], [], {"pads": [0, 0, 2, 1, 0, 0, 1, 3], "mode": "edge"}, 1),
    (9, "Slice", [X], [], {"starts": [0, -3], "ends": [9, -1], "axes": [0, 2]}, 1),
    (9, "Slice", [X], [], {"starts": [1], "ends": [2]}, 1),
    (10, "Slice", [X], [np.array([3, 0]), np.array([0, 2]), np.array([2, 1]), np.array([-2, 1])], {}, 1),
    (13, "Slice", [X], [np.array([-1, -1]), np.array([-9, -9]), np.array([0, 2]), np.array([-1, -1])], {}, 1),
    (13, "Slice", [X], [np.array([9]), np.array([-(2**63)]), np.array([1]), np.array([-2])], {}, 1),
    (13, "Slice", [X], [np.array([0]), np.array([3]), np.array([1]), np.array([-1])], {}, 1),
    (7, "Upsample", [IMAGE], [], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}, 1),
    (9, "Upsample", [IMAGE], [np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}, 1),
    (9, "Upsample", [IMAGE], [np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, 1),
    (10, "Resize", [IMAGE], [np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}, 1),
    (11, "Squeeze", [X[:, :1]], [], {"axes": [-2]}, 1),
    (11, "Squeeze", [X[:, :1]], [], {}, 1),
    (11, "Unsqueeze", [X], [], {"axes": [0, -1]}, 1),
    (11, "ReduceSum", [X], [], {"axes": [-1], "keepdims": 0}, 1),
    (11, "ReduceSum", [X], [], {}, 1),
    *[(17, op, [np.abs(X) + 0.5], [], {"axes": [0, -1], "keepdims": 0}, 1)
      for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
                 "ReduceLogSumExp")],
    (11, "Split", [X], [], {"axis": 2, "split": [1, 3]}, 2),
    (11, "Split", [X], [], {"axis": -1}, 2),
    (7, "Dropout", [X], [], {"ratio": 0.3}, 1),
    (10, "Dropout", [X], [], {"ratio": 0.3}, 2),
    (12, "Dropout", [X], [np.float32(0.3)], {}, 2),
    *[(opset, "BatchNormalization", [IMAGE], CHANNELS, {"epsilon": 1e-3}, 1) for opset in (7, 9, 14, 15)],
    (10, "ThresholdedRelu", [X], [], {"alpha": 0.3}, 1),
    (7, "Selu", [X], [], {}, 1),
    (7, "Selu", [X], [], {"alpha": 1.2, "gamma": 0.5}, 1),
    (12, "Celu", [X], [], {}, 1),
    (12, "Celu", [X], [], {"alpha": 2.0}, 1),
    (9, "PRelu", [X], [np.array([0.1, -0.2, 0.3], np.float32).reshape(3, 1)], {}, 1),
    (9, "PRelu", [X, X], [], {}, 1),
    (9, "Shrink", [X], [], {"lambd": 0.4, "bias": 0.1}, 1),
    (7, "Tan", [X], [], {}, 1),
    *[(10, "IsInf", [np.array([np.inf, -np.inf, 1, np.nan], np.float32)], [], {"detect_positive": p, "detect_negative": n}, 1)
      for p in (0, 1) for n in (0, 1)],
    *[(17, op, [], [np.int64(7)], {"periodic": periodic}, 1)
      for op in ("HannWindow", "HammingWindow", "BlackmanWindow") for periodic in (0, 1)],
    (9, "TopK", [X], [], {"axis": -1, "k": 2}, 2),
    (10, "TopK", [X], [np.array([2])], {"axis": 1}, 2),
    (9, "OneHot", [np.array([[1, -1], [3, 0]])], [np.int64(4), np.array([0, 1], np.float32)], {"axis": 1}, 1),
    (9, "Scatter", [X], [np.array([[[1, 0, 2, 0]]]), np.ones((1, 1, 4), np.float32)], {"axis": 1}, 1),
    (9, "Gemm", [X[0]], [X[1].T.copy(), X[1][:, :1].copy()], {"alpha": 0.5, "beta": 2.0}, 1),
    (11, "Gemm", [X[0]], [X[1]], {"transB": 1}, 1),
    (8, "MaxPool", [IMAGE], [], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, 1),
    (7, "AveragePool", [IMAGE], [], {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "count_include_pad": 1}, 1),
    (8, "Expand", [X[:, :1]], [np.array([3, 1])], {}, 1),
    (9, "Flatten", [X], [], {"axis": 2}, 1),
    (11, "Flatten", [X], [], {"axis": -1}, 1),
    (8, "Sum", [X, X[0], X[:, :1]], [], {}, 1),
    (8, "Mean", [X, X[0]], [], {}, 1),
    (11, "Gather", [X], [np.array([[-1, 0]])], {"axis": 1}, 1),
    (11, "Gather", [X], [np.arange(-3, 0)], {"axis": 1}, 1),
]


def library():
    from library import Library, find_library
    if find_library() is None:
        pytest.skip("there is no liblowtide.so; build first")
    return Library()


def make_model(opset, nodes, fed: dict, constants: dict, outputs, ir_version=7):
    number = onnx.helper.np_dtype_to_tensor_dtype
    infos = [onnx.helper.make_tensor_value_info(name, number(array.dtype), array.shape) for name, array in fed.items()]
    if ir_version < 4:  # every initializer is listed as an input, too
        infos += [onnx.helper.make_tensor_value_info(name, number(array.dtype), array.shape) for name, array in constants.items()]
    graph = onnx.helper.make_graph(nodes, "old", infos, [onnx.helper.make_empty_tensor_value_info(name) for name in outputs],
                                   [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = onnx.helper.make_model(graph, ir_version=ir_version, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return onnx.shape_inference.infer_shapes(model)


def compare(path, model, fed: dict) -> None:
    from library import OUTPUTS, Model, Plan, Session
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    judge = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = dict(zip([output.name for output in judge.get_outputs()], judge.run(None, fed)))
    path.write_bytes(model.SerializeToString())
    with Model(library(), str(path)) as read, Plan(read, threads=1, effort=0.02) as plan:
        plan.verify()
        with Session(plan, threads=1) as session:
            for name, array in fed.items():
                session.set(name, array)
            session.run()
            got = session.all(OUTPUTS)
    assert set(got) == set(wanted)
    for name, array in wanted.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
        if array.dtype.kind in "biu":
            assert np.array_equal(got[name], array), name
        else:
            np.testing.assert_allclose(got[name].astype(np.float64), array.astype(np.float64), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[0]}")
@pytest.mark.parametrize("ir_version", [3, 7])
def test_agrees_with_onnx_runtime(case, ir_version, tmp_path):
    opset, op, fed, constants, attrs, outputs = case
    fed = {f"x{i}": np.asarray(array) for i, array in enumerate(fed)}
    constants = {f"c{i}": np.asarray(array) for i, array in enumerate(constants)}
    names = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(op, [*fed, *constants], names, **attrs)
    compare(tmp_path / "old.onnx", make_model(opset, [node], fed, constants, names, ir_version), fed)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_element_type_moves_and_is_cast(dtype, tmp_path):
    """Identity, Dropout, shapes, casts there and back, the same type and CastLike; a constant of the type joined in."""
    number = onnx.helper.np_dtype_to_tensor_dtype
    make = onnx.helper.make_node
    x = RNG.integers(0, 5, (2, 3)).astype(dtype)
    more = RNG.integers(0, 5, (2, 2)).astype(dtype)
    nodes = [
        make("Identity", ["x"], ["a"]),
        make("Cast", ["a"], ["b"], to=number(np.dtype(dtype))),
        make("Reshape", ["b", "shape"], ["c"]),
        make("Unsqueeze", ["c", "front"], ["d"]),
        make("Squeeze", ["d"], ["e"]),
        make("Reshape", ["e", "back"], ["f"]),
        make("Transpose", ["f"], ["g"]),
        make("Transpose", ["g"], ["h"]),
        make("Concat", ["h", "more"], ["joined"], axis=1),
        make("Slice", ["joined", "starts", "ends", "axes", "steps"], ["turned"]),
        make("Cast", ["turned"], ["wide"], to=number(np.dtype(np.float32))),
        make("CastLike", ["wide", "x"], ["again"]),
    ]
    constants = {"shape": np.array([6]), "front": np.array([0]), "back": np.array([2, 3]), "more": more,
                 "starts": np.array([-1]), "ends": np.array([-99]), "axes": np.array([1]), "steps": np.array([-1])}
    compare(tmp_path / "types.onnx", make_model(15, nodes, {"x": x}, constants, ["joined", "turned", "wide", "again"], 8), {"x": x})
