"""What a rehearsal (beside_eager.py) has to know of a step, and how it runs one: of the torch engine and of the native one."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import least_squares, rehearsal
from .calls import CONSTANT, PARAMETER, STATE
from .compared import GRADIENT, TOLERANCE, Left
from .own_step import OwnUpdates

if TYPE_CHECKING:
    from .step import Step


class Subject:
    """What there is to know of one plan of a step."""

    native, draws, exact, why = False, False, True, ""

    def __init__(self, step: Step) -> None:
        self.step, self.ready = step, step._now
        captured = self.ready.planned.captured
        program, trace = captured.program, captured.trace
        self.model, self.updates, self.device = trace.model, captured.updates, program.device.device
        places = {k: program.storage_of(program.given[k]) for k in self.ready.buffers}
        self.written = {*captured.updated, *(s.name for s in places.values() if s.role == PARAMETER)}
        first = len(self.model.parameters) + len(self.model.buffers) + len(trace.inputs)
        externals = {k: program.externals[k - first] for k, s in places.items() if s.role == CONSTANT}
        self.others: list[tuple[str, Callable[[], torch.Tensor]]] = [(e.name, e.now) for e in externals.values() if e is not None]
        self.resident_bytes = self.ready.code.resident_bytes
        self.state_bytes = self.updates.state_bytes + sum(s.bytes for s in program.storages if s.role == STATE)
        if captured.parts > 1:
            self.exact, self.why = False, "as sums add in another order"
        elif trace.unsure:
            self.exact, self.why = False, "as transformers looks into a mask of the batch, which a plan does not"

        elif any(map(least_squares.is_loose, program.calls)):
            self.exact, self.why = False, "as the kernel of torch.linalg.lstsq reads memory that nobody wrote"

    @staticmethod
    def of(step: Step) -> Subject:
        return NativeSubject(step) if step.engine == "native" else Subject(step)

    def near(self) -> float:
        """The tolerance of the narrowest type that the step computes in."""
        return max((TOLERANCE.get(t.dtype, 0.0) for t in self.ready.planned.captured.program.tensors), default=0.0)

    def random_state(self) -> torch.Tensor:
        return self.ready.device.get_state()

    def run(self, leaves: list[torch.Tensor], seen: Left) -> tuple[torch.Tensor, Any]:
        """The step as it will be called, but that nothing ends it where its loss is not finite: loss and aux. Gradients are seen when
        their updates begin, by copies whose memory is there before: the step's own allocations stay as they are planned."""
        parameters = self.updates.parameters
        kept = {name: torch.empty_like(parameters[name], requires_grad=False) for name in self.updates.updated}
        instead = {id(unit.update): self._keeping(unit, kept, seen) for unit in self.ready.planned.captured.units
                   if unit.update is not None and unit.update_tensors}

        def judge(*_: torch.Tensor) -> None:
            problem = self.step._changed_by_others()
            if problem is not None:
                raise problem
            self.step._updating = True

        def changed(run: Any) -> Any:
            names = {name: instead.get(id(value), value) for name, value in run.__globals__.items()}
            return types.FunctionType(run.__code__, {**names, "judge": judge}, run.__name__)

        before, self.step._changed = self.step._changed, changed
        try:
            found = self.step._once(leaves, self.ready)
        finally:
            self.step._changed = before
        return found if isinstance(found, tuple) else (found, None)

    def _keeping(self, unit: Any, kept: dict[str, torch.Tensor], seen: Left) -> Callable[..., Any]:
        names = self.updates.updated if self.updates.whole else [unit.what]

        def update(*tensors: torch.Tensor) -> Any:
            for name, gradient in zip(names, tensors[1::2] if self.updates.whole else tensors[1:2], strict=True):
                seen.values[GRADIENT + name] = kept[name].copy_(gradient)
            return unit.update(*tensors)

        return update

    @contextlib.contextmanager
    def as_before(self) -> Iterator[None]:
        """Behind it what is known of the optimizer beside its state is what it was: no step has counted."""
        optimizer, updates = self.step._optimizer, self.updates
        sequences = rehearsal._sequences.get(optimizer)
        counted = None if sequences is None else (sequences.left, sequences.count)
        behind = dict(updates.behind_first) if isinstance(updates, OwnUpdates) else None
        try:
            yield
        finally:
            updates.begun.clear()
            if sequences is not None and counted is not None:
                rehearsal._sequences[optimizer] = sequences
                sequences.left, sequences.count = counted
            if behind is not None:
                updates.behind_first = behind


class NativeSubject(Subject):
    """It has gradients of its own and shows none of them; its parameters, state and buffers are PyTorch's."""

    native, exact, why = True, False, "as the native engine rounds otherwise"

    def __init__(self, step: Step) -> None:
        self.step, self.ready = step, step._now
        self.model, self.updates, self.draws = self.ready.model, self.ready.updates, self.ready.random
        self.device, self.others = torch.device("cpu"), []
        self.written = set(self.ready.updated)
        self.resident_bytes = step._open(self.ready).lent_bytes
        self.state_bytes = 0

    def near(self) -> float:
        return max((TOLERANCE.get(dtype, 0.0) for dtype in self.ready.exported.dtypes), default=0.0)

    def run(self, leaves: list[torch.Tensor], seen: Left) -> tuple[torch.Tensor, Any]:
        options = self.step._options
        self.step._options = type(options)(**{**vars(options), "check_finite": False})
        try:
            found = self.step._once(leaves, self.ready)
        finally:
            self.step._options = options
        return found if isinstance(found, tuple) else (found, None)
