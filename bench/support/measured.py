"""What the benchmarks that run steps within a budget have in common: a calibrated device and measured kernel times."""

import json
import pathlib

from lowtide import MODELS, SCRATCH, STEP, label, lowtide, plan


def calibrated(benchmark: str, threads: int) -> pathlib.Path:
    device = SCRATCH / f"{benchmark}_device.json"
    device.parent.mkdir(parents=True, exist_ok=True)
    lowtide("calibrate", "--threads", threads, "-o", device)
    tier = json.loads(device.read_text())["slow_tiers"][0]
    print(f"host memory: {tier['out_bytes_per_second'] / 1e9:.1f} GB/s out, {tier['in_bytes_per_second'] / 1e9:.1f} GB/s in; "
          f"kernels lose {1e9 * tier['compute_seconds_per_byte']:.3f} s for each GB moved\n")
    return device


def measured_costs(name: str, dims: dict[str, int], benchmark: str, threads: int) -> pathlib.Path:
    stem = SCRATCH / (label(name, dims).replace(" ", "_") + f"_{benchmark}")
    costs = stem.with_suffix(".costs.json")
    costs.unlink(missing_ok=True)
    plan(name, dims, "--threads", threads, output=stem.with_suffix(".lt"))
    lowtide("run", stem.with_suffix(".lt"), "--steps", 4, "--measure", costs)
    return costs


def part_costs(name: str, dims: dict[str, int], device: pathlib.Path, benchmark: str, threads: int) -> pathlib.Path:
    """Times of every kernel of the step in all numbers of parts that a search may ask for, each on operands of its own."""
    costs = SCRATCH / (label(name, dims).replace(" ", "_") + f"_{benchmark}.costs.json")
    costs.unlink(missing_ok=True)
    lowtide("measure", MODELS / f"{name}.onnx", *STEP, *(f"--dim={key}={size}" for key, size in dims.items()), "--threads", threads,
            "--device", device, "--rounds", 1, "-o", costs)
    return costs
