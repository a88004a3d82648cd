"""A rehearsal: the planned step beside eager mode, before anything is believed.

With `rehearse=True`, when a model is compiled, one step of the plan and one of eager mode run on the sample batch from the same state; loss, aux,
gradients, buffers and the random stream are compared: bit for bit, or within a tolerance where the step runs in parts, whose sums add in
another order, and where eager mode is not equal to itself (it is run twice, then). Nothing of the user's changes:

    planned   on copies of what the step writes before its updates; in the place of each update the gradient is kept
    eager     the user's own code on the user's own objects, within a note of all that can be reached (untouched.py) and of the contents of
              every tensor that is no parameter; both are put back. What the code does beside (it prints) it does once more

What differs is `lowtide.Internal`, with a folder for the bug report: graph, plan, code, versions, what differs by how much.
It takes memory for eager mode's step and a copy of all gradients beside the plan, and raises Usage where that is not free. Its price is two
steps. Tests: tests/python/test_torch_compared.py.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import platform
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree

from .. import cache
from .._library import version
from ..errors import Error, Internal, Usage
from ..plans import bytes_text
from .calls import CONSTANT
from .optimizers import state_as_before
from .room import there_is_room
from .trace import scalar_loss
from .untouched import Note, untouched

if TYPE_CHECKING:
    from .step import Step

_GRADIENT = "the gradient of "
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 5e-2, torch.bfloat16: 1e-1}  # of the largest number


@dataclass
class Results:
    """What a step gives, by name."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    problem: Exception | None = None

    def add(self, name: str, tensor: torch.Tensor) -> None:
        self.tensors[name] = tensor.detach().clone()


def rehearsed(step: Step, batch: Any) -> str:
    """What is to be said of the rehearsal of a step that was just compiled; "" where nobody wanted one. Raises Internal where the planned
    step is not eager mode's, Usage where a rehearsal was insisted on and cannot be."""
    if not step._options.rehearse:
        return ""
    refused = _why_not(step)
    if refused:
        raise Usage(f"rehearse=True cannot be: {refused}")
    return _compare(step, batch)


def _why_not(step: Step) -> str:
    """Why there cannot be one; "" if there can."""
    if step.data_parallel:
        return "a step on many ranks"
    planned = step.planned
    program, plan = planned.captured.program, planned.plan
    gradients = sum(program.storages[unit.reads[1]].bytes for unit in planned.captured.units if unit.update is not None)
    more = gradients + max(0, plan.verdict["peak_before_bytes"] - plan.arena_bytes)
    if not there_is_room(program.device.device, more):
        return f"eager mode's step beside it takes {bytes_text(more)} more than the plan"
    return ""


def _compare(step: Step, batch: Any) -> str:
    with state_as_before(step._optimizer):  # whoever asks for it makes it
        mine = _planned(step, batch)
        step._make_room()
        its = _eager(step, batch)
        again = _eager(step, batch) if mine.problem is None and its.problem is None and _differences(mine, its, True) else its
    step.planned.captured.updates.begun.clear()
    if its.problem is not None:  # of the sample batch: the step will raise, too
        return f"not rehearsed: eager mode raises {type(its.problem).__name__}"
    if mine.problem is not None:
        raise _reported(step, [f"the planned step raises {type(mine.problem).__name__}: {mine.problem}"]) from mine.problem
    exact = step.parts == 1
    found = _differences(mine, its, exact)
    if not found:
        return f"rehearsed beside eager mode: {'equal bits' if exact else 'equal within a tolerance, as sums add in another order'}"
    if exact and again.problem is None and _differences(again, its, exact) and not _differences(mine, its, False):
        return "rehearsed beside eager mode: equal within a tolerance, as eager mode is not equal to itself"
    raise _reported(step, found)


# ---- the two steps


def _planned(step: Step, batch: Any) -> Results:
    leaves, ready = step._for(batch)
    captured, found = ready.planned.captured, Results()
    program, device = captured.program, captured.program.device
    tensors, written = step._given(ready, leaves), set(ready.buffers)
    copied = written if ready.code.transfers is None else {
        k for k, number in enumerate(program.given) if program.storage_of(number).role != CONSTANT or k in written}
    state = device.get_state()
    given = [t.detach().clone(memory_format=torch.preserve_format) if k in copied else t for k, t in enumerate(tensors)]
    kept = {k: given[k] for k in written}
    if ready.draws:
        given.append(state)
    gradients: dict[str, torch.Tensor] = {}

    def keeping(name: str) -> Any:
        def update(_: torch.Tensor, gradient: torch.Tensor, *__: torch.Tensor) -> None:
            ready.code.aside()
            gradients[name] = gradient.clone()

        return update

    instead = {id(unit.update): keeping(unit.what) for unit in captured.units if unit.update is not None}
    step._versions, step._updating = None, False
    try:
        with torch.no_grad():
            outputs = step._in_arena(ready, given, lambda run: _with(run, instead))
            outputs = [o.clone() if isinstance(o, torch.Tensor) else o for o in outputs]
    except Error:
        raise
    except Exception as problem:  # noqa: BLE001: whatever a kernel raises
        return Results(problem=problem)
    finally:
        found.add("the random stream", device.get_state())
        device.set_state(state)
        step.memory = type(step.memory)()
    names = {k: program.storage_of(program.given[k]).name for k in written}
    found.tensors.update({names[k]: tensor for k, tensor in kept.items()})
    _add_results(found, outputs[0], outputs[1:1 + _leaves(captured.trace)])
    found.tensors.update({f"{_GRADIENT}{name}": gradient for name, gradient in gradients.items()})
    return found


