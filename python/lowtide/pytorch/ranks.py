"""Many ranks, each with a copy of the model: gradients are averaged inside the planned step, as DDP averages them.

Under torchrun every rank captures the step; the graphs must be the same, or all refuse to go on. Rank 0 measures beside
the others (the kernels that communicate need them), and plans alone; the others take its measurements and its plan. So
all ranks run the same ops in the same order, and no rank decides anything by itself.

A rank that stops alone leaves the others standing in a reduction that it does not join. So what may fail on one rank is
done by `on_all`: all know of it, and all raise. A step whose op fails on one rank still joins the averages that the others
wait for, with zeros, until all ranks agree, before the first update, whether the step goes on (`Averages`). Behind that
point only memory may fail, and nobody waits for the others there but in the averages that are left.

A rank that is gone, or stuck, cannot say so. Where a collective fails the ranks call the roll in the group's store, and the
error names those that do not answer. The group notices a process that has died at once, one that is stuck when its own
timeout is over; in a step LOWTIDE_RANK_TIMEOUT (seconds) ends the wait earlier.

A program ends its group by `end_group`. The averaging is an op of its own, `lowtide::average`, a planned op with a buffer in the arena like any other.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import gc
import hashlib
import importlib
import pathlib
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ..errors import BY_STATUS, Error, Usage
from ..plans import Plan
from .meetings import group_store, patience, ranks_in_words


class Gone(Error, RuntimeError):
    """A rank that the others wait for is not there any more."""


ROLL_CALL = 3.0  # seconds
RELEASE = 1.0  # seconds, at most; it takes microseconds
_lost: list[tuple[weakref.ref, str]] = []  # the group that has ended, and why


def _absent() -> list[int]:
    """Ranks that do not answer. Raises RuntimeError where the store is gone, too."""
    store = dist.PrefixStore("lowtide/roll-call", group_store())
    store.set(str(dist.get_rank()), b"here")
    every = [str(rank) for rank in range(dist.get_world_size())]
    with contextlib.suppress(RuntimeError):
        store.wait(every, datetime.timedelta(seconds=ROLL_CALL))
    return [rank for rank, name in enumerate(every) if not store.check([name])]


@contextlib.contextmanager
def naming() -> Iterator[None]:
    """A collective within that fails raises Gone, which names the ranks that are not there."""
    for group, why in _lost:
        if group() is dist.group.WORLD:
            raise Gone(why)
    try:
        yield
    except RuntimeError as problem:
        try:
            absent = _absent()
        except RuntimeError:  # the store is gone, and with it who holds it
            absent = None
        if absent == []:
            raise
        who = ("a rank is gone" if absent is None else
               f"{ranks_in_words(absent)} {'is' if len(absent) == 1 else 'are'} gone or stuck")
        reason = (str(problem).strip().splitlines() or [""])[0]
        why = f"{who}: the others cannot go on (rank {dist.get_rank()} waited: {reason[:200]})"
        _lost[:] = [(weakref.ref(dist.group.WORLD), why)]
        raise Gone(why) from problem


def reduce_in_step(tensor: torch.Tensor) -> None:
    """The sum over all ranks."""
    seconds, holders = patience(), tensor._use_count()
    with naming():
        if seconds is None:
            dist.all_reduce(tensor)
        else:
            dist.all_reduce(tensor, async_op=True).wait(datetime.timedelta(seconds=seconds))
    if tensor.device.type == "cpu":
        _wait_for_release(tensor, holders)


def _wait_for_release(tensor: torch.Tensor, holders: int) -> None:
    """gloo's thread says that the sum is there before it lets go of the tensor. Its place in the arena would not be free when the next
    tensor is to lie there, which then took memory beside the arena."""
    end = time.monotonic() + RELEASE
    while tensor._use_count() > holders and time.monotonic() < end:
        time.sleep(0)


@torch.library.custom_op("lowtide::average", mutates_args=())
def average(gradient: torch.Tensor) -> torch.Tensor:
    """Over all ranks: each divides, then they add, as DDP does it."""
    result = gradient / dist.get_world_size()
    reduce_in_step(result)
    Averages.done += 1
    return result


@average.register_fake
def _(gradient: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


class Averages:
    """The gradients of the step that runs: how many have been reduced."""

    done = 0

    @staticmethod
    def join(left: list[tuple[tuple[int, ...], torch.dtype]]) -> None:
        """Takes part in those that this rank, whose step has failed, has not come to. The results are nobody's."""
        for shape, dtype in left[Averages.done:]:
            reduce_in_step(torch.zeros(shape, dtype=dtype))


@functools.cache
def _board(ranks: int) -> torch.Tensor:
    """A number from each rank; made once, as a step's allocations are all planned."""
    return torch.zeros(ranks, dtype=torch.int64)


