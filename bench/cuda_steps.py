#!/usr/bin/env python3
"""Training steps planned on a GPU under CUDA, beside eager mode and checkpointing by block there.

    cuda_steps.py [--only MODEL,...] [--budgets LIST] [--swap LIST] [--auto LIST] [--split LIST] [--steps N]
                  [--effort N] [--tiny] [--json FILE]

One process for each model. A row: the budget (a share of what the best order needs; `none` has no limit), the peak that
torch.cuda.max_memory_allocated counts in a step, over what was allocated before model and optimizer were made, what the
plan says of it, milliseconds of a step (of N one after the other, as in a training loop, where the host is ahead of the
GPU; the least of three times), the same over eager mode's, milliseconds as they were predicted, the bound proven for
every schedule over each op once, and seconds to capture, measure and plan. Rows of `--swap` may move values to host
memory, too, and in rows of `--auto` parts are found for the budget beside that; those of `--split` run in so many parts of
the samples and have no budget. Kernels are PyTorch's default ones, in f32 without TF32, but GPT-2's second entry, which
is in bf16 by autocast.

Exit code 1 if an allocation was not where the plan has it, or a peak is above the plan's by more than 8 MiB; 2 where there is no GPU.
"""

import argparse
import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("python", "bench/pytorch")]

import torch  # noqa: E402
from cases import make  # noqa: E402

import lowtide  # noqa: E402

MIB = 2**20
ROUNDED = 8 * MIB  # bytes by which the block that PyTorch gives for the arena may be larger, and others of its own
MODELS = {"gpt2": (16, 1024), "gpt2-bf16": (16, 1024), "bert": (32, 512), "resnet50": (128,), "unet": (16,)}


def built(name: str, tiny: bool) -> tuple:
    """Model, batch and loss_fn on the GPU, with a batch of MODELS' size."""
    case = make(name.removesuffix("-bf16"), tiny)
    rows, *length = (2, 16) if tiny else MODELS[name]
    drawn, batch = torch.Generator().manual_seed(1), {}
    for key, tensor in case.batch.items():
        shape = [rows, *(length if length and tensor.dim() == 2 else tensor.shape[1:])]
        if tensor.dtype.is_floating_point:
            batch[key] = torch.randn(shape, generator=drawn)
        else:
            batch[key] = torch.randint(0, int(tensor.max()) + 1, shape, generator=drawn)
    loss_fn = case.loss_fn
    if name.endswith("-bf16"):
        def loss_fn(model: torch.nn.Module, batch: dict) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return case.loss_fn(model, batch)

    return case.model.cuda(), {key: tensor.cuda() for key, tensor in batch.items()}, loss_fn


def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def seconds_of(step: callable, count: int) -> float:
    found = []
    for _ in range(3):
        step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - began) / count)
    return min(found)


def measured(step: callable, before: int, count: int) -> dict:
    step()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    return {"peak_mib": peak / MIB, "ms": 1000 * seconds_of(step, count)}


