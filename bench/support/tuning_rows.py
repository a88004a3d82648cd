"""The rows of bench/tuning.py: problems that suit each planner, small enough that hundreds of values can be compared on them.

A row is a command of the tool and what is measured of its outcome. All limits count work, so outcomes repeat to the byte.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess

from drawn_packings import as_csv, draw
from lowtide import MODELS, RECOMPUTE, ROOT
from tuning_problems import drawn_chain, drawn_many, drawn_order

NEEDED = re.compile(r"every schedule needs at least (\d+) bytes")
SMALLEST = re.compile(r"the smallest arena found has (\d+) bytes")
DATA = ROOT / "tests/data"


@dataclasses.dataclass(frozen=True)
class Measure:
    name: str
    clear: float          # what is a clear difference, in its own unit
    higher: bool = False  # is better
    counts: bool = True   # False: work, which decides only where all else is equal

    def show(self, value: float | None) -> str:
        return "none" if value is None else f"{value:,.2f}"


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    command: tuple[str, ...]
    measures: tuple[Measure, ...]


UNITS = Measure("million units", 0.0, counts=False)
EXTRA, PROVEN = Measure("extra %", 0.05), Measure("proven %", 0.05, higher=True)
HEIGHT, PEAK = Measure("height above bound, %", 0.1), Measure("peak above bound, %", 0.1)
ARENA, FLOOR = Measure("arena, MiB", 0.5), Measure("floor, MiB", 0.5, higher=True)
MORE = Measure("extra % with a tenth more memory", 0.05)
SIZE = Measure("largest size", 1, higher=True)
FRONT = Measure("extra % of a front, on average", 0.05)


def measured(outcome: dict, errors: str) -> dict[str, float | None]:
    """All measures that the outcome has, by name."""
    found: dict[str, float | None] = {}
    bound = outcome.get("lower_bound_bytes")
    for name, key in ((HEIGHT.name, "height_bytes"), (PEAK.name, "peak_bytes")):
        if bound and key in outcome:
            found[name] = 100 * (outcome[key] / bound - 1)
    found[EXTRA.name] = outcome.get("extra_percent")
    found[PROVEN.name] = outcome.get("lower_bound_extra_percent")
    smallest = SMALLEST.search(errors)
    arena = int(smallest[1]) if smallest else outcome.get("arena_bytes")
    found[ARENA.name] = None if arena is None else arena / 2**20
    needed = NEEDED.search(errors)
    floor = int(needed[1]) if needed else outcome.get("floor_bytes")
    found[FLOOR.name] = None if floor is None else floor / 2**20
    more = outcome.get("more_memory")
    if more and outcome.get("once_seconds"):
        found[MORE.name] = 100 * (more["predicted_seconds"] / outcome["once_seconds"] - 1)
    found[SIZE.name] = outcome["max"]["size"] if "max" in outcome else None
    extras = [point["extra_percent"] for point in outcome.get("points", []) if point["found"]]
    found[FRONT.name] = sum(extras) / len(extras) if extras else None
    work = [outcome[key] for key in ("work_units", "order_work_units", "pack_work_units", "schedule_work_units") if key in outcome]
    found[UNITS.name] = sum(work) / 1e6 if work else None
    return found


def run(program: pathlib.Path, row: Row, changed: dict[str, str], seconds: float = 300) -> dict[str, float | None]:
    environment = os.environ | {"LOWTIDE_TUNED": ";".join(f"{name}={value}" for name, value in changed.items())}
    try:
        result = subprocess.run([str(program), *row.command, "--json"], capture_output=True, text=True, timeout=seconds, env=environment)
    except subprocess.TimeoutExpired:
        return {measure.name: None for measure in row.measures}
    found = measured(json.loads(result.stdout) if result.stdout else {}, result.stderr)
    return {measure.name: found.get(measure.name) for measure in row.measures}


def packings(folder: pathlib.Path) -> list[Row]:
    rows = []
    for kind, seed in (("full", 2), ("full", 3), ("left out", 0), ("left out", 1), ("long", 0), ("long", 2), ("pinwheel", 0),
                       ("pinwheel", 3)):
        path = folder / f"{kind.replace(' ', '_')}_{seed}.csv"
        path.write_text(as_csv(draw(kind, seed)))
        rows.append(Row(f"packing {kind} {seed}", ("pack", str(path), "--max-units", "40000000"), (HEIGHT, UNITS)))
    return [*rows, *many(folder, "40000000")]


def many(folder: pathlib.Path, units: str = "300000000") -> list[Row]:
    path = folder / "many.csv"
    path.write_text(drawn_many(0, 8500, 3000))
    name = f"packing of 8,500, {units.removesuffix('000000')} million units"
    return [Row(name, ("pack", str(path), "--max-units", units), (HEIGHT, UNITS))]


def orders(folder: pathlib.Path) -> list[Row]:
    rows = [Row(f"order {name}", ("order", str(DATA / f"order/{name}.order")), (PEAK, UNITS))
            for name in ("bert_b1_s1", "gpt2_s1", "resnet_b1_s1", "unet_s1")]
    for seed, (ops, window, rate) in enumerate([(120, 60, 0.05), (200, 40, 0.08), (250, 40, 0.08), (300, 40, 0.07)]):
        path = folder / f"drawn_{seed}.order"
        path.write_text(drawn_order(seed, ops, window, rate))
        rows.append(Row(f"order of {ops} drawn ops", ("order", str(path), "--max-units", "50000000"), (PEAK, UNITS)))
    return rows


def searches(folder: pathlib.Path) -> list[Row]:
    """Recompute alone."""
    def row(name: str, path: pathlib.Path, budget: str, units: int, seed: int = 1) -> Row:
        command = ("remat", str(path), "--budget", budget, "--max-units", str(units), "--seed", str(seed), "--threads", "1")
        return Row(f"{name}, seed {seed}" if seed > 1 else name, command, (EXTRA, PROVEN, UNITS))
    for layers in (11, 12):
        (folder / f"chain_{layers}.remat").write_text(drawn_chain(layers))
    data = DATA / "remat"
    return [row("resnet50_8 450 MiB", data / "resnet50_8.remat", "450MiB", 120_000_000),
            row("resnet50_8 550 MiB", data / "resnet50_8.remat", "550MiB", 80_000_000),
            row("unet_2 600 MiB", data / "unet_2.remat", "600MiB", 80_000_000),
            row("unet_2 600 MiB", data / "unet_2.remat", "600MiB", 80_000_000, 2),
            row("unet_2 650 MiB", data / "unet_2.remat", "650MiB", 80_000_000),
            row("gpt2_4x256 2,250 MiB", data / "gpt2_4x256.remat", "2250MiB", 60_000_000),
            row("gpt24_4x256 3,362 MiB", data / "gpt24_4x256.remat", "3362MiB", 60_000_000),
            row("chain of 11", folder / "chain_11.remat", "2600", 20_000_000),
            row("chain of 12", folder / "chain_12.remat", "2600", 20_000_000)]


def proofs(folder: pathlib.Path) -> list[Row]:
    (folder / "chain_30.remat").write_text(drawn_chain(30))
    def row(name: str, path: pathlib.Path, budget: str, units: int, seconds: float) -> Row:
        command = ("remat", str(path), "--budget", budget, "--max-units", str(units), "--prove", str(seconds), "--threads", "1")
        return Row(f"{name}, proof", command, (PROVEN, UNITS))
    return [row("unet_2 600 MiB", DATA / "remat/unet_2.remat", "600MiB", 40_000_000, 1.2),
            row("unet_2 580 MiB", DATA / "remat/unet_2.remat", "580MiB", 20_000_000, 1.2),
            row("gpt2_4x256 2,400 MiB", DATA / "remat/gpt2_4x256.remat", "2400MiB", 20_000_000, 1.5),
            row("chain of 30", folder / "chain_30.remat", "6000", 20_000_000, 0.5)]


LINKED = (("unet", ("batch=2",), (400, 300)), ("resnet50", ("batch=8",), (350, 250)), ("gpt2", ("batch=4", "seq=256"), (1600,)))


def step(name: str, dims: tuple[str, ...], *more: str) -> tuple[str, ...]:
    sizes = [word for dim in dims for word in ("--dim", dim)]
    return ("plan", str(MODELS / f"{name}.onnx"), "--train", "--threads", "1", *sizes, *more)


def transfers(program: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Recompute and a link, and a link alone. The link is a part of the problem, so a plan that may use it dumps the problem."""
    rows = []
    for name, dims, budgets in LINKED:
        problem = folder / f"{name}_link"
        problem.mkdir(parents=True, exist_ok=True)
        if not (problem / "order.txt").exists():
            subprocess.run([str(program), *step(name, dims, "--budget", "64GiB", "--swap", "host", "--dump-problems", str(problem))],
                           check=True, stdout=subprocess.DEVNULL)
        command = ("remat", str(problem / "order.txt"), "--max-units", "80000000", "--threads", "1", "--budget")
        rows += [Row(f"{name} {budget} MiB, link", (*command, f"{budget}MiB"), (EXTRA, PROVEN, UNITS)) for budget in budgets]
        if name != "gpt2":
            rows.append(Row(f"{name} 600 MiB, link alone", (*command, "600MiB", "--without", "recompute"), (EXTRA, UNITS)))
    return rows


