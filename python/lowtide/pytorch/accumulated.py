"""Gradients of a traced step as `loss.backward()` accumulates them.

`torch.autograd.grad` gives what one pass from the loss to the parameters finds, and None where there is no way, although there
may be one that autograd does not see: a reentrant checkpoint, or a reversible layer, calls backward within backward, and what
that finds for the parameters goes to their `.grad`. So the traced step calls backward as eager mode does. Each time that a
gradient comes to a leaf it is added to what is there, in eager mode's order, by an op that writes nothing in place: what a
plan has to keep apart stays apart, and the bits are the same. Between the two `.grad` is what it is in eager mode, so code that
reads it (an attack on the batch, a penalty) runs as ever.

A leaf that is a tensor of the user's (a teacher that was not frozen) gets no gradient: nothing of the user's changes.
Tests: tests/python/test_torch_reentrant.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import this_thread


class Accumulated:
    """The gradients of leaves that stand for parameters. Neither a leaf's hook nor that of its node knows this object, which knows the nodes: the
    garbage collector does not see through autograd's nodes, and a ring of all three would live for ever."""

    def __init__(self, leaves: Iterable[torch.Tensor]) -> None:
        self.nodes: list[Any] = []  # a leaf does not keep its own
        before: dict[int, torch.Tensor | None] = {}  # by the leaf's id: what was there
        for leaf in leaves:
            node = _adding_to(leaf)
            node.register_prehook(_putting_away(leaf, before))
            leaf.register_post_accumulate_grad_hook(_adding(before))
            self.nodes.append(node)

    def of(self, leaves: Iterable[torch.Tensor]) -> list[torch.Tensor | None]:
        return [leaf.grad for leaf in leaves]


def _putting_away(leaf: torch.Tensor, before: dict[int, torch.Tensor | None]) -> Callable[[Any], None]:
    def begin(_: Any) -> None:
        before[id(leaf)], leaf.grad = leaf.grad, None

    return begin


def _adding(held: dict[int, torch.Tensor | None]) -> Callable[[torch.Tensor], None]:
    def add(leaf: torch.Tensor) -> None:
        before = held.pop(id(leaf), None)
        if before is not None:
            leaf.grad = before if leaf.grad is None else before + leaf.grad

    return add


def _adding_to(leaf: torch.Tensor) -> Any:
    """Autograd's node that adds to the leaf's gradient. The view that shows it is no op of the trace."""
    with torch.enable_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return leaf.view_as(leaf).grad_fn.next_functions[0][0]


def _nothing(gradients: Any) -> tuple[None, ...]:
    return tuple(None for _ in gradients)


def _keep_from_users(roots: Iterable[Any], handles: list[Any]) -> None:
    """Leaves behind these tensors that are the user's own get nothing."""
    waiting, seen = [t.grad_fn for t in roots if isinstance(t, torch.Tensor)], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and not isinstance(variable, FakeTensor):
            handles.append(node.register_prehook(_nothing))
        waiting += [following for following, _ in node.next_functions]


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Within, backward() of whatever runs in this thread (the step, a checkpoint, loss_fn itself) leaves the user's tensors alone;
    that of another thread, which trains another model meanwhile, is PyTorch's."""
    handles: list[Any] = []

    def kept(backward: Callable, tensors: Any, *more: Any, **named: Any) -> None:
        _keep_from_users([tensors] if isinstance(tensors, torch.Tensor) else tensors, handles)
        return backward(tensors, *more, **named)

    try:
        with this_thread.exchanged((torch.autograd, "backward", kept)):
            yield
    finally:
        for handle in handles:
            handle.remove()
