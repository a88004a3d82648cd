"""A program's planned steps held against eager mode's: what bench/outside.py and the random programs are judged by.

A program is a function that makes everything anew from a fixed seed (`Program.make`): model, batches, loss function, optimizer. Each way of
running it has its own, so nothing is shared but the code. Eager mode runs twice: a program that is not equal to itself is not judged. Then,
by way:

    torch     plan() changes nothing; steps at no budget, half-way between the least arena and the free one, and in the least: equal bits
    swap      the same half-way, with moves to host memory
    native    up to rounding (in f64 where the program runs so, by plain SGD: Adam moves a whole step by a gradient's sign); no dropout
    auto      as the engine that it took
    samples   in two parts along the samples, up to rounding
    backend   torch.compile in a loop of one's own, with no budget and with one: equal bits to eager mode, or to aot_eager

Compared after each step: the loss, results handed out, the random stream; parameters, buffers, the optimizer's state, tensors that
the model held before in plain attributes. A step of eager mode on what the planned steps have left must give what it gives after eager
steps, so that state which nobody named is seen too. A verdict is "right", "refused" (one of Lowtide's errors, other than Internal, with a
message), "wrong" or "crash".
"""

from __future__ import annotations

import copy
import dataclasses
import math
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from reachable import Note, bits, changes, note
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import lowtide

STEPS = 3
WAYS = ("torch", "native", "auto", "backend", "samples", "swap")
ROUNDING = {torch.float64: 1e-7, torch.float32: 2e-3}  # relative to the largest of a tensor
IN_BOTH = 1e-5  # in f64, where the program itself computes something in f32 (a softmax, a rotation)
NO_SECOND_BACKWARD = "torch.compile with aot_autograd does not currently support double backward"
AFTER = "a step of eager mode afterwards"


@dataclasses.dataclass
class Program:
    """What a user would have. `batches`: the first is the sample. `step_options`: what compile_step is told beside the budget."""

    model: torch.nn.Module
    batches: list[Any]
    loss_fn: Callable
    optimizer: Callable[[list], torch.optim.Optimizer]
    step_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    between: Callable[[torch.nn.Module, int], None] | None = None  # what the user does before step k: train(), eval()
    backend: bool = True  # whether the loss is a function of model(batch) that torch.compile of the model sees


@dataclasses.dataclass
class Verdict:
    """The verdict on one program in one way."""

    status: str  # right, refused, wrong, crash
    where: str = ""
    said: str = ""
    details: str = ""
    engine: str = ""


class Wrong(Exception):
    """A difference to eager mode."""


class NotJudged(Exception):
    """A program that eager mode itself does not run, or not twice alike; by the backend, one that dynamo does not trace, whatever the backend."""


def seeded(make: Callable[[], Program]) -> Program:
    torch.manual_seed(0)
    random.seed(0)
    try:
        import numpy
        numpy.random.seed(0)
    except ImportError:
        pass
    return make()


def trained(program: Program) -> list:
    return [p for p in program.model.parameters() if p.requires_grad]


def parts_of(given: Any) -> tuple[torch.Tensor, Any]:
    """The loss, and the results that are handed out with it."""
    return given if isinstance(given, tuple) else (given, ())


# ---- eager mode, as the options of compile_step say it


def _eager_step(program: Program, run: Any, optimizer: torch.optim.Optimizer, batch: Any) -> tuple[torch.Tensor, Any]:
    options = program.step_options
    optimizer.zero_grad(set_to_none=True)
    total, aux = None, []
    for each in batch if options.get("accumulate", 1) > 1 else [batch]:
        several = aux if options.get("accumulate", 1) > 1 else []
        loss, aux = parts_of(program.loss_fn(run, each))
        aux = [*several, *_handed_out(aux, program.model)]
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    if options.get("clip_value") is not None:
        torch.nn.utils.clip_grad_value_(trained(program), options["clip_value"])
    if options.get("clip_norm") is not None:
        torch.nn.utils.clip_grad_norm_(trained(program), options["clip_norm"])
    optimizer.step()
    return total.detach(), aux


