"""Sizes that contents of the batch decide: planned for the number that is there, with a plan for each, and refused where the step computes them."""

import copy

import pytest
from torch_models import differences, torch

import lowtide

nn, F = torch.nn, torch.nn.functional
FAST = {"effort": 0.1, "cache": False}


class Rows(nn.Module):
    """A layer, a table that may be written, and a buffer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.table = nn.Linear(3, 3), nn.Parameter(torch.randn(6, 3))
        self.register_buffer("kept", torch.tensor([1, 0, 1, 1, 0, 1]))

    def forward(self, x):
        return self.layer(x)


def batch_of(seed, chosen):
    made = torch.Generator().manual_seed(seed)
    mask = torch.zeros(6, dtype=torch.bool)
    mask[torch.randperm(6, generator=made)[:chosen]] = True
    counts = torch.zeros(6, dtype=torch.long)
    counts[:2] = torch.tensor([chosen - 1, 1])
    return {"x": torch.randn(6, 3, generator=made), "mask": mask, "counts": counts, "edges": torch.stack([torch.arange(6), torch.arange(6) + mask])}


def chosen(m, b):
    return m(b["x"])[b["mask"]].square().mean()


def without_loops(m, b):
    """As graph packages take their loops away and add others."""
    edges = b["edges"]
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.cat([edges, torch.arange(6).expand(2, -1)], 1)
    return torch.zeros(7, 3).index_add(0, edges[1], m(b["x"])[edges[0]]).square().mean()


def written(m, b):
    y = m(b["x"]).clone()
    y[b["mask"]] = m(b["x"][b["mask"]]) * 2
    return y.square().mean()


def selected(m, b):
    y = m(b["x"])
    return y.masked_select(b["mask"][:, None]).exp().mean()


def two_places(m, b):
    y, mask = m(b["x"]), b["mask"]
    rows, columns = torch.where(mask[:, None] & (b["x"] > -9))
    return y[rows, columns].square().sum() + y[(b["x"] * mask[:, None]).nonzero(as_tuple=True)].mean()


def beside_others(m, b):
    return m(b["x"])[b["mask"] & (m.kept >= 0)][:, None, [0, 2]].square().mean() + m.table[m.kept == 1].square().mean()


def as_a_number(m, b):
    n = int(b["counts"].max())
    return m(b["x"])[:n + 1].square().mean() + F.one_hot(b["counts"], n + 1).sum(0).float().mean() * m.table.mean()


def as_a_length(m, b):
    y = m(b["x"])[:b["mask"].sum()]
    return (y * torch.arange(b["mask"].sum().item())[:, None]).square().mean()


def repeated(m, b):
    return m(b["x"]).repeat_interleave(b["counts"], dim=0).square().mean()


def written_through_a_view(m, b):
    """Whoever asks holds the tensor before the write."""
    mask = b["mask"].clone()
    mask[2:4].logical_not_()
    return m(b["x"])[mask].square().mean()


def written_on_its_diagonal(m, b):
    pairs = (b["mask"][:, None] == b["mask"]).byte()
    pairs.fill_diagonal_(0)
    rows, columns = torch.where(pairs)
    y = m(b["x"])
    return (y @ y.t())[rows, columns].mean()


def written_behind_an_answer(m, b):
    counts = b["counts"] + 1
    first = m(b["x"])[counts > 1]
    counts[0] = 1
    return first.square().mean() + m(b["x"])[counts > 1].exp().mean()


KINDS = [chosen, written_on_its_diagonal, without_loops, written, selected, two_places, beside_others, as_a_number, as_a_length, repeated]


def twins():
    model = Rows()
    other = copy.deepcopy(model)
    return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), other, torch.optim.SGD(other.parameters(), 0.1, momentum=0.9)


def beside(loss_fn, batches, **options):
    """The step behind all of them, equal to eager mode in each."""
    model, mine, other, its = twins()
    step = lowtide.compile_step(model, loss_fn, mine, batches[0], **FAST, **options)
    for batch in batches:
        loss = step(batch)
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        assert torch.equal(loss, wanted.detach())
        assert not differences(model, mine, other, its)
    return step


@pytest.mark.parametrize("loss_fn", [written_through_a_view, written_behind_an_answer])
def test_what_was_written_meanwhile_is_part_of_the_number(loss_fn):
    beside(loss_fn, [batch_of(0, 4), batch_of(1, 4), batch_of(2, 3), batch_of(3, 5)])


@pytest.mark.parametrize("loss_fn", KINDS)
def test_each_number_has_a_plan_and_that_is_kept(loss_fn):
    step = beside(loss_fn, [batch_of(0, 4), batch_of(1, 4), batch_of(2, 3), batch_of(3, 4), batch_of(4, 3)])
    assert len(step._ready) == 2


@pytest.mark.parametrize("loss_fn", [chosen, without_loops])
def test_none_and_all_are_numbers_too(loss_fn):
    assert len(beside(loss_fn, [batch_of(0, n) for n in ((1, 6) if loss_fn is chosen else (0, 6))])._ready) == 2


def test_within_a_budget():
    free = lowtide.plan(*(lambda m, o, _, __: (m, without_loops, o, batch_of(0, 4)))(*twins()), **FAST).arena_bytes
    step = beside(without_loops, [batch_of(0, 4), batch_of(1, 2)], budget=free)
    assert all(ready.planned.plan.arena_bytes <= free for ready in step._ready.values())


@pytest.mark.parametrize(("loss_fn", "words"), [
    (lambda m, b: m(b["x"])[m(b["x"]) > 0].mean(), r"aten.index.*torch.where\(mask, x, 0\)"),
    (lambda m, b: m(b["x"])[torch.rand(6) > 0.5].mean(), r"aten.index.*torch.where\(mask, x, 0\)"),
    (lambda m, b: m.table[:int(m(b["x"]).argmax())].sum(), "as Python's int"),
    (lambda m, b: m.table[:int(m.kept.sum())].sum(), "as Python's int")])
def test_what_the_step_computes_is_refused(loss_fn, words):
    model, mine, _, _ = twins()
    with pytest.raises(lowtide.Unsupported, match=words):
        lowtide.plan(model, loss_fn, mine, batch_of(0, 4), **FAST)


def test_numbers_without_end_are_told_and_the_oldest_plans_go(monkeypatch):
    monkeypatch.setattr("lowtide.pytorch.foretold_sizes.MOST", 2)
    monkeypatch.setattr("lowtide.pytorch.foretold_sizes.TOLD", 3)
    with pytest.warns(UserWarning, match="contents of the batch decide a size"):
        step = beside(chosen, [batch_of(n, n) for n in (1, 2, 3, 4)], rehearse=False)
    assert len(step._ready) == 2


def test_one_number_where_a_mask_is_set_needs_no_plan_of_its_own():
    def loss_fn(m, b):
        y = m(b["x"]).clone()
        y[b["mask"]] = 0
        return y.square().mean()

    assert len(beside(loss_fn, [batch_of(0, 4), batch_of(1, 2)])._ready) == 1
