"""Figures 9 to 15 of MAGIS's paper as tables for bench/magis.py, with the paper's own numbers
beside them. magis_drawings.py draws them.

9 to 11 come from the plans of the tables. 12 to 15 are measured here: `measure` returns plain data,
which --json keeps. Behind each stands what it was made by, and whose times they are.
"""

import functools
import json
import math
import pathlib
import re
import subprocess
from collections.abc import Callable

from lowtide import BUILD, SCRATCH, lowtide, table
from magis_cells import Settings, tenths
from magis_commands import Commands, told
from magis_published import (ABLATION, BASELINES_LEAST, CURVES, MAGIS_LEAST, OVERHEADS,
                             POFO_IN_PARTS, RIVALS)
from magis_rows import METHODS, ROWS
from magis_workloads import EVERYTHING

POFO_PARTS = (1, 8, 16, 32)        # of figure 12
MEMORY_LIMITS = (0.8, 0.4)         # of figure 10
ABLATED = "bert"                   # of figure 13
LEVELS = (2, 4, 8)                 # likewise
EVEN_PARTS = (2, 3, 4, 6, 8, 16)   # likewise: of the whole step, without levels
FEWEST, MOST, HALVINGS = 0.08, 0.6, 4  # likewise: where least ratios are looked for, and how long
NETWORKS = range(10)               # of figure 14: seeds
STAGES_OF = "vit"                  # of figure 15
SHOWN = ("order only", "chen", "dtr", "xla", "pofo", "xla, swap", "pofo, swap", "recompute", "recompute, swap", "auto", "auto, swap")


def measure(figures: list[int], names: list[str], ratios: list[float], limits: tuple[int, ...], settings: Settings,
            broken: list[str]) -> dict:
    found: dict = {}
    if 12 in figures and "vit" in names:
        found["12"] = pofo_in_parts(ratios, settings)
    if 13 in figures and ABLATED in names:
        found["13"] = ablation(limits, settings, broken)
    if 14 in figures:
        found["14"] = edits(broken)
    if 15 in figures and STAGES_OF in names:
        found["15"] = run_program("bench_labels", label_arguments(STAGES_OF, 0.4) + ["--stages", "--plans", "0"], broken)
    return found


# Figure 12: what POFO finds for one part of ViT, so often.

