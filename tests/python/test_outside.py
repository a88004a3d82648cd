"""Networks of packages beside eager mode: 25 that are drawn of bench/outside.py's, each with one plan; the bench has them all, at three budgets
and in all ways."""

import importlib.util
import pathlib
import sys
import zlib

import pytest
from torch_models import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench/outsiders"))
pytest.importorskip("transformers")
import common  # noqa: E402
import eager_judge  # noqa: E402
import sights  # noqa: E402, F401
import texts  # noqa: E402, F401

import lowtide  # noqa: E402

# A draw, not a choice: the first 25 in the bench's drawn order (by the crc of the name) of those whose package .venv has, without those
# that took more than 6 s of processor, or that eager mode does not run.
COSTLY = {
    "clipseg", "cvt", "data2vec-audio", "dpt", "efficientnet", "granitemoe", "ibert", "jetmoe", "led", "llava", "m2m_100", "mobilebert",
    "nystromformer", "prophetnet", "pvt", "qwen3", "recurrent_gemma", "regnet", "segformer", "siglip-pairs", "swiftformer",
    "time_series_transformer", "timesformer"}
DRAWN = sorted((name for name in common.NETWORKS if name.removeprefix("transformers/") not in COSTLY), key=lambda n: zlib.crc32(n.encode()))[:25]
REFUSED = {"transformers/switch_transformers"}  # with a way round
TIGHT, FREE = ("tight",), ("none",)


@pytest.mark.parametrize("name", DRAWN)
def test_a_network_of_a_package_is_eager_modes(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    torch.set_num_threads(1)
    judge = eager_judge.Judge(common.NETWORKS[name].make, effort=0.1, cache=False)
    verdict = judge.verdict("torch", budgets=TIGHT if DRAWN.index(name) % 8 == 1 else FREE)
    assert verdict.status == ("refused" if name in REFUSED else "right"), f"{verdict.said}\n{verdict.details}"
    assert verdict.status == "right" or eager_judge.names_a_way_round(verdict.said), verdict.said


def _program(loss_fn, model=None):
    def make():
        made = model() if model is not None else torch.nn.Linear(4, 4)
        return eager_judge.Program(made, [torch.randn(3, 4) for _ in range(3)], loss_fn, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9))
    return make


def test_the_judge_sees_a_loss_that_differs(monkeypatch):
    judge = eager_judge.Judge(_program(lambda m, x: m(x).square().mean()), effort=0.1)
    judge.seen[2].loss += 1e-6
    assert judge.verdict("torch", budgets=FREE).said.startswith("step 2: the loss is ")


def test_the_judge_sees_state_and_parameters_that_differ():
    for place, said in (("model.weight", "step 1: model.weight is"), ("optimizer.state[0, 1]['momentum_buffer']", "step 1: optimizer.state[0, 1]")):
        judge = eager_judge.Judge(_program(lambda m, x: m(x).square().mean()), effort=0.1)
        judge.seen[1].note.tensors[place].view(-1)[0] += 1e-6
        verdict = judge.verdict("torch", budgets=FREE)
        assert verdict.status == "wrong" and verdict.said.startswith(said), verdict


def test_the_judge_sees_what_a_call_has_changed(monkeypatch):
    made = []

    def spoilt(model, *others, **options):
        made.append(model)
        model.kept = [1]
        model.weight.requires_grad_(False)
        raise lowtide.Unsupported("no")
    monkeypatch.setattr(lowtide, "compile_step", spoilt)
    verdict = eager_judge.Judge(_program(lambda m, x: m(x).square().mean()), effort=0.1).verdict("torch", budgets=FREE)
    assert verdict.status == "wrong" and verdict.said.startswith("compile_step() has changed 3 things: model.weight was"), verdict


@pytest.mark.parametrize(("narrow", "rounding"), [(False, 1e-7), (True, 1e-5)])
def test_the_judge_knows_what_a_program_in_f64_computes_in_f32(narrow, rounding):
    def loss_fn(m, x):
        return m(x).float().softmax(-1).to(x.dtype).square().mean() if narrow else m(x).softmax(-1).square().mean()
    assert eager_judge.Judge(_program(loss_fn), effort=0.1)._roughly()[-1] == rounding


def test_a_program_that_eager_mode_does_not_repeat_is_not_judged():
    count = []

    def loss_fn(model, x):
        count.append(1)
        return model(x).square().mean() * len(count)
    with pytest.raises(eager_judge.NotJudged, match="not equal to itself: step 0: the loss"):
        eager_judge.Judge(_program(loss_fn))


@pytest.mark.parametrize("said,helps", [
    ("Unsupported: a decision on contents (x.py:3); use torch.where in its place", True), ("Unsupported: the op 'x' is not known to the table", False),
    ("Unsupported: batch['a'] is a float; pass it as a tensor", True), ("Unsupported: no", False),
    ("Unsupported: x.py:3: Function 'F' has a backward of its own; engine='torch' has it", True)])
def test_a_refusal_says_what_to_do(said, helps):
    assert eager_judge.names_a_way_round(said) == helps


def test_every_network_of_the_bench_is_entered_once_and_names_its_package():
    for subject in ("lucid", "graphs", "science"):
        importlib.import_module(subject)
    assert len(common.NETWORKS) >= 120
    assert all(isinstance(n.there, bool) and n.package for n in common.NETWORKS.values())
