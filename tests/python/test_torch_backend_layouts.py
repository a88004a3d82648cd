"""torch.compile(backend="lowtide") runs what eager mode runs where kernels lay results otherwise than AOTAutograd traces them, and where
AOTAutograd or a handler of a signal raises while a piece is compiled."""

import signal
import time
import warnings

import pytest
from eager_judge import Judge, NotJudged, Program
from torch_models import torch

import lowtide
from lowtide.pytorch import backend

nn, F = torch.nn, torch.nn.functional
OPTIONS = {"effort": 0.1}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backend.last_plans.clear()


def trained(make, name, options=None, counts=(3, 3, 3)):
    """Losses, gradients, buffers and the random stream of three steps, and the warnings of ours."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, said = make(), []
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    run = module if name is None else torch.compile(module, backend=name, **({"options": options} if options else {}))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for count in counts:
            optimizer.zero_grad()
            loss = run(torch.randn(count, 4, 6))
            loss.backward()
            said += [loss.detach(), *(p.grad.clone() for p in module.parameters()), *(b.clone() for b in module.buffers())]
            optimizer.step()
    return [*said, torch.get_rng_state()], [str(w.message) for w in told if str(w.message).startswith("lowtide: ")]


def same(mine, its):
    assert len(mine) == len(its)
    assert all(torch.equal(a, b) for a, b in zip(mine, its, strict=True))


class Turned(nn.Module):
    """Features that lie transposed, whose batch norm is traced as if it kept their strides and makes a contiguous result."""

    def __init__(self, behind, norm=None):
        super().__init__()
        self.linear, self.norm, self.behind = nn.Linear(6, 6), norm or nn.BatchNorm1d(4), behind

    def forward(self, x):
        return self.behind(self.norm(self.linear(x).transpose(1, 2).contiguous().transpose(1, 2))).square().mean()


@torch.library.custom_op("lowtide_layouts::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    if not x.is_contiguous():
        raise RuntimeError("the kernel takes contiguous tensors")
    return x * 2


doubled.register_fake(lambda x: torch.empty_like(x))
doubled.register_autograd(lambda ctx, g: g * 2)

LAID_OTHERWISE = {
    "reshape": lambda y: y.transpose(1, 2).reshape(-1, 12),
    "flatten": lambda y: y.transpose(1, 2).flatten(1) * 2,
    "contiguous for a kernel": lambda y: doubled(y.transpose(1, 2).contiguous()),
    "complex numbers": lambda y: torch.view_as_complex(y.transpose(1, 2).contiguous().view(-1, 6, 2, 2)).abs(),
}


@pytest.mark.parametrize("kind", LAID_OTHERWISE)
@pytest.mark.parametrize("options", [OPTIONS, {**OPTIONS, "strict": True, "budget": "100%"}])
def test_what_is_read_by_strides_lies_as_it_was_traced(kind, options):
    def make():
        return Turned(LAID_OTHERWISE[kind])

    mine, told = trained(make, backend.lowtide, options)
    assert told == [] and backend.last_plans
    same(mine, trained(make, None)[0])


def test_a_pass_without_gradients_and_other_sizes_lie_so_too():
    torch.manual_seed(0)
    module = Turned(LAID_OTHERWISE["reshape"]).eval()
    run = torch.compile(module, backend=backend.lowtide, options=OPTIONS)
    with torch.no_grad():
        for count in (3, 5):
            x = torch.randn(count, 4, 6)
            assert torch.equal(run(x), module(x))
    mine, told = trained(lambda: Turned(LAID_OTHERWISE["reshape"]), backend.lowtide, OPTIONS, counts=(3, 5, 4))
    assert told == []
    same(mine, trained(lambda: Turned(LAID_OTHERWISE["reshape"]), None, counts=(3, 5, 4))[0])


def strided(y):
    return F.dropout(y.as_strided((3, 4, 6), (24, 1, 4)).sin(), 0.3)


def test_as_strided_of_what_lies_otherwise_runs_in_eager_mode_with_one_warning():
    """The buffers that were written by then, and what was drawn, are put back first."""
    mine, told = trained(lambda: Turned(strided), backend.lowtide, OPTIONS)
    assert len(told) == 1 and "eager mode" in told[0] and "was traced with (24, 1, 4)" in told[0] and "test_torch_backend_layouts.py" in told[0]
    same(mine, trained(lambda: Turned(strided), None)[0])
    with pytest.raises(lowtide.Unsupported, match="as_strided reads what"):
        trained(lambda: Turned(strided), backend.lowtide, {**OPTIONS, "strict": True})


def test_as_strided_of_what_lies_as_traced_is_planned():
    mine, told = trained(lambda: Turned(strided, nn.Tanh()), backend.lowtide, OPTIONS)
    assert told == [] and backend.last_plans
    same(mine, trained(lambda: Turned(strided, nn.Tanh()), None)[0])


# ---- what AOTAutograd does not trace


@torch.library.custom_op("lowtide_layouts::by_numpy", mutates_args=())
def by_numpy(x: torch.Tensor) -> torch.Tensor:
    return x * 2


by_numpy.register_fake(lambda x: torch.empty_like(x))
by_numpy.register_autograd(lambda ctx, g: torch.from_numpy(g.numpy() * 2))


class Decides(torch.autograd.Function):
    """Its backward pass looks at a number, which a traced one has not."""

    @staticmethod
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        return g * 2 if float(g.abs().max()) < 1e30 else g


@torch._dynamo.allow_in_graph
def decided(x):
    return Decides.apply(x)


@torch._dynamo.allow_in_graph
def hooked(x):
    y = x * 1
    y.register_hook(lambda g: g * float(g.numpy().max() > -1e9))
    return y


NOT_TRACED = {"a backward pass by numpy": by_numpy, "a decision in the backward pass": decided, "a hook": hooked}


@pytest.mark.parametrize("kind", NOT_TRACED)
def test_what_is_not_traced_trains_in_eager_mode_with_one_warning(kind):
    def make():
        return Turned(NOT_TRACED[kind], nn.Tanh())

    mine, told = trained(make, backend.lowtide, OPTIONS)
    assert len(told) == 1 and "left to eager mode" in told[0] and "AOTAutograd cannot trace it" in told[0]
    same(mine, trained(make, None)[0])
    with pytest.raises(lowtide.Unsupported, match="AOTAutograd cannot trace it"):
        trained(make, backend.lowtide, {**OPTIONS, "strict": True})


class Late(TimeoutError):
    """A time limit."""


@pytest.mark.parametrize("where", ["read_graph", "look"])
def test_what_a_handler_of_a_signal_raises_comes_out_as_it_is(where, monkeypatch):
    def rings(_, __):
        raise Late("time is up", 7)

    def waits(*_, **__):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while True:
            time.sleep(1)

    monkeypatch.setattr(backend, where, waits)
    before = signal.signal(signal.SIGALRM, rings)
    try:
        with pytest.raises(Late, match="time is up") as raised:
            trained(lambda: Turned(torch.tanh), backend.lowtide, OPTIONS)
        assert raised.value.args[1] == 7
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# ---- the judge


def judged(model):
    return Judge(lambda: Program(model(), [torch.randn(3, 4, 6) for _ in range(3)], lambda m, x: m(x), lambda ps: torch.optim.SGD(ps, lr=0.1)),
                 effort=0.1)


def test_the_judge_calls_it_a_crash_where_the_backend_alone_does_not_run(monkeypatch):
    judge = judged(lambda: Turned(torch.tanh))
    monkeypatch.setattr(judge, "_compiled", _failing(judge, ("lowtide", "aot_eager")))
    verdict = judge.verdict("backend")
    assert verdict.status == "crash" and "view size" in verdict.said
    monkeypatch.setattr(judge, "_compiled", _failing(judge, ("lowtide", "aot_eager", "eager")))
    with pytest.raises(NotJudged, match="dynamo itself does not trace it"):
        judge.verdict("backend")


def test_the_judge_does_not_judge_gradients_of_gradients():
    def penalty(m, x):
        x = x.clone().requires_grad_()
        loss = m(x)
        return loss + torch.autograd.grad(loss, x, create_graph=True)[0].square().sum()

    judge = Judge(lambda: Program(Turned(torch.tanh), [torch.randn(3, 4, 6) for _ in range(3)], penalty, lambda ps: torch.optim.SGD(ps, lr=0.1)))
    with pytest.raises(NotJudged, match="as docs/python.md says"):
        judge.verdict("backend")


def _failing(judge, names):
    compiled = judge._compiled

    def fails(name, **more):
        if name in names:
            raise RuntimeError("view size is not compatible")
        return compiled(name, **more)

    return fails
