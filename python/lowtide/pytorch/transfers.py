"""Copies between a step's arena and host memory while kernels run: the stores and loads of a plan with swap.

    step      store a ........ wait a, a = None       a = load a ..... wait a
    out             [== a ==]
    in                                                        [== a ==]

One thread for each direction works through its queue in the order of the plan; a copy holds no lock of the interpreter.
A value goes to a slot of host memory of the step's own, which is as large as the plan says, and comes back to the address
that the plan gives it, as an allocation like any other. A parameter, a state, a buffer or a batch that moves has its home
in PyTorch's own tensor: it is loaded from there before it is needed, and stored there once it is updated.

No copy overtakes one of the other direction that shares its slot, because the step waits: for a store before its buffer is
given up, so before anything can be loaded from the slot; for a load before its stay ends, so before the slot has another
owner. Threads get addresses, never tensors, so a value dies when the step lets go of it.

On a GPU (`StreamTransfers`) a stream of its own takes the place of each thread, an event that of each wait: the host only
queues. Host memory is pinned. What is there before the step stays on the GPU, so nothing has a home elsewhere.
"""

from __future__ import annotations

import contextlib
import ctypes
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ..errors import Internal
from ..plans import Plan
from .calls import INPUT, MADE, Program
from .devices import CPU

OUT, IN = 0, 1
Copies = list[tuple[int, int, int]]  # (to, from, bytes)


def copy(copies: Copies) -> None:
    """What a thread does: plain copies of bytes."""
    for to, source, count in copies:
        ctypes.memmove(to, source, count)


class Layout(NamedTuple):
    """A tensor and the storage that it lies in, as the only one that brought it."""

    bytes: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    start: int  # in elements
    device: torch.device = CPU.device

    @staticmethod
    def of(tensor: torch.Tensor) -> Layout:
        return Layout(tensor.untyped_storage().nbytes(), tensor.dtype, tuple(tensor.shape), tensor.stride(),
                      tensor.storage_offset(), tensor.device)

    def over(self, storage: torch.UntypedStorage, begin: int = 0) -> torch.Tensor:
        """The tensor in a storage, whose first byte is that at `begin`."""
        at = self.start + begin // self.dtype.itemsize
        return torch.empty(0, dtype=self.dtype, device=storage.device).set_(storage, at, self.shape, self.stride)


class Part(NamedTuple):
    """The bytes that one of the tensors of a storage from before the step shows, gaps included."""

    offset: int
    bytes: int


@dataclass
class Home:
    """A storage that is there before the step and moves. `writable`: it is the model's or the optimizer's."""

    layout: Layout
    parts: list[Part]
    writable: bool
    tensors: list[torch.Tensor] = field(default_factory=list)  # of this step: PyTorch's own

    def copies(self, address: int, direction: int) -> Copies:
        found = []
        for tensor, part in zip(self.tensors, self.parts, strict=True):
            ends = (tensor.data_ptr(), address + part.offset)
            found.append((*(ends if direction == OUT else ends[::-1]), part.bytes))
        return found


def _extent(shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int) -> int:
    """Bytes from the first to behind the last element."""
    if 0 in shape:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))) * itemsize


def given_in(program: Program, storage: int) -> list[int]:
    """The tensors before the step that lie in it; none: the random stream's state."""
    return [t for t in program.given if program.tensors[t].storage == storage]


def home_of(program: Program, storage: int) -> Home:
    found = program.storages[storage]
    writable = found.role not in (MADE, INPUT)
    if found.base < 0:
        return Home(Layout(found.bytes, torch.uint8, (found.bytes,), (1,), 0), [Part(0, found.bytes)], False)
    base = program.tensors[found.base]
    parts = []
    for tensor in (program.tensors[t] for t in given_in(program, storage)):
        start = found.start if tensor.recipe is None else tensor.recipe.args[3]
        size = tensor.dtype.itemsize
        parts.append(Part(start * size, _extent(tensor.shape, tensor.stride, size)))
    return Home(Layout(found.bytes, base.dtype, base.shape, base.stride, found.start), parts, writable)