@dataclasses.dataclass
class Seen:
    """After one step."""

    loss: torch.Tensor
    aux: list
    note: Note
    stream: torch.Tensor
    given: list = dataclasses.field(default_factory=list)  # the batch, which a step may write


def _state(program: Program, optimizer: torch.optim.Optimizer) -> Note:
    made = Note(keep=True)
    made.take("loss_fn", program.loss_fn)
    made.take("model", program.model)
    made.take("optimizer", optimizer)
    made.named = {f"model.{name}" for name, _ in (*program.model.named_parameters(), *program.model.named_buffers())}
    return made


def _leaves(aux: Any) -> list:
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(aux)]


def _handed_out(aux: Any, model: torch.nn.Module) -> list:
    """As loss_fn hands them out, since a step may write what they show; but parameters and what shows them are those of after the update."""
    kept = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return [leaf if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.untyped_storage().data_ptr() in kept else one
            for leaf, one in zip(pytree.tree_leaves(aux), _leaves(aux), strict=True)]


def runs(program: Program, step: Callable[[Any], Any], optimizer: torch.optim.Optimizer) -> Iterator[Seen]:
    """Steps one after another, each from a seed of its own."""
    for k, batch in enumerate(program.batches):
        if program.between is not None:
            program.between(program.model, k)
        torch.manual_seed(100 + k)
        loss, aux = parts_of(step(batch))
        stream = torch.get_rng_state()
        yield Seen(loss.detach().clone(), _leaves(aux), _state(program, optimizer), stream, _leaves(batch))


def eager(make: Callable[[], Program], compiled: Callable[[torch.nn.Module], Any] | None = None,
          cast: Callable[[Program], None] | None = None) -> tuple[Note, list[Seen]]:
    """What is there before, and after each step; the last entry is of a step of eager mode afterwards."""
    program = seeded(make)
    if cast is not None:
        cast(program)
    optimizer = program.optimizer(trained(program))
    before = _state(program, optimizer)
    run = program.model if compiled is None else compiled(program.model)
    found = list(runs(program, lambda batch: _eager_step(program, run, optimizer, batch), optimizer))
    return before, [*found, _afterwards(program, optimizer)]


def _afterwards(program: Program, optimizer: torch.optim.Optimizer) -> Seen:
    torch.manual_seed(99)
    loss, aux = _eager_step(program, program.model, optimizer, copy.deepcopy(program.batches[0]))
    return Seen(loss.clone(), _leaves(aux), Note(), torch.get_rng_state())


# ---- what differs


def _same(mine: torch.Tensor, its: torch.Tensor, rounding: float | None) -> bool:
    if not isinstance(mine, torch.Tensor) or mine.dtype != its.dtype or mine.shape != its.shape:
        return False
    if rounding is None or not (its.is_floating_point() or its.is_complex()):
        return bits(mine) == bits(its)
    if its.numel() == 0:
        return True
    wide = torch.complex128 if its.is_complex() else torch.float64
    mine, its = mine.detach().to(wide), its.detach().to(wide)
    finite = its.isfinite()
    if not torch.equal(finite, mine.isfinite()):
        return False
    scale = max(1.0 if rounding > 1e-5 else 0.1, float(its[finite].abs().max())) if bool(finite.any()) else 1.0
    return float((mine - its)[finite].abs().max()) <= rounding * scale if bool(finite.any()) else True


def _differs(mine: Any, its: Any, rounding: float | None) -> str:
    if isinstance(its, torch.Tensor) and isinstance(mine, torch.Tensor):
        if _same(mine, its, rounding):
            return ""
        if mine.shape != its.shape or mine.dtype != its.dtype:
            return f"is {mine.dtype} {tuple(mine.shape)}, eager mode's {its.dtype} {tuple(its.shape)}"
        if its.numel() == 0:
            return ""
        far = (mine.detach().to(torch.complex128) - its.detach().to(torch.complex128)).abs().max()
        return f"is {float(far):.3g} away from eager mode's (largest {float(its.detach().abs().max() if not its.dtype == torch.bool else 1):.3g})"
    if isinstance(its, float) and isinstance(mine, float):
        near = math.isclose(mine, its, rel_tol=rounding or 0.0, abs_tol=rounding or 0.0) or (math.isnan(mine) and math.isnan(its))
        return "" if near else f"is {mine}, eager mode's {its}"
    return "" if isinstance(its, torch.Tensor) == isinstance(mine, torch.Tensor) and (mine == its) else f"is {mine!r}, eager mode's {its!r}"


