"""What a step does beside its loss, in the native engine: as eager mode does it, or refused by name.

Effects (on buffers, frozen parameters, teachers, tensors outside of the model, trained parameters, counts, statistics) are
written in all the ways that PyTorch has, and backward passes that are not PyTorch's own stand wherever one can. Each case
makes three steps in f64 beside eager mode, or is refused; none may be another number.
"""

import copy

import pytest

import lowtide

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.checkpoint import checkpoint  # noqa: E402

CLOSE = {"rtol": 1e-8, "atol": 1e-8}
F64 = torch.float64


def outcome(make, loss_fn, batch, engine="native", optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)):
    """What a refusal says, or "" where three steps are eager mode's. `make`: the model, from a seed."""
    torch.manual_seed(0)
    model = make().double()
    other = copy.deepcopy(model)
    mine, its = (optimizer([p for p in m.parameters() if p.requires_grad]) for m in (model, other))
    try:
        step = lowtide.compile_step(model, loss_fn, mine, batch, engine=engine, effort=0.05)
    except lowtide.Unsupported as refused:
        assert "\n" not in str(refused) and ("engine='torch'" in str(refused) or "native engine" in str(refused))
        return str(refused)
    for _ in range(3):
        ours = step(batch)
        its.zero_grad()
        theirs = loss_fn(other, batch)
        theirs.backward()
        its.step()
        torch.testing.assert_close(ours, theirs.detach(), **CLOSE)
        torch.testing.assert_close(model.state_dict(), other.state_dict(), **CLOSE)
    return step.why


def mean_square(model, x):
    return model(x).square().mean()


X = torch.randn(5, 4, dtype=F64, generator=torch.Generator().manual_seed(7))

# ---- writes


def _setattr(model, name, value):
    setattr(model, name, value.detach())


def _no_grad(write):
    def written(model, name, value):
        with torch.no_grad():
            write(getattr(model, name), value)
    return written


WAYS = {
    "no_grad": _no_grad(lambda t, v: t.copy_(v)),
    "no_grad_lerp": _no_grad(lambda t, v: t.lerp_(v, 0.1)),
    "no_grad_mul_add": _no_grad(lambda t, v: t.mul_(0.9).add_(v, alpha=0.1)),
    "no_grad_part": _no_grad(lambda t, v: t[:2].add_(v[:2])),
    "no_grad_index": _no_grad(lambda t, v: t.__setitem__(0, v[0])),
    "no_grad_foreach": _no_grad(lambda t, v: torch._foreach_add_([t], [v])),
    "no_grad_out": _no_grad(lambda t, v: torch.add(t, v, out=t)),
    "inference": lambda m, name, v: torch.no_grad()(lambda: getattr(m, name).add_(v))(),
    "detach": lambda m, name, v: getattr(m, name).detach().add_(v.detach()),
    "data": lambda m, name, v: getattr(m, name).data.add_(v.data),
    "data_set": lambda m, name, v: getattr(m, name).data.copy_(v),
}
ON_BUFFERS = {
    "in_place": lambda m, name, v: getattr(m, name).add_(v.detach()),
    "copy": lambda m, name, v: getattr(m, name).copy_(v.detach()),
    "setattr": _setattr,
    "iadd": lambda m, name, v: m.__setattr__(name, getattr(m, name).__iadd__(v.detach())),
}


class Written(nn.Module):
    """Writes what it makes of its input to `kept`, which may be many things, and reads that."""

    def __init__(self, kind, way, checkpointed):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        if kind == "buffer":
            self.register_buffer("kept", torch.zeros(4))
        elif kind == "unsaved":
            self.register_buffer("kept", torch.zeros(4), persistent=False)
        else:
            self.kept = nn.Parameter(torch.ones(4), requires_grad=kind == "trained")
        self.way, self.checkpointed = way, checkpointed

    def body(self, x):
        y = self.linear(x)
        self.way(self, "kept", y.abs().amax(0))
        return y

    def forward(self, x):
        y = checkpoint(self.body, x, use_reentrant=False) if self.checkpointed else self.body(x)
        return y + self.kept.detach()


# Each kind in some ways, each way on some kind; in a checkpoint every third.
KINDS = ("buffer", "unsaved", "frozen", "trained")
CASES = [(kind, way) for i, way in enumerate(WAYS) for kind in (KINDS[i % 4], KINDS[(i + 1) % 4])]
CASES += [("unsaved" if i % 2 else "buffer", way) for i, way in enumerate(ON_BUFFERS)]
CASES = [(kind, way, False) for kind, way in CASES] + [(kind, way, True) for kind, way in CASES[::3]]


