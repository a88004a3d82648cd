"""Sizes that contents decide, where the batch and what is there before the step say them: rows chosen by a mask, the longest of some lengths.

    x[mask], x[mask] = rows, masked_select    x at torch.nonzero_static(mask, size=n), with the n of the sample batch
    nonzero, where(mask)                      nonzero_static(mask, size=n)
    repeat_interleave(x, counts)              x at the places that searchsorted finds, as many as the counts add up to
    int(n), x[:n], zeros(n)                   the number itself, where it is one of the batch, and a trace that keeps it open cannot be planned
                                              (`numbers`): else it is read in each step

The plan holds for that n: what leads to it (edges without loops, tokens of a language, the longest sequence) is computed again before
each step, and another n takes another plan, as another shape of the batch does (foretold.py); MOST of them are kept for one shape. Where
trained parameters, random numbers or too much have a part in it, the op stays as it is, and is refused. PyTorch itself takes a mask as the places
where it is set, so values and gradients have the same bits; unlike a mask, they can be timed on any numbers, as n does not depend on
contents any more.

Tests: tests/python/test_torch_foretold_sizes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from .foretold import Foretold, Source, foretell

aten = torch.ops.aten
MOST = 16  # plans for one shape
TOLD = 4  # with so many of them a warning says that each takes one
WARNING = (f"contents of the batch decide a size, and each new one takes a plan, of which the last {MOST} are kept; padding and a mask keep one "
           "shape")
_INDEXED = {aten.index.Tensor: None, aten.index_put.default: 2, aten.index_put_.default: 2, aten._index_put_impl_.default: 2,
            aten._unsafe_index_put.default: 2}  # where the values are
_BY_CONTENTS = {*_INDEXED, aten.nonzero.default, aten.masked_select.default, aten.repeat_interleave.Tensor}
_STATIC = aten.nonzero_static.default
_MASKS = (torch.bool, torch.uint8)


def _set(mask: torch.Tensor) -> int:
    return int(torch.count_nonzero(mask))


class Sizes:
    """Those of one run of the trace."""

    def __init__(self, batch: list[torch.Tensor | None] | None) -> None:
        """`batch`: the sample's tensors; None where the batch is not to decide."""
        self.batch = batch if batch is not None and all(leaf is not None for leaf in batch) else None
        self.numbers = False  # whether each whole number of the batch is read before the step
        self.found: list[Foretold] = []
        self.sources: Callable[[torch.fx.Node], Source | None] = lambda node: None
        self.of_batch = self.sources  # without parameters and buffers

    def number(self, asked: torch.Tensor) -> int | None:
        """A whole number of the batch alone: one of a buffer (a count of steps) may be another in each step."""
        return self.read(asked, int, self.of_batch) if _is_whole(asked) else None

    def read(self, asked: Any, read: Callable[[torch.Tensor], Any], sources: Callable | None = None) -> Any:
        """What `read` gives of a tensor before each step; None where that is not known."""
        if self.batch is None or not isinstance(asked, FakeTensor):
            return None
        foretold = foretell(asked, sources or self.sources, self.batch, read)
        if foretold is None:
            return None
        self.found.append(foretold)
        return foretold.value

    def places(self, mask: torch.Tensor) -> torch.Tensor | None:
        """As torch.nonzero gives them, in a shape that stays."""
        count = self.read(mask, _set)
        return None if count is None else _STATIC(mask, size=count, fill_value=0)

    def concern(self, func: Any, args: tuple) -> bool:
        if self.batch is None or func not in _BY_CONTENTS:
            return False
        if func not in _INDEXED:
            return True
        place = _INDEXED[func]
        one_number = place is not None and all(type(n) is int and n == 1 for n in args[place].shape)  # wherever the mask is set
        return not one_number and any(_is_mask(index) for index in args[1])

    def instead_of(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
        """An op of one shape in the place of one that they concern, where it can be."""
        if func is aten.nonzero.default:
            count = self.read(args[0], _set)
            return (func, args, kwargs) if count is None else (_STATIC, args, {"size": count, "fill_value": 0})
        if func is aten.repeat_interleave.Tensor:
            total = self.read(args[0], _total) if kwargs.get("output_size") is None else None
            return (func, args, kwargs) if total is None else (aten.clamp.default, (_repeated(args[0], total), 0, args[0].numel() - 1), {})
        if func is aten.masked_select.default:
            x, mask = torch.broadcast_tensors(*args)
            indices = self.indices([mask])
            return (func, args, kwargs) if indices is None else (aten.index.Tensor, (x, indices), {})
        indices = self.indices(args[1])
        return (func, args, kwargs) if indices is None else (func, (args[0], indices, *args[2:]), kwargs)

    def indices(self, given: list[torch.Tensor | None]) -> list[torch.Tensor | None] | None:
        """With the places of each mask in its place; None where one is not known."""
        found: list[torch.Tensor | None] = []
        for index in given:
            places = self.places(index) if _is_mask(index) else None
            if places is None and _is_mask(index):
                return None
            found += [index] if places is None else [places.select(1, k) for k in range(places.shape[1])]
        return found


def _total(counts: torch.Tensor) -> int:
    return int(counts.sum())


def _repeated(counts: torch.Tensor, total: int) -> torch.Tensor:
    """Each place as often as its count says."""
    ends = aten.cumsum.default(counts, 0)
    return aten.searchsorted.Tensor(ends, torch.arange(total, device=counts.device, dtype=ends.dtype), right=True)


def _is_whole(asked: Any) -> bool:
    return isinstance(asked, torch.Tensor) and asked.dtype != torch.bool and not asked.is_floating_point() and not asked.is_complex()


def are_open(module: torch.fx.GraphModule) -> bool:
    """Whether a shape in the graph is not known before the step."""
    return any(_is_open(node.meta.get("val")) for node in module.graph.nodes)


def _is_open(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(type(n) is not int for n in value.shape)
    return isinstance(value, (tuple, list, dict)) and any(_is_open(leaf) for leaf in pytree.tree_leaves(value))


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in _MASKS and index.dim() > 0
