"""Tensors that were there before the step and are no part of model or batch: teachers, queues, running scales, tables.

While a step is traced the user's code works on them as on any other. An op on real tensors alone would run at once, in place too, and
its result would be a number of the graph. So the outermost mode of the trace exchanges every real tensor for a fake one before an op
sees it, one for each geometry, in a fake storage that stands for the real one; it is a node of the graph (`get_attr`). Ops on it are
ops of the graph then, writes in place too, and nothing is computed of its contents.

What is written must be found again in every step, so it must be reachable from the model, loss_fn or the optimizer (reachable.py); a
write on any other tensor is refused with its line. So is a change of an external's own geometry (`resize_`, `t_`).
A number that the code reads off an external which the step has not written (`.item()`) is read at once, and the plan holds for it; so are all
of them that `.tolist()`, `.numpy()` and numpy's functions read.
Tests: tests/python/test_torch_externals.py.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, track_tensor_tree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import recorded, this_thread
from .reachable import Place, Reachable
from .schemas import schema_writes, tensors_among, without_defaults

if TYPE_CHECKING:
    from .known import KnownValues

aten = torch.ops.aten
_LIFTS = (aten.lift_fresh.default, aten.lift_fresh_copy.default, aten.lift.default)
_GEOMETRY = (aten.set_.source_Tensor, aten.set_.source_Storage_storage_offset, aten.set_.default, aten.resize_.default)


class Shown(NotImplementedError):
    """The memory of a tensor of the step is shown to another library: no way of tracing sees what that does with it."""


Geometry = tuple


def geometry_of(tensor: torch.Tensor) -> Geometry:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device


def address_of(tensor: torch.Tensor) -> int:
    """Of its first element; 0 of one that has none."""
    try:
        return tensor.data_ptr()
    except RuntimeError:  # sparse, say
        return 0


@dataclass
class External:
    """`place`: where it is found; None where it cannot be."""

    tensor: torch.Tensor  # an alias of the real one, with a version of its own, as it was made while modes were on
    fake: torch.Tensor
    target: str  # of its node
    held: torch.Tensor  # what lies at its place
    place: Place | None = None
    requires_grad: bool = False
    written: bool = False
    number: Any = None  # that the code has read off it; a copy of all contents where it has read these
    seen: torch.Tensor | None = None  # what lay there in the last step, and what the step was given of it
    alias: torch.Tensor | None = None
    address: int = 0  # where `seen` had its memory then: `tensor.data = ...` puts other memory under the same tensor

    @property
    def name(self) -> str:
        return self.place.name if self.place is not None else self.target

    def now(self) -> torch.Tensor:
        """The tensor as the step finds it: that which lies there now, or the same part of it; an alias whose version is its own."""
        found = self.place.now() if self.place is not None else self.held
        address = address_of(found)
        if found is not self.seen or address != self.address:
            self.seen, self.address, self.alias = found, address, self._part_of(found)
        return self.alias

    def _part_of(self, found: torch.Tensor) -> torch.Tensor:
        if geometry_of(self.tensor) == geometry_of(self.held):
            return found.detach()
        offset = self.tensor.storage_offset() - self.held.storage_offset() + found.storage_offset()
        return found.detach().as_strided(self.tensor.shape, self.tensor.stride(), offset)


@functools.cache
def _is_foreach(func: Any) -> bool:
    return isinstance(func, torch._ops.OpOverload) and func._schema.name.startswith("aten::_foreach_") and func._schema.name.endswith("_")


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and (
        type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or isinstance(value, torch.nn.Parameter))


_OURS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def as_node(real: torch.Tensor, target: str, fake_mode: FakeTensorMode) -> torch.Tensor:
    """The fake tensor that stands for a real one in the graph, a node of this name."""
    with _disable_current_modes():
        fake = fake_mode.from_tensor(real)
    mode = get_proxy_mode()
    setattr(mode.tracer.root, target, real)
    track_tensor_tree(fake, mode.tracer.create_proxy("get_attr", target, (), {}), constant=None, tracer=mode.tracer)
    return fake


def _is_internal(path: str) -> bool:
    return path.startswith(_OURS)


def memory_hidden() -> contextlib.AbstractContextManager[None]:
    """Within, no other library is shown the memory of a tensor: what it reads there would be no part of the step."""
    def refused(before: Callable, tensor: Any, *args: Any, **named: Any) -> Any:
        if _is_internal(sys._getframe(2).f_code.co_filename):
            return before(tensor, *args, **named)
        raise NotImplementedError("a tensor's memory is handed to another library by DLPack, which reads it past PyTorch; what .numpy() or .tolist() read "
                                  "of a tensor beside model and batch is part of what a plan holds for")

    return this_thread.exchanged((torch.Tensor, "__dlpack__", refused))


class Externals(TorchDispatchMode):
    """Exchanges real tensors for fake ones that are nodes of the graph."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self, reachable: Reachable, fake_mode: FakeTensorMode, values: KnownValues) -> None:
        """`values`: the mode around which this one is put on."""
        super().__init__()
        self.fake_mode, self.values = fake_mode, values
        self.of: dict[Any, External] = {}
        self.found: list[External] = []
        self.by_storage: dict[int, list[tuple[torch.Tensor, Place]]] = {}
        for tensor, place in reachable.tensors.values():
            if place is not None and tensor.layout is torch.strided:
                self.by_storage.setdefault(tensor.untyped_storage()._cdata, []).append((tensor, reachable.rooted(place)))

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        device = recorded.device_asked(func, types, args)
        if device is not recorded.DECLINED:
            return device
        kwargs = kwargs or {}
        if _is_foreach(func) and args[0] and args[0][0].device.type == "cpu":
            return self.one_by_one(func, args, kwargs)
        if not any(map(_is_real, tensors_among((*args, *kwargs.values())))) or func in _LIFTS:
            return self.go_on(func, types, args, kwargs)
        leaves, tree = pytree.tree_flatten((args, kwargs))
        if func is aten._local_scalar_dense.default:
            external = self.external(args[0])
            if not self.is_written(external.tensor):
                with _disable_current_modes():
                    external.number = external.tensor.item()
                return external.number
        args, kwargs = pytree.tree_unflatten([self.external(leaf).fake if _is_real(leaf) else leaf for leaf in leaves], tree)
        self.note_writes(func, args, kwargs)
        return func(*args, **kwargs)

    def go_on(self, func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The op by the mode below, called as PyTorch's dispatcher would call it: that takes as long as all else which both do."""
        below = torch._C._pop_torch_dispatch_stack(None)
        try:
            if below is self.values:
                if (args and args[-1] is None) or (kwargs and any(value is None for value in kwargs.values())):
                    args, kwargs = without_defaults(func, args, kwargs)
                return below.dispatch(func, types, args, kwargs)
        finally:
            torch._C._push_on_torch_dispatch_stack(below)
        return func(*args, **kwargs)

    @contextlib.contextmanager
    def contents_read(self, known: Callable[[torch.Tensor], Any]) -> Iterator[None]:
        """Within, what the user's code reads as a whole off a tensor of before the step is noted. `known`: what a tensor of the step is known to
        hold, or None."""
        def as_list(before: Callable, tensor: Any) -> Any:
            read = self.contents(tensor, sys._getframe(2))
            with _disable_current_modes() if read is not tensor else contextlib.nullcontext():
                return before(read)

        def as_array(before: Callable, tensor: Any, *args: Any, **named: Any) -> Any:
            if isinstance(tensor, FakeTensor) and known(tensor) is None and not _is_internal(sys._getframe(2).f_code.co_filename):
                raise Shown("a tensor of the step is shown to numpy, which computes with it past PyTorch; torch's ops in its place are planned, .item() and "
                            ".tolist() give numbers of each step, and in `return loss, aux` the tensor (.detach()) becomes an array behind step(batch)")
            read = self.contents(tensor, sys._getframe(2))
            if read is tensor:
                return before(tensor, *args, **named)
            with _disable_current_modes():
                found = before(read.clone(), *args, **named)
            found.flags.writeable = False  # eager mode's array would write the tensor
            return found

        with memory_hidden(), this_thread.exchanged((torch.Tensor, "tolist", as_list), (torch.Tensor, "numpy", as_array),
                                                    (torch.Tensor, "__array__", as_array)):
            yield

    def contents(self, tensor: Any, frame: Any) -> Any:
        """A copy of its contents, for which the plan holds. A tensor of the step, and what PyTorch itself reads, is given back. Raises
        NotImplementedError where the step has written it."""
        if not _is_real(tensor) or get_proxy_mode() is None or _is_internal(frame.f_code.co_filename) or tensor.layout is not torch.strided:
            return tensor
        external = self.external(tensor)
        if self.is_written(external.tensor):
            raise NotImplementedError(f"the contents of '{external.name}' are read behind a write of the step: a decision on the contents of a tensor")
        if not isinstance(external.number, torch.Tensor):
            with _disable_current_modes():
                external.number = tensor.detach().clone(memory_format=torch.contiguous_format)
        return external.number

    def one_by_one(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """A write on many tensors as a write on each, as the CPU does it: what is written together would be planned together."""
        method = func._schema.name.split("::_foreach_")[1]
        given = {**dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)), **kwargs}
        if method.startswith("addc") and "scalars" in given:
            given["value"] = given.pop("scalars")
        for k in range(len(args[0])):
            each = {name: value[k] if isinstance(value, (list, tuple)) else value for name, value in given.items()}
            named = {name: each.pop(name) for name in ("value", "alpha", "non_blocking") if name in each}
            with self:
                getattr(torch.Tensor, method)(*each.values(), **named)

    def note_writes(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        if isinstance(func, torch._ops.HigherOrderOperator):
            return
        written = schema_writes(func, args, kwargs)
        if not written:
            return
        for external in (e for e in self.found if any(e.fake is w for w in written)):
            if func in _GEOMETRY or torch.Tag.inplace_view in func.tags:
                raise NotImplementedError(f"{func} changes the shape of '{external.name}', which lives longer than the step")
            if external.place is None:
                raise NotImplementedError("a tensor is written in place that is neither a parameter nor a buffer nor of the batch, and that "
                                          "cannot be found again from the model or loss_fn; as an attribute or a buffer it can")
            external.written = True

    def is_written(self, tensor: torch.Tensor) -> bool:
        storage = tensor.untyped_storage()._cdata
        return any(e.written for e in self.found if e.tensor.untyped_storage()._cdata == storage)

    def external(self, real: torch.Tensor) -> External:
        if real.layout is not torch.strided or real.is_quantized:
            raise NotImplementedError(f"a tensor of layout {real.layout} that was there before the step; a dense one is planned")
        storage = real.untyped_storage()._cdata
        geometry = (storage, real.dtype, tuple(real.shape), real.stride(), real.storage_offset())
        if geometry not in self.of:
            self.of[geometry] = self.made(real, storage)
            self.found.append(self.of[geometry])
        return self.of[geometry]

    def made(self, real: torch.Tensor, storage: int) -> External:
        with _disable_current_modes():
            alias = real.detach()
        target = f"_external{len(self.found)}"
        fake = as_node(alias, target, self.fake_mode)
        there = self.by_storage.get(storage, [])
        same = [found for found in there if geometry_of(found[0]) == geometry_of(real)]
        held, place = next(iter([*same, *there]), (real, None))
        return External(alias, fake, target, held, place, real.requires_grad)
