"""What a step looks at before it runs, in as few passes as can be.

A plan holds for shapes, modes, options, hooks, values (guards.py). Between two steps hardly ever one of them changes, so a step asks first whether all is as it was for the step before, in loops that Python runs in C over lists which were made
then. Where one says no, the long way is taken, which makes a plan, says what is wrong, or finds that nothing is.

    Signature   what a plan holds for beside the values of its guards
    Steady      whether batch, parameters, modes, optimizer and guards are those of the last step's plan
    kinds_of    shapes and types of all tensors that a step is given
    Versions    how often each of these has been written before the step, and is to have been before its first update

Nothing is left out for speed: `Steady` has one way to compare each field of `Signature`. It is not made for what cannot be compared so
(hooks on gradients, modules that hold parameters elsewhere than in dictionaries, a process group: the long way is every step's).
Tests: tests/python/test_torch_steady.py, test_torch_state.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from . import hooks
from .batches import tensors_of
from .devices import CPU, device_of
from .guards import Guards
from .own_step import signature

_requires_grad = operator.attrgetter("requires_grad")
_hooks_of = operator.attrgetter("_backward_hooks")
_version_of = operator.attrgetter("_version")
_kind_of = operator.attrgetter("shape", "dtype")
_PARAMETERS = "_parameters"


def kinds_of(tensors: Iterable[torch.Tensor]) -> list[tuple]:
    return list(map(_kind_of, tensors))


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


class Signature(NamedTuple):
    """Equal for batches and states of the model that one plan may serve."""

    shapes: tuple
    spec: str  # what the batch is beside its tensors
    trained: tuple[bool, ...]  # of each parameter
    around: tuple  # what is set for the process: threads, types, autocast
    options: str  # of the optimizer
    hooked: tuple  # hooks on gradients and on the optimizer

    @staticmethod
    def of(model: torch.nn.Module, optimizer: torch.optim.Optimizer, leaves: list[torch.Tensor], spec: Any) -> Signature:
        """Raises Unsupported, and what the optimizer's step() raises."""
        first = next((p.device for p in model.parameters()), CPU.device)
        around = device_of(first).around() if first.type in ("cpu", "cuda") else ()  # else it is refused, by its name
        return Signature(tuple((tuple(t.shape), t.stride(), t.dtype, t.device) for t in leaves), repr(spec),
                         tuple(p.requires_grad for p in model.parameters()), around, str(signature(optimizer)), hooks.signature(model, optimizer))


class Steady:
    """What held when a plan was found, to see whether it still does. `leaves` compares the batch, `holds` all else."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Any, key: Signature, guards: Guards,
                 ready: Any) -> None:
        self.key, self.spec, shapes = key, key.spec, key.shapes
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
    def can_be(model: torch.nn.Module, key: Signature) -> bool:
        if key.hooked or not key.trained:  # there are no parameters
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

    def holds(self) -> bool:
        """Raises what `Signature.of` raises."""
        if not (list(map(len, self.folders)) == self.counts
                and all(map(operator.is_, map(dict.get, self.within, self.names), self.held))
                and all(map(operator.is_, map(dict.get, self.dicts, itertools.repeat(_PARAMETERS)), self.folders))):
            return False
        for holds in _FIELDS:
            if not holds(self):
                return False
        return self.guards.hold()

    def trained(self) -> bool:
        return tuple(map(_requires_grad, self.parameters)) == self.key.trained

    def around(self) -> bool:
        return self.parameters[0].device == self.first and device_of(self.first).around() == self.key.around

    def options(self) -> bool:
        return str(signature(self.optimizer)) == self.key.options

    def hooked(self) -> bool:
        return not any(map(_hooks_of, self.parameters)) and not hooks.of_optimizer(self.optimizer)


_FIELDS = [getattr(Steady, field) for field in Signature._fields if field not in ("shapes", "spec")]


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
