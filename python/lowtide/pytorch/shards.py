"""Whether a graph's parameters are gathered by FSDP2, from which ranks, and what that takes.

`fully_shard` gathers a block's parameters in a hook before its forward pass, so a compiled block
gets them as inputs like any other. They are its plan's, as parameters are. Beside the plan lie
FSDP2's own buffers, one after the other:

    gather     one flat piece with the parameters of all ranks, from which each is copied
    scatter    one flat piece with all gradients, and this rank's share of their sums

FSDP2 says nowhere which block a tensor belongs to, so its states are looked through for the inputs.
Where a version of PyTorch has them elsewhere, nothing is found, and each rank plans by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist


@dataclass
class Sharded:
    """`ranks`: that share the parameters, the first of them plans."""

    ranks: list[int]
    gather_bytes: int
    scatter_bytes: int


def _param_groups() -> Iterator[Any]:
    with contextlib.suppress(ImportError):
        from torch.distributed._composable_state import _module_state_mapping

        for state in list(_module_state_mapping.values()):
            state = state() if callable(state) else state
            groups = getattr(state, "_fsdp_param_groups", None)
            yield from [getattr(state, "_fsdp_param_group", None)] if groups is None else groups


def _bytes(group: Any, ranks: int) -> tuple[int, int]:
    gather = scatter = 0
    for param in group.fsdp_params:
        count = param.padded_sharded_param_size.numel() * ranks
        held = param.sharded_param.dtype
        gather += count * (param.param_dtype or held).itemsize
        if param.sharded_param.requires_grad:
            reduced = param.reduce_dtype or param.param_dtype or held
            scatter += (count + count // ranks) * reduced.itemsize
    return gather, scatter


def sharded(inputs: Iterable[Any]) -> Sharded | None:
    """None: none of the inputs is a parameter that FSDP2 has gathered."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    given = {id(tensor) for tensor in inputs if isinstance(tensor, torch.nn.Parameter)}
    found = [group for group in _param_groups() if group is not None
             and any(id(getattr(param, "_unsharded_param", None)) in given
                     for param in group.fsdp_params)]
    if not found:
        return None
    ranks = dist.get_process_group_ranks(found[0].mesh_info.shard_process_group)
    if len(ranks) == 1:
        return None
    gather, scatter = zip(*(_bytes(group, len(ranks)) for group in found), strict=True)
    return Sharded(ranks, sum(gather), sum(scatter))
