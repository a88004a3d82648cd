#!/usr/bin/env python3
"""Keeps the way from an algorithm to its test short.

    python3 tests/tested_test.py [ROOT]         prints one line per violation; exit code 1 if there is any

The test of src/FOLDER/x.h is x_test.cc beside it; where it is another, the header's essay ends with a line
"// Tests: a_test.cc, src/other/b_test.cc." that names files beside it or paths from the root. Headers in folders "testing" and
"support" serve tests and need none.
"""

import pathlib
import re
import sys

TESTS = re.compile(r"^// Tests: (.+)\.$", re.MULTILINE)


def problems_of(root: pathlib.Path, header: pathlib.Path) -> list[str]:
    path = header.relative_to(root).as_posix()
    named = TESTS.search(header.read_text())
    if named is None:
        beside = header.with_name(header.stem + "_test.cc")
        return [] if beside.exists() else [f"{path}: no {beside.name} beside it, and no line '// Tests: ...' says where its test is"]
    return [f"{path}: there is no test '{test}', neither beside it nor from the root"
            for test in named[1].split(", ") if not (header.parent / test).exists() and not (root / test).exists()]


def check(root: pathlib.Path) -> list[str]:
    headers = [h for h in sorted((root / "src").rglob("*.h")) if not {"testing", "support"} & set(h.parts)]
    return [problem for header in headers for problem in problems_of(root, header)]


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    print("\n".join(found) if found else "every header's test is beside it, or named")
    sys.exit(1 if found else 0)
