"""Whether the halves of a joint graph compute what the joint graph computes, by value numbering.

A value's number stands for the op that makes it and the numbers of its operands (Kildall; hash-consing): equal numbers, equal bits. The
joint graph is numbered once, in its own order; the halves are numbered one after the other, the second beginning with the numbers of
what the first saved. They are what the joint graph is if

    every output, of the forward and of the backward pass, has the joint graph's number
    every input that is written has the last number that the joint graph gives it, and those that the forward pass writes have it before
    the backward pass begins
    the draws are the joint graph's, in its order: the n-th draw has the number of a draw and n

What runs again has the number that it had, unless it draws, or reads what has been written since. A copy to host memory and back has
its value's number. This knows neither plans nor units, and takes a small share of the time that tracing takes. What differs is a bug of
ours; the graph is then left to PyTorch's own partition (backend_left.py).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..errors import Internal
from .calls import draws, rnn_layer_in_training
from .schemas import schema_writes
from .transfers import begin_load, begin_store, end_copy

aten = torch.ops.aten


def in_backward(node: torch.fx.Node) -> bool:
    """Whether AOTAutograd traced the node in the backward pass."""
    return node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")


class Numbers:
    """Numbers of values, the same for equal keys."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def of(self, *key: Any) -> int:
        return self.known.setdefault(key, len(self.known))


@dataclass
class Given:
    """An input, or what the first half saved, as a half finds it. `place`: the input's first number, where the tensor is one, or
    (`copied`) a copy that takes its place until it is stored."""

    number: int
    place: int | None = None
    copied: bool = False


class Walk:
    """Goes over a graph in its order. `written`: the newest number of each input that was written, by its first number."""

    def __init__(self, numbers: Numbers, written: dict[int, int] | None = None, drawn: int = 0) -> None:
        self.numbers, self.written, self.drawn = numbers, dict(written or {}), drawn
        self.of_node: dict[torch.fx.Node, int] = {}
        self.given: dict[torch.fx.Node, int] = {}  # inputs
        self.copied: dict[torch.fx.Node, int] = {}  # copies that stand for an input
        self.forward_writes: dict[int, int] = {}
        self.outputs: list[Given | None] = []

    def walk(self, graph: torch.fx.Graph, saved: list[Given | None]) -> Walk:
        waiting = list(saved)
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                there = waiting.pop(0) if waiting and node.op == "placeholder" else None
                self.give(node, there or self.input(node))
            elif node.op == "output":
                self.outputs = [self.handed_out(leaf) for leaf in tree_leaves(node.args[0], is_leaf=lambda x: x is None)]
            else:
                self.call(node)
        return self

    def input(self, node: torch.fx.Node) -> Given:
        number = self.numbers.of(node.op, node.name if node.op == "placeholder" else node.target)
        return Given(number, number)

    def give(self, node: torch.fx.Node, there: Given) -> None:
        self.of_node[node] = there.number
        if there.place is not None:
            (self.copied if there.copied else self.given)[node] = there.place

    def handed_out(self, leaf: Any) -> Given | None:
        if isinstance(leaf, torch.fx.Node):
            return self.shown(leaf)
        return None if leaf is None else Given(self.numbers.of("plain", *self.key(leaf)))

    def shown(self, node: torch.fx.Node) -> Given:
        copied = node in self.copied
        return Given(self.now(node), self.copied[node] if copied else self.given.get(node), copied)

    def now(self, node: torch.fx.Node) -> int:
        """An input that was written has another number."""
        number = self.of_node[node]
        return self.written.get(self.given[node], number) if node in self.given else number

    def key(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return "value", self.now(value)
        if isinstance(value, (list, tuple)):
            return "list", *map(self.key, value)
        if isinstance(value, dict):
            return "dict", *((k, self.key(value[k])) for k in sorted(value))
        return type(value).__name__, repr(value)

    def call(self, node: torch.fx.Node) -> None:
        target, args = node.target, node.args
        if target is end_copy:
            return
        if target in (begin_load, begin_store):
            self.of_node[node] = self.now(args[0])
            if args[0] in self.given:
                self.copied[node] = self.given[args[0]]
        elif target is operator.getitem:
            self.of_node[node] = self.numbers.of("item", self.now(args[0]), args[1])
        elif target is aten.copy_.default and args[1] in self.copied and self.copied[args[1]] == self.given.get(args[0]):
            self.of_node[node] = self.written[self.given[args[0]]] = self.of_node[args[1]]
        else:
            name = str(aten.mkldnn_rnn_layer.default if target is rnn_layer_in_training else target)
            key: tuple = (name, self.key(args), self.key(node.kwargs))
            if isinstance(target, torch._ops.OpOverload) and draws(target, args, node.kwargs):
                key, self.drawn = (*key, self.drawn), self.drawn + 1
            self.of_node[node] = self.numbers.of(*key)
            if isinstance(target, torch._ops.OpOverload):
                self.write(node, schema_writes(target, args, node.kwargs))

    def write(self, node: torch.fx.Node, written: Iterable[Any]) -> None:
        for tensor in written:
            if tensor in self.copied:
                self.of_node[tensor] = self.of_node[node]
                continue
            if tensor not in self.given:
                raise Internal(f"{node.target} writes {tensor}, which is no input of the graph")
            self.written[self.given[tensor]] = self.of_node[node]
            if not in_backward(node):
                self.forward_writes[self.given[tensor]] = self.of_node[node]


def check(joint: torch.fx.Graph, first: torch.fx.Graph, second: torch.fx.Graph, forward: int) -> None:
    """Raises Internal where the halves are not the joint graph. `forward`: how many outputs are the forward pass's."""
    numbers = Numbers()
    whole = Walk(numbers).walk(joint, [])
    one = Walk(numbers).walk(first, [])
    if any(one.written.get(place) != number for place, number in whole.forward_writes.items()):
        raise Internal("an input that the forward pass writes is not written when it ends")
    two = Walk(numbers, one.written, one.drawn).walk(second, one.outputs[forward:])
    found = [*one.outputs[:forward], *two.outputs]
    for k, (mine, its) in enumerate(zip(found, whole.outputs, strict=True)):
        if (mine and mine.number) != (its and its.number):
            of, place = ("forward", k) if k < forward else ("backward", k - forward)
            raise Internal(f"output {place} of the {of} pass is not what the joint graph computes")
    if two.written != whole.written:
        raise Internal("inputs are written otherwise than in the joint graph")
    if two.drawn != whole.drawn:
        raise Internal(f"{two.drawn} ops draw random numbers instead of {whole.drawn}")
