"""A graph with symbolic sizes, planned once for each set of sizes that comes.

A plan is of one set of sizes. Dynamo hands over a graph whose inputs are numbers, too (it does so at the second size of a batch); for
each set of numbers that comes, the graph with these written into it is traced and planned, when it comes first. Only numbers are written
in: what makes a tensor of them (`torch.arange(n)`) stays an op of the graph, which is traced with the numbers that it gets.

A loop that generates tokens has another size in each turn, and tracing takes longer than running: after MOST_SIZES of them the others
run in eager mode, as dynamo handed the graph over.

Tests: tests/python/test_torch_backend.py, test_torch_backend_left.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from ..errors import Limit
from .backend_left import EAGER, Left

MOST_SIZES = 16  # sets of sizes of a graph that are traced and planned; what comes then runs in eager mode


def is_symbolic(given: Any) -> bool:
    if isinstance(given, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in (*given.shape, *given.stride()))
    return isinstance(given, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _with_sizes(module: torch.fx.GraphModule, given: tuple) -> torch.fx.GraphModule:
    """The graph with the numbers among its inputs written into it. What is computed of them is computed when it is traced."""
    graph = copy.deepcopy(module.graph)
    known = {node: value for node, value in zip((n for n in graph.nodes if n.op == "placeholder"), given, strict=True)
             if not isinstance(value, torch.Tensor)}
    for node in list(graph.nodes):
        if node not in known:
            node.args, node.kwargs = torch.fx.node.map_aggregate(
                (node.args, node.kwargs), lambda leaf: known.get(leaf, leaf) if isinstance(leaf, torch.fx.Node) else leaf)
            if node.op == "call_method" and node.target == "item" and not isinstance(node.args[0], torch.fx.Node):
                known[node] = node.args[0]  # of a number that came as a tensor
    for node in reversed(list(known)):
        graph.erase_node(node)
    return torch.fx.GraphModule(module, graph)


def depends_on_contents(module: torch.fx.GraphModule) -> bool:
    """Whether sizes come from the contents of tensors: such a graph has no set of sizes before it runs."""
    return any(node.meta.get("unbacked_bindings") for node in module.graph.nodes)


class BySizes:
    """A graph with symbolic sizes: a planned one for each set of sizes that comes, up to MOST_SIZES of them."""

    def __init__(self, module: torch.fx.GraphModule, make: Callable[..., Callable], left: Left) -> None:
        self.module, self.make, self.left = module, make, left
        self.made: dict[Any, Callable] = {}
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.lasting = ["_dynamo_static_input_type" in n.meta.get("tensor_dict", {}) for n in placeholders]  # the module's own

        # Numbers that come as tensors (a norm's momentum): all that the graph does with them is to read them.
        self.numbers = [bool(n.users) and all(u.op == "call_method" and u.target == "item" for u in n.users)
                        for n in placeholders]

    def key(self, given: tuple) -> tuple:
        """The numbers, the tensors' sizes, and which of those that do not last share memory."""
        found: list[Any] = []
        first: dict[int, int] = {}
        for place, (value, lasts) in enumerate(zip(given, self.lasting, strict=True)):
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
                found.append(value.shape if isinstance(value, torch.Tensor) else value)
                continue
            found += [value.shape, value.stride()]
            if not lasts:
                found.append(first.setdefault(value.untyped_storage()._cdata, place))
        return tuple(found)

    def __call__(self, *inputs: Any) -> Any:
        given = tuple(g.item() if number and isinstance(g, torch.Tensor) else g
                      for g, number in zip(inputs, self.numbers, strict=True))
        key, tensors = self.key(given), [g for g in given if isinstance(g, torch.Tensor)]
        if key not in self.made:
            if len(self.made) >= MOST_SIZES:
                self.left.tell(Limit(f"{MOST_SIZES} sets of sizes are planned already; fewer of them (batches padded to a few lengths) "
                                     "are planned each"), EAGER)
                return self.module(*inputs)
            lasting = [lasts for lasts, g in zip(self.lasting, given, strict=True) if isinstance(g, torch.Tensor)]
            self.made[key] = self.make(_with_sizes(self.module, given), tensors,
                                       [i for i, lasts in enumerate(lasting) if lasts])
        return self.made[key](*tensors)
