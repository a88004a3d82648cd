"""Networks on sound, lines of text and series: recurrent, convolutional, attending.

CRNN (Shi et al. 2017), a recognizer in the manner of PP-OCR (SVTR, Du et al. 2022), wav2vec 2.0 (Baevski et al. 2020),
Whisper's encoder (Radford et al. 2023), Conformer (Gulati et al. 2020), a keyword spotter with GRU, a language model with
LSTM, a temporal convolutional network (Bai et al. 2018).
"""

import torch
from torch import nn
from torch.nn import functional as F

from .classification import conv_bn
from .spec import Entry, Feed, images, tokens


class Crnn(nn.Module):
    """Convolutions make columns of a line, two layers of LSTM read them in both directions."""

    def __init__(self, classes: int = 20):
        super().__init__()
        self.features = nn.Sequential(conv_bn(1, 8), nn.MaxPool2d(2), conv_bn(8, 16), nn.MaxPool2d(2), conv_bn(16, 24),
                                      nn.MaxPool2d((2, 1)), nn.Conv2d(24, 32, (4, 1)), nn.ReLU())
        self.reader = nn.LSTM(32, 24, 2, bidirectional=True)
        self.out = nn.Linear(48, classes)

    def forward(self, x):
        columns = self.features(x).squeeze(2).permute(2, 0, 1)
        return self.out(self.reader(columns)[0]).log_softmax(-1)


class MixingBlock(nn.Module):
    """Attention whose queries, keys and values are slices of one tensor, each squeezed where it begins."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.Hardswish(), nn.Linear(2 * width, width))

    def forward(self, x):
        n, length, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0:1].squeeze(0) * self.size**-0.5, parts[1:2].squeeze(0), parts[2:3].squeeze(0)
        y = (q @ k.transpose(2, 3)).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class LineRecognizer(nn.Module):
    def __init__(self, classes: int = 20, width: int = 32):
        super().__init__()
        swish = nn.Hardswish
        self.features = nn.Sequential(conv_bn(3, 16, 3, 2, act=swish), conv_bn(16, 16, 3, groups=16, act=swish),
                                      conv_bn(16, width, 1, act=swish), conv_bn(width, width, 5, (2, 1), act=swish, groups=width),
                                      nn.AvgPool2d((4, 2)))
        self.blocks = nn.Sequential(*(MixingBlock(width, 4) for _ in range(2)))
        self.norm, self.out = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.features(x)
        n, c, h, w = x.shape
        x = self.blocks(x.flatten(2).transpose(1, 2))
        x = self.norm(x).reshape(n, h, w, c).permute(0, 3, 1, 2)[:, :, 0:1].squeeze(2).transpose(1, 2)
        return self.out(x).softmax(-1)


def wav2vec2() -> nn.Module:
    import transformers

    class Wav2Vec2(transformers.Wav2Vec2ForCTC):
        def forward(self, sound):
            return super().forward(input_values=sound).logits

    config = transformers.Wav2Vec2Config(vocab_size=12, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                         intermediate_size=64, conv_dim=(16, 16, 24), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2),
                                         num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, num_feat_extract_layers=3,
                                         hidden_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, activation_dropout=0.0,
                                         final_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0)
    return Wav2Vec2._from_config(config, attn_implementation="eager")


def whisper_encoder() -> nn.Module:
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    class Encoder(WhisperEncoder):
        def forward(self, mel):
            return super().forward(mel).last_hidden_state

    config = transformers.WhisperConfig(num_mel_bins=16, d_model=32, encoder_layers=2, encoder_attention_heads=4,
                                        encoder_ffn_dim=64, max_source_positions=24, dropout=0.0)
    return Encoder._from_config(config, attn_implementation="sdpa")


class ConformerBlock(nn.Module):
    """Half a feed-forward, attention, a gated depthwise convolution, half a feed-forward."""

    def __init__(self, width: int, heads: int = 4, kernel: int = 7):
        super().__init__()

        def feed_forward() -> nn.Sequential:
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

        self.before, self.after = feed_forward(), feed_forward()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.pointwise1, self.pointwise2 = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x + 0.5 * self.before(x)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.pointwise1(self.norm2(x).transpose(1, 2)), 1)
        x = x + self.pointwise2(F.silu(self.batch_norm(self.depthwise(y)))).transpose(1, 2)
        return self.norm3(x + 0.5 * self.after(x))


class Conformer(nn.Module):
    def __init__(self, width: int = 32, classes: int = 12):
        super().__init__()
        self.shrink = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.into, self.out = nn.Linear(8 * 5, width), nn.Linear(width, classes)
        self.blocks = nn.Sequential(ConformerBlock(width), ConformerBlock(width))

    def forward(self, mel):
        x = self.shrink(mel.unsqueeze(1)).transpose(1, 2).flatten(2)
        return self.out(self.blocks(self.into(x)))


class KeywordSpotter(nn.Module):
    def __init__(self, classes: int = 12):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(20, 24, 5, 2, 2), nn.BatchNorm1d(24), nn.ReLU())
        self.reader = nn.GRU(24, 20, 2, batch_first=True, bidirectional=True)
        self.score, self.out = nn.Linear(40, 1), nn.Linear(40, classes)

    def forward(self, mel):
        seen = self.reader(self.features(mel).transpose(1, 2))[0]
        weights = self.score(torch.tanh(seen)).softmax(1)
        return self.out((weights * seen).sum(1))


class LstmLanguageModel(nn.Module):
    """The states are inputs and outputs, as where text is made token by token."""

    def __init__(self, vocabulary: int = 61, width: int = 24):
        super().__init__()
        self.embedding, self.reader = nn.Embedding(vocabulary, width), nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, input_ids, h, c):
        seen, (h, c) = self.reader(self.embedding(input_ids), (h, c))
        return self.out(seen), h, c


class PlainRnn(nn.Module):
    """Elman's network over a series, its last state read out."""

    def __init__(self):
        super().__init__()
        self.reader, self.out = nn.RNN(6, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, series):
        return self.out(self.reader(series)[1][-1])


