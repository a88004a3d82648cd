"""Other memory put under tensors beside the model between two steps (`tensor.data = ...` and what PyTorch makes of it): each step reads what is there."""

import collections
import copy
import functools

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


def momentum(student, teacher, table, k):
    for mine, its in zip(student.parameters(), teacher.parameters(), strict=True):
        its.data = its.data * 0.9 + mine.data * 0.1


def clipped(student, teacher, table, k):
    for p in teacher.parameters():
        p.data = p.data.clamp(-0.1, 0.1)


def from_a_vector(student, teacher, table, k):
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(student.parameters()), teacher.parameters())


def there_and_back(student, teacher, table, k):
    teacher.double()
    for p in teacher.parameters():
        p.data.mul_(0.5)
    teacher.float()


def of_another_type(student, teacher, table, k):
    teacher.to(torch.float64 if k % 2 else torch.float32)


def swapped(student, teacher, table, k):
    torch.utils.swap_tensors(table, torch.full((3,), float(k + 1)))


def turned(student, teacher, table, k):
    teacher.weight.data = torch.randn(4, 3, generator=torch.Generator().manual_seed(k)).t()


def longer(student, teacher, table, k):
    table.data = torch.arange(1.0, 4.0) if k % 2 else torch.tensor(2.0)


CHANGES = [momentum, clipped, from_a_vector, there_and_back, of_another_type, swapped, turned, longer]


def run(change, planned, **options):
    torch.manual_seed(0)
    student, table, x, seen = nn.Linear(4, 3), torch.ones(3), torch.randn(5, 4), []
    teacher = copy.deepcopy(student)

    def loss_fn(model, x):
        return (model(x) * table - teacher(x.to(teacher.weight.dtype)).detach().to(x.dtype) * (1 + table.dim())).square().mean()

    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    step = lowtide.compile_step(student, loss_fn, optimizer, x, effort=0.1, **options) if planned else None
    for k in range(4):
        if planned:
            loss = step(x)
        else:
            optimizer.zero_grad()
            loss = loss_fn(student, x)
            loss.backward()
            optimizer.step()
        seen += [loss.detach().clone(), *(p.detach().clone() for p in student.parameters())]
        change(student, teacher, table, k)
    return seen


@pytest.mark.filterwarnings("ignore:lowtide")
@pytest.mark.parametrize("change", CHANGES)
def test_each_step_reads_the_memory_that_lies_under_a_tensor_then(change):
    assert all(map(torch.equal, run(change, True), run(change, False)))


@pytest.mark.filterwarnings("ignore:lowtide")
@pytest.mark.parametrize(("change", "options"), [(momentum, {"engine": "native"}), (turned, {"engine": "native"}), (momentum, {"split": 2}),
                                                 (clipped, {"swap": "host"}), (from_a_vector, {"engine": "auto"})])
def test_whichever_way_the_step_is_planned(change, options):
    for mine, its in zip(run(change, True, **options), run(change, False), strict=True):
        torch.testing.assert_close(mine, its)


def of_values(table, settings):
    view = settings.values()
    return lambda: next(iter(view))


def of_items(table, settings):
    view = collections.OrderedDict.items(settings)
    return lambda: dict(view)["rate"]


def of_keys(table, settings):
    view = settings.keys()
    return lambda: table[0] * len(view)


def of_a_partial(table, settings):
    read = functools.partial(lambda kept: kept["rate"], kept=settings)
    return lambda: read()


HELD = [of_values, of_items, of_keys, of_a_partial]


@pytest.mark.filterwarnings("ignore:lowtide")
@pytest.mark.parametrize("of", [torch.tensor, float])
@pytest.mark.parametrize("held", HELD)
def test_what_views_and_partials_show_is_looked_at_in_each_step(held, of):
    found = []
    for planned in (True, False):
        torch.manual_seed(0)
        model, x, settings = nn.Linear(4, 3), torch.randn(5, 4), collections.OrderedDict(rate=of(1.0))
        read, losses = held(torch.ones(3), settings), []

        def loss_fn(model, x):
            return model(x).square().mean() * read()

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = lowtide.compile_step(model, loss_fn, optimizer, x, effort=0.1) if planned else None
        for k in range(4):
            if planned:
                loss = step(x)
            else:
                optimizer.zero_grad()
                loss = loss_fn(model, x)
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
            settings["rate"] = of(2.0 + k)
            if k == 1:
                settings["other"] = of(1.0)
        found.append(losses)
    assert found[0] == found[1]
