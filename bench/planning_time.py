#!/usr/bin/env python3
"""What capture and planning of a PyTorch step take, beside other trees of the sources.

    planning_time.py [--only NETWORK,...] [--rounds N] [--trees FOLDER,...]

Processor time of `lowtide.plan` without a budget, in a process of its own with nothing kept from before: imports are over, caches are empty. For
each network the trees (this one and others, such as a worktree of an older version) take turns; printed are the medians of the rounds, of
which tracing, measuring and planning in C++, and each tree's total over that of the last one. Other work moves processor time by a
tenth, too, which is why they take turns.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).parents[1]
PARTS = {"trace": "trace_step", "measure": "measure_all", "plan": "plan_text"}  # of lowtide.pytorch.planning


def qwen3(layers):
    import transformers

    config = transformers.Qwen3Config(vocab_size=1000, hidden_size=256, intermediate_size=768, num_hidden_layers=layers, num_attention_heads=8,
                                      num_key_value_heads=4, head_dim=32)
    return transformers.Qwen3ForCausalLM(config)


def resnet34():
    """A ResNet-34 with a quarter of the channels, for small images."""
    from small_steps import Residual, nn

    def block(wide, out, stride):
        body = nn.Sequential(nn.Conv2d(wide, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
                             nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        if stride == 1 and wide == out:
            return nn.Sequential(Residual(body), nn.ReLU(inplace=True))
        return nn.Sequential(body, nn.ReLU(inplace=True))

    blocks, wide = [], 16
    for count, out in ((3, 16), (4, 32), (6, 64), (3, 128)):
        for k in range(count):
            blocks.append(block(wide, out, 2 if k == 0 and out > 16 else 1))
            wide = out
    first = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 10))


def made(name):
    """Model, loss_fn and batch."""
    import torch
    from small_steps import NETWORKS, loss_of

    torch.manual_seed(0)
    if name.startswith("qwen3x"):
        ids = torch.randint(0, 1000, (4, 64))
        return qwen3(int(name[6:])), lambda model, batch: model(**batch).loss, {"input_ids": ids, "labels": ids}
    make, shape = (resnet34, (2, 3, 32, 32)) if name == "resnet34" else NETWORKS[name]
    x = torch.randint(0, 64, shape) if isinstance(shape, list) else torch.randn(shape)
    return make(), loss_of, (x, torch.randint(0, 10, (shape[0],)))


def one(name):
    """Prints the seconds of one plan: in all, and of its parts."""
    sys.path.append(str(ROOT / "bench"))
    warnings.simplefilter("ignore")
    import torch

    import lowtide
    from lowtide.pytorch import engines, planning  # noqa: F401: imported before the time is taken

    torch.set_num_threads(1)
    seconds = dict.fromkeys(PARTS, 0.0)

    def timed(part, function):
        def called(*args, **named):
            began = time.process_time()
            try:
                return function(*args, **named)
            finally:
                seconds[part] += time.process_time() - began

        return called

    for part, function in PARTS.items():
        setattr(planning, function, timed(part, getattr(planning, function)))
    model, loss_fn, batch = made(name)
    optimizer = torch.optim.AdamW(model.parameters())
    began = time.process_time()
    lowtide.plan(model, loss_fn, optimizer, batch)
    print(time.process_time() - began, *seconds.values())


def of_tree(tree, name):
    with tempfile.TemporaryDirectory() as cache:
        where = {"PYTHONPATH": str(tree / "python"), "LOWTIDE_CACHE": cache, "OMP_NUM_THREADS": "1",
                 "LOWTIDE_LIBRARY": os.environ.get("LOWTIDE_LIBRARY", str(ROOT / "build/release/liblowtide.so"))}
        said = subprocess.run([sys.executable, __file__, "--one", name], env={**os.environ, **where}, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise SystemExit(f"{name} in {tree}:\n{said.stderr[-2000:]}")
    return [float(word) for word in said.stdout.split()[-1 - len(PARTS):]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="mlp128x8-normed,cnn16x8-groups,residual-cnn,encoder64x4,encoder32x6,resnet34,qwen3x8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", default="", help="folders of other versions, in the order in which they are printed; the last is compared with")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return one(asked.one)
    trees = [ROOT, *(pathlib.Path(folder).resolve() for folder in asked.trees.split(",") if folder)]
    over = {tree: [] for tree in trees}
    for name in asked.only.split(","):
        rounds = {tree: [] for tree in trees}
        for _ in range(asked.rounds):
            for tree in trees:
                rounds[tree].append(of_tree(tree, name))
        middle = {tree: [statistics.median(column) for column in zip(*rounds[tree], strict=True)] for tree in trees}
        for tree in trees:
            over[tree].append(middle[tree][0] / middle[trees[-1]][0])
            total, *parts = middle[tree]
            said = ", ".join(f"{part} {value:.2f}" for part, value in zip(PARTS, parts, strict=True))
            print(f"{name:16} {tree.name:12} {total:6.2f} s: {said}; over the last tree's {over[tree][-1]:.2f}", flush=True)
    for tree in trees[:-1]:
        print(f"{tree.name}: median of {len(over[tree])} networks {statistics.median(over[tree]):.2f} of {trees[-1].name}")
    return None


if __name__ == "__main__":
    main()
