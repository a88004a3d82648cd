"""Whether the native engine does all of a step.

Native takes the forward pass as torch.export writes it, makes gradients of its own, and keeps running statistics and counts
of batches. Whatever else a step does would be lost without a word: the backward pass of an autograd.Function, a hook,
a write to a buffer under no_grad, what a checkpoint's second run writes again. So before native takes a step, the
step is traced as the torch engine does it, gradients and writes included, and four things are asked:

1. Does the graph of autograd have a backward that is not PyTorch's own? Native would take the derivative of its forward.
2. Is the exported program, traced in the same way, the same step? Both are numbered (numbered.py): equal numbers of the
   loss, of all results and gradients and of what is left in memory mean equal bits. Where numbers differ (a library asks
   whether it is exported, and makes its masks otherwise) both graphs run on copies of parameters, buffers and batch, from
   the same random stream, and have to agree up to rounding.
3. What does the forward pass leave in attributes? Python's values (a flag, a number of calls) are put there behind each step; else it is
   refused.
4. Which tensors does the step write that were there before it? A running statistic of a batch norm, or a count that grows by a
   whole number and that nothing else of the step reads: else it is refused.

Whatever is refused names the tensor or the Function, its line and engine="torch", which has it.

Tests: tests/python/test_torch_native_effects.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from ..errors import Unsupported
from .batches import tensors_of
from .calls import BUFFER, INPUT, MADE, PARAMETER, Call, Program, read_as_traced
from .numbered import Numbered, contents_word
from .trace import Model, Options, Settled, Trace, scalar_loss, trace_step

aten = torch.ops.aten
TORCH = "engine='torch' has it"
_NORMS = {"aten::native_batch_norm", "aten::_native_batch_norm_legit", "lowtide::counted_batch_norm"}
# Functions whose backward gives the gradients that it was given.
_PLAIN_FUNCTIONS = {("torch.utils.checkpoint", "_NoopSaveInputs")}
_ROUNDING = {torch.float64: 1e-9, torch.float32: 2e-3}  # of the greatest number of a tensor; of other types as of 16 bits
_ROUNDING_OF_16_BITS = 5e-2


def whole_loss(loss_fn: Callable, accumulate: int) -> Callable:
    """loss_fn, or the sum over batches that make one update. Raises Unsupported for a backward of somebody's own."""

    def whole(model: torch.nn.Module, batch: Any) -> tuple[torch.Tensor, tuple]:
        losses, auxes = [], []
        for part in batch if accumulate > 1 else [batch]:
            loss, aux = scalar_loss(loss_fn(model, part))
            losses.append(loss)
            auxes.append(aux)
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        if not torch.compiler.is_dynamo_compiling():
            _refuse_functions(total)
        return total, tuple(leaf for leaf in pytree.tree_leaves(auxes) if isinstance(leaf, torch.Tensor))

    return whole


def _refuse_functions(loss: torch.Tensor) -> None:
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            _refuse_function(node)
        waiting += [following for following, _ in node.next_functions]


def _refuse_function(node: Any) -> None:
    kind = getattr(type(node), "_forward_cls", type(node))
    if kind is torch.utils.checkpoint.CheckpointFunction:
        raise Unsupported("torch.utils.checkpoint with use_reentrant=True runs a backward pass of its own, and the native engine makes "
                          "gradients by itself; use_reentrant=False is planned by both engines") from Settled()
    if (kind.__module__, kind.__name__) in _PLAIN_FUNCTIONS or kind.__module__.startswith("lowtide."):
        return
    raise Unsupported(f"{_line_of(kind)}autograd.Function '{kind.__qualname__}' has a backward of its own, and the native engine makes "
                      f"gradients by itself; {TORCH}") from Settled()


