"""What each kind of unit takes when it runs: seconds, and its allocations in order.

Each kind runs alone, twice, on operands of its own that hold plain numbers; units that do the same on the same shapes
are one kind, so a network of equal layers is measured as one layer. Measuring takes no more memory than a plan needs
while that unit runs: there is one unit at a time; what the unit only reads and is there before the step (parameters,
buffers, batch) is read where it lies; what an update writes shares the memory of its gradient's stand-in; results are
compared by their digests. With the allocator in place, the second run's
allocations are recorded: which become the unit's results, and how those that do not are laid in its workspace.

What the kernels do is held against what the graph says: a result that is no allocation of the unit's own, or an
operand that changes though nothing says so, is refused by name. A kind whose kernels raise on plain numbers is measured on
what the step itself makes (true_operands.py).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..errors import Error, Unsupported
from .addresses import OWN, Allocator, Event, own_mark
from .calls import Program, Storage
from .code import Source, compiled
from .devices import device_of
from .entering import handlers_wait
from .layouts import Made, Otherwise, view_again
from .true_operands import estimated_seconds, stopping_at
from .units import Unit


@dataclass
class Allocation:
    """`result`: which of the unit's results it becomes; -1: workspace, `offset` into it."""

    bytes: int
    result: int
    offset: int = 0
    caller: int = OWN  # who has the kernel run that makes it (addresses.py)


@dataclass
class Measured:
    """The costs of the first run and of a rerun in the same step. Without an allocator nothing is known of memory."""

    seconds: float
    first: list[Allocation] = field(default_factory=list)
    again: list[Allocation] = field(default_factory=list)
    taken: list[Allocation] = field(default_factory=list)  # of a run in the place of an operand
    workspace: int = 0
    result_bytes: list[int] = field(default_factory=list)
    in_place: list[int] = field(default_factory=list)  # operands whose place the result may take
    types: list[list] = field(default_factory=list)  # of the results: dtype, shape, strides, kind of device as the kernels made them


def results(unit: Unit) -> list[int]:
    """The storages of a unit that outlive it, in the order of its results."""
    return [*unit.makes, *([unit.state_out] if unit.state_out is not None else [])]


def operands(unit: Unit) -> list[int]:
    return [*unit.reads, *([unit.state_in] if unit.state_in is not None else [])]


def _bases(program: Program, storages: list[int]) -> list[str]:
    found = [program.storages[s] for s in storages]
    return [f"t{s.base}" if s.base >= 0 else f"s{s.id}" for s in found]


def _source(program: Program, unit: Unit, again: bool, taken: int | None = None) -> tuple[Source, list[str], list[str]]:
    """The unit alone, what it is given and what it makes."""
    source = Source(program)
    for storage in operands(unit):
        if program.storages[storage].base >= 0:
            source.there(program.storages[storage].base)
    source.unit(unit, again, taken)
    return source, _bases(program, operands(unit)), _bases(program, results(unit))


def _function(program: Program, unit: Unit, again: bool, taken: int | None = None) -> Callable:
    source, given, made = _source(program, unit, again, taken)
    names = {**source.names, "own": own_mark(program.device.type)}
    return compiled(["own(1)", *source.lines, "own(0)"], names, given, f"[{', '.join(made)}]", unit.name)


def _text(program: Program, unit: Unit) -> str:
    """The unit's lines, with names that do not depend on where it stands."""
    source, given, made = _source(program, unit, False)
    constants = {name: repr(value) for name, value in source.names.items()}
    return _canonical("\n".join([*given, *source.lines, *made])) + repr(sorted(constants.items()))


_NUMBERED = re.compile(r"\b[tsh][0-9]+\b")


def _canonical(text: str) -> str:
    """Names in the order in which they come."""
    words: dict[str, str] = {}
    return _NUMBERED.sub(lambda found: words.setdefault(found[0], f"{found[0][0]}#{len(words)}"), text)


def kind_of(program: Program, unit: Unit, update_kind: Any = None) -> str:
    """Equal for units that do the same on the same shapes."""
    if unit.update is not None:
        tensors = [program.tensors[t] for t in unit.update_tensors]
        return f"update {update_kind} {[(t.shape, t.stride, str(t.dtype)) for t in tensors]}"
    shapes = []
    for storage in (program.storages[i] for i in operands(unit)):
        base = program.tensors[storage.base] if storage.base >= 0 else None
        shapes.append((base.shape, base.stride, str(base.dtype), storage.bytes, base.device.type) if base is not None
                      else storage.bytes)
    return f"{_text(program, unit)} {shapes} {unit.random} {bool(unit.statistics)}"


