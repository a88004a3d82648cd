"""Steps in which kernels put results otherwise than fake kernels say: traced until nothing differs (layouts.py), eager mode's bits.

Fake kernels know little of channels-last values: what a loss of such a value and a contiguous target gives for a gradient, what
a convolution makes behind a permute. The graph depends on it: `contiguous`, `reshape`, and which kernels there are.
"""

import copy
import itertools

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, torch, twin

import lowtide
from lowtide.pytorch import layouts, planning

nn, F = torch.nn, torch.nn.functional
CHANNELS_LAST = torch.channels_last


class Blocks(nn.Module):
    """Convolutions; what is between them is drawn."""

    def __init__(self, between=lambda m, x: x, dimensions=2, width=8):
        super().__init__()
        convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
        self.first, self.second, self.last = (convolution(a, b, 3, padding=1) for a, b in ((3, width), (width, width), (width, 3)))
        self.norm, self.line, self.between = nn.GroupNorm(2, width), nn.Linear(width, width), between

    def forward(self, x):
        x = self.between(self, F.silu(self.first(x)))
        return self.last(x + F.silu(self.second(self.norm(x))))


def by_positions(model, x):
    return model.line(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def by_rows(model, x):
    n, c, h, w = x.shape
    return model.line(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)


def attention(model, x):
    n, c, h, w = x.shape
    tokens = x.permute(0, 2, 3, 1).reshape(n, h * w, c)
    return x + (torch.softmax(tokens @ tokens.transpose(1, 2), -1) @ model.line(tokens)).transpose(1, 2).view(n, c, h, w)


def in_place(model, x):
    return F.relu(model.line(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).mul_(0.5), inplace=True)


def shuffled(model, x):
    return F.pixel_shuffle(F.pixel_unshuffle(by_positions(model, x), 2), 2) + F.interpolate(F.max_pool2d(x, 2), scale_factor=2)


def contiguous_twice(model, x):
    return by_positions(model, x.contiguous(memory_format=CHANNELS_LAST)).contiguous() * x.sigmoid()


BETWEEN = {each.__name__: each for each in (by_positions, by_rows, attention, in_place, shuffled, contiguous_twice)}
LOSSES = {
    "kl_div": lambda y, t: F.kl_div(y.log_softmax(1), t.softmax(1), reduction="batchmean"),
    "binary": lambda y, t: F.binary_cross_entropy(y.sigmoid(), t.sigmoid()),
    "smooth": lambda y, t: F.smooth_l1_loss(y, t, reduction="sum"),
    "huber": lambda y, t: F.huber_loss(y, t, reduction="none").flatten(1).mean(1).max(),
    "weighted": lambda y, t: (F.mse_loss(y, t, reduction="none") * t.abs()).sum(1).mean(),
}


def check(model, batch, loss_fn, steps=2):
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.1, cache=False)
    assert made.planned.captured.trace.layouts.new == []  # the last trace is true
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch, steps=steps)
    assert made.memory.beside == 0
    return made


def images(side=8, dimensions=2):
    return torch.randn(2, 3, *[side] * dimensions), torch.randn(2, 3, *[side] * dimensions)


def loss_of(loss):
    return lambda m, b: loss(m(b[0]), b[1])


@pytest.mark.parametrize("name", BETWEEN)
def test_values_between_convolutions_may_lie_otherwise(name):
    torch.manual_seed(0)
    check(Blocks(BETWEEN[name]), images(), loss_of(F.mse_loss))


@pytest.mark.parametrize("name", LOSSES)
def test_targets_may_lie_otherwise_than_what_the_model_gives(name):
    torch.manual_seed(0)
    x, target = images()
    check(Blocks().to(memory_format=CHANNELS_LAST), (x, target), loss_of(LOSSES[name]))
    check(Blocks(by_positions), (x, target.to(memory_format=CHANNELS_LAST)), loss_of(LOSSES[name]))


