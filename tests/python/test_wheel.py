"""A built wheel in a fresh environment, without anything of the distribution: the program and the package plan a model file, and, where
PyTorch is on hand, the example of README.md runs. LOWTIDE_WHEEL names the wheel (`pip wheel . --no-deps`); without it nothing is tested.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from lowtide_cli import MODELS

WHEEL = os.environ.get("LOWTIDE_WHEEL")
pytestmark = pytest.mark.skipif(not WHEEL, reason="LOWTIDE_WHEEL names no wheel")
EXAMPLE = """
import torch, lowtide
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
loss_fn = lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
batch = torch.randn(4, 8), torch.randint(0, 3, (4,))
step = lowtide.compile_step(model, loss_fn, optimizer, batch, budget="2GiB")
losses = [float(step(batch)) for _ in range(20)]
assert losses[-1] < losses[0], losses
assert "lowtide" in torch._dynamo.list_backends()
compiled = torch.compile(model, backend="lowtide", options={"budget": "2GiB"}, dynamic=False)
loss_fn(compiled, batch).backward()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    subprocess.run([path / "bin/pip", "install", "-q", "--no-deps", "--no-index", WHEEL], check=True)
    return path


def call(folder, *command, **more):
    hidden = ("LOWTIDE_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH")
    environment = {**{k: v for k, v in os.environ.items() if k not in hidden}, "LOWTIDE_CACHE": str(folder / "cache"), **more}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_but_the_systems_runtime_is_inside(folder):
    inside = next(folder.glob("lib/python*/site-packages/lowtide"))
    allowed = ("linux-vdso", "ld-linux", "libc.", "libm.", "libpthread", "libdl", "librt", "libstdc++", "libgcc_s")
    for path in (inside / "bin/lowtide", inside / "lib/liblowtide.so"):  # with all that these load
        for line in call(folder, "ldd", path).splitlines():
            name, _, place = line.strip().partition(" => ")
            assert pathlib.Path(name).name.startswith(allowed) or str(inside) in place or "statically" in line, (path, line)
    names = [path.name.split(".so")[0] for path in inside.glob("lib/*")]
    assert len(names) == len(set(names)), "each library once"


def test_the_program_and_the_package_plan_without_torch(folder):
    assert "peak" in call(folder, folder / "bin/lowtide", "plan", MODELS / "resnet50.onnx", "--dim", "batch=1")
    code = f"import lowtide; print(lowtide.plan({str(MODELS / 'resnet50.onnx')!r}, dims={{'batch': 1}}).arena_bytes)"
    assert int(call(folder, folder / "bin/python", "-c", code)) > 0


def test_the_example_runs_with_torch(folder):
    torch = pytest.importorskip("torch")
    place = pathlib.Path(torch.__file__).parents[1]
    call(folder, folder / "bin/python", "-c", EXAMPLE, PYTHONPATH=str(place))
