"""Numbers that the forward pass moves: what is compared with them asks for a plan for each way, what is only counted for none."""

import bisect
import collections
import copy
import functools
import heapq
import operator
import types
import warnings

import pytest
from torch_models import torch

import lowtide

nn = torch.nn
CALLS = 0


class Net(nn.Module):
    """A layer, and a forward pass from a function of (module, x)."""

    count = 0

    def __init__(self, forward, **kept):
        super().__init__()
        self.layer, self.run = nn.Linear(6, 4), forward
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.run(self, x)


def warmed_up(m, x):
    m.calls += 1
    return m.layer(x) * (1.0 if m.calls < 4 else 0.5)


def each_third(m, x):
    y = m.layer(x)
    if m.calls % 3 == 0:
        y = y.tanh()
    m.calls += 1
    return y


def wrapped(m, x):
    m.calls = (m.calls + 1) % 4
    return -m.layer(x) if m.calls == 3 else m.layer(x)


def cooled(m, x):
    """A float that no sum makes, and a limit."""
    m.rate = m.rate * 0.5
    return m.layer(x) * max(0.3, round(m.rate, 1)) if m.rate < 0.2 else m.layer(x)


def staircase(m, x):
    m.calls += 1
    return m.layer(x) * 0.5 ** (m.calls // 3)


def in_a_dict(m, x):
    m.stats["seen"] += 1
    return m.layer(x).relu() if m.stats["seen"] > 2 else m.layer(x)


def dict_put_anew(m, x):
    m.stats = {"seen": m.stats["seen"] + 1, "mean": m.layer(x).detach().mean(0)}
    return m.layer(x).relu() if m.stats["seen"] > 2 else m.layer(x)


def in_a_tuple(m, x):
    m.state = (m.state[0] + 1, m.layer(x).detach())
    return m.layer(x).sigmoid() if not m.state[0] <= 2 else m.layer(x)


def two_that_hang_together(m, x):
    m.a, m.b = m.b, m.a + m.b
    return m.layer(x) / 3 if m.a + 1 > m.b - 1 else m.layer(x)


def on_and_off(m, x):
    m.flip = not m.flip
    return m.layer(x)


def toggled(m, x):
    m.flip = not m.flip
    return m.layer(x).neg() if m.flip else m.layer(x)


def phases(m, x):
    m.phase = {"one": "two", "two": "three", "three": "one"}[m.phase]
    return m.layer(x) * len(m.phase)


def put_to_zero(m, x):
    m.calls += 1
    if m.calls == 3:
        m.calls = 0
        return m.layer(x).cos()
    return m.layer(x)


def of_the_class(m, x):
    type(m).count += 1
    return m.layer(x).sin() if Net.count > 2 else m.layer(x)


def of_globals(m, x):
    global CALLS
    CALLS += 1
    return m.layer(x).sin() if CALLS >= 3 else m.layer(x)


def named_in_another(m, x):
    m.calls += 1
    m.last = m.calls * 2
    return m.layer(x) + (m.last > 4)


def chained(m, x):
    m.calls += 1
    return m.layer(x).cos() if 1 < m.calls <= 3 else m.layer(x)


def filled_up(m, x):
    m.seen.append(m.layer(x).detach())
    return m.layer(x) + sum(m.seen) / len(m.seen)


def smaller_batches(m, x):
    """A state in a dict that is put anew, whose shape alone decides."""
    rows = m.state["h"].shape[0] if m.state else 0
    m.state = {"h": m.layer(x).detach()}
    return m.layer(x) * (1 + rows)


def last_calls(m, x):
    """Plain numbers in a deque of one length."""
    m.calls += 1
    m.seen.append(m.calls)
    return m.layer(x).cos() if max(m.seen) > 4 else m.layer(x)


def once(m, x):
    m.calls += 1
    return m.layer(x).cos() if m.calls in (2, 4) else m.layer(x)


KEPT = {warmed_up: ({"calls": 0}, 2), each_third: ({"calls": 0}, 2), wrapped: ({"calls": 0}, 2), cooled: ({"rate": 1.0}, 4), staircase: ({"calls": 0}, 3),
        in_a_dict: ({"stats": {"seen": 0}}, 2), dict_put_anew: ({"stats": {"seen": 0, "mean": torch.zeros(4)}}, 3),
        in_a_tuple: ({"state": (0, torch.zeros(5, 4))}, 3), two_that_hang_together: ({"a": 0, "b": 1}, 3), on_and_off: ({"flip": False}, 2),
        toggled: ({"flip": False}, 2), phases: ({"phase": "one"}, 3), put_to_zero: ({"calls": 0}, 2), of_the_class: ({}, 2), of_globals: ({}, 2),
        named_in_another: ({"calls": 0, "last": 0}, 3), chained: ({"calls": 0}, 3), filled_up: ({"seen": collections.deque(maxlen=3)}, 4),
        once: ({"calls": 0}, 5), smaller_batches: ({"state": None}, 6), last_calls: ({"calls": 0, "seen": collections.deque([0, 0], maxlen=2)}, 8)}
ROWS = {smaller_batches: {2: 3, 5: 3}}  # of other batches


def data(k, rows=5):
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(k))


