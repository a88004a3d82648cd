"""Values whose names the code makes while it runs, or has in patterns and texts: they are seen when they change, as others are."""

import array
import builtins
import collections
import contextlib
import ctypes
import dataclasses
import functools
import importlib
import math
import operator
import sys
import threading
import types
import warnings
import weakref

import pytest
from torch_models import torch

import lowtide

nn, F = torch.nn, torch.nn.functional
RATE_MAIN, COUNTED = 1.0, 0
HELPERS = sys.modules["settings_of_a_test"] = types.ModuleType("settings_of_a_test")
F.RATE_OF_A_TEST, F.RATES_OF_A_TEST, F.factor_of_a_test, builtins.RATE_OF_ALL = 1.0, {"a": 1.0}, lambda: 2.0, 1.0
HELPERS.RATE = HELPERS.strength_a = HELPERS.WEIGHT = 1.0


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def data():
    g = torch.Generator().manual_seed(1)
    return torch.randn(5, 6, generator=g), torch.randint(0, 4, (5,), generator=g)


def ce(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


@dataclasses.dataclass
class Weights:
    rate_main: float = 1.0
    rate_other: float = 1.0


class Inside:
    def __init__(self):
        self.by_name = {"rate": 1.0}
        self.rate_main = 1.0

    def __getattr__(self, name):
        return self.__dict__["by_name"][name.removeprefix("the_")]

    def all_of_it(self):
        return sum(value for key, value in sorted(self.__dict__.items()) if isinstance(value, float))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain, self.width = 1.0, 1.0

    def forward(self, loss, which):
        return getattr(self, "branch_" + which)(loss)

    def branch_a(self, loss):
        return loss * self.gain

    def branch_b(self, loss):
        return self.branch_a(loss) * self.width


def from_a_local_import():
    from settings_of_a_test import RATE
    return RATE


def positional(settings):
    match settings:
        case Weights(rate, _):
            return rate
    return 0.0


def by_word(settings):
    match settings:
        case {"settings": Weights(rate_other=rate)} | Weights(rate_other=rate):
            return rate
    return 0.0


def keyword_only(*, factor=1.0):
    return factor


def with_default(factor=1.0):
    return factor


def exchanged_code():
    return 1.0


def other_code():
    return 2.0


exchanged_code.factor = 1.0


class Operators:
    on, by = False, 1.0

    def __bool__(self):
        return self.on

    def __rmul__(self, other):
        return other * self.by


class Other(Operators):
    by = 3.0


class Named:
    """Equal to those of the same name."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self.name == other.name


class Tripled(nn.Module):
    def forward(self, x):
        return x * 3


def attempted(thing):
    try:
        return thing.not_yet
    except AttributeError:
        return 1.0


def suppressed(thing):
    with contextlib.suppress(AttributeError):
        return thing.inner.not_yet
    return 1.0


def not_yet_defined():
    try:
        return NOT_YET_DEFINED
    except NameError:
        return 1.0


def not_yet_imported():
    try:
        import module_of_a_test_that_comes_later
    except ImportError:
        return 1.0
    return module_of_a_test_that_comes_later.RATE


def later_module(name, **entries):
    made = types.ModuleType(name)
    vars(made).update(entries)
    sys.modules[name] = made


@functools.lru_cache
def cached():
    return HELPERS.WEIGHT


class Cached:
    @functools.cached_property
    def rate(self):
        return 1.0


def _moved(ordered):
    ordered.move_to_end(next(iter(ordered)))


def kinds():
    """By kind: the factor of the loss, and what changes what it reads."""
    cfg = types.SimpleNamespace(rate_main=1.0, inner=types.SimpleNamespace(w_x=1.0), zero=0.0, text="rate_main * 2", format="{0.rate_main:.3f}")
    weights, inside, branches, local, cell = Weights(), Inside(), Branches(), threading.local(), ctypes.c_double(1.0)
    ordered, plain, chain = collections.OrderedDict(a=1.0, b=2.0), dict(a=1.0, b=2.0), collections.ChainMap({}, {"a": 1.0})
    shown, raw, numbers = types.MappingProxyType(plain), bytearray(b"\1\2"), array.array("d", [1.0])
    view, weak, lazy = memoryview(raw), weakref.ref(weights), Cached()
    local.rate = 1.0
    empty, operators, named, tripled, beside = types.SimpleNamespace(), Operators(), Named("a"), Tripled(), nn.Linear(2, 2)
    bare, problem, buffers = Weights.__new__(Weights), ValueError(1.0), nn.Module()
    buffers.register_buffer("one", torch.ones(()))
    torch.Tensor.of_a_test = lambda t: t * 1.0
    later_module("swapped_module_of_a_test", RATE=1.0)
    sys.modules.pop("module_of_a_test_that_comes_later", None)
    which, part, module_name = ["main"], ["x"], "settings_of_a_test"
    return {
        "getattr": (lambda: getattr(weights, f"rate_{which[0]}"), lambda: setattr(weights, "rate_main", 2.0)),
        "getattr of getattr": (lambda: getattr(getattr(cfg, "in" + "ner"), "w_" + part[0]), lambda: setattr(cfg.inner, "w_x", 2.0)),
        "reduce over getattr": (lambda: functools.reduce(getattr, "inner/w_x".split("/"), cfg), lambda: setattr(cfg.inner, "w_x", 3.0)),
        "default of getattr": (lambda: getattr(cfg, "late_" + part[0], 1.0), lambda: setattr(cfg, "late_x", 2.0)),
        "hasattr": (lambda: 2.0 if hasattr(cfg, "flag_" + part[0]) else 1.0, lambda: setattr(cfg, "flag_x", None)),
        "attribute of a class": (lambda: getattr(Weights, "rate_" + which[0]), lambda: setattr(Weights, "rate_main", Weights.rate_main + 1)),
        "vars": (lambda: sum(vars(weights).values()), lambda: setattr(weights, "rate_other", 2.0)),
        "vars, another entry": (lambda: float(len(vars(cfg.inner))), lambda: setattr(cfg.inner, "more", 2.0)),
        "vars of a module": (lambda: vars(HELPERS)["strength_" + "a"], lambda: setattr(HELPERS, "strength_a", HELPERS.strength_a + 1)),
        "dir": (lambda: sum(getattr(cfg.inner, name) for name in dir(cfg.inner) if name.startswith("w_")), lambda: setattr(cfg.inner, "w_y", 2.0)),
        "globals": (lambda: globals()[f"RATE_{which[0].upper()}"], lambda: globals().update(RATE_MAIN=RATE_MAIN + 1)),
        "globals, get": (lambda: globals().get("RATE_" + "LATER", 1.0), lambda: globals().update(RATE_LATER=globals().get("RATE_LATER", 1.0) + 1)),
        "eval": (lambda: eval(cfg.text, {}, vars(cfg)), lambda: setattr(cfg, "rate_main", 2.0)),
        "eval of a global": (lambda: eval("RATE_" + which[0].upper()), lambda: globals().update(RATE_MAIN=RATE_MAIN + 1)),
        "eval, another text": (lambda: eval(cfg.text, {"rate_main": 1.0}), lambda: setattr(cfg, "text", "rate_main * 3")),
        "exec": (lambda: _executed(weights), lambda: setattr(weights, "rate_main", 2.0)),
        "__dict__ in a function": (lambda: sum(cfg.inner.__dict__.values()), lambda: setattr(cfg.inner, "w_x", 2.0)),
        "__dict__ in a method": (inside.all_of_it, lambda: setattr(inside, "rate_main", 2.0)),
        "__getattr__": (lambda: inside.the_rate, lambda: inside.by_name.update(rate=2.0)),
        "attrgetter": (lambda: operator.attrgetter("inner.w_" + part[0])(cfg), lambda: setattr(cfg.inner, "w_x", 2.0)),
        "attrgetter, kept": (functools.partial(operator.attrgetter("inner.w_x"), cfg), lambda: setattr(cfg.inner, "w_x", 2.0)),
        "method by its name": (lambda: branches(torch.ones(()), "b"), lambda: setattr(branches, "width", 2.0)),
        "method that a method names": (lambda: branches(torch.ones(()), "b"), lambda: setattr(branches, "gain", 2.0)),
        "match by position": (lambda: positional(weights), lambda: setattr(weights, "rate_main", 2.0)),
        "match by word": (lambda: by_word({"settings": weights}), lambda: setattr(weights, "rate_other", 2.0)),
        "format": (lambda: float("{0.rate_main}".format(cfg)), lambda: setattr(cfg, "rate_main", 2.0)),
        "format that is a value": (lambda: float(cfg.format.format(cfg)), lambda: setattr(cfg, "rate_main", 2.0)),
        "local import": (from_a_local_import, lambda: setattr(HELPERS, "RATE", HELPERS.RATE + 1)),
        "import_module": (lambda: importlib.import_module(module_name).RATE, lambda: setattr(HELPERS, "RATE", HELPERS.RATE + 1)),
        "sys.modules": (lambda: sys.modules[module_name].RATE, lambda: setattr(HELPERS, "RATE", HELPERS.RATE + 1)),
        "attribute of a function": (lambda: exchanged_code.factor, lambda: setattr(exchanged_code, "factor", exchanged_code.factor + 1)),
        "code of a function": (lambda: exchanged_code(), lambda: setattr(exchanged_code, "__code__", other_code.__code__)),
        "default": (lambda: with_default(), lambda: setattr(with_default, "__defaults__", (with_default() + 1,))),
        "keyword-only default": (lambda: keyword_only(), lambda: keyword_only.__kwdefaults__.update(factor=keyword_only() + 1)),
        "order of a dict": (lambda: next(iter(plain.values())), lambda: plain.update(a=plain.pop("a"))),
        "order of an OrderedDict": (lambda: next(iter(ordered.values())), lambda: _moved(ordered)),
        "mapping proxy": (lambda: shown["a"], lambda: plain.update(a=2.0)),
        "second of a chain": (lambda: chain["a"], lambda: chain.maps[1].update(a=2.0)),
        "bytearray": (lambda: float(raw[0]), lambda: raw.__setitem__(0, 3)),
        "memoryview": (lambda: float(view[1]), lambda: raw.__setitem__(1, 7)),
        "array": (lambda: numbers[0], lambda: numbers.__setitem__(0, 2.0)),
        "number of C": (lambda: cell.value, lambda: setattr(cell, "value", 2.0)),
        "cache that was cleared": (lambda: cached(), lambda: (setattr(HELPERS, "WEIGHT", HELPERS.WEIGHT + 1), cached.cache_clear())),
        "cached property": (lambda: lazy.rate, lambda: lazy.__dict__.update(rate=2.0)),
        "weak reference": (lambda: weak().rate_main, lambda: setattr(weights, "rate_main", 2.0)),
        "value of a package's module": (lambda: F.RATE_OF_A_TEST, lambda: setattr(F, "RATE_OF_A_TEST", F.RATE_OF_A_TEST + 1)),
        "dict in a package's module": (lambda: F.RATES_OF_A_TEST["a"], lambda: F.RATES_OF_A_TEST.update(a=F.RATES_OF_A_TEST["a"] + 1)),
        "function of a package's module": (lambda: F.factor_of_a_test(), lambda: setattr(F, "factor_of_a_test", lambda: 3.0)),
        "builtin": (lambda: RATE_OF_ALL, lambda: setattr(builtins, "RATE_OF_ALL", RATE_OF_ALL + 1)),  # noqa: F821
        "attempted": (lambda: attempted(empty), lambda: setattr(empty, "not_yet", 2.0)),
        "suppressed": (lambda: suppressed(types.SimpleNamespace(inner=bare)), lambda: setattr(bare, "not_yet", 2.0)),
        "global that comes later": (not_yet_defined, lambda: globals().update(NOT_YET_DEFINED=globals().pop("NOT_YET_DEFINED", 1.0) + 1)),
        "module that comes later": (not_yet_imported, lambda: later_module("module_of_a_test_that_comes_later", RATE=2.0)),
        "another module": (lambda: importlib.import_module("swapped_module_of_a_test").RATE, lambda: later_module("swapped_module_of_a_test", RATE=2.0)),
        "truth": (lambda: 2.0 if operators else 1.0, lambda: setattr(operators, "on", True)),
        "reflected operator": (lambda: 2.0 * operators, lambda: setattr(operators, "by", 2.0)),
        "another class": (lambda: operators.by, lambda: setattr(operators, "__class__", Other)),
        "key that is an object": (lambda: float(len(next(iter({named: 1})).name)), lambda: setattr(named, "name", "abc")),
        "member of a set": (lambda: 2.0 if Named("b") in {named} else 1.0, lambda: setattr(named, "name", "b")),
        "call of a class": (lambda: float(tripled(1.0)), lambda: setattr(Tripled, "__call__", lambda self, x: x * 5.0)),
        "method of tensors": (lambda: torch.ones(()).of_a_test(), lambda: setattr(torch.Tensor, "of_a_test", lambda t: t * 2.0)),
        "gradient beside": (lambda: 1.0 if beside.weight.grad is None else 2.0, lambda: setattr(beside.weight, "grad", torch.ones(2, 2))),
        "another buffer": (lambda: sum(buffers.buffers()), lambda: buffers.register_buffer("two", torch.ones(()))),
        "arguments of an exception": (lambda: problem.args[0], lambda: setattr(problem, "args", (2.0,))),
        "sign of nothing": (lambda: math.copysign(1.0, cfg.zero), lambda: setattr(cfg, "zero", -0.0)),
        "of a thread": (lambda: local.rate, lambda: setattr(local, "rate", 2.0)),
    }


def _executed(weights):
    found = {"weights": weights}
    exec("def f(): return weights." + "rate_main\nx = f()", found)
    return found["x"]


@pytest.mark.parametrize("kind", kinds())
def test_a_value_without_a_name_in_the_code_is_seen(kind):
    factor, change = kinds()[kind]
    model = nn.Linear(6, 4)
    step = lowtide.compile_step(model, lambda m, b: ce(m, b) * factor(), torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1,
                                rehearse=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = step(data())
        assert torch.equal(before, (ce(model, data()) * factor()).detach())
    change()
    with pytest.warns(UserWarning, match="a plan holds for Python's values"):
        after = step(data())
    assert torch.equal(after, (ce(model, data()) * factor()).detach()) and not torch.equal(before, after)


def test_an_attribute_that_a_parameter_gets_later_is_seen():
    model = nn.Linear(6, 4)

    def loss_fn(m, b):
        return ce(m, b) * sum(getattr(p, "lr_" + "scale", 1.0) for p in m.parameters())

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1)
    before = step(data())
    model.bias.lr_scale = 4.0
    with pytest.warns(UserWarning, match="lr_scale"):
        after = step(data())
    assert torch.equal(after, loss_fn(model, data()).detach()) and not torch.equal(before, after)


def test_values_beside_those_that_are_asked_for_ask_for_no_plan():
    global COUNTED
    cfg, model = types.SimpleNamespace(rate_main=1.0, seen=0), net()
    model.calls = 0

    def loss_fn(m, b):
        return ce(m, b) * getattr(cfg, "rate_" + "main") * globals()["RATE_" + "MAIN"] * getattr(m, "gain_" + "late", 1.0)

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(), effort=0.1)
    assert globals()["getattr" if "getattr" in globals() else "pytest"] is pytest, "Python's functions lie in their own place again"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            step(data())
            cfg.seen, model.calls, COUNTED = cfg.seen + 1, model.calls + 1, COUNTED + 1
    assert len(step._ready) == 1


def test_what_is_kept_in_globals_under_a_name_that_is_made_is_kept_as_in_eager_mode():
    model = net()

    def loss_fn(m, b):
        y = m(b[0])
        globals()["KEPT_" + str(y.shape[1])] = y.detach()
        setattr(HELPERS, "kept_" + str(y.shape[1]), y.detach() * 2)
        return F.cross_entropy(y, b[1])

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1)
    assert "KEPT_4" not in globals() and not hasattr(HELPERS, "kept_4")
    step(data())
    assert torch.equal(globals().pop("KEPT_4"), model(data()[0])) and torch.equal(HELPERS.kept_4, model(data()[0]) * 2)
    del HELPERS.kept_4


def test_a_large_array_is_told_of():
    numpy = pytest.importorskip("numpy")
    table, model = numpy.ones(300_000), nn.Linear(6, 4)
    with pytest.warns(UserWarning, match="'table' is an array of 2,400,000 bytes"):
        lowtide.compile_step(model, lambda m, b: ce(m, b) * float(table[5]), torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1)


def test_the_precision_of_products_is_another_plan():
    model = nn.Linear(6, 4)
    step = lowtide.compile_step(model, ce, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        step(data())
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(step._ready) == 2
