"""Small models in which something is missing or unusual: nothing to compute, statistics that are no buffers of the model,
parameters that take their gradient from a convolution. Through the commands that a user has, against PyTorch."""

import functools
import json
import sys

import numpy as np
import pytest
from lowtide_cli import ROOT, expect_error, run, run_json
from seeded_values import float_input, integer_input

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

import onnx.parser  # noqa: E402


SEED = 5
drawn = functools.partial(float_input, SEED)  # what `run` feeds, by name and shape


def write(folder, text: str):
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + text)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def step(folder, model, *options) -> dict[str, np.ndarray]:
    """Plans, verifies, runs one step; the values of it that are there after it or were made in it."""
    plan = folder / "plan.lt"
    result = run("plan", model, *options, "-o", plan)
    assert result.returncode == 0, result.stderr
    assert run("verify", plan).returncode == 0
    result = run("run", plan, "--steps", "2", "--compare", "--seed", SEED, "--dump", folder / "step")
    assert result.returncode == 0, result.stderr + result.stdout
    manifest = json.loads((folder / "step/manifest.json").read_text())
    return {entry["name"]: np.load(folder / "step" / entry["file"]) for entry in manifest}


NOTHING_TO_COMPUTE = {
    "views": "g (float[8,8] x) => (float[n] y) <int64[1] s = {64}> { y = Reshape(x, s) }",
    "views_of_views": """g (float[8,8] x) => (float[n] y)
        <int64[1] b = {2}, int64[1] e = {4}, int64[1] a = {0}, int64[1] s = {16}>
        { p = Slice(x, b, e, a)  y = Reshape(p, s) }""",
    "identity": "g (float[8,8] x) => (float[8,8] y) { y = Identity(x) }",
    "parameter": "g (float[8,8] x) => (float[8] y) <float[8] w = {1,2,3,4,5,6,7,8}> { y = Identity(w) }",
}


def test_outputs_that_no_op_makes_are_dumped_and_compared(tmp_path):
    text = """g (float[2,3] x) => (float[2,3] x, int64[2] s, float[3] w, float[2,3] y) <float[3] w = {1,2,3}>
              { s = Shape(x)  y = Add(x, w) }"""
    values = step(tmp_path, write(tmp_path, text))
    assert list(values["s"]) == [2, 3]
    assert list(values["w"]) == [1, 2, 3]
    np.testing.assert_array_equal(values["y"], values["x"] + values["w"])
    assert run_json("run", tmp_path / "plan.lt", "--compare")["values_compared"] == 8  # four, in two steps


@pytest.mark.parametrize("name", NOTHING_TO_COMPUTE)
def test_a_model_without_anything_to_compute(name, tmp_path):
    model = write(tmp_path, NOTHING_TO_COMPUTE[name])
    values = step(tmp_path, model)
    whole = run_json("plan", model)
    arena = whole["arena_bytes"]
    assert 0 < arena == whole["peak_bytes"]
    assert run_json("verify", tmp_path / "plan.lt")["ok"]
    for budget in (arena, 10 * arena):
        kept = tmp_path / f"{budget}.lt"
        assert run_json("plan", model, "--budget", budget, "-o", kept)["arena_bytes"] == arena
        assert run("verify", kept).returncode == 0
        assert run("run", kept, "--compare").returncode == 0
    for budget in (0, 1, arena - 1):
        expect_error(3, "--budget", arguments=["plan", model, "--budget", budget])
        expect_error(3, "--budget", arguments=["plan", model, "--budget", budget, "--allow", "recompute,reorder"])
        expect_error(3, "--budget", arguments=["plan", model, "--budget", budget, "--swap", "host"])
    for swept in ("floor..100%", "50%..100%:3", "100%"):
        result = run("sweep", model, "--budgets", swept)
        assert result.returncode in (0, 3), result.stderr
    problems = tmp_path / "problems"
    problems.mkdir()
    assert run("plan", model, "--dump-problems", problems).returncode == 0
    assert run_json("order", problems / "order.txt")["peak_bytes"] == arena
    assert run("remat", problems / "order.txt", "--budget", arena).returncode == 0
    assert run("remat", problems / "order.txt", "--budget", arena - 1).returncode == 3
    if name == "views_of_views":
        np.testing.assert_array_equal(values["y"], drawn("x", (8, 8))[2:4].reshape(16))


