"""Networks on tokens, small: encoders, decoders with and without a past, encoder-decoders, mixtures of experts.

BERT, DistilBERT, GPT-2, Llama and T5 are transformers' own classes with small configurations and random values; what stands
here is their wrapper (plain tensors in and out), a decoder that is given past keys and values, PyTorch's nn.Transformer, and a
mixture of experts whose routing is dense: each expert sees all tokens, and what was not chosen gets weight 0.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .spec import Entry, Feed, tokens

VOCABULARY = 97


def bert(attention: str) -> nn.Module:
    import transformers

    class Bert(transformers.BertForMaskedLM):
        def forward(self, input_ids, attention_mask, token_type_ids):
            return super().forward(input_ids, attention_mask, token_type_ids).logits

    config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=64, max_position_embeddings=32, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    return Bert._from_config(config, attn_implementation=attention)


def distilbert() -> nn.Module:
    import transformers

    class DistilBert(transformers.DistilBertForSequenceClassification):
        def forward(self, input_ids, attention_mask):
            return super().forward(input_ids, attention_mask).logits

    config = transformers.DistilBertConfig(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                           max_position_embeddings=32, dropout=0.0, attention_dropout=0.0,
                                           seq_classif_dropout=0.0, num_labels=3)
    return DistilBert._from_config(config, attn_implementation="eager")


def albert() -> nn.Module:
    """Its layers share their parameters: each is read by every layer."""
    import transformers

    class Albert(transformers.AlbertModel):
        def forward(self, input_ids):
            result = super().forward(input_ids=input_ids)
            return result.last_hidden_state, result.pooler_output

    config = transformers.AlbertConfig(vocab_size=VOCABULARY, embedding_size=16, hidden_size=32, num_hidden_layers=3,
                                       num_attention_heads=4, intermediate_size=64, max_position_embeddings=32,
                                       hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return Albert._from_config(config, attn_implementation="eager")


def gpt2(attention: str) -> nn.Module:
    import transformers

    class Gpt2(transformers.GPT2LMHeadModel):
        def forward(self, input_ids):
            return super().forward(input_ids=input_ids, use_cache=False).logits

    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4, embd_pdrop=0.0,
                                     attn_pdrop=0.0, resid_pdrop=0.0)
    return Gpt2._from_config(config, attn_implementation=attention)


def gpt2_masked() -> nn.Module:
    """With a mask of padding as an input."""
    import transformers

    class Gpt2(transformers.GPT2LMHeadModel):
        def forward(self, input_ids, attention_mask):
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits

    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4, embd_pdrop=0.0,
                                     attn_pdrop=0.0, resid_pdrop=0.0)
    return Gpt2._from_config(config, attn_implementation="eager")


def llama(attention: str) -> nn.Module:
    import transformers

    class Llama(transformers.LlamaForCausalLM):
        def forward(self, input_ids):
            return super().forward(input_ids=input_ids, use_cache=False).logits

    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=88, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    return Llama._from_config(config, attn_implementation=attention)


def t5() -> nn.Module:
    import transformers

    class T5(transformers.T5ForConditionalGeneration):
        def forward(self, input_ids, attention_mask, decoder_input_ids):
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids,
                                   use_cache=False).logits

    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                   relative_attention_num_buckets=8, relative_attention_max_distance=16, dropout_rate=0.0)
    return T5._from_config(config, attn_implementation="eager")


class Translator(nn.Module):
    """nn.Transformer with embeddings, learned positions, a causal mask and an output that is its embedding."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(32, width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, VOCABULARY, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, source, target):
        seen = self.embedding(source) + self.positions(torch.arange(source.shape[1]))
        said = self.embedding(target) + self.positions(torch.arange(target.shape[1]))
        mask = torch.full((target.shape[1], target.shape[1]), float("-inf")).triu(1)
        return self.out(self.transformer(seen, said, tgt_mask=mask, tgt_is_causal=True))


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class DecoderLayer(nn.Module):
    """Attends over past and new keys (fewer heads than queries), rotated by their positions; gated feed-forward."""

    def __init__(self, width: int = 32, heads: int = 4, groups: int = 2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RootMeanSquareNorm(width), RootMeanSquareNorm(width)
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 80, bias=False), nn.Linear(width, 80, bias=False)
        self.down = nn.Linear(80, width, bias=False)

    def forward(self, x, cos, sin, past_key, past_value, mask):
        n, length, width = x.shape
        y = self.norm1(x)
        q = self.q(y).view(n, length, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(n, length, 2 * self.groups, self.size).transpose(1, 2).chunk(2, 1)
        key, value = torch.cat([past_key, rotate(k, cos, sin)], 2), torch.cat([past_value, v], 2)
        shared = self.heads // self.groups
        keys, values = (t.repeat_interleave(shared, 1) for t in (key, value))
        scores = rotate(q, cos, sin) @ keys.transpose(2, 3) / math.sqrt(self.size) + mask
        x = x + self.o((scores.softmax(-1) @ values).transpose(1, 2).reshape(n, length, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), key, value


class DecoderWithPast(nn.Module):
    """One step of generation: new tokens, and keys and values of those before, which come back longer."""

    def __init__(self, width: int = 32, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(layers))
        self.norm, self.head = RootMeanSquareNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, input_ids, past_key_0, past_value_0, past_key_1, past_value_1):
        past, new = past_key_0.shape[2], input_ids.shape[1]
        size = self.layers[0].size
        places = torch.arange(past, past + new)
        rates = 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = (places[:, None] * rates[None]).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        mask = torch.where(torch.arange(past + new)[None, :] <= places[:, None], 0.0, -1e9)
        x, made = self.embedding(input_ids), []
        for layer, key, value in zip(self.layers, (past_key_0, past_key_1), (past_value_0, past_value_1)):
            x, key, value = layer(x, cos, sin, key, value, mask)
            made += [key, value]
        return self.head(self.norm(x)), *made


class MixtureOfExperts(nn.Module):
    """The two best experts of each token, weighted by a softmax over their two scores; every expert sees every token."""

    def __init__(self, width: int = 32, experts: int = 4, inner: int = 48):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.w1 = nn.Parameter(torch.zeros(experts, width, inner))
        self.w3 = nn.Parameter(torch.zeros(experts, width, inner))
        self.w2 = nn.Parameter(torch.zeros(experts, inner, width))
        self.experts = experts

    def forward(self, x):
        n, length, width = x.shape
        flat = x.reshape(-1, width)
        best, chosen = torch.topk(self.router(flat), 2, dim=-1)
        gates = (F.one_hot(chosen, self.experts).to(x.dtype) * best.softmax(-1)[..., None]).sum(1)
        wide = F.silu(torch.matmul(flat, self.w1)) * torch.matmul(flat, self.w3)
        made = torch.matmul(wide, self.w2)
        return (made * gates.t()[..., None]).sum(0).reshape(n, length, width)


class ExpertsDecoder(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(2))
        self.experts = nn.ModuleList(MixtureOfExperts(width) for _ in range(2))
        self.norms = nn.ModuleList(RootMeanSquareNorm(width) for _ in range(5))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        length = input_ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        for index in range(2):
            y = self.norms[2 * index](x)
            x = x + self.attention[index](y, y, y, attn_mask=mask, need_weights=False)[0]
            x = x + self.experts[index](self.norms[2 * index + 1](x))
        return self.head(self.norms[4](x))


def past(layers: int = 2) -> tuple[Feed, ...]:
    dims = ((0, "batch"), (2, "past"))
    return tuple(Feed(f"past_{what}_{layer}", (2, 2, 9, 8), dims) for layer in range(layers) for what in ("key", "value"))


PRESENT = ("logits", "key_0", "value_0", "key_1", "value_1")
MASKED = dict(input_ids=VOCABULARY, attention_mask=2, token_type_ids=2)
T5_FEEDS = (*tokens(input_ids=VOCABULARY, attention_mask=2), *tokens(length=7, seq="target", decoder_input_ids=VOCABULARY))
PAIR = (*tokens(source=VOCABULARY), *tokens(length=7, seq="target_seq", target=VOCABULARY))


def speaker(build, feeds=None, outputs=("logits",), **more) -> Entry:
    return Entry(feeds or tokens(input_ids=VOCABULARY), outputs, build=build, **{"loss": "cross-entropy", **more})


NETWORKS = {
    "bert": speaker(lambda: bert("sdpa"), tokens(**MASKED)),
    "bert_opset23": speaker(lambda: bert("sdpa"), tokens(**MASKED), opset=23),
    "bert_script": speaker(lambda: bert("eager"), tokens(**MASKED), route="script", opset=13),
    "distilbert": speaker(distilbert, tokens(input_ids=VOCABULARY, attention_mask=2)),
    "albert": speaker(albert, outputs=("hidden", "pooled"), loss="mse"),
    "gpt2": speaker(lambda: gpt2("sdpa")),
    "gpt2_half": speaker(lambda: gpt2("eager"), dtype=torch.float16, loss=None),
    "gpt2_script": speaker(gpt2_masked, tokens(input_ids=VOCABULARY, attention_mask=2), route="script", opset=14),
    "llama": speaker(lambda: llama("eager")),
    "llama_opset23": speaker(lambda: llama("sdpa"), opset=23),
    "t5": speaker(t5, T5_FEEDS),
    "translator": speaker(Translator, PAIR),
    "decoder_with_past": speaker(DecoderWithPast, (*tokens(length=3, input_ids=VOCABULARY), *past()), PRESENT),
    "decoder_with_past_opset23": speaker(DecoderWithPast, (*tokens(length=3, input_ids=VOCABULARY), *past()), PRESENT, opset=23),
    "mixture_of_experts": speaker(ExpertsDecoder),
}
