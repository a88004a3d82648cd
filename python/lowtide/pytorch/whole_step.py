"""Updates by one call of the optimizer's own step(), on the optimizer itself, behind all else of a step.

This is for every optimizer whose step() is not the same for one parameter at a time as for all together (own_step.py): it
counts in its group, takes a norm of all gradients, draws random numbers, keeps objects in its state. The step has one unit for it,
which reads all gradients, so they are planned to live until then. When it runs, `p.grad` of each parameter that gets a
gradient is that gradient and of all others None, as in eager mode behind zero_grad(); afterwards `p.grad` is what the user
had there. No part of step() is known here, so what it allocates lies beside the arena and is counted there
(`step.memory.beside`). What it keeps is its own: where that is the gradient itself, the gradient moves out of the arena.

The optimizer's state is counted in the plan as one value that is there all the time: as many bytes as it has, or, before the
first step, as a step() on copies makes (whole_rehearsal.py), which also says whether step() can be called without a closure.

Tests: tests/python/test_torch_any_optimizer.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from .optimizers import Updates
from .called_step import call_step
from .rehearsal import State
from .whole_rehearsal import state_bytes_of


def _holders(gradient: torch.Tensor) -> tuple[int, int]:
    """How many hold the tensor, and its memory."""
    return sys.getrefcount(gradient), torch._C._storage_Use_Count(gradient.untyped_storage()._cdata)


class WholeUpdates(Updates):
    """All parameters in one update."""

    whole = True

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: dict[str, torch.nn.Parameter]) -> None:
        super().__init__(optimizer, parameters)
        self.state_bytes = state_bytes_of(optimizer)

    def kind(self, name: str) -> Any:
        return "whole"

    def make_state(self, names: list[str]) -> None:
        """step() makes it when it runs."""

    def state(self, name: str) -> State:
        """It is step()'s alone, and no operand of the update."""
        return {}

    def try_groups(self) -> None:
        """Nothing is known of what step() takes."""

    def function(self, name: str) -> Callable[..., None]:
        return self.update_all

    def update_all(self, *tensors: torch.Tensor) -> None:
        """`tensors`: parameter and gradient in turns. Where no step runs (kinds are measured, copies rehearsed) nothing is done."""
        if not self.live:
            return
        gradients = tensors[1::2]
        of_name = dict(zip(self.updated, gradients, strict=True))
        given = {id(self.parameters[name]): gradient for name, gradient in of_name.items()}
        trained = [p for group in self.optimizer.param_groups for p in group["params"]]
        before = [p.grad for p in trained]
        held = [_holders(gradient) for gradient in gradients]
        try:
            for p in trained:
                p.grad = given.get(id(p))
            call_step(self.optimizer)
        finally:
            for p, gradient in zip(trained, before, strict=True):
                p.grad = gradient
        for gradient, was, now in zip(gradients, held, [_holders(gradient) for gradient in gradients], strict=True):
            if now[0] > was[0] or now[1] > was[1]:
                storage = gradient.untyped_storage()
                storage.resize_(storage.nbytes() + 1)  # in memory of its own, which is not the arena's
