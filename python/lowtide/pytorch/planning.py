"""A step from the user's module to its plan: capture, measure, plan; and in how many parts, where that is asked for.

split="auto" plans the step in 1, 2, 4, ... parts: of the largest values (parts.py), and where that is not enough, of the samples
(samples.py). Without a search the arena of each is there in no time; the fewest parts with which that is within the
budget are the answer, as then nothing runs again; where parts of samples take longer than the whole, if reruns of the whole take
longer still. Where it is in none, the best of them are
searched, the whole step too, and the fastest plan within the budget is taken. Each kind of unit is measured once for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .. import cache
from ..amounts import amount_of
from ..errors import Infeasible, Limit, Unsupported
from ..plans import Plan, plan_text
from . import convolutions, layouts, parts, ranks, samples
from .addresses import Allocator, allocator
from .calls import Program, read_calls
from .devices import CPU, Cpu, Cuda, device_of
from .entering import collector_waits
from .graph_text import GraphText, write_graph
from .kept import kept_bytes
from .masks import keep_masks_as_bytes
from .measure import Allocation, Measured, keep_in_place, measure_all, take_types
from .optimizers import Updates, state_as_before
from .options import StepOptions
from .own_errors import not_written_down
from .own_step import signature, updates_of
from .rehearsal import name_of
from .trace import Model, Options, Trace, trace_step
from .units import Unit, add_updates, make_units
from .untouched import Note


@dataclass
class Captured:
    """A step before it is planned."""

    trace: Trace
    program: Program
    units: list[Unit]
    updates: Updates
    updated: list[str]
    parts: int = 1  # in which the largest values are made, or the step runs along its samples
    by_samples: bool = False
    coupled: list[str] = field(default_factory=list)  # calls that need all parts of an operand at once

    def in_words(self) -> str:
        return f"the {'samples' if self.by_samples else 'largest values'} in {self.parts} parts"


def capture(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, batch: Any,
            options: StepOptions, note: Note | None = None, rows: layouts.Rows | None = None) -> Captured:
    """The step as units. `note`: of all that can be reached; `rows`: where kernels were seen to put results otherwise than fake
    kernels say. Raises Unsupported or Usage, naming the line of the user's code."""
    if options.data_parallel and Model.of(model).device.type != "cpu":
        raise Unsupported("data_parallel averages gradients on the CPU; on a GPU a step runs on one rank")
    if not options.data_parallel:
        return _traced(*_checked(model, optimizer), loss_fn, batch, options, note, rows)
    ranks.check()
    tensors, updates = ranks.on_all(lambda: _checked(model, optimizer))
    ranks.same_start([p.detach() for p in tensors.parameters.values()] + list(tensors.buffers.values()))
    return ranks.on_all(lambda: _traced(tensors, updates, loss_fn, batch, options, note, rows))


def _checked(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Model, Updates]:
    tensors = Model.of(model)
    first = next(iter(tensors.parameters), "")
    for kind, found in (("parameter", tensors.parameters), ("buffer", tensors.buffers)):
        for name, tensor in found.items():
            if tensor.device.type not in ("cpu", "cuda"):
                raise Unsupported(f"{kind} '{name}' is on {tensor.device}; steps run on the CPU and on GPUs under CUDA")
            if tensor.device != tensors.device.device:
                raise Unsupported(f"{kind} '{name}' is on {tensor.device}, parameter '{first}' on {tensors.device.device}; "
                                  "a step runs on one device")
    return tensors, updates_of(optimizer, tensors.parameters)


def _traced(tensors: Model, updates: Updates, loss_fn: Callable, batch: Any, options: StepOptions, note: Note | None,
            rows: layouts.Rows | None) -> Captured:
    if updates.whole and options.swap is not None:
        raise Unsupported(f"{name_of(updates.optimizer)} runs its own step() on all parameters, which then stay where they are; "
                          "it is planned without swap")
    trained = [name for name in tensors.parameters if name in updates.groups]
    tracing = Options(options.clip_norm, options.clip_value, options.accumulate, options.data_parallel,
                      options.check_finite is True, rows, real_formulas=options.split is None)
    with not_written_down():
        trace = trace_step(tensors, loss_fn, trained, batch, tracing, note)
    labels = options.labels()
    if labels is not None:
        return by_samples(trace, updates, labels)
    return as_units(trace, updates, options.split if isinstance(options.split, int) else 1)