class TemporalBlock(nn.Module):
    def __init__(self, i: int, o: int, dilation: int):
        super().__init__()
        self.reach = 2 * dilation
        self.conv1, self.conv2 = nn.Conv1d(i, o, 3, dilation=dilation), nn.Conv1d(o, o, 3, dilation=dilation)
        self.side = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x):
        y = F.relu(self.conv1(F.pad(x, (self.reach, 0))))
        return F.relu(F.relu(self.conv2(F.pad(y, (self.reach, 0)))) + self.side(x))


def temporal_network() -> nn.Module:
    return nn.Sequential(TemporalBlock(6, 16, 1), TemporalBlock(16, 16, 2), TemporalBlock(16, 24, 4), nn.Conv1d(24, 4, 1))


STATES = tuple(Feed(name, (2, 2, 24), ((1, "batch"),)) for name in "hc")
MEL = (Feed("mel", (2, 20, 40), ((0, "batch"),)),)

NETWORKS = {
    "crnn": Entry((Feed("x", (2, 1, 32, 48), ((0, "batch"),)),), ("scores",), build=Crnn, route="script", opset=12, loss="mse"),
    "line_recognizer": Entry((Feed("x", (1, 3, 32, 64), ()),), ("scores",), build=LineRecognizer, loss="mse"),
    "wav2vec2": Entry((Feed("sound", (2, 400), ((0, "batch"),)),), ("logits",), build=wav2vec2, loss="cross-entropy"),
    "whisper_encoder": Entry((Feed("mel", (2, 16, 48), ((0, "batch"),)),), ("hidden",), build=whisper_encoder, loss="mse"),
    "conformer": Entry((Feed("mel", (2, 40, 20), ((0, "batch"),)),), ("logits",), build=Conformer, loss="cross-entropy"),
    "keyword_gru": Entry(MEL, ("logits",), build=KeywordSpotter, route="script", opset=14, loss="cross-entropy"),
    "keyword_gru_dynamo": Entry(MEL, ("logits",), build=KeywordSpotter, loss="cross-entropy"),
    "lstm_language_model": Entry((*tokens(input_ids=61), *STATES), ("logits", "h_out", "c_out"), build=LstmLanguageModel,
                                 route="script", opset=17, loss="cross-entropy"),
    "plain_rnn": Entry((Feed("series", (2, 15, 6), ((0, "batch"),)),), ("logits",), build=PlainRnn, route="script", opset=17,
                       loss="cross-entropy"),
    "temporal_network": Entry((Feed("series", (2, 6, 30), ((0, "batch"),)),), ("logits",), build=temporal_network, loss="mse"),
}
