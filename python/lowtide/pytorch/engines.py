"""Which engine runs a step: PyTorch's kernels (step.py), Lowtide's own (native.py), or the faster one.

engine="auto" makes the step for both, one after the other so that there is one arena at a time, and rehearses it: a step
with the sample batch that changes nothing of the user's. The native one works on copies of what an op would change, one op
at a time; the torch one on copies of parameters, state and buffers, which are memory beside the budget while it lasts.
The first rehearsal of each warms up caches and allocators and does not count.

A native step that its rehearsal beside eager mode (beside_eager.py) finds to be another is not taken, with a warning that names the report.
Where the native step was faster and cannot be planned anew later (a hook that was put in, a method that writes a buffer now), the step
goes on with torch, and a warning says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import torch

from ..errors import Infeasible, Internal, Limit, Unsupported
from ..plans import Plan
from . import ranks
from .native import NativeStep, native_step
from .options import StepKeywords, StepOptions
from .step import Step, checked, plan_step_of
from .wrappers import model_in, optimizer_in

_REHEARSALS = 2  # that count


def _seconds(step: Any, batch: Any) -> float:
    step.rehearse(batch)
    return min(step.rehearse(batch) for _ in range(_REHEARSALS))


_CANNOT = (Unsupported, Infeasible, Limit)


class _Auto(NativeStep):
    """A native step that becomes one of the torch engine where it cannot be planned anew."""

    def _for(self, batch: Any) -> Any:
        try:
            found = super()._for(batch)
            self._open(found[1])
            return found
        except _CANNOT as problem:
            self._become_torch(batch, problem)
            raise _Became from None

    def _become_torch(self, batch: Any, problem: Exception) -> None:
        """Raises what the torch engine raises; the step is native then as before."""
        self._release()
        other = Step(self._model, self._loss_fn, self._optimizer, batch, self._options)
        told, turn = self._told, self._turn
        self.__class__ = Step  # type: ignore[assignment]
        vars(self).clear()
        vars(self).update(vars(other))
        self._told, self._turn = told, turn
        self.why = f"the native engine cannot go on: {problem}"
        warnings.warn(f"lowtide: engine='auto' goes on with torch, as the native engine cannot: {problem}", stacklevel=5)

    def _called(self, batch: Any) -> Any:
        try:
            return super()._called(batch)
        except _Became:
            return self._called(batch)

    def _rehearsed(self, batch: Any) -> float:
        try:
            return super()._rehearsed(batch)
        except _Became:
            return self._rehearsed(batch)


class _Became(Exception):
    """The step is another engine's now."""


def _faster(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, batch: Any,
            options: StepOptions) -> Step:
    try:
        native = native_step(model, loss_fn, optimizer, batch, options)
    except (*_CANNOT, Internal) as problem:
        if isinstance(problem, Internal):  # a rehearsal's
            warnings.warn(f"lowtide: engine='auto' stays with torch: {problem}", stacklevel=4)
        step = Step(model, loss_fn, optimizer, batch, options)
        step.why = str(problem)
        return step
    of_native = _seconds(native, batch)
    native.release()
    try:
        step = Step(model, loss_fn, optimizer, batch, options)
    except _CANNOT as problem:
        native.why = f"the torch engine cannot: {problem}"
        return native
    of_torch = _seconds(step, batch)
    chosen = native if of_native < of_torch else step
    if chosen is native:
        native.__class__ = _Auto
    chosen.why = f"a rehearsed step took {of_torch:.3g} s with torch and {of_native:.3g} s native"
    return chosen


def _asked(model: Any, loss_fn: Callable, optimizer: Any, options: Any) -> tuple[torch.nn.Module, torch.optim.Optimizer, StepOptions]:
    """What a caller brings, out of its wrappers. Raises Usage before anything is captured."""
    checked(loss_fn, optimizer, model)
    found = model_in(model), optimizer_in(optimizer), StepOptions.of(dict(options))
    if found[2].data_parallel:
        ranks.check()
    return found


def compile_step(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, sample_batch: Any,
                 **options: Unpack[StepKeywords]) -> Step:
    """A planned training step (StepOptions says what the options are).

    Raises Usage, Unsupported (what cannot be captured, with the line of the user's code), Infeasible (a budget below
    what every schedule needs, with the op that sets it), Limit.
    """
    model, optimizer, asked = _asked(model, loss_fn, optimizer, options)
    make = {"torch": Step, "native": native_step, "auto": _faster}[asked.engine]
    return make(model, loss_fn, optimizer, sample_batch, asked)


def plan_step(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, sample_batch: Any,
              **options: Any) -> Plan:
    """The plan alone. Model and optimizer are as before; "auto" gives that of the torch engine."""
    model, optimizer, asked = _asked(model, loss_fn, optimizer, options)
    if asked.engine == "native":
        return native_step(model, loss_fn, optimizer, sample_batch, replace(asked, rehearse=False)).plan
    return plan_step_of(model, loss_fn, optimizer, sample_batch, asked)
