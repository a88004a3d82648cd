"""Plans of one workload for bench/magis.py, as cells: rows by ratios, and what bisections try."""

import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import time

from lowtide import SCRATCH, lowtide
from magis_published import split_percent
from magis_rows import BY_NAME, ROWS, Row
from magis_workloads import Workload

PARTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]  # for the least ratios
STEPS, DEEPEST = 4, 1.6  # plans of a bisection, between what the parts need without recompute and a share of that
NEAR = 0.99               # of what was found: less is not looked for
METHOD_STEPS = 10        # of a published method's bisection
HARD = 1.5               # time limits after which a plan is killed
PROGRESS = re.compile(r"^lowtide: (\d+) s, .*of the work.*\n?", re.MULTILINE)


@dataclasses.dataclass
class Cell:
    """A plan, or why there is none."""
    row: str
    split: str
    ratio: float | None  # None: without a budget
    seconds: float = 0.0
    first_seconds: float | None = None  # when progress, told each second, first spoke of a plan within the budget
    extra: float | None = None  # percent
    bound: float | None = None
    parts: str = "1"  # of the levels that the plan has, outermost first
    parts_extra: float = 0.0  # percent: of the parts alone, each op once
    reruns: int | None = None
    arena_bytes: int | None = None  # of a published method: the peak
    peak_before_bytes: int | None = None
    once_seconds: float | None = None  # of the unsplit step
    ops: int | None = None
    costs: str = ""        # where seconds come from, as the plan says
    is_cut: bool = False   # by the time limit, or longer than it
    is_late: bool = False  # killed
    refusal: str = ""

    def reaches(self, limit: float) -> bool:
        return self.extra is not None and self.extra <= limit

    def text(self) -> str:
        if self.extra is None:
            if self.is_late:
                return "late"
            return "<floor" if "is too small" in self.refusal else "-"
        star = "" if self.reruns else "*"
        star += "~" if self.is_cut else ""
        row = BY_NAME.get(self.row)
        extra = f"{tenths(self.extra)}{star}"
        if row and row.method:
            return extra
        parts = f" n={self.parts}" if self.split == "auto" else ""
        return f"{extra} [{tenths(self.bound)}]{parts}" if self.bound is not None else extra + parts


def tenths(percent: float) -> str:
    """Rounding to -0.0 is nothing."""
    return f"{round(percent, 1) + 0.0:.1f}"


@dataclasses.dataclass
class Settings:
    effort: float
    time_limit: float
    cost_model: str  # roofline, tiles, or published: what parts take by MAGIS's points, the rest by the roofline

    @property
    def planned_by(self) -> str:
        return "roofline" if self.cost_model == "published" else self.cost_model


