"""recorded.py against PyTorch's own way of noting ops: the same graphs, values and units."""

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = torch.nn

from lowtide.pytorch import planning, recorded  # noqa: E402
from lowtide.pytorch.externals import Externals  # noqa: E402
from lowtide.pytorch.known import KnownValues  # noqa: E402
from lowtide.pytorch.options import StepOptions  # noqa: E402


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layer(self.table(x), src_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1])).square().mean()


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.3))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        y = self.body(x)
        first, second = y.chunk(2, 1)
        first = first + 1
        first.mul_(second.sigmoid())
        return torch.cat([first, second], 1).std() + torch.tensor([1.0, 2.0]).sum()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        y, _ = self.cell(x)
        values, places = y.topk(2, dim=-1)
        scale = float(x.shape[0]) / y.abs().sum().item()
        return F.cross_entropy(self.out(y[:, -1]), places[:, 0, 0].remainder(3)) * scale + values.mean()


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = torch.utils.checkpoint.checkpoint(lambda t: F.dropout(self.one(t).tanh(), 0.2), x, use_reentrant=False)
        y = y.t().contiguous().t_()
        with torch.autocast("cpu", torch.bfloat16):
            y = self.two(y)
        return y.float().logsumexp(-1).mean() + F.huber_loss(y.float(), torch.zeros_like(x))


class Omitted(nn.Module):
    """Ops whose optional operands are given, and left out, by turns."""

    def __init__(self):
        super().__init__()
        self.convolution, self.weight = nn.Conv1d(4, 4, 1, bias=False), nn.Parameter(torch.rand(6))

    def forward(self, x):
        y = F.group_norm(self.convolution(x), 2) + F.layer_norm(x, (6,)) + F.layer_norm(x, (6,), self.weight) + F.instance_norm(x)
        mask = torch.zeros(6, 6)
        y = y[:, None].transpose(-1, -2).expand(-1, 2, -1, -1)
        y = F.scaled_dot_product_attention(y, y, y) + F.scaled_dot_product_attention(y, y, y, is_causal=True) + F.scaled_dot_product_attention(y, y, y, mask)
        z = y.clamp(max=0.5) + y.clamp(min=-0.5) + torch.nan_to_num(y) + torch.nan_to_num(y, posinf=3.0) + y.clip(-2, None).round(decimals=1).detach()
        return z.std(unbiased=True) + z.std(correction=None) + z.sum(dtype=None) + F.nll_loss(z[:, 0].log_softmax(1), torch.zeros(3, 4, dtype=torch.long), ignore_index=1)


CASES = {
    "omitted": (Omitted, lambda: torch.randn(3, 4, 6)),
    "attention": (Attention, lambda: torch.randint(0, 11, (2, 4))),
    "images": (Images, lambda: torch.randn(2, 3, 8, 8)),
    "recurrent": (Recurrent, lambda: torch.randn(3, 4, 5)),
    "checkpointed": (Checkpointed, lambda: torch.randn(4, 6)),
}


def captured(name):
    torch.manual_seed(0)
    make, batch = CASES[name]
    model = make()
    return planning.capture(model, lambda m, b: m(b), torch.optim.AdamW(model.parameters()), batch(), StepOptions())


def graph_of(step):
    """Nodes with what they make: which of the values share memory by the order in which a storage comes first."""
    storages, nodes = {}, []
    for node in step.trace.module.graph.nodes:
        value = node.meta.get("val")
        made = [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, torch.Tensor)]
        nodes.append((node.name, str(node.target), str(node.args), str(node.kwargs), step.trace.places.get(node.name),
                      [(tuple(v.shape), v.stride(), v.storage_offset(), v.dtype, v.device, storages.setdefault(v.untyped_storage()._cdata, len(storages)))
                       for v in made]))
    return nodes


def units_of(step):
    return [(u.name, u.reads, u.makes, u.updates, u.statistics, sorted(u.after), u.place) for u in step.units]


@pytest.mark.parametrize("name", CASES)
def test_the_short_way_notes_the_same_graph(name, monkeypatch):
    captured(name)  # PyTorch remembers what ops make of fake tensors, and may answer otherwise the first time (mkldnn_rnn_layer_backward)
    taken = []
    record = recorded.record

    def counted(func, args, kwargs, alike):
        out = record(func, args, kwargs, alike)
        taken.append(out is not recorded.DECLINED)
        return out

    monkeypatch.setattr(recorded, "record", counted)
    short = captured(name)
    assert sum(taken) > 0.8 * len(taken)
    monkeypatch.setattr(recorded, "record", lambda *_: recorded.DECLINED)
    monkeypatch.setattr(recorded, "device_asked", lambda *_: recorded.DECLINED)
    plain = captured(name)
    assert graph_of(short) == graph_of(plain)
    assert units_of(short) == units_of(plain)


@pytest.mark.parametrize("name", CASES)
def test_modes_that_call_each_other_note_what_pytorchs_dispatcher_has_them_note(name, monkeypatch):
    captured(name)
    taken = []
    dispatch = KnownValues.dispatch
    monkeypatch.setattr(KnownValues, "dispatch", lambda *more: taken.append(1) or dispatch(*more))
    direct, ways = captured(name), []
    monkeypatch.setattr(Externals, "go_on", lambda _, func, types, args, kwargs: ways.append(1) or func(*args, **kwargs))
    assert graph_of(direct) == graph_of(captured(name))
    assert len(taken) >= 2 * len(ways) > 40


def test_an_op_that_fails_leaves_no_node(monkeypatch):
    """The user's code may catch what an op raises, and go on."""

    def loss(model, batch):
        try:
            model(batch) @ batch.new_ones(5)
        except RuntimeError:
            pass
        return model(batch).square().mean()

    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    step = planning.capture(model, loss, torch.optim.SGD(model.parameters(), 0.1), torch.randn(2, 3), StepOptions())
    assert not [n for n in step.trace.module.graph.nodes if "mv" in n.name]