def as_units(trace: Trace, updates: Updates, count: int) -> Captured:
    """The traced step, the largest values in `count` parts, if they can be."""
    with collector_waits():
        program = read_calls(trace)
        done = parts.cut(program, count, 1 + trace.aux_count) if count > 1 else 0
        return _captured(trace, updates, program, count if done else 1)


def by_samples(trace: Trace, updates: Updates, labels: str) -> Captured:
    """The traced step in parts along its samples, as labels say; as it was where nothing can be cut so."""
    program = read_calls(trace)
    found = samples.cut(program, labels)
    if found.parts == 1:
        return as_units(trace, updates, 1)
    made = _captured(trace, updates, program, found.parts)
    made.by_samples, made.coupled = True, found.coupled
    return made


def _captured(trace: Trace, updates: Updates, program: Program, count: int) -> Captured:
    strides = [trace.model.parameters[name].stride() for name in trace.trained]
    units = keep_masks_as_bytes(program, make_units(program, trace.aux_count, strides))
    updated = add_updates(program, units, trace, updates)
    return Captured(trace, program, units, updates, updated, count)


@dataclass
class Planned:
    """A captured step with its plan and what was measured for it."""

    captured: Captured
    graph: GraphText
    plan: Plan
    measured: list[Measured]
    kept_bytes: int = 0  # beside the arena; the plan counts them unless values move
    measured_key: str = ""  # of the measurements in the cache


def _measured_of(rows: list) -> list[Measured]:
    def lists(found: list) -> list[Allocation]:
        return [Allocation(*a) for a in found]

    return [Measured(seconds, lists(first), lists(again), lists(taken), *more)
            for seconds, first, again, taken, *more in rows]


def rows_of(measured: list[Measured]) -> list:
    def flat(found: list[Allocation]) -> list:
        return [[a.bytes, a.result, a.offset, a.caller] for a in found]

    rows = {id(m): [m.seconds, flat(m.first), flat(m.again), flat(m.taken), m.workspace, m.result_bytes, m.in_place, m.types] for m in measured}
    return [rows[id(m)] for m in measured]  # units of one kind share theirs


def there(captured: Captured) -> dict[int, torch.Tensor]:
    """What is there before the step, by storage: of those that share one the first, which brings it."""
    program, model = captured.program, captured.trace.model
    states = [t for name in captured.updated for t in captured.updates.state(name).values()]
    batch = [found() for found in captured.trace.inputs]
    tensors = [*model.parameters.values(), *model.buffers.values(), *batch, *program.constants, *states]
    return {program.tensors[t].storage: tensor.detach() for t, tensor in zip(program.given, tensors, strict=True)
            if tensor is not None and program.storage_of(t).base == t}


def _counted(captured: Captured, options: StepOptions) -> int:
    """The bytes of what the step keeps that are in its graph."""
    return kept_bytes(captured.program, captured.units) if options.swap is None else 0


def _keys(captured: Captured, title: str, options: StepOptions, levers: dict[str, Any],
          memory: Allocator | None) -> tuple[str, str]:
    """The keys of what is measured and of the plan: the graph, its constants, the versions and the machine; the options."""
    bare = write_graph(captured.program, captured.units, None, title, _counted(captured, options))
    measured = measured_key(captured.program.device, bare, captured.units, signature(captured.updates.optimizer),
                            None if memory is None else memory.collections is not None)
    return measured, cache.key(measured, levers)


_FORMAT = 6  # of the rows that are kept


def measured_key(device: Cpu | Cuda, bare: GraphText, units: list[Unit], *more: Any) -> str:
    """The key of what was measured of a graph: its ops with their constants, the versions and the machine."""
    lines = [repr((c.name, c.args, sorted(c.kwargs.items()))) for u in units for c in u.calls]
    return cache.key(_FORMAT, bare.question(), lines, device.machine(), *more)


def take_measured(program: Program, units: list[Unit], rows: list) -> list[Measured]:
    """From the cache, as if it had been measured now."""
    measured = _measured_of(rows)
    keep_in_place(units, measured)
    for unit, found in zip(units, measured, strict=True):
        take_types(program, unit, found)
    return measured


