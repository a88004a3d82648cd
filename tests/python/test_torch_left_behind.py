"""Tensors and numbers of the traced step, wherever the user's code puts them: made again in each step, put back, or refused by name, and never left."""

import functools
import gc
import itertools

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


def small():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(2, 4)


def fakes_in(*held):
    """Tensors without contents in what is held, some containers deep."""
    from torch._subclasses.fake_tensor import FakeTensor  # noqa: PLC0415: torch may be absent

    level, found, seen = list(held), [], set()
    for _ in range(6):
        level = [inner for outer in level for inner in gc.get_referents(outer) if id(inner) not in seen and not isinstance(inner, (type, torch.nn.Module))]
        seen |= set(map(id, level))
        found += [inner for inner in level if isinstance(inner, FakeTensor)]
        level = [inner for inner in level if not isinstance(inner, torch.Tensor)]
    return found


def raised(y):
    try:
        raise ValueError(y)
    except ValueError as problem:
        return problem


def raised_beside(y):
    inner = y * 2  # held by the frame that the exception remembers
    try:
        raise ValueError("no tensor here", tuple(inner.shape))
    except ValueError as problem:
        return problem


OBJECTS = {
    "generator": lambda y: (value for value in [y]), "exception": raised, "frame": raised_beside, "cause": lambda y: [setattr(e := KeyError(1), "__cause__", raised(y)), e][1],
    "iterator": lambda y: iter([y]), "map": lambda y: map(abs, [y]), "chain": lambda y: itertools.chain([y], [1]), "method": lambda y: y.add, "partial of a function":
    lambda y: functools.partial(lambda x: x, y), "number": lambda y: (value for value in [y.sum().item()])}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_that_holds_something_of_the_step_is_refused_by_name(kind):
    model, optimizer, batch = small()
    kept = []

    def loss_fn(model, batch):
        y = model(batch)
        kept.append(OBJECTS[kind](y))
        return y.square().mean()

    with pytest.raises(lowtide.Unsupported, match=r"'kept\[0\]' is a \w+ that holds (tensors|numbers) of the step"):
        lowtide.compile_step(model, loss_fn, optimizer, batch, rehearse=False)
    assert not kept
