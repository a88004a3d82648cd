"""The halves of a joint graph by a plan, as boxed code that lets go of every value after its last use.

A plan is a sequence of units and moves; what comes before the boundary is the forward pass, what comes behind it the backward pass
(backend.py). Each half is a graph: a storage that both need is saved once, as the tensor that brought it, and its views are made again
where they are read. An input of the joint graph is one tensor of a half even where it shared memory with another while the graph was
traced: gradients of two outputs that are views of each other are two tensors.

Where the plan moves values to host memory, the halves hold the copies (transfers.py): a value that leaves in the forward pass and comes
back in the backward pass is saved as its copy, and an input that moves is the home of copies.

Tests: tests/python/test_torch_backend.py, test_torch_backend_aliases.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.graph import _BoxedCodeGen

from .. import _library
from ..plans import Plan
from .backend_layouts import lay
from .calls import Program
from .graph_text import GraphText
from .transfers import begin_load, begin_store, end_copy
from .units import Unit


def boxed(module: torch.fx.GraphModule, _: Any = None) -> Callable[[list], Any]:
    """The graph as a function of a list, which it empties: each value goes after its last use, as PyTorch writes such code."""
    lay(module.graph)
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    forward = module.forward

    def run(given: list) -> Any:
        return forward(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


Event = tuple[int, int]  # a kind of step: of an op the unit, of a move the storage
Saved = tuple[str, int]  # what of which storage
VALUE, HOME, HOST = "value", "home", "host"
for _function in (begin_store, begin_load, end_copy):
    torch.fx.node.has_side_effect(_function)


@dataclass
class _Half:
    """A graph under construction: which of the program's tensors have a node in it."""

    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    nodes: dict[int, torch.fx.Node] = field(default_factory=dict)
    homes: dict[int, torch.fx.Node] = field(default_factory=dict)  # of storages that move: the inputs
    hosts: dict[int, torch.fx.Node] = field(default_factory=dict)  # of storages: their copies in host memory
    under_way: dict[int, tuple[torch.fx.Node, ...]] = field(default_factory=dict)  # copies to be waited for


