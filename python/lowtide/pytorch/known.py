"""Values that are known while a step is traced, though its tensors are fake: those that depend on nothing but shapes.

Models decide by the contents of tensors that they have just made: is this mask causal, are these positions in a row.
On fake tensors there are no contents, so tracing stops, or a library that sees that it is traced takes another path
than in eager mode, with other kernels and other bits. Here each small tensor that a step makes out of constants alone
is computed for real beside the fake one, and `.item()` and `if` ask that. Nothing that depends on the batch, on
parameters or on random numbers is ever known, so what is decided holds for every batch of these shapes.

Arguments of torch.distributions are checked by a decision on their contents that does nothing but raise: it becomes an
assertion, which every step checks.

transformers asks `is_tracing(tensor)` before it looks into one; while a step is traced it is told the truth of known
tensors: they can be looked into.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import ctc, least_squares, recorded, this_thread
from .alike_ops import AlikeOps
from .decisions import remembered
from .foretold_sizes import Sizes
from .schemas import schema_writes, tensors_among
from .ways_round import refuse_packed

aten = torch.ops.aten
_COMPARING = (aten.equal.default, aten.allclose.default)
LARGEST = 1 << 20  # elements
NAME = "_lowtide_known"


def known(tensor: Any) -> torch.Tensor | None:
    return getattr(tensor, NAME, None) if isinstance(tensor, torch.Tensor) else None


def _is_small(tensor: torch.Tensor) -> bool:
    return not any(isinstance(n, torch.SymInt) for n in tensor.shape) and tensor.numel() <= LARGEST


class KnownValues(TorchDispatchMode):
    """Computes beside the trace what depends on shapes alone."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self, after: Callable[[], None], sizes: Sizes) -> None:
        """`after` is called behind each op."""
        super().__init__()
        self.after, self.sizes, self.alike = after, sizes, AlikeOps()
        self.unsure = False  # a library looks into contents that are not known, and takes another path than in eager mode
        self.spoiled: set[int] = set()  # storages of real values that something unknown was written to

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        real = known(tensor)
        if real is None or real.untyped_storage()._cdata in self.spoiled:
            return None
        return real

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.dispatch(func, types, args, kwargs)

    def dispatch(self, func: Any, types: Any, args: tuple, kwargs: dict[str, Any] | None) -> Any:
        device = recorded.device_asked(func, types, args)
        if device is not recorded.DECLINED:
            return device
        kwargs = _from_default_stream(kwargs or {})
        if isinstance(func, torch._ops.HigherOrderOperator):
            raise NotImplementedError(
                f"torch.{func.name()} is not planned; torch.where of both results is")
        if func is torch.ops.aten._local_scalar_dense.default:
            real = self.value(args[0])
            if real is not None:
                with _disable_current_modes():
                    return real.item()
            number = self.sizes.number(args[0]) if self.sizes.numbers else None
            if number is not None:
                return number
        if func in _COMPARING and isinstance(args[0], FakeTensor):
            return self.compare(func, args, kwargs)
        refuse_packed(func)
        func, args, kwargs = least_squares.instead_of(*ctc.instead_of(func, args, kwargs))
        if self.sizes.concern(func, args):
            with self:
                func, args, kwargs = self.sizes.instead_of(func, args, kwargs)
        out = recorded.record(func, args, kwargs, self.alike)
        if out is recorded.DECLINED:
            out = func(*args, **kwargs)
        self.after()
        self.follow(func, args, kwargs, out)
        return out

    def compare(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
        """torch.equal and torch.allclose, whose answer is Python's: as ops, whose result is then asked as any tensor is."""
        if func is aten.equal.default and args[0].shape != args[1].shape:
            return False
        with self:
            return bool((torch.eq if func is aten.equal.default else torch.isclose)(*args, **kwargs).all())

    def follow(self, func: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> None:
        tensors = tensors_among((*args, *kwargs.values()))
        if tensors and not any(NAME in vars(t) for t in tensors):
            return  # as of most ops: there is neither a value to compute nor one that is spoiled
        made = tensors_among((out,))
        small = all(_is_small(t) for t in made)
        plain = torch.Tag.nondeterministic_seeded not in func.tags and small
        if plain and made and all(self.value(t) is not None for t in tensors):
            real = lambda t: self.value(t) if isinstance(t, torch.Tensor) else t  # noqa: E731
            with _disable_current_modes():
                swapped, named = pytree.tree_map(real, (args, kwargs))
                try:
                    result = func(*swapped, **named)
                except (RuntimeError, NotImplementedError):
                    return
            for fake, value in zip(made, pytree.tree_leaves(result), strict=False):
                setattr(fake, NAME, value)
            return
        for written in schema_writes(func, args, kwargs):
            spoiled = known(written)
            if spoiled is not None:
                self.spoiled.add(spoiled.untyped_storage()._cdata)


def _from_default_stream(kwargs: dict[str, Any]) -> dict[str, Any]:
    """None in the place of the default generator, which is drawn from anyway. Raises NotImplementedError for another one."""
    generator = kwargs.get("generator")
    if generator is None:
        return kwargs
    if generator._cdata != torch.default_generator._cdata:
        raise NotImplementedError("numbers are drawn from a torch.Generator of its own, which a planned step does not advance; without generator=.. "
                                  "they are drawn from PyTorch's stream in each step (torch.manual_seed), or draw outside of loss_fn and give "
                                  "them in the batch")
    return {**kwargs, "generator": None}


def _asserted(_: Callable, valid: torch.Tensor) -> bool:
    problem = ValueError("an argument of a distribution, or a sample, is not within its constraint")
    torch.ops.lowtide.demand(valid.detach().all(), remembered(problem))
    return True


@contextlib.contextmanager
def distributions_assert() -> Iterator[None]:
    """Within, torch.distributions asserts what it decides on else."""
    with this_thread.exchanged((torch, "_is_all_true", _asserted)):
        yield


@contextlib.contextmanager
def told_to_transformers(values: KnownValues) -> Iterator[None]:
    """transformers looks into tensors whose values are known."""
    module = sys.modules.get("transformers.masking_utils")

    def is_tracing(before: Callable, tensor: Any = None) -> bool:
        if tensor is not None and values.value(tensor) is not None:
            return False
        values.unsure |= isinstance(tensor, torch.Tensor)
        return before(tensor)

    with this_thread.exchanged(*([(module, "is_tracing", is_tracing)] if hasattr(module, "is_tracing") else [])):
        yield