Given = Callable[[], list[torch.Tensor]]  # makes the operands of a run
There = dict[int, torch.Tensor]  # storage -> the tensor that brings it before the step: the user's, never written here
_SECONDS_OF_A_BYTE = 1e-9  # of an update that does not run apart from a step, about what ten passes take
APART = 1 << 20  # bytes up to which what an update writes has memory of its own, as its seconds are truer then


def _given_to(program: Program, unit: Unit, there: There) -> list[torch.Tensor]:
    """The unit's operands, as they are or in stand-ins."""
    written, shared = {*unit.updates, *unit.statistics}, None
    if unit.update is not None:
        gradient = program.storage_of(unit.update_tensors[1])
        shared = _stand_in(program, gradient) if gradient.bytes > APART else None
    found = []
    for storage in (program.storages[s] for s in operands(unit)):
        if shared is not None and storage.id == gradient.id:
            found.append(shared)
        elif shared is not None and APART < storage.bytes <= shared.untyped_storage().nbytes():
            like = program.tensors[storage.base]
            found.append(torch.empty(0, dtype=like.dtype, device=like.device).set_(shared.untyped_storage(), 0, like.shape, like.stride))
        elif storage.id in there and storage.id not in written and storage.id not in program.ones:
            found.append(there[storage.id])
        else:
            found.append(_stand_in(program, storage))
    return found


def _stand_in(program: Program, storage: Storage) -> torch.Tensor:
    """A tensor like the one that brought the storage, with plain contents."""
    if storage.base < 0 or storage.id in program.states:
        return program.device.get_state()
    like = program.tensors[storage.base]
    count = storage.bytes // like.dtype.itemsize
    whole = torch.empty(max(count, 1), dtype=like.dtype, device=like.device)
    if storage.id in program.ones:
        whole.fill_(1)
        return whole.as_strided(like.shape, like.stride)
    whole.fill_(0.5) if like.dtype.is_floating_point or like.dtype.is_complex else whole.zero_()
    return whole.as_strided(like.shape, like.stride) if count else torch.empty(like.shape, dtype=like.dtype, device=like.device)


