"""What ATen schemas say of an op."""

from __future__ import annotations

from typing import Any


def schema_writes(target: Any, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """What the schema says is written, in the order of its arguments."""
    written = []
    for position, argument in enumerate(target._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        written += value if isinstance(value, (list, tuple)) else [value] if value is not None else []
    return written
