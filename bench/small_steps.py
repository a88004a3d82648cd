#!/usr/bin/env python3
"""Small steps planned from PyTorch beside eager mode's: what Python between kernels costs.

    small_steps.py [--only NETWORK,...] [--optimizers NAME,...] [--rounds N]

Twenty networks whose steps take .3 to 15 ms, with each optimizer: processor time of a planned step over that of a step in eager mode, three
steps of the one and three of the other in turn in one process and thread, the median of the rounds; then the medians of the networks. Wall
time is not asked for, as other work moves it. Exit code 1 where a parameter differs from eager mode's in one bit, or an allocation of the
last step lay beside the arena (Adafactor's may, which takes other temporaries while a parameter is nearly zero).
"""

import argparse
import copy
import gc
import pathlib
import statistics
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "python")]

import torch  # noqa: E402
from torch import nn  # noqa: E402

import lowtide  # noqa: E402


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.embedding = nn.Embedding(64, width)
        self.layers, self.out = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False), nn.Linear(width, 10)

    def forward(self, x):
        return self.out(self.layers(self.embedding(x)).mean(1))


class Recurrent(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.cell, self.out = kind(width, width), nn.Linear(width, 10)

    def forward(self, x):
        if isinstance(self.cell, nn.LSTM):
            return self.out(self.cell(x.transpose(0, 1))[0][-1])
        state = x[:, 0] * 0
        for k in range(x.shape[1]):
            state = self.cell(x[:, k], state)
        return self.out(state)


class Lion(torch.optim.Optimizer):
    """As its paper has it (Chen et al., Symbolic Discovery of Optimization Algorithms): an optimizer that no part of Lowtide knows."""

    def __init__(self, params):
        super().__init__(params, {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            (slow, slower), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data.mul_(1 - lr * group["weight_decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                average = state["exp_avg"]
                p.add_((average * slow + p.grad * (1 - slow)).sign_(), alpha=-lr)
                average.mul_(slower).add_(p.grad, alpha=1 - slower)


def adafactor(parameters):
    import transformers

    return transformers.Adafactor(parameters)


OPTIMIZERS = {"sgd": lambda ps: torch.optim.SGD(ps, lr=0.01, momentum=0.9), "adamw": torch.optim.AdamW, "adafactor": adafactor, "lion": Lion}


def mlp(width, depth, normed=False, act=nn.ReLU):
    layers = [[nn.Linear(width, width), *([nn.LayerNorm(width)] if normed else []), act()] for _ in range(depth)]
    return nn.Sequential(*sum(layers, []), nn.Linear(width, 10))


def convolved(first, width, blocks):
    return nn.Sequential(nn.Conv2d(3, width, first, padding=first // 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def cnn(width, depth, norm=nn.BatchNorm2d):
    blocks = [[nn.Conv2d(width, width, 3, padding=1), norm(width), nn.ReLU()] for _ in range(depth)]
    return convolved(3, width, sum(blocks, []))


def residual_mlp():
    return nn.Sequential(*[Residual(nn.LayerNorm(64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(6)], nn.Linear(64, 10))


def residual_cnn():
    return convolved(3, 16, [Residual(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)) for _ in range(8)])


def depthwise():
    blocks = [[nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.ReLU6()] for _ in range(5)]
    return convolved(1, 16, sum(blocks, []))


def groups_of_two(width):
    return nn.GroupNorm(2, width)


# The network, and the shape of its batch; ids where it is a list.
NETWORKS = {
    "mlp16x2": (lambda: mlp(16, 2), (8, 16)), "mlp64x4": (lambda: mlp(64, 4), (32, 64)), "mlp128x8-normed": (lambda: mlp(128, 8, True), (32, 128)),
    "mlp256x4": (lambda: mlp(256, 4, act=nn.GELU), (64, 256)), "mlp32x16-normed": (lambda: mlp(32, 16, True), (16, 32)),
    "tanh64x6": (lambda: mlp(64, 6, act=nn.Tanh), (16, 64)), "residual-mlp": (residual_mlp, (32, 64)), "cnn8x2": (lambda: cnn(8, 2), (4, 3, 16, 16)),
    "cnn16x4": (lambda: cnn(16, 4), (4, 3, 16, 16)), "cnn16x8-groups": (lambda: cnn(16, 8, groups_of_two), (2, 3, 16, 16)),
    "cnn32x6": (lambda: cnn(32, 6), (4, 3, 16, 16)), "residual-cnn": (residual_cnn, (4, 3, 16, 16)), "depthwise": (depthwise, (4, 3, 16, 16)),
    "encoder16x1": (lambda: Encoder(16, 1), [4, 8]), "encoder32x2": (lambda: Encoder(32, 2), [4, 16]), "encoder64x4": (lambda: Encoder(64, 4), [4, 16]),
    "encoder32x6": (lambda: Encoder(32, 6), [2, 8]), "lstm": (lambda: Recurrent(32, nn.LSTM), (4, 10, 32)),
    "gru": (lambda: Recurrent(32, nn.GRUCell), (4, 6, 32)), "linear": (lambda: nn.Linear(64, 10), (32, 64))}


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def measured(network, optimizer, rounds):
    """The ratio, eager mode's milliseconds, allocations beside the arena, whether all bits are equal."""
    make, shape = NETWORKS[network]
    torch.manual_seed(1)
    model = make()
    batch = torch.randint(0, 64, shape) if isinstance(shape, list) else torch.randn(shape), torch.randint(0, 10, (shape[0],))
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS[optimizer](model.parameters()), OPTIMIZERS[optimizer](other.parameters())
    step = lowtide.compile_step(model, loss_of, mine, batch, effort=0.2, rehearse=False)

    def eager():
        its.zero_grad()
        loss_of(other, batch).backward()
        its.step()

    for _ in range(4):
        eager()
        step(batch)
    ratios, times = [], []
    gc.disable()
    for _ in range(rounds):
        took = []
        for run in (eager, lambda: step(batch)):
            begin = time.thread_time_ns()
            for _ in range(3):
                run()
            took.append(time.thread_time_ns() - begin)
        ratios.append(took[1] / took[0])
        times.append(took[0] / 3e6)
    gc.enable()
    equal = all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))
    return statistics.median(ratios), min(times), step.memory.beside, equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--optimizers", default=",".join(OPTIMIZERS))
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wrong = False
    for optimizer in args.optimizers.split(","):
        ratios = []
        for network in args.only.split(","):
            ratio, eager, beside, equal = measured(network, optimizer, args.rounds)
            ratios.append(ratio)
            bad = not equal or (beside > 0 and optimizer != "adafactor")
            wrong = wrong or bad
            print(f"{optimizer:10} {network:16} eager {eager:7.3f} ms, planned over eager {ratio:.3f}, {beside} beside the arena"
                  f"{'' if not bad else ', WRONG'}", flush=True)
        print(f"{optimizer:10} median of {len(ratios)} networks {statistics.median(ratios):.3f}, largest {max(ratios):.3f}", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