class Transfers:
    """The slow memory of one plan, and what is under way. Storages have the program's numbers."""

    def __init__(self, program: Program, plan: Plan, mine: dict[int, int]) -> None:
        """`mine`: the program's storages by the plan's."""
        self.homes: dict[int, Home] = {}
        self.slots: dict[int, tuple[int, int]] = {}  # of what the step makes: place and bytes in host memory
        self.home_bytes = 0
        moving = [(place, mine[i]) for i, place in enumerate(plan.storages()) if place.slow_address >= 0 and i in mine]
        before = sorted((place.slow_address, place.bytes) for place, _ in moving if place.home_slow)
        for place, storage in moving:
            if place.home_slow:
                self.homes[storage] = home_of(program, storage)
                self.home_bytes += place.bytes
            else:  # homes need no slot: the others close up
                gaps = sum(size for address, size in before if address < place.slow_address)
                self.slots[storage] = (place.slow_address - gaps, place.bytes)
        self.bytes = max((at + size for at, size in self.slots.values()), default=0)
        self.memory = torch.empty(0, dtype=torch.uint8)  # at least `bytes`: the step's, which its plans share
        self.threads: tuple[ThreadPoolExecutor, ...] = ()
        self.kept: dict[int, Layout] = {}  # of what has been stored in this step
        self.under_way: dict[int, Future] = {}
        self.loads: dict[int, int] = {}  # homes whose load is under way: where to
        self.here: dict[int, int] = {}  # homes that are in the arena whole: where
        self.stored_bytes = self.loaded_bytes = 0

    @property
    def any(self) -> bool:
        return bool(self.homes or self.slots)

    # ---- what the generated code calls

    def home(self, storage: int, tensors: list[torch.Tensor]) -> None:
        """PyTorch's own tensors of a storage that moves."""
        self.homes[storage].tensors = tensors

    def store(self, storage: int, tensor: torch.Tensor) -> None:
        layout, address = Layout.of(tensor), tensor.untyped_storage().data_ptr()
        self.stored_bytes += layout.bytes
        if storage in self.homes:
            torch.autograd.graph.increment_version(self.homes[storage].tensors)
            return self.begin(OUT, storage, self.homes[storage].copies(address, OUT))
        slot, room = self.slots[storage]
        if layout.bytes > room:
            raise Internal(f"a value of {layout.bytes} bytes moves to a slot of {room}")
        self.kept[storage] = layout
        return self.begin(OUT, storage, [(self.memory.data_ptr() + slot, address, layout.bytes)])

    def load(self, storage: int) -> torch.Tensor:
        """The value where the plan wants it: the allocation that comes next. To be waited for."""
        home = self.homes.get(storage)
        layout = self.kept[storage] if home is None else home.layout
        whole = torch.empty(layout.bytes, dtype=torch.uint8).untyped_storage()
        self.loaded_bytes += layout.bytes
        if home is None:
            slot = self.memory.data_ptr() + self.slots[storage][0]
            self.begin(IN, storage, [(whole.data_ptr(), slot, layout.bytes)])
        else:
            self.loads[storage] = whole.data_ptr()
            self.begin(IN, storage, home.copies(whole.data_ptr(), IN))
        return layout.over(whole)

    def wait(self, storage: int) -> None:
        """Until the copy that is under way has ended. Raises what ended it."""
        future = self.under_way.pop(storage, None)
        if future is not None:
            future.result()
        if storage in self.loads:
            self.here[storage] = self.loads.pop(storage)

    def write_back(self, storage: int, tensor: torch.Tensor) -> None:
        """A home that was written without the plan's knowing it (running statistics), at once."""
        torch.autograd.graph.increment_version(self.homes[storage].tensors)
        copy(self.homes[storage].copies(tensor.untyped_storage().data_ptr(), OUT))

    def leave(self, storage: int) -> None:
        """The home's copy in the arena goes."""
        self.here.pop(storage, None)

    def look(self, storage: int) -> torch.Tensor:
        """A value that is away, in its slot."""
        self.wait(storage)
        return self.kept[storage].over(self.memory.untyped_storage(), self.slots[storage][0])

    # ---- steps

    def begin(self, direction: int, storage: int, copies: Copies) -> None:
        if not self.threads:
            self.threads = tuple(ThreadPoolExecutor(1, f"lowtide-{name}") for name in ("out", "in"))
        self.under_way[storage] = self.threads[direction].submit(copy, copies)

    def begin_step(self) -> None:
        self.stored_bytes = self.loaded_bytes = 0

    def end_step(self, failed_in_update: bool) -> None:
        """Nothing is under way any more and no tensor is kept. After a failure behind the first update, what the arena
        holds of parameters and states goes home, so that they are as far as each other."""
        for storage in list(self.under_way):
            with contextlib.suppress(Exception):
                self.wait(storage)
        for storage, address in self.here.items() if failed_in_update else ():
            if self.homes[storage].writable:
                copy(self.homes[storage].copies(address, OUT))
        for home in self.homes.values():
            home.tensors = []
        for left in (self.under_way, self.loads, self.here, self.kept):
            left.clear()


