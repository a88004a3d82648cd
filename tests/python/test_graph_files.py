"""Graphs as text on the command line: planned, verified, inspected and run like any model; with ops of somebody else's kernels
they are planned and verified, and `run` refuses them by name."""

import json

import numpy as np
import seeded_values
from lowtide_cli import expect_error, run, run_json

OURS = """graph "layer" "by hand"
given "x" f32 [batch, 4] input fed
given "w" f32 [4, 3] parameter inline "{weights}"
op "MatMul" "fc" "" forward v0 v1
  out "h" f32 [batch, 3] activation own
op "Relu" "act" "" forward v2
  out "y" f32 [batch, 3] activation own output
"""
SCAN = """op "Opaque" "scan" "" forward v3
  attr "op" word "mylib::scan"
  attr "seconds" real 0.25
  attr "workspace" int 5000
  out "s" f32 [batch, 3] activation own output
"""
VIEWS = """graph "views" "by hand"
given "x" f32 [4, 6] input fed
op "Transpose" "columns" "" forward v0
  attr "perm" list [1, 0]
  attr "view" int 1
  out "t" f32 [6, 4] activation view v0 [0] layout "strided:1,6"
op "Slice" "middle" "" forward v1
  attr "sizes" list [3, 2]
  attr "starts" list [1, 1]
  attr "steps" list [2, 1]
  attr "view" int 1
  out "m" f32 [3, 2] activation view v1 [28] layout "strided:2,6"
op "Softmax" "act" "" forward v2
  attr "axis" int 1
  out "y" f32 [3, 2] activation own output
op "Expand" "both" "" forward v2
  attr "shape" list [5, 3, 2]
  attr "view" int 1
  out "e" f32 [5, 3, 2] activation view v2 [28] layout "strided:0,2,6"
op "Exp" "exp" "" forward v4
  out "z" f32 [5, 3, 2] activation own output
"""
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3) - 5


def write(path, text):
    path.write_text(text.replace("{weights}", WEIGHTS.tobytes().hex()))
    return path


def test_a_graph_of_known_ops_is_planned_and_run(tmp_path):
    graph, plan = write(tmp_path / "layer.graph", OURS), tmp_path / "p.lt"
    assert run("plan", graph, "--dim", "batch=2", "-o", plan).returncode == 0
    assert run("verify", plan).returncode == 0
    assert run("run", plan, "--dump", tmp_path, "--compare").returncode == 0
    y = np.load(tmp_path / "00000.npy")  # the only output
    np.testing.assert_allclose(y, np.maximum(seeded_values.float_input(0, "x", (2, 4)) @ WEIGHTS, 0), rtol=1e-6, atol=1e-6)


def test_a_graph_of_known_ops_trains(tmp_path):
    graph, plan = write(tmp_path / "layer.graph", OURS), tmp_path / "p.lt"
    assert run("plan", graph, "--dim", "batch=2", "--train", "--loss", "mse", "-o", plan).returncode == 0
    assert run("run", plan, "--compare").returncode == 0


def test_strided_views_are_planned_and_run(tmp_path):
    """A kernel reads them where they lie (exp), or a copy that the plan makes (softmax)."""
    graph, plan = write(tmp_path / "views.graph", VIEWS), tmp_path / "p.lt"
    assert run("plan", graph, "-o", plan).returncode == 0
    assert run("verify", plan).returncode == 0
    assert run("run", plan, "--dump", tmp_path, "--compare").returncode == 0
    document = json.loads(plan.read_text())
    assert {v["name"]: v.get("layout") for v in document["values"]}["e"] == "strided:0,2,6"
    assert [op["kind"] for op in document["ops"]].count("Reorder") == 1
    middle = np.exp(seeded_values.float_input(0, "x", (4, 6)).T[1:6:2, 1:3])
    np.testing.assert_allclose(np.load(tmp_path / "00000.npy"), middle / middle.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "00001.npy"), np.broadcast_to(middle, (5, 3, 2)), rtol=1e-5)


