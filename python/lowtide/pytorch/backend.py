"""torch.compile(model, backend="lowtide", options={"budget": "2GiB"}): the user's own loop, our partition.

AOTAutograd hands over the graph of forward and backward pass together. It is planned as one step: between the two
stands an op that reads the forward pass's results and makes their gradients, and wherever the plan puts it, there the
sequence is cut. What is alive at the cut is what the forward pass saves; what the plan runs after the cut, reruns too,
in that order, is the backward pass.

    backend_cut.py      the halves, from the plan's sequence, moves to host memory included
    backend_proof.py    whether they compute what the joint graph computes: nothing is believed that was not compared
    backend_layouts.py  what they read by strides lies as it was traced
    backend_sizes.py    a graph with symbolic sizes: a plan for each set of sizes
    backend_left.py     what is not planned is left to PyTorch, with a warning

Inputs that are written in place last as parameters do: each of their values is read before the next is written, in the pass that writes
it in eager mode. The optimizer is not in the graph, and gradients come back together: the budget is of parameters, inputs, activations
and all gradients.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from .. import _library, cache
from ..errors import Error, Unsupported, Usage
from ..plans import Plan
from .backend_cut import Cut, boxed, events_of, halves
from .backend_layouts import OrEager, look
from .backend_left import Left, as_it_is, of_a_handler, place_of, refuse_unplannable, written_behind
from .backend_proof import check, in_backward
from .backend_sizes import BySizes, depends_on_contents, is_symbolic
from .calls import INPUT, MADE, PARAMETER, Program, read_graph
from .devices import CPU, Cpu, Cuda, device_of
from .graph_text import GraphText, write_graph
from .measure import Measured
from .meetings import Meeting
from .options import StepOptions, moving, refuse_unknown, refuse_wrong
from .planning import measure_or_take, measured_key, plan_or_take, rows_of, take_measured
from .ranks import bytes_of, plan_of
from .schemas import schema_writes
from .shards import Sharded, sharded
from .trace import BACKWARD
from .units import Unit, one_by_one

KNOWN = ("budget", "swap", "link", "effort", "time_limit_seconds", "progress", "cache", "strict")
_seen_breaks: dict[str, int] = {}  # how often a graph broke, by its reason, when the last graph came
last_plans: list[Plan] = []  # of the graphs that were compiled, the newest last; at most a few


def _boundary(program: Program, units: list[Unit], forward: int, tangents: list[int], written: list[int]) -> int:
    """Adds the op that stands between the passes; its place in `units`. What depends on the gradients comes behind it, and what the
    backward pass writes or draws, too; what the forward pass writes or draws comes before it. `written`: inputs that AOTAutograd writes
    itself once the forward pass has ended; to the plan the op writes them, so that none is read again behind it for its value before."""
    reads = [program.tensors[o].storage for o in program.outputs[:forward] if o is not None]
    makes = list(dict.fromkeys(program.tensors[t].storage for t in tangents))
    for storage in makes:
        program.storages[storage].role = MADE
    late, behind = set(makes), []
    for unit in units:
        effect = bool(unit.updates or unit.random)
        if late & set(unit.reads) or (effect and _in_backward(unit)):
            late |= {*unit.makes, *unit.updates}
            behind.append(unit)
    put_off = {unit.number for unit in behind}
    before = [unit for unit in units if unit.number not in put_off]
    number = max((unit.number for unit in units), default=0) + 1
    unit = Unit(number, [], BACKWARD, list(dict.fromkeys(reads)), makes, what="boundary", once=True)
    for storage in dict.fromkeys(program.tensors[t].storage for t in written):
        if not any(storage in (*other.updates, *other.statistics) for other in units) and not any(storage in other.reads for other in behind):
            program.storages[storage].role = PARAMETER
            unit.reads = list(dict.fromkeys([*unit.reads, storage]))
            unit.updates.append(storage)
    unit.after = {other.number for other in before if other.updates or other.random}
    for other in behind:
        if other.updates or other.random:
            other.after.add(number)
    units[:] = [*before, unit, *behind]
    return len(before)


def _in_backward(unit: Unit) -> bool:
    return any(call.node is not None and in_backward(call.node) for call in unit.calls)


def _options(options: dict[str, Any] | None) -> dict[str, Any]:
    """Raises Usage."""
    asked = dict(options or {})
    for name in asked:
        if name in StepOptions.__dataclass_fields__ and name not in KNOWN:
            raise Usage(f"option '{name}' is not there in backend lowtide, which plans the passes of "
                        f"a loop of one's own; lowtide.compile_step has it. Known here are "
                        f"{', '.join(KNOWN)}")
    refuse_unknown(asked, KNOWN, " of backend lowtide")
    for name, value in asked.items():
        refuse_wrong(name, value)
    moving(asked.get("swap"), asked.get("link"))
    return asked


def _planning(options: dict[str, Any]) -> dict[str, Any]:
    levers = {"allow": "recompute,reorder", **moving(options.get("swap"), options.get("link"))}
    found: dict[str, Any] = {**levers, "effort": options.get("effort", 4)}
    if options.get("time_limit_seconds") is not None:
        found["time_limit_seconds"] = options["time_limit_seconds"]
    if options.get("budget") is not None:
        found["budget_bytes" if isinstance(options["budget"], int) else "budget"] = options["budget"]
    return found


def _device(placeholders: list[torch.fx.Node]) -> Cpu | Cuda:
    """That of the region: the GPU of the first tensor that is on one, or the CPU."""
    found = (node.meta["val"].device for node in placeholders if isinstance(node.meta.get("val"), torch.Tensor))
    return device_of(next((device for device in found if device.type != "cpu"), CPU.device))


def _roles(placeholders: list[torch.fx.Node], fixed: list[int]) -> list[tuple[str, str]]:
    """What each input is before the step. One that is written in place is the caller's, and lasts as a parameter does."""
    lasting = set(fixed)
    return [(PARAMETER if i in lasting or _is_written(node) else INPUT, node.name) for i, node in enumerate(placeholders)]


