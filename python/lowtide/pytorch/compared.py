"""What a planned step leaves beside what eager mode leaves: by name, bit for bit or within a tolerance.

`Left` keeps what the planned step left. `Beside` is shown the same of eager mode, in any order, looks at each at once and keeps only what
differs, so nothing of the model's size is there a third time. Zeros of either sign are equal, and so are all that are no number.

    bits        as a plan of the torch engine promises
    tolerance   of parts of samples, whose sums add in another order, and of what eager mode itself does not repeat
    native      the engine has gradients of its own and gives none. What tells of them is held against eager mode's: moments, and how far each
                parameter moves. Adam moves by its rate also where a gradient is rounding alone, to either side: numbers whose moment is small
                beside the largest are left out

Tests: tests/python/test_torch_rehearsal.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .untouched import PLAIN, same

GRADIENT, PARAMETER, STATE, BUFFER, LOSS = "the gradient of ", "the parameter ", "the state ", "the buffer ", "the loss"
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 5e-2, torch.bfloat16: 1e-1}  # of the largest number; by the narrowest type in the step
SMALL_MOMENT = 1e-2  # of the largest: below, a moment may be rounding
_MOVED = 5e-2  # of how far the farthest parameter moves


@dataclass
class Left:
    """What a step leaves, by name: tensors are copied, of other values the kind and, if it is plain, the value."""

    values: dict[str, Any] = field(default_factory=dict)
    problem: Exception | None = None
    near: float = 0.0  # the tolerance of the narrowest type in the step, which wider results are not more exact than
    scales: dict[str, float] = field(default_factory=dict)  # of gradients and of each kind of state, once they are asked for

    def see(self, name: str, value: Any, exact: bool | None = None) -> None:
        self.values[name] = value.detach().clone() if isinstance(value, torch.Tensor) else token(value)

    def scale_of(self, name: str) -> float:
        """The largest number of all gradients, if it is the name of one, of all states of its kind, or of the buffers beside it in its module
        (a running mean behind a norm is rounding alone, its variance is not): beside it rounding is nothing. What is kept beside these (the
        mean of what was normed) is a sum like the loss, whose size it gets; 0 for the rest."""
        kind = GRADIENT if name.startswith(GRADIENT) else name.partition(" of ")[0] + " of " if name.startswith(STATE) else ""
        if name.startswith(BUFFER) and "." in name:
            kind = name.rpartition(".")[0] + "."
        if kind and kind not in self.scales:
            alike_named = [t for other, t in self.values.items() if other.startswith(kind) and isinstance(t, torch.Tensor)]
            self.scales[kind] = max(map(size, alike_named), default=0.0)
        if not kind and not name.startswith((PARAMETER, BUFFER)) and isinstance(self.values.get(LOSS), torch.Tensor):
            return size(self.values[LOSS])
        return self.scales.get(kind, 0.0)


def token(value: Any) -> Any:
    """Whether two things that are no tensors are equal where nobody could tell the difference; objects are compared by their class alone."""
    return value if type(value) in PLAIN or type(value) is tuple or value is None else type(value)


class Beside:
    """What eager mode leaves, held against what a plan left."""

    def __init__(self, mine: Left, exact: bool) -> None:
        self.mine, self.exact = mine, exact
        self.seen: set[str] = set()
        self.differ: dict[str, Any] = {}  # name -> eager mode's, copied
        self.said: dict[str, str] = {}
        self.far: set[str] = set()  # beyond rounding
        self.problem: Exception | None = None

    def see(self, name: str, value: Any, exact: bool | None = None) -> None:
        self.seen.add(name)
        mine = self.mine.values.get(name, _NOTHING)
        exact = self.exact if exact is None else exact
        if not alike(mine, value, exact, 0.0 if exact else self.mine.scale_of(name), self.mine.near):
            self._differs(name, mine, value)

    def _differs(self, name: str, mine: Any, value: Any) -> None:
        self.differ[name] = value.detach().clone() if isinstance(value, torch.Tensor) else token(value)
        self.said[name] = _said(name, mine, value)
        if not alike(mine, value, False, self.mine.scale_of(name), self.mine.near):
            self.far.add(name)

    def end(self) -> None:
        """All of eager mode was shown."""
        for name, mine in self.mine.values.items():
            if name not in self.seen:
                self.differ[name] = _NOTHING
                self.said[name] = _said(name, mine, _NOTHING)
                self.far.add(name)


class Again:
    """Eager mode once more: which of what differed it does not repeat."""

    def __init__(self, first: Beside) -> None:
        self.first, self.mine = first, first.mine
        self.seen: set[str] = set()
        self.unsteady: set[str] = set()
        self.problem: Exception | None = None

    def see(self, name: str, value: Any, exact: bool | None = None) -> None:
        self.seen.add(name)
        if name in self.first.differ and not alike(self.first.differ[name], value, True):
            self.unsteady.add(name)

    def end(self) -> None:
        self.unsteady |= {name for name, value in self.first.differ.items() if name not in self.seen and value is not _NOTHING}


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def size(tensor: torch.Tensor) -> float:
    """Its largest number."""
    finite = tensor[tensor.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


def alike(a: Any, b: Any, exact: bool, largest: float = 0.0, near: float = 0.0) -> bool:
    """Whether what was kept is what is there now. `largest`: of all gradients; one of rounding alone, behind a norm, is nothing beside it.
    `near`: the least tolerance where they need not be exact."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) or a is _NOTHING or b is _NOTHING:
            return a is b
        b = token(b)
        return a is b or same(a, b) or (not exact and type(a) is float is type(b) and abs(a - b) <= 1e-3 * max(abs(a), abs(b)))
    a, b = a.detach(), b.detach()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        return False
    if exact:
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    near = max(near, TOLERANCE.get(a.real.dtype if a.is_complex() else a.dtype, 1e-1))
    return bool(torch.allclose(a, b, rtol=near, atol=near * max(size(b), largest), equal_nan=True))


