#!/usr/bin/env python3
"""What is wanted of the evaluation of MAGIS's paper, beside what was seen: one table, each number of support/magis_targets.py a row.

    targets.py [--folder FOLDER] [--only NAME ...] [--again] [--strict] [--complete]    runs what measures and has no file in the folder yet
    targets.py --json FILE ... [--strict] [--complete]                                  reads what the benchmarks' own --json wrote; runs nothing
    targets.py --commands                                                               says what would run

What measures are bench/magis.py by three kinds of costs, network by network; bench_labels on nine networks within .4, .3 and .2;
split_steps.py, chunked_loss.py and long_sequences.py. All of it takes most of a day, so it can be broken off and called
again: what has its file is not run again without --again, and --only names what to run ("labels", or "labels vit"). Each writes
FILE.part, which becomes FILE when it ends with exit code 0, or 1 as benchmarks do that find a promise broken, and says that all is in it.
Two of them run steps, so that what is measured depends on the machine.

Met and missed are what was seen against what is wanted, without any tolerance but two: the prototype's extra times are known to a tenth of
a percent, and a plan with more levers may be slower than those with fewer, or than micro-batches in the numbers of parts that the target
names, by a tenth of a point of extra time. A target that needs networks or cells which no file has was not measured. Exit code 1 with
--strict if a measured target is missed, with --complete if a target was not measured, which --strict asks for, too, where everything is
run (without --only and --json), and in any case if something that was run did not get to its end.
"""

import argparse
import dataclasses
import functools
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[1:1] = [str(ROOT / "bench/support"), str(ROOT / "models")]
from lowtide import BUILD, SCRATCH, table  # noqa: E402
from magis_evidence import Evidence, read  # noqa: E402
from magis_targets import GROUPS, JUDGED, PLANNED, SEVEN, Target, targets  # noqa: E402
from magis_workloads import EVERYTHING  # noqa: E402

LABELS_RATIOS, LABELS_PLANS = (0.4, 0.3, 0.2), 14


@dataclasses.dataclass(frozen=True)
class Command:
    name: str          # of what it measures and, where it is of one network, that
    words: tuple       # without --json

    def file(self, folder: pathlib.Path) -> pathlib.Path:
        return folder / f"{self.name.replace(' ', '_')}.json"

    def is_named(self, names: list[str]) -> bool:
        return any(self.name == name or self.name.startswith(f"{name} ") for name in names)

    def line(self, file: pathlib.Path) -> list[str]:
        return [*map(str, self.words), "--json", str(file)]


@functools.cache
def commands() -> list[Command]:
    def script(name: str, *words: str) -> tuple:
        return sys.executable, ROOT / f"bench/{name}.py", *words

    def magis(name: str, *words: str) -> tuple:
        return script("magis", "--models", name, "--figures", "--time-limit", "60", *words)

    def labels(name: str, ratio: float) -> tuple:
        return BUILD / "bench/bench_labels", *EVERYTHING[name].of_benchmark(), "--ratio", ratio, "--plans", LABELS_PLANS

    whole = ("--rows", "order", "parts", "levers", "auto")
    least = ("--rows", "order", "auto, swap", "--ratios", "0.4", "0.2")
    return [*(Command(f"labels {name} {ratio}", labels(name, ratio)) for name in JUDGED for ratio in LABELS_RATIOS),
            *(Command(f"roofline {name}", magis(name, *whole)) for name in PLANNED),
            *(Command(f"tiles {name}", magis(name, "--cost-model", "tiles", *least)) for name in SEVEN),
            *(Command(f"published {name}", magis(name, "--cost-model", "published", *least)) for name in SEVEN),
            Command("split_steps", script("split_steps", "--threads", "1")),
            Command("chunked_loss", script("chunked_loss")),
            Command("long_sequences", script("long_sequences", "--no-swap"))]


def measure(arguments: argparse.Namespace) -> list[str]:
    """Runs what is asked for and has no file; says what did not get to its end, and how."""
    failed = []
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for command in commands():
        file = command.file(arguments.folder)
        if arguments.only and not command.is_named(arguments.only) or file.exists() and not arguments.again:
            continue
        part = file.with_name(f"{file.name}.part")
        for former in (file, part):
            former.unlink(missing_ok=True)
        line = command.line(part)
        print(f"== {command.name}: {' '.join(line)}", flush=True)
        wrong = what_is_wrong(line, part)
        if wrong:
            failed.append(f"{command.name}: {wrong}")
        else:
            part.rename(file)
    return failed


