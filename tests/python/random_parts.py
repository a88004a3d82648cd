"""The parts of which random_programs.py makes programs: each is a few lines of source.

A part takes x and gives x of the same sizes, so that parts stand in any order and any can be taken out: rows (samples, 8), sequences
(samples, 6, 8) or images (samples, 8, 6, 6). `k` numbers it, so that its names are its own: `init` are lines of the model's __init__,
`forward` lines of forward(x, batch), `outside` lines of the module. A part may also put tensors into `aux`, which the loss function hands out,
and add to `extra`, a part of the loss. Each is there for a habit of people's that has misled a tool: state under other names, effects
without a gradient, views that are written, numbers that Python keeps.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

ROWS, SEQUENCE, IMAGE = "rows", "sequence", "image"
ANY = (ROWS, SEQUENCE, IMAGE)
LINES = (ROWS, SEQUENCE)  # features come last


@dataclasses.dataclass
class Lines:
    """One part, written."""

    init: str = ""
    forward: str = ""
    outside: str = ""
    loss: str = ""  # of loss_fn, before the loss
    between: str = ""  # what the user does before step `step`


# Where planned steps are known to differ: not drawn unless they are asked for (random_programs.py --open).
OPEN: set[str] = set()
PARTS: dict[str, tuple[tuple[str, ...], Callable[[random.Random, int, str], Lines]]] = {}


def part(*shapes: str, name: str = "") -> Callable:
    def take(make: Callable) -> Callable:
        PARTS[name or make.__name__] = (shapes, make)
        return make
    return take


def simple(name: str, shapes: tuple[str, ...], init: str, forward: str, outside: str = "") -> None:
    """`{k}` is the number of the part."""
    PARTS[name] = (shapes, lambda draw, k, shape: Lines(init.replace("{k}", str(k)), forward.replace("{k}", str(k)), outside))


# ---- layers

simple("linear", LINES, "self.l{k} = nn.Linear(8, 8)", "x = self.l{k}(x)")
simple("linear_without_bias", LINES, "self.l{k} = nn.Linear(8, 8, bias=False)", "x = x + torch.tanh(self.l{k}(x))")
simple("matmul", LINES, "self.w{k} = nn.Parameter(torch.randn(8, 8) / 3)", "x = x @ self.w{k}.t() + x @ self.w{k}")
simple("bilinear", LINES, "self.b{k} = nn.Bilinear(8, 8, 8)", "x = torch.tanh(self.b{k}(x, x.flip(-1)))")
simple("einsum", (SEQUENCE,), "self.w{k} = nn.Parameter(torch.randn(2, 4, 4) / 2)",
       "x = torch.einsum('bthd,hde->bthe', x.unflatten(-1, (2, 4)), self.w{k}).flatten(-2)")
simple("conv", (IMAGE,), "self.c{k} = nn.Conv2d(8, 8, 3, padding=1)", "x = self.c{k}(x)")
simple("conv_strided", (IMAGE,), "self.c{k}, self.u{k} = nn.Conv2d(8, 4, 3, 2, 1, bias=False), nn.ConvTranspose2d(4, 8, 2, 2)",
       "x = x + self.u{k}(torch.relu(self.c{k}(x)))")
simple("conv_grouped", (IMAGE,), "self.c{k} = nn.Conv2d(8, 8, 3, padding='same', groups=4, padding_mode='reflect')", "x = self.c{k}(x)")
simple("conv_of_lines", (SEQUENCE,), "self.c{k} = nn.Conv1d(8, 8, 3, padding=2, dilation=2)", "x = self.c{k}(x.transpose(1, 2)).transpose(1, 2)")
simple("conv_valid", (SEQUENCE,), "self.c{k} = nn.Conv1d(8, 8, 2, padding='valid')",
       "x = self.c{k}(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2)")
simple("layer_norm", LINES, "self.n{k} = nn.LayerNorm(8)", "x = self.n{k}(x)")
simple("rms_norm", LINES, "self.n{k} = nn.RMSNorm(8)", "x = self.n{k}(x)")
simple("group_norm", (IMAGE,), "self.n{k} = nn.GroupNorm(2, 8)", "x = self.n{k}(x)")
simple("batch_norm", (IMAGE,), "self.n{k} = nn.BatchNorm2d(8)", "x = self.n{k}(x)")
simple("batch_norm_of_rows", (ROWS,), "self.n{k} = nn.BatchNorm1d(8)", "x = self.n{k}(x)")
simple("batch_norm_counted", (IMAGE,), "self.n{k} = nn.BatchNorm2d(8, momentum=None)", "x = self.n{k}(x)")
simple("instance_norm", (IMAGE,), "self.n{k} = nn.InstanceNorm2d(8, affine=True, track_running_stats=True)", "x = self.n{k}(x)")
simple("attention", (SEQUENCE,), "self.q{k} = nn.Linear(8, 24)",
       "q, v, w = self.q{k}(x).chunk(3, -1)\nx = x + F.scaled_dot_product_attention(q, v, w, is_causal=True)")
simple("attention_of_pytorch", (SEQUENCE,), "self.a{k} = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)",
       "x = x + self.a{k}(x, x, x, need_weights=False)[0]")
simple("encoder_layer", (SEQUENCE,), "self.e{k} = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)",
       "x = self.e{k}(x)")
simple("gru", (SEQUENCE,), "self.r{k} = nn.GRU(8, 8, batch_first=True)", "x = self.r{k}(x)[0]")
simple("lstm", (SEQUENCE,), "self.r{k} = nn.LSTM(8, 4, bidirectional=True, batch_first=True)", "x = self.r{k}(x)[0]")
simple("gru_cell", LINES, "self.r{k} = nn.GRUCell(8, 8)",
       "h = torch.zeros_like(x.reshape(-1, 8))\nfor _ in range(2):\n    h = self.r{k}(x.reshape(-1, 8), h)\nx = h.view(x.shape)")
simple("lstm_cell", LINES, "self.r{k} = nn.LSTMCell(8, 8)", "x = self.r{k}(x.reshape(-1, 8))[0].view(x.shape)")
simple("embedding", LINES, "self.t{k} = nn.Embedding(12, 8, padding_idx=0)",
       "x = x + (self.t{k}(batch_ids) if x.ndim == 3 else self.t{k}(batch_ids).sum(1))")
simple("embedding_bag", (ROWS,), "self.t{k} = nn.EmbeddingBag(12, 8, mode='mean')", "x = x + self.t{k}(batch_ids)")
simple("pool", (IMAGE,), "", "x = F.interpolate(F.max_pool2d(x, 2), scale_factor=2.0, mode='nearest') + F.avg_pool2d(x, 3, 1, 1)")
simple("pool_to_one", (IMAGE,), "self.s{k} = nn.Conv2d(8, 8, 1)", "x = x * torch.sigmoid(self.s{k}(F.adaptive_avg_pool2d(x, 1)))")
simple("shuffle", (IMAGE,), "self.c{k} = nn.Conv2d(8, 2, 1)", "x = x + F.pixel_unshuffle(F.interpolate(self.c{k}(x), scale_factor=2.0, mode='bilinear', "
       "align_corners=False), 2)")
simple("dropout", ANY, "self.d{k} = nn.Dropout(0.25)", "x = self.d{k}(x)")
simple("dropout_of_channels", (IMAGE,), "self.d{k} = nn.Dropout2d(0.25)", "x = self.d{k}(x)")
simple("noise", ANY, "", "x = x + 0.1 * torch.randn_like(x) * (torch.rand(()) + 0.5)")
simple("weight_norm", LINES, "self.l{k} = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))", "x = self.l{k}(x)")
simple("spectral_norm", LINES, "self.l{k} = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))", "x = self.l{k}(x)")
simple("old_weight_norm", LINES, "self.l{k} = torch.nn.utils.weight_norm(nn.Linear(8, 8))", "x = self.l{k}(x)")

# ---- functions of a value


@part(*ANY)
def activation(draw, k, shape):
    kind = draw.choice(["F.relu(x)", "F.gelu(x)", "F.silu(x)", "torch.tanh(x)", "F.relu6(x * 4)", "F.hardtanh(x)", "F.softplus(x)", "F.elu(x)",
                        "F.leaky_relu(x, 0.2)", "F.hardswish(x)", "F.mish(x)", "x.clamp(-0.5, 0.7)", "F.selu(x)", "F.logsigmoid(x)", "x.abs()",
                        "torch.where(x > 0, x, 0.3 * x)", "F.softshrink(x, 0.1)", "x.square() * x.sign()", "torch.sinc(x)", "F.threshold(x, 0.1, -0.1)"])
    return Lines(forward=f"x = {kind}")


@part(*ANY)
def reduction(draw, k, shape):
    kind = draw.choice(["x / (1 + x.norm())", "x - x.mean(dim=0, keepdim=True)", "x / (x.std(dim=1, keepdim=True) + 0.5)",
                        "x - torch.logsumexp(x, dim=1, keepdim=True)", "x * torch.softmax(x, dim=1)", "x.cumsum(dim=1) / 3",
                        "F.normalize(x, dim=1)", "x - x.amax(dim=1, keepdim=True)", "x * x.prod(dim=1, keepdim=True)", "x - x.median()",
                        "x + x.max(dim=1, keepdim=True)[0]", "x / (1 + x.var(unbiased=False))", "x - x.quantile(0.5)", "x + torch.cummax(x, 1)[0]"])
    return Lines(forward=f"x = {kind}")


@part(*ANY)
def reordered(draw, k, shape):
    kind = draw.choice(["x.flip(1)", "x.roll(1, 1)", "torch.cat([x[:, 4:], x[:, :4]], 1)", "torch.stack(x.unbind(1), 1)", "x.sort(dim=1)[0]",
                        "x + x.topk(3, dim=1)[0].sum(1, keepdim=True)", "x.index_select(1, torch.tensor([3, 1, 0, 2, 4, 5])).sum(1, keepdim=True) + x",
                        "x + x[:, 1:3].mean(1, keepdim=True).expand_as(x)", "x.gather(1, x.argsort(dim=1))", "x + x.narrow(1, 2, 2).sum(1, True)",
                        "torch.cat(x.split([2, x.shape[1] - 2], 1)[::-1], 1)", "x.movedim(1, -1).contiguous().movedim(-1, 1)",
                        "x.scatter_add(1, torch.zeros_like(x[:, :1], dtype=torch.long), x[:, :1].clone())", "x.as_strided(x.shape, x.stride()) * 2",
                        "torch.tril(x) + torch.triu(x, 1)", "x.masked_fill(x > 1, 0.5)", "x[:, torch.arange(x.shape[1] - 1, -1, -1)]"])
    return Lines(forward=f"x = {kind}")


@part(*ANY)
def cast(draw, k, shape):
    kind = draw.choice(["x + x.double().sin().to(x.dtype)", "x + x.bfloat16().tanh().to(x.dtype)", "x + (x * 3).to(torch.int32).to(x.dtype)",
                        "x * (x > 0)", "torch.fft.irfft(torch.fft.rfft(x, dim=1) * 2, n=x.shape[1], dim=1).to(x.dtype)",
                        "x + torch.view_as_real(torch.complex(x, x) * 1j)[..., 0]", "x + torch.polar(x.abs() + 0.1, x).real", "x + x.half().float().to(x.dtype)",
                        "x + (x.long() % 3).to(x.dtype)", "x * torch.ones_like(x, dtype=torch.bool)", "x + x.isnan().sum()"])
    return Lines(forward=f"x = {kind}")


simple("autocast", LINES, "self.l{k} = nn.Linear(8, 8)", "with torch.autocast('cpu', torch.bfloat16):\n    y = self.l{k}(x)\nx = x + y.to(x.dtype)")
simple("zero_dim_parameter", ANY, "self.s{k} = nn.Parameter(torch.tensor(0.7))", "x = x * self.s{k}.exp()")
simple("parameter_twice", LINES, "self.w{k} = nn.Parameter(torch.randn(8))", "x = x * self.w{k} + self.w{k}.sigmoid()")
simple("unused", ANY, "self.unused{k} = nn.Linear(3, 3)", "pass")
simple("frozen", LINES, "self.f{k} = nn.Linear(8, 8).requires_grad_(False)", "x = x + self.f{k}(x)")
simple("detached", ANY, "", "x = x + x.detach().mean()")
simple("without_gradient", LINES, "self.l{k} = nn.Linear(8, 8)", "with torch.no_grad():\n    y = self.l{k}(x)\nx = x + y")
simple("record_function", ANY, "", "with torch.profiler.record_function('part'):\n    x = x * 1.5")
simple("assertion", ANY, "", "assert x.ndim in (2, 3, 4), 'ranks'\ntorch._assert(x.shape[-1] > 1, 'sizes')")

# ---- shared modules

simple("same_module_twice", LINES, "self.l{k} = nn.Linear(8, 8)", "x = x + self.l{k}(torch.tanh(self.l{k}(x)))")
simple("alias", LINES, "self.l{k} = nn.Linear(8, 8)\nself.other{k} = self.l{k}", "x = self.other{k}(torch.tanh(self.l{k}(x)))")
simple("list_of_one", LINES, "self.m{k} = nn.ModuleList([nn.Linear(8, 8)] * 3)", "for layer in self.m{k}:\n    x = x + torch.tanh(layer(x))")
simple("tied_weights", LINES, "self.a{k}, self.b{k} = nn.Linear(8, 8), nn.Linear(8, 8)\nself.b{k}.weight = self.a{k}.weight",
       "x = self.b{k}(torch.tanh(self.a{k}(x)))")
simple("tied_transposed", LINES, "self.a{k} = nn.Linear(8, 8)", "x = F.linear(torch.tanh(self.a{k}(x)), self.a{k}.weight.t())")
simple("norm_twice", (ROWS,), "self.n{k} = nn.BatchNorm1d(8)", "x = self.n{k}(x) + self.n{k}(x * 2)")
simple("parameter_list", LINES, "self.p{k} = nn.ParameterList([nn.Parameter(torch.randn(8)) for _ in range(2)])", "for p in self.p{k}:\n    x = x * (1 + p)")
simple("sequence_in_place", LINES, "self.q{k} = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8))", "x = self.q{k}(x)")

# ---- attributes that are made or kept

simple("lazy_table", LINES, "", "if not hasattr(self, 'table{k}'):\n    self.table{k} = torch.arange(8, dtype=x.dtype).sin()\nx = x + self.table{k}")
simple("lazy_cache", (SEQUENCE,), "self.cache{k} = {}", "n = x.shape[1]\nif n not in self.cache{k}:\n    self.cache{k}[n] = torch.tril(torch.ones(n, n, dtype=x.dtype))\n"
       "x = self.cache{k}[n] @ x / n")
simple("lazy_buffer", ANY, "self.register_buffer('mask{k}', None)", "if self.mask{k} is None:\n    self.mask{k} = torch.ones_like(x[:1]) * 0.9\nx = x * self.mask{k}")
simple("buffer_in_place", ANY, "self.register_buffer('seen{k}', torch.zeros(()))",
       "with torch.no_grad():\n    self.seen{k}.mul_(0.9).add_(0.1 * x.mean())\nx = x - self.seen{k}")
simple("buffer_by_data", ANY, "self.register_buffer('seen{k}', torch.ones(()))", "self.seen{k}.data.mul_(0.9)\nx = x * self.seen{k}")
simple("buffer_anew", ANY, "self.register_buffer('seen{k}', torch.zeros(()))", "self.seen{k} = 0.9 * self.seen{k} + 0.1 * x.detach().mean()\nx = x - self.seen{k}")
simple("buffer_not_saved", ANY, "self.register_buffer('scale{k}', torch.full((), 1.5), persistent=False)", "x = x * self.scale{k}")
simple("buffer_counts", ANY, "self.register_buffer('count{k}', torch.zeros((), dtype=torch.long))",
       "self.count{k} += 1\nx = x / self.count{k}")
simple("buffer_decides", ANY, "self.register_buffer('initialised{k}', torch.tensor(False))\nself.register_buffer('start{k}', torch.zeros(()))",
       "if not self.initialised{k}:\n    with torch.no_grad():\n        self.start{k}.copy_(x.mean())\n        self.initialised{k}.fill_(True)\nx = x - self.start{k}")
simple("queue", LINES, "self.register_buffer('queue{k}', torch.zeros(4, 8))\nself.register_buffer('at{k}', torch.zeros(1, dtype=torch.long))",
       "y = x.reshape(-1, 8)[:2].detach()\nwith torch.no_grad():\n    self.queue{k}[self.at{k} % 4] = y[:1].to(self.queue{k}.dtype)\n    self.at{k} += 1\n"
       "x = x + self.queue{k}.mean(0).to(x.dtype)")
simple("plain_tensor", ANY, "self.plain{k} = torch.full((), 0.5)", "x = x * self.plain{k}.to(x.dtype)")
simple("plain_tensor_in_place", ANY, "self.plain{k} = torch.full((), 0.5)", "with torch.no_grad():\n    self.plain{k}.add_(0.25)\nx = x * self.plain{k}.to(x.dtype)")
simple("plain_tensor_anew", ANY, "self.last{k} = torch.zeros(())", "y = x.detach().mean()\nx = x + self.last{k}.to(x.dtype)\nself.last{k} = y")
simple("python_counter", ANY, "self.calls{k} = 0", "self.calls{k} += 1\nx = x * 1.25")
simple("python_counter_is_used", ANY, "self.calls{k} = 0", "self.calls{k} += 1\nx = x * (1 + 0.5 * self.calls{k})")
simple("list_that_grows", ANY, "self.history{k} = []", "self.history{k}.append(x.detach().mean())\nx = x * 1.25")
simple("parameter_under_no_grad", LINES, "self.w{k} = nn.Parameter(torch.randn(8))", "with torch.no_grad():\n    self.w{k}.clamp_(-0.5, 0.5)\nx = x * self.w{k}")
simple("parameter_normalised", LINES, "self.l{k} = nn.Linear(8, 8)", "self.l{k}.weight.data.div_(self.l{k}.weight.data.norm(dim=1, keepdim=True) + 1)\nx = self.l{k}(x)")
simple("teacher", LINES, "self.s{k}, self.t{k} = nn.Linear(8, 8), nn.Linear(8, 8).requires_grad_(False)",
       "with torch.no_grad():\n    for p, q in zip(self.s{k}.parameters(), self.t{k}.parameters()):\n        q.mul_(0.9).add_(p, alpha=0.1)\n    y = self.t{k}(x)\n"
       "x = self.s{k}(x)\nextra = extra + 0.1 * F.mse_loss(x, y)")
simple("codebook", LINES, "self.register_buffer('code{k}', torch.randn(5, 8))\nself.register_buffer('size{k}', torch.ones(5))",
       "flat = x.reshape(-1, 8)\nnearest = torch.cdist(flat.detach(), self.code{k}.to(x.dtype)).argmin(1)\nchosen = self.code{k}.to(x.dtype)[nearest].view_as(x)\n"
       "with torch.no_grad():\n    hot = F.one_hot(nearest, 5).to(self.size{k}.dtype)\n    self.size{k}.mul_(0.9).add_(0.1 * hot.sum(0))\n"
       "    self.code{k}.lerp_(hot.t() @ flat.detach().to(self.code{k}.dtype) / self.size{k}.clamp(min=1).unsqueeze(1), 0.1)\n"
       "extra = extra + 0.25 * F.mse_loss(x, chosen)\nx = x + (chosen - x).detach()")
simple("state_between_steps", (SEQUENCE,), "self.r{k} = nn.GRU(8, 8, batch_first=True)\nself.h{k} = torch.zeros(1, 1, 8)",
       "h = self.h{k}.to(x.dtype).expand(1, x.shape[0], 8).contiguous()\nx, h = self.r{k}(x, h)\nself.h{k} = h.detach().mean(1, keepdim=True)")

# ---- writes in place


@part(*ANY)
def in_place(draw, k, shape):
    before = draw.choice(["y = x.clone()", "y = x * 1.5", "y = x + 0.5"])
    write = draw.choice(["y.add_(1)", "y.mul_(0.5)", "y.relu_()", "y[:, 1:3].mul_(2)", "y[:, 0] = 0.25", "y[:, :2].add_(x[:, 2:4])", "y.chunk(2, 1)[0].mul_(3)",
                         "y.unbind(1)[1].add_(1)", "y.view(-1)[::2].mul_(0.5)", "y.transpose(0, 1)[1:3].sigmoid_()", "y[:, 1:] += y[:, :-1].clone()",
                         "y.masked_fill_(y > 1, 0.5)", "y.clamp_(-1, 1)", "y.copy_(x.flip(1))", "y[:, 2:4] = x[:, :2].detach()", "y.index_fill_(1, torch.tensor([1]), 0.5)",
                         "y.index_add_(1, torch.tensor([0, 1]), x[:, :2])", "y.zero_().add_(x)", "y.sub_(y.mean())", "torch.add(y, 1, out=y) if not torch.is_grad_enabled() else y",
                         "y.unsqueeze(0).squeeze(0).exp_().clamp_(max=3)", "y.split(2, 1)[1].neg_()", "y.t().mul_(2) if y.ndim == 2 else y.mT.mul_(2)",
                         "y.put_(torch.tensor([0, 5]), torch.ones(2, dtype=y.dtype))", "y.diagonal().add_(1)", "y.addcmul_(x, x, value=0.1)", "y.swapaxes(0, 1)[0].fill_(0.5)"])
    return Lines(forward=f"{before}\n{write}\nx = y")


simple("in_place_relu", LINES, "self.l{k} = nn.Linear(8, 8)", "x = F.relu(self.l{k}(x), inplace=True)")
simple("in_place_twice", ANY, "", "y = x * 2\nz = y[:, :2]\ny.mul_(0.5)\nz.add_(0.25)\nx = y + 0")
simple("batch_in_place", ANY, "", "x = x.clone()\nx[0].zero_()")
simple("filled", LINES, "", "y = torch.zeros_like(x)\nfor j in range(3):\n    y[..., j] = x[..., j] * (j + 1)\nx = x + y")
simple("filled_list", ANY, "", "parts = [x[:, :1]]\nfor j in range(1, 3):\n    parts.append(parts[-1] * 0.5 + x[:, j:j + 1])\nx = x + torch.cat(parts, 1).sum(1, keepdim=True)")

# ---- backward passes of one's own

STRAIGHT = """class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient"""
REVERSED = """class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.scale * gradient, None"""
CUBED = """class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * (3 * x ** 2).clamp(max=2)"""
COUNTED = """class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, count):
        ctx.count = count
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.count.add_(1)
        return gradient * 2, None"""
simple("straight_through", ANY, "", "x = x + Straight.apply(x * 4) / 4", STRAIGHT)
simple("straight_through_detach", ANY, "", "x = x + (x.round() - x).detach()")
simple("reversal", ANY, "", "x = x + 0.5 * Reversed.apply(x, 0.3)", REVERSED)
simple("own_backward", ANY, "", "x = Cubed.apply(torch.tanh(x))", CUBED)
simple("backward_counts", ANY, "self.register_buffer('count{k}', torch.zeros(()))", "x = Counted.apply(x, self.count{k})", COUNTED)
simple("hook_on_value", ANY, "", "x = x * 1.0\nif x.requires_grad:\n    x.register_hook(lambda g: g * 0.5)")
simple("hook_on_parameter", LINES, "self.l{k} = nn.Linear(8, 8)\nself.l{k}.weight.register_hook(lambda g: g.clamp(-0.1, 0.1))", "x = self.l{k}(x)")
simple("hook_on_module", LINES, "self.l{k} = nn.Linear(8, 8)\nself.l{k}.register_forward_hook(lambda m, i, o: o * 0.5)\n"
       "self.l{k}.register_forward_pre_hook(lambda m, i: (i[0] + 0.25,))", "x = self.l{k}(x)")
simple("hook_on_backward", LINES, "self.l{k} = nn.Linear(8, 8)\nself.l{k}.register_full_backward_hook(lambda m, i, o: (i[0] * 0.5,) if i[0] is not None else None)",
       "x = self.l{k}(x * 1.0)")
simple("gradient_penalty", LINES, "self.l{k} = nn.Linear(8, 1)",
       "y = x.detach().requires_grad_(True)\nif torch.is_grad_enabled():\n    g, = torch.autograd.grad(torch.tanh(self.l{k}(y)).sum(), y, create_graph=True)\n"
       "    extra = extra + 0.1 * (g.norm(dim=-1) - 1).square().mean()")


@part(*LINES)
def checkpointed(draw, k, shape):
    reentrant, drop, keep = draw.choice([True, False]), draw.choice([0.0, 0.3]), draw.choice(["", ", preserve_rng_state=False"])
    init = f"self.q{k} = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout({drop}), nn.Linear(8, 8))"
    return Lines(init, f"x = x + checkpoint(self.q{k}, x, use_reentrant={reentrant}{keep if drop == 0.0 else ''})")


simple("checkpoint_of_a_norm", (ROWS,), "self.q{k} = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())", "x = checkpoint(self.q{k}, x, use_reentrant=False)")
simple("checkpoint_of_a_function", ANY, "self.s{k} = nn.Parameter(torch.tensor(0.5))",
       "x = checkpoint(lambda y: torch.tanh(y * self.s{k}), x, use_reentrant=False)")

# ---- results that are handed out, and what loss_fn sees

simple("aux_view", ANY, "", "aux.append(x[:, :2])")
simple("aux_twice", ANY, "", "y = x * 2\naux.extend([y, y, y.detach()])")
simple("aux_alias_of_parameter", LINES, "self.l{k} = nn.Linear(8, 8)", "x = self.l{k}(x)\naux.append(self.l{k}.bias)")
simple("aux_number", ANY, "", "aux.append(x.detach().mean().item())")
simple("aux_written_later", ANY, "", "y = x * 2\naux.append(y)\ny = y + 1\nx = y")
simple("aux_of_buffer", ANY, "self.register_buffer('seen{k}', torch.zeros(()))", "with torch.no_grad():\n    self.seen{k}.add_(x.mean())\naux.append(self.seen{k}.clone())")  # a step gives copies; eager mode would give the buffer that the next batch writes
simple("extra_loss", ANY, "", "extra = extra + 0.01 * x.square().mean()")
simple("mask", (SEQUENCE,), "", "x = x.masked_fill(~batch_mask.unsqueeze(-1), 0.0)")
simple("penalty_on_parameters", LINES, "self.l{k} = nn.Linear(8, 8)", "x = self.l{k}(x)\nextra = extra + 1e-3 * sum(p.square().sum() for p in self.l{k}.parameters())")


@part(*ANY)
def number_that_changes(draw, k, shape):
    return Lines(f"self.rate{k} = 0.5", f"x = x * self.rate{k}", between=f"if step == 2:\n    model.rate{k} = 0.25")


@part(*ANY)
def tensor_that_is_filled(draw, k, shape):
    return Lines(f"self.beta{k} = torch.tensor(0.5)", f"x = x * self.beta{k}.to(x.dtype)", between=f"model.beta{k}.fill_(0.25 + step)")


@part(*ANY)
def tensor_put_anew(draw, k, shape):
    return Lines(f"self.beta{k} = torch.tensor(0.5)", f"x = x * self.beta{k}.to(x.dtype)", between=f"model.beta{k} = torch.tensor(0.25 + step)")


@part(*LINES)
def frozen_later(draw, k, shape):
    return Lines(f"self.l{k} = nn.Linear(8, 8)", f"x = x + self.l{k}(x)", between=f"if step == 2:\n    model.l{k}.requires_grad_(False)")


@part(*ANY)
def in_an_object(draw, k, shape):
    return Lines(f"self.config{k} = types.SimpleNamespace(rate=0.5, names=['a'], more={{'scale': 2.0}})",
                 f"x = x * self.config{k}.rate * self.config{k}.more['scale']", between=f"if step == 1:\n    model.config{k}.more['scale'] = 3.0")


# ---- losses: of `out`, rows of 8, `labels`, `targets` and `weights` of 8

LOSSES = {
    "squares": "out.square().mean()", "mse": "F.mse_loss(out, targets)", "mse_sum": "F.mse_loss(out, targets, reduction='sum') / 50",
    "l1": "F.l1_loss(out, targets)", "smooth_l1": "F.smooth_l1_loss(out, targets, beta=0.5)", "huber": "F.huber_loss(out, targets)",
    "cross_entropy": "F.cross_entropy(out, labels)", "cross_entropy_smooth": "F.cross_entropy(out, labels, label_smoothing=0.1)",
    "cross_entropy_weights": "F.cross_entropy(out, labels, weight=weights)", "cross_entropy_both": "F.cross_entropy(out, labels, weight=weights, label_smoothing=0.1)",
    "cross_entropy_ignored": "F.cross_entropy(out, labels.masked_fill(labels == 1, -100))",
    "cross_entropy_none": "(F.cross_entropy(out, labels, reduction='none') * targets[:, 0].sigmoid()).sum() / 10",
    "cross_entropy_soft": "F.cross_entropy(out, targets.softmax(1))", "cross_entropy_module": "LOSS(out, labels)",
    "nll": "F.nll_loss(F.log_softmax(out, 1), labels)", "nll_weights": "F.nll_loss(F.log_softmax(out, 1), labels, weight=weights, ignore_index=2)",
    "bce": "F.binary_cross_entropy_with_logits(out, targets.sigmoid(), pos_weight=weights)", "bce_plain": "F.binary_cross_entropy(out.sigmoid(), targets.sigmoid())",
    "kl": "F.kl_div(F.log_softmax(out, 1), targets.softmax(1), reduction='batchmean')", "kl_log": "F.kl_div(out.log_softmax(1), targets.log_softmax(1), log_target=True, reduction='sum') / 20",
    "cosine": "F.cosine_embedding_loss(out, targets, 2.0 * (labels % 2) - 1)", "margin": "F.multi_margin_loss(out, labels)",
    "soft_margin": "F.soft_margin_loss(out, targets.sign())", "multilabel": "F.multilabel_soft_margin_loss(out, (targets > 0).to(out.dtype))",
    "triplet": "F.triplet_margin_loss(out, targets, out.roll(1, 0))", "hinge": "F.hinge_embedding_loss(out, targets.sign())",
    "poisson": "F.poisson_nll_loss(out.clamp(max=2), targets.abs())", "gaussian": "F.gaussian_nll_loss(out, targets, targets.abs() + 0.5)",
    "contrastive": "F.cross_entropy(F.normalize(out, dim=1) @ F.normalize(targets, dim=1).t() / 0.2, torch.arange(len(out)))",
    "focal": "(-(1 - out.softmax(1)).square() * out.log_softmax(1)).gather(1, labels[:, None]).mean()", "logdet": "-torch.logdet(out.t() @ out + 2 * torch.eye(8, dtype=out.dtype)) / 20",
    "closed_over": "out.sub(TARGET.to(out.dtype)).square().mean() * RATE", "dice": "1 - 2 * (out.sigmoid() * (targets > 0)).sum() / (out.sigmoid().sum() + (targets > 0).sum() + 1)",
}
OPTIMIZERS = {
    "sgd": "torch.optim.SGD(ps, lr=0.05)", "momentum": "torch.optim.SGD(ps, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "dampened": "torch.optim.SGD(ps, lr=0.02, momentum=0.9, dampening=0.1, maximize=True)", "adam": "torch.optim.Adam(ps, lr=0.01, amsgrad=True)",
    "adamw": "torch.optim.AdamW(ps, lr=0.01)", "adamw_fused": "torch.optim.AdamW(ps, lr=0.01, fused=True)", "rmsprop": "torch.optim.RMSprop(ps, lr=0.005, momentum=0.5)",
    "adagrad": "torch.optim.Adagrad(ps, lr=0.05)", "adamax": "torch.optim.Adamax(ps)", "nadam": "torch.optim.NAdam(ps)", "radam": "torch.optim.RAdam(ps)",
    "adadelta": "torch.optim.Adadelta(ps)", "rprop": "torch.optim.Rprop(ps)", "asgd": "torch.optim.ASGD(ps)",
    "groups": "torch.optim.AdamW([{'params': ps[::2], 'lr': 0.01}, {'params': ps[1::2], 'weight_decay': 0.0}], lr=0.005) if len(ps) > 1 else torch.optim.AdamW(ps)",
    "foreach": "torch.optim.SGD(ps, lr=0.02, momentum=0.9, foreach=True)", "tensor_rate": "torch.optim.AdamW(ps, lr=torch.tensor(0.01))",
}
