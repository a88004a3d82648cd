"""A native step with an index that is out of range raises what eager mode raises, an IndexError, and changes nothing."""

import copy

import pytest

import lowtide

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812


class Words(nn.Module):
    """Lines of two tables, one by the batch's numbers, one by a buffer's."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(10, 8), nn.Embedding(6, 8), nn.Linear(8, 5)
        self.register_buffer("positions", torch.arange(6)[None])

    def forward(self, ids):
        return self.head(self.words(ids) + self.places(self.positions[:, :ids.shape[1]]))


def shifted(model, batch):
    """As language models have it: the label of a word is the next one, of the last none."""
    logits, labels = model(batch["ids"]), batch["labels"]
    labels = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    return F.cross_entropy(logits.reshape(-1, 5), labels.reshape(-1), ignore_index=-100)


def gathered(model, batch):
    chances = model(batch["ids"]).log_softmax(-1)
    return -chances.gather(2, batch["labels"][..., None]).mean()


def picked(model, batch):
    rows = model(batch["ids"])[:, -1]
    return rows[torch.arange(2), batch["labels"][:, 0]].square().mean() + rows.index_select(0, batch["rows"]).mean()


def batch_of(**changes):
    ids = torch.tensor([[1, 2, 3, 9], [4, 0, 5, 6]])
    labels = torch.tensor([[0, 1, 2, 3], [4, 0, -100, 1]])
    return {"ids": ids, "labels": labels, "rows": torch.tensor([1, 0]), **changes}


def changed(key, place, value):
    batch = batch_of()
    batch[key] = batch[key].clone()
    batch[key][place] = value
    if value != -100:
        batch["labels"][batch["labels"] == -100] = 0
    return batch


@pytest.mark.parametrize(("loss_fn", "key", "place", "value", "words"), [
    (shifted, "ids", (0, 1), 10, "embedding is given the index 10; it takes 0 to 9"),
    (shifted, "ids", (1, 3), -1, "embedding is given the index -1; it takes 0 to 9"),
    (shifted, "labels", (0, 1), 5, "is given the index 5; it takes 0 to 4 \\(or -100, which is ignored\\)"),
    (shifted, "labels", (1, 3), -1, "is given the index -1; it takes 0 to 4"),
    (gathered, "labels", (0, 0), 7, "gather is given the index 7; it takes 0 to 4"),
    (picked, "labels", (0, 0), -6, "index is given the index -6; it takes -5 to 4"),
    (picked, "rows", (0,), 2, "index_select is given the index 2; it takes 0 to 1"),
])
def test_an_index_out_of_range_is_an_index_error_before_the_step(loss_fn, key, place, value, words):
    torch.manual_seed(0)
    model = Words()
    good = batch_of() if loss_fn is shifted else batch_of(labels=torch.tensor([[0, 1, 2, 3], [4, 0, 1, 1]]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = lowtide.compile_step(model, loss_fn, optimizer, good, engine="native", effort=0.1)
    step(good)
    bad = changed(key, place, value)
    with pytest.raises((IndexError, RuntimeError)):
        loss_fn(model, bad)
    model_before, state_before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    stream = torch.get_rng_state()
    with pytest.raises(IndexError, match=words) as problem:
        step(bad)
    assert "as before the step" in problem.value.__notes__[0]
    assert key != "ids" or "test_torch_indices.py" in str(problem.value)
    assert all(torch.equal(t, model_before[name]) for name, t in model.state_dict().items())
    after = optimizer.state_dict()["state"]
    assert all(torch.equal(t, state_before["state"][p][k]) for p, s in after.items() for k, t in s.items())
    assert torch.equal(stream, torch.get_rng_state())
    assert torch.isfinite(step(good)), "the next step is as ever"


def test_labels_that_are_ignored_and_indices_from_the_end_are_as_in_eager_mode():
    for loss_fn, good in ((shifted, batch_of()), (picked, changed("labels", (0, 0), -5))):
        torch.manual_seed(0)
        model = Words().double()
        step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), good, engine="native",
                                    effort=0.1)
        wanted = loss_fn(model, good).detach()
        torch.testing.assert_close(step(good), wanted, rtol=1e-8, atol=1e-8)


def test_an_index_that_the_model_computes_is_not_looked_for():
    def routed(model, batch):
        rows = model(batch["ids"])
        return rows.gather(2, rows.argmax(2, keepdim=True)).mean()

    torch.manual_seed(0)
    model = Words().double()
    step = lowtide.compile_step(model, routed, torch.optim.SGD(model.parameters(), lr=0.1), batch_of(), engine="native",
                                effort=0.1)
    wanted = routed(model, batch_of()).detach()
    torch.testing.assert_close(step(batch_of()), wanted, rtol=1e-8, atol=1e-8)
    assert [allowed.name for allowed in step._now.exported.indices.ranges] == ["embedding", "embedding"]


PLACES = {
    "a count": lambda m, k, y: m.b.__setitem__(k, m.b[k] + 1),
    "a count in place": lambda m, k, y: exec("m.b[k] += 1", {"m": m, "k": k}),
    "a number": lambda m, k, y: m.b.__setitem__(k, 3.0),
    "a row": lambda m, k, y: m.rows.__setitem__((k, slice(None)), y.detach()[0]),
    "a column": lambda m, k, y: m.rows.__setitem__((slice(None), k), y.detach()[0]),
    "a number of two places": lambda m, k, y: m.rows.__setitem__((k, k), y.detach()[0, 0]),
    "behind an ellipsis": lambda m, k, y: m.rows.__setitem__((..., k), 0.5),
    "read": lambda m, k, y: m.rows.mul_(m.b[k]),
    "read, and written later": lambda m, k, y: (m.b[k].clone(), m.b.mul_(2)),
    "a mean that moves": lambda m, k, y: m.b.__setitem__(k, m.b[k] * 0.5 + y.detach().mean()),
    "a row that is read": lambda m, k, y: m.b.add_(m.rows[k]),
    "backwards": lambda m, k, y: m.b.__setitem__(k - 4, 7.0),
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_that_the_step_computes_is_read_and_written_as_in_eager_mode(kind):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.line = torch.nn.Linear(6, 4)
            self.register_buffer("b", torch.arange(4.0))
            self.register_buffer("rows", torch.arange(16.0).view(4, 4))

        def forward(self, x):
            y = self.line(x)
            PLACES[kind](self, y.detach().mean(0).argmax(), y)
            return (y * (self.b + 1) * self.rows[:3]).square().mean()

    batches = [torch.randn(3, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    mine, theirs = Counting(), Counting()
    step = lowtide.compile_step(mine, lambda m, b: m(b), torch.optim.SGD(mine.parameters(), lr=0.1), batches[0], effort=0.1)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for batch in batches:
        loss = theirs(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert torch.equal(step(batch), loss.detach()) and all(map(torch.equal, mine.state_dict().values(), theirs.state_dict().values()))


def through_a_name(b, k):
    place = b[k]
    place += 1
    return place


def through_a_view(b, k):
    place = b[k]
    b.mul_(2)
    return place


@pytest.mark.parametrize("use", [through_a_name, through_a_view, lambda b, k: b[k].add_(1)])
def test_what_lies_at_such_a_place_is_written_there_alone(use):
    model = torch.nn.Linear(6, 4)
    model.register_buffer("b", torch.ones(4))

    def loss_fn(m, x):
        y = m(x)
        return y.mean() * use(m.b, y.detach().mean(0).argmax())

    with pytest.raises(lowtide.Unsupported, match="index_add_"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 6), effort=0.1)


def test_how_many_there_are_is_refused_with_a_way_round():
    model = torch.nn.Linear(6, 4)

    def loss_fn(m, x):
        found, place, count = torch.unique((m(x) > 0).long(), return_inverse=True, return_counts=True)
        return m(x).mean() * len(found) * count.sum()

    with pytest.raises(lowtide.Unsupported, match="test_torch_indices.py.*len.* asks how many there are in a result of unique.*one_hot"):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 6), effort=0.1)
