"""Indices that are formulas, evaluated while a file is read: what Gather, Slice and arithmetic make of a Range, beside ONNX
Runtime. tests/fuzz_against_onnxruntime/folding.py draws such chains; these are the ones with a story."""

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
library = pytest.importorskip("library")

from onnx import helper, numpy_helper  # noqa: E402

if library.find_library() is None:
    pytest.skip("there is no liblowtide.so; build first", allow_module_level=True)


def both(path, nodes, constants) -> tuple[np.ndarray, np.ndarray]:
    """The output y by Lowtide and by ONNX Runtime; x, of which only the shape counts, is (2, 8)."""
    x = np.zeros((2, 8), np.float32)
    graph = helper.make_graph(nodes, "folded", [helper.make_tensor_value_info("x", 1, x.shape)],
                              [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString())
    expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    with library.Model(library.Library(), str(path)) as model, library.Plan(model, threads=1, effort=0.02) as plan:
        plan.verify()
        with library.Session(plan, threads=1) as session:
            session.set("x", x)
            session.run()
            return session.all(library.OUTPUTS)["y"], expected


RANGE = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["n"]),
         helper.make_node("Range", ["zero", "n", "step"], ["r"])]


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("indices", [[-2, 2], [-1], [0, -1], [[-1, -2], [0, 1]], -1, [1, 1, -2]])
def test_indices_from_the_end_into_a_range(indices, step, tmp_path):
    got, expected = both(tmp_path / "folded.onnx", [*RANGE, helper.make_node("Gather", ["r", "i"], ["y"])],
                         {"zero": 0, "one": 1, "step": step, "i": indices})
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    assert np.all(got >= 0)  # what was gathered, not the indices


@pytest.mark.parametrize("low, up", [(-8, 0), (-3, 5), (-1, 7)])
def test_a_range_as_indices_into_a_range(low, up, tmp_path):
    """From the start and from the end in one formula."""
    nodes = [*RANGE, helper.make_node("Range", ["low", "up", "one"], ["i"]), helper.make_node("Gather", ["r", "i"], ["y"])]
    got, expected = both(tmp_path / "folded.onnx", nodes, {"zero": 0, "one": 1, "step": 1, "low": low, "up": up})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("start, end, step", [(0, 8, 2), (-1, -9, -1), (-2, 0, -3), (5, -20, -2), (-3, 99, 1)])
def test_a_range_cut_from_the_end(start, end, step, tmp_path):
    nodes = [*RANGE, helper.make_node("Slice", ["r", "start", "end", "axis", "by"], ["y"])]
    got, expected = both(tmp_path / "folded.onnx", nodes,
                         {"zero": 0, "one": 1, "step": 1, "start": [start], "end": [end], "axis": [0], "by": [step]})
    np.testing.assert_array_equal(got, expected)


def test_eight_pieces_joined(tmp_path):
    """The work of a Concat is counted over all pieces: the product of their shares once overflowed."""
    nodes = [*RANGE, helper.make_node("Add", ["r", "one"], ["s"]), helper.make_node("Cast", ["x"], ["wide"], to=11),
             helper.make_node("Cast", ["s"], ["t"], to=11), helper.make_node("Add", ["wide", "t"], ["piece"]),
             helper.make_node("Concat", ["piece", "wide"] * 4, ["y"], axis=0)]
    got, expected = both(tmp_path / "folded.onnx", nodes, {"zero": 0, "one": 1, "step": 1})
    assert got.shape == (16, 8)
    np.testing.assert_array_equal(got, expected)
