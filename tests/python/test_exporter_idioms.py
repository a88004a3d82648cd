"""What exporters write around the arithmetic: sequences for every chunk and split, empty lists as the shape of a scalar, OneHot
of constants, a softmax that is 0 where a mask forbids everything. Beside ONNX Runtime, and PyTorch for gradients."""

import numpy as np
import onnx.parser
import pytest
import torch

from lowtide_cli import expect_error
from test_types import library, lowtide, ours, theirs  # noqa: F401: lowtide is a fixture

from library import PARAMETERS, Model, Plan, Session  # isort: skip: test_types finds it

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


@pytest.mark.parametrize("size, place", [(1 << 40, 1 << 40), (3, -1), (-3, 1), (3, 1 << 62)])
def test_pieces_that_no_file_can_mean_are_refused(size, place, tmp_path):
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[7,3] x) => (float[a,b] y) <int64 size = {{{size}}}, int64 k = {{{place}}}>
        {{ s = SplitToSequence(x, size)  y = SequenceAt(s, k) }}"""
    path = tmp_path / "wrong.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    expect_error(4, "wrong.onnx", "SequenceAt 1 (y: a sequence whose parts are not known)", arguments=["plan", path])


def test_a_softmax_over_nothing_trains(lowtide, tmp_path):  # noqa: F811
    """Attention as PyTorch writes it out, with a query that may read no key."""
    text = """<ir_version: 8, producer_name: "pytorch", opset_import: ["" : 17]>
        g (float[2,3,4] x, float[3,3] mask) => (float[a,b,c] y) <float zero = {0}>
        { q = MatMul(x, wq)  k = Transpose<perm = [0, 2, 1]>(x)  s = MatMul(q, k)  m = Add(s, mask)
          p = Softmax<axis = -1>(m)  n = IsNaN(p)  r = Where(n, zero, p)  v = MatMul(x, wv)  y = MatMul(r, v) }"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(5)
    weights = {name: rng.standard_normal((4, 4)).astype(np.float32) for name in ("wq", "wv")}
    for name, array in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    x, target = (rng.standard_normal((2, 3, 4)).astype(np.float32) for _ in range(2))
    mask = np.array([[-np.inf] * 3, [0, -np.inf, -np.inf], [0, 0, -np.inf]], np.float32)
    data = model.SerializeToString()
    feed = {"x": x, "mask": mask}
    np.testing.assert_allclose(ours(lowtide, tmp_path, data, feed), theirs(data, feed), rtol=1e-5, atol=1e-6)
    (tmp_path / "trained.onnx").write_bytes(data)
    with Model(lowtide, str(tmp_path / "trained.onnx"), training=True) as read:
        options = {"train": True, "loss": "mse", "optimizer": "sgd", "learning_rate": 1.0, "weight_decay": 0.0, "momentum": 0.0}
        with Plan(read, **options) as plan, Session(plan, threads=1) as session:
            for name, array in {**feed, "target": target}.items():
                session.set(name, array)
            session.run()
            after = session.all(PARAMETERS)
    wq, wv = (torch.tensor(weights[name].astype(np.float64), requires_grad=True) for name in ("wq", "wv"))
    allowed = torch.tensor(mask[1:].astype(np.float64))
    real = torch.tensor(x.astype(np.float64))
    p = torch.softmax((real @ wq)[:, 1:] @ real.transpose(1, 2) + allowed, -1)  # the first query reads nothing
    read_by = torch.cat([torch.zeros(2, 1, 3, dtype=torch.float64), p], 1)
    ((read_by @ (real @ wv)) - torch.tensor(target.astype(np.float64))).square().mean().backward()
    for name, weight in (("wq", wq), ("wv", wv)):
        np.testing.assert_allclose(after[name], (weight - weight.grad).detach().numpy(), rtol=1e-5, atol=1e-6)
