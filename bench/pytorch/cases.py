"""The training steps that bench/torch_steps.py plans: networks with batches and losses, at full size or tiny.

GPT-2, BERT, ResNet-50 and the U-Net are those of models/networks.py, the Llama is of GPT-2's size; all in
f32, with dropout as they come. Tiny ones are for checking the benchmark itself: they differ in widths and
numbers of layers, the ResNet-50 in its images.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.append(str(pathlib.Path(__file__).parents[2] / "models"))

import torch  # noqa: E402
from networks import ResNet50, UNet  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

SEED = 1
TINY_WORDS = 96


@dataclass
class Case:
    """`head`, of a language model: (model, batch) -> the rows that its last layer reads, weight, bias."""

    model: torch.nn.Module
    batch: dict[str, torch.Tensor]
    loss_fn: Callable[[torch.nn.Module, Any], torch.Tensor]
    head: Callable | None = None


def _language(model: torch.nn.Module, rows: int, length: int, head: Callable, words: int) -> Case:
    drawn = torch.Generator().manual_seed(SEED)
    ids, labels = (torch.randint(0, words, (rows, length), generator=drawn) for _ in range(2))

    def loss_fn(net: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        logits = net(input_ids=batch["inputs"]).logits
        return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    return Case(model.train(), {"inputs": ids, "labels": labels}, loss_fn, head)


def gpt2(tiny: bool) -> Case:
    import transformers as t

    size = {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": TINY_WORDS} if tiny else {}
    config = t.GPT2Config(use_cache=False, bos_token_id=0, eos_token_id=0, **size)
    model = t.GPT2LMHeadModel._from_config(config, attn_implementation="eager")
    return _language(model, *((2, 16) if tiny else (4, 256)), _of_gpt2, config.vocab_size)


def _of_gpt2(model: Any, batch: dict) -> tuple:
    return model.transformer(input_ids=batch["inputs"])[0], model.lm_head.weight, None


def bert(tiny: bool) -> Case:
    import transformers as t

    size = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64,
            "vocab_size": TINY_WORDS}
    config = t.BertConfig(**(size if tiny else {}))
    model = t.BertForMaskedLM._from_config(config, attn_implementation="eager")
    return _language(model, *((2, 16) if tiny else (4, 128)), _of_bert, config.vocab_size)


def _of_bert(model: Any, batch: dict) -> tuple:
    decoder = model.cls.predictions.decoder
    rows = model.cls.predictions.transform(model.bert(input_ids=batch["inputs"])[0])
    return rows, decoder.weight, decoder.bias


def llama(tiny: bool) -> Case:
    import transformers as t

    layers, width, heads, inner, words = (2, 32, 4, 64, TINY_WORDS) if tiny else (12, 768, 12, 2048, 32000)
    config = t.LlamaConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, vocab_size=words,
                           intermediate_size=inner, num_key_value_heads=heads // 2, use_cache=False)
    return _language(t.LlamaForCausalLM(config), *((2, 16) if tiny else (4, 256)), _of_llama, words)


def _of_llama(model: Any, batch: dict) -> tuple:
    return model.model(input_ids=batch["inputs"])[0], model.lm_head.weight, None


def _images(model: torch.nn.Module, rows: int, extent: int, labels: tuple[int, ...], classes: int) -> Case:
    drawn = torch.Generator().manual_seed(SEED)
    x = torch.randn(rows, 3, extent, extent, generator=drawn)
    y = torch.randint(0, classes, (rows, *labels), generator=drawn)

    def loss_fn(net: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(net(batch["inputs"]), batch["labels"])

    return Case(model.train(), {"inputs": x, "labels": y}, loss_fn)


def resnet50(tiny: bool) -> Case:
    extents = (8, 64) if tiny else (8, 224)  # of two images of 32 the last norms are over two numbers: rounding decides
    return _images(ResNet50(), *extents, (), 1000)


def unet(tiny: bool) -> Case:
    extent = 32 if tiny else 256
    return _images(UNet(width=4) if tiny else UNet(), 2, extent, (extent, extent), 2)


CASES = {"gpt2": gpt2, "bert": bert, "resnet50": resnet50, "unet": unet, "llama": llama}


def make(name: str, tiny: bool) -> Case:
    """The same parameters and batch each time."""
    torch.manual_seed(SEED)
    return CASES[name](tiny)


def fused(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True)


def step_in_eager_mode(case: Case, loss_fn: Callable, optimizer: torch.optim.Optimizer | None) -> torch.Tensor:
    """One step; without an optimizer hooks are taken to update."""
    loss = loss_fn(case.model, case.batch)
    loss.backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.detach()
