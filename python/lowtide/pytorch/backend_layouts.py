"""What the halves of a graph read by strides lies as it was traced.

AOTAutograd traces on tensors without contents, whose kernels say of some ops other strides than real kernels give: on the CPU, a batch
norm of transposed features gives a contiguous result, and is traced as if it kept the strides of its input. Ops then get tensors that lie
as in eager mode, and compute what they compute there. But `x.reshape(...)`, which copies in eager mode, was traced as a view where the
traced strides allow one, and the real view is refused; `as_strided` would read other elements, and a kernel of a custom op
may have been promised a contiguous operand by a `contiguous()` that was traced as nothing.

So what such ops read is laid as it was traced, just before they read it: a copy, where it lies otherwise, and nothing where it lies so. The
copy is that of eager mode's `reshape`; no plan counts it. `as_strided` goes by a whole storage, and in eager mode by the real one: a piece
with such an op in its forward pass whose storage lies otherwise runs in eager mode, with a warning (OrEager).

Tests: tests/python/test_torch_backend_layouts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import Unsupported
from .backend_left import EAGER, Left
from .schemas import writes_any

aten = torch.ops.aten
_VIEWS = {aten.view.default, aten._unsafe_view.default}
_BY_STRIDES = {*_VIEWS, aten.view.dtype, aten.view_as_complex.default}  # ops that read their first operand by its strides
_BY_STORAGE = {aten.as_strided.default, aten.as_strided_scatter.default}


class _LiesOtherwise(Unsupported):
    """A storage that `as_strided` reads is not as it was traced."""


def _lies_so(tensor: torch.Tensor, stride: tuple[int, ...]) -> bool:
    """A dimension of one element has no step, whatever its stride is."""
    return tensor.stride() == stride or tensor.numel() == 0 or all(
        a == b or n == 1 for n, a, b in zip(tensor.shape, tensor.stride(), stride, strict=True))


def looked_at(tensor: torch.Tensor, stride: tuple[int, ...], name: str) -> torch.Tensor:
    """The tensor, which has these strides. Raises _LiesOtherwise."""
    if not _lies_so(tensor, stride):
        raise _LiesOtherwise(f"as_strided reads what {name} made, which lies with strides {tuple(tensor.stride())} and was traced with {stride}")
    return tensor


def laid(tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """The tensor with these strides: itself or a copy."""
    if _lies_so(tensor, stride):
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _is_view(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "aten" and any(
        made.alias_info is not None and not made.alias_info.is_write for made in target._schema.returns)


def _root(node: torch.fx.Node) -> torch.fx.Node:
    """The node that brought the storage."""
    while node.op == "call_function" and _is_view(node.target) and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node


def _stride(node: torch.fx.Node) -> tuple[int, ...] | None:
    """As traced; None where it is no tensor, or its sizes are symbols, or its elements overlap."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or any(
            not isinstance(n, int) for n in (*value.shape, *value.stride())):
        return None
    return None if any(s == 0 and n > 1 for n, s in zip(value.shape, value.stride(), strict=True)) else tuple(value.stride())


def _read_by_strides(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return
    if target in _BY_STRIDES:
        yield node.args[0]
    elif target.namespace not in ("aten", "prims", "prim", "lowtide") and not writes_any(target):
        yield from node.all_input_nodes


def lay(graph: torch.fx.Graph) -> None:
    """Lets the graph lay what is read by strides."""
    for node in list(graph.nodes):
        for read in _read_by_strides(node) if node.op == "call_function" else ():
            if _stride(read) is not None:
                with graph.inserting_before(node):
                    made = graph.call_function(laid, (read, _stride(read)))
                made.meta = dict(read.meta)
                node.replace_input_with(read, made)
            elif node.target in _VIEWS:
                node.target = aten.reshape.default


def look(graph: torch.fx.Graph) -> bool:
    """Lets a forward pass look at the storages that `as_strided` reads; whether there are any that the pass makes."""
    roots = {_root(node.args[0]): None for node in graph.nodes if node.target in _BY_STORAGE}
    found = [root for root in roots if root.op == "call_function" and _stride(root) is not None]
    for root in found:
        users = list(root.users)
        with graph.inserting_after(root):
            seen = graph.call_function(looked_at, (root, _stride(root), root.name))
        seen.meta = dict(root.meta)
        for user in users:
            user.replace_input_with(root, seen)
    return bool(found)


class OrEager:
    """A compiled piece that looks at its storages, and what runs in its place if one lies otherwise than traced: the first call, which keeps
    what the piece is given, tells, since kernels lay by shapes and strides alone."""

    def __init__(self, compiled: Callable, otherwise: Callable, left: Left) -> None:
        self.run, self.otherwise, self.left, self.told = compiled, otherwise, left, False

    def __call__(self, *inputs: Any) -> Any:
        if not self.told:
            self.told = True
            return self.first(*inputs)
        return self.run(*inputs)

    def first(self, *inputs: Any) -> Any:
        kept = [(given, given.detach().clone()) for given in inputs if isinstance(given, torch.Tensor)]
        counts = [None if given.is_inference() else given._version for given, _ in kept]
        drawn, on_gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        try:
            return self.run(*inputs)
        except _LiesOtherwise as problem:
            otherwise = problem
        with torch.no_grad():
            for (given, before), count in zip(kept, counts, strict=True):
                if count is None or given._version != count:
                    given.copy_(before)
        torch.set_rng_state(drawn)
        if on_gpus:
            torch.cuda.set_rng_state_all(on_gpus)
        self.left.tell(Unsupported(str(otherwise)), EAGER)
        self.run = self.otherwise
        return self.run(*inputs)
