"""A rehearsal: the planned step beside eager mode, before anything is believed.

When a model is compiled, one step of the plan and one of eager mode run on the sample batch from the same state, and what they leave is compared:
loss, aux, gradients, parameters, optimizer state, buffers, tensors from elsewhere, attributes, the random stream; bit for bit, or within a tolerance
(compared.py). Both run on the user's own objects, as the step does later; of all that they may write copies are made before (contents.py, untouched.py),
and put back behind each. What the code does beside (it prints) it does once more.

    the planned step   is the whole step as it will be called, its updates included. Of each gradient a copy is kept when its update begins
    eager mode         is the user's loss_fn, backward(), clipping and the optimizer's own step(). Where gradients are equal within a
                       tolerance alone, step() gets the plan's, so that the updates are compared bit for bit
    once more          where something differs, eager mode runs again, then with fresh memory filled: what it does not repeat is nobody's

What differs is `lowtide.Internal`, with a folder for the bug report: graph, plan, code, versions, what differs by how much.
By default that is done where there is memory for it: within the budget, or 256 MiB beside it, and half of what is free. Else, and on GPUs, `step.rehearsal`
says why not. `rehearse=True` may take more, cuts the batch to fewer rows where all of them are too many (fewer_rows.py), and raises Usage where
it cannot be. A plan for another shape or value that comes later is not rehearsed: the graph is the same code's, and its first run looks at every
result (first_run.py). Its price is two steps, the copies, and a walk over what can be reached.
Tests: tests/python/test_torch_rehearsal.py, test_torch_compared.py.
"""

from __future__ import annotations

import collections
import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..amounts import amount_of
from ..errors import Error, Usage
from ..plans import bytes_text
from . import bug_reports, fewer_rows, room
from .batches import tensors_of
from .compared import BUFFER, GRADIENT, LOSS, PARAMETER, STATE, Again, Beside, Left, Moves
from .contents import LARGE, SMALL, Contents, checksum, is_plain, name_of, smallest, span_bytes
from .entering import is_of_a_handler, rehearsing
from .lent import alias_of
from .optimizers import state_as_before
from .reachable import MISSING, Place
from .rooms import Set
from .rehearsal import call_step, tensors_in
from .rehearsed_step import Subject
from .trace import scalar_loss
from .untouched import Change, Note
from .whole_rehearsal import walk

if TYPE_CHECKING:
    from .step import Step

_NOTED_BY_STEP = ("_opt_called", "_need_device_dtype_check_for_fused")  # attributes in which PyTorch's optimizers note that they were called
NOT = "not rehearsed: "
BESIDE = "rehearsed beside eager mode: "


def rehearsed(step: Step, batch: Any) -> str:
    """What is to be said of the rehearsal of a step that was just compiled; "" where it was forbidden. Raises Internal where the planned
    step is not eager mode's, Usage where a rehearsal was insisted on and cannot be."""
    asked = step._options.rehearse
    if asked is False:
        return ""
    with rehearsing():
        return _said_of(step, batch, bool(asked))


def _said_of(step: Step, batch: Any, asked: bool) -> str:
    subject = Subject.of(step)
    refused, rows = _why_not(step, subject, batch, asked), None
    if refused and asked and isinstance(refused, _NoRoom):
        part = fewer_rows.compiled(step, batch, refused.fixed, refused.of_batch, refused.there)
        if part is not None:
            part_step, part_batch, rows = part
            return _Rehearsal(part_step, Subject.of(part_step), part_batch).verdict() + rows
    if refused and asked:
        raise Usage(f"rehearse=True cannot be: {refused}")
    return NOT + refused if refused else _Rehearsal(step, subject, batch).verdict()


class _NoRoom(str):
    """Why not, and bytes: of the copies, of eager mode's step on the whole batch, and of what is there for both."""

    fixed = of_batch = there = 0


def _why_not(step: Step, subject: Subject, batch: Any, asked: bool) -> str:
    """Why there cannot be one; "" if there can."""
    if step.data_parallel:
        return "a step on many ranks"
    if subject.device.type != "cpu" and not asked:
        return f"on {subject.device} with rehearse=True alone"
    if subject.draws:
        return "the native engine draws random numbers of its own"
    tensors = [*subject.model.parameters.items(), *subject.model.buffers.items()]
    for name, tensor in tensors:
        if not is_plain(tensor):
            return f"'{name}' is a {type(tensor).__name__} of layout {tensor.layout}, of which no copy is made"
        if tensor.device.type == "cpu" and tensor.is_shared():
            return f"'{name}' lies in memory that other processes share, who would see the rehearsed step"
    return _no_room(step, subject, batch, asked)


