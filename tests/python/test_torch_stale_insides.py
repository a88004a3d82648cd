"""Values that lie in objects of C, in long containers, in metaclasses, in hooks of all modules and in tensors beside the batch: none goes stale."""

import collections
import contextvars
import os
import types
import warnings

import numpy as np
import pytest
from torch_models import torch

import lowtide

nn = torch.nn
VARIABLE = contextvars.ContextVar("lowtide_test", default=1.0)
NAME = "LOWTIDE_TEST_SCALE"


class Settings(type):
    """A metaclass with a property."""

    @property
    def scale(cls):
        return cls.base * 2.0


class Config(metaclass=Settings):
    base = 1.0


def held():
    rows = types.SimpleNamespace(
        array=np.array([1.0, 2.0]), whole=np.arange(3), scalar=np.float64(2.0), long=[float(k) for k in range(300)], longer=[1.0] * 5000,
        table={f"k{k}": float(k) for k in range(1500)}, words={f"w{k}" for k in range(2000)}, row=collections.deque([1.0] * 3000),
        objects=[types.SimpleNamespace(rate=1.0) for _ in range(100)], weights=torch.tensor([1.0, 2.0]), large=torch.ones(6000), matrix=torch.ones(2, 2))
    return rows


def setting(rows, name, value):
    return lambda: setattr(rows, name, value)


def kinds():
    """By kind: what scales the loss, and what changes it."""
    r = held()
    return {
        "array": (lambda: float(r.array[1]), lambda: r.array.__setitem__(1, 5.0)), "array's mean": (lambda: r.whole.mean(), lambda: r.whole.fill(7)),
        "array to tensor": (lambda: torch.tensor(r.array).sum(), lambda: r.array.__imul__(2)), "scalar": (lambda: r.scalar, setting(r, "scalar", np.float64(5))),
        "array put anew": (lambda: float(r.array[1]), setting(r, "array", np.array([1.0, 9.0]))),
        "list of 300": (lambda: r.long[200], lambda: r.long.__setitem__(200, 2.0)), "list of 5000": (lambda: r.longer[-1], lambda: r.longer.__setitem__(-1, 2.0)),
        "dict of 1500": (lambda: r.table["k1200"], lambda: r.table.update(k1200=2.0)), "deque": (lambda: r.row[0], lambda: r.row.__setitem__(0, 2.0)),
        "set of 2000": (lambda: 3.0 if "w5" in r.words else 1.0, lambda: r.words.discard("w5")),
        "objects in a list of 100": (lambda: r.objects[80].rate, lambda: setattr(r.objects[80], "rate", 3.0)),
        "type of an entry": (lambda: 2.0 if type(r.longer[7]) is int else 1.0, lambda: r.longer.__setitem__(7, 1)),
        "environment": (lambda: float(os.environ.get(NAME, "1")), lambda: os.environ.__setitem__(NAME, "4")),
        "getenv": (lambda: float(os.getenv(NAME) or 1), lambda: os.environ.__setitem__(NAME, "4")),
        "context": (VARIABLE.get, lambda: VARIABLE.set(3.0)), "context of an object": (lambda: VARIABLE.get().rate if hasattr(VARIABLE.get(), "rate") else 1.0,
                                                                                     lambda: VARIABLE.set(types.SimpleNamespace(rate=6.0))),
        "metaclass": (lambda: Config.scale, lambda: setattr(Config, "base", Config.base + 1)),
        "property of a metaclass": (lambda: Config.scale, lambda: setattr(Settings, "scale", property(lambda cls: cls.base * 7))),
        "tolist": (lambda: r.weights.tolist()[1], lambda: r.weights.add_(1)), "tolist of rows": (lambda: r.matrix.tolist()[1][0], lambda: r.matrix.add_(1)),
        "numpy": (lambda: float(r.weights.numpy().max()), lambda: r.weights.mul_(3)),
        "asarray": (lambda: float(np.asarray(r.large)[5]), lambda: r.large.zero_()), "np.ravel": (lambda: float(np.ravel(r.matrix)[0]), lambda: r.matrix.fill_(4)),
        "tensor put anew": (lambda: sum(r.weights.tolist()), setting(r, "weights", torch.tensor([5.0, 6.0]))), "item": (lambda: r.large[:1].sum().item()
                                                                                                                if r.large.dim() == 2 else r.weights.tolist()[0],
                                                                                                                lambda: r.weights.neg_()),
    }


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    before = Settings.__dict__["scale"]
    token = VARIABLE.set(1.0)
    yield
    VARIABLE.reset(token)
    Settings.scale, Config.base = before, 1.0
    os.environ.pop(NAME, None)


