"""Buffers that are put anew while their old contents are read on, kept or given back: as in eager mode, bit for bit."""

import pytest
from torch_models import torch
from torch.utils.checkpoint import checkpoint

import lowtide

nn = torch.nn


class Moving(nn.Module):
    """Two buffers, and what is done with them."""

    def __init__(self, use):
        super().__init__()
        self.line, self.use, self.kept = nn.Linear(6, 4), use, []
        self.register_buffer("new", torch.ones(4))
        self.register_buffer("old", torch.full((4,), 2.0))

    def forward(self, x):
        y = self.line(x)
        return self.use(self, y, y.detach().mean(0))


def exchanged(m, y, mean):
    m.new, before = mean, m.new
    return y * before


def swapped(m, y, _):
    m.new, m.old = m.old, m.new
    return y * m.new


def moved_on(m, y, mean):
    m.old, m.new = m.new, mean
    return y * m.old


def moved_on_and_read(m, y, mean):
    before, m.old, m.new = m.old, m.new, mean
    return y * before * m.old


def in_a_checkpoint(m, y, mean):
    m.new, before = mean, m.new
    return checkpoint(lambda a: (a * before).sin(), y, use_reentrant=False)


def given_back(m, y, mean):
    m.new, before = mean, m.new
    return y, {"before": before, "part": before[1:]}


def kept(m, y, mean):
    m.kept = [m.new]
    m.new = mean
    return y * m.new


def a_part(m, y, mean):
    before, m.new = m.new[:2], mean
    return y[:, :2] * before


def put_twice(m, y, mean):
    before, m.new = m.new, m.new * 0.5 + mean
    y, m.new = y * before, m.new * 2
    return y * m.new


USES = [exchanged, swapped, moved_on, moved_on_and_read, in_a_checkpoint, given_back, kept, a_part, put_twice]


def loss_fn(model, batch):
    found = model(batch)
    return (found[0].square().mean(), found[1]) if isinstance(found, tuple) else found.square().mean()


def run(use, planned, batches, accumulate=1):
    torch.manual_seed(0)
    model = Moving(use)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    step = lowtide.compile_step(model, loss_fn, optimizer, batches[0], effort=0.1, accumulate=accumulate) if planned else None
    for batch in batches:
        if planned:
            answer = step(batch)
        else:
            optimizer.zero_grad()
            answers = [loss_fn(model, part) for part in (batch if accumulate > 1 else [batch])]
            for one in answers:
                (one[0] if isinstance(one, tuple) else one).backward()
            optimizer.step()
            answer = answers[0] if accumulate == 1 else (sum(one[0] for one in answers), [one[1] for one in answers])
        seen += [leaf.detach().clone() for leaf in torch.utils._pytree.tree_leaves((answer, model.kept, *model.buffers(), *model.parameters()))]
    return seen


@pytest.mark.parametrize("use", USES)
def test_what_a_buffer_was_before_it_was_put_anew_is_read_as_in_eager_mode(use):
    g = torch.Generator().manual_seed(1)
    batches = [torch.randn(3, 6, generator=g) for _ in range(3)]
    mine, theirs = run(use, True, batches), run(use, False, batches)
    assert len(mine) == len(theirs) and all(map(torch.equal, mine, theirs))


def test_each_part_of_an_accumulated_batch_has_its_own():
    g = torch.Generator().manual_seed(1)
    batches = [[torch.randn(3, 6, generator=g) for _ in range(2)] for _ in range(2)]
    mine, theirs = run(given_back, True, batches, 2), run(given_back, False, batches, 2)
    assert len(mine) == len(theirs) and all(map(torch.equal, mine, theirs))


class Laid(nn.Module):
    """A square buffer and an image, put anew with other strides."""

    def __init__(self, put):
        super().__init__()
        self.line, self.put = nn.Linear(4, 4), put
        self.register_buffer("square", torch.arange(16.0).view(4, 4) / 7)
        self.register_buffer("image", torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1)))

    def forward(self, x):
        y = self.line(x)
        self.put(self)
        return (y @ self.square).square().mean() + y.mean() * self.image.square().mean((1, 3)).sum()


def turned_image(m):
    m.image = m.image.contiguous() if m.image.stride(1) == 1 else m.image.contiguous(memory_format=torch.channels_last)


LAYING = {"transposed": lambda m: setattr(m, "square", m.square.t()), "a new one": lambda m: setattr(m, "square", (m.square + 1).t()),
          "channels last": turned_image, "alike": lambda m: setattr(m, "square", m.square.flip(0))}


@pytest.mark.parametrize("kind", LAYING)
def test_a_buffer_that_is_put_anew_with_other_strides_lies_so(kind):
    """Kernels go by strides: the second step's product has other bits where it lies as it did before."""
    g = torch.Generator().manual_seed(1)
    batches, found = [torch.randn(3, 4, generator=g) for _ in range(4)], []
    for planned in (True, False):
        torch.manual_seed(0)
        model = Laid(LAYING[kind])
        optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.01), []
        step = lowtide.compile_step(model, lambda model, x: model(x), optimizer, batches[0], effort=0.1) if planned else None
        for x in batches:
            if planned:
                loss = step(x)
            else:
                optimizer.zero_grad()
                loss = model(x)
                loss.backward()
                optimizer.step()
            seen += [(t.detach().clone(), t.stride()) for t in (loss, *model.buffers(), *model.parameters())]
        found.append(seen)
    assert all(torch.equal(a, b) and mine == its for (a, mine), (b, its) in zip(*found, strict=True))
