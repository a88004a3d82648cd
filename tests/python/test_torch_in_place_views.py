"""Writes in place on parts of what a step makes, in steps where anything may run again: eager mode's bits.

A write on a view (a chunk, a slice, one of unbind's) leaves the storage's other parts as they are, so it makes a new storage
of all of it, and all views move there (units.py). A view that is moved into the wrong one, or a name that shows the new
storage where the old one is meant, is a wrong gradient only where something runs again. Random programs find it: their units run
in random orders with random reruns, as plans may have them; a few are planned within the least arena.
"""

import random

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, torch, twin

import lowtide
from lowtide.pytorch import planning
from lowtide.pytorch.code import Source, compiled

nn, F = torch.nn, torch.nn.functional


class Drawn(nn.Module):
    """A forward pass of random writes on views. What it does is drawn from the seed, the same in each call."""

    def __init__(self, seed, writes):
        super().__init__()
        self.seed, self.writes = seed, writes
        self.layers = nn.ModuleList([nn.Linear(12, 12) for _ in range(3)])

    def forward(self, x):
        draw = random.Random(self.seed)
        values = [torch.tanh(layer(x)) if k % 2 else layer(x) for k, layer in enumerate(self.layers)]
        for _ in range(self.writes):
            whole = draw.randrange(len(values))
            if draw.random() < 0.35:  # the parts are somebody else's operands before they are written
                values.append(torch.sigmoid(values[whole]) * draw.choice(values))
            written = values[whole]
            if written.is_leaf or draw.random() < 0.4:
                written = values[whole] = written * draw.choice([0.5, 1.5])
            parts = views(draw, written)
            targets = [draw.choice(parts), *([draw.choice(parts)] if draw.random() < 0.5 else [])]
            other = views(draw, draw.choice(values))
            for target in targets:
                write(draw, target, next((o for o in other if o.shape == target.shape and o is not target), None))
            if draw.random() < 0.5:
                values.append(torch.tanh(torch.cat([p.flatten() for p in parts])[:48].reshape(4, 12)))
        return torch.stack([v.sum() for v in values[:3]]).sum() + sum((v * v).mean() for v in values)


def views(draw, x):
    """Parts of a value of 4 by 12, of one shape; some of them views of views. None shares memory with another."""
    how = draw.randrange(9)
    if how == 0:
        return list(x.chunk(3, 1))
    if how == 1:
        return list(x.unsafe_chunk(3, 1))
    if how == 2:
        return list(x.unbind(0))
    if how == 3:
        return [x.select(0, 1), x[2], x[3]]
    if how == 4:
        return [x[:, 0::2], x[:, 1::2]]
    if how == 5:
        return [x.narrow(1, 2, 4), x.narrow(1, 7, 4)]
    if how == 6:
        return [x.view(2, 2, 12)[0], x.view(2, 2, 12)[1]]
    if how == 7:
        return list(x.t().split([4, 4, 4]))
    return list(x.view(4, 3, 4).transpose(0, 1).unbind(0))


def write(draw, target, other):
    """A write in place that keeps numbers small."""
    how = draw.randrange(9)
    if how == 0:
        target.mul_(0.7)
    elif how == 1:
        target.add_(0.25)
    elif how == 2:
        target.sigmoid_()
    elif how == 3 and other is not None:
        target.mul_(torch.sigmoid(other))
    elif how == 4 and other is not None:
        target.add_(other, alpha=0.5)
    elif how == 5 and other is not None:
        target.copy_(other)
    elif how == 6:
        target[..., 1:3] = 0.1
    elif how == 7:
        target.tanh_()
    else:
        target.index_add_(-1, torch.tensor([0, 2]), torch.ones_like(target[..., :2]) * 0.3)


def runs_in_eager_mode(model, loss_fn, batch):
    """Autograd refuses some writes: of views of a call that gives several, of what a gradient needs."""
    try:
        loss_fn(model, batch).backward()
    except RuntimeError:
        return False
    model.zero_grad()
    return True


def programs(first, count):
    """So many programs that autograd takes."""
    found, seed = [], first
    batch = torch.randn(4, 12, generator=torch.Generator().manual_seed(1))
    while len(found) < count:
        torch.manual_seed(seed)
        model = Drawn(seed, writes=1 + seed % 4)
        if runs_in_eager_mode(model, loss_of, batch):
            found.append((seed, model, batch))
        seed += 1
    return found


def loss_of(model, batch):
    return model(batch)


