"""What loss_fn gives beside the loss: objects are new ones in each step with the step's tensors and numbers, and a pair stays a pair."""

import collections
import dataclasses
import types
import warnings

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


@dataclasses.dataclass(frozen=True)
class Scored:
    logits: torch.Tensor
    names: tuple
    mean: float


class Found:
    __slots__ = ("inner", "said")

    def __init__(self, inner):
        self.inner, self.said = inner, "found"


class Outputs(collections.UserDict):
    pass


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def batch(k):
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(k))


def frozen_dataclass(y):
    return Scored(y, ("a", y.amax(1)), y.mean().item())


def slots_in_a_list(y):
    return [Found({"rows": y[:2], "none": None}), Found(types.SimpleNamespace(y=y.t(), shape=y.shape))]


def numbers_alone(y):
    return types.SimpleNamespace(least=y.min().item(), place=y[0].argmax().item(), above=(y > 0).any().item())


def user_dict(y):
    return Outputs(logits=y, hidden=(y * 2, 3))


def shape(y):
    return {"shape": y.shape, "empty": None, "word": "w"}


def nothing(y):
    return None


def nothings(y):
    return [None, {}]


def of(aux):
    """As plain values."""
    if isinstance(aux, torch.Tensor):
        assert type(aux) is torch.Tensor
        return aux.tolist()
    if isinstance(aux, (list, tuple)):
        return type(aux), [of(v) for v in aux]
    if isinstance(aux, (dict, collections.UserDict)):
        return type(aux), {k: of(v) for k, v in aux.items()}
    if isinstance(aux, (int, float, str, bool, type(None))):
        return type(aux), aux
    names = type(aux).__slots__ if hasattr(type(aux), "__slots__") else vars(aux)
    return type(aux), {name: of(getattr(aux, name)) for name in names}


MADE = [frozen_dataclass, slots_in_a_list, numbers_alone, user_dict, shape, nothing, nothings]


@pytest.mark.parametrize("make, engine", [*((make, "torch") for make in MADE), (frozen_dataclass, "auto"), (nothing, "auto")])
def test_each_step_gives_it_anew(make, engine):
    def loss_fn(m, x):
        y = m(x)
        return y.square().mean(), make(y)
    model, optimizer = network()
    other, its = network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), effort=0.1, rehearse=make is frozen_dataclass and engine == "torch", engine=engine)
    gave = []
    for k in range(3):
        its.zero_grad()
        loss, wanted = loss_fn(other, batch(k))
        loss.backward()
        its.step()
        found, aux = step(batch(k))
        gave.append(aux)
        if engine == "torch" or make is not nothing:
            assert torch.equal(found, loss.detach())
        assert of(aux) == of(wanted)
    assert aux is None or gave[0] is not gave[1]


def test_batches_of_one_update_give_a_list_each():
    model, optimizer = network()

    def loss_fn(m, x):
        y = m(x)
        return y.square().mean(), types.SimpleNamespace(y=y)
    step = lowtide.compile_step(model, loss_fn, optimizer, [batch(0), batch(1)], effort=0.1, accumulate=2, rehearse=False)
    wanted = [loss_fn(model, batch(k))[1].y.tolist() for k in (2, 3)]
    assert [one.y.tolist() for one in step([batch(2), batch(3)])[1]] == wanted


def test_what_was_there_before_is_given_as_it_is():
    """An object that collects: what the step writes into it is there."""
    model, optimizer = network()
    collected = types.SimpleNamespace(last=None)

    def loss_fn(m, x):
        y = m(x)
        collected.last = y.detach()
        return y.square().mean(), collected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), effort=0.1, rehearse=False)
    for k in range(2):
        wanted = model(batch(k)).tolist()
        _, aux = step(batch(k))
        assert aux is collected and collected.last.tolist() == wanted


class Closed:
    """Cannot be copied."""

    def __init__(self, y):
        self.y = y

    def __copy__(self):
        raise TypeError("one only")


def around_itself(y):
    found = types.SimpleNamespace(y=y)
    found.self = found
    return found


REFUSED = {"a text": lambda y: [f"{y.mean().item():.2f}"], "words of a tensor": lambda y: {"said": str(y)}, "Closed": Closed, "a set": lambda y: {y},
           "a function": lambda y: (lambda: y), "around itself": around_itself}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_step_can_give_anew_is_refused(name):
    model, optimizer = network()

    def loss_fn(m, x):
        y = m(x)
        return y.square().mean(), REFUSED[name](y)
    with pytest.raises(lowtide.Unsupported, match="what loss_fn gives beside the loss.*(lists or dicts|return loss, aux|a dict of its tensors)"):
        lowtide.plan(model, loss_fn, optimizer, batch(0), effort=0.1)


VIEWS = {"row": lambda model, y: model[0].weight[1], "itself": lambda model, y: {"w": model[2].bias}, "transposed": lambda model, y: [model[0].weight.detach().t()],
         "expanded": lambda model, y: model[2].bias.expand(4, 3), "before": lambda model, y: model[0].weight[1].clone(), "part of an output": lambda model, y: y[0]}


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_of_a_parameter_is_there_as_behind_the_update(kind):
    def loss_fn(model, x):
        y = model(x)
        return y.square().mean(), VIEWS[kind](model, y)

    def leaf(aux):
        return aux["w"] if isinstance(aux, dict) else aux[0] if isinstance(aux, list) else aux

    model, optimizer = network()
    step = lowtide.compile_step(model, loss_fn, optimizer, torch.randn(4, 5), rehearse=kind == "row")
    other, its = network()
    for k in range(2):
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(k))
        _, found = step(x)
        loss, wanted = loss_fn(other, x)
        its.zero_grad()
        loss.backward()
        its.step()
        assert torch.equal(leaf(found), leaf(wanted)) and leaf(found).stride() == leaf(wanted).stride()


@pytest.mark.parametrize("kind", ["row", "before"])
def test_the_native_engine_refuses_a_part_of_a_parameter(kind):
    model, optimizer = network()
    with pytest.raises(lowtide.Unsupported, match="a part of '0.weight' itself.*engine='torch'"):
        lowtide.compile_step(model, lambda model, x: (model(x).square().mean(), VIEWS[kind](model, None)), optimizer, torch.randn(4, 5), engine="native")
