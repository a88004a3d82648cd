"""Tables that the forward pass makes of shapes and keeps, and parameters that it makes: the model has afterwards what eager mode has, or it is refused."""

import copy
import warnings

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


class Net(nn.Module):
    def __init__(self, forward, **kept):
        super().__init__()
        self.layer, self.run = nn.Linear(6, 4), forward
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.run(self, x)


def scaled_by_the_longest(m, x):
    """As rotary frequencies that a longer sequence stretches."""
    if m.table is None or m.table.shape[0] < len(x):
        m.table = torch.arange(len(x)).float()[:, None] / len(x)
    return m.layer(x) + m.table[:len(x)]


def pair(m, x):
    if m.cached is None or m.cached[0].shape[0] < len(x):
        angles = torch.outer(torch.arange(len(x)), torch.linspace(0, 1, 4) / len(x))
        m.cached = angles.cos(), angles.sin()
    return m.layer(x) * m.cached[0][:len(x)] + m.cached[1][:len(x)]


def by_length(m, x):
    if len(x) not in m.masks:
        m.masks[len(x)] = torch.full((len(x), 1), 0.5) + len(m.masks)
    return m.layer(x) * m.masks[len(x)]


def absent_at_first(m, x):
    if not hasattr(m, "grid") or m.grid.numel() < len(x):
        m.grid = torch.linspace(0, len(x), len(x))
    return m.layer(x) * m.grid[:len(x), None]


def late_buffer(m, x):
    if "ramp" not in m._buffers or m.ramp.numel() < len(x):
        m.register_buffer("ramp", torch.arange(len(x)) / len(x), persistent=False)
    return m.layer(x) * m.ramp[:len(x), None]


def only_its_length(m, x):
    if m.table is None or len(m.table) < len(x):
        m.table = torch.zeros(len(x))
    return m.layer(x) * len(m.table)


def another_at_first(m, x):
    """What is done with the table the first time is not what is done later."""
    if m.table is None:
        m.table = torch.ones(4)
        return m.layer(x) * 2
    return m.layer(x) + m.table


def decayed(m, x):
    m.table = torch.ones(()) if m.table is None else m.table * 0.5
    return m.layer(x) * m.table


def made_anew(m, x):
    m.table = torch.ones(len(x), 4).tril()
    return m.layer(x) * m.table


KEPT = {scaled_by_the_longest: {"table": None}, pair: {"cached": None}, by_length: {"masks": {}}, absent_at_first: {}, late_buffer: {},
        only_its_length: {"table": None}, another_at_first: {"table": None}, decayed: {"table": None}, made_anew: {"table": None}}
NAMES = ("table", "cached", "masks", "grid", "ramp")


def data(k, rows):
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(k))


def loss_fn(model, batch):
    return model(batch).square().mean()


def equal(a, b):
    if isinstance(a, (tuple, dict)):
        a, b = (list(v.items()) if isinstance(v, dict) else list(v) for v in (a, b))
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def beside(forward, rows, **options):
    torch.manual_seed(0)
    model = Net(forward, **copy.deepcopy(KEPT[forward]))
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, mine, data(0, rows[0]), effort=0.1, rehearse=False, **options)
        for k, n in enumerate(rows):
            its.zero_grad()
            wanted = loss_fn(other, data(k, n))
            wanted.backward()
            its.step()
            yield step, model, other, step(data(k, n)), wanted.detach(), k


@pytest.mark.parametrize("forward", KEPT, ids=lambda f: f.__name__)
def test_a_table_is_what_eager_mode_has(forward):
    for step, model, other, loss, wanted, k in beside(forward, (4, 4, 6, 4, 4, 6)):
        assert torch.equal(loss, wanted), k
        assert [name for name in NAMES if hasattr(model, name)] == [name for name in NAMES if hasattr(other, name)], k
        assert all(equal(getattr(model, name), getattr(other, name)) for name in NAMES if hasattr(model, name)), k
    assert all(map(torch.equal, model.parameters(), other.parameters()))


@pytest.mark.parametrize("forward", [scaled_by_the_longest, pair, by_length, absent_at_first, only_its_length, made_anew], ids=lambda f: f.__name__)
def test_one_shape_has_one_plan(forward):
    for step, _, _, loss, wanted, k in beside(forward, (4, 4, 4)):
        assert torch.equal(loss, wanted), k
    assert len(step._ready) == 1


@pytest.mark.parametrize("change, plans", [(lambda m: m.table.add_(1), 2), (lambda m: setattr(m, "table", m.table + 1), 2),
                                           (lambda m: setattr(m, "table", m.table.clone()), 1), (lambda m: setattr(m, "table", None), 1)],
                         ids=["in place", "anew", "equal", "taken out"])
def test_a_table_that_somebody_else_changes_is_seen(change, plans):
    for step, model, other, loss, wanted, k in beside(scaled_by_the_longest, (4, 4, 4)):
        assert torch.equal(loss, wanted), k
        if k == 1:
            change(model), change(other)
    assert len(step._ready) == plans


def test_native_steps_leave_the_table_too():
    for step, model, other, loss, wanted, k in beside(scaled_by_the_longest, (4, 4, 6, 4), engine="native"):
        torch.testing.assert_close(loss, wanted)
        assert torch.equal(model.table, other.table), k
    assert step.engine == "native"


@pytest.mark.parametrize("make, what", [
    (lambda m: setattr(m, "scale", nn.Parameter(torch.ones(4))), "'scale', a parameter"),
    (lambda m: m.register_parameter("scale", nn.Parameter(torch.zeros(4), requires_grad=False)), "'scale', a parameter"),
    (lambda m: m.more.append(nn.Parameter(torch.full((4,), 2.0))), "a parameter"),
    (lambda m: m.table.__setitem__("w", torch.ones(4, requires_grad=True)), "a parameter"),
    (lambda m: setattr(m, "scale", nn.Parameter(m.layer.bias.detach().clone())), "'scale', a parameter"),
    (lambda m: setattr(m, "norm", nn.LayerNorm(4)), "'norm', a module"),
], ids=["parameter", "registered", "parameter list", "tensor", "of a bias", "module"])
def test_what_the_forward_pass_makes_to_be_trained_is_refused(make, what):
    def forward(m, x):
        if not m.made:
            m.made = True
            make(m)
        return m.layer(x) * getattr(m, "scale", 1.0)

    torch.manual_seed(0)
    model = Net(forward, made=False, more=nn.ParameterList(), table={})
    with pytest.raises(lowtide.Unsupported, match=f"itself makes .*{what}.*run one batch through the module"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0, 4), effort=0.1)
    model(data(0, 4))  # the way round
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0, 4), effort=0.1, rehearse=False)
    wanted = loss_fn(model, data(0, 4)).detach()
    assert torch.equal(step(data(0, 4)), wanted)
