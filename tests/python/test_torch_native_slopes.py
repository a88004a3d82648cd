"""Slopes of PyTorch's ops at zeros, limits, ties, infinities and NaN in the native engine, beside eager mode in f64.

All functions stand in one model, which makes one step: each operand is a given tensor plus a parameter of (negative) zeros, and the
loss is the sum of all results, each element with a weight of its own. With SGD and rate 1 a parameter is then minus its gradient.
The rows of the op table by themselves: test_native_slopes.py.
"""

import copy

import pytest

import lowtide

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

F64, NAN, INF = torch.float64, float("nan"), float("inf")


def t(*rows):
    return torch.tensor(rows, dtype=F64)


POINTS = t(0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 6, -6, 20, -20, 100, -100, INF, -INF)
WITH_NAN = torch.cat([POINTS, t(NAN)])
POSITIVE = t(0, 1, 2, 0.5, 3, 1e-300, 1e300, INF, NAN)
LEFT = t(0, 1, 1, -2, 2, -2, 0.5, 7, NAN, 1, INF, INF, -INF, NAN)
RIGHT = t(0, 1, -1, 2, 2, -2, 0.5, 3, 1, NAN, INF, -INF, -INF, NAN)
LIMITED, LOW, HIGH = t(-1, 0, 2, 0, 0.5, 2, 3, 0, 0, NAN), t(-1, 0, 1, 0, 1, 2, 2, NAN, 0, 0), t(1, 0, 2, 1, 0, 3, 3, 1, NAN, 1)
TIES = t([1, 3, 3, 0], [2, 2, 2, 2.0], [0, 0, 0, 0], [-1, -1, 5, NAN], [INF, INF, 1, 0], [-INF, -INF, -INF, -INF], [INF, -INF, 0, 1])
EQUAL = t([2.5, 2.5, 2.5, 2.5], [0, 0, 0, 0], [1, 2, 3, 4], [-1, -1, -1, 1])
IMAGE = t(1, 1, 2, 2, 1, 1, 2, 3, 0, 0, 0, 0, 5, 0, 0, 0.0).reshape(1, 1, 4, 4)
CASES = {}
for _name in "relu sigmoid tanh erf exp neg sin cos tan sinh cosh atan asin acos expm1 square reciprocal".split():
    CASES[_name] = (getattr(torch, _name), WITH_NAN)
for _name in "relu6 hardtanh hardswish silu gelu elu leaky_relu softplus logsigmoid mish softsign tanhshrink".split():
    CASES[_name] = (getattr(F, _name), WITH_NAN)
for _name in "log sqrt rsqrt log2 log10 log1p".split():
    CASES[_name] = (getattr(torch, _name), POSITIVE)
