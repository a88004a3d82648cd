"""What the backend does not plan: it is left to PyTorch, with one warning for each reason; it never stops a program that eager mode runs.

    a joint graph that cannot be planned     PyTorch's own partition, the one of backend="aot_eager": higher-order ops (cond, while_loop,
                                             scan, flex_attention, custom ops that write), sizes that depend on contents, effects, sparse
                                             tensors; a budget that cannot be kept, a search that ended, an error of ours
    a graph that AOTAutograd cannot trace    eager mode, op by op, as backend="eager"
    one size too many of the same graph      eager mode (backend_sizes.py)
    as_strided of what lies otherwise        eager mode (backend_layouts.py)

What dynamo raises to begin again, and what a handler of a signal raises meanwhile, comes out as it is.

With options={"strict": True} each of these is an error, Unsupported, Infeasible, Limit or Internal. A wrong option is an error always,
and so is what ranks that share a graph say of each other.

Tests: tests/python/test_torch_backend_left.py.
"""

from __future__ import annotations

import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import ShortenTraceback, TensorifyScalarRestartAnalysis, TorchDynamoException
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

from ..errors import Error, Internal, Unsupported, Usage
from .trace import place_of_stack

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
OWN_PARTITION = "left to PyTorch's own partition, without the budget"
EAGER = "left to eager mode, without the budget"
# What tells dynamo to begin again, or to break the graph here.
DYNAMOS_OWN = (TorchDynamoException, TensorifyScalarRestartAnalysis)


def place_of(node: torch.fx.Node) -> str:
    """The user's line that the node comes from."""
    return place_of_stack(node.meta.get("stack_trace") or "")


def first_place(graph: torch.fx.Graph) -> str:
    """The first line of the graph, of the user's own files if any is."""
    found = list(filter(None, map(place_of, graph.nodes)))
    return next((place for place in found if "-packages" not in place), next(iter(found), ""))


def refuse_unplannable(joint: torch.fx.GraphModule) -> None:
    """Raises Unsupported for the first op or input that has no place in a plan, and names its line."""
    for node in joint.graph.nodes:
        value, place = node.meta.get("val"), place_of(node)
        where = f"{place}: " if place else ""
        if isinstance(value, SYMBOLS) or isinstance(value, torch.Tensor) and _has_symbols(value):
            raise Unsupported(f"{where}sizes depend on the contents of tensors")
        if node.op == "placeholder" and not isinstance(value, torch.Tensor):
            raise Unsupported(f"input '{node.name}' is a {type(value).__name__}, no tensor")
        if node.op == "placeholder" and not node.name.startswith(("primals", "tangents")):
            raise Unsupported(f"input '{node.name}' is the random stream's state")
        if node.target is torch.ops.higher_order.with_effects:
            raise Unsupported(f"{where}{node.args[1]} has an effect that PyTorch keeps in order with others")
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            of = f" of {node.args[0]}" if node.args and isinstance(node.args[0], torch._ops.OpOverload) else ""
            raise Unsupported(f"{where}{node.target}{of} is a higher-order op, which holds graphs of its own or writes what it is given")
        leaves = value if isinstance(value, (list, tuple)) else [value]
        kinds = {leaf.layout for leaf in leaves if isinstance(leaf, torch.Tensor)} - {torch.strided}
        if kinds:
            raise Unsupported(f"{where}{node.name} is a tensor with the layout {kinds.pop()}, which has no place in a plan")


def _has_symbols(value: torch.Tensor) -> bool:
    return value.layout == torch.strided and any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))


def written_behind(joint: torch.fx.GraphModule, forward: int) -> list[int]:
    """Places of the inputs whose new values are results of the forward pass, from which AOTAutograd copies them when it has ended."""
    last = next(node for node in joint.graph.nodes if node.op == "output")
    new = [said.mutated_input for said in last.meta.get("desc", ())[:forward] if isinstance(said, InputMutationAOTOutput)]
    return [i for i, node in enumerate(n for n in joint.graph.nodes if n.op == "placeholder") if node.meta.get("desc") in new]


