"""Units: what is planned, measured and run as one op.

A unit is one call, or a call with those that write its result in place (`empty_like, bernoulli_, div_` of a dropout;
a batch norm and the ReLU on it), so that no write in place is left on what the step makes: a unit's results depend on
its operands alone, and it may run again. Where a value is read before it is written, the write makes a new value
instead: by the op's functional form, or in a copy.

    before the step     written by one unit after the other: parameters, buffers, state (`updates`)
    running statistics  a batch norm writes them when it runs first; when it runs again it gets copies (`statistics`)
    random numbers      units that draw are chained: each takes the stream's state from the one before as an operand
                        of its own, so the first runs keep their order, and a rerun finds the state it began with

The optimizer's update of a parameter is a unit too (optimizers.py). Tests: tests/python/test_torch_traps.py.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch._prims_common import make_contiguous_strides_for

from ..errors import Unsupported
from .calls import INPUT, MADE, STATE, Call, Program, Ref, Storage, functional
from .op_traits import ASSERTIONS
from .optimizers import Updates
from .trace import BACKWARD, FORWARD, Trace

UPDATE = "update"
FAR = 64  # units: a write in place further from where its value was made is a unit of its own


@dataclass(eq=False)
class Unit:
    """`reads` and `makes` are storages; `update` is the optimizer's function on tensors, in place of calls."""

    number: int
    calls: list[Call]
    phase: str
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    statistics: list[int] = field(default_factory=list)
    after: set[int] = field(default_factory=set)  # units that run before, beyond what operands say
    once: bool = False  # it may not run again, though nothing of it says so
    random: bool = False
    state_in: int | None = None  # a storage with the random stream's state
    state_out: int | None = None
    update: Callable | None = None
    update_tensors: list[int] = field(default_factory=list)
    in_place: dict[int, Call] = field(default_factory=dict)  # by the operand whose place the result takes
    what: str = ""  # of an update: the parameter
    gradients: list[int] = field(default_factory=list)  # of an update: storages
    runs_alone: bool = True  # whether it can be measured apart from a step

    @property
    def asserts(self) -> bool:
        """Whether it is there to fail."""
        schemas = [getattr(call.target, "_schema", None) for call in self.calls]
        return any(schema is not None and schema.name in ASSERTIONS for schema in schemas)

    @property
    def place(self) -> str:
        return self.calls[0].place if self.calls else f"the update of {self.what}"

    @property
    def name(self) -> str:
        return "+".join(call.name.removeprefix("aten.") for call in self.calls if not call.view) or "update"


