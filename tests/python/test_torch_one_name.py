"""Views that are one tensor are made once, and what comes of it is eager mode's, bit for bit."""

import copy
import re

import pytest
import torch
import torch.nn.functional as F

import lowtide


class Mlp(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


class Shaped(torch.nn.Module):
    """Dimensions that come and go, of sizes one and none."""

    def __init__(self):
        super().__init__()
        self.a, self.w = torch.nn.Linear(6, 8), torch.nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        h = self.a(x.unsqueeze(1)).squeeze(1).unsqueeze(0).expand(1, -1, -1).view(-1, 8)
        h = h.t().t().permute(1, 0).transpose(0, 1).reshape(h.shape[0], 1, 8).squeeze()
        return (h.detach() + h.tanh()) @ self.w.t() + h[:0].sum()


class Reads(torch.nn.Module):
    """A parameter that is read as it is, through views, and by an op that is not known to take it so."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(6, 3))
        self.b = torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        return x @ self.w + self.b + F.softplus(self.b) * self.w.detach().sum(0) + self.w.t().t()[0]


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True)
        self.out = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.layer(x[:, None]).squeeze(1))


def loss_of(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def batch_of(seed, n=4):
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(n, 6, generator=drawn), torch.randint(0, 3, (n,), generator=drawn)


def views(step, names):
    """How many calls of these ops the code has."""
    found = {value: key for key, value in step._now.code.run.__globals__.items() if callable(value)}
    kernels = [found[op._op] for op in names if op._op in found]
    return sum(len(re.findall(rf"= {kernel}\(", step.source)) for kernel in kernels)


@pytest.mark.parametrize("kind", [Mlp, Shaped, Reads, Attends])
@pytest.mark.parametrize("budget", [None, "floor"])
def test_steps_are_eager_modes(kind, budget):
    torch.manual_seed(0)
    model = kind()
    other = copy.deepcopy(model)
    mine, its = torch.optim.AdamW(model.parameters()), torch.optim.AdamW(other.parameters())
    step = lowtide.compile_step(model, loss_of, mine, batch_of(0), budget=budget, effort=0.1, rehearse=False)
    for seed in range(3):
        its.zero_grad()
        loss = loss_of(other, batch_of(seed))
        loss.backward()
        its.step()
        assert torch.equal(step(batch_of(seed)), loss.detach())
        assert step.memory.beside == 0
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q), name


def test_detached_and_twice_transposed_tensors_are_made_once():
    model = Mlp()
    step = lowtide.compile_step(model, loss_of, torch.optim.SGD(model.parameters(), lr=0.1), batch_of(0), effort=0.1, rehearse=False)
    aten = torch.ops.aten
    assert views(step, [aten.detach.default]) == 1  # of the loss, which is the caller's
    assert views(step, [aten.t.default]) == 3 + 3  # of weights, and of gradients for those of weights: none is turned back


def test_results_that_show_one_memory_stay_apart():
    model = Mlp()

    def loss_fn(net, batch):
        out = net(batch[0])
        return F.cross_entropy(out, batch[1]), {"out": out.detach(), "again": out.detach().t().t()}

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), batch_of(0), effort=0.1, rehearse=False)
    _, aux = step(batch_of(1))
    kept = aux["again"].clone()
    aux["out"].zero_()
    assert torch.equal(aux["again"], kept)
