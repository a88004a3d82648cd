"""What compile_step and plan take beside model, loss, optimizer and batch, checked."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from ..amounts import amount_of, bytes_of, speed_of
from ..errors import Usage

MOST_SAID = 80  # characters of a wrong value in a message


class StepKeywords(TypedDict, total=False):
    """The fields of StepOptions, for type checkers: compile_step takes them by name."""

    budget: int | str | None
    clip_norm: float | None
    clip_value: float | None
    accumulate: int
    data_parallel: bool
    check_finite: bool | str
    shapes: str
    swap: str | None
    link: float | str | None
    split: int | str | None
    engine: str
    effort: float
    time_limit_seconds: float | None
    progress: bool | None
    cache: bool
    rehearse: bool | None


@dataclass(frozen=True)
class StepOptions:
    """What compile_step and plan take beside model, loss, optimizer and batch.

    budget: bytes of the whole device: a number or "2GiB", "60%" (of what the best order needs), "floor" (the least
    arena that is found); None: any.
    clip_norm, clip_value: of the gradients, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_.
    accumulate: so many batches (a list) make one update; the loss is the sum of theirs.
    data_parallel: under torchrun: gradients are averaged over all ranks, which run one plan (ranks.py).
    check_finite: a loss or a gradient that is not finite raises FloatingPointError and changes nothing. No update begins
    before all gradients are there, which may take memory. "loss": the loss alone.
    shapes: "replan" makes a plan for each new shape of batch, once; "fixed" refuses others than the sample's.
    swap: "host": values, and what is there before the step, may move to host memory and back; "host=2GiB": with that much
    room for values.  link: its speed in each direction, as "12GiB/s" or bytes a second; by default the CPU profile's.
    split: parts in which the largest values are made and read (parts.py): a number; "samples:4": parts of the whole
    step along its samples, by the planner's fission (samples.py); or "auto". Sums then add in another order.
    engine: "torch" (bit for bit as eager mode), "native" (Lowtide's own kernels; native.py), "auto" (the faster one).
    effort: of the search, about in seconds.  progress: None: on a terminal.
    rehearse: one step beside eager mode when the model is compiled (beside_eager.py). None: where there is memory for it; True: or else
    Usage; False: never.
    """

    budget: int | str | None = None
    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int = 1
    data_parallel: bool = False
    check_finite: bool | str = False
    shapes: str = "replan"
    swap: str | None = None
    link: float | str | None = None
    split: int | str | None = None
    engine: str = "torch"
    effort: float = 4
    time_limit_seconds: float | None = None
    progress: bool | None = None
    cache: bool = True
    rehearse: bool | None = None

    @staticmethod
    def of(options: dict[str, Any]) -> StepOptions:
        """Raises Usage for the first that is wrong, before anything is captured."""
        refuse_unknown(options, tuple(StepOptions.__dataclass_fields__), "")
        if isinstance(budget := options.get("budget"), numbers.Integral) and not isinstance(budget, int):  # numpy's
            options = {**options, "budget": int(budget)}
        for name, value in options.items():
            refuse_wrong(name, value)
        made = StepOptions(**options)
        made.moving()
        return made

    def labels(self) -> str | None:
        """In how many parts the step runs along its samples, as the library takes it; None: not said."""
        return labels_of(self.split)

    def moving(self) -> dict[str, Any]:
        """The text of slow memory, as lowtide_plan_make takes it. Raises Usage."""
        return moving(self.swap, self.link)

    def planning(self) -> dict[str, Any]:
        """As lowtide_plan_make takes them."""
        return {"allow": "recompute,reorder", **self.moving(), **self.searching()}

    def searching(self) -> dict[str, Any]:
        """The options among these that do not say which levers there are."""
        found: dict[str, Any] = {"effort": self.effort}
        if isinstance(self.budget, int):
            found["budget_bytes"] = self.budget
        elif self.budget is not None:
            found["budget"] = self.budget
        if self.time_limit_seconds is not None:
            found["time_limit_seconds"] = self.time_limit_seconds
        return found


def labels_of(split: Any) -> str | None:
    said = re.fullmatch(r"samples:([1-9][0-9]{0,5})", split) if isinstance(split, str) else None
    return said[1] if said is not None else None


# ---- what each option may be

_Check = tuple[Callable[[Any], bool], str]  # whether a value is right; what is said of one that is not


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_split(split: Any) -> bool:
    by_name = isinstance(split, str) and (split == "auto" or labels_of(split) is not None)
    return by_name or _is_count(split)


def _word(*words: str) -> _Check:
    return lambda v: isinstance(v, str) and v in words, f"is none of {', '.join(words)}"


def _is_room(swap: Any) -> bool:
    """Whether a text names slow memory: "host", "host=2GiB"."""
    said = re.fullmatch(r"host(?:=(.*))?", swap) if isinstance(swap, str) else None
    return said is not None and (said[1] is None or bool(bytes_of(said[1])))


_FLAG: _Check = (lambda v: isinstance(v, bool), "is neither True nor False")
_NORM: _Check = (lambda v: v is None or (_is_number(v) and v >= 0), "is no number of at least 0")
_CHECKS: dict[str, _Check] = {
    "budget": (lambda v: v is None or amount_of(v) is not None,
               "is no number of bytes above 0, no size such as '2GiB', no share up to '100%' and not 'floor'"),
    "clip_norm": _NORM, "clip_value": _NORM,
    "accumulate": (_is_count, "is no whole number of at least 1"),
    "data_parallel": _FLAG, "cache": _FLAG, "strict": _FLAG,
    "check_finite": (lambda v: isinstance(v, bool) or isinstance(v, str) and v == "loss", "is none of True, False, 'loss'"),
    "rehearse": (lambda v: v is None or isinstance(v, bool), "is none of True, False, None"),
    "progress": (lambda v: v is None or isinstance(v, bool), "is none of True, False, None"),
    "shapes": _word("replan", "fixed"), "engine": _word("torch", "native", "auto"),
    "swap": (lambda v: v is None or _is_room(v), "is none of 'host', 'host=2GiB'"),
    "link": (lambda v: v is None or speed_of(v) is not None,
             "is no speed above 0, in bytes a second or as '12GiB/s'"),
    "split": (lambda v: v is None or _is_split(v),
              "is neither 'auto' nor a number of parts nor 'samples:4'"),
    "effort": (lambda v: _is_number(v) and 0 < v <= 1e6, "is no number above 0 and at most 1e6"),
    "time_limit_seconds": (lambda v: v is None or (_is_number(v) and 0 < v < math.inf),
                           "is no number of seconds above 0"),
}


def refuse_unknown(options: dict[str, Any], known: tuple[str, ...], of: str) -> None:
    """Raises Usage."""
    for name in options:
        if name not in known:
            raise Usage(f"option '{name}'{of} is not known; known are {', '.join(known)}")


def refuse_wrong(name: str, value: Any) -> None:
    """Raises Usage."""
    is_right, otherwise = _CHECKS[name]
    if not is_right(value):
        said = " ".join(repr(value).split())
        said = said if len(said) <= MOST_SAID else said[:MOST_SAID] + "..."
        raise Usage(f"{name}={said} {otherwise}")


def moving(swap: str | None, link: float | str | None) -> dict[str, Any]:
    """The levers with slow memory, as lowtide_plan_make takes them; empty where nothing is to move. Raises Usage."""
    if swap is None:
        if link is not None:
            raise Usage(f"link={link!r} is the speed of slow memory, which swap='host' asks for")
        return {}
    found: dict[str, Any] = {"allow": "recompute,swap,reorder", "swap": swap}
    if link is not None:
        found["link_bytes_per_second"] = speed_of(link)
    return found
