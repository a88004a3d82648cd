"""Cross-entropy cut along its classes, through the commands that a user has, against PyTorch: the loss, and what the gradients make
of the weights, with labels that are ignored and without; and what is said to who cuts a loss that is one op."""

import functools
import json

import numpy as np
import pytest
from lowtide_cli import expect_error, run
from seeded_values import float_input, integer_input

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

import onnx.parser  # noqa: E402

SEED = 5
ROWS, WIDE, WORDS = 12, 3, 11
WEIGHTS = [round(((7 * k) % 23 - 11) / 8, 3) for k in range(WIDE * WORDS)]


def write(folder, ignored, rows=ROWS, wide=WIDE, words=WORDS):
    attributes = "" if ignored is None else f"<ignore_index: int = {ignored}>"
    weights = WEIGHTS * (1 + wide * words // len(WEIGHTS))
    text = f"""g (float[{rows},{wide}] x, int64[{rows}] labels) => (float loss)
        <float[{wide},{words}] w = {{{",".join(map(str, weights[:wide * words]))}}}>
        {{ h = Tanh(x)  logits = MatMul(h, w)  loss = SoftmaxCrossEntropyLoss {attributes} (logits, labels) }}"""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + text), path)
    return path


def trained(folder, model, *options):
    """What is there after a step of the plan, which is verified, and compared with the step in one part."""
    plan = folder / "plan.lt"
    result = run("plan", model, "--train", "--loss", "model", "--loss-output", "loss", "--optimizer", "sgd", "--momentum", "0",
                 "--learning-rate", "0.1", "--weight-decay", "0", *options, "-o", plan)
    assert result.returncode == 0, result.stderr
    assert run("verify", plan).returncode == 0
    result = run("run", plan, "--compare", "--seed", SEED, "--dump", folder / "step")
    assert result.returncode == 0, result.stderr + result.stdout
    manifest = json.loads((folder / "step/manifest.json").read_text())
    return {entry["name"]: np.load(folder / "step" / entry["file"]) for entry in manifest}


@functools.cache
def in_pytorch(ignored):
    w = torch.tensor(WEIGHTS).reshape(WIDE, WORDS).double().requires_grad_()
    labels = torch.tensor(integer_input(SEED, "labels", (ROWS,), WORDS))
    logits = torch.tanh(torch.tensor(float_input(SEED, "x", (ROWS, WIDE))).double()) @ w
    loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100 if ignored is None else ignored)
    loss.backward()
    kept = int((labels != ignored).sum()) if ignored is not None else ROWS
    return float(loss.detach()), (w - 0.1 * w.grad).detach().numpy(), kept


# Of the labels that are drawn some are 4.
@pytest.mark.parametrize("ignored", [None, 4])
@pytest.mark.parametrize("cuts", [[], ["logits:n*:2"], ["logits:n*:4"], ["logits:n*:11"], ["loss/log_sum_exp:r1:3"],
                                  ["logits:m:3", "logits:n*:4"]], ids=" ".join)
def test_a_step_in_parts_of_its_classes_is_that_of_pytorch(cuts, ignored, tmp_path):
    loss, weights, kept = in_pytorch(ignored)
    assert (kept < ROWS) == (ignored is not None) and kept > 0
    values = trained(tmp_path, write(tmp_path, ignored), "--rewrite", "loss-by-classes", *(word for cut in cuts for word in ("--cut", cut)))
    assert float(values["loss"]) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(values["new/w"], weights, atol=1e-6)


def test_a_rewrite_that_a_search_has_chosen_is_known_to_whoever_verifies_the_plan(tmp_path):
    model, plan = write(tmp_path, 4, rows=64, wide=16, words=96), tmp_path / "plan.lt"
    result = run("plan", model, "--train", "--loss", "model", "--threads", 1, "--budget", "80%", "--split", "auto", "--no-rewrite",
                 "count-labels-first", "--no-rewrite", "chunked-loss", "-o", plan)
    assert result.returncode == 0, result.stderr
    assert '"loss-by-classes"' in plan.read_text(), "it was chosen"
    result = run("verify", plan, "--against", model)
    assert result.returncode == 0, result.stdout + result.stderr
    result = run("run", plan, "--compare")
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_loss_without_classes_is_planned_as_before(tmp_path):
    model = write(tmp_path, None, rows=4, wide=3, words=0)
    result = run("plan", model, "--train", "--loss", "model", "--budget", "90%", "--split", "auto")
    assert result.returncode == 0, result.stderr


def test_chunks_of_rows_come_before_classes_where_both_are_asked_for(tmp_path):
    model, options = write(tmp_path, None, rows=64, wide=4, words=96), ("chunked-loss", "loss-by-classes")

    def arena(*names):
        rewrites = [word for name in names for word in ("--rewrite", name)]
        result = run("plan", model, "--train", "--loss", "model", "--threads", 1, "--json", *rewrites)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["arena_bytes"]

    assert arena(*options) == arena(*reversed(options)) == arena("chunked-loss") < arena("loss-by-classes")


def test_a_loss_that_is_one_op_says_what_would_part_its_classes(tmp_path):
    model = write(tmp_path, None)
    train = ["plan", model, "--train", "--loss", "model"]
    expect_error(4, "'loss' (CrossEntropy) cannot be cut along c", "--rewrite loss-by-classes", arguments=[*train, "--cut", "loss:c:2"])
    expect_error(4, "'loss' (CrossEntropy) cannot be cut along c", arguments=[*train, "--no-rewrite", "loss-by-classes", "--cut", "loss:c:2"])
    expect_error(4, "extent 11, too few for 12 parts", arguments=[*train, "--rewrite", "loss-by-classes", "--cut", "logits:n*:12"])