def _said(name: str, a: Any, b: Any) -> str:
    if a is _NOTHING or b is _NOTHING:
        there = ("is not there", "it is") if a is _NOTHING else ("is there", "it is not")
        return f"{name} {there[0]}, and in eager mode {there[1]}"
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return f"{name} is {_kind(a)}, in eager mode {_kind(b)}"
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{name} is {_kind(a)}, in eager mode {_kind(b)}"
    wide = torch.complex128 if a.is_complex() else torch.float64
    far = (a.detach().to(wide) - b.detach().to(wide)).abs()
    return f"{name} differs by {far.nan_to_num(float('inf')).max().item():.3g}"


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return repr(value)[:60]


# ---- of the native engine


@dataclass
class Moves:
    """How far each parameter of eager mode moved, where its moment is more than rounding: what native is held against."""

    before: dict[str, torch.Tensor]  # parameters
    moments: dict[str, torch.Tensor] = field(default_factory=dict)  # eager mode's, of those that have one
    after: dict[str, torch.Tensor] = field(default_factory=dict)

    def differences(self, mine: Left) -> dict[str, str]:
        """By name, in words."""
        said = {}
        moved = {name: self.after[name] - before for name, before in self.before.items()}
        farthest = max(map(size, moved.values()), default=0.0)
        largest = max(map(size, self.moments.values()), default=0.0)
        for name, move in moved.items():
            its, there = mine.values[PARAMETER + name] - self.before[name], torch.ones_like(move, dtype=torch.bool)
            if name in self.moments:
                there = self.moments[name].abs() >= SMALL_MOMENT * largest
            far = ((move - its).abs() * there).nan_to_num(0.0)
            if bool((far > _MOVED * farthest + 1e-6 * self.before[name].abs()).any()):
                said[PARAMETER + name] = f"{PARAMETER}{name} moves otherwise, by {far.max().item():.3g}"
        return said