def test_strided_views_outside_of_their_storage_are_refused(tmp_path):
    outside = write(tmp_path / "outside.graph", VIEWS.replace("[28]", "[32]"))
    expect_error(4, "outside.graph", "declared at byte 32 of its storage, and lies at 28", arguments=["plan", outside])
    other = write(tmp_path / "other.graph", VIEWS.replace("strided:2,6", "strided:2,7"))
    expect_error(4, "other.graph", "strided:2,7", "strided:2,6", arguments=["plan", other])


def test_foreign_ops_are_planned_with_the_time_that_they_say(tmp_path):
    graph, plan = write(tmp_path / "scan.graph", OURS + SCAN), tmp_path / "p.lt"
    verdict = run_json("plan", graph, "--dim", "batch=2", "-o", plan)
    assert verdict["once_seconds"] > 0.25 and verdict["arena_bytes"] >= 5000
    assert run("verify", plan).returncode == 0
    expect_error(4, "'scan'", "'mylib::scan' is an op of somebody else's", arguments=["run", plan])
    text = run("inspect", graph, "--dim", "batch=2").stdout
    assert "Opaque 'mylib::scan' 1" in text and "a graph as text" in text and "who has its kernel" in text
    assert "parameters 1 tensors, 12 elements (12 trained), 48 bytes" in text


def test_foreign_views_have_strides_and_foreign_kernels_say_that_they_read_them(tmp_path):
    view = """graph "foreign" "by hand"
given "x" f32 [4, 6] input fed
op "Opaque" "columns" "" forward v0
  attr "op" word "aten::t"
  out "t" f32 [6, 4] activation view v0 [0] layout "strided:1,6"
op "Opaque" "mm" "" forward v1
  attr "op" word "aten::mm"
  attr "strided" int 1
  out "y" f32 [6, 6] activation own output
"""
    plan = tmp_path / "p.lt"
    assert run("plan", write(tmp_path / "view.graph", view), "-o", plan).returncode == 0
    assert run("verify", plan).returncode == 0
    assert [op["name"] for op in json.loads(plan.read_text())["ops"]] == ["columns", "mm"]
    unaware = write(tmp_path / "copied.graph", view.replace('  attr "strided" int 1\n', ""))
    for device in ("cpu", "h100"):  # with a catalogue of kernels and without
        assert run("plan", unaware, "--device", device, "-o", plan).returncode == 0
        assert run("verify", plan).returncode == 0
        ops = json.loads(plan.read_text())["ops"]
        assert [op["name"] for op in ops] == ["columns", "copy/t/row_major", "mm"]
        assert ops[1]["kind"] == "Reorder" and ops[1]["predicted_seconds"] > 0
    handed_on = view.replace('  attr "strided" int 1\n', "").replace("activation own output", "activation view v1 [0] output")
    expect_error(4, "input 0 [6, 4] has layout strided:1,6, wanted dense values",
                 arguments=["plan", write(tmp_path / "handed_on.graph", handed_on.replace("[6, 6]", "[4]"))])


def test_what_is_wrong_is_named(tmp_path):
    wrong = write(tmp_path / "wrong.graph", OURS.replace('"h" f32 [batch, 3]', '"h" f32 [batch, 4]'))
    expect_error(4, "wrong.graph", "op 'fc' (MatMul)", "declared f32 [2, 4]", "[2, 3]", arguments=["plan", wrong, "--dim", "batch=2"])
    line = write(tmp_path / "line.graph", OURS.replace("forward v2", "forward v9"))
    expect_error(4, "line.graph:6", arguments=["plan", line, "--dim", "batch=2"])
    whole = write(tmp_path / "layer.graph", OURS)
    expect_error(2, "--dim batch=1", arguments=["plan", whole])
    expect_error(2, "no such symbol, but batch", arguments=["plan", whole, "--dim", "seq=1"])
    foreign = write(tmp_path / "scan.graph", OURS + SCAN)
    expect_error(4, "scan", arguments=["plan", foreign, "--dim", "batch=2", "--train", "--loss", "mse", "--loss-output", "s"])
