#!/usr/bin/env python3
"""Joins the files of a compilation database into few units for clang-tidy, which spends most of its time on headers.

    scripts/lint_units.py FOLDER    reads FOLDER/compile_commands.json of a unity build with one unit for each target;
                                    writes FOLDER/joined/*.cc and their compile_commands.json, and prints a line for
                                    each: the checks to switch off (or -), its path; those that take longest first

Units of different folders have their names in different namespaces, so that they can be read one after the other; a
unit is joined with others that switch off the same checks (src/<folder>/.clang-tidy) until SOURCES files are in it.
Oracles (src/<folder>/testing) may name things as what they judge does, and are joined with each other.
What is compiled by itself (SKIP_UNITY_BUILD_INCLUSION) stays by itself, and what is generated is left out.
"""

import json
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = 60
SEARCHED = ("-I", "-isystem", "-D")


def is_generated(entry: dict) -> bool:
    return "/generated/" in entry["file"] or "lowtide_onnx_wire.dir/" in entry["file"]


def checks_off(entry: dict) -> str:
    for config in sorted(ROOT.glob("src/*/.clang-tidy")):
        if f"/lowtide_{config.parent.name}.dir/" in entry["file"]:
            return re.search(r"^Checks: '(.*)'$", config.read_text(), re.MULTILINE).group(1)
    return "-"


def kind_of(entry: dict) -> tuple[str, bool]:
    return checks_off(entry), "_testing.dir/" in entry["file"]


def sources_in(entry: dict) -> int:
    return pathlib.Path(entry["file"]).read_text().count("#include")


def searched(command: str) -> list[str]:
    """The options that say where headers are and what is defined, each as one word or two."""
    words, found = shlex.split(command), []
    for k, word in enumerate(words):
        if word in SEARCHED:
            found.append(f"{word} {shlex.quote(words[k + 1])}")
        elif word.startswith(SEARCHED):
            found.append(shlex.quote(word))
    return found


def join(folder: pathlib.Path, number: int, entries: list[dict]) -> dict:
    """One file that includes those of all entries, compiled as the first with the headers and definitions of all."""
    path = folder / "joined" / f"unit_{number}.cc"
    path.write_text("".join(f'#include "{entry["file"]}"\n' for entry in entries))
    first = entries[0]
    options = dict.fromkeys(option for entry in entries for option in searched(entry["command"]))
    command = first["command"].replace(first["file"], f"{' '.join(options)} {path}")
    return {"directory": first["directory"], "command": command, "file": str(path)}


def main() -> int:
    folder = pathlib.Path(sys.argv[1]).resolve()
    entries = [e for e in json.loads((folder / "compile_commands.json").read_text()) if not is_generated(e)]
    units: list[tuple[int, str, list[dict]]] = [(0, checks_off(e), [e]) for e in entries if "/Unity/" not in e["file"]]
    for kind in sorted({kind_of(e) for e in entries}):
        bunch: list[dict] = []
        size = 0
        for entry in (e for e in entries if "/Unity/" in e["file"] and kind_of(e) == kind):
            bunch.append(entry)
            size += sources_in(entry)
            if size >= SOURCES:
                units.append((size, kind[0], bunch))
                bunch, size = [], 0
        if bunch:
            units.append((size, kind[0], bunch))
    (folder / "joined").mkdir(exist_ok=True)
    units.sort(key=lambda unit: -unit[0])
    joined = [join(folder, k, bunch) if size else bunch[0] for k, (size, _, bunch) in enumerate(units)]
    (folder / "joined" / "compile_commands.json").write_text(json.dumps(joined, indent=1))
    for (_, off, _), unit in zip(units, joined):
        print(off, unit["file"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
