"""Tables that the forward pass makes once of shapes and constants, and keeps: rotary frequencies, masks, grids.

A step that found none makes its own, and puts it into its place as eager mode does. A step from then on finds it there. Whether both are one step
is told by their graphs without what is constant in them (`folded`): there the table that is read is a constant as the one that is made.
If they are, the plan serves both states: nothing in the place, and this table, by its contents. Any other table there, which a larger batch
has left, asks for another plan. Tests: tests/python/test_torch_tables.py.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from .externals import External, geometry_of
from .held_places import kind_of
from .known import LARGEST
from .reachable import MISSING, Place
from .schemas import schema_writes, tensors_among
from .untouched import equal_bits, same


class Table:
    """A place where the table lies, or what was there before it was made. As Kind (guards.py)."""

    number = None

    def __init__(self, place: Place, before: Any, leaves: list[torch.Tensor], tree: Any, serves: bool) -> None:
        """`serves`: the plan serves the state with the table, too."""
        self.place, self.before, self.leaves, self.tree, self.serves = place, before, leaves, tree, serves
        self.seen: list[tuple[torch.Tensor, int]] = []  # what was found to be the table, with its version

    @property
    def held(self) -> Any:
        return self.before

    def lies(self, now: Any) -> bool:
        """Whether it is this table that lies there."""
        found, tree = pytree.tree_flatten(now)
        if len(found) == len(self.seen) and all(a is b and a._version == version for a, (b, version) in zip(found, self.seen, strict=True)):
            return True
        alike = tree == self.tree and all(isinstance(a, torch.Tensor) and not a.is_inference() and geometry_of(a) == geometry_of(b) and equal_bits(a.detach(), b)
                                          for a, b in zip(found, self.leaves, strict=True))
        if alike:
            self.seen = [(tensor, tensor._version) for tensor in found]
        return alike

    def holds(self) -> bool:
        now = self.place.now()
        if self.before is now or same(self.before, now) or self.before is not MISSING and self.before is not None and (
                now is not MISSING and kind_of(self.before) == kind_of(now)):
            return True
        return self.serves and now is not MISSING and self.lies(now)


def folded(module: torch.fx.GraphModule, externals: Mapping[str, External], tables: Collection[tuple[int, Any]]) -> list[str] | None:
    """The graph as lines, without ops of constants; None where what is no constant is written into one. `tables`: places of tensors that
    are constants here, by owner and key."""
    return _Folding(module, externals, tables).lines()


def where(external: External) -> tuple:
    """What is equal of an external in two traces where both read the same."""
    place = external.place
    return id(place.room.owner), place.key, place.inside, geometry_of(external.tensor), external.tensor.storage_offset()


class _Folding:
    def __init__(self, module: torch.fx.GraphModule, externals: Mapping[str, External], tables: Collection[tuple[int, Any]]) -> None:
        self.module, self.externals, self.tables = module, externals, tables
        self.values: dict[torch.fx.Node, Any] = {}
        self.numbers: dict[torch.fx.Node, str] = {}

    def lines(self) -> list[str] | None:
        found = []
        for node in self.module.graph.nodes:
            value = self.constant(node)
            if value is not MISSING:
                self.values[node] = value
                continue
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable and self.writes(node):
                return None
            self.numbers[node] = f"n{len(self.numbers)}"
            found.append(" ".join(self.said(node)))
        return found

    def said(self, node: torch.fx.Node) -> Iterator[str]:
        yield node.op
        external = self.externals.get(node.target) if node.op == "get_attr" else None
        if external is not None and external.place is not None:
            yield str(where(external))
        elif node.op == "placeholder":
            yield str(node.meta["val"].shape)
        else:
            yield str(node.target)
        yield repr(torch.fx.node.map_arg((node.args, node.kwargs), lambda n: Word(self.numbers[n] if n in self.numbers else _word(self.values[n]))))

    def constant(self, node: torch.fx.Node) -> Any:
        """Its value; MISSING where it is none."""
        if node.op == "get_attr":
            external = self.externals.get(node.target)
            if external is not None and (external.place is None or (id(external.place.room.owner), external.place.key) not in self.tables):
                return MISSING
            value = getattr(self.module, node.target)
            plain = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and value.layout is torch.strided
            return value.detach().clone() if plain and value.numel() <= LARGEST else MISSING
        if node.op != "call_function" or any(n not in self.values for n in node.all_input_nodes):
            return MISSING
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in node.target.tags:
            return MISSING
        val = node.meta.get("val")
        if not all(isinstance(t, torch.Tensor) and t.numel() <= LARGEST for t in pytree.tree_leaves(val)) or node.target.namespace != "aten":
            return MISSING
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        try:
            with torch.no_grad():
                return node.target(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            return MISSING

    def writes(self, node: torch.fx.Node) -> bool:
        """Whether it writes into a constant."""
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.values.get(n, n.meta.get("val")))
        constants = {id(t) for value in self.values.values() for t in tensors_among((value,))}
        return any(id(t) in constants for t in schema_writes(node.target, args, kwargs))


class Word:
    """Stands for a node in the repr of its arguments."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


def _word(value: Any) -> str:
    """What a constant is, by its bits."""
    found = hashlib.sha256()
    for tensor in tensors_among((value,)):
        found.update(repr(geometry_of(tensor)).encode())
        found.update(tensor.contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())
    return f"constant {found.hexdigest()}"
