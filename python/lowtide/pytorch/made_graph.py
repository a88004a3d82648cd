"""make_fx without what no graph of a step needs.

PyTorch's tracer notes at each node which of its functions was called, by a mode that meets every call; nobody reads that here. When the graph is
made, it asks of each node whether it may go if nobody reads it; here that is asked of those that nobody reads, which are few, and the same nodes go.
Tests: tests/python/test_torch_made_graph.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from . import this_thread

_WITHOUT_NAMES = {name: True for name in ("_disable_torch_fn_metadata_mode",) if name in inspect.signature(make_fx).parameters}


def made_graph(function: Callable, *given: torch.Tensor) -> torch.fx.GraphModule:
    """The ops that the function runs on fake tensors like these."""
    with this_thread.exchanged((torch.fx.Graph, "eliminate_dead_code", _without_dead)):
        return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True, **_WITHOUT_NAMES)(*given)


def _without_dead(before: Callable, graph: torch.fx.Graph, is_impure_node: Callable[[torch.fx.Node], bool] | None = None) -> bool:
    """As PyTorch's method, which goes over graphs within this one, too, where the graph belongs to a module."""
    if is_impure_node is None or graph.owning_module is not None:
        return before(graph, is_impure_node)
    removed = False
    for node in reversed(graph.nodes):
        if not node.users and not is_impure_node(node):
            graph.erase_node(node)
            removed = True
    return removed
