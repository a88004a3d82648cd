"""What exporters write that is no arithmetic: sequences for every chunk and split, empty lists as the shape of a scalar, OneHot
of constants. Beside ONNX Runtime."""

import numpy as np
import onnx.parser
import pytest

from lowtide_cli import expect_error
from test_types import library, lowtide, ours, theirs  # noqa: F401: lowtide is a fixture

GRAPHS = {
    "chunks": """(float[2,7,3] x) => (float[a,b,c] y) <int64 size = {3}, int64 last = {2}, int64 first = {0}>
        { s = SplitToSequence<axis = 1>(x, size)  p = SequenceAt(s, last)  q = SequenceAt(s, first)  y = Add(p, q) }""",
    "parts": """(float[6,3] x) => (float[a,b] y) <int64[3] sizes = {1, 2, 3}, int64 second = {1}, int64 last = {-1}>
        { s = SplitToSequence(x, sizes)  p = SequenceAt(s, second)  q = SequenceAt(s, last)
          y = Concat<axis = 0>(q, p) }""",
    "single": """(float[4,3] x) => (float[a] y)
        { k = Constant<value_int = 2>()  s = SplitToSequence<keepdims = 0>(x)  y = SequenceAt(s, k) }""",
    "stack": """(float[4,3] x) => (float[a,b,c] y)
        { p = Neg(x)  s = SequenceConstruct(x, p, x)  y = ConcatFromSequence<axis = 1, new_axis = 1>(s) }""",
    "joined": """(float[4,3] x) => (float[a,b] y) <int64 k = {1}>
        { p = Neg(x)  s = SequenceConstruct(x, p)  q = SequenceAt(s, k)  j = ConcatFromSequence<axis = 0>(s)
          y = Concat<axis = 0>(j, q) }""",
    "empty list": """(float[3] x) => (float[n] y)
        { s = Constant<value_ints: ints = []>()  v = Constant<value_float = 2.0>()  c = Expand(v, s)  y = Mul(x, c) }""",
    "repeats": """(float[2,3] x) => (float[a,b] y) <int64[1] places = {1}, int64 depth = {2}, int64[2] values = {1, 4}>
        { h = OneHot(places, depth, values)  f = Constant<value_ints = [-1]>()  r = Reshape(h, f)  y = Tile(x, r) }""",
}


def model(name: str) -> bytes:
    text = '<ir_version: 8, opset_import: ["" : 17]> g ' + GRAPHS[name]
    return onnx.parser.parse_model(text).SerializeToString()


@pytest.mark.parametrize("name", GRAPHS)
def test_idioms_agree(name, lowtide, tmp_path):  # noqa: F811
    data = model(name)
    read = onnx.load_from_string(data).graph.input[0].type.tensor_type.shape.dim
    x = np.random.default_rng(3).standard_normal([d.dim_value for d in read]).astype(np.float32)
    np.testing.assert_array_equal(ours(lowtide, tmp_path, data, {"x": x}), theirs(data, {"x": x}))


def test_a_place_that_is_fed_is_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4,3] x, int64 k) => (float[a,b] y) { s = SplitToSequence(x)  y = SequenceAt(s, k) }"""
    path = tmp_path / "fed.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    expect_error(4, "fed.onnx", "SplitToSequence", "SequenceAt", arguments=["plan", path])
