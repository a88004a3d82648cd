#!/usr/bin/env python3
"""How far it goes: GPT-2 training steps made deeper, up to 100,000 ops; and budgets, down to the proven floor.

    scale.py [--part remat|plan|pack|floors] [--most-layers N] [--most-buffers N]

First the retention search alone, on the captured step made deeper (bench/support/deeper_step.py), one thread, within budgets that
leave each layer so many MiB: extra time, what is proven, core seconds. Then the whole way from an ONNX file made deeper
(bench/support/deeper_onnx.py) to a verified plan, without a budget and within four fifths of the bytes that needs: core seconds, and
seconds per thousand ops, stage by stage. Then packings of 18,000 to 62,000 buffers, one thread. Last the grey zone of four steps: budgets above the proven floor for which little work finds no arena. Exit code 1, with a line for each, where the search alone or the whole way within
a budget takes more than 15 s of one core at 28,000 ops or more than 60 s at 100,000, where what is found in the first part, or in the second at 12,400 ops or more, is more than a point of extra
time above its bound, where a plan does not verify, where core seconds over n log n (n ops) are more than twice those at the size before, or at
100,000 ops those at 800 (within a budget: from 12,400 on), where a packing is more than 0.2 % above its load, takes more core seconds than
promised or is higher than first fit by size, area or start, where a packing that was drawn to be hard is not (first fit by size within
0.3 % of the load), or where a grey zone is wider than promised.
"""

import argparse
import json
import math
import os
import pathlib
import re
import resource
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from deeper_onnx import deeper_gpt2_onnx  # noqa: E402
from deeper_step import Step, deeper_gpt2  # noqa: E402
from first_fit import ORDERS, buffers_of, first_fit, load  # noqa: E402
from training_lives import crowded_training_lives, mixed_training_lives, write  # noqa: E402
from lowtide import MODELS, RECOMPUTE, ROOT, RUNNING, SCRATCH, finish, label, lowtide, mib, table  # noqa: E402

STEPS = {38: None, 384: 15, 1400: 60}  # layers of the captured step; at most so many core seconds
SHARES = [42, 29, 23]                  # MiB for each layer beside what is resident
MOST_POINTS = 1
FILES = {9: None, 36: None, 144: None, 326: 15, 1163: 60}  # layers of the ONNX file; at most so many core seconds to a plan within a budget
JUDGED = {False: 9, True: 144}  # from here on seconds per thousand ops are judged, without and within a budget
MOST_TIMES = 2
BUDGET = 0.8  # of the arena without one
PACKINGS = {30_000: 5, 62_000: 20}  # buffers; at most so many core seconds (captured ones count as the next larger)
WAITING = {30_000: 950, 62_000: 1_060}  # activations of the crowded ones: first fit by size is .32 and .53 % above the load
MOST_ABOVE_LOAD, LEAST_MISSED = 0.002, 0.003
GREY = {"resnet50": 42, "unet": 40}  # MiB at most: half of what lay there when all floors were those of single ops
STAGES = ["reading", "rewrites", "autodiff", "rewrites of the step", "types", "layouts", "views", "pieces", "costs", "order", "addresses", "schedule", "more memory", "plan", "verify"]


def timed(*arguments) -> dict:
    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = spent()
    result = lowtide(*arguments, "--json", check=False)
    if not result.stdout:
        return {"error": f"exit code {result.returncode}: {result.stderr.strip()}"}
    return json.loads(result.stdout) | {"core_seconds": spent() - before, "exit_code": result.returncode}


def search_deep_steps(most_layers: int, broken: list[str]) -> None:
    shallow, deep = (Step.parse((ROOT / f"tests/data/remat/{name}.remat").read_text()) for name in ("gpt2_4x256", "gpt24_4x256"))
    per_layer = (deep.resident - shallow.resident) // 12
    rows = []
    for layers, most_seconds in STEPS.items():
        if layers > most_layers:
            continue
        step = deeper_gpt2(shallow, layers, per_layer)
        path = SCRATCH / f"gpt{layers}_4x256.remat"
        path.write_text(step.text())
        for share in SHARES:
            budget = step.resident // 2**20 + layers * share
            outcome = timed("remat", path, "--budget", f"{budget}MiB", "--threads", 1)
            rows.append(search_row(len(step.ops), budget, outcome))
            broken += [f"{len(step.ops):,} ops within {budget:,} MiB: {what}" for what in broken_search(outcome, most_seconds)]
    table(["ops", "MiB", "extra %", "proven %", "gap, points", "core s", "core s per 1,000 ops"], rows)