def compiled(loss_fn):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    return model, lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), torch.ones(2, 4), effort=0.1, rehearse=False)


@pytest.mark.parametrize("kind", kinds())
def test_a_value_that_changes_is_seen(kind):
    scale, change = kinds()[kind]

    def loss_fn(model, batch):
        return model(batch).square().mean() * scale()

    model, step = compiled(loss_fn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = step(torch.ones(2, 4))
        assert torch.equal(before, loss_fn(model, torch.ones(2, 4)).detach()) and torch.equal(step(torch.ones(2, 4)), before)
    assert len(step._ready) == 1
    change()
    with pytest.warns(UserWarning, match="a plan holds for Python's values"):
        after = step(torch.ones(2, 4))
    assert torch.equal(after, loss_fn(model, torch.ones(2, 4)).detach()) and not torch.equal(before, after)


def test_plans_for_contents_that_are_gone_are_dropped():
    weights = torch.tensor([1.0, 2.0])
    _, step = compiled(lambda m, b: m(b).square().mean() * weights.tolist()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            weights.add_(1)
            step(torch.ones(2, 4))
    assert len(step._ready) == 1


@pytest.mark.parametrize("register", [lambda: nn.modules.module.register_module_forward_hook(lambda m, given, out: out * 2 if isinstance(m, nn.Tanh) else None),
                                      lambda: nn.modules.module.register_module_forward_pre_hook(lambda m, given: (given[0] + 1,)),
                                      lambda: nn.modules.module.register_module_full_backward_hook(lambda m, gi, go: None)],
                         ids=["forward", "before", "backward"])
def test_hooks_of_all_modules_that_are_put_in_later_run(register):
    def loss_fn(model, batch):
        return model(batch).square().mean()

    model, step = compiled(loss_fn)
    first = step(torch.ones(2, 4))
    handle = register()
    try:
        with pytest.warns(UserWarning, match="now"):
            got = step(torch.ones(2, 4))
        assert torch.equal(got, loss_fn(model, torch.ones(2, 4)).detach())
    finally:
        handle.remove()
    assert torch.equal(step(torch.ones(2, 4)), first)


def test_the_environment_is_as_before_and_a_step_that_writes_it_is_refused():
    def loss_fn(model, batch):
        os.environ[NAME] = "5"
        return model(batch).square().mean()

    with pytest.raises(lowtide.Unsupported, match="os.environ.*os.putenv"):
        compiled(loss_fn)
    assert NAME not in os.environ and os.getenv(NAME) is None


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_memory_that_is_shown_to_another_library_is_refused(engine):
    weights = torch.tensor([1.0, 2.0])
    model = nn.Linear(4, 4)
    with pytest.raises(lowtide.Unsupported, match="a tensor's memory is handed to another library by DLPack"):
        lowtide.plan(model, lambda m, b: m(b).square().mean() * float(np.from_dlpack(weights)[1]), torch.optim.SGD(model.parameters(), lr=0.1),
                     torch.ones(2, 4), engine=engine)
    assert np.from_dlpack(weights)[1] == 2


def test_what_is_written_through_an_array_that_shows_a_tensor_is_eager_modes():
    weights, other = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])

    def loss_of(weights):
        def loss_fn(model, batch):
            weights.numpy()[0] = weights.numpy()[0] + 5
            return model(batch).square().mean() * weights.sum()

        return loss_fn

    try:
        model, step = compiled(loss_of(weights))
    except lowtide.Unsupported:
        assert weights.tolist() == [1, 2]
        return
    assert weights.tolist() == [1, 2]
    for _ in range(2):
        assert torch.equal(step(torch.ones(2, 4)), loss_of(other)(model, torch.ones(2, 4)).detach()) and torch.equal(weights, other)
    assert weights.numpy().flags.writeable and "tolist" not in vars(torch.Tensor)