def _no_room(step: Step, subject: Subject, batch: Any, asked: bool) -> str:
    """Copies before the step and of what it leaves, of gradients, and eager mode's step beside what is there already."""
    plan, updates = step.plan, subject.updates
    trained = sum(updates.parameters[name].nbytes for name in updates.updated)
    states = sum(t.nbytes for t in walk(step._optimizer, set(map(id, updates.parameters.values()))))
    made = max(0, subject.state_bytes - states)  # by the first step, for a while
    buffers = sum(t.nbytes for t in subject.model.buffers.values())
    batches = sum(map(span_bytes, tensors_of(batch)[0]))
    fixed = 2 * (trained + states + buffers + made) + trained + batches
    eager = max(0, plan.verdict["peak_before_bytes"] - subject.resident_bytes)
    there = int(room.free_bytes(subject.device) * (room.SPARE if asked else room.SPARE_UNASKED))
    if not asked:
        there = min(there, max(room.SMALL, _budget(step) - subject.resident_bytes))
    if fixed + eager <= there:
        return ""
    within = f"of the {bytes_text(there)} that are free" if asked else f"of {bytes_text(there)} that are there for it (rehearse=True asks for all that is free)"
    said = _NoRoom(f"eager mode's step and copies take {bytes_text(fixed + eager)} {within}")
    said.fixed, said.of_batch, said.there = fixed, eager, there
    return said


def _budget(step: Step) -> int:
    """In bytes; what is not said is no limit."""
    asked = amount_of(step._options.budget) if step._options.budget is not None else None
    if asked is None:
        return 1 << 62
    return asked.limit(step.plan.verdict["peak_before_bytes"]) or step.plan.arena_bytes