def search_row(ops: int, budget: int, outcome: dict) -> list[str]:
    if "extra_percent" not in outcome:
        return [f"{ops:,}", f"{budget:,}", *["-"] * 5]
    extra, bound, seconds = outcome["extra_percent"], outcome["lower_bound_extra_percent"], outcome["core_seconds"]
    return [f"{ops:,}", f"{budget:,}", f"{extra:.2f}", f"{bound:.2f}", f"{extra - bound:.2f}", f"{seconds:.1f}", f"{seconds / ops * 1000:.3f}"]


def broken_search(outcome: dict, most_seconds: float | None) -> list[str]:
    if "extra_percent" not in outcome:
        return [outcome.get("error", "nothing was found")]
    points, seconds = outcome["extra_percent"] - outcome["lower_bound_extra_percent"], outcome["core_seconds"]
    broken = []
    if points > MOST_POINTS:
        broken.append(f"{points:.2f} points above the bound, at most {MOST_POINTS} promised")
    if most_seconds is not None and seconds > most_seconds:
        broken.append(f"{seconds:.1f} s of one core, at most {most_seconds} promised")
    return broken


def plan_file(path: pathlib.Path, *more) -> dict:
    return timed("plan", path, "--train", "--loss", "cross-entropy", "--optimizer", "adamw", "--dim", "batch=4", "--dim", "seq=256",
                 "--threads", 1, *more)


def stage_row(budget: str, outcome: dict) -> list[str]:
    thousands = outcome["ops"] / 1000
    stages = outcome["stage_seconds"] | {"reading": outcome["reading_seconds"]}
    return [f"{outcome['ops']:,}", budget, f"{outcome['core_seconds']:.1f}", f"{outcome['core_seconds'] / thousands:.3f}",
            f"{outcome['gap_points']:.2f}" if "gap_points" in outcome else "-",
            *[f"{stages[name] / thousands:.4f}" if name in stages else "-" for name in STAGES]]


def plan_deep_files(most_layers: int, broken: list[str]) -> None:
    rows: list[list[str]] = []
    paces: dict[bool, dict[int, float]] = {False: {}, True: {}}
    for layers, most_seconds in FILES.items():
        if layers > most_layers:
            continue
        path = SCRATCH / f"gpt2_{layers}.onnx"
        deeper_gpt2_onnx(MODELS / "gpt2.onnx", path, layers)
        budget = None
        for within in (False, True):
            outcome = plan_file(path, *(["--budget", budget, *RECOMPUTE] if within else []))
            label = f"GPT-2 with {layers} layers{f' within {budget:,} bytes' if within else ''}"
            if "error" in outcome or outcome["exit_code"] != 0:
                broken.append(f"{label}: {outcome.get('error', 'no plan')}")
                break
            broken += [f"{label}: {what}" for what in broken_plan(layers, most_seconds if within else None, outcome)]
            rows.append(stage_row(f"{budget / 2**20:,.0f}" if within else "-", outcome))
            paces[within][layers] = outcome["core_seconds"] / (outcome["ops"] * math.log2(outcome["ops"]))
            budget = int(BUDGET * outcome["arena_bytes"])
    table(["ops", "MiB", "core s", "per 1,000", "gap, points", *STAGES], rows)
    for within, pace in paces.items():
        broken += broken_growth(within, pace)


def broken_plan(layers: int, most_seconds: float | None, outcome: dict) -> list[str]:
    broken, points = [], outcome.get("gap_points", 0)
    if layers >= JUDGED[True] and points > MOST_POINTS:
        broken.append(f"{points:.2f} points above the bound, at most {MOST_POINTS} promised")
    if most_seconds is not None and outcome["core_seconds"] > most_seconds:
        broken.append(f"{outcome['core_seconds']:.1f} s of one core, at most {most_seconds} promised")
    return broken


def broken_growth(within: bool, pace: dict[int, float]) -> list[str]:
    """`pace`: seconds over n log2 n by layers. Each size is held against the one before, and the deepest against the first."""
    judged = sorted(layers for layers in pace if layers >= JUDGED[within])
    pairs = list(zip(judged, judged[1:]))
    if len(judged) > 2:
        pairs.append((judged[0], judged[-1]))
    return [f"core seconds over n log n are {pace[deep] * 1e6:.2f} us at {deep} layers and {pace[shallow] * 1e6:.2f} us "
            f"at {shallow}{', within a budget' if within else ''}; at most {MOST_TIMES} times as much is promised"
            for shallow, deep in pairs if pace[deep] > MOST_TIMES * pace[shallow]]


