"""Hooks: which of them a planned step runs.

A hook on a parameter that gives a changed gradient (a mask, a scale) is traced like any code: the step's own leaf gets it. So is one that gives
nothing back and keeps something instead: a list of norms, an average in a buffer, a check that raises. One that gives nothing and leaves nothing that a
step could do again is there for what it does beside (it prints), which would be done once, on tensors without contents, while the step is captured; so
it is refused, as are hooks on what a planned step does not have: accumulated gradients (`p.grad`) and the optimizer's step(). The native engine makes
gradients of its own and refuses all of them. Tests: tests/python/test_torch_hooks.py.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from ..errors import Unsupported
from . import this_thread

OF_ALL_MODULES = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks")


def _line(hook: Any) -> str:
    """Where a hook stands."""
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""


def _of(holder: Any, kind: str) -> list[Callable]:
    return list((getattr(holder, kind, None) or {}).values())


def of_optimizer(optimizer: torch.optim.Optimizer) -> list[tuple[str, Callable]]:
    """The hooks around its step(), and those around that of all optimizers, with "pre" or "post"."""
    return [(when, hook) for when in ("pre", "post") for hook in
            (*_of(optimizer, f"_optimizer_step_{when}_hooks"), *_of(sys.modules["torch.optim.optimizer"], f"_global_optimizer_{when}_hooks"))]


def signature(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple:
    """Which hooks on gradients and on the optimizer there are: a plan holds for them. Empty where there are none."""
    return (*(tuple(p._backward_hooks) for p in model.parameters() if p._backward_hooks), *map(repr, of_optimizer(optimizer)))


def check(parameters: dict[str, torch.nn.Parameter], trained: list[str]) -> None:
    """Raises Unsupported for a hook on an accumulated gradient."""
    for name in trained:
        for hook in _of(parameters[name], "_post_accumulate_grad_hooks"):
            raise Unsupported(f"{_line(hook)}'{name}' has a hook on its accumulated gradient, and a planned step accumulates "
                              "none; register_hook, with a hook that returns the gradient, is planned")


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Raises Unsupported for a hook around step()."""
    for when, hook in of_optimizer(optimizer):
        raise Unsupported(f"{_line(hook)}the optimizer has a step_{when}_hook, and a planned step does not call its step(); "
                          f"call the hook {'before' if when == 'pre' else 'after'} step(batch)")


class Effects:
    """What the traced code has done so far, beside computing. `changes`: entries of rooms that are no more what they were, as untouched.Note says them;
    None where others stand in for what changes, and hooks were looked at before."""

    def __init__(self, changes: Callable[[], list[tuple]] | None) -> None:
        self.changes, self.left = changes, None

    def now(self) -> tuple[int, list[tuple]]:
        """How many ops write or check something, and what lies where something else lay."""
        mode = get_proxy_mode()
        nodes = mode.tracer.graph.nodes if mode is not None else ()
        return sum(map(_acts, nodes)), self.changes()

    def begin(self) -> None:
        self.left = self.now() if self.left is None and self.changes is not None else self.left

    def grew(self) -> bool:
        """Whether there are others than before."""
        if self.changes is None:
            return True
        (ops, entries), self.left = self.left, self.now()
        return ops != self.left[0] or len(entries) != len(self.left[1]) or not all(
            a[:2] == b[:2] and a[3] is b[3] for a, b in zip(entries, self.left[1], strict=True))


def _acts(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and (target._schema.is_mutable or target is torch.ops.lowtide.demand.default)


def put(name: str, parameter: torch.nn.Parameter, leaf: torch.Tensor, effects: Effects) -> None:
    """The hooks of a parameter, on the leaf that stands for it."""
    for hook in _of(parameter, "_backward_hooks"):
        leaf.register_hook(_changing(name, hook, effects))


def _changing(name: str, hook: Callable, effects: Effects) -> Callable:
    """The hook. Raises Unsupported where it changes nothing."""
    def called(gradient: torch.Tensor) -> torch.Tensor | None:
        effects.begin()
        before = gradient._version
        found = hook(gradient)
        if not effects.grew() and found is None and gradient._version == before:
            raise Unsupported(f"{_line(hook)}the hook of '{name}' gives nothing back and keeps nothing: what it does beside (it prints) would be done "
                              "once, while the step is captured; a hook that returns the gradient, or puts .item() of it or a copy into a list, is planned")
        return found

    return called


@contextlib.contextmanager
def refused(module: torch.nn.Module) -> Iterator[None]:
    """For gradients that are not autograd's. Raises Unsupported for hooks of the module; within, for those of tensors."""
    for folder in OF_ALL_MODULES:
        for hook in getattr(torch.nn.modules.module, folder).values():
            raise Unsupported(f"{_line(hook)}a hook of all modules (torch.nn.modules.module.{folder}), which torch.export does not write down; "
                              "engine='torch' runs it")
    for name, part in [*module.named_parameters(), *module.named_modules()]:
        for hook in (*_of(part, "_backward_hooks"), *_of(part, "_backward_pre_hooks")):
            raise Unsupported(f"{_line(hook)}'{name}' has a hook on gradients, which the native engine makes by itself; "
                              "engine='torch' runs it")

    def register_hook(*_: Any) -> Any:
        raise NotImplementedError("a hook on a gradient; the native engine makes gradients by itself, engine='torch' runs it")

    with this_thread.exchanged((torch.Tensor, "register_hook", register_hook)):
        yield


@contextlib.contextmanager
def gradients_refused() -> Iterator[None]:
    """Within, a gradient that loss_fn asks for itself raises: torch.export writes down no backward pass."""

    def asked(*_: Any, **__: Any) -> None:
        raise NotImplementedError("loss_fn takes a gradient itself (a penalty on gradients, for one), which torch.export does not write down")

    with this_thread.exchanged((torch.autograd, "grad", asked), (torch.autograd, "backward", asked), (torch.Tensor, "backward", asked)):
        yield
