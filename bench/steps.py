#!/usr/bin/env python3
"""Steps on this CPU: planned against unplanned (interleaved, bit for bit compared), and against PyTorch's eager step.

PyTorch's steps run in a process of its own between two runs of ours, so that both see the same machine; dropout is off in
both. Ratios are what counts.
"""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import ROOT, RUNNING, SCRATCH, label, lowtide, mib, plan, table  # noqa: E402

STEPS = 5


def eager_seconds(name: str, *flags: str) -> float | None:
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    script = ROOT / "bench/pytorch/eager_step.py"
    result = subprocess.run([sys.executable, str(script), name, "--steps", str(STEPS), *flags],
                            capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        return None
    return json.loads(result.stdout)["cases"][name]["median_s"]


def main() -> None:
    rows, against = [], []
    for name, dims in RUNNING:
        path = SCRATCH / (label(name, dims).replace(" ", "_") + "_run.lt")
        plan(name, dims, "--dropout", "off", output=path)

        def measured() -> dict:
            return json.loads(lowtide("run", path, "--steps", STEPS, "--compare", "--json", check=False).stdout)

        first = measured()
        eager, eager_last = eager_seconds(name), None
        if "seq" not in dims:
            eager_last = eager_seconds(name, "--channels-last")
        second = measured()
        step = min(first["step_seconds"], second["step_seconds"])
        ratio = sorted(run["step_seconds"] / run["unplanned_step_seconds"] for run in (first, second))
        rows.append([label(name, dims), mib(first["arena_planned_bytes"]), mib(first["arena_measured_bytes"]),
                     mib(first["unplanned_bytes"]), f"{first['max_abs_difference']:g}", f"{1e3 * step:,.0f}",
                     f"{1e3 * first['predicted_step_seconds']:,.0f}", f"{ratio[0]:.3f} - {ratio[1]:.3f}"])
        against.append([label(name, dims), f"{1e3 * step:,.0f}", "-" if eager is None else f"{1e3 * eager:,.0f}",
                        "-" if eager is None else f"{step / eager:.2f}",
                        "-" if eager_last is None else f"{1e3 * eager_last:,.0f}",
                        "-" if eager_last is None else f"{step / eager_last:.2f}"])
    table(["step", "arena planned MiB", "measured MiB", "unplanned MiB", "difference", "step ms", "predicted ms",
           "planned / unplanned"], rows)
    print()
    table(["step", "lowtide ms", "eager ms", "ratio", "eager channels-last ms", "ratio"], against)


if __name__ == "__main__":
    main()