def in_eager_mode(name: str, arguments: argparse.Namespace, blocks: bool) -> dict | None:
    """With `blocks` by checkpointing, where the model offers that."""
    before = torch.cuda.memory_allocated()
    model, batch, loss_fn = built(name, arguments.tiny)
    if blocks and not hasattr(model, "gradient_checkpointing_enable"):
        return None
    if blocks:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = adamw(model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_fn(model, batch).backward()
        optimizer.step()

    return {"way": "checkpointing by block" if blocks else "eager", **measured(step, before, arguments.steps)}


def planned(name: str, budget: str, levers: dict, arguments: argparse.Namespace) -> dict:
    before = torch.cuda.memory_allocated()
    model, batch, loss_fn = built(name, arguments.tiny)
    found = {"way": ", ".join(["Lowtide", *map(" ".join, levers.items())]), "budget": budget}
    began = time.perf_counter()
    try:
        step = lowtide.compile_step(model, loss_fn, adamw(model), batch, budget=None if budget == "none" else budget,
                                    effort=arguments.effort, progress=False, **levers)
    except (lowtide.Infeasible, lowtide.Limit, lowtide.Unsupported) as problem:
        return {**found, "refused": str(problem)}
    found["compile_seconds"] = time.perf_counter() - began
    verdict = step.plan.verdict
    found |= measured(lambda: step(batch), before, arguments.steps)
    return found | {
        "plan_mib": step.plan.arena_bytes / MIB, "beside": step.memory.beside, "kept_mib": step.memory.kept_bytes / MIB,
        "predicted_ms": 1000 * verdict["predicted_step_seconds"], "once_ms": 1000 * verdict["once_seconds"],
        "bound": verdict["lower_bound_seconds"] / verdict["once_seconds"], "stored_mib": step.memory.stored_bytes / MIB,
        "search_seconds": verdict.get("planning_seconds"),
        "parts": step.parts}


def cleared() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def rows_of(name: str, arguments: argparse.Namespace) -> list[dict]:
    torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")  # cuBLAS's workspace is nobody's
    rows = []
    for way in [lambda: in_eager_mode(name, arguments, blocks=False), lambda: in_eager_mode(name, arguments, blocks=True),
                *(lambda b=b: planned(name, b, {}, arguments) for b in arguments.budgets.split(",") if b),
                *(lambda b=b: planned(name, b, {"swap": "host"}, arguments) for b in arguments.swap.split(",") if b),
                *(lambda b=b: planned(name, b, {"split": "auto", "swap": "host"}, arguments)
                  for b in arguments.auto.split(",") if b),
                *(lambda n=n: planned(name, "none", {"split": f"samples:{n}"}, arguments)
                  for n in arguments.split.split(",") if n)]:
        made = way()
        cleared()
        if made is not None:
            rows.append({"model": name, **made})
            print(line(rows[-1], rows[0]), flush=True)
    return rows


HEAD = ("| model | way | budget | peak, MiB | plan, MiB | ms | to eager | predicted ms | bound | compile, s |\n"
        "|---|---|---|---|---|---|---|---|---|---|")


def line(row: dict, eager: dict) -> str:
    if "refused" in row:
        return f"| {row['model']} | {row['way']} | {row['budget']} | {row['refused']} | | | | | | |"
    way = f"| {row['model']} | {row['way']} | {row.get('budget', '')} | {row['peak_mib']:,.0f} |"
    ratio = f" {row['ms']:.1f} | {row['ms'] / eager['ms']:.3f} |"
    if "plan_mib" not in row:
        return f"{way} |{ratio} | | |"
    return (f"{way} {row['plan_mib']:,.0f} |{ratio} {row['predicted_ms']:.1f} | {row['bound']:.3f} | "
            f"{row['compile_seconds']:.1f} |")


def broken(row: dict) -> str:
    if "plan_mib" not in row:
        return ""
    beyond = (row["peak_mib"] - row["plan_mib"]) * MIB
    return (f"{row['beside']} allocations beside the plan" if row["beside"] else
            f"peak {beyond:,.0f} bytes above the plan's" if beyond > ROUNDED else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--budgets", default="none,80%,60%,50%,40%")
    parser.add_argument("--swap", default="50%,40%")
    parser.add_argument("--auto", default="30%")
    parser.add_argument("--split", default="2,8")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--effort", type=float, default=4)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", default="")
    parser.add_argument("--rows-of", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("cuda_steps.py: no GPU under CUDA is on hand", file=sys.stderr)
        return 2
    if arguments.rows_of:
        pathlib.Path(arguments.json).write_text(json.dumps(rows_of(arguments.rows_of, arguments)))
        return 0
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n\n{HEAD}", flush=True)
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only.split(","):
            made = pathlib.Path(folder) / name
            done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--rows-of", name, "--json", str(made)])
            failed |= done.returncode != 0
            rows += json.loads(made.read_text()) if done.returncode == 0 else []
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1))
    for row in rows:
        if broken(row):
            print(f"{row['model']} within {row['budget']}: {broken(row)}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
