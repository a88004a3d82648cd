#!/usr/bin/env python3
"""Training steps planned from PyTorch, and PyTorch's own ways to save memory: each step in turn with eager mode's.

    torch_steps.py [--engine torch|native] [--split N|auto] [--swap host] [--no-dropout] [--only MODEL] [--budgets LIST]
                   [--ways LIST] [--steps N] [--threads N] [--effort N] [--tiny] [--json FILE]

Lowtide's rows, one for each budget: the peak, counted in the first step by the same allocator as PyTorch's (parameters, state and
batch, the plan's arena as far as allocations reach into it, and the most that PyTorch's allocator gave out outside of it; of the native engine,
whose arena is not PyTorch's, all of that; of moved values those in the arena), what the plan says of it, seconds of a step over eager
mode's, the same in seconds of processors (which a busy machine changes less; of one thread, as waiting counts), what was predicted, the bound that is proven for every schedule, seconds to plan and to compile (capture, measure, plan).
Budgets are MiB, or shares of what the best order needs ("60%"); `none` has no limit. PyTorch's rows (bench/pytorch/ways.py, a
process each): the peak with scratch; `compile` is what its first step takes. `--ways none` leaves them out, `--budgets skip` leaves
Lowtide's out.

Exit code 1 if a loss of Lowtide's differs from eager mode's (with the torch engine in one bit, with --split by more than
rounding; with the native one, whose steps begin at eager mode's parameters, by more than rounding, or than dropout's other masks do), an allocation was not where the plan has it, a peak is
above the plan's (of the torch engine), an arena above its budget, or above that of a larger budget.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("python", "bench/pytorch", "bench/support")]

import torch  # noqa: E402
from cases import CASES, Case, fused, make, step_in_eager_mode  # noqa: E402
from ways import counter, resident_bytes, timed, ways  # noqa: E402

import lowtide  # noqa: E402

MIB = 2**20
BUDGETS = {"gpt2": "none,2600,2300,2100,1950,1900", "bert": "none,1700,1600,1550,1500,1450",
           "resnet50": "none,850,750,650,600,560", "unet": "none,900,800,700,650,600",
           "llama": "none,90%,80%,75%,70%,65%"}
TINY = "none,98%,95%,92%,90%,85%"
ROUNDING, MASKS = 1e-3, 5e-2  # of a loss, relative: of the native engine, without dropout and with


def limit_of(budget: str) -> int | str | None:
    return None if budget == "none" else budget if budget.endswith("%") else int(budget) * MIB


def same(loss: torch.Tensor, wanted: torch.Tensor, arguments: argparse.Namespace) -> bool:
    if arguments.engine == "torch" and arguments.split is None:
        return torch.equal(loss, wanted)
    drops = arguments.engine == "native" and not arguments.no_dropout
    return abs(float(loss / wanted) - 1) < (MASKS if drops else ROUNDING)


def take_over(model: torch.nn.Module, optimizer: torch.optim.Optimizer, eager: torch.nn.Module,
              its: torch.optim.Optimizer) -> None:
    """Eager mode's parameters, buffers and state. The native engine's are equal up to rounding, and where a gradient is
    nothing but rounding Adam moves a whole learning rate by its sign: after a step two runs are two networks."""
    model.load_state_dict(eager.state_dict())
    for mine, other in zip(model.parameters(), eager.parameters(), strict=True):
        for key, value in its.state.get(other, {}).items():
            optimizer.state[mine][key].copy_(value)


def begin_to_count(step: Any) -> None:
    """The arena of the torch engine is watched; of the native one nothing is PyTorch's."""
    arena = step._now.arena if step.engine == "torch" else None
    counter().begin(None if arena is None else arena.allocator.library.lt_arena_base(arena.handle),
                    0 if arena is None else arena.bytes)


def counted_peak(step: Any, case: Case, optimizer: torch.optim.Optimizer) -> int:
    """Of the first step, which makes what the later ones keep."""
    counted = counter().peak_with_arena() + resident_bytes(case, [optimizer]) - step.memory.home_bytes
    return counted + (step.memory.arena_bytes if step.engine == "native" else 0)