class Cut:
    """The halves of a joint graph by a plan."""

    def __init__(self, joint: torch.fx.GraphModule, program: Program, units: list[Unit], boundary: int,
                 homes: set[int]) -> None:
        self.joint, self.program, self.units, self.boundary, self.homes = joint, program, units, boundary, homes
        self.metas = {t: node.meta for node, t in self.original().items()}

    def original(self) -> dict[torch.fx.Node, int]:
        """Nodes of the joint graph that are a tensor."""
        found: dict[torch.fx.Node, int] = {}
        placeholders = [n for n in self.joint.graph.nodes if n.op == "placeholder"]
        found.update(zip(placeholders, self.program.given, strict=False))
        for call in self.program.calls:
            if not call.many and call.outs and call.outs[0] is not None:
                found[call.node] = call.outs[0]
            for user in call.node.users if call.many else ():
                if user.target is operator.getitem and call.outs[user.args[1]] is not None:
                    found[user] = call.outs[user.args[1]]
        return found

    def given(self, half: _Half, tensor: int, name: str) -> None:
        node = half.graph.placeholder(name)
        node.meta = dict(self.metas.get(tensor, {}))
        storage = self.program.tensors[tensor].storage
        if storage not in self.homes:
            half.nodes[tensor] = node
        elif self.program.storages[storage].base == tensor:
            half.homes[storage] = node

    def call(self, half: _Half, call: Any) -> torch.fx.Node:
        args, kwargs = call.with_tensors(lambda t: t)
        swap = lambda leaf: self.node(half, leaf.id) if hasattr(leaf, "id") else leaf  # noqa: E731
        args, kwargs = torch.utils._pytree.tree_map(swap, (args, kwargs), is_leaf=lambda x: hasattr(x, "id"))
        node = half.graph.call_function(call.target, tuple(args), dict(kwargs))
        node.meta = dict(call.node.meta)
        for index, out in enumerate(call.outs):
            if out is None:
                continue
            half.nodes[out] = half.graph.call_function(operator.getitem, (node, index)) if call.many else node
            half.nodes[out].meta = dict(self.metas.get(out, {}))
        return node

    def node(self, half: _Half, tensor: int) -> torch.fx.Node:
        """The tensor's node; a view is made where it is needed, of what is there."""
        if tensor not in half.nodes:
            recipe = self.program.tensors[tensor].recipe
            if recipe is None:
                raise AssertionError(f"tensor {tensor} is read and not there")
            self.call(half, recipe)
        return half.nodes[tensor]

    def forget(self, half: _Half, storage: int) -> None:
        for tensor in [t for t in half.nodes if self.program.tensors[t].storage == storage]:
            del half.nodes[tensor]

    def run(self, half: _Half, events: list[Event]) -> None:
        for kind, which in events:
            if kind != _library.COMPUTE:
                self.move(half, kind, which)
                continue
            for storage in self.units[which].makes:
                self.forget(half, storage)
            for call in self.units[which].calls:
                self.call(half, call)

    def move(self, half: _Half, kind: int, storage: int) -> None:
        base = self.program.storages[storage].base
        if kind == _library.FREE:
            self.forget(half, storage)
        elif kind == _library.WAIT:
            if storage in half.under_way:
                half.graph.call_function(end_copy, half.under_way.pop(storage))
        elif kind == _library.LOAD:
            kept = half.homes[storage] if storage in self.homes else half.hosts[storage]
            node = self.copied(half, begin_load, kept, base)
            half.nodes[base], half.under_way[storage] = node, (node,)
        elif storage in self.homes:
            half.graph.call_function(torch.ops.aten.copy_.default, (half.homes[storage], self.node(half, base)))
        else:
            value = self.node(half, base)
            half.hosts[storage] = self.copied(half, begin_store, value, base)
            half.under_way[storage] = (half.hosts[storage], value)

    def copied(self, half: _Half, function: Callable, source: torch.fx.Node, base: int) -> torch.fx.Node:
        node = half.graph.call_function(function, (source,))
        node.meta = {"val": self.metas[base]["val"]} if "val" in self.metas.get(base, {}) else {}
        return node

    def saved(self, one: _Half, later: list[Event], outputs: list[int | None]) -> list[Saved]:
        """What the second half needs and does not make first."""
        needed: dict[Saved, None] = {}
        there, stored = set(self.units[self.boundary].makes), set()
        for storage, copies in one.under_way.items():
            needed[VALUE, storage] = None
            if len(copies) > 1:
                needed[HOST, storage] = None
        for kind, which in later:
            reads = self.units[which].reads if kind == _library.COMPUTE else [which] if kind == _library.STORE else []
            needed.update({(VALUE, storage): None for storage in reads if storage not in there})
            if kind == _library.COMPUTE:
                there |= set(self.units[which].makes)
            elif kind == _library.FREE:
                there.discard(which)
            elif which in self.homes and kind in (_library.LOAD, _library.STORE):
                needed[HOME, which] = None
            elif kind == _library.LOAD and which not in stored:
                needed[HOST, which] = None
            if kind == _library.LOAD:
                there.add(which)
            elif kind == _library.STORE:
                stored.add(which)
        ends = [self.program.tensors[o].storage for o in outputs if o is not None]
        needed.update({(VALUE, storage): None for storage in ends if storage not in there})
        constants = {self.program.tensors[t].storage
                     for t in self.program.given[len(self.program.given) - len(self.program.constants):]} - self.homes
        return [key for key in needed if key[1] not in constants]

    def held(self, half: _Half, key: Saved) -> torch.fx.Node:
        what, storage = key
        if what == VALUE:
            return self.node(half, self.program.storages[storage].base)
        return half.homes[storage] if what == HOME else half.hosts[storage]

    def given_saved(self, half: _Half, key: Saved, node: torch.fx.Node, name: str) -> None:
        """What the first half saved, as an input of the second."""
        what, storage = key
        made = half.graph.placeholder(name)
        made.meta = dict(node.meta)
        if what == VALUE:
            half.nodes[self.program.storages[storage].base] = made
        else:
            (half.homes if what == HOME else half.hosts)[storage] = made

    def constants(self, half: _Half) -> None:
        nodes = [n for n in self.joint.graph.nodes if n.op == "get_attr"]
        start = len(self.program.given) - len(self.program.constants)
        for node, tensor in zip(nodes, self.program.given[start:], strict=True):
            made = half.graph.get_attr(node.target)
            made.meta = dict(node.meta)
            if self.program.tensors[tensor].storage in self.homes:
                half.homes[self.program.tensors[tensor].storage] = made
            else:
                half.nodes[tensor] = made

    def finish(self, half: _Half, outputs: list[int | None], plain: list[Any], saved: list[torch.fx.Node],
               descriptions: Any) -> torch.fx.GraphModule:
        """`plain`: the joint graph's leaves in the places of `outputs`, of which None or a number (a size that is handed on behind a
        break) is given as it stands."""
        found = [self.node(half, o) if o is not None else leaf for o, leaf in zip(outputs, plain, strict=True)]
        node = half.graph.output((*found, *saved))
        node.meta["desc"] = descriptions
        half.graph.eliminate_dead_code()
        return torch.fx.GraphModule(self.joint, half.graph)


