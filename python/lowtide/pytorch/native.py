"""The native engine: a step in Lowtide's own CPU runtime, on the model's and the optimizer's own tensors.

    step = lowtide.compile_step(model, loss_fn, optimizer, batch, engine="native")

The forward pass comes from torch.export (exported.py) through the library's door; gradients, rewrites and the plan are the
library's own, as for a model file. Parameters, optimizer state and buffers are lent to the session (sessions.py): they
are PyTorch's tensors before, during and after a step, so saving, resuming and learning-rate schedules are as ever. The
batch is copied into the arena, results are copied out of it.

Results are those of eager mode up to rounding, not bit for bit: other kernels, another order of sums. Dropout draws from
a stream of its own, whose seed for each step comes from PyTorch's default generator: torch.manual_seed repeats a run.

A step is done or not begun: indices of the batch are checked before it (indices.py) and kernels do not fail but for labels
that the step computes, Ctrl-C waits, and with check_finite="loss" a loss that is not finite, or has such a label,
ends the step before the first update, buffers as before (lowtide_session_run_if_finite). Without it such a label ends
the session where it is found; the tensors are the caller's, so the next step opens another.
"""

from __future__ import annotations

import math
import pathlib
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import _library, cache
from ..errors import BadInput, Error, Infeasible, Limit, Unsupported, Usage
from ..plans import Plan, bytes_text, search
from ..sessions import INPUTS, OUTPUTS, Session, UpdateNow
from .entering import handlers_wait
from .exported import Exported, export_step
from .native_check import TORCH, times
from .optimizers import KnownUpdates, state_as_before
from .options import StepOptions
from .guards import Entry, entries_of
from .held_places import Kind
from .step import Memory, Step
from .trace import Model
from .untouched import Note
from .written_out import helps

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
STATES = {"adam_m": "exp_avg", "adam_v": "exp_avg_sq", "sgd_momentum": "momentum_buffer"}
RANDOM = {"Dropout", "RandomUniform"}


def planning_of(updates: KnownUpdates) -> dict[str, Any]:
    """The optimizer as lowtide_plan_make takes it. Raises Unsupported."""
    groups = [updates.group(name) for name in updates.groups]
    for option, plain in (("maximize", False), ("amsgrad", False), ("dampening", 0)):
        if any(group.get(option, plain) != plain for group in groups):
            raise Unsupported(f"an optimizer with {option}={groups[0].get(option)} has no update in the native engine; {TORCH}")
    if not updates.momentum:
        return {"optimizer": "adamw"}
    with_momentum = {group["momentum"] != 0 for group in groups}
    if len(with_momentum) > 1:
        raise Unsupported(f"groups with and without momentum together have no update in the native engine; {TORCH}")
    return {"optimizer": "sgd", "momentum": max(float(group["momentum"]) for group in groups)}


def update_now(updates: KnownUpdates, name: str, state: dict[str, torch.Tensor]) -> UpdateNow:
    """What the optimizer would do to a parameter at this moment."""
    group = updates.group(name)
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    if updates.momentum:
        return UpdateNow(rate, decay, 1, momentum=float(group["momentum"]), nesterov=bool(group["nesterov"]))
    beta1, beta2 = (float(beta) for beta in group["betas"])
    coupled = not group.get("decoupled_weight_decay", isinstance(updates.optimizer, torch.optim.AdamW))
    return UpdateNow(rate, decay, int(state["step"]) + 1, beta1=beta1, beta2=beta2, epsilon=float(group["eps"]),
                     coupled=coupled)


