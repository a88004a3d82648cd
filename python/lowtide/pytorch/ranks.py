"""Many ranks, each with a copy of the model: gradients are averaged inside the planned step, as DDP averages them.

Under torchrun every rank captures the step; the graphs must be the same, or all refuse to go on. Rank 0 measures beside
the others (the kernels that communicate need them), and plans alone; the others take its measurements and its plan. So
all ranks run the same ops in the same order, and no rank decides anything by itself.

A program ends its group by `end_group`. The averaging is an op of its own, `lowtide::average`, a planned op with a buffer in the arena like any other.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import pathlib
import sys
import tempfile
from typing import Any

import torch
import torch.distributed as dist

from ..errors import BY_STATUS, Error, Usage
from ..plans import Plan


@torch.library.custom_op("lowtide::average", mutates_args=())
def average(gradient: torch.Tensor) -> torch.Tensor:
    """Over all ranks: each divides, then they add, as DDP does it."""
    result = gradient / dist.get_world_size()
    dist.all_reduce(result)
    return result


@average.register_fake
def _(gradient: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


def check() -> None:
    """Raises Usage where there are no ranks."""
    if not (dist.is_available() and dist.is_initialized()):
        raise Usage("data_parallel=True needs ranks: call torch.distributed.init_process_group first (torchrun)")


def same_start(tensors: list[torch.Tensor]) -> None:
    """All ranks begin with rank 0's parameters and buffers."""
    with torch.no_grad():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def same_graph(key: str) -> None:
    """Raises Usage on all ranks where one has captured another graph."""
    keys: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(keys, key)
    other = [rank for rank, its in enumerate(keys) if its != keys[0]]
    if other:
        raise Usage(f"rank {other[0]} captured another graph than rank 0 (batch shapes, model, options and versions "
                    "have to be the same on all ranks)")


def from_first(value: Any) -> Any:
    """Rank 0's value, on all ranks."""
    box = [value]
    dist.broadcast_object_list(box, 0)
    return box[0]


def end_group() -> None:
    """destroy_process_group, and waits for the group's threads.

    A thread of gloo's that lets go of a tensor while the interpreter ends is ended by it, and takes the
    process along ("terminate called without an active exception"). The threads end with the group, but
    something may hold that: models and losses in cycles, what DTensor keeps of meshes, and, where
    torch.distributed.nn was imported after the group was made (DDP does that), the defaults of its
    functions. Call it where the step, the model and the optimizer are gone.
    """
    world = dist.group.WORLD
    for function in vars(sys.modules.get("torch.distributed.nn.functional", sys)).values():
        defaults = getattr(function, "__defaults__", None) or ()
        if any(value is world for value in defaults):
            function.__defaults__ = tuple(None if value is world else value for value in defaults)
    del world
    if "torch.distributed.tensor" in sys.modules:
        _forget_meshes()
    gc.collect()
    dist.destroy_process_group()


def _forget_meshes() -> None:
    for module, name in (("debug", "_clear_sharding_prop_cache"),
                         ("_redistribute", "clear_redistribute_planner_cache")):
        with contextlib.suppress(ImportError, AttributeError):  # not in every version
            getattr(importlib.import_module(f"torch.distributed.tensor.{module}"), name)()
    for found in gc.get_objects():
        if type(found) is functools._lru_cache_wrapper:
            if str(found.__module__).startswith("torch.distributed."):
                found.cache_clear()


def plan_of_first(make: Any) -> Plan:
    """Rank 0 plans; every rank gets the plan, or the error that rank 0 got."""
    plan, told = None, None
    if dist.get_rank() == 0:
        try:
            plan = make()
            with tempfile.TemporaryDirectory() as folder:
                plan.save(pathlib.Path(folder) / "plan.lt")
                told = (pathlib.Path(folder) / "plan.lt").read_bytes()
        except Error as problem:
            told = (problem.status, str(problem))
    told = from_first(told)
    if isinstance(told, tuple):
        raise BY_STATUS[told[0]](told[1])
    if plan is not None:
        return plan
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "plan.lt").write_bytes(told)
        return Plan.load(pathlib.Path(folder) / "plan.lt")