def clone_exactly(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def clone_as(tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """A copy with these strides, as autograd makes one of a gradient that lies otherwise than its parameter."""
    return torch.empty_strided(tensor.size(), stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


class _Builder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.units: list[Unit | None] = []  # None: it went into a later one
        self.maker: dict[int, int] = {}  # storage -> unit
        self.readers: dict[int, set[int]] = {}  # storage -> units
        self.writers: dict[int, list[int]] = {}  # storage before the step -> units
        self.successor: dict[int, int] = {}  # storage -> the one that has its value after a write
        self.moved: dict[int, int] = {}  # tensor -> the same view in the successor

    # ---- tensors after writes

    def now(self, tensor: int) -> int:
        """The tensor that shows what this one does, after all writes so far."""
        while self.program.tensors[tensor].storage in self.successor:
            if tensor not in self.moved:
                self.moved[tensor] = self.again(tensor)
            tensor = self.moved[tensor]
        return tensor

    def again(self, tensor: int) -> int:
        """The view of a written storage, made in its successor. A call that gives several views (chunk, unbind) makes all of
        them there: a name of the old storage among its outputs would show the new one."""
        old = self.program.tensors[tensor]
        storage = self.successor[old.storage]
        if old.recipe is None:
            return self.program.storages[storage].base
        recipe = copy.copy(old.recipe)
        recipe.args, recipe.kwargs = old.recipe.with_tensors(
            lambda t: self.into(t, storage) if self.program.tensors[t].storage == old.storage else t)
        recipe.outs = [self.copied(out, index, recipe, old.storage) for index, out in enumerate(old.recipe.outs)]
        return recipe.outs[old.index]

    def copied(self, out: int | None, index: int, recipe: Call, storage: int) -> int | None:
        """An output of a call that gives views, in the successor of its storage."""
        if out is None or self.program.tensors[out].storage != storage:
            return None
        self.moved[out] = self.program.add_tensor(self.program.tensors[out], self.successor[storage], recipe, index)
        return self.moved[out]

    def into(self, tensor: int, storage: int) -> int:
        if tensor not in self.moved:
            self.moved[tensor] = self.again(tensor)
        return self.moved[tensor]

    # ---- units

    def storages_read(self, call: Call, own: set[int]) -> list[int]:
        found = [self.program.tensors[t].storage for t in call.tensors()]
        return [s for s in dict.fromkeys(found) if s not in own]

    def add(self, calls: list[Call]) -> Unit:
        unit = Unit(len(self.units), calls, calls[0].phase)
        self.units.append(unit)
        self.settle(unit)
        return unit

    def settle(self, unit: Unit) -> None:
        """Reads, makes and the rest from the unit's calls."""
        own: set[int] = set()
        reads: dict[int, None] = {}
        updates: dict[int, None] = {}
        for call in unit.calls:
            for s in self.storages_read(call, own):
                reads[s] = None
            for t in call.writes:
                s = self.program.tensors[t].storage
                if s not in own:
                    updates[s] = None
            own |= {self.program.tensors[o].storage for o in self.program.made_by(call)}
        unit.reads, unit.makes, unit.updates = list(reads), list(dict.fromkeys(own)), list(updates)
        unit.statistics = list(dict.fromkeys(self.program.tensors[t].storage for c in unit.calls for t in c.hidden))
        unit.random = any(call.random for call in unit.calls)
        for s in unit.reads:
            self.readers.setdefault(s, set()).add(unit.number)
        for s in unit.makes:
            self.maker[s] = unit.number
        for s in (*unit.updates, *unit.statistics):
            self.note_write(unit, s)

    def note_write(self, unit: Unit, storage: int) -> None:
        found = self.program.storages[storage]
        if found.role == INPUT:
            raise Unsupported(f"{unit.place}: '{found.name}' is written in place: the batch is the caller's; "
                              "write to a copy of it")
        before = self.writers.setdefault(storage, [])
        if storage in unit.statistics:  # not seen by the planner: keep the order of all that touch them
            unit.after |= ({*self.readers.get(storage, ()), *before}) - {unit.number}
        else:
            unit.after |= {u for u in before if storage in self.units[u].statistics}
        if unit.number not in before:
            before.append(unit.number)

    def take(self, call: Call) -> None:
        call.exchange(self.now)
        call.writes = tuple(self.now(t) for t in call.writes)
        call.hidden = tuple(self.now(t) for t in call.hidden)
        if call.view:
            return
        own = tuple(t for t in call.hidden if self.program.storage_of(t).role == MADE)
        if own:  # an instance norm repeats its statistics, and takes the mean of what a batch norm has written into them
            call.writes, call.hidden = (*call.writes, *own), tuple(t for t in call.hidden if t not in own)
        if call.writes:
            call.outs = [self.now(o) if o is not None else None for o in call.outs]
        made = [t for t in call.writes if self.program.storage_of(t).role == MADE]
        if not made:
            self.read_statistics_in_order(self.add([call]))
        elif len(call.writes) == 1 and self.joins(call, made[0]):
            pass
        elif len(call.writes) == 1 and self.functional(call, made[0]):
            pass
        else:
            self.in_copies(call, made)

    def read_statistics_in_order(self, unit: Unit) -> None:
        """A reader of statistics comes after the norms that have written them."""
        for s in unit.reads:
            if s not in unit.statistics:
                unit.after |= {u for u in self.writers.get(s, ()) if s in self.units[u].statistics
                               and u != unit.number}

    # ---- writes on what the step makes

    def joins(self, call: Call, tensor: int) -> bool:
        """Adds the write to the unit that made the value, if nobody has read it yet."""
        storage = self.program.tensors[tensor].storage
        number = self.maker[storage]
        unit = self.units[number]
        later = [u for u in self.units[number + 1:] if u is not None]
        if self.readers.get(storage, set()) - {number}:
            return False
        operands = self.storages_read(call, set(unit.makes))
        early = all(self.maker.get(s, -1) < number for s in operands)
        unread = not any(self.readers.get(s, set()) - {number} for s in unit.makes)
        rewritten = any(w > number for s in (*unit.reads, *operands) for w in self.writers.get(s, ()))
        drew = (unit.random or call.random) and any(u.random for u in later)
        if rewritten or drew or (call.random and not early) or not (early or (unread and len(later) < FAR)):
            return False
        calls = [*unit.calls, call]
        if early:
            unit.calls = calls
            self.settle(unit)
            return True
        self.forget(unit)
        self.add(calls)
        return True

    def forget(self, unit: Unit) -> None:
        self.units[unit.number] = None
        for s in unit.reads:
            self.readers[s].discard(unit.number)
        for writers in self.writers.values():
            if unit.number in writers:
                writers.remove(unit.number)

    def functional(self, call: Call, tensor: int) -> bool:
        """The functional form, whose result is the storage's next value, if the whole of it is written."""
        storage = self.program.storage_of(tensor)
        other = functional(call.target)
        if other is None or storage.base != tensor or call.random or call.hidden:
            return False
        known = self.program.layouts and self.program.layouts.made_by(self.program, other, call.args, call.kwargs)
        if known and known.stride != self.program.tensors[tensor].stride:  # the write leaves the value where it lies
            return False
        made = self.program.add_tensor(self.program.tensors[tensor], None)
        new = Call(other, call.args, call.kwargs, [made], False, call.phase, call.place)
        self.add([new])
        self.successor[storage.id] = self.program.tensors[made].storage
        return True

    def in_copies(self, call: Call, written: list[int]) -> None:
        """Copies what is written, and writes there."""
        calls: list[Call] = []
        for storage in dict.fromkeys(self.program.tensors[t].storage for t in written):
            base = self.program.storages[storage].base
            made = self.program.add_tensor(self.program.tensors[base], None)
            calls.append(Call(clone_exactly, (Ref(base),), {}, [made], False, call.phase, call.place))
            self.successor[storage] = self.program.tensors[made].storage
        wanted = set(call.writes)
        new = copy.copy(call)
        new.args, new.kwargs = call.with_tensors(lambda t: self.now(t) if t in wanted else t)
        new.writes = tuple(self.now(t) for t in call.writes)
        new.outs = [self.now(o) if o is not None else None for o in call.outs]
        self.add([*calls, new])


def without_writes(program: Program) -> None:
    """Writes in place on the whole of what the step makes become new values, where the op has a functional form."""
    builder, calls = _Builder(program), []
    for call in program.calls:
        call.args, call.kwargs = call.with_tensors(builder.now)
        call.writes = tuple(builder.now(t) for t in call.writes)
        call.hidden = tuple(builder.now(t) for t in call.hidden)
        if call.writes:
            call.outs = [builder.now(o) if o is not None else None for o in call.outs]
        made = [t for t in call.writes if program.storage_of(t).role == MADE]
        new = len(call.writes) == 1 and bool(made) and builder.functional(call, made[0])
        calls.append(builder.units[-1].calls[0] if new else call)
    program.calls = calls
    program.outputs = [builder.now(o) if o is not None else None for o in program.outputs]


def _chain_random(program: Program, units: list[Unit]) -> None:
    """The stream's state goes from each unit that draws to the next, as a storage; the first is there before."""
    drawing = [unit for unit in units if unit.random]
    for k, unit in enumerate(drawing):
        state = len(program.storages)
        program.storages.append(Storage(state, -1, program.device.state_bytes, MADE if k else STATE, f"random.{k}"))
        unit.state_in = state
        if k:
            drawing[k - 1].state_out = state


def _keep_what_is_read(program: Program, units: list[Unit]) -> None:
    """What only its own unit reads is workspace and no result."""
    read = {s for unit in units for s in unit.reads} | {program.tensors[o].storage for o in program.outputs
                                                         if o is not None}
    for unit in units:
        unit.makes = [s for s in unit.makes if s in read]


def one_by_one(program: Program) -> list[Unit]:
    """A unit for each call of a graph without writes in place; those that draw run once, in the order of the graph."""
    builder = _Builder(program)
    for call in program.calls:
        builder.take(call)
    units = _needed(program, [unit for unit in builder.units if unit is not None])
    _keep_what_is_read(program, units)
    drawing = [unit for unit in units if unit.random]
    for before, unit in zip(drawing, drawing[1:], strict=False):
        unit.after.add(before.number)
    return units


# Beside pointwise ops: kernels that read a row before they write it. Measuring holds their bits against the plain form.
ROW_BY_ROW = {"aten::_log_softmax_backward_data": 0, "aten::_softmax_backward_data": 0, "aten::_log_softmax": 0,
              "aten::_softmax": 0}


@functools.cache
def _writing_form(target: torch._ops.OpOverload, position: int, key: str) -> tuple[Callable, str] | None:
    """The op that leaves its result where the operand at `position` lies, and the name under which it takes that once more, or ""; None where no
    kernel does."""
    namespace, name = target._schema.name.split("::")
    if position == 0:
        packet = getattr(getattr(torch.ops, namespace), name + "_", None)
        found = getattr(packet, target._overloadname, None) if packet is not None else None
        if found is not None and len(found._schema.arguments) == len(target._schema.arguments):
            return found, ""
    wanted = [(a.name, str(a.type)) for a in target._schema.arguments]
    for overload in target.overloadpacket.overloads():
        found = getattr(target.overloadpacket, overload)
        arguments = found._schema.arguments
        outs = [a for a in arguments if a.is_out]
        if (len(outs) == 1 and [(a.name, str(a.type)) for a in arguments if not a.is_out] == wanted
                and torch._C._dispatch_has_kernel_for_dispatch_key(found.name(), key)):
            return found, outs[0].name
    return None


def _find_in_place(program: Program, unit: Unit) -> None:
    """Which operands' places the result may take: of the same bytes and strides, read element by element or by row."""
    calls = [call for call in unit.calls if not call.view]
    if len(calls) != 1 or unit.random or unit.statistics or unit.updates or len(unit.makes) != 1:
        return
    call, made = calls[0], program.storages[unit.makes[0]]
    if call.into is not None:
        unit.in_place[program.storage_of(call.args[0].id).id] = replace(call, target=call.into)
    if call.writes or call.many or not isinstance(call.target, torch._ops.OpOverload):
        return
    row = ROW_BY_ROW.get(call.target._schema.name)
    out = program.tensors[made.base]
    if out.dtype.is_complex:  # an operand may be conjugate by a flag alone
        return
    for position, argument in enumerate(call.args):
        if not isinstance(argument, Ref) or not (torch.Tag.pointwise in call.target.tags or row == position):
            continue
        storage = program.storage_of(argument.id)
        others = {t for t in call.tensors() if program.tensors[t].storage == storage.id}
        tensor = program.tensors[argument.id]
        same = (tensor.shape, tensor.stride, tensor.dtype) == (out.shape, out.stride, out.dtype)
        if same and others == {argument.id} and storage.role == MADE and storage.bytes == made.bytes:
            form = _writing_form(call.target, position, program.device.dispatch_key)
            if form is not None:
                into = {**call.kwargs, form[1]: argument} if form[1] else call.kwargs
                unit.in_place.setdefault(storage.id, replace(call, target=form[0], many=False, kwargs=into))


def add_updates(program: Program, units: list[Unit], trace: Trace, updates: Updates) -> list[str]:
    """A unit for each parameter that gets a gradient, or one for all. They wait for the loss and, if it is asked for, for the
    greatest numbers of all gradients, which say whether the step may change anything, and for all assertions. Answers the names
    of these parameters; the tensors of their states follow in `program.given`."""
    positions = {name: i for i, name in enumerate(trace.model.parameters)}
    program.judged = [0, *([trace.aux_count] if trace.checked else [])]
    said = {program.tensors[program.outputs[place]].storage for place in program.judged}
    judges = {unit.number for unit in units if said & set(unit.makes) or unit.asserts}
    gradients = dict(zip(trace.trained, program.outputs[1 + trace.aux_count:], strict=True))
    updated = [name for name, gradient in gradients.items() if gradient is not None]
    updates.make_state(updated)
    states = {name: _add_states(program, updates, name) for name in updated}
    tensors = {name: [program.given[positions[name]], gradients[name], *states[name]] for name in updated}
    if updates.whole:
        _add_whole(program, units, updates, {name: tensors[name] for name in updated}, judges)
    else:
        for name in updated:
            units.append(_update(program, units, name, tensors[name], judges, updates.function(name)))
    program.outputs = program.outputs[:1 + trace.aux_count]
    program.state_bytes, updates.updated = updates.state_bytes, updated
    return updated


def _add_states(program: Program, updates: Updates, name: str) -> list[int]:
    """The tensors of a parameter's state."""
    found = []
    for key, state in updates.state(name).items():
        found.append(program.add_tensor(state, None))
        program.storages[-1].role, program.storages[-1].name = STATE, f"{key}/{name}"
        program.given.append(found[-1])
    return found


def _update(program: Program, units: list[Unit], what: str, tensors: list[int], after: set[int], function: Callable) -> Unit:
    """`tensors`: parameter, gradient and state."""
    storages = [program.tensors[t].storage for t in tensors]
    number = units[-1].number + 1 if units[-1].update else max(unit.number for unit in units) + 1
    return Unit(number, [], UPDATE, list(dict.fromkeys(storages)), [],
                [s for i, s in enumerate(storages) if i != 1], after=set(after), update=function, update_tensors=tensors,
                gradients=storages[1:2], what=what)


def _add_whole(program: Program, units: list[Unit], updates: Updates, tensors: dict[str, list[int]], judges: set[int]) -> None:
    """One update of all parameters, as the plan sees it a chain: each but the last says that its parameter is overwritten
    and runs nothing, the last reads all gradients and updates all. It draws after all that draw."""
    for name, pair in tensors.items():
        units.append(_update(program, units, name, pair, judges, updates.function(name)))
        units[-1].update_tensors, units[-1].runs_alone = [], False
    last = units[-1]
    last.what, last.update_tensors = "all parameters", [t for pair in tensors.values() for t in pair]
    last.after |= {unit.number for unit in units if unit.random}
    last.reads = list(dict.fromkeys([*last.reads, *(program.tensors[t].storage for t in last.update_tensors)]))
    last.gradients = [program.tensors[t].storage for t in last.update_tensors[1::2]]


def _needed(program: Program, units: list[Unit]) -> list[Unit]:
    """Without those that nothing depends on."""
    wanted = {program.tensors[o].storage for o in program.outputs if o is not None}
    kept = []
    for unit in reversed(units):
        if unit.updates or unit.statistics or unit.random or not unit.makes or wanted & set(unit.makes):
            wanted |= set(unit.reads)
            kept.append(unit)
    return kept[::-1]


def _apart(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a copy: the same, or dense ones where two elements of the tensor may lie in one place (`expand`, `unfold`)."""
    reach = 0  # of the dimensions with smaller strides, in elements
    for n, step in sorted(zip(shape, stride, strict=True), key=lambda one: one[1]):
        if n > 1 and step <= reach:
            return make_contiguous_strides_for(shape)
        reach += (n - 1) * step
    return stride


def _settle_outputs(builder: _Builder, program: Program, aux_count: int, strides: list[tuple[int, ...]]) -> None:
    """What comes out is the step's own: copies of what was there before, and of gradients that lie otherwise than
    their parameters or share memory with another, as autograd makes them."""
    program.outputs = [builder.now(o) if o is not None else None for o in program.outputs]
    taken: set[int] = set()
    for i, out in enumerate(program.outputs):
        if out is None:
            continue
        gradient = i > aux_count
        storage, tensor = program.storage_of(out), program.tensors[out]
        stride = strides[i - 1 - aux_count] if gradient else _apart(tensor.shape, tensor.stride)
        lies = tensor.stride == stride or (tensor.shape and 0 in tensor.shape)
        if storage.role == MADE and (not gradient or (lies and storage.id not in taken)):
            taken.add(storage.id)
            continue
        made = program.add_tensor(tensor, None)
        program.tensors[made].stride = stride
        size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, stride, strict=True))
        program.storages[-1].bytes = size * tensor.dtype.itemsize
        call = Call(clone_as, (Ref(out), stride), {}, [made], False, BACKWARD if gradient else FORWARD)
        builder.read_statistics_in_order(builder.add([call]))
        program.outputs[i] = made


def make_units(program: Program, aux_count: int, strides: list[tuple[int, ...]]) -> list[Unit]:
    """The units of forward and backward pass, in a valid order; `strides`: of the parameters whose gradients come out.

    Changes `program`: outputs are what they are at the end of the step. Raises Unsupported, naming the line.
    """
    builder = _Builder(program)
    for call in program.calls:
        builder.take(call)
    _settle_outputs(builder, program, aux_count, strides)
    units = _needed(program, [unit for unit in builder.units if unit is not None])
    alive = {unit.number for unit in units}
    for unit in units:
        unit.after &= alive
    _keep_what_is_read(program, units)
    for unit in units:
        _find_in_place(program, unit)
    _chain_random(program, units)
    return units

