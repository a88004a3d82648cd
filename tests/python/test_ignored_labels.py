"""A loss whose labels may be ignored, in parts of its rows, through the commands that a user has, against PyTorch: labels as they are fed,
labels that the model moves by one word first (as language models do), and classes with weights; a loss of the model's own, or attached
(--ignore-index). What is no class and not ignored is refused in one part and in many by the plain mean, the op CrossEntropy; a loss with
weights, with another reduction or of log-probabilities is made of other ops, which refuse nothing, in one part and in many."""

import functools
import json

import numpy as np
import pytest
from lowtide_cli import expect_error, run, run_json
from seeded_values import float_input, integer_input

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

import onnx.parser  # noqa: E402

import lowtide  # noqa: E402
from lowtide import plans, sessions  # noqa: E402

SEED = 5
BATCH, WORDS, WIDE, CLASSES = 4, 6, 3, 7
IGNORED = 5
WEIGHTS = [round(((7 * k) % 23 - 11) / 8, 3) for k in range(WIDE * CLASSES)]
BY_CLASS = [0.5, 1.5, 1.0, 2.0, 0.25, 1.0, 3.0]
LABELS = {
    "fed": "flat = Reshape(labels, all)",
    "moved": "padded = Pad(labels, pads, fill)  moved = Slice(padded, one, end, one)  flat = Reshape(moved, all)",
}


def write(folder, labels, weighted):
    weights = f"by_class = Constant <value_floats: floats = {BY_CLASS}> ()" if weighted else ""
    text = f"""g (float[{BATCH},{WORDS},{WIDE}] x, int64[{BATCH},{WORDS}] labels) => (float loss)
        <float[{WIDE},{CLASSES}] w = {{{",".join(map(str, WEIGHTS))}}},
         int64[1] all = {{-1}}, int64[2] rows = {{-1, {CLASSES}}}, int64[4] pads = {{0, 0, 0, 1}}, int64 fill = {{{IGNORED}}},
         int64[1] one = {{1}}, int64[1] end = {{{WORDS + 1}}}>
        {{ h = Tanh(x)  scores = MatMul(h, w)  logits = Reshape(scores, rows)  {LABELS[labels]}  {weights}
           loss = SoftmaxCrossEntropyLoss <ignore_index: int = {IGNORED}> (logits, flat{", by_class" if weighted else ""}) }}"""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + text), path)
    return path


@functools.cache
def in_pytorch(labels, weighted):
    w = torch.tensor(WEIGHTS).reshape(WIDE, CLASSES).double().requires_grad_()
    fed = torch.tensor(integer_input(SEED, "labels", (BATCH, WORDS), CLASSES))
    if labels == "moved":
        fed = torch.nn.functional.pad(fed, (0, 1), value=IGNORED)[:, 1:]
    assert 0 < int((fed == IGNORED).sum()) < fed.numel()
    logits = torch.tanh(torch.tensor(float_input(SEED, "x", (BATCH, WORDS, WIDE))).double()) @ w
    by_class = torch.tensor(BY_CLASS).double() if weighted else None
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, CLASSES), fed.reshape(-1), weight=by_class, ignore_index=IGNORED)
    loss.backward()
    return float(loss.detach()), (w - 0.1 * w.grad).detach().numpy()


def step_of(model, *options):
    return ["plan", model, "--train", "--loss", "model", "--loss-output", "loss", "--optimizer", "sgd", "--momentum", "0", "--learning-rate",
            "0.1", "--weight-decay", "0", *options]


def trained(folder, model, *options):
    plan = folder / "plan.lt"
    result = run(*step_of(model, *options), "-o", plan)
    assert result.returncode == 0, result.stderr
    result = run("verify", plan, "--against", model)
    assert result.returncode == 0, result.stdout + result.stderr
    result = run("run", plan, "--compare", "--seed", SEED, "--dump", folder / "step")
    assert result.returncode == 0, result.stderr + result.stdout
    manifest = json.loads((folder / "step/manifest.json").read_text())
    kinds = [op["kind"] for op in json.loads(plan.read_text())["ops"]]
    return {entry["name"]: np.load(folder / "step" / entry["file"]) for entry in manifest}, kinds


SPLITS = [["--split", "2"], ["--split", "4"]]
PLAIN = [["--cut", "logits:a0:2"], ["--rewrite", "chunked-loss"], ["--rewrite", "loss-by-classes", "--split", "2", "--cut", "scores:n*:7"]]
CASES = [(labels, weighted, options) for labels in LABELS for weighted in (False, True) for options in (SPLITS if weighted else SPLITS + PLAIN)]


