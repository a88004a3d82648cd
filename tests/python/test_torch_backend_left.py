"""torch.compile(backend="lowtide") never stops a program that eager mode runs: what cannot be planned is left to PyTorch's own partition or to
eager mode, with one warning for each reason that names the line; options={"strict": True} makes it an error."""

import copy
import warnings

import pytest
from torch_models import torch

import lowtide
from lowtide.pytorch import backend, backend_sizes

nn, F = torch.nn, torch.nn.functional
OPTIONS = {"effort": 0.1}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backend.last_plans.clear()


def trained(make, batches, name, options=None, dynamic=None):
    """Losses, gradients and buffers of a module under a backend (None: eager mode), and the warnings of ours."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, said = make(), []
    more = {"options": options} if options is not None else {}
    run = torch.compile(module, backend=name, dynamic=dynamic, **more) if name is not None else module
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k, batch in enumerate(batches):
            torch.manual_seed(k)
            loss = run(*batch)
            loss.backward()
            said.append(loss.detach().clone())
    said += [p.grad for p in module.parameters()] + [b.clone() for b in module.buffers()]
    return said, [str(w.message) for w in told if "lowtide" in str(w.message)]


def same(mine, its):
    assert len(mine) == len(its)
    for a, b in zip(mine, its, strict=True):
        assert (a is None and b is None) or torch.equal(a, b)


class Through(nn.Module):
    """A linear layer, and what is to be tried between it and the loss."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(6, 6), function

    def forward(self, x):
        return self.function(self.linear(x)).sum()


def sizes(*counts):
    torch.manual_seed(len(counts))
    return [(torch.randn(n, 6),) for n in counts]


