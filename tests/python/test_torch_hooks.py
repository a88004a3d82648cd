"""Hooks on gradients: captured where they change them, refused by name where a planned step would not run them."""

import copy

import pytest
from torch_models import assert_equal_steps, torch, trained

import lowtide

nn, F = torch.nn, torch.nn.functional


def loss_fn(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def pair(add=lambda model: None, **options):
    """(step, model, its optimizer, eager model, its optimizer, loss_fn, batch), with the hooks that `add` registers."""
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)), (torch.randn(5, 8), torch.randint(0, 3, (5,)))
    other = copy.deepcopy(model)
    for net in (model, other):
        add(net)
    mine, its = (torch.optim.SGD(trained(net), lr=0.5) for net in (model, other))
    return lowtide.compile_step(model, loss_fn, mine, batch, **options), model, mine, other, its, loss_fn, batch


def halve_in_place(gradient):
    gradient[:, :4] = 0


CHANGING = {
    "mask": lambda net: net[0].weight.register_hook(lambda g: g * (torch.arange(8) < 4)),
    "in_place": lambda net: net[0].weight.register_hook(halve_in_place),
    "two": lambda net: [net[2].bias.register_hook(lambda g: g + 1), net[2].bias.register_hook(lambda g: g * 3)],
    "module": lambda net: net[2].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,)),
}


@pytest.mark.parametrize("kind", CHANGING)
def test_hooks_that_change_gradients_are_as_in_eager_mode(kind):
    assert_equal_steps(*pair(CHANGING[kind]))


def test_hooks_run_for_each_accumulated_batch():
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    other, batches = copy.deepcopy(model), [(torch.randn(5, 8), torch.randint(0, 3, (5,))) for _ in range(2)]
    for net in (model, other):
        net.weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
    mine, its = (torch.optim.SGD(trained(net), lr=0.5) for net in (model, other))
    lowtide.compile_step(model, loss_fn, mine, batches, accumulate=2)(batches)
    for batch in batches:
        loss_fn(other, batch).backward()
    its.step()
    assert torch.equal(model.weight, other.weight)


def test_a_hook_that_comes_later_makes_a_new_plan():
    step, model, mine, other, its, _, batch = pair()
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=1)
    for net in (model, other):
        net[0].weight.register_hook(lambda g: g * 3)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch, steps=1)


def kept_number(net):
    net.seen = []
    for parameter in net.parameters():
        parameter.register_hook(lambda g: net.seen.append(g.norm().item()))


def kept_copy(net):
    net.last = None
    net[2].weight.register_hook(lambda g: setattr(net, "last", g.detach().clone()))


def average(net):
    net.register_buffer("mean", torch.zeros(6, 8))
    net[0].weight.register_hook(lambda g: (net.mean.mul_(0.9).add_(g, alpha=0.1), None)[1])


def checked(net):
    def check(gradient):
        if torch.isnan(gradient).any():
            raise FloatingPointError("nan in a gradient")

    net[0].bias.register_hook(check)


KEEPING = {"numbers": kept_number, "copy": kept_copy, "average": average, "check": checked}


@pytest.mark.parametrize("kind", KEEPING)
def test_a_hook_that_gives_nothing_back_and_keeps_something_is_as_in_eager_mode(kind):
    step, model, mine, other, its, _, batch = pair(KEEPING[kind])
    assert not getattr(model, "seen", None)  # nothing is left of the capture
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
    assert getattr(model, "seen", None) == getattr(other, "seen", None)
    assert getattr(model, "last", None) is None or torch.equal(model.last, other.last)


def test_the_check_of_a_hook_raises_before_anything_is_updated():
    step, model, *_, batch = pair(checked)
    wanted = copy.deepcopy(model.state_dict())
    with pytest.raises(FloatingPointError, match="nan in a gradient"):
        step((batch[0] * float("nan"), batch[1]))
    torch.testing.assert_close(model.state_dict(), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("hook", [lambda g: None, lambda g: print(g.shape), lambda g: print(g.norm().item())])
def test_a_hook_that_gives_and_keeps_nothing_is_refused_with_its_line(hook):
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_hooks.py:\d+: the hook of '0.weight' gives nothing back and keeps nothing"):
        pair(lambda net: net[0].weight.register_hook(hook))


def test_what_a_refused_hook_keeps_is_as_before():
    seen = []
    with pytest.raises(lowtide.Unsupported, match="asks for a number at once"):
        pair(lambda net: net[0].weight.register_hook(lambda g: (seen.append(g), seen.append(float(g.norm())), None)[-1]))
    assert not seen


def test_hooks_on_accumulated_gradients_are_refused():
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_hooks.py:\d+: '0.bias' has a hook on its accumulated"):
        pair(lambda net: net[0].bias.register_post_accumulate_grad_hook(lambda p: None))


@pytest.mark.parametrize("when", ["pre", "post"])
def test_hooks_on_the_optimizers_step_are_refused(when):
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(trained(model), lr=0.5)
    getattr(optimizer, f"register_step_{when}_hook")(lambda *_: None)
    with pytest.raises(lowtide.Unsupported, match=rf"test_torch_hooks.py:\d+: the optimizer has a step_{when}_hook"):
        lowtide.compile_step(model, loss_fn, optimizer, (torch.randn(5, 8), torch.randint(0, 3, (5,))))


@pytest.mark.parametrize("kind", CHANGING)
def test_the_native_engine_refuses_hooks(kind):
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_hooks.py:\d+: '.*' has a hook on gradients.*engine='torch'"):
        pair(CHANGING[kind], engine="native")


def test_the_native_engine_refuses_hooks_within_the_forward_pass():
    class Hooked(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            y.register_hook(lambda g: g * 2)
            return y

    model = Hooked(8, 3)
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_hooks.py:\d+: y.register_hook.*engine='torch' runs it"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(trained(model), lr=0.5),
                             (torch.randn(5, 8), torch.randint(0, 3, (5,))), engine="native")