def plans() -> list[Row]:
    def row(name: str, model: str, dims: tuple[str, ...], effort: str, *flags: str) -> Row:
        levers = () if "--swap" in flags else RECOMPUTE
        return Row(f"plan {name}", step(model, dims, *flags, *levers, "--effort", effort), (EXTRA, PROVEN, MORE, UNITS))
    return [row("unet 600 MiB", "unet", ("batch=2",), "0.2", "--budget", "600MiB"),
            row("resnet50 500 MiB", "resnet50", ("batch=8",), "0.2", "--budget", "500MiB"),
            row("unet 600 MiB, proof", "unet", ("batch=2",), "0.1", "--budget", "600MiB", "--prove", "0.5"),
            row("gpt2 1,950 MiB", "gpt2", ("batch=4", "seq=256"), "0.2", "--budget", "1950MiB"),
            row("bert 1,420 MiB", "bert", ("batch=4", "seq=128"), "0.2", "--budget", "1420MiB"),
            row("unet 400 MiB, link", "unet", ("batch=2",), "0.2", "--budget", "400MiB", "--swap", "host")]


def bounds() -> list[Row]:
    """Plans with next to no search: what they prove has its own work."""
    cases = (("unet", ("batch=2",), (700, 600, 560)), ("resnet50", ("batch=8",), (450,)), ("gpt2", ("batch=4", "seq=256"), (1950,)),
             ("bert", ("batch=4", "seq=128"), (1420,)))
    flags = (*RECOMPUTE, "--effort", "0.01", "--budget")
    rows = [Row(f"bound {name} {budget} MiB", step(name, dims, *flags, f"{budget}MiB"), (PROVEN, FLOOR))
            for name, dims, budgets in cases for budget in budgets]
    link = step("unet", ("batch=2",), "--budget", "300MiB", "--swap", "host", "--effort", "0.01")
    return [*rows, Row("bound unet 300 MiB, link", link, (PROVEN, FLOOR))]


