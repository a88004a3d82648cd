"""Backward passes within the step: reentrant checkpoints, reversible layers, attacks, penalties; eager mode's bits (accumulated.py)."""

import warnings

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, torch, twin
from torch.utils.checkpoint import checkpoint

import lowtide

nn, F = torch.nn, torch.nn.functional


class Residual(nn.Module):
    def __init__(self, width=8, dropout=0.0):
        super().__init__()
        self.inner, self.outer, self.dropout = nn.Linear(width, width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x):
        return x + self.outer(self.dropout(torch.tanh(self.inner(x))))


class Net(nn.Module):
    """Blocks between a table and a head; `around(block, x)` says how a block runs."""

    def __init__(self, around, blocks=2, dropout=0.0, frozen=False):
        super().__init__()
        self.table, self.head, self.around = nn.Embedding(9, 8), nn.Linear(8, 9), around
        self.blocks = nn.ModuleList([Residual(dropout=dropout) for _ in range(blocks)])
        self.table.weight.requires_grad_(not frozen)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = self.around(block, x)
        return self.head(x)


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def check(model, batch, loss_fn=loss_of, steps=2, **options):
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    made = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.1, **options)
    before = [p.detach().clone() for p in model.parameters()]
    if options.get("accumulate"):
        for _ in range(steps):
            loss = made(batch)
            its.zero_grad()
            wanted = [loss_fn(other, part) for part in batch]
            for part in wanted:
                part.backward()
            its.step()
            assert torch.equal(loss, sum(part.detach() for part in wanted))
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    else:
        assert_equal_steps(made, model, mine, other, its, loss_fn, batch, steps=steps)
    return made, [name for (name, p), b in zip(model.named_parameters(), before, strict=True) if not torch.equal(p, b)]


def tokens(seed=0):
    return torch.randint(0, 9, (2, 4), generator=torch.Generator().manual_seed(seed))


def reentrant(block, x):
    return checkpoint(block, x, use_reentrant=True)


def reentrant_with_a_gradient(block, x):
    return checkpoint(block, x if x.requires_grad else x.requires_grad_(), use_reentrant=True)


def nested(block, x):
    return checkpoint(lambda x: reentrant(block, torch.tanh(x)) + x, x, use_reentrant=True)


def twice(block, x):
    """The weights get gradients from within and from without."""
    return block(reentrant(block, x) + reentrant(block, x))


@pytest.mark.parametrize("around", [reentrant, nested, twice])
def test_reentrant_checkpoints_train_what_they_hold(around):
    torch.manual_seed(0)
    _, moved = check(Net(around), tokens())
    assert len(moved) == 11


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"check_finite": True}, {"budget": "90%"}], ids=str)
def test_reentrant_checkpoints_of_a_frozen_table(options):
    torch.manual_seed(0)
    _, moved = check(Net(reentrant_with_a_gradient, frozen=True), [tokens(), tokens(1)] if "accumulate" in options else tokens(), **options)
    assert len(moved) == 10


def test_a_dropout_in_a_reentrant_checkpoint_draws_its_mask_again():
    torch.manual_seed(0)
    check(Net(reentrant, dropout=0.3), tokens())


def test_a_reentrant_checkpoint_of_inputs_without_gradients_trains_nothing_as_in_eager_mode():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own: none of the inputs have requires_grad=True
        _, moved = check(Net(reentrant, frozen=True), tokens())
    assert moved == ["head.weight", "head.bias"]


class Reversible(torch.autograd.Function):
    """y1 = x1 + f(x2), y2 = x2 + g(y1); the backward pass makes x of y again and calls autograd for f and g."""

    @staticmethod
    def forward(ctx, x1, x2, f, g, way):
        with torch.no_grad():
            y1 = x1 + f(x2)
            y2 = x2 + g(y1)
        ctx.save_for_backward(y1, y2)
        ctx.f, ctx.g, ctx.way = f, g, way
        return y1, y2

    @staticmethod
    def backward(ctx, d1, d2):
        y1, y2 = (t.detach() for t in ctx.saved_tensors)

        def pulled(function, x, d):
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                y = function(x)
            if ctx.way == "grad":
                weights = list(function.parameters())
                found = torch.autograd.grad(y, [x, *weights], d)
                for p, g in zip(weights, found[1:], strict=True):
                    p.grad = g if p.grad is None else p.grad + g
                return y.detach(), found[0]
            torch.autograd.backward(y, d)
            return y.detach(), x.grad

        of_g, more = pulled(ctx.g, y1, d2)
        d1, x2 = d1 + more, y2 - of_g
        _, more = pulled(ctx.f, x2, d1)
        return d1, d2 + more, None, None, None


@pytest.mark.parametrize("way", ["backward", "grad"])
def test_reversible_layers_train_by_their_own_backward(way):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.f, self.g, self.last = (nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            x1, x2 = self.first(x).chunk(2, 0)
            for _ in range(2):
                x1, x2 = Reversible.apply(x1, x2, self.f, self.g, way)
            return self.last(torch.cat([x1, x2]))

    torch.manual_seed(0)
    _, moved = check(Net(), torch.randn(4, 8), lambda m, x: m(x).square().mean())
    assert len(moved) == 8


def test_a_penalty_on_gradients():
    def loss_fn(model, x):
        x = x.clone().requires_grad_()
        y = model(x).square().sum()
        (d,) = torch.autograd.grad(y, x, create_graph=True)
        return y + (d.norm(dim=1) - 1).square().mean()

    torch.manual_seed(0)
    check(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)), torch.randn(4, 8), loss_fn)


def test_an_attack_on_the_batch_calls_backward_and_clears_what_it_left():
    def loss_fn(model, x):
        attacked = x.clone().requires_grad_()
        model(attacked).square().mean().backward()
        model.zero_grad()
        return model(x + 0.1 * attacked.grad.sign()).square().mean()

    torch.manual_seed(0)
    check(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)), torch.randn(4, 8), loss_fn)


def test_two_losses_that_are_each_run_backwards_add_up():
    def loss_fn(model, x):
        hidden = torch.tanh(model[0](x))
        hidden.square().mean().backward(retain_graph=True)
        return model[1](hidden).square().mean()

    torch.manual_seed(0)
    check(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)), torch.randn(4, 8), loss_fn)


def test_a_teacher_that_was_not_frozen_gets_no_gradient():
    torch.manual_seed(0)
    teacher = nn.Linear(8, 8)

    def loss_fn(model, x):
        return (checkpoint(lambda x: teacher(model(x)), x.clone().requires_grad_(), use_reentrant=True) - teacher(x)).square().mean()

    model = nn.Linear(8, 8)
    made = lowtide.compile_step(model, loss_fn, OPTIMIZERS["sgd"](model.parameters()), torch.randn(4, 8), effort=0.1)
    made(torch.randn(4, 8))
    assert all(p.grad is None for p in (*teacher.parameters(), *model.parameters()))


def test_a_gradient_that_pytorch_itself_refuses_is_refused_with_its_words():
    def loss_fn(model, x):
        y = checkpoint(model, x.clone().requires_grad_(), use_reentrant=True)
        (d,) = torch.autograd.grad(y.sum(), model.weight)
        return y.sum() + d.sum()

    model = nn.Linear(8, 8)
    with pytest.raises(RuntimeError) as eager:
        loss_fn(model, torch.randn(4, 8))
    with pytest.raises(RuntimeError) as found:
        lowtide.compile_step(model, loss_fn, OPTIMIZERS["sgd"](model.parameters()), torch.randn(4, 8), effort=0.1)
    assert str(found.value) == str(eager.value) and not isinstance(found.value, lowtide.Error)
