#!/usr/bin/env python3
"""Planning: the peak of PyTorch's order against the planned one, bound, gap, arena, and how long planning took."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import PLANNING, SCRATCH, label, lowtide, mib, plan, table  # noqa: E402


def main() -> None:
    rows = []
    for name, dims in PLANNING:
        path = SCRATCH / (label(name, dims).replace(" ", "_") + ".lt")
        verdict = plan(name, dims, output=path)
        verified = lowtide("verify", path, check=False).returncode == 0
        before, peak, bound = (verdict[key] for key in ("peak_before_bytes", "peak_bytes", "lower_bound_bytes"))
        rows.append([label(name, dims), f"{verdict['ops']:,}", mib(before), mib(peak), f"{100 * (peak / before - 1):+.1f} %",
                     f"{100 * (peak / bound - 1):.3f} %", "yes" if verdict["order_proven"] else "no",
                     f"{100 * (verdict['arena_bytes'] / peak - 1):.3f} %", f"{verdict['planning_seconds']:.3f}",
                     "yes" if verified else "NO"])
    table(["training step (AdamW)", "ops", "before MiB", "after MiB", "change", "gap", "proven", "arena over peak",
           "planning s", "verified"], rows)


if __name__ == "__main__":
    main()