def test_three_dimensions_channels_last():
    torch.manual_seed(0)
    x, target = images(4, 3)
    check(Blocks(dimensions=3), (x.to(memory_format=torch.channels_last_3d), target), loss_of(F.l1_loss))


def test_statistics_of_norms_of_bf16_are_wider_than_fake_kernels_say():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.GroupNorm(2, 8)).bfloat16()
    check(model, torch.randn(4, 8).bfloat16(), lambda m, x: m(x).float().square().mean())


def test_the_next_capture_begins_with_what_is_known(monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    times, traced, trace_step = [], [], planning.trace_step
    monkeypatch.setattr(planning, "trace_step", lambda *them: traced.append(1) or trace_step(*them))
    for _ in range(2):
        torch.manual_seed(0)
        model = Blocks(by_positions)
        made = lowtide.compile_step(model, loss_of(F.mse_loss), OPTIMIZERS["sgd"](model.parameters()), images(), effort=0.1)
        times.append((len(traced), made.planned.graph.question()))
        traced.clear()
    assert times[0][0] > 1 and times[1][0] == 1 and times[0][1] == times[1][1]


def test_what_never_agrees_is_taken_as_the_kernels_make_it(monkeypatch):
    """Rounds end, even if a kernel's answer never becomes what is traced."""
    monkeypatch.setattr(layouts._Truly, "truly", lambda self, func, args, kwargs, index, made: made)
    torch.manual_seed(0)
    x, target = images()
    model = Blocks(by_positions)
    made = lowtide.compile_step(model, loss_of(F.l1_loss), OPTIMIZERS["sgd"](model.parameters()), (x, target), effort=0.1, cache=False)
    assert torch.isfinite(made((x, target)))


def bases():
    """Tensors with dimensions of one, in every order of memory."""
    for shape in ((2, 1, 16), (1, 2, 3), (2, 3, 1), (2, 1, 1)):
        for order in itertools.permutations(range(3)):
            yield torch.randn([shape[i] for i in order]).permute([order.index(i) for i in range(3)])


@pytest.mark.parametrize("view", [
    lambda y: y.view(y.shape), lambda y: torch.ops.aten._unsafe_view(y, y.shape), lambda y: y.view(1, *y.shape), lambda y: y.unsqueeze(1),
    lambda y: y.squeeze(1), lambda y: y.expand(3, *y.shape), lambda y: y.select(0, 0), lambda y: y[:1], lambda y: y.mT, lambda y: y.flatten(0, 1),
    lambda y: y.diagonal(0, 0, 1), lambda y: y.unfold(0, 1, 1), lambda y: y.chunk(2, -1)[0]])
def test_views_of_dimensions_of_one_lie_as_pytorch_lays_them(view):
    for y in bases():
        try:
            wanted = view(y)
        except RuntimeError:  # no view of this one
            continue
        with layouts.Rows(None).mode() as mode:
            found = view(mode.from_tensor(y))
        assert found.stride() == wanted.stride() and found.storage_offset() == wanted.storage_offset(), (y.shape, y.stride())


def pooled(m, x):
    return torch.einsum("b n, b n d -> b d", m(x).squeeze(-1).softmax(1), x).square().mean()


def by_rows(m, x):
    return torch.einsum("b n o, b n d -> b o d", m(x), x).square().mean()


def each_with_all(m, x):
    return torch.bmm(m(x).mT.view(2, 1, 64), x).square().mean()


@pytest.mark.parametrize("loss_fn", [pooled, by_rows, each_with_all])
def test_products_with_one_row_are_eager_modes(loss_fn):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(16, 1), torch.randn(2, 64, 16)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), 0.1) for m in (model, other))
    step = lowtide.compile_step(model, loss_fn, mine, x, effort=0.1, cache=False)
    for _ in range(2):
        loss = step(x)
        its.zero_grad()
        wanted = loss_fn(other, x)
        wanted.backward()
        its.step()
        assert torch.equal(loss, wanted.detach())
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