def measure_or_take(program: Program, units: list[Unit], key: str, keep: bool) -> list[Measured]:
    """By unit, from the cache if it has that."""
    kept = cache.load_rows(key) if keep else None
    if kept is not None and len(kept) == len(units):
        return take_measured(program, units, kept)
    measured = measure_all(program, units, {}, None)
    if keep:
        cache.store_rows(key, rows_of(measured))
    return measured


def plan_or_take(graph: GraphText, title: str, key: str, options: dict[str, Any], progress: bool | None, keep: bool) -> Plan:
    """The plan of a graph, from the cache if it has that."""
    kept = cache.load(key) if keep else None
    if kept is not None and kept[1].get("graph") == cache.key(graph.question()):
        return kept[0]
    plan = plan_text(graph.text, title, options, progress)
    if keep and not plan.cut_short:
        cache.store(key, plan, {"graph": cache.key(graph.question())})
    return plan


def _measured(captured: Captured, key: str, memory: Allocator | None, keep: bool, parallel: bool,
              known: dict[str, Measured]) -> list[Measured]:
    """By unit, from the cache if it has that; decides which results may take an operand's place. `known`: kinds that were
    measured for the same step in other parts."""
    program, units = captured.program, captured.units
    kept = cache.load_rows(key) if keep else None
    if parallel:  # all measure, or none
        kept = ranks.from_first(kept)
    if kept is not None and len(kept) == 2 and len(kept[1]) == len(units):
        convolutions.take(program, units, kept[0])
        measured = take_measured(program, units, kept[1])
        _told_of_layouts(program, parallel)
        return measured
    chosen = convolutions.choose(program, units, memory)
    if parallel:
        chosen = ranks.from_first(chosen)
    convolutions.take(program, units, chosen)
    updates, said = captured.updates, signature(captured.updates.optimizer)
    kinds = {unit.number: (updates.kind(unit.what), said) for unit in units if unit.update is not None}
    measured = measure_all(program, units, kinds, memory, known, there(captured))
    _told_of_layouts(program, parallel)
    if parallel:
        measured = _measured_of(ranks.from_first(rows_of(measured)))
    if keep:
        cache.store_rows(key, [chosen, rows_of(measured)])
    return measured


def _told_of_layouts(program: Program, parallel: bool) -> None:
    """Raises Otherwise where kernels put results otherwise than traced; on all ranks, if the first has seen it."""
    rows = program.layouts
    if rows is None:
        return
    if parallel:
        rows.new = ranks.from_first(rows.new)
        rows.take(rows.new)
    if rows.differ:
        raise layouts.Otherwise


def make_plan(captured: Captured, title: str, options: StepOptions, known: dict[str, Measured] | None = None) -> Planned:
    """Plans, or takes the plan from the cache. Raises Infeasible, naming the floor and the op that sets it."""
    device = captured.program.device
    memory, levers = allocator(device.type), {**options.planning(), **device.planning(options.cache)}
    of_measured, key = _keys(captured, title, options, levers, memory)
    if options.data_parallel:
        ranks.same_graph(key)
    measured = _measured(captured, of_measured, memory, options.cache, options.data_parallel,
                         {} if known is None else known)
    graph = write_graph(captured.program, captured.units, measured, title, _counted(captured, options))

    def make() -> Plan:
        try:
            return plan_or_take(graph, title, key, levers, options.progress, options.cache)
        except (Infeasible, Limit) as problem:
            raise type(problem)(_with_place(str(problem), graph, captured.units)) from None

    return Planned(captured, graph, ranks.plan_of_first(make) if options.data_parallel else make(), measured,
                   kept_bytes(captured.program, captured.units), of_measured)


def _with_place(line: str, graph: GraphText, units: list[Unit]) -> str:
    """The line, and where in the user's model the op stands that it names."""
    for name, index in graph.ops.items():
        if f"'{name}'" in line and units[index].place:
            return f"{line} ({units[index].place})"
    return line


MOST_PARTS = 32
MOST_LONGER = 1.05  # than the whole step: so much longer may parts of samples take that need no reruns
LEAST_GAIN = 0.99  # of the arena before, by twice as many parts; else more are not tried