def pofo_in_parts(ratios: list[float], settings: Settings) -> dict[str, list[tuple[float, float]]]:
    """By number of parts: ratios of the unsplit peak, extra time. As the paper: the parts' latency times their number."""
    workload = EVERYTHING["vit"]
    curves: dict[str, list[tuple[float, float]]] = {}
    peak = once = None
    for parts in POFO_PARTS:
        folder = SCRATCH / "magis" / f"vit_part_of_{parts}"
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["plan", *workload.arguments(batch=workload.dims["batch"] // parts), "--cost-model", settings.planned_by]
        plan = json.loads(lowtide(*arguments, "--json").stdout)
        lowtide(*arguments, "--swap", "host", "--budget", plan["peak_before_bytes"], "--effort", 0.1, "--dump-problems", folder, "--quiet")
        if peak is None:
            peak, once = plan["peak_before_bytes"], plan["once_seconds"]
        curve = []
        for ratio in [1.0, *ratios, 0.1]:
            result = lowtide("remat", folder / "order.txt", "--method", "pofo", "--budget", int(ratio * peak), "--json", check=False)
            if result.returncode == 0:
                made = json.loads(result.stdout)
                curve.append((made["peak_bytes"] / peak, 100 * (parts * made["cost"] / once - 1)))
        curves[f"POFO, n={parts}" if parts > 1 else "POFO"] = pareto(sorted(set(curve)))
    return curves


# Figures 13 to 15: by the benchmark programs.

def run_program(name: str, arguments: list, broken: list[str]) -> list[str]:
    """Its lines; why there are none. One that fails is broken, by the last thing that it says."""
    program = BUILD / "bench" / name
    if not program.exists():
        return [f"{name} is not built; scripts/bench builds it"]
    result = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        why = result.stderr.strip().splitlines()
        broken.append(f"{name} {' '.join(map(str, arguments))}: exit code {result.returncode}{f', {why[-1]}' if why else ''}")
    return result.stdout.splitlines()


def figures_of(name: str, arguments: list, broken: list[str]) -> tuple[list[str], dict | None]:
    """Likewise, with what --json says; None: nothing."""
    file = SCRATCH / "magis" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    lines = run_program(name, [*arguments, "--json", file], broken)
    return lines, json.loads(file.read_text()) if file.exists() else None


def label_arguments(name: str, ratio: float) -> list:
    return [*EVERYTHING[name].of_benchmark(), "--ratio", ratio]


# Figure 13: extra percent within a ratio, by how labels are found; None: no plan.
Setting = Callable[[float], float | None]


class NoFigures(Exception):
    """Of a program that was to leave some."""


def by_labels(broken: list[str], *flags) -> Setting:
    """The best plan of a few labels that such a search likes best."""
    def extra(ratio: float) -> float | None:
        _, found = figures_of("bench_labels", [*label_arguments(ABLATED, ratio), "--plans", 4, "--even", 0, *flags], broken)
        if found is None:
            raise NoFigures(f"bench_labels {' '.join(map(str, flags))} left no figures within {ratio:g}")
        (model,) = found["models"]
        planned = model["planned_seconds"]
        return 100 * (min(planned) / model["once_seconds"] - 1) if planned else None
    return extra


def by_even_parts(settings: Settings) -> Setting:
    """The best of all of the step in so many parts: no level in more parts than what is around it."""
    step = [*EVERYTHING[ABLATED].arguments(), "--cost-model", settings.planned_by]
    whole = json.loads(lowtide("plan", *step, "--json").stdout)

    def extra(ratio: float) -> float | None:
        best = None
        for parts in EVEN_PARTS:
            made = lowtide("plan", *step, "--budget", int(ratio * whole["peak_before_bytes"]), "--split", parts, "--effort", 1, "--json",
                           check=False)
            if made.returncode == 0:
                seconds = json.loads(made.stdout)["predicted_step_seconds"]
                best = min(seconds, best or seconds)
        return None if best is None else 100 * (best / whole["once_seconds"] - 1)
    return extra


def ablation(limits: tuple[int, ...], settings: Settings, broken: list[str]) -> dict:
    """By setting: extra time within each of the memory limits, and the least ratio within each of the time limits. bench_labels knows no
    costs but the roofline's. Under "": why there is nothing."""
    if settings.cost_model != "roofline":
        return {"": f"not measured: bench_labels plans by the roofline, not by --cost-model {settings.cost_model}"}
    if not (BUILD / "bench/bench_labels").exists():
        return {"": "bench_labels is not built; scripts/bench builds it"}
    ways = {f"L={count}": by_labels(broken, "--levels", count) for count in LEVELS}
    ways |= {"naive schedule": by_labels(broken, "--naive-schedule"), "naive fission": by_even_parts(settings)}
    found: dict = {"extra": {}, "least": {}}
    for name, setting in ways.items():
        extra = functools.cache(setting)
        try:
            found["extra"][name] = [extra(ratio) for ratio in MEMORY_LIMITS]
            found["least"][name] = [least_within(extra, limit) for limit in limits]
        except NoFigures as wrong:
            broken.append(f"figure 13: {wrong}")
            return {"": f"not measured: {wrong}"}
    return found


def least_within(extra: Setting, limit: float) -> float | None:
    """By bisection of the ratio's logarithm; None: not even MOST."""
    def is_within(ratio: float) -> bool:
        found = extra(ratio)
        return found is not None and found <= limit
    low, high = FEWEST, MOST
    if not is_within(high):
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_within(middle) else (middle, high)
    return high


# Figure 14.

def edits(broken: list[str]) -> dict:
    paths = [EVERYTHING[f"nasnet{seed}"].path() for seed in NETWORKS]
    lines, found = figures_of("bench_edits", ["--networks", *paths], broken)
    if not lines:
        broken.append("figure 14: bench_edits has nothing to say of random networks")
    return {"lines": lines, **(found or {})}


# Tables.

def print_all(figures: list[int], outcomes: dict, measured: dict, limits: tuple[int, ...],
              commands: Commands) -> None:
    for figure in figures:
        if figure == 9:
            print_least_memory(outcomes, limits)
        elif figure == 10:
            print_overheads(outcomes)
        elif figure == 11:
            print_curves(outcomes)
        elif str(figure) in measured:
            printed = {12: print_pofo, 13: print_ablation, 14: print_edits, 15: print_stages}
            printed[figure](measured[str(figure)], outcomes)
        else:
            continue
        if outcomes and not (figure == 13 and "" in measured["13"]):
            print_origin(figure, outcomes, commands)


def print_origin(figure: int, outcomes: dict, commands: Commands) -> None:
    """Of 9 to 12 the plans; 13 to 15 are measured by programs, on these networks."""
    names = {12: ["vit"], 13: [ABLATED], 15: [STAGES_OF]}.get(figure, list(outcomes))
    costs = next(iter(outcomes.values())).whole().costs
    print(f"  figure {figure}: times by the {costs}")
    lines = told(commands, names)
    if figure == 13:
        lines = [f"bench_labels {ABLATED}.onnx --ratio R --plans 4 --even 0 {flags}" for flags in ("--levels L", "--naive-schedule")]
        lines.append(f"lowtide plan {ABLATED}.onnx --budget B --effort 1 --split N, N={', '.join(map(str, EVEN_PARTS))}")
    elif figure == 15:
        lines = [f"bench_labels {STAGES_OF}.onnx --ratio 0.4 --stages --plans 0"]
    elif figure == 14:
        lines = [f"bench_edits --networks nasnet{NETWORKS[0]}.onnx ... nasnet{NETWORKS[-1]}.onnx"]
    for line in lines:
        print(f"  by {line}")


def print_least_memory(outcomes: dict, limits: tuple[int, ...]) -> None:
    names = [name for name, outcome in outcomes.items() if outcome.least]
    if not names:
        return
    print("\nfigure 9: least ratio within so much extra time (published methods: of a peak, by bisection; the paper's are measured; 1: not below)")
    for k, limit in enumerate(limits):
        rows = [["Lowtide", *(f"{outcomes[n].least[''][k]:.3f}" for n in names)],
                ["Lowtide with moves", *(f"{outcomes[n].least['swap'][k]:.3f}" for n in names)]]
        for method in METHODS:
            if any(method in outcomes[n].least for n in names):
                rows.append([method, *(f"{outcomes[n].least[method][k]:.3f}" if method in outcomes[n].least else "" for n in names)])
        for who, known in (("MAGIS", MAGIS_LEAST), *BASELINES_LEAST.items()):
            rows.append([f"paper: {who}", *(f"{known[n][k]:.3f}" if n in known else "" for n in names)])
        table([f"+{limit} %", *names], rows)


def percent(value: float | None) -> str:
    return "-" if value is None else tenths(value)


def overheads(outcomes: dict, ratio: float) -> tuple[list[str], dict[str, list[float | None]]]:
    """The workloads that have plans within the ratio, and by row the extra time of each; NaN where
    nobody asked, None where there is no plan."""
    names = [n for n, outcome in outcomes.items() if outcome.extras(ratio)]
    extras = {n: outcomes[n].extras(ratio) for n in names}
    rows: dict[str, list[float | None]] = {}
    for row in SHOWN[1:]:  # an order alone keeps none of the limits
        if any(row in extras[n] for n in names):
            rows[row] = [extras[n].get(row, math.nan) for n in names]
    best = []
    for name in names:
        asked = [e for row, e in extras[name].items() if row.startswith("n=")]
        found = [e for e in asked if e is not None]
        best.append(min(found, default=None) if asked else math.nan)
    rows["best micro-batches"] = best
    for who, known in OVERHEADS.items():
        at = MEMORY_LIMITS.index(ratio)
        rows[f"paper: {who}"] = [known[n][at] if n in known else math.nan for n in names]
    return names, {who: row for who, row in rows.items() if any(map(is_asked, row))}


def is_asked(extra: float | None) -> bool:
    return extra is None or not math.isnan(extra)


def print_overheads(outcomes: dict) -> None:
    for ratio in MEMORY_LIMITS:
        names, rows = overheads(outcomes, ratio)
        if names:
            print(f"\nfigure 10: extra time in percent within {100 * ratio:g} % of memory (the "
                  "paper's are measured; -: no plan)")
            cells = [[who, *(percent(e) if is_asked(e) else "" for e in row)]
                     for who, row in rows.items()]
            table(["extra %", *names], cells)


def curves_of(name: str, outcome) -> dict[str, list[tuple[float, float]]]:
    """By row: ratios that its plans need, extra time; each no worse than those that need more."""
    peak, curves = outcome.whole().peak_before_bytes, {}
    for row in ROWS:
        if row.name not in SHOWN:
            continue
        points = sorted({(c.arena_bytes / peak, c.extra) for c in outcome.cells if c.row == row.name and c.extra is not None and c.arena_bytes})
        if points:
            curves[row.name] = pareto(points)
    if name in CURVES:
        curves["MAGIS, measured"] = CURVES[name]
    for who, point in RIVALS.get(name, {}).items():
        curves[f"paper: {who}"] = [point]
    return curves


def pareto(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of points by ratio, ascending: those that need less memory than each that is as fast."""
    kept: list[tuple[float, float]] = []
    for ratio, extra in points:
        if not kept or extra < kept[-1][1] - 1e-9:
            kept.append((ratio, extra))
    return kept


def print_points(curves: dict[str, list[tuple[float, float]]]) -> None:
    for who, points in curves.items():
        print(f"  {who}: " + " ".join(f"({ratio:.3f}, {tenths(extra)})" for ratio, extra in points))


def print_curves(outcomes: dict) -> None:
    for name, outcome in outcomes.items():
        print(f"\nfigure 11, {name}: memory and extra time of the plans, (ratio, extra %)")
        print_points(curves_of(name, outcome))


def print_pofo(curves: dict, outcomes: dict) -> None:
    print("\nfigure 12: ViT in n micro-batches, each planned by POFO with moves; n times its time, (ratio, extra %)")
    print_points(curves | with_auto(outcomes))
    print_points({f"paper: {who}": points for who, points in POFO_IN_PARTS.items()})


def with_auto(outcomes: dict) -> dict:
    if "vit" not in outcomes:
        return {}
    return {who: points for who, points in curves_of("vit", outcomes["vit"]).items() if who.startswith("auto")}


def print_ablation(found: dict, outcomes: dict) -> None:
    print(f"\nfigure 13: {ABLATED}, by how labels are found: the least ratio within so much extra time, and extra time in percent within so\n"
          "much memory. L: how many levels candidates have (Lowtide's own number is 8). Naive schedule: states are judged without a search for\n"
          "a schedule; naive fission: all of the step in so many parts. The paper matches schedule rules everywhere, and draws regions")
    if "" in found:
        print(found[""])
        return
    rows = [[who, *(("-" if ratio is None else f"{ratio:.3f}") for ratio in found["least"][who]), *map(percent, extras)]
            for who, extras in found["extra"].items()]
    rows += [[f"paper: {who}", *(f"{ratio:.3f}" for ratio in row[:2]), *map(percent, row[2:])] for who, row in ABLATION.items()]
    table(["", "+10 %", "+5 %", *(f"{ratio:g}" for ratio in MEMORY_LIMITS)], rows)


def print_edits(found: dict, outcomes: dict) -> None:
    print("\nfigure 14: random networks, changed regions: a view that follows against one made from nothing (the same problem), and the order\n"
          "that is inherited, scheduled anew between waists, against all ops ordered anew (the paper's incremental scheduling is 4 to 30 times\n"
          "faster than full, 10 on average, and as good in 94 of 100)")
    print("\n".join(found["lines"]))


def print_stages(lines: list[str], outcomes: dict) -> None:
    print(f"\nfigure 15: {STAGES_OF}, the search for labels by stage (the paper: 15 scheduled states a second; simulation 8.7 s of a minute,\n"
          "scheduling 3.7, transformation 2.5, hashes 44.8)")
    print("\n".join(lines))
