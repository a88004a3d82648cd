"""Tensors that are neither the model's parameters and buffers nor the batch: ops on them are ops of the step, and they are read anew in each."""

import copy
import functools
import warnings
import weakref

import pytest
from torch_models import torch

import lowtide

nn, F, prune = torch.nn, torch.nn.functional, pytest.importorskip("torch.nn.utils.prune")


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


def data(k, rows=5):
    g = torch.Generator().manual_seed(k)
    return torch.randn(rows, 6, generator=g), torch.randint(0, 4, (rows,), generator=g)


class Bank:
    """Features of the last batches, with a pointer into them, as slots."""

    __slots__ = ("at", "rows")

    def __init__(self):
        self.rows, self.at = torch.randn(10, 4, generator=torch.Generator().manual_seed(1)), torch.zeros(1, dtype=torch.long)

    def loss(self, model, batch):
        y = model(batch[0])
        loss = F.mse_loss(y @ self.rows.clone().t(), torch.zeros(len(y), 10))
        self.rows.index_copy_(0, (self.at + torch.arange(len(y))) % 10, y.detach())
        self.at.add_(len(y)).remainder_(10)
        return loss


def bank():
    held = Bank()
    return held.loss, lambda: [held.rows, held.at]


def teacher():
    """An EMA teacher of `.data`, whose norms are in training mode."""
    other = net().requires_grad_(False)

    def loss(model, batch):
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            p.data.mul_(0.9).add_(q.data, alpha=0.1)
        return F.mse_loss(model(batch[0]), other(batch[0]).detach())

    return loss, lambda: [*other.parameters(), *other.buffers()]


def foreach():
    other = [p.detach().clone() for p in net().parameters()]

    def loss(model, batch):
        with torch.no_grad():
            torch._foreach_mul_(other, 0.5)
            torch._foreach_add_(other, [p.detach() for p in model.parameters()], alpha=0.5)
        return F.cross_entropy(model(batch[0]), batch[1]) + other[1].sum() * model(batch[0]).mean()

    return loss, lambda: other


def partial():
    """A running scale in a dict that a partial is bound to, written through a view."""
    kept = {"scale": torch.ones(3, 4)}

    def loss(kept, model, batch):
        y = model(batch[0])
        kept["scale"][1].mul_(0.9).add_(y.detach().abs().mean(0))
        return F.cross_entropy(y / kept["scale"].sum(0), batch[1])

    return functools.partial(loss, kept), lambda: [kept["scale"]]


KINDS = [bank, teacher, foreach, partial]


@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_writes_on_what_loss_fn_holds_are_part_of_the_step(kind):
    loss_fn, held = kind()
    wanted_fn, wanted_held = kind()
    model, other = net(), net()
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    before = [t.clone() for t in held()]
    lowtide.plan(model, loss_fn, mine, data(0))
    step = lowtide.compile_step(model, loss_fn, mine, data(0), effort=0.1)
    assert all(map(torch.equal, before, held())), "capture runs nothing"
    for k, rows in enumerate((5, 5, 3, 5)):
        its.zero_grad()
        wanted = wanted_fn(other, data(k, rows))
        wanted.backward()
        its.step()
        assert torch.equal(step(data(k, rows)), wanted.detach()), k
        assert all(map(torch.equal, held(), wanted_held())), k
        assert all(not t.requires_grad and t.grad_fn is None for t in held())


def test_a_failed_step_puts_back_what_loss_fn_holds():
    scale = torch.ones(4)

    def loss_fn(model, batch):
        scale.mul_(2)
        return F.cross_entropy(model(batch[0]) * scale, batch[1])

    model = net()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0), check_finite=True)
    step(data(0))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(FloatingPointError):
        step((data(0)[0] * float("nan"), data(0)[1]))
    assert scale.tolist() == [2.0] * 4
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


WEIGHT = torch.ones(4)


def with_a_global(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], weight=WEIGHT)


def places():
    """By kind: loss_fn, and what puts another tensor in the place of the one that it reads."""
    listed, nested = [torch.ones(4)], {"of": [(torch.ones(4), "word")]}
    module = nn.CrossEntropyLoss(weight=torch.ones(4))
    return {
        "list": (lambda m, b: F.cross_entropy(m(b[0]), b[1], weight=listed[0]), lambda v: listed.__setitem__(0, v)),
        "tuple in a list": (lambda m, b: F.cross_entropy(m(b[0]), b[1], weight=nested["of"][0][0]),
                            lambda v: nested["of"].__setitem__(0, (v, "word"))),
        "buffer of a loss": (lambda m, b: module(m(b[0]), b[1]), lambda v: setattr(module, "weight", v)),
        "global": (with_a_global, lambda v: globals().update(WEIGHT=v)),
    }


