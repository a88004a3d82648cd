"""Indices that a batch brings, checked before a native step begins: labels of a loss, lines of a table.

PyTorch's kernels raise an IndexError where an index is out of range. The runtime's kernels read zeros there and write
nothing, so a wrong label would train on without a word. Therefore the ops of the exported program that take indices are
gone over once, and what computes the indices from the batch is kept as a small graph of its own: it holds whole numbers
and booleans alone, so running it before each step takes next to no time and memory.

Indices that depend on parameters or on floating-point results (an argmax of the model's own output) are not known
before the step and are not checked; such indices are in range by the op that makes them.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .trace import Model, place_of_stack

_LOSSES = ("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d")
_LINES = ("embedding", "embedding_bag")
_ALONG = ("index_select", "gather", "scatter", "scatter_add", "index_add", "index_copy", "index_fill")
_ANY = ("index", "index_put")
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@dataclass
class _Range:
    """`low` <= index < `high`, or the index is `ignored`."""

    name: str
    place: str
    low: int
    high: int
    ignored: int | None = None


def _taken(node: torch.fx.Node) -> list[tuple[Any, _Range]]:
    """The tensors of indices that an op takes, and what they may hold."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return []
    name = schema.name.removeprefix("aten::").removesuffix("_")
    given = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    given.update(zip((a.name for a in schema.arguments), node.args, strict=False))
    given.update(node.kwargs)
    place = place_of_stack(node.meta.get("stack_trace") or "")

    def extent(of: str, dim: int) -> int:
        shape = given[of].meta["val"].shape
        return int(shape[dim]) if len(shape) > 0 else 1

    if name in _LOSSES:
        classes = extent("self", 1 if given["self"].meta["val"].dim() > 1 else 0)
        return [(given["target"], _Range(name, place, 0, classes, given["ignore_index"]))]
    if name in _LINES:
        return [(given["indices"], _Range(name, place, 0, extent("weight", 0)))]
    if name in _ALONG:
        return [(given["index"], _Range(name, place, 0, extent("self", given["dim"])))]
    if name in _ANY:
        lists = [(i, k) for k, i in enumerate(given["indices"]) if i is not None]
        plain = all(i.meta["val"].dtype != torch.bool for i, _ in lists)  # one of booleans takes several dimensions
        return [(i, _Range(name, place, -extent("self", k), extent("self", k))) for i, k in lists if plain]
    return []


def _is_whole(node: torch.fx.Node) -> bool:
    values = node.meta.get("val")
    values = values if isinstance(values, (list, tuple)) else [values]
    return all(isinstance(v, torch.Tensor) and v.dtype in _WHOLE for v in values)


def _is_plain(node: torch.fx.Node) -> bool:
    """An op that gives whole numbers and changes nothing."""
    if node.target is operator.getitem:
        return _is_whole(node)
    schema = getattr(node.target, "_schema", None)
    return (schema is not None and not schema.is_mutable and _is_whole(node)
            and torch.Tag.nondeterministic_seeded not in node.target.tags)


@dataclass
class IndexChecks:
    """What computes indices of a batch; `sources`: what it is given, in order."""

    module: torch.fx.GraphModule | None = None
    sources: list[tuple[str, Any]] = field(default_factory=list)  # ("input", leaf), ("buffer", name), ("constant", tensor)
    ranges: list[_Range] = field(default_factory=list)

    def check(self, model: Model, leaves: list[torch.Tensor]) -> None:
        """Raises IndexError, naming the op, its line and the index."""
        if self.module is None:
            return
        given = [leaves[which] if kind == "input" else model.buffers[which] if kind == "buffer" else which
                 for kind, which in self.sources]
        for found, allowed in zip(self.module(*given), self.ranges, strict=True):
            if found.numel() > 0 and found.dtype != torch.bool:
                _check(found, allowed)


def _check(found: torch.Tensor, allowed: _Range) -> None:
    least, most = (int(n) for n in torch.aminmax(found))
    if allowed.low <= least and most < allowed.high:
        return
    wrong = found[(found < allowed.low) | (found >= allowed.high)]
    wrong = wrong if allowed.ignored is None else wrong[wrong != allowed.ignored]
    if wrong.numel() == 0:
        return
    place = f"{allowed.place}: " if allowed.place else ""
    ignored = "" if allowed.ignored is None else f" (or {allowed.ignored}, which is ignored)"
    problem = IndexError(f"{place}{allowed.name} is given the index {int(wrong[0])}; it takes "
                         f"{allowed.low} to {allowed.high - 1}{ignored}")
    problem.add_note("lowtide: the model is as before the step")
    raise problem


class _Slice:
    """Copies nodes of a program, and what they are computed of, into a graph of their own."""

    def __init__(self, program: ExportedProgram, buffers: dict[str, str]) -> None:
        """`buffers`: of the program's buffers the names in the model."""
        self.graph, self.copies, self.checks = torch.fx.Graph(), {}, IndexChecks()
        inputs = iter(range(len(program.graph_signature.user_inputs)))
        self.given: dict[str, tuple[str, Any]] = {}
        for spec in program.graph_signature.input_specs:
            if spec.kind == InputKind.USER_INPUT:
                self.given[spec.arg.name] = ("input", next(inputs))
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                self.given[spec.arg.name] = ("constant", program.constants[spec.target])
            elif spec.kind == InputKind.BUFFER and spec.target in buffers:
                self.given[spec.arg.name] = ("buffer", buffers[spec.target])

    def known(self, node: torch.fx.Node) -> list[torch.fx.Node] | None:
        """What is to be copied for it, in a valid order; None: it is not known before the step."""
        order: dict[torch.fx.Node, None] = {}
        waiting = [node]
        while waiting:
            now = waiting.pop()
            if now in order:
                continue
            if now.op == "placeholder":
                kind, _ = self.given.get(now.name, ("", None))
                if not kind or (kind == "buffer" and not _is_whole(now)):
                    return None
            elif now.op != "call_function" or not _is_plain(now):
                return None
            order[now] = None
            waiting += now.all_input_nodes
        return [each for each in node.graph.nodes if each in order]

    def add(self, node: torch.fx.Node, allowed: _Range) -> None:
        for each in self.known(node) or ():
            if each in self.copies:
                continue
            if each.op == "placeholder":
                self.checks.sources.append(self.given[each.name])
            self.copies[each] = self.graph.node_copy(each, self.copies.__getitem__)
        if node in self.copies:
            self.checks.ranges.append(allowed)

    def finish(self, wanted: list[torch.fx.Node]) -> IndexChecks:
        if wanted:
            self.graph.output(tuple(self.copies[node] for node in wanted))
            self.checks.module = torch.fx.GraphModule(torch.nn.Module(), self.graph)
        return self.checks


def index_checks(program: ExportedProgram, buffers: dict[str, str]) -> IndexChecks:
    """What can be checked of the program's indices before it runs."""
    found, wanted = _Slice(program, buffers), []
    for node in program.graph.nodes:
        for indices, allowed in _taken(node) if node.op == "call_function" else ():
            if isinstance(indices, torch.fx.Node) and _is_whole(indices):
                found.add(indices, allowed)
                if indices in found.copies:
                    wanted.append(indices)
    return found.finish(wanted)
