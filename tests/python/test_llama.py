"""The decoders of models/llama.py: attention with shared heads and rotary positions, in blocks of queries."""

import sys

import pytest
from lowtide_cli import MODELS, expect_error, run, run_json

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


def test_no_attention_has_more_blocks_than_rows(tiny):
    asked = ["plan", tiny, "--train", "--dim", "seq=16", "--query-blocks"]
    many, rows = run_json(*asked, "1000"), run_json(*asked, "16")
    assert many["query_blocks"] == rows["query_blocks"] == 16
    assert many["arena_bytes"] == rows["arena_bytes"]
    said = run(*asked, "1000").stdout
    assert "blocks 16 of queries in each attention" in said
    assert "--query-blocks 1000: no attention has more than 16 rows of queries" in said
    assert "--query-blocks" not in run(*asked, "16").stdout
    none = ["plan", MODELS / "unet.onnx", "--train", "--loss", "mse", "--dim", "batch=1", "--query-blocks", "4"]
    assert "query_blocks" not in run_json(*none)


WITHIN = ["--train", "--device", "h100", "--budget", "3MB", "--effort", "0.02"]
NORM = "node_rmsnormalization_36"  # before the head


def longest(model, *flags) -> dict:
    return run_json("plan", model, *WITHIN, "--max", *flags)


def test_the_longest_sequence_is_found_in_blocks_with_its_proof(tiny, tmp_path):
    path = tmp_path / "most.lt"
    made = longest(tiny, "dim=seq:128", "--split", "auto", "--query-blocks", 4, "-o", path)
    most = made["max"]
    assert made["arena_bytes"] <= made["budget_bytes"] == 3_000_000 and made["query_blocks"] == 4
    assert run("verify", path, "--against", tiny).returncode == 0
    assert f'"seq": {most["size"]}' in path.read_text()
    assert most["step"] == 128 and most["size"] % 128 == 0
    assert most["size"] > longest(tiny, "dim=seq:128")["max"]["size"], "in one part"
    assert most["none_found_for"] == most["size"] + 128
    proven = most["proven_too_large"]
    assert proven > most["size"] and most["proven_too_large_floor_bytes"] > 3_000_000
    expect_error(3, "in whatever parts", str(most["proven_too_large_floor_bytes"]),
                 arguments=["plan", tiny, *WITHIN, "--dim", f"seq={proven}",
                            "--split", "auto", "--query-blocks", 4])


def test_parts_that_do_not_divide_the_longest_sequence(tiny, tmp_path):
    path = tmp_path / "uneven.lt"
    split = ["--split", f"1,{NORM}:7", "--query-blocks", 3]
    made = longest(tiny, "seq:290", *split, "-o", path)
    assert made["max"]["size"] % 7 != 0 and made["ops_in_parts"] > 0
    assert run("verify", path, "--against", tiny).returncode == 0
    expect_error(4, NORM, "--max dim=seq:64 at multiples of 64",
                 arguments=["plan", tiny, *WITHIN, "--max", "seq", *split])
    expect_error(2, "--max: '0' is no step of sizes",
                 arguments=["plan", tiny, *WITHIN, "--max", "dim=seq:0"])


def test_the_files_hold_as_many_parameters_as_they_say(tmp_path):
    llama = pytest.importorskip("llama", reason="needs the package onnx")
    said = run("inspect", llama.write("llama8b", tmp_path))
    assert said.returncode == 0 and "8030261248 elements" in said.stdout