@pytest.mark.parametrize("kind", places())
def test_a_tensor_that_is_put_anew_is_read_in_the_next_step(kind):
    loss_fn, put = places()[kind]
    model = net()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(0), effort=0.1)
    model.eval()
    for value in (torch.ones(4), torch.tensor([1.0, 5.0, 1.0, 0.2]), torch.tensor([3.0, 1.0, 2.0, 1.0])):
        put(value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(step(data(0)), loss_fn(model, data(0)).detach())
    put(torch.ones(4))


def test_one_of_another_kind_is_another_plan():
    held = [torch.ones(4)]
    loss_fn = lambda m, b: F.cross_entropy(m(b[0]) * held[0].sum(), b[1])  # noqa: E731
    model = net()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(0), effort=0.1)
    for value in (torch.ones(7), torch.ones(4, dtype=torch.float64), torch.ones(4)):
        held[0] = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = step(data(0))
        assert torch.allclose(got, loss_fn(copy.deepcopy(model), data(0)).detach())
    assert len(step._ready) == 3


def test_a_number_that_is_read_off_a_tensor_is_held():
    scale = torch.tensor(2.0)
    loss_fn = lambda m, b: F.cross_entropy(m(b[0]) * float(scale), b[1])  # noqa: E731
    model = net()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(0), effort=0.1)
    step(data(0))
    scale.fill_(3.0)
    with pytest.warns(UserWarning, match="scale is other numbers now"):
        got = step(data(0))
    assert torch.allclose(got, loss_fn(copy.deepcopy(model), data(0)).detach())


def test_what_cannot_be_found_again_and_is_written_is_refused_with_its_line():
    table = torch.ones(4)
    hidden = weakref.ref(table)

    def loss_fn(model, batch):
        return F.cross_entropy(model(batch[0]) * hidden().mul_(2), batch[1])

    model = net()
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_externals.py:\d+: .*neither a parameter nor a buffer nor of the batch"):
        lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0))
    assert table.tolist() == [1.0] * 4


@pytest.mark.parametrize("change", [lambda t: t.t_(), lambda t: t.resize_(2, 2), lambda t: t.unsqueeze_(0)])
def test_a_change_of_shape_is_refused_by_name(change):
    table = torch.ones(2, 3)

    def loss_fn(model, batch):
        change(table)
        return F.cross_entropy(model(batch[0]) * table.sum(), batch[1])

    model = net()
    with pytest.raises(lowtide.Unsupported, match="changes the shape of 'table'"):
        lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0))
    assert table.shape == (2, 3)


def test_the_native_engine_holds_for_contents_and_refuses_writes_and_state():
    held, writes = [torch.ones(4)], []

    def loss_fn(model, batch):
        for tensor in writes:
            tensor.mul_(0.5)
        return F.cross_entropy(model(batch[0]) * held[0], batch[1])

    model = net().double()
    held[0] = held[0].double()
    batch = (data(0)[0].double(), data(0)[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = lowtide.compile_step(model, loss_fn, optimizer, batch, engine="native", effort=0.1)
    for change in (lambda: held[0].mul_(3), lambda: held.__setitem__(0, held[0] * 2)):
        step(batch)
        change()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(step(batch), loss_fn(copy.deepcopy(model), batch).detach())
    writes.append(held[0])
    with pytest.raises(lowtide.Unsupported, match=r"the step changes 'held\[0\]', a tensor that is no buffer"):
        lowtide.compile_step(model, loss_fn, optimizer, batch, engine="native")


def test_versions_of_what_the_step_writes_grow_and_others_writes_are_noticed():
    scale, victims = torch.ones(4), []

    def loss_fn(model, batch):
        scale.mul_(1.5)
        return F.cross_entropy(model(batch[0]) * scale, batch[1])

    model = net()
    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0), effort=0.1)
    kept = (scale * torch.ones(4, requires_grad=True)).square().sum()
    assert scale._version == 0
    step(data(0))
    assert scale._version > 0 and victims == []
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


class Keeper(nn.Module):
    """A model with a buffer of its own and a table that is none."""

    def __init__(self):
        super().__init__()
        self.body, self.table = nn.Linear(4, 4), torch.arange(4.0)
        self.register_buffer("level", torch.ones(4))

    def forward(self, x):
        return self.body(x) * self.level + self.table


def put_under_own_buffer(model, teacher, queue):
    model.level.data = model.level * 0.5


def put_under_own_table(model, teacher, queue):
    model.table.data = model.table + model.level