def _numbers(mine: int, in_step: bool) -> list[int]:
    """Each rank's, on all ranks."""
    board = _board(dist.get_world_size())
    seen = board.numpy()
    seen[:] = 0
    seen[dist.get_rank()] = mine
    if in_step:
        reduce_in_step(board)
    else:  # another rank may plan meanwhile
        with naming():
            dist.all_reduce(board)
    return seen.tolist()


def _gathered(mine: Any) -> list[Any]:
    every: list[Any] = [None] * dist.get_world_size()
    with naming():
        dist.all_gather_object(every, mine)
    return every


_WRONG = 0  # on a rank; any other number says that all is well


def _problem_of(rank: int, mine: Exception | None) -> Exception:
    """This rank's own, or that rank's."""
    kind = (getattr(mine, "status", None), isinstance(mine, FloatingPointError), f"{type(mine).__name__}: {mine}")
    status, not_finite, text = _gathered(kind)[rank]
    if mine is not None:
        return mine
    line = f"rank {rank}: {text}"
    return FloatingPointError(line) if not_finite else BY_STATUS.get(status, Error)(line)


def agreed(problem: Exception | None) -> Exception | None:
    """What is wrong on this rank, or else on another; None where nothing is on any."""
    numbers = _numbers(_WRONG if problem is not None else 1, in_step=True)
    return _problem_of(numbers.index(_WRONG), problem) if _WRONG in numbers else None


def on_all(make: Callable[[], Any], same: Callable[[Any], tuple[Any, str]] | None = None, otherwise: str = "",
           in_step: bool = False) -> Any:
    """What `make` makes. Where it raises on one rank, all ranks raise.

    `same`: of what was made something that has to be equal on all ranks, and how it is said. Where it is not: Usage with the
    line `otherwise`, which may name {rank}, {its} and {first}, what is said of that rank's and of rank 0's.
    """
    made, problem, number, said = None, None, 1, ""
    try:
        made = make()
        if same is not None:
            key, said = same(made)
            number = 1 + int(hashlib.sha256(repr(key).encode()).hexdigest()[:15], 16)
    except Exception as raised:  # noqa: BLE001: the other ranks are to know of it
        problem, number = raised, _WRONG
    numbers = _numbers(number, in_step)
    if _WRONG in numbers:
        raise _problem_of(numbers.index(_WRONG), problem)
    rank = next((rank for rank, other in enumerate(numbers) if other != numbers[0]), None)
    if rank is not None:
        every = _gathered(said)
        raise Usage(otherwise.format(rank=rank, its=every[rank], first=every[0]))
    return made


def alone(make: Callable[[], Any], *_: Any) -> Any:
    """`on_all` where there are no ranks."""
    return make()


def check() -> None:
    """Raises Usage where there are no ranks."""
    if not (dist.is_available() and dist.is_initialized()):
        raise Usage("data_parallel=True needs ranks: call torch.distributed.init_process_group first (torchrun)")


def same_start(tensors: list[torch.Tensor]) -> None:
    """All ranks begin with rank 0's parameters and buffers. Raises Usage where one has others."""
    on_all(lambda: [(tuple(t.shape), str(t.dtype)) for t in tensors],
           lambda shapes: (shapes, f"{len(shapes)} parameters and buffers, of {sum(t.numel() for t in tensors)} numbers"),
           "rank {rank} has {its}, rank 0 {first}: the model has to be the same on all ranks")
    with torch.no_grad(), naming():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def same_graph(key: str) -> None:
    """Raises Usage on all ranks where one has captured another graph."""
    on_all(lambda: key, lambda key: (key, ""),
           "rank {rank} captured another graph than rank 0 (batch shapes, model, options and versions "
           "have to be the same on all ranks)")


def from_first(value: Any) -> Any:
    """Rank 0's value, on all ranks."""
    box = [value]
    with naming():
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


def bytes_of(plan: Plan) -> bytes:
    """The bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        plan.save(pathlib.Path(folder) / "plan.lt")
        return (pathlib.Path(folder) / "plan.lt").read_bytes()


def plan_of(told: bytes) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "plan.lt").write_bytes(told)
        return Plan.load(pathlib.Path(folder) / "plan.lt")


def _plan_and_bytes(make: Callable[[], Plan]) -> tuple[Plan, bytes]:
    plan = make()
    return plan, bytes_of(plan)


def plan_of_first(make: Callable[[], Plan]) -> Plan:
    """Rank 0 plans; every rank gets the plan, or the error that rank 0 got."""
    plan, told = on_all(lambda: _plan_and_bytes(make) if dist.get_rank() == 0 else (None, None))
    told = from_first(told)
    return plan if plan is not None else plan_of(told)
