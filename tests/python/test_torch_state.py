"""What the forward pass keeps in plain attributes, lists, dicts and closures goes on from step to step as in eager mode, or is refused."""

import collections
import copy
import warnings

import pytest
from torch_models import torch

import lowtide

nn, F = torch.nn, torch.nn.functional


class Net(nn.Module):
    """A layer, and a forward pass from a function of (module, x)."""

    def __init__(self, forward, **kept):
        super().__init__()
        self.layer, self.run = nn.Linear(6, 4), forward
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.run(self, x)


def hidden_pair(m, x):
    """A tuple of states that is None at first, as an LSTM's."""
    y = m.layer(x)
    h, c = m.state if m.state is not None else (torch.zeros_like(y), torch.ones_like(y))
    m.state = ((h + y).tanh().detach(), (c * y).sigmoid().detach())
    return y + m.state[0] * h + c


def in_a_dict(m, x):
    """A dict that is put anew in each pass."""
    y = m.layer(x)
    m.memory = {"mean": 0.5 * m.memory["mean"] + 0.5 * y.detach().mean(0), "last": y.detach()}
    return y - m.memory["mean"]


def entry_of_a_dict(m, x):
    y = m.layer(x)
    m.memory["mean"] = 0.9 * m.memory["mean"] + y.detach().mean(0)
    return y - m.memory["mean"]


def deque_of_states(m, x):
    y = m.layer(x)
    out = y + sum(m.states)
    m.states.append(y.detach() * 0.5)
    return out


def swapped(m, x):
    """Two that change places, and one that the batch is kept in."""
    y = m.layer(x) + m.old - m.new
    m.old, m.new, m.seen = m.new, y.detach().mean(0), x
    return y


def written_before_it_is_read(m, x):
    """As auxiliary losses of experts: loss_fn reads it in the same step."""
    y = m.layer(x)
    m.penalty = y.square().mean()
    return y


def counted(m, x):
    m.calls += 1
    m.names.append("call")
    return m.layer(x)


def flag(m, x):
    """Set up from the first batch, which a flag remembers."""
    if not m.ready:
        m.scale = x.detach().std(0) + 1
        m.ready = True
    return m.layer(x / m.scale)


def view_of_a_weight(m, x):
    m.watched = m.layer.weight.detach()[0]
    return m.layer(x) + m.watched.sum()


KEPT = {
    hidden_pair: lambda: {"state": None}, in_a_dict: lambda: {"memory": {"mean": torch.zeros(4), "last": torch.zeros(5, 4)}},
    entry_of_a_dict: lambda: {"memory": {"mean": torch.zeros(4)}},
    deque_of_states: lambda: {"states": collections.deque([torch.zeros(5, 4), torch.ones(5, 4)], maxlen=2)},
    swapped: lambda: {"old": torch.zeros(4), "new": torch.ones(4), "seen": None},
    written_before_it_is_read: lambda: {"penalty": None}, counted: lambda: {"calls": 0, "names": []},
    flag: lambda: {"ready": False, "scale": None}, view_of_a_weight: lambda: {"watched": None},
}


def data(k, rows=5):
    g = torch.Generator().manual_seed(k)
    return torch.randn(rows, 6, generator=g), torch.randint(0, 4, (rows,), generator=g)


