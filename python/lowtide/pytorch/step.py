"""The torch engine, and what steps of all engines have in common: capture, measure, plan, generate, run.

    step = lowtide.compile_step(model, loss_fn, optimizer, sample_batch, budget="2GiB")
    for batch in data:
        loss = step(batch)

A step is forward, backward and update together. The model's parameters and buffers and the optimizer's state are
changed in place, as eager mode changes them, bit for bit; `p.grad` is left alone. What a failed step leaves behind: an
exception before the first update puts buffers and the random stream back, so the model is as before the step; Ctrl-C
waits for the end of the step. Before the first update everything is looked at that could make a later one fail or that
somebody else has changed: options of the groups, types of the state, versions of all that was there before the step.
"""

from __future__ import annotations

import collections
import contextlib
import html
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import Usage
from ..plans import Plan, bytes_text
from . import foretold_sizes, ranks
from .addresses import Allocator, Arena, Lists, allocator
from .beside_eager import rehearsed
from .batches import BatchSpec, tensors_of
from .calls import CONSTANT, MADE, PARAMETER, Program
from .devices import Cpu, Cuda
from .entering import WITHIN_STEP, Turn, capturing, handlers_wait
from .guards import READ, Entry, Guards, Turned, entries_of
from .held_places import Kind
from .kept import written_buffers
from .lent import refuse_gradients
from .moving import OTHERWISE
from .optimizers import state_as_before
from .options import StepOptions
from .planning import Planned, best_plan
from .reachable import MISSING
from .steady import Signature, Steady, Versions, kinds_of
from .program import Executable, generate
from .transfers import Transfers
from .untouched import Note, untouched


MOST_TURNS = 8  # plans for words that the step itself changes in each step


@dataclass
class Memory:
    """Where the allocations of the last step went. `beside` is 0 where every one had its planned address."""

    arena_bytes: int = 0  # for what the step makes; parameters, buffers, state and batch lie in PyTorch's own memory
    resident_bytes: int = 0  # these, and what is kept; arena and residents together are the plan's arena_bytes
    # Copies of buffers, the random stream's state, results that are handed out (kept.py). Native: results and the caller's
    # batch, which lie beside its plan.
    kept_bytes: int = 0
    held_bytes: int = 0  # the arena that all shapes' plans share: as large as the largest needs
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
    arena: Arena | None  # the step's, which all its plans share
    lists: Lists | None  # of the plan's allocations
    buffers: list[int]  # places in `given` of what the step writes before the updates
    stream: Any  # that it is queued to
    looked: bool = False  # a step of it has run, whose results were looked at

    def __post_init__(self) -> None:
        program = self.planned.captured.program
        self.kinds = [(t.shape, t.dtype) for t in (program.tensors[number] for number in program.given)]
        self.versions = Versions(_watched(program, self.code))
        self.draws = any(s.base < 0 and s.role != MADE for s in program.storages)
        self.plan_bytes = self.planned.plan.arena_bytes

    @property
    def device(self) -> Cpu | Cuda:
        return self.planned.captured.program.device


_OTHER_BATCH = ("rank {rank} has a batch of shapes {its}, rank 0 one of {first}; shapes, modes, options, optimizers and threads have "
                "to be the same on all ranks, which run one plan (a shorter last batch: drop_last=True)")


