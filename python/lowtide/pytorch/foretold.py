"""Answers that are known before the step: computed of parameters, buffers, constants and, where asked for, the batch, and of nothing else.

    foretold = foretell(asked, sources, read)  None, or the answer now and how to find it again
    foretold.holds(batch)                      before a step: whether the tensors still give that answer

The ops that lead to what is asked are read off the graph that is being traced: backward from its node, with every op that writes to
memory that one of these reads. They run on the tensors that are there before the step; where one is written, on a
copy, so nothing of the user's changes. None where a tensor without a source or random numbers have a part in it, or where it takes more
than a little (LARGEST elements, MANY ops): it is asked in every step. Branches (decisions.py) have no source for the batch; sizes
(foretold_sizes.py) do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils._python_dispatch import _disable_current_modes

from .schemas import schema_writes

LARGEST = 1 << 16
MANY = 256

Source = Callable[[list[torch.Tensor]], torch.Tensor]  # of the batch's tensors: the tensor as it is now


@dataclasses.dataclass(frozen=True)
class Foretold:
    """`sources`: of the placeholders of the module, in their order."""

    value: Any
    module: torch.fx.GraphModule
    sources: tuple[Source, ...]
    read: Callable[[torch.Tensor], Any] = bool

    def now(self, batch: list[torch.Tensor]) -> Any:
        with torch.no_grad(), _disable_current_modes():
            return self.read(self.module(*(source(batch) for source in self.sources)))

    def holds(self, batch: list[torch.Tensor]) -> bool:
        return self.now(batch) == self.value


def source_of(node: torch.fx.Node, model: Any, externals: list[Any], with_batch: bool = False,
              without: Collection[str] = ()) -> Source | None:
    """Where the tensor of a node without operands is found before each step; None: in the batch, unless that is a place, too,
    or among the names `without`."""
    if node.op == "get_attr":
        for external in externals:
            if external.target == node.target:
                return lambda batch: external.now()
        held = getattr(get_proxy_mode().tracer.root, node.target)
        return (lambda batch: held) if type(held) in (torch.Tensor, torch.nn.Parameter) else None
    place = [n for n in node.graph.nodes if n.op == "placeholder"].index(node)
    for tensors in (model.parameters, model.buffers):
        if place < len(tensors):
            name = list(tensors)[place]
            return (lambda batch: tensors[name]) if name not in without else None
        place -= len(tensors)
    return (lambda batch: batch[place]) if with_batch else None


def is_held(node: torch.fx.Node, model: Any, externals: list[Any]) -> bool:
    """Whether it is a tensor that outlives the step: no constant, nor one of the batch."""
    if node.op == "get_attr":
        return any(external.target == node.target for external in externals)
    return [n for n in node.graph.nodes if n.op == "placeholder"].index(node) < len(model.parameters) + len(model.buffers)


def _node_of(asked: Any) -> torch.fx.Node | None:
    mode = get_proxy_mode()
    found = get_proxy_slot(asked, mode.tracer, None) if mode is not None else None
    found = getattr(found, "proxy", found)
    if found is not None and not isinstance(found, torch.fx.Proxy):
        found = found.force()
    return found.node if found is not None else None


def _storages(value: Any) -> set[int]:
    return {t.untyped_storage()._cdata for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)}


def _vals(arguments: Any) -> Any:
    return pytree.tree_map(lambda a: a.meta.get("val") if isinstance(a, torch.fx.Node) else a, arguments)


def _written(node: torch.fx.Node) -> set[int]:
    from .calls import hidden_writes  # noqa: PLC0415: calls.py reads traces

    args, kwargs = _vals((tuple(node.args), dict(node.kwargs)))
    if not isinstance(node.target, torch._ops.OpOverload):
        return set()
    return _storages([*schema_writes(node.target, args, kwargs), *hidden_writes(node.target, args)])


def _leading_to(last: torch.fx.Node) -> list[torch.fx.Node] | None:
    """The nodes that it depends on, in their order, and itself, with what has been written into its memory since; None of too many, or where random
    numbers are drawn."""
    wanted, memory, found = {last}, _storages(last.meta.get("val")), []
    for node in reversed(list(last.graph.nodes)):
        if node not in wanted and not (node.op == "call_function" and _written(node) & memory):
            continue
        tags = getattr(node.target, "tags", ())
        if len(found) == MANY or torch.Tag.nondeterministic_seeded in tags or node.op not in ("placeholder", "get_attr", "call_function"):
            return None
        sizes = [t.numel() for t in pytree.tree_leaves(node.meta.get("val")) if isinstance(t, torch.Tensor)]
        if any(not isinstance(n, int) or n > LARGEST for n in sizes):
            return None
        found.append(node)
        wanted |= set(node.all_input_nodes)
        memory |= _storages([node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)])
    return found[::-1]


def foretell(asked: Any, sources: Callable[[torch.fx.Node], Source | None], batch: list[torch.Tensor],
             read: Callable[[torch.Tensor], Any] = bool) -> Foretold | None:
    """`sources`: of a node without operands (placeholder, get_attr) where its tensor is found before each step; None: nobody can say.
    `batch`: the sample's tensors. `read`: what is wanted of the tensor."""
    last = _node_of(asked)
    nodes = _leading_to(last) if last is not None else None
    if not nodes:
        return None
    written = set().union(*(_written(n) for n in nodes if n.op == "call_function"))
    graph, made, found = torch.fx.Graph(), {}, []
    for node in nodes:
        if node.op == "call_function":
            made[node] = graph.node_copy(node, made.__getitem__)
            continue
        source = sources(node)
        if source is None:
            return None
        found.append(source)
        made[node] = graph.placeholder(f"x{len(found)}")
        if _storages(node.meta.get("val")) & written:
            made[node] = graph.call_function(torch.clone, (made[node],))
    graph.output(made[last])
    whole = Foretold(None, torch.fx.GraphModule(torch.nn.Module(), graph), tuple(found), read)
    try:
        return dataclasses.replace(whole, value=whole.now(batch))
    except Exception:  # noqa: BLE001: what cannot be computed alone is asked in every step
        return None
