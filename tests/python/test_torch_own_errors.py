"""What the user's own code raises comes out as it is, from capture, plans, steps and rehearsals; so does what a signal handler raises."""

import functools
import logging
import os
import signal
import threading

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.names = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)), {"scale": 2.0}

    def forward(self, x):
        return self.layers(x)


class Missing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))


def by_zero(model, x):
    return model(x).mean() * (1 / (len(x) - 4))


def no_such_name(model, x):
    return model(x).mean() * model.names["scales"]


def no_such_attribute(model, x):
    return model.layer(x).mean()


def own_assertion(model, x):
    assert x.shape[1] == 5, "five columns"
    return model(x).mean()


def one_argument(model):
    return model


def wrong_columns(model, x):
    return model(x[:, :3]).mean()


def wrong_labels(model, x):
    return nn.functional.cross_entropy(model(x), torch.zeros(3, dtype=torch.long))


ERRORS = {by_zero: ZeroDivisionError, no_such_name: KeyError, no_such_attribute: AttributeError, own_assertion: AssertionError, one_argument: TypeError,
          wrong_columns: RuntimeError, wrong_labels: ValueError}


def data():
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


class Written(logging.Handler):
    """What PyTorch's loggers write."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __enter__(self):
        logging.getLogger("torch").addHandler(self)

    def __exit__(self, *_):
        logging.getLogger("torch").removeHandler(self)


def everything(model, optimizer):
    return [(t.detach().clone(), t._version) for t in model.state_dict(keep_vars=True).values()], len(optimizer.state), torch.get_rng_state(), dict(model.names)


def same(one, other):
    tensors = all(torch.equal(a, b) and v == w for (a, v), (b, w) in zip(one[0], other[0], strict=True))
    return tensors and one[1] == other[1] and torch.equal(one[2], other[2]) and one[3] == other[3]


@pytest.mark.parametrize("loss_fn", ERRORS, ids=lambda f: f.__name__)
def test_what_loss_fn_raises_comes_out_as_it_is(loss_fn):
    model, written = Net(), Written()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ERRORS[loss_fn]) as eager:
        loss_fn(model, data())
    before = everything(model, optimizer)
    for start in (lowtide.plan, lowtide.compile_step):
        with written, pytest.raises(ERRORS[loss_fn]) as found:
            start(model, loss_fn, optimizer, data())
        assert type(found.value) is type(eager.value) and not isinstance(found.value, lowtide.Error)
        assert str(found.value) == str(eager.value) and same(before, everything(model, optimizer))
    assert not written.lines


def test_a_module_without_forward_says_so():
    model = Missing()
    with pytest.raises(NotImplementedError, match="missing the required"):
        lowtide.compile_step(model, lambda m, x: m(x).mean(), torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(2, 3))


def test_an_error_of_a_later_step_comes_out_as_it_is():
    model, found = Net(), {"weights": [1.0], "at": 0}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = lowtide.compile_step(model, lambda m, x: m(x).mean() * found["weights"][found["at"]], optimizer, data(), effort=0.1)
    step(data())
    found["at"], before = 1, everything(model, optimizer)
    with pytest.raises(IndexError, match="list index out of range"), pytest.warns(UserWarning, match="holds for Python's values"):
        step(data())
    assert same(before, everything(model, optimizer))
    found["at"] = 0
    step(data())


def backward_first(model, x):
    model(x).sum().backward()
    raise KeyError("behind a backward pass")


def asks_for_gradients(model, x):
    x.requires_grad_()
    raise KeyError("a gradient of the batch")


def writes_the_batch(model, x):
    x.mul_(2)
    raise KeyError("a batch that is written")


@pytest.mark.parametrize("loss_fn", [backward_first, asks_for_gradients, writes_the_batch], ids=lambda f: f.__name__)
def test_what_loss_fn_does_before_it_raises_is_undone(loss_fn):
    model, x = Net(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = everything(model, optimizer)
    with pytest.raises((KeyError, lowtide.Unsupported)):
        lowtide.compile_step(model, loss_fn, optimizer, x)
    assert same(before, everything(model, optimizer)) and torch.equal(x, data()) and not x.requires_grad and x.grad is None
    assert all(p.grad is None for p in model.parameters())


def test_what_eager_mode_does_not_raise_is_a_refusal():
    """The exception is one of tracing's: tensors have no contents then."""
    model = Net()

    def loss_fn(model, x):
        out = model(x)
        if out.mean() > 0:
            out = out * 2
        return {True: out, False: -out}[bool(out.sum() > 0)].mean()

    with pytest.raises(lowtide.Unsupported):
        lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data())


class TooLong(Exception):
    pass


def pressed_at(call, number):
    """A loss_fn that sends its process a signal at that call. They are counted by a cache of C, which nobody puts back."""
    counted = functools.lru_cache(lambda thing: thing)

    def loss_fn(model, x):
        counted(object())
        if counted.cache_info().misses == call:
            os.kill(os.getpid(), number)
        return model(x).square().mean()

    return loss_fn


@pytest.mark.parametrize("number, call", [(signal.SIGALRM, 1), (signal.SIGUSR1, 1), (signal.SIGALRM, 2), (signal.SIGUSR1, 2)])
def test_what_a_handler_raises_comes_out_as_it_is(number, call):
    """The first call is the capture's, the second one the rehearsal's."""
    def handler(*_):
        raise TooLong("a second")

    model = Net()
    optimizer, loss_fn = torch.optim.AdamW(model.parameters()), pressed_at(call, number)
    before, old = everything(model, optimizer), signal.signal(number, handler)
    try:
        with pytest.raises(TooLong, match="a second"):
            lowtide.compile_step(model, loss_fn, optimizer, data(), effort=0.1, cache=False)
    finally:
        signal.signal(number, old)
    assert same(before, everything(model, optimizer))
    step = lowtide.compile_step(model, loss_fn, optimizer, data(), effort=0.1)
    assert "equal bits" in step.rehearsal and torch.isfinite(step(data()))


def test_steps_are_compiled_and_rehearsed_in_turns():
    """One thread's capture sets hooks and random streams, which another thread's rehearsal compares."""
    said, problems = [], []
    models = [nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 2 + k)) for k in range(4)]

    def go(model):
        try:
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), optimizer, torch.ones(3, 6), effort=0.1, cache=False)
                said.append(step.rehearsal)
        except BaseException as problem:  # noqa: BLE001: that is the question
            problems.append(problem)

    threads = [threading.Thread(target=go, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and all("equal bits" in one for one in said) and len(said) == 8
