"""Lets the tests import the modules beside them, models/, the checks in tests/ and the package as it was built."""

import importlib
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
os.environ.setdefault("LOWTIDE_LIBRARY", str(BUILD / "liblowtide.so"))
os.environ.setdefault("LOWTIDE_CACHE", str(BUILD / "python-cache"))
for folder in ("tests/python", "models", "tests", "python"):
    sys.path.insert(0, str(ROOT / folder))


@pytest.fixture(autouse=True)
def _objects_as_before(request, monkeypatch):
    """Every capture of a step in tests of the PyTorch part leaves the caller's objects as they were."""
    if request.path.name.startswith("test_torch_"):
        lowtide, step = importlib.import_module("lowtide"), importlib.import_module("lowtide.pytorch.step")
        watch = importlib.import_module("as_before").Watch()
        for name in ("plan", "compile_step"):
            monkeypatch.setattr(lowtide, name, watch.function(getattr(lowtide, name)))
        monkeypatch.setattr(lowtide, "measure", watch.of_step(lowtide.measure))
        monkeypatch.setattr(step, "untouched", watch.context(step.untouched))
        monkeypatch.setattr(step.Step, "__call__", watch.step(step.Step.__call__))
