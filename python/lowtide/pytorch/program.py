"""A plan as generated Python, and the addresses of its allocations.

The code is the plan's sequence: each run of a unit, and names set to None where the plan frees a buffer. What is there
before the step (parameters, buffers, state, batch) stays in PyTorch's own memory. It lies there for the whole step, so
the plan's other addresses close up over its places: the arena is the plan's less the bytes of those.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import _library
from ..errors import Internal
from ..plans import Plan, PlannedStep
from .calls import MADE, Program
from .code import Source
from .graph_text import GraphText
from .measure import Allocation, Measured, results
from .units import Unit


@dataclass
class Executable:
    """`run(given)`: tensors in the order of `given_names`; gives loss and aux. It empties the list."""

    run: Callable[[list], tuple]
    source: str
    unit_of_line: list[int]  # of the source; -1: of none
    arena_bytes: int
    resident_bytes: int
    parts: list[list[tuple[int, int]]] = field(default_factory=list)  # (bytes, offset) of every allocation
    reruns: int = 0


class _Places:
    """Addresses of the plan as offsets into the arena: residents take no room in it."""

    def __init__(self, plan: Plan) -> None:
        storages = plan.storages()
        resident = sorted((s.address, s.bytes) for s in storages if s.resident and s.bytes > 0)
        self.starts = [address for address, _ in resident]
        self.before = [0]
        for _, size in resident:
            self.before.append(self.before[-1] + size)
        self.resident_bytes = self.before[-1]

    def offset(self, address: int) -> int:
        return address - self.before[bisect.bisect_left(self.starts, address)]


class _Generator:
    def __init__(self, program: Program, units: list[Unit], graph: GraphText, plan: Plan, measured: list[Measured],
                 addresses: bool) -> None:
        self.program, self.units, self.measured = program, units, measured
        self.source = Source(program)
        self.places = _Places(plan)
        self.ops = [graph.ops.get(name) for name in plan.op_names()]
        self.names = [name for name in plan.op_names()]
        self.mine = {theirs: graph.values[name] for name, theirs in plan.storage_of_values().items()
                     if name in graph.values}
        self.at: dict[int, int] = {}  # storage -> offset
        self.ran: set[int] = set()
        self.parts: list[list[tuple[int, int]]] = []
        self.unit_of_line: list[int] = []
        self.addresses, self.reruns, self.judged = addresses, 0, False

    def note_lines(self, unit: int) -> None:
        self.unit_of_line += [unit] * (len(self.source.lines) - len(self.unit_of_line))

    def allocations(self, found: list[Allocation], unit: Unit, workspace: int) -> list[tuple[int, int]]:
        made = results(unit)
        return [(a.bytes, self.at[made[a.result]] if a.result >= 0 else workspace + a.offset) for a in found]

    def judge(self) -> None:
        """Before anything of the model is changed: whether the step may go on."""
        loss = self.program.outputs[0]
        self.source.need(loss)
        self.source.emit(f"judge(t{loss})")
        self.judged = True

    def compute(self, step: PlannedStep) -> None:
        index = self.ops[step.op]
        if index is None:
            raise Internal(f"the plan has an op '{self.names[step.op]}' that was not captured")
        unit, again = self.units[index], index in self.ran
        for storage, address, _ in step.makes:
            if storage in self.mine:
                self.at[self.mine[storage]] = self.places.offset(address)
        if unit.update is not None and not self.judged:
            self.judge()
        if self.addresses:
            self.source.emit(f"mark({len(self.parts)})")
        taken = next((self.mine.get(reused) for _, _, reused in step.makes if reused >= 0), None)
        found = self.measured[index]
        allocations = found.taken if taken is not None else found.again if again else found.first
        self.parts.append(self.allocations(allocations, unit, self.places.offset(step.workspace_address)))
        self.source.unit(unit, again, taken)
        self.ran.add(index)
        self.reruns += again
        self.note_lines(index)

    def take(self, step: PlannedStep) -> None:
        if step.kind == _library.COMPUTE:
            self.compute(step)
        elif step.kind == _library.FREE:
            storage = self.mine.get(step.storage)
            if storage is not None and self.program.storages[storage].role == MADE:
                self.source.drop(storage)
        else:
            raise Internal("the plan moves buffers to slow memory, which this engine was not asked for")


def given_names(program: Program) -> list[str]:
    """Of what the code is given: tensors, then the random stream's state, if the step draws."""
    state = [f"s{s.id}" for s in program.storages if s.base < 0 and s.role != MADE]
    return [*(f"t{t}" for t in program.given), *state]


def generate(program: Program, units: list[Unit], graph: GraphText, plan: Plan, measured: list[Measured],
             judge: Callable, mark: Callable | None) -> Executable:
    """The step as a function. `judge(loss)` is called before the first update, `mark(part)` before each unit."""
    made = _Generator(program, units, graph, plan, measured, mark is not None)
    for tensor in program.given:
        made.source.there(tensor)
    made.source.names.update(judge=judge, mark=mark)
    for step in plan.steps():
        made.take(step)
    outputs = [o for o in program.outputs if o is not None]
    for tensor in outputs:
        made.source.need(tensor)
    made.note_lines(-1)
    result = "(" + "".join(f"t{o}, " if o is not None else "None, " for o in program.outputs) + ")"
    head = ["def run(given):", f"    {', '.join(given_names(program))}, = given", "    given.clear()"]
    text = "\n".join([*head, *(f"    {line}" for line in made.source.lines), f"    return {result}"])
    scope = dict(made.source.names)
    exec(compile(text, "<lowtide step>", "exec"), scope)  # noqa: S102: our own lines
    resident = made.places.resident_bytes
    return Executable(scope["run"], text, [-1] * len(head) + made.unit_of_line + [-1], plan.arena_bytes - resident,
                      resident, made.parts, made.reruns)
