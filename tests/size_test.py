#!/usr/bin/env python3
"""Keeps files small enough to be read in one sitting, and every folder introduced.

    python3 tests/size_test.py [ROOT]           prints one line per violation; exit code 1 if there is any

Limits: headers 300 lines, sources 600, tests 800, any file in the repository 1 MB; a line of C++ has 100 columns, comments too (clang-format
leaves them as they are). Each folder below src/ with sources has
a README.md of at most 40 lines; a folder "testing" is introduced by the one that it serves. A file that must be larger is listed in EXCEPTIONS with the reason.
"""

import os
import pathlib
import sys

MAX_BYTES = 1_000_000
README_LINES = 40
COLUMNS = 100  # of C++, as .clang-format has them
CODE_FOLDERS = ("include", "src", "tools", "tests", "bench", "fuzz", "python", "examples")
SKIPPED_FOLDERS = {".git", ".venv", ".cache", "build", "__pycache__", "node_modules"}

EXCEPTIONS: dict[str, str] = {}  # path: why it may be larger


def line_limit(path: str) -> int | None:
    if path.endswith(("_test.cc", "_test.py")) or path.startswith("tests/"):
        return 800 if path.endswith((".cc", ".h", ".py")) else None
    if path.endswith(".h"):
        return 300
    return 600 if path.endswith((".cc", ".py")) else None


def files_below(root: pathlib.Path):
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(s for s in subfolders if s not in SKIPPED_FOLDERS and not s.startswith("build-"))
        for name in sorted(names):
            yield (pathlib.Path(folder) / name).relative_to(root).as_posix()


def line_count(path: pathlib.Path) -> int:
    return path.read_bytes().count(b"\n")


def long_lines(path: pathlib.Path) -> list[int]:
    return [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > COLUMNS]


def check(root: pathlib.Path) -> list[str]:
    problems = []
    source_folders = set()
    for relative in files_below(root):
        path = root / relative
        if relative in EXCEPTIONS or path.is_symlink():
            continue
        size = path.stat().st_size
        if size > MAX_BYTES:
            problems.append(f"{relative}: {size} bytes, the limit is {MAX_BYTES}")
        limit = line_limit(relative) if relative.split("/")[0] in CODE_FOLDERS else None
        if limit is not None and (lines := line_count(path)) > limit:
            problems.append(f"{relative}: {lines} lines, the limit is {limit}")
        if relative.split("/")[0] in CODE_FOLDERS and relative.endswith((".cc", ".h")):
            problems += [f"{relative}:{number}: longer than {COLUMNS} columns" for number in long_lines(path)]
        if relative.startswith("src/") and relative.endswith((".cc", ".h")):
            source_folders.add(os.path.dirname(relative).removesuffix("/testing"))
    for folder in sorted(source_folders):
        readme = root / folder / "README.md"
        if not readme.exists():
            problems.append(f"{folder}: no README.md")
        elif (lines := line_count(readme)) > README_LINES:
            problems.append(f"{folder}/README.md: {lines} lines, the limit is {README_LINES}")
    problems += [f"tests/size_test.py: {path} is listed and does not exist" for path in EXCEPTIONS if not (root / path).exists()]
    return problems


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    problems = check(root)
    print("\n".join(problems) if problems else "every file is within its limit")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
