"""A plan as generated Python, and the addresses of its allocations.

The code is the plan's sequence: each run of a unit, and names set to None where the plan frees a buffer. What is there
before the step (parameters, buffers, state, batch) stays in PyTorch's own memory. It lies there for the whole step, so
the plan's other addresses close up over its places: the arena is the plan's less the bytes of those. Where the plan
moves it, it is in the arena only while the plan has it there, and PyTorch's memory is its home (transfers.py).
"""

from __future__ import annotations

import bisect
import collections
import functools
from collections.abc import Callable, Container
from dataclasses import dataclass, field

import torch

from .. import _library
from ..errors import Internal
from ..plans import Plan, PlannedStep
from . import ranks  # noqa: F401: lowtide::average
from .addresses import UNKNOWN, Place
from .calls import MADE, UNCOUNTED_WRITES, Program
from .code import Source
from .first_run import NAME, FirstRun, is_look
from .graph_text import GraphText
from .measure import Allocation, Measured, results
from .schemas import counts_once
from .transfers import StreamTransfers, Transfers, given_in
from .units import Unit


@dataclass
class Executable:
    """`run(given)`: tensors in the order of `given_names`; gives loss and aux. It empties the list."""

    run: Callable[[list], tuple]
    source: str
    unit_of_line: list[int]  # of the source; -1: of none
    arena_bytes: int
    resident_bytes: int
    parts: list[list[Place]] = field(default_factory=list)  # of every allocation
    reruns: int = 0
    transfers: Transfers | None = None  # None: nothing moves
    writes: dict[int, int] = field(default_factory=dict)  # storage -> how often its version grows before the first update
    uncounted: set[int] = field(default_factory=set)  # storages of which nobody knows that
    # Shapes of the gradients that are averaged over all ranks before judge() is called, in the plan's order.
    averages: list[tuple[tuple[int, ...], torch.dtype]] = field(default_factory=list)
    aside: Callable[[], None] = lambda: None  # from here to the next unit memory is taken beside the arena
    first: Callable[[list], tuple] | None = None  # the same with a look at each result
    looks: FirstRun | None = None

    def __post_init__(self) -> None:
        self.plain = self.run

    def next_run(self, looked: bool) -> Callable[[list], tuple]:
        """What runs now: the first time the form with looks, unless somebody has put other code in the place of the plain one."""
        return self.first if self.first is not None and not looked and self.run is self.plain else self.run


class _Places:
    """Addresses of the plan as offsets into the arena: residents take no room in it."""

    def __init__(self, plan: Plan) -> None:
        storages = plan.storages()
        resident = sorted((s.address, s.bytes) for s in storages
                          if s.resident and not s.home_slow and s.bytes > 0)
        self.starts = [address for address, _ in resident]
        self.before = [0]
        for _, size in resident:
            self.before.append(self.before[-1] + size)
        self.resident_bytes = self.before[-1]

    def offset(self, address: int) -> int:
        return address - self.before[bisect.bisect_left(self.starts, address)]


