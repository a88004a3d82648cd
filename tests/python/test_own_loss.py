"""models/own_loss.py: the cross-entropy that it puts behind a model's last output, through the commands that a user has, against
PyTorch: the loss, and what its gradient makes of the weights, for classes in each place, with labels that are ignored and without."""

import json
import subprocess
import sys

import numpy as np
import pytest
from lowtide_cli import MODELS, expect_error, run
from seeded_values import float_input, integer_input

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

import onnx.parser  # noqa: E402

SEED, CLASSES, WIDE = 3, 5, 3
IGNORED = 4  # of the labels that are drawn some are
WEIGHTS = [round(((5 * k) % 17 - 8) / 6, 3) for k in range(WIDE * CLASSES)]

# By where the classes are: the model, and its input's and its labels' dims with a batch of 4. Its last output is scored, not the first.
NETWORKS = {
    "rows": ("float[batch,3] x", "float[batch,5] y", "MatMul(h, w)", "3,5", (4, 3), (4,)),
    "words": ("float[batch,seq,3] x", "float[batch,seq,5] y", "MatMul(h, w)", "3,5", (4, 6, 3), (4, 6)),
    "pixels": ("float[batch,3,2,7] x", "float[batch,5,2,7] y", "Conv(h, w)", "5,3,1,1", (4, 3, 2, 7), (4, 2, 7)),
}


def with_loss(folder, network, *options):
    """The file that the program writes."""
    given, result, product, dims, *_ = NETWORKS[network]
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g ({given}) => ({given.replace(" x", " h")}, {result})
        <float[{dims}] w = {{{",".join(map(str, WEIGHTS))}}}> {{ h = Tanh(x)  y = {product} }}"""
    model, made = folder / "model.onnx", folder / "made.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    command = [sys.executable, str(MODELS / "own_loss.py"), str(model), str(made), *map(str, options)]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
    onnx.checker.check_model(made, full_check=True)
    return made


def in_pytorch(network, ignored):
    """Loss, weights after a step, and how many labels count."""
    *_, dims, given, labelled = NETWORKS[network]
    w = torch.tensor(WEIGHTS).reshape([int(dim) for dim in dims.split(",")]).double().requires_grad_()
    labels = torch.tensor(integer_input(SEED, "labels", labelled, CLASSES))
    h = torch.tanh(torch.tensor(float_input(SEED, "x", given)).double())
    scores = torch.nn.functional.conv2d(h, w) if network == "pixels" else (h @ w).movedim(-1, 1)
    loss = torch.nn.functional.cross_entropy(scores, labels, ignore_index=-100 if ignored is None else ignored)
    loss.backward()
    counted = labels.numel() if ignored is None else int((labels != ignored).sum())
    return float(loss.detach()), (w - 0.1 * w.grad).detach().numpy(), counted, labels.numel()


@pytest.mark.parametrize("ignored", [None, IGNORED])
@pytest.mark.parametrize("network", NETWORKS)
def test_it_is_the_cross_entropy_of_the_last_output(network, ignored, tmp_path):
    loss, weights, counted, all_labels = in_pytorch(network, ignored)
    assert 0 < counted <= all_labels and (counted < all_labels) == (ignored is not None)
    model, plan = with_loss(tmp_path, network, *([] if ignored is None else ["--ignore-index", ignored])), tmp_path / "plan.lt"
    sizes = ["--dim", "batch=4", *(["--dim", "seq=6"] if network == "words" else [])]
    result = run("plan", model, *sizes, "--train", "--loss", "model", "--loss-output", "loss", "--optimizer", "sgd", "--momentum", "0",
                 "--learning-rate", "0.1", "--weight-decay", "0", "-o", plan)
    assert result.returncode == 0, result.stderr
    result = run("run", plan, "--steps", "1", "--compare", "--seed", SEED, "--dump", tmp_path / "step")
    assert result.returncode == 0, result.stderr + result.stdout
    files = {entry["name"]: entry["file"] for entry in json.loads((tmp_path / "step/manifest.json").read_text())}
    made = {name: np.load(tmp_path / "step" / files[name]) for name in ("loss", "new/w")}
    assert float(made["loss"]) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(made["new/w"], weights, atol=1e-6)


@pytest.mark.parametrize("network, dims", [("rows", ["batch"]), ("words", ["batch", "seq"]), ("pixels", ["batch", 2, 7])])
def test_the_loss_is_the_only_result_and_the_labels_are_a_new_input(network, dims, tmp_path):
    graph = onnx.load(with_loss(tmp_path, network)).graph
    assert [value.name for value in graph.output] == ["loss"]
    assert [value.name for value in graph.input] == ["x", "labels"]
    assert [dim.dim_param or dim.dim_value for dim in graph.input[1].type.tensor_type.shape.dim] == dims
    assert graph.input[1].type.tensor_type.elem_type == onnx.TensorProto.INT64


def test_without_the_name_of_its_loss_the_plan_is_refused(tmp_path):
    """As the program's own text says, the step is asked for with --loss-output."""
    expect_error(2, "'loss'", "--loss model", arguments=["plan", with_loss(tmp_path, "rows"), "--dim", "batch=4", "--train"])
