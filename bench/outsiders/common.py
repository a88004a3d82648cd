"""How a network of a package becomes a program to be judged: the registry, batches, losses, optimizers.

A network is one function that makes the model and says what a batch is; three batches differ in contents, never in shapes. Sizes are for
a second of work: what is tried is each idea of an architecture once, not its scale. The optimizer follows from the name, so that AdamW, SGD
with momentum and, of each eighth, another one come about; the mode is training, with the dropout that the package's defaults have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
from eager_judge import Program  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

BATCHES = 3
OPTIMIZERS: dict[str, Callable] = {
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=2e-3, weight_decay=0.01),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=1e-2, momentum=0.9),
    "sgd": lambda ps: torch.optim.SGD(ps, lr=1e-2),
    "fused": lambda ps: torch.optim.AdamW(ps, lr=2e-3, fused=True),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=1e-3),
}
_MIXED = ("adamw", "momentum", "adamw", "sgd", "fused", "momentum", "adamw", "rmsprop")


@dataclasses.dataclass
class Network:
    """By name: the package that it comes from (as it is imported), and what makes the program."""

    name: str
    package: str
    make: Callable[[], Program]

    @property
    def there(self) -> bool:
        return importlib.util.find_spec(self.package) is not None


NETWORKS: dict[str, Network] = {}


def optimizer_for(name: str) -> Callable:
    return OPTIMIZERS[_MIXED[zlib.crc32(name.encode()) % len(_MIXED)]]


def enter(package: str, name: str, make: Callable[[], tuple], **more: Any) -> None:
    """`make` gives (model, one batch at a time, loss_fn)."""
    assert name not in NETWORKS, name

    def program() -> Program:
        model, batch_of, loss_fn = make()
        model.train()
        torch.manual_seed(1)
        return Program(model, [batch_of() for _ in range(BATCHES)], loss_fn, optimizer_for(name), **more)

    NETWORKS[name] = Network(name, package, program)


def network(package: str, name: str, **more: Any) -> Callable:
    """The decorator for what `enter` enters."""
    def take(make: Callable[[], tuple]) -> Callable:
        enter(package, name, make, **more)
        return make
    return take


@contextlib.contextmanager
def without(*modules: str) -> Iterator[None]:
    """Within, modules of a package that is not installed may be imported, as no network here uses them."""
    stood_in = {name: types.ModuleType(name) for name in modules if importlib.util.find_spec(modules[0]) is None}
    for name, module in stood_in.items():
        setattr(stood_in.get(name.rpartition(".")[0], module), name.rpartition(".")[2], module)
    sys.modules.update(stood_in)
    try:
        yield
    finally:
        for name in stood_in:
            del sys.modules[name]


# ---- batches and losses that many have


def ids(rows: int = 2, length: int = 12, words: int = 90, least: int = 3) -> torch.Tensor:
    return torch.randint(least, words, (rows, length))


def image(rows: int = 2, side: int = 32, channels: int = 3) -> torch.Tensor:
    return torch.randn(rows, channels, side, side)


def classes(count: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, count, sizes or (2,))


def first(out: Any) -> torch.Tensor:
    """The first tensor of whatever a network gives."""
    while not isinstance(out, torch.Tensor):
        out = next(v for v in (out.values() if isinstance(out, dict) else out) if v is not None)
    return out


def squares(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    """For what has no loss of its own: the mean square of the result, so that all of it has a gradient."""
    out = first(model(**batch) if isinstance(batch, dict) else model(*batch))
    return out.float().square().mean() if not out.is_complex() else out.abs().square().mean()


def labelled(model: torch.nn.Module, batch: tuple) -> torch.Tensor:
    return F.cross_entropy(first(model(*batch[:-1])), batch[-1])


def by_itself(model: torch.nn.Module, batch: dict) -> torch.Tensor:
    return model(**batch).loss


def regression(model: torch.nn.Module, batch: tuple) -> torch.Tensor:
    return F.mse_loss(first(model(*batch[:-1])), batch[-1])