def loss_fn(model, batch):
    return model(batch).square().mean()


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    globals()["CALLS"] = Net.count = 0


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, (tuple, list, collections.deque)):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and (all(equal(a[k], b[k]) for k in a) if isinstance(a, dict) else a == b)


def left(model, kept):
    return [copy.deepcopy(getattr(model, name)) for name in kept] + [Net.count, CALLS]


def eager(forward, kept, steps):
    torch.manual_seed(0)
    model = Net(forward, **copy.deepcopy(kept))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for k in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model, data(k, ROWS.get(forward, {}).get(k, 5)))
        loss.backward()
        optimizer.step()
        losses.append((loss.detach(), left(model, kept)))
    return model, losses


@pytest.mark.parametrize("forward", KEPT, ids=lambda f: f.__name__)
def test_steps_are_eager_modes(forward):
    kept, plans = KEPT[forward]
    other, wanted = eager(forward, kept, 7)
    globals()["CALLS"] = Net.count = 0
    torch.manual_seed(0)
    model = Net(forward, **copy.deepcopy(kept))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0), effort=0.1, rehearse=False)
        made = 1
        for k in range(7):
            before = set(map(id, step._ready.values()))
            loss = step(data(k, ROWS.get(forward, {}).get(k, 5)))
            made += len([one for one in step._ready.values() if id(one) not in before])
            assert torch.equal(loss, wanted[k][0]) and equal(left(model, kept), wanted[k][1]), k
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert made <= plans


def compiled(forward, **kept):
    torch.manual_seed(0)
    model = Net(forward, **kept)
    return model, lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(0), effort=0.1, rehearse=False)


def test_what_is_only_counted_asks_for_no_plan():
    def forward(m, x):
        m.calls += 1
        m.half += 0.1
        m.stats.n += 2
        m.log.append(m.calls)
        return m.layer(x)

    model, step = compiled(forward, calls=0, half=0.0, stats=types.SimpleNamespace(n=1), log=[])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(6):
            step(data(k))
    expected = 0.0
    for _ in range(6):
        expected += 0.1
    assert (model.calls, model.half, model.stats.n, model.log) == (6, expected, 13, [1, 2, 3, 4, 5, 6]) and len(step._ready) == 1


def test_a_way_that_is_taken_anew_is_told_and_both_plans_stay():
    model, step = compiled(warmed_up, calls=0)
    for k in range(3):
        step(data(k))
    with pytest.warns(UserWarning, match="calls is 3 now: a plan holds for Python's values"):
        step(data(3))
    model.calls = 0  # by the loop
    step(data(0))
    assert len(step._ready) == 2 and model.calls == 1


