"""What plain tracing cannot follow, since it looks into tensors, is captured by way of dynamo, or
refused with its line."""

import contextlib
import copy
import os
import threading

import pytest
from torch_models import OPTIMIZERS, assert_equal_steps, asserted, build, torch, twin

import lowtide
from lowtide.pytorch import dynamo, planning, trace

NETWORKS = ["unet"]
if os.environ.get("LOWTIDE_LONG"):
    NETWORKS += ["gpt2", "llama", "transformer", "resnet"]
nn, F = torch.nn, torch.nn.functional


class Careful(nn.Module):
    """Looks into its input before it uses it; a norm, dropout, tied weights and a buffer that is
    assigned anew."""

    def __init__(self, look):
        super().__init__()
        self.look = look
        self.one, self.two, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.two.weight = self.one.weight
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        x = self.look(x)
        self.seen = self.seen + 1
        return F.dropout(self.two(F.gelu(self.norm(self.one(x)))), 0.25)


def loss_fn(model, x):
    return model(x).square().mean()


def unless_compiled(x):
    if not torch.compiler.is_compiling() and bool((x > 50).any()):
        raise ValueError("too large")
    return x * 2


def scaled(x):
    return x / (1 + x.abs().max().item())


def of_a_count(x):
    return x * (1.0 / (2 + int(x.argmax().item())))


def made(look, **options):
    torch.manual_seed(0)
    model, batch = Careful(look), torch.randn(6, 4)
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    found = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.2, **options)
    return found, model, mine, other, its, batch


@pytest.mark.parametrize("look", [unless_compiled, asserted, scaled, of_a_count])
def test_a_step_that_looks_into_tensors_is_eager_modes(look):
    found, model, mine, other, its, batch = made(look)
    assert_equal_steps(found, model, mine, other, its, loss_fn, batch, steps=2)
    assert_equal_steps(found, model, mine, other, its, loss_fn, batch.flip(0) * 3, steps=1)
    assert found.memory.beside == 0 and len(found._ready) == 1, "one plan for all contents"
    assert float(model.seen) == 3


def test_an_assertion_fails_in_the_step_and_leaves_the_model_as_it_was():
    found, model, *_, batch = made(asserted)
    found(batch)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(AssertionError, match="too large") as failed:
        found(batch * 1000)
    assert "as before the step" in " ".join(failed.value.__notes__)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_ops_know_their_module_and_line_by_way_of_dynamo():
    model, batch = Careful(asserted), torch.randn(6, 4)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    captured = planning.capture(model, loss_fn, optimizer, batch, planning.StepOptions())
    forward = [unit for unit in captured.units if unit.phase == "forward"]
    places = {call.name: call.place for unit in forward for call in unit.calls}
    assert "test_torch_capture.py" in places["aten.gelu"] and "F.gelu" in places["aten.gelu"]
    assert places["aten.native_batch_norm"].startswith("norm: ")
    back = next(unit.place for unit in captured.units if unit.name == "gelu_backward")
    assert "F.gelu" in back, "of the forward op"


def test_a_batch_for_each_of_several_is_captured_by_itself():
    torch.manual_seed(0)
    model, batches = Careful(asserted), [torch.randn(6, 4), torch.randn(5, 4)]
    other = copy.deepcopy(model)
    mine, its = OPTIMIZERS["sgd"](model.parameters()), OPTIMIZERS["sgd"](other.parameters())
    found = lowtide.compile_step(model, loss_fn, mine, batches, accumulate=2)
    torch.manual_seed(0)
    loss = found(batches)
    torch.manual_seed(0)
    losses = []
    for each in batches:
        losses.append(loss_fn(other, each))
        losses[-1].backward()
    its.step()
    assert torch.equal(loss, sum(losses[1:], losses[0]))
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_captured_by_dynamo_have_the_same_tensors_and_gradients(name, monkeypatch):
    """As if plain tracing had failed on each of them. What libraries choose in it may differ, so
    values are compared."""
    model, batch, loss = build(name)
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    plain, traced = planning.capture(other, loss, its, batch, planning.StepOptions()), []
    again = trace._trace_with

    def fails_first(shells, *rest):
        traced.append(type(shells[0]))
        if len(traced) == 1:
            raise lowtide.Unsupported("as if") from RuntimeError("what tracing met")
        return again(shells, *rest)

    monkeypatch.setattr(trace, "_trace_with", fails_first)
    found = lowtide.compile_step(model, loss, mine, batch, cache=False)
    assert traced[1:] == [dynamo.Retraced]
    assert found._now.planned.captured.updated == plain.updated
    mine_loss, its_loss = found(batch), lowtide.compile_step(other, loss, its, batch)(batch)
    torch.testing.assert_close(mine_loss, its_loss)
    for (key, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, msg=key)


