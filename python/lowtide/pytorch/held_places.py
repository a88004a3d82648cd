"""Places that a step reads or writes, and what has to lie there, by its kind: contents of tensors are the step's own matter.

A plan holds for these beside Python's values (guards.py). Tests: tests/python/test_torch_stale_values.py, test_torch_state.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch

from .externals import geometry_of
from .reachable import Place
from .untouched import equal_bits, same

MANY = 1_000  # entries of a container whose entries are looked at one by one


def kind_of(value: Any) -> Any:
    """Equal where a plan that reads the tensors in it anew serves both."""
    if isinstance(value, torch.Tensor):
        return geometry_of(value)
    if isinstance(value, tuple) or type(value) is list and len(value) <= MANY:
        return type(value), tuple(map(kind_of, value))
    if type(value) is dict and len(value) <= MANY:
        return dict, tuple(value), tuple(map(kind_of, value.values()))
    return (type(value), *((tuple(value),) if isinstance(value, dict) else ()))


@dataclasses.dataclass(frozen=True)
class Kind:
    """What has to lie at a place that is read, or written, in each step, by its kind. `number`: what has to be read off it; a tensor, if
    that is all of its contents."""

    place: Place
    held: Any
    number: Any = None
    kind: Any = dataclasses.field(init=False)  # as it was: a tensor may be of another one later, by `tensor.data = ...`

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", kind_of(self.held))

    def holds(self) -> bool:
        now = self.place.now()
        if now is self.held and self.number is None and not isinstance(now, torch.Tensor):
            return True
        if kind_of(now) != self.kind:
            return False
        return self.number is None or (equal_bits(now.detach(), self.number) if isinstance(self.number, torch.Tensor) else now.item() == self.number)


class OneOf(NamedTuple):
    """A place where one of these values has to lie."""

    place: Place
    values: tuple[Any, ...]
    number: Any = None

    @property
    def held(self) -> Any:
        return self.values[0]

    def holds(self) -> bool:
        now = self.place.now()
        return any(same(value, now) for value in self.values)
