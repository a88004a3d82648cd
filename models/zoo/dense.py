"""Networks that say something about every pixel or place: detectors, segmenters, and what makes images.

FPN with RetinaNet's heads (Lin et al. 2017), a YOLO-like detector with PAN, SPPF and decoded boxes, SSD (Liu et al. 2016),
UNet++ (Zhou et al. 2018), DeepLabV3 (Chen et al. 2017), SegFormer (Xie et al. 2021), ESPCN (Shi et al. 2016), DCGAN (Radford
et al. 2016), fast style transfer (Johnson et al. 2016), a variational autoencoder, and a diffusion U-Net (Ho et al. 2020).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .classification import Branches, conv_bn
from .spec import Entry, Feed, images


class FeaturePyramid(nn.Module):
    """Lateral 1x1 convolutions, nearest enlarging from the top down, one head for all levels."""

    def __init__(self, anchors: int = 3, classes: int = 4):
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(conv_bn(3, 16, 3, 2), conv_bn(16, 16, 3, 2)), conv_bn(16, 32, 3, 2),
                                     conv_bn(32, 64, 3, 2)])
        self.lateral = nn.ModuleList(nn.Conv2d(width, 24, 1) for width in (16, 32, 64))
        self.smooth = nn.ModuleList(nn.Conv2d(24, 24, 3, padding=1) for _ in range(3))
        self.extra = nn.Conv2d(24, 24, 3, 2, 1)
        self.scores = nn.Sequential(nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, anchors * classes, 3, padding=1))
        self.boxes = nn.Sequential(nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, anchors * 4, 3, padding=1))
        self.classes = classes

    def forward(self, x):
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        levels = [lateral(level) for lateral, level in zip(self.lateral, levels)]
        for index in (1, 0):
            size = levels[index].shape[-2:]
            levels[index] = levels[index] + F.interpolate(levels[index + 1], size=size, mode="nearest")
        levels = [smooth(level) for smooth, level in zip(self.smooth, levels)]
        levels.append(self.extra(F.relu(levels[-1])))
        n = x.shape[0]
        scores = [self.scores(level).permute(0, 2, 3, 1).reshape(n, -1, self.classes) for level in levels]
        boxes = [self.boxes(level).permute(0, 2, 3, 1).reshape(n, -1, 4) for level in levels]
        return torch.cat(scores, 1).sigmoid(), torch.cat(boxes, 1)


class CrossStage(nn.Module):
    """Half of the channels goes through bottlenecks, and every result stays."""

    def __init__(self, i: int, o: int, count: int = 1):
        super().__init__()
        half = o // 2
        self.half = half
        self.into, self.out = conv_bn(i, o, 1, act=nn.SiLU), conv_bn((2 + count) * half, o, 1, act=nn.SiLU)
        self.body = nn.ModuleList(nn.Sequential(conv_bn(half, half, act=nn.SiLU), conv_bn(half, half, act=nn.SiLU))
                                  for _ in range(count))

    def forward(self, x):
        parts = list(self.into(x).split((self.half, self.half), 1))
        for block in self.body:
            parts.append(parts[-1] + block(parts[-1]))
        return self.out(torch.cat(parts, 1))


class PyramidPooling(nn.Module):
    """Three poolings one after another see ever larger windows."""

    def __init__(self, width: int):
        super().__init__()
        self.into, self.out = conv_bn(width, width // 2, 1, act=nn.SiLU), conv_bn(2 * width, width, 1, act=nn.SiLU)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.into(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.out(torch.cat(parts, 1))


class Yolo(nn.Module):
    """Features down, up and down again; each level's boxes are decoded on its grid: distances as expected values over bins."""

    def __init__(self, classes: int = 5, bins: int = 8):
        super().__init__()
        self.classes, self.bins = classes, bins
        swish = nn.SiLU
        self.down3 = nn.Sequential(conv_bn(3, 8, 3, 2, act=swish), conv_bn(8, 16, 3, 2, act=swish), CrossStage(16, 16),
                                   conv_bn(16, 32, 3, 2, act=swish), CrossStage(32, 32, 2))
        self.down4 = nn.Sequential(conv_bn(32, 48, 3, 2, act=swish), CrossStage(48, 48))
        self.down5 = nn.Sequential(conv_bn(48, 64, 3, 2, act=swish), CrossStage(64, 64), PyramidPooling(64))
        self.enlarge = nn.Upsample(scale_factor=2)
        self.up4, self.up3 = CrossStage(112, 48), CrossStage(80, 32)
        self.again4, self.again5 = conv_bn(32, 32, 3, 2, act=swish), conv_bn(48, 48, 3, 2, act=swish)
        self.out4, self.out5 = CrossStage(80, 48), CrossStage(112, 64)
        self.boxes = nn.ModuleList(nn.Sequential(conv_bn(w, 16, act=swish), nn.Conv2d(16, 4 * bins, 1)) for w in (32, 48, 64))
        self.scores = nn.ModuleList(nn.Sequential(conv_bn(w, 16, act=swish), nn.Conv2d(16, classes, 1)) for w in (32, 48, 64))

    def decode(self, level, boxes, stride: int):
        n, _, h, w = boxes.shape
        y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        centers = torch.stack([x, y]).reshape(1, 2, -1).to(boxes.dtype)
        parts = boxes.view(n, 4, self.bins, h * w).transpose(2, 1).softmax(1)
        distance = (parts * torch.arange(self.bins, dtype=boxes.dtype).view(1, self.bins, 1, 1)).sum(1)
        near, far = distance.chunk(2, 1)
        low, high = centers - near, centers + far
        return torch.cat([(low + high) / 2, high - low], 1) * stride

    def forward(self, x):
        p3 = self.down3(x)
        p4 = self.down4(p3)
        p5 = self.down5(p4)
        p4 = self.up4(torch.cat([self.enlarge(p5), p4], 1))
        p3 = self.up3(torch.cat([self.enlarge(p4), p3], 1))
        p4 = self.out4(torch.cat([self.again4(p3), p4], 1))
        p5 = self.out5(torch.cat([self.again5(p4), p5], 1))
        found = []
        for index, level in enumerate((p3, p4, p5)):
            boxes = self.decode(index, self.boxes[index](level), 8 << index)
            found.append(torch.cat([boxes, self.scores[index](level).flatten(2).sigmoid()], 1))
        return torch.cat(found, 2)


