"""Checks that read numbers off tensors by int(), float(), formats and math: they raise what eager mode raises, but for `?` in the words."""

import copy
import math
import re

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import lowtide  # noqa: E402
from lowtide.pytorch import read_numbers  # noqa: E402

LIMIT = 9


class Options:
    classes = 4


def a_norm(x, y):
    if float(x.norm()) > 1e6:
        raise ValueError(f"{float(x.norm()):.2f} of {len(x)}")


def percent(x, y):
    if x.norm().item() > 1e6:
        raise ValueError("%.3f is too much for %s" % (x.norm(), LIMIT))


ASSERTED = """
def asserted(x, y):
    assert int(y.max()) < Options.classes, f"label {int(y.max())} is not below {Options.classes}"
"""  # pytest writes asserts of this file anew


def several_numbers(x, y):
    n = LIMIT
    if int(y.max()) + 1 > n * 2 - 10:
        raise IndexError(y.max().item(), int(y.max()) + 1, "classes")


def of_math(x, y):
    if math.isnan(x.sum().item()) or not math.isfinite(float(x.sum())):
        raise FloatingPointError("no number")


def between(x, y):
    if not (0 <= int(y.min()) < Options.classes and int(y.max()) <= 3):
        raise ValueError("labels")


def of_remainders(x, y):
    if int(y.sum()) % 2 == 1 or abs(float(x.min())) >= 1e5:
        raise ValueError("odd")


def of_tensors(x, y):
    if 0 <= y.min() and y.max() < Options.classes:
        return
    raise ValueError("labels of tensors")


def lengths(x, y):
    if int(y.max()) > x.shape[1] or int(y.min()) > x.size(0) + len(y) or round(float(x.max())) == 77:
        raise RuntimeError("longer than the longest")


NAN = float("nan")
CASES = [(a_norm, "x", 1e8), (percent, "x", 1e8), (several_numbers, "y", 30), (of_math, "x", NAN), (of_math, "x", float("inf")),
         (between, "y", 77), (between, "y", -5), (of_remainders, "x", -1e6), (of_remainders, "y", 1), (of_tensors, "y", 4), (lengths, "y", 9), (lengths, "x", 77.2)]


def batch_with(where="", number=0):
    x, y = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 3, 0, 2])
    if "x" in where:
        x[0, 0] = number
    if "y" in where:
        y[0] = int(number) if where == "y" else 1
    return x, y


def test_an_assert_is_a_check(tmp_path):
    (tmp_path / "asserted.py").write_text(ASSERTED)
    names = {"Options": Options}
    exec(compile(ASSERTED, tmp_path / "asserted.py", "exec"), names)  # noqa: S102
    test_a_check_raises_what_eager_mode_raises_and_nothing_changes(names["asserted"], "y", 7)


@pytest.mark.parametrize("check, where, number", CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_check_raises_what_eager_mode_raises_and_nothing_changes(check, where, number):
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))

    def loss_fn(m, b):
        check(*b)
        return m(b[0]).square().mean()
    step = lowtide.compile_step(model, loss_fn, mine, batch_with(), effort=0.1)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(Exception) as wanted:  # noqa: PT011: which one is compared
        loss_fn(other, batch_with(where, number))
    with pytest.raises(type(wanted.value)) as found:
        step(batch_with(where, number))
    words = re.escape(str(found.value)).replace("\\'\\?\\'", ".*").replace("'\\?'", "[^,]*").replace("\\?", "[-+.e0-9]+")
    assert re.fullmatch(words, str(wanted.value)), (str(found.value), str(wanted.value))
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    for _ in range(2):
        its.zero_grad()
        loss = loss_fn(other, batch_with())
        loss.backward()
        its.step()
        assert torch.equal(step(batch_with()), loss.detach())
    assert all(map(torch.equal, model.parameters(), other.parameters()))


def of_two(x, y):
    return x if int(y.max()) > int(y.min()) else -x


def kept(x, y):
    n = int(y.max())
    return x * n if n > 2 else x