class _Folder:
    """A temporary folder, there as long as this is. Python's own warns where nobody closes it."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="lowtide-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass
class _NativeReady:
    """A plan that can run natively: for one shape of batch."""

    plan: Plan
    exported: Exported
    updates: KnownUpdates
    updated: list[str]
    empty: list[str]  # parameters without elements, whose state grows alone
    model: Model
    folder: _Folder  # of the program, whose constants the session reads
    places: dict[str, tuple[str, str]]  # lent value -> ("parameter", "buffer" or the state's key; name in the model)
    random: bool
    session: Session | None = None
    addresses: dict[str, int] = field(default_factory=dict)  # what is lent now
    fed: set[str] = field(default_factory=set)  # inputs that the step reads
    outputs: dict[str, tuple[torch.dtype, tuple[int, ...]]] = field(default_factory=dict)


def _read(path: pathlib.Path, options: dict[str, Any], asked: StepOptions, title: str) -> Plan:
    """The plan of an exported program, or the one in the cache. Raises Unsupported, Infeasible, Limit."""
    library, model = _library.library(), _library.Handle("lowtide_model_free")
    try:
        _library.check(library.lowtide_model_read(str(path).encode(), b'{"training": true}', model.place))
    except BadInput as problem:
        raise Unsupported(_without_path(problem, path)) from None
    key = cache.key("native", library.lowtide_model_text(model).decode(), options, title)
    kept = cache.load(key) if asked.cache else None
    if kept is not None:
        return kept[0]
    try:
        plan = _planned(model, options, asked)
    except BadInput as problem:
        raise Unsupported(_without_path(problem, path)) from None
    except (Infeasible, Limit) as problem:
        raise type(problem)(str(problem).replace(str(path), title)) from None
    if asked.cache and not plan.cut_short:
        cache.store(key, plan, {})
    return plan


def _planned(model: _library.Handle, options: dict[str, Any], asked: StepOptions) -> Plan:
    """Order and reruns first; where they miss the budget, parts too. Lent memory never moves."""
    try:
        return search(model, {**options, "more_levers": False}, asked.progress)
    except (Infeasible, Limit):
        if asked.budget is None:
            raise
    return search(model, {**options, "forbid": "swap"}, asked.progress)


def _without_path(problem: Exception, path: pathlib.Path) -> str:
    return f"the native engine cannot run this step: {str(problem).removeprefix(f'{path}: ')}; {TORCH}"


def _hold_statistics(plan: Plan, exported: Exported, model: Model) -> None:
    """Raises Unsupported where the plan keeps other buffers than the step does."""
    kept = {exported.named[value]: count for value, count in plan.updates_of_given().items()
            if exported.named.get(value) in model.buffers}
    for name in sorted({*kept, *exported.kept}):
        there, wanted = kept.get(name, 0), exported.kept.get(name, 0)
        if there < wanted or not wanted:  # in parts an op writes more than once
            raise Unsupported(f"the step writes the statistics '{name}' {times(wanted)}, the native engine {times(there)}; {TORCH}")


def _updated(plan: Plan, exported: Exported, model: Model) -> tuple[list[str], list[str]]:
    """The parameters that the plan updates, and those without elements. Raises Unsupported where eager mode updates others."""
    written = {exported.named[value] for value in plan.updates_of_given() if value in exported.named} & set(model.parameters)
    for name in model.parameters:
        if (name in written) != (name in exported.with_gradient) and model.parameters[name].numel():
            has = "has a gradient (of zeros, perhaps)" if name in exported.with_gradient else "has no gradient"
            raise Unsupported(f"'{name}' {has} in eager mode, and the native engine does otherwise; {TORCH}")
    names = exported.with_gradient
    return [n for n in names if model.parameters[n].numel()], [n for n in names if not model.parameters[n].numel()]


def _refuse_options(options: StepOptions) -> None:
    if options.check_finite is True:
        raise Unsupported("check_finite=True, which looks at gradients too, is not there in the native engine; "
                          "check_finite='loss' is, and engine='torch' has both")
    for name, wanted in (("clip_norm", None), ("clip_value", None), ("data_parallel", False), ("swap", None), ("split", None)):
        if getattr(options, name) != wanted:
            raise Unsupported(f"{name} is not there in the native engine; engine='torch' has it")
    if torch.is_autocast_enabled("cpu"):
        raise Unsupported("autocast is not there in the native engine; engine='torch' has it")


_NOWHERE = torch.empty(1, dtype=torch.complex128)


class NativeStep(Step):
    """A planned training step that Lowtide's own runtime runs."""

    engine = "native"

    # ---- making it

    def _prepare(self) -> None:
        self._open(self._now)  # kernels are made: an op without one is refused now

    def _make(self, batch: Any, note: Note) -> Any:
        _refuse_options(self._options)
        model = Model.of(self._model)
        for kind, found in (("parameter", model.parameters), ("buffer", model.buffers)):
            for name, tensor in found.items():
                if tensor.device.type != "cpu" or not tensor.is_contiguous():
                    raise Unsupported(f"{kind} '{name}' is on {tensor.device} with strides {tensor.stride()}; the native "
                                      f"engine runs on the CPU, on tensors without gaps; {TORCH}")
        updates = KnownUpdates(self._optimizer, model.parameters)
        trained = [name for name in model.parameters if name in updates.groups]
        for name in trained:
            if model.parameters[name].dtype not in (torch.float32, torch.float64):
                raise Unsupported(f"parameter '{name}' is {model.parameters[name].dtype}: the native engine keeps an "
                                  f"optimizer state of f32 beside it, PyTorch one of its own type; {TORCH}")
        options = {"train": True, "loss": "model", "keep_outputs": True, "threads": torch.get_num_threads(),
                   **planning_of(updates), **self._options.searching()}
        folder = _Folder()
        exported, plan = self._exported(model, trained, batch, pathlib.Path(folder.name), options)
        _hold_statistics(plan, exported, model)
        given = {value.name: value for value in plan.given()}
        updated, empty = _updated(plan, exported, model)
        places = dict(self._places(exported, given))
        return _NativeReady(plan, exported, updates, updated, empty, model, folder, places, bool(RANDOM & plan.op_kinds()))

    def _exported(self, model: Model, trained: list[str], batch: Any, folder: pathlib.Path, options: dict[str, Any]) -> tuple[Exported, Plan]:
        refused = ""
        while True:
            exported = export_step(model, self._loss_fn, trained, batch, self._options.accumulate, folder, refused)
            try:
                return exported, _read(exported.path, {**options, "loss_output": exported.loss}, self._options, type(self._model).__name__)
            except Unsupported as problem:
                if refused or not helps(str(problem)):
                    raise
                refused = str(problem)

    @staticmethod
    def _places(exported: Exported, given: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
        """The values that are there before the step and are PyTorch's tensors of floats."""
        for value in given.values():
            if not value.dtype.startswith(("f", "bf")):
                continue
            state, _, rest = value.name.partition("/")
            if state in STATES and rest in exported.named:
                yield value.name, (STATES[state], exported.named[rest])
            elif value.name in exported.named:
                yield value.name, ("tensor", exported.named[value.name])

    def _holds_for(self, made: _NativeReady, note: Note) -> tuple[list[Entry], set[tuple[int, Any]], list[Kind]]:
        kinds = [Kind(e.place, e.held) for e in made.exported.constants if e.place is not None]
        carried = made.exported.carried
        left = {(id(write.room.owner), write.key) for write in carried.writes}
        note.read.blind = True  # torch.export ran the code
        return [*carried.entries(), *entries_of(self._model, self._loss_fn, note.read)], set(note.touched) - left | carried.owns(), [*kinds, *carried.kinds()]

    def _open(self, ready: _NativeReady) -> Session:
        if ready.session is None:
            self._release()  # of other shapes: one arena at a time
            try:
                ready.session = Session(ready.plan, list(ready.places), model_folder=ready.folder.name,
                                        threads=torch.get_num_threads())
            except (BadInput, Usage) as problem:
                raise Unsupported(f"the native engine cannot run this step: {problem}; {TORCH}") from None
            ready.addresses = {}
            ready.fed = {value.name for value in ready.session.values(INPUTS)}
            ready.outputs = {value.name: (DTYPES[value.dtype], value.dims) for value in ready.session.values(OUTPUTS)}
        return ready.session

    def _for(self, batch: Any) -> tuple[list[torch.Tensor], Any]:
        """Where the program has contents of tensors that are others now, it is exported anew."""
        leaves, ready = super()._for(batch)
        ready.model.follow()
        stale = [taken.name for taken in ready.exported.taken if taken.changed()]
        if not stale:
            return leaves, ready
        new = [name for name in stale if name not in self._told]
        if new:
            self._told |= set(new)
            warnings.warn(f"lowtide: the contents of {', '.join(new)} have changed: a native plan holds for tensors of whole numbers and for those "
                          "from outside of the model, so the step is planned anew for each; a buffer of floats, or a tensor of the batch, "
                          "needs no new plan", stacklevel=3)
        if ready.session is not None:
            ready.session.close()
        self._steady = None
        for alike in self._alike.values():
            alike[:] = [(guards, kept) for guards, kept in alike if kept is not ready]
        self._ready = {other: kept for other, kept in self._ready.items() if kept is not ready}
        return super()._for(batch)

    def release(self) -> None:
        """Gives the arena back, whichever shape it is for; the next step takes it again."""
        with self._turn.taken():
            self._release()

    def _release(self) -> None:
        for ready in self._ready.values():
            if ready.session is not None:
                ready.session.close()
                ready.session = None

    # ---- what it is

    @property
    def plan(self) -> Plan:
        return self._now.plan

    @property
    def addresses(self) -> bool:
        return True

    @property
    def reserve_bytes(self) -> int:
        return 0

    @property
    def source(self) -> str:
        """There is no generated code: the plan itself runs."""
        return ""

    def _note(self) -> str:
        session = self._now.session
        if session is None:
            with self._turn.taken():
                session = self._open(self._now)
        lent = session.lent_bytes
        return (f"engine native{self.why and f' ({self.why})'}: {bytes_text(self.plan.arena_bytes - lent)} arena with "
                f"planned addresses beside {bytes_text(lent)} of parameters, buffers and state{self.rehearsal and f'; {self.rehearsal}'}")

    # ---- running

    @staticmethod
    def _tensor(ready: _NativeReady, place: tuple[str, str]) -> torch.Tensor:
        kind, name = place
        if kind != "tensor":
            return ready.updates.state(name)[kind]
        found = ready.model.parameters.get(name)
        return ready.model.buffers[name] if found is None else found

    @staticmethod
    def _changes(ready: _NativeReady, place: tuple[str, str]) -> bool:
        kind, name = place
        return kind != "tensor" or name in ready.updated or name in ready.exported.kept

    def _lend(self, ready: _NativeReady, session: Session) -> list[torch.Tensor]:
        """Says where lent values lie that lie elsewhere now; the tensors that a step changes."""
        tensors = []
        for value, place in ready.places.items():
            tensor = self._tensor(ready, place)
            address = tensor.data_ptr() or _NOWHERE.data_ptr()  # one without elements lies nowhere
            if ready.addresses.get(value) != address:
                if not tensor.is_contiguous() or tensor.device.type != "cpu":
                    raise Usage(f"{place[0]} of '{place[1]}' is on {tensor.device} with strides {tensor.stride()}; the "
                                "native engine runs on the CPU, on tensors without gaps")
                session.lend(value, address, tensor.nbytes)
                ready.addresses[value] = address
            if self._changes(ready, place):
                tensors.append(tensor)
        return tensors

    def _feed(self, ready: _NativeReady, session: Session, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """All that a step needs; the tensors that it changes. Raises IndexError for a batch's index that is out of range."""
        ready.exported.indices.check(ready.model, leaves)
        ready.model.follow()
        changed = self._lend(ready, session)
        for name, leaf in zip(ready.exported.inputs, leaves, strict=True):
            if name in ready.fed:
                plain = leaf.detach().contiguous()
                session.set(name, plain.data_ptr(), plain.nbytes)
        for name in ready.empty:
            ready.updates.state(name)
        for name in ready.updated:
            ready.updates.state(name)  # made, if it is gone
            session.set_update(f"model.{name}", update_now(ready.updates, name, self._optimizer.state[
                ready.model.parameters[name]]))
        if ready.random:
            session.set_seed(int(torch.empty((), dtype=torch.int64).random_()))
        return changed

    def _called(self, batch: Any) -> Any:
        return self._once(*self._for(batch))

    def _once(self, leaves: list[torch.Tensor], ready: Any) -> Any:
        self._now = ready
        with torch.no_grad(), handlers_wait():
            session = self._open(ready)
            changed = self._feed(ready, session, leaves)
            if not self._done(session, changed):
                ready.updates.forget_begun()
                problem = FloatingPointError("the loss is not finite")
                problem.add_note("lowtide: the model is as before the step")
                raise problem
            ready.updates.begun.clear()
            self._after(ready, changed)
            arena, kept = ready.plan.arena_bytes - session.lent_bytes, self._kept_bytes(ready, leaves)
            self.memory = Memory(arena, session.lent_bytes, kept, arena)
            outputs = [self._result(ready, session, name) for name in ("loss", *ready.exported.aux)]
        self._optimizer._opt_called = True  # what schedulers ask: the optimizer has made a step
        leaves = [kept if out is None else out
                  for out, kept in zip(outputs[1:], ready.exported.aux_leaves, strict=True)]
        if not ready.exported.pair:
            return outputs[0].reshape(ready.exported.loss_shape)
        return outputs[0].reshape(ready.exported.loss_shape), pytree.tree_unflatten(leaves, ready.exported.aux_spec)

    def _done(self, session: Session, changed: list[torch.Tensor]) -> bool:
        """Runs the step, or nothing if the loss is to be finite and is not."""
        try:
            if self._options.check_finite:
                return session.run_if_finite("loss")
            session.run()
            return True
        except Error:
            torch.autograd.graph.increment_version(changed)  # some of them, perhaps
            self._release()  # the session may be over; the next step opens another
            raise

    @staticmethod
    def _kept_bytes(ready: _NativeReady, leaves: list[torch.Tensor]) -> int:
        """Beside the plan: the caller's batch, which is copied into the arena, and results, which are copied out of it."""
        results = [ready.outputs[name] for name in ("loss", *ready.exported.aux) if name is not None]
        return sum(leaf.nbytes for leaf in leaves) + sum(math.prod(dims) * dtype.itemsize for dtype, dims in results)

    @staticmethod
    def _result(ready: _NativeReady, session: Session, name: str | None) -> torch.Tensor | None:
        if name is None:
            return None
        dtype, dims = ready.outputs[name]
        made = torch.empty(dims, dtype=dtype)
        session.get(name, made.data_ptr(), made.nbytes)
        return made

    def _after(self, ready: _NativeReady, changed: list[torch.Tensor]) -> None:
        """What PyTorch is to know of a step: versions of tensors, counts of steps and of batches."""
        torch.autograd.graph.increment_version(changed)
        steps = []
        for name in (*ready.updated, *ready.empty):
            state = self._optimizer.state.get(ready.model.parameters[name], {})
            state.pop("lowtide_first", None)
            if "step" in state:
                steps.append(state["step"])
        if steps:
            torch._foreach_add_(steps, 1)
        for name, amount in ready.exported.counts.items():
            ready.model.buffers[name].add_(amount)
        ready.exported.carried.write([], [])

    def _rehearsed(self, batch: Any) -> float:
        leaves, ready = self._for(batch)
        self._now = ready
        state = torch.get_rng_state()
        with torch.no_grad(), state_as_before(self._optimizer):
            session = self._open(ready)
            try:
                self._feed(ready, session, leaves)
            finally:
                torch.set_rng_state(state)
            return session.rehearse()


def native_step(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, batch: Any,
                options: StepOptions) -> NativeStep:
    """Raises Unsupported, naming what the engine cannot run, before anything of the model has changed."""
    return NativeStep(model, loss_fn, optimizer, batch, options)