@pytest.mark.parametrize(("labels", "weighted", "options"), CASES)
def test_a_step_in_parts_of_its_rows_is_that_of_pytorch(labels, weighted, options, tmp_path):
    """Classes with weights are other ops, which chunked-loss and loss-by-classes leave as they are."""
    loss, weights = in_pytorch(labels, weighted)
    values, kinds = trained(tmp_path, write(tmp_path, labels, weighted), *options)
    assert float(values["loss"]) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(values["new/w"], weights, atol=1e-6)
    assert ("LabelCount" in kinds) != weighted, "one for all rows"
    assert kinds.count("LabelCount") <= 1
    if "--cut" not in options or "--split" in options:
        gradient = "LogSoftmaxGrad" if weighted else "CrossEntropyGrad"
        assert kinds.count(gradient) > 1, "rows are in parts"


@pytest.mark.parametrize("options", SPLITS)
def test_a_loss_that_divides_by_the_sum_of_a_mask_is_that_of_pytorch(options, tmp_path):
    """The mask is fed as floats, so parts wait for its sum."""
    wide, classes = 32, 200
    values = [round(((7 * k) % 23 - 11) / 40, 3) for k in range(wide * classes)]
    text = f"""g (float[{BATCH},{WORDS},{wide}] x, int64[{BATCH},{WORDS}] labels, float[{BATCH},{WORDS}] mask) => (float loss)
        <float[{wide},{classes}] w = {{{",".join(map(str, values))}}}, int64[1] all = {{-1}}, int64[2] rows = {{-1, {classes}}}>
        {{ h = Tanh(x)  scores = MatMul(h, w)  logits = Reshape(scores, rows)  flat = Reshape(labels, all)  weights = Reshape(mask, all)
           each = SoftmaxCrossEntropyLoss <reduction: string = "none"> (logits, flat)  kept = Mul(each, weights)
           total = ReduceSum <keepdims: int = 0> (kept)  count = ReduceSum <keepdims: int = 0> (weights)  loss = Div(total, count) }}"""
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + text), model)
    w = torch.tensor(values).reshape(wide, classes).double().requires_grad_()
    x, mask = (torch.tensor(float_input(SEED, name, dims)).double() for name, dims in (("x", (BATCH, WORDS, wide)), ("mask", (BATCH, WORDS))))
    each = torch.nn.functional.cross_entropy((torch.tanh(x) @ w).reshape(-1, classes),
                                             torch.tensor(integer_input(SEED, "labels", (BATCH, WORDS), classes)).reshape(-1), reduction="none")
    kept = each * mask.reshape(-1)
    loss = kept.sum() / mask.sum()
    loss.backward()
    found, kinds = trained(tmp_path, model, *options)
    cancelled = float((kept.detach().abs().sum() / kept.detach().sum().abs()) + mask.abs().sum() / mask.sum().abs())  # weights have signs
    assert cancelled < 1e3
    assert float(found["loss"]) == pytest.approx(float(loss.detach()), rel=2e-7 * cancelled)
    np.testing.assert_allclose(found["new/w"], (w - 0.1 * w.grad).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert kinds.count("LogSoftmaxGrad") == int(options[1]), "rows are in parts"


def write_scores(folder, tail="", own=""):
    """The scores of all words, or what the model makes of them and of `own` inputs: its own loss."""
    text = f"""g (float[{BATCH},{WORDS},{WIDE}] x{own}) => ({"float loss" if tail else f"float[rows,{CLASSES}] logits"})
        <float[{WIDE},{CLASSES}] w = {{{",".join(map(str, WEIGHTS))}}}, int64[2] rows = {{-1, {CLASSES}}}, int64 one = {{1}}>
        {{ h = Tanh(x)  scores = MatMul(h, w)  logits = Reshape(scores, rows)  {tail} }}"""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> ' + text), path)
    return path


class Attached:
    """Steps of an attached loss, and the same in PyTorch: loss and weights after each."""

    def __init__(self, folder, *options):
        model, plan = write_scores(folder), folder / "plan.lt"
        result = run("plan", model, "--train", "--optimizer", "sgd", "--momentum", "0", "--learning-rate", "0.1", "--weight-decay", "0",
                     *options, "-o", plan)
        assert result.returncode == 0, result.stderr
        for command in ("verify", "run"):
            result = run(command, plan, "--against", model)
            assert result.returncode == 0, result.stdout + result.stderr
        self.kinds = [op["kind"] for op in json.loads(plan.read_text())["ops"]]
        self.session = sessions.Session(plans.Plan.load(plan), [], threads=1)
        self.x = np.ascontiguousarray(float_input(SEED, "x", (BATCH, WORDS, WIDE)), np.float32)
        self.session.set("x", self.x.ctypes.data, self.x.nbytes)
        self.w = torch.tensor(WEIGHTS).reshape(WIDE, CLASSES).double()

    def feed(self, labels):
        labels = np.ascontiguousarray(labels, np.int64)
        self.session.set("labels", labels.ctypes.data, labels.nbytes)

    def get(self, name, dims):
        found = np.empty(dims, np.float32)
        self.session.get(name, found.ctypes.data, found.nbytes)
        return found

    def expect_step_of_pytorch(self, labels, **ignored):
        w = self.w.clone().requires_grad_()
        logits = torch.tanh(torch.tensor(self.x).double()) @ w
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, CLASSES), torch.tensor(labels), **ignored)
        loss.backward()
        self.w = (w - 0.1 * w.grad).detach()
        self.feed(labels)
        self.session.run()
        assert float(self.get("loss", ())) == pytest.approx(float(loss.detach()), rel=1e-5)
        np.testing.assert_allclose(self.get("w", (WIDE, CLASSES)), self.w.numpy(), atol=1e-6)

    def expect_refusal(self, labels, *words):
        self.feed(labels)
        with pytest.raises(lowtide.BadInput) as refused:
            self.session.run()
        for word in ("was refused, nothing has changed", *words):
            assert word in str(refused.value)
        assert "\n" not in str(refused.value)


