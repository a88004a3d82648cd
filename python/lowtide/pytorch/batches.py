"""A batch as tensors, and what else it is made of.

A step is planned for the tensors of a batch, whose contents are read in every step. All else of the tree is part of what
the plan holds for, like shapes: containers, their keys, and None, words and whole numbers among the leaves. Another one
makes another plan. What would rather differ from batch to batch, as a fraction or numpy's numbers, is refused: as a
tensor it is read anew in every step.

Containers are those that torch.utils._pytree knows, registered ones too (ModelOutput of transformers, TensorDict), and what can be
taken apart and put together without knowing more of it:

    mappings            collections.UserDict, of which the batches of transformers' tokenizers are a kind, and others: by their items
    stores              torch_geometric's Data, Batch and HeteroData: by the items of each of their `stores`
    objects             dataclasses, attrs classes, SimpleNamespace, any object one of whose attributes holds a tensor

loss_fn gets one of the same type: a copy (copy.copy) in which the fields are exchanged. A plan keeps such a copy, without tensors.
What has a layout that its contents decide (packed sequences, sparse and nested tensors) is refused with the way round.

Tests: tests/python/test_torch_batches.py.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.nn.utils.rnn import PackedSequence

from ..errors import Usage


class _Tensor:
    def __repr__(self) -> str:
        return "tensor"


TENSOR = _Tensor()
_COMPUTED = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)  # the others: numbers of a step while it is traced (beside_loss.py)


@dataclass(frozen=True)
class _Object:
    """A container that pytree does not know. `places`: of its fields, in the order of the list that `spec` is of."""

    kind: type
    places: tuple[tuple[Any, ...], ...]
    spec: BatchSpec
    bare: Any = field(repr=False, compare=False)  # one like it, whose fields are None

    def of(self, fields: list[Any]) -> Any:
        return made_of(self.bare, self.places, fields)


def made_of(bare: Any, places: tuple[tuple[Any, ...], ...], fields: list[Any]) -> Any:
    """A new container of the kind of `bare`, with these fields."""
    if isinstance(bare, collections.UserDict):
        items = {place[-1]: value for place, value in zip(places, fields, strict=True)}
        try:
            return type(bare)(items)  # without what it keeps beside its items
        except TypeError:
            pass
    return with_fields(bare, places, fields)


ITEM, STORE, ATTRIBUTE = "item", "store", "attribute"  # kinds of places: (ITEM, key), (STORE, index, key), (ATTRIBUTE, name)


def _stores_of(leaf: Any) -> list[Any]:
    """Mappings that an object consists of, as torch_geometric has them."""
    stores = getattr(leaf, "stores", None) if hasattr(type(leaf), "stores") else None
    return list(stores) if isinstance(stores, (list, tuple)) and all(isinstance(s, Mapping) for s in stores) else []


def _attributes(leaf: Any) -> dict[str, Any]:
    found = dict(getattr(leaf, "__dict__", {}))
    for kind in type(leaf).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(leaf, name):
                found.setdefault(name, getattr(leaf, name))
    return found


def _holds_tensors(value: Any) -> bool:
    return any(isinstance(leaf, _COMPUTED) or fields_of(leaf) is not None for leaf in pytree.tree_leaves(value))


def fields_of(leaf: Any) -> dict[tuple[Any, ...], Any] | None:
    """The fields of what can be taken apart, by place; None of what cannot be. Recursion: as deep as the batch."""
    if isinstance(leaf, collections.UserDict):
        return {(ITEM, key): value for key, value in leaf.data.items()}
    if isinstance(leaf, Mapping):
        return {(ITEM, key): value for key, value in leaf.items()} if hasattr(leaf, "__setitem__") else None
    if isinstance(leaf, (torch.nn.Module, torch.optim.Optimizer, type)):
        return None
    stores = _stores_of(leaf)
    if stores:
        found = {(STORE, k, key): value for k, store in enumerate(stores) for key, value in store.items()}
        ids = {id(store) for store in stores}
        for name, value in _attributes(leaf).items():
            of_stores = [value, *value.values()] if isinstance(value, dict) else [value]
            if not any(id(v) in ids for v in of_stores) and _holds_tensors(value):
                found[ATTRIBUTE, name] = value
        return found
    attributes = _attributes(leaf)
    if any(isinstance(v, _COMPUTED) or _holds_tensors(v) for v in attributes.values()):
        return {(ATTRIBUTE, name): value for name, value in attributes.items()}
    return None


def with_fields(like: Any, places: tuple[tuple[Any, ...], ...], fields: list[Any]) -> Any:
    """A copy with other fields, past what a class does when one is set: it may be frozen."""
    made = copy.copy(like)
    stores = _stores_of(made)
    for place, value in zip(places, fields, strict=True):
        if place[0] == ITEM:
            made[place[1]] = value
        elif place[0] == STORE:
            stores[place[1]][place[2]] = value
        elif place[1] in getattr(made, "__dict__", {}):
            made.__dict__[place[1]] = value
        else:
            object.__setattr__(made, place[1], value)
    return made


def said_place(place: tuple[Any, ...]) -> str:
    return f".{place[1]}" if place[0] == ATTRIBUTE else f"[{place[-1]!r}]" if place[0] == ITEM else f".{place[-1]}"


@dataclass(frozen=True)
class BatchSpec:
    """All of a batch but its tensors. Its `repr` is equal for batches that one plan serves."""

    tree: pytree.TreeSpec
    leaves: tuple[Any, ...]  # TENSOR, an _Object, or the leaf itself

    def batch_of(self, tensors: list[torch.Tensor]) -> Any:
        return self._take(iter(tensors))

    def _take(self, tensors: Iterator[torch.Tensor]) -> Any:  # recursion: as deep as the batch
        leaves: list[Any] = []
        for leaf in self.leaves:
            if leaf is TENSOR:
                leaves.append(next(tensors))
            elif isinstance(leaf, _Object):
                leaves.append(leaf.of(leaf.spec._take(tensors)))
            elif isinstance(leaf, BatchSpec):  # of one field
                leaves.append(leaf._take(tensors))
            else:
                leaves.append(leaf)
        return pytree.tree_unflatten(leaves, self.tree)


def tensors_of(batch: Any) -> tuple[list[torch.Tensor], BatchSpec]:
    """Raises Usage, which names the leaf, where one is nothing that a plan can hold for."""
    tensors: list[torch.Tensor] = []
    return tensors, _spec(batch, tensors, "")


def _is_packed(value: Any) -> bool:
    return isinstance(value, PackedSequence)


def _spec(batch: Any, tensors: list[torch.Tensor], path: str) -> BatchSpec:
    found, tree = pytree.tree_flatten(batch, is_leaf=_is_packed)
    leaves: list[Any] = []
    for place, leaf in enumerate(found):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided or leaf.is_nested:
                raise Usage(_of_contents(leaf, path + _path(batch, place)))
            tensors.append(leaf)
            leaves.append(TENSOR)
        elif leaf is None or type(leaf) in (bool, int, str):
            leaves.append(leaf)
        else:
            leaves.append(_object(leaf, tensors, path + _path(batch, place)))
    return BatchSpec(tree, tuple(leaves))


def _object(leaf: Any, tensors: list[torch.Tensor], path: str) -> _Object:
    """Raises Usage where it cannot be taken apart."""
    fields = None if _is_packed(leaf) else fields_of(leaf)
    if fields is None:
        raise Usage(_refusal(leaf, path))
    specs, places, values = [], tuple(fields), list(fields.values())
    for place, value in fields.items():
        specs.append(_spec(value, tensors, path + said_place(place)))
    try:
        bare = with_fields(leaf, places, [None] * len(values))
    except Exception as problem:  # noqa: BLE001: of a class of the caller's
        what = f"the batch's {path}" if path else "the batch"
        raise Usage(f"{what} is a {type(leaf).__name__}, of which copy.copy makes none with other fields ({problem}); a dict of its "
                    "tensors is taken as it is") from None
    return _Object(type(leaf), places, _together(specs), bare)


def _together(specs: list[BatchSpec]) -> BatchSpec:
    """The spec of a list of values, of theirs."""
    _, tree = pytree.tree_flatten([None] * len(specs))
    return BatchSpec(tree, tuple(specs))


def _path(batch: Any, place: int) -> str:
    return pytree.keystr(pytree.tree_flatten_with_path(batch, is_leaf=_is_packed)[0][place][0])


def _of_contents(leaf: torch.Tensor, path: str) -> str:
    what = f"the batch's {path}" if path else "the batch"
    if leaf.is_nested:
        return (f"{what} is a nested tensor, whose shape depends on lengths in it; to_padded_tensor and a mask of what is no padding "
                "have one shape")
    return (f"{what} is sparse ({str(leaf.layout).removeprefix('torch.')}), and how much it holds depends on its contents; its indices and "
            "values as two tensors are planned (index_add, scatter_add), and so is to_dense()")


def _refusal(leaf: Any, path: str) -> str:
    kind = type(leaf)
    what = f"the batch's {path}" if path else "the batch"
    if _is_packed(leaf):
        return (f"{what} is a packed sequence, whose shapes depend on the lengths in it; the padded one and its lengths (pad_packed_sequence) "
                "are planned, with a mask or ignore_index for what is padding")
    if kind.__module__ == "numpy":
        return (f"{what} is numpy's {kind.__name__}, whose numbers a step cannot read anew; "
                f"torch.from_numpy or torch.as_tensor makes a tensor of it")
    if isinstance(leaf, (float, complex)):
        return (f"{what} is the number {leaf!r}: give it as a tensor, which is read in every step, "
                f"or close over it in loss_fn")
    return (f"{what} is a {kind.__name__}; a batch is made of tensors, None, words and whole numbers: "
            f"close over it in loss_fn instead")
