"""Tensors of a batch that require a gradient, while the step is traced: leaves of their own.

What the caller lends stays as it is: no gradient comes to his tensor, nor to what made it. A gradient that it has before the step is there for
loss_fn to see; as no node of the graph stands for it, what reads it is refused (calls.py). A backward pass within loss_fn may leave
one there, to which the next step on that tensor would add: a step on a tensor that has one is refused then (step.py).
Tests: tests/python/test_torch_lent.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import Usage


class Lent:
    """`leaves`: the batch's tensors, as loss_fn gets them."""

    def __init__(self, given: Sequence[torch.Tensor]) -> None:
        self.leaves = [t.detach().requires_grad_() if t.requires_grad else t for t in given]
        for leaf, t in zip(self.leaves, given, strict=True):
            if leaf is not t and t.is_leaf:
                leaf.grad = t.grad
        self.before = [leaf.grad if leaf.is_leaf else None for leaf in self.leaves]

    def end(self) -> bool:
        """When loss_fn has ended: whether it has left a gradient. What the step's own backward pass adds nobody sees."""
        left = False
        for leaf, before in zip(self.leaves, self.before, strict=True):
            if leaf.is_leaf and leaf.grad is not None:
                left |= leaf.grad is not before
                leaf.grad = None
        return left


def alias_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the batch in the same memory, for eager mode: gradients, flags and hooks that it leaves are this one's, and no gradient
    goes to what made the caller's."""
    alias = tensor.detach().requires_grad_(tensor.requires_grad)
    vars(alias).update(vars(tensor))
    return alias


def refuse_gradients(batch: Sequence[torch.Tensor], left: bool) -> None:
    """Raises Usage. `left`: whether loss_fn leaves gradients in the batch."""
    if left and any(t.is_leaf and t.grad is not None for t in batch):
        raise Usage("a tensor of the batch has a gradient already, to which a backward pass within loss_fn would add, and a planned step "
                    "reads no gradient of before it; set it to None, or take torch.autograd.grad in loss_fn")