SETTINGS = [[], *SPLITS, ["--split", "4", "--no-rewrite", "count-labels-first"], *PLAIN]


@pytest.mark.parametrize("options", SETTINGS)
def test_an_attached_loss_leaves_out_what_it_is_told_to(options, tmp_path):
    labels = integer_input(SEED, "labels", (BATCH * WORDS,), CLASSES)
    some = np.where(np.arange(BATCH * WORDS) % 5 < 2, -100, labels)  # another number of them in each part
    some[:WORDS + 1] = -100
    step = Attached(tmp_path, "--ignore-index", "-100", *options)
    if options[:1] == ["--split"] and "--no-rewrite" not in options:
        assert step.kinds.count("CrossEntropyGrad") > 1, "rows are in parts"
    step.expect_step_of_pytorch(some)
    step.expect_step_of_pytorch(labels)
    for bad in (CLASSES, -1, 2**62):
        step.expect_refusal(np.where(np.arange(BATCH * WORDS) == 20, bad, some), f"label {bad} of row ", "nor -100, which is ignored")
    step.expect_step_of_pytorch(some)


@pytest.mark.parametrize("options", SETTINGS)
def test_an_attached_loss_takes_classes_alone_unless_it_is_told(options, tmp_path):
    """PyTorch, too, has an error for a label that is neither a class nor the one that is ignored."""
    labels = integer_input(SEED, "labels", (BATCH * WORDS,), CLASSES)
    step = Attached(tmp_path, *options)
    assert "LabelCount" not in step.kinds
    step.expect_step_of_pytorch(labels, ignore_index=-1)
    parts = int(options[1]) if options[:1] == ["--split"] else None if options else 1
    for row in (0, 20):
        for bad in (-100, CLASSES):
            its = f"{row % (BATCH * WORDS // parts)} of this op's {BATCH * WORDS // parts}, counted from 0," if parts else ""
            step.expect_refusal(np.where(np.arange(BATCH * WORDS) == row, bad, labels), f"label {bad} of row {its}", "no label is ignored; one to leave",
                                "plan --ignore-index of an attached loss, by ignore_index in a model's own")
    with pytest.raises(IndexError):
        step.expect_step_of_pytorch(np.where(labels == labels[0], CLASSES, labels), ignore_index=-1)
    step.expect_step_of_pytorch(labels, ignore_index=-1)


@pytest.mark.parametrize("options", [[], ["--split", "4"], ["--cut", "logits:a0:2"], ["--rewrite", "loss-by-classes"]])
@pytest.mark.parametrize("ignored", [None, 3])
def test_run_refuses_what_a_model_makes_of_its_labels(ignored, options, tmp_path):
    """Labels are drawn among the classes; this model takes one off, and ONNX wants its loss's labels to be classes."""
    attribute = "" if ignored is None else f" <ignore_index: int = {ignored}> "
    tail = f"off = Sub(labels, one)  loss = SoftmaxCrossEntropyLoss{attribute}(logits, off)"
    model, plan = write_scores(tmp_path, tail, f", int64[{BATCH * WORDS}] labels"), tmp_path / "plan.lt"
    assert 0 in integer_input(SEED, "labels", (BATCH * WORDS,), CLASSES)
    result = run(*step_of(model), *options, "-o", plan)
    assert result.returncode == 0, result.stderr
    for more in ([], ["--compare"]):
        expect_error(4, "step 1 was refused", "op 'loss", "label -1 of row ", f"none of the {CLASSES} classes",
                     arguments=["run", plan, "--seed", SEED, *more])


