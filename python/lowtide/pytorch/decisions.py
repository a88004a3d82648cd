"""Decisions on contents of tensors while a step is traced: checks that raise, and branches on what is there before the step.

A trace has no contents, so `if bad(x):` has no answer. There are three kinds of such decisions, told apart by trying:

    check     one answer only ever raises, whatever follows: `assert`, `if torch.isnan(x).any(): raise`, label checks of losses.
              The other answer is taken, and an op of the step (lowtide::demand) raises that exception, type and words, where a
              batch has the bad one. It runs before the first update, so the model is then as before the step
    branch    both answers go on, and what decides is computed of parameters, buffers and other tensors that are there before
              the step, not of the batch (a flag `initialised`, a count of calls): answered by their contents now. The plan
              holds for that answer: the ops that lead to it run again before each step, on the tensors as they are then, and
              another answer takes another plan
    refused   both answers go on, and the batch decides

A check is found by running the trace again: up to the decision with the answers that are known, then with the other
answer, until the user's code raises, or asks for the next decision, or has its loss. In between only nodes of a graph are made that is
thrown away; what the user's code changes beside is put back as after any trace. The same place of the code, reached by the same calls, is tried
once: a check in each of many layers costs one more run of the forward pass. At most MOST decisions are taken.

Python asks a tensor by `__bool__`; a number that was read off a tensor (`.item()`) by the `__bool__` of its comparison; and int(), float() and
formats ask either for a number at once (read_numbers.py). All are exchanged while a step is traced. Tests: tests/python/test_torch_decisions.py.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols

from . import read_numbers, this_thread, ways_round
from .foretold import Foretold, Source, foretell
from .step_numbers import Texts, unmarked

T = TypeVar("T")
MOST = 256  # decisions of a trace
MOST_TRIED = 32  # places of the code whose other answer is tried
_PLAIN = (str, int, float, bool, type(None))
_TORCH = os.path.dirname(torch.__file__) + os.sep


class Branch(Exception):
    """Both answers go on, and the batch decides."""


class AtOnce(NotImplementedError):
    """int() or float() of what only the step knows, where nothing says which number will do."""


class _WentOn(BaseException):
    """The other answer of a decision did not raise; no `except Exception` of the user's is to see it."""


@dataclass
class Answer:
    """`raised`: what the other answer raises. `at`: the place of the code, with the calls that led to it."""

    value: bool
    at: tuple
    raised: Exception | None = None
    foretold: Foretold | None = None
    known: bool = False  # whether the other answer was tried, or need not be

    @property
    def key(self) -> str:
        return "" if self.raised is None else remembered(self.raised)


# ---- what a check raises

_CHECKS: dict[str, tuple[type, tuple]] = {}  # by the argument of lowtide::demand


def remembered(problem: Exception) -> str:
    """The argument of lowtide::demand that raises one like it."""
    kind = type(problem)
    args = tuple("?" if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)) else a for a in problem.args)
    args = args if all(type(a) in _PLAIN for a in args) else (str(problem),)
    args = tuple(unmarked(a) if type(a) is str else a for a in args)
    key = f"{kind.__module__}.{kind.__qualname__}{args!r}"
    _CHECKS[key] = kind, args
    return key


def _exception(key: str) -> Exception:
    kind, args = _CHECKS.get(key, (RuntimeError, (key,)))
    return kind.__new__(kind, *args)  # without its __init__, whose arguments may be others


def _demand(holds: torch.Tensor, check: str) -> None:
    if not holds.item():
        raise _exception(check)


torch.library.define("lowtide::demand", "(Tensor holds, str check) -> ()")
torch.library.impl("lowtide::demand", "CompositeExplicitAutograd")(_demand)
torch.library.register_fake("lowtide::demand")(lambda holds, check: None)


# ---- asking

def _calls_from(frame: Any) -> tuple:
    """Where the code stands, by the calls that led there."""
    found = []
    while frame is not None:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def _is_internal(path: str) -> bool:
    """PyTorch's own machinery, which asks for its own reasons; its losses, layers and asserts are not."""
    if not path.startswith(_TORCH):
        return False
    first = path[len(_TORCH):].split(os.sep)[0]
    return first == "fx" or first.startswith("_") and not first.endswith(".py")


