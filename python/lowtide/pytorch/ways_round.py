"""What to write in the place of what no plan can hold for: shapes, sizes and branches that contents of tensors decide.

A refusal names the line; the words here say how the same is computed with shapes that stay. By the op, where it is one
that makes such a shape, else by how PyTorch says that it was asked for contents.

Tests: tests/python/test_torch_batches.py.
"""

from __future__ import annotations

from typing import Any

import torch

_MASKS = ("a boolean mask decides how many there are: torch.where(mask, x, 0) and sums over mask.sum(), reduction='none' times the mask, or "
          "ignore_index keep one shape")
_PACKED = "the recurrent layer on the padded sequence, with a mask or ignore_index for what is padding, keeps one shape"
_COUNTS = "F.one_hot(x, n).sum(0) and scatter_add on zeros of a length that is known keep one shape"
_SIZES = "a size that comes with the batch as Python's int (each other one is a plan), or a mask over the longest, keeps one shape"
_PLACES = ("; rows at a place that is read off a tensor are written by x.index_copy_(dim, place + torch.arange(n), rows) and read by index_select")
_AT_ONCE = ("; .item() in the place of int() and float() gives a number of each step that may be compared, kept in attributes, lists and dicts, "
            "and given back in aux")
BRANCH = ("torch.where of both results is planned, and so is a branch on Python's number or truth value in the batch, each of which is a plan; "
          "a branch that does nothing but raise becomes a check in every step (of two tensors, joined by & or | and not by `and`); a truth value that "
          "is kept and decides nothing is asked for by .item()")
_BACKEND = ("; in a loop of one's own, torch.compile(model, backend='lowtide') plans the pieces that PyTorch can trace and leaves the others "
            "to eager mode")
_PACKING = (torch.ops.aten._pack_padded_sequence, torch.ops.aten._pad_packed_sequence)

_BY_OP = {
    "index": _MASKS, "masked_select": _MASKS, "nonzero": _MASKS, "_unique2": "unique has as many results as there are different contents: " + _COUNTS,
    "unique_dim": "unique has as many results as there are different contents: " + _COUNTS,
    "unique_consecutive": "unique has as many results as there are different contents: " + _COUNTS,
    "bincount": _COUNTS,
    "repeat_interleave": "repeat_interleave by a tensor has as many rows as it adds up to: counts that are Python's numbers, or indices that come with the "
                         "batch (x[index]), keep one shape",
    "slice": _SIZES + _PLACES, "split_with_sizes": _SIZES, "narrow": _SIZES + _PLACES, "arange": _SIZES, "zeros": _SIZES, "ones": _SIZES, "full": _SIZES, "empty": _SIZES,
    "new_zeros": _SIZES, "new_ones": _SIZES, "new_full": _SIZES, "new_empty": _SIZES, "expand": _SIZES, "view": _SIZES,
    "_nested_tensor_from_tensor_list": "a padded tensor and a mask keep one shape",
}


def of_shape(op: str) -> str:
    """The way round an op (its name without namespace and overload) whose result has a shape that contents decide; "" where nothing is known."""
    said = _BY_OP.get(op, "")
    return f"; {said}" if said else ""


def of_contents(message: str, at_once: bool = False) -> str:
    """The way round, by PyTorch's message where it was asked for contents. `at_once`: by int() or float()."""
    found = _named(message)
    if at_once:
        return found or f"{_AT_ONCE}; {_SIZES + _PLACES if 'specialized integer' in message else BRANCH}"
    if "specialized integer" in message and "Size-like symbols: u" in message:
        return found or f"; len() asks how many there are in a result of unique, nonzero or a mask, which contents decide: {_COUNTS}{_AT_ONCE}"
    if "specialized integer" in message:
        return found or f"; {_SIZES}{_AT_ONCE}"
    return found or f"; {BRANCH}{_AT_ONCE if 'data-dependent expr' in message else ''}"


def of_any(problem: Exception) -> str:
    """The way round anything else that PyTorch has raised while the step was traced: where no op says better, the backend, which stops nothing."""
    return _named(str(problem)) or _BACKEND


def refuse_packed(op: Any) -> None:
    """Raises NotImplementedError for an op that packs or unpacks sequences: it reads lengths, and its gradient does."""
    if getattr(op, "overloadpacket", None) in _PACKING:
        raise NotImplementedError(f"a packed sequence has shapes that depend on the lengths in it; {_PACKED}")


def _named(message: str) -> str:
    for op, said in _BY_OP.items():
        if f"aten.{op}." in message or f"aten::{op}" in message:
            return f"; {said}"
    return ""
