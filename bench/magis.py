#!/usr/bin/env python3
"""Memory against time on the workloads of MAGIS's evaluation (table 2 of its paper), in one cost model and one simulator: Lowtide's.

    magis.py [--models NAME ...] [--ratios R ...] [--rows GROUP|ROW ...] [--figures [N ...]]
             [--least WAY ... | --no-least] [--effort E] [--time-limit S]
             [--cost-model roofline|tiles|published] [--json FILE] [--merge FILE ...] [--svg FOLDER]
    magis.py --nasnet [SEED ...] [...]

Training steps with SGD in f32, predicted for an RTX 3090 (`--device rtx3090`); nothing runs. Each table says by which costs: the device's
roofline, or products in whole waves of output tiles, or `published`: see below. Ratio 1 is the peak of the unsplit step in program order,
nothing in place. Within each ratio of it the rows, in groups:

    order      the best order alone
    parts      micro-batches in n parts, without and with recompute
    baselines  published methods on the unsplit step's problem (`lowtide remat --method`): chen, dtr, xla and pofo; the latter two also
               with moves to the host. Their bytes are those of a peak, without addresses; ours are arenas.
    levers     recompute alone, moves alone, both
    auto       parts that the search chooses (`--split auto`), with recompute; and with moves, too: all levers

--rows takes names of rows, too, as in "n=4" or "pofo, swap". `--nasnet` plans random networks that
resemble NASNet (seeds 0 to 5) within .4 and .2 and for the least memory within 10 and 5 percent,
and prints them as one table; flags that are given change that.

A cell is the extra time in percent of the unsplit step with each op once, then in brackets what its plan proves for steps in so many
parts; "*": nothing is recomputed; "<floor": proven impossible; "-": none found. A number of parts whose plan without a budget fits is not
searched again. Beside them what a prototype and MAGIS itself reached (support/magis_published.py; MAGIS's are measured, the others
predicted). The least ratio within 10 and 5 percent of extra time is that of the smallest arena of all these plans, of `lowtide plan --slowdown` in
parts that the search chooses (`--least auto`), and of bisections in each number of parts whose ops alone are within the limit (`--least
parts`). Its geometric mean is over the seven workloads.

`--cost-model published` asks what the splitting costs that MAGIS's own measured points suggest would change: plans are those of the
roofline; of each, the extra time of its parts alone is taken out and MAGIS's percent for so many parts put in (between its points and
behind them linear in log n; for levels, the share of it that the roofline says they have of uniform parts); what recompute and moves add
stays as predicted. No bound holds by such costs. There the least ratio is bisected with moves and without.

Figures of the paper, after the tables (`--figures` alone: none): 9 least memory and 10 overhead, ours, published methods' and as the paper
has them; 11 whole curves; 12 ViT's micro-batches planned by POFO; 13 BERT by how labels are found: how many levels candidates have, states
judged without a search for a schedule, all of the step in parts alone; 14 on random networks an edit's view against one made from nothing, and
orders scheduled anew between waists against all ops ordered anew; 15 states a second by stage. 13 to 15 run the benchmark programs of the
build. `--svg` draws all of them. Behind each figure stand the commands that made it. Pieces made with --json are put
together by --merge, which plans nothing. What is wanted of all this, and what of it is met, is bench/targets.py's table.

How long one waits for a first plan within a budget, and for the last, is printed behind the tables. A plan's search is limited by counted
work, and by wall time as a safety stop: "~" marks what that ended, "late" what went on for half as long again and was killed. Some hours.
Exit code 1 if a plan's arena is above its budget, if a bound is above its plan's time, if a plan of --slowdown takes longer than that, if
planning fails otherwise than by a budget that it does not meet, if a row of auto is more than a tenth of a point slower than a row that uses a part of its levers, or than micro-batches
in 2, 3, 4, 6, 8, 12, 16 or 32 parts (unless the time limit ended its search), or if the geometric means of all seven are above what MAGIS
measured, or by published costs above what is wanted of them.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[1:1] = [str(ROOT / "bench/support"), str(ROOT / "models")]
import magis_commands  # noqa: E402
import magis_drawings  # noqa: E402
import magis_figures  # noqa: E402
import magis_nasnet  # noqa: E402
from lowtide import finish, table  # noqa: E402
from magis_cells import Planner, Settings  # noqa: E402
from magis_outcomes import LIMITS, Outcome, Together, together  # noqa: E402
from magis_published import MAGIS, MAGIS_LEAST, PROTOTYPE, PROTOTYPE_LEAST  # noqa: E402
from magis_rows import BY_NAME, GROUPS, METHODS, ROWS, slower_than_less  # noqa: E402
from magis_targets import FIRST_SECONDS, LAST_SECONDS, LEAST  # noqa: E402
from magis_workloads import EVERYTHING, TABLE_2, default_names  # noqa: E402

RATIOS = [0.8, 0.6, 0.5, 0.4, 0.3, 0.2]
WAYS_TO_LEAST = ("auto", "parts")
SLOW_SECONDS = 15  # cells that take longer are listed
FIGURES = (9, 10, 11, 12, 13, 14, 15)


def plan_workload(name: str, arguments: argparse.Namespace, broken: list[str]) -> Outcome:
    settings = Settings(arguments.effort, arguments.time_limit, arguments.cost_model)
    planner = Planner(name, EVERYTHING[name], settings, broken)
    planner.fill_rows(arguments.rows, arguments.ratios)
    outcome = Outcome(planner.cells, {})
    if arguments.no_least:
        return outcome
    for limit in LIMITS:
        if "auto" in arguments.least and arguments.cost_model != "published":
            planner.plan_least(limit)
        if "parts" in arguments.least:
            planner.bisect(limit)
    for who in ("", "swap"):  # a stricter limit's plans are within the others
        outcome.find_least(who)
    if 9 in arguments.figures:
        for method in METHODS:
            row = BY_NAME[method]
            for limit in LIMITS:
                planner.bisect_method(row, limit)
            outcome.find_least(method)
    return outcome


def print_rows(name: str, outcome: Outcome, ratios: list[float], cost_model: str) -> None:
    whole = outcome.whole()
    costs = f"{whole.costs}, parts by MAGIS's points" if cost_model == "published" else whole.costs
    print(f"\n{name}: {whole.once_seconds * 1e3:,.1f} ms, {whole.peak_before_bytes / 2**30:.2f} GiB, by order alone "
          f"{whole.arena_bytes / whole.peak_before_bytes:.3f}, {whole.ops:,} ops; times by the {costs}")
    rows = []
    for row in ROWS:
        cells = [outcome.cell(row.name, ratio) for ratio in ratios]
        if any(cells):
            rows.append([row.name, *(cell.text() if cell else "" for cell in cells)])
    known, measured = PROTOTYPE.get(name, {}), MAGIS.get(name, {})
    if known and cost_model == "roofline":
        rows.append(["prototype's best", *(f"{known[r]:.1f}" if r in known else "" for r in ratios)])
    if measured:
        rows.append(["MAGIS, measured (at)", *("{:.1f} ({:.2f})".format(*measured[r]) if r in measured else "" for r in ratios)])
    table(["extra %", *(f"{ratio:g}" for ratio in ratios)], rows)
    if outcome.least:
        print("least ratios: " + "; ".join(f"{who or 'without moves'} " + ", ".join(f"{r:.3f} (+{limit} %)" for r, limit in zip(found, LIMITS))
                                           for who, found in outcome.least.items() if who in ("", "swap")))
    sys.stdout.flush()


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def print_least(outcomes: dict[str, Outcome], cost_model: str, broken: list[str]) -> None:
    """Ours, the prototype's and MAGIS's, and the geometric mean of those of the seven workloads that were asked for."""
    def text(values: tuple[float, ...] | list[float] | None) -> list[str]:
        return [f"{v:.3f}" for v in values] if values else [""] * len(LIMITS)
    ours = {name: outcome.least for name, outcome in outcomes.items() if outcome.least}
    if not ours:
        return
    prototype = PROTOTYPE_LEAST[cost_model]
    rows = [[name, *text(found[""]), *text(found["swap"]), *text(prototype.get(name)), *text(MAGIS_LEAST.get(name))]
            for name, found in ours.items()]
    seven = [name for name in TABLE_2 if name in ours]
    if seven:
        columns = ({n: ours[n][""] for n in seven}, {n: ours[n]["swap"] for n in seven}, prototype, MAGIS_LEAST)
        means = [[geometric_mean([values[name][k] for name in seven]) for k in range(len(LIMITS))] for values in columns]
        rows.append([f"geometric mean of {len(seven)}", *(cell for mean in means for cell in text(mean))])
        if len(seven) == len(TABLE_2):
            is_published = cost_model == "published"
            for k, limit in enumerate(LIMITS):
                found = min(means[0][k], means[1][k]) if is_published else means[0][k]
                wanted, whose = (LEAST["published"][k], "wanted is") if is_published else (means[3][k], "MAGIS measured")
                if found > wanted:
                    broken.append(f"least ratio within {limit} %: {found:.3f} in geometric mean, {whose} {wanted:.3f}")
    costs = outcomes[next(iter(ours))].whole().costs
    if cost_model == "published":
        costs = f"{costs}, those of parts alone exchanged for what MAGIS's points say of so many"
    print(f"\nleast ratio within so much extra time; Lowtide's times by the {costs}")
    table(["", *(f"{who} +{limit} %" for who in ("Lowtide", "with moves", "prototype", "MAGIS") for limit in LIMITS)], rows)


def check_levers(name: str, outcome: Outcome, ratios: list[float], broken: list[str]) -> None:
    """More levers are never slower. Of auto it is a promise; where the time limit ended its search, and of other rows, it is said."""
    for ratio in ratios:
        for row in ROWS:
            cell = outcome.cell(row.name, ratio)
            if cell is None or row.method or row.group in ("order", "parts"):
                continue
            faster = slower_than_less(outcome.extras(ratio), row)
            if not faster:
                continue
            found = "no plan" if cell.extra is None else f"{cell.extra:.1f} %"
            line = f"{name}, {row.name}, ratio {ratio:g}: {found}, with less: {'; '.join(faster)}"
            if row.group == "auto" and not (cell.is_cut or cell.is_late):
                broken.append(line)
            else:
                print(f"slower than with less: {line}{' (ended by the time limit)' if cell.is_cut or cell.is_late else ''}")


def print_missed(outcomes: dict[str, Outcome], ratios: list[float]) -> None:
    """Cells where the prototype's best is more than a tenth of a point better than all ways here."""
    for name, outcome in outcomes.items():
        for ratio in ratios:
            known, found = PROTOTYPE.get(name, {}).get(ratio), outcome.best(ratio)
            if known is not None and found is not None and found > known + 0.1:
                ours = f"{found:.1f} %" if found < math.inf else "no plan"
                print(f"missed: {name} at {ratio:g}: {ours}, the prototype's best is {known:.1f} %")