def put_under_own_weight(model, teacher, queue):
    model.body.weight.data = model.body.weight / model.body.weight.norm()


def put_under_a_teacher(model, teacher, queue):
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.body.parameters()), teacher.parameters())


def put_under_a_queue(model, teacher, queue):
    queue["rows"][0].data = model.level


def put_under_what_the_step_makes(model, teacher, queue):
    made = model.table * 2
    made.data = model.level
    model.body.bias.add_(made)


@pytest.mark.parametrize("put", [put_under_own_buffer, put_under_own_table, put_under_own_weight, put_under_a_teacher, put_under_a_queue,
                                 put_under_what_the_step_makes])
def test_other_memory_under_a_tensor_is_refused_before_it_is_put_there(put):
    torch.manual_seed(0)
    model, teacher, queue = Keeper(), nn.Linear(4, 4), {"rows": [torch.ones(4)]}

    def loss_fn(model, x):
        out = model(x)
        with torch.no_grad():
            put(model, teacher, queue)
        return (out - teacher(x) * queue["rows"][0]).square().mean()

    tensors = [*model.state_dict().values(), model.table, *teacher.parameters(), queue["rows"][0]]
    before = [(t.data_ptr(), t.detach().clone()) for t in tensors]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start in (lowtide.plan, lowtide.compile_step):
        with pytest.raises(lowtide.Unsupported, match=r"given other memory by `.data`, which no op sees; copy_ under torch.no_grad\(\) is planned"):
            start(model, loss_fn, optimizer, torch.randn(3, 4))
        assert all(t.data_ptr() == address and torch.equal(t, old) for t, (address, old) in zip(tensors, before, strict=True))
    assert "data" not in vars(torch.Tensor)


class Split(nn.Module):
    """Statistics of two kinds of batches, which are not of one width."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.BatchNorm1d(6), nn.BatchNorm1d(3)
        self.out, self.other, self.layers = nn.Linear(6, 2), False, nn.Sequential()

    def forward(self, x):
        x = self.layers(x)
        return self.out(torch.cat([self.two(x[:, :3]), x[:, 3:]], 1) if self.other else self.one(x))


def take_other_statistics(model, optimizer):
    model.other = not model.other


def put_a_module_in_front(model, optimizer):
    model.layers.append(nn.BatchNorm1d(6, affine=False, momentum=0.3))


def prune_weights(model, optimizer):
    torch.manual_seed(2)
    prune.l1_unstructured(model.out, "weight", 3)
    optimizer.param_groups[0]["params"][:] = list(model.parameters())


def add_a_trained_norm(model, optimizer):
    model.layers.append(nn.BatchNorm1d(6))
    optimizer.add_param_group({"params": list(model.layers.parameters())})


@pytest.mark.parametrize("change", [take_other_statistics, put_a_module_in_front, prune_weights, add_a_trained_norm])
def test_plans_of_one_step_may_write_other_tensors(change):
    """What is kept of a tensor that is written, for a step that fails, has the form of that tensor."""
    torch.manual_seed(0)
    model = Split()
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))

    def loss_fn(model, x):
        return model(x).square().mean()

    step = lowtide.compile_step(model, loss_fn, mine, torch.randn(5, 6), effort=0.1, rehearse=False)
    for k in range(4):
        if k == 1 or (k > 1 and change is take_other_statistics):
            change(model, mine), change(other, its)
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(k))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = step(x)
        its.zero_grad()
        wanted = loss_fn(other, x)
        wanted.backward()
        its.step()
        assert torch.equal(loss, wanted)
        assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True)), (change, k)


@pytest.mark.parametrize("kind", ["buffer", "teacher", "of the step"])
def test_other_memory_by_set_is_refused_by_name(kind):
    model, teacher = nn.Linear(3, 3), nn.Linear(3, 3)
    model.register_buffer("kept", torch.zeros(3))

    def loss_fn(m, x):
        y = m(x)
        tensor = {"buffer": m.kept, "teacher": teacher.weight.detach(), "of the step": torch.zeros(3)}[kind]
        tensor.set_(torch.ones(3) + 1)
        return (y * tensor.sum()).square().mean()

    with pytest.raises(lowtide.Unsupported, match=r"is given other memory by set_\(\)"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 3), effort=0.1)


def test_numpy_is_seeded_in_no_step():
    numpy = pytest.importorskip("numpy")
    model = nn.Linear(3, 3)

    def loss_fn(m, x):
        numpy.random.seed(1)
        return m(x).square().mean()

    with pytest.raises(lowtide.Unsupported, match="numbers are drawn from Python's or numpy's"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 3), effort=0.1)
