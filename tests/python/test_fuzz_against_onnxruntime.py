"""Random graphs beside ONNX Runtime (inference) and PyTorch (a training step), each also under budgets with recompute and
swap: the first of those that tests/fuzz_against_onnxruntime draws. By hand any number can be run."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COUNT = int(os.environ.get("LOWTIDE_FUZZ_GRAPHS", "1000"))  # of each kind

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("kind", ["inference", "training"])
def test_random_graphs_agree(kind):
    done = subprocess.run([sys.executable, ROOT / "tests/fuzz_against_onnxruntime", kind, "--count", str(COUNT)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(rf"{kind}: (\d+) graphs: (\d+) equal, 0 wrong, (\d+) refused, (\d+) without", done.stdout)
    assert found, done.stdout
    graphs, equal, refused, unjudged = map(int, found.groups())
    assert graphs == COUNT
    # Most graphs must have been compared: what is drawn is what is taken, and what the judge takes.
    assert refused <= COUNT // 50, done.stdout
    assert equal >= COUNT * 3 // 4, done.stdout
