"""Fronts of every model, executed: each plan verifies, keeps its budget, runs in an arena of exactly its size, and gives the
unplanned step's results bit for bit; with less memory no plan is faster. By recompute, by swap, and by both.

The whole check is LOWTIDE_BUDGETS=10: so many budgets from the floor to what needs none, every model, every way. Without it, three
budgets, every way on one model, and both together on a second.
"""

import json
import os
import pathlib

import pytest
from lowtide_cli import MODELS, run, run_json

WHOLE = "LOWTIDE_BUDGETS" in os.environ
BUDGETS = int(os.environ.get("LOWTIDE_BUDGETS", "3"))
# The arena, not the time, is what these tests are about: small batches. Those of the transformers are large enough in the whole
# check that their activations count beside the parameters.
DIMS = {"resnet50": ["batch=1"], "unet": ["batch=1"], "gpt2": ["batch=1", "seq=64"], "bert": ["batch=1", "seq=64"]}
if WHOLE:
    DIMS |= {"gpt2": ["batch=2", "seq=256"], "bert": ["batch=2", "seq=128"]}
WAYS = {"recompute": [], "swap": ["--no-recompute", "--swap", "host"], "both": ["--swap", "host"]}


CASES = [(model, way) for model in DIMS for way in WAYS if WHOLE or (model, way) == ("resnet50", "both")]


@pytest.mark.parametrize("model,way", CASES)
def test_every_plan_of_a_front_holds(model: str, way: str, tmp_path: pathlib.Path):
    dims = [word for dim in DIMS[model] for word in ("--dim", dim)]
    prefix = tmp_path / "front"
    swept = run("sweep", MODELS / f"{model}.onnx", "--train", *dims, *WAYS[way], "--budgets", f"floor..100%:{BUDGETS}",
                "--effort", "0.5", "--plans", "-o", prefix)
    assert swept.returncode == 0, swept.stderr
    points = [json.loads(line) for line in pathlib.Path(f"{prefix}.jsonl").read_text().splitlines()]
    found = [point for point in points if point["found"]]
    # At the floor itself there may be no plan: it is proven that less is impossible, not that so much is enough.
    assert found[:len(points) - 1] == points[:-1], [point["reason"] for point in points]
    for more, less in zip(found, found[1:]):
        assert less["predicted_step_seconds"] >= more["predicted_step_seconds"]
        assert less["arena_bytes"] <= more["arena_bytes"]
    for point in found:
        path = pathlib.Path(f"{prefix}-{point['budget_bytes']}.lt")
        assert run("verify", path).returncode == 0
        report = run_json("run", path, "--steps", "2", "--compare")
        assert report["arena_measured_bytes"] == point["arena_bytes"] <= point["budget_bytes"]
        assert report["max_abs_difference"] == 0
        path.unlink()
