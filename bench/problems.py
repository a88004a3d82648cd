#!/usr/bin/env python3
"""Bare problems: captured ordering problems and minimalloc's challenging packings, solved with proof or within capacity."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import ROOT, lowtide, table  # noqa: E402


def solve(*arguments) -> dict:
    return json.loads(lowtide(*arguments, "--json", check=False).stdout)


def main() -> None:
    data = pathlib.Path(os.environ.get("LOWTIDE_SHARED", ROOT.parent / "shared")) / "data"
    if not data.is_dir():
        print(f"skipped: there is no {data}")
        return
    rows = []
    for path in sorted((data / "order").glob("*.order")):
        outcome = solve("order", path)
        incoming_ops = path.read_text().split(maxsplit=1)[0]
        rows.append([path.stem, incoming_ops, f"{outcome['peak_bytes']:,}", f"{outcome['lower_bound_bytes']:,}",
                     outcome["status"], f"{outcome['seconds']:.4f}"])
    table(["ordering problem", "ops", "peak bytes", "bound bytes", "status", "s"], rows)
    print()
    rows = []
    for path in sorted((data / "minimalloc").glob("*.csv")):
        capacity = path.name.split(".")[1]
        outcome = solve("pack", path, "--capacity", capacity)
        rows.append([path.stem, capacity, f"{outcome['height_bytes']:,}", f"{outcome['lower_bound_bytes']:,}",
                     outcome["status"], f"{outcome['seconds']:.3f}"])
    table(["packing problem", "capacity", "height", "bound", "status", "s"], rows)


if __name__ == "__main__":
    main()
