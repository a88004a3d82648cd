"""What loss_fn gives beside the loss: taken apart into outputs of the graph, and put together anew behind each step.

    tensors                  are outputs
    views of parameters      (`m.weight[0]`, and they themselves) are views of them behind each step, which show the updates, as in eager mode
    numbers of the step      are outputs, too, tensors of one (step_numbers.py), and Python's own numbers for the caller
    objects                  that hold any of these and are no containers for pytree (SimpleNamespace, dataclasses, classes of one's own) are taken field by
                             field, as batches are (batches.py); each step gives a new one of the class
    what was there before    (the model, an object that collects) is given as it is; what the step writes into it is written there (carried.py)
    all else                 is given as it was captured, if nothing of the step is in it: texts made of numbers and tensors in unknown containers are
                             refused by name

Tests: tests/python/test_torch_aux.py.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree

from ..errors import Unsupported
from .batches import fields_of, made_of, said_place, with_fields
from .moving import taken
from .reachable import attributes_of
from .step_numbers import KINDS, Texts, as_tensor, is_symbol, refuse_inside

_WAY = "which no step can make again; as tuples, lists or dicts of tensors and numbers it is given anew in each step"
_WHAT = "what loss_fn gives beside the loss"


class _Output(NamedTuple):
    number: int
    kind: type | None  # of Python's number; None of a tensor


class _View(NamedTuple):
    of: Any  # as carried.View


class _Object(NamedTuple):
    bare: Any  # one like it, whose fields are None
    places: tuple[tuple[Any, ...], ...]
    fields: list[Any]  # trees


class _Tree(NamedTuple):
    leaves: list[Any]
    spec: pytree.TreeSpec


class Aux:
    """All of one trace. `outputs`: tensors of the graph, in order."""

    def __init__(self, aux: Any, before: Container[int], texts: Texts, pair: bool, views: Callable[[torch.Tensor], Any] = lambda _: None,
                 as_was: Callable[[torch.Tensor], torch.Tensor] = lambda leaf: leaf) -> None:
        """`before`: ids of what was there before the step, and of its attributes. `pair`: whether loss_fn gave something beside the loss, and be it None.
        `views`: of a tensor that is a part of a parameter, where a step finds it. `as_was`: of a buffer that loss_fn has put anew, what it was."""
        self.outputs: list[torch.Tensor] = []
        self.views, self.as_was = views, as_was
        self.before, self.texts, self.pair = before, texts, pair
        self.has_objects = False
        try:
            self.tree = self._taken(aux, "")
        except RecursionError:
            raise Unsupported(f"{_WHAT} holds itself, {_WAY}") from None
        self.count = len(self.outputs)
        self.before, self.views, self.as_was = (), lambda _: None, lambda leaf: leaf

    def give(self, outputs: list[torch.Tensor], given: list[torch.Tensor]) -> Any:
        """As loss_fn gives it, of a step's outputs and of what the step was given."""
        return _made(self.tree, outputs, given)

    def taken(self) -> list[torch.Tensor]:
        """The outputs, which are kept no longer."""
        found, self.outputs = self.outputs, []
        return found

    def _taken(self, value: Any, path: str) -> _Tree:  # recursion: as deep as aux
        leaves, spec = pytree.tree_flatten(value, is_leaf=lambda v: isinstance(v, torch.Size))
        if len(leaves) == 1 and leaves[0] is value:
            return _Tree([self._leaf(value, path)], spec)
        paths = [pytree.keystr(where) for where, _ in pytree.tree_flatten_with_path(value, is_leaf=lambda v: isinstance(v, torch.Size))[0]]
        return _Tree([self._leaf(leaf, path + where) for leaf, where in zip(leaves, paths, strict=True)], spec)

    def _leaf(self, leaf: Any, path: str) -> Any:
        leaf = taken(leaf)
        if isinstance(leaf, torch.Tensor):
            view = self.views(leaf)
            if view is not None:
                return _View(view)
            self.outputs.append(self.as_was(leaf).detach())
            return _Output(len(self.outputs) - 1, None)
        if is_symbol(leaf):
            self.outputs.append(as_tensor(leaf))
            return _Output(len(self.outputs) - 1, KINDS[type(leaf)][0])
        if id(leaf) in self.before or id(attributes_of(leaf)) in self.before:
            return leaf
        fields = fields_of(leaf)
        if fields is not None:
            return self._object(leaf, fields, path)
        refuse_inside(leaf, _WHAT + (f" at {path}" if path else ""), self.texts, _WAY, self.before)
        return leaf

    def _object(self, leaf: Any, fields: dict[tuple[Any, ...], Any], path: str) -> _Object:
        self.has_objects = True
        trees = [self._taken(value, path + said_place(place)) for place, value in fields.items()]
        places = tuple(fields)
        try:
            bare = with_fields(leaf, places, [None] * len(places))
        except Exception as problem:  # noqa: BLE001: of a class of the caller's
            raise Unsupported(f"{_WHAT}{f' at {path}' if path else ''} is a {type(leaf).__name__}, of which copy.copy makes none with other fields "
                              f"({problem}); a dict of its tensors is given in each step") from None
        return _Object(bare, places, trees)


def _made(source: Any, outputs: list[torch.Tensor], given: list[torch.Tensor]) -> Any:  # recursion: as deep as aux
    if isinstance(source, _Tree):
        return pytree.tree_unflatten([_made(leaf, outputs, given) for leaf in source.leaves], source.spec)
    if isinstance(source, _Output):
        out = outputs[source.number]
        return out if source.kind is None else source.kind(out.item())
    if isinstance(source, _View):
        return source.of.make(given).detach()
    if isinstance(source, _Object):
        return made_of(source.bare, source.places, [_made(field, outputs, given) for field in source.fields])
    return source
