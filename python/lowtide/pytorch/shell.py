"""loss_fn over the model, as a module that dynamo can read, and when the buffers are written that it assigns anew.

A buffer that is assigned anew (`self.mean = 0.9 * self.mean + ...`) is written where it lies (exchange.py), behind the backward pass, which may read what
it was before (`self.mean, old = new, self.mean` and a product with `old`, or a checkpoint that closes over `old`). Where that tensor is kept or given
back, it is a copy. Dynamo writes buffers before: it follows no more than loss_fn. Tests: tests/python/test_torch_exchanged_buffers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import exchange


class Shell(torch.nn.Module):
    """loss_fn over the model, as a module that dynamo can read."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable) -> None:
        super().__init__()
        self.model = model
        self._loss_fn = loss_fn
        self.places: list[exchange.Place] | None = None

    def forward(self, batch: Any) -> Any:
        places = exchange.places_of(self.model)
        answer = self._loss_fn(self.model, batch)
        if torch.compiler.is_dynamo_compiling():
            exchange.write_buffers(places)
        else:
            self.places = places
        return answer

    def write_buffers(self) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        """Behind the backward pass, which may read what the buffers were. Gives, by storage, each that was written, and a copy of what it was."""
        places, self.places = self.places or [], None  # they hold tensors of the trace
        with torch.no_grad():
            return exchange.write_buffers(places)
