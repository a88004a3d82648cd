"""Calls the lowtide program for the benchmarks and prints tables."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
MODELS = ROOT / "models"
BUILD = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
PROGRAM = BUILD / "tools/lowtide"
SCRATCH = BUILD / "bench-plans"
STEP = ("--train", "--loss", "cross-entropy", "--optimizer", "adamw")
RECOMPUTE = ("--allow", "recompute,reorder,rewrite")  # where a budget that these miss is to be an answer

# The cases of the tables: batch 1 and 32 for planning, one that fits a small machine for running.
PLANNING = [("gpt2", dict(batch=1, seq=64)), ("gpt2", dict(batch=1, seq=256)),
            ("gpt2", dict(batch=32, seq=64)), ("gpt2", dict(batch=32, seq=256)),
            ("bert", dict(batch=1, seq=128)), ("bert", dict(batch=32, seq=128)),
            ("resnet50", dict(batch=1)), ("resnet50", dict(batch=32)),
            ("unet", dict(batch=1)), ("unet", dict(batch=32))]
RUNNING = [("gpt2", dict(batch=4, seq=256)), ("bert", dict(batch=4, seq=128)), ("resnet50", dict(batch=8)), ("unet", dict(batch=2))]


def lowtide(*arguments, check: bool = True, timeout: float | None = None) -> subprocess.CompletedProcess:
    """Raises subprocess.TimeoutExpired after `timeout` seconds."""
    result = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    if check and result.returncode != 0:
        sys.exit(f"lowtide {' '.join(map(str, arguments))}: exit code {result.returncode}\n{result.stderr}")
    return result


def plan(name: str, dims: dict[str, int], *more, output: pathlib.Path | None = None) -> dict:
    arguments = ["plan", MODELS / f"{name}.onnx", *STEP, "--json"]
    for key, size in dims.items():
        arguments += ["--dim", f"{key}={size}"]
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        arguments += ["-o", output]
    return json.loads(lowtide(*arguments, *more).stdout)


def run(path: pathlib.Path, *arguments) -> dict:
    """Its report. The exit code tells of differences too; they are found in the numbers."""
    result = lowtide("run", path, *arguments, "--json", check=False)
    if not result.stdout:
        sys.exit(f"lowtide run {path}: exit code {result.returncode}\n{result.stderr}")
    return json.loads(result.stdout)


def finish(broken: list[str]) -> int:
    """Names the promises that were broken; the exit code."""
    for line in broken:
        print(f"BROKEN  {line}")
    return 1 if broken else 0


def label(name: str, dims: dict[str, int]) -> str:
    return name + "".join(f" {key}={size}" for key, size in dims.items())


def mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"


def table(header: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for index, row in enumerate([header, *rows]):
        cells = [cell.ljust(width) if column == 0 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells))
        if index == 0:
            print("  ".join("-" * width for width in widths))