def best_plan(model: torch.nn.Module, loss_fn: Callable, optimizer: torch.optim.Optimizer, batch: Any,
              options: StepOptions, note: Note | None = None) -> Planned:
    """The step's plan; the optimizer's state is as before. Where kernels put results otherwise than fake kernels say, the step is traced
    again with what is known then (layouts.py). Raises what capture and make_plan raise."""
    known: dict[str, Measured] = {}
    rows, title = _rows(model, options), type(model).__name__
    plan = _in_parts if options.split == "auto" else make_plan
    while True:
        try:
            with state_as_before(optimizer):
                captured = capture(model, loss_fn, optimizer, batch, options, note, rows)
                captured.updates.begun.clear()
                planned = plan(captured, title, options, known)
        except layouts.Otherwise:
            rows.traced_again()
            continue
        if rows.grown and options.cache:
            layouts.store(rows, captured.program.device)
        return planned


def _rows(model: torch.nn.Module, options: StepOptions) -> layouts.Rows:
    """What is known of where kernels put results; on all ranks the same."""
    first = next((p.device for p in model.parameters()), CPU.device)
    rows = layouts.load(device_of(first) if first.type in ("cpu", "cuda") else CPU, options.cache)  # others are refused, by their names
    return layouts.Rows(ranks.from_first(rows.told())) if options.data_parallel else rows


def _in_parts(captured: Captured, title: str, options: StepOptions, known: dict[str, Measured]) -> Planned:
    anywhere = replace(options, budget=None)
    whole = make_plan(captured, title, anywhere, known)
    asked = amount_of(options.budget)
    limit = asked.limit(whole.plan.arena_bytes) if asked is not None else None
    within = replace(options, budget=options.budget if limit is None else limit)

    def fits(planned: Planned) -> bool:
        return limit is not None and planned.plan.arena_bytes <= limit

    def more_parts(of: Callable[[int], Captured], ends: bool) -> list[Planned]:
        """Plans of 2, 4, ... parts, while more of them need less. `ends`: where so many cannot be, more cannot either."""
        made: list[Planned] = []
        least, count = whole.plan.arena_bytes, 1
        while count < MOST_PARTS:
            count *= 2
            step = of(count)
            if step.parts == 1 and ends:
                break
            if step.parts == 1:
                continue
            made.append(make_plan(step, title, anywhere, known))
            if fits(made[-1]) or made[-1].plan.arena_bytes > least * LEAST_GAIN:
                break
            least = made[-1].plan.arena_bytes
        return made

    of_values = [] if fits(whole) else more_parts(lambda count: as_units(captured.trace, captured.updates, count), ends=False)
    free, kinds = [whole, *of_values], [of_values]
    if options.budget is not None and not fits(free[-1]):  # parts of samples take more time
        kinds.append(more_parts(lambda count: by_samples(captured.trace, captured.updates, str(count)), ends=True))
        free += kinds[-1]
    if options.budget is None:
        return min(free, key=lambda planned: planned.plan.arena_bytes)
    if fits(free[-1]):
        if not free[-1].captured.by_samples or _seconds(free[-1]) <= _seconds(whole) * MOST_LONGER:
            return make_plan(free[-1].captured, title, within, known)
        kinds = [[free[-1]]]  # batch norms in passes, small parts: reruns of the whole may cost less
    return _fastest(whole, kinds, title, within, known)


def _seconds(planned: Planned) -> float:
    return planned.plan.verdict["predicted_step_seconds"]


def _fastest(whole: Planned, kinds: list[list[Planned]], title: str, options: StepOptions,
             known: dict[str, Measured]) -> Planned:
    """The fastest plan within the budget, of the whole step and those of each kind of parts that need least; where the budget is
    "floor", the smallest. What needs least without a budget need not reach the lowest one."""
    parted = [planned for made in kinds for planned in sorted(made, key=lambda planned: planned.plan.arena_bytes)[:2]]
    found: list[Planned] = []
    refusal: Infeasible | Limit | None = None
    for planned in [*parted, whole]:
        try:
            found.append(make_plan(planned.captured, title, options, known))
        except (Infeasible, Limit) as problem:
            parts_then = planned.captured.parts
            refusal = refusal or type(problem)(f"{problem} ({planned.captured.in_words()})" if parts_then > 1
                                               else str(problem))
    if not found and refusal is not None:
        raise refusal
    if options.budget == "floor":
        return min(found, key=lambda planned: planned.plan.arena_bytes)
    return min(found, key=_seconds)