class _Rehearsal:
    """The rehearsal of one step on one batch."""

    def __init__(self, step: Step, subject: Subject, batch: Any) -> None:
        self.step, self.subject = step, subject
        self.leaves, self.spec = tensors_of(batch)
        self.note = Note(step._model, step._loss_fn, step._optimizer)
        self.device = subject.device
        parts = list(walk(step._optimizer, set(map(id, subject.model.parameters.values()))))
        self.of_optimizer = set(map(id, parts))
        self.of_modules = {room for room in self.note.reachable.rooms if room.path.rpartition(".")[2] in ("_parameters", "_buffers")}
        self.others, self.larger = self._others()
        written = [subject.model.parameters[name] for name in subject.model.parameters if name in subject.written]
        self.contents = Contents(self.note, [t for t in [*written, *subject.model.buffers.values(), *parts, *self.leaves, *(
            t for _, t, _ in (*self.others, *self.larger)), *(now() for _, now in subject.others)] if is_plain(t)])

    def _others(self) -> tuple[list[tuple[str, torch.Tensor, Place | None]], ...]:
        """Tensors that can be reached beside model, optimizer and batch, small ones and larger ones: names, themselves, and where they lie."""
        model = self.subject.model
        known = {*map(id, model.parameters.values()), *map(id, model.buffers.values()), *map(id, self.leaves), *self.of_optimizer}
        found = [place for number, place in self.note.reachable.tensors.items()
                 if number not in known and is_plain(place[0])]
        named = [(name_of(one) if one[1] is not None else f"{name_of(one)} ({k})", *one) for k, one in enumerate(found)]
        kept = smallest(named, LARGE)
        written = {id(now()) for _, now in self.subject.others}  # which are compared as they are, within a tolerance if need be
        return [one for one in kept if span_bytes(one[1]) <= SMALL], [one for one in kept if span_bytes(one[1]) > SMALL and id(one[1]) not in written]

    def verdict(self) -> str:
        """Raises Internal."""
        with state_as_before(self.step._optimizer), self.subject.as_before(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return self._judged()
            finally:
                self.step._forget_rehearsal()

    def _judged(self) -> str:
        mine = self._run(self._planned, Left(near=self.subject.near()))
        self.step._make_room()
        beside = Beside(mine, self.subject.exact)
        its = self._run(self._eager, beside if mine.problem is None else Again(beside))
        if its.problem is not None:  # of the sample batch: the step will raise, too
            return f"{NOT}eager mode raises {type(its.problem).__name__}"
        if mine.problem is not None and _is_memory(mine.problem):
            return f"{NOT}out of memory"
        if mine.problem is not None:
            raise bug_reports.of(self.step, [f"the planned step raises {type(mine.problem).__name__}: {mine.problem}"]) from mine.problem
        unsteady: set[str] = set()
        for around in (contextlib.nullcontext, _Filled):
            if set(its.differ) - unsteady:
                again = self._run(lambda seen, around=around: self._eager(seen, around), Again(its))
                unsteady |= again.unsteady if again.problem is None else set()
        rounds = any(isinstance(its.differ[name], torch.Tensor) for name in unsteady)  # a time or a name that is kept changes no sum
        found = [said for name, said in its.said.items() if name not in unsteady and not (rounds and name not in its.far)]
        if self.contents.lost:
            found.append(f"{', '.join(self.contents.lost[:3])} is written by eager mode alone")
        if found:
            raise bug_reports.of(self.step, found, self.contents.lost)
        if unsteady:
            named = f"{sorted(unsteady)[0]}{f' and {len(unsteady) - 1} more' if len(unsteady) > 1 else ''}"
            return f"{BESIDE}equal {'within a tolerance' if rounds or not self.subject.exact else 'bits but for that'}, as eager mode is not equal to itself ({named})"
        return f"{BESIDE}{'equal bits' if self.subject.exact else f'equal within a tolerance, {self.subject.why}'}"

    def _run(self, side: Callable, seen: Any) -> Any:
        """One of the two, from the state before, which is put back."""
        try:
            side(seen)
        except Error:
            raise
        except Exception as problem:  # noqa: BLE001: whatever a kernel or the user's code raises
            if is_of_a_handler(problem):
                raise
            seen.problem = problem
        finally:
            self.contents.put_back()
            self.subject.model.follow(of_any_kind=True)
        return seen

    # ---- the two steps

    def _planned(self, seen: Left) -> None:
        loss, aux = self.subject.run(self.leaves, seen)
        seen.see(LOSS, loss)
        self._see_aux(seen, pytree.tree_leaves(aux))
        self._see_rest(seen)

    def _eager(self, seen: Any, around: Callable = contextlib.nullcontext) -> None:
        options, model = self.step._options, self.subject.model
        trained = {name: model.parameters[name] for name in self.subject.updates.groups}
        for noted in self.note.tensors:
            if noted.tensor.is_leaf and noted.tensor.grad is not None:
                noted.tensor.grad = None
        for p in model.parameters.values():
            p.grad = None
        losses, auxes = [], []
        batch = self.spec.batch_of(list(map(alias_of, self.leaves)))
        with torch.enable_grad(), around():
            for part in batch if options.accumulate > 1 else [batch]:
                loss, aux = scalar_loss(self.step._loss_fn(self.step._model, part))
                loss.backward()
                losses.append(loss.detach())
                auxes.append(aux)
        aux = pytree.tree_leaves(auxes if options.accumulate > 1 else auxes[0])
        seen.see(LOSS, sum(losses[1:], losses[0]))
        if options.clip_value is not None:
            torch.nn.utils.clip_grad_value_(list(trained.values()), options.clip_value)
        if options.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(trained.values()), options.clip_norm)
        self._see_gradients(seen, trained)
        with torch.no_grad():
            call_step(self.step._optimizer)
        self._see_aux(seen, aux)  # behind the update, which views of parameters show
        self._see_rest(seen)
        seen.end()

    def _see_gradients(self, seen: Any, trained: dict[str, torch.Tensor]) -> None:
        """Sees the gradients of eager mode. Where they are the plan's but for rounding, the update takes the plan's."""
        if self.subject.native:
            return
        for name, p in trained.items():
            if p.grad is None:
                continue
            seen.see(GRADIENT + name, p.grad)
            mine = getattr(seen, "mine", Left()).values.get(GRADIENT + name)
            if not self.subject.exact and mine is not None and mine.shape == p.grad.shape:
                p.grad.copy_(mine)

    # ---- what they leave

    def _see_aux(self, seen: Any, aux: list[Any]) -> None:
        for k, leaf in enumerate(aux):
            if isinstance(leaf, torch.Tensor):
                seen.see(f"aux {k}", leaf)

    def _see_rest(self, seen: Any) -> None:
        subject, model = self.subject, self.subject.model
        if not subject.native:
            seen.see("the random stream", subject.random_state(), True)
        model.follow(of_any_kind=True)
        exact = None if subject.native else True  # updates are the plan's gradients'
        for name, buffer in model.buffers.items():
            seen.see(f"{BUFFER}{name}", buffer)
        if subject.native:
            self._see_moves(seen)
        for name in model.parameters:
            if name in subject.written and not subject.native:
                seen.see(PARAMETER + name, model.parameters[name], exact)
        for name in subject.updates.groups:
            state = self.step._optimizer.state.get(model.parameters[name])
            for key, tensor in tensors_in(state if isinstance(state, dict) else None).items():
                seen.see(f"{STATE}{key} of {name}", tensor, exact)
        for name, now in subject.others:
            seen.see(name, now())
        for name, tensor, place in self.others:
            now = place.now() if place is not None and place.room in self.of_modules else tensor
            seen.see(name, now if isinstance(now, torch.Tensor) else None)
        for name, tensor, _ in self.larger:
            seen.see(f"the checksum of {name}", checksum(tensor))
        for name, value in self._attributes():
            seen.see(f"{name}, newly set,", value)

    def _see_moves(self, seen: Any) -> None:
        """Sees how parameters moved under the native engine."""
        subject, model = self.subject, self.subject.model
        if isinstance(seen, Left):
            for name in subject.updates.groups:
                seen.see(PARAMETER + name, model.parameters[name])
            return
        places = {id(tensor): alias for tensor, alias, _ in self.contents.tensors}
        moves = Moves({})
        for name in subject.updates.groups:
            p = model.parameters[name]
            alias = places[id(p)]
            moves.before[name], moves.after[name] = (self.contents.before(alias) if p.numel() else p.detach()), p.detach()
            moment = (self.step._optimizer.state.get(p) or {}).get("exp_avg")
            if moment is not None:
                moves.moments[name] = moment
            if isinstance(seen, Again):
                seen.see(PARAMETER + name, p)
            seen.seen.add(PARAMETER + name)
        if isinstance(seen, Beside):
            for name, said in moves.differences(seen.mine).items():
                seen.differ[name], seen.said[name] = model.parameters[name.removeprefix(PARAMETER)].detach().clone(), said
                seen.far.add(name)

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """Entries of rooms that were given another value; the optimizer's state was seen by parameter."""
        optimizer, names = self.step._optimizer, _Names(self.note)
        states = {id(optimizer.state), *map(id, optimizer.state.values())}
        for change in self.note.changes():
            owner = id(change.room.owner)
            if owner in states or change.room in self.of_modules or change.room.of_package:
                continue
            if isinstance(change.room, Set) and len(change.room.read().keys() - change.room.seen.keys()) > 1:
                continue  # nobody can say which is which
            if change.room.owner is vars(optimizer) and change.key in _NOTED_BY_STEP:
                continue
            for k, leaf in enumerate(pytree.tree_leaves(change.after)):
                if id(leaf) not in self.of_optimizer:
                    yield f"'{names.of(change)}'{f' {k}' if k else ''}", leaf


