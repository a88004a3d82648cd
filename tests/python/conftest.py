"""Lets the tests import the modules beside them, models/, the checks in tests/ and the package as it was built."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
os.environ.setdefault("LOWTIDE_LIBRARY", str(BUILD / "liblowtide.so"))
os.environ.setdefault("LOWTIDE_CACHE", str(BUILD / "python-cache"))
for folder in ("tests/python", "models", "tests", "python"):
    sys.path.insert(0, str(ROOT / folder))
