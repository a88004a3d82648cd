"""torch.compile(model, backend="lowtide", options={"budget": "2GiB"}): the user's own loop, our partition.

AOTAutograd hands over the graph of forward and backward pass together. It is planned as one step: between the two
stands an op that reads the forward pass's results and makes their gradients, and wherever the plan puts it, there the
sequence is cut. What is alive at the cut is what the forward pass saves; what the plan runs after the cut, reruns too,
in that order, is the backward pass. Both halves run as boxed code that lets go of every value after its last use.

Where the plan moves values to host memory, the halves hold the copies (transfers.py): a value that leaves in the forward
pass and comes back in the backward pass is saved as its copy, and an input that moves is the home of copies.

The optimizer is not in the graph, and gradients come back together: the budget is of parameters, inputs, activations
and all gradients. A plan is of one set of sizes: where dynamo hands over a graph with symbolic sizes (it does so at the
second size of a batch), each set of sizes that comes is traced and planned, once, when it comes first. Sizes that depend
on contents have no such set; such a graph is left to PyTorch's own partition, with a warning.
"""

from __future__ import annotations

import collections
import copy
import json
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition

from .. import _library, cache
from ..errors import Unsupported, Usage
from ..plans import Plan
from .calls import INPUT, MADE, PARAMETER, Program, read_graph
from .code import compiled
from .devices import CPU, Cpu, Cuda, device_of
from .graph_text import GraphText, write_graph
from .measure import Measured
from .meetings import Meeting
from .options import StepOptions, moving, refuse_unknown, refuse_wrong
from .planning import measure_or_take, measured_key, plan_or_take, rows_of, take_measured
from .ranks import bytes_of, plan_of
from .shards import Sharded, sharded
from .trace import BACKWARD, place_of_stack
from .transfers import begin_load, begin_store, end_copy
from .units import Unit, one_by_one

KNOWN = ("budget", "swap", "link", "effort", "time_limit_seconds", "progress", "cache")
_seen_breaks: dict[str, int] = {}  # how often a graph broke, by its reason, when the last graph came
last_plans: list[Plan] = []  # of the graphs that were compiled, the newest last; at most a few