class Decisions:
    """The answers of one run of the trace: those that are known, and those that it adds. A run that tries an answer ends where it would
    add one."""

    def __init__(self, answers: list[Answer], tried: dict[tuple, Answer], trying: bool, fill: int = 0) -> None:
        self.answers, self.tried, self.trying = answers, tried, trying
        self.fill, self.filled = read_numbers.FILLS[fill], False  # a number for words, and whether one was asked for
        self.sources: Callable[[torch.fx.Node], Source | None] = lambda node: None  # foretold.py; the run says them
        self.whole: Callable[[torch.Tensor], int | None] = lambda asked: None  # foretold_sizes.py; the run says it, too
        self.count = 0
        self.asking = False

    def ended(self) -> None:
        """The user's code has its loss."""
        if self.trying and self.count >= len(self.answers):
            raise _WentOn

    def ask(self, asked: Any, frame: Any) -> bool:
        """`asked`: a tensor of one element, or a SymBool."""
        self.asking = True
        try:
            if self.count == len(self.answers):
                self.answers.append(self.fresh(asked, frame))
            answer = self.answers[self.count]
            self.count += 1
            if answer.foretold is None:
                self.demand(asked, answer)
            return answer.value
        finally:
            self.asking = False

    def fresh(self, asked: Any, frame: Any) -> Answer:
        if self.trying:
            raise _WentOn
        if self.count >= MOST:
            raise Branch(f"more than {MOST} decisions on the contents of tensors")
        at = _calls_from(frame)
        foretold = foretell(asked, self.sources, [])
        if foretold is not None:
            return Answer(foretold.value, at, foretold=foretold, known=True)
        before = self.tried.get(at)
        return Answer(True, at) if before is None else Answer(before.value, at, before.raised, known=True)

    def number(self, tensor: Callable[[], torch.Tensor], frame: Any, kind: type) -> Any:
        """For int() and float(): a number that does where it is used; None where none is known to."""
        if read_numbers.is_in_words(frame):
            self.filled = True
            return kind(self.fill)
        condition = read_numbers.condition(frame)
        if condition is None:
            return self.whole(tensor()) if kind is int else None
        asked = condition.of(tensor().detach().reshape(()).to(torch.int64 if kind is int else torch.float64))
        answer = self.ask(asked, frame) if isinstance(asked, torch.Tensor) else bool(asked)
        return condition.number_with(answer, kind)

    def demand(self, asked: Any, answer: Answer) -> None:
        if isinstance(asked, torch.Tensor):
            flag = asked.detach().reshape(())
            holds = flag if flag.dtype == torch.bool else flag != 0
        else:
            holds = torch.scalar_tensor(asked, dtype=torch.bool)
        torch.ops.lowtide.demand(holds if answer.value else holds.logical_not(), f"{self.count - 1}")


@contextlib.contextmanager
def asked_of(decisions: Decisions, known: Callable[[torch.Tensor], Any], texts: Texts) -> Iterator[None]:
    """Within, truth values that only a step knows are asked of `decisions`, and `texts` of them are marked. `known`: what a tensor is known to
    hold, or None."""

    def of_tensor(tensor_bool: Callable, self: torch.Tensor) -> bool:
        frame = sys._getframe(2)  # behind this_thread's
        if decisions.asking or self.numel() != 1 or _is_internal(frame.f_code.co_filename):
            return tensor_bool(self)
        if not isinstance(self, FakeTensor):  # it was there before the step: the fake one that stands for it
            self = torch.ops.aten.alias(self)
        if not isinstance(self, FakeTensor):
            return tensor_bool(self)
        return tensor_bool(self) if known(self) is not None else decisions.ask(self, frame)

    def of_symbol(symbol_bool: Callable, self: torch.SymBool) -> bool:
        frame = sys._getframe(2)
        try:
            return symbol_bool(self)
        except GuardOnDataDependentSymNode:
            if decisions.asking or _is_internal(frame.f_code.co_filename):
                raise
        return decisions.ask(self, frame)

    def of_number(kind: type) -> Callable[[Callable, Any], Any]:
        def asked(before: Callable, self: Any) -> Any:
            frame, found = sys._getframe(2), None
            if decisions.asking or _is_internal(frame.f_code.co_filename) or not _is_unknown(self, known):
                return before(self)
            found = decisions.number(lambda: _of_one(self), frame, kind)
            if found is not None:
                return found
            try:
                return before(self)
            except GuardOnDataDependentSymNode as problem:
                raise AtOnce(f"{kind.__name__}() asks for a number at once that only the step knows{ways_round.of_contents(str(problem), True)}") from None

        return asked

    numbers = [(holder, name, of_number(kind)) for holder, name, kind in _NUMBERS]
    with this_thread.exchanged((torch.Tensor, "__bool__", of_tensor), (torch.SymBool, "__bool__", of_symbol), *texts.exchanges(), *numbers):
        yield


