"""Neural operators, written from their papers' definitions: maps between functions on a grid.

A layer takes the function's low Fourier frequencies, multiplies them by learned complex matrices, goes
back, and adds a pointwise map: v -> gelu(W v + F^-1(R F v)).

    FNO     R is a full tensor (Li et al., 2021)
    TFNO    R is a Tucker product: a core, and a matrix for each of its axes (Kossaifi et al., 2023)
    UNO     layers that go to coarser grids and back, with what was there at each grid put beside
            what comes back to it (Rahman et al., 2022)

The ops of torch.fft and of complex numbers are none that any planner knows.
"""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Full(nn.Module):
    """R: a matrix for each of modes x modes frequencies, as pairs of real numbers or complex."""

    def __init__(self, inputs, outputs, modes, numbers):
        super().__init__()
        drawn = torch.randn(inputs, outputs, modes, modes, dtype=torch.cfloat) / inputs
        self.weight = nn.Parameter(drawn if numbers == "complex" else torch.view_as_real(drawn).clone())

    def forward(self):
        return self.weight if self.weight.is_complex() else torch.view_as_complex(self.weight)


class Tucker(nn.Module):
    """R of less numbers: the core's axes are some `rank` of those that R has."""

    def __init__(self, inputs, outputs, modes, numbers, rank=0.5):
        super().__init__()
        axes = (inputs, outputs, modes, modes)
        ranks = [max(1, round(rank * n)) for n in axes]
        sizes = [tuple(ranks), *zip(axes, ranks, strict=True)]
        drawn = [torch.randn(size, dtype=torch.cfloat) / size[-1] for size in sizes]
        self.parts = nn.ParameterList(
            d if numbers == "complex" else torch.view_as_real(d).clone() for d in drawn)

    def forward(self):
        parts = [p if p.is_complex() else torch.view_as_complex(p) for p in self.parts]
        return torch.einsum("abcd,ia,ob,xc,yd->ioxy", *parts)


class Spectral(nn.Module):
    """A layer. `to`: the grid that the result lies on, over that of the operand."""

    def __init__(self, inputs, outputs, modes, kind=Full, numbers="real", to=1.0):
        super().__init__()
        self.modes, self.to, self.outputs = modes, to, outputs
        self.low, self.high = (kind(inputs, outputs, modes, numbers) for _ in range(2))
        self.short = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        grid, m = [round(n * self.to) for n in x.shape[-2:]], self.modes
        waves = torch.fft.rfft2(x, norm="forward")
        out = waves.new_zeros(x.shape[0], self.outputs, grid[0], grid[1] // 2 + 1)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :m, :m], self.low())
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", waves[:, :, -m:, :m], self.high())
        short = self.short(x)
        if self.to != 1:
            short = F.interpolate(short, grid, mode="bilinear", align_corners=True)
        return F.gelu(torch.fft.irfft2(out, s=grid, norm="forward") + short)


def fno(width=6, modes=3, kind=Full, numbers="real"):
    body = [Spectral(width, width, modes, kind, numbers) for _ in range(2)]
    return nn.Sequential(nn.Conv2d(1, width, 1), *body, nn.Conv2d(width, 1, 1))


def tfno(width=6, modes=3, numbers="real"):
    return fno(width, modes, Tucker, numbers)


class UNO(nn.Module):
    """To half of the grid twice, and back."""

    def __init__(self, width=4, modes=3, numbers="real"):
        super().__init__()
        self.lift, self.project = nn.Conv2d(1, width, 1), nn.Conv2d(2 * width, 1, 1)
        layer = lambda i, o, m, to: Spectral(i * width, o * width, m, numbers=numbers, to=to)  # noqa: E731
        self.down = nn.ModuleList([layer(1, 2, modes, 0.5), layer(2, 4, modes - 1, 0.5)])
        self.up = nn.ModuleList([layer(4, 2, modes - 1, 2), layer(4, 1, modes, 2)])

    def forward(self, x):
        x, kept = self.lift(x), []
        for layer in self.down:
            kept.append(x)
            x = layer(x)
        for layer in self.up:
            x = torch.cat([layer(x), kept.pop()], 1)
        return self.project(x)


BUILD = {"fno": fno, "tfno": tfno, "uno": UNO}
