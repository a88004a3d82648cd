"""Value numbering of a captured step: a word for each value that says how it is computed.

Two calls of the same op on values of the same numbers, with the same other arguments, give values of the same number
(global value numbering: Alpern, Wegman and Zadeck, 1988). Nothing is assumed of ops but that they are functions of what
they are given. Memory is taken into that:

    storage   has a number, which changes with each write: that of the write, of the place written and of what was there
    view      the number of its storage, with its place in it (shape, strides, offset, type)
    draw      reads the number of the random stream and makes another; where a state is put back (a checkpoint that
              runs again), the stream has the number that it had when the state was taken

So a value that is computed twice has one number, whether the step says so or not, and two steps whose results and final
storages have equal numbers compute the same bits. Unequal numbers prove nothing: a + b + c has two.

Tests: tests/python/test_torch_native_effects.py.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import torch

from .calls import CONSTANT, Call, Number, Program, Ref

_COMMUTE = {torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor}


def _word(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def contents_word(tensor: torch.Tensor) -> str:
    """The number of a tensor that is there before the step and has no name."""
    if not tensor.numel():
        return hashlib.sha256(b"").hexdigest()
    plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256((ctypes.c_char * plain.numel()).from_address(plain.data_ptr())).hexdigest()  # numpy() would keep the memory from growing


class Numbered:
    """The numbers of a program's values when it has run. `writes`: storage -> the calls that write it, in order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.of_storage: dict[int, str] = {}
        self.offsets: dict[int, int] = {}
        self.stream = _word("stream")
        self.writes: dict[int, list[Call]] = {}
        constants = iter(program.constants)
        for number in program.given:
            storage = program.storage_of(number)
            recipe = program.tensors[number].recipe
            if recipe is not None:  # it lies in the memory of another
                self.offsets[number] = recipe.args[3]
            own = contents_word(next(constants)) if storage.role == CONSTANT else storage.name
            self.of_storage.setdefault(storage.id, _word(storage.role, own))
        for call in program.calls:
            self._take(call)

    def of(self, tensor: int) -> str:
        """The number of a tensor now."""
        found = self.program.tensors[tensor]
        return _word(self.of_storage[found.storage], found.shape, found.stride, self._offset(tensor), str(found.dtype))

    def outputs(self) -> list[str | None]:
        return [None if out is None else self.of(out) for out in self.program.outputs]

    def _offset(self, tensor: int) -> int:
        start = self.program.storages[self.program.tensors[tensor].storage].start
        return self.offsets.get(tensor, start)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.of(value.id)
        if isinstance(value, Number):
            return _word(value.function.__name__, self._argument(value.args))
        if isinstance(value, (list, tuple)):
            return tuple(self._argument(each) for each in value)
        if isinstance(value, dict):
            return tuple(sorted((key, self._argument(each)) for key, each in value.items()))
        return type(value).__name__, repr(value)

    def _take(self, call: Call) -> None:
        if call.view:
            made = call.node.meta["val"]
            for out, value in zip(call.outs, made if call.many else [made], strict=True):
                if out is not None:
                    self.offsets[out] = value.storage_offset()
            return
        if call.target is torch.ops.lowtide.set_random_state.default:
            self.stream = self.of_storage[self.program.tensors[call.args[0].id].storage]
            return
        reads_state = call.target is torch.ops.lowtide.random_state.default
        args = self._argument(call.args)
        if call.target in _COMMUTE and not call.kwargs:
            args = tuple(sorted(args, key=repr))
        key = _word(call.name, args, self._argument(call.kwargs), self.stream if call.random else "")
        if call.random and not reads_state:
            self.stream = _word("next", key)
        self._write(call, key)
        written = {self.program.tensors[t].storage for t in (*call.writes, *call.hidden)}
        for index, out in enumerate(call.outs):
            storage = self.program.tensors[out].storage if out is not None else None
            if storage is not None and storage not in written:
                self.of_storage[storage] = self.stream if reads_state else _word("made", key, index)

    def _write(self, call: Call, key: str) -> None:
        for index, tensor in enumerate((*call.writes, *call.hidden)):
            found = self.program.tensors[tensor]
            place = (found.shape, found.stride, self._offset(tensor), str(found.dtype))
            self.of_storage[found.storage] = _word("write", key, index, place, self.of_storage[found.storage])
            self.writes.setdefault(found.storage, []).append(call)