class _Generator:
    def __init__(self, program: Program, units: list[Unit], graph: GraphText, plan: Plan, measured: list[Measured],
                 addresses: bool, whole: bool) -> None:
        self.program, self.units, self.measured = program, units, measured
        self.source = Source(program, whole)
        self.source.looks = True
        self.places = _Places(plan)
        self.ops = [graph.ops.get(name) for name in plan.op_names()]
        self.names = [name for name in plan.op_names()]
        self.mine = {theirs: graph.values[name] for name, theirs in plan.storage_of_values().items()
                     if name in graph.values}
        self.transfers = (Transfers if program.device.type == "cpu" else StreamTransfers)(program, plan, self.mine)
        self.at: dict[int, int] = {}  # storage -> offset
        self.behind: set[int] = set()  # homes that are to get the statistics written in the arena
        self.ran: set[int] = set()
        self.parts: list[list[Place]] = []
        self.unit_of_line: list[int] = []
        self.addresses, self.reruns, self.judged = addresses, 0, False
        self.writes: collections.Counter[int] = collections.Counter()
        self.uncounted: set[int] = set()
        self.averages: list[tuple[tuple[int, ...], torch.dtype]] = []

    def note_lines(self, unit: int) -> None:
        self.unit_of_line += [unit] * (len(self.source.lines) - len(self.unit_of_line))

    def note_write(self, storage: int) -> None:
        """A version that grows; behind the first update nobody looks any more."""
        if not self.judged and self.program.storages[storage].role != MADE:
            self.writes[storage] += 1

    def allocations(self, found: list[Allocation], unit: Unit, workspace: int) -> list[Place]:
        made = results(unit)
        return [Place(a.bytes, self.at[made[a.result]] if a.result >= 0 else workspace + a.offset, a.caller) for a in found]

    def judge(self) -> None:
        """Before anything of the model is changed: whether the step may go on."""
        said = []
        for tensor in (self.program.outputs[place] for place in self.program.judged):
            storage = self.program.tensors[tensor].storage
            if storage in self.transfers.slots and storage not in self.source.live:
                said.append(f"look({storage})")
            else:
                self.source.need(tensor)
                said.append(self.source.name(tensor))
        self.source.emit(f"judge({', '.join(said)})")
        self.judged = True

    def compute(self, step: PlannedStep) -> None:
        index = self.ops[step.op]
        if index is None:
            raise Internal(f"the plan has an op '{self.names[step.op]}' that was not captured")
        unit, again = self.units[index], index in self.ran
        for storage, address, _ in step.makes:
            if storage in self.mine:
                self.at[self.mine[storage]] = self.places.offset(address)
        if unit.update_tensors and not self.judged:
            self.judge()
        for call in unit.calls if not self.judged else ():
            if call.target is torch.ops.lowtide.average.default:
                gradient = self.program.tensors[call.outs[0]]
                self.averages.append((tuple(gradient.shape), gradient.dtype))
        if self.addresses:
            self.source.emit(f"mark({len(self.parts)})")
        taken = next((self.mine.get(reused) for _, _, reused in step.makes if reused >= 0), None)
        found = self.measured[index]
        allocations = found.taken if taken is not None else found.again if again else found.first
        self.parts.append(self.allocations(allocations, unit, self.places.offset(step.workspace_address)))
        self.source.unit(unit, again, taken)
        for call, storage in ((call, self.program.tensors[t].storage) for call in unit.calls for t in call.writes):
            if storage in self.transfers.homes:  # it is the copy in the arena that is written
                continue
            if not counts_once(call.target):
                self.uncounted.add(storage)
            elif getattr(call.target, "overloadpacket", None) not in UNCOUNTED_WRITES:
                self.note_write(storage)
        if not again:
            self.behind |= {s for s in unit.statistics if s in self.transfers.homes}
        self.ran.add(index)
        self.reruns += again
        self.note_lines(index)

    # ---- what moves

    def base(self, storage: int) -> str:
        base = self.program.storages[storage].base
        return f"t{base}" if base >= 0 else f"s{storage}"

    def free(self, storage: int) -> None:
        if storage in self.transfers.homes:
            if storage in self.behind:
                self.source.emit(f"write_back({storage}, {self.base(storage)})")
                self.behind.discard(storage)
                self.note_write(storage)
            self.source.emit(f"leave({storage})")
        elif self.program.storages[storage].role != MADE:
            return
        self.source.drop(storage)

    def move(self, step: PlannedStep, storage: int) -> None:
        if step.kind == _library.STORE:
            self.source.emit(f"store({storage}, {self.base(storage)})")
            self.behind.discard(storage)
            self.note_write(storage)
        elif step.kind == _library.WAIT:
            self.source.emit(f"wait({storage})")
        else:
            if self.addresses:
                self.source.emit(f"mark({len(self.parts)})")
            home = self.transfers.homes.get(storage)
            size = self.program.storages[storage].bytes if home is None else home.layout.bytes
            self.parts.append([Place(size, self.places.offset(step.address), UNKNOWN)])
            self.source.emit(f"{self.base(storage)} = load({storage})")
            if self.program.storages[storage].base >= 0:
                self.source.there(self.program.storages[storage].base)
                self.source.look(self.program.storages[storage].base)
        self.note_lines(-1)

    def take(self, step: PlannedStep) -> None:
        if step.kind == _library.COMPUTE:
            return self.compute(step)
        storage = self.mine.get(step.storage)
        if step.kind == _library.FREE:
            return self.free(storage) if storage is not None else None
        if storage is None:
            raise Internal("the plan moves a buffer that was not captured")
        return self.move(step, storage)


