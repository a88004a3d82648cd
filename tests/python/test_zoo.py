"""Networks in the styles of several exporters, beside ONNX Runtime: results, budgets, verified plans. The fastest ones that
together have the most ops; `scripts/bench zoo` runs all of them."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import zoo_cases  # noqa: E402
from lowtide_cli import program  # noqa: E402

# Quick to make and to run: hand-written files and PyTorch's old exporter, mostly.
FORWARD = ["mobilenet_v2", "keras_mobilenet", "keras_squeeze_excite", "paddle_mobilenet_v3", "deep_and_cross", "graph_attention"]


def case(name: str) -> zoo_cases.Case:
    if name.startswith("light_"):
        return zoo_cases.official_case(next(path for path in zoo_cases.official_paths() if path.stem == name))
    return zoo_cases.zoo_case(name)


@pytest.mark.parametrize("name", FORWARD)
def test_results_are_those_of_onnx_runtime(name):
    program()
    verdict = zoo_cases.judged(case(name), rounds=1)
    assert verdict["status"] == "taken", verdict
    assert verdict["arena_bytes"] > 0 and verdict["error"] <= 5e-5, verdict
