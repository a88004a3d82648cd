"""What a step may write, as it is: kept, and put back.

A note (untouched.py) knows everything that can be reached but the contents of large tensors, which capture does not write. A step does:
of what it may write the bytes are copied here, by memory, so that views, expanded tensors and tensors that lie in one memory need no case of
their own; no count of versions says what a kernel wrote (a batch norm's statistics have none). Kept are the parameters that are updated, all buffers,
what the optimizer holds, the batch, what the plan writes beside, and the smallest of all other tensors that take no more than LARGE bytes together. The
others (a data set that loss_fn holds) no step writes without an op that a plan would know of; if one is written, it is named.
Tests: tests/python/test_torch_rehearsal.py.
"""

from __future__ import annotations

import ctypes
import itertools
import zlib
from collections.abc import Iterable
from typing import Any

import torch

from .entering import handlers_wait
from .reachable import Place
from .untouched import Note

SMALL = 1 << 20  # bytes
LARGE = 256 << 20


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its numbers lie in one memory of its own kind."""
    return tensor.layout is torch.strided and not tensor.is_quantized and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def checksum(tensor: torch.Tensor) -> int:
    """That of all bytes from its first element to its last."""
    begin, end = _span(tensor)
    part = _bytes_of(tensor.untyped_storage())[begin:end].cpu()
    if not part.numel():
        return 0
    return zlib.crc32((ctypes.c_char * part.numel()).from_address(part.data_ptr()))  # numpy() would keep the memory from ever growing


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Bytes of its memory in which its elements lie: the first, and the one behind the last."""
    begin = tensor.storage_offset() * tensor.element_size()
    if tensor.numel() == 0:
        return begin, begin
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def span_bytes(tensor: torch.Tensor) -> int:
    begin, end = _span(tensor)
    return end - begin


_ALIGNED = 64  # bytes: a part of a memory begins so, that tensors of any type can lie in its copy


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted((begin // _ALIGNED * _ALIGNED, end) for begin, end in spans if end > begin):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def smallest(found: list[Any], most: int) -> list[Any]:
    """As many of them as take so many bytes together, by size. Each begins with its name and tensor."""
    by_size = sorted(found, key=lambda one: span_bytes(one[1]))
    sums = itertools.accumulate(span_bytes(one[1]) for one in by_size)
    return [one for one, together in zip(by_size, sums, strict=True) if together <= most]


class Contents:
    """The contents of some plain tensors, as they are now. `note`: of all that can be reached, made at the same moment."""

    def __init__(self, note: Note, tensors: Iterable[torch.Tensor]) -> None:
        self.note, self.lost = note, []  # the second: names of larger tensors that somebody has written
        self.tensors: list[tuple[torch.Tensor, torch.Tensor, int | None]] = []
        # By memory: it, its bytes, and copies of those parts in which the tensors lie (a batch may be some rows of a data set).
        self.storages: dict[int, tuple[torch.UntypedStorage, int, list[tuple[int, torch.Tensor]]]] = {}
        spans: dict[int, list[tuple[int, int]]] = {}
        with torch.no_grad():
            for tensor in {id(t): t for t in tensors}.values():
                version = None if tensor.is_inference() else tensor._version
                self.tensors.append((tensor, tensor.detach(), version))  # the second holds the memory, whatever becomes of the first
                storage = tensor.untyped_storage()
                self.storages.setdefault(storage._cdata, (storage, storage.nbytes(), []))
                spans.setdefault(storage._cdata, []).append(_span(tensor))
            for key, (storage, _, copies) in self.storages.items():
                copies += [(begin, _bytes_of(storage)[begin:end].clone()) for begin, end in _merged(spans[key])]

    def before(self, alias: torch.Tensor) -> torch.Tensor:
        """A tensor, given as it lies, as it was."""
        begin, end = _span(alias)
        at, copy = next((at, copy) for at, copy in self.storages[alias.untyped_storage()._cdata][2] if at <= begin and end <= at + copy.numel())
        offset = (copy.storage_offset() + begin - at) // alias.element_size()
        return torch.empty(0, dtype=alias.dtype).set_(copy.untyped_storage(), offset, alias.shape, alias.stride())

    def put_back(self) -> None:
        """Makes all as it was: memory, contents, and what the note knows of."""
        with handlers_wait(), torch.no_grad():
            for tensor, alias, _ in self.tensors:
                if _place(tensor) != _place(alias):
                    tensor.data = alias
            for storage, size, copies in self.storages.values():
                if storage.nbytes() != size:
                    storage.resize_(size)
                for begin, copy in copies:
                    now = _bytes_of(storage)[begin:begin + copy.numel()]
                    if not torch.equal(now, copy):
                        now.copy_(copy)
            self.lost += self._written_beside()
            self.note.put_back()
            for tensor, _, version in self.tensors:
                if version is not None and tensor._version != version:
                    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))

    def _written_beside(self) -> list[str]:
        kept, places = {id(tensor) for tensor, _, _ in self.tensors}, self.note.reachable.tensors
        written = [t.tensor for t in self.note.tensors if t.version is not None and t.kept is None and t.tensor._version != t.version]
        return [name_of(places[id(tensor)]) for tensor in written if id(tensor) not in kept]


def name_of(found: tuple[torch.Tensor, Place | None]) -> str:
    tensor, place = found
    return f"'{place.name}'" if place is not None else f"a tensor {tuple(tensor.shape)}"


def _place(tensor: torch.Tensor) -> tuple:
    return tensor.untyped_storage()._cdata, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype
