"""One step() of an optimizer on copies: whether it runs without a closure, and how many bytes of state it makes.

An optimizer that runs whole (whole_step.py) makes its state in its first step, and a plan counts it before. So a copy of the
optimizer, of all that it holds but the parameters, makes a step with other parameters in their places:

    of the same shapes      where they are few (COPIED bytes): its real kernels, real sizes
    without contents        fake tensors of the same shapes; not where step() looks into its tensors
    small                   no side as long as a true one; sizes of states go by the sides of their parameters

The first that runs is the answer; where none does, step() is refused with what it raised. An optimizer that has a state
already is asked for nothing: its bytes are counted. Random streams are as before, and what cannot be copied (a process group)
is shared with the copy.
"""

from __future__ import annotations

import collections
import copy
import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..errors import Unsupported
from .called_step import call_step
from .rehearsal import leaf_like, name_of, streams_as_before
from .untouched import optimizer_untouched

COPIED = 1 << 24  # bytes of all parameters up to which they are copied
PLAIN = (int, float, complex, bool, str, bytes, type(None), type, torch.dtype, torch.device)
_SIDES = (2, 3, 5, 7, 11)  # of small copies: other extents of a parameter get other sides


def walk(value: Any, apart: set[int]) -> Iterator[torch.Tensor]:
    """The tensors in an object, in what it holds and so on, each memory once; `apart`: ids of what is left out."""
    waiting, seen, memories = [value], set(apart), set()
    while waiting:
        now = waiting.pop()
        if id(now) in seen or isinstance(now, PLAIN):
            continue
        seen.add(id(now))
        if isinstance(now, torch.Tensor):
            memory = now.untyped_storage()._cdata if now.layout is torch.strided else id(now)
            if memory not in memories:
                memories.add(memory)
                yield now
        elif isinstance(now, dict):
            waiting += [*now.values()]
        elif isinstance(now, (list, tuple, set, frozenset, collections.deque)):
            waiting += [*now]
        elif not isinstance(now, torch.nn.Module) and not inspect.isroutine(now):
            waiting += [*getattr(now, "__dict__", {}).values()]


def _parameters(optimizer: Any) -> list[torch.nn.Parameter]:
    return list({id(p): p for group in optimizer.param_groups for p in group["params"]}.values())


def _apart(optimizer: Any, leaves: list[torch.nn.Parameter]) -> set[int]:
    found = {id(p) for p in leaves} | {id(p.grad) for p in leaves if p.grad is not None}
    return found | {id(value) for key, value in vars(optimizer).items() if key.startswith("_") and key.endswith("_hooks")}


def state_there(optimizer: Any) -> int:
    """Bytes of the tensors that the optimizer holds beside its parameters."""
    return sum(_bytes(tensor) for tensor in walk(optimizer, _apart(optimizer, _parameters(optimizer))))


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout is torch.strided else tensor.numel() * tensor.element_size()


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy; what cannot be copied is itself."""
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001: whatever an object does when it is copied
        return value


def _copy_of(optimizer: Any, memo: dict[int, Any]) -> Any:
    """With other parameters: `memo` says which. By hand, as an Optimizer's own copy leaves attributes out."""
    if id(optimizer) in memo:
        return memo[id(optimizer)]
    made = memo[id(optimizer)] = object.__new__(type(optimizer))
    for value in vars(optimizer).values():  # those that it holds
        for held in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(held, torch.optim.Optimizer):
                _copy_of(held, memo)
    for key, value in vars(optimizer).items():
        if key != "step":
            made.__dict__[key] = _copied(value, memo)
    return made


def _small(shape: torch.Size) -> tuple[list[int], dict[int, int]]:
    """Sides of a small copy, and what they stand for."""
    extents = sorted({extent for extent in shape if extent > 1})
    sides = {extent: min(extent, _SIDES[min(k, len(_SIDES) - 1)]) for k, extent in enumerate(extents)}
    return [sides.get(extent, extent) for extent in shape], {side: extent for extent, side in sides.items()}


