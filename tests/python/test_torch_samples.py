"""Steps in parts along their samples, by the planner's fission: less memory than any schedule of the whole needs, the same
results up to the order of sums, every allocation planned; what nothing cuts keeps its bytes and bits; what couples samples
is named."""

import copy
import os
import random

import pytest
from test_torch_parts import assert_close_steps, head
from torch_models import OPTIMIZERS, assert_equal_steps, build, torch, trained, twin

import lowtide
from lowtide.pytorch import axes, planning, row_graph, samples, untouched
from lowtide.pytorch.calls import read_calls
from lowtide.pytorch.options import StepOptions
from lowtide.pytorch.step import Step

nn, F = torch.nn, torch.nn.functional
LONG = os.environ.get("LOWTIDE_LONG")


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.ReLU(inplace=True),
                         nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Of two scales, with norms that take one sample at a time."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.low, self.last = block(3, width), block(width, 2 * width), block(2 * width, width)
        self.pool, self.up, self.out = nn.MaxPool2d(2), nn.ConvTranspose2d(2 * width, width, 2, 2), nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.first(x)
        return self.out(self.last(torch.cat([first, self.up(self.low(self.pool(first)))], 1)))


def unet():
    torch.manual_seed(0)
    batch = (torch.randn(8, 3, 32, 32), torch.randint(0, 2, (8, 32, 32)))
    return UNet(), batch, lambda m, b: F.cross_entropy(m(b[0]), b[1])


def test_convolutions_in_parts_keep_a_budget_below_the_floor_of_the_whole():
    model, batch, loss_fn = unet()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(model, loss_fn, mine, batch, budget=1, effort=0.01)
    floor = int(str(refused.value).split("needs at least ")[1].split(" bytes")[0])
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=floor * 7 // 10, effort=0.02, split="auto")
    assert step.plan.arena_bytes <= floor * 7 // 10, "below what every schedule of the whole needs"
    assert step.parts in (4, 8) and f"the samples in {step.parts} parts" in repr(step) and step._now.code.reruns == 0
    names = [unit.name for unit in step._now.planned.captured.units]
    assert sum(name == "convolution" for name in names) >= 8 * step.parts, "each of eight layers in parts"
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-4)


@pytest.mark.parametrize("count", [1, 9] if LONG else [9])
def test_what_nothing_cuts_is_planned_and_runs_as_without_rows(count):
    model, batch, loss_fn = unet()
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    whole = lowtide.plan(model, loss_fn, mine, batch, effort=0.01)
    step = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.01, split=f"samples:{count}")
    assert step.parts == 1 and step.plan.arena_bytes == whole.arena_bytes and step.plan.peak_bytes == whole.peak_bytes
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, 1)


@pytest.mark.parametrize("name", ["gpt2", *(["vit", "convnext", "bert", "llama", "t5", "transformer", "lora", "unet", "resnet"] if LONG else [])])
def test_networks_with_dropout_in_parts_draw_and_compute_what_eager_mode_does(name):
    model, batch, loss_fn = build(name, 0.1)

    def more(t):
        return t.repeat(2, *[1] * (t.dim() - 1)).to(torch.float64 if t.is_floating_point() else t.dtype)

    batch = {k: more(t) for k, t in batch.items()} if isinstance(batch, dict) else tuple(map(more, batch))
    model = model.double()
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.002, split="samples:2")
    assert step.parts == 2
    tolerance = 1e-7 if name == "resnet" else 1e-9  # its last norms are of four numbers, two of them different
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, tolerance, steps=2)
    for mine_, its_ in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine_, its_)


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_dropouts_by_one_kernel_draw_whole_masks_and_are_applied_in_parts(name, monkeypatch):
    """As on a GPU; the kernel is there for the CPU, too."""
    monkeypatch.setattr(F, "dropout", lambda x, p, training, inplace=False: torch.native_dropout(x, p, training)[0])
    model, batch, loss_fn = build(name, 0.2)
    batch = {key: tensor.repeat(2, 1) for key, tensor in batch.items()}
    model = model.double()
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.002, split="samples:2")
    assert step.parts == 2 and step.coupled == []
    names = [unit.name for unit in step._now.planned.captured.units]
    drawn = names.count("native_dropout")
    assert drawn and names.count("native_dropout_backward") == 4 * drawn, "forward and backward, each in two parts"
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-9, steps=2)


