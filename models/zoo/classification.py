"""Networks that name what an image shows, each with the structure of its paper and a tenth of its width.

ResNet (He et al. 2016), MobileNetV2 (Sandler et al. 2018), MobileNetV3 (Howard et al. 2019), EfficientNet (Tan and Le
2019), DenseNet (Huang et al. 2017), GoogLeNet (Szegedy et al. 2015), Inception v3 (2016), SqueezeNet (Iandola et al.
2016), ShuffleNetV2 (Ma et al. 2018), VGG (Simonyan and Zisserman 2015), AlexNet (Krizhevsky et al. 2012), RegNetY
(Radosavovic et al. 2020), NFNet (Brock et al. 2021).
"""

import torch
from torch import nn
from torch.nn import functional as F

from .spec import Entry, images

CLASSES = 10


def conv_bn(i: int, o: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU,
            padding: int | tuple[int, int] | None = None) -> nn.Sequential:
    """A convolution without bias, its batch normalization and an activation."""
    padding = kernel // 2 if padding is None else padding
    layers = [nn.Conv2d(i, o, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class SqueezeExcite(nn.Module):
    """Scales channels by a gate that sees their means."""

    def __init__(self, channels: int, inner: int, act: type[nn.Module] = nn.ReLU, gate: type[nn.Module] = nn.Sigmoid):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x):
        return x * self.gate(self.up(self.act(self.down(self.pool(x)))))


class Head(nn.Module):
    """Global average, flattening, a linear layer."""

    def __init__(self, channels: int, dropout: float = 0.0):
        super().__init__()
        self.pool, self.drop, self.fc = nn.AdaptiveAvgPool2d(1), nn.Dropout(dropout), nn.Linear(channels, CLASSES)

    def forward(self, x):
        return self.fc(self.drop(torch.flatten(self.pool(x), 1)))


class BasicBlock(nn.Module):
    def __init__(self, i: int, o: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(conv_bn(i, o, 3, stride), conv_bn(o, o, act=None))
        self.shortcut = conv_bn(i, o, 1, stride, act=None) if stride > 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet18() -> nn.Module:
    widths = [16, 32, 64, 128]
    layers = [conv_bn(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for level, width in enumerate(widths):
        before = widths[max(level - 1, 0)]
        layers += [BasicBlock(before, width, 1 if level == 0 else 2), BasicBlock(width, width, 1)]
    return nn.Sequential(*layers, Head(widths[-1]))


class InvertedResidual(nn.Module):
    """1x1 up, depthwise, squeeze and excite where wanted, 1x1 down without activation."""

    def __init__(self, i: int, o: int, stride: int, expand: int, kernel: int = 3, act=nn.ReLU6, se=None):
        super().__init__()
        inner = i * expand
        layers = [conv_bn(i, inner, 1, act=act)] if expand > 1 else []
        layers.append(conv_bn(inner, inner, kernel, stride, groups=inner, act=act))
        if se:
            layers.append(se(inner))
        self.body = nn.Sequential(*layers, conv_bn(inner, o, 1, act=None))
        self.residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v2() -> nn.Module:
    blocks = [(1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 32, 2, 2)]
    layers, before = [conv_bn(3, 8, 3, 2, act=nn.ReLU6)], 8
    for expand, width, count, stride in blocks:
        for index in range(count):
            layers.append(InvertedResidual(before, width, stride if index == 0 else 1, expand))
            before = width
    return nn.Sequential(*layers, conv_bn(before, 96, 1, act=nn.ReLU6), Head(96, 0.2))


def mobilenet_v3() -> nn.Module:
    def se(channels: int) -> nn.Module:
        return SqueezeExcite(channels, max(channels // 4, 8), gate=nn.Hardsigmoid)

    swish = nn.Hardswish
    return nn.Sequential(conv_bn(3, 8, 3, 2, act=swish), InvertedResidual(8, 8, 1, 1, act=nn.ReLU),
                         InvertedResidual(8, 12, 2, 4, act=nn.ReLU), InvertedResidual(12, 16, 2, 3, 5, nn.ReLU, se),
                         InvertedResidual(16, 16, 1, 3, 5, nn.ReLU, se), InvertedResidual(16, 24, 2, 6, 3, swish),
                         InvertedResidual(24, 24, 1, 6, 5, swish, se), conv_bn(24, 96, 1, act=swish),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(96, 64), swish(), nn.Dropout(0.2),
                         nn.Linear(64, CLASSES))


def efficientnet() -> nn.Module:
    def se(channels: int) -> nn.Module:
        return SqueezeExcite(channels, max(channels // 24, 2), act=nn.SiLU)

    layers, before = [conv_bn(3, 16, 3, 2, act=nn.SiLU)], 16
    for expand, width, count, stride, kernel in [(1, 8, 1, 1, 3), (6, 12, 2, 2, 3), (6, 20, 2, 2, 5), (6, 40, 1, 2, 3)]:
        for index in range(count):
            layers.append(InvertedResidual(before, width, stride if index == 0 else 1, expand, kernel, nn.SiLU, se))
            before = width
    return nn.Sequential(*layers, conv_bn(before, 128, 1, act=nn.SiLU), Head(128, 0.2))


class DenseLayer(nn.Module):
    def __init__(self, i: int, growth: int):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, 4 * growth, 1, bias=False),
                                  nn.BatchNorm2d(4 * growth), nn.ReLU(),
                                  nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    growth, channels, layers = 8, 16, [conv_bn(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for index, count in enumerate([3, 4, 3]):
        for _ in range(count):
            layers.append(DenseLayer(channels, growth))
            channels += growth
        if index < 2:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False),
                       nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), Head(channels))


class Branches(nn.Module):
    """Several ways side by side, joined along the channels."""

    def __init__(self, *ways: nn.Module):
        super().__init__()
        self.ways = nn.ModuleList(ways)

    def forward(self, x):
        return torch.cat([way(x) for way in self.ways], 1)


def googlenet() -> nn.Module:
    def relu_conv(i: int, o: int, kernel: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(i, o, kernel, padding=kernel // 2), nn.ReLU())

    def inception(i: int, a: int, b: tuple[int, int], c: tuple[int, int], d: int) -> nn.Module:
        return Branches(relu_conv(i, a, 1), nn.Sequential(relu_conv(i, b[0], 1), relu_conv(b[0], b[1], 3)),
                        nn.Sequential(relu_conv(i, c[0], 1), relu_conv(c[0], c[1], 5)),
                        nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), relu_conv(i, d, 1)))

    return nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
                         nn.LocalResponseNorm(5), relu_conv(16, 16, 1), relu_conv(16, 32, 3), nn.LocalResponseNorm(5),
                         nn.MaxPool2d(3, 2, ceil_mode=True), inception(32, 16, (12, 24), (4, 8), 8),
                         inception(56, 16, (16, 32), (4, 8), 8), nn.MaxPool2d(3, 2, ceil_mode=True),
                         inception(64, 32, (16, 40), (8, 16), 16), nn.AvgPool2d(4), nn.Flatten(), nn.Dropout(0.4),
                         nn.Linear(104, CLASSES))


def inception_v3() -> nn.Module:
    def line(i: int, o: int, size: int, along: int) -> nn.Sequential:
        kernel = (1, size) if along else (size, 1)
        return conv_bn(i, o, kernel, padding=(kernel[0] // 2, kernel[1] // 2))

    block_a = Branches(conv_bn(24, 16, 1), nn.Sequential(conv_bn(24, 12, 1), conv_bn(12, 16, 5)),
                       nn.Sequential(conv_bn(24, 16, 1), conv_bn(16, 24), conv_bn(24, 24)),
                       nn.Sequential(nn.AvgPool2d(3, 1, 1), conv_bn(24, 8, 1)))
    down = Branches(conv_bn(64, 32, 3, 2, padding=0), nn.Sequential(conv_bn(64, 16, 1), conv_bn(16, 16, 3, 2, padding=0)),
                    nn.MaxPool2d(3, 2))
    block_c = Branches(conv_bn(112, 32, 1), nn.Sequential(conv_bn(112, 16, 1), line(16, 16, 7, 0), line(16, 32, 7, 1)),
                       nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv_bn(112, 32, 1)))
    block_e = nn.Sequential(conv_bn(96, 48, 1), Branches(line(48, 48, 3, 0), line(48, 48, 3, 1)))
    return nn.Sequential(conv_bn(3, 8, 3, 2, padding=0), conv_bn(8, 16), nn.MaxPool2d(3, 2), conv_bn(16, 24, padding=0),
                         block_a, down, block_c, block_e, Head(96, 0.5))


class Fire(nn.Module):
    def __init__(self, i: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = nn.Conv2d(i, squeeze, 1)
        self.one, self.three = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), pool, Fire(16, 8, 16), Fire(32, 8, 16), pool, Fire(32, 12, 24),
                         Fire(48, 12, 32), nn.Dropout(0.5), nn.Conv2d(64, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(1))


class ShuffleUnit(nn.Module):
    """Half of the channels go through; then both halves are dealt like cards."""

    def __init__(self, channels: int, down: bool):
        super().__init__()
        i = channels if down else channels // 2
        self.down, stride = down, 2 if down else 1
        self.body = nn.Sequential(conv_bn(i, i, 1), conv_bn(i, i, 3, stride, groups=i, act=None), conv_bn(i, i, 1))
        self.side = nn.Sequential(conv_bn(i, i, 3, 2, groups=i, act=None), conv_bn(i, i, 1)) if down else None

    def forward(self, x):
        if self.down:
            x = torch.cat([self.side(x), self.body(x)], 1)
        else:
            left, right = x.chunk(2, 1)
            x = torch.cat([left, self.body(right)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet_v2() -> nn.Module:
    return nn.Sequential(conv_bn(3, 12, 3, 2), nn.MaxPool2d(3, 2, 1), ShuffleUnit(12, True), ShuffleUnit(24, False),
                         ShuffleUnit(24, True), ShuffleUnit(48, False), ShuffleUnit(48, False), conv_bn(48, 96, 1), Head(96))


def vgg() -> nn.Module:
    layers, before = [], 3
    for width, count in [(8, 1), (16, 1), (32, 2), (32, 2)]:
        for _ in range(count):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 64),
                         nn.ReLU(), nn.Dropout(), nn.Linear(64, CLASSES))


def alexnet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 11, 4, 2), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 2.0), nn.MaxPool2d(3, 2),
                         nn.Conv2d(16, 32, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 2.0),
                         nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(),
                         nn.Linear(48 * 9, 64), nn.ReLU(), nn.Linear(64, CLASSES))


class RegNetBlock(nn.Module):
    def __init__(self, i: int, o: int, stride: int, group_width: int = 8):
        super().__init__()
        self.body = nn.Sequential(conv_bn(i, o, 1), conv_bn(o, o, 3, stride, groups=o // group_width),
                                  SqueezeExcite(o, i // 4), conv_bn(o, o, 1, act=None))
        self.shortcut = conv_bn(i, o, 1, stride, act=None) if stride > 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def regnet() -> nn.Module:
    return nn.Sequential(conv_bn(3, 16, 3, 2), RegNetBlock(16, 24, 2), RegNetBlock(24, 56, 2), RegNetBlock(56, 56, 1),
                         RegNetBlock(56, 88, 2), Head(88))


class StandardizedConv(nn.Conv2d):
    """Its weights are brought to mean 0 and variance 1 / fan-in for each output channel, with a learned gain."""

    def __init__(self, i: int, o: int, kernel: int, stride: int = 1, groups: int = 1):
        super().__init__(i, o, kernel, stride, kernel // 2, groups=groups)
        self.gain = nn.Parameter(torch.ones(o, 1, 1, 1))

    def forward(self, x):
        variance, mean = torch.var_mean(self.weight, dim=[1, 2, 3], keepdim=True)
        scale = torch.rsqrt(torch.clamp(variance * self.weight[0].numel(), min=1e-4))
        weight = (self.weight - mean) * (scale * (1 + self.gain))
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, groups=self.groups)


class NFBlock(nn.Module):
    """Normalizer-free: scaled GELU before each convolution, a gate of twice the sigmoid, and a skip gain that starts small."""

    def __init__(self, i: int, o: int, stride: int, beta: float):
        super().__init__()
        self.beta, self.stride = beta, stride
        self.one, self.three = StandardizedConv(i, o // 2, 1), StandardizedConv(o // 2, o // 2, 3, stride, o // 16)
        self.out, self.se = StandardizedConv(o // 2, o, 1), SqueezeExcite(o, o // 2)
        self.shortcut = StandardizedConv(i, o, 1) if stride > 1 or i != o else None
        self.skip_gain = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        y = F.gelu(x) * 1.7 * self.beta
        side = x if self.shortcut is None else self.shortcut(F.avg_pool2d(y, 2, ceil_mode=True) if self.stride > 1 else y)
        y = self.out(F.gelu(self.three(F.gelu(self.one(y)) * 1.7)) * 1.7)
        return side + 2 * self.se(y) * self.skip_gain * 0.2


def nfnet() -> nn.Module:
    return nn.Sequential(StandardizedConv(3, 16, 3, 2), NFBlock(16, 32, 1, 1.0), NFBlock(32, 64, 2, 0.97),
                         NFBlock(64, 64, 1, 0.9), nn.GELU(), Head(64, 0.2))


def classifier(build, extent: int = 64, **more) -> Entry:
    return Entry(images(extent), ("logits",), build=build, loss="cross-entropy", **more)


NETWORKS = {
    "resnet18": classifier(resnet18),
    "mobilenet_v2": classifier(mobilenet_v2, route="script", opset=13),
    "mobilenet_v3": classifier(mobilenet_v3),
    "efficientnet": classifier(efficientnet, opset=18),
    "densenet": classifier(densenet, route="script", opset=13),
    "googlenet": classifier(googlenet, route="script", opset=17),
    "inception_v3": classifier(inception_v3, 75),
    "squeezenet": classifier(squeezenet, route="script", opset=11),
    "shufflenet_v2": classifier(shufflenet_v2),
    "vgg": classifier(vgg, route="script", opset=9),
    "alexnet": classifier(alexnet, 63, route="script", opset=13),
    "regnet": classifier(regnet, opset=23),
    "nfnet": classifier(nfnet),
}
