"""Random networks that resemble NASNet (models/nasnet.py) for bench/magis.py: what `--nasnet`
plans, and its table.

MAGIS's paper has such networks for its incremental scheduling alone (figure 14) and says nothing of
their memory against time, so these rows stand beside simple ways: micro-batches and recompute.
"""

import argparse
import math
import re
from typing import TYPE_CHECKING

import nasnet
from lowtide import table
from magis_cells import tenths

if TYPE_CHECKING:
    from magis_outcomes import Outcome

SEEDS = nasnet.SEEDS
PLANNED = range(6)        # seeds, where none is named
RATIOS = [0.4, 0.2]
ROWS = ["order", "n=2", "n=4", "n=8", "recompute", "auto"]
MICRO_BATCHES = ("n=2", "n=4", "n=8")
NAME = re.compile(r"nasnet\d+")


def fill(arguments: argparse.Namespace) -> None:
    """What --nasnet asks for, where no other flag says it."""
    arguments.models = [f"nasnet{seed}" for seed in arguments.nasnet or PLANNED]
    arguments.ratios = arguments.ratios or list(RATIOS)
    arguments.rows = arguments.rows or list(ROWS)
    arguments.least = arguments.least or ["auto"]
    if arguments.figures is None:
        arguments.figures = []


def print_table(outcomes: "dict[str, Outcome]", ratios: list[float]) -> None:
    """Those of the workloads that are such networks, each in a line."""
    found = {name: outcome for name, outcome in outcomes.items() if NAME.fullmatch(name)}
    if not found:
        return
    costs = next(iter(found.values())).whole().costs
    print(f"\nrandom networks, extra time in percent within each ratio: micro-batches (2 / 4 / 8), "
          f"recompute, auto, auto with moves; times by the {costs}")
    header = ["", "ops", "ms", "GiB", "order alone"]
    for ratio in ratios:
        header += [f"{ratio:g}: micro-batches", "recompute", "auto", "with moves"]
    header += ["least ratio +10 %", "+5 %"]
    table(header, [line(name, outcome, ratios) for name, outcome in found.items()])


def line(name: str, outcome: "Outcome", ratios: list[float]) -> list[str]:
    whole = outcome.whole()
    cells = [name, f"{whole.ops:,}", f"{whole.once_seconds * 1e3:.1f}",
             f"{whole.peak_before_bytes / 2**30:.2f}",
             f"{whole.arena_bytes / whole.peak_before_bytes:.3f}"]
    for ratio in ratios:
        extras = outcome.extras(ratio)
        cells.append(" / ".join(percent(extras.get(row, math.nan)) for row in MICRO_BATCHES))
        cells += [cell_text(outcome, row, ratio) for row in ("recompute", "auto", "auto, swap")]
    least = outcome.least.get("swap", [])
    return cells + [f"{ratio:.3f}" for ratio in least] + [""] * (2 - len(least))


def cell_text(outcome: "Outcome", row: str, ratio: float) -> str:
    cell = outcome.cell(row, ratio)
    return cell.text() if cell else ""


def percent(extra: float | None) -> str:
    if extra is None:
        return "-"
    return "" if math.isnan(extra) else tenths(extra)