@pytest.mark.parametrize(("kind", "way", "checkpointed"), CASES)
def test_a_write_is_kept_or_refused(kind, way, checkpointed):
    said = outcome(lambda: Written(kind, {**WAYS, **ON_BUFFERS}[way], checkpointed), mean_square, X)
    assert "'kept'" in said and ("test_torch_native_effects.py" in said or "setattr" in way)


# ---- modules that people write


class Quantiser(nn.Module):
    """A codebook that follows what falls to it (VQ-VAE)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("codes", torch.randn(6, 4))
        self.register_buffer("sizes", torch.ones(6))

    def forward(self, x):
        y = self.linear(x)
        nearest = torch.cdist(y.detach(), self.codes).argmin(1)
        if self.training:
            with torch.no_grad():
                hot = F.one_hot(nearest, 6).to(y.dtype)
                self.sizes.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                self.codes.mul_(0.9).add_(hot.t() @ y, alpha=0.1)
        chosen = self.codes[nearest]
        return y + (chosen - y).detach()


class Teacher(nn.Module):
    """A copy of the student that follows it (BYOL, DINO)."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)

    @torch.no_grad()
    def follow(self):
        for s, t in zip(self.student.parameters(), self.teacher.parameters(), strict=True):
            t.data.lerp_(s.data, 0.1)

    def forward(self, x):
        self.follow()
        return self.student(x) - self.teacher(x)


class Queue(nn.Module):
    """MoCo's: a line of keys, and a place in it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("queue", torch.randn(10, 4))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        y = self.linear(x)
        scores = y @ self.queue.clone().t()
        with torch.no_grad():
            self.queue.copy_(torch.cat([y, self.queue[:-5]]))
            self.place += 5
        return scores


class Clipped(nn.Module):
    """Weights that are clipped before they are used (WGAN)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        for p in self.linear.parameters():
            p.data.clamp_(-0.1, 0.1)
        return self.linear(x)


class Stepped(nn.Module):
    """A count that the forward pass reads."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.step += 1
        return self.linear(x) * (1 - 0.5 ** self.step)


class Checkpointed(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False)


class Images(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 2), norm

    def forward(self, x):
        return self.norm(self.conv(x.reshape(5, 1, 2, 2).repeat(1, 1, 2, 2)))


class ForgetfulNorm(nn.Module):
    """Its statistics have other names, and lie in one buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("both", torch.zeros(2, 4))

    def forward(self, x):
        return F.batch_norm(self.linear(x), self.both[0], self.both[1], training=True)


class Cumulative(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)

    def forward(self, x):
        return self.norm(self.linear(x))


MODULES = {
    "codebook": (Quantiser, "'sizes'"),
    "teacher": (Teacher, "'teacher.weight'"),
    "queue": (Queue, "'queue'"),
    "clipped": (Clipped, "'linear.weight'"),
    "step": (Stepped, "reads 'step'"),
    "spectral": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), "'parametrizations.weight.0._u'"),
    "old_spectral": (lambda: nn.utils.spectral_norm(nn.Linear(4, 4)), "'weight"),
    "instance_norm": (lambda: Images(nn.InstanceNorm2d(3, track_running_stats=True)), "'norm.running_mean'"),
    "checkpointed_norm": (lambda: Checkpointed(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))), "'body.1.num_batches_tracked' 2 times"),
    "checkpointed_images": (lambda: Checkpointed(Images(nn.BatchNorm2d(3))), "2 times"),
    "cumulative_norm": (Cumulative, "'norm.num_batches_tracked'"),
    "statistics_in_one": (ForgetfulNorm, "'both'"),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_keeps_something_is_refused_by_its_name(name):
    make, words = MODULES[name]
    assert words in outcome(make, mean_square, X)


class Named(nn.Module):
    """Statistics by names of its own, which is no matter."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("center", torch.zeros(4))
        self.register_buffer("spread", torch.ones(4))

    def forward(self, x):
        return F.batch_norm(self.linear(x), self.center, self.spread, training=True, momentum=0.3)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(torch.tanh(self.norm(self.linear(x)))) * 3


RUN = {
    "norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
    "images": lambda: Images(nn.BatchNorm2d(3)),
    "twice": Twice,
    "names": Named,
    "frozen_norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4).eval()),
    "no_statistics": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)),
    "instance_norm": lambda: Images(nn.InstanceNorm2d(3, affine=True)),
    "checkpoint": lambda: Checkpointed(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4))),
}


@pytest.mark.parametrize("name", RUN)
def test_what_native_keeps_itself_runs(name):
    assert outcome(RUN[name], mean_square, X) == ""


# ---- backward passes


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -0.3 * g


class Rounded(torch.autograd.Function):
    """Straight through."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(ctx, g):
        return g