def _pack(events: list[Event], kept: dict[int, int], alignment: int) -> tuple[list[Allocation], int]:
    """Allocations in order, those of the workspace with offsets: largest first, each at the lowest free place."""
    begin, end, size = {}, {}, {}
    for moment, (number, count, _) in enumerate(events):
        if count:
            begin[number], size[number] = moment, count
        else:
            end[number] = moment
    offsets: dict[int, int] = {}
    for number in sorted((n for n in size if n not in kept), key=lambda n: (-size[n], n)):
        last = end.get(number, len(events))
        beside = sorted((offsets[o], offsets[o] + size[o]) for o in offsets
                        if begin[o] < last and begin[number] < end.get(o, len(events)))
        at = 0
        for low, high in beside:
            if at + size[number] <= low:
                break
            at = max(at, -(-high // alignment) * alignment)
        offsets[number] = at
    found = [Allocation(count, kept.get(number, -1), offsets.get(number, 0), caller) for number, count, caller in events if count]
    return found, max((offsets[n] + size[n] for n in offsets), default=0)


def _run(program: Program, unit: Unit, function: Callable, allocator: Allocator | None, operands_of: Given,
         taken: int | None = None) -> tuple[float, list, int, list, list]:
    """One run: seconds, allocations, workspace, bytes and types of the results."""
    given = operands_of()
    held = list(given)
    if allocator is not None:
        allocator.record_begin()
    try:
        with handlers_wait():
            made, seconds = program.device.timed(function, held)
    except BaseException:
        if allocator is not None:
            allocator.record_end()
        raise
    types = [[str(t.dtype).removeprefix("torch."), list(t.shape), list(t.stride()), t.device.type] for t in made]
    if allocator is None:
        return seconds, [], 0, [tensor.untyped_storage().nbytes() for tensor in made], types
    numbers = [allocator.recorded_id(tensor.untyped_storage().data_ptr()) for tensor in made]
    for storage, number, tensor in zip(results(unit), numbers, made, strict=True):
        elsewhere = tensor.device.type != program.device.type  # no allocator of the step's sees it
        if number == 0 and taken is None and tensor.untyped_storage().nbytes() > 0 and not elsewhere:
            allocator.record_end()
            raise Unsupported(f"{unit.place}: {unit.name} gives memory that is not its own (storage {storage})")
    events = allocator.record_end()
    allocations, workspace = _pack(events, {n: i for i, n in enumerate(numbers) if n}, program.device.alignment)
    return seconds, allocations, workspace, [tensor.untyped_storage().nbytes() for tensor in made], types


def _try_in_place(program: Program, unit: Unit, plain: Callable, drawn: Given) -> dict[int, Callable]:
    """Leaves the forms whose kernels give the same bits in the place of the operand, and answers the code of all. `plain`: the unit's."""
    wanted, forms = None, {}
    for storage in list(unit.in_place):
        form, given = _function(program, unit, False, storage), drawn()
        forms[storage] = form
        if wanted is None:  # plain kernels write no operand, and operands are drawn alike each time
            wanted = digest(plain(list(given))[0])
        place = given[operands(unit).index(storage)].untyped_storage().data_ptr()
        made = form(given)[0]
        if made.untyped_storage().data_ptr() != place or digest(made) != wanted:
            del unit.in_place[storage]
    return forms


def digest(tensor: torch.Tensor) -> bytes:
    """A checksum of the bits, as they lie: it takes the place of a tensor that would be kept for comparing."""
    whole = tensor.untyped_storage()
    if whole.nbytes() != tensor.nbytes:
        tensor = tensor.contiguous()
        whole = tensor.untyped_storage()
    return device_of(tensor.device).digest(whole)


class Drawn(NamedTuple):
    """A unit's first result on drawn numbers."""

    made: Made
    bits: bytes


def drawn_run(program: Program, unit: Unit, allocator: Allocator | None) -> tuple[Drawn, int, float]:
    """The result on numbers that are the same for the same storages; scratch bytes, if known; seconds."""
    function = _function(program, unit, False)
    made = function([_drawn(program, s) for s in operands(unit)])[0]
    found = Drawn(Made(str(made.dtype).removeprefix("torch."), tuple(made.shape), made.stride()), digest(made))
    del made
    seconds, _, scratch, *_ = _run(program, unit, function, allocator, lambda: _given_to(program, unit, {}))
    return found, scratch, seconds


def _drawn(program: Program, storage: int) -> torch.Tensor:
    """A stand-in with numbers that differ, from a stream of its own."""
    tensor = _stand_in(program, program.storages[storage])
    if tensor.dtype.is_floating_point:
        tensor.uniform_(-1, 1, generator=torch.Generator(tensor.device).manual_seed(storage))
    return tensor


def seconds_of(program: Program, unit: Unit, rounds: int, there: There) -> float | None:
    """The least of so many runs of the unit alone, behind one that does not count. None where its kernels raise on plain numbers."""
    if not unit.runs_alone:
        return None
    function = _function(program, unit, False)
    try:
        runs = [program.device.timed(function, _given_to(program, unit, there))[1] for _ in range(rounds + 1)]
    except Exception as problem:
        if not _refused(problem):
            raise
        return None
    return min(runs[1:])


def measure(program: Program, unit: Unit, allocator: Allocator | None, given: Given, drawn: Given) -> Measured:
    """Runs the unit alone. Raises Unsupported where its kernels do otherwise than the graph says. `drawn`: operands whose numbers
    differ, all of them the run's own."""
    plain = _function(program, unit, False)
    warm = _run(program, unit, plain, allocator, given)
    seconds, first, workspace, sizes, _ = _run(program, unit, plain, allocator, given)
    found = Measured(min(seconds, warm[0]), first, first, [], workspace, sizes, types=warm[4])
    if unit.update is None and ((unit.random and unit.state_in is not None) or unit.statistics):
        function = _function(program, unit, True)
        _run(program, unit, function, allocator, given)
        _, found.again, other, *_ = _run(program, unit, function, allocator, given)
        found.workspace = max(workspace, other)
    forms = _try_in_place(program, unit, plain, drawn)
    for storage in unit.in_place:
        _, found.taken, other, *_ = _run(program, unit, forms[storage], allocator, given, storage)
        found.workspace = max(found.workspace, other)
    found.in_place = [operands(unit).index(s) for s in unit.in_place]
    return found


def estimated(program: Program, unit: Unit) -> Measured:
    """An estimate for a unit that no operands at hand can run. Nothing is known of its memory."""
    found = Measured(estimated_seconds(program, unit))
    for storage in (program.storages[s] for s in results(unit)):
        like = program.tensors[storage.base] if storage.base >= 0 else program.device.get_state()
        stride = like.stride if storage.base >= 0 else like.stride()
        found.result_bytes.append(storage.bytes)
        found.types.append([str(like.dtype).removeprefix("torch."), list(like.shape), list(stride), like.device.type])
    return found


def _refused(problem: Exception) -> bool:
    """Whether a kernel's own check has raised: not Lowtide's refusal, nor memory that is not there."""
    return not isinstance(problem, (Error, MemoryError, torch.OutOfMemoryError)) and "allocate memory" not in str(problem)


def _measure_truly(program: Program, units: list[Unit], refused: dict[str, Unit], allocator: Allocator | None,
                   there: There) -> Iterator[tuple[str, Measured]]:
    """The kinds whose kernels raised on plain numbers, on what the step makes of what is there before it."""
    kinds = {unit.number: kind for kind, unit in refused.items()}

    def first(storage: int) -> torch.Tensor:
        return there[storage] if storage in there else _drawn(program, storage)

    def run(unit: Unit, given: list[torch.Tensor]) -> list[torch.Tensor]:
        return _function(program, unit, False)(given)

    for unit, given in stopping_at(units, set(kinds), first, run):
        try:
            yield kinds[unit.number], measure(program, unit, allocator, given, lambda given=given: [t.clone() for t in given()])
        except Exception as problem:
            if not _refused(problem):
                raise
            unit.in_place = {}
            yield kinds[unit.number], estimated(program, unit)


def measure_all(program: Program, units: list[Unit], update_kinds: dict[int, Any], allocator: Allocator | None,
                kinds: dict[str, Measured] | None = None, there: There | None = None) -> list[Measured]:
    """By unit; each kind once, or not at all if `kinds` has it. The random stream is as before when this returns."""
    state, there = program.device.get_state(), {} if there is None else there
    kinds = {} if kinds is None else kinds
    of_unit, refused = [], {}
    with torch.no_grad(), contextlib.ExitStack() as behind:
        behind.callback(program.device.set_state, state)
        for unit in units:
            kind = kind_of(program, unit, update_kinds.get(unit.number))
            of_unit.append(kind)
            if kind not in kinds and kind not in refused:
                try:
                    kinds[kind] = measure(program, unit, allocator, lambda unit=unit: _given_to(program, unit, there),
                                          lambda unit=unit: [_drawn(program, s) for s in operands(unit)])
                except Exception as problem:
                    if not _refused(problem):
                        raise
                    if program.layouts is not None and program.layouts.differ:  # it may be a view of what lies otherwise
                        raise Otherwise from problem
                    refused[kind] = unit
            if kind in kinds:
                take_types(program, unit, kinds[kind])
        if refused:
            kinds.update(_measure_truly(program, units, refused, allocator, there))
    found = [kinds[kind] for kind in of_unit]
    for unit, kind in zip(units, of_unit, strict=True):
        if kind in refused:
            take_types(program, unit, kinds[kind])
    keep_in_place(units, found)
    return found


def take_types(program: Program, unit: Unit, found: Measured) -> None:
    """What the kernels made, where tracing thought otherwise: the statistics of a norm of bf16 are f32."""
    rows = zip(results(unit), found.types, found.result_bytes, strict=True)
    for storage, (dtype, shape, stride, device), size in rows:
        base = program.storages[storage].base
        program.storages[storage].bytes = size
        if base < 0:
            continue
        tensor, made = program.tensors[base], Made(dtype, tuple(shape), tuple(stride))
        tensor.device = program.device.device if device == program.device.type else torch.device(device)
        if note_layout(program, unit, base, made):
            tensor.dtype, tensor.shape, tensor.stride = getattr(torch, dtype), made.shape, made.stride
            view_again(program, storage)


def note_layout(program: Program, unit: Unit, base: int, made: Made) -> bool:
    """Whether the unit made its result otherwise than traced: the next trace is to know (layouts.py)."""
    traced = program.tensors[base]
    if made == (str(traced.dtype).removeprefix("torch."), traced.shape, traced.stride):
        return False
    for call in unit.calls if program.layouts is not None else ():
        if base in call.outs and not call.view and not call.writes:
            program.layouts.note(program, call, call.outs.index(base), made)
    return True


def keep_in_place(units: list[Unit], measured: list[Measured]) -> None:
    """The forms in place that the kind of each unit was found to have."""
    for unit, found in zip(units, measured, strict=True):
        kept = {operands(unit)[i] for i in found.in_place}
        unit.in_place = {s: form for s, form in unit.in_place.items() if s in kept}
