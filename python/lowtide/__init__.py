"""Lowtide makes neural networks fit in memory.

    import lowtide
    step = lowtide.compile_step(model, loss_fn, optimizer, sample_batch, budget="2GiB")
    for batch in data:
        loss = step(batch)

`lowtide.plan(...)` gives the verdict only. Both need PyTorch; plans of model files do not:

    lowtide.plan("model.onnx", train=True, dims={"batch": 8}, budget="2GiB")

What goes wrong is a `lowtide.Error`; its kinds are the exit codes of the command line (docs/formats.md).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._library import version
from .errors import BadInput, Error, Infeasible, Internal, Limit, Refused, Unsupported, Usage
from .plans import Plan, plan_file

if TYPE_CHECKING:
    from typing import Unpack

    from .pytorch.options import StepKeywords
    from .pytorch.again import Timed
    from .pytorch.step import Step

__all__ = ["BadInput", "Error", "Infeasible", "Internal", "Limit", "Plan", "Refused", "Unsupported", "Usage",
           "compile_step", "measure", "plan", "version"]


def plan(model: Any, loss_fn: Any = None, optimizer: Any = None, sample_batch: Any = None, **options: Any) -> Plan:
    """The plan of a training step; nothing runs.

    `model` is a path (ONNX or a graph as text; options as `lowtide_plan_make` has them, and `dims`), or a PyTorch
    module with `loss_fn(model, batch) -> loss` or `(loss, aux)`, its optimizer and a batch of the right shapes
    (options as `compile_step` has them).
    """
    if isinstance(model, (str, os.PathLike)):
        return plan_file(model, **options)
    from .pytorch.engines import plan_step

    return plan_step(model, loss_fn, optimizer, sample_batch, **options)


def compile_step(model: Any, loss_fn: Any, optimizer: Any, sample_batch: Any,
                 **options: Unpack[StepKeywords]) -> Step:
    """A planned training step: forward, backward and update within a byte budget (lowtide.pytorch.engines)."""
    from .pytorch.engines import compile_step as compile_torch_step

    return compile_torch_step(model, loss_fn, optimizer, sample_batch, **options)


def measure(step: Step, rounds: int = 10) -> list[Timed]:
    """Times the kernels of a planned step again, for longer; the next plan of the same step goes by it
    (lowtide.pytorch.again)."""
    from .pytorch.again import measure as measure_again

    return measure_again(step, rounds)