BATCH_NORM = """g (float[4,3,2,2] x{inputs}) => (float[4,3,2,2] y, float[3] new_m, float[3] new_v)
    <float[3] s = {{1, 0.5, 2}}, float[3] b = {{0, 1, -1}}{given}>
    {{ {nodes} y, new_m, new_v = BatchNormalization <training_mode: int = 1, momentum: float = 0.75> (x, s, b, m, v) }}"""
STATISTICS = {
    "fed": dict(inputs=", float[3] m, float[3] v", given="", nodes=""),
    "constant": dict(
        inputs="",
        given="",
        nodes="m = Constant <value: tensor = float[3] {1, 2, 3}> () v = Constant <value: tensor = float[3] {4, 5, 6}> ()",
    ),
    "initializer": dict(inputs="", given=", float[3] m = {1, 2, 3}, float[3] v = {4, 5, 6}", nodes=""),
    "made": dict(
        inputs=", float[3] n",
        given=", float[3] one = {1, 1, 1}",
        nodes="m = Mul(n, one) v = Exp(n)",
    ),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_follow_the_batch_and_nothing_fed_or_constant_is_overwritten(name, tmp_path):
    values = step(tmp_path, write(tmp_path, BATCH_NORM.format(**STATISTICS[name])))
    x = torch.tensor(drawn("x", (4, 3, 2, 2))).double()
    scale, bias = torch.tensor([1, 0.5, 2]).double(), torch.tensor([0, 1, -1]).double()
    if name in ("constant", "initializer"):
        mean, variance = torch.tensor([1, 2, 3]).double(), torch.tensor([4, 5, 6]).double()
    elif name == "fed":
        mean, variance = (torch.tensor(drawn(key, (3,))).double() for key in ("m", "v"))
    else:
        mean = torch.tensor(drawn("n", (3,))).double()
        variance = mean.exp()
    expected = torch.nn.functional.batch_norm(x, None, None, scale, bias, training=True)
    np.testing.assert_allclose(values["y"], expected, atol=1e-5)
    batch_mean, batch_variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    # --compare above ran the step twice: what it starts from is the same each time.
    np.testing.assert_allclose(values["new_m"], 0.75 * mean + 0.25 * batch_mean, atol=1e-5)
    np.testing.assert_allclose(values["new_v"], 0.75 * variance + 0.25 * batch_variance, atol=1e-5)


def test_constant_statistics_in_a_training_step(tmp_path):
    """One output: PyTorch's training form. The batch's statistics normalise, whatever the running ones are written as."""
    model = write(tmp_path, """g (float[2,2,4,4] x) => (float[2,3,4,4] y)
        <float[3,2,1,1] w = {0.9, 0.5, -0.2, 1.1, -1.5, 1.4}, float[3] s = {-0.1, -0.5, 0.7}, float[3] b = {1, 0.8, 2}>
        { m = Constant <value: tensor = float[3] {0,0,0}> () v = Constant <value: tensor = float[3] {1,1,1}> ()
          c = Conv(x, w)  y = BatchNormalization(c, s, b, m, v) }""")
    values = step(tmp_path, model, "--train", "--loss", "mse", "--optimizer", "sgd", "--momentum", "0",
                  "--learning-rate", "0.1", "--weight-decay", "0")
    weights = {"w": torch.tensor([0.9, 0.5, -0.2, 1.1, -1.5, 1.4]).reshape(3, 2, 1, 1), "s": torch.tensor([-0.1, -0.5, 0.7]),
               "b": torch.tensor([1, 0.8, 2])}
    weights = {key: value.double().requires_grad_() for key, value in weights.items()}
    x = torch.tensor(drawn("x", (2, 2, 4, 4))).double()
    c = torch.nn.functional.conv2d(x, weights["w"])
    y = torch.nn.functional.batch_norm(c, None, None, weights["s"], weights["b"], training=True)
    loss = torch.nn.functional.mse_loss(y, torch.tensor(drawn("target", (2, 3, 4, 4))).double())
    loss.backward()
    assert float(values["loss"]) == pytest.approx(float(loss), rel=1e-5)
    for key, weight in weights.items():
        np.testing.assert_allclose(values[f"new/{key}"], (weight - 0.1 * weight.grad).detach().numpy(), atol=1e-5)


def test_statistics_that_are_read_elsewhere_follow_as_in_pytorch(tmp_path):
    """As data before their norm and after it, and by a second norm: each sees what they are then, and none gets a gradient."""
    model = write(tmp_path, """g (float[4,3,2,2] x) => (float[4,3,2,2] y)
        <float[3] s = {1, 0.5, 2}, float[3] b = {0, 1, -1}, float[3] m = {1, 2, 3}, float[3] v = {4, 5, 6}, int64[3] c = {3, 1, 1},
         float[3] w = {0.5, -1, 2}>
        { m1 = Mul(m, w) m2 = Reshape(m1, c) p = Mul(x, m2)
          q = BatchNormalization(p, s, b, m, v) r = BatchNormalization(q, s, b, m, v)
          m3 = Mul(m, w) m4 = Reshape(m3, c) y = Add(r, m4) }""")
    values = step(tmp_path, model, "--train", "--loss", "mse", "--optimizer", "sgd", "--momentum", "0",
                  "--learning-rate", "0.1", "--weight-decay", "0")
    trained = {"s": [1, 0.5, 2], "b": [0, 1, -1], "w": [0.5, -1, 2]}
    trained = {key: torch.tensor(value).double().requires_grad_() for key, value in trained.items()}
    mean, variance = torch.tensor([1, 2, 3]).double(), torch.tensor([4, 5, 6]).double()
    # PyTorch itself refuses to differentiate a product with what is overwritten since; it would be with the old contents.
    old = mean.clone()
    norm = functools.partial(torch.nn.functional.batch_norm, running_mean=mean, running_var=variance, training=True)
    x = torch.tensor(drawn("x", (4, 3, 2, 2))).double()
    q = norm(x * (old * trained["w"]).reshape(3, 1, 1), weight=trained["s"], bias=trained["b"])
    r = norm(q, weight=trained["s"], bias=trained["b"])
    loss = torch.nn.functional.mse_loss(r + (mean.clone() * trained["w"]).reshape(3, 1, 1),
                                        torch.tensor(drawn("target", (4, 3, 2, 2))).double())
    loss.backward()
    assert float(values["loss"]) == pytest.approx(float(loss), rel=1e-5)
    for key, weight in trained.items():
        np.testing.assert_allclose(values[f"new/{key}"], (weight - 0.1 * weight.grad).detach().numpy(), atol=1e-5)
    statistics = [value for key, value in values.items() if "RunningUpdate" in key and value.shape == (3,)]
    for expected in (mean, variance):
        assert any(np.allclose(value, expected, atol=1e-5) for value in statistics), (expected, statistics)
    assert "grad/m" not in values and "grad/v" not in values


def test_a_loss_is_attached_to_the_first_output_of_the_file(tmp_path):
    """Which is computed last, beside the output that it is computed from."""
    model = write(tmp_path, """g (float[2,4] x) => (float[2,3] late, float[2,4] early) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>
        { early = Relu(x)  late = MatMul(early, w) }""")
    values = step(tmp_path, model, "--train", "--loss", "mse")
    late = np.maximum(drawn("x", (2, 4)), 0) @ np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(values["loss"], np.mean((late - drawn("target", (2, 3))) ** 2), rtol=1e-5)


def test_the_c_abi_lists_outputs_in_the_order_of_the_file(tmp_path):
    pytest.importorskip("ml_dtypes")
    sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
    try:
        import library
    finally:
        sys.path.pop(0)
    # d is made in another element type, c by a view, x is an input.
    path = write(tmp_path, """g (float[2,4] x) => (float16[2,4] d, float[2,4] b, float[8] c, float[2,4] x, float[2,4] a)
        <int64[1] s = {8}> { a = Exp(x)  b = Tanh(a)  c = Reshape(a, s)  h = Cast <to = 10> (b)  d = Sqrt(h) }""")
    with library.Model(library.Library(), str(path)) as model, library.Plan(model) as plan, library.Session(plan) as session:
        assert list(session.values(library.OUTPUTS)) == ["d", "b", "c", "x", "a"]


def test_a_positional_map_moves(tmp_path):
    """Its gradient comes channels-last from a convolution; a copy of it in that order would learn in its place."""
    model = write(tmp_path, """g (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,3,3] w, float[1,4,8,8] p>
        { a = Add(x, p)  y = Conv <pads: ints = [1,1,1,1]> (a, w) }""".replace(
        "float[4,4,3,3] w", f"float[4,4,3,3] w = {{{', '.join(['0.1', '-0.2', '0.3'] * 48)}}}").replace(
        "float[1,4,8,8] p", f"float[1,4,8,8] p = {{{', '.join(['0.5', '-0.25'] * 128)}}}"))
    for optimizer in (["sgd", "--momentum", "0"], ["sgd"], ["adamw"]):
        values = step(tmp_path, model, "--train", "--loss", "mse", "--optimizer", *optimizer)
        plan = json.loads((tmp_path / "plan.lt").read_text())
        new = next(value for value in plan["values"] if value["name"] == "new/p")
        root = plan["values"][plan["storages"][new["storage"]]["root"]]
        assert root["name"] == "p" and "producer" not in root
        assert np.abs(values["new/p"] - np.tile([0.5, -0.25], 128).reshape(1, 4, 8, 8)).max() > 1e-5


OWN_LOSS = """g (float[4,3] x, int64[4] labels) => (int64[4] best, float[4,5] scores, float loss)
    <float[3,5] w = {1,-2,3,-4,5,-6,7,-8,9,-1,2,-3,4,-5,6}, float[5] share = {1, 2, 0.5, 1, 3}>
    { scores = MatMul(x, w)  best = ArgMax <axis: int = 1, keepdims: int = 0> (scores)
      loss = SoftmaxCrossEntropyLoss <reduction: string = "mean"> (scores, labels, share) }"""


def test_a_file_s_own_loss_is_minimised(tmp_path):
    """Its labels are an input of the file, and its name is the one that an attached loss would have."""
    model = write(tmp_path, OWN_LOSS)
    values = step(tmp_path, model, "--train", "--loss", "model", "--loss-output", "loss", "--optimizer", "sgd", "--momentum", "0",
                  "--learning-rate", "0.1", "--weight-decay", "0")
    w = torch.tensor([1.0, -2, 3, -4, 5, -6, 7, -8, 9, -1, 2, -3, 4, -5, 6]).reshape(3, 5).double().requires_grad_()
    share = torch.tensor([1, 2, 0.5, 1, 3]).double().requires_grad_()
    labels = torch.tensor(integer_input(SEED, "labels", (4,), 5))
    scores = torch.tensor(drawn("x", (4, 3))).double() @ w
    losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none") * share[labels]
    loss = losses.sum() / share[labels].sum()
    loss.backward()
    assert float(values["loss"]) == pytest.approx(float(loss), rel=1e-5)
    np.testing.assert_allclose(values["new/w"], (w - 0.1 * w.grad).detach().numpy(), atol=1e-5)


def test_a_loss_that_does_not_fit_is_refused_by_name(tmp_path):
    model = write(tmp_path, OWN_LOSS)
    expect_error(2, "'loss'", "rename", "--loss model", arguments=["plan", model, "--train"])
    expect_error(4, "'scores'", "[4, 5]", "one number", arguments=["plan", model, "--train", "--loss", "model"])
    expect_error(4, "no output 'other'", "best, scores, loss",
                 arguments=["plan", model, "--train", "--loss", "model", "--loss-output", "other"])
    expect_error(2, "--loss-output", "--train", arguments=["plan", model, "--loss-output", "scores"])


def test_sizes_that_an_exporter_left_behind_are_passed_over_and_told(tmp_path):
    model = write(tmp_path, """g (float[n,4] x) => (float[4,4] y) { h = Relu(x)  y = Sigmoid(h) }""")
    result = run("plan", model, "--dim", "n=3", "-o", tmp_path / "p.lt")
    assert result.returncode == 0
    assert "note: node of 'y' (Sigmoid): 'y' is declared as [4, 4], but its shape is [3, 4]" in result.stdout
    other = write(tmp_path, """g (float[n,4] x) => (float[4,4,1] y) { y = Relu(x) }""")
    expect_error(4, "'y' is declared as [4, 4, 1], but its shape is [n, 4]", arguments=["plan", other])
