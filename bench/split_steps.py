#!/usr/bin/env python3
"""Steps in little memory by all levers, really run on this CPU: parts, recompute, swap and order chosen together.

    split_steps.py [--steps N] [--threads N] [--only NAME] [--strict] [--json FILE]

The machine is calibrated, the kernels of each model's step are timed in all numbers of parts that the search may ask for (`lowtide
measure`), plans are made with both. Times of the step in one part alone do not do: what parts take is then a guess, and a search finds
those whose guess is too low. Budgets are in MiB, or a share of the arena that needs none. Extra time is that of the planned step over the
model's own unplanned step in one part (one buffer per value, each op once), both run in turn in one process. With one thread both are the
time of processors, copies included, which can be measured on a busy machine. The results of a step in parts are held against that step
within a tolerance (`run --against`), those of one in one part must be equal to the bit. Exit code 1 if they are not, if an arena is above
its budget or not as planned, or a plan does not verify. Targets of time depend on the machine: what misses one is printed, and fails with
--strict only; bench/targets.py reads them from what --json writes.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import MODELS, SCRATCH, finish, label, lowtide, mib, plan, run, table  # noqa: E402
from magis_targets import IN_MIB_EXTRA, PREDICTION  # noqa: E402
from measured import calibrated, part_costs  # noqa: E402

ALL = ("--split", "auto", "--swap", "host")
SPLIT = ("--split", "auto")
# Model, dims, [(budget, extra time at most, flags)].
CASES = [
    ("unet", dict(batch=8), [("20%", None, ALL), ("30%", None, ALL)]),
    ("gpt2", dict(batch=4, seq=256), [("1800MiB", IN_MIB_EXTRA, SPLIT), ("1800MiB", IN_MIB_EXTRA, ALL), ("1500MiB", None, ALL)]),
    ("bert", dict(batch=8, seq=128), [("50%", None, ALL)]),
    ("resnet50", dict(batch=16), [("50%", None, SPLIT), ("50%", None, ALL)]),
]


def arena_without(name: str, dims: dict[str, int], *flags) -> int:
    return plan(name, dims, *flags)["arena_bytes"]


def compared(path: pathlib.Path, name: str, split: str, arguments: argparse.Namespace) -> tuple[dict, str, str]:
    """The run's report, its largest difference, and what is wrong with it."""
    if split == "-":
        report = run(path, "--steps", arguments.steps, "--compare")
        return report, "0" if report["max_abs_difference"] == 0 else f"{report['max_abs_difference']:g}", \
            "" if report["max_abs_difference"] == 0 else "results differ from the unplanned step's"
    report = run(path, "--steps", arguments.steps, "--against", MODELS / f"{name}.onnx")
    wrong = f"{report['whole_values_beyond']} results are beyond the tolerance" if report["whole_values_beyond"] else ""
    return report, f"{report['largest_relative_difference']:.1e}", wrong