class _Names:
    """Names of entries, each another one, and the same in both steps."""

    def __init__(self, note: Note) -> None:
        self.tensors = note.reachable.tensors
        self.given: collections.Counter[str] = collections.Counter()

    def of(self, change: Change) -> str:
        """Hooks have numbers that count all hooks of the process: two steps put the same hook under two of them. States of parameters have these for keys."""
        room, key, name = change.room, change.key, change.name
        if change.before is MISSING and "_hooks" in room.path.rpartition(".")[2] and isinstance(key, int):
            name = f"{room.path}[{[key for key in room.read() if key not in room.seen].index(key)} more]"
        elif isinstance(key, torch.Tensor) and id(key) in self.tensors:
            name = f"{room.path}[{name_of(self.tensors[id(key)])}]"
        self.given[name] += 1
        return name if self.given[name] == 1 else f"{name} ({self.given[name]})"


def _is_memory(problem: Exception) -> bool:
    return isinstance(problem, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(problem)


class _Filled(TorchDispatchMode):
    """Memory that nobody has written has contents of its own: what depends on them is no step's."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name in _FRESH and isinstance(out, torch.Tensor) and out.layout is torch.strided and out.numel():
            out.fill_(7 if not out.dtype.is_floating_point and not out.dtype.is_complex else 1.9375)
        return out


_FRESH = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided", "aten::empty_permuted"}