def _is_written(node: torch.fx.Node) -> bool:
    return any(node in schema_writes(user.target, user.args, user.kwargs) for user in node.users
               if isinstance(user.target, torch._ops.OpOverload))


def partition(joint: torch.fx.GraphModule, forward: int, fixed: list[int], options: dict[str, Any],
              shared: Sharded | None = None) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Forward and backward graph. `forward`: how many outputs are the forward pass's; `fixed`: inputs that stay; `shared`:
    the ranks that share its parameters."""
    refuse_unplannable(joint)
    placeholders = [node for node in joint.graph.nodes if node.op == "placeholder"]
    roles = _roles(placeholders, fixed)
    places = {node.name: place_of(node) for node in joint.graph.nodes}
    written = written_behind(joint, forward)
    device = _device(placeholders)
    if device.type != "cpu" and options.get("swap") is not None:
        raise Unsupported(f"swap is not there in backend lowtide on {device.device}; lowtide.compile_step has it")

    def read() -> _Joint:
        program = read_graph(joint, roles, places, device=device, apart=True)
        tangents = [program.given[i] for i, node in enumerate(placeholders) if node.name.startswith("tangents")]
        units = one_by_one(program)
        boundary = _boundary(program, units, forward, tangents, [program.given[i] for i in written])
        key = measured_key(device, write_graph(program, units, None, "joint graph"), units, "joint", boundary)
        return _Joint(program, units, boundary, key)

    found, plan, graph = _planned(read, device, options, shared)
    events, homes = events_of(found.program, graph, plan)
    at = events.index((_library.COMPUTE, found.boundary))
    cut = Cut(joint, found.program, found.units, found.boundary, homes)
    first, second = halves(cut, events[:at], events[at + 1:], forward, placeholders)
    check(joint.graph, first.graph, second.graph, forward)
    last_plans[:] = [*last_plans[-7:], plan]
    return first, second


@dataclass
class _Joint:
    """A joint graph before it is planned; `key`: of what is measured."""

    program: Program
    units: list[Unit]
    boundary: int
    key: str

    def graph(self, measured: list[Measured]) -> GraphText:
        whole = list(measured)
        whole.insert(self.boundary, type(whole[0])(1e-6) if whole else None)
        return write_graph(self.program, self.units, whole, "joint graph")

    def working(self) -> list[Unit]:
        return [unit for unit in self.units if unit.calls]


def _planned(read: Callable[[], _Joint], device: Cpu | Cuda, options: dict[str, Any],
             shared: Sharded | None) -> tuple[_Joint, Plan, GraphText]:
    """The joint graph with its plan: of ranks that share its parameters the first rank's."""
    keep = options.get("cache", True)

    def make(found: _Joint) -> tuple[Plan, GraphText, list]:
        measured = measure_or_take(found.program, found.working(), found.key, keep)
        graph, asked = found.graph(measured), {**_planning(options), **device.planning(keep)}
        plan = plan_or_take(graph, "joint graph", cache.key(found.key, asked), asked, options.get("progress"), keep)
        return plan, graph, rows_of(measured)

    if shared is None:
        found = read()
        plan, graph, _ = make(found)
        return found, plan, graph
    met = Meeting(shared.ranks)
    found = met.same(read, lambda made: cache.key(made.key, _planning(options)))

    def tell() -> tuple[tuple[Plan, GraphText], bytes]:
        plan, graph, rows = make(found)
        return (plan, graph), json.dumps(rows).encode() + b"\n" + bytes_of(plan)

    def take(told: bytes) -> tuple[Plan, GraphText]:
        rows, _, plan = told.partition(b"\n")
        return plan_of(plan), found.graph(take_measured(found.program, found.working(), json.loads(rows)))

    plan, graph = met.from_first(tell, take)
    plan.communication = {"gather_bytes": shared.gather_bytes, "scatter_bytes": shared.scatter_bytes}
    return found, plan, graph


