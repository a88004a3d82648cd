"""An op whose operands lie as those of an op before makes what that one made: fake kernels run once for each kind of op.

A network of many layers calls the same op on operands of the same geometry again and again. PyTorch's fake mode remembers such ops, too, but
reads its key off objects of many fields and dispatches several times, which is half of the time of a trace. Here an op is looked up by what its
fake kernel can look at, and what it makes is put together without a dispatch. PyTorch's memory of a trace's fake mode is off (layouts.py).

The key: the op; of each tensor its type, shape, strides, offset, device, whether it requires a gradient, and whether it is lazily conjugated or
negated; of other arguments their type and value; of an op that writes which operands share memory; the default type and device, and inference mode.
An entry says of each result that it is an operand, a view of the only tensor among the operands, or new. Entries hold for all traces of a
process, as PyTorch's do; those of ops whose results lie as a row says (layouts.py) for the trace that had these rows. Where no entry is there, but
a rule says how the results lie (plain_ops.py), no fake kernel runs at all.

Not remembered: ops that are not PyTorch's own, that look at sizes of storages or contents, write a constant or work on constants alone, or give
other than tensors; results with a constant or a symbolic size, that share memory with each other, with one of several operands, or are not as they would be put together here.
Tests: tests/python/test_torch_alike_ops.py draws programs and holds traces with and without this against each other.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_impls import fast_detach
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._library.utils import is_builtin

from . import plain_ops

_META = torch.device("meta")
_SET = torch._C.TensorBase.set_  # PyTorch's own: while a step is traced torch.Tensor has another one (new_data.py)
_FAKE = torch._C._TorchDispatchModeKey.FAKE
_ABOUT_STORAGES = ("as_strided", "set_", "resize", "lift", "nonzero")
MOST = 1 << 16  # entries that are kept
UNKNOWN = object()
_kept: dict[tuple, Any] = {}
_rests: dict[torch.device, dict[str, Any]] = {}  # attributes of a plain fake tensor but its mode, as fake kernels were seen to give them


class Unkeyed(Exception):
    """An argument that no key says all of."""


class _New(NamedTuple):
    """A result with memory of its own, or a view of the operand of this place."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    rest: dict[str, Any]  # attributes of a fake tensor but its mode
    of: int | None


def key_of_tensor(value: torch.Tensor) -> tuple:
    """What a fake kernel may look at of a tensor. Raises Unkeyed."""
    if type(value) is not FakeTensor or value.real_tensor is not None or value.layout is not torch.strided:
        raise Unkeyed
    return (value.dtype, value.shape, value.stride(), value.storage_offset(), value._fake_device, value.requires_grad, value.is_conj(),
            value.is_neg())


def _add(key: list, value: Any, tensors: list[FakeTensor]) -> None:  # recursion: as deep as the lists of an op's schema
    kind = type(value)
    if kind is FakeTensor:
        tensors.append(value)
        key.append(key_of_tensor(value))
    elif kind is list or kind is tuple or kind is torch.Size:
        key.append((kind, len(value)))
        for entry in value:
            _add(key, entry, tensors)
    elif isinstance(value, torch.Tensor):
        raise Unkeyed
    else:
        key.append(kind)
        key.append(value)


@functools.cache
def _can_be(func: Any) -> bool:
    name = func._schema.name
    return is_builtin(func) and not any(part in name for part in _ABOUT_STORAGES) and not name.endswith("_out") and func._overloadname != "out"


@functools.cache
def _writes(func: Any) -> bool:
    return func._schema.is_mutable


