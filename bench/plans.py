#!/usr/bin/env python3
"""Planning: the peak of PyTorch's order against the planned one, bound, gap, arena, and how long planning took.

Exit code 1, with a line for each, where a plan breaks a promise: verified, no worse than the order that came in, at most
1 % above the proven bound, an arena as large as the peak, planned within 1 s (the step with the most bytes: 2 s).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import PLANNING, SCRATCH, finish, label, lowtide, mib, plan, table  # noqa: E402

GAP = 0.01
SECONDS = 1.0
SECONDS_OF_THE_LARGEST = 2.0


def broken_promises(verdict: dict, verified: bool, seconds: float) -> list[str]:
    before, peak, bound = (verdict[key] for key in ("peak_before_bytes", "peak_bytes", "lower_bound_bytes"))
    promises = [
        (verified, "`lowtide verify` refuses the plan"),
        (peak <= before, f"peak {peak:,} bytes, above the {before:,} bytes of the order that came in"),
        (peak <= (1 + GAP) * bound, f"peak {peak:,} bytes, more than {GAP:.0%} above the bound of {bound:,} bytes"),
        (verdict["arena_bytes"] == peak, f"arena {verdict['arena_bytes']:,} bytes, but peak {peak:,} bytes"),
        (verdict["planning_seconds"] < seconds, f"planned in {verdict['planning_seconds']:.3f} s, not within {seconds:g} s"),
    ]
    return [what for kept, what in promises if not kept]


def main() -> int:
    rows, broken, outcomes = [], [], []
    for name, dims in PLANNING:
        path = SCRATCH / (label(name, dims).replace(" ", "_") + ".lt")
        verdict = plan(name, dims, output=path)
        verified = lowtide("verify", path, check=False).returncode == 0
        outcomes.append((label(name, dims), verdict, verified))
        before, peak, bound = (verdict[key] for key in ("peak_before_bytes", "peak_bytes", "lower_bound_bytes"))
        rows.append([label(name, dims), f"{verdict['ops']:,}", mib(before), mib(peak), f"{100 * (peak / before - 1):+.1f} %",
                     f"{100 * (peak / bound - 1):.3f} %", "yes" if verdict["order_proven"] else "no",
                     f"{100 * (verdict['arena_bytes'] / peak - 1):.3f} %", f"{verdict['planning_seconds']:.3f}",
                     "yes" if verified else "NO"])
    table(["training step (AdamW)", "ops", "before MiB", "after MiB", "change", "gap", "proven", "arena over peak",
           "planning s", "verified"], rows)
    largest = max(verdict["peak_bytes"] for _, verdict, _ in outcomes)
    for case, verdict, verified in outcomes:
        seconds = SECONDS_OF_THE_LARGEST if verdict["peak_bytes"] == largest else SECONDS
        broken += [f"{case}: {what}" for what in broken_promises(verdict, verified, seconds)]
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
