"""A batch as tensors, and what else it is made of.

A step is planned for the tensors of a batch, whose contents are read in every step. All else of the tree is part of what
the plan holds for, like shapes: containers, their keys, and None, words and whole numbers among the leaves. Another one
makes another plan. What would rather differ from batch to batch, as a fraction or numpy's numbers, is refused: as a
tensor it is read anew in every step.

Containers are those that torch.utils._pytree knows, and mappings that it does not (collections.UserDict, of which the
batches of transformers' tokenizers are a kind); loss_fn gets them as they are.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..errors import Usage


class _Tensor:
    def __repr__(self) -> str:
        return "tensor"


TENSOR = _Tensor()


@dataclass(frozen=True)
class _Mapping:
    kind: type
    spec: BatchSpec


@dataclass(frozen=True)
class BatchSpec:
    """All of a batch but its tensors. Its `repr` is equal for batches that one plan serves."""

    tree: pytree.TreeSpec
    leaves: tuple[Any, ...]  # TENSOR, a _Mapping, or the leaf itself

    def batch_of(self, tensors: list[torch.Tensor]) -> Any:
        return self._take(iter(tensors))

    def _take(self, tensors: Iterator[torch.Tensor]) -> Any:  # recursion: as deep as the batch
        leaves: list[Any] = []
        for leaf in self.leaves:
            if leaf is TENSOR:
                leaves.append(next(tensors))
            elif isinstance(leaf, _Mapping):
                leaves.append(leaf.kind(leaf.spec._take(tensors)))
            else:
                leaves.append(leaf)
        return pytree.tree_unflatten(leaves, self.tree)


def tensors_of(batch: Any) -> tuple[list[torch.Tensor], BatchSpec]:
    """Raises Usage, which names the leaf, where one is nothing that a plan can hold for."""
    tensors: list[torch.Tensor] = []
    return tensors, _spec(batch, tensors, "")


def _spec(batch: Any, tensors: list[torch.Tensor], path: str) -> BatchSpec:
    found, tree = pytree.tree_flatten(batch)
    leaves: list[Any] = []
    for place, leaf in enumerate(found):
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
            leaves.append(TENSOR)
        elif isinstance(leaf, collections.UserDict):
            where = path + _path(batch, place)
            leaves.append(_Mapping(type(leaf), _spec(dict(leaf.data), tensors, where)))
        elif leaf is None or type(leaf) in (bool, int, str):
            leaves.append(leaf)
        else:
            raise Usage(_refusal(leaf, path + _path(batch, place)))
    return BatchSpec(tree, tuple(leaves))


def _path(batch: Any, place: int) -> str:
    return pytree.keystr(pytree.tree_flatten_with_path(batch)[0][place][0])


def _refusal(leaf: Any, path: str) -> str:
    kind = type(leaf)
    what = f"the batch's {path}" if path else "the batch"
    if kind.__module__ == "numpy":
        return (f"{what} is numpy's {kind.__name__}, whose numbers a step cannot read anew; "
                f"torch.from_numpy or torch.as_tensor makes a tensor of it")
    if isinstance(leaf, (float, complex)):
        return (f"{what} is the number {leaf!r}: give it as a tensor, which is read in every step, "
                f"or close over it in loss_fn")
    return (f"{what} is a {kind.__name__}; a batch is made of tensors, None, words and whole numbers: "
            f"close over it in loss_fn instead")
