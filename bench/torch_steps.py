#!/usr/bin/env python3
"""Training steps planned from PyTorch, beside eager mode in the same process, step by step in turn.

    torch_steps.py [--engine torch|native] [--dropout P] [--only MODEL] [--budgets LIST] [--steps N] [--threads N] [--effort N]
                   [--others] [--json FILE]

For each budget: the arena (parameters, state, batch and all that the step makes), seconds of a step over eager mode's, what was
predicted, the bound that is proven for every schedule, seconds to capture and measure, and to plan. Budgets are MiB; `none` has no
limit. With --others PyTorch's own ways to save memory as well (bench/pytorch/memory.py, a process each). Exit code 1 if a loss
differs from eager mode's (in one bit with the torch engine; by more than rounding, or than dropout's other masks do, with the
native one), an allocation was not where the plan has it, or an arena is above its budget.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("python", "models", "tests/python", "bench/pytorch", "bench/support")]

import torch  # noqa: E402
from memory import CASES, SEED, Step  # noqa: E402

import lowtide  # noqa: E402

MIB = 2**20
ROUNDING, MASKS = 1e-3, 5e-2  # of a loss, relative: of the native engine, without dropout and with
BUDGETS = {"gpt2": "none,2600,2300,2100,1950,1900", "bert": "none,1700,1600,1550,1500,1450",
           "resnet50": "none,850,750,650,600,560", "unet": "none,900,800,700,650,600"}
OTHERS = {"gpt2": ["checkpoint", "checkpoint+hook"], "bert": ["checkpoint", "checkpoint+hook"]}
KNOB = [f"budget={share}" for share in (1.0, 0.7, 0.5, 0.3, 0.1, 0.0)]


def fused(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)


def loss_of(case: Step):
    import pytorch_reference as reference

    def loss_fn(model: torch.nn.Module, batch: dict) -> torch.Tensor:
        return reference.cross_entropy(case.network, model(*batch["inputs"]), batch["labels"])

    return loss_fn


def prepared(name: str, dropout: float) -> tuple[Step, dict]:
    """The network with its labels, as bench/pytorch/memory.py has it."""
    import pytorch_reference as reference

    case = Step(name, "eager", dropout)
    with torch.no_grad():
        shape = tuple(case.model.eval()(*case.inputs).shape)
    case.model.train()
    return case, {"inputs": list(case.inputs), "labels": reference.make_labels(case.network, shape, SEED)}


def timed(run) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    loss = run()
    return time.perf_counter() - start, loss


def same(loss: torch.Tensor, wanted: torch.Tensor, arguments: argparse.Namespace) -> bool:
    if arguments.engine == "torch":
        return torch.equal(loss, wanted)
    return abs(float(loss / wanted) - 1) < (MASKS if arguments.dropout > 0 else ROUNDING)


def row(name: str, budget: str, arguments: argparse.Namespace, broken: list[str]) -> dict:
    case, batch = prepared(name, arguments.dropout)
    other, _ = prepared(name, arguments.dropout)
    loss_fn, eager = loss_of(case), fused(other.model)
    limit = None if budget == "none" else int(budget) * MIB
    start = time.perf_counter()
    try:
        step = lowtide.compile_step(case.model, loss_fn, fused(case.model), batch, budget=limit, effort=arguments.effort,
                                    engine=arguments.engine)
    except lowtide.Error as problem:
        return {"model": name, "budget": budget, "reason": str(problem)}
    compiled = time.perf_counter() - start

    def eager_step() -> torch.Tensor:
        eager.zero_grad(set_to_none=True)
        loss = loss_fn(other.model, batch)
        loss.backward()
        eager.step()
        return loss.detach()

    seconds, others = [], []
    for k in range(arguments.steps + 1):
        torch.manual_seed(k)
        mine, loss = timed(lambda: step(batch))
        torch.manual_seed(k)
        its, wanted = timed(eager_step)
        seconds.append(mine)
        others.append(its)
        if not same(loss, wanted, arguments):
            broken.append(f"{name} {budget}: the loss of step {k} is {float(loss)}, eager mode's {float(wanted)}")
    verdict, memory = step.plan.verdict, step.memory
    if memory.beside or (limit is not None and step.plan.arena_bytes > limit):
        broken.append(f"{name} {budget}: {memory.beside} allocations beside the arena of {step.plan.arena_bytes} bytes")
    return {"model": name, "budget": budget, "engine": step.engine, "arena_bytes": step.plan.arena_bytes, "extra": statistics.median(seconds[1:])
            / statistics.median(others[1:]) - 1, "predicted_extra_percent": verdict["extra_percent"],
            "bound_percent": verdict["lower_bound_extra_percent"], "step_seconds": statistics.median(seconds[1:]),
            "eager_seconds": statistics.median(others[1:]), "planning_seconds": verdict["planning_seconds"],
            "compile_seconds": compiled, "allocations": memory.planned}


def shown(found: dict) -> str:
    if "reason" in found:
        return f"| {found['model']} | {found['budget']} | refused: {found['reason'].split(': ', 1)[-1][:90]} |"
    return (f"| {found['model']} | {found['budget']} | {found['arena_bytes'] / MIB:,.0f} | {100 * found['extra']:+.0f} % | "
            f"{found['predicted_extra_percent']:+.1f} % | {found['bound_percent']:+.1f} % | {found['step_seconds']:.2f} | "
            f"{found['planning_seconds']:.1f} | {found['compile_seconds']:.1f} |")


def others(name: str, arguments: argparse.Namespace) -> list[dict]:
    rows = []
    for way in ["eager", *OTHERS.get(name, []), *KNOB]:
        command = [sys.executable, str(ROOT / "bench/pytorch/memory.py"), name, way, "--threads", str(arguments.threads),
                   "--steps", str(arguments.steps)]
        done = subprocess.run(command, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"reason": done.stderr[-200:]}
        rows.append({"model": name, "way": way, **found})
        print(f"| {name} | PyTorch {way} | {found.get('total_bytes', 0) / MIB:,.0f} | | | | {found.get('step_seconds', 0):.2f} |",
              flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("torch", "native"), default="torch")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--budgets", help="MiB, or none; comma-separated")
    parser.add_argument("--steps", type=int, default=2, help="timed ones")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--effort", type=float, default=4)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, broken = [], []
    print("| model | budget | arena MiB | extra | predicted | bound | s | planning s | compile s |\n|" + "---|" * 9, flush=True)
    for name in [arguments.only] if arguments.only else list(CASES):
        if arguments.others:
            rows += others(name, arguments)
        for budget in (arguments.budgets or BUDGETS[name]).split(","):
            rows.append(row(name, budget, arguments, broken))
            print(shown(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(broken), file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
