#!/usr/bin/env python3
"""What the constants of the planners are worth: each beside half of it and twice of it, on benchmark rows that suit its planner.

    tuning.py [--only SUBSTRING] [--jobs N] [--write]
    tuning.py --check

The constants are the numbers in `struct XTuning` below src. They are compiled once, in a copy of the sources where each takes its
value from the environment; then one at a time is changed: halved and doubled; up to 3, one less and one more; a share above a half by
its distance from 1, as a factor between 1 and 2 by what is above 1; a list as a whole.
The rows (bench/support/tuning_rows.py) are single-threaded and limited by counted work. Printed for each constant: the row that
tells most, what it came to at half, at the value and at twice, and what all rows say; then those that a neighbour beats: no worse
on any row, clearly better on one, for no more work. Work decides alone where all else is equal.

Results are kept beside the copy, so that a run that was cut off goes on. `--write` puts the table into docs/tuning.md; constants
that were not compared keep their line there as long as their value is the same. `--check` builds nothing: exit code 1 if a constant
has no line there, or a line has another value or no constant.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import pathlib
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import ROOT, SCRATCH, finish, table  # noqa: E402
from tuned_sources import COMMENT, Constant, build, constants_of  # noqa: E402
from tuning_rows import Measure, Row, rows_of, run  # noqa: E402

DOCUMENT = "docs/tuning.md"
STRUCT_NAME = re.compile(r"^\s*struct (\w*Tuning)\b", re.MULTILINE)
HEADER = ["constant", "value", "row", "at half", "at the value", "at twice", "all rows"]
LEAST = {"numbers": 2, "factors": 2}  # parts
MOST = {"ByStatesTuning.most_ops": 32, "ByStatesTuning.most_values": 64}  # bits of a state
NOTHING = "no difference"
SAME_WORK = 0.02  # limits are overrun by a little


def neighbours(constant: Constant) -> list[tuple[float, ...] | None]:
    """At half and at twice; None where that is no other value."""
    least, most = LEAST.get(constant.member, 1), MOST.get(f"{constant.struct}.{constant.member}", float("inf"))
    lowest, highest = min(constant.values), max(constant.values)

    def changed(value: float, factor: float) -> float:
        if constant.whole and highest <= 3:
            return value + (1 if factor > 1 else -1)
        if not constant.whole and lowest > 0.5 and highest < 1:
            return 1 - (1 - value) / factor
        if not constant.whole and 1 < lowest < 2:
            return 1 + (value - 1) * factor
        return int(value * factor) if constant.whole else value * factor

    found = [tuple(min(max(changed(v, factor), min(v, least)) if constant.whole else changed(v, factor), most) for v in constant.values)
             for factor in (0.5, 2)]
    return [None if values == constant.values else values for values in found]


def shown(values: tuple[float, ...] | None) -> str:
    if values is None:
        return "-"
    return " ".join(f"{v:,}" if isinstance(v, int) else f"{v:.10g}" for v in values)


class Results:
    """Kept in a file; those of other sources are thrown away."""

    def __init__(self, path: pathlib.Path):
        text = "".join(COMMENT.sub("", file.read_text()) for file in sorted((ROOT / "src").rglob("*.[ch]*"))
                       if not file.name.endswith("_test.cc"))
        self.sources = hashlib.sha256("".join(text.split()).encode()).hexdigest()
        self.path, self.lock = path, threading.Lock()
        kept = json.loads(path.read_text()) if path.exists() else {}
        self.found: dict[str, dict] = kept.get("found", {}) if kept.get("sources") == self.sources else {}

    def get(self, program: pathlib.Path, row: Row, changed: dict[str, str]) -> dict[str, float | None]:
        key = " ".join([*(f"{name}={value}" for name, value in changed.items()), "|", *row.command])
        if not {measure.name for measure in row.measures} <= self.found.get(key, {}).keys():
            outcome = run(program, row, changed)
            with self.lock:
                self.found[key] = outcome
                partial = self.path.with_suffix(".partial")
                partial.write_text(json.dumps({"sources": self.sources, "found": self.found}))
                partial.replace(self.path)
        return self.found[key]


@dataclasses.dataclass(frozen=True)
class Line:
    """One measure of one row, at half, at the value and at twice; `values` is None at a place where there is no such neighbour."""
    row: Row
    measure: Measure
    values: tuple[float | None, ...]
    there: tuple[bool, ...]

    def better(self, a: int, b: int) -> float:
        """How much better place a is than b, in clear differences; a place that came to nothing is worse than any."""
        first, second = self.values[a], self.values[b]
        if first is None or second is None:
            return (first is not None) * 1e6 - (second is not None) * 1e6
        difference = (first - second) if self.measure.higher else (second - first)
        clear = self.measure.clear if self.measure.counts else SAME_WORK * max(first, second)
        return 0 if abs(difference) < (clear / 10 if self.measure.counts else clear) else difference / clear

    def spread(self) -> float:
        return max(abs(self.better(place, 1)) for place in (0, 2) if self.there[place])

    def cell(self, place: int) -> str:
        return self.measure.show(self.values[place]) if self.there[place] else "-"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What the rows say: their quality where that differs anywhere, else the work that they took."""
    lines: list[Line]
    works: tuple[float | None, ...]  # of all rows: at half, at the value, at twice

    def more_work(self, place: int) -> float:
        """As a part of that at the value."""
        return self.works[place] / self.works[1] - 1 if self.works[place] is not None and self.works[1] else 0

    def counts(self, place: int) -> tuple[int, int]:
        """Measures that are better there, and worse."""
        gains = [line.better(place, 1) for line in self.lines]
        return sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)

    def beaten_by(self, place: int) -> bool:
        """No worse on any row, clearly better on one, and for no more work."""
        gains = [line.better(place, 1) for line in self.lines]
        return self.lines[0].there[place] and min(gains) >= 0 and max(gains) >= 1 and self.more_work(place) < SAME_WORK

    def verdict(self) -> str:
        if all(line.spread() == 0 for line in self.lines):
            return NOTHING
        words = []
        for place, name in ((0, "half"), (2, "twice")):
            if not self.lines[0].there[place]:
                continue
            better, worse = self.counts(place)
            said = f"{better} better, {worse} worse" if better or worse else "the same"
            work = f", work {self.more_work(place):+.0%}" if abs(self.more_work(place)) >= SAME_WORK else ""
            words.append(f"{name}: {said}{work}")
        return "; ".join(words)


