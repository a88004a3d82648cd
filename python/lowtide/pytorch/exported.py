"""The forward pass with its loss as an exported program, for the library's own door (.pt2).

`torch.export` of loss_fn over the model, written without weights: parameters and buffers of floats are only named, as the
native engine runs on the model's own tensors. Whole numbers and constants come along, as shapes may be computed from them.

Tied parameters are one before the program is written: without contents the door could not tell that they are. Before that
the program is held against the step as eager mode does it (native_check.py): running statistics are kept by the batch norm's op,
counts of batches are added up by the engine, and what else a step does is refused by name.
"""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from ..errors import Unsupported, Usage
from . import conversions, frozen, hooks, streams
from .batches import BatchSpec, fields_of, tensors_of
from .carried import Carried
from .externals import External, memory_hidden
from .indices import IndexChecks, index_checks
from .native_check import TORCH, Taken, WholeStep
from .own_errors import not_written_down
from .step_numbers import is_symbol
from .trace import Model, apart, is_pair, refusal, scalar_loss
from .written_out import written_out

FILE = "step.pt2"
_PREFIX = "model."


class _Shell(torch.nn.Module):
    """loss_fn over the model, of the leaves of a batch; (loss, tensors of aux)."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable, spec: BatchSpec, accumulate: int,
                 see: Callable) -> None:
        super().__init__()
        self.model = model
        self._loss_fn, self._spec, self._accumulate, self._see = loss_fn, spec, accumulate, see

    def forward(self, *leaves: torch.Tensor) -> Any:
        batch = self._spec.batch_of(list(leaves))
        losses, auxes, pairs = [], [], []
        for part in batch if self._accumulate > 1 else [batch]:
            answer = self._loss_fn(self.model, part)
            loss, aux = scalar_loss(answer)
            pairs.append(is_pair(answer))
            losses.append(loss)
            auxes.append(aux)
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        aux, aux_spec = pytree.tree_flatten(auxes if self._accumulate > 1 and any(pairs) else auxes[0], is_leaf=lambda v: isinstance(v, torch.Size))
        if any(map(is_symbol, aux)):
            raise Unsupported(f"loss_fn hands out a number that the step reads off a tensor (.item()), which the native engine does not read; the tensor "
                              f"itself (.detach()) can be handed out, and {TORCH}")
        for leaf in aux:
            if not isinstance(leaf, torch.Tensor) and fields_of(leaf) is not None:
                raise Unsupported(f"loss_fn hands out a {type(leaf).__name__} that holds tensors of the step; a dict of them can be handed out, and {TORCH}")
        self._see(any(pairs), [None if isinstance(leaf, torch.Tensor) else [leaf] for leaf in aux], aux_spec)
        return (total, *(leaf for leaf in aux if isinstance(leaf, torch.Tensor)))


@dataclass
class Exported:
    """A program in a folder, and what its names mean."""

    path: pathlib.Path
    inputs: list[str]  # a name for each leaf of the batch
    loss: str
    aux: list[str | None]  # by leaf of aux; None: no tensor but the one of aux_leaves
    aux_leaves: list[Any]
    aux_spec: Any
    pair: bool  # whether loss_fn gives something beside the loss
    named: dict[str, str]  # value -> parameter or buffer of the model
    counts: dict[str, int] = field(default_factory=dict)  # buffers of whole numbers that grow by so much
    kept: dict[str, int] = field(default_factory=dict)  # buffers of statistics, and how often a step writes them
    loss_shape: tuple[int, ...] = ()
    with_gradient: list[str] = field(default_factory=list)  # parameters that have one in eager mode
    taken: list[Taken] = field(default_factory=list)  # whose contents the program has
    indices: IndexChecks = field(default_factory=IndexChecks)  # of the batch, before a step
    constants: list[External] = field(default_factory=list)  # tensors of neither model nor batch
    dtypes: set[torch.dtype] = field(default_factory=set)  # of all that eager mode's step computes
    carried: Carried = field(default_factory=Carried)  # Python's values that the forward pass leaves in attributes


@not_written_down()
def export_step(model: Model, loss_fn: Callable, trained: list[str], batch: Any, accumulate: int,
                folder: pathlib.Path, refused: str = "") -> Exported:
    """`refused`: why the door has refused the program; it is written out then. Raises Unsupported, naming the line of the user's code or
    the op. Nothing of the model changes."""
    hooks.check(model.parameters, trained)
    leaves, spec = tensors_of(batch)
    with hooks.refused(model.module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = WholeStep(model, loss_fn, trained, batch, accumulate)
    leaves = apart(leaves)
    seen: dict[str, Any] = {}  # not on the module, whose attributes torch.export puts back
    shell = _Shell(model.module, loss_fn, spec, accumulate, lambda pair, aux, spec: seen.update(pair=pair, aux=aux, spec=spec))
    wanted = set(trained)
    held = [p for name, p in model.parameters.items() if p.requires_grad and name not in wanted]
    for p in held:  # what the optimizer does not train has no gradient in the program either
        p.requires_grad_(False)
    try:
        with (torch.enable_grad(), hooks.refused(model.module), hooks.gradients_refused(), streams.refused(),
              memory_hidden(), conversions.traced(), warnings.catch_warnings()):
            warnings.simplefilter("ignore")
            draws = frozen.Draws()
            program = torch.export.export(shell, tuple(leaves), strict=False)
            draws.check()
    except (Usage, Unsupported):
        raise
    except Exception as problem:  # whatever the user's code or PyTorch raises while it is traced
        raise _not_exported(problem) from problem
    finally:
        for p in held:
            p.requires_grad_(True)
    _refuse_autocast(program)
    whole.hold(program)
    program = written_out(program, refused) if refused else program
    return _written(program, shell, model, folder, seen["aux"], seen["spec"], seen["pair"], whole)


def _not_exported(problem: Exception) -> Unsupported:
    """The step as such can be captured: the torch engine's way has just done it."""
    return Unsupported(f"{refusal(problem)}; the native engine takes the forward pass from torch.export, and {TORCH}")