def _is_of_grad(path: str) -> bool:
    return path.endswith(".grad") or ".grad." in path


def _is_state(path: str, after: Note, before: Note) -> bool:
    """A parameter, a buffer, or a plain tensor that is written where it lies. One that is put anew into a plain attribute may be computed
    before it is read: where it is not, losses differ."""
    return path in before.tensors and (after.held[path] == before.held[path] or path in after.named)


def compare(k: int, mine: Seen, its: Seen, before: Note, rounding: float | None, streams: bool = True) -> None:
    """Raises Wrong, naming the first tensor."""
    said = f"step {k}" if k < STEPS + 9 else AFTER
    if problem := _differs(mine.loss, its.loss, rounding):
        raise Wrong(f"{said}: the loss {problem}")
    if len(mine.aux) != len(its.aux):
        raise Wrong(f"{said}: {len(mine.aux)} results are handed out, eager mode's {len(its.aux)}")
    for place, (a, b) in enumerate(zip(mine.aux, its.aux, strict=True)):
        if problem := _differs(a, b, rounding):
            raise Wrong(f"{said}: result {place} {problem}")
    for path, tensor in its.note.tensors.items():
        if _is_of_grad(path) or not (path.startswith("optimizer.state") or _is_state(path, its.note, before)):
            continue
        found = mine.note.tensors.get(path)
        if found is None:
            raise Wrong(f"{said}: {path} is {mine.note.lines.get(path, 'not there')}")
        if problem := _differs(found, tensor, rounding):
            raise Wrong(f"{said}: {path} {problem}")
    if streams and not torch.equal(mine.stream, its.stream):
        raise Wrong(f"{said}: the random stream is another")
    for place, (a, b) in enumerate(zip(mine.given, its.given, strict=True)):
        if problem := _differs(a, b, rounding):
            raise Wrong(f"{said}: tensor {place} of the batch {problem}")


# ---- ways


def _undropped(program: Program) -> None:
    """Dropout in the native engine draws other masks."""
    for module in program.model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("drop" in name.lower() or name == "p" and "Dropout" in type(module).__name__):
                setattr(module, name, 0.0)


def _rounded(program: Program) -> None:
    _undropped(program)
    program.optimizer = lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9)


def _in_f64(program: Program) -> None:
    _rounded(program)
    program.model.double()
    wide = {torch.float32: torch.float64}
    program.batches = pytree.tree_map(
        lambda t: t.to(wide.get(t.dtype, t.dtype)) if isinstance(t, torch.Tensor) else t, program.batches)


def _quiet() -> None:
    warnings.simplefilter("ignore")


def _unchanged(name: str, program: Program, optimizer: torch.optim.Optimizer, make: Callable[[Any], Any]) -> Any:
    """What `make` gives, having changed nothing of the user's but, where a step is made, the state that its optimizer gets. Raises Wrong."""
    batch = copy.deepcopy(program.batches[0])
    roots = {"loss_fn": program.loss_fn, "model": program.model, "batch": batch, **({"optimizer": optimizer} if name == "plan" else {})}
    before = note(**roots)
    try:
        return make(batch)
    finally:
        if found := changes(before, note(**roots)):
            raise Wrong(f"{name}() has changed {len(found)} things: {'; '.join(found[:3])}")


class _Narrow(TorchDispatchMode):
    """Sees whether something is computed in f32 or less, once the program is in f64."""

    seen = False

    def from_here(self, program: Program) -> None:
        _in_f64(program)
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.seen |= any(isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype != torch.float64 for t in pytree.tree_leaves(made))
        return made


