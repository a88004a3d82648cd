"""The rows of bench/magis.py's tables: what each may use, and how its plan is asked for."""

import dataclasses
import math

from magis_targets import PARTS_OF_ROWS, SLOWER_POINTS


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    group: str
    split: str = "1"
    levers: frozenset[str] = frozenset()  # split, recompute, swap; the order is free in all but published methods
    method: str = ""                      # a published one, by `lowtide remat --method`; else `lowtide plan`

    def flags(self) -> list[str]:
        """Of a plan within a budget."""
        flags = ["--split", self.split]
        if "recompute" not in self.levers:
            flags.append("--no-recompute")
        return flags + (["--swap", "host"] if "swap" in self.levers else [])


def levers(*names: str) -> frozenset[str]:
    return frozenset(names)


ROWS = [
    Row("order only", "order"),
    *(Row(f"n={n}", "parts", str(n), levers("split")) for n in PARTS_OF_ROWS),
    *(Row(f"n={n}, recompute", "parts", str(n), levers("split", "recompute")) for n in PARTS_OF_ROWS),
    *(Row(method, "baselines", levers=levers("recompute"), method=method) for method in ("chen", "dtr", "xla", "pofo")),
    *(Row(f"{method}, swap", "baselines", levers=levers("recompute", "swap"), method=method) for method in ("xla", "pofo")),
    Row("recompute", "levers", levers=levers("recompute")),
    Row("swap", "levers", levers=levers("swap")),
    Row("recompute, swap", "levers", levers=levers("recompute", "swap")),
    Row("auto", "auto", "auto", levers("split", "recompute")),
    Row("auto, swap", "auto", "auto", levers("split", "recompute", "swap")),
]
BY_NAME = {row.name: row for row in ROWS}
GROUPS = tuple(dict.fromkeys(row.group for row in ROWS))
METHODS = ("chen", "dtr", "xla", "pofo", "xla, swap", "pofo, swap")


def slower_than_less(extras: dict[str, float | None], row: Row) -> list[str]:
    """Rows that may use no more than this one, and are faster or alone have a plan. `extras`: percent by row; None: no plan."""
    return [f"{other.name} {extras[other.name]:.1f} %" for other, points in points_above_less(extras, row) if points > SLOWER_POINTS]


def points_above_less(extras: dict[str, float | None], row: Row) -> list[tuple[Row, float]]:
    """Rows with a plan that may use no more than this one, and by how many points of extra time it is above each; infinite where it
    has no plan."""
    own = extras.get(row.name)
    found = []
    for other in ROWS:
        extra = extras.get(other.name)
        if other == row or extra is None or not other.levers <= row.levers or (other.group == "auto" and row.group != "auto"):
            continue
        found.append((other, math.inf if own is None else own - extra))
    return found
