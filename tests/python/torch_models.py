"""Small networks of the kinds that people train, and eager mode beside a planned step: equal bit for bit or not.

`build(name, dropout)` gives (model, batch, loss_fn). Sizes are for tests: every kind of op, in milliseconds. At these sizes
the scratch of a convolution's backward pass, which differs from processor to processor, is more than half of a peak of the
networks of images: what a test says of peaks holds on every processor with `samples` and `side` of LARGE_IMAGES.
"""

import contextlib
import copy
import os

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import neural_operators  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

LANGUAGE = {"vocab_size": 96, "use_cache": False}
LARGE_IMAGES = {"samples": 8, "side": 64}


@contextlib.contextmanager
def torch_models_language(**changes):
    """Other sizes of the language models that are built within."""
    before = dict(LANGUAGE)
    LANGUAGE.update(changes)
    try:
        yield
    finally:
        LANGUAGE.update(before)


class Bottleneck(nn.Module):
    """Of a ResNet-50: 1x1, 3x3, 1x1, each with a norm; ReLU and the sum in place."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = None
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.body(x)
        out += x if self.short is None else self.short(x)
        return self.relu(out)


def resnet(blocks=(1, 1, 1, 1), width=8, classes=10):
    stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs, body = width, []
    for stage, count in enumerate(blocks):
        for k in range(count):
            body.append(Bottleneck(inputs, width << stage, 2 if stage and not k else 1))
            inputs = 4 * (width << stage)
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=4, classes=2, depth=4):
        super().__init__()
        sizes = [width << k for k in range(depth + 1)]
        self.down = nn.ModuleList([double(3, sizes[0]), *(double(a, b) for a, b in zip(sizes, sizes[1:], strict=False))])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * s, s, 2, 2) for s in reversed(sizes[:-1])])
        self.join = nn.ModuleList([double(2 * s, s) for s in reversed(sizes[:-1])])
        self.pool, self.out = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for k, block in enumerate(self.down):
            x = block(self.pool(x) if k else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        return self.out(x)


class Translator(nn.Module):
    """nn.Transformer. It says that its mask is causal: otherwise PyTorch looks into the mask to find out."""

    def __init__(self, dropout, causal=True):
        super().__init__()
        self.embed, self.head, self.causal = nn.Embedding(50, 16), nn.Linear(16, 50), causal
        self.body = nn.Transformer(16, 2, 1, 1, 32, dropout=dropout, batch_first=True)

    def forward(self, source, target):
        mask = torch.full((target.shape[1],) * 2, float("-inf"), device=target.device).triu(1)
        said = {"tgt_is_causal": True} if self.causal else {}
        return self.head(self.body(self.embed(source), self.embed(target), tgt_mask=mask, **said))


class LowRank(nn.Module):
    """A frozen linear layer with a trained one of low rank beside it."""

    def __init__(self, linear, rank=2):
        super().__init__()
        self.linear, self.down, self.up = linear.requires_grad_(False), nn.Linear(linear.in_features, rank, bias=False), \
            nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


def asserted(x):
    """Looks into its argument by an assertion; here, as pytest rewrites those of test files."""
    assert (x < 50).all(), "too large"
    return x * 2


def _language(model, labels=True, seq=8):
    ids = torch.randint(0, 90, (2, seq))
    return model, {"input_ids": ids, "labels": ids.clone()}, lambda m, batch: m(**batch).loss


def _classes(model, *inputs, classes=10):
    labels = torch.randint(0, classes, (inputs[0].shape[0],))
    return model, (*inputs, labels), lambda m, batch: F.cross_entropy(_logits(m(*batch[:-1])), batch[-1])


def _logits(out):
    return out if isinstance(out, torch.Tensor) else out.logits


def _transformer(name, dropout):
    t = pytest.importorskip("transformers")
    small = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if name == "bert":
        return _language(t.BertForMaskedLM(t.BertConfig(**small, **drops, **LANGUAGE)))
    if name in ("gpt2", "lora"):
        config = t.GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=32, resid_pdrop=dropout, embd_pdrop=dropout,
                              attn_pdrop=dropout, bos_token_id=0, eos_token_id=0, **LANGUAGE)
        model = t.GPT2LMHeadModel(config)
        model.loss_type = "ForCausalLM"  # otherwise it logs a warning in the loss, where dynamo breaks the graph
        return _language(model)
    if name == "llama":
        return _language(t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=1, **small, **LANGUAGE)))
    if name == "t5":
        config = t.T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=dropout,
                            decoder_start_token_id=0, **LANGUAGE)
        return _language(t.T5ForConditionalGeneration(config))
    if name == "vit":
        config = t.ViTConfig(num_labels=10, image_size=16, patch_size=8, **small, **drops)
        return _classes(t.ViTForImageClassification(config), torch.randn(2, 3, 16, 16))
    config = t.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=10, drop_path_rate=dropout)
    return _classes(t.ConvNextForImageClassification(config), torch.randn(2, 3, 32, 32))


def _lora(dropout):
    model, batch, loss = _transformer("llama", dropout)
    model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = LowRank(layer.self_attn.q_proj)
        layer.self_attn.v_proj = LowRank(layer.self_attn.v_proj)
    return model, batch, loss


NAMES = ("bert", "gpt2", "llama", "t5", "vit", "convnext", "transformer", "resnet", "unet", "lora", "uno", "fno",
         "tfno")


def build(name, dropout=0.0, samples=2, side=32):
    """`samples` images of `side` by `side` pixels, if it is a resnet or a unet."""
    torch.manual_seed(0)
    if name == "resnet":
        made = _classes(resnet(), torch.randn(samples, 3, side, side))
    elif name == "unet":
        batch = (torch.randn(samples, 3, side, side), torch.randint(0, 2, (samples, side, side)))
        made = UNet(), batch, lambda m, b: F.cross_entropy(m(b[0]), b[1])
    elif name in neural_operators.BUILD:
        batch = (torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16))
        made = neural_operators.BUILD[name](), batch, lambda m, b: F.mse_loss(m(b[0]), b[1])
    elif name == "transformer":
        batch = tuple(torch.randint(0, 50, (2, 6)) for _ in range(3))
        made = Translator(dropout), batch, lambda m, b: F.cross_entropy(m(b[0], b[1]).flatten(0, 1), b[2].flatten())
    else:
        made = _lora(dropout) if name == "lora" else _transformer(name, dropout)
    made[0].train()
    return made


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


OPTIMIZERS = {
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-3, fused=True),
    "sgd": lambda ps: torch.optim.SGD(ps, lr=1e-2, momentum=0.9, nesterov=True, weight_decay=1e-4),
}


def eager_step(model, loss_fn, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = loss_fn(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def differences(model, optimizer, other, other_optimizer):
    """Names of tensors that are not equal bit for bit."""
    found = [name for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True)
             if not torch.equal(a, b)]
    found += [name for (name, a), (_, b) in zip(model.named_buffers(), other.named_buffers(), strict=True)
              if not torch.equal(a, b)]
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        mine, its = optimizer.state.get(a, {}), other_optimizer.state.get(b, {})
        found += [f"{key} of {name}" for key, value in its.items()
                  if isinstance(value, torch.Tensor) and not torch.equal(value, mine[key])]
    return found


def twin(model, optimizer_of):
    """A copy of the model, and an optimizer for each."""
    other = copy.deepcopy(model)
    return other, optimizer_of(trained(model)), optimizer_of(trained(other))


def assert_equal_steps(step, model, optimizer, other, other_optimizer, loss_fn, batch, steps=3):
    """Runs both from the same random state and compares everything after each step."""
    for k in range(steps):
        torch.manual_seed(k)
        loss = step(batch)
        after = torch.get_rng_state()
        torch.manual_seed(k)
        wanted = eager_step(other, loss_fn, other_optimizer, batch)
        assert torch.equal(loss, wanted), (k, loss, wanted)
        assert differences(model, optimizer, other, other_optimizer) == []
        assert torch.equal(after, torch.get_rng_state()), "the random stream"