class Judge:
    """The judge of one program: eager mode runs once, then each way as often as it is asked for."""

    def __init__(self, make: Callable[[], Program], effort: float = 0.3, cache: bool = False) -> None:
        _quiet()
        self.make, self.options = make, {"effort": effort, "cache": cache, "progress": False}
        try:
            self.before, self.seen = eager(make)
            _, again = eager(make)
        except Exception as problem:
            raise NotJudged(f"eager mode: {type(problem).__name__}: {str(problem)[:300]}") from problem
        try:
            for k, (mine, its) in enumerate(zip(again, self.seen, strict=True)):
                compare(k, mine, its, self.before, None)
        except Wrong as difference:
            raise NotJudged(f"eager mode is not equal to itself: {difference}") from None
        self._rough: tuple[Callable, Note, list[Seen], float] | None = None

    # the torch engine

    def _steps(self, cast: Callable[[Program], None] | None, before: Note, wanted: list[Seen], rounding: float | None,
               streams: bool, **options: Any) -> Any:
        """Plans, steps, compares. Gives the step."""
        program = seeded(self.make)
        if cast is not None:
            cast(program)
        optimizer = program.optimizer(trained(program))
        if program.between is not None:
            program.between(program.model, 0)
        said = {**self.options, **program.step_options, **options}
        step = _unchanged("compile_step", program, optimizer, lambda batch: lowtide.compile_step(
            program.model, program.loss_fn, optimizer, batch, **said))
        if rounding is None or step.engine == "torch" and "split" not in options:
            rounding = None
        for k, mine in enumerate(runs(program, step, optimizer)):
            compare(k, mine, wanted[k], before, rounding, streams)
        compare(STEPS + 9, _afterwards(program, optimizer), wanted[-1], before, rounding, streams)
        return step

    def _planned(self, **options: Any) -> Any:
        """plan(), which changes nothing: what it says."""
        program = seeded(self.make)
        optimizer = program.optimizer(trained(program))
        if program.between is not None:
            program.between(program.model, 0)
        said = {**self.options, **program.step_options, **options}
        return _unchanged("plan", program, optimizer, lambda batch: lowtide.plan(program.model, program.loss_fn, optimizer, batch, **said))

    def torch(self, budgets: tuple[str, ...] = ("none", "half", "tight")) -> Verdict:
        if budgets == ("none",):
            return Verdict("right", "", f"{self._steps(None, self.before, self.seen, None, True).plan.arena_bytes} bytes", engine="torch")
        free, engine = self._planned().arena_bytes, "torch"
        if "none" in budgets:
            self._steps(None, self.before, self.seen, None, True)
        least = self._tight(free) if "tight" in budgets else free
        if "half" in budgets and (least + free) // 2 < free:
            self._within((least + free) // 2)
        return Verdict("right", "", f"{free} bytes, {least} at least", engine=engine)

    def _within(self, budget: int | str) -> Any:
        step = self._steps(None, self.before, self.seen, None, True, budget=budget)
        if isinstance(budget, int) and step.plan.arena_bytes > budget:
            raise Wrong(f"the arena has {step.plan.arena_bytes} bytes within {budget}")
        return step

    def _tight(self, free: int) -> int:
        """The least that is found."""
        for budget in ("floor", *(int(share * free) for share in (0.5, 0.7, 0.9, 1.0))):
            try:
                return self._within(budget).plan.arena_bytes
            except (lowtide.Infeasible, lowtide.Limit) as problem:
                refused = problem
        raise refused  # not even within the arena that needs no budget

    def swap(self) -> Verdict:
        free = self._planned().arena_bytes
        step = self._steps(None, self.before, self.seen, None, True, budget=int(0.8 * free), swap="host")
        return Verdict("right", "", f"{step.plan.arena_bytes} of {free} bytes")

    # up to rounding

    def _roughly(self) -> tuple[Callable, Note, list[Seen], float]:
        """Eager mode without dropout, in f64 where it runs so."""
        if self._rough is None:
            try:
                with _Narrow() as narrow:
                    found = eager(self.make, cast=narrow.from_here)
                self._rough = (_in_f64, *found, IN_BOTH if narrow.seen else ROUNDING[torch.float64])
                if self._rough[2][0].loss.dtype != torch.float64:
                    raise TypeError("not in f64")
            except Exception:
                self._rough = (_rounded, *eager(self.make, cast=_rounded), ROUNDING[torch.float32])
        return self._rough

    def _up_to_rounding(self, **options: Any) -> Verdict:
        cast, before, wanted, rounding = self._roughly()
        step = self._steps(cast, before, wanted, rounding, options.get("engine", "torch") == "torch", **options)
        return Verdict("right", "", str(getattr(step, "why", "") or ""), engine=step.engine)

    def native(self) -> Verdict:
        return self._up_to_rounding(engine="native")

    def auto(self) -> Verdict:
        return self._up_to_rounding(engine="auto")

    def samples(self) -> Verdict:
        return self._up_to_rounding(split="samples:2")

    # torch.compile

    def backend(self) -> Verdict:
        said, others = "", None
        for budget in (None, "85%"):
            options = {**self.options, **({} if budget is None else {"budget": budget})}
            try:
                mine = self._compiled("lowtide", options={k: v for k, v in options.items() if k != "progress"})
            except Exception as problem:
                cause = _cause(problem)
                if NO_SECOND_BACKWARD in str(cause):
                    raise NotJudged(f"gradients of gradients are refused by every backend with AOTAutograd, as docs/python.md says: {cause}") from problem
                if not isinstance(cause, lowtide.Error) and not self._is_traced():
                    raise NotJudged("dynamo itself does not trace it, as backend=\"eager\" shows, before a backend is called: "
                                    f"{type(cause).__name__}: {str(cause)[:300]}") from problem
                raise cause from problem
            try:
                self._compare_all(mine, self.seen)
            except Wrong as to_eager:
                try:
                    others = others or self._compiled("aot_eager")
                except Exception:
                    raise to_eager from None
                self._compare_all(mine, others)
                said = "as aot_eager"
        return Verdict("right", "", said)

    def _compiled(self, backend: str, **more: Any) -> list[Seen]:
        torch._dynamo.reset()
        if "lowtide" not in torch._dynamo.list_backends():
            from lowtide.pytorch import backend as ours
            torch._dynamo.register_backend(ours.lowtide, name="lowtide")
        return eager(self.make, compiled=lambda model: torch.compile(model, backend=backend, **more))[1]

    def _is_traced(self) -> bool:
        """Whether dynamo gives a backend its pieces: the one that runs them as they are gets them."""
        try:
            self._compiled("eager")
        except Exception:
            return False
        return True

    def _compare_all(self, mine: list[Seen], wanted: list[Seen]) -> None:
        for k, (a, b) in enumerate(zip(mine, wanted, strict=True)):
            compare(k if k < len(wanted) - 1 else STEPS + 9, a, b, self.before, None)

    def verdict(self, way: str, **more: Any) -> Verdict:
        """The verdict on one way, whatever happens."""
        try:
            return getattr(self, way)(**more)
        except NotJudged:
            raise
        except Wrong as problem:
            return Verdict("wrong", way, str(problem))
        except lowtide.Internal as problem:
            return Verdict("crash", way, f"Internal: {problem}", traceback.format_exc())
        except lowtide.Error as problem:
            return Verdict("refused", way, f"{type(problem).__name__}: {problem}")
        except Exception as problem:
            return Verdict("crash", way, f"{type(problem).__name__}: {str(problem)[:600]}", traceback.format_exc())


def _cause(problem: BaseException) -> BaseException:
    """What dynamo has wrapped."""
    inner = problem
    while inner is not None:
        if isinstance(inner, lowtide.Error):
            return inner
        inner = getattr(inner, "inner_exception", None) or inner.__cause__
    return problem


_WAY_ROUND = re.compile(r"\b(use|pass|call|give|set|make|take|put|write|instead|in the place of|without|needs? no|move|replace|say|try|runs? (it|this)|"
                        r"by a tensor|with engine|let|keeps? one shape|(is|are) planned|as a tensor)\b|\b(engine|budget|split|swap|rehearse)=", re.IGNORECASE)


def names_a_way_round(said: str) -> bool:
    """Whether a refusal says what to do. A crude measure: it looks for a verb that tells somebody to do something."""
    return len(said) > 30 and bool(_WAY_ROUND.search(said.split(": ", 1)[-1]))