def print_slow(outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        for cell in outcome.cells:
            if cell.seconds > SLOW_SECONDS:
                budget = "no budget" if cell.ratio is None else f"ratio {cell.ratio:.3f}"
                print(f"slow: {name}, {cell.row}, {budget}: {cell.seconds:.0f} s")


def print_waits(outcomes: dict[str, Outcome]) -> None:
    """How long one waits for plans that the search chooses parts of: for the first within the budget, and for the one handed out; one that
    was killed came no sooner than that."""
    rows = []
    for name, outcome in outcomes.items():
        waits = outcome.waits()
        if waits:
            first, last = zip(*waits)
            late = sum(seconds > FIRST_SECONDS for seconds in first), sum(seconds > LAST_SECONDS for seconds in last)
            rows.append([name, f"{len(waits)}", f"{max(first):.0f}", f"{late[0]}", f"{max(last):.0f}", f"{late[1]}"])
    if rows:
        print("\nwall seconds until auto has a plan within the budget, and until it hands one out; how many took longer than wanted")
        table(["", "plans", "first", f"above {FIRST_SECONDS} s", "last", f"above {LAST_SECONDS} s"], rows)


def write_json(path: pathlib.Path, arguments: argparse.Namespace, outcomes: dict[str, Outcome],
               figures: dict, commands: magis_commands.Commands, broken: list[str], finished: bool = False) -> None:
    content = {name: {"least": o.least, "cells": [dataclasses.asdict(c) for c in o.cells]} for name, o in outcomes.items()}
    path.write_text(json.dumps({"benchmark": "magis", "effort": arguments.effort, "cost_model": arguments.cost_model, "ratios": arguments.ratios,
                                "commands": commands, "workloads": content, "figures": figures, "broken": broken,
                                "finished": finished}, indent=1) + "\n")


def merge(arguments: argparse.Namespace) -> Together:
    """Of pieces of one cost model; what they were asked for are the arguments now."""
    found = together([json.loads(path.read_text()) for path in arguments.merge])
    if len(found) > 1:
        sys.exit(f"bench/magis.py: --merge: the files have different cost models: {', '.join(sorted(found))}")
    (merged,) = found.values()
    arguments.cost_model, arguments.effort = merged.cost_model, merged.effort
    arguments.ratios = sorted({*arguments.ratios, *merged.ratios}, reverse=True)
    return merged


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(EVERYTHING), metavar="NAME", help=", ".join(EVERYTHING))
    parser.add_argument("--ratios", nargs="+", type=float, metavar="R", help="of the peak in program order")
    parser.add_argument("--nasnet", nargs="*", type=int, choices=magis_nasnet.SEEDS, metavar="SEED",
                        help="random networks that resemble NASNet, 0 to 9, in one table")
    parser.add_argument("--rows", nargs="+", choices=[*GROUPS, *BY_NAME], metavar="GROUP",
                        help=f"{', '.join(GROUPS)}, or single rows")
    parser.add_argument("--figures", nargs="*", type=int, choices=FIGURES, metavar="N",
                        help="of the paper, 9 to 15")
    parser.add_argument("--effort", type=float, default=2, help="of each plan, about in seconds of one core")
    parser.add_argument("--time-limit", type=float, default=15, help="of each plan, in seconds")
    parser.add_argument("--cost-model", choices=("roofline", "tiles", "published"), default="roofline", help="what predicts kernels' times")
    parser.add_argument("--least", nargs="+", choices=WAYS_TO_LEAST, metavar="WAY",
                        help="how least ratios are looked for: auto, by --slowdown; parts, by bisection")
    parser.add_argument("--no-least", action="store_true", help="not at all")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all plans' figures, written after each workload")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", metavar="FILE", help="tables from files of --json; nothing is planned")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FOLDER",
                        help="draws the figures there")
    arguments = parser.parse_args()
    if arguments.merge and (arguments.models or arguments.nasnet is not None):
        parser.error("--merge plans nothing; --models and --nasnet have no use")
    if arguments.nasnet is not None:
        if arguments.models:
            parser.error("--nasnet names its networks; --models has no use")
        magis_nasnet.fill(arguments)
    fill(arguments)
    return arguments


