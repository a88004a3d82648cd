"""What compile_step and plan take beside model, loss, optimizer and batch, checked."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from ..errors import Usage


@dataclass(frozen=True)
class StepOptions:
    """What compile_step and plan take beside model, loss, optimizer and batch.

    budget: bytes of the whole device: a number or "2GiB", "60%" (of what the best order needs), "floor"; None: any.
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

    @staticmethod
    def of(options: dict[str, Any]) -> StepOptions:
        known = StepOptions.__dataclass_fields__
        for name in options:
            if name not in known:
                raise Usage(f"option '{name}' is not known; known are {', '.join(known)}")
        made = StepOptions(**options)
        if made.engine not in ("torch", "native", "auto"):
            raise Usage(f"engine='{made.engine}' is none of torch, native, auto")
        if made.shapes not in ("replan", "fixed"):
            raise Usage(f"shapes='{made.shapes}' is none of replan, fixed")
        if isinstance(made.budget, bool) or not isinstance(made.budget, (int, str, type(None))):
            raise Usage(f"budget={made.budget!r} is no number of bytes and no text such as '2GiB'")
        if made.check_finite not in (True, False, "loss"):
            raise Usage(f"check_finite={made.check_finite!r} is none of True, False, 'loss'")
        if made.accumulate < 1:
            raise Usage(f"accumulate={made.accumulate} is to be at least 1")
        made.moving()
        number = isinstance(made.split, int) and not isinstance(made.split, bool) and made.split >= 1
        if made.split not in (None, "auto") and not number and made.labels() is None:
            raise Usage(f"split={made.split!r} is neither 'auto' nor a number of parts nor 'samples:4'")
        return made

    def labels(self) -> str | None:
        """In how many parts the step runs along its samples, as the library takes it; None: not said."""
        said = re.fullmatch(r"samples:([1-9][0-9]{0,5})", self.split) if isinstance(self.split, str) else None
        return said[1] if said is not None else None

    def moving(self) -> dict[str, Any]:
        """Of slow memory, as lowtide_plan_make takes it. Raises Usage."""
        return moving(self.swap, self.link)

    def planning(self) -> dict[str, Any]:
        """As lowtide_plan_make takes them."""
        return {"allow": "recompute,reorder", **self.moving(), **self.searching()}

    def searching(self) -> dict[str, Any]:
        """Of these what does not say which levers there are."""
        found: dict[str, Any] = {"effort": self.effort}
        if isinstance(self.budget, int):
            found["budget_bytes"] = self.budget
        elif self.budget is not None:
            found["budget"] = self.budget
        if self.time_limit_seconds is not None:
            found["time_limit_seconds"] = self.time_limit_seconds
        return found


def moving(swap: Any, link: Any) -> dict[str, Any]:
    """The levers with slow memory, as lowtide_plan_make takes them; empty where nothing is to move. Raises Usage."""
    if swap is None:
        if link is not None:
            raise Usage(f"link={link!r} is the speed of slow memory, which swap='host' asks for")
        return {}
    if not isinstance(swap, str) or not re.fullmatch(r"host(=.+)?", swap):
        raise Usage(f"swap={swap!r} is none of 'host', 'host=2GiB'")
    found: dict[str, Any] = {"allow": "recompute,swap,reorder", "swap": swap}
    if isinstance(link, str):
        said = re.fullmatch(r"(\d+\.?\d*|\.\d+) *([KMGT]?)(iB|B)/s", link)
        if said is None:
            raise Usage(f"link={link!r} is no speed such as '12GiB/s' and no number of bytes a second")
        power, base = " KMGT".index(said[2] or " "), 1024 if said[3] == "iB" else 1000
        link = float(said[1]) * base**power
    if link is not None:
        if isinstance(link, bool) or not isinstance(link, (int, float)) or not 0 < link < math.inf:
            raise Usage(f"link={link!r} is no speed above 0, in bytes a second or as '12GiB/s'")
        found["link_bytes_per_second"] = float(link)
    return found