class Planner:
    """Asks for the plans of one workload. `broken` collects what is promised and does not hold."""

    def __init__(self, name: str, workload: Workload, settings: Settings, broken: list[str]):
        self.name, self.workload, self.settings, self.broken = name, workload, settings, broken
        self.cells: list[Cell] = []
        self.problems: dict[bool, pathlib.Path] = {}
        self.whole: Cell | None = None
        self.whole = self.plan("order only", "1", None)
        if self.whole.extra is None:
            sys.exit(f"bench/magis.py: {name} has no plan without a budget: {self.whole.refusal}")
        self.free = {"1": self.whole}

    def peak(self) -> int:
        return self.whole.peak_before_bytes

    def free_plan(self, split: str) -> Cell:
        """In so many parts, without a budget."""
        if split not in self.free:
            self.free[split] = self.plan(f"n={split}", split, None)
        return self.free[split]

    def run(self, cell: Cell, arguments: list, timeout: float | None) -> dict | None:
        start = time.monotonic()
        try:
            result = lowtide(*arguments, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            cell.is_late = True
            return None
        finally:
            cell.seconds = time.monotonic() - start
        told = [float(line[1]) for line in PROGRESS.finditer(result.stderr) if ": best" in line[0]]
        if result.returncode == 0:
            cell.first_seconds = min([*told, cell.seconds])
            return json.loads(result.stdout)
        cell.refusal = PROGRESS.sub("", result.stderr).strip()
        if result.returncode not in (3, 5):
            self.broken.append(f"{self.what(cell)}: exit code {result.returncode}, {cell.refusal}")
        return None

    def what(self, cell: Cell) -> str:
        return f"{self.name}, {cell.row}, ratio {cell.ratio}"

    def plan(self, row: str, split: str, ratio: float | None, flags: list[str] | None = None, slowdown: float | None = None) -> Cell:
        """Within a budget, within so many percent of extra time, or without either."""
        settings = self.settings
        arguments = ["plan", *self.workload.arguments(), "--cost-model", settings.planned_by, *(flags or ["--split", split]), "--json"]
        budget = None if ratio is None else int(ratio * self.peak())
        if budget is not None:
            arguments += ["--budget", budget]
        if slowdown is not None:
            arguments += ["--slowdown", f"{slowdown}%"]
        if budget is not None or slowdown is not None:
            arguments += ["--effort", settings.effort, "--time-limit", settings.time_limit, "--progress"]
        cell = Cell(row, split, ratio)
        self.cells.append(cell)
        if split.isdigit() and int(split) > self.workload.dims["batch"]:
            cell.refusal = "more parts than samples"
            return cell
        made = self.run(cell, arguments, HARD * settings.time_limit)
        if made is not None:
            self.fill(cell, made, budget)
        return cell

    def fill(self, cell: Cell, plan: dict, budget: int | None) -> None:
        """Extra time is over the unsplit step as it is planned without a budget: a rewrite that a
        plan found takes its own unsplit step down, too."""
        own = plan.get("whole_once_seconds") or plan["once_seconds"]
        once = self.whole.once_seconds if self.whole else own
        cell.extra = 100 * (plan["predicted_step_seconds"] / once - 1)
        cell.bound = 100 * (plan["lower_bound_seconds"] / once - 1)
        cell.parts = ",".join(re.findall(r"(?:^|:)(\d+)(?=,|$)", plan.get("split", "1")))
        cell.parts_extra = 100 * (plan["once_seconds"] / once - 1)
        cell.ops, cell.reruns = plan["ops"], plan["actions"]["reruns"]
        cell.is_cut, cell.costs = plan["cut_short"] or cell.seconds > self.settings.time_limit, plan["costs"]
        cell.arena_bytes, cell.peak_before_bytes, cell.once_seconds = plan["arena_bytes"], plan["peak_before_bytes"], once
        if budget is not None and cell.arena_bytes > budget:
            self.broken.append(f"{self.what(cell)}: an arena of {cell.arena_bytes} bytes, the budget has {budget}")
        if cell.bound > cell.extra + 1e-6:
            self.broken.append(f"{self.what(cell)}: {cell.extra:.4f} % extra, but {cell.bound:.4f} % is proven")
        if self.settings.cost_model == "published":
            self.publish(cell)

    def publish(self, cell: Cell) -> None:
        """Exchanges the predicted time of the parts for what MAGIS's points say of so many; no bound holds by such costs."""
        cell.bound = None
        most = max((int(n) for n in cell.parts.split(",") if n), default=1)
        percent = split_percent(self.name, most)
        if percent is None or most == 1:
            return
        share = 1.0
        if cell.split == "auto":  # levels: only some ops run in the most parts
            uniform = self.free_plan(str(most)).parts_extra
            share = min(1.0, max(0.0, cell.parts_extra / uniform)) if uniform > 0 else 1.0
        cell.extra += percent * share - cell.parts_extra

    def problem(self, swap: bool) -> pathlib.Path:
        """The bare problem of the unsplit step, with the link to the host or without."""
        if swap not in self.problems:
            folder = SCRATCH / "magis" / f"{self.name}{'_swap' if swap else ''}"
            folder.mkdir(parents=True, exist_ok=True)
            flags = ["--swap", "host", "--budget", self.peak(), "--effort", 0.1] if swap else []
            lowtide("plan", *self.workload.arguments(), "--cost-model", self.settings.planned_by, *flags, "--dump-problems", folder, "--quiet")
            self.problems[swap] = folder / "order.txt"
        return self.problems[swap]

    def by_method(self, row: Row, ratio: float) -> Cell:
        cell = Cell(row.name, "1", ratio)
        self.cells.append(cell)
        found = self.run(cell, ["remat", self.problem("swap" in row.levers), "--method", row.method, "--budget", int(ratio * self.peak()),
                                "--time-limit", 4 * self.settings.time_limit, "--json"], None)
        if found is None:
            return cell
        cell.extra, cell.reruns, cell.arena_bytes = found["extra_percent"], found["reruns"], found["peak_bytes"]
        cell.is_cut, cell.once_seconds = found["cut_short"], found["once_cost"]
        return cell

    def cell(self, row: Row, ratio: float) -> Cell:
        """Of a number of parts that fits without a search, that plan."""
        known = next((c for c in self.cells if c.row == row.name and c.ratio == ratio), None)
        if known:
            return known
        if row.method:
            return self.by_method(row, ratio)
        free = None if row.split == "auto" else self.free_plan(row.split)
        fits = free and free.arena_bytes is not None and free.arena_bytes <= ratio * self.peak()
        if fits or row.group in ("order", "parts") and "recompute" not in row.levers:
            found = dataclasses.replace(free, row=row.name, ratio=ratio, seconds=0.0)
            if not fits:
                found.extra = found.bound = found.arena_bytes = None
            self.cells.append(found)
            return found
        return self.plan(row.name, row.split, ratio, row.flags())

    def fill_rows(self, groups: list[str], ratios: list[float]) -> None:
        for row in ROWS:
            if row.group in groups or row.name in groups:
                for ratio in ratios:
                    self.cell(row, ratio)

    def row_of_parts(self, parts: int, swap: bool = False) -> Row:
        if swap:
            return Row(f"n={parts}, recompute, swap", "parts", str(parts), frozenset(("split", "recompute", "swap")))
        if parts == 1:
            return BY_NAME["recompute"]
        return BY_NAME.get(f"n={parts}, recompute") or Row(f"n={parts}, recompute", "parts", str(parts), frozenset(("split", "recompute")))

    def plan_least(self, limit: float) -> None:
        """The least memory within `limit` percent, in parts that the search chooses."""
        cell = self.plan(f"auto, +{limit} %", "auto", None, slowdown=limit)
        if cell.extra is not None and cell.extra > limit + 1e-6:
            self.broken.append(f"{self.what(cell)}: {cell.extra:.4f} % extra, {limit} % are allowed")

    def bisect(self, limit: float) -> None:
        """Bisects for the least ratio within `limit` percent, in each number of parts whose ops alone are within it; by published
        costs, where parts are dear, with swap and without."""
        within = [c for c in map(self.free_plan, map(str, PARTS)) if c.extra is not None and c.extra <= limit]
        swaps = (False, True) if self.settings.cost_model == "published" else (False,)
        for start in sorted(within, key=lambda c: c.arena_bytes):
            for swap in swaps:
                self.narrow(start, swap, limit)

    def narrow(self, start: Cell, swap: bool, limit: float) -> None:
        """Looks below what was found so far only, and no deeper than recompute is known to get from where these parts begin."""
        row = self.row_of_parts(int(start.split), swap)
        low = start.arena_bytes / self.peak() / (DEEPEST * (2 if self.settings.cost_model == "published" else 1))
        high = min(start.arena_bytes / self.peak(), self.least_found(limit, swap))
        for _ in range(STEPS + (self.settings.cost_model == "published")):
            if low >= high * NEAR:
                return
            cell = self.cell(row, math.sqrt(low * high))
            if cell.is_late:
                break
            low, high = (low, cell.arena_bytes / self.peak()) if cell.reaches(limit) else (cell.ratio, high)

    def bisect_method(self, row: Row, limit: float) -> None:
        low, high = 0.02, self.whole.arena_bytes / self.peak()
        for _ in range(METHOD_STEPS):
            cell = self.cell(row, math.sqrt(low * high))
            low, high = (low, cell.ratio) if cell.reaches(limit) else (cell.ratio, high)

    def least_found(self, limit: float, swap: bool = False) -> float:
        return least_found(self.cells, limit, swap)


def peak_of(cells: list[Cell]) -> int:
    return next(c.peak_before_bytes for c in cells if c.ratio is None and c.split == "1")


def least_found(cells: list[Cell], limit: float, swap: bool = False) -> float:
    """Of all plans but published methods'; with `swap` those that move, too."""
    within = [c for c in cells if c.reaches(limit) and not is_method(c) and (swap or not may_move(c))]
    return min(c.arena_bytes for c in within) / peak_of(cells)


def least_of_method(cells: list[Cell], row: Row, limit: float) -> float:
    """1: not below what the order alone needs."""
    return min((c.arena_bytes / peak_of(cells) for c in cells if c.row == row.name and c.reaches(limit)), default=1.0)


def may_move(cell: Cell) -> bool:
    """Rows of least ratios are not in the list."""
    row = BY_NAME.get(cell.row)
    return cell.row.endswith("swap") if row is None else "swap" in row.levers


def is_method(cell: Cell) -> bool:
    row = BY_NAME.get(cell.row)
    return row is not None and row.method != ""
