"""The torch engine, and what steps of all engines have in common: capture, measure, plan, generate, run.

    step = lowtide.compile_step(model, loss_fn, optimizer, sample_batch, budget="2GiB")
    for batch in data:
        loss = step(batch)

A step is forward, backward and update together. The model's parameters and buffers and the optimizer's state are
changed in place, as eager mode changes them, bit for bit; `p.grad` is left alone. What a failed step leaves behind: an
exception before the first update puts buffers and the random stream back, so the model is as before the step; Ctrl-C
waits for the end of the step.
"""

from __future__ import annotations

import contextlib
import html
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..errors import Usage
from ..plans import Plan, bytes_text
from . import hooks
from .addresses import Arena, allocator
from .calls import BUFFER, MADE, PARAMETER
from .frozen import Held
from .optimizers import signature
from .options import StepOptions
from .planning import Planned, best_plan
from .program import Executable, generate
from .trace import Model


@dataclass
class Memory:
    """Of the last step: where its allocations went. `beside` is 0 where every one had its planned address."""

    arena_bytes: int = 0  # for what the step makes; parameters, buffers, state and batch lie in PyTorch's own memory
    resident_bytes: int = 0  # these
    planned: int = 0
    beside: int = 0
    largest_beside_bytes: int = 0
    top_bytes: int = 0
    home_bytes: int = 0  # of parameters, state and batch that lie in the arena only while the plan has them there
    host_bytes: int = 0  # of slots in host memory for values that are away
    stored_bytes: int = 0
    loaded_bytes: int = 0


@dataclass
class _Ready:
    """A plan that can run: for one shape of batch."""

    planned: Planned
    code: Executable
    arena: Arena | None
    buffers: list[int]  # places in `given` of what the step writes before the updates
    saved: list[torch.Tensor] = field(default_factory=list)


