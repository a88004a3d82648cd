"""What a step looks at before it runs, in as few passes as can be.

A plan holds for shapes, modes, options, hooks, values (step.py: `_signature`; guards.py). Between two steps hardly ever one of them
changes, so a step asks first whether all is as it was for the step before, in loops that Python runs in C over lists which were made
then. Where one says no, the long way is taken, which makes a plan, says what is wrong, or finds that nothing is.

    Steady      whether batch, parameters, modes, optimizer and guards are those of the last step's plan
    kinds_of    shapes and types of all tensors that a step is given
    Versions    how often each of these has been written before the step, and is to have been before its first update

Nothing is left out for speed: `Steady` compares all that the long way does. It is not made for what cannot be compared this way
(hooks on gradients, modules that hold parameters elsewhere than in dictionaries, a process group: the long way is every step's).
Tests: tests/python/test_torch_steady.py, test_torch_state.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .batches import tensors_of
from .devices import device_of
from .guards import Guards

_requires_grad = operator.attrgetter("requires_grad")
_hooks_of = operator.attrgetter("_backward_hooks")
_version_of = operator.attrgetter("_version")
_kind_of = operator.attrgetter("shape", "dtype")
_PARAMETERS = "_parameters"


def kinds_of(tensors: Iterable[torch.Tensor]) -> list[tuple]:
    return list(map(_kind_of, tensors))


def same_objects(found: list[Any], before: list[Any]) -> bool:
    return len(found) == len(before) and all(map(operator.is_, found, before))


def _flat(batch: Any) -> tuple[tuple[torch.Tensor, ...], Any] | None:
    """The tensors of one that is a tensor, or a tuple, list or dictionary of nothing else, and what it is beside them; None of others."""
    kind = type(batch)
    if kind is torch.Tensor:
        leaves, form = (batch,), kind
    elif kind is tuple or kind is list:
        leaves, form = tuple(batch), kind
    elif kind is dict and all(type(key) is str for key in batch):
        leaves, form = tuple(batch.values()), tuple(batch)
    else:
        return None
    plain = all([type(t) is torch.Tensor and t.layout is torch.strided and not t.is_nested for t in leaves])
    return (leaves, form) if plain else None


class Steady:
    """What held when a plan was found, to see whether it still does. `key`: as `Step._signature` has it."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Any, key: Any, guards: Guards,
                 ready: Any) -> None:
        shapes, self.spec, self.trained, self.around, self.options, _ = key
        self.shapes, self.optimizer, self.guards, self.ready = shapes, optimizer, guards, ready
        flat = _flat(batch)
        self.form = flat[1] if flat is not None else None
        modules = list(model.modules())
        self.dicts = [vars(module) for module in modules]
        self.folders = [module._parameters for module in modules]
        self.counts = list(map(len, self.folders))
        self.within = [folder for folder in self.folders for _ in folder]
        self.names = [name for folder in self.folders for name in folder]
        self.held = list(map(dict.get, self.within, self.names))
        self.parameters = list(model.parameters())
        self.first = self.parameters[0].device

    @staticmethod
    def can_be(model: torch.nn.Module, key: Any) -> bool:
        if key[-1] or not key[2]:  # hooks on gradients; no parameters
            return False
        kind, module = type(model), torch.nn.Module
        plain = all(getattr(kind, name) is getattr(module, name) for name in ("modules", "named_modules", "parameters", "named_parameters"))
        return plain and all(type(m._parameters) is dict and vars(m).get(_PARAMETERS) is m._parameters for m in model.modules())

    def leaves(self, batch: Any) -> list[torch.Tensor] | None:
        """The batch's tensors, if they are of the plan's shapes. Raises Usage, as `tensors_of`."""
        flat = _flat(batch) if self.form is not None else None
        if flat is not None:
            if flat[1] != self.form:
                return None
            leaves = list(flat[0])
        else:
            leaves, spec = tensors_of(batch)
            if repr(spec) != self.spec:
                return None
        same = len(leaves) == len(self.shapes) and all(
            [(t.shape, t.stride(), t.dtype, t.device) == shape for t, shape in zip(leaves, self.shapes, strict=True)])
        return leaves if same else None

    def holds(self, signature: Callable[[torch.optim.Optimizer], Any]) -> bool:
        """`signature`: of an optimizer. Raises what that raises."""
        return (list(map(len, self.folders)) == self.counts
                and all(map(operator.is_, map(dict.get, self.within, self.names), self.held))
                and all(map(operator.is_, map(dict.get, self.dicts, itertools.repeat(_PARAMETERS)), self.folders))
                and tuple(map(_requires_grad, self.parameters)) == self.trained
                and not any(map(_hooks_of, self.parameters))
                and self.parameters[0].device == self.first and device_of(self.first).around() == self.around
                and str(signature(self.optimizer)) == self.options
                and self.guards.hold())


class Versions:
    """PyTorch's counts of writes. `watched`: of each tensor its place among what the step is given, what the step adds to its count
    before the first update, and its name."""

    def __init__(self, watched: list[tuple[int, int, str]]) -> None:
        self.places, self.more, self.names = ([row[k] for row in watched] for k in range(3))
        self.tensors: list[torch.Tensor] = []
        self.expected: list[int] = []
        self.said = self.names

    def begin(self, given: list[torch.Tensor]) -> Versions:
        """A step begins."""
        self.tensors, more, self.said = [given[k] for k in self.places], self.more, self.names
        try:
            now = list(map(_version_of, self.tensors))
        except RuntimeError:  # an inference tensor has none
            kept = [k for k, tensor in enumerate(self.tensors) if not tensor.is_inference()]
            self.tensors, more, self.said = ([one[k] for k in kept] for one in (self.tensors, more, self.said))
            now = list(map(_version_of, self.tensors))
        self.expected = list(map(operator.add, now, more))
        return self

    def changed(self) -> tuple[str, torch.Tensor] | None:
        """One that somebody else has written. If there is none, the tensors are let go."""
        now = list(map(_version_of, self.tensors))
        if now != self.expected:
            k = next(k for k, (a, b) in enumerate(zip(now, self.expected, strict=True)) if a != b)
            return self.said[k], self.tensors[k]
        self.tensors, self.expected = [], []
        return None