def row(name: str, budget: str, arguments: argparse.Namespace, broken: list[str]) -> dict:
    case, other = make(name, arguments.tiny), make(name, arguments.tiny)
    optimizer, eager = fused(case.model.parameters()), fused(other.model.parameters())
    for part in (*case.model.modules(), *other.model.modules()) if arguments.no_dropout else ():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    levers = {"split": arguments.split, "swap": arguments.swap} if arguments.engine == "torch" else {}
    said = "".join(f", {lever} {value}" for lever, value in levers.items() if value is not None)
    found = {"model": name, "way": f"Lowtide, {arguments.engine}{said}", "budget": budget}
    try:
        compiled, step = timed(lambda: lowtide.compile_step(
            case.model, case.loss_fn, optimizer, case.batch, budget=limit_of(budget), effort=arguments.effort,
            engine=arguments.engine, **levers), 0)
    except lowtide.Error as problem:
        return {**found, "reason": str(problem)}
    begin_to_count(step)
    mine, theirs, shares, peak = [], [], [], 0
    for k in range(arguments.steps + 1):
        if arguments.engine == "native":
            take_over(case.model, optimizer, other.model, eager)
        marks = [time.process_time()]
        seconds, loss = timed(lambda: step(case.batch), k)
        marks.append(time.process_time())
        peak = peak or counted_peak(step, case, optimizer)
        others, wanted = timed(lambda: step_in_eager_mode(other, other.loss_fn, eager), k)
        marks.append(time.process_time())
        mine.append(seconds)
        theirs.append(others)
        shares.append((marks[1] - marks[0]) / (marks[2] - marks[1]))
        if not same(loss, wanted, arguments):
            broken.append(f"{name} {budget}: the loss of step {k} is {float(loss)}, eager mode's {float(wanted)}")
    plan, memory = step.plan, step.memory
    if memory.beside or (isinstance(limit_of(budget), int) and plan.arena_bytes > limit_of(budget)):
        broken.append(f"{name} {budget}: {memory.beside} allocations beside the arena of {plan.arena_bytes} bytes")
    more = memory.kept_bytes if levers.get("swap") is not None else 0  # which a plan that moves values does not count
    if arguments.engine == "torch" and peak > plan.arena_bytes + more:
        broken.append(f"{name} {budget}: {peak} bytes were taken, the plan has {plan.arena_bytes}")
    verdict = plan.verdict
    return {**found, "peak_bytes": peak, "arena_bytes": plan.arena_bytes, "processor_share": statistics.median(shares[1:]),
            "step_seconds": statistics.median(mine[1:]), "eager_seconds": statistics.median(theirs[1:]),
            "predicted_extra_percent": verdict["extra_percent"],
            "bound_percent": verdict["lower_bound_extra_percent"], "planning_seconds": verdict["planning_seconds"],
            "compile_seconds": compiled, "allocations": memory.planned}


def way_row(name: str, way: str, arguments: argparse.Namespace) -> dict:
    command = [sys.executable, str(ROOT / "bench/pytorch/ways.py"), name, way, "--threads", str(arguments.threads),
               "--steps", str(arguments.steps), *(["--tiny"] if arguments.tiny else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    found = {"model": name, "way": f"PyTorch {way}", "budget": ""}
    if done.returncode != 0:
        return {**found, "reason": (done.stderr.strip() or "no message").splitlines()[-1]}
    numbers = json.loads(done.stdout.splitlines()[-1])
    return {**found, **numbers, "compile_seconds": numbers["first_seconds"]}


def shown(found: dict) -> str:
    start = f"| {found['model']} | {found['way']} | {found['budget']} |"
    planned = f"{found['arena_bytes'] / MIB:,.1f}" if "arena_bytes" in found else ""
    if "reason" in found:
        return f"{start} refused: {found['reason'].split(': ', 1)[-1][:90]} |"
    percent = [f"{found[key]:+.1f} %" if key in found else "" for key in ("predicted_extra_percent", "bound_percent")]
    if "step_seconds" not in found:
        return f"{start} {found['peak_bytes'] / MIB:,.1f} | | | | | | | {found['compile_seconds']:.1f} |"
    extra = 100 * (found["step_seconds"] / found["eager_seconds"] - 1)
    used = f"{100 * (found['processor_share'] - 1):+.0f} %" if "processor_share" in found else ""
    planning = f"{found['planning_seconds']:.1f}" if "planning_seconds" in found else ""
    return (f"{start} {found['peak_bytes'] / MIB:,.1f} | {planned} | {extra:+.0f} % | {used} | {' | '.join(percent)} | "
            f"{found['step_seconds']:.3g} | {planning} | {found['compile_seconds']:.1f} |")


def falling(rows: list[dict], broken: list[str]) -> None:
    """Budgets are given from the largest to the least, so arenas fall."""
    planned = [r for r in rows if "peak_bytes" in r and r["way"].startswith("Lowtide")]
    for before, after in zip(planned, planned[1:], strict=False):
        if before["model"] == after["model"] and after["arena_bytes"] > before["arena_bytes"]:
            broken.append(f"{after['model']}: {after['arena_bytes']} bytes within {after['budget']}, "
                          f"{before['arena_bytes']} within {before['budget']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("torch", "native"), default="torch")
    parser.add_argument("--split", type=lambda text: text if text == "auto" else int(text), help="parts, or auto; of the torch engine")
    parser.add_argument("--swap", help="host, or host=SIZE; of the torch engine")
    parser.add_argument("--no-dropout", action="store_true", help="of Lowtide's rows")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--budgets", help="MiB, shares or none, the largest first; comma-separated; or skip")
    parser.add_argument("--ways", help="of PyTorch, comma-separated; or none")
    parser.add_argument("--steps", type=int, default=2, help="timed ones; 0: of PyTorch's ways the peaks alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--effort", type=float, default=4)
    parser.add_argument("--tiny", action="store_true", help="small networks, to check this program")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, broken = [], []
    print("| model | way | budget | peak MiB | planned MiB | extra | of processors | predicted | bound | s | planning s | compile s |\n|" + "---|" * 12,
          flush=True)
    for name in [arguments.only] if arguments.only else list(CASES):
        asked = arguments.ways.split(",") if arguments.ways else ways(name)
        for way in asked if arguments.ways != "none" else []:
            rows.append(way_row(name, way, arguments))
            print(shown(rows[-1]), flush=True)
        budgets = arguments.budgets or (TINY if arguments.tiny else BUDGETS[name])
        for budget in budgets.split(",") if budgets != "skip" else []:
            rows.append(row(name, budget, arguments, broken))
            print(shown(rows[-1]), flush=True)
    falling(rows, broken)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(broken), file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
