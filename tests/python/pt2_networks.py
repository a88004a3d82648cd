"""Small networks as torch.export takes them, from configurations and by hand, with the loss inside: what the door of exported
programs (.pt2) is judged by.

A network is a module whose forward gives the loss, and its inputs by name: a shape, and for integers what they stay below. The
programs are exported in training mode, so that dropouts and batch norms say what they do there.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Entry:
    build: Callable[[], nn.Module]
    inputs: dict[str, tuple[tuple[int, ...], int | None]]  # shape, and the limit of integers
    dynamic: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)  # dims that stay symbols
    has_norms: bool = False  # batch normalization
    onnx: bool = True  # PyTorch's ONNX exporter takes it too


def token_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


class Tokens(nn.Module):
    """A language model of transformers with labels: its own loss."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids, labels):
        return self.model(input_ids=ids, labels=labels).loss


class Images(nn.Module):
    def __init__(self, model: nn.Module, picked=lambda output: output):
        super().__init__()
        self.model, self.picked = model, picked

    def forward(self, images, labels):
        return F.cross_entropy(self.picked(self.model(images)), labels)


class Residual(nn.Module):
    """A bottleneck as in ResNet-50, with what writes in place."""

    def __init__(self, channels_in: int, width: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Sequential(nn.Conv2d(channels_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += self.shortcut(x)
        return self.relu(y)


def resnet() -> nn.Module:
    stem = [nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual(8, 4, 1), Residual(16, 8, 2)]
    return Images(nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)))


class UNet(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()

        def block(channels_in, channels_out):
            return nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
                nn.BatchNorm2d(channels_out),
                nn.ReLU(inplace=True),
            )

        self.down1, self.down2, self.pool = block(3, width), block(width, 2 * width), nn.MaxPool2d(2)
        self.up, self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2), block(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        skip = self.down1(x)
        return self.head(self.up1(torch.cat([skip, self.up(self.down2(self.pool(skip)))], 1)))


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary: int = 50, width: int = 16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.transformer = nn.Transformer(width, 2, 1, 1, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source, target, labels):
        mask = torch.triu(torch.full((target.shape[1], target.shape[1]), float("-inf")), diagonal=1)
        y = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
        return token_loss(self.head(y), labels)


class LowRank(nn.Module):
    """A frozen layer beside one of low rank that is trained (LoRA)."""

    def __init__(self, layer: nn.Linear, rank: int = 2):
        super().__init__()
        self.layer = layer
        layer.weight.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + 0.5 * self.up(self.down(x))


class LoraClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        self.embed.weight.requires_grad_(False)
        self.norm = nn.LayerNorm(16)
        self.layers = nn.ModuleList(LowRank(nn.Linear(16, 16)) for _ in range(2))
        self.head = nn.Linear(16, 5)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + F.silu(layer(self.norm(x)))
        return F.cross_entropy(self.head(x.mean(1)), labels)


class Mixture(nn.Module):
    """Ops that the others do not have: rows of a padded embedding, norms of groups and of squares, gates, resizing."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8, padding_idx=2)
        self.group, self.square = nn.GroupNorm(2, 8), nn.RMSNorm(8)
        self.conv = nn.Conv1d(8, 8, 3, padding="same")
        self.prelu, self.out = nn.PReLU(8), nn.Linear(8, 4)

    def forward(self, ids, x, target):
        y = self.embed(ids) * x.unsqueeze(-1)
        y = self.prelu(self.group(self.conv(y.transpose(1, 2))))
        y = F.interpolate(y, scale_factor=2, mode="nearest").unflatten(2, (-1, 2)).amax(-1)
        y = self.square(F.glu(torch.cat([y, y.roll(1, 2)], 1), 1).permute(0, 2, 1))
        y = torch.where(y > 0, y, F.softplus(y).sub(0.5)).clamp(-2, 2)
        kept = torch.einsum("bte,btf->bef", y, F.elu(y)).std(2) + y.var(1, correction=0) + y.norm(dim=1)
        with torch.no_grad():
            scale = kept.abs().mean()
        return F.mse_loss(self.out(kept / (1 + scale + kept.detach().max())), target)


def transformers_model(kind: str) -> nn.Module:
    import transformers as t

    small = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    if kind == "bert":
        return Tokens(t.BertForMaskedLM(t.BertConfig(vocab_size=60, max_position_embeddings=16, **small)))
    if kind == "gpt2":
        return Tokens(
            t.GPT2LMHeadModel(t.GPT2Config(vocab_size=60, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False))
        )
    if kind == "llama":
        return Tokens(t.LlamaForCausalLM(t.LlamaConfig(vocab_size=60, num_key_value_heads=1, use_cache=False, **small)))
    if kind == "t5":
        return Tokens(
            t.T5ForConditionalGeneration(
                t.T5Config(
                    vocab_size=60,
                    d_model=16,
                    d_kv=8,
                    d_ff=32,
                    num_layers=2,
                    num_heads=2,
                    decoder_start_token_id=0,
                    use_cache=False,
                )
            )
        )
    if kind == "vit":
        model = t.ViTForImageClassification(t.ViTConfig(image_size=16, patch_size=4, num_labels=10, **small))
    else:
        model = t.ConvNextForImageClassification(
            t.ConvNextConfig(
                hidden_sizes=[4, 8, 8, 8], depths=[1, 1, 1, 1], image_size=32, patch_size=4, num_labels=10, drop_path_rate=0.0
            )
        )
    return Images(model, lambda output: output.logits)


TOKENS = {"ids": ((2, 8), 60), "labels": ((2, 8), 60)}


def images(size: int, labels: tuple[int, ...] = (2,), classes: int = 10) -> dict:
    return {"images": ((2, 3, size, size), None), "labels": (labels, classes)}


NETWORKS = {
    "bert": Entry(lambda: transformers_model("bert"), TOKENS),
    "gpt2": Entry(lambda: transformers_model("gpt2"), TOKENS),
    "llama": Entry(lambda: transformers_model("llama"), TOKENS),
    "t5": Entry(lambda: transformers_model("t5"), TOKENS),
    "vit": Entry(lambda: transformers_model("vit"), images(16)),
    "convnext": Entry(lambda: transformers_model("convnext"), images(32)),
    "resnet": Entry(resnet, images(32), has_norms=True),
    "unet": Entry(lambda: Images(UNet()), images(16, (2, 16, 16), 2), has_norms=True),
    "transformer": Entry(Seq2Seq, {"source": ((2, 6), 50), "target": ((2, 5), 50), "labels": ((2, 5), 50)}),
    "lora": Entry(
        LoraClassifier, {"ids": ((4, 6), 40), "labels": ((4,), 5)}, dynamic={"ids": {0: "batch"}, "labels": {0: "batch"}}
    ),
    "mixture": Entry(Mixture, {"ids": ((3, 6), 12), "x": ((3, 6), None), "target": ((3, 4), None)}),
}


def build(name: str) -> nn.Module:
    """In training mode, with parameters and running statistics drawn from a seed."""
    torch.manual_seed(1)
    model = NETWORKS[name].build()
    with torch.no_grad():
        for key, tensor in model.named_buffers():
            if key.endswith(("running_mean", "running_var")):
                tensor.uniform_(0.5, 1.5)
        for module in model.modules():
            if isinstance(module, nn.Embedding) and name == "mixture":
                module.weight.normal_()  # its row of padding, too: it is read and stays
    return model.train()


def examples(name: str) -> tuple[torch.Tensor, ...]:
    return tuple(
        torch.zeros(shape) if limit is None else torch.randint(0, limit, shape) for shape, limit in NETWORKS[name].inputs.values()
    )


def program(name: str) -> torch.export.ExportedProgram:
    entry = NETWORKS[name]
    dims: dict[str, torch.export.Dim] = {}
    shapes = (
        {
            key: {
                d: dims.setdefault(word, torch.export.Dim(word, min=2, max=64)) for d, word in entry.dynamic.get(key, {}).items()
            }
            for key in entry.inputs
        }
        if entry.dynamic
        else None
    )
    return torch.export.export(build(name), examples(name), dynamic_shapes=shapes)


def save(name: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f"{name}.pt2"
    torch.export.save(program(name), path)
    return path