def fill(arguments: argparse.Namespace) -> None:
    """What no flag says."""
    if arguments.ratios is None:
        arguments.ratios = [] if arguments.merge else list(RATIOS)
    if arguments.rows is None:
        arguments.rows = list(GROUPS)
    if arguments.figures is None:
        arguments.figures = list(FIGURES)
    if arguments.least is None:
        arguments.least = list(WAYS_TO_LEAST)
    if arguments.models is None and not arguments.merge:
        arguments.models = default_names()


def plan_all(arguments: argparse.Namespace, broken: list[str]) -> tuple[dict[str, Outcome], dict]:
    """Tells of each workload as soon as it is planned."""
    outcomes: dict[str, Outcome] = {}
    for name in arguments.models:
        outcomes[name] = plan_workload(name, arguments, broken)
        print_rows(name, outcomes[name], arguments.ratios, arguments.cost_model)
        if arguments.json:
            write_json(arguments.json, arguments, outcomes, {}, commands_of(arguments), broken)
    settings = Settings(arguments.effort, arguments.time_limit, arguments.cost_model)
    figures = magis_figures.measure(arguments.figures, list(outcomes), arguments.ratios, LIMITS, settings, broken)
    return outcomes, figures


def commands_of(arguments: argparse.Namespace) -> magis_commands.Commands:
    return {magis_commands.command_of(arguments): arguments.models}