class Scaled(torch.autograd.Function):
    """In the newer form, with two outputs of which one has no gradient."""

    @staticmethod
    def forward(x, scale):
        return x.clone(), x.sign()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        return g * ctx.scale, None


class Lean(torch.autograd.Function):
    """The same gradient as PyTorch's, up to a factor that somebody forgot."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * s * (1 + x * (1 - s)) * 1.01


FUNCTIONS = {"reversed": Reversed.apply, "rounded": Rounded.apply, "scaled": lambda x: Scaled.apply(x, 0.1)[0], "lean": Lean.apply}


class Between(nn.Module):
    """A function between two layers, or on the way of one gradient of two."""

    def __init__(self, function, where):
        super().__init__()
        self.first, self.second, self.function, self.where = nn.Linear(4, 4), nn.Linear(4, 4), function, where

    def forward(self, x):
        y = self.first(x)
        if self.where == "checkpoint":
            return self.second(checkpoint(lambda y: self.function(y) * 2, y, use_reentrant=False))
        if self.where == "weight":
            return F.linear(y, self.function(self.second.weight), self.second.bias)
        if self.where == "branch":
            return self.second(torch.where(y > 0, y, self.function(y)))
        if self.where == "rows":
            return self.second(y) + torch.stack([self.function(row) for row in y])
        return self.second(self.function(y))


PLACES = ["", "checkpoint", "weight", "branch", "rows"]


@pytest.mark.parametrize(("name", "where"), [(name, PLACES[(i + k) % 5]) for i, name in enumerate(FUNCTIONS) for k in range(2)])
def test_a_backward_of_somebodys_own_is_refused_by_its_name_and_line(name, where):
    said = outcome(lambda: Between(FUNCTIONS[name], where), mean_square, X)
    assert "test_torch_native_effects.py:" in said and f"autograd.Function '{name.capitalize()}'" in said


def test_a_function_that_gives_no_gradient_to_anything_is_no_matter():
    def loss_fn(model, x):
        y = model(x)
        with torch.no_grad():
            target = Rounded.apply(y)
        return (y - target).square().mean()

    assert outcome(lambda: nn.Linear(4, 4), loss_fn, X) == ""
    model = nn.Linear(4, 4).double()
    step = lowtide.compile_step(model, lambda m, x: (m(x).square().mean(), Reversed.apply(m(x))),
                                torch.optim.SGD(model.parameters(), lr=0.0), X, engine="native", effort=0.05)
    torch.testing.assert_close(step(X)[1], model(X).detach(), **CLOSE)


def _hooked(register):
    def loss_fn(model, x):
        y = model.first(x)
        z = y * 1
        register(y, z)
        return model.second(z).square().mean()
    return loss_fn


def _saved(model, x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 0.5, lambda t: t):
        return model(x).pow(3).mean()


def _penalty(model, x):
    x = x.clone().requires_grad_(True)
    g, = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    return g.norm() + model(x).square().mean()


HOOKS = {
    "tensor": _hooked(lambda y, z: z.register_hook(lambda g: g * 0.5)),
    "node": _hooked(lambda y, z: z.grad_fn.register_hook(lambda ins, outs: (ins[0] * 0.5, *ins[1:]))),
    "node_before": _hooked(lambda y, z: z.grad_fn.register_prehook(lambda outs: (outs[0] * 0.5,))),
    "saved": _saved,
    "penalty": _penalty,
    "func": lambda m, x: torch.func.grad(lambda x: m(x).square().sum())(x).square().mean() + m(x).square().mean(),
    "backward": lambda m, x: (m(x).sum().backward(), m(x).square().mean())[1],
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_on_a_gradient_or_a_gradient_within_is_refused(name):
    assert outcome(lambda: Between(torch.tanh, ""), HOOKS[name], X) != ""


def test_auto_stays_with_torch_and_says_why():
    said = outcome(lambda: Between(FUNCTIONS["reversed"], ""), mean_square, X, engine="auto")
    assert "autograd.Function 'Reversed'" in said
    assert "'sizes'" in outcome(Quantiser, mean_square, X, engine="auto")
