"""What changes between two steps is noticed, though a step first asks only whether all is as it was for the one before."""

import copy

import pytest
import torch
import torch.nn.functional as F

import lowtide
from lowtide.pytorch import guards, steady


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x):
        return self.b(F.relu(self.norm(self.a(x))))


def loss_of(model, batch):
    x, y = batch.values() if isinstance(batch, dict) else batch
    return F.cross_entropy(model(x), y)


def batch_of(seed, n=4):
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(n, 6, generator=drawn), torch.randint(0, 3, (n,), generator=drawn)


def pair(make=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)):
    torch.manual_seed(0)
    model = Net()
    other = copy.deepcopy(model)
    return model, make(model.parameters()), other, make(other.parameters())


def eager(model, optimizer, batch):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def same(model, optimizer, other, its):
    for (name, p), q in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(p, q), name
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        for key, value in its.state[q].items():
            assert not isinstance(value, torch.Tensor) or torch.equal(optimizer.state[p][key], value), key


def frozen_layer(model, optimizer, batch):
    for p in model.a.parameters():
        p.requires_grad_(False)
        p.grad = None
    return batch


def other_optimizer_options(model, optimizer, batch):
    for group in optimizer.param_groups:
        group["weight_decay"], group["lr"] = 0.1, 0.05
    return batch


def evaluated(model, optimizer, batch):
    model.norm.eval()
    return batch


def larger_batch(model, optimizer, batch):
    return tuple(torch.cat([t, t]) for t in batch)


def other_strides(model, optimizer, batch):
    return batch[0].t().contiguous().t(), batch[1]


def as_a_dictionary(model, optimizer, batch):
    return {"x": batch[0], "y": batch[1]}


def as_a_list(model, optimizer, batch):
    return list(batch)


def state_cleared(model, optimizer, batch):
    optimizer.state.clear()
    return batch


def state_loaded(model, optimizer, batch):
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return batch


def entries_in_another_order(model, optimizer, batch):
    for p in model.parameters():
        entry = optimizer.state[p]
        kept = dict(reversed(list(entry.items())))
        entry.clear()
        entry.update(kept)
    return batch


def another_tensor_of_state(model, optimizer, batch):
    for p in model.parameters():
        for key, value in optimizer.state[p].items():
            optimizer.state[p][key] = value * 2 if value is not None else None
    return batch


def other_data(model, optimizer, batch):
    model.a.weight.data = model.a.weight.data * 0.5
    return batch


CHANGES = [frozen_layer, other_optimizer_options, evaluated, larger_batch, other_strides, as_a_dictionary, as_a_list, state_cleared,
           state_loaded, entries_in_another_order, another_tensor_of_state, other_data]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("kind", [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), torch.optim.AdamW], ids=["SGD", "AdamW"])
def test_a_change_between_two_steps_is_as_in_eager_mode(kind, change):
    if change is another_tensor_of_state and kind is torch.optim.AdamW:
        kind = torch.optim.Adam
    model, optimizer, other, its = pair(kind)
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False, engine="torch")
    for k in range(3):
        assert torch.equal(step(batch_of(k)), eager(other, its, batch_of(k)))
    for k in range(3, 6):
        once = k > 3 and change in (state_cleared, another_tensor_of_state, other_data)  # else it is the same another time
        mine, theirs = (batch_of(k) if once else change(*each, batch_of(k)) for each in ((model, optimizer), (other, its)))
        assert torch.equal(step(mine), eager(other, its, theirs))
    same(model, optimizer, other, its)


def test_a_parameter_of_another_shape_or_another_object_is_refused():
    model, optimizer, _, _ = pair()
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False, engine="torch")
    step(batch_of(0))
    step(batch_of(1))
    before = model.a.bias.data
    model.a.bias.data = torch.zeros(8, dtype=torch.float64)
    with pytest.raises(lowtide.Usage, match="'a.bias' is torch.float64"):
        step(batch_of(2))
    model.a.bias.data = before
    step(batch_of(2))
    model.a.bias = torch.nn.Parameter(before.clone())
    with pytest.raises(lowtide.Usage, match="'a.bias' is another tensor"):
        step(batch_of(3))


def test_a_hook_on_a_gradient_that_is_put_later_runs():
    model, optimizer, other, its = pair()
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False, engine="torch")
    for k in range(4):
        if k == 2:
            for each in (model, other):
                each.b.weight.register_hook(lambda gradient: gradient * 0.5)
        assert torch.equal(step(batch_of(k)), eager(other, its, batch_of(k)))
    same(model, optimizer, other, its)


def test_a_sparse_tensor_in_the_place_of_a_dense_one_is_refused():
    model, optimizer, _, _ = pair()
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False, engine="torch")
    step(batch_of(0))
    step(batch_of(0))
    with pytest.raises(lowtide.Usage, match="sparse"):
        step((batch_of(1)[0].to_sparse(), batch_of(1)[1]))


def test_a_write_by_somebody_else_while_the_step_runs_is_noticed_in_later_steps_too():
    model, optimizer, _, _ = pair()
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False, engine="torch")
    for k in range(3):
        step(batch_of(k))
    judged = step._problem

    def writing(*given):
        with torch.no_grad():
            model.a.weight.add_(0)
        return judged(*given)

    step._problem = writing
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(lowtide.Usage, match="'a.weight' .* was changed by somebody else"):
        step(batch_of(3))
    step._problem = judged
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    step(batch_of(3))


def test_where_nothing_changes_no_entry_is_looked_at_by_itself(monkeypatch):
    """Though code asks for attributes that are not there, as `forward` of an object beside its class's."""
    model, optimizer, _, _ = pair()
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False)
    step(batch_of(1))
    looks = []
    look = guards.Guards.look
    monkeypatch.setattr(guards.Guards, "look", lambda self: looks.append(self) or look(self))
    step(batch_of(2))
    assert looks == []
    model.a.forward = lambda x: F.linear(x, 2 * model.a.weight, model.a.bias)
    with pytest.warns(UserWarning, match="a.forward"):
        step(batch_of(3))
    assert looks


@pytest.mark.parametrize("of_all", [False, True], ids=["of the optimizer", "of all optimizers"])
def test_a_hook_around_the_optimizers_step_that_is_put_in_later_is_refused(of_all):
    model, optimizer, *_ = pair()
    step = lowtide.compile_step(model, loss_of, optimizer, batch_of(0), effort=0.1, rehearse=False)
    step(batch_of(0)), step(batch_of(1))
    register = __import__("sys").modules["torch.optim.optimizer"].register_optimizer_step_post_hook if of_all else optimizer.register_step_post_hook
    handle = register(lambda *_: None)
    try:
        with pytest.raises(lowtide.Unsupported, match="the optimizer has a step_post_hook, and a planned step does not call its step"):
            step(batch_of(2))
    finally:
        handle.remove()
    step(batch_of(2))


def test_each_field_of_a_signature_is_compared():
    assert {field for field in steady.Signature._fields if callable(getattr(steady.Steady, field, None))} | {"shapes", "spec"} == set(
        steady.Signature._fields)
