"""What a batch is made of: tensors, read in every step; containers, None, words and whole numbers, which a plan holds for."""

import collections
import copy
import dataclasses
import gc
import types
import typing
import weakref

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


@dataclasses.dataclass
class Plain:
    input_ids: torch.Tensor
    labels: torch.Tensor
    more: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    input_ids: torch.Tensor
    labels: torch.Tensor
    task: str = "words"


class Named(typing.NamedTuple):
    input_ids: torch.Tensor
    labels: torch.Tensor


class ByHand:
    """A class that no library knows, with a slot and attributes beside it."""

    __slots__ = ("__dict__", "input_ids")

    def __init__(self, input_ids, labels):
        self.input_ids, self.labels, self.kept = input_ids, labels, [None, "w"]


class Stores:
    """As torch_geometric's Data: attributes are the items of a store, which knows whose it is."""

    class Store(dict):
        pass

    def __init__(self, **items):
        self.__dict__["_store"] = Stores.Store(items)
        self._store.parent = weakref.ref(self)

    @property
    def stores(self):
        return [self._store]

    def __copy__(self):
        return Stores(**self._store)

    def __call__(self):
        return list(self._store)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._store[name]


class Items(collections.abc.MutableMapping):
    """A mapping that derives from nothing that pytree knows."""

    def __init__(self, **items):
        self.items_of = items

    def __copy__(self):
        return Items(**self.items_of)

    def __getattr__(self, name):
        if name.startswith("_") or name == "items_of":
            raise AttributeError(name)
        return self.items_of[name]

    def __getitem__(self, key):
        return self.items_of[key]

    def __setitem__(self, key, value):
        self.items_of[key] = value

    def __delitem__(self, key):
        del self.items_of[key]

    def __iter__(self):
        return iter(self.items_of)

    def __len__(self):
        return len(self.items_of)


@pytest.mark.parametrize("kind", [Plain, Frozen, Named, ByHand, Stores, Items, types.SimpleNamespace])
def test_an_object_of_tensors_reaches_loss_fn_as_one_of_its_kind(kind):
    seen = []

    def loss_fn(model, batch):
        seen.append(type(batch))
        return F.cross_entropy(model(batch.input_ids), batch.labels)

    model, mine, other, its = two()
    batches = [kind(input_ids=ids(k), labels=labels(k)) for k in range(3)]
    step = lowtide.compile_step(model, loss_fn, mine, batches[0], **FAST)
    for batch in batches:
        assert_equal_steps(step, model, mine, other, its, loss_fn, batch, 1)
    assert len(step._ready) == 1
    assert set(seen) == {kind}
    assert torch.equal(batches[0].input_ids, ids(0)), "the caller's is as it was"


def test_fields_beside_tensors_are_part_of_what_a_plan_holds_for():
    def loss_fn(model, batch):
        return F.cross_entropy(model(batch.input_ids), batch.labels) * (2 if batch.task == "other" else 1)

    model, mine, other, its = two()
    step = lowtide.compile_step(model, loss_fn, mine, Frozen(ids(0), labels(0)), **FAST)
    for task in ("words", "other", "words"):
        assert_equal_steps(step, model, mine, other, its, loss_fn, Frozen(ids(1), labels(1), task), 1)
    assert len(step._ready) == 2


def test_objects_stand_anywhere_in_a_batch_and_their_refusals_name_the_field():
    inner = Plain(ids(0), labels(0), {"deep": [ByHand(ids(1), labels(1))]})
    tensors, spec = tensors_of([inner, {"x": ids(2)}])
    assert len(tensors) == 5
    again = spec.batch_of([t + 1 for t in tensors])
    assert type(again[0].more["deep"][0]) is ByHand
    assert torch.equal(again[0].more["deep"][0].labels, labels(1) + 1)
    assert again[0].more["deep"][0].kept == [None, "w"]
    assert torch.equal(inner.more["deep"][0].labels, labels(1))
    with pytest.raises(lowtide.Usage, match=r"the batch's \[0\]\.more\['deep'\]\[0\]\.kept\[1\] is the number 0.5"):
        inner.more["deep"][0].kept = [None, 0.5]
        tensors_of([inner])
    with pytest.raises(lowtide.Usage, match=r"the batch's \.more is numpy's ndarray"):
        tensors_of(Plain(ids(0), labels(0), labels(0).numpy()))


def test_a_plan_keeps_no_tensor_of_the_sample_batch():
    sample = Plain(ids(0), labels(0), [ByHand(ids(1), labels(1))])
    model, mine, _, _ = two()
    step = lowtide.compile_step(model, lambda m, b: F.cross_entropy(m(b.input_ids), b.labels), mine, sample, **FAST)
    gone = [weakref.ref(sample.labels), weakref.ref(sample.more[0].input_ids)]
    del sample
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    step(Plain(ids(0), labels(0), [ByHand(ids(1), labels(1))]))


@pytest.mark.parametrize(("leaf", "words"), [
    (lambda: torch.nn.utils.rnn.pack_sequence([torch.ones(2, 3), torch.ones(1, 3)]), r"\[1\] is a packed sequence.*pad_packed_sequence.*mask"),
    (lambda: torch.eye(3).to_sparse(), r"\[1\] is sparse \(sparse_coo\).*index_add"),
    (lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]), r"\[1\] is a nested tensor.*to_padded_tensor"),
    (lambda: ByHand(ids(0), torch.eye(3).to_sparse_csr()), r"\[1\]\.labels is sparse \(sparse_csr\)"),
    (lambda: nn.Linear(2, 2), r"\[1\] is a Linear; .* close over it")])
@pytest.mark.filterwarnings("ignore")
def test_what_has_a_layout_of_its_contents_is_refused_with_the_way_round(leaf, words):
    with pytest.raises(lowtide.Usage, match=words):
        tensors_of([ids(0), leaf()])


@pytest.mark.parametrize(("formula", "words"), [
    (lambda y, b: y[y > 0].mean(), r"aten.index.*torch.where\(mask, x, 0\).*ignore_index"),
    (lambda y, b: y.masked_select(y > 0).mean(), "masked_select.*torch.where"),
    (lambda y, b: y[torch.unique(b["labels"])].mean(), "unique has as many results"),
    (lambda y, b: y.repeat_interleave(y.argmax(-1), dim=0).mean(), "repeat_interleave by a tensor"),
    (lambda y, b: y.mean() * torch.bincount(b["labels"]).sum(), "one_hot"),
    (lambda y, b: y[:int(y.argmax())].sum(), "as Python's int"),
    (lambda y, b: torch.nn.utils.rnn.pack_padded_sequence(y[None].expand(2, 4, 3), torch.tensor([4, 2]), batch_first=True).data.mean(),
     "recurrent layer on the padded sequence"),
    (lambda y, b: y.sum() if b["labels"].sum() > 3 else y.mean(), "torch.where of both results")])
def test_shapes_that_contents_decide_are_refused_with_the_way_round(formula, words):
    model, mine, _, _ = two()
    batch = {"input_ids": ids(0), "labels": labels(0), "mask": labels(1) > 0}
    with pytest.raises(lowtide.Unsupported, match=words) as refused:
        lowtide.plan(model, lambda m, b: formula(m(b["input_ids"]), b), mine, batch, **FAST)
    assert "test_torch_batches.py" in str(refused.value)
