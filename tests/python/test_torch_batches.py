"""What a batch is made of: tensors, read in every step; containers, None, words and whole numbers, which a plan holds for."""

import collections
import copy

import pytest
from torch_models import assert_equal_steps, differences, torch

import lowtide
from lowtide.pytorch.batches import tensors_of

nn, F = torch.nn, torch.nn.functional
FAST = {"effort": 0.1}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(12, 8), nn.Linear(8, 3)

    def forward(self, ids, weight=None):
        y = self.table(ids).mean(1)
        return self.head(y if weight is None else y * weight)


def ids(seed, count=4):
    return torch.randint(0, 12, (count, 5), generator=torch.Generator().manual_seed(seed))


def labels(seed, count=4):
    return torch.randint(0, 3, (count,), generator=torch.Generator().manual_seed(seed))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def two():
    torch.manual_seed(0)
    model = Words()
    other = copy.deepcopy(model)
    return model, sgd(model), other, sgd(other)


class Samples(collections.UserDict):
    """As transformers' BatchEncoding: a mapping whose entries are attributes too."""

    def __getattr__(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


def with_attributes(model, batch):
    return F.cross_entropy(model(batch.input_ids), batch["labels"])


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_mapping_that_pytorch_does_not_know_reaches_loss_fn_as_it_is(engine):
    kinds = [Samples]
    if engine == "torch":
        kinds.append(pytest.importorskip("transformers").BatchEncoding)
    for kind in kinds:
        model, mine, other, its = two()
        batches = [kind({"input_ids": ids(k), "labels": labels(k)}) for k in range(2)]
        step = lowtide.compile_step(model, with_attributes, mine, batches[0], engine=engine, **FAST)
        for batch in batches:
            if engine == "torch":
                assert_equal_steps(step, model, mine, other, its, with_attributes, batch, 1)
                continue
            its.zero_grad()
            wanted = with_attributes(other, batch)
            wanted.backward()
            its.step()
            torch.testing.assert_close(step(batch), wanted.detach())
        assert len(step._ready) == 1


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_another_word_or_number_or_none_is_another_plan_and_an_equal_one_is_not(engine):
    def loss_fn(model, batch):
        loss = F.cross_entropy(model(batch["ids"], batch["weight"]), batch["labels"],
                               reduction=batch["reduction"])
        return loss * batch["times"]

    model, mine, other, its = two()
    plain = {"ids": ids(0), "labels": labels(0), "weight": None, "reduction": "mean", "times": 1}
    step = lowtide.compile_step(model, loss_fn, mine, plain, engine=engine, **FAST)
    others = [{"reduction": "sum"}, {"times": 3}, {"times": True}, {"weight": torch.full((8,), 0.5)}, {}]
    for k, more in enumerate(others):
        batch = {**plain, "ids": ids(k), **more}
        its.zero_grad()
        wanted = loss_fn(other, batch)
        wanted.backward()
        its.step()
        torch.testing.assert_close(step(batch), wanted.detach())
        assert engine == "native" or differences(model, mine, other, its) == []
    assert len(step._ready) == 5, "the last is the first"
    fixed = lowtide.compile_step(model, loss_fn, mine, plain, engine=engine, shapes="fixed", **FAST)
    with pytest.raises(lowtide.Usage, match="for which there is no plan"):
        fixed({**plain, "times": 2})


@pytest.mark.parametrize(("leaf", "words"), [
    (lambda: labels(0).numpy(), r"the batch's \['more'\]\[1\] is numpy's ndarray, .* torch.from_numpy"),
    (lambda: labels(0).numpy()[0], r"the batch's \['more'\]\[1\] is numpy's int64"),
    (lambda: 0.5, r"the batch's \['more'\]\[1\] is the number 0.5: give it as a tensor"),
    (object, r"the batch's \['more'\]\[1\] is a object; .* close over it in loss_fn"),
    (lambda: Samples(x=[0.5]), r"the batch's \['more'\]\[1\]\['x'\]\[0\] is the number 0.5")])
def test_what_a_plan_cannot_hold_for_is_refused_by_its_place(leaf, words):
    model, mine, _, _ = two()
    good = {"input_ids": ids(0), "labels": labels(0), "more": [None, None]}
    bad = {**good, "more": [None, leaf()]}

    def loss_fn(model, batch):
        return F.cross_entropy(model(batch["input_ids"]), batch["labels"])

    with pytest.raises(lowtide.Usage, match=words):
        lowtide.plan(model, loss_fn, mine, bad)
    step = lowtide.compile_step(model, loss_fn, mine, good, **FAST)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(lowtide.Usage, match=words):
        step(bad)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_a_batch_is_put_together_as_it_was():
    first, second = torch.zeros(2), torch.ones(3)
    batch = {"a": [first, None], "b": Samples(c=(second, "w"), d=7)}
    tensors, spec = tensors_of(batch)
    assert [t.data_ptr() for t in tensors] == [first.data_ptr(), second.data_ptr()]
    again = spec.batch_of([second, first])
    assert again["a"] == [second, None] and type(again["b"]) is Samples
    assert again["b"].c[0] is first and again["b"].c[1] == "w" and again["b"]["d"] == 7
    assert repr(tensors_of(again)[1]) == repr(spec)