def as_it_is(problem: Exception) -> Exception:
    """The error as one that dynamo lets through, to be raised where this is called; others come out as BackendCompilerFailed, with what
    they are as text alone."""
    kind = type(type(problem).__name__, (ShortenTraceback, type(problem)), {"__module__": type(problem).__module__, "__init__": _is_made})
    made = kind(*problem.args)
    made.__dict__.update(vars(problem), first_useful_frame=sys._getframe(1))
    return made


def _is_made(self: Exception, *args: Any) -> None:
    self.args = args


def of_a_handler(problem: BaseException) -> bool:
    """Whether a handler of a signal raised it (a time limit, say), which Python calls between any two lines."""
    handlers = [getattr(handler, "func", handler) for handler in map(signal.getsignal, signal.valid_signals()) if callable(handler)]
    functions = [getattr(h, "__func__", h) if hasattr(h, "__code__") else type(h).__call__ for h in handlers]
    codes = {getattr(function, "__code__", None) for function in functions} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(problem.__traceback__))


_TOLD: dict[int, set[str]] = {}  # by dynamo's number of a code


def _told_of_this_code() -> set[str]:
    """The reasons that were told of a code: dynamo hands it over again, with the sizes open, when a batch has other ones."""
    now = torch._guards.CompileContext.current_compile_id()
    if now is None or now.frame_id is None:
        return set()
    if not now.frame_compile_id:  # for the first time
        _TOLD[now.frame_id] = set()
    return _TOLD.setdefault(now.frame_id, set())


class Left:
    """What becomes of a piece (a graph of dynamo's) that is not planned. `strict`: nothing is left."""

    def __init__(self, module: torch.fx.GraphModule, strict: bool) -> None:
        self.place, self.strict = first_place(module.graph), strict
        self.told = _told_of_this_code()

    def tell(self, problem: Exception, what: str) -> None:
        """Warns once of each kind of reason; raises the reason if nothing may be left."""
        ours = isinstance(problem, Error)
        text = " ".join(str(problem).split())
        if self.strict:
            raise problem if ours else Internal(f"{type(problem).__name__}: {text}") from problem
        if not ours or isinstance(problem, Internal):
            text = f"an error of Lowtide's own, please report it: {type(problem).__name__}: {text}"
        kind = f"{self.place} {what} {re.sub(r'[0-9]+', '', text)}"
        if kind not in self.told:
            self.told.add(kind)
            piece = f"the piece that begins at {self.place}" if self.place else "a piece"
            warnings.warn(f"lowtide: {piece} is {what}: {text[:400]}", stacklevel=2)

    def partition(self, joint: torch.fx.GraphModule, inputs: Any, problem: Exception, **more: Any) -> Any:
        """PyTorch's own halves. Raises the problem if nothing may be left, or if the caller is to know of it in any case."""
        if isinstance(problem, Usage) or type(problem) is Error:
            raise problem
        self.tell(problem, OWN_PARTITION)
        copied = any(node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder" for node in joint.graph.nodes)
        if copied or written_behind(joint, more["num_fwd_outputs"]):  # the other one would compute again from what is written by then
            return default_partition(joint, inputs, **more)
        try:
            return min_cut_rematerialization_partition(joint, inputs, **more)
        except (AssertionError, RuntimeError, KeyError):
            return default_partition(joint, inputs, **more)

    def compiled(self, make: Callable[[], Callable], otherwise: Callable, running: bool) -> Callable:
        """What `make` makes, or `otherwise`, the graph in eager mode, where PyTorch itself cannot trace it. `running`: whether dynamo
        has long handed over the graph, and hears nothing any more."""
        try:
            return make()
        except Error:
            raise
        except Exception as problem:
            if of_a_handler(problem) or isinstance(problem, DYNAMOS_OWN) and not running:
                raise
            text = " ".join(str(problem).split())
            self.tell(Unsupported(f"AOTAutograd cannot trace it: {type(problem).__name__}: {text[:300]}"), EAGER)
            return otherwise
