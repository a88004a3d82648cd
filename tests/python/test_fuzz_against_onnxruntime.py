"""Random graphs beside ONNX Runtime (inference, and what is evaluated while a model is read) and PyTorch (a training step),
inference and training also under budgets with recompute and swap: the first of those that tests/fuzz_against_onnxruntime
draws. By hand any number can be run."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MORE = 40 if "LOWTIDE_LONG" in os.environ else 1
# Of each kind: how many, and which part at most is not compared. Many training graphs come to nothing finite.
KINDS = {"inference": (500, 0.1), "training": (300, 0.25), "folding": (200, 0.02)}

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("kind", KINDS)
def test_random_graphs_agree(kind):
    count, unjudged_part = KINDS[kind][0] * MORE, KINDS[kind][1]
    done = subprocess.run([sys.executable, ROOT / "tests/fuzz_against_onnxruntime", kind, "--count", str(count)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(rf"{kind}: (\d+) graphs: (\d+) equal, 0 wrong, (\d+) refused, (\d+) without", done.stdout)
    assert found, done.stdout
    graphs, equal, refused, unjudged = map(int, found.groups())
    assert graphs == count == equal + refused + unjudged
    # Most graphs must have been compared: what is drawn is what is taken, and what the judge takes.
    assert refused <= count // 50, done.stdout
    assert refused + unjudged <= unjudged_part * count, done.stdout