def events_of(program: Program, graph: GraphText, plan: Plan) -> tuple[list[Event], set[int]]:
    """The plan's sequence: runs of units, and what becomes of storages that move; those whose home is an input."""
    names, storages = plan.op_names(), plan.storages()
    mine = {theirs: graph.values[name] for name, theirs in plan.storage_of_values().items()
            if name in graph.values and storages[theirs].slow_address >= 0}
    events = []
    for step in plan.steps():
        if step.kind == _library.COMPUTE:
            events.append((step.kind, graph.ops[names[step.op]]))
        elif step.storage in mine:
            events.append((step.kind, mine[step.storage]))
    return events, {mine[i] for i, place in enumerate(storages) if place.home_slow and i in mine}


def halves(cut: Cut, early: list[Event], later: list[Event], forward: int,
            placeholders: list[torch.fx.Node]) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    outputs = cut.program.outputs
    last = next(n for n in cut.joint.graph.nodes if n.op == "output")
    described = last.meta.get("desc", [None] * len(outputs))
    plain = torch.utils._pytree.tree_leaves(last.args[0], is_leaf=lambda leaf: leaf is None)
    one, two = _Half(), _Half()
    for node, tensor in zip(placeholders, cut.program.given, strict=False):
        if not node.name.startswith("tangents"):
            cut.given(one, tensor, node.name)
    cut.constants(one)
    cut.run(one, early)
    saved = cut.saved(one, later, outputs[forward:])
    held = [cut.held(one, key) for key in saved]
    for k, (key, node) in enumerate(zip(saved, held, strict=True)):
        cut.given_saved(two, key, node, node.name if node.op == "placeholder" else f"saved_{k}")
    for storage, copies in one.under_way.items():
        value = two.nodes[cut.program.storages[storage].base]
        two.under_way[storage] = (two.hosts[storage], value) if len(copies) > 1 else (value,)
    for node, tensor in zip(placeholders, cut.program.given, strict=False):
        if node.name.startswith("tangents"):
            cut.given(two, tensor, node.name)
    cut.constants(two)
    cut.run(two, later)
    first = cut.finish(one, outputs[:forward], plain[:forward], held, [*described[:forward], *[None] * len(saved)])
    return first, cut.finish(two, outputs[forward:], plain[forward:], [], list(described[forward:]))
