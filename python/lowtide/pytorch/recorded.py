"""Ordinary ops of a trace become nodes of its graph by a short way; all others by PyTorch's own.

make_fx records an op through a dispatch mode that flattens its arguments several times, looks for decompositions, constants
and symbols, and asks for every device by a dispatch of its own: three quarters of the time of a capture. Nearly all ops of a step
need none of that: a functional or in-place kernel on traced tensors and plain numbers. `record` runs such an op on the
fake tensors and notes the same node, with the same name, operands and value (`meta["val"]`) as PyTorch's mode would. It
declines, before anything has run, where anything is out of the ordinary; the caller then takes PyTorch's way.

Declined: ops that PyTorch would take apart, ops on constants alone or that write where one is, ops on tensors that the trace has not seen, symbolic numbers
among the arguments, ops that look into tensors or change the geometry of one. What is made with symbolic sizes, or is
neither tensor nor number, is noted by PyTorch's own function. tests/python/test_torch_recorded.py holds both ways against each other.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import autograd_would_have_decomposed

from .alike_ops import UNKNOWN, AlikeOps, same_memory
from .schemas import tensors_among

_DEVICE = torch.ops.prim.device.default
_PROXY = torch._C._TorchDispatchModeKey.PROXY
_PLAIN = (int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_UNUSUAL = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view)
DECLINED = object()


@functools.cache
def _is_ordinary(func: Any) -> bool:
    """Whether PyTorch's mode would note this op as it is."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace not in ("aten", "lowtide"):
        return False
    lifts = func._schema.name in ("aten::lift_fresh", "aten::is_nonzero", "aten::lift", "aten::set_", "aten::resize_")
    return not lifts and not any(tag in func.tags for tag in _UNUSUAL)


@functools.cache
def _is_composite(func: Any) -> bool:
    """Whether the op has a formula of other ops, which PyTorch's mode takes where the device has no kernel of its own."""
    return func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


_words: dict[str, str] = {}


def _word(graph: Any, name: str) -> str:
    """What nodes of the op are called."""
    if name not in _words:
        _words[name] = graph._target_to_str(name)
    return _words[name]


class _Unusual(Exception):
    """An argument that is declined."""


def device_asked(func: Any, types: Any, args: tuple) -> Any:
    """The device of a fake tensor; DECLINED where that is not what is asked."""
    if func is not _DEVICE or type(args[0]) is not FakeTensor:
        return DECLINED
    return args[0].device


def record(func: Any, args: tuple, kwargs: dict[str, Any], alike: AlikeOps) -> Any:
    """The op's result, with its node in the graph of the trace that is under way; DECLINED, before anything has run, for
    PyTorch's own way. `alike`: what the ops of this trace made."""
    if not _is_ordinary(func):
        return DECLINED
    mode = torch._C._get_dispatch_mode(_PROXY)
    if mode is None or func in mode.decomposition_table or mode.pre_dispatch:
        return DECLINED
    if _is_composite(func) and autograd_would_have_decomposed(func, tensors_among((*args, *kwargs.values()))):
        return DECLINED
    tracer = mode.tracer
    constant: list[bool] = []
    try:
        operands = _operands(args, tracer.tensor_tracker, constant)
        named = {name: _operands(value, tracer.tensor_tracker, constant) for name, value in kwargs.items()}
    except _Unusual:
        return DECLINED
    if True in constant and (all(constant) or func._schema.is_mutable):
        return DECLINED
    name = _word(tracer.graph, func.overloadpacket.__name__)
    node = tracer.graph.create_node("call_function", func, name=name)  # which walks over arguments that it is given
    node.args = operands
    if named:
        node.kwargs = named
    torch._C._unset_dispatch_mode(_PROXY)
    try:
        out, value = alike.call(func, args, kwargs)
    except BaseException:
        tracer.graph.erase_node(node)
        raise
    finally:
        torch._C._set_dispatch_mode(mode)
    _note(out, value, node, tracer)
    return out


def _operands(value: Any, tracked: Any, constant: list[bool]) -> Any:  # recursion: as deep as the lists of an op's schema
    """The argument with nodes in the place of tensors; `constant` grows by whether each is one. Raises _Unusual."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is FakeTensor or kind is torch.nn.Parameter or kind is torch.Tensor:
        found = tracked.get(value)
        if found is None:
            raise _Unusual
        constant.append(found.constant is not None)
        return found.proxy.node
    if kind is list or kind is tuple or kind is torch.Size:
        made = [_operands(entry, tracked, constant) for entry in value]
        return made if kind is list else tuple(made)
    raise _Unusual


def _note(out: Any, value: Any, node: Any, tracer: Any) -> None:
    """What the op made, as values of the graph. `value`: the same once more, its geometry as it is now, or UNKNOWN."""
    if type(out) is FakeTensor and (value is not UNKNOWN or not out._has_symbolic_sizes_strides):
        return _take(out, value, node, tracer)
    if type(out) in (tuple, list) and (value is not UNKNOWN or all(map(_is_noted, out))):
        values = [_copy(one) for one in out] if value is UNKNOWN else value
        node.meta["val"] = type(out)(values)
        for index, (one, again) in enumerate(zip(out, values, strict=True)):
            place = tracer.graph.create_node("call_function", operator.getitem)
            place.args = (node, index)
            if one is not None:
                _take(one, _copy(again), place, tracer)
        return None
    proxy_tensor.track_tensor_tree(out, torch.fx.Proxy(node, tracer), constant=None, tracer=tracer)
    return None


def _is_noted(one: Any) -> bool:
    return one is None or (type(one) is FakeTensor and not one._has_symbolic_sizes_strides)


def _copy(tensor: FakeTensor | None) -> FakeTensor | None:
    return None if tensor is None else same_memory(tensor)


def _take(tensor: FakeTensor, value: Any, node: Any, tracer: Any) -> None:
    node.meta["val"] = _copy(tensor) if value is UNKNOWN else value
    tracer.tensor_tracker[tensor] = proxy_tensor._ProxyTensor(torch.fx.Proxy(node, tracer), None)
