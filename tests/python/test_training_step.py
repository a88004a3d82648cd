"""A whole training step of each model, planned and executed, against PyTorch: loss, every gradient, every updated weight."""

import json
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pytorch_reference as reference  # noqa: E402
from lowtide_cli import MODELS, run  # noqa: E402

SEED = 1
CASES = {
    "gpt2": dict(batch=1, seq=16),
    "bert": dict(batch=2, seq=16),
    "resnet50": dict(batch=2, seq=0),
    "unet": dict(batch=1, seq=0),
}


def lowtide_step(name: str, folder, *flags) -> dict[str, np.ndarray]:
    dims = [argument for key, size in CASES[name].items() if size for argument in ("--dim", f"{key}={size}")]
    plan = folder / "plan.lt"
    result = run("plan", MODELS / f"{name}.onnx", "--train", "--dropout", "off", *dims, *flags, "-o", plan)
    assert result.returncode == 0, result.stderr
    result = run("run", plan, "--steps", "1", "--seed", SEED, "--dump", folder / "step")
    assert result.returncode == 0, result.stderr
    manifest = json.loads((folder / "step/manifest.json").read_text())
    return {entry["name"]: np.load(folder / "step" / entry["file"]) for entry in manifest}


def gradient_of(values: dict[str, np.ndarray], key: str, parts: int) -> np.ndarray:
    """In row-major order where it has another one; of a step in parts what the last part has added to."""
    last = f"grad/{key}/part{parts - 1}"
    for name in (f"grad/{key}/row_major", f"grad/{key}", f"{last}/row_major", last):
        if name in values:
            return values[name]
    raise AssertionError(f"no gradient of {key} was dumped")


def distance(ours: np.ndarray, exact: torch.Tensor) -> float:
    return float(np.linalg.norm(ours.astype(np.float64) - exact.double().numpy().reshape(ours.shape)))


# A convolutional network, whole and in parts; the others are a long check. Small transformers are trained beside PyTorch in test_zoo.py.
WHOLE = [(name, 1) for name in CASES]
IN_PARTS = [("resnet50", 2)]


@pytest.mark.parametrize("name, parts", WHOLE + IN_PARTS if "LOWTIDE_LONG" in os.environ else IN_PARTS)
def test_step_agrees_with_pytorch(name, parts, tmp_path):
    """Deep networks with batch normalization amplify rounding, so no fixed tolerance is right: what counts is that our
    distance from the step in float64 is like that of PyTorch's own float32 step."""
    ours = lowtide_step(name, tmp_path, "--split", str(parts))
    single = reference.training_step(name, seed=SEED, size=None, **CASES[name])
    exact = reference.training_step(name, seed=SEED, size=None, dtype=torch.float64, **CASES[name])
    assert float(ours["loss"]) == pytest.approx(exact.loss, rel=1e-4)
    largest = max(float(gradient.norm()) for gradient in exact.gradients.values())
    mine_total = theirs_total = 0.0
    for key, gradient in exact.gradients.items():
        mine = distance(gradient_of(ours, key, parts), gradient)
        theirs = distance(single.gradients[key].numpy(), gradient)
        mine_total, theirs_total = mine_total + mine**2, theirs_total + theirs**2
        # A gradient that is zero but for rounding (a bias before a normalization) is held against the largest.
        assert mine <= 8 * theirs + 1e-4 * float(gradient.norm()) + 1e-6 * largest, (key, mine, theirs)
    assert mine_total <= 4 * theirs_total + (1e-5 * largest) ** 2
    # AdamW's first step is lr g / (|g| + eps), which turns any rounding of a tiny g into a difference of up to 2 lr. So the
    # weights are those of the float64 step once its g is replaced by ours, which was judged above.
    rate, eps = reference.ADAMW["lr"], reference.ADAMW["eps"]

    def taken(gradient: np.ndarray) -> np.ndarray:
        return rate * gradient / (np.abs(gradient) + eps)

    for key, weight in exact.updated.items():
        mine = ours[f"new/{key}"].astype(np.float64)
        own = gradient_of(ours, key, parts).astype(np.float64).reshape(mine.shape)
        theirs = exact.gradients[key].double().numpy().reshape(mine.shape)
        expected = weight.double().numpy().reshape(mine.shape) + taken(theirs) - taken(own)
        assert np.max(np.abs(mine - expected) - 4e-7 * np.abs(expected)) <= 0.01 * rate, key