def _with(run: Any, instead: dict[int, Any]) -> Any:
    """The step's code with other updates, and nobody who judges its loss."""
    names = {name: instead.get(id(value), value) for name, value in run.__globals__.items()}
    return types.FunctionType(run.__code__, {**names, "judge": lambda *_: None}, run.__name__)


def _leaves(trace: Any) -> int:
    return trace.aux_spec.num_leaves if trace.aux_spec is not None else 0


def _add_results(found: Results, loss: torch.Tensor, aux: Any) -> None:
    found.add("the loss", loss)
    for k, leaf in enumerate(aux):
        if isinstance(leaf, torch.Tensor):
            found.add(f"aux {k}", leaf)


def _eager(step: Step, batch: Any) -> Results:
    ready, options, found = step._now, step._options, Results()
    captured = ready.planned.captured
    model, device = captured.trace.model, captured.program.device
    with untouched(step._model, step._loss_fn, step._optimizer) as note, _contents_kept(note, captured, ready):
        trained = {name: model.parameters[name] for name in captured.trace.trained}
        for p in model.parameters.values():
            p.grad = None
        try:
            with torch.enable_grad():
                losses, auxes = [], []
                for part in batch if options.accumulate > 1 else [batch]:
                    loss, aux = scalar_loss(step._loss_fn(step._model, part))
                    loss.backward()
                    losses.append(loss.detach())
                    auxes.append(aux)
        except Exception as problem:  # noqa: BLE001: whatever the user's code raises
            return Results(problem=problem)
        found.add("the random stream", device.get_state())
        given = step._given(ready, [t for t in (ref() for ref in captured.trace.inputs)]) if ready.buffers else []
        for k in ready.buffers:
            found.add(captured.program.storage_of(captured.program.given[k]).name, given[k])
        if options.clip_value is not None:
            torch.nn.utils.clip_grad_value_(list(trained.values()), options.clip_value)
        if options.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(trained.values()), options.clip_norm)
        _add_results(found, sum(losses[1:], losses[0]), pytree.tree_leaves(auxes if options.accumulate > 1 else auxes[0]))
        found.tensors.update({f"{_GRADIENT}{name}": p.grad for name, p in trained.items() if p.grad is not None})
    return found


@contextlib.contextmanager
def _contents_kept(note: Note, captured: Any, ready: Any) -> Iterator[None]:
    """Behind it every tensor that is no parameter, and every parameter that a forward pass writes, has the numbers that it had. No count
    of versions says what a kernel wrote: a batch norm's statistics have none."""
    written = {captured.program.storage_of(captured.program.given[k]).name for k in ready.buffers}
    states = {id(t) for t in pytree.tree_leaves(list(captured.updates.optimizer.state.values())) if isinstance(t, torch.Tensor)}
    tensors = [t.tensor for t in note.tensors if not isinstance(t.tensor, torch.nn.Parameter) and id(t.tensor) not in states]
    tensors += [p for name, p in captured.trace.model.parameters.items() if name in written]
    kept = [(t, t.detach().clone()) for t in tensors if t.layout is torch.strided]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in kept:
                if not torch.equal(tensor.detach(), before):
                    tensor.detach().copy_(before)


# ---- what differs


def _differences(mine: Results, its: Results, exact: bool) -> list[str]:
    found: list[str] = []
    largest = 0.0 if exact else max((_size(t) for name, t in its.tensors.items() if name.startswith(_GRADIENT)), default=0.0)
    for name in dict.fromkeys([*its.tensors, *mine.tensors]):
        a, b = mine.tensors.get(name), its.tensors.get(name)
        if a is None or b is None:
            found.append(f"{name} is {'not there' if a is None else 'there'}, and in eager mode it is {'not' if b is None else 'there'}")
        elif not _equal(a, b, exact, largest if name.startswith(_GRADIENT) else 0.0):
            far = (a.double() - b.double()).abs().max().item() if a.shape == b.shape and not a.is_complex() else "another shape or type"
            found.append(f"{name} differs by {far}")
    return found


def _size(tensor: torch.Tensor) -> float:
    """Its largest number."""
    finite = tensor[tensor.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


def _equal(a: torch.Tensor, b: torch.Tensor, exact: bool, largest: float) -> bool:
    """`largest`: of all gradients; one of rounding alone, behind a norm, is nothing beside it."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    if not a.dtype.is_floating_point:
        return a.dtype.is_complex and bool(torch.allclose(a, b, rtol=0 if exact else 1e-3, atol=0, equal_nan=True))
    if exact:
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    near = TOLERANCE.get(a.dtype, 1e-1)
    return bool(torch.allclose(a, b, rtol=near, atol=near * max(_size(b), largest), equal_nan=True))


def _reported(step: Step, found: list[str]) -> Internal:
    folder = _folder(step, found)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return Internal(f"the planned step is not eager mode's: {'; '.join(found[:3])}{more}. Nothing was changed. This is a bug of Lowtide's; "
                    f"what its report needs is in {folder}")


def _folder(step: Step, found: list[str]) -> str:
    """For the bug report."""
    try:
        place = cache.folder() / "reports"
        place.mkdir(exist_ok=True)
    except OSError:
        place = pathlib.Path(tempfile.gettempdir())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rehearsal-", dir=place))
    planned, options = step.planned, step._options
    (folder / "differences.txt").write_text("\n".join(found) + "\n")
    (folder / "graph.txt").write_text(planned.graph.text)
    (folder / "step.py.txt").write_text(step.source)
    said = {"lowtide": str(version()), "torch": torch.__version__, "python": platform.python_version(), "machine": platform.machine(),
            "options": repr(options)}
    (folder / "versions.json").write_text(json.dumps(said, indent=1) + "\n")
    planned.plan.save(folder / "plan.lt")
    return str(folder)
