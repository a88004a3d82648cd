"""Selective activation checkpoints with random numbers and writes in place: a planned step is eager mode's bit for bit."""

import copy
import functools

import pytest
from torch_models import differences, torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import lowtide

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten
PRODUCTS = [aten.mm.default, aten.addmm.default, aten.bmm.default]


def saves_products(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def saves_nothing(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_RECOMPUTE


def gated(layer, x):
    return x + F.dropout(F.gelu(layer(x)), 0.3)


def in_place(layer, x):
    return x + F.dropout(layer(x).relu_(), 0.3, inplace=True)


def attention(layer, x):
    y = layer(x)
    return F.dropout((y @ y.t()).softmax(-1), 0.2) @ y


def drawn(layer, x):
    return layer(x) * torch.rand_like(x) + torch.randn_like(x)


class Net(nn.Module):
    def __init__(self, block, contexts):
        super().__init__()
        self.first, self.second, self.out, self.block, self.contexts = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1), block, contexts

    def forward(self, x):
        context = functools.partial(create_selective_checkpoint_contexts, self.contexts)
        for layer in (self.first, self.second):
            x = checkpoint(functools.partial(self.block, layer), x, use_reentrant=False, context_fn=context)
        return self.out(x)


CONTEXTS = {"a list of ops": PRODUCTS, "must save": saves_products, "must run again": saves_nothing}


@pytest.mark.parametrize(("block", "contexts"), [(gated, "must save"), (in_place, "must run again"), (attention, "a list of ops"), (drawn, "must save")])
def test_it_is_planned_as_eager_mode_runs_it(block, contexts):
    torch.manual_seed(0)
    model = Net(block, CONTEXTS[contexts])
    other, x = copy.deepcopy(model), torch.randn(5, 8)
    optimizer, its = (torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (model, other))
    before = torch.utils.checkpoint._is_compiling
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), optimizer, x, effort=0.1, cache=False)
    assert torch.utils.checkpoint._is_compiling is before
    for seed in range(3):
        torch.manual_seed(seed)
        its.zero_grad()
        expected = other(x).square().mean()
        expected.backward()
        its.step()
        torch.manual_seed(seed)
        assert torch.equal(step(x), expected.detach())
    assert differences(model, optimizer, other, its) == []
