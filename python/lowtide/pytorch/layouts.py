"""Where results lie as kernels really make them, for tracing.

Fake kernels say of some ops other strides or types than the kernels give: the gradient of a loss of a channels-last and a
contiguous tensor, the statistics of a norm of bf16. A step that is traced by them is not eager mode's: `contiguous()`,
`reshape` and autograd decide by strides which ops there are, and a view that is right for one layout is wrong for the other.
So the kinds of a step are measured in the order of the graph, each on operands as the kernels before it made them, and what
was made otherwise than traced becomes a row here: op, operands and numbers -> type, shape, strides. The step is traced
again with these rows in force, until nothing differs; a second round is rare, a third rarer. Rows hold for a machine and a
version of PyTorch and are kept (cache.py), so the next capture begins with them.

    Rows.mode()      the fake tensors of a trace, whose kernels answer as the rows say
    Rows.note()      a measured unit against what was traced; True where nobody knew that
    Rows.made_by()   what an op would make, if that is known: whether a functional form lies as the write in place leaves it

A convolution's gradient may be measured in two calls (calls.py): `Call.said` is the call that was traced, and of `convolution_backward`
each output has a row whatever else is asked for. Where another op makes it (convolutions.py), what that makes is no row.
Tests: tests/python/test_torch_layouts.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .. import cache
from .calls import Call, Program, Ref
from .devices import Cpu, Cuda

MOST = 4096  # rows that are kept
ROUNDS = 6  # of tracing again; what differs then is taken as the kernels make it
aten = torch.ops.aten
# How many of their arguments say how results lie. One number may stand for all dimensions.
_CONVOLUTIONS = {aten.convolution.default: 9, aten.convolution_backward.default: 10}


class Made(NamedTuple):
    """A result as its kernel made it."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def _said(value: Any, tensor: Callable[[Any], Any]) -> str:
    """An argument as text: of tensors what their kernels may look at."""
    if isinstance(value, (Ref, torch.Tensor)):
        found = tensor(value)
        return f"{found.dtype}{list(found.shape)}{list(found.stride() if callable(found.stride) else found.stride)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_said(v, tensor) for v in value)}]"
    if isinstance(value, (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout)):
        return repr(value)
    return "number"  # that the step computes


def _key(target: Any, args: tuple, kwargs: dict[str, Any], index: int, tensor: Callable[[Any], Any]) -> str:
    """How one result of an op lies."""
    if target in _CONVOLUTIONS:
        args = tuple(v[:1] if isinstance(v, (list, tuple)) and len(set(v)) == 1 else v for v in args[:_CONVOLUTIONS[target]])
    more = "".join(f", {name}={_said(value, tensor)}" for name, value in sorted(kwargs.items()))
    return f"{', '.join(_said(value, tensor) for value in args)}{more} -> {index}"


class Rows:
    """What kernels were seen to make where fake kernels say otherwise, by the op's name and what it was called with."""

    def __init__(self, rows: list | None = None) -> None:
        self.known: dict[str, dict[str, Made]] = {}
        self.new: list[list] = []  # noted since the step was traced
        self.left, self.grown = ROUNDS, False
        self.take(rows or [])

    def take(self, rows: list) -> None:
        for name, key, dtype, shape, stride in rows:
            self.known.setdefault(name, {})[key] = Made(dtype, tuple(shape), tuple(stride))

    @property
    def differ(self) -> bool:
        """Whether the step is to be traced again."""
        return bool(self.new) and self.left > 0

    def traced_again(self) -> None:
        self.new, self.left, self.grown = [], self.left - 1, True

    def told(self) -> list[list]:
        """Plain lists of all rows."""
        return [[name, key, made.dtype, list(made.shape), list(made.stride)]
                for name, rows in self.known.items() for key, made in rows.items()]

    def made_by(self, program: Program, target: Any, args: tuple, kwargs: dict[str, Any], index: int = 0) -> Made | None:
        rows = self.known.get(target.name()) if isinstance(target, torch._ops.OpOverload) else None
        return rows.get(_key(target, args, kwargs, index, lambda ref: program.tensors[ref.id])) if rows else None

    def note(self, program: Program, call: Call, index: int, made: Made) -> None:
        """A result of a call, made on operands as they lie now, that lies otherwise than traced."""
        if call.said is not None and call.said.target is not call.target:
            return  # another op, chosen for operands as they were traced: they lie otherwise, and it is chosen again when they do not
        call = call.said or call
        if not isinstance(call.target, torch._ops.OpOverload):
            return
        key = _key(call.target, call.args, call.kwargs, index, lambda ref: program.tensors[ref.id])
        rows = self.known.setdefault(call.target.name(), {})
        if key not in rows:
            rows[key] = made
            self.new.append([call.target.name(), key, *made])

    def mode(self) -> FakeTensorMode:
        """The fake mode of make_fx, which takes the one that is active."""
        with torch._functorch.config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
            return _Truly(self)