def _tell_of_breaks(limited: bool) -> None:
    """Dynamo has recorded a break when it hands over the piece before it."""
    now = dict(torch._dynamo.utils.counters["graph_break"])
    new = [reason for reason, times in now.items() if times > _seen_breaks.get(reason, 0)]
    _seen_breaks.clear()
    _seen_breaks.update(now)
    if new and limited:
        reason = " ".join(min(new).split())
        warnings.warn(f"lowtide: the graph breaks ({reason[:200]}), and each of its pieces is planned by itself within the whole "
                      "budget, as if nothing of the others were alive; fullgraph=True refuses breaks and names their line",
                      stacklevel=2)


def lowtide(module: torch.fx.GraphModule, example_inputs: list[Any], *, options: dict[str, Any] | None = None,
            **_: Any) -> Callable:
    """The backend. Options: budget (bytes, "2GiB", "60%"), swap ("host"), link ("12GiB/s"), effort, time_limit_seconds, progress, cache,
    strict (whether what cannot be planned is an error)."""
    try:
        return _compiled(module, example_inputs, _options(options))
    except Exception as problem:
        if not isinstance(problem, Error) and not of_a_handler(problem):
            raise
        raise as_it_is(problem).with_traceback(problem.__traceback__) from problem.__cause__


def _compiled(module: torch.fx.GraphModule, example_inputs: list[Any], asked: dict[str, Any]) -> Callable:
    _tell_of_breaks(asked.get("budget") is not None)
    left = Left(module, asked.get("strict", False))

    def made(graph: torch.fx.GraphModule, inputs: list[Any], lasting: list[int] | None = None) -> Callable:
        def split(joint: torch.fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int,
                  static_lifetime_input_indices: list[int] | None = None, **more: Any) -> Any:
            fixed = static_lifetime_input_indices or [] if lasting is None else lasting
            try:
                return partition(joint, num_fwd_outputs, fixed, asked, sharded(inputs))
            except Exception as problem:
                if of_a_handler(problem):
                    raise
                return left.partition(joint, joint_inputs, problem, num_fwd_outputs=num_fwd_outputs,
                                      static_lifetime_input_indices=static_lifetime_input_indices, **more)

        looks = []

        def forward_pass(module: torch.fx.GraphModule, _: Any) -> Callable:
            looks.append(look(module.graph))
            return boxed(module)

        compiler = aot_autograd(fw_compiler=forward_pass, bw_compiler=boxed, inference_compiler=forward_pass, partition_fn=split,
                                keep_inference_input_mutations=True)
        run = left.compiled(lambda: compiler(graph, inputs), graph.forward, running=lasting is not None)
        return OrEager(run, graph.forward, left) if any(looks) else run

    if any(map(is_symbolic, example_inputs)) and not depends_on_contents(module):
        return BySizes(module, made, left)
    return made(module, example_inputs)
