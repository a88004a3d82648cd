"""What ATen schemas say of an op, and the tensors among its arguments."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch


@functools.cache
def _written_places(target: Any) -> tuple[tuple[int, str], ...]:
    """Position and name of each argument that the schema says is written."""
    return tuple((position, argument.name) for position, argument in enumerate(target._schema.arguments)
                 if argument.alias_info is not None and argument.alias_info.is_write)


def writes_any(target: Any) -> bool:
    """Whether the schema says that an argument is written."""
    return bool(_written_places(target))


def schema_writes(target: Any, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """What the schema says is written, in the order of its arguments."""
    written = []
    for position, name in _written_places(target):
        value = args[position] if position < len(args) else kwargs.get(name)
        written += value if isinstance(value, (list, tuple)) else [value] if value is not None else []
    return written


def without_defaults(target: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments without those that say what the schema says, as PyTorch's dispatcher hands them on. The first time that it calls a mode
    it leaves in place the tensors that are not there."""
    if not isinstance(target, torch._ops.OpOverload):
        return args, kwargs
    schema = target._schema.arguments
    defaults = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    while args and schema[len(args) - 1].name in defaults and _same(args[-1], defaults[schema[len(args) - 1].name]):
        args = args[:-1]
    return args, {name: value for name, value in kwargs.items() if name not in defaults or not _same(value, defaults[name])}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and isinstance(value, (bool, int, float, str)) and value == default)


@functools.cache
def counts_once(target: Any) -> bool:
    """Whether PyTorch's count of writes of a tensor grows by one each time that the op writes it, or by none where `calls.py` says so.
    A custom op counts what its function does, too; observers' kernels count nothing."""
    if not isinstance(target, torch._ops.OpOverload):
        return True
    return target.namespace == "lowtide" or (target.namespace == "aten" and (
        torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "ADInplaceOrView") or target.name().startswith("aten::_foreach_")))


def tensors_among(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among an op's arguments or results, in order; lists of tensors are the only containers there."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_among(value)  # recursion: as deep as the lists of an op's schema
        elif isinstance(value, dict):
            found += tensors_among(value.values())
    return found