def main() -> int:
    arguments = parse()
    broken: list[str] = []
    finished = True
    if arguments.merge:
        merged = merge(arguments)
        broken, finished = merged.broken(), merged.is_told()
        outcomes, figures, commands = merged.outcomes, merged.figures, merged.commands
        for name, outcome in outcomes.items():
            print_rows(name, outcome, arguments.ratios, arguments.cost_model)
    else:
        outcomes, figures = plan_all(arguments, broken)
        commands = commands_of(arguments)
    if arguments.json:
        write_json(arguments.json, arguments, outcomes, figures, commands, broken)
    for name, outcome in outcomes.items():
        check_levers(name, outcome, arguments.ratios, broken)
    print_least(outcomes, arguments.cost_model, broken)
    magis_nasnet.print_table(outcomes, arguments.ratios)
    magis_figures.print_all(arguments.figures, outcomes, figures, LIMITS, commands)
    if arguments.svg:
        magis_drawings.draw_all(arguments.svg, arguments.figures, outcomes, figures, LIMITS)
    if arguments.cost_model == "roofline":  # by which the prototype's plans are
        print_missed(outcomes, arguments.ratios)
    print_waits(outcomes)
    print_slow(outcomes)
    broken = list(dict.fromkeys(broken))  # pieces may have said it
    if arguments.json:
        write_json(arguments.json, arguments, outcomes, figures, commands, broken, finished)
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
