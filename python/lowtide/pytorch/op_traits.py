"""What reading a graph (calls.py) asks of an op at each of its calls, looked up once for each op.

Tags and schemas of PyTorch's are objects of C++, which take longer to ask than all else that is done for a call.
Tests: tests/python/test_torch_traps.py, tests/python/test_torch_in_place_views.py.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch

from . import counted_norms  # noqa: F401: it makes lowtide::counted_batch_norm
from .schemas import writes_any

aten = torch.ops.aten
# Ops that write arguments that their schemas do not declare: packet -> (arguments written, if this argument is true).
HIDDEN_WRITES = {aten.native_batch_norm: ((3, 4), 5), aten.cudnn_batch_norm: ((3, 4), 5),
                 aten.miopen_batch_norm: ((3, 4), 5), torch.ops.lowtide.counted_batch_norm: ((3, 4), 5)}
# What holds for a plan's shapes and types anyway. The profiler's marks are not the step's either: a plan runs in another order.
STATIC = {"aten::_assert_tensor_metadata", "aten::sym_constrain_range",
          "aten::sym_constrain_range_for_size"}
ASSERTIONS = {"aten::_assert_async", "aten::_assert_scalar", "lowtide::demand"}


def hidden_writes(target: Any, args: tuple) -> list[Any]:
    positions, switch = HIDDEN_WRITES.get(getattr(target, "overloadpacket", None), ((), 0))
    return [args[p] for p in positions if args[p] is not None] if positions and args[switch] else []


def draws(target: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the op takes numbers from the random stream: a dropout of probability 0 does not."""
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for position, argument in enumerate(target._schema.arguments):
        if argument.name in ("p", "dropout_p"):
            value = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
            return value != 0
    return True


class Traits(NamedTuple):
    """What is asked of an op at each of its calls."""

    static: bool  # its calls are no part of a step
    asserts: bool
    writes: bool  # as its schema says
    hides_writes: bool
    may_draw: bool
    changes_geometry: bool


@functools.cache
def traits_of(target: torch._ops.OpOverload) -> Traits:
    name, tags = target._schema.name, target.tags
    return Traits(name in STATIC or target.namespace == "profiler", name in ASSERTIONS, writes_any(target), target.overloadpacket in HIDDEN_WRITES,
                   torch.Tag.nondeterministic_seeded in tags, torch.Tag.inplace_view in tags)
