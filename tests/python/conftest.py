"""Lets the tests import the modules beside them, models/ and the checks in tests/."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
for folder in ("tests/python", "models", "tests"):
    sys.path.insert(0, str(ROOT / folder))
