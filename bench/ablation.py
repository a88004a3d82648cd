#!/usr/bin/env python3
"""What each idea of the search under a budget is worth: the same problems with all of them, and with one switched off at a time.

    ablation.py [--seconds S] [--only MODEL]

The problems are training steps of the models (`plan --dump-problems`), with budgets between their floor and what needs none, by
recompute alone and with a link to host memory. Each is solved by `lowtide remat` with the work of S seconds on one core, all ideas
on, then `--without` each. Printed: the extra time of the plan and the proven bound, in points beside those with all ideas on
(a positive change of the plan is what the idea saves, a negative change of the bound what it proves); `none` where nothing fitted.
"""

import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import SCRATCH, label, lowtide, plan, table  # noqa: E402

CASES = [("resnet50", dict(batch=8), [(600, ()), (450, ()), (250, ("--swap", "host"))]),
         ("unet", dict(batch=2), [(600, ()), (400, ("--swap", "host"))]),
         ("gpt2", dict(batch=4, seq=256), [(1950, ()), (1600, ("--swap", "host"))]),
         ("bert", dict(batch=4, seq=128), [(1420, ())])]
UNITS_PER_SECOND = 200_000_000


def ideas() -> list[str]:
    """As the program names them."""
    text = lowtide("remat", "--help").stdout
    return re.search(r"ideas to switch off: ([^\n]+)", text).group(1).split(", ")


def solve(problem: pathlib.Path, budget: int, arguments: argparse.Namespace, *flags: str) -> dict:
    result = lowtide("remat", problem, "--budget", f"{budget}MiB", "--max-units", int(arguments.seconds * UNITS_PER_SECOND),
                     "--json", *flags, check=False)
    return json.loads(result.stdout) if result.stdout else {}


def percent(seconds: float, once: float) -> float:
    return 100 * (seconds / once - 1)


def change(value: float | None, base: float | None) -> str:
    if value is None or base is None:
        return "none" if value is None else "found"
    return "0" if abs(value - base) < 0.005 else f"{value - base:+.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", help="a model")
    arguments = parser.parse_args()
    columns, rows = [], {"(all on)": []} | {idea: [] for idea in ideas()}
    for name, dims, budgets in CASES:
        if arguments.only not in (None, name):
            continue
        for budget, flags in budgets:
            folder = SCRATCH / f"{name}_ablation{'_link' if flags else ''}"
            folder.mkdir(parents=True, exist_ok=True)
            # The link is a part of the problem, so the problem is dumped by a plan that may use it, at a budget that asks for little.
            unlimited = plan(name, dims)["arena_bytes"]
            within = ("--budget", f"{unlimited}B", *flags) if flags else ()
            once = plan(name, dims, *within, "--dump-problems", folder)["once_seconds"]
            columns += [f"{label(name, dims)} {budget} MiB{' link' if flags else ''}", "bound"]
            best = bound = None
            for idea, row in rows.items():
                found = solve(folder / "order.txt", budget, arguments, *(() if idea == "(all on)" else ("--without", idea)))
                extra = percent(found["cost"], once) if found.get("cost") is not None else None
                proven = percent(found["lower_bound_cost"], once) if found.get("lower_bound_cost") is not None else None
                if idea == "(all on)":
                    best, bound = extra, proven
                    row += ["none" if extra is None else f"{extra:.2f} %", "none" if proven is None else f"{proven:.2f} %"]
                else:
                    row += [change(extra, best), change(proven, bound)]
    table(["without", *columns], [[idea, *row] for idea, row in rows.items()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