class Coupled(nn.Module):
    """A norm over the batch, and a sum along it."""

    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.cumsum(torch.relu(self.norm(torch.tanh(self.body(x)))), 0))


def test_what_couples_samples_stays_whole_and_is_named_with_its_line():
    torch.manual_seed(0)
    batch = (torch.randn(8, 6).double(), torch.randint(0, 4, (8,)))
    model, loss_fn = Coupled().double(), lambda m, b: F.cross_entropy(m(b[0]), b[1])
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, split="samples:4", effort=0.002)
    assert step.parts == 4
    named = {line.split(" (")[0] for line in step.coupled}
    assert named == {"aten.cumsum", "aten.flip"}, step.coupled
    assert all("test_torch_samples.py" in line for line in step.coupled if "cumsum" in line)
    names = [unit.name for unit in step._now.planned.captured.units]
    assert names.count("native_batch_norm") == names.count("gradient_of_x") == 4, "in passes"
    assert names.count("tanh") == 4 and names.count("threshold_backward") == 4, "before, between and behind them in parts"
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-9)
    for (name, mine_), its_ in zip(model.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine_, its_, msg=name)


class Kinds(nn.Module):
    """Calls of images that the networks above do not have, each once."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(4, 8, 3, stride=2, padding=2, dilation=2, groups=2, bias=False)
        self.turned = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.norm = nn.LayerNorm([4, 16, 16], elementwise_affine=False)

    def forward(self, x):
        x = self.norm(self.turned(F.gelu(self.grouped(x), approximate="tanh")))
        x = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2) + F.interpolate(F.max_pool2d(x, 2), size=(16, 16), mode="bilinear")
        x = x + F.adaptive_avg_pool2d(F.silu(x), 4).repeat_interleave(4, 2).repeat_interleave(4, 3)
        rows = x.flatten(2)
        weights = torch.softmax(torch.bmm(rows, rows.transpose(1, 2)), -1)
        x = torch.bmm(weights, rows).unflatten(2, (16, 16))
        return torch.where(x > 0, x, 0.1 * x)[:, 1:, 2:-2].contiguous().select(1, 0)


def test_every_kind_of_call_in_parts_computes_what_the_whole_does():
    torch.manual_seed(0)
    batch = (torch.randn(6, 4, 16, 16).double(), torch.randn(6, 12, 16).double())
    model, loss_fn = Kinds().double(), lambda m, b: F.mse_loss(m(b[0]), b[1]) + F.l1_loss(m(b[0]), b[1])
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, split="samples:3", effort=0.002)
    names = [unit.name for unit in step._now.planned.captured.units]
    for kind in ("gelu", "gelu_backward", "native_layer_norm", "native_layer_norm_backward", "avg_pool2d", "avg_pool2d_backward",
                 "upsample_nearest2d", "upsample_nearest2d_backward", "upsample_bilinear2d", "upsample_bilinear2d_backward",
                 "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "_adaptive_avg_pool2d",
                 "_adaptive_avg_pool2d_backward", "silu", "_softmax", "_softmax_backward_data", "select_backward",
                 "mse_loss_backward"):
        assert names.count(kind) in (3, 6), (kind, names.count(kind), step.coupled)
    assert step.coupled == []
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-9, steps=1)


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        y = torch.tanh(self.body(x))
        return self.head(F.pad(y, (0, 0, 1, 0))[1:] + torch.zeros(y.shape).double())


def test_a_call_whose_parts_are_not_what_its_axes_say_stays_whole(monkeypatch):
    """Zeros by the shape of the whole are found by trying a part; a result of another extent by the op table."""
    aten = torch.ops.aten
    for target, said in ((aten.zeros.default, "-> n c"), (aten.constant_pad_nd.default, "n c -> n c")):
        monkeypatch.setitem(axes.AXES, target, lambda reader, said=said: axes.Row("Opaque", {"axes": said}))
    torch.manual_seed(0)
    batch = (torch.randn(8, 6).double(), torch.randint(0, 4, (8,)))
    model, loss_fn = Padded().double(), lambda m, b: F.cross_entropy(m(b[0]), b[1])
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, split="samples:4", effort=0.05)
    names = [unit.name for unit in step._now.planned.captured.units]
    assert names.count("constant_pad_nd") == 2 and names.count("zeros") == 1, "forward and backward pass"
    assert names.count("tanh") == 4 and any("constant_pad_nd" in line for line in step.coupled)
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-9)


@pytest.mark.skipif(not LONG, reason="a long check: LOWTIDE_LONG=1")
def test_parts_of_samples_and_moves_together():
    model, batch, loss_fn = unet()
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    best = lowtide.plan(model, loss_fn, mine, batch, split="samples:4", effort=0.05).arena_bytes
    step = lowtide.compile_step(model, loss_fn, mine, batch, split="samples:4", swap="host", link=4e9, budget=best * 9 // 10,
                                effort=0.05)
    assert step.plan.arena_bytes <= best * 9 // 10 and step.parts == 4
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-4, steps=1)
    assert step.memory.loaded_bytes > 0


@pytest.mark.parametrize("options", [{"ignored": 10}, {"aux": True}, *([{}, {"reduction": "sum"}, {"smoothing": 0.1}] if LONG else [])])
def test_losses_by_samples_are_those_of_the_whole(options):
    model, batch, loss_fn = head(**options)
    model, batch = model.double(), (batch[0].double(), batch[1])
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, loss_fn, mine, batch, split="samples:8", effort=0.002)
    assert step.parts == 8
    loss = step(batch)
    wanted = loss_fn(other, batch)
    its.zero_grad()
    (wanted[0] if options.get("aux") else wanted).backward()
    its.step()
    if options.get("aux"):
        torch.testing.assert_close(loss[1], wanted[1], rtol=1e-13, atol=1e-15)
        loss, wanted = loss[0], wanted[0]
    torch.testing.assert_close(loss, wanted, rtol=1e-13, atol=0)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


class Drawn(nn.Module):
    """A small network of drawn layers on [samples, positions, features]."""

    def __init__(self, draw):
        super().__init__()
        self.kinds = [draw.choice("linear attention norm convolution gate mean pool".split()) for _ in range(draw.randint(3, 6))]
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in self.kinds])
        self.norm, self.convolution, self.head = nn.LayerNorm(8), nn.Conv1d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x):
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            y = layer(x)
            if kind == "attention":
                y = F.scaled_dot_product_attention(y[:, None], x[:, None], y[:, None]).squeeze(1)
            elif kind == "norm":
                y = self.norm(y).mul_(2)
            elif kind == "convolution":
                y = F.relu(self.convolution(y.transpose(1, 2)), inplace=True).transpose(1, 2)
            elif kind == "gate":
                a, b = y.chunk(2, -1)
                y = torch.cat([a * torch.sigmoid(b), torch.tanh(a)], -1)
            elif kind == "mean":
                y = y - y.mean(1, keepdim=True)
            elif kind == "pool":
                y = y + y.sum((0, 2))[None, :, None] / 64
            x = x + y
        return self.head(x[:, 0])


@pytest.mark.parametrize("seed", range(60 if LONG else 2))
def test_any_labels_of_a_drawn_network_compute_what_eager_mode_does(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = Drawn(draw).double()
    batch = (torch.randn(12, 4, 8).double(), torch.randint(0, 5, (12,)))
    loss_fn = lambda m, b: F.cross_entropy(m(b[0]), b[1])  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    options = StepOptions(effort=0.002, cache=False)
    captured = planning.capture(model, loss_fn, mine, batch, options)
    calls = names_of_calls(captured)
    for _ in range(20):
        parts = draw.choice([1, 2, 3, 4, 12])
        labels = f"{parts},{draw.choice(calls)}:{parts * draw.choice([2, 3, 4])}" if draw.random() < 0.7 else str(parts)
        try:
            cut = planning.by_samples(captured.trace, captured.updates, labels)
        except lowtide.Error as refusal:  # nothing behind that op, or no op of the class
            assert "--split" in str(refusal)
            continue
        if cut.parts > 1:
            break
    planned = planning.make_plan(cut, "drawn", options)
    step = Step.__new__(Step)
    step._begin(model, loss_fn, mine, options)
    step._now = step._make_ready(planned)
    step._keep(step._read(batch)[1], step._now, untouched.Note(model, loss_fn))
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-9, steps=2)


def names_of_calls(captured):
    program = read_calls(captured.trace)
    samples.prepare(program)
    question = row_graph.Question(program, set())
    question.write()
    return [op["name"] for op in question.ops if op["name"] != "results"]


def test_each_of_accumulated_batches_runs_in_parts():
    model, batch, loss_fn = head()
    model, batch = model.double(), (batch[0].double(), batch[1])
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    batches = [batch, tuple(t.flip(0) for t in batch)]
    step = lowtide.compile_step(model, loss_fn, mine, batches, split="samples:4", effort=0.002, accumulate=2, clip_norm=0.5)
    its.zero_grad()
    wanted = sum(loss_fn(other, b) for b in batches)
    wanted.backward()
    torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5)
    its.step()
    torch.testing.assert_close(step(batches), wanted, rtol=1e-13, atol=0)
    names = [unit.name for unit in step._now.planned.captured.units]
    assert names.count("addmm") == 2 * 2 * 4, "two layers, two batches, four parts"
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


class Masked(nn.Module):
    """One mask for each sample, as padding makes it."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x, mask):
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum((1, 2))


