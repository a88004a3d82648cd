#!/usr/bin/env python3
"""Memory against time on the workloads of MAGIS's evaluation (table 2 of its paper), in one cost model and one simulator: Lowtide's.

    magis.py [--models NAME ...] [--ratios R ...] [--effort E] [--time-limit S] [--no-least] [--json FILE]
             [--cost-model roofline|tiles]

Training steps with SGD in f32, predicted for an RTX 3090 (`--device rtx3090`), by its roofline or, with `--cost-model tiles`, products in
whole waves of output tiles; nothing runs. Each table says by which. Ratio 1 is the peak of the
unsplit step in program order, nothing in place. Within each ratio of it: recompute alone (`--split 1`), micro-batches in 2, 4 and 8
parts with recompute in them, and `--split auto`. A cell is the extra time in percent of the unsplit step with each op once, then in
brackets what its plan proves for steps in so many parts; "*": nothing is recomputed; "<floor": proven impossible; "-": none found. A number
of parts whose plan without a budget fits is not searched again. Beside them what a prototype and MAGIS itself reached
(support/magis_published.py; MAGIS's are measured, the others predicted).

The least ratio within 10 and 5 percent of extra time is that of the smallest arena of all these plans and of a bisection's, in the
number of parts that needs least of those whose ops alone are within the limit. Its geometric mean is over the seven workloads.

A plan's search is limited by counted work, and by wall time as a safety stop: "~" marks what that ended, "late" what went on for half
as long again and was killed. About an hour. Exit code 1 if a plan's arena is
above its budget, if a bound is above its plan's time, if planning fails otherwise than by a budget that it does not meet, or if the
geometric means of all seven are above what MAGIS measured.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[1:1] = [str(ROOT / "bench/support"), str(ROOT / "models")]
import magis_networks  # noqa: E402
from lowtide import MODELS, SCRATCH, finish, lowtide, table  # noqa: E402
from magis_published import MAGIS, MAGIS_LEAST, PROTOTYPE, PROTOTYPE_LEAST  # noqa: E402

MSE, TOKENS = ("--loss", "mse"), ("--loss", "cross-entropy", "--dropout", "off")


@dataclasses.dataclass(frozen=True)
class Workload:
    network: str  # of models/magis_networks.py, or a file of models/
    dims: dict[str, int]
    flags: tuple[str, ...] = MSE

    def path(self) -> pathlib.Path:
        if self.network in magis_networks.NETWORKS:
            return magis_networks.write(self.network, SCRATCH / "magis")
        return MODELS / f"{self.network}.onnx"


TEXT = dict(batch=32, seq=512)
TABLE_2 = {
    "resnet50": Workload("magis_resnet50", dict(batch=64)),
    "bert": Workload("magis_bert", TEXT),
    "vit": Workload("magis_vit", dict(batch=64)),
    "unet": Workload("magis_unet", dict(batch=32)),
    "unetpp": Workload("magis_unetpp", dict(batch=16)),
    "gptneo": Workload("magis_gptneo", TEXT),
    "btlm": Workload("magis_btlm", TEXT),
}
OTHERS = {
    "gpt2": Workload("gpt2", dict(batch=8, seq=512), TOKENS),
    "bert_vocabulary": Workload("bert", dict(batch=32, seq=128), TOKENS),
    "resnet50_bn": Workload("magis_resnet50_bn", dict(batch=64)),
    "unet_bn": Workload("magis_unet_bn", dict(batch=32)),
    "unetpp_bn": Workload("magis_unetpp_bn", dict(batch=16)),
}
TINY = {"tiny": Workload("magis_tiny", dict(batch=16, seq=64))}  # for tests, only by name
SLOW_LAST = ("gptneo", "btlm")
RATIOS = [0.8, 0.6, 0.5, 0.4, 0.3, 0.2]
SPLITS = ["1", "2", "4", "8", "auto"]
LIMITS = (10, 5)       # percent of extra time, of the least ratios
PARTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]  # for the least ratios
STEPS, DEEPEST = 4, 1.6  # plans of a bisection, between what the parts need without recompute and a share of that
HARD = 1.5             # time limits after which a plan is killed
SLOW_SECONDS = 15      # cells that take longer are listed


@dataclasses.dataclass
class Cell:
    """A plan, or why there is none."""
    split: str
    ratio: float | None  # None: without a budget
    seconds: float
    extra: float | None = None  # percent
    bound: float | None = None
    parts: str = "1"  # of the levels that the plan has, outermost first
    reruns: int | None = None
    arena_bytes: int | None = None
    peak_before_bytes: int | None = None
    once_seconds: float | None = None  # of the unsplit step
    ops: int | None = None
    costs: str = ""        # where seconds come from, as the plan says
    is_cut: bool = False   # by the time limit
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
        parts = f" n={self.parts}" if self.split == "auto" else ""
        return f"{self.extra:.1f}{star} [{self.bound:.1f}]{parts}"


class Bench:
    """The plans of one workload. `broken` collects what is promised and does not hold."""

    def __init__(self, name: str, workload: Workload, limits: tuple[float, float], cost_model: str, broken: list[str]):
        self.name, self.workload, self.limits, self.cost_model, self.broken = name, workload, limits, cost_model, broken
        self.path = workload.path()
        self.cells: list[Cell] = []
        self.whole = self.plan("1", None)
        if self.whole.extra is None:
            sys.exit(f"bench/magis.py: {name} has no plan without a budget: {self.whole.refusal}")
        self.free = {"1": self.whole}

    def free_plan(self, split: str) -> Cell:
        """In so many parts, without a budget."""
        if split not in self.free:
            self.free[split] = self.plan(split, None)
        return self.free[split]

    def plan(self, split: str, ratio: float | None) -> Cell:
        arguments = ["plan", self.path, "--train", *self.workload.flags, "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0,
                     "--device", "rtx3090", "--cost-model", self.cost_model, "--split", split, "--json"]
        for key, size in self.workload.dims.items():
            arguments += ["--dim", f"{key}={size}"]
        budget = None if ratio is None else int(ratio * self.whole.peak_before_bytes)
        if budget is not None:
            arguments += ["--budget", budget, "--effort", self.limits[0], "--time-limit", self.limits[1]]
        start = time.monotonic()
        cell = Cell(split, ratio, 0.0)
        self.cells.append(cell)
        try:
            result = lowtide(*arguments, check=False, timeout=HARD * self.limits[1])
        except subprocess.TimeoutExpired:
            cell.is_late = True
            return cell
        finally:
            cell.seconds = time.monotonic() - start
        if result.returncode != 0:
            cell.refusal = result.stderr.strip()
            if result.returncode not in (3, 5):
                self.broken.append(f"{self.name}, --split {split}, ratio {ratio}: exit code {result.returncode}, {cell.refusal}")
            return cell
        self.fill(cell, json.loads(result.stdout), budget)
        return cell

    def fill(self, cell: Cell, plan: dict, budget: int | None) -> None:
        once = plan.get("whole_once_seconds") or plan["once_seconds"]
        cell.extra = 100 * (plan["predicted_step_seconds"] / once - 1)
        cell.bound = 100 * (plan["lower_bound_seconds"] / once - 1)
        cell.parts = ",".join(re.findall(r"(?:^|:)(\d+)(?=,|$)", plan.get("split", "1")))
        cell.ops, cell.reruns = plan["ops"], plan["actions"]["reruns"]
        cell.is_cut, cell.costs = plan["cut_short"], plan["costs"]
        cell.arena_bytes, cell.peak_before_bytes, cell.once_seconds = plan["arena_bytes"], plan["peak_before_bytes"], once
        what = f"{self.name}, --split {cell.split}, ratio {cell.ratio}"
        if budget is not None and cell.arena_bytes > budget:
            self.broken.append(f"{what}: an arena of {cell.arena_bytes} bytes, the budget has {budget}")
        if cell.bound > cell.extra + 1e-6:
            self.broken.append(f"{what}: {cell.extra:.4f} % extra, but {cell.bound:.4f} % is proven")

    def cell(self, split: str, ratio: float) -> Cell:
        """Of a number of parts that fits without a search, that plan."""
        free = None if split == "auto" else self.free_plan(split)
        if free and free.arena_bytes is not None and free.arena_bytes <= ratio * self.whole.peak_before_bytes:
            found = dataclasses.replace(free, ratio=ratio, seconds=0.0)
            self.cells.append(found)
            return found
        return next((c for c in self.cells if c.split == split and c.ratio == ratio), None) or self.plan(split, ratio)

    def rows(self, ratios: list[float]) -> list[list[str]]:
        names = {"1": "recompute", "auto": "--split auto"}
        rows = [[names.get(split, f"n={split}"), *(self.cell(split, ratio).text() for ratio in ratios)] for split in SPLITS]
        known, measured = PROTOTYPE.get(self.name, {}), MAGIS.get(self.name, {})
        rows.append(["prototype's best", *(f"{known[r]:.1f}" if r in known else "" for r in ratios)])
        if measured:
            rows.append(["MAGIS, measured (at)", *("{:.1f} ({:.2f})".format(*measured[r]) if r in measured else "" for r in ratios)])
        return rows

    def best(self, ratio: float) -> float:
        return min((c.extra for c in self.cells if c.ratio == ratio and c.extra is not None), default=math.inf)

    def bisect(self, limit: float) -> None:
        """Bisects for the least ratio within `limit` percent, in the number of parts that needs least of those within it."""
        free = [self.free_plan(str(n)) for n in PARTS]
        within = [c for c in free if c.extra is not None and c.extra <= limit]
        start = min(within, key=lambda c: c.arena_bytes)
        high = start.arena_bytes / self.whole.peak_before_bytes
        low = high / DEEPEST
        for _ in range(STEPS):
            cell = self.cell(start.split, math.sqrt(low * high))
            if cell.is_late:
                break
            low, high = (low, cell.arena_bytes / self.whole.peak_before_bytes) if cell.reaches(limit) else (cell.ratio, high)

    def least_found(self, limit: float) -> float:
        return min(c.arena_bytes for c in self.cells if c.reaches(limit)) / self.whole.peak_before_bytes


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def print_least(least: dict[str, list[float]], costs: str, broken: list[str]) -> None:
    """Ours, the prototype's and MAGIS's, and the geometric mean of those of the seven workloads that were asked for."""
    def text(values: tuple[float, ...] | list[float] | None) -> list[str]:
        return [f"{v:.3f}" for v in values] if values else [""] * len(LIMITS)
    rows = [[name, *text(found), *text(PROTOTYPE_LEAST.get(name)), *text(MAGIS_LEAST.get(name))] for name, found in least.items()]
    seven = [name for name in TABLE_2 if name in least]
    if seven:
        means = [[geometric_mean([values[name][k] for name in seven]) for k in range(len(LIMITS))]
                 for values in (least, PROTOTYPE_LEAST, MAGIS_LEAST)]
        rows.append([f"geometric mean of {len(seven)}", *(cell for mean in means for cell in text(mean))])
        for k, limit in enumerate(LIMITS):
            if len(seven) == len(TABLE_2) and means[0][k] > means[2][k]:
                broken.append(f"least ratio within {limit} %: {means[0][k]:.3f} in geometric mean, MAGIS measured {means[2][k]:.3f}")
    print(f"\nleast ratio within so much extra time, by bisection in the best numbers of parts; Lowtide's times by the {costs}")
    table(["", *(f"{who} +{limit} %" for who in ("Lowtide", "prototype", "MAGIS") for limit in LIMITS)], rows)


def print_missed(benches: list[Bench], ratios: list[float]) -> None:
    """Cells where the prototype's best is more than a tenth of a point better than all ways here."""
    for bench in benches:
        for ratio in ratios:
            known, found = PROTOTYPE.get(bench.name, {}).get(ratio), bench.best(ratio)
            if known is not None and found > known + 0.1:
                ours = f"{found:.1f} %" if found < math.inf else "no plan"
                print(f"missed: {bench.name} at {ratio:g}: {ours}, the prototype's best is {known:.1f} %")
        for cell in bench.cells:
            if cell.seconds > SLOW_SECONDS:
                budget = "no budget" if cell.ratio is None else f"ratio {cell.ratio:.3f}"
                print(f"slow: {bench.name}, --split {cell.split}, {budget}: {cell.seconds:.0f} s")


