"""A built wheel in a fresh environment, without anything of the distribution: the program and the
package plan a model file, and the example of README.md runs. LOWTIDE_WHEEL names the wheel
(`pip wheel . --no-deps`; scripts/test makes it); without it nothing is tested.

The environment has the wheel and nothing else. For what needs PyTorch, that of the tests stands in,
by a .pth file: to install it takes a minute and a gigabyte. With LOWTIDE_LONG it is installed.
"""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from lowtide_cli import MODELS, ROOT

WHEEL = os.environ.get("LOWTIDE_WHEEL")
pytestmark = pytest.mark.skipif(not WHEEL, reason="LOWTIDE_WHEEL names no wheel")
BEFORE = """
import torch, lowtide
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
loss_fn = lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
sample_batch = torch.randn(4, 8), torch.randint(0, 3, (4,))
data, before = [sample_batch] * 20, float(loss_fn(model, sample_batch))
"""
BEHIND = """
assert float(loss) < before, (loss, before)
assert "lowtide" in torch._dynamo.list_backends()
compiled = torch.compile(model, backend="lowtide", options={"budget": "2GiB"}, dynamic=False)
loss_fn(compiled, sample_batch).backward()
"""


def example() -> str:
    """The lines of README.md, with a model before them and what has to hold behind."""
    said = (ROOT / "README.md").read_text().partition("\nIn Python, ")[2].split("\n\n")[1]
    assert "compile_step" in said and "for batch in data" in said, said
    return BEFORE + textwrap.dedent(said) + BEHIND


def pip(folder, *arguments):
    """pip of the tests, for the environment: that of a fresh one takes longer to put there than all the rest."""
    command = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "-q", *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    pip(path, "--no-deps", "--no-index", WHEEL)
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
    if "LOWTIDE_LONG" in os.environ:
        pip(folder, f"torch=={torch.__version__.partition('+')[0]}")
    else:
        there = next(folder.glob("lib/python*/site-packages"))
        (there / "torch_of_the_tests.pth").write_text(str(pathlib.Path(torch.__file__).parents[1]) + "\n")
    where = call(folder, folder / "bin/python", "-c", "import lowtide; print(lowtide.__file__)")
    assert where.startswith(str(folder)), where
    call(folder, folder / "bin/python", "-c", example())
