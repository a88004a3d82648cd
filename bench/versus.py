#!/usr/bin/env python3
"""This build beside a former one, on the same problems: what each found, and core seconds in pairs of runs.

    versus.py --former PROGRAM [--only plans|budgets|remat|packings] [--pairs N]

PROGRAM is `lowtide` of an older checkout, built the same way. Each case is run by both in turn, one thread, so that a machine that is
slower today is so for both; the ratio is the median over the pairs. All searches are limited by counted work and costs are those of
the device file, so what is found depends on the program alone. Without --former there is nothing to compare: exit code 2. Exit code 1, with a line for
each, where this build finds something worse by more than a fiftieth in one case, or by more than two thousandths over a whole group
of cases (in geometric mean), finds nothing where the former found something, or is slower by more than a tenth over a group. One
case alone moves a little with any change of a search. A case in which the former found nothing is shown and not judged.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import budgets  # noqa: E402
import remat  # noqa: E402
from lowtide import MODELS, PLANNING, PROGRAM, RECOMPUTE, ROOT, finish, label, table  # noqa: E402

WORSE_CASE, WORSE, SLOWER = 1.02, 1.002, 1.1
GROUPS = {"plans": 11, "budgets": 1, "remat": 1, "packings": 3}  # and how many pairs of runs

# A case: its name, arguments, and which number of the JSON answer counts (less is better).
Case = tuple[str, list[str], str]


def training(name: str, dims: dict[str, int], *more) -> list[str]:
    sizes = [part for key, size in dims.items() for part in ("--dim", f"{key}={size}")]
    return ["plan", str(MODELS / f"{name}.onnx"), "--train", "--loss", "cross-entropy", "--optimizer", "adamw", *sizes, *more]


def cases(group: str) -> list[Case]:
    if group == "plans":
        return [(label(name, dims), training(name, dims), "arena_bytes") for name, dims in PLANNING]
    if group == "budgets":
        return [(f"{label(name, dims)} {budget} MiB", training(name, dims, "--budget", f"{budget}MiB"),
                 "predicted_step_seconds")
                for name, dims, steps in budgets.CASES for budget, _, _, flags in steps if flags == RECOMPUTE]
    if group == "remat":
        return [(f"{name} {budget} MiB", ["remat", str(ROOT / f"tests/data/remat/{name}.remat"), "--budget", f"{budget}MiB"],
                 "extra_percent")
                for name, known in remat.KNOWN.items() if (ROOT / f"tests/data/remat/{name}.remat").exists() for budget in known]
    folder = pathlib.Path(os.environ.get("LOWTIDE_SHARED", ROOT.parent / "shared")) / "data/minimalloc"
    return [(path.stem, ["pack", str(path), "--capacity", path.name.split(".")[1]], "height_bytes") for path in sorted(folder.glob("*.csv"))]


def spent(program: pathlib.Path, arguments: list[str]) -> tuple[float, dict]:
    def so_far() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = so_far()
    done = subprocess.run([str(program), *arguments, "--threads", "1", "--json"], capture_output=True, text=True)
    if done.returncode < 0 or done.returncode == 1:
        raise SystemExit(f"{program} {' '.join(arguments)}: exit code {done.returncode}: {done.stderr[-200:]}")
    return so_far() - before, json.loads(done.stdout) if done.stdout.startswith("{") else {}


def compare(case: Case, former: pathlib.Path, pairs: int) -> tuple[list[str], float, float]:
    """The row; the ratio of core seconds, and of what was found (1 where one of them found nothing)."""
    name, arguments, key = case
    times: dict[pathlib.Path, list[float]] = {former: [], PROGRAM: []}
    found = {}
    for _ in range(pairs):
        for program in (former, PROGRAM):
            seconds, answer = spent(program, arguments)
            times[program].append(seconds)
            found[program] = answer.get(key)
    pace = statistics.median(now / then for then, now in zip(times[former], times[PROGRAM]))
    if found[PROGRAM] is None:
        worth = 1 if found[former] is None else math.inf
    else:
        worth = found[PROGRAM] / found[former] if found[former] else 1
    shown = [f"{found[program]:,.6g}" if found[program] is not None else "-" for program in (former, PROGRAM)]
    return [name, *shown, f"{worth:.4f}", *(f"{statistics.median(times[p]):.3f}" for p in (former, PROGRAM)), f"{pace:.2f}"], pace, worth


def broken_case(case: Case, worth: float) -> list[str]:
    name, _, key = case
    if worth == math.inf:
        return [f"{name}: nothing is found"]
    return [f"{name}: {key} is {worth:.4f} times what it was"] if worth > WORSE_CASE else []


def means(paces: list[float], worths: list[float]) -> tuple[float, float]:
    return statistics.geometric_mean(paces), statistics.geometric_mean([w for w in worths if w < math.inf] or [1])


def broken_group(group: str, paces: list[float], worths: list[float]) -> list[str]:
    pace, worth = means(paces, worths)
    broken = [f"{group}: {pace:.2f} times the core seconds"] if pace > SLOWER else []
    return broken + ([f"{group}: {worth:.4f} times what was found, in geometric mean"] if worth > WORSE else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--former", type=pathlib.Path, help="the program of an older checkout")
    parser.add_argument("--only", choices=GROUPS, help="this group of cases")
    parser.add_argument("--pairs", type=int, help="of runs for each case")
    arguments = parser.parse_args()
    if arguments.former is None:
        print("bench/versus.py: nothing to compare with: --former PROGRAM is missing, `lowtide` of an older checkout", file=sys.stderr)
        return 2
    broken = []
    for group, pairs in GROUPS.items():
        if arguments.only not in (None, group):
            continue
        rows, paces, worths = [], [], []
        for case in cases(group):
            row, pace, worth = compare(case, arguments.former, arguments.pairs or pairs)
            rows.append(row)
            paces.append(pace)
            worths.append(worth)
            broken += broken_case(case, worth)
        if not paces:
            print(f"{group}: skipped, its problems are not here\n")
            continue
        pace, worth = means(paces, worths)
        table([group, "found before", "now", "ratio", "core s before", "now", "ratio"], rows)
        print(f"{group}: {worth:.4f} of what was found, {pace:.2f} of the core seconds, in geometric mean of {len(paces)} cases\n")
        broken += broken_group(group, paces, worths)
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