@pytest.mark.parametrize("branch", [kept, of_two])
def test_a_whole_number_of_the_batch_has_a_plan_for_each(branch):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = lowtide.compile_step(model, lambda m, b: m(branch(*b)).mean(), optimizer, batch_with(), effort=0.1, rehearse=False)
    for y in (batch_with()[1], torch.ones(6, dtype=torch.long)):
        x = batch_with()[0]
        assert torch.equal(step((x, y)), model(branch(x, y)).mean().detach())


def both_go_on(x, y):
    return x if float(x.sum()) > 0 else -x


def text(x, y):
    name = f"{float(x.sum())}"
    return x if name == "1.0" else -x


@pytest.mark.parametrize("branch", [both_go_on, text])
def test_what_goes_on_is_refused_with_a_way_round(branch):
    model = nn.Linear(8, 4)
    with pytest.raises(lowtide.Unsupported, match=r"torch\.where|\.item\(\)") as refused:
        lowtide.compile_step(model, lambda m, b: m(branch(*b)).mean(), torch.optim.SGD(model.parameters(), lr=0.1), batch_with(), effort=0.1)
    assert "\n" not in str(refused.value) and "test_torch_read_numbers.py" in str(refused.value)


def test_a_buffer_that_decides_has_a_plan_for_each_answer():
    class Warm(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(8, 4)
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            warm = 0.1 if int(self.calls) + 1 > 2 else 1.0
            self.calls += 1
            return self.l(x) * warm
    torch.manual_seed(0)
    model = Warm()
    other = copy.deepcopy(model)
    mine, its = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    step = lowtide.compile_step(model, lambda m, x: m(x).square().mean(), mine, batch_with()[0], effort=0.1)
    for _ in range(4):
        its.zero_grad()
        loss = other(batch_with()[0]).square().mean()
        loss.backward()
        its.step()
        assert torch.equal(step(batch_with()[0]), loss.detach()) and torch.equal(model.calls, other.calls)


def test_words_that_are_said_twice():
    def said(a, b):
        return read_numbers.in_words(ValueError(*a), ValueError(*b)).args
    assert said(["17 of 5 at 17.00"], ["29 of 5 at 29.00"]) == ("? of 5 at ?",)
    assert said([18, "a", None], [30, "a", None]) == ("?", "a", None)
    assert said(["same"], ["same"]) == ("same",)
    assert type(read_numbers.in_words(ValueError("1"), KeyError("2"))) is ValueError


class Queue(nn.Module):
    """Keys of the last batches, as contrastive losses keep them; the place for the next ones is a buffer."""

    def __init__(self, sliced):
        super().__init__()
        self.l, self.sliced = nn.Linear(8, 4), sliced
        self.register_buffer("queue", torch.randn(4, 18, generator=torch.Generator().manual_seed(2)))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        keys = self.l(x)
        found, new = keys @ self.queue.clone(), keys.detach().T
        if self.sliced:
            p = int(self.place)
            self.queue[:, p:p + 6] = new
        else:
            self.queue.index_copy_(1, self.place + torch.arange(6), new)
        self.place.copy_((self.place + 6) % 18)
        return found


def test_a_queue_is_written_at_a_place_that_a_buffer_says():
    x = batch_with()[0]
    models, losses = [], []
    for sliced in (True, False):
        torch.manual_seed(0)
        models.append(Queue(sliced))
        optimizer = torch.optim.SGD(models[-1].parameters(), lr=0.1)
        if sliced:
            with pytest.raises(lowtide.Unsupported, match=r"x\.index_copy_\(dim, place \+ torch\.arange\(n\), rows\)"):
                lowtide.compile_step(models[-1], lambda m, b: m(b).square().mean(), optimizer, x, effort=0.1)
        step = None if sliced else lowtide.compile_step(models[-1], lambda m, b: m(b).square().mean(), optimizer, x, effort=0.1)
        for _ in range(4):
            if step is not None:
                losses.append(step(x))
                continue
            optimizer.zero_grad()
            losses.append(models[-1](x).square().mean())
            losses[-1].backward()
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(losses[:4], losses[4:], strict=True))
    assert all(torch.equal(models[1].state_dict()[k], v) for k, v in models[0].state_dict().items())
