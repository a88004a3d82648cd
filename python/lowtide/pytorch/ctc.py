"""The CTC loss with lengths that come with the batch.

Its kernel gives as many columns of log-probabilities as the longest target of the batch needs, so
their shape depends on contents, which no plan can hold for. While a step is traced the kernel is
exchanged for an op with as many columns as the targets have room for; the kernel for the gradient
gets those that it would have got. Lengths that are Python's numbers are part of the plan, and need
no room.

What the kernel takes within the op depends on contents all the same, and may lie beside the arena.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import this_thread

aten = torch.ops.aten
_LENGTHS = "{kind} input_lengths, {kind} target_lengths"
_FORWARD = f"Tensor log_probs, Tensor targets, {_LENGTHS}, int blank, bool zero_infinity"
_BACKWARD = (f"Tensor gradient, Tensor log_probs, Tensor targets, {_LENGTHS}, Tensor loss, "
             "Tensor alpha, int blank, bool zero_infinity")


def _columns(longest: int) -> int:
    """A target's symbols, and the blanks around them."""
    return 2 * longest + 1


def _longest(lengths: Any) -> int:
    return max(lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths, default=0)


def _room(targets: torch.Tensor, lengths: Any) -> int:
    return targets.shape[1] if isinstance(lengths, torch.Tensor) else _longest(lengths)


def _empty(log_probs: torch.Tensor, targets: torch.Tensor, lengths: Any) -> torch.Tensor:
    columns = _columns(_room(targets, lengths))
    return log_probs.new_empty(log_probs.shape[1], log_probs.shape[0], columns)


def _forward(log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int,
             zero: bool) -> Any:
    room = _empty(log_probs, targets, lengths)
    loss, alpha = aten._ctc_loss(log_probs, targets, inputs, lengths, blank, zero)
    room[:, :, :alpha.shape[2]] = alpha
    return loss, room


def _fake_forward(log_probs: Any, targets: Any, inputs: Any, lengths: Any, *_: Any) -> Any:
    return log_probs.new_empty(log_probs.shape[1]), _empty(log_probs, targets, lengths)


def _backward(gradient: Any, log_probs: Any, targets: Any, inputs: Any, lengths: Any, loss: Any,
              room: Any, blank: int, zero: bool) -> torch.Tensor:
    alpha = room[:, :, :_columns(_longest(lengths))].contiguous()
    return aten._ctc_loss_backward(gradient, log_probs, targets, inputs, lengths, loss, alpha,
                                   blank, zero)


def _fake_backward(gradient: Any, log_probs: Any, *_: Any) -> torch.Tensor:
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


_INSTEAD: dict[Any, Any] = {}
for _name, _schema, _run, _fake, _gives in (
        ("ctc_loss", _FORWARD, _forward, _fake_forward, "(Tensor, Tensor)"),
        ("ctc_loss_backward", _BACKWARD, _backward, _fake_backward, "Tensor")):
    for _overload, _kind in (("default", "int[]"), ("Tensor", "Tensor")):
        _full = f"lowtide::{_name}" + ("_of_tensors" if _overload == "Tensor" else "")
        torch.library.define(_full, f"({_schema.format(kind=_kind)}) -> {_gives}")
        torch.library.impl(_full, "CPU")(_run)
        torch.library.register_fake(_full)(_fake)
        _kernel = getattr(getattr(aten, "_" + _name), _overload)
        _INSTEAD[_kernel] = getattr(torch.ops.lowtide, _full.removeprefix("lowtide::")).default


MEAN = 1  # as torch.ctc_loss has reductions


def _with_mean(ctc_loss: Callable, log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int = 0,
               reduction: int = MEAN, zero_infinity: bool = False) -> torch.Tensor:
    """For the mean torch.ctc_loss makes a tensor of Python's lengths, which tracing cannot see."""
    if reduction != MEAN or isinstance(lengths, torch.Tensor):
        return ctc_loss(log_probs, targets, inputs, lengths, blank, reduction, zero_infinity)
    losses = ctc_loss(log_probs, targets, inputs, lengths, blank, 0, zero_infinity)
    return (losses / torch.tensor(lengths, dtype=losses.dtype).clamp_min(1)).mean()


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Within, torch.ctc_loss takes lengths that are Python's numbers."""
    with this_thread.exchanged((torch, "ctc_loss", _with_mean)):
        yield


def instead_of(func: Any, args: tuple,
               kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
    """The op and its operands, or those that take their place. Raises NotImplementedError."""
    if func not in _INSTEAD or args[0].device.type != "cpu":
        return func, args, kwargs
    names = [argument.name for argument in func._schema.arguments]
    given = {argument.name: argument.default_value for argument in func._schema.arguments}
    given.update(zip(names, args, strict=False), **kwargs)
    if isinstance(given["target_lengths"], torch.Tensor) and given["targets"].dim() == 1:
        raise NotImplementedError("ctc_loss of targets in one row, whose lengths are a tensor, is "
                                  "not planned; targets of shape (batch, longest) are")
    return _INSTEAD[func], tuple(given.values()), {}
