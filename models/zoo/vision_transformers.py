"""Image networks that see patches: ViT (Dosovitskiy et al. 2021), Swin (Liu et al. 2021), MLP-Mixer (Tolstikhin et al.
2021) and ConvNeXt (Liu et al. 2022), two blocks or so of each."""

import torch
from torch import nn
from torch.nn import functional as F

from .spec import Entry, images

CLASSES = 10


class Attention(nn.Module):
    """Self-attention with queries, keys and values from one linear layer, cut apart after a Reshape and a Transpose."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width))


class Mlp(nn.Sequential):
    def __init__(self, width: int, inner: int):
        super().__init__(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attention, self.mlp = Attention(width, heads), Mlp(width, 2 * width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, extent: int = 48, patch: int = 8, width: int = 48, heads: int = 4, depth: int = 3):
        super().__init__()
        count = (extent // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, count + 1, width))
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(depth)))
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.fc(self.norm(self.blocks(x))[:, 0])


class WindowAttention(nn.Module):
    """Attention within windows of a (possibly shifted) image, with learned biases by relative position."""

    def __init__(self, width: int, heads: int, window: int, shift: int, extent: int):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (place[:, :, None] - place[:, None, :]) + window - 1
        self.register_buffer("bias_index", apart[0] * (2 * window - 1) + apart[1])
        self.register_buffer("mask", self._mask(extent) if shift else None)

    def _mask(self, extent: int) -> torch.Tensor:
        """Minus a hundred between pixels that only the shift brought together."""
        region = torch.zeros(extent)
        region[-self.window: -self.shift] = 1
        region[-self.shift:] = 2
        windows = self._cut((3 * region[:, None] + region[None, :])[None, :, :, None])[..., 0]
        return torch.where(windows[:, None, :] != windows[:, :, None], -100.0, 0.0)

    def _cut(self, x):
        n, h, w, c = x.shape
        size = self.window
        return x.view(n, h // size, size, w // size, size, c).transpose(2, 3).reshape(-1, size * size, c)

    def forward(self, x):
        n, h, w, c = x.shape
        size = self.window
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        cut = self._cut(x)
        q, k, v = self.qkv(cut).reshape(-1, size * size, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.bias_table[self.bias_index.view(-1)].view(size * size, size * size, self.heads)
        scores = scores + bias.permute(2, 0, 1).unsqueeze(0)
        if self.mask is not None:
            windows = self.mask.shape[0]
            scores = scores.view(-1, windows, self.heads, size * size, size * size) + self.mask[None, :, None]
            scores = scores.view(-1, self.heads, size * size, size * size)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, size * size, c))
        y = y.view(n, h // size, w // size, size, size, c).transpose(2, 3).reshape(n, h, w, c)
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


class SwinBlock(nn.Module):
    def __init__(self, width: int, heads: int, window: int, shift: int, extent: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width, heads, window, shift, extent)
        self.mlp = Mlp(width, 4 * width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    """Four neighbours become one pixel with twice the channels."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduce(self.norm(x))


class Swin(nn.Module):
    def __init__(self, width: int = 24, window: int = 4):
        super().__init__()
        self.patches, self.norm0 = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.stages = nn.Sequential(SwinBlock(width, 3, window, 0, 16), SwinBlock(width, 3, window, 2, 16),
                                    PatchMerging(width), SwinBlock(2 * width, 6, window, 0, 8),
                                    SwinBlock(2 * width, 6, window, 2, 8))
        self.norm, self.fc = nn.LayerNorm(2 * width), nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        x = self.stages(self.norm0(self.patches(x).permute(0, 2, 3, 1)))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.norm(x).permute(0, 3, 1, 2), 1), 1))


class MixerBlock(nn.Module):
    def __init__(self, count: int, width: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = Mlp(count, 2 * count), Mlp(width, 4 * width)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, extent: int = 48, patch: int = 8, width: int = 40):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(MixerBlock((extent // patch) ** 2, width) for _ in range(3)))
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        return self.fc(self.norm(x).mean(1))


class ChannelsFirstNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, 1e-6)
        self.mlp, self.layer_scale = Mlp(width, 4 * width), nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + (self.layer_scale * y).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        layers, before = [nn.Conv2d(3, 16, 4, 4), ChannelsFirstNorm(16, 1e-6)], 16
        for width in (16, 32, 64):
            if width != before:
                layers += [ChannelsFirstNorm(before, 1e-6), nn.Conv2d(before, width, 2, 2)]
            layers += [ConvNeXtBlock(width), ConvNeXtBlock(width)]
            before = width
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), ChannelsFirstNorm(64, 1e-6), nn.Flatten(1),
                                  nn.Linear(64, CLASSES))

    def forward(self, x):
        return self.body(x)


def classifier(build, extent: int, **more) -> Entry:
    return Entry(images(extent), ("logits",), build=build, loss="cross-entropy", **more)


NETWORKS = {
    "vit": classifier(ViT, 48),
    "vit_opset23": classifier(ViT, 48, opset=23),
    "swin": classifier(Swin, 64),
    "swin_script": classifier(Swin, 64, route="script", opset=17),
    "mlp_mixer": classifier(Mixer, 48, opset=18),
    "convnext": classifier(ConvNeXt, 64),
}