_VIEWS = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}


class _Truly(FakeTensorMode):
    """Fake kernels whose results lie as the rows say."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(allow_fallback_kernels=True, allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
        self.rows, self.cache_enabled = rows, False  # alike_ops.py remembers for all modes above

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = super().dispatch(func, types, args, kwargs)
        if func in _VIEWS and isinstance(made, FakeTensor) and 1 in made.shape:
            return self.view(made, types, args)
        if not self.rows.known or func.name() not in self.rows.known:
            return made
        if isinstance(made, (tuple, list)):
            truly = [self.truly(func, args, kwargs, index, one) for index, one in enumerate(made)]
            return truly if isinstance(made, list) else tuple(truly)
        return self.truly(func, args, kwargs, 0, made)

    def view(self, made: FakeTensor, types: Any, args: Any) -> Any:
        """PyTorch's fake view of the same shape keeps the strides of dimensions of one, which the real one computes anew; kernels of matrix
        products go by them."""
        x = args[0]
        if not isinstance(x, FakeTensor) or any(isinstance(n, torch.SymInt) for n in (*x.shape, *x.stride(), *made.shape)):
            return made
        with in_kernel_invocation_manager(self):
            stride = torch.empty_strided(x.shape, x.stride(), device="meta").view(made.shape).stride()
        if stride == made.stride():
            return made
        return super().dispatch(torch.ops.aten.as_strided.default, types, (x, list(made.shape), list(stride), x.storage_offset()), {})

    def truly(self, func: Any, args: Any, kwargs: Any, index: int, made: Any) -> Any:
        if not isinstance(made, FakeTensor):
            return made
        found = self.rows.known[func.name()].get(_key(func, args, kwargs, index, lambda tensor: tensor))
        if found is None or tuple(made.shape) != found.shape:
            return made
        with in_kernel_invocation_manager(self):
            elements = torch.empty_strided(found.shape, found.stride, dtype=getattr(torch, found.dtype), device="meta")
        return FakeTensor(self, elements, made.fake_device)


class Otherwise(Exception):
    """Kernels made what was traced otherwise: the step is to be traced again."""


def view_again(program: Program, storage: int) -> None:
    """The views of a storage whose base lies otherwise than traced, as they lie then; one that is no view of it is left."""
    for tensor in program.tensors:
        if tensor.storage != storage or tensor.recipe is None or not isinstance(tensor.recipe.target, torch._ops.OpOverload):
            continue
        try:
            made = _on_meta(program, tensor.recipe)
        except (RuntimeError, TypeError, NotImplementedError):
            continue
        made = made[tensor.index] if isinstance(made, (tuple, list)) else made
        if isinstance(made, torch.Tensor):
            tensor.dtype, tensor.shape, tensor.stride = made.dtype, tuple(made.shape), tuple(made.stride())


def _on_meta(program: Program, call: Call) -> Any:
    """What the call makes of tensors without memory."""
    def empty(leaf: Any) -> Any:
        if not isinstance(leaf, Ref):
            return leaf
        like = program.tensors[leaf.id]
        return torch.empty_strided(like.shape, like.stride, dtype=like.dtype, device="meta")

    args, kwargs = torch.utils._pytree.tree_map(empty, (call.args, call.kwargs), is_leaf=lambda leaf: isinstance(leaf, Ref))
    return call.target(*args, **kwargs)


def _kept_as(device: Cpu | Cuda) -> str:
    return cache.key("layouts", device.machine())


def load(device: Cpu | Cuda, keep: bool) -> Rows:
    return Rows(cache.load_rows(_kept_as(device)) if keep else None)


def store(rows: Rows, device: Cpu | Cuda) -> None:
    """Beside those that another process has kept meanwhile."""
    together = Rows(cache.load_rows(_kept_as(device)))
    together.take(rows.told())
    cache.store_rows(_kept_as(device), together.told()[:MOST])
