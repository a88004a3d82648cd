"""A whole training step of each model, planned and executed, against PyTorch: loss, every gradient, every updated weight."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pytorch_reference as reference  # noqa: E402
from lowtide_cli import MODELS, run  # noqa: E402

SEED = 1
CASES = {
    "gpt2": dict(batch=1, seq=16),
    "resnet50": dict(batch=2, seq=0),
    "unet": dict(batch=1, seq=0),
}


def lowtide_step(name: str, folder) -> dict[str, np.ndarray]:
    dims = [argument for key, size in CASES[name].items() if size for argument in ("--dim", f"{key}={size}")]
    plan = folder / "plan.lt"
    result = run("plan", MODELS / f"{name}.onnx", "--train", "--dropout", "off", *dims, "-o", plan)
    assert result.returncode == 0, result.stderr
    result = run("run", plan, "--steps", "1", "--seed", SEED, "--dump", folder / "step")
    assert result.returncode == 0, result.stderr
    manifest = json.loads((folder / "step/manifest.json").read_text())
    return {entry["name"]: np.load(folder / "step" / entry["file"]) for entry in manifest}


def find(values: dict[str, np.ndarray], *names: str) -> np.ndarray:
    for name in names:
        if name in values:
            return values[name]
    raise AssertionError(f"none of {names} was dumped")


def relative_error(ours: np.ndarray, theirs: torch.Tensor) -> float:
    theirs = theirs.double().numpy().reshape(ours.shape)
    scale = max(np.linalg.norm(theirs), 1e-12)
    return float(np.linalg.norm(ours.astype(np.float64) - theirs) / scale)


@pytest.mark.parametrize("name", CASES)
def test_step_agrees_with_pytorch(name, tmp_path):
    ours = lowtide_step(name, tmp_path)
    theirs = reference.training_step(name, seed=SEED, size=None, **CASES[name])
    assert float(ours["loss"]) == pytest.approx(theirs.loss, rel=1e-4)
    largest = max(float(gradient.double().norm()) for gradient in theirs.gradients.values())
    assert theirs.gradients
    for key, gradient in theirs.gradients.items():
        mine = find(ours, f"grad/{key}/row_major", f"grad/{key}")
        # A gradient that is zero but for rounding (a bias before a normalization) is held against the largest.
        error = np.linalg.norm(mine.astype(np.float64) - gradient.double().numpy().reshape(mine.shape))
        assert error <= 2e-3 * float(gradient.double().norm()) + 1e-6 * largest, (key, error)
    # AdamW's first step is lr * sign(gradient) where the gradient is not tiny, so weights agree to a fraction of it.
    step_size = reference.ADAMW["lr"]
    for key, weight in theirs.updated.items():
        mine = find(ours, f"new/{key}")
        difference = np.abs(mine.astype(np.float64) - weight.double().numpy().reshape(mine.shape))
        assert np.mean(difference > 0.1 * step_size) < 0.01, key
