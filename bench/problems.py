#!/usr/bin/env python3
"""Bare problems: captured ordering problems, minimalloc's challenging packings, and packings drawn harder than these.

    problems.py [--part order|drawn|minimalloc]

Exit code 1, with a line for each, where an order is not proven optimal within 0.5 s or one of minimalloc's packings exceeds its
capacity, or where fewer of the drawn ones fit within the default work than did (LEAST_DRAWN).
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from drawn_packings import CAPACITY, KINDS, as_csv, draw  # noqa: E402
from lowtide import ROOT, SCRATCH, finish, lowtide, table  # noqa: E402

ORDER_SECONDS = 0.5
DRAWN_OF_EACH_KIND = 40
LEAST_DRAWN = {"full": 40, "left out": 37, "pinwheel": 40, "long": 38, "even": 40}  # that fit


def solve(*arguments) -> dict:
    """The outcome as JSON; a problem without a solution has one too, and an exit code that is not 0."""
    result = lowtide(*arguments, "--json", check=False)
    if not result.stdout:
        sys.exit(f"lowtide {' '.join(map(str, arguments))}: exit code {result.returncode}\n{result.stderr}")
    return json.loads(result.stdout)


def number(outcome: dict, key: str) -> str:
    """Without a solution there is no peak and no height."""
    return f"{outcome[key]:,}" if key in outcome else "-"


def broken_order(outcome: dict) -> list[str]:
    proven = outcome["status"] == "optimal" and outcome.get("peak_bytes") == outcome["lower_bound_bytes"]
    promises = [(proven, f"{outcome['status']}, peak {number(outcome, 'peak_bytes')} bytes, bound "
                         f"{outcome['lower_bound_bytes']:,} bytes: not proven optimal"),
                (outcome["seconds"] < ORDER_SECONDS, f"{outcome['seconds']:.3f} s, not within {ORDER_SECONDS} s")]
    return [what for kept, what in promises if not kept]


def broken_packing(outcome: dict, capacity: int) -> list[str]:
    if outcome.get("height_bytes", capacity + 1) <= capacity:
        return []
    return [f"{outcome['status']}, height {number(outcome, 'height_bytes')}: not packed into {capacity:,}"]


def drawn_row(kind: str, broken: list[str]) -> list[str]:
    """How many of the drawn packings fit; the median and the most seconds of those that do."""
    seconds, left_over = [], []
    SCRATCH.mkdir(parents=True, exist_ok=True)
    for seed in range(DRAWN_OF_EACH_KIND):
        path = SCRATCH / "drawn.csv"
        path.write_text(as_csv(draw(kind, seed)))
        outcome = solve("pack", path, "--capacity", CAPACITY)
        if broken_packing(outcome, CAPACITY):
            left_over.append(str(seed))
        else:
            seconds.append(outcome["seconds"])
    if len(seconds) < LEAST_DRAWN[kind]:
        broken.append(f"drawn packings, {kind}: {len(seconds)} of {DRAWN_OF_EACH_KIND} fit, {LEAST_DRAWN[kind]} did")
    median, most = (f"{statistics.median(seconds):.3f}", f"{max(seconds):.3f}") if seconds else ("-", "-")
    return [kind, f"{len(seconds)} of {DRAWN_OF_EACH_KIND}", median, most, " ".join(left_over) or "none"]


def orders(broken: list[str]) -> None:
    rows = []
    for path in sorted((ROOT / "tests/data/order").glob("*.order")):
        outcome = solve("order", path)
        incoming_ops = path.read_text().split(maxsplit=1)[0]
        rows.append([path.stem, incoming_ops, number(outcome, "peak_bytes"), f"{outcome['lower_bound_bytes']:,}",
                     outcome["status"], f"{outcome['seconds']:.4f}"])
        broken += [f"{path.stem}: {what}" for what in broken_order(outcome)]
    table(["ordering problem", "ops", "peak bytes", "bound bytes", "status", "s"], rows)


def drawn(broken: list[str]) -> None:
    table(["drawn packings", "fit", "median s", "most s", "seeds that do not"], [drawn_row(kind, broken) for kind in KINDS])


def minimalloc(broken: list[str]) -> None:
    folder = pathlib.Path(os.environ.get("LOWTIDE_SHARED", ROOT.parent / "shared")) / "data/minimalloc"
    packings = sorted(folder.glob("*.csv"))
    if not packings:
        print(f"skipped minimalloc's packings: there are none in {folder}")
        return
    rows = []
    for path in packings:
        capacity = path.name.split(".")[1]
        outcome = solve("pack", path, "--capacity", capacity)
        rows.append([path.stem, capacity, number(outcome, "height_bytes"), f"{outcome['lower_bound_bytes']:,}",
                     outcome["status"], f"{outcome['seconds']:.3f}"])
        broken += [f"{path.stem}: {what}" for what in broken_packing(outcome, int(capacity))]
    table(["packing problem", "capacity", "height", "bound", "status", "s"], rows)


def main() -> int:
    parts = {"order": orders, "drawn": drawn, "minimalloc": minimalloc}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=parts, help="this part only")
    arguments = parser.parse_args()
    broken: list[str] = []
    for name, part in parts.items():
        if arguments.part in (None, name):
            part(broken)
            print()
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