def loss_fn(model, batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    return loss + model.penalty if "penalty" in vars(model) else loss


def twins(forward, kept):
    torch.manual_seed(0)
    model = Net(forward, **kept)
    other = copy.deepcopy(model)
    return model, other, *(torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, (list, tuple, collections.deque)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and (all(equal(a[k], b[k]) for k in a) and a.keys() == b.keys() if isinstance(a, dict) else a == b)


@pytest.mark.parametrize("forward", KEPT, ids=lambda f: f.__name__)
def test_state_goes_on_as_in_eager_mode(forward):
    model, other, mine, its = twins(forward, KEPT[forward]())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, mine, data(0), effort=0.1)
        for k in range(4):
            its.zero_grad()
            wanted = loss_fn(other, data(k))
            wanted.backward()
            its.step()
            assert torch.equal(step(data(k)), wanted.detach()), k
            for name in KEPT[forward]():
                assert equal(getattr(model, name), getattr(other, name)), (k, name)
    assert len(step._ready) <= 2, "what is kept for good asks for one more plan, not for one in each step"


def test_a_number_that_moves_is_told_and_one_that_the_step_depends_on_is_refused():
    model, _, mine, _ = twins(counted, KEPT[counted]())
    with pytest.warns(UserWarning, match=r"moves calls \(0, 1, 2\), the length of names; .*where a comparison of it comes out otherwise, the step is captured anew"):
        lowtide.plan(model, loss_fn, mine, data(0))

    def warmed(m, x):
        m.calls += 1
        return m.layer(x) * (m.calls / 10)

    def deeper(m, x):
        m.names.append(1)
        return m.layer(x) / len(m.names)

    def halved(m, x):
        m.rate = m.rate * 0.5
        return m.layer(x) * m.rate

    for forward, kept, line in ((warmed, {"calls": 0}, r"moves 'calls' \(0, 1, 2\), and the step depends on it.*register_buffer"),
                                (deeper, {"names": []}, "makes 'names' longer, and the step depends on it"),
                                (halved, {"rate": 1.0}, r"moves 'rate' \(1.0, 0.5, 0.25\)")):
        model, _, mine, _ = twins(forward, kept)
        with pytest.raises(lowtide.Unsupported, match=line):
            lowtide.compile_step(model, loss_fn, mine, data(0))
        assert getattr(model, next(iter(kept))) == next(iter(kept.values()))


def test_another_shape_or_a_state_that_is_set_back_is_another_plan():
    model, other, mine, its = twins(hidden_pair, {"state": None})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, mine, data(0), effort=0.1)
        for k, rows in enumerate((5, 5, 3, 3, 5)):
            if k in (2, 4):
                model.state = other.state = None
            its.zero_grad()
            wanted = loss_fn(other, data(k, rows))
            wanted.backward()
            its.step()
            assert torch.equal(step(data(k, rows)), wanted.detach()), k
    assert len(step._ready) == 4, "two shapes, each from nothing and from a state"


def test_a_table_of_shapes_alone_is_made_by_the_plan():
    def rotary(m, x):
        if m.table is None or len(m.table) < len(x):
            m.table = torch.arange(len(x))[:, None] * torch.linspace(0, 1, 4)
        return m.layer(x) * m.table[:len(x)].cos()

    model, other, mine, its = twins(rotary, {"table": None})
    step = lowtide.compile_step(model, loss_fn, mine, data(0), effort=0.1)
    for k, rows in enumerate((5, 9, 5)):
        wanted = loss_fn(other, data(k, rows))
        its.zero_grad()
        wanted.backward()
        its.step()
        assert torch.equal(step(data(k, rows)), wanted.detach()), k
        assert torch.equal(model.table, other.table), k
    assert torch.equal(loss_fn(model, data(7, 12)), loss_fn(other, data(7, 12)))


class Packed:
    def __init__(self, value):
        self.value = value


def test_an_object_with_tensors_of_the_step_is_refused_by_name():
    def forward(m, x):
        y = m.layer(x)
        m.packed = Packed(y)
        return y

    model, _, mine, _ = twins(forward, {"packed": None})
    with pytest.raises(lowtide.Unsupported, match="'packed' is a Packed that holds tensors of the step"):
        lowtide.plan(model, loss_fn, mine, data(0))
    assert model.packed is None


class Spiking(nn.Module):
    """A buffer that begins as another kind than it goes on as."""

    def __init__(self, begins):
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.register_buffer("mem", begins, persistent=False)

    def forward(self, x):
        y = self.layer(x)
        if self.mem is None or self.mem.shape != y.shape or self.mem.dtype != y.dtype:
            self.mem = torch.zeros_like(y).detach()
        self.mem = (self.mem * 0.9 + y).detach()
        return y * self.mem


@pytest.mark.parametrize("begins", [torch.zeros(0), torch.zeros(5, 4, dtype=torch.double), torch.zeros(5, 1), None], ids=["empty", "double", "column", "none"])
def test_a_buffer_that_a_step_puts_anew_as_another_kind_takes_another_plan(begins):
    torch.manual_seed(0)
    model = Spiking(begins)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    batches = [torch.randn(n, 6, generator=torch.Generator().manual_seed(n)) for n in (5, 5, 3, 3)]
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, batches[0], effort=0.1)
    for x in batches:
        loss = step(x)
        its.zero_grad()
        wanted = other(x).square().mean()
        wanted.backward()
        its.step()
        assert torch.equal(loss, wanted.detach()) and torch.equal(model.mem, other.mem) and torch.equal(model.layer.weight, other.layer.weight)
