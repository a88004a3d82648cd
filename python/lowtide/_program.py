"""The program `lowtide` of a wheel: the one of the command line, beside the library."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    """Becomes the program."""
    path = pathlib.Path(__file__).parent / "bin" / "lowtide"
    os.execv(path, [str(path), *sys.argv[1:]])