def boxed(module: torch.fx.GraphModule, _: Any = None) -> Callable[[list], Any]:
    """The graph as a function of a list: each value goes after its last use."""
    nodes = list(module.graph.nodes)
    last: dict[torch.fx.Node, int] = {}
    for moment, node in enumerate(nodes):
        last[node] = moment
        for read in node.all_input_nodes:
            last[read] = moment
    dying = collections.defaultdict(list)
    for node, moment in last.items():
        dying[moment].append(node)
    names: dict[str, Any] = {}

    def expression(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return value.name
        if isinstance(value, tuple):
            return "(" + "".join(expression(v) + ", " for v in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(map(expression, value)) + "]"
        if type(value) in (int, bool, str, type(None)):
            return repr(value)
        names[f"c{len(names)}"] = value
        return f"c{len(names) - 1}"

    lines, given, result = [], [], "None"
    for moment, node in enumerate(nodes):
        if node.op == "placeholder":
            given.append(node.name)
        elif node.op == "get_attr":
            lines.append(f"{node.name} = {expression(getattr(module, node.target))}")
        elif node.op == "output":
            result = expression(node.args[0])
        elif node.target is operator.getitem:
            lines.append(f"{node.name} = {node.args[0].name}[{node.args[1]}]")
        else:
            arguments = [*map(expression, node.args), *(f"{k}={expression(v)}" for k, v in node.kwargs.items())]
            lines.append(f"{node.name} = {expression(node.target)}({', '.join(arguments)})")
        gone = [n.name for n in dying[moment] if node.op != "output"]
        if gone:
            lines.append(" = ".join(gone) + " = None")
    run = compiled(lines, names, given, result, "half")
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


Event = tuple[int, int]  # a kind of step: of an op the unit, of a move the storage
Saved = tuple[str, int]  # what of which storage
VALUE, HOME, HOST = "value", "home", "host"
for _function in (begin_store, begin_load, end_copy):
    torch.fx.node.has_side_effect(_function)


@dataclass
class _Half:
    """A graph under construction: which of the program's tensors have a node in it."""

    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    nodes: dict[int, torch.fx.Node] = field(default_factory=dict)
    homes: dict[int, torch.fx.Node] = field(default_factory=dict)  # of storages that move: the inputs
    hosts: dict[int, torch.fx.Node] = field(default_factory=dict)  # of storages: their copies in host memory
    under_way: dict[int, tuple[torch.fx.Node, ...]] = field(default_factory=dict)  # copies to be waited for


class _Cut:
    """The halves of a joint graph by a plan."""

    def __init__(self, joint: torch.fx.GraphModule, program: Program, units: list[Unit], boundary: int,
                 homes: set[int]) -> None:
        self.joint, self.program, self.units, self.boundary, self.homes = joint, program, units, boundary, homes
        self.metas = {t: node.meta for node, t in self.original().items()}

    def original(self) -> dict[torch.fx.Node, int]:
        """Nodes of the joint graph that are a tensor."""
        found: dict[torch.fx.Node, int] = {}
        placeholders = [n for n in self.joint.graph.nodes if n.op == "placeholder"]
        found.update(zip(placeholders, self.program.given, strict=False))
        for call in self.program.calls:
            if not call.many and call.outs and call.outs[0] is not None:
                found[call.node] = call.outs[0]
            for user in call.node.users if call.many else ():
                if user.target is operator.getitem and call.outs[user.args[1]] is not None:
                    found[user] = call.outs[user.args[1]]
        return found

    def given(self, half: _Half, tensor: int, name: str) -> None:
        node = half.graph.placeholder(name)
        node.meta = dict(self.metas.get(tensor, {}))
        storage = self.program.tensors[tensor].storage
        if storage not in self.homes:
            half.nodes[tensor] = node
        elif self.program.storages[storage].base == tensor:
            half.homes[storage] = node

    def call(self, half: _Half, call: Any) -> torch.fx.Node:
        args, kwargs = call.with_tensors(lambda t: t)
        swap = lambda leaf: self.node(half, leaf.id) if hasattr(leaf, "id") else leaf  # noqa: E731
        args, kwargs = torch.utils._pytree.tree_map(swap, (args, kwargs), is_leaf=lambda x: hasattr(x, "id"))
        node = half.graph.call_function(call.target, tuple(args), dict(kwargs))
        node.meta = dict(call.node.meta)
        for index, out in enumerate(call.outs):
            if out is None:
                continue
            half.nodes[out] = half.graph.call_function(operator.getitem, (node, index)) if call.many else node
            half.nodes[out].meta = dict(self.metas.get(out, {}))
        return node

    def node(self, half: _Half, tensor: int) -> torch.fx.Node:
        """The tensor's node; a view is made where it is needed, of what is there."""
        if tensor not in half.nodes:
            recipe = self.program.tensors[tensor].recipe
            if recipe is None:
                raise AssertionError(f"tensor {tensor} is read and not there")
            self.call(half, recipe)
        return half.nodes[tensor]

    def forget(self, half: _Half, storage: int) -> None:
        for tensor in [t for t in half.nodes if self.program.tensors[t].storage == storage]:
            del half.nodes[tensor]

    def run(self, half: _Half, events: list[Event]) -> None:
        for kind, which in events:
            if kind != _library.COMPUTE:
                self.move(half, kind, which)
                continue
            for storage in self.units[which].makes:
                self.forget(half, storage)
            for call in self.units[which].calls:
                self.call(half, call)

    def move(self, half: _Half, kind: int, storage: int) -> None:
        base = self.program.storages[storage].base
        if kind == _library.FREE:
            self.forget(half, storage)
        elif kind == _library.WAIT:
            if storage in half.under_way:
                half.graph.call_function(end_copy, half.under_way.pop(storage))
        elif kind == _library.LOAD:
            kept = half.homes[storage] if storage in self.homes else half.hosts[storage]
            node = self.copied(half, begin_load, kept, base)
            half.nodes[base], half.under_way[storage] = node, (node,)
        elif storage in self.homes:
            half.graph.call_function(torch.ops.aten.copy_.default, (half.homes[storage], self.node(half, base)))
        else:
            value = self.node(half, base)
            half.hosts[storage] = self.copied(half, begin_store, value, base)
            half.under_way[storage] = (half.hosts[storage], value)

    def copied(self, half: _Half, function: Callable, source: torch.fx.Node, base: int) -> torch.fx.Node:
        node = half.graph.call_function(function, (source,))
        node.meta = {"val": self.metas[base]["val"]} if "val" in self.metas.get(base, {}) else {}
        return node

    def saved(self, one: _Half, later: list[Event], outputs: list[int | None]) -> list[Saved]:
        """What the second half needs and does not make first."""
        needed: dict[Saved, None] = {}
        there, stored = set(self.units[self.boundary].makes), set()
        for storage, copies in one.under_way.items():
            needed[VALUE, storage] = None
            if len(copies) > 1:
                needed[HOST, storage] = None
        for kind, which in later:
            reads = self.units[which].reads if kind == _library.COMPUTE else [which] if kind == _library.STORE else []
            needed.update({(VALUE, storage): None for storage in reads if storage not in there})
            if kind == _library.COMPUTE:
                there |= set(self.units[which].makes)
            elif kind == _library.FREE:
                there.discard(which)
            elif which in self.homes and kind in (_library.LOAD, _library.STORE):
                needed[HOME, which] = None
            elif kind == _library.LOAD and which not in stored:
                needed[HOST, which] = None
            if kind == _library.LOAD:
                there.add(which)
            elif kind == _library.STORE:
                stored.add(which)
        ends = [self.program.tensors[o].storage for o in outputs if o is not None]
        needed.update({(VALUE, storage): None for storage in ends if storage not in there})
        constants = {self.program.tensors[t].storage
                     for t in self.program.given[len(self.program.given) - len(self.program.constants):]} - self.homes
        return [key for key in needed if key[1] not in constants]

    def held(self, half: _Half, key: Saved) -> torch.fx.Node:
        what, storage = key
        if what == VALUE:
            return self.node(half, self.program.storages[storage].base)
        return half.homes[storage] if what == HOME else half.hosts[storage]

    def given_saved(self, half: _Half, key: Saved, node: torch.fx.Node, name: str) -> None:
        """What the first half saved, as an input of the second."""
        what, storage = key
        made = half.graph.placeholder(name)
        made.meta = dict(node.meta)
        if what == VALUE:
            half.nodes[self.program.storages[storage].base] = made
        else:
            (half.homes if what == HOME else half.hosts)[storage] = made

    def constants(self, half: _Half) -> None:
        nodes = [n for n in self.joint.graph.nodes if n.op == "get_attr"]
        start = len(self.program.given) - len(self.program.constants)
        for node, tensor in zip(nodes, self.program.given[start:], strict=True):
            made = half.graph.get_attr(node.target)
            made.meta = dict(node.meta)
            if self.program.tensors[tensor].storage in self.homes:
                half.homes[self.program.tensors[tensor].storage] = made
            else:
                half.nodes[tensor] = made

    def finish(self, half: _Half, outputs: list[int | None], saved: list[torch.fx.Node],
               descriptions: Any) -> torch.fx.GraphModule:
        found = [self.node(half, o) if o is not None else None for o in outputs]
        node = half.graph.output((*found, *saved))
        node.meta["desc"] = descriptions
        half.graph.eliminate_dead_code()
        return torch.fx.GraphModule(self.joint, half.graph)


def _boundary(program: Program, units: list[Unit], forward: int, tangents: list[int]) -> int:
    """Adds the op that stands between the passes; its place in `units`."""
    reads = [program.tensors[o].storage for o in program.outputs[:forward] if o is not None]
    makes = list(dict.fromkeys(program.tensors[t].storage for t in tangents))
    for storage in makes:
        program.storages[storage].role = MADE
    late, behind = set(makes), []
    for unit in units:  # what depends on the gradients comes behind them
        if late & set(unit.reads):
            late |= set(unit.makes)
            behind.append(unit)
    units[:] = [unit for unit in units if unit not in behind] + behind
    place = len(units) - len(behind)
    number = max((unit.number for unit in units), default=0) + 1
    unit = Unit(number, [], BACKWARD, list(dict.fromkeys(reads)), makes, what="boundary", once=True)
    unit.after = {other.number for other in units if other.updates}  # buffers change in the forward pass
    units.insert(place, unit)
    return place


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


def partition(joint: torch.fx.GraphModule, forward: int, fixed: list[int], options: dict[str, Any],
              shared: Sharded | None = None) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Forward and backward graph. `forward`: how many outputs are the forward pass's; `fixed`: inputs that stay; `shared`:
    the ranks that share its parameters."""
    placeholders = [node for node in joint.graph.nodes if node.op == "placeholder"]
    roles = [(PARAMETER if i in set(fixed) else INPUT, node.name) for i, node in enumerate(placeholders)]
    places = {node.name: place_of_stack(node.meta.get("stack_trace") or "") for node in joint.graph.nodes}
    device = _device(placeholders)
    if device.type != "cpu" and options.get("swap") is not None:
        raise Unsupported(f"swap is not there in backend lowtide on {device.device}; lowtide.compile_step has it")

    def read() -> _Joint:
        program = read_graph(joint, roles, places, device=device)
        tangents = [program.given[i] for i, node in enumerate(placeholders) if node.name.startswith("tangents")]
        units = one_by_one(program)
        boundary = _boundary(program, units, forward, tangents)
        key = measured_key(device, write_graph(program, units, None, "joint graph"), units, "joint", boundary)
        return _Joint(program, units, boundary, key)

    found, plan, graph = _planned(read, device, options, shared)
    last_plans[:] = [*last_plans[-7:], plan]
    events, homes = _events(found.program, graph, plan)
    at = events.index((_library.COMPUTE, found.boundary))
    cut = _Cut(joint, found.program, found.units, found.boundary, homes)
    return _halves(cut, events[:at], events[at + 1:], forward, placeholders)


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


def _events(program: Program, graph: GraphText, plan: Plan) -> tuple[list[Event], set[int]]:
    """The plan's sequence: runs of units, and what becomes of storages that move; those whose home is an input."""
    names, storages = plan.op_names(), plan.storages()
    mine = {theirs: graph.values[name] for name, theirs in plan.storage_of_values().items()
            if name in graph.values and storages[theirs].slow_address >= 0}
    events = []
    for step in plan.steps():
        if step.kind == _library.COMPUTE:
            events.append((step.kind, graph.ops[names[step.op]]))
        elif step.storage in mine:
            events.append((step.kind, mine[step.storage]))
    return events, {mine[i] for i, place in enumerate(storages) if place.home_slow and i in mine}


def _halves(cut: _Cut, early: list[Event], later: list[Event], forward: int,
            placeholders: list[torch.fx.Node]) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    outputs = cut.program.outputs
    described = next(n for n in cut.joint.graph.nodes if n.op == "output").meta.get("desc", [None] * len(outputs))
    one, two = _Half(), _Half()
    for node, tensor in zip(placeholders, cut.program.given, strict=False):
        if not node.name.startswith("tangents"):
            cut.given(one, tensor, node.name)
    cut.constants(one)
    cut.run(one, early)
    saved = cut.saved(one, later, outputs[forward:])
    held = [cut.held(one, key) for key in saved]
    for k, (key, node) in enumerate(zip(saved, held, strict=True)):
        cut.given_saved(two, key, node, node.name if node.op == "placeholder" else f"saved_{k}")
    for storage, copies in one.under_way.items():
        value = two.nodes[cut.program.storages[storage].base]
        two.under_way[storage] = (two.hosts[storage], value) if len(copies) > 1 else (value,)
    for node, tensor in zip(placeholders, cut.program.given, strict=False):
        if node.name.startswith("tangents"):
            cut.given(two, tensor, node.name)
    cut.constants(two)
    cut.run(two, later)
    first = cut.finish(one, outputs[:forward], held, [*described[:forward], *[None] * len(saved)])
    return first, cut.finish(two, outputs[forward:], [], list(described[forward:]))


def _is_symbolic(given: Any) -> bool:
    if isinstance(given, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in (*given.shape, *given.stride()))
    return isinstance(given, (torch.SymInt, torch.SymFloat, torch.SymBool))


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


def _with_sizes(module: torch.fx.GraphModule, given: tuple) -> torch.fx.GraphModule:
    """The graph with the numbers among its inputs written into it, and what is computed of them alone."""
    graph = copy.deepcopy(module.graph)
    known = {node: value for node, value in zip((n for n in graph.nodes if n.op == "placeholder"), given, strict=True)
             if not isinstance(value, torch.Tensor)}
    for node in list(graph.nodes):
        if node not in known:
            node.args, node.kwargs = torch.fx.node.map_aggregate(
                (node.args, node.kwargs), lambda leaf: known.get(leaf, leaf) if isinstance(leaf, torch.fx.Node) else leaf)
            if node.op == "call_method" and node.target == "item" and not node.all_input_nodes:
                known[node] = node.args[0]
            elif node.op == "call_function" and _is_symbolic(node.meta.get("example_value")) and not node.all_input_nodes:
                known[node] = node.target(*node.args, **node.kwargs)
    for node in reversed(list(known)):
        graph.erase_node(node)
    return torch.fx.GraphModule(module, graph)


class _BySizes:
    """A graph with symbolic sizes: a planned one for each set of sizes that comes."""

    def __init__(self, module: torch.fx.GraphModule, make: Callable[..., Callable]) -> None:
        self.module, self.make = module, make
        self.made: dict[Any, Callable] = {}
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.lasting = ["_dynamo_static_input_type" in n.meta.get("tensor_dict", {}) for n in placeholders]  # the module's own

        # Numbers that come as tensors (a norm's momentum): all that the graph does with them is to read them.
        self.numbers = [bool(n.users) and all(u.op == "call_method" and u.target == "item" for u in n.users)
                        for n in placeholders]

    def __call__(self, *inputs: Any) -> Any:
        given = tuple(g.item() if number and isinstance(g, torch.Tensor) else g
                      for g, number in zip(inputs, self.numbers, strict=True))
        key = tuple((g.shape, g.stride()) if isinstance(g, torch.Tensor) else g for g in given)
        tensors = [g for g in given if isinstance(g, torch.Tensor)]
        if key not in self.made:
            lasting = [lasts for lasts, g in zip(self.lasting, given, strict=True) if isinstance(g, torch.Tensor)]
            self.made[key] = self.make(_with_sizes(self.module, given), tensors,
                                       [i for i, lasts in enumerate(lasting) if lasts])
        return self.made[key](*tensors)


def lowtide(module: torch.fx.GraphModule, example_inputs: list[Any], *, options: dict[str, Any] | None = None,
            **_: Any) -> Callable:
    """The backend. Options: budget (bytes, "2GiB", "60%"), swap ("host"), link ("12GiB/s"), effort, time_limit_seconds, progress, cache."""
    asked = _options(options)
    _tell_of_breaks(asked.get("budget") is not None)

    def made(graph: torch.fx.GraphModule, inputs: list[Any], lasting: list[int] | None = None) -> Callable:
        shared = sharded(inputs)

        def split(joint: torch.fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int,
                  static_lifetime_input_indices: list[int] | None = None, **more: Any) -> Any:
            symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
            if any(isinstance(node.meta.get("val"), symbols) for node in joint.graph.nodes):
                warnings.warn("lowtide: a graph whose sizes depend on the contents of tensors is left to PyTorch's own "
                              "partition, without the budget", stacklevel=2)
                return default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
            fixed = static_lifetime_input_indices or [] if lasting is None else lasting
            return partition(joint, num_fwd_outputs, fixed, asked, shared)

        return aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=boxed, partition_fn=split,
                            keep_inference_input_mutations=True)(graph, inputs)

    if any(map(_is_symbolic, example_inputs)):
        return _BySizes(module, made)
    return made(module, example_inputs)
