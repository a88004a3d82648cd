#!/usr/bin/env python3
"""What each mutation of labels, each idea of the searches, each rewrite and each lever is worth: a
plan with all of them, and one with each switched off by its flag.

    levers.py [--models NAME ...] [--ratio R] [--groups GROUP ...] [--parts N] [--effort E]
              [--time-limit S] [--json FILE]

The networks are those of bench/magis.py, within a share of the peak in program order, predicted by
the roofline of an RTX 3090. Groups:

    mutations  `--split auto --no-mutation NAME`, beside `--split auto`
    ideas      `--split auto --without NAME`, likewise
    moves      `--split auto --swap host --without NAME`, beside `--split auto --swap host`
    rewrites   `--split auto --no-rewrite NAME`, likewise; also of those that the search tries by
               itself where they look promising, and of --no-pieces, --no-sums, --no-strided-views
    levers     `--split auto --swap host --forbid LEVER`, beside all levers
    graphs     each rewrite by itself, asked for and switched off, without a budget and in --parts
               parts; only those rows where one changes anything: what the arena and the time change

Printed otherwise: the extra time of the plan with all of a group, in percent of the unsplit step
with each op once, and the points that are added without one; `none` where nothing was found without
it; "~" where the time limit ended a search. Names are those that the program knows. Work is counted, so
the same program prints the same; a search that ends elsewhere may be lucky, so small numbers of
either sign say nothing.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[1:1] = [str(ROOT / "bench/support"), str(ROOT / "models")]
from lowtide import finish, lowtide, table  # noqa: E402
from magis_cells import Cell, Planner, Settings  # noqa: E402
from magis_workloads import EVERYTHING  # noqa: E402

GROUPS = ("mutations", "ideas", "moves", "rewrites", "levers", "graphs")
MODELS = ("gpt2", "bert_vocabulary", "vit")
# How values lie and sums are made: rewrites without a name.
WAYS_TO_LIE = ("--no-pieces", "--no-sums", "--no-strided-views")


def known_names(flag: str) -> list[str]:
    """As the program lists them where it is asked for one that it does not know."""
    refusal = lowtide("plan", ROOT / "models/gpt2.onnx", "--train", "--budget", "60%", flag, "?", check=False).stderr
    found = re.search(r"(?:known: |levers are )([^)\n]+)", refusal)
    if found is None:
        sys.exit(f"bench/levers.py: lowtide plan {flag} '?' names nothing that it knows: {refusal}")
    return found[1].split(", ")


def flags_without(lever: str) -> list[str]:
    """All levers but one; nothing asks for that one."""
    split = [] if lever == "split" else ["--split", "auto"]
    swap = [] if lever == "swap" else ["--swap", "host"]
    return [*split, *swap, "--forbid", lever]


def rows_of(groups: list[str], parts: int) -> dict[str, dict[str, list[str]]]:
    """By group the rows, the one with all first: what is switched off, and the flags."""
    auto = ["--split", "auto"]
    rows: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        if group == "levers":
            made = {f"--forbid {name}": flags_without(name) for name in known_names("--forbid")}
            rows[group] = {"all levers": [*auto, "--swap", "host"], **made}
            continue
        if group == "graphs":
            names, split = known_names("--no-rewrite"), ["--split", str(parts)]
            made = {f"{flag} {name}": [*split, flag, name]
                    for name in names for flag in ("--rewrite", "--no-rewrite")}
            rows[group] = {"no budget": split, **made}
            continue
        if group in ("ideas", "moves"):
            base = [*auto, "--swap", "host"] if group == "moves" else auto
            names = [name for name in known_names("--without") if group == "moves" or name != "de-swap"]
            made = {f"--without {name}": [*base, "--without", name] for name in names}
            rows[group] = {" ".join(base).replace("--split auto", "auto"): base, **made}
            continue
        flag = "--no-mutation" if group == "mutations" else "--no-rewrite"
        made = {f"{flag} {name}": [*auto, flag, name] for name in known_names(flag)}
        if group == "rewrites":
            made |= {way: [*auto, way] for way in WAYS_TO_LIE}
        rows[group] = {"auto": auto, **made}
    return rows


def text(cell: Cell, base: Cell) -> str:
    cut = "~" if cell.is_cut else ""
    if cell.extra is None:
        return "late" if cell.is_late else "none"
    if cell is base:
        return f"{round(cell.extra, 2) + 0.0:.2f} %{cut} ({cell.parts})"
    if base.extra is None:
        return f"found{cut}"
    change = cell.extra - base.extra
    return f"{change:+.2f}{cut}" if abs(change) >= 0.005 else f"0{cut}"


def graph_text(cell: Cell, base: Cell) -> str:
    """Arena and extra time; of what differs from the base, by how much."""
    if cell.arena_bytes is None or base.arena_bytes is None:
        return "none"
    if cell is base:
        return f"{cell.arena_bytes / 2**30:.2f} GiB, {round(cell.extra, 2) + 0.0:.2f} %"
    arena, time = 100 * (cell.arena_bytes / base.arena_bytes - 1), cell.extra - base.extra
    return f"{arena:+.1f} %, {time:+.2f}" if abs(arena) >= 0.05 or abs(time) >= 0.005 else "0"


def print_group(group: str, rows: list[str], cells: dict[str, dict[str, Cell]]) -> None:
    is_graph = group == "graphs"
    told = graph_text if is_graph else text
    lines = [[row, *(told(found[row], found[rows[0]]) for found in cells.values())] for row in rows]
    if is_graph:
        lines = [line for line in lines if set(line[1:]) != {"0"}]
    table(["", *cells], lines)
    print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(EVERYTHING), default=list(MODELS),
                        metavar="NAME", help=", ".join(EVERYTHING))
    parser.add_argument("--ratio", type=float, default=0.3, help="of the peak in program order")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--parts", type=int, default=1, metavar="N", help="of the group graphs")
    parser.add_argument("--effort", type=float, default=1, help="about in seconds of one core")
    parser.add_argument("--time-limit", type=float, default=120, help="of each plan, in seconds")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all plans' figures")
    arguments = parser.parse_args()
    broken: list[str] = []
    settings = Settings(arguments.effort, arguments.time_limit, "roofline")
    cells: dict[str, dict[str, Cell]] = {}  # by network, then by what is switched off
    rows = rows_of(arguments.groups, arguments.parts)
    for name in arguments.models:
        planner = Planner(name, EVERYTHING[name], settings, broken)
        found = cells.setdefault(name, {})
        for group, flags_of in rows.items():
            ratio = None if group == "graphs" else arguments.ratio
            for row, flags in flags_of.items():
                found[f"{group}: {row}"] = planner.plan(row, "auto", ratio, flags)
        if arguments.json:
            content = {n: {row: dataclasses.asdict(cell) for row, cell in f.items()}
                       for n, f in cells.items()}
            arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    costs = planner.whole.costs
    print(f"extra time within {arguments.ratio:g} of the memory, and points added without one; "
          f"times by the {costs}")
    for group, flags_of in rows.items():
        known = {name: {row: found[f"{group}: {row}"] for row in flags_of}
                 for name, found in cells.items()}
        print_group(group, list(flags_of), known)
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
