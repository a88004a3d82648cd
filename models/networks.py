"""The four networks that Lowtide's own tests, demo and benchmarks use, as plain PyTorch modules.

ResNet-50 and the U-Net are written out here because their shapes, not their weights, are what matters, and so that
nothing beyond torch and transformers has to be installed. Parameter names follow the usual public checkpoints, so that
real weights can be loaded into them.

  resnet50   25,557,032 parameters, images (batch, 3, 224, 224)   -> (batch, 1000)
  gpt2      124,439,808 parameters, tokens (batch, seq <= 1024)   -> (batch, seq, 50257)
  bert      109,514,298 parameters, tokens (batch, seq <= 512)    -> (batch, seq, 30522)
  unet       31,037,698 parameters, images (batch, 3, 256, 256)   -> (batch, 2, 256, 256)
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn


class Bottleneck(nn.Module):
    """1x1 reduce, 3x3 (which carries the stride), 1x1 expand by four, and a shortcut around them."""

    def __init__(self, channels_in: int, width: int, stride: int):
        super().__init__()
        channels_out = 4 * width
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU()
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + shortcut)


class ResNet50(nn.Module):
    """Deep Residual Learning (He et al. 2016), table 1, 50 layers, with the stride on the 3x3 convolutions."""

    def __init__(self, classes: int = 1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._stage(64, 64, blocks=3, stride=1)
        self.layer2 = self._stage(256, 128, blocks=4, stride=2)
        self.layer3 = self._stage(512, 256, blocks=6, stride=2)
        self.layer4 = self._stage(1024, 512, blocks=3, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2048, classes)

    @staticmethod
    def _stage(channels_in: int, width: int, blocks: int, stride: int) -> nn.Sequential:
        first = Bottleneck(channels_in, width, stride)
        return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class DoubleConv(nn.Sequential):
    """Two 3x3 convolutions, each followed by batch normalization and ReLU."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__(
            nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """U-Net (Ronneberger et al. 2015), five levels, padded convolutions, transposed convolutions upwards."""

    def __init__(self, channels_in: int = 3, classes: int = 2, width: int = 64):
        super().__init__()
        widths = [width << level for level in range(5)]
        rising = list(zip(widths[:0:-1], widths[-2::-1]))  # (below, here), from the bottom level up
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(DoubleConv(i, o) for i, o in zip([channels_in, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, here, 2, stride=2) for below, here in rising)
        self.merge = nn.ModuleList(DoubleConv(below, here) for below, here in rising)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        skips.pop()  # the bottom level is the path itself
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def make_gpt2(dropout: float = 0.1) -> nn.Module:
    """GPT-2 small: tokens in, logits out, attention spelled out so that its dropout is part of the graph."""
    import transformers

    class Gpt2(transformers.GPT2LMHeadModel):
        def forward(self, input_ids):
            return super().forward(input_ids=input_ids, use_cache=False).logits

    config = transformers.GPT2Config(embd_pdrop=dropout, attn_pdrop=dropout, resid_pdrop=dropout)
    return Gpt2._from_config(config, attn_implementation="eager")


def make_bert(dropout: float = 0.1) -> nn.Module:
    """BERT base with its masked-language head, whose decoder is the token embedding; attention spelled out as above."""
    import transformers

    class Bert(transformers.BertForMaskedLM):
        def forward(self, input_ids, attention_mask, token_type_ids):
            return super().forward(input_ids, attention_mask, token_type_ids).logits

    config = transformers.BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return Bert._from_config(config, attn_implementation="eager")


@dataclasses.dataclass(frozen=True)
class Input:
    """One tensor that a network reads."""

    name: str
    example_shape: tuple[int, ...]  # for tracing: each dynamic dim larger than one and unlike any fixed one
    dynamic_dims: dict[int, str]
    limit: int | None = None  # integers below this; None: floats


@dataclasses.dataclass(frozen=True)
class Network:
    """How to build one network and what it reads."""

    build: Callable[..., nn.Module]
    inputs: tuple[Input, ...]
    classes: int  # extent of the output's class dim
    class_dim: int
    has_dropout: bool = False  # build takes its ratio


def images(extent: int) -> tuple[Input, ...]:
    return (Input("x", (2, 3, extent, extent), {0: "batch"}),)


def tokens(**limits: int) -> tuple[Input, ...]:
    """Integers (batch, seq), by name."""
    return tuple(Input(name, (2, 64), {0: "batch", 1: "seq"}, limit) for name, limit in limits.items())


NETWORKS = {
    "resnet50": Network(ResNet50, images(224), classes=1000, class_dim=1),
    "gpt2": Network(make_gpt2, tokens(input_ids=50257), classes=50257, class_dim=2, has_dropout=True),
    "bert": Network(
        make_bert,
        tokens(input_ids=30522, attention_mask=2, token_type_ids=2),
        classes=30522,
        class_dim=2,
        has_dropout=True,
    ),
    "unet": Network(UNet, images(256), classes=2, class_dim=1),
}