WRITTEN_OUT = {
    "weighted": f"by_class = Constant <value_floats: floats = {BY_CLASS}> ()  loss = SoftmaxCrossEntropyLoss (logits, labels, by_class)",
    "sum": 'loss = SoftmaxCrossEntropyLoss <reduction: string = "sum"> (logits, labels)',
    "none": 'each = SoftmaxCrossEntropyLoss <reduction: string = "none"> (logits, labels)  loss = ReduceMean <keepdims: int = 0> (each)',
    "likelihood": "logs = LogSoftmax <axis: int = 1> (logits)  loss = NegativeLogLikelihoodLoss (logs, labels)",
}


def written_out_in_pytorch(loss, labels):
    """Negative labels count from the end; what lies outside of the classes has log-probability and weight 0."""
    w = torch.tensor(WEIGHTS).reshape(WIDE, CLASSES).double().requires_grad_()
    logits = torch.tanh(torch.tensor(float_input(SEED, "x", (BATCH, WORDS, WIDE))).double()) @ w
    labels = torch.tensor(np.where(labels < 0, labels + CLASSES, labels))
    inside = (labels >= 0) & (labels < CLASSES)
    place = labels.where(inside, 0)
    each = -logits.reshape(-1, CLASSES).log_softmax(1).gather(1, place[:, None])[:, 0] * inside
    by_class = torch.tensor(BY_CLASS).double()[place] * inside
    total = (each * by_class).sum() / by_class.sum() if loss == "weighted" else each.sum() if loss == "sum" else each.mean()
    total.backward()
    return float(total.detach()), (w - 0.1 * w.grad).detach().numpy()


@pytest.mark.parametrize("loss", WRITTEN_OUT)
def test_losses_that_are_written_out_refuse_no_label(loss, tmp_path):
    """As the ops that they are made of read indices (docs/ops.md). PyTorch refuses such labels."""
    model, plan = write_scores(tmp_path, WRITTEN_OUT[loss], f", int64[{BATCH * WORDS}] labels"), tmp_path / "plan.lt"
    x = np.ascontiguousarray(float_input(SEED, "x", (BATCH, WORDS, WIDE)), np.float32)
    labels = np.ascontiguousarray(integer_input(SEED, "labels", (BATCH * WORDS,), CLASSES), np.int64)
    labels[[1, 8, 14, 20, 23]] = [CLASSES, -1, -CLASSES - 1, 2**62, -100]
    expected_loss, expected_w = written_out_in_pytorch(loss, labels)
    for options in ([], ["--split", "4"]):
        result = run(*step_of(model), *options, "-o", plan)
        assert result.returncode == 0, result.stderr
        kinds = [op["kind"] for op in json.loads(plan.read_text())["ops"]]
        assert (kinds.count("LogSoftmaxGrad") > 1) == bool(options) and "CrossEntropy" not in kinds
        session = sessions.Session(plans.Plan.load(plan), [], threads=1)
        session.set("x", x.ctypes.data, x.nbytes)
        session.set("labels", labels.ctypes.data, labels.nbytes)
        session.run()
        found_loss, found_w = np.empty((), np.float32), np.empty((WIDE, CLASSES), np.float32)
        for name, found in (("loss", found_loss), ("w", found_w)):
            session.get(name, found.ctypes.data, found.nbytes)
        assert float(found_loss) == pytest.approx(expected_loss, rel=1e-5)
        np.testing.assert_allclose(found_w, expected_w, atol=1e-6)


class LanguageModel(torch.nn.Module):
    """Its own loss, on labels that it moves by one word, as Hugging Face's language models do."""

    def __init__(self):
        super().__init__()
        self.words, self.layer, self.head = torch.nn.Embedding(97, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 97)

    def forward(self, ids, labels):
        logits = self.head(torch.tanh(self.layer(self.words(ids))))
        moved = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return torch.nn.functional.cross_entropy(logits.view(-1, 97), moved.view(-1))


def test_what_pytorch_exports_with_its_own_loss_is_cut_along_its_rows(tmp_path):
    """PyTorch always says which label is ignored."""
    model, plan = tmp_path / "model.pt2", tmp_path / "plan.lt"
    ids = torch.randint(0, 97, (8, 16))
    torch.export.save(torch.export.export(LanguageModel(), (ids, ids)), model)
    step = ["plan", model, "--train", "--loss", "model"]
    coupled = run_json(*step, "--split", 4, "--no-rewrite", "count-labels-first")
    made = run_json(*step, "--split", 4, "-o", plan)
    assert made["rewrites"]["count-labels-first"]["ops"] == 2
    assert made["arena_bytes"] < coupled["arena_bytes"]
    result = run("verify", plan, "--against", model)
    assert result.returncode == 0 and " of its ops run in " in result.stdout, result.stdout + result.stderr
    result = run("run", plan, "--compare", "--seed-weights")
    assert result.returncode == 0, result.stdout + result.stderr