class RandomOrder:
    """Code that runs a step's units in a random valid order: values are let go of at random, and made again where they are
    needed later."""

    def __init__(self, program, units, seed):
        self.program, self.units, self.draw = program, [u for u in units if u.update is None], random.Random(seed)
        self.source = Source(program, by_strides=self.draw.random() < 0.7)
        self.maker = {s: unit for unit in self.units for s in unit.makes}
        self.wanted = [*(t for t in program.outputs if t is not None),
                       *(unit.update_tensors[1] for unit in units if unit.update is not None)]
        self.ran, self.there, self.reruns = set(), set(), 0
        self.names = [f"t{t}" for t in program.given if program.storage_of(t).role not in ("", "state")]
        for t in program.given:
            self.source.there(t)
            self.there.add(program.tensors[t].storage)

    def run(self, unit):
        waiting = [unit]
        while waiting:
            now = waiting[-1]
            missing = [s for s in now.reads if s not in self.there]
            if missing:
                waiting += [self.maker[s] for s in missing]
                continue
            waiting.pop()
            for s in set(now.makes) & self.there:
                self.source.drop(s)
            self.source.unit(now, now.number in self.ran)
            self.reruns += now.number in self.ran
            self.ran.add(now.number)
            self.there |= set(now.makes)

    def code(self):
        waiting = list(self.units)
        self.draw.shuffle(waiting)
        for unit in waiting:
            if unit.number not in self.ran:
                self.run(unit)
            for storage in self.draw.sample(sorted(s for s in self.there if s in self.maker), k=min(3, len(self.there & set(self.maker)))):
                self.source.drop(storage)
                self.there.discard(storage)
        for tensor in self.wanted:
            storage = self.program.tensors[tensor].storage
            if storage not in self.there:
                self.run(self.maker[storage])
            self.source.need(tensor)
            self.source.emit(f"r{tensor} = {self.source.name(tensor)}.clone()")
        results = ", ".join(f"r{tensor}" for tensor in self.wanted)
        return compiled(self.source.lines, self.source.names, self.names, f"[{results}]", "random order")


def gradients_of(model, batch):
    loss = loss_of(model, batch)
    loss.backward()
    found = [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
    model.zero_grad()
    return found


def runs_in_any_order(model, batch, orders):
    """How often units ran again in so many random orders, which all gave eager mode's loss and gradients."""
    wanted, again = gradients_of(model, batch), 0
    found = planning.capture(model, loss_of, torch.optim.SGD(model.parameters(), lr=0.1), batch, planning.StepOptions())
    given = [p.detach() for p in model.parameters()] + [batch, *found.program.constants]
    for order in range(orders):
        made = RandomOrder(found.program, found.units, order)
        with torch.no_grad():
            results = made.code()(list(given))
        again += made.reruns
        assert len(results) == len(wanted)
        assert all(torch.equal(a, b) for a, b in zip(results, wanted, strict=True)), order
    return again


@pytest.mark.parametrize("first", [0, 1000, 2000])
def test_units_of_random_writes_on_views_may_run_again_in_any_order(first):
    assert sum(runs_in_any_order(model, batch, orders=4) for _, model, batch in programs(first, 9)) > 100


def gates_of_unsafe_chunk(h, x):
    r, z, n = h.unsafe_chunk(3, 1)
    r, n = r.add_(x[:, :4]).sigmoid_(), n.mul_(r)
    return torch.tanh(n + x[:, 4:8]) * torch.sigmoid(z)


def gates_of_unsafe_split(h, x):
    i, f, g = torch.ops.aten.unsafe_split_with_sizes(h, [4, 4, 4], 1)
    f.add_(x[:, :4]).tanh_()
    g.mul_(torch.sigmoid(i))
    return f * g


def gates_of_slices(h, x):
    first, second = h[:, :6], h[:, 6:]
    first.mul_(torch.sigmoid(second))
    second.copy_(first.detach() * 0.5 + x[:, :6])
    return (first * second.clone())[:, 1:5].exp_()


class Cell(nn.Module):
    """Steps of a recurrent cell whose gates are parts of one product, written in place."""

    def __init__(self, gates):
        super().__init__()
        self.gates, self.read, self.state = gates, nn.Linear(12, 12), nn.Linear(4, 12)

    def forward(self, x):
        h, losses = x[:, :4], []
        for _ in range(3):
            h = self.gates(self.state(h), self.read(x))
            losses.append(h.square().mean())
        return sum(losses)


class Torchs(nn.Module):
    """A cell of PyTorch's own."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(12, 4)

    def forward(self, x):
        h = None
        for _ in range(3):
            h = self.cell(x, h)
        return (h[0] if isinstance(h, tuple) else h).square().mean()


@pytest.mark.parametrize("make", [lambda: Cell(gates_of_unsafe_chunk), lambda: Cell(gates_of_unsafe_split), lambda: Cell(gates_of_slices),
                                  lambda: Torchs(nn.GRUCell), lambda: Torchs(nn.LSTMCell), lambda: Torchs(nn.RNNCell)],
                         ids=["unsafe_chunk", "unsafe_split", "slices", "GRUCell", "LSTMCell", "RNNCell"])
def test_gates_that_are_written_in_place_may_be_made_again(make):
    torch.manual_seed(0)
    assert runs_in_any_order(make(), torch.randn(4, 12), orders=12) > 20


@pytest.mark.parametrize("seed", [4, 15])
def test_random_writes_on_views_within_the_least_arena(seed):
    _, model, batch = programs(seed, 1)[0]
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = within_the_least_arena(model, mine, batch)
    assert_equal_steps(made, model, mine, other, its, loss_of, batch, steps=2)
    assert made.memory.beside == 0


def within_the_least_arena(model, optimizer, batch):
    with pytest.raises((lowtide.Infeasible, lowtide.Limit)) as refused:
        lowtide.compile_step(model, loss_of, optimizer, batch, budget=1 << 10, effort=0.1)
    least = int(str(refused.value).split("smallest arena found has ")[1].split()[0])
    return lowtide.compile_step(model, loss_of, optimizer, batch, budget=least, effort=0.5)
