"""alike_ops.py: a trace in which ops are looked up is the trace in which each runs, for drawn programs and for ops that differ in little.

By default 20 programs of random_programs.py; 400 with LOWTIDE_LONG=1.
"""

import os

import pytest

torch = pytest.importorskip("torch")

import random_programs  # noqa: E402
from test_torch_recorded import graph_of  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from lowtide.errors import Error  # noqa: E402
from lowtide.pytorch import alike_ops, layouts, planning  # noqa: E402
from lowtide.pytorch.options import StepOptions  # noqa: E402

COUNT = 400 if os.environ.get("LOWTIDE_LONG") else 20


def each_runs(_, func, args, kwargs):
    return func(*args, **kwargs), alike_ops.UNKNOWN


def looked_up(monkeypatch):
    """How many ops were put together from those before, as a list that grows."""
    found = []
    again = alike_ops.AlikeOps._again
    monkeypatch.setattr(alike_ops.AlikeOps, "_again", lambda self, *more: found.append(1) or again(self, *more))
    return found


def traced(make, options):
    model, loss_fn, optimizer, batch = make()
    try:
        return graph_of(planning.capture(model, loss_fn, optimizer, batch, options, None, layouts.Rows()))
    except Error as refused:
        return str(refused)


def both(make, options=None):
    """The graph as ops are looked up, and as each runs."""
    options = options or StepOptions()
    traced(make, options)  # PyTorch remembers what ops make of fake tensors, and may answer otherwise the first time
    found = traced(make, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike_ops.AlikeOps, "call", each_runs)
        return found, traced(make, options)


@pytest.mark.parametrize("first", range(0, COUNT, 10))
def test_drawn_programs_are_traced_alike(first, monkeypatch):
    found, traces = looked_up(monkeypatch), 0
    for seed in range(first + 20_000, first + 20_010):  # others than test_random_programs.py draws
        program = random_programs.program_of(random_programs.source_of(random_programs.spec_of(seed)))

        def make(program=program):
            torch.manual_seed(0)
            drawn = program()
            return drawn.model, drawn.loss_fn, drawn.optimizer([p for p in drawn.model.parameters() if p.requires_grad]), drawn.batches[0]

        accumulate = 2 if "accumulate" in random_programs.spec_of(seed).options else 1
        looked, plain = both(make, StepOptions(accumulate=accumulate))
        assert looked == plain, f"seed {seed}"
        traces += isinstance(plain, list)
    assert traces >= 5 and len(found) > 20 * traces


def loss_of(body):
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        return model, lambda m, x: body(m(x), m), torch.optim.SGD(model.parameters(), 0.1), torch.randn(4, 4)

    return make


def numbers_of_other_types(y, _):
    return sum(((y * n).sum() + torch.full((2,), n).to(y.dtype).sum()) for n in (1, 1.0, True, 2, -1.0))


def views_of_views(y, _):
    parts = [y[:2], y[2:], y[:, :2], y[:, 2:], y.t()[1:], y.t()[:, 1:], y[1:][1:]]
    return sum(p.square().sum() for p in parts) + y.split(2)[1].sum() + y.unbind(1)[3].sum() + y.chunk(2, 1)[0].exp().sum()


def written_views(y, _):
    y = y.clone()
    a, b = y[:2], y[2:]
    a.mul_(2)
    b.add_(a)
    y[0].add_(y[1])
    y.t().add_(y)
    c = y.clone()
    c.add_(c)
    c.add_(y)
    return c.square().sum() + y.square().sum()


def geometry_that_changes(y, _):
    first, second = y.clone(), y.clone()
    wide = torch.cat([y, y]).detach()
    second.t_()
    wide.unsqueeze_(0)
    return (first * first).sum() + (second * first).sum() + (second * second).sum() + (wide * wide).sum() + wide.squeeze_(0).t().sum()


def default_types(y, _):
    total = (y + torch.full((4,), 0.5)).sum()
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        total = total + (y + torch.full((4,), 0.5)).sum() + torch.zeros(4).sum().to(y.dtype)
    finally:
        torch.set_default_dtype(before)
    return total + torch.zeros(4).sum()


def lazily_conjugated(y, _):
    z = torch.view_as_complex(y.reshape(4, 2, 2).contiguous())
    return sum((a * b).abs().sum() for a in (z, z.conj(), z.conj().resolve_conj()) for b in (z, z.conj(), -z.imag))


def types_of_results(y, _):
    low = y.bfloat16()
    return (low @ low).float().sum() + (y @ y).sum() + (low + y).sum() + (low > 0).sum() + (y > 0).to(y.dtype).sum() + low.t().float().square().sum()


def several_results(y, _):
    total = 0
    for x in (y, y.t(), y.double(), y.clone()):
        values, places = x.max(1)
        sorted_, order = x.sort(0)
        total = total + values.sum() + (sorted_ * order).sum() + places.sum() + x.var(1).sum() + sum(torch.var_mean(x, 0)).sum()
    return total.to(y.dtype)


LITTLE = [numbers_of_other_types, views_of_views, written_views, geometry_that_changes, default_types, lazily_conjugated, types_of_results, several_results]


@pytest.mark.parametrize("body", LITTLE, ids=lambda body: body.__name__)
def test_ops_that_differ_in_little_are_told_apart(body, monkeypatch):
    found = looked_up(monkeypatch)
    looked, plain = both(loss_of(lambda y, m: body(y, m) + body(y * 2, m)))
    assert isinstance(plain, list), plain
    assert looked == plain
    assert found


def test_an_op_that_was_refused_is_refused_again():
    def body(y, _):
        said = []
        for _ in range(3):
            try:
                y @ y[:3]
            except RuntimeError as problem:
                said.append(str(problem))
        assert len(said) == 3 and len(set(said)) == 1
        return y.sum()

    looked, plain = both(loss_of(body))
    assert isinstance(plain, list) and looked == plain


def test_a_mode_outside_of_the_capture_sees_every_op():
    """A profile or a count of operations that somebody has put on around all."""

    class Counted(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Counted.seen += func is torch.ops.aten.sin.default
            return func(*args, **(kwargs or {}))

    def body(y, _):
        return sum(y.sin().sum() for _ in range(5))

    with Counted():
        graph = traced(loss_of(body), StepOptions())
    assert isinstance(graph, list) and Counted.seen == 5
