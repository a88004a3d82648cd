"""run --against: a plan in parts beside the unplanned step in one part, within a tolerance."""

import json
import os
import shutil

import numpy as np
import pytest
import sealed_plan
from lowtide_cli import MODELS, expect_error, narrow_unet, run, run_json

STEP = ["--train", "--loss", "mse", "--dim", "batch=4"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return narrow_unet(tmp_path_factory.mktemp("model") / "narrow.onnx")


def planned(folder, name, model, *flags):
    path = folder / name
    result = run("plan", model, *STEP, *flags, "-o", path)
    assert result.returncode == 0, result.stderr
    return path


@pytest.fixture(scope="module")
def split(model, tmp_path_factory):
    """In two parts, with momentum, so that what is kept of a gradient is compared too."""
    return planned(tmp_path_factory.mktemp("split"), "split.lt", model, "--split", "2", "--optimizer", "sgd", "--learning-rate", "0.05")


def test_a_split_step_is_the_whole_one_within_the_tolerance(split, model):
    report = run_json("run", split, "--steps", 1, "--against", model)
    assert report["whole_values_beyond"] == 0 and report["whole_values_compared"] > 60
    assert 0 < report["largest_relative_difference"] < 1e-4, "another order of additions, so not equal to the bit"
    assert report["largest_relative_difference_in"]
    assert report["unplanned_step_seconds"] > 0 and report["unplanned_bytes"] > report["arena_measured_bytes"]
    assert report["arena_measured_bytes"] == report["arena_planned_bytes"]


def test_adams_parameters_are_held_to_its_steps(model, tmp_path):
    path = planned(tmp_path, "adam.lt", model, "--split", "4", "--optimizer", "adamw", "--learning-rate", "0.01")
    report = run_json("run", path, "--steps", 1, "--against", model)
    assert report["whole_values_beyond"] == 0
    assert 0 < report["parameters_apart"] <= 0.025


def test_a_step_that_computes_something_else_is_found(split, model, tmp_path):
    """The whole step with another learning rate: gradients are equal, what it updates is not."""
    other = planned(tmp_path, "other.lt", model, "--optimizer", "sgd", "--learning-rate", "0.5")
    result = run("run", split, "--steps", 1, "--against", other, "--json")
    assert result.returncode == 1 and "differ from the step in one part by more than 0.001" in result.stderr
    report = json.loads(result.stdout)
    assert 20 < report["whole_values_beyond"] < report["whole_values_compared"]


def chaotic(path):
    """Sines of nine times a product, six on each other: each makes a difference some six times as large. A mean over the batch, whose
    parts add in another order, makes the first one."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    tensors = {"nine": np.float32(9), "rows": np.array([0])}
    tensors |= {f"w{k}": (rng.normal(size=(16, 16)) / 4).astype(np.float32) for k in range(7)}
    make = onnx.helper.make_node
    nodes = [make("MatMul", ["x", "w0"], ["h"]), make("ReduceMean", ["h", "rows"], ["m"], keepdims=1), make("Sub", ["h", "m"], ["a0"])]
    for k in range(6):
        nodes += [make("MatMul", [f"a{k}", f"w{k + 1}"], [f"b{k}"]), make("Mul", [f"b{k}", "nine"], [f"c{k}"]), make("Sin", [f"c{k}"], [f"a{k + 1}"])]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 16]) for name in ("x", "a6")]
    graph = onnx.helper.make_graph(nodes, "chaotic", ends[:1], ends[1:], [onnx.numpy_helper.from_array(np.array(t), n) for n, t in tensors.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_what_the_last_bits_change_as_much_is_rounding(tmp_path):
    model, flags = chaotic(tmp_path / "chaotic.onnx"), ["--train", "--loss", "mse", "--dim", "batch=64", "--optimizer", "sgd"]
    paths = {rate: tmp_path / f"{rate}.lt" for rate in ("0.01", "0.1")}
    for rate, path in paths.items():
        made = run("plan", model, *flags, "--learning-rate", rate, "-o", path, *(["--split", "4"] if rate == "0.01" else []))
        assert made.returncode == 0, made.stderr
    report = run_json("run", paths["0.01"], "--steps", 1, "--against", model)
    assert report["whole_values_beyond"] == 0 and report["whole_values_rounded"] > 5
    assert report["largest_relative_difference"] > 1e-3
    assert "by rounding" in run("run", paths["0.01"], "--steps", 1, "--against", model).stdout
    wrong = run("run", paths["0.01"], "--steps", 1, "--against", paths["0.1"])
    assert wrong.returncode == 1 and "differ from the step in one part" in wrong.stderr, "rounding is no excuse for another learning rate"


def test_a_plan_of_the_whole_step_serves_as_well(split, model, tmp_path):
    whole = planned(tmp_path, "whole.lt", model, "--optimizer", "sgd", "--learning-rate", "0.05")
    report = run_json("run", split, "--steps", 1, "--against", whole)
    assert report["whole_values_beyond"] == 0


def test_what_it_cannot_be_held_against_is_named(split, tmp_path):
    expect_error(2, "split.lt", "in parts itself", arguments=["run", split, "--against", split])
    larger = tmp_path / "larger.lt"
    model = narrow_unet(tmp_path / "again.onnx")
    assert run("plan", model, "--train", "--loss", "mse", "--dim", "batch=2", "--optimizer", "sgd", "-o", larger).returncode == 0
    expect_error(2, "--against", "[2, ", "[4, ", arguments=["run", split, "--steps", 1, "--against", larger])
    expect_error(4, "nothing.onnx", arguments=["run", split, "--against", tmp_path / "nothing.onnx"])


def test_compared_with_its_own_ops_it_says_so(split):
    result = run("run", split, "--steps", 1, "--compare")
    assert result.returncode == 0 and "bit for bit equal" in result.stdout
    assert "as 'narrow.onnx' is not beside the plan; --against MODEL" in result.stdout


def test_beside_its_model_it_is_compared_with_the_whole_step(split, model, tmp_path):
    report = run_json("run", split, "--steps", 1, "--compare", "--model-folder", model.parent)
    assert report["whole_values_beyond"] == 0 and 0 < report["largest_relative_difference"] < 1e-4
    for file in (split, model):
        shutil.copy(file, tmp_path)
    assert "in one part" in run("run", tmp_path / "split.lt", "--steps", 1, "--compare").stdout


def test_verify_proves_that_the_parts_are_the_step(split, model):
    result = run("verify", split, "--against", model)
    assert result.returncode == 0, result.stderr
    assert "computes what the step of" in result.stdout
    report = run_json("verify", split, "--against", model)
    assert report["ok"] and report["parts"] == 2 * report["ops_in_parts"] >= 40


def test_verify_beside_another_step_says_which_op_differs(split, model, tmp_path):
    """A file that is right by itself but says that it was planned with another learning rate."""
    other = tmp_path / "other.lt"
    sealed_plan.change(split, other, "learning_rate", lambda _: '"0.5"', inside="provenance")
    assert run("verify", other).returncode == 0
    result = run("verify", other, "--against", model)
    assert result.returncode == 6
    assert "its 'learning_rate' is another than in the whole step" in result.stderr and "update/" in result.stderr


def test_verify_against_wants_a_model(split, tmp_path):
    expect_error(2, "split.lt", "is a plan", arguments=["verify", split, "--against", split])
    expect_error(4, "nothing.onnx", arguments=["verify", split, "--against", tmp_path / "nothing.onnx"])


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_attention_in_blocks_is_the_same_step(tmp_path):
    """Of GPT-2, causal and with dropout: the blocks draw the bits of the whole, and see no key behind their last row."""
    def step(name, *flags):
        path = tmp_path / name
        result = run("plan", MODELS / "gpt2.onnx", "--train", "--dim", "batch=1", "--dim", "seq=24", *flags, "-o", path)
        assert result.returncode == 0, result.stderr
        return path, result.stdout
    blocks, said = step("blocks.lt", "--query-blocks", "3")
    assert "query-blocks changed" in said
    whole, _ = step("whole.lt")
    report = run_json("run", blocks, "--steps", 1, "--against", whole)
    assert report["whole_values_beyond"] == 0 and report["whole_values_compared"] > 400
    assert report["arena_measured_bytes"] == report["arena_planned_bytes"]
    assert sum(op["kind"] == "Softmax" for op in json.loads(blocks.read_text())["ops"]) == 3 * 12


def test_so_many_query_blocks_there_are_not(model):
    expect_error(2, "--query-blocks", "0 is not from 1 to 4096", arguments=["plan", model, *STEP, "--query-blocks", "0"])
    expect_error(2, "--query-blocks 2", "split", arguments=["plan", model, *STEP, "--query-blocks", "2", "--forbid", "split"])