def _written(program: ExportedProgram, shell: _Shell, model: Model, folder: pathlib.Path, aux: list[Any],
             aux_spec: Any, pair: bool, whole: WholeStep) -> Exported:
    """`aux`: by leaf None for a tensor, else a list of that leaf."""
    outputs = list(program.graph_signature.user_outputs)
    checks = index_checks(program, {_PREFIX + name: name for name in model.buffers})
    _check(program, outputs)
    _tie(program, shell)
    _leave_weights_out(program)
    path = folder / FILE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
    tensors = iter(outputs[1:])
    names = [str(next(tensors)) if leaf is None else None for leaf in aux]
    kept = [None if leaf is None else leaf[0] for leaf in aux]
    named = {_PREFIX + name: name for name in [*model.parameters, *model.buffers]}
    inputs = [str(name) for name in program.graph_signature.user_inputs]
    return Exported(path, inputs, str(outputs[0]), names, kept, aux_spec, pair, named, whole.counts, whole.kept, whole.loss_shape, whole.with_gradient,
                    whole.taken, checks, list(whole.trace.externals.values()), {tensor.dtype for tensor in whole.program.tensors},
                    whole.trace.carried)


def _refuse_autocast(program: ExportedProgram) -> None:
    """Raises Unsupported. Its casts are no ops of the program, and would be left out."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        if node.target is torch.ops.higher_order.wrap_with_autocast and node.args[2]:
            raise Unsupported("autocast is not there in the native engine; engine='torch' has it")


def _check(program: ExportedProgram, outputs: list[str]) -> None:
    """Raises Unsupported for what the door would take for something else, or could not give back: a parameter or a part of it, which the update
    overwrites."""
    given = {spec.arg.name: spec.target or spec.arg.name for spec in program.graph_signature.input_specs}
    nodes = {node.name: node for node in program.graph.nodes}
    kept = {*program.graph_signature.parameters, *program.graph_signature.buffers_to_mutate.values()}
    for name in outputs:
        node, part = nodes.get(name), name not in given
        while node is not None and node.op == "call_function" and _is_view(node):
            node = node.args[0]
        of = given.get(getattr(node, "name", name))
        if of is not None and (not part or of in kept):
            raise Unsupported(f"loss_fn gives {'a part of ' if part else ''}'{of.removeprefix(_PREFIX)}' itself as a result, which is there "
                              f"before the step; the native engine gives back what it computes; {TORCH}")


def _is_view(node: torch.fx.Node) -> bool:
    """Whether an op gives its first operand, or a part of it, in memory of its own or not."""
    target = node.target
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    viewed = any(one.alias_info is not None and not one.alias_info.is_write for one in returns)
    return bool(node.args) and isinstance(node.args[0], torch.fx.Node) and (viewed or target in (torch.ops.aten.clone.default, torch.ops.aten.contiguous.default))


def _tie(program: ExportedProgram, shell: _Shell) -> None:
    """The first of the names that are one parameter is kept."""
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = {spec.target: spec for spec in signature.input_specs if spec.target is not None}
    first: dict[int, str] = {}
    for name, parameter in shell.named_parameters(remove_duplicate=False):
        if name not in specs:
            continue
        kept = first.setdefault(id(parameter), name)
        if kept == name:
            continue
        nodes[specs[name].arg.name].replace_all_uses_with(nodes[specs[kept].arg.name])
        program.graph.erase_node(nodes[specs[name].arg.name])
        signature.input_specs.remove(specs[name])
        program.state_dict.pop(name, None)


def _leave_weights_out(program: ExportedProgram) -> None:
    for name, tensor in list(program.state_dict.items()):
        if not tensor.is_floating_point():
            continue
        bare = torch.empty_like(tensor, device="meta")
        if isinstance(tensor, torch.nn.Parameter):
            bare = torch.nn.Parameter(bare, requires_grad=tensor.requires_grad)
        program.state_dict[name] = bare