_NUMBERS = ((torch.Tensor, "__int__", int), (torch.Tensor, "__float__", float), (torch.SymInt, "__int__", int),
            (torch.SymFloat, "__int__", int), (torch.SymFloat, "__float__", float))


def _is_unknown(asked: Any, known: Callable[[torch.Tensor], Any]) -> bool:
    """A number that only a step knows."""
    if isinstance(asked, torch.Tensor):
        return isinstance(asked, FakeTensor) and asked.numel() == 1 and not asked.is_complex() and known(asked) is None
    return bool(free_unbacked_symbols(asked))


def _of_one(asked: Any) -> torch.Tensor:
    kind = torch.int64 if isinstance(asked, torch.SymInt) else torch.float64
    return asked if isinstance(asked, torch.Tensor) else torch.scalar_tensor(asked, dtype=kind)


# ---- trying

def _untraceable(problem: Exception) -> bool:
    """Whether it says something of tracing and nothing of the user's code."""
    of_tracing = type(problem).__module__.startswith(("torch._subclasses", "torch.fx", "torch._dynamo", "lowtide."))
    return of_tracing or type(problem) is NotImplementedError


def decided(attempt: Callable[[Decisions], T]) -> tuple[T, list[Answer]]:
    """What a run of the trace gives, and its decisions. `attempt` runs it anew with each Decisions.

    Raises Branch for a decision that cannot be planned, and what the user's code raises whatever the answers are.
    """
    answers: list[Answer] = []
    tried: dict[tuple, Answer] = {}
    while True:
        asked = Decisions(answers, tried, False)
        try:
            result = attempt(asked)
            break
        except Exception as problem:
            if _untraceable(problem):
                raise
            _flip(answers, _in_words(attempt, asked, problem, list(answers)), tried)
    for place, answer in enumerate(answers):
        if answer.known:
            continue
        before_it = tried.get(answer.at)
        answer.raised = before_it.raised if before_it is not None else _raised_by_other(attempt, answers[:place], answer)
        answer.known = True
        tried[answer.at] = answer
        if len(tried) > MOST_TRIED:
            raise Branch(f"more than {MOST_TRIED} different decisions on the contents of tensors")
    return result, answers


def _flip(answers: list[Answer], problem: Exception, tried: dict[tuple, Answer]) -> None:
    """The last answer that was not tried the other way has led to an exception: the other one is next. Raises it where both have."""
    while answers and answers[-1].known:
        answers.pop()
    if not answers:
        raise problem
    last = answers[-1]
    answers[-1] = Answer(not last.value, last.at, problem.with_traceback(None), known=True)
    tried[last.at] = answers[-1]


def _raised_by_other(attempt: Callable, before: list[Answer], answer: Answer) -> Exception:
    """What the other answer raises. Raises Branch where it goes on."""
    answers = [*before, Answer(not answer.value, answer.at, known=True)]
    other = Decisions(list(answers), {}, True)
    try:
        attempt(other)
    except _WentOn:
        pass
    except Exception as problem:
        if not _untraceable(problem):
            return _in_words(attempt, other, problem, answers).with_traceback(None)
    raise Branch(_where(answer.at))


def _in_words(attempt: Callable, asked: Decisions, problem: Exception, answers: list[Answer]) -> Exception:
    """The exception, with `?` for the numbers in its words that only a step knows."""
    if not asked.filled:
        return problem
    try:
        attempt(Decisions(answers, {}, True, fill=1))
    except _WentOn:
        pass
    except Exception as again:
        return read_numbers.in_words(problem, again)
    return problem


def _where(at: tuple) -> str:
    """ "file:line: code" of a decision."""
    for code, offset in at:
        if code.co_filename.startswith(_TORCH) or "lowtide" in code.co_filename.split(os.sep)[-3:-1]:
            continue
        lines = [line for start, end, line in code.co_lines() if start <= offset < end and line]
        line = lines[0] if lines else code.co_firstlineno
        return f"{code.co_filename}:{line}: {linecache.getline(code.co_filename, line).strip()}"
    return ""


def settle(module: torch.fx.GraphModule, answers: list[Answer]) -> None:
    """Says in the graph what each check raises."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.lowtide.demand.default and node.args[1].isdigit():
            node.args = (node.args[0], answers[int(node.args[1])].key)
