"""Updates by the optimizer's own step(): what any optimizer does to one parameter, bit for bit.

A planned step updates each parameter when its gradient is there, so step() is called on a stand-in
of the optimizer: the same class and attributes, one group, one parameter, that parameter's state.
It reads its group as it is at that moment, so schedules need no new plan. State stays in the
tensors in which it began: where step() puts another tensor into it, or into the parameter, the
contents are copied back. rehearsal.py tries whether that is what the whole optimizer does; where
it is not, step() runs once for all parameters (whole_step.py).

State is made before the first step, as step() puts it into an empty state: by a step on a copy of
the parameter. Where the first step makes it of the gradient (a momentum that begins as its copy),
the plan has tensors like it, and the first step fills them; that step takes its memory beside the
arena, as its ops are not those of later ones. So does what an update allocates otherwise than when
it was measured, as one that reads numbers off tensors may (planned_addresses.h).

Where step() keeps to the tensors of its state, it runs on the parameter itself and on the
optimizer's own state (`on_itself`). Tests: tests/python/test_torch_optimizers.py.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import Unsupported
from . import hooks, optimizers
from .called_step import call_step
from .optimizers import KNOWN, KnownUpdates, Updates
from .rehearsal import (
    State,
    first_state,
    kept_sequences,
    leaf_like,
    refuse_by_its_form,
    rehearsal_of,
    sequences_hold,
    run_alone,
    stand_in,
    tensors_in,
    trained_in,
    with_tensors,
)
from .whole_rehearsal import state_bytes_of
from .whole_step import WholeUpdates


_wholes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _is_whole(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step() runs once, on all parameters, as it is another for one of them alone. Raises Unsupported."""
    key = [[id(p) for p in trained_in(group)] for group in optimizer.param_groups]
    if _wholes.get(optimizer) == key:
        return True
    refuse_by_its_form(optimizer)
    try:
        if {"param_groups", "state"} <= set(vars(optimizer)):  # else it holds another
            rehearsal_of(optimizer)
            return False
    except Unsupported:
        pass
    state_bytes_of(optimizer)
    _wholes[optimizer] = key
    return True


def signature(optimizer: torch.optim.Optimizer) -> Any:
    """What of the optimizer changes which tensors an update touches or makes: a plan holds for it.
    Raises Unsupported, and what step() raises."""
    if type(optimizer) in KNOWN:
        return optimizers.signature(optimizer)
    if sequences_hold(optimizer):
        return kept_sequences(optimizer).said
    if _is_whole(optimizer):
        return ["whole", *(len(trained_in(group)) for group in optimizer.param_groups)]
    return kept_sequences(optimizer).said


def updates_of(optimizer: torch.optim.Optimizer,
               parameters: dict[str, torch.nn.Parameter]) -> Updates:
    """Raises Unsupported or Usage."""
    if type(optimizer) in KNOWN:
        return KnownUpdates(optimizer, parameters)
    hooks.check_optimizer(optimizer)
    return (WholeUpdates if _is_whole(optimizer) else OwnUpdates)(optimizer, parameters)