def _line_of(kind: type) -> str:
    code = getattr(inspect.unwrap(getattr(kind, "backward", kind)), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""


class Taken:
    """A tensor whose contents the program has as they were when it was exported: of whole numbers (shapes may be computed from
    them), or from outside of the model."""

    def __init__(self, name: str, now: Callable[[], torch.Tensor]) -> None:
        self.name, self.now = name, now
        self.seen, self.word = self._mark(), contents_word(now())

    def _mark(self) -> tuple[int, int]:
        tensor = self.now()
        return tensor.data_ptr(), tensor._version

    def changed(self) -> bool:
        """Whether the contents are others. They are looked at only where somebody has written."""
        mark = self._mark()
        if mark == self.seen:
            return False
        self.seen = mark
        return contents_word(self.now()) != self.word


class WholeStep:
    """The step as eager mode does it, traced; what native is held against. Raises Unsupported."""

    def __init__(self, model: Model, loss_fn: Callable, trained: list[str], batch: Any, accumulate: int) -> None:
        self.model, self.trained, self.batch = model, trained, batch
        self.trace = trace_step(model, whole_loss(loss_fn, accumulate), trained, batch, Options())
        if not self.trace.carried.is_of_values():
            raise Unsupported(f"the forward pass keeps {', '.join(self.trace.carried.names())} from step to step, which is no buffer; {TORCH}")
        self.program = read_as_traced(self.trace)
        self.numbered = Numbered(self.program)
        self.kept: dict[str, int] = {}  # buffers of statistics, and how often they are written
        self.counts: dict[str, int] = {}  # buffers of whole numbers that grow by so much
        for storage, calls in self.numbered.writes.items():
            for call in calls:
                self._take_write(self.program.storages[storage], call)
        gradients = self.program.outputs[-len(trained):]
        self.with_gradient = [name for name, out in zip(trained, gradients, strict=True) if out is not None]
        self.loss_shape = self.program.tensors[self.program.outputs[0]].shape
        self.taken = list(self._taken())

    def _taken(self) -> Iterator[Taken]:
        for external in self.program.externals:
            if external is not None:
                yield Taken(external.name, external.now)
        storages = self.program.storages
        read = {storages[self.program.tensors[t].storage].name for call in self._live() for t in call.tensors()}
        for name, buffer in self.model.buffers.items():
            if name in read and not buffer.is_floating_point() and name not in self.counts:
                yield Taken(name, lambda name=name: self.model.buffers[name])

    def _take_write(self, storage: Any, call: Call) -> None:
        if storage.role == MADE:
            return
        name = storage.name
        if storage.role == BUFFER and self._is_statistic(storage, call):
            self.kept[name] = self.kept.get(name, 0) + 1
            return
        amount = call.args[1] if call.target is aten.add_.Tensor and not call.kwargs else None
        whole = self.program.tensors[call.writes[0]].recipe is None if call.writes else False
        dtype = self.program.tensors[storage.base].dtype
        if storage.role == BUFFER and type(amount) is int and whole and not dtype.is_floating_point and dtype != torch.bool:
            self._refuse_readers(storage, call)
            self.counts[name] = self.counts.get(name, 0) + amount
            return
        what = f"buffer '{name}'" if storage.role == BUFFER else f"parameter '{name}'" if storage.role == PARAMETER else \
            f"its batch ('{name}')" if storage.role == INPUT else f"'{name}', a tensor that is no buffer,"
        raise Unsupported(f"{call.place and f'{call.place}: '}the step changes {what} by {call.name}; the native engine keeps "
                          f"running statistics and counts of batches alone, and {TORCH}")

    def _is_statistic(self, storage: Any, call: Call) -> bool:
        """Whether it is a mean or a variance, whole, of a batch norm that takes the batch's."""
        schema = getattr(call.target, "_schema", None)
        if schema is None or schema.name not in _NORMS or schema.name.startswith("lowtide::"):
            return False
        written = [t for t in (*call.writes, *call.hidden) if self.program.tensors[t].storage == storage.id]
        return all(self.program.tensors[t].recipe is None for t in written)

    def _refuse_readers(self, storage: Any, writer: Call) -> None:
        """A count is in the program as it was exported, so nothing may be computed of it."""
        for call in self._live():
            reads = any(self.program.tensors[t].storage == storage.id for t in call.tensors())
            if reads and call is not writer and not call.writes and not call.view:
                raise Unsupported(f"{call.place and f'{call.place}: '}the step reads '{storage.name}', which it also counts up; the native "
                                  f"engine keeps counts that nothing else reads, and {TORCH}")

    def _live(self) -> Iterator[Call]:
        """Calls whose results reach an output or a write."""
        program = self.program
        needed = {program.tensors[o].storage for o in program.outputs if o is not None}
        for call in reversed(program.calls):
            made = {program.tensors[o].storage for o in call.outs if o is not None}
            if made & needed or call.writes or call.hidden:
                needed |= {program.tensors[t].storage for t in call.tensors()}
                yield call

    # ---- the exported program

    def hold(self, program: ExportedProgram) -> None:
        """Raises Unsupported where a program is another step than this one."""
        trace = trace_step(self.model, _replayed(program), self.trained, self.batch, Options())
        calls = read_as_traced(trace)
        numbered = Numbered(calls)
        mine, its = self.numbered.outputs(), numbered.outputs()
        self._compare_writes(numbered)
        if mine != its:
            self._compare_numbers(trace)

    def _compare_writes(self, other: Numbered) -> None:
        def by_name(numbered: Numbered) -> dict[str, list[Call]]:
            storages = numbered.program.storages
            return {storages[s].name: calls for s, calls in numbered.writes.items() if storages[s].role != MADE}

        mine, its = by_name(self.numbered), by_name(other)
        for name in sorted({*mine, *its}):
            here, there = mine.get(name, []), its.get(name, [])
            if len(here) != len(there):
                place = (here or there)[-1].place
                raise Unsupported(f"{place and f'{place}: '}the step writes '{name}' {times(len(here))}, the program that torch.export "
                                  f"makes of it {times(len(there))} (a checkpoint's second run, for one); {TORCH}")

    def _compare_numbers(self, trace: Trace) -> None:
        """On copies: both graphs, from the same random stream."""
        state = torch.get_rng_state()
        try:
            mine = self._run(self.trace)
            torch.set_rng_state(state)
            its = self._run(trace)
        finally:
            torch.set_rng_state(state)
        names = ["the loss", *("a result" for _ in range(len(mine) - 1 - len(self.trained))),
                 *(f"the gradient of '{name}'" for name in self.trained)]
        gradients = [g for g in mine[-len(self.trained):] if g is not None and g.numel()]
        scale = max((float(g.detach().abs().max()) for g in gradients), default=0.0)
        for name, a, b in zip(names, mine, its, strict=True):
            if not _alike(a, b, scale if name.startswith("the gradient") else 0.0):
                raise Unsupported(f"{name} is another one in the program that torch.export makes of the step than in eager mode (a hook, or code "
                                  f"that asks whether it is exported); {TORCH}")

    def _run(self, trace: Trace) -> list[torch.Tensor | None]:
        leaves, _ = tensors_of(self.batch)
        given = [*self.model.parameters.values(), *self.model.buffers.values(), *leaves]
        with torch.no_grad():
            return list(trace.module(*(t.detach().clone() for t in given)))


def times(count: int) -> str:
    return "not at all" if count == 0 else "once" if count == 1 else f"{count} times"


def _alike(a: torch.Tensor | None, b: torch.Tensor | None, scale: float) -> bool:
    """Up to rounding; `scale`: of what is added up beside them."""
    if a is None or b is None:
        there = b if a is None else a
        return there is None or not bool(there.any())
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    if not a.numel():
        return True
    rounding = _ROUNDING.get(a.dtype, _ROUNDING_OF_16_BITS)
    same = (a == b) | (a.isnan() & b.isnan())
    far = torch.where(same, 0, (a - b).abs())
    most = max(float(torch.where(a.isfinite(), a.abs(), 0).max()), 1e-3 * scale)
    return bool((far <= rounding * most).all())


def _replayed(program: ExportedProgram) -> Callable:
    """A loss_fn that runs an exported program on the model's tensors."""

    def run(model: torch.nn.Module, batch: Any) -> tuple[torch.Tensor, tuple]:
        parameters = dict(model.named_parameters(remove_duplicate=False))
        buffers = dict(model.named_buffers(remove_duplicate=False))
        leaves = iter(tensors_of(batch)[0])
        given = []
        for spec in program.graph_signature.input_specs:
            name = (spec.target or "").removeprefix("model.")
            given.append(parameters[name] if spec.kind == InputKind.PARAMETER else buffers[name] if spec.kind == InputKind.BUFFER else
                         next(leaves) if spec.kind == InputKind.USER_INPUT else program.constants[spec.target])
        loss, *aux = torch.fx.Interpreter(program.graph_module).run(*given, enable_io_processing=False)
        return loss, tuple(aux)

    return run
