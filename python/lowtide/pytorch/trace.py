"""A training step as one FX graph: make_fx over functional_call, backward() and, if asked for, clipping.

Why make_fx on fake tensors: it takes whole steps of all architectures tried, without breaks, in seconds, and no
tensor of the model's size is made. No decompositions: the graph has the kernels that eager mode would call, so its
results are equal bit for bit. The optimizer is not traced: its update per parameter is added later (optimizers.py).

Noted while tracing, as nodes of the graph say nothing of it: the module that an op of the forward pass belongs to
(global forward hooks) and the line of the user's code, and for an op of the backward pass the op of the forward pass
that it is the gradient of (prehooks on autograd's nodes, which know the sequence number of their forward op). Each note
labels the nodes that were made since the one before.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
import dataclasses
import functools
import linecache
import os
import pickle
import re
import sys
import traceback
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import Unsupported, Usage
from . import accumulated, conversions, copied, ctc, dynamo, exchange, frozen, hooks, observers, one_place, streams, ways_round
from .accumulated import Accumulated
from .beside_loss import Aux
from .batches import BatchSpec, tensors_of
from .carried import Carried, Finder, Lasting, Marked
from .devices import CPU, Cpu, Cuda, device_of
from .counted_norms import counted
from .externals import External, Externals, Shown
from .decisions import AtOnce, Branch, Decisions, asked_of, decided, settle
from .entering import collector_waits
from .foretold import Foretold, is_held, source_of
from .foretold_sizes import Sizes, are_open
from .real_formulas import fake_kernels, real_formulas
from .made_graph import made_graph
from .moving import Record, Taken, Watch
from .left_behind import empty_caches_of_fakes, new_objects_apart
from .known import KnownValues, distributions_assert, told_to_transformers
from .lent import Lent, alias_of
from .new_data import NewData, data_kept
from .opened import Opened
from .own_errors import raised_by_eager_mode
from .step_numbers import Texts, put_before, unmarked
from .reachable import Place
from .settling import Settled, settle_kept
from .shell import Shell
from .untouched import Note

FORWARD, BACKWARD = "forward", "backward"


@dataclass
class Model:
    """The tensors of a module by name, each once (tied names are one)."""

    module: torch.nn.Module
    parameters: dict[str, torch.nn.Parameter]
    buffers: dict[str, torch.Tensor]

    followed: exchange.Followed

    @staticmethod
    def of(module: torch.nn.Module) -> Model:
        parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        followed = exchange.Followed(module, [*parameters, *buffers], [*parameters.values(), *buffers.values()], set(buffers))
        return Model(module, parameters, buffers, followed)

    def fits(self) -> bool:
        """Whether its buffers are of the kinds that they were."""
        exchanged = self.followed.exchanged([*self.parameters.values(), *self.buffers.values()])
        return not any(name in self.buffers and isinstance(found, torch.Tensor) and not _alike(found, held) for name, held, found in exchanged)

    def follow(self, of_any_kind: bool = False) -> None:
        """Buffers as they are now: one that was put anew takes the place of the one before. Raises Usage where a parameter was, or, unless
        `of_any_kind`, a buffer of another kind."""
        for name, held, found in self.followed.exchanged([*self.parameters.values(), *self.buffers.values()]):
            if name in self.buffers and isinstance(found, torch.Tensor) and (of_any_kind or _alike(found, held)):
                self.buffers[name] = found
                continue
            raise Usage(f"'{name}' is another tensor than when the step was compiled ({tuple(held.shape)} then, "
                        f"{tuple(found.shape) if found is not None else 'none'} now); compile the step again")

    @property
    def device(self) -> Cpu | Cuda:
        """That of the first parameter. Raises Unsupported where no step runs there."""
        return device_of(next(iter(self.parameters.values())).device) if self.parameters else CPU


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.shape, a.stride(), a.dtype, a.device) == (b.shape, b.stride(), b.dtype, b.device)


@dataclass
class Options:
    """What changes the graph."""

    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int = 1
    data_parallel: bool = False  # gradients are averaged over all ranks
    check_gradients: bool = False  # the last leaf of aux says of each gradient how large it is
    layouts: Any = None  # where kernels were seen to put results otherwise than fake kernels say (layouts.py)
    numbers: bool = False  # whole numbers of the batch are read before the step (foretold_sizes.py)
    real_formulas: bool = True  # a step in parts adds in orders of its own, and PyTorch's other formulas can be cut


@dataclass
class Trace:
    """The graph. Its placeholders: parameters, buffers, batch tensors, in this order. Its outputs: the loss, the
    tensors of aux, one gradient or None for each trained parameter."""

    module: torch.fx.GraphModule
    model: Model
    trained: list[str]
    batch_spec: BatchSpec
    aux: Aux | None = None
    aux_count: int = 0  # outputs between the loss and the gradients
    checked: list[str] = field(default_factory=list)  # parameters of whose gradients the last leaf of aux has the greatest numbers
    places: dict[str, str] = field(default_factory=dict)  # node name -> "module: file:line"
    branches: list[Foretold] = field(default_factory=list)  # decisions that the plan holds for
    sizes: list[Foretold] = field(default_factory=list)  # sizes that contents of the batch decide, for which it holds, too
    inputs: list[weakref.ref] = field(default_factory=list)  # the batch's tensors, while the caller has them
    externals: dict[str, External] = field(default_factory=dict)  # by the target of their nodes
    carried: Carried = field(default_factory=Carried)  # what the forward pass keeps in attributes; its outputs follow those of aux
    layouts: Any = None  # as in Options
    numbers: list[Place] = field(default_factory=list)  # Python's numbers that the step reads anew each time
    reads_gradients: bool = False  # loss_fn leaves gradients in tensors of the batch
    unsure: bool = False  # a library took another path than in eager mode (known.py)


class _Labels:
    """Notes on nodes, while they are made: the stack of modules, phase, and whose gradient."""

    def __init__(self, model: torch.nn.Module, ended: Callable[[], None], noting: Callable[[], contextlib.AbstractContextManager]) -> None:
        self.ended, self.noting = ended, noting  # the first is to be called when the user's code has its loss, the second holds while it runs
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack: list[str] = []
        self.lines: dict[Any, str] = {}  # places of lines of the user's code
        self.phase = FORWARD
        self.of_sequence: int | None = None
        self.draws = frozen.Draws()
        self.lent = Lent([])

    def note(self, place: str = "", module: str = "") -> None:
        """Labels what was made since the last note by what held until now."""
        mode = get_proxy_mode()
        if mode is None:
            return
        for node in reversed(mode.tracer.graph.nodes):
            if "lowtide_phase" in node.meta:
                break
            node.meta["lowtide_phase"] = self.phase
            node.meta["lowtide_module"] = module or (self.stack[-1] if self.stack else "")
            node.meta["lowtide_gradient_of"] = self.of_sequence
            node.meta["lowtide_place"] = place
            node.meta["lowtide_sequence"] = torch._C._autograd._get_sequence_nr() - 1

    def after_op(self) -> None:
        """Behind an op of the forward pass: the innermost line that is neither PyTorch's nor ours."""
        if self.phase == BACKWARD:
            return
        retraced = dynamo.stack_now()
        if retraced is not None:
            return self.note(place_of_stack(retraced), dynamo.module_now())
        frame = sys._getframe(1)
        while frame is not None and _is_theirs(frame.f_code.co_filename):
            frame = frame.f_back
        line = (frame.f_code.co_filename, frame.f_lineno, "") if frame is not None else None
        if line not in self.lines:
            self.lines[line] = place_of_frames([] if line is None else [line])
        place = self.lines[line]
        self.draws.look(place)
        return self.note(place)

    def enter(self, module: torch.nn.Module, *_: Any) -> None:
        self.note()
        self.stack.append(self.names.get(id(module), self.stack[-1] if self.stack else ""))

    def leave(self, *_: Any) -> None:
        self.note()
        if self.stack:
            self.stack.pop()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        modules = torch.nn.modules.module
        before = modules.register_module_forward_pre_hook(self.enter)
        after = modules.register_module_forward_hook(self.leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def backward_of(self, loss: torch.Tensor) -> list[Any]:
        """Prehooks on all of autograd's nodes; the caller removes them."""
        self.note()
        self.phase, self.stack = BACKWARD, []
        seen, waiting, handles = set(), [loss.grad_fn], []
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            handles.append(node.register_prehook(self._at(node._sequence_nr())))
            waiting += [following for following, _ in node.next_functions]
        return handles

    def _at(self, sequence: int) -> Callable[[Any], None]:
        def now(_: Any) -> None:
            self.note()
            self.of_sequence = sequence

        return now


def is_pair(answer: Any) -> bool:
    return isinstance(answer, tuple) and len(answer) == 2


def scalar_loss(answer: Any) -> tuple[torch.Tensor, Any]:
    """What loss_fn gave, as loss and aux. Raises Usage."""
    loss, aux = answer if is_pair(answer) else (answer, None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        kind = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise Usage(f"loss_fn gave {kind} for a loss; it is to give one number as a tensor, or (loss, aux)")
    if not loss.requires_grad:
        raise Usage("the loss depends on no parameter that is trained")
    return loss, aux


def _by_types(gradients: list[torch.Tensor]) -> list[int]:
    """Places of gradients in the order in which PyTorch's clipping goes over them: those of one device and type together."""
    with _disable_current_modes():
        groups = _group_tensors_by_device_and_dtype([[torch.empty(0, dtype=g.dtype) for g in gradients]], with_indices=True)
    return [place for _, places in groups.values() for place in places]


def _clipped(grads: list[torch.Tensor | None], options: Options) -> list[torch.Tensor | None]:
    """As torch.nn.utils.clip_grad_value_ and clip_grad_norm_ do it, with the same kernels, one tensor at a time."""
    if options.clip_value is not None:
        grads = [g if g is None else g.clamp(min=-options.clip_value, max=options.clip_value) for g in grads]
    there = [g for g in grads if g is not None]
    if options.clip_norm is not None and there:
        norms = torch.stack([torch.linalg.vector_norm(there[k], 2.0) for k in _by_types(there)])
        scale = torch.clamp(options.clip_norm / (torch.linalg.vector_norm(norms, 2.0) + 1e-6), max=1.0)
        grads = [g if g is None else g * scale for g in grads]
    return grads


def _greatest(grads: list[torch.Tensor | None], trained: list[str], trace: Trace) -> list[torch.Tensor]:
    """One tensor with the greatest number of each gradient, which is not finite if any of its numbers is not; none
    where nobody asks or there is no gradient. As ops of the step it is planned, so every gradient lives until its number
    is known, and no update begins before all are."""
    there = [(name, g) for name, g in zip(trained, grads, strict=True) if g is not None and g.numel() > 0]
    trace.checked = [name for name, _ in there]
    return [torch.stack([torch.linalg.vector_norm(g, float("inf")).double() for _, g in there])] if there else []


def _step_function(model: Model, shells: list[torch.nn.Module], trained: list[str], trace: Trace,
                   options: Options, labels: _Labels, keep: Callable, changes: Callable[[], list] | None, before: Container[int], texts: Texts) -> Callable:
    """`shells`: of each of the batches that make one update, or one for all. `keep`: what of it outlives the step in attributes. `changes`: what has
    changed so far. `before`: ids of what was there before the step."""
    was: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # buffers that were put anew, by their storage, and copies of what they were
    pairs: list[bool] = []  # of each batch, whether loss_fn gave something beside the loss

    def one(leaves: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor], batch: Any,
            shell: torch.nn.Module) -> tuple[Any, Any]:
        labels.phase, labels.of_sequence = FORWARD, None
        held = {**model.parameters, **model.buffers}
        tensors = {id(held[name]): tensor for name, tensor in {**leaves, **buffers}.items()}

        def backward(answer: Any) -> tuple[Any, Any]:
            labels.ended()
            labels.draws.check()
            loss, aux = scalar_loss(answer)
            pairs.append(is_pair(answer))
            trace.reads_gradients |= labels.lent.end()
            handles = labels.backward_of(loss)
            loss.backward()
            labels.note()
            for handle in handles:
                handle.remove()
            if isinstance(shell, Shell):
                labels.of_sequence = None
                was.update(shell.write_buffers())
                labels.note()
                if was:  # what aux has of this part of the batch
                    aux = pytree.tree_map_only(torch.Tensor, Lasting([], [], was).as_was, aux, is_leaf=lambda v: isinstance(v, torch.Size))
            return loss.detach(), aux

        with labels.noting(), exchange.exchanged_for(model.module, tensors):  # checkpointing runs the forward pass again in the backward one
            return backward(shell.forward(batch))  # hooks of all modules are not for ours

    def step(*flat: torch.Tensor) -> list[Any]:
        p, b = len(model.parameters), len(model.buffers)
        wanted = set(trained)
        leaves = {name: tensor.detach().requires_grad_(name in wanted)
                  for name, tensor in zip(model.parameters, flat[:p], strict=True)}
        buffers = dict(zip(model.buffers, flat[p:p + b], strict=True))
        marked = Marked({**model.parameters, **model.buffers}, {**leaves, **buffers})
        effects = hooks.Effects(changes)
        for name in trained:
            hooks.put(name, model.parameters[name], leaves[name], effects)
        gradients = Accumulated(leaves[name] for name in trained)
        labels.lent = Lent(flat[p + b:])
        batch = trace.batch_spec.batch_of(list(labels.lent.leaves))
        loss, aux = None, []
        pairs.clear()
        was.clear()
        for k, part in enumerate(batch if options.accumulate > 1 else [batch]):
            one_loss, one_aux = one(leaves, buffers, part, shells[k % len(shells)])
            loss = one_loss if loss is None else loss + one_loss
            aux.append(one_aux)
        grads = gradients.of(leaves[name] for name in trained)
        labels.phase = BACKWARD
        if options.data_parallel:
            grads = [g if g is None else torch.ops.lowtide.average(g) for g in grads]
        greatest = _greatest(grads, trained, trace) if options.check_gradients else []
        grads = _clipped(grads, options)
        labels.note()
        trace.aux = Aux(aux if options.accumulate > 1 and any(pairs) else aux[0], before, texts, any(pairs), Lasting(flat[:p], [], {}).view,
                        Lasting([], [], was).as_was)
        aux_leaves = trace.aux.taken()
        marked.give_back()
        kept = keep(flat, {**leaves, **buffers}, was)
        was.clear()
        trace.aux_count = len(aux_leaves) + len(kept) + len(greatest)
        return [loss, *aux_leaves, *kept, *greatest, *grads]

    return step


def user_place(problem: BaseException) -> str:
    """ "file:line: code" of the innermost line that is neither PyTorch's nor ours; "" where there is none."""
    frames = traceback.extract_tb(problem.__traceback__)
    return place_of_frames([(f.filename, f.lineno or 0, f.line or "") for f in frames])


def place_of_frames(frames: list[tuple[str, int, str]]) -> str:
    for name, line, code in reversed(frames):
        if not _is_theirs(name):
            return f"{name}:{line}: {(code or linecache.getline(name, line)).strip()}"
    return ""


_TRACED = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]*(?:\n    ([^\n]*))?')


