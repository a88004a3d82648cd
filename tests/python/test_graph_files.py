"""Graphs as text on the command line: planned, verified, inspected and run like any model; with ops of somebody else's kernels
they are planned and verified, and `run` refuses them by name."""

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


def test_foreign_ops_are_planned_with_the_time_that_they_say(tmp_path):
    graph, plan = write(tmp_path / "scan.graph", OURS + SCAN), tmp_path / "p.lt"
    verdict = run_json("plan", graph, "--dim", "batch=2", "-o", plan)
    assert verdict["once_seconds"] > 0.25 and verdict["arena_bytes"] >= 5000
    assert run("verify", plan).returncode == 0
    expect_error(4, "'scan'", "'mylib::scan' is an op of somebody else's", arguments=["run", plan])
    text = run("inspect", graph, "--dim", "batch=2").stdout
    assert "Opaque 'mylib::scan' 1" in text and "a graph as text" in text and "who has its kernel" in text
    assert "parameters 1 tensors, 12 elements (12 trained), 48 bytes" in text


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