def packings(most_buffers: int) -> list[tuple[str, pathlib.Path, bool]]:
    """Drawn ones, and captured ones where the data is there: name, file, whether it was drawn to be hard for first fit."""
    problems = []
    for count in PACKINGS:
        if count > most_buffers:
            continue
        for name, lives in [("drawn", mixed_training_lives(count, 7)), ("crowded", crowded_training_lives(count, WAITING[count], 7))]:
            path = SCRATCH / f"{name}_{count}.csv"
            write(path, lives)
            problems.append((f"{name} {count:,}", path, name == "crowded"))
    folder = pathlib.Path(os.environ.get("LOWTIDE_SHARED", ROOT.parent / "shared")) / "data/pack-large"
    captured = sorted(folder.glob("*.csv"))
    if not captured:
        print(f"skipped captured packings: there are none in {folder}")
    return problems + [(path.stem, path, False) for path in captured]


def broken_packing(outcome: dict, most_seconds: float | None, first_fits: dict[str, int], hard: bool) -> list[str]:
    """`first_fits`: heights by order."""
    broken, height, bound = [], outcome["height_bytes"], outcome["lower_bound_bytes"]
    if height - bound > MOST_ABOVE_LOAD * bound:
        broken.append(f"{100 * (height / bound - 1):.2f} % above its load, at most {100 * MOST_ABOVE_LOAD:.1f} promised")
    if most_seconds is not None and outcome["core_seconds"] > most_seconds:
        broken.append(f"{outcome['core_seconds']:.1f} s of one core, at most {most_seconds} promised")
    broken += [f"height {height:,}, first fit by {order} has {least:,}" for order, least in first_fits.items() if height > least]
    if hard and first_fits["size"] - bound < LEAST_MISSED * bound:
        broken.append(f"first fit by size is {100 * (first_fits['size'] / bound - 1):.2f} % above the load: not drawn hard, which takes "
                      f"{100 * LEAST_MISSED:.1f}")
    return broken


def pack_large(most_buffers: int, broken: list[str]) -> None:
    rows = []
    for name, path, hard in packings(most_buffers):
        outcome = timed("pack", path, "--threads", 1)
        buffers = buffers_of(path)
        if outcome["lower_bound_bytes"] < load(buffers):
            broken.append(f"packing {name}: its bound of {outcome['lower_bound_bytes']:,} is below its load of {load(buffers):,}")
        most_seconds = next((seconds for count, seconds in PACKINGS.items() if len(buffers) <= count), None)
        first_fits = {order: first_fit(buffers, order) for order in ORDERS}
        above = [f"{100 * (height / outcome['lower_bound_bytes'] - 1):.3f}" for height in (outcome["height_bytes"], *first_fits.values())]
        rows.append([name, f"{len(buffers):,}", f"{outcome['height_bytes']:,}", *above, f"{outcome['core_seconds']:.2f}", str(most_seconds)])
        broken += [f"packing {name}: {what}" for what in broken_packing(outcome, most_seconds, first_fits, hard)]
    table(["packing", "buffers", "height bytes", "% above load", *(f"first fit by {order}" for order in ORDERS), "core s", "at most"], rows)


def floors(broken: list[str]) -> None:
    """What a budget of no use is answered with: the floor, and the smallest arena that little work finds."""
    rows = []
    for name, dims in RUNNING:
        sizes = [part for key, size in dims.items() for part in ("--dim", f"{key}={size}")]
        refused = lowtide("plan", MODELS / f"{name}.onnx", "--train", *sizes, "--budget", 1, *RECOMPUTE, check=False).stderr
        bytes_named = [int(n) for n in re.findall(r"(?:at least|arena found has) (\d+) bytes", refused.split("; not used: ")[0])]
        if len(bytes_named) != 2:
            broken.append(f"{label(name, dims)}: {refused.strip()}")
            continue
        floor, smallest = bytes_named
        grey = (smallest - floor) / 2**20
        rows.append([label(name, dims), mib(floor), mib(smallest), f"{grey:.1f}", f"{100 * (smallest / floor - 1):.1f}"])
        if grey > GREY.get(name, grey):
            broken.append(f"{label(name, dims)}: {grey:.1f} MiB between floor and smallest arena, at most {GREY[name]} promised")
    table(["step", "floor MiB", "smallest found", "grey", "% of floor"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["remat", "plan", "pack", "floors"], help="this part only")
    parser.add_argument("--most-layers", type=int, default=10**6, help="none deeper than this")
    parser.add_argument("--most-buffers", type=int, default=10**6, help="no drawn packing larger than this")
    arguments = parser.parse_args()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    broken: list[str] = []
    if arguments.part in (None, "remat"):
        search_deep_steps(arguments.most_layers, broken)
        print()
    if arguments.part in (None, "plan"):
        print("core seconds; and seconds of wall time per 1,000 ops, by stage")
        plan_deep_files(arguments.most_layers, broken)
        print()
    if arguments.part in (None, "pack"):
        pack_large(arguments.most_buffers, broken)
        print()
    if arguments.part in (None, "floors"):
        floors(broken)
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