def place_of_stack(stack: str) -> str:
    """The same of a stack trace as text, as nodes of torch.compile's graphs have it."""
    return place_of_frames([(name, int(line), code) for name, line, code in _TRACED.findall(stack)])


_PLACE = re.compile(r"(?:([^:/]*): )?([^:]+):(\d+): ")


@functools.lru_cache(4096)
def module_and_source(place: str) -> tuple[str, str]:
    """The parts of "module: folders/folder/file.py:line: code": module, and "folder/file.py:line", as src/io/source_line.h has it
    (what lies below site-packages, of other files the last folder). What the place does not say is ""."""
    found = _PLACE.match(place)
    if found is None:  # a module alone, or words
        return ("" if " " in place else place), ""
    parts = found[2].replace(os.sep, "/").split("/")
    below = [i for i, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    end = "/".join(parts[below[-1] + 1:] if below else parts[-2:]).lstrip("/")
    return found[1] or "", f"{end}:{found[3]}"


_OURS = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(torch.__file__), "<",
         *(library.__file__ for library in (contextlib, copy, copyreg, functools, pickle)), *(os.path.dirname(library.__file__) for library in [sys.modules.get("numpy")] if library is not None))


@functools.lru_cache(4096)
def _is_theirs(name: str) -> bool:
    """PyTorch's code, numpy's or ours."""
    return name.startswith(_OURS)


