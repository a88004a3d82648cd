"""engine="auto": a native step that cannot be planned anew goes on with PyTorch's kernels, and says why."""

import copy
import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

import lowtide  # noqa: E402


def entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros(8))

    def act(self, x):
        return x.tanh()

    def forward(self, x):
        return self.two(self.act(self.one(x)))


def writes_a_buffer(self, x):
    with torch.no_grad():
        self.seen.lerp_(x.mean(0), 0.1)
    return x.relu()


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def hook(model):
    model.one.weight.register_hook(lambda g: g * 0.5)


def method(model):
    model.act = writes_a_buffer.__get__(model)


def backward(model):
    model.act = Reversed.apply


def part(model):
    model.two.register_full_backward_hook(lambda module, ours, theirs: (None,))


@pytest.fixture
def native(monkeypatch):
    """A step that took native, its model and optimizer, eager mode's, and a batch."""
    from lowtide.pytorch import engines
    from lowtide.pytorch.native import NativeStep

    torch.manual_seed(0)
    model, batch = Small(), (torch.randn(6, 8), torch.randint(0, 4, (6,)))
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, other))
    monkeypatch.setattr(engines, "_seconds", lambda step, batch: 1.0 if isinstance(step, NativeStep) else 2.0)
    step = lowtide.compile_step(model, entropy, mine, batch, engine="auto", effort=0.05)
    assert step.engine == "native"
    return step, (model, mine), (other, its), batch


def eager(model, optimizer, batch):
    optimizer.zero_grad()
    loss = entropy(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("change", [hook, method, backward, part], ids=lambda f: f.__name__)
def test_a_step_that_native_cannot_plan_anew_goes_on_with_torch(native, change):
    step, (model, mine), (other, its), batch = native
    torch.testing.assert_close(step(batch), eager(other, its, batch))
    for each in (model, other):
        change(each)
    with pytest.warns(UserWarning, match="engine='auto' goes on with torch, as the native engine cannot: "):
        found = step(batch)
    assert step.engine == "torch" and "the native engine cannot go on" in repr(step)
    torch.testing.assert_close(found, eager(other, its, batch))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            torch.testing.assert_close(step(batch), eager(other, its, batch))
    torch.testing.assert_close(model.state_dict(), other.state_dict())
    torch.testing.assert_close(mine.state_dict()["state"], its.state_dict()["state"])


def test_what_torch_refuses_too_leaves_the_step_native(native):
    step, (model, _), _, batch = native
    wanted = copy.deepcopy(model.state_dict())
    handle = model.one.weight.register_hook(print)
    with pytest.raises(lowtide.Unsupported, match="gives nothing back"):
        step(batch)
    assert step.engine == "native"
    torch.testing.assert_close(model.state_dict(), wanted)
    handle.remove()
    assert torch.isfinite(step(batch)) and step.engine == "native"


def test_a_rehearsal_goes_on_with_torch_too(native):
    step, (model, _), _, batch = native
    hook(model)
    wanted = copy.deepcopy(model.state_dict())
    with pytest.warns(UserWarning, match="goes on with torch"):
        assert step.rehearse(batch) > 0
    assert step.engine == "torch"
    torch.testing.assert_close(model.state_dict(), wanted)


def test_the_folder_of_a_program_goes_with_its_step_and_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for hooked in (False, True):  # native, and refused by it
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        if hooked:
            model.weight.register_hook(lambda g: g * 2)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(2, 4), engine="auto",
                                        rehearse=False)
            assert step.engine == ("torch" if hooked else "native")
            del step
            gc.collect()
        assert not [one for one in said if issubclass(one.category, ResourceWarning)] and not list(tmp_path.glob("lowtide-*"))