def main() -> int:
    everything = TABLE_2 | OTHERS | TINY
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(everything), metavar="NAME", help=", ".join(everything))
    parser.add_argument("--ratios", nargs="+", type=float, default=RATIOS, metavar="R", help="of the peak in program order")
    parser.add_argument("--effort", type=float, default=2, help="of each plan, about in seconds of one core")
    parser.add_argument("--time-limit", type=float, default=15, help="of each plan, in seconds")
    parser.add_argument("--cost-model", choices=("roofline", "tiles"), default="roofline", help="what predicts kernels' times")
    parser.add_argument("--no-least", action="store_true", help="no bisections")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all plans' figures, written after each workload")
    arguments = parser.parse_args()
    names = arguments.models or sorted([*TABLE_2, *OTHERS], key=lambda name: name in SLOW_LAST)
    broken: list[str] = []
    benches: list[Bench] = []
    least: dict[str, list[float]] = {}
    for name in names:
        bench = Bench(name, everything[name], (arguments.effort, arguments.time_limit), arguments.cost_model, broken)
        benches.append(bench)
        whole = bench.whole
        rows = bench.rows(arguments.ratios)
        print(f"\n{name}: {whole.once_seconds * 1e3:,.1f} ms, {whole.peak_before_bytes / 2**30:.2f} GiB, by order alone "
              f"{whole.arena_bytes / whole.peak_before_bytes:.3f}, {whole.ops:,} ops; times by the {whole.costs}")
        table(["extra %", *(f"{ratio:g}" for ratio in arguments.ratios)], rows)
        if not arguments.no_least:
            for limit in LIMITS:
                bench.bisect(limit)
            least[name] = [bench.least_found(limit) for limit in LIMITS]  # a stricter limit's plans are within the others
            print(f"least ratios: {', '.join(f'{ratio:.3f} (+{limit} %)' for ratio, limit in zip(least[name], LIMITS))}")
        sys.stdout.flush()
        if arguments.json:
            content = {b.name: {"least": dict(zip(map(str, LIMITS), least.get(b.name, []))),
                                "cells": [dataclasses.asdict(c) for c in b.cells]} for b in benches}
            arguments.json.write_text(json.dumps({"effort": arguments.effort, "cost_model": arguments.cost_model, "workloads": content}, indent=1) + "\n")
    if least:
        print_least(least, benches[0].whole.costs, broken)
    print_missed(benches, arguments.ratios)
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
