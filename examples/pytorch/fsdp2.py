#!/usr/bin/env python3
"""Two ranks that share the parameters (FSDP2): every block is compiled in place with the backend, beside eager FSDP2.

    torchrun --nproc-per-node 2 examples/pytorch/fsdp2.py

Blocks are compiled by `block.compile(...)`, not wrapped by torch.compile(block), which would bypass FSDP2's hooks. Each block's
forward and backward pass is planned by itself; gathers and scatters stay with FSDP2.
"""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F  # noqa: N812

from lowtide.pytorch import backend, ranks

if "lowtide" not in torch._dynamo.list_backends():  # an installed package has registered it
    torch._dynamo.register_backend(backend.lowtide, name="lowtide")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def sharded(model: nn.Sequential, compiled: bool) -> nn.Sequential:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        if compiled and isinstance(block, Block):
            block.compile(backend="lowtide", fullgraph=True, dynamic=False, options={"budget": "100%", "effort": 0.2})
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(16) for _ in range(2)), nn.Linear(16, 4))
    other, model = sharded(copy.deepcopy(model), False), sharded(model, True)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, other)]
    torch.manual_seed(dist.get_rank())
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    for _ in range(3):
        losses = []
        for m, optimizer in zip((model, other), optimizers, strict=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        assert torch.equal(*losses), losses
        for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.equal(ours.to_local(), theirs.to_local()), "parameters differ from eager FSDP2's"
    print(f"rank {dist.get_rank()} loss {float(losses[0]):.6f}, {len(backend.last_plans)} plans, equal to eager FSDP2")
    assert backend.last_plans, "nothing was planned"
    sizes = backend.last_plans[-1].communication
    assert sizes, "each rank planned by itself"
    print(f"beside a block's plan: {sizes['gather_bytes']} bytes to gather, {sizes['scatter_bytes']} to scatter")


def main() -> None:
    dist.init_process_group("gloo")
    train()
    ranks.end_group()  # when what train() made is gone: it holds the group


if __name__ == "__main__":
    main()
