"""What the caller lends a step stays as it is, and nobody is accused of what the step itself does: batches that require gradients, tensors whose
elements share places, custom ops that write what they are given."""

import copy

import pytest
import torch
from torch import nn
from torch.library import custom_op
from torch_models import assert_equal_steps

import lowtide
from lowtide.pytorch.contents import checksum
from lowtide.pytorch.numbered import contents_word

F = nn.functional
FAST = {"effort": 0.1}


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def equal_steps(model, loss_fn, batch, steps=3, **options):
    """Steps of a planned step and of eager mode on a copy, bit for bit."""
    other = copy.deepcopy(model)
    optimizer, others = sgd(model), sgd(other)
    step = lowtide.compile_step(model, loss_fn, optimizer, batch, **FAST, **options)
    assert "equal bits" in step.rehearsal
    assert_equal_steps(step, model, optimizer, other, others, loss_fn, batch, steps)


# ---- batches that require gradients

def leaf():
    return drawn(4, 6).requires_grad_()


def made_of_others():
    return drawn(4, 6).requires_grad_() * 2


def parameter():
    return nn.Parameter(drawn(4, 6))


def inside(batch):
    return batch["x"] if isinstance(batch, dict) else batch[0] if isinstance(batch, tuple) else batch


def plain_loss(model, batch):
    return model(inside(batch)).square().mean()


def penalty(model, batch):
    """With a gradient penalty, as GANs have it."""
    x = inside(batch)
    y = model(x).square().sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return y / 10 + slope.square().mean()


def asks_for_gradients(model, batch):
    """FGSM."""
    x = inside(batch).detach().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).square().mean(), x)
    return model(x + 0.1 * slope.sign()).square().mean()


def sets_the_flag(model, batch):
    return model(inside(batch).requires_grad_()).square().mean()


@pytest.mark.parametrize("had", [False, True], ids=["none", "had"])
@pytest.mark.parametrize(("make", "loss_fn"), [(leaf, plain_loss), (parameter, penalty), (made_of_others, penalty), (lambda: drawn(4, 6), sets_the_flag),
                                               (lambda: {"x": leaf(), "n": 3}, plain_loss), (lambda: (leaf(), drawn(2)), asks_for_gradients)])
def test_gradients_and_flags_of_a_batch_are_the_callers(make, loss_fn, had):
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), make()
    x = inside(batch)
    root = x if x.is_leaf else x.grad_fn.next_functions[0][0].variable
    gradient = torch.full_like(root, 2.0) if had and root.requires_grad else None
    root.grad = gradient

    def as_before():
        same = root.grad is gradient and (gradient is None or torch.equal(gradient, torch.full_like(root, 2.0)))
        return same and x.requires_grad == required and x._version == version and (x.is_leaf or x.grad_fn is not None)

    required, version = x.requires_grad, x._version
    lowtide.plan(model, loss_fn, sgd(model), batch, **FAST)
    assert as_before()
    other = copy.deepcopy(model)
    optimizer, others = sgd(model), sgd(other)
    step = lowtide.compile_step(model, loss_fn, optimizer, batch, **FAST)
    assert as_before() and "equal bits" in step.rehearsal
    for _ in range(2):
        loss = step(batch)
        assert as_before()
        others.zero_grad()
        wanted = loss_fn(other, _fresh(batch))
        wanted.backward()
        others.step()
        assert torch.equal(loss, wanted)
    assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))
    if not x.is_leaf:
        x.sum().backward()  # the caller's graph is whole


def _fresh(batch):
    x = inside(batch).detach().clone().requires_grad_(inside(batch).requires_grad)
    return {**batch, "x": x} if isinstance(batch, dict) else (x, *batch[1:]) if isinstance(batch, tuple) else x


def leaves_a_gradient(model, batch):
    loss = model(batch).square().mean()
    loss.backward(retain_graph=True)
    return (model(batch) * batch.grad.mean()).square().mean()


def test_gradients_of_before_the_step_that_loss_fn_reads_are_refused():
    model = nn.Linear(6, 3)
    x = leaf()
    x.grad = torch.ones(4, 6)
    with pytest.raises(lowtide.Unsupported, match=r"`.grad` of a tensor of the batch.*x.grad = None"):
        lowtide.compile_step(model, leaves_a_gradient, sgd(model), x, **FAST)
    with pytest.raises(lowtide.Unsupported, match=r"`.grad` of a tensor of the batch"):
        lowtide.plan(model, lambda m, b: (m(b) * b.grad.mean()).square().mean(), sgd(model), x, **FAST)
    x.grad = None
    step = lowtide.compile_step(model, leaves_a_gradient, sgd(model), x, **FAST)
    step(x)
    x.grad = torch.ones(4, 6)
    with pytest.raises(lowtide.Usage, match="has a gradient already"):
        step(x)


# ---- elements that share places

class Holding(nn.Module):
    def __init__(self, held, as_buffer):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        if as_buffer:
            self.register_buffer("held", held)
        else:
            self.held = held

    def forward(self, x):
        return self.layer(x * self.held)


