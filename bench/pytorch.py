#!/usr/bin/env python3
"""Memory against time on four training steps: PyTorch's ways to save memory, and Lowtide's plans, by the same count of bytes.

    pytorch.py [--steps N] [--threads N] [--only MODEL] [--points N] [--json FILE]

Total is all of the device: parameters, gradients, optimizer state, inputs, activations, temporaries. Extra is the time of a step
over that of the same engine's plain step: PyTorch's eager one, Lowtide's unplanned one (one buffer per value, each op once, measured
in turn with the planned step). Lowtide's rows are a sweep from 40 % of what needs no budget, each plan executed; its last rows may
also move buffers to host memory. Dropout is on in both, as the models come. Exit code 1 if a plan does not run in its budget
or its results differ from the unplanned step's.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import MODELS, ROOT, RUNNING, SCRATCH, finish, label, lowtide, mib, run, table  # noqa: E402

TRANSFORMERS = {"gpt2", "bert"}
BUDGETS = ["1.0", "0.7", "0.5", "0.3", "0.1", "0.0"]


def ways(name: str) -> list[str]:
    checkpointing = ["checkpoint", "checkpoint+hook"] if name in TRANSFORMERS else []
    return ["eager", "hook", *checkpointing, *(f"budget={share}" for share in BUDGETS)]


def pytorch_row(name: str, way: str, arguments: argparse.Namespace) -> dict | None:
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    command = [sys.executable, str(ROOT / "bench/pytorch/memory.py"), name, way,
               "--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        reason = (result.stderr.strip() or "no message").splitlines()[-1]
        print(f"PyTorch's {way} of {name} failed with exit code {result.returncode}: {reason}", file=sys.stderr)
        return None
    return json.loads(result.stdout.splitlines()[-1])


def lowtide_rows(name: str, dims: dict[str, int], flags: list[str], arguments: argparse.Namespace, broken: list[str]) -> list[dict]:
    prefix = SCRATCH / (label(name, dims).replace(" ", "_") + "_front" + ("_swap" if flags else ""))
    prefix.parent.mkdir(parents=True, exist_ok=True)
    words = [word for key, size in dims.items() for word in ("--dim", f"{key}={size}")]
    lowtide("sweep", MODELS / f"{name}.onnx", "--train", *words, "--threads", arguments.threads, "--effort", 4,
            "--budgets", f"40%..100%:{arguments.points}", *flags, "--plans", "--quiet", "-o", prefix)
    rows = []
    for line in pathlib.Path(f"{prefix}.jsonl").read_text().splitlines():
        point = json.loads(line)
        if not point["found"]:
            rows.append({"budget_bytes": point["budget_bytes"], "reason": point["reason"]})
            continue
        path = pathlib.Path(f"{prefix}-{point['budget_bytes']}.lt")
        report = run(path, "--steps", arguments.steps, "--compare")
        if report["max_abs_difference"] != 0 or report["arena_measured_bytes"] > point["budget_bytes"]:
            broken.append(f"{path.name}: differs by {report['max_abs_difference']:g}, arena of {report['arena_measured_bytes']} bytes")
        rows.append({"total_bytes": report["arena_measured_bytes"], "step_seconds": report["step_seconds"],
                     "extra": report["step_seconds"] / report["unplanned_step_seconds"] - 1,
                     "predicted_extra_percent": point["extra_percent"], "bound_percent": point["lower_bound_extra_percent"]})
        path.unlink()
    return rows


def model_rows(name: str, dims: dict[str, int], arguments: argparse.Namespace, broken: list[str]) -> tuple[list, dict]:
    rows, result = [], {"pytorch": {}, "lowtide": {}}
    eager = None
    for way in ways(name):
        found = pytorch_row(name, way, arguments)
        if found is None:
            continue
        eager = eager or found["step_seconds"]
        result["pytorch"][way] = found
        rows.append([label(name, dims), f"PyTorch {way}", mib(found["total_bytes"]), f"{1e3 * found['step_seconds']:,.0f}",
                     f"{100 * (found['step_seconds'] / eager - 1):+.0f} %", "-", "-"])
    for title, flags in [("Lowtide", []), ("Lowtide, swap", ["--swap", "host"])]:
        result["lowtide"][title] = lowtide_rows(name, dims, flags, arguments, broken)
        for found in result["lowtide"][title]:
            if "reason" in found:
                rows.append([label(name, dims), f"{title}: no plan", mib(found["budget_bytes"]), "-", "-", "-", "-"])
                continue
            rows.append([label(name, dims), title, mib(found["total_bytes"]), f"{1e3 * found['step_seconds']:,.0f}",
                         f"{100 * found['extra']:+.0f} %", f"{found['predicted_extra_percent']:+.1f} %",
                         f"{found['bound_percent']:+.1f} %"])
    return rows, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--points", type=int, default=5, help="of each of Lowtide's curves")
    parser.add_argument("--only", help="a model")
    parser.add_argument("--json", type=pathlib.Path, help="write the numbers here as well")
    arguments = parser.parse_args()
    rows, results, broken = [], {}, []
    for name, dims in RUNNING:
        if arguments.only in (None, name):
            found, results[label(name, dims)] = model_rows(name, dims, arguments, broken)
            rows += found
    table(["step", "way", "total MiB", "step ms", "measured extra", "predicted", "bound"], rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
