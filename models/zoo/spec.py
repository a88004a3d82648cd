"""What an entry of the zoo is: how to build a network, what it reads, and in whose style it is written to a file."""

import dataclasses
import math
import zlib
from collections.abc import Callable

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Feed:
    """One tensor that a network reads. Without a limit: floats in [-1, 1); with one: integers in [0, limit)."""

    name: str
    shape: tuple[int, ...]
    dims: tuple[tuple[int, str], ...] = ()  # which axes have a name in the file instead of a size
    limit: int | None = None

    def example(self) -> torch.Tensor:
        if self.limit is None:
            return torch.zeros(self.shape)
        return torch.zeros(self.shape, dtype=torch.int64)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One network of the zoo. Exactly one of `build` and `write` is there."""

    feeds: tuple[Feed, ...]
    outputs: tuple[str, ...]
    build: Callable[[], nn.Module] | None = None
    write: Callable[[], "onnx.ModelProto"] | None = None  # noqa: F821  a file put together node by node
    route: str = "dynamo"  # or "script": PyTorch's exporter of old
    opset: int = 20
    loss: str | None = None  # with which it also trains: cross-entropy (on dim 1, or the last of three) or mse (`write`: this)
    rewrite: Callable[["onnx.ModelProto"], "onnx.ModelProto"] | None = None  # noqa: F821  another exporter's style
    dtype: torch.dtype = torch.float32
    tolerance: float | None = None  # of results, where that of the element type is not right

    @property
    def sizes(self) -> dict[str, int]:
        """The named dims and the sizes that the feeds have."""
        return {name: feed.shape[axis] for feed in self.feeds for axis, name in feed.dims}


def images(extent: int, batch: int = 2, channels: int = 3, name: str = "x") -> tuple[Feed, ...]:
    return (Feed(name, (batch, channels, extent, extent), ((0, "batch"),)),)


def tokens(batch: int = 2, length: int = 12, seq: str = "seq", **limits: int) -> tuple[Feed, ...]:
    """Integers (batch, seq), by name."""
    dims = ((0, "batch"), (1, seq))
    return tuple(Feed(name, (batch, length), dims, limit) for name, limit in limits.items())


def draw_values(module: nn.Module) -> nn.Module:
    """Gives each parameter and running statistic values of its own that keep signals at their size. No two are equal:
    exporters merge equal tensors, which would tie what is not tied."""
    tensors = dict(module.named_parameters())
    tensors |= {name: buffer for name, buffer in module.named_buffers() if name.rsplit(".", 1)[-1].startswith("running_")}
    with torch.no_grad():
        for name, tensor in tensors.items():
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            signed = 2 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64) - 1
            if name.endswith("running_var"):
                values = 1 + 0.1 * signed.abs()
            elif name.endswith("running_mean"):
                values = 0.1 * signed
            elif tensor.dim() == 1 and name.endswith("weight"):
                values = 1 + 0.1 * signed
            elif tensor.dim() <= 1:
                values = 0.1 * signed
            else:
                values = signed * math.sqrt(3 / math.prod(tensor.shape[1:]))
            tensor.copy_(values)
    return module