class Step:
    """A planned training step. Calling it with a batch runs it; `repr` is the plan's verdict.

    `engine` says who runs it, `why` how engine="auto" came to that; "" where it was asked for.
    """

    engine = "torch"

    def __init__(self, model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, batch: Any,
                 options: StepOptions) -> None:
        self._model, self._loss_fn, self._optimizer, self._options = model, loss_fn, optimizer, options
        self._ready: dict[Any, _Ready] = {}
        self._held = Held(model, loss_fn)
        self._updating = False
        self._versions: list[tuple[torch.Tensor, int]] = []
        self.memory = Memory()
        self.why = ""
        self._now = self._for(batch)

    # ---- what it is

    @property
    def plan(self) -> Plan:
        """Of the last batch's shape."""
        return self._now.planned.plan

    @property
    def parts(self) -> int:
        """In how many the largest values are made and read, or the step runs along its samples; 1: nothing is in parts."""
        return self._now.planned.captured.parts

    @property
    def coupled(self) -> list[str]:
        """Of a step in parts along its samples the calls that need all parts of an operand at once, and where they stand."""
        return self._now.planned.captured.coupled

    @property
    def addresses(self) -> bool:
        """Whether every allocation has its planned address; else values are freed after their last use."""
        return self._now.arena is not None

    @property
    def reserve_bytes(self) -> int:
        """What PyTorch's allocator needs for what the step makes, where addresses are not planned: the live bytes, to
        which scratch of kernels and fragmentation come."""
        return 0 if self.addresses else self._now.code.arena_bytes

    @property
    def source(self) -> str:
        """The generated code."""
        return self._now.code.source

    def _note(self) -> str:
        code = self._now.code
        moves = code.transfers
        more = "" if moves is None else (f"; {bytes_text(moves.bytes)} of host memory for values that are away, "
                                         f"{bytes_text(moves.home_bytes)} of parameters, state and batch at home outside the arena")
        more += f"; {self._now.planned.captured.in_words()}" if self.parts > 1 else ""
        if self.addresses:
            return (f"engine torch{self.why and f' ({self.why})'}: {bytes_text(code.arena_bytes)} arena with planned addresses beside "
                    f"{bytes_text(code.resident_bytes)} of parameters, buffers, state and batch{more}")
        return (f"engine torch{self.why and f' ({self.why})'}: no C++ compiler for planned addresses, so values are freed after their last use; "
                f"reserve {bytes_text(self.reserve_bytes)} and the scratch of kernels{more}")

    def __repr__(self) -> str:
        return f"{self.plan!r}\n{self._note()}"

    def _repr_html_(self) -> str:
        return self.plan._repr_html_() + f"<p>{html.escape(self._note())}</p>"

    # ---- running

    def _signature(self, leaves: list[Any], spec: Any) -> Any:
        """What a plan holds for: shapes, and what else changes the graph or its kernels."""
        shapes = tuple((tuple(t.shape), t.stride(), t.dtype) if isinstance(t, torch.Tensor) else t for t in leaves)
        modes = tuple(module.training for module in self._model.modules())
        trained = tuple(p.requires_grad for p in self._model.parameters())
        around = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.get_num_threads())
        hooked = hooks.signature(self._model)
        return shapes, str(spec), modes, trained, around, str(signature(self._optimizer)), hooked, self._held.now()

    def _for(self, batch: Any) -> _Ready:
        leaves, spec = pytree.tree_flatten(batch)
        key = self._signature(leaves, spec)
        found = self._ready.get(key)
        if found is not None:
            return found
        seen = {other[:2] for other in self._ready}
        if seen and key[:2] not in seen and self._options.shapes == "fixed":
            shapes = [tuple(t.shape) if isinstance(t, torch.Tensor) else t for t in leaves]
            raise Usage(f"the batch has shapes {shapes}, for which there is no plan; shapes='replan' makes one")
        with self._held.capturing():
            made = self._make(batch)
        now = self._held.now()
        self._ready = {other: ready for other, ready in self._ready.items() if other[-1] == now}  # a number may change in each step
        self._ready[(*key[:-1], now)] = made
        return made

    def _make(self, batch: Any) -> _Ready:
        return self._make_ready(best_plan(self._model, self._loss_fn, self._optimizer, batch, self._options))

    def _make_ready(self, planned: Planned) -> _Ready:
        program, units = planned.captured.program, planned.captured.units
        memory = allocator()
        mark = memory.library.lt_mark if memory is not None else None
        code = generate(program, units, planned.graph, planned.plan, planned.measured, self._judge, mark)
        arena = Arena(memory, code.arena_bytes, code.parts) if memory is not None else None
        written = {s for unit in units if unit.update is None for s in (*unit.updates, *unit.statistics)}
        buffers = [i for i, t in enumerate(program.given)
                   if program.storage_of(t).role in (BUFFER, PARAMETER) and program.tensors[t].storage in written]
        return _Ready(planned, code, arena, buffers)

    def _given(self, ready: _Ready, batch: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors as they are now, in the order of the code. Raises Usage where one was exchanged."""
        captured = ready.planned.captured
        model = captured.trace.model
        for name, held, found in exchanged(model):
            raise Usage(f"'{name}' is another tensor than when the step was compiled ({tuple(held.shape)} then, "
                        f"{tuple(found.shape) if found is not None else 'none'} now); compile the step again")
        states = [t for name in captured.updated for t in captured.updates.state(name).values()]
        return [*model.parameters.values(), *model.buffers.values(), *batch, *captured.program.constants, *states]

    def _judge(self, loss: torch.Tensor) -> None:
        """Before the first update: the last moment at which nothing of the model has changed but its buffers."""
        if self._options.check_finite and not bool(torch.isfinite(loss).all()):
            raise FloatingPointError(f"the loss is {float(loss)}")
        for tensor, version in self._versions:
            if tensor._version != version:
                raise Usage(f"a tensor of shape {tuple(tensor.shape)} was changed by somebody else while the step ran")
        self._updating = True

    def __call__(self, batch: Any) -> Any:
        """Runs the step: the loss, or (loss, aux) if loss_fn gives that."""
        leaves, spec = pytree.tree_flatten(batch)
        ready = self._now = self._ready.get(self._signature(leaves, spec)) or self._for(batch)
        with torch.no_grad(), interrupts_wait():
            outputs = self._run(ready, self._given(ready, leaves))
        self._optimizer._opt_called = True  # what schedulers ask: the optimizer has made a step
        trace = ready.planned.captured.trace
        if trace.aux_spec is None or (trace.aux_count == 0 and trace.aux_spec.num_leaves == 0):
            return outputs[0]
        aux = trace.give_aux(list(outputs[1:]))
        return outputs[0] if aux is None or _all_none(aux) else (outputs[0], aux)

    def _run(self, ready: _Ready, given: list[torch.Tensor]) -> tuple:
        state = torch.get_rng_state()
        buffers = [given[i] for i in ready.buffers]
        if not ready.saved:
            ready.saved = [b.clone() for b in buffers]
        for saved, buffer in zip(ready.saved, buffers, strict=True):
            saved.copy_(buffer)
        trained = ready.planned.captured.updated
        parameters = ready.planned.captured.trace.model.parameters
        own = {id(buffer) for buffer in buffers}  # an embedding with max_norm writes its weights
        self._versions = [(parameters[name], parameters[name]._version) for name in trained if id(parameters[name]) not in own]
        self._updating = False
        if any(s.base < 0 and s.role != MADE for s in ready.planned.captured.program.storages):
            given.append(state)
        try:
            outputs = self._in_arena(ready, given)
        except BaseException as problem:
            self._explain(problem, ready, buffers, state)
            raise
        return tuple(o.clone() if isinstance(o, torch.Tensor) else o for o in outputs)

    def rehearse(self, batch: Any) -> float:
        """The seconds of a step on copies of all that it would change; the user's tensors stay."""
        leaves, spec = pytree.tree_flatten(batch)
        ready = self._now = self._ready.get(self._signature(leaves, spec)) or self._for(batch)
        state = torch.get_rng_state()
        self._versions, self._updating = [], False
        try:
            with torch.no_grad(), interrupts_wait():
                lasting = {id(t) for t in leaves} | {id(t) for t in ready.planned.captured.program.constants}
                given = [t if id(t) in lasting else t.detach().clone(memory_format=torch.preserve_format)
                         for t in self._given(ready, leaves)]
                if any(s.base < 0 and s.role != MADE for s in ready.planned.captured.program.storages):
                    given.append(state)
                start = time.perf_counter()
                self._in_arena(ready, given)
                return time.perf_counter() - start
        finally:
            torch.set_rng_state(state)

    def _in_arena(self, ready: _Ready, given: list[torch.Tensor]) -> tuple:
        moves, done = ready.code.transfers, False
        if moves is not None:
            moves.begin_step()
        if ready.arena is not None:
            ready.arena.begin()
        try:
            outputs = ready.code.run(given)
            done = True
            return outputs
        finally:
            counts = ready.arena.end() if ready.arena is not None else ()
            self.memory = Memory(ready.code.arena_bytes if counts else 0, ready.code.resident_bytes, *counts)
            if moves is not None:
                moves.end_step(failed_in_update=self._updating and not done)
                self.memory.home_bytes, self.memory.host_bytes = moves.home_bytes, moves.bytes
                self.memory.stored_bytes, self.memory.loaded_bytes = moves.stored_bytes, moves.loaded_bytes

    def _explain(self, problem: BaseException, ready: _Ready, buffers: list[torch.Tensor], state: torch.Tensor) -> None:
        """Puts back what can be, and says where it was and how the model stands."""
        place, frame = "", problem.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == "<lowtide step>":
                unit = ready.code.unit_of_line[frame.tb_lineno - 1]
                place = f"{ready.planned.captured.units[unit].place}: " if unit >= 0 else ""
                frame.tb_frame.clear()  # its values lie in the arena, which the next step writes
            frame = frame.tb_next
        if self._updating:
            problem.add_note(f"lowtide: {place}the update had begun; some parameters are updated and some are not")
            return
        for saved, buffer in zip(ready.saved, buffers, strict=True):
            buffer.copy_(saved)
        torch.set_rng_state(state)
        problem.add_note(f"lowtide: {place}the model is as before the step")


def _all_none(aux: Any) -> bool:
    leaves = pytree.tree_leaves(aux)
    return all(leaf is None for leaf in leaves)


def exchanged(model: Model) -> Iterator[tuple[str, torch.Tensor, torch.Tensor | None]]:
    """Parameters and buffers that the module holds no more."""
    for held, find in ((model.parameters, "_parameters"), (model.buffers, "_buffers")):
        for name, tensor in held.items():
            folder, _, leaf = name.rpartition(".")
            found = getattr(model.module.get_submodule(folder), find).get(leaf)
            if found is not tensor:
                yield name, tensor, found


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C is seen when the step has ended: a step is done or not begun."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    seen: list[tuple] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            before(*seen[0])


def checked(loss_fn: Any, optimizer: Any, model: Any) -> None:
    """Raises Usage where an argument is of the wrong kind."""
    if not isinstance(model, torch.nn.Module):
        raise Usage(f"model is a {type(model).__name__}; it is to be a torch.nn.Module")
    if not callable(loss_fn):
        raise Usage(f"loss_fn is a {type(loss_fn).__name__}; it is to be called as loss_fn(model, batch)")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise Usage(f"optimizer is a {type(optimizer).__name__}; it is to be a torch.optim.Optimizer")


def plan_step_of(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, sample_batch: Any,
                 options: StepOptions) -> Plan:
    """The plan of the torch engine alone; the optimizer may have got its state."""
    return best_plan(model, loss_fn, optimizer, sample_batch, options).plan