def _are(state: State | None, tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether the tensors of a plain state are these, in this order."""
    found = [entry for entry in state.values() if isinstance(entry, torch.Tensor)] if state else []
    return len(found) == len(tensors) and all(map(operator.is_, found, tensors))


def _taken_back(state: State, tensors: tuple[torch.Tensor, ...]) -> bool:
    """Puts these tensors into a plain state again, each with the contents of what step() has put in its place. False where
    that has another shape or type, or there are more or fewer."""
    own = iter(tensors)
    for key, entry in state.items():
        if not isinstance(entry, torch.Tensor):
            continue
        kept = next(own, None)
        if kept is None or (kept is not entry and (kept.shape != entry.shape or kept.dtype != entry.dtype)):
            return False
        if kept is not entry:
            state[key] = kept.copy_(entry)
    return next(own, None) is None


class _Alone:
    """The optimizer with one parameter, on its own state, and of this parameter's state, as it was last seen, which entries are tensors: a small
    parameter's update takes no longer than to look at each entry in Python."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = stand_in(optimizer, [{}], {})
        self.optimizer.state, self.group = optimizer.state, self.optimizer.param_groups[0]
        self.tensors: list[Any] = []  # keys
        self.others: list[Any] = []

    def holds(self, state: State, given: tuple[torch.Tensor, ...]) -> bool:
        """Whether the tensors of a plain state are these, in this order."""
        state = state or {}
        if len(state) == len(self.tensors) + len(self.others) and len(given) == len(self.tensors) and all(
                map(operator.is_, map(state.get, self.tensors), given)):
            return True
        if not _are(state, given):
            return False
        self.tensors = [key for key, entry in state.items() if isinstance(entry, torch.Tensor)]
        self.others = [key for key, entry in state.items() if not isinstance(entry, torch.Tensor)]
        return True

    def take_back(self, state: State, given: tuple[torch.Tensor, ...]) -> bool:
        """As _taken_back, of a state that was held."""
        if len(state) != len(self.tensors) + len(self.others) or any(isinstance(state.get(key), torch.Tensor) for key in self.others):
            return _taken_back(state, given)
        for key, kept in zip(self.tensors, given, strict=True):
            entry = state.get(key)
            if entry is kept:
                continue
            if not isinstance(entry, torch.Tensor) or kept.shape != entry.shape or kept.dtype != entry.dtype:
                return _taken_back(state, given)
            state[key] = kept.copy_(entry)
        return True


class OwnUpdates(Updates):
    """The updates of an optimizer that no other file knows."""

    def __init__(self, optimizer: torch.optim.Optimizer,
                 parameters: dict[str, torch.nn.Parameter]) -> None:
        super().__init__(optimizer, parameters)
        self.rehearsal = rehearsal_of(optimizer)
        self.behind_first: dict[str, State] = {}  # late states that are not there yet
        self.alone: dict[str, _Alone] = {}  # by parameter

    def is_late(self, name: str) -> bool:
        return id(self.parameters[name]) in self.rehearsal.late

    @contextlib.contextmanager
    def running(self, aside: Callable[[], None]) -> Iterator[None]:
        with super().running(aside):
            yield
        kept_sequences(self.optimizer).step_done()

    def took_beside(self) -> None:
        kept_sequences(self.optimizer).doubt()

    def held(self, name: str) -> State:
        """The state, or what it will be behind the first step."""
        return self.optimizer.state.get(self.parameters[name]) or self.behind_first.get(name, {})

    def make_state(self, names: list[str]) -> None:
        for name in names:
            p = self.parameters[name]
            if self.held(name):
                continue
            with torch.no_grad():
                copied = p.detach().clone(memory_format=torch.preserve_format)
                leaf = leaf_like(p, copied, torch.zeros_like(p))
                before, behind = first_state(self.optimizer, self.group(name), leaf)
            if self.is_late(name):
                self.behind_first[name] = behind or {}
            elif before:
                self.optimizer.state[p] = before
                self.begun.append(p)

    def state(self, name: str) -> dict[str, torch.Tensor]:
        if not self.held(name):
            self.make_state([name])
        return tensors_in(self.held(name))

    def try_groups(self) -> None:
        """`signature` has done it: it is asked before each step."""

    def function(self, name: str) -> Callable[..., None]:
        p = self.parameters[name]

        def update(parameter: torch.Tensor, gradient: torch.Tensor, *state: torch.Tensor) -> None:
            if not (self.live and parameter is p and self.on_itself(name, p, gradient, state)):
                self.update(name, parameter, gradient, list(state))

        return update

    def on_itself(self, name: str, p: torch.nn.Parameter, gradient: torch.Tensor,
                  given: tuple[torch.Tensor, ...]) -> bool:
        """step() on the parameter and its state as they are, without stand-ins for these. False where it needs them, and
        nothing was done: it writes gradients, exchanges the parameter's tensor, or its state is not plain or not there."""
        found, states = self.rehearsal, self.optimizer.state
        state = states.get(p)
        if found.spoils or found.exchanges or not (state or not given) or (not state and name in self.behind_first):
            return False
        alone = self.alone.get(name)
        if alone is None or alone.optimizer.state is not states:
            alone = self.alone[name] = _Alone(self.optimizer)
        if not alone.holds(state, given):
            return False
        group = alone.group
        group.update(self.group(name))
        group["params"] = [p]
        before = p.grad
        p.grad = gradient
        try:
            call_step(alone.optimizer)
        finally:
            p.grad = before
        after = states.get(p)
        if after and not alone.take_back(after, given):
            states[p] = self.settled(after, list(given), list(given))
        return True

    def update(self, name: str, parameter: torch.Tensor, gradient: torch.Tensor,
               given: list[torch.Tensor]) -> None:
        """`given`: the tensors of the state, or others in their places (copies in the arena,
        stand-ins while it is measured)."""
        p, held = self.parameters[name], self.held(name)
        own = list(tensors_in(held).values())
        first = self.live and not self.optimizer.state.get(p) and self.is_late(name)
        if not self.live:  # counts are to be true: which ops run may depend on them
            for mine, tensor in zip(own, given, strict=True):
                if mine.dim() == 0 and mine is not tensor:
                    tensor.copy_(mine)
        if first:
            self.aside()
        leaf = leaf_like(p, parameter, gradient.clone() if self.rehearsal.spoils else gradient)
        same = all(mine is tensor for mine, tensor in zip(own, given, strict=True))
        before = None if first or not held else held if self.live and same else with_tensors(held, given)
        after = run_alone(self.optimizer, self.group(name), leaf, before)
        if leaf.data_ptr() != parameter.data_ptr():
            parameter.copy_(leaf)
        kept = self.settled(after, own, given)
        if self.live and kept is not None:
            self.behind_first.pop(name, None)
            self.optimizer.state[p] = kept

    def settled(self, after: State | None, own: list[torch.Tensor],
                given: list[torch.Tensor]) -> State | None:
        """The state with what step() left in it, in its own tensors."""
        if after is None:
            return None
        made = list(tensors_in(after).values())
        if len(made) == len(own) and all(a is b is c for a, b, c in zip(made, own, given, strict=True)):
            return after
        for k, tensor in enumerate(made):
            if k < len(given) and tensor is given[k]:
                continue
            if k < len(given) and (tensor.shape, tensor.dtype) == (given[k].shape, given[k].dtype):
                given[k].copy_(tensor)
            else:  # no rehearsed step had it; it is to outlive the arena
                self.aside()
                own = [*own[:k], tensor.detach().clone(), *own[k + 1:]]
        return with_tensors(after, own[:len(made)])