def test_arguments_of_distributions_are_checked_in_every_step():
    def drawn(model, x):
        mean, width = model(x).chunk(2, 1)
        return torch.distributions.Normal(mean, width.exp()).rsample().square().mean()

    torch.manual_seed(0)
    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    step = lowtide.compile_step(model, drawn, mine, x)
    assert_equal_steps(step, model, mine, other, its, drawn, x)
    before = model.weight.clone()
    with pytest.raises(ValueError, match="Expected parameter loc"):
        drawn(other, x * torch.nan)
    with pytest.raises(ValueError, match="an argument of a distribution, or a sample, is not within its constraint"):
        step(x * torch.nan)
    assert torch.equal(before, model.weight)


# ---- what has no plan


def test_detecting_anomalies_is_refused_by_name():
    with pytest.raises(lowtide.Unsupported, match="detect_anomaly looks into every gradient.*check_finite=True"):
        with torch.autograd.detect_anomaly():
            made(lambda x: x)


def peeks(x):
    if x.sum() > 3:  # the line that is named
        return x * 2
    return x


def selects(x):
    return x[torch.rand(6) > 0.5]


def chooses(x):
    return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * 3, (x,))


@pytest.mark.parametrize(("look", "words"), [
    (peeks, r"if x.sum\(\) > 3:.*the step cannot be captured: a decision on the contents of a t"),
    (selects, r"the step cannot be captured: a decision on the contents of a tensor"),
    (chooses, r"torch.cond\(x.sum.*torch.cond is not planned")])
def test_what_has_no_plan_is_refused_with_its_line(look, words):
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_capture.py:\d+: .*" + words):
        made(look)


def test_a_shape_that_depends_on_contents_is_refused_with_its_line():
    def positive(model, x):
        return model(x)[model(x)[:, 0] > 0].sum()

    model = nn.Linear(4, 4)
    words = (r"test_torch_capture.py:\d+: return model\(x\).*aten.index.Tensor makes a tensor whose "
             "shape depends on the contents of another")
    with pytest.raises(lowtide.Unsupported, match=words):
        lowtide.plan(model, positive, OPTIMIZERS["sgd"](model.parameters()), torch.randn(3, 4))


def as_a_plain_tensor(model, x):
    return (model(x) * model.weight.as_subclass(torch.Tensor).sum()).mean()


def in_another_thread(model, x):
    made = []
    thread = threading.Thread(target=lambda: made.append(model.weight.detach() * 2))
    thread.start()
    thread.join()
    return (model(x) * made[0].sum()).mean()


def of_a_part_of_a_batch(model, x):
    return (model(x) + x[:1].as_subclass(torch.Tensor)[:, :3]).mean()


@pytest.mark.parametrize("loss_fn, mode", [(as_a_plain_tensor, contextlib.nullcontext), (of_a_part_of_a_batch, contextlib.nullcontext),
                                           (in_another_thread, contextlib.nullcontext),
                                           (lambda m, x: m(x).square().mean(), torch.autograd.graph.allow_mutation_on_saved_tensors)])
def test_what_passes_by_pytorchs_ops_is_planned_or_refused_by_name(loss_fn, mode):
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other, x = copy.deepcopy(model), torch.randn(4, 3)
    try:
        with mode():
            step = lowtide.compile_step(model, loss_fn, optimizer, x, effort=0.1)
    except lowtide.Unsupported as refused:
        assert ";" in str(refused), "a way round"
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    else:
        assert torch.equal(step(x), loss_fn(other, x))
