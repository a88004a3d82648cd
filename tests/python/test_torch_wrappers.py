"""Models and optimizers in other libraries' wrappers: a planned step is that of what they wrap, and what a wrapper adds is refused by name."""

import copy
import sys
import types

import pytest
from torch_models import torch

import lowtide

nn, F = torch.nn, torch.nn.functional
FAST = {"effort": 0.1, "cache": False}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def batch(seed):
    numbers = torch.Generator().manual_seed(seed)
    return torch.randn(3, 4, generator=numbers), torch.randint(0, 2, (3,), generator=numbers)


def loss_fn(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def assert_like_eager_mode(wrap):
    """Three planned steps of a wrapped pair beside three that are called by hand on another."""
    model, optimizer = wrap(*(lambda m: (m, torch.optim.AdamW(m.parameters())))(network()))
    other, its = wrap(*(lambda m: (m, torch.optim.AdamW(m.parameters())))(network()))
    step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), **FAST)
    for seed in range(3):
        its.zero_grad()
        expected = loss_fn(other, batch(seed))
        expected.backward()
        its.step()
        assert torch.equal(step(batch(seed)), expected.detach())
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
    inner, outer = optimizer.state_dict(), its.state_dict()
    for place, state in outer["state"].items():
        assert all(torch.equal(torch.as_tensor(state[name]), torch.as_tensor(inner["state"][place][name])) for name in state)
    return step


def compiled_in_place(model, optimizer):
    model.compile(backend="eager")
    return model, optimizer


def a_part_compiled(model, optimizer):
    model[0] = torch.compile(model[0], backend="eager")
    return model, optimizer


@pytest.mark.parametrize("wrap", [
    lambda m, o: (nn.DataParallel(m), o), lambda m, o: (torch.compile(m, backend="eager"), o), compiled_in_place, a_part_compiled],
    ids=["DataParallel", "torch.compile", "Module.compile", "a part"])
def test_a_wrapped_model_is_planned_as_it_is(wrap):
    assert_like_eager_mode(wrap)


def test_accelerates_prepared_model_and_optimizer_are_planned():
    accelerate = pytest.importorskip("accelerate")

    def wrap(model, optimizer):
        return accelerate.Accelerator(cpu=True).prepare(model, optimizer)

    assert_like_eager_mode(wrap)
    model, optimizer = wrap(*(lambda m: (m, torch.optim.AdamW(m.parameters())))(network()))
    assert lowtide.plan(model, loss_fn, optimizer, batch(0), engine="auto", **FAST).arena_bytes > 0


class Wrapped:
    """As Lightning makes its optimizers: an object of a class made for it, of two bases, that delegates."""

    def __init__(self, optimizer, base, strategy=None, callbacks=()):
        self._optimizer, self._strategy, self._callbacks = optimizer, strategy, list(callbacks)
        self.__class__ = type(base.__name__.strip("_") + type(optimizer).__name__, (base, type(optimizer)), {})


def _class_of(module, name):
    """A class of that name and module, without the package."""
    return type(name, (), {"__module__": module, "optimizer": property(lambda self: self._optimizer),
                           "zero_grad": lambda self: self._optimizer.zero_grad(), "state_dict": lambda self: self._optimizer.state_dict(),
                           "step": lambda self: self._optimizer.step()})


SingleDeviceStrategy = type("SingleDeviceStrategy", (), {})


def _strategy(name="SingleDeviceStrategy", scaler=None):
    kind = SingleDeviceStrategy if name == "SingleDeviceStrategy" else type(name, (), {})
    found = kind()
    found.precision = types.SimpleNamespace(scaler=scaler)
    return found


@pytest.mark.parametrize(("module", "name"), [("lightning.fabric.wrappers", "_FabricOptimizer"), ("lightning_fabric.wrappers", "_FabricOptimizer"),
                                              ("pytorch_lightning.core.optimizer", "LightningOptimizer")])
def test_optimizers_of_lightning_are_planned_by_what_they_wrap(module, name):
    base = _class_of(module, name)
    assert_like_eager_mode(lambda m, o: (m, Wrapped(o, base, _strategy())))


class Saving:
    def on_after_optimizer_step(self, **_):
        pass


@pytest.mark.parametrize(("strategy", "callbacks", "words"), [
    (_strategy(scaler=object()), (), "_FabricOptimizer has a gradient scaler.*check_finite"),
    (_strategy("DDPStrategy"), (), "updates by DDPStrategy.*data_parallel=True"),
    (_strategy(), (Saving(),), "Saving.on_after_optimizer_step.*after step")])
def test_what_a_wrapper_adds_to_an_update_is_refused_by_name(strategy, callbacks, words):
    model = network()
    optimizer = Wrapped(torch.optim.SGD(model.parameters(), 0.1), _class_of("lightning.fabric.wrappers", "_FabricOptimizer"), strategy, callbacks)
    with pytest.raises(lowtide.Unsupported, match=words):
        lowtide.plan(model, loss_fn, optimizer, batch(0), **FAST)


@pytest.mark.parametrize(("scaler", "steps", "words"), [(object(), 1, "gradient scaler"), (None, 4, "accumulate=4")])
def test_accelerates_scaler_and_accumulation_are_refused_by_name(scaler, steps, words):
    model = network()
    base = _class_of("accelerate.optimizer", "AcceleratedOptimizer")
    optimizer = Wrapped(torch.optim.SGD(model.parameters(), 0.1), base)
    optimizer.scaler, optimizer.gradient_state = scaler, types.SimpleNamespace(num_steps=steps)
    with pytest.raises(lowtide.Unsupported, match=words):
        lowtide.compile_step(model, loss_fn, optimizer, batch(0), **FAST)


def test_an_optimizer_that_holds_another_and_is_no_wrapper_is_not_taken_apart():
    class Lookahead(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer
            super().__init__(optimizer.param_groups, {})

        def step(self, closure=None):
            self.optimizer.step()

    from lowtide.pytorch.wrappers import optimizer_in

    optimizer = Lookahead(torch.optim.SGD(network().parameters(), 0.1))
    assert optimizer_in(optimizer) is optimizer
    assert "lightning" not in sys.modules


def test_a_model_over_several_gpus_is_refused():
    model = nn.DataParallel(network())
    model.device_ids = [0, 1]
    with pytest.raises(lowtide.Unsupported, match="DataParallel over 2 GPUs.*model.module"):
        lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), batch(0), **FAST)


def test_an_adapter_around_a_frozen_model_is_planned():
    class Adapter(nn.Module):
        def __init__(self, base_model):
            super().__init__()
            self.base_model = base_model.requires_grad_(False)
            self.down, self.up = nn.Parameter(torch.randn(4, 1)), nn.Parameter(torch.zeros(1, 2))

        def forward(self, x):
            return self.base_model(x) + x @ self.down @ self.up

    torch.manual_seed(1)
    model = Adapter(network())
    other = copy.deepcopy(model)
    optimizer, its = (torch.optim.AdamW([p for p in m.parameters() if p.requires_grad]) for m in (model, other))
    step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), **FAST)
    for seed in range(2):
        its.zero_grad()
        loss_fn(other, batch(seed)).backward()
        its.step()
        step(batch(seed))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