def _sharing(tensors: list[FakeTensor]) -> tuple[int, ...]:
    """For each tensor the first whose memory it shares."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(t.untyped_storage()._cdata, place) for place, t in enumerate(tensors))


class AlikeOps:
    """The ops of one trace."""

    def __init__(self) -> None:
        self.mode: FakeTensorMode | None = None
        self.rows: dict[str, Any] = {}  # of the mode: by an op's name how its results lie
        self.made: dict[tuple, list | tuple | _New | int | None] = {}  # of these ops. None: not to be remembered

    def call(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """What the op makes, to be called where only the fake mode is on; and the same once more as values of a graph, or UNKNOWN."""
        mode = torch._C._get_dispatch_mode(_FAKE)
        if not _can_be(func) or torch._C._len_torch_dispatch_stack() != 1 or mode is None:
            return func(*args, **kwargs), UNKNOWN
        if self.mode is not mode:
            self.mode, self.made, self.rows = mode, {}, getattr(getattr(mode, "rows", None), "known", {})
        made = self.made if func.name() in self.rows else _kept
        with torch._C.DisableTorchFunction():
            key, tensors = self._key(func, args, kwargs)
            entry = made.get(key, UNKNOWN) if key is not None else None
            if entry is UNKNOWN and made is _kept:
                entry = self._told(func, args, kwargs, tensors)
                self._remember(made, key, entry)
            if entry is not UNKNOWN and entry is not None:
                with torch._C._DisableTorchDispatch():
                    return self._again(entry, tensors)
        out = func(*args, **kwargs)
        if key is not None and entry is UNKNOWN:
            with torch._C.DisableTorchFunction():
                self._remember(made, key, self._entry(out, tensors))
        return out, UNKNOWN

    @staticmethod
    def _remember(made: dict[tuple, Any], key: tuple, entry: Any) -> None:
        if entry is UNKNOWN:
            return
        if len(made) >= MOST:
            made.clear()
        made[key] = entry

    def _key(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple | None, list[FakeTensor]]:
        tensors: list[FakeTensor] = []
        key = [id(func), type(self.mode), torch.get_default_dtype(), torch._C._get_default_device(), torch.is_inference_mode_enabled()]
        try:
            for value in args:
                _add(key, value, tensors)
            for name, value in kwargs.items():
                key.append(name)
                _add(key, value, tensors)
            if not all(t.fake_mode is self.mode for t in tensors):
                return None, tensors
            constant = [t.constant is not None for t in tensors]
            if any(constant) and (all(constant) or _writes(func)):
                return None, tensors
        except Unkeyed:
            return None, tensors
        if _writes(func):
            key.append(_sharing(tensors))
        made = tuple(key)
        try:
            hash(made)
        except TypeError:  # a symbolic number
            return None, tensors
        return made, tensors

    # ---- what is remembered

    def _entry(self, out: Any, tensors: list[FakeTensor]) -> Any:
        if type(out) not in (list, tuple):
            return self._one(out, tensors)
        found = [self._one(one, tensors) if one is not None else UNKNOWN for one in out]
        storages = [one.untyped_storage()._cdata for one, entry in zip(out, found, strict=True) if type(entry) is _New and entry.of is None]
        if any(entry is None for entry in found) or len(set(storages)) != len(storages):
            return None
        return type(out)(found)

    def _one(self, out: Any, tensors: list[FakeTensor]) -> _New | int | None:
        """Of one result: how it lies, or the operand that it is; None where that is not to be said."""
        for place, tensor in enumerate(tensors):
            if tensor is out:
                return place
        if type(out) is not FakeTensor or out._has_symbolic_sizes_strides or out.requires_grad or out.constant is not None:
            return None
        try:
            dtype, shape, stride, offset, device, _, conjugated, negated = key_of_tensor(out)
        except Unkeyed:
            return None
        storage = out.untyped_storage()._cdata
        sharing = [place for place, tensor in enumerate(tensors) if tensor.untyped_storage()._cdata == storage]
        if conjugated or negated or (sharing and len(tensors) > 1) or not _is_plain(out.__dict__, self.mode):
            return None
        rest = {name: attribute for name, attribute in out.__dict__.items() if attribute is not self.mode}
        entry = _New(shape, stride, offset, dtype, device, rest, sharing[0] if sharing else None)
        with torch._C._DisableTorchDispatch():
            made, _ = self._put_together(entry, tensors)
        if not _is_as(made, out):
            return None
        _rests.setdefault(device, rest)
        return entry

    @staticmethod
    def _told(func: Any, args: tuple, kwargs: dict[str, Any], tensors: list[FakeTensor]) -> Any:
        """An entry by a rule; UNKNOWN where none says it."""
        rest = _rests.get(plain_ops.DEVICE)
        if rest is None or func not in plain_ops.RULES:
            return UNKNOWN
        with torch._C._DisableTorchDispatch():
            told = plain_ops.told(func, args, kwargs, tensors)
        if told is None or type(told) is int:
            return UNKNOWN if told is None else told

        def entry(lies: plain_ops.Lies) -> _New:
            return _New(lies.shape, lies.stride, lies.offset, lies.dtype, plain_ops.DEVICE, rest, lies.of)

        return entry(told) if type(told) is plain_ops.Lies else type(told)(map(entry, told))

    # ---- what is put together

    def _again(self, entry: Any, tensors: list[FakeTensor]) -> tuple[Any, Any]:
        kind = type(entry)
        if kind is _New:
            return self._put_together(entry, tensors)
        if kind is int:
            return tensors[entry], UNKNOWN
        pairs = [(None, None) if one is UNKNOWN else (tensors[one], UNKNOWN) if type(one) is int else self._put_together(one, tensors)
                 for one in entry]
        return kind(out for out, _ in pairs), UNKNOWN if any(value is UNKNOWN for _, value in pairs) else kind(value for _, value in pairs)

    def _put_together(self, entry: _New, tensors: list[FakeTensor]) -> tuple[FakeTensor, FakeTensor]:
        """A result, and another tensor of the same memory."""
        elements = torch.empty_strided(entry.shape, entry.stride, dtype=entry.dtype, device=_META)
        if entry.of is not None:
            _SET(elements, tensors[entry.of].untyped_storage(), entry.offset, entry.shape, entry.stride)
        return _fake(elements, entry.device, entry.rest, self.mode), _fake(elements, entry.device, entry.rest, self.mode)


def same_memory(tensor: FakeTensor) -> FakeTensor:
    """Another fake tensor of its memory and geometry, as PyTorch's `fast_detach` makes one."""
    rest = _rests.get(tensor._fake_device)
    if rest is None or tensor._has_symbolic_sizes_strides or tensor.is_conj() or tensor.is_neg() or tensor.layout is not torch.strided:
        return fast_detach(tensor.fake_mode, tensor)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        elements = torch.empty(0, dtype=tensor.dtype, device=_META)
        _SET(elements, tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
        return _fake(elements, tensor._fake_device, rest, tensor.fake_mode)


def _fake(elements: torch.Tensor, device: torch.device, rest: dict[str, Any], mode: Any) -> FakeTensor:
    made = torch.Tensor._make_subclass(FakeTensor, elements, False, dispatch_device=True, device_for_backend_keys=device)
    torch._C._set_throw_on_mutable_data_ptr(made)
    attributes = made.__dict__
    attributes.update(rest)
    attributes["fake_mode"] = mode
    return made


def _is_plain(attributes: dict[str, Any], mode: Any) -> bool:
    """Whether nothing is noted at a fake tensor but its device and mode."""
    return attributes.get("fake_mode") is mode and all(value is None or value is mode or type(value) in (bool, torch.device) for value in attributes.values())


def _is_as(made: FakeTensor, out: FakeTensor) -> bool:
    return (key_of_tensor(made) == key_of_tensor(out) and torch._C._dispatch_key_set(made) == torch._C._dispatch_key_set(out)
            and made.is_inference() == out.is_inference() and made.untyped_storage().nbytes() == out.untyped_storage().nbytes())