def given_names(program: Program, homes: Container[int] = ()) -> list[str]:
    """The names of what the code is given: tensors, then the random stream's state, if the step draws. A tensor of `homes` goes by
    another name, as its own is that of the copy in the arena."""
    tensors = [f"{'g' if program.tensors[t].storage in homes else 't'}{t}" for t in program.given]
    states = [s.id for s in program.storages if s.base < 0 and s.role != MADE]
    return [*tensors, *(f"{'g' if s in homes else 's'}{s}" for s in states)]


def _say_homes(made: _Generator, names: list[str]) -> None:
    """What lies at home when the step begins, by the names that it is given by."""
    program, transfers = made.program, made.transfers
    name = dict(zip(program.given, names, strict=False))
    for storage in transfers.homes:
        tensors = [name[t] for t in given_in(program, storage)] or [f"g{storage}"]
        made.source.emit(f"home({storage}, [{', '.join(tensors)}])")
        made.source.emit(" = ".join(tensors) + " = None")
    for tensor in program.given:
        if program.tensors[tensor].storage not in transfers.homes:
            made.source.there(tensor)
    for called in ("home", "store", "load", "wait", "write_back", "leave", "look"):
        made.source.names[called] = getattr(transfers, called)
    made.note_lines(-1)


def generate(program: Program, units: list[Unit], graph: GraphText, plan: Plan, measured: list[Measured],
             judge: Callable, mark: Callable | None, whole: bool = True) -> Executable:
    """The step as a function. `judge(loss)`, or `judge(loss, gradients)`, is called before the first update, `mark(part)` before each unit.
    `whole`: nothing of it runs in parts, so strides of views are those that were traced."""
    made = _Generator(program, units, graph, plan, measured, mark is not None, whole)
    names = given_names(program, made.transfers.homes)
    _say_homes(made, names)
    made.source.names.update(judge=judge, mark=mark)
    for step in plan.steps():
        made.take(step)
    outputs = [o for o in program.outputs if o is not None]
    for tensor in outputs:
        made.source.need(tensor)
    if mark is not None:
        made.source.emit(f"mark({len(made.parts)})")
    made.note_lines(-1)
    result = "(" + "".join(f"t{o}, " if o is not None else "None, " for o in program.outputs) + ")"
    head = ["def run(given):", f"    {', '.join(names)}, = given", "    given.clear()"]
    looks = FirstRun(program, units, whole)
    made.source.names.update({NAME: looks.look, f"{NAME}_gone": looks.gone})

    scope = dict(made.source.names)

    def compiled(lines: list[str]) -> Callable:
        exec(compile("\n".join([*head, *lines, f"    return {result}"]), "<lowtide step>", "exec"), scope)  # noqa: S102: our own lines
        return scope.pop("run")

    lines = ["" if is_look(line) else f"    {line}" for line in made.source.lines]  # blank: lines keep their numbers
    text = "\n".join([*head, *(line for line in lines if line), f"    return {result}"])
    resident = made.places.resident_bytes
    made.parts.append([])  # of a part that has no allocations all are others
    aside = functools.partial(mark, len(made.parts) - 1) if mark is not None else lambda: None
    return Executable(compiled(lines), text, [-1] * len(head) + made.unit_of_line + [-1], plan.arena_bytes - resident,
                      resident, made.parts, made.reruns, made.transfers if made.transfers.any else None, dict(made.writes),
                      made.uncounted, made.averages, aside, compiled([f"    {line}" for line in made.source.lines]), looks)