class _Trial:
    """A step() of a copy of the optimizer. `shape_of`: of the parameters there."""

    def __init__(self, optimizer: Any, shape_of: Callable[[torch.Size], list[int]]) -> None:
        self.optimizer, self.pairs = optimizer, []
        memo: dict[int, Any] = {}
        for k, p in enumerate(_parameters(optimizer)):
            leaf = leaf_like(p, self._drawn(p, shape_of(p.shape), k), None)
            if p.requires_grad:
                leaf.grad = self._drawn(p, shape_of(p.shape), k + 1000)
            leaf.requires_grad_(p.requires_grad)
            memo[id(p)] = leaf
            self.pairs.append((p, leaf))
        self.copied = _copy_of(optimizer, memo)
        with torch.no_grad():
            call_step(self.copied)

    @staticmethod
    def _drawn(like: torch.Tensor, shape: list[int], seed: int) -> torch.Tensor:
        if torch._guards.detect_fake_mode() is not None:
            return torch.empty(shape, dtype=like.dtype)
        drawn, stream = torch.empty(shape, dtype=torch.float64), torch.Generator()
        return drawn.uniform_(-1, 1, generator=stream.manual_seed(seed)).to(like.dtype)

    def bytes(self) -> int:
        """What it made."""
        leaves = [leaf for _, leaf in self.pairs]
        return sum(_bytes(tensor) for tensor in walk(self.copied, _apart(self.copied, leaves)))

    def scaled_bytes(self) -> int:
        """What it would have made of the true parameters: each side of a state as the parameter's."""
        total, counted, left = 0, set(), _apart(self.copied, [leaf for _, leaf in self.pairs])
        for p, leaf in self.pairs:
            stands_for = {**_small(p.shape)[1], leaf.numel(): p.numel()}
            for tensor in walk(getattr(self.copied, "state", {}).get(leaf), left):
                size = tensor.element_size()
                for side in tensor.shape:
                    size *= stands_for.get(side, side)
                total += size
                counted.add(id(tensor))
        alike: dict[tuple[int, ...], int] = {}  # small shape -> elements of the largest parameter of that shape
        for p, leaf in self.pairs:
            alike[tuple(leaf.shape)] = max(p.numel(), alike.get(tuple(leaf.shape), 0))
        others = [tensor for tensor in walk(self.copied, left) if id(tensor) not in counted]
        return total + sum(alike.get(tuple(t.shape), t.numel()) * t.element_size() if t.dim() else _bytes(t) for t in others)


def _tried(optimizer: Any) -> int:
    """Bytes of state behind a first step. Raises Unsupported."""
    problem: Exception | None = None

    def bytes_of(shape_of: Callable, fake: bool, scaled: bool) -> int | None:
        nonlocal problem
        try:
            with FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext():
                trial = _Trial(optimizer, shape_of)
                return trial.scaled_bytes() if scaled else trial.bytes()
        except Exception as raised:  # noqa: BLE001: whatever the user's code raises
            problem = raised if problem is None or not fake else problem
            return None

    few = sum(p.nbytes for p in _parameters(optimizer)) <= COPIED
    tries = [(list, False, False)] if few else [(list, True, False), (lambda shape: _small(shape)[0], False, True)]
    for trial in tries:
        found = bytes_of(*trial)
        if found is not None:
            return found
    line = (str(problem).strip().splitlines() or [""])[0]
    raise Unsupported(f"{name_of(optimizer)} cannot be planned: its step() on copies of the parameters: {type(problem).__name__}: {line}")


def _begun(optimizer: Any) -> bool:
    return any(bool(entry) for entry in dict(getattr(optimizer, "state", {})).values())


_known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def state_bytes_of(optimizer: Any) -> int:
    """The bytes of the state as it is or will be behind the first step. Raises Unsupported where step() cannot be called."""
    if _begun(optimizer):
        return state_there(optimizer)
    key = [(id(p), p.requires_grad) for p in _parameters(optimizer)]
    kept = _known.get(optimizer)
    if kept is None or kept[0] != key:
        with streams_as_before(), optimizer_untouched(optimizer):
            kept = _known[optimizer] = (key, _tried(optimizer))
    return kept[1]