SHARED_PLACES = {
    "a row": lambda: drawn(1, 6).expand(4, 6), "a column": lambda: drawn(4, 1).expand(4, 6), "a number": lambda: drawn().expand(4, 6),
    "windows": lambda: drawn(9).unfold(0, 6, 1), "windows apart": lambda: drawn(20).as_strided((4, 6), (1, 2)),
    "windows with steps": lambda: drawn(30).unfold(0, 11, 3).select(1, 0)[:4, None].expand(4, 6),
}


@pytest.mark.parametrize("name", SHARED_PLACES)
def test_tensors_whose_elements_share_places_are_read_and_handed_out(name):
    torch.manual_seed(0)
    x, closed = SHARED_PLACES[name](), SHARED_PLACES[name]()

    def loss_fn(model, batch):
        y = model(batch[0] + closed)
        aux = {"x": batch[0], "labels": batch[1][:1].expand(4), "held": model.held[:, 1:], "closed": closed.t(), "y": y[:1].expand(4, 3)}
        return F.cross_entropy(y, batch[1]), aux

    batch = (x, torch.tensor([2]).expand(4))
    for as_buffer in (True, False):
        model = Holding(SHARED_PLACES[name](), as_buffer)
        step = lowtide.compile_step(model, loss_fn, sgd(model), batch, **FAST)
        assert "equal bits" in step.rehearsal
        _, wanted = loss_fn(model, batch)
        _, aux = step(batch)
        assert all(torch.equal(aux[key], wanted[key].detach()) for key in wanted)


def test_parameters_and_buffers_handed_out_expanded_are_as_behind_the_step():
    """As in eager mode, where they show the parameter itself."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))

    def loss_fn(model, x):
        y = model(x)
        return y.square().mean(), (model[0].bias.expand(4, 3), model[0].weight.unfold(1, 3, 1), model[1].running_mean.expand(2, 3))

    before = model[0].weight.detach().clone()
    step = lowtide.compile_step(model, loss_fn, sgd(model), drawn(4, 6), **FAST)
    _, (bias, weight, mean) = step(drawn(4, 6))
    assert not torch.equal(model[0].weight, before)
    assert torch.equal(bias, model[0].bias.expand(4, 3)) and torch.equal(weight, model[0].weight.unfold(1, 3, 1))
    assert torch.equal(mean, model[1].running_mean.expand(2, 3))


def test_memory_that_is_looked_at_may_still_grow():
    for look in (checksum, contents_word):
        tensor, other = drawn(3, 5), drawn(3, 5)
        assert look(tensor) == look(other) != look(tensor + 1)
        tensor.resize_(100)


# ---- custom ops that write what they are given

@custom_op("lowtide_tests::decay_", mutates_args={"x"})
def decay_(x: torch.Tensor, by: float) -> None:
    x.mul_(by).add_(0.1)  # the count of writes grows by two, and by one for the op


@custom_op("lowtide_tests::observe_", mutates_args={"low", "high"})
def observe_(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        low.copy_(torch.minimum(low, x.amin(0)))
    high.copy_(torch.maximum(high, x.amax(0)))
    return high - low


@observe_.register_fake
def _(x, low, high):
    return torch.empty_like(high)


_LIBRARY = torch.library.Library("lowtide_tests_raw", "DEF")
_LIBRARY.define("rise_(Tensor(a!) x) -> Tensor(a!)")
_LIBRARY.impl("rise_", lambda x: x.add_(1), "CPU")
_LIBRARY.impl("rise_", lambda x: x, "Meta")


class Written(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.layer, self.how, self.queue = nn.Linear(6, 3), how, [torch.ones(3)]
        self.register_buffer("low", torch.ones(3))
        self.register_buffer("high", torch.ones(3))

    def forward(self, x):
        y = self.layer(x)
        if self.how == "buffer":
            decay_(self.low, 0.9)
        if self.how == "external":
            decay_(self.queue[0], 0.8)
        if self.how == "two":
            y = y * observe_(y.detach(), self.low, self.high)
        if self.how == "twice":
            decay_(self.low, 0.9)
            y = y + self.low
            decay_(self.low, 0.8)
        if self.how == "raw":
            torch.ops.lowtide_tests_raw.rise_(self.high)
        return y * self.low + self.high * self.queue[0]


@pytest.mark.parametrize("how", ["buffer", "external", "two", "twice", "raw"])
def test_writes_of_custom_ops_are_ops_of_the_step(how):
    torch.manual_seed(0)
    equal_steps(Written(how), lambda model, x: model(x).square().mean(), drawn(4, 6), budget="floor" if how == "twice" else None)


def test_a_custom_op_that_writes_the_batch_is_refused_by_name():
    model = nn.Linear(6, 3)

    def loss_fn(model, x):
        decay_(x, 0.5)
        return model(x).square().mean()

    x = drawn(4, 6)
    with pytest.raises(lowtide.Unsupported, match=r"decay_\(x, 0.5\): 'batch.0' is written in place.*copy"):
        lowtide.compile_step(model, loss_fn, sgd(model), x, **FAST)
    assert torch.equal(x, drawn(4, 6))
