#!/usr/bin/env python3
"""Two ranks, each with a part of the batch: a planned step that averages gradients, beside DistributedDataParallel.

    torchrun --nproc-per-node 2 examples/pytorch/ddp.py

Every rank's loss and parameters are DDP's, bit for bit, and all ranks run rank 0's plan.
"""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.parallel import DistributedDataParallel

import lowtide
from lowtide.pytorch import ranks


def loss_fn(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def train() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.Dropout(0.1), nn.Linear(32, 4))
    other = DistributedDataParallel(copy.deepcopy(model))
    mine, its = (torch.optim.AdamW(m.parameters(), lr=1e-2, fused=True) for m in (model, other))
    torch.manual_seed(dist.get_rank())
    batch = torch.randn(8, 16), torch.randint(0, 4, (8,))

    step = lowtide.compile_step(model, loss_fn, mine, batch, budget="100%", data_parallel=True)
    for k in range(3):
        torch.manual_seed(10 * k + dist.get_rank())
        loss = step(batch)
        torch.manual_seed(10 * k + dist.get_rank())
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        assert torch.equal(loss, wanted.detach()), (loss, wanted)
        for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.equal(ours, theirs), "parameters differ from DDP's"
    print(f"rank {dist.get_rank()} loss {float(loss):.6f} arena {step.plan.arena_bytes} bytes, equal to DDP")


def main() -> None:
    dist.init_process_group("gloo")
    train()
    ranks.end_group()  # when what train() made is gone: it holds the group


if __name__ == "__main__":
    main()