class Ssd(nn.Module):
    """Two levels, boxes decoded from default ones; the first level's features are brought to length 20 at each place."""

    def __init__(self, classes: int = 6, anchors: int = 4):
        super().__init__()
        self.classes = classes
        self.early = nn.Sequential(conv_bn(3, 16, 3, 2), conv_bn(16, 32, 3, 2), conv_bn(32, 32))
        self.late = nn.Sequential(conv_bn(32, 48, 3, 2), conv_bn(48, 64))
        self.scale = nn.Parameter(torch.full((32,), 20.0))
        self.boxes = nn.ModuleList(nn.Conv2d(width, anchors * 4, 3, padding=1) for width in (32, 64))
        self.scores = nn.ModuleList(nn.Conv2d(width, anchors * classes, 3, padding=1) for width in (32, 64))
        total = anchors * (12 * 12 + 6 * 6)
        generator = torch.Generator().manual_seed(5)
        self.register_buffer("defaults", torch.rand(1, total, 4, generator=generator) * 0.5 + 0.25)

    def forward(self, x):
        early = self.early(x)
        late = self.late(early)
        levels = (F.normalize(early, dim=1) * self.scale.view(1, -1, 1, 1), late)
        n = x.shape[0]
        boxes = torch.cat([head(f).permute(0, 2, 3, 1).reshape(n, -1, 4) for head, f in zip(self.boxes, levels)], 1)
        scores = torch.cat([head(f).permute(0, 2, 3, 1).reshape(n, -1, self.classes)
                            for head, f in zip(self.scores, levels)], 1)
        centers = boxes[..., :2] * 0.1 * self.defaults[..., 2:] + self.defaults[..., :2]
        extents = torch.exp(boxes[..., 2:] * 0.2) * self.defaults[..., 2:]
        return torch.cat([centers - extents / 2, centers + extents / 2], -1), scores.softmax(-1)


class NestedUNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (8, 16, 32, 48)):
        super().__init__()
        self.depth, self.pool = len(widths), nn.MaxPool2d(2)
        self.enlarge = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.nodes = nn.ModuleDict()
        for row in range(self.depth):
            self.nodes[f"{row}_0"] = nn.Sequential(conv_bn(3 if row == 0 else widths[row - 1], widths[row]),
                                                   conv_bn(widths[row], widths[row]))
            for column in range(1, self.depth - row):
                self.nodes[f"{row}_{column}"] = conv_bn(widths[row] * column + widths[row + 1], widths[row])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        made = {}
        for row in range(self.depth):
            made[row, 0] = self.nodes[f"{row}_0"](x if row == 0 else self.pool(made[row - 1, 0]))
        for column in range(1, self.depth):
            for row in range(self.depth - column):
                beside = [made[row, k] for k in range(column)]
                made[row, column] = self.nodes[f"{row}_{column}"](
                    torch.cat([*beside, self.enlarge(made[row + 1, column - 1])], 1))
        return self.head(made[0, self.depth - 1])


class DeepLab(nn.Module):
    """Dilated stages, dilated convolutions side by side with the image's mean, and a bilinear way back to its size."""

    def __init__(self, classes: int = 5):
        super().__init__()
        self.backbone = nn.Sequential(conv_bn(3, 16, 3, 2), conv_bn(16, 32, 3, 2),
                                      nn.Conv2d(32, 48, 3, padding=2, dilation=2, bias=False), nn.BatchNorm2d(48), nn.ReLU())
        dilated = [nn.Sequential(nn.Conv2d(48, 24, 3, padding=rate, dilation=rate, bias=False), nn.BatchNorm2d(24), nn.ReLU())
                   for rate in (2, 4, 6)]
        self.ways = Branches(conv_bn(48, 24, 1), *dilated)
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(48, 24, 1), nn.ReLU())
        self.project = nn.Sequential(conv_bn(120, 32, 1), nn.Dropout(0.5), conv_bn(32, 32), nn.Conv2d(32, classes, 1))

    def forward(self, x):
        y = self.backbone(x)
        mean = F.interpolate(self.mean(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.project(torch.cat([self.ways(y), mean], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


def segformer() -> nn.Module:
    import transformers

    class Segmenter(transformers.SegformerForSemanticSegmentation):
        def forward(self, x):
            return super().forward(x).logits

    config = transformers.SegformerConfig(num_encoder_blocks=3, drop_path_rate=0.0, depths=[1, 1, 1], sr_ratios=[4, 2, 1],
                                          hidden_sizes=[16, 24, 32],
                                          patch_sizes=[7, 3, 3], strides=[4, 2, 2], num_attention_heads=[1, 2, 4],
                                          mlp_ratios=[2, 2, 2], decoder_hidden_size=24, num_labels=4)
    return Segmenter._from_config(config, attn_implementation="eager")


class SuperResolution(nn.Sequential):
    def __init__(self, factor: int = 3):
        super().__init__(nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 16, 3, padding=1), nn.PReLU(16),
                         nn.Conv2d(16, factor * factor, 3, padding=1), nn.PixelShuffle(factor))


class Generator(nn.Sequential):
    def __init__(self, latent: int = 24, width: int = 16):
        super().__init__(nn.ConvTranspose2d(latent, 4 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(),
                         nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
                         nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1, bias=False), nn.BatchNorm2d(width),
                         nn.LeakyReLU(0.2), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


class StyleTransfer(nn.Module):
    """Reflected borders, instance normalization, residual blocks, nearest enlarging before convolutions."""

    def __init__(self):
        super().__init__()

        def conv(i: int, o: int, kernel: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.ReflectionPad2d(kernel // 2), nn.Conv2d(i, o, kernel, stride))

        def normed(i: int, o: int, kernel: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(conv(i, o, kernel, stride), nn.InstanceNorm2d(o, affine=True))

        self.into = nn.Sequential(normed(3, 8, 9), nn.ReLU(), normed(8, 16, 3, 2), nn.ReLU(), normed(16, 32, 3, 2), nn.ReLU())
        self.residual = nn.ModuleList(nn.Sequential(normed(32, 32, 3), nn.ReLU(), normed(32, 32, 3)) for _ in range(2))
        self.out = nn.Sequential(nn.Upsample(scale_factor=2), normed(32, 16, 3), nn.ReLU(), nn.Upsample(scale_factor=2),
                                 normed(16, 8, 3), nn.ReLU(), conv(8, 3, 9))

    def forward(self, x):
        x = self.into(x)
        for block in self.residual:
            x = x + block(x)
        return self.out(x)


class VariationalAutoencoder(nn.Module):
    """The noise is an input, so that the same draw can be given twice."""

    def __init__(self, latent: int = 12):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ELU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ELU(), nn.Flatten())
        self.mean, self.log_variance = nn.Linear(32 * 49, latent), nn.Linear(32 * 49, latent)
        self.decode = nn.Sequential(nn.Linear(latent, 32 * 49), nn.Softplus(), nn.Unflatten(1, (32, 7, 7)),
                                    nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.SELU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
                                    nn.Sigmoid())

    def forward(self, x, noise):
        seen = self.encode(x)
        mean, log_variance = self.mean(seen), self.log_variance(seen).clamp(-8, 8)
        made = self.decode(mean + noise * torch.exp(0.5 * log_variance))
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        return made, divergence


class DiffusionBlock(nn.Module):
    def __init__(self, i: int, o: int, time: int):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, i), nn.GroupNorm(4, o)
        self.conv1, self.conv2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.time, self.side = nn.Linear(time, o), nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.side(x) + self.conv2(F.silu(self.norm2(y)))


class SpatialAttention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(4, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, c, h * w).unbind(1)
        weights = torch.einsum("bci,bcj->bij", q * c**-0.5, k).softmax(-1)
        return x + self.out(torch.einsum("bij,bcj->bci", weights, v).view(n, c, h, w))


class DiffusionUNet(nn.Module):
    """Predicts the noise of a noisy image at a time, which enters as sines and cosines."""

    def __init__(self, width: int = 16, time: int = 32):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.into, self.down1 = nn.Conv2d(3, width, 3, padding=1), DiffusionBlock(width, width, time)
        self.shrink, self.down2 = nn.Conv2d(width, width, 3, 2, 1), DiffusionBlock(width, 2 * width, time)
        self.middle, self.attention = DiffusionBlock(2 * width, 2 * width, time), SpatialAttention(2 * width)
        self.up = DiffusionBlock(3 * width, width, time)
        self.out = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x, step):
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, dtype=x.dtype) / half)
        angles = step[:, None].to(x.dtype) * rates[None]
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        early = self.down1(self.into(x), time)
        y = self.attention(self.middle(self.down2(self.shrink(early), time), time))
        return self.out(self.up(torch.cat([F.interpolate(y, scale_factor=2.0, mode="nearest"), early], 1), time))


NETWORKS = {
    "fpn_retinanet": Entry(images(64), ("scores", "boxes"), build=FeaturePyramid, loss="mse"),
    "yolo": Entry(images(64), ("found",), build=Yolo, loss="mse"),
    "yolo_script": Entry(images(64), ("found",), build=Yolo, route="script", opset=11, loss="mse"),
    "ssd": Entry(images(48), ("boxes", "scores"), build=Ssd, route="script", opset=13, loss="mse"),
    "unetpp": Entry(images(48), ("logits",), build=NestedUNet, loss="cross-entropy"),
    "deeplab": Entry(images(48), ("logits",), build=DeepLab, loss="cross-entropy"),
    "segformer": Entry(images(64), ("logits",), build=segformer, loss="cross-entropy"),
    "super_resolution": Entry(images(20, channels=1), ("image",), build=SuperResolution, route="script", opset=12, loss="mse"),
    "gan_generator": Entry((Feed("z", (2, 24, 1, 1), ((0, "batch"),)),), ("image",), build=Generator, loss="mse"),
    "style_transfer": Entry(images(40), ("image",), build=StyleTransfer, loss="mse"),
    "vae": Entry((*images(28, channels=1), Feed("noise", (2, 12), ((0, "batch"),))), ("image", "divergence"),
                 build=VariationalAutoencoder, loss="mse"),
    "diffusion_unet": Entry((*images(16), Feed("step", (2,), ((0, "batch"),), limit=1000)), ("noise",), build=DiffusionUNet,
                            loss="mse"),
}