def refusal(problem: Exception) -> Unsupported:
    """What the user's code or PyTorch raised while the step was traced, with the line where."""
    place = isinstance(problem, Opened) and problem.line or user_place(problem)
    where = f"{place}: " if place else ""
    if isinstance(problem, frozen.DrawnOnce):
        return Unsupported(f"the step cannot be captured: {problem}")
    if isinstance(problem, (AtOnce, NewData, Opened, Shown, one_place.WrittenInto)):
        return Unsupported(f"{where}the step cannot be captured: {problem}")
    if isinstance(problem, Branch):
        return Unsupported(f"{problem}: the step cannot be captured: a decision on the contents of a tensor, which are not known before the "
                           f"step runs, and both answers go on; {ways_round.BRANCH}")
    reason = unmarked(str(problem)).strip().splitlines()
    what = type(problem).__name__
    if "DataDependent" in what or "DynamicOutputShape" in what or "_local_scalar_dense" in str(problem):
        shape = "DynamicOutputShape" in what
        what = ("a shape that depends on the contents of a tensor, which are" if shape else "a decision on the contents of a tensor, which are")
        said = f"{': ' + reason[0] if reason else ''}{ways_round.of_contents(str(problem))}"
        return Unsupported(f"{where}the step cannot be captured: {what} not known before the step runs{said}")
    return Unsupported(f"{where}the step cannot be captured: {what}{': ' + reason[0] if reason else ''}{ways_round.of_any(problem)}")


