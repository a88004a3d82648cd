"""The random stream where the user's code reads or sets it, as ops of the traced step.

Checkpointing draws a dropout's mask a second time: it keeps the stream's state from before the first draw, sets that
before the second, and puts the stream back behind it. PyTorch's own functions for this do not pass the dispatcher,
so nothing of it would stand in a graph, and the second mask would be another one. While a step is traced they are
exchanged for ops that draw nothing and still count as drawing (the tag), so units.py chains them with the draws:

    lowtide::random_state(int gpu) -> Tensor     torch.get_rng_state(), torch.cuda.get_rng_state()
    lowtide::set_random_state(Tensor, int gpu)   torch.set_rng_state(state), torch.cuda.set_rng_state(state)
    lowtide::seed(int)                           torch.manual_seed(seed), of a step on the CPU

`gpu` is the number of the GPU that the step runs on, -1 for a step on the CPU. A step on a GPU draws there alone; what it
does with the CPU's stream is left as it is, as long as it puts that back.

The native engine draws from a stream of its own: for that the latter two are refused.

fork_rng and torch.utils.checkpoint call these functions. Whoever sets the generator itself is found out by its
state, which tracing leaves as it was, and refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from ..errors import Unsupported
from . import this_thread
from .devices import CPU, Cpu, Cuda, device_of

_CPU = -1


def _device(gpu: int) -> Cpu | Cuda:
    return CPU if gpu == _CPU else device_of(torch.device("cuda", gpu))


for _schema in ("random_state(int gpu) -> Tensor", "set_random_state(Tensor state, int gpu) -> ()", "seed(int seed) -> ()"):
    _name, _, _rest = _schema.partition("(")
    torch.library.define(f"lowtide::{_name}", f"({_rest}", tags=(torch.Tag.nondeterministic_seeded,))


@torch.library.impl("lowtide::random_state", "default")
def _(gpu: int) -> torch.Tensor:
    return _device(gpu).get_state()


@torch.library.register_fake("lowtide::random_state")
def _(gpu: int) -> torch.Tensor:
    return torch.empty(_device(gpu).state_bytes, dtype=torch.uint8, device="cpu")


@torch.library.impl("lowtide::set_random_state", "default")
def _(state: torch.Tensor, gpu: int) -> None:
    _device(gpu).set_state(state)


@torch.library.register_fake("lowtide::set_random_state")
def _(state: torch.Tensor, gpu: int) -> None:
    return None


@torch.library.impl("lowtide::seed", "default")
def _(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


@torch.library.register_fake("lowtide::seed")
def _(seed: int) -> None:
    return None


def _seeded(seed: int) -> torch.Generator:
    torch.ops.lowtide.seed(int(seed))
    return torch.default_generator


def _refused(*_: Any) -> None:
    raise NotImplementedError("the native engine draws from a stream of its own, which loss_fn cannot set; "
                              "engine='torch' draws from PyTorch's")


def _from_anywhere() -> int:
    raise NotImplementedError("torch.seed() takes a seed from outside; torch.manual_seed(number) is planned")


def _exchanged(modules: tuple[ModuleType, ...], **instead: Callable) -> contextlib.AbstractContextManager[None]:
    """Within, PyTorch's functions of these names are others, which take the same arguments."""
    def called(function: Callable) -> Callable:
        return lambda _, *args, **named: function(*args, **named)

    return this_thread.exchanged(*((module, name, called(function)) for module in modules for name, function in instead.items()))


@contextlib.contextmanager
def unchanged(device: Cpu | Cuda) -> Iterator[None]:
    """Raises Unsupported where the stream itself, or the CPU's, is changed within, and puts it back."""
    states = {each: each.get_state() for each in (CPU, device)}
    try:
        yield
        changed = any(not torch.equal(each.get_state(), state) for each, state in states.items())
    finally:
        for each, state in states.items():
            each.set_state(state)
    if changed:
        raise Unsupported("the step cannot be captured: the random stream was moved by no op of it. Either it sets a generator's state past "
                          "torch.set_rng_state, torch.manual_seed and torch.random.fork_rng, which are planned, or another thread drew numbers "
                          "meanwhile: let that begin when the step is compiled, or give it a torch.Generator of its own")


def _on_cpu() -> contextlib.AbstractContextManager[None]:
    def get() -> torch.Tensor:
        return torch.ops.lowtide.random_state(_CPU)

    def set_to(state: torch.Tensor) -> None:
        torch.ops.lowtide.set_random_state(state, _CPU)

    return _exchanged((torch, torch.random), get_rng_state=get, set_rng_state=set_to, manual_seed=_seeded,
                      seed=_from_anywhere)


def _on_gpu(device: Cuda) -> contextlib.AbstractContextManager[None]:
    def checked(asked: Any) -> int:
        asked = torch.device("cuda", asked) if isinstance(asked, int) else torch.device(asked)
        if asked.index not in (None, device.device.index):
            raise NotImplementedError(f"the step runs on {device.device} and cannot use the random stream of {asked}")
        return device.device.index

    def get(asked: Any = "cuda") -> torch.Tensor:
        return torch.ops.lowtide.random_state(checked(asked))

    def set_to(state: torch.Tensor, asked: Any = "cuda") -> None:
        torch.ops.lowtide.set_random_state(state, checked(asked))

    return _exchanged((torch.cuda, torch.cuda.random), get_rng_state=get, set_rng_state=set_to)


@contextlib.contextmanager
def traced(device: Cpu | Cuda) -> Iterator[None]:
    """Within, PyTorch's functions on the device's stream are ops of the graph that is traced."""
    with unchanged(device), _on_gpu(device) if isinstance(device, Cuda) else _on_cpu():
        yield


def refused() -> contextlib.AbstractContextManager[None]:
    """Within, setting the stream raises Unsupported."""
    return _exchanged((torch, torch.random), set_rng_state=_refused, manual_seed=_refused, seed=_refused)


@contextlib.contextmanager
def selecting_as_in_eager_mode() -> Iterator[None]:
    """Within, selective checkpoints keep what their policy says. Under a trace they would keep all and mark nodes for torch.compile's
    partitioner, and would then find the memory of a dropout's mask, which is drawn in place, changed."""
    module = torch.utils.checkpoint
    places = [(module, "_is_compiling", lambda *_: False)] if hasattr(module, "_is_compiling") else []
    with this_thread.exchanged(*places):
        yield