def compared(constant: Constant, rows: list[Row], program: pathlib.Path, results: Results) -> Comparison:
    changes = []
    for values in neighbours(constant):
        changes.append(None if values is None else
                       {name: repr(v) for name, v, old in zip(constant.names, values, constant.values) if v != old})
    places = (changes[0], {}, changes[1])
    lines = []
    for row in rows:
        found = [None if changed is None else results.get(program, row, changed) for changed in places]
        for measure in row.measures:
            values = tuple(None if one is None else one.get(measure.name) for one in found)
            lines.append(Line(row, measure, values, tuple(one is not None for one in found)))
    quality = [line for line in lines if line.measure.counts]
    work = [line for line in lines if not line.measure.counts]
    works = tuple(sum(line.values[place] or 0 for line in work) if changes_there is not None else None
                  for place, changes_there in enumerate(places))
    return Comparison(quality if any(line.spread() > 0 for line in quality) or not work else work, works)


def line_of(constant: Constant, comparison: Comparison) -> list[str]:
    half, twice = neighbours(constant)
    said = comparison.verdict()
    if said == NOTHING:
        return [constant.key, shown(constant.values), "-", shown(half), "", shown(twice), said]
    most = max(comparison.lines, key=Line.spread)
    cells = [f"{shown(half)}: {most.cell(0)}", most.cell(1), f"{shown(twice)}: {most.cell(2)}"]
    if half is None:
        cells[0] = "-"
    if twice is None:
        cells[2] = "-"
    return [constant.key, shown(constant.values), f"{most.row.name}, {most.measure.name}", *cells, said]


def document_lines(text: str) -> dict[str, list[str]]:
    """The table's lines by constant."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == len(HEADER):
            found[cells[0].strip("`")] = [cells[0].strip("`"), *cells[1:]]
    return found


def check(constants: list[Constant], text: str) -> list[str]:
    listed = document_lines(text)
    again = "scripts/bench tuning compares values, with --write it goes there"
    problems = [f"{c.key} is not in {DOCUMENT}: bench/tuning.py --only '{c.key}' --write" for c in constants if c.key not in listed]
    problems += [f"{c.key} is {shown(c.values)}, {DOCUMENT} says {listed[c.key][1]}: {again}"
                 for c in constants if c.key in listed and listed[c.key][1] != shown(c.values)]
    known = {constant.key for constant in constants}
    return problems + [f"{DOCUMENT}: there is no constant {key}: take the line out" for key in listed if key not in known]


def written(constants: list[Constant], text: str, found: dict[str, list[str]]) -> str:
    """The document with the lines that were found, and the others where their value is still the same."""
    kept = {c.key: document_lines(text)[c.key] for c in constants
            if c.key in document_lines(text) and document_lines(text)[c.key][1] == shown(c.values)}
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for constant in constants:
        cells = found.get(constant.key, kept.get(constant.key))
        if cells is not None:
            lines.append("| " + " | ".join([f"`{cells[0]}`", *cells[1:]]) + " |")
    table_text = "\n".join(lines) + "\n"
    return re.sub(r"\| constant \|.*?\n(?=\n|\Z)", lambda _: table_text, text, count=1, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="constants whose name has this in it")
    parser.add_argument("--jobs", type=int, default=1, help="rows at once")
    parser.add_argument("--write", action="store_true", help=f"puts the lines into {DOCUMENT}")
    parser.add_argument("--check", action="store_true", help=f"holds {DOCUMENT} against the sources")
    arguments = parser.parse_args()
    constants, document = constants_of(ROOT), ROOT / DOCUMENT
    if arguments.check:
        return finish(check(constants, document.read_text()))
    program = build(ROOT, SCRATCH / "tuning")
    groups = rows_of(program, SCRATCH / "tuning-problems")
    results = Results(SCRATCH / "tuning.json")
    wanted = [constant for constant in constants if arguments.only in constant.key]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        def work(constant: Constant) -> Comparison:
            rows = next(rows for start, rows in groups if constant.key.startswith(start))
            comparison = compared(constant, rows, program, results)
            print(f"{constant.key}: {comparison.verdict()}", file=sys.stderr, flush=True)
            return comparison
        comparisons = dict(zip((c.key for c in wanted), pool.map(work, wanted)))
    found = {c.key: line_of(c, comparisons[c.key]) for c in wanted}
    table(HEADER, list(found.values()))
    print("\nbeaten by a neighbour on these rows:")
    for constant in wanted:
        for place, values in zip((0, 2), neighbours(constant)):
            if values is not None and comparisons[constant.key].beaten_by(place):
                print(f"{constant.key}: {shown(values)} in place of {shown(constant.values)}: {found[constant.key][2]}: "
                      f"{' | '.join(found[constant.key][3:6])}")
    if arguments.write:
        document.write_text(written(constants, document.read_text(), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