MADE_OF_SIZES = {
    "a ramp in words": lambda x: x * torch.arange(1, x.shape[0] + 1, dtype=x.dtype).flip(0)[:, None],
    "a window": lambda x: x * torch.hann_window(x.shape[0])[:, None],
    "a band of ones": lambda x: torch.ones(x.shape[0], x.shape[0]).tril(1).triu(-1) @ x,
    "a grid": lambda x: x + torch.meshgrid(torch.arange(x.shape[0]), torch.arange(6), indexing="ij")[0],
    "a permutation written in place": lambda x: x[torch.zeros(x.shape[0], dtype=torch.long).index_fill_(0, torch.arange(x.shape[0] // 2), 1)],
    "one hot": lambda x: F.one_hot(torch.arange(x.shape[0]) % 3, 6) * x,
    "root of a size": lambda x: x * x.shape[0] ** -0.5 + x / (x.shape[0] / 2),
    "a size among options": lambda x: F.layer_norm(x.t(), (x.shape[0],)).t(),
    "a size decides": lambda x: x * torch.full((x.shape[0], 1), float(x.shape[0] % 3)),
}


@pytest.mark.parametrize("kind", MADE_OF_SIZES)
def test_tensors_made_of_sizes_are_ops_of_the_plan_at_every_size(kind):
    def make():
        return Through(MADE_OF_SIZES[kind])

    mine, told = trained(make, sizes(4, 7), backend.lowtide, OPTIONS)
    assert told == [] and len(backend.last_plans) == 2
    same(mine, trained(make, sizes(4, 7), "aot_eager")[0])


class Broken(nn.Module):
    """Two pieces: sizes, and numbers made of them, are known in the first and read in the second."""

    def __init__(self, before, behind):
        super().__init__()
        self.linear, self.before, self.behind = nn.Linear(6, 6), before, behind

    def forward(self, x):
        hidden, kept = self.linear(x), self.before(x)
        torch._dynamo.graph_break()
        return self.behind(hidden, kept).square().sum()


HANDED_ON = {
    "a size": (lambda x: x.shape[0], lambda h, n: h.reshape(n, 3, 2).sum(1)),
    "a product": (lambda x: x.shape[0] * 2, lambda h, n: h.reshape(n, 3)),
    "a size and its half": (lambda x: (x.shape[0], x.shape[0] // 2), lambda h, n: h[:n[1]] * n[0]),
    "a ratio": (lambda x: 1 / x.shape[0], lambda h, n: h * n),
    "a size, a word and nothing": (lambda x: {"n": x.shape[0], "word": "x", "none": None}, lambda h, n: h * n["n"] + len(n["word"])),
}


@pytest.mark.parametrize("kind", HANDED_ON)
def test_sizes_are_handed_on_behind_a_break(kind):
    def make():
        return Broken(*HANDED_ON[kind])

    mine, told = trained(make, sizes(4, 8, 6), backend.lowtide, OPTIONS)
    assert told == [] and len(backend.last_plans) >= 4
    same(mine, trained(make, sizes(4, 8, 6), None)[0])


class Lazy(nn.Module):
    """Keeps a table as a plain attribute, which grows with the longest batch."""

    def __init__(self):
        super().__init__()
        self.linear, self.table = nn.Linear(6, 6), None

    def forward(self, x):
        if self.table is None or self.table.shape[0] < x.shape[0]:
            self.table = torch.outer(torch.arange(x.shape[0]).float(), torch.ones(6)).cos()
        return (self.linear(x) * self.table[: x.shape[0]]).square().sum()


def test_a_table_that_the_forward_pass_keeps_grows():
    mine, _ = trained(Lazy, sizes(4, 7, 5), backend.lowtide, OPTIONS)
    same(mine, trained(Lazy, sizes(4, 7, 5), "aot_eager")[0])


class Observed(torch.autograd.Function):
    """Writes a buffer in the backward pass, and a counter that no gradient decides."""

    @staticmethod
    def forward(ctx, x, most, count):
        ctx.most, ctx.count = most, count
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        ctx.most.copy_(torch.maximum(ctx.most * 0.9, g.abs().max()))
        ctx.count.add_(1)
        return g / (1 + ctx.most), None, None


class Noted(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 2)
        self.register_buffer("most", torch.zeros(()))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.b(Observed.apply(self.a(x).tanh(), self.most, self.count)).square().mean()


@pytest.mark.parametrize("budget", [{}, {"budget": "100%"}])
def test_buffers_that_the_backward_pass_writes_are_written_in_it(budget):
    mine, told = trained(Noted, sizes(4, 4), backend.lowtide, {**OPTIONS, **budget})
    assert told == [] and backend.last_plans
    same(mine, trained(Noted, sizes(4, 4), None)[0])
    torch._dynamo.reset()
    module = Noted()
    loss = torch.compile(module, backend=backend.lowtide, options=OPTIONS)(torch.randn(4, 6))
    assert (int(module.seen), int(module.count)) == (1, 0), "the forward pass has run"
    loss.backward()
    assert (int(module.seen), int(module.count)) == (1, 1)


def condition(x):
    return torch.cond(x.sum() > 0, lambda v: v.relu(), lambda v: v.tanh(), (x,))


def loop(x):
    def body(i, v):
        return i + 1, v * 0.5

    return torch._higher_order_ops.while_loop(lambda i, v: i < 3, body, (torch.zeros((), dtype=torch.long), x.detach()))[1] + x


def of_contents(x):
    return x.square() if x.shape[0] > 1e6 else x[x.detach()[:, 0].abs() > 0.1] * 2


@torch.library.custom_op("lowtide_left::add_into", mutates_args={"y"})
def add_into(x: torch.Tensor, y: torch.Tensor) -> None:
    y.add_(x)


def custom(x):
    y = torch.zeros_like(x)
    add_into(x.detach(), y)
    return x * y


def cholesky(x):
    return torch.linalg.cholesky(x.t() @ x + torch.eye(6))


LEFT = {"cond": condition, "while_loop": loop, "add_into": custom, "_linalg_check_errors": cholesky}


@pytest.mark.parametrize("kind", LEFT)
def test_higher_order_ops_and_effects_are_left_to_pytorch_with_one_warning_that_names_the_line(kind):
    def make():
        return Through(LEFT[kind])

    mine, told = trained(make, sizes(4, 4), backend.lowtide, OPTIONS, dynamic=False)
    same(mine, trained(make, sizes(4, 4), "aot_eager", dynamic=False)[0])
    assert len(told) == 1 and kind in told[0] and "test_torch_backend_left.py" in told[0] and "PyTorch's own partition" in told[0]
    with pytest.raises(lowtide.Unsupported, match="higher-order op|has an effect"):
        trained(make, sizes(4), backend.lowtide, {**OPTIONS, "strict": True}, dynamic=False)


def test_a_reason_is_told_once_for_fixed_and_for_open_sizes():
    _, told = trained(lambda: Through(condition), sizes(4, 7, 9), backend.lowtide, OPTIONS)
    assert len(told) == 1 and "cond" in told[0]


def test_sizes_that_depend_on_contents_are_left_to_pytorch():
    def make():
        return Through(of_contents)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        mine, told = trained(make, sizes(4, 7, 9), backend.lowtide, OPTIONS)
        same(mine, trained(make, sizes(4, 7, 9), "aot_eager")[0])
    assert told and all("depend on the contents" in line for line in told)


@pytest.mark.parametrize("budget", [1000, "1KiB"])
def test_a_budget_below_the_floor_is_left_with_a_warning_or_refused(budget):
    def make():
        return Through(torch.tanh)

    mine, told = trained(make, sizes(40, 40), backend.lowtide, {**OPTIONS, "budget": budget}, dynamic=False)
    same(mine, trained(make, sizes(40, 40), "aot_eager", dynamic=False)[0])
    assert len(told) == 1 and "every schedule needs at least" in told[0] and not backend.last_plans
    with pytest.raises(lowtide.Infeasible, match="every schedule needs at least"):
        trained(make, sizes(40), backend.lowtide, {**OPTIONS, "budget": budget, "strict": True}, dynamic=False)


@pytest.mark.parametrize("where", ["halves", "check", "one_by_one", "read_graph"])
def test_an_error_of_ours_is_left_too_and_asks_to_be_reported(where, monkeypatch):
    def fails(*_, **__):
        raise AssertionError("tensor 7 is read and not there")

    def make():
        return Through(torch.tanh)

    monkeypatch.setattr(backend, where, fails)
    mine, told = trained(make, sizes(4), backend.lowtide, OPTIONS)
    same(mine, trained(make, sizes(4), "aot_eager")[0])
    assert len(told) == 1 and "please report it: AssertionError: tensor 7 is read and not there" in told[0]
    with pytest.raises(lowtide.Internal, match="tensor 7 is read and not there"):
        trained(make, sizes(4), backend.lowtide, {**OPTIONS, "strict": True})


def test_an_interrupt_is_not_taken_for_a_reason_to_go_on(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(backend, "read_graph", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(lambda: Through(torch.tanh), sizes(4), backend.lowtide, OPTIONS)


@pytest.mark.parametrize("options", [{"strict": "yes"}, {"budget": "much"}, {"bugdet": 1}, {"split": 2}])
def test_wrong_options_are_errors_in_any_case(options):
    with pytest.raises(lowtide.Usage, match=next(iter(options))):
        trained(lambda: Through(torch.tanh), sizes(4), backend.lowtide, options)


def test_caches_that_are_written_in_place_are_planned():
    """Keys of earlier tokens, as a model keeps them while it generates."""

    def attend(x, w, keys, at):
        keys.index_copy_(1, at, (x @ w).detach())
        return (x @ w @ keys.transpose(1, 2)).softmax(-1) @ keys

    torch.manual_seed(0)
    w, x = torch.randn(4, 4, requires_grad=True), torch.randn(2, 1, 4)
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for run in (torch.compile(attend, backend=backend.lowtide, fullgraph=True, dynamic=False, options=OPTIONS), attend):
            keys = torch.zeros(2, 6, 4)
            said.append([keys])
            for k in range(2):
                out = run(x + k, w, keys, torch.tensor([k]))
                said[-1] += [out.detach(), *torch.autograd.grad(out.square().sum(), w)]
    same(*said)
    assert backend.last_plans


def test_the_module_is_as_before_once_a_budget_was_infeasible():
    module = Through(torch.tanh)
    before = copy.deepcopy(module.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(module, backend=backend.lowtide, options={**OPTIONS, "budget": 1000})(torch.randn(3, 6)).backward()
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())


def test_a_loop_with_a_new_size_in_each_turn_is_left_to_eager_mode_in_the_end(monkeypatch):
    monkeypatch.setattr(backend_sizes, "MOST_SIZES", 3)
    counts = range(3, 11)
    mine, told = trained(lambda: Through(torch.tanh), sizes(*counts), backend.lowtide, OPTIONS)
    same(mine, trained(lambda: Through(torch.tanh), sizes(*counts), "aot_eager")[0])
    assert len(told) == 1 and "3 sets of sizes are planned already" in told[0] and len(backend.last_plans) == 4


def test_caches_that_grow_in_each_turn_are_eager_modes(monkeypatch):
    monkeypatch.setattr(backend_sizes, "MOST_SIZES", 3)

    def turn(x, w, cache):
        cache = torch.cat([cache, x @ w])
        return (x @ w @ cache.t()).softmax(-1) @ cache, cache

    torch.manual_seed(0)
    x, w, said = torch.randn(1, 4), torch.randn(4, 4), []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in (torch.compile(turn, backend=backend.lowtide, options=OPTIONS), turn):
            cache, outs = torch.zeros(0, 4), []
            for k in range(9):
                out, cache = run(x + k, w, cache)
                outs.append(out)
            said.append(outs)
    same(*said)


def test_what_shares_memory_is_part_of_a_set_of_sizes():
    def f(a, b):
        a.mul_(2.0)
        return a + b

    run = torch.compile(f, backend=backend.lowtide, dynamic=True, options=OPTIONS)
    for count in (4, 5):
        for shared in (False, True, False):
            mine, its = ([t, t if shared else t + 1] for t in (torch.ones(count, 2), torch.ones(count, 2)))
            assert torch.equal(run(*mine), f(*its)) and all(map(torch.equal, mine, its))


class Counts(nn.Module):
    """Multiplies by what it has just written in place: a plain tensor or a buffer."""

    def __init__(self, write, buffer):
        super().__init__()
        self.linear, self.norm, self.head, self.write = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6), write
        if buffer:
            self.register_buffer("kept", torch.full((6,), 0.5))
        else:
            self.kept = torch.full((6,), 0.5)

    def forward(self, x):
        x = self.norm(self.linear(x) * 0.9)
        with torch.no_grad():
            self.write(self.kept)
        return self.head(x * self.kept).square().mean()


@pytest.mark.parametrize("budget", [None, "85%", 1000])
@pytest.mark.parametrize(("write", "buffer"), [(lambda t: t.add_(0.25), False), (lambda t: t.mul_(1.5), True), (lambda t: t[1:].fill_(2.0), False)])
def test_gradients_by_what_is_written_in_place_are_eager_modes(write, buffer, budget):
    """Also where the piece is left to PyTorch, whose own partition computes such a factor again from what is written by then."""
    def make():
        return Counts(write, buffer)

    mine, _ = trained(make, sizes(4, 4), backend.lowtide, {**OPTIONS, **({} if budget is None else {"budget": budget})})
    same(mine, trained(make, sizes(4, 4), None)[0])