class DrawnOnce(nn.Module):
    """Reads what a dropout drew before it is divided, too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x, _):
        y = self.layer(x)
        mask = torch.empty_like(y).bernoulli_(0.5)
        once = y.detach() * mask  # not needed behind it: it changes
        return once + y * mask.div_(0.5)


class OfHalf(nn.Module):
    """A mean of 16 bits, whose sum has no room in them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x, _):
        y = self.layer(x)
        return y + (y.detach() * 0 + 300).half().mean().float() * y


class Strided(nn.Module):
    """Of one sample: rows of pixels are no samples, and their parts would have other pads."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(1, 4, 3, stride=4, padding=1)

    def forward(self, x, _):
        return self.layer(x).relu()


@pytest.mark.parametrize(("network", "shape", "count"), [
    (Masked, (8, 8, 16), 4), (DrawnOnce, (64, 16), 4), (OfHalf, (64, 16), 4), (Strided, (1, 1, 32, 32), 1)])
def test_what_parts_could_mistake_is_as_in_eager_mode(network, shape, count):
    torch.manual_seed(0)
    model, mask = network(), torch.rand(8, 1, 8, 8) > 0.3
    mask[..., 0] = True
    batch = (torch.randn(shape), mask)
    other, mine, its = twin(model, OPTIMIZERS["sgd"])

    def loss_fn(model, batch):
        return model(*batch).square().sum()

    step = lowtide.compile_step(model, loss_fn, mine, batch, split=f"samples:{max(2, count)}", effort=0.01)
    assert step.parts == count
    assert_close_steps(step, model, mine, other, its, loss_fn, batch, 1e-4, steps=1)


class Shared(torch.nn.Module):
    """One batch norm that runs several times in a step."""

    def __init__(self, times, spatial):
        super().__init__()
        self.times = times
        self.layer = torch.nn.Conv2d(6, 8, 1) if spatial else torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm2d(8) if spatial else torch.nn.BatchNorm1d(8)

    def forward(self, *inputs):
        found = [self.norm(self.layer(x)) for x in inputs]
        return sum((a - b).square().mean() for a, b in zip(found, found[1:], strict=False)) + found[0].relu().mean()


@pytest.mark.parametrize(("times", "spatial"), [(2, False), (3, False), (2, True)])
def test_a_batch_norm_that_runs_several_times_in_a_step_stays_whole_and_is_named(times, spatial):
    torch.manual_seed(0)
    model = Shared(times, spatial).double()
    other = copy.deepcopy(model)
    batch = tuple(torch.randn(8, 6, *((3, 3) if spatial else ()), dtype=torch.double) for _ in range(times))
    optimizer, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    step = lowtide.compile_step(model, lambda m, b: m(*b), optimizer, batch, split="samples:2", effort=0.1, cache=False)
    assert step.parts == 2
    assert len([name for name in step.coupled if "batch_norm" in name]) >= times
    for _ in range(2):
        its.zero_grad()
        expected = other(*batch)
        expected.backward()
        its.step()
        torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-12, atol=1e-12)
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=1e-10, atol=1e-12)