def measure(name: str, dims: dict[str, int], case: tuple, whole: int, costs: list, arguments: argparse.Namespace,
            broken: list[str], missed: list[str]) -> dict:
    budget, at_most, flags = case
    title = f"{label(name, dims)} {budget} {' '.join(flags)}"
    path = SCRATCH / (title.replace(" ", "_").replace("%", "") + ".lt")
    verdict = plan(name, dims, "--budget", budget, *flags, *costs, "--threads", arguments.threads, output=path)
    if lowtide("verify", path, check=False).returncode != 0:
        broken.append(f"{title}: the plan does not verify")
    split = verdict.get("split", "-")
    report, difference, wrong = compared(path, name, "-" if split in ("", "1") else split, arguments)
    if wrong:
        broken.append(f"{title}: {wrong}")
    if verdict["arena_bytes"] != report["arena_measured_bytes"] or verdict["arena_bytes"] > verdict["budget_bytes"]:
        broken.append(f"{title}: planned {verdict['arena_bytes']} bytes, measured {report['arena_measured_bytes']}")
    clock = "processor_seconds" if arguments.threads == 1 else "step_seconds"
    step, unplanned, predicted = (report[key] for key in [clock, f"unplanned_{clock}", "predicted_step_seconds"])
    extra = step / unplanned - 1
    if at_most is not None and extra > at_most:
        missed.append(f"{title}: {100 * extra:.1f} % extra time, {100 * at_most:.0f} % at most is wanted")
    if abs(predicted / step - 1) > PREDICTION:
        missed.append(f"{title}: {1e3 * predicted:.0f} ms predicted, {1e3 * step:.0f} ms measured")
    return dict(step=name_of(name, case), dims=dims, budget_bytes=verdict["budget_bytes"], planned_bytes=verdict["arena_bytes"],
                arena_bytes=report["arena_measured_bytes"], whole_arena_bytes=whole, unplanned_bytes=report["unplanned_bytes"],
                split=split, reruns=verdict["actions"]["reruns"], stores=verdict["actions"]["stores"],
                proven_percent=verdict["lower_bound_extra_percent"], predicted_percent=verdict["extra_percent"],
                measured_percent=100 * extra, at_most_percent=None if at_most is None else 100 * at_most, predicted_seconds=predicted,
                measured_seconds=step, difference=difference, planning_seconds=verdict["planning_seconds"])


def name_of(name: str, case: tuple) -> str:
    """As magis_targets.EXECUTED has them."""
    return f"{name} {case[0]}, {'all' if case[2] == ALL else 'parts'}"


def write_json(arguments: argparse.Namespace, found: list[dict], broken: list[str], finished: bool) -> None:
    if arguments.json:
        content = dict(benchmark="split_steps", threads=arguments.threads, steps=found, broken=broken, finished=finished)
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def row_of(found: dict) -> list[str]:
    at_most = found["at_most_percent"]
    predicted, measured = found["predicted_seconds"], found["measured_seconds"]
    return [label(found["step"].split()[0], found["dims"]), mib(found["budget_bytes"]), mib(found["arena_bytes"]),
            f"{found['arena_bytes'] / found['whole_arena_bytes']:.2f}", mib(found["unplanned_bytes"]), found["split"], str(found["reruns"]),
            str(found["stores"]), *(f"{found[key]:+.1f} %" for key in ("proven_percent", "predicted_percent", "measured_percent")),
            "-" if at_most is None else f"{at_most:.0f} %", f"{1e3 * predicted:,.0f}", f"{1e3 * measured:,.0f}",
            f"{predicted / measured:.2f}", found["difference"], f"{found['planning_seconds']:.0f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="a model")
    parser.add_argument("--strict", action="store_true", help="fail where a target of time is missed")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures, written after each step")
    arguments = parser.parse_args()
    found, broken, missed = [], [], []
    device = calibrated("split_steps", arguments.threads)
    for name, dims, cases in CASES:
        if arguments.only not in (None, name):
            continue
        costs = ["--device", device, "--costs", part_costs(name, dims, device, "split_steps", arguments.threads)]
        whole = arena_without(name, dims, *costs, "--threads", arguments.threads)
        for case in cases:
            found.append(measure(name, dims, case, whole, costs, arguments, broken, missed))
            write_json(arguments, found, broken, finished=False)
    write_json(arguments, found, broken, finished=True)
    table(["step", "budget MiB", "arena", "of its arena", "unplanned", "parts", "reruns", "stores", "proven", "predicted extra",
           "measured extra", "at most", "predicted ms", "measured ms", "ratio", "difference", "planned s"], [row_of(one) for one in found])
    print(f"\nof its arena: of the one that needs no budget, in one part; ratio: predicted over measured, wanted within {PREDICTION:.0%}; "
          "difference: the largest relative one, 0 where bit for bit equal")
    for line in missed:
        print(f"MISSED  {line}")
    return finish(broken + missed if arguments.strict else broken)


if __name__ == "__main__":
    sys.exit(main())