class Step:
    """A planned training step. Calling it with a batch runs it; `repr` is the plan's verdict.

    `engine` says who runs it, `why` how engine="auto" came to that; "" where it was asked for.
    """

    engine = "torch"

    def __init__(self, model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, batch: Any,
                 options: StepOptions) -> None:
        self._begin(model, loss_fn, optimizer, options)
        _, self._now = self._for(batch)
        self._prepare()
        self.rehearsal = rehearsed(self, batch)

    def _prepare(self) -> None:
        """Behind the first plan."""

    def _begin(self, model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer,
               options: StepOptions) -> None:
        """Without a plan yet."""
        self._model, self._loss_fn, self._optimizer, self._options = model, loss_fn, optimizer, options
        self._turn = Turn(WITHIN_STEP)
        self._ready: dict[Any, _Ready] = {}
        self._alike: dict[Any, list[tuple[Guards, _Ready]]] = {}  # plans by what is the same for them but the values they hold for
        self._told: set[str] = set()  # names of values that have changed
        self._updating = self._agreed = False  # the second: all ranks, on that the step goes on
        self._versions: Versions | None = None  # of what is there before the step that runs
        self._steady: Steady | None = None  # what held for the last step
        self._arena: Arena | None = None  # this and the next two: of all plans
        self._host = torch.empty(0, dtype=torch.uint8)  # for values that are away
        self._saved: dict[int, torch.Tensor] = {}  # place in `given` -> the buffer before the step
        self._changed: Callable[[Callable], Callable] = lambda run: run  # of the code that runs what runs in its place: a rehearsal's
        self.memory = Memory()
        self.why = self.rehearsal = ""

    # ---- what it is

    @property
    def plan(self) -> Plan:
        """The plan for the last batch's shape."""
        return self._now.planned.plan

    @property
    def planned(self) -> Planned:
        """The captured step and its plan, of the last batch's shape."""
        return self._now.planned

    @property
    def data_parallel(self) -> bool:
        return self._options.data_parallel

    @property
    def parts(self) -> int:
        """In how many the largest values are made and read, or the step runs along its samples; 1: nothing is in parts."""
        return self._now.planned.captured.parts

    @property
    def coupled(self) -> list[str]:
        """The calls of a step in parts along its samples that need all parts of an operand at once, and where they stand."""
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
        kept = self._now.planned.kept_bytes
        more = "" if moves is None else (f"; {bytes_text(kept)} of copies of buffers and of results beside them; {bytes_text(moves.bytes)} of host memory for values that are away, "
                                         f"{bytes_text(moves.home_bytes)} of parameters, state and batch at home outside the arena")
        said = f" (with {bytes_text(kept)} of copies of buffers and of results)" if moves is None else ""
        more += f"; {self._now.planned.captured.in_words()}" if self.parts > 1 else ""
        more += f"; {self.rehearsal}" if self.rehearsal else ""
        if self.addresses:
            return (f"engine torch{self.why and f' ({self.why})'}: {bytes_text(code.arena_bytes)} arena with planned addresses beside "
                    f"{bytes_text(code.resident_bytes)} of parameters, buffers, state and batch{said}{more}")
        return (f"engine torch{self.why and f' ({self.why})'}: no C++ compiler for planned addresses, so values are freed after their last use; "
                f"reserve {bytes_text(self.reserve_bytes)} and the scratch of kernels{more}")

    def __reduce_ex__(self, _: Any) -> tuple:
        raise Usage(f"a compiled step of {type(self._model).__name__} is code and memory of this process: it is neither copied nor pickled. Copy or "
                    "save the model and the optimizer's state (a model that holds its step: take that attribute out), and compile the "
                    "copy by lowtide.compile_step; the plan alone (step.plan) can be copied, pickled and saved")

    def __repr__(self) -> str:
        return f"{self.plan!r}\n{self._note()}"

    def _repr_html_(self) -> str:
        return self.plan._repr_html_() + f"<p>{html.escape(self._note())}</p>"

    # ---- running

    def _read(self, batch: Any) -> tuple[list[torch.Tensor], Any, tuple[Guards, _Ready] | None]:
        """The batch's tensors, what a plan for it holds for, and the plan, if there is one, with its guards; on all ranks the same.
        Raises Usage."""

        def read() -> tuple[list[torch.Tensor], Any, int]:
            leaves, spec = tensors_of(batch)
            key = Signature.of(self._model, self._optimizer, leaves, spec)
            return leaves, key, next((k for k, (guards, ready) in enumerate(self._alike.get(key, ())) if guards.hold() and _answered(ready, leaves)), -1)

        if self._options.data_parallel:
            leaves, key, found = ranks.on_all(read, lambda made: (made[1:], str([tuple(t.shape) for t in made[0]])), _OTHER_BATCH,
                                              in_step=bool(self._ready))
        else:
            leaves, key, found = read()
        return leaves, key, self._alike[key][found] if found >= 0 else None

    def _for(self, batch: Any) -> tuple[list[torch.Tensor], _Ready]:
        """The batch's tensors and the plan for it, made if there is none."""
        steady = self._steady
        if steady is not None:
            leaves = steady.leaves(batch)
            if leaves is not None and steady.holds() and _answered(steady.ready, leaves):
                return leaves, steady.ready
        leaves, key, found = self._read(batch)
        if found is not None:
            steady = not self._options.data_parallel and Steady.can_be(self._model, key)
            self._steady = Steady(self._model, self._optimizer, batch, key, *found) if steady else None
            return leaves, found[1]
        seen = {other[:2] for other in self._alike}
        if seen and key[:2] not in seen and self._options.shapes == "fixed":
            shapes = [tuple(t.shape) for t in leaves]
            raise Usage(f"the batch has shapes {shapes}, for which there is no plan; shapes='replan' makes one")
        self._forget_values(key)
        with capturing(), untouched(self._model, self._loss_fn, self._optimizer) as note:
            made = self._make(batch, note)
        self._keep(key, made, note)
        return leaves, made

    def _keep(self, key: Any, made: _Ready, note: Note) -> None:
        """A plan, with the values that it holds for."""
        self._steady = None
        guards = Guards(*self._holds_for(made, note))
        alike = self._alike.setdefault(key, [])
        alike.append((guards, made))
        self._ready[(*key, len(self._ready), id(made))] = made
        sized = [pair for pair in alike if isinstance(pair[1], _Ready) and pair[1].planned.captured.trace.sizes]
        if len(sized) > foretold_sizes.MOST:
            self._drop(alike, *sized[0])
        if len(sized) == foretold_sizes.TOLD and foretold_sizes.WARNING not in self._told:
            self._told.add(foretold_sizes.WARNING)
            warnings.warn(f"lowtide: {foretold_sizes.WARNING}", stacklevel=5)

    def _drop(self, alike: list[tuple[Guards, _Ready]], guards: Guards, ready: _Ready) -> None:
        alike.remove((guards, ready))
        self._ready = {other: kept for other, kept in self._ready.items() if kept is not ready}

    def _holds_for(self, made: _Ready, note: Note) -> tuple[list[Entry], set[tuple[int, Any]], list[Kind]]:
        """What Guards takes."""
        trace = made.planned.captured.trace
        read = [Kind(e.place, e.held, e.number) for e in trace.externals.values() if e.place is not None]
        carried = trace.carried
        return [*carried.entries(), *entries_of(self._model, self._loss_fn, note.read)], carried.owns(), [*read, *carried.kinds()]

    def _forget_values(self, key: Any) -> None:
        """Warns, once for each name, of values that have changed, and drops plans for numbers that are gone: one may change in each step."""
        said: list[str] = []
        for alike in self._alike.values():
            for guards, ready in list(alike):
                changed = list(guards.changed())
                said += [_said(entry, now) for entry, now in changed if alike is self._alike.get(key) and entry.key != "training"
                         and entry.name not in self._told]
                self._told |= {entry.name for entry, _ in changed if entry.key != "training"}
                gone = [(entry, now) for entry, now in changed if entry.value is not OTHERWISE and (len(alike) > MOST_TURNS or not isinstance(entry, Turned))]
                if any(type(value) in (int, float, str) for entry, now in gone for value in (entry.value, now)):
                    self._drop(alike, guards, ready)
        if said:
            warnings.warn(f"lowtide: {', '.join(dict.fromkeys(said))}: a plan holds for Python's values, so the step is captured anew "
                          "for each; a tensor in the place of a number needs no new plan", stacklevel=5)

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """No step runs within, and there is room: measuring takes memory."""
        with self._turn.taken():
            self._make_room()
            yield

    def _make_room(self) -> None:
        if self._arena is not None:
            self._arena.trim(0)

    def _make(self, batch: Any, note: Note) -> _Ready:
        self._make_room()
        planned = best_plan(self._model, self._loss_fn, self._optimizer, batch, self._options, note)
        together = ranks.on_all if self._options.data_parallel else ranks.alone
        return together(lambda: self._make_ready(planned))

    def _make_ready(self, planned: Planned) -> _Ready:
        program, units = planned.captured.program, planned.captured.units
        memory = allocator(program.device.type)
        program.device.prepare()
        mark = memory.mark if memory is not None else None
        code = generate(program, units, planned.graph, planned.plan, planned.measured, self._judge, mark,
                        planned.captured.parts == 1)
        lists = Lists(memory, code.parts) if memory is not None else None
        made = _Ready(planned, code, self._fitting(memory, code.arena_bytes), lists, written_buffers(program, units),
                      program.device.stream())
        if code.transfers is not None:
            self._share_host_memory(code.transfers, program.device)
        return made

    def _fitting(self, memory: Allocator | None, size: int) -> Arena | None:
        """The arena of all plans, large enough for one more."""
        if self._arena is not None and self._arena.allocator is not memory:  # the model has gone to another device
            self._arena = self._steady = None
            self._ready.clear()
            self._alike.clear()
            self._saved.clear()
        if memory is not None:
            self._arena = self._arena or Arena(memory)
            self._arena.fit(size)
        return self._arena

    def _share_host_memory(self, moves: Transfers, moves_on: Cpu | Cuda) -> None:
        """Between steps nothing is away, so all plans use the same slots, as many as the largest needs."""
        others = [ready.code.transfers for ready in self._ready.values() if ready.code.transfers is not None]
        if moves.bytes > self._host.nbytes:
            for other in others:
                other.memory = self._host[:0]
            self._host = moves_on.host_memory(moves.bytes)
        for each in (*others, moves):
            each.memory = self._host

    def _given(self, ready: _Ready, batch: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors as they are now, in the order of the code. Raises Usage where one was exchanged."""
        captured = ready.planned.captured
        model = captured.trace.model
        model.follow()
        given = [*model.parameters.values(), *model.buffers.values(), *batch, *constants_now(captured.program),
                 *captured.updates.states(captured.updated)]
        if kinds_of(given) == ready.kinds:
            return given
        for number, tensor in zip(captured.program.given, given, strict=True):
            wanted = captured.program.tensors[number]
            if tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
                raise Usage(f"'{captured.program.storage_of(number).name}' is {tensor.dtype} {tuple(tensor.shape)}; when the step "
                            f"was compiled it was {wanted.dtype} {wanted.shape}; compile the step again")
        return given

    def _begun(self, ready: _Ready, batch: list[torch.Tensor]) -> list[torch.Tensor]:
        """What the step is given. Where that cannot be on one rank, all raise."""
        self._updating = self._agreed = False
        ranks.Averages.done = 0
        if ready.device.stream() != ready.stream:
            raise Usage("the step was compiled in another stream than the one that is current now: its arena is that stream's")
        try:
            ready.planned.captured.updates.try_groups()
            return self._given(ready, batch)
        except Exception as problem:
            ready.planned.captured.updates.forget_begun()
            self._tell_ranks(problem, ready)
            raise

    def _judge(self, loss: torch.Tensor, gradients: torch.Tensor | None = None) -> None:
        """Before the first update: the last moment at which nothing of the model has changed but its buffers. `gradients`:
        the greatest number of each, if they are to be finite."""
        problem = self._problem(loss, gradients.tolist() if gradients is not None else [])
        if self._options.data_parallel:
            self._agreed = True
            problem = ranks.agreed(problem)
        if problem is not None:
            raise problem
        self._updating = True

    def _problem(self, loss: torch.Tensor, gradients: list[float]) -> Exception | None:
        """What is to end the step."""
        if self._options.check_finite and not math.isfinite(loss.item()):  # by no tensor: the arena has none for it
            return FloatingPointError(f"the loss is {loss.item()}")
        for name, number in zip(self._now.planned.captured.trace.checked, gradients, strict=False):
            if not math.isfinite(number):
                return FloatingPointError(f"the gradient of '{name}' is {number}")
        return self._changed_by_others()

    def _changed_by_others(self) -> Exception | None:
        changed = self._versions.changed() if self._versions is not None else None
        said = "was changed by somebody else while the step ran"
        return None if changed is None else Usage(f"'{changed[0]}' {tuple(changed[1].shape)} {said}")

    def _forget_rehearsal(self) -> None:
        """Its state and memory are behind it as if no step had run, but that the plan's results were looked at."""
        self._updating, self._versions, self._steady = False, None, None
        self._saved.clear()
        self._make_room()
        self.memory = type(self.memory)()

    def _tell_ranks(self, problem: BaseException, ready: _Ready) -> None:
        """This rank's step has failed: the others, which wait for it, are to fail too."""
        if self._options.data_parallel and not self._agreed and isinstance(problem, Exception):
            with contextlib.suppress(RuntimeError):  # of a group that is gone
                ranks.Averages.join(ready.code.averages)
                ranks.agreed(problem)

    def __call__(self, batch: Any) -> Any:
        """Runs the step: the loss, or (loss, aux) if loss_fn gives that."""
        with self._turn.taken():
            return self._called(batch)

    def _called(self, batch: Any) -> Any:
        return self._once(*self._for(batch))

    def _once(self, leaves: list[torch.Tensor], ready: _Ready) -> Any:
        """One step of a plan."""
        self._now = ready
        refuse_gradients(leaves, ready.planned.captured.trace.reads_gradients)
        with torch.no_grad(), handlers_wait():
            given = self._begun(ready, leaves)
            held = list(given)
            outputs = self._run(ready, given)
            trace = ready.planned.captured.trace
            first = 1 + trace.aux.count
            trace.carried.write(list(outputs[first:first + trace.carried.outputs]), held)
        self._optimizer._opt_called = True  # what schedulers ask: the optimizer has made a step
        return (outputs[0], trace.aux.give(list(outputs[1:first]), held)) if trace.aux.pair else outputs[0]

    def _run(self, ready: _Ready, given: list[torch.Tensor]) -> tuple:
        state = ready.device.get_state()
        buffers = self._saved_copies(ready, given)
        self._versions = ready.versions.begin(given)
        if ready.draws:
            given.append(state)
        try:
            with ready.planned.captured.updates.running(ready.code.aside):
                outputs = self._in_arena(ready, given)
            if self.memory.beside:
                ready.planned.captured.updates.took_beside()
        except BaseException as problem:
            self._tell_ranks(problem, ready)
            self._explain(problem, ready, buffers, state)
            raise
        return tuple(o.clone() if isinstance(o, torch.Tensor) else o for o in outputs)

    def _saved_copies(self, ready: _Ready, given: list[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """What the step writes before the updates, each with a copy of it as it is."""
        buffers = [given[i] for i in ready.buffers]
        if not buffers:
            return []
        for i, buffer in zip(ready.buffers, buffers, strict=True):
            if i not in self._saved or kinds_of([self._saved[i]]) != kinds_of([buffer]):  # another plan has another one in its place
                self._saved[i] = buffer.clone()
        copies = [self._saved[i] for i in ready.buffers]
        torch._foreach_copy_(copies, buffers)
        return list(zip(buffers, copies, strict=True))

    def rehearse(self, batch: Any) -> float:
        """The seconds of a step on copies of all that it would change; the user's tensors stay."""
        with self._turn.taken():
            return self._rehearsed(batch)

    def _rehearsed(self, batch: Any) -> float:
        leaves, ready = self._for(batch)
        self._now = ready
        state = ready.device.get_state()
        self._versions, self._updating = None, False
        try:
            with torch.no_grad(), handlers_wait(), state_as_before(self._optimizer):
                program, tensors = ready.planned.captured.program, self._given(ready, leaves)
                written = set(ready.buffers)
                lasting = {id(t) for t in leaves} | {id(t) for k, t in enumerate(tensors)
                                                     if program.storage_of(program.given[k]).role == CONSTANT and k not in written}
                given = [t if id(t) in lasting else t.detach().clone(memory_format=torch.preserve_format) for t in tensors]
                if ready.draws:
                    given.append(state)
                ready.device.finish()
                start = time.perf_counter()
                self._in_arena(ready, given)
                ready.device.finish()
                return time.perf_counter() - start
        finally:
            ready.device.set_state(state)

    def _in_arena(self, ready: _Ready, given: list[torch.Tensor]) -> tuple:
        moves, done = ready.code.transfers, False
        if moves is not None:
            moves.begin_step()
        if ready.arena is not None:
            ready.arena.trim(self._may_hold(ready))
            ready.arena.begin(ready.lists, ready.code.arena_bytes)
        try:
            if not ready.looked:
                self._look(ready, given)
            outputs = self._changed(ready.code.next_run(ready.looked))(given)
            done = ready.looked = True
            return outputs
        finally:
            counts = ready.arena.end() if ready.arena is not None else ()
            held = ready.arena.bytes if ready.arena is not None else 0
            self.memory = Memory(ready.code.arena_bytes if counts else 0, ready.code.resident_bytes,
                                 ready.planned.kept_bytes, held, *counts)
            if moves is not None:
                moves.end_step(failed_in_update=self._updating and not done)
                self.memory.home_bytes, self.memory.host_bytes = moves.home_bytes, self._host.nbytes
                self.memory.stored_bytes, self.memory.loaded_bytes = moves.stored_bytes, moves.loaded_bytes

    @staticmethod
    def _look(ready: _Ready, given: list[torch.Tensor]) -> None:
        """The first run of a plan (first_run.py)."""
        homes = ready.code.transfers.homes if ready.code.transfers is not None else ()
        ready.code.looks.begin((number, tensor) for number, tensor in zip(ready.planned.captured.program.given, given, strict=False)
                               if ready.planned.captured.program.tensors[number].storage not in homes)

    def _may_hold(self, ready: _Ready) -> int:
        """Bytes of the arena beside this plan's residents, so that together they are not more than the largest plan."""
        largest = max(each.plan_bytes for each in (*self._ready.values(), ready))
        return max(largest - ready.code.resident_bytes, ready.code.arena_bytes)

    def _explain(self, problem: BaseException, ready: _Ready, buffers: list[tuple[torch.Tensor, torch.Tensor]], state: torch.Tensor) -> None:
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
        for buffer, saved in buffers:
            buffer.copy_(saved)
        ready.planned.captured.updates.forget_begun()
        ready.device.set_state(state)
        problem.add_note(f"lowtide: {place}the model is as before the step")


def _watched(program: Program, code: Executable) -> list[tuple[int, int, str]]:
    """All that is there before the step: its place, what the step itself adds to the count that PyTorch keeps of its writes, and its
    name. Where several tensors lie in one storage that the step writes, it is not known whose count grows; what a forward pass adds to
    a parameter is the kernel's choice (an embedding with max_norm writes row by row), and so is what a custom op adds to anything."""
    found = []
    lying = collections.Counter(program.tensors[t].storage for t in program.given)
    for place, storage in enumerate(program.tensors[number].storage for number in program.given):
        more = code.writes.get(storage, 0)
        if storage not in code.uncounted and not (more and (lying[storage] > 1 or program.storages[storage].role == PARAMETER)):
            found.append((place, more, program.storages[storage].name))
    return found


def _answered(ready: Any, batch: list[torch.Tensor]) -> bool:
    """Whether the model's buffers are of the kinds that it was planned for, and what decides its branches and sizes before the step gives the answers
    (foretold.py)."""
    trace = ready.planned.captured.trace if isinstance(ready, _Ready) else None
    if not (ready.model if trace is None else trace.model).fits():
        return False
    foretold = [*trace.branches, *trace.sizes] if trace is not None else []
    if foretold:
        trace.model.follow()
    return all(each.holds(batch) for each in foretold)


def constants_now(program: Program) -> list[torch.Tensor]:
    """What loss_fn and modules hold beside parameters and buffers, as it is now."""
    return [constant if external is None else external.now()
            for constant, external in zip(program.constants, program.externals, strict=True)]


def _said(entry: Entry, now: Any) -> str:
    if isinstance(now, torch.Tensor):
        what = f"a tensor {tuple(now.shape)} of {now.dtype}" if now is not entry.value and entry.value is not READ else "other numbers"
    else:
        what = repr(now) if type(now) in (int, float, bool, str, type(None)) else "gone" if now is MISSING else "another object"
    return f"{entry.name} is {what} now"


def checked(loss_fn: Any, optimizer: Any, model: Any) -> None:
    """Raises Usage where an argument is of the wrong kind."""
    if not isinstance(model, torch.nn.Module):
        raise Usage(f"model is a {type(model).__name__}; it is to be a torch.nn.Module")
    if not callable(loss_fn):
        raise Usage(f"loss_fn is a {type(loss_fn).__name__}; it is to be called as loss_fn(model, batch)")
    stands_for_one = callable(getattr(optimizer, "step", None)) and hasattr(optimizer, "param_groups")  # as a wrapper does
    if not isinstance(optimizer, torch.optim.Optimizer) and not stands_for_one:
        raise Usage(f"optimizer is a {type(optimizer).__name__}; it is to be a torch.optim.Optimizer")


def plan_step_of(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, sample_batch: Any,
                 options: StepOptions) -> Plan:
    """The plan of the torch engine alone."""
    with capturing(), untouched(model, loss_fn, optimizer) as note:
        return best_plan(model, loss_fn, optimizer, sample_batch, options, note).plan
