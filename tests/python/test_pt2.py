"""Exported programs (.pt2): results and whole training steps beside PyTorch, plans beside those of the ONNX door, bad archives.
A few small networks here; `scripts/bench pt2` runs all of pt2_networks.py."""

import json
import os
import re
import shutil
import zipfile

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import pt2_judge  # noqa: E402
import pt2_networks  # noqa: E402
from lowtide_cli import expect_error, program, run, run_json  # noqa: E402

WHOLE = list(pt2_networks.NETWORKS) if "LOWTIDE_LONG" in os.environ else ["resnet", "gpt2", "lora", "mixture"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pt2")
    made = {}

    def save(name):
        if name not in made:
            made[name] = pt2_networks.save(name, folder)
        return made[name]

    return save


@pytest.mark.parametrize("name", WHOLE)
def test_results_and_training_steps_are_those_of_pytorch(name, saved):
    program()
    path = saved(name)
    ours, theirs = pt2_judge.forward(name, path)
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    verdict = pt2_judge.zoo_training.judged(pt2_judge.network(name, path))
    assert verdict["status"] == "taken", verdict
    assert verdict["parameters"] > 3, verdict


def test_both_doors_give_the_same_plan(saved, tmp_path):
    """Of attention the ONNX exporter scales queries and keys and turns keys by two views, so its plans of transformers have a few
    ops more."""
    pytest.importorskip("onnxscript")
    here, there = pt2_judge.plan_of(saved("resnet")), pt2_judge.plan_of(pt2_judge.onnx_file("resnet", tmp_path))
    assert (here["ops"], here["arena_bytes"], here["peak_bytes"]) == (there["ops"], there["arena_bytes"], there["peak_bytes"])


def test_what_a_program_holds_is_told(saved):
    text = run("inspect", saved("lora")).stdout
    assert "an exported program" in text and "input ids INT64 (s" in text and "(2 to 64, exported with " in text and "aten.linear.default 7" in text
    assert "unsupported none" in text
    sizes = re.findall(r"(s\d+) \(\d+ to \d+, exported with (\d+)\)", text)
    refused = run("plan", saved("lora"), "--train")
    assert refused.returncode == 2 and any(f"as in --dim {symbol}={size}" in refused.stderr for symbol, size in sizes)
    trained = sum(p.numel() for p in pt2_networks.build("lora").parameters() if p.requires_grad)
    assert f"({trained} trained)" in text


def test_a_training_step_of_frozen_weights_keeps_no_state_for_them(saved):
    path = saved("lora")
    dims = [part for key, size in pt2_judge.sizes("lora", path).items() for part in ("--dim", f"{key}={size}")]
    plan = path.parent / "lora.lt"
    assert run("plan", path, "--train", "--loss", "model", *dims, "-o", plan).returncode == 0
    values = json.loads(plan.read_text())["values"]
    moments = {value["name"] for value in values if value["name"].startswith("m/")}
    assert not any("layer.weight" in name or "embed" in name for name in moments)


def test_sizes_outside_of_what_was_exported_are_usage(saved):
    path = saved("lora")
    symbol = pt2_judge.symbols(path)[0]
    expect_error(2, f"--dim {symbol}=65", "2 to 64", arguments=["plan", path, "--dim", f"{symbol}=65"])


def test_ops_without_a_row_are_planned_and_neither_run_nor_differentiated(tmp_path):
    class Scans(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            y, _ = torch.cummax(x * self.w, 1)
            return torch.logcumsumexp(y, 1).relu()

    path, plan = tmp_path / "scans.pt2", tmp_path / "p.lt"
    torch.export.save(torch.export.export(Scans(), (torch.zeros(3, 4),)), path)
    assert run("plan", path, "-o", plan).returncode == 0
    assert run("verify", plan).returncode == 0
    kinds = [op["kind"] for op in json.loads(plan.read_text())["ops"]]
    assert kinds.count("Opaque") == 2
    expect_error(4, "'aten.cummax.default' 1", "'aten.logcumsumexp.default' 1", arguments=["run", plan, "--model-folder", tmp_path])
    expect_error(4, "aten.cummax.default 1 (cummax)", "aten.logcumsumexp.default 1 (logcumsumexp)",
                 arguments=["plan", path, "--train", "--loss", "mse"])


def rewritten(path, change, deflated=False):
    """The archive again, with members changed: change(name, contents) gives new contents or none."""
    with zipfile.ZipFile(path) as archive:
        members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    other = path.with_name("changed.pt2")
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED) as archive:
        for name, contents in members:
            new = change(name, contents)
            if new is not None:
                archive.writestr(name, new)
    return other


def test_a_deflated_archive_gives_the_same_results(saved):
    path = saved("lora")
    changed = rewritten(path, lambda name, contents: contents, deflated=True)
    assert pt2_judge.forward("lora", changed) == pt2_judge.forward("lora", path)


def test_bad_archives_are_refused_in_one_line(saved, tmp_path):
    path = saved("lora")
    whole = path.read_bytes()
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(whole[: len(whole) // 2])
    expect_error(4, "cut.pt2", "no zip archive, or cut short", arguments=["plan", cut])
    expect_error(4, "nothing.pt2", arguments=["plan", tmp_path / "nothing.pt2"])

    def model(edit):
        return lambda name, contents: edit(contents) if name.endswith("models/model.json") else contents

    def config(edit):
        return lambda name, contents: edit(contents) if name.endswith("model_weights_config.json") else contents

    cases = {
        "schema version 8": model(lambda text: text.replace(b'"major": 8', b'"major": 9')),
        "no JSON": model(lambda text: text[:100]),
        "is in no member of the archive": lambda name, contents: None if name.endswith("weight_0") else contents,
        "the archive has no contents for weight": config(lambda text: b'{"config": {}}'),
        "only there as a pickle": config(lambda text: text.replace(b'"use_pickle": false', b'"use_pickle": true')),
        "type 99, which is not computed with": config(lambda text: text.replace(b'"dtype": 7', b'"dtype": 99')),
        "no exported program": lambda name, contents: None if name.endswith("model.json") else contents,
    }
    for words, change in cases.items():
        expect_error(4, "changed.pt2", words, arguments=["plan", rewritten(path, change)])
    damaged = tmp_path / "damaged.pt2"
    at = whole.index(b"torch.ops.aten")
    damaged.write_bytes(whole[:at] + b"T" + whole[at + 1:])
    expect_error(4, "damaged.pt2", "models/model.json' is damaged", arguments=["plan", damaged])


def test_weights_are_read_from_the_archive_beside_the_plan(saved, tmp_path):
    path, plan = saved("lora"), tmp_path / "p.lt"
    dims = [part for key, size in pt2_judge.sizes("lora", path).items() for part in ("--dim", f"{key}={size}")]
    assert run_json("plan", path, *dims, "-o", plan)["external_weights"] > 0
    expect_error(2, "--model-folder", arguments=["run", plan])
    shutil.copy(path, tmp_path / path.name)
    assert run("run", plan, "--model-folder", tmp_path).returncode == 0
