"""What Lowtide evaluates while it reads a model, beside ONNX Runtime: some hundred random graphs of constants
(tests/fuzz_against_onnxruntime/folding.py)."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COUNT = 400

pytest.importorskip("onnxruntime")


def test_folded_graphs_agree_with_onnx_runtime():
    done = subprocess.run([sys.executable, ROOT / "tests/fuzz_against_onnxruntime", "folding", "--count", str(COUNT)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"folding: (\d+) graphs: (\d+) equal, 0 wrong, (\d+) refused, (\d+) without", done.stdout)
    assert found, done.stdout
    graphs, equal, refused, unjudged = map(int, found.groups())
    assert graphs == COUNT
    assert refused + unjudged <= COUNT // 50, done.stdout
    assert equal >= COUNT - COUNT // 50