@pytest.mark.parametrize("forward, kept, line", [
    (lambda m, x: (setattr(m, "calls", m.calls + 1), m.layer(x) * m.calls)[1], {"calls": 1}, r"moves 'calls' \(1, 2, 3\), and the step depends on it"),
    (lambda m, x: (setattr(m, "calls", m.calls + 1), m.layer(x)[:, m.calls % 4])[1], {"calls": 0}, r"moves 'calls' \(0, 1, 2\)"),
    (lambda m, x: (setattr(m, "calls", m.calls + 1), m.table[f"{m.calls}"] * m.layer(x))[1],
     {"calls": 0, "table": collections.defaultdict(lambda: 1.0)}, r"'calls'"),
    (lambda m, x: (setattr(m, "rate", m.rate * 0.9), m.layer(x) + torch.full((4,), m.rate))[1], {"rate": 1.0}, r"moves 'rate' \(1.0, 0.9, 0.81"),
    (lambda m, x: (m.seen.append(1), m.layer(x) if len(m.seen) < 4 else -m.layer(x))[1], {"seen": []}, "makes 'seen' longer, and the step depends on it"),
    (lambda m, x: (m.seen.append(m.layer(x)[0, 0].detach()), m.layer(x) + m.seen[0])[1], {"seen": [torch.ones(())]}, "makes 'seen' longer"),
], ids=["factor", "index", "key", "tensor made", "length", "entry"])
def test_what_would_ask_for_a_plan_in_each_step_is_refused_by_name(forward, kept, line):
    with pytest.raises(lowtide.Unsupported, match=line):
        compiled(forward, **kept)


def test_a_cache_of_a_function_is_filled_in_each_trace():
    @functools.lru_cache
    def ramp(n):
        return torch.arange(n) / n

    def forward(m, x):
        m.calls += 1
        return m.layer(x) * ramp(4)

    model, step = compiled(forward, calls=0)
    for k in range(2):
        wanted = loss_fn(copy.deepcopy(model), data(k)).detach()
        assert torch.equal(step(data(k)), wanted) and model.calls == k + 1
    assert len(step._ready) == 1


PAST_METHODS = {"heap": lambda kept: heapq.heappush(kept, 1), "first": lambda kept: list.insert(kept, 0, 1), "sorted": lambda kept: bisect.insort(kept, 1),
                "pair": lambda kept: heapq.heappush(kept, kept[0] - 1), "slice": lambda kept: operator.setitem(kept, slice(0, 0), [1])}


def kept_behind_steps(write, start, planned):
    torch.manual_seed(0)
    model, x = nn.Linear(2, 2), torch.ones(3, 2)
    model.kept = list(start)

    def loss_fn(model, x):
        write(model.kept)
        return model(x).square().mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = lowtide.compile_step(model, loss_fn, optimizer, x, effort=0.05) if planned else None
    for k in range(4):
        if planned:
            step(x)
        else:
            optimizer.zero_grad()
            loss_fn(model, x).backward()
            optimizer.step()
        if k == 1:
            model.kept += [3, 2]
    return model.kept, [*model.parameters()]


@pytest.mark.filterwarnings("ignore:lowtide")
@pytest.mark.parametrize("kind", PAST_METHODS)
def test_lists_that_functions_of_c_write_are_as_in_eager_mode(kind):
    (mine, weights), (its, others) = (kept_behind_steps(PAST_METHODS[kind], [3, 2], planned) for planned in (True, False))
    assert mine == its and all(map(torch.equal, weights, others))


@pytest.mark.parametrize("kind", ["heap", "first", "sorted", "slice"])
def test_what_looks_longer_and_was_written_in_front_is_refused(kind):
    """Of [1, 1] behind a step nobody can tell whether the second was put in front."""
    with pytest.raises(lowtide.Unsupported, match="makes 'kept' longer"):
        kept_behind_steps(PAST_METHODS[kind], [1], True)