CASES |= {
    "abs": (torch.abs, POINTS),  # of NaN: a NaN; PyTorch's is 0
    "hardtanh_0_1": (lambda x: F.hardtanh(x, 0.0, 1.0), WITH_NAN),
    "Hardtanh": (lambda x: nn.Hardtanh(-2.0, 3.0)(x), WITH_NAN),
    "ReLU6": (lambda x: nn.ReLU6(inplace=True)(x * 1), WITH_NAN),
    "elu_2": (lambda x: F.elu(x, 2.0), WITH_NAN),
    "clamp": (lambda x: x.clamp(-1, 2), WITH_NAN),
    "clamp_equal": (lambda x: x.clamp(1, 1), WITH_NAN),
    "clamp_min": (lambda x: x.clamp(min=0), WITH_NAN),
    "clamp_max": (lambda x: torch.clamp_max(x, 1.0), WITH_NAN),
    "clip": (lambda x: torch.clip(x, -1, 1), WITH_NAN),
    **{f"pow_{e}": (lambda x, e=e: x.pow(e), POINTS) for e in (0, 1, 2, 3, -1, -2, 0.5, 1.5, -0.5)},
    **{f"base_{b}": (lambda x, b=b: torch.pow(b, x), POINTS) for b in (1, 2, 0.5)},
    "remainder": (lambda x: torch.remainder(x, 2), t(0, 1, -1, 2, 3.5, -3.5)),
    "where": (lambda x: torch.where(x > 0, x.sqrt(), x * 0), WITH_NAN),
    "filled": (lambda x: x.masked_fill(x.isnan(), 0.0), WITH_NAN),
    "prelu": (lambda x: F.prelu(x, t(0.25)), WITH_NAN),
    "maximum": (torch.maximum, LEFT, RIGHT),
    "minimum": (torch.minimum, LEFT, RIGHT),
    "max_other": (torch.max, LEFT, RIGHT),
    "pow": (torch.pow, LEFT[:8].abs(), RIGHT[:8]),
    **{name: (getattr(torch, name), LEFT, RIGHT) for name in ("mul", "div", "add", "sub")},
    "hinge": (lambda a, b: F.relu(1 - a * b), LEFT, RIGHT),
    "clamp_tensors": (torch.clamp, LIMITED, LOW, HIGH),
    "clamp_below_tensor": (lambda x, low: torch.clamp(x, min=low), LIMITED, LOW),
    "clamp_above_tensor": (lambda x, high: torch.clamp(x, max=high), LIMITED, HIGH),
    "clamp_min_tensor": (torch.clamp_min, LIMITED, LOW),
    "clamp_max_tensor": (torch.clamp_max, LIMITED, HIGH),
    "clamp_one_limit": (lambda x, low: torch.clamp(x, min=low), LIMITED, t(0).reshape(())),
    "max_pool": (lambda x: F.max_pool2d(x, 2), IMAGE),
    "max_pool_wide": (lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE),
    "group_norm": (lambda x: F.group_norm(x, 1), IMAGE),
    "instance_norm": (lambda x: F.instance_norm(x), IMAGE),
    "batch_norm": (lambda x: F.batch_norm(x.t(), None, None, training=True), EQUAL),
}
REDUCTIONS = {
    "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(1), "max_dim": lambda x: x.max(1)[0], "min_dim": lambda x: x.min(1)[0],
    "max_dim_kept": lambda x: x.max(0, keepdim=True)[0], "max_of_rows": lambda x: torch.max(x, dim=-1).values, "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1), "mean": lambda x: x.mean(1), "prod": lambda x: x.prod(1),
    "cumsum": lambda x: x.cumsum(1), "var": lambda x: x.var(1), "std": lambda x: x.std(1), "std_kept": lambda x: x.std(0, keepdim=True),
    "std_biased": lambda x: x.std(1, unbiased=False), "std_mean": lambda x: sum(torch.std_mean(x, 1)), "var_mean": lambda x: sum(torch.var_mean(x, 1)),
    "std_all": lambda x: x[1:3].std(), "std_of_one": lambda x: x[:, :1].std(1, unbiased=False), "norm": lambda x: x.norm(dim=1),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1), "normalize": lambda x: F.normalize(x, dim=1), "layer_norm": lambda x: F.layer_norm(x, (4,)),
}
for _name, _function in REDUCTIONS.items():
    CASES[f"{_name} of equal"] = (_function, EQUAL)
    CASES[f"{_name} of ties"] = (_function, TIES[:3] if _name.startswith("var") else TIES)  # infinities have no variance
CASES["norm_1"] = (lambda x: x.norm(1, dim=1), EQUAL)


class All(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.ParameterDict({f"{i}_{k}": nn.Parameter(torch.full_like(x, -0.0)) for i, (_, *given) in enumerate(CASES.values()) for k, x in enumerate(given)})

    def forward(self, points):
        total, at = 0.0, iter(points)
        for i, (function, *given) in enumerate(CASES.values()):
            y = function(*(next(at) + self.own[f"{i}_{k}"] for k in range(len(given))))
            total = total + (y * (torch.arange(1, y.numel() + 1, dtype=F64) / 4).reshape(y.shape)).sum()
        return total


def test_slopes_at_special_points_are_eager_modes():
    model = All()
    other = copy.deepcopy(model)
    points = [x for _, *given in CASES.values() for x in given]
    step = lowtide.compile_step(model, lambda m, b: m(b), torch.optim.SGD(model.parameters(), lr=1.0), points, engine="native", effort=0.01)
    step(points)
    other(points).backward()
    wrong = []
    for i, (name, (_, *given)) in enumerate(CASES.items()):
        for k, x in enumerate(given):
            ours, theirs = -model.own[f"{i}_{k}"].detach(), other.own[f"{i}_{k}"].grad
            far = ~torch.isclose(ours, theirs, rtol=1e-8, atol=1e-12, equal_nan=True)
            wrong += [f"{name}, operand {k} at {v}: {a}, eager mode {b}" for v, a, b in zip(x[far].tolist(), ours[far].tolist(), theirs[far].tolist(), strict=True)]
    assert not wrong, "\n".join(wrong)


def test_a_gradient_scaled_by_frequency_is_refused():
    model = nn.Embedding(10, 4, scale_grad_by_freq=True).double()
    with pytest.raises(lowtide.Unsupported, match="scale_grad_by_freq"):
        lowtide.compile_step(model, lambda m, i: m(i).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1),
                             torch.tensor([[0, 1, 1, 9]]), engine="native", effort=0.01)
