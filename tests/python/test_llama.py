"""The decoders of models/llama.py: attention with shared heads and rotary positions, in blocks of queries."""

import sys

import pytest
from lowtide_cli import MODELS, run, run_json

sys.path.insert(1, str(MODELS))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    llama = pytest.importorskip("llama", reason="needs the package onnx")
    return llama.write("llama_tiny", tmp_path_factory.mktemp("llama"))


def planned(model, path, *flags):
    result = run("plan", model, "--train", "--dim", "seq=16", *flags, "-o", path)
    assert result.returncode == 0, result.stderr
    return path


def test_every_attention_runs_in_causal_blocks_and_trains_alike(tiny, tmp_path):
    whole, blocks = planned(tiny, tmp_path / "whole.lt"), planned(tiny, tmp_path / "blocks.lt", "--query-blocks", "4")
    report = run_json("run", blocks, "--steps", 1, "--against", whole)
    assert report["whole_values_beyond"] == 0 and report["whole_values_compared"] > 80
    said = run("plan", tiny, "--train", "--dim", "seq=16", "--query-blocks", "4").stdout
    assert "query-blocks changed 12 ops" in said, "six of each of two layers"


def test_the_files_hold_as_many_parameters_as_they_say(tmp_path):
    llama = pytest.importorskip("llama", reason="needs the package onnx")
    said = run("inspect", llama.write("llama8b", tmp_path))
    assert said.returncode == 0 and "8030261248 elements" in said.stdout
