"""Values in code that nobody names because Python or PyTorch calls it: methods of autograd.Function, hooks on tensors, __init__ of a named class."""

import functools
import sys
import types
import warnings

import pytest
from torch_models import torch

import lowtide

nn = torch.nn
RATE = 1.0
SETTINGS = types.SimpleNamespace(rate=1.0)
HERE = types.SimpleNamespace()  # what stands for a module of helpers


class Scaled(torch.autograd.Function):
    """With a separate context, and methods for torch.func."""

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.rate = RATE

    @staticmethod
    def backward(ctx, g):
        return g * ctx.rate

    @staticmethod
    def vmap(info, in_dims, x):
        return Scaled.apply(x) * SETTINGS.rate, in_dims[0]

    @staticmethod
    def jvp(ctx, t):
        return t * SETTINGS.rate


class Base(torch.autograd.Function):
    rate = 1.0

    @staticmethod
    def forward(ctx, x, *given):
        ctx.given = given
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * Base.rate, *(None for _ in ctx.given)


class Derived(Base):
    """Its backward is its base's."""


class OfObject(Base):
    @staticmethod
    def backward(ctx, g):
        return g * ctx.given[0].strength, None


class ByHelper(Base):
    @staticmethod
    def backward(ctx, g):
        return halfway(g)


def halfway(g):
    return g * SETTINGS.rate


def closed(rates):
    class Closed(Base):
        @staticmethod
        def backward(ctx, g):
            return g * rates["g"]

    return Closed


HERE.Derived = Derived


class Made:
    """Made anew by each call."""

    def __init__(self):
        self.rate = SETTINGS.rate

    def __call__(self, x):
        return x * self.rate


class Entered:
    def __enter__(self):
        return SETTINGS.rate

    def __exit__(self, *_):
        pass


class Penalty(nn.Module):
    def forward(self, x):
        return x * RATE


class Doubled(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        return found * SETTINGS.rate if func is torch.tanh else found


class MyDropout(nn.Dropout):
    """The base's forward reads `p`."""


class Checked(nn.BatchNorm1d):
    def _check_input_dim(self, x):  # called by the base class
        self.momentum = RATE / 2


class Hook:
    def __init__(self):
        self.rate = 1.0

    def __call__(self, g):
        return g * self.rate


def put_rate(value):
    globals()["RATE"] = value


def kinds():
    """By kind: how loss_fn runs the first layer's output, what changes, and what is done to the layer before."""
    given, rates, hook, layer = types.SimpleNamespace(strength=1.0), {"g": 1.0}, Hook(), nn.Linear(4, 4)
    drop, checked, stored = MyDropout(0.0), Checked(4), types.SimpleNamespace(run=Derived.apply)
    nothing = lambda layer: None  # noqa: E731
    setting = lambda: setattr(SETTINGS, "rate", 3.0)  # noqa: E731
    anew = closed(rates)
    return {
        "setup_context": (Scaled.apply, lambda: put_rate(3.0), nothing), "vmap": (lambda y: torch.func.vmap(Scaled.apply)(y), setting, nothing),
        "base's backward": (Derived.apply, lambda: setattr(Base, "rate", 3.0), nothing),
        "through a namespace": (lambda y: HERE.Derived.apply(y), lambda: setattr(Base, "rate", 3.0), nothing),
        "apply in an attribute": (lambda y: stored.run(y), lambda: setattr(Base, "rate", 3.0), nothing),
        "object that is given": (lambda y: OfObject.apply(y, given), lambda: setattr(given, "strength", 3.0), nothing),
        "helper": (ByHelper.apply, setting, nothing), "closure": (lambda y: anew.apply(y), lambda: rates.update(g=3.0), nothing),
        "another backward": (ByHelper.apply, lambda: setattr(ByHelper, "backward", staticmethod(lambda ctx, g: g * 7)), nothing),
        "made by the call": (lambda y: Made()(y), setting, nothing), "made module": (lambda y: Penalty()(y), lambda: put_rate(3.0), nothing),
        "context manager": (entered, setting, nothing), "mode": (moded, setting, nothing),
        "package's base class": (lambda y: drop(y), lambda: setattr(drop, "p", 0.9), nothing),
        "called by the base class": (lambda y: checked(y) + checked.momentum, lambda: put_rate(1.5), nothing),
        "function as a hook": (lambda y: y, setting, lambda layer: layer.weight.register_hook(lambda g: g * SETTINGS.rate)),
        "object as a hook": (lambda y: y, lambda: setattr(hook, "rate", 3.0), lambda layer: layer.bias.register_hook(hook)),
        "partial as a hook": (lambda y: y, lambda: rates.update(g=3.0), lambda layer: layer.weight.register_hook(
            functools.partial(lambda rates, g: g * rates["g"], rates))),
        "attribute of a parameter": (lambda y: y * layer.weight.gain, lambda: setattr(layer.weight, "gain", 3.0),
                                     lambda _: setattr(layer.weight, "gain", 1.0)),
        "saved tensors": (packed, setting, nothing),
    }


def entered(y):
    with Entered() as rate:
        return y * rate


def moded(y):
    with Doubled():
        return torch.tanh(y)


def packed(y):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * SETTINGS.rate):
        return y.tanh()


@pytest.fixture(autouse=True)
def _as_it_was():
    own = vars(ByHelper)["backward"]
    yield
    put_rate(1.0)
    SETTINGS.rate = Base.rate = 1.0
    ByHelper.backward = own


def trained(run, prepare):
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    prepare(layer)
    return layer, lambda model, batch: run(model(batch)).square().mean(), torch.optim.SGD(layer.parameters(), lr=0.1)


@pytest.mark.parametrize("kind", kinds())
def test_a_value_that_changes_is_seen(kind):
    run, change, prepare = kinds()[kind]
    model, loss_fn, mine = trained(run, prepare)
    other, _, its = trained(run, prepare)
    batch = torch.linspace(-1, 1, 12).reshape(3, 4)
    step = lowtide.compile_step(model, loss_fn, mine, batch, effort=0.1, rehearse=False)
    warned = []
    for k in range(3):
        if k == 1:
            change()
        torch.manual_seed(k)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        torch.manual_seed(k)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert torch.equal(step(batch), wanted.detach()), k
        warned.append(sum("a plan holds for Python's values" in str(one.message) for one in said))
        assert all(map(torch.equal, model.parameters(), other.parameters())), k
    assert warned == [0, 1, 0] and len(step._ready) <= 2


def test_what_a_named_class_only_sets_is_not_read():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = nn.Linear(4, 4), 0

        def forward(self, x):
            return self.layer(x) if isinstance(self, Counted) else x

    model, batch = Counted(), torch.ones(2, 4)
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), batch, effort=0.1, rehearse=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model.seen += 1  # by the loop
            step(batch)
    assert len(step._ready) == 1


def test_names_of_a_packages_functions_are_those_of_its_modules(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "lowtide_test_package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("""import torch
class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        return g * ctx.layer.strength, None
def turned(x, layer):
    return Turned.apply(x, layer)
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.strength = 1.0
    def forward(self, x):
        return turned(x, self)
""")
    monkeypatch.syspath_prepend(str(folder.parent))
    package = __import__("lowtide_test_package")
    model, batch = nn.Sequential(nn.Linear(4, 4), package.Layer()), torch.ones(2, 4)
    step = lowtide.compile_step(model, lambda m, b: m(b).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), batch, effort=0.1, rehearse=False)
    step(batch)
    model[1].strength = 2.0
    with pytest.warns(UserWarning, match="strength is 2.0 now"):
        step(batch)
    sys.modules.pop("lowtide_test_package")