def what_is_wrong(line: list[str], part: pathlib.Path) -> str:
    """Of a run. Exit code 1 is that of a promise that it finds broken, but of a program that breaks off, too: its file says which."""
    try:
        code = subprocess.run(line).returncode
    except OSError as wrong:
        return str(wrong)
    if code not in (0, 1):
        return f"exit code {code}"
    try:
        content = json.loads(part.read_text())
    except FileNotFoundError:
        return f"exit code {code}, left no figures"
    except ValueError as wrong:
        return f"exit code {code}, {part}: {wrong}"
    is_finished = not isinstance(content, dict) or content.get("finished", True)
    return "" if is_finished else f"exit code {code}, broke off; {part} has the figures until then"


def number(value: float, unit: str) -> str:
    if math.isinf(value):
        return "no plan" if value > 0 else "none"
    tenths = 10 <= abs(value) < 100 or unit == "%" and abs(value) >= 0.1
    text = f"{value:.1f}" if tenths else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def verdict(target: Target, seen: float) -> str:
    """By how much it is missed; a target "below" a number that is that number, too, by nothing."""
    if target.is_met(seen):
        return "met"
    return "MISSED" if math.isinf(seen) else f"MISSED by {number(abs(seen - target.wanted), target.unit)}"


def print_targets(wanted: list[Target], evidence: Evidence) -> tuple[list[Target], list[Target]]:
    """Those that are missed, and those that were not measured."""
    rows, missed, unknown = [], [], []
    for target in wanted:
        seen = evidence.get(target.key)
        cells = [f"{target.group} {target.key}", f"{target.sense} {number(target.wanted, target.unit)}"]
        if seen is None:
            rows.append([*cells, "", "not measured", f"by {target.command}"])
            unknown.append(target)
            continue
        if not target.is_met(seen.value):
            missed.append(target)
        rows.append([*cells, number(seen.value, target.unit), verdict(target, seen.value), seen.remark])
    table(["target", "wanted", "seen", "", "remark"], rows)
    print()
    for group, title in GROUPS.items():
        of_group = [target for target in wanted if target.group == group]
        measured = sum(target not in unknown for target in of_group)
        lost = sum(target in missed for target in of_group)
        print(f"{group} {title}: {measured - lost} met, {lost} missed, {len(of_group) - measured} not measured")
    return missed, unknown


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, nargs="+", metavar="FILE", help="of benchmarks; nothing is run")
    parser.add_argument("--folder", type=pathlib.Path, default=SCRATCH / "targets", help="where files of what is run lie")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of commands; all files of the folder are read")
    parser.add_argument("--again", action="store_true", help="runs also what has a file")
    parser.add_argument("--commands", action="store_true", help="says what would run, and runs nothing")
    parser.add_argument("--strict", action="store_true", help="fails where a target that was measured is missed; and, if all is run, as --complete")
    parser.add_argument("--complete", action="store_true", help="fails where a target was not measured")
    arguments = parser.parse_args()
    if arguments.json and (arguments.only or arguments.again):
        parser.error("--json runs nothing; --only and --again have no use")
    if arguments.only and not any(command.is_named(arguments.only) for command in commands()):
        parser.error(f"nothing that measures is called {' or '.join(arguments.only)}; --commands lists what is")
    return arguments


def main() -> int:
    arguments = parse()
    if arguments.commands:
        for command in commands():
            print(f"{command.name}: {' '.join(command.line(command.file(arguments.folder)))}")
        return 0
    failed = [] if arguments.json else measure(arguments)
    try:
        evidence = read(arguments.json or sorted(arguments.folder.glob("*.json")))
    except ValueError as wrong:
        print(f"bench/targets.py: {wrong}", file=sys.stderr)
        return 2
    finally:
        for line in failed:
            print(f"BROKEN  {line}")
    missed, unknown = print_targets(targets(), evidence)
    needs_all = arguments.complete or arguments.strict and not (arguments.json or arguments.only)
    if needs_all and unknown:
        print(f"INCOMPLETE  {len(unknown)} targets were not measured")
    return 1 if failed or arguments.strict and missed or needs_all and unknown else 0


if __name__ == "__main__":
    sys.exit(main())