class StreamTransfers(Transfers):
    """The same between a GPU and pinned host memory."""

    def __init__(self, program: Program, plan: Plan, mine: dict[int, int]) -> None:
        super().__init__(program, plan, mine)
        if self.homes:
            raise Internal("a plan for a GPU moves what is there before the step")
        self.streams: tuple[torch.cuda.Stream, ...] = ()
        self.events: dict[int, torch.cuda.Event] = {}  # of what is under way
        self.stored: dict[int, torch.cuda.Event] = {}  # of all that has been stored in this step
        self.on_host: dict[int, torch.Tensor] = {}  # what the step makes on the CPU is there already

    def slot(self, storage: int, size: int) -> torch.Tensor:
        begin, room = self.slots[storage]
        if size > room:
            raise Internal(f"a value of {size} bytes moves to a slot of {room}")
        return self.memory[begin:begin + size]

    def store(self, storage: int, tensor: torch.Tensor) -> None:
        layout = Layout.of(tensor)
        self.stored_bytes += layout.bytes
        self.kept[storage] = layout
        if layout.device.type == "cpu":
            self.on_host[storage] = tensor
            return
        self.queue(OUT, storage, self.slot(storage, layout.bytes), _all_bytes(tensor.untyped_storage()))

    def load(self, storage: int) -> torch.Tensor:
        layout = self.kept[storage]
        if storage in self.on_host:
            return self.on_host[storage]
        whole = torch.empty(layout.bytes, dtype=torch.uint8, device=layout.device)
        self.loaded_bytes += layout.bytes
        self.queue(IN, storage, whole, self.slot(storage, layout.bytes))
        return layout.over(whole.untyped_storage())

    def queue(self, direction: int, storage: int, to: torch.Tensor, source: torch.Tensor) -> None:
        """A copy behind all that has been queued so far."""
        if not self.streams:
            self.streams = (torch.cuda.Stream(), torch.cuda.Stream())
        stream = self.streams[direction]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
        self.events[storage] = stream.record_event()
        if direction == OUT:
            self.stored[storage] = self.events[storage]

    def wait(self, storage: int) -> None:
        """All that is queued from here on comes behind the copy; the host goes on."""
        event = self.events.pop(storage, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)

    def look(self, storage: int) -> torch.Tensor:
        if storage in self.on_host:
            return self.on_host[storage]
        self.stored[storage].synchronize()  # the host reads it, which no stream orders
        layout = self.kept[storage]
        return layout.over(self.memory.untyped_storage(), self.slots[storage][0])

    def end_step(self, failed_in_update: bool) -> None:
        for storage in list(self.events):
            self.wait(storage)
        self.stored.clear()
        self.on_host.clear()
        super().end_step(failed_in_update)


def _all_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


# ---- moves in graphs: torch.compile's halves have no arena, so a copy is a tensor of its own

_copying: dict[int, tuple[Future, torch.Tensor]] = {}  # by the address of what is written: until somebody waits
_links: list[ThreadPoolExecutor] = []


def _copied(source: torch.Tensor, direction: int) -> torch.Tensor:
    if not _links:
        _links.extend(ThreadPoolExecutor(1, f"lowtide-{name}") for name in ("out", "in"))
    size = _extent(tuple(source.shape), source.stride(), source.dtype.itemsize)
    made = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
    if size:
        job = _links[direction].submit(copy, [(made.data_ptr(), source.data_ptr(), size)])
        _copying[made.data_ptr()] = (job, source)
    return made


def begin_store(value: torch.Tensor) -> torch.Tensor:
    """A copy in host memory, which `end_copy` waits for."""
    return _copied(value, OUT)


def begin_load(kept: torch.Tensor) -> torch.Tensor:
    """A copy of what lies in host memory, which `end_copy` waits for."""
    return _copied(kept, IN)


def end_copy(made: torch.Tensor, *_: torch.Tensor) -> None:
    """Until the copy has ended; what else is named lives until then. Raises what ended it."""
    job, _source = _copying.pop(made.data_ptr(), (None, None))
    if job is not None:
        job.result()