def several_moments() -> list[Row]:
    """Where cuts at several moments prove more than one; a tenth of the work is theirs."""
    return [Row(f"bound unet_2 {budget} MiB", ("remat", str(DATA / "remat/unet_2.remat"), "--budget", f"{budget}MiB", "--max-units",
                                               "200000000", "--threads", "1"), (PROVEN,)) for budget in (650, 600, 580)]


def unlimited_plans() -> list[Row]:
    """Whose buffers lie in pieces of others."""
    steps = (("unet", ("batch=2",)), ("unet", ("batch=3",)), ("resnet50", ("batch=8",)), ("gpt2", ("batch=1", "seq=64")))
    return [Row(f"plan {name} {' '.join(dims)}", step(name, dims), (ARENA, UNITS)) for name, dims in steps]


def smallest_arenas() -> list[Row]:
    """Budgets that are not met: the smallest arena found stands in the error."""
    return [Row("smallest unet", step("unet", ("batch=2",), "--budget", "floor", *RECOMPUTE, "--effort", "0.1"), (ARENA,)),
            Row("smallest resnet50", step("resnet50", ("batch=8",), "--budget", "floor", *RECOMPUTE, "--effort", "0.1"), (ARENA,)),
            Row("smallest bert", step("bert", ("batch=4", "seq=128"), "--budget", "floor", *RECOMPUTE, "--effort", "0.05"), (ARENA,))]


def least_memories() -> list[Row]:
    flags = ("--slowdown", "10%", *RECOMPUTE, "--effort", "0.05")
    return [Row("unet, 10 % slower", step("unet", ("batch=2",), *flags), (ARENA, UNITS)),
            Row("bert, 10 % slower", step("bert", ("batch=4", "seq=128"), *flags), (ARENA, UNITS))]


def parts() -> list[Row]:
    """Steps in parts: one with batch norm, whose parts wait for each other, without a link and with, and two of text."""
    text = ("--dropout", "off", "--optimizer", "sgd", "--momentum", "0", "--weight-decay", "0")
    flags = ("--split", "auto", "--effort", "0.05", "--budget")
    return [Row("unet 650 MiB, in parts", step("unet", ("batch=4",), *flags, "650MiB"), (EXTRA, UNITS)),
            Row("bert 65 %, in parts", step("bert", ("batch=8", "seq=128"), *text, *flags, "65%"), (EXTRA, UNITS)),
            Row("unet 400 MiB, link, in parts", step("unet", ("batch=2",), "--swap", "host", *flags, "400MiB"), (EXTRA, UNITS)),
            Row("gpt2 70 %, in parts", step("gpt2", ("batch=1", "seq=512"), *text, *flags, "70%"), (EXTRA, UNITS)),
            Row("bert 40 %, link, in parts", step("bert", ("batch=8", "seq=128"), *text, "--swap", "host", *flags, "40%"), (EXTRA, UNITS))]


def largest() -> list[Row]:
    """Sizes for a budget."""
    cases = (("unet", "1GiB", "0.1", ()), ("resnet50", "700MiB", "0.05", ()), ("bert", "1500MiB", "0.05", ("--dim", "seq=128")))
    return [Row(f"largest batch of {name} in {budget}",
                ("plan", str(MODELS / f"{name}.onnx"), "--train", "--threads", "1", "--max", "dim=batch", "--budget", budget,
                 "--effort", effort, *flags), (SIZE, EXTRA)) for name, budget, effort, flags in cases]


def fronts() -> list[Row]:
    """Some budgets of a step, all of which are met."""
    cases = (("unet", ("batch=2",), "580MiB..700MiB:4"), ("bert", ("batch=4", "seq=128"), "1420MiB..1600MiB:3"))
    return [Row(f"front of {name}, {budgets}", ("sweep", *step(name, dims)[1:], "--budgets", budgets, "--effort", "0.1"), (FRONT,))
            for name, dims, budgets in cases]


def rewritten() -> list[Row]:
    """Plans after rewrites that run only where they are asked for."""
    cases = (("unet", ("batch=2",), "600MiB"), ("gpt2", ("batch=4", "seq=256"), "1950MiB"))
    flags = (*RECOMPUTE, "--effort", "0.05", "--rewrite", "reassociate", "--budget")
    return [Row(f"plan {name} {budget}, reassociate", step(name, dims, *flags, budget), (EXTRA, UNITS)) for name, dims, budget in cases]


def published(*methods: str) -> list[Row]:
    """Methods that others published, on captured steps."""
    def row(method: str, name: str, budget: str) -> Row:
        command = ("remat", str(DATA / f"remat/{name}.remat"), "--budget", budget, "--method", method)
        return Row(f"{method}, {name} {budget}", command, (EXTRA, UNITS))
    return [row(method, name, budget) for method in methods
            for name, budget in (("resnet50_8", "700MiB"), ("unet_2", "850MiB"), ("gpt2_4x256", "2400MiB"))]


def rows_of(program: pathlib.Path, folder: pathlib.Path) -> list[tuple[str, list[Row]]]:
    """By the first words of a constant's name; the first that fits counts."""
    folder.mkdir(parents=True, exist_ok=True)
    linked, search, proof, plan = transfers(program, folder), searches(folder), proofs(folder), plans()
    return [("pack/tied.cc", unlimited_plans() + plan[:2]), ("pack/pack.cc", packings(folder) + many(folder)),
            ("pack/", packings(folder)), ("order/", orders(folder)),
            *((f"remat/bounds/{file}", proof) for file in ("branch_", "linear_program", "multi_cut_program")),
            ("remat/bounds/multi_cut", several_moments()), ("remat/bounds/", [*bounds(), search[2]]),
            ("remat/joint", linked), ("remat/few_tries", parts()[4:]), ("remat/transfers", linked), ("remat/", search),
            ("pipeline/split", parts()[:3]), ("pipeline/trials", parts()[:3]), ("pipeline/label_search", [*parts()[:3], parts()[4]]), ("pipeline/more_cuts", parts()[1::2]),
            ("pipeline/query_blocks", parts()[3:4]), ("pipeline/smallest", smallest_arenas()),
            ("pipeline/least_memory", least_memories()), ("pipeline/front", fronts()), ("pipeline/", plan),
            *((f"baselines/{method}", published(method)) for method in ("chen", "dtr", "xla")),
            ("baselines/", published("chen", "pofo")), ("analysis/", unlimited_plans()),
            ("solver/", proof), ("api/largest", largest()), ("api/front", fronts()), ("rewrite/", rewritten()), ("cost/", plan[:2])]
