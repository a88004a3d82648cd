"""torch.linalg.lstsq in a captured step.

PyTorch says of this op that the sizes of its results depend on contents, as those of the residuals do for two of LAPACK's four drivers. With the
others, "gelsy" (the default on a CPU) and "gels", all sizes follow from those of the operands. For them an op of ours stands in the graph, which
calls PyTorch's when it runs. What its results look like is seen on random numbers, once for each form of operands: full rank, as "gels" needs.
PyTorch gives "gelsy" the order of columns to begin with in memory that nobody wrote, so its last bits are not the same twice in eager mode either.
The gradient is PyTorch's formula, in ops of its own. Tests: tests/python/test_torch_least_squares.py.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
_FIXED = (None, "gelsy", "gels")
_Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]

torch.library.define("lowtide::lstsq", "(Tensor self, Tensor b, float? rcond, str? driver) -> (Tensor, Tensor, Tensor, Tensor)")


@torch.library.impl("lowtide::lstsq", "CPU")
def _(self: torch.Tensor, b: torch.Tensor, rcond: float | None, driver: str | None) -> Any:
    return tuple(aten.linalg_lstsq(self, b, rcond, driver=driver))


@torch.library.register_fake("lowtide::lstsq")
def _(self: torch.Tensor, b: torch.Tensor, rcond: float | None, driver: str | None) -> Any:
    found = _results(_form(self), _form(b), driver)
    return tuple(self.new_empty(elements, dtype=dtype).as_strided(shape, stride) for (shape, stride, dtype), elements in found)


def _form(tensor: torch.Tensor) -> _Form:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


@functools.lru_cache(maxsize=256)
def _results(a: _Form, b: _Form, driver: str | None) -> list[tuple[_Form, int]]:
    """The form of each result, and how many elements lie in its memory."""
    generator = torch.Generator().manual_seed(0)
    with _disable_current_modes(), torch.no_grad():
        made = [torch.empty_strided(shape, stride, dtype=dtype).normal_(generator=generator) for shape, stride, dtype in (a, b)]
        return [(_form(t), t.untyped_storage().nbytes() // t.element_size()) for t in aten.linalg_lstsq(*made, driver=driver)]


def is_loose(call: Any) -> bool:
    """Whether the last bits of a call (calls.py) depend on what lay in memory."""
    return call.target is torch.ops.lowtide.lstsq.default and call.args[3] != "gels"


def instead_of(func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
    """The op and its operands, or those that take their place."""
    if func is not aten.linalg_lstsq.default or args[0].device.type != "cpu":
        return func, args, kwargs
    given = dict(zip(("self", "b", "rcond"), args, strict=False)) | kwargs
    if given.get("driver") not in _FIXED:
        raise NotImplementedError(f"torch.linalg.lstsq by driver={given['driver']!r} gives residuals whose size depends on contents; by 'gelsy' or 'gels' "
                                  "it is planned")
    return torch.ops.lowtide.lstsq.default, (given["self"], given["b"], given.get("rcond"), given.get("driver")), {}