def apart(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors that share memory in the sample batch (the same one twice, two slices of one) need not do so in later ones:
    all but the first of them are traced as tensors of their own. Nobody writes into these, so they take no memory."""
    first: dict[int, int] = {}
    return [leaf if first.setdefault(leaf.untyped_storage()._cdata, i) == i else
            torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device).requires_grad_(leaf.requires_grad)
            for i, leaf in enumerate(inputs)]


@new_objects_apart()
def trace_step(model: Model, loss_fn: Callable, trained: list[str], batch: Any, options: Options, note: Note | None = None) -> Trace:
    """The step's graph. Raises Unsupported, naming the line of the user's code, where it cannot be captured; what loss_fn raises in eager
    mode, too, as it is."""
    if options.accumulate > 1 and (not isinstance(batch, (list, tuple)) or len(batch) != options.accumulate):
        raise Usage(f"accumulate={options.accumulate} takes a list of {options.accumulate} batches")
    hooks.check(model.parameters, trained)
    if torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
        raise Unsupported("torch.autograd.detect_anomaly looks into every gradient, which a planned step does not; without it, "
                          "check_finite=True stops a step whose loss is not finite")
    inputs, spec = tensors_of(batch)
    given = list(map(alias_of, inputs))
    trace = Trace(None, model, trained, spec)  # type: ignore[arg-type]
    trace.inputs, trace.layouts = [weakref.ref(leaf) for leaf in inputs], options.layouts
    inputs = apart(inputs)
    batch = spec.batch_of(inputs)
    shell, note = Shell(model.module, loss_fn), note or Note(model.module, loss_fn)
    numbers = dataclasses.replace(options, numbers=True)
    try:
        _trace_with([shell], trace, inputs, options, note)
        if are_open(trace.module) and _with_numbers(shell, trace, inputs, numbers, note):
            options = numbers
        note.refuse_used()
        _settle(shell, trace, inputs, options, note)
    except Unsupported as refused:
        ours = refused.__cause__ is None  # what is refused by name, and not for what tracing met
        if ours or isinstance(refused.__cause__, (frozen.DrawnOnce, NewData, Opened, Settled, Shown)):
            raise refused from None
        again = _traced_again(shell, trace, batch, inputs, options, note)
        if not again or are_open(trace.module):
            note.put_back()
            if not isinstance(refused.__cause__, (AtOnce, GuardOnDataDependentSymNode)) or not _with_numbers(shell, trace, inputs, numbers, note):
                whole = spec.batch_of(given)
                parts = [] if options.data_parallel else whole if options.accumulate > 1 else [whole]  # of one rank loss_fn might wait for others
                raise raised_by_eager_mode(refused.__cause__, loss_fn, model.module, parts, note, user_place) or refused from None
            note.refuse_used()
            _settle(shell, trace, inputs, numbers, note)
    note.left.check(trace.module, [*(e.fake for e in trace.externals.values()), *(change.after for change in note.touched.values())])
    _spread_places(trace)
    return trace


def _with_numbers(shell: Shell, trace: Trace, inputs: list[torch.Tensor], options: Options, note: Note) -> bool:
    """Once more, with the whole numbers of the batch that the step would read; whether that can be captured."""
    again = dataclasses.replace(trace)
    try:
        _trace_with([shell], again, inputs, options, note)
    except Unsupported:
        return False
    vars(trace).update(vars(again))
    return True


def _trace_with(shells: list[torch.nn.Module], trace: Trace, inputs: list[torch.Tensor],
                options: Options, note: Note, entering: Record | Watch | None = None) -> None:
    """`entering`: puts objects that are watched in the place of what moves. What is kept of lists that are watched is not asked."""
    model = trace.model
    flat = [*(p.detach() for p in model.parameters.values()), *model.buffers.values(), *inputs]

    def attempt(decisions: Decisions) -> torch.fx.GraphModule:
        labels = _Labels(model.module, decisions.ended, note.noting)
        sizes = Sizes([leaf() for leaf in trace.inputs] if not options.data_parallel else None)
        values, seen, texts = KnownValues(labels.after_op, sizes), [], Texts()  # the second: Externals, of the one run of `followed`

        def keep(given: Sequence[torch.Tensor], exchanged: dict[str, torch.Tensor], was: dict) -> list[torch.Tensor]:
            if isinstance(entering, Watch):
                return []
            held = {**model.parameters, **model.buffers}
            lasting = Lasting(list(given), seen[0].found, was)
            found = Finder(note, values, lasting, {id(t): held[name] for name, t in exchanged.items()}, texts)
            trace.carried = found.carried
            return found.outputs

        changes = note.changes if entering is None else None
        step = _step_function(model, shells, trace.trained, trace, options, labels, keep, changes, {id(room.owner) for room in note.reachable.rooms}, texts)
        behind = contextlib.ExitStack()  # what holds when the user's code has run

        def followed(*flat: torch.Tensor) -> list[Any]:
            before = torch.is_autocast_cache_enabled()
            torch.set_autocast_cache_enabled(True)  # as in eager mode: a weight that is used twice is cast once
            externals = Externals(note.reachable, flat[0].fake_mode, values)
            seen.append(externals)
            note.left.modes.append(flat[0].fake_mode)
            formulas = real_formulas() if options.real_formulas else fake_kernels()
            decisions.sources = lambda node: source_of(node, model, externals.found)
            decisions.whole = sizes.number if options.numbers else decisions.whole
            sizes.numbers = options.numbers
            sizes.sources = lambda node: source_of(node, model, externals.found, with_batch=True, without=set(trace.trained))
            sizes.of_batch = lambda node: None if is_held(node, model, externals.found) else sizes.sources(node)
            try:
                with values, externals, externals.contents_read(values.value), asked_of(decisions, values.value, texts), formulas, \
                        data_kept(model.module, note.reachable), one_place.planned() as places:
                    put_before(trace.numbers, seen[0].found, flat[0].fake_mode)
                    made = step(*flat)
                    places.check()
                    return made
            finally:
                behind.enter_context(_use_lazy_graph_module(True))  # nobody runs the module or reads its code
                trace.externals = {external.target: external for external in externals.found}
                torch.set_autocast_cache_enabled(before)

        try:
            with (behind, collector_waits(), labels.watching(), told_to_transformers(values), distributions_assert(), streams.traced(model.device),
                  counted(model.device), ctc.traced(), accumulated.traced(), conversions.traced(), copied.traced(), observers.traced(),
                  streams.selecting_as_in_eager_mode(), torch.enable_grad(),
                  options.layouts.mode() if options.layouts is not None else contextlib.nullcontext(),
                  Taken() if entering is not None else contextlib.nullcontext()):
                if entering is not None:
                    entering.enter()
                made = made_graph(followed, *flat)
            trace.sizes = sizes.found
            return made
        finally:
            trace.unsure = values.unsure
            note.put_back()

    try:
        trace.module, answers = decided(attempt)
        settle(trace.module, answers)
        trace.branches = [answer.foretold for answer in answers if answer.foretold is not None]
    except (Usage, Unsupported):
        raise
    except Exception as problem:  # whatever the user's code or PyTorch raises while it is traced
        written = note.barred and note.barred.refusal_of_write(problem, user_place(problem))
        if written:
            raise written from None
        raise refusal(problem) from problem


def _settle(shell: Shell, trace: Trace, inputs: list[torch.Tensor], options: Options, note: Note) -> None:
    """What becomes of the state that the forward pass keeps."""
    def run(into: Trace, note: Note, entering: Record | Watch | None) -> None:
        empty_caches_of_fakes()  # what the code has kept there in the trace before would be a constant now
        _trace_with([shell], into, inputs, options, note, entering)

    def new() -> tuple[Trace, Note]:
        behind = Note(trace.model.module, shell._loss_fn)
        behind.left = note.left
        return Trace(None, trace.model, trace.trained, trace.batch_spec, inputs=trace.inputs, numbers=trace.numbers), behind

    settle_kept(trace, note, run, new)


def _traced_again(shell: Shell, trace: Trace, batch: Any, inputs: list[torch.Tensor],
                  options: Options, note: Note) -> bool:
    """By way of dynamo, where plain tracing was refused."""
    parts = batch if options.accumulate > 1 else [batch]
    try:
        with streams.unchanged(trace.model.device), torch.enable_grad():
            note.read.blind = True
            shells = [dynamo.Retraced(shell, part) for part in parts]
        note.put_back()
        _trace_with(shells, trace, inputs, options, note)
    except Exception:  # noqa: BLE001: the first refusal names the line
        return False
    return True


def _spread_places(trace: Trace) -> None:
    """Where each node comes from; a node of the backward pass from where its forward op does."""
    by_sequence: dict[int, str] = {}
    for node in trace.module.graph.nodes:
        of = node.meta.get("lowtide_gradient_of")
        if node.meta.get("lowtide_phase") == BACKWARD:
            trace.places[node.name] = by_sequence.get(of, "")
            continue
        where, line = node.meta.get("lowtide_module", ""), node.meta.get("lowtide_place", "")
        trace.places[node.name] = f"{where}: {line}" if where and line else where or line
        if line and node.meta.get("lowtide_sequence") is not None:
            by_sequence.setdefault(node.meta["lowtide_sequence"], trace.places[node.name])
