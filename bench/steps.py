#!/usr/bin/env python3
"""Steps on this CPU: planned against unplanned, compared bit for bit, and against PyTorch's eager step.

    steps.py [--rounds N] [--steps N] [--threads N] [--only MODEL] [--without-pytorch]

Each round runs Lowtide (planned and unplanned steps in turn, in one process) and then PyTorch (dropout off in both, the same
number of threads) in a process of its own, so that a busy spell of the machine falls on all. Every number is a median: of the
steps of a round, then of the rounds. Exit code 1 if a planned result differs from the unplanned one, the arena is not as large
as planned, or planned steps take more than MAX_RATIO times as long as unplanned ones. The time against PyTorch's is printed
beside its target and decides nothing: it depends on the machine.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import ROOT, RUNNING, SCRATCH, finish, label, mib, plan, run, table  # noqa: E402

MAX_RATIO = 1.02  # planned / unplanned: planning costs no time
TARGET_AGAINST_EAGER = {"gpt2": 0.6, "bert": 0.6, "resnet50": 0.9, "unet": 0.9}  # lowtide / eager


def eager_seconds(name: str, arguments: argparse.Namespace, *flags: str) -> float | None:
    """The median step of PyTorch, or None after saying why there is none."""
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    command = [sys.executable, str(ROOT / "bench/pytorch/eager_step.py"), name, *flags,
               "--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        reason = (result.stderr.strip() or "no message").splitlines()[-1]
        print(f"PyTorch's step of {name} failed with exit code {result.returncode}: {reason}", file=sys.stderr)
        return None
    return json.loads(result.stdout)["cases"][name]["median_s"]


def ratio(ours: float, theirs: list[float | None]) -> list[str]:
    """Cells: their median in milliseconds, and ours as a multiple of it."""
    known = [seconds for seconds in theirs if seconds is not None]
    if not known:
        return ["-", "-"]
    return [f"{1e3 * statistics.median(known):,.0f}", f"{ours / statistics.median(known):.2f}"]


def broken_promises(name: str, runs: list[dict], ratios: list[float]) -> list[str]:
    found = []
    for one in runs:
        if one["max_abs_difference"] != 0:
            found.append(f"{name}: planned and unplanned differ by {one['max_abs_difference']:g}")
        if one["arena_planned_bytes"] != one["arena_measured_bytes"]:
            found.append(f"{name}: arena of {one['arena_measured_bytes']} bytes, planned {one['arena_planned_bytes']}")
    if statistics.median(ratios) > MAX_RATIO:
        found.append(f"{name}: planned / unplanned is {statistics.median(ratios):.3f}, at most {MAX_RATIO} is promised")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2, help="of each round")
    parser.add_argument("--threads", type=int, default=2, help="of Lowtide and of PyTorch")
    parser.add_argument("--only", choices=sorted(name for name, _ in RUNNING), help="a model")
    parser.add_argument("--without-pytorch", action="store_true", help="planned against unplanned only")
    arguments = parser.parse_args()

    rows, against, broken = [], [], []
    for name, dims in RUNNING:
        if arguments.only not in (None, name):
            continue
        path = SCRATCH / (label(name, dims).replace(" ", "_") + "_run.lt")
        plan(name, dims, "--dropout", "off", output=path)
        runs, eager, eager_last = [], [], []
        for _ in range(arguments.rounds):
            runs.append(run(path, "--steps", arguments.steps, "--threads", arguments.threads, "--compare"))
            if arguments.without_pytorch:
                continue
            eager.append(eager_seconds(name, arguments))
            if "seq" not in dims:  # images
                eager_last.append(eager_seconds(name, arguments, "--channels-last"))
        step = statistics.median(one["step_seconds"] for one in runs)
        ratios = [one["step_seconds"] / one["unplanned_step_seconds"] for one in runs]
        broken += broken_promises(label(name, dims), runs, ratios)
        first = runs[0]
        rows.append([label(name, dims), mib(first["arena_planned_bytes"]), mib(first["arena_measured_bytes"]),
                     mib(first["unplanned_bytes"]), f"{max(one['max_abs_difference'] for one in runs):g}",
                     f"{1e3 * step:,.0f}", f"{1e3 * first['predicted_step_seconds']:,.0f}",
                     " ".join(f"{value:.3f}" for value in sorted(ratios)), f"{statistics.median(ratios):.3f}",
                     f"{MAX_RATIO}"])
        against.append([label(name, dims), f"{1e3 * step:,.0f}", *ratio(step, eager), *ratio(step, eager_last),
                        f"{TARGET_AGAINST_EAGER[name]}"])
    table(["step", "arena planned MiB", "measured MiB", "unplanned MiB", "difference", "step ms", "predicted ms",
           "planned / unplanned", "median", "at most"], rows)
    print()
    table(["step", "lowtide ms", "eager ms", "ratio", "channels-last ms", "ratio", "target"], against)
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
