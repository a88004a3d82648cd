"""The random stream where the user's code reads or sets it, as ops of the traced step.

Checkpointing draws a dropout's mask a second time: it keeps the stream's state from before the first draw, sets that
before the second, and puts the stream back behind it. PyTorch's own functions for this do not pass the dispatcher,
so nothing of it would stand in a graph, and the second mask would be another one. While a step is traced they are
exchanged for ops that draw nothing and still count as drawing (the tag), so units.py chains them with the draws:

    lowtide::random_state() -> Tensor     torch.get_rng_state()
    lowtide::set_random_state(Tensor)     torch.set_rng_state(state)
    lowtide::seed(int)                    torch.manual_seed(seed)

The native engine draws from a stream of its own: for that the latter two are refused.

fork_rng and torch.utils.checkpoint call these functions. Whoever sets the generator itself is found out by its
state, which tracing leaves as it was, and refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import Unsupported

_get, _set, _seed = torch.random.get_rng_state, torch.random.set_rng_state, torch.random.manual_seed

for _schema in ("random_state() -> Tensor", "set_random_state(Tensor state) -> ()", "seed(int seed) -> ()"):
    _name, _, _rest = _schema.partition("(")
    torch.library.define(f"lowtide::{_name}", f"({_rest}", tags=(torch.Tag.nondeterministic_seeded,))


@torch.library.impl("lowtide::random_state", "default")
def _(*_: Any) -> torch.Tensor:
    return _get()


@torch.library.register_fake("lowtide::random_state")
def _(*_: Any) -> torch.Tensor:
    return torch.empty_like(_get(), device="cpu")


@torch.library.impl("lowtide::set_random_state", "default")
def _(state: torch.Tensor) -> None:
    _set(state)


@torch.library.register_fake("lowtide::set_random_state")
def _(state: torch.Tensor) -> None:
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


@contextlib.contextmanager
def _exchanged(**instead: Callable) -> Iterator[None]:
    """Within, PyTorch's functions of these names are others."""
    before = [(module, name, getattr(module, name)) for module in (torch, torch.random) for name in instead]
    for module, name, _ in before:
        setattr(module, name, instead[name])
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Raises Unsupported where the stream itself is changed within, and puts it back."""
    state = _get()
    try:
        yield
        changed = not torch.equal(_get(), state)
    finally:
        _set(state)
    if changed:
        raise Unsupported("the step cannot be captured: it sets a generator's state past torch.set_rng_state, "
                          "torch.manual_seed and torch.random.fork_rng, which are planned")


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Within, PyTorch's functions on the CPU's stream are ops of the graph that is traced."""
    ops = torch.ops.lowtide
    with unchanged(), _exchanged(get_rng_state=ops.random_state, set_rng_state=ops.set_random_state,
                                 manual_seed=_seeded, seed=_from_anywhere):
        yield


def refused() -> contextlib.AbstractContextManager[None]:
    """Within, setting the stream raises Unsupported."""
    return _exchanged(set_rng_state=_refused, manual_seed=_refused, seed=_refused)
