"""plain_ops.py: what a rule says of an op is what its fake kernel makes, and what its real kernel makes, for drawn operands.

Operands are dense, transposed, repeated, cut or of other types by turns, so that rules have as much to decline as to say.
"""

import random

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402

from lowtide.pytorch import alike_ops, layouts, plain_ops  # noqa: E402

aten = torch.ops.aten


def drawn_shape(draw, rank=None):
    return [draw.choice((1, 2, 3, 4)) for _ in range(draw.randint(1, 4) if rank is None else rank)]


def tensor(draw, shape, dtype=torch.float32):
    """Mostly dense; sometimes with strides of its own, or of another type."""
    made = torch.rand(shape, dtype=torch.float64).add(0.5).to(draw.choice((dtype,) * 12 + (torch.float64, torch.bfloat16)))
    way = draw.randint(0, 11)
    if way == 0 and len(shape) > 1:
        return made.transpose(0, -1).contiguous().transpose(0, -1)
    if way == 1:
        return torch.stack([made, made], -1)[..., 1]
    if way == 2 and len(shape) == 4:
        return made.contiguous(memory_format=torch.channels_last)
    if way == 3:
        return made[:1].expand(shape)
    return made


def part_of(draw, shape):
    """A shape that is repeated to this one, mostly the same."""
    if draw.random() < 0.5:
        return shape
    return [n if draw.random() < 0.6 else 1 for n in shape[draw.randint(0, len(shape) - 1):]]


def one(draw):
    return (tensor(draw, drawn_shape(draw)),)


def two(draw):
    shape = drawn_shape(draw)
    pair = [tensor(draw, shape), tensor(draw, part_of(draw, shape))]
    return tuple(pair if draw.random() < 0.7 else reversed(pair))


def of_one_shape(draw):
    shape = drawn_shape(draw)
    return tensor(draw, shape), tensor(draw, shape)


def written(draw):
    shape = drawn_shape(draw)
    return torch.rand(shape), tensor(draw, part_of(draw, shape))


def product(draw, batch=()):
    n, k, m = (draw.randint(1, 4) for _ in range(3))
    return tensor(draw, [*batch, n, k]), tensor(draw, [*batch, k, m])


def summed_product(draw):
    a, b = product(draw)
    return tensor(draw, draw.choice(([b.shape[1]], [a.shape[0], b.shape[1]], [1, b.shape[1]], [a.shape[0], 1], [1]))), a, b


def reduced(draw):
    x = tensor(draw, drawn_shape(draw))
    along = draw.sample(range(x.dim()), draw.randint(1, x.dim()))
    return (x, [d - draw.choice((0, x.dim())) for d in along], *draw.choice(((), (True,), (False,))))


def joined(draw):
    shape, dim = drawn_shape(draw), draw.choice((0, -1))
    parts = []
    for _ in range(draw.randint(1, 3)):
        extents = list(shape)
        extents[dim] = draw.randint(1, 3)
        parts.append(tensor(draw, extents))
    if draw.random() < 0.3:
        parts.insert(draw.randint(0, len(parts)), torch.tensor([]))
    return parts, dim


def along(draw, *more):
    x = tensor(draw, drawn_shape(draw))
    return (x, draw.randrange(x.dim()), *more)


def viewed(draw):
    x = tensor(draw, drawn_shape(draw))
    return x, draw.choice(([-1], [x.numel()], [1, *x.shape], [*x.shape], [*x.shape, 1], [x.shape[0], -1], [x.numel() // x.shape[-1], x.shape[-1]]))


def expanded(draw):
    x = tensor(draw, drawn_shape(draw))
    return x, [2, *(draw.choice((-1, 3)) if n == 1 else n for n in x.shape)]


def permuted(draw):
    x = tensor(draw, drawn_shape(draw))
    return x, draw.sample(range(x.dim()), x.dim())


def split(draw):
    x = tensor(draw, [6, 3])
    return draw.choice(((x, 2), (x, 4), (x, 1, 1)))


def batch_norm(draw):
    x = tensor(draw, drawn_shape(draw, draw.choice((2, 3, 4))))
    c = [x.shape[1]]
    optional = lambda: None if draw.random() < 0.2 else tensor(draw, c)  # noqa: E731
    return x, optional(), optional(), torch.zeros(c), torch.ones(c), draw.random() < 0.8, 0.1, 1e-5


def batch_norm_gradient(draw):
    x = tensor(draw, drawn_shape(draw, draw.choice((2, 3, 4))))
    c = [x.shape[1]]
    mask = [True, True, True] if draw.random() < 0.8 else [True, False, True]
    return tensor(draw, x.shape), x, tensor(draw, c), torch.zeros(c), torch.ones(c), torch.rand(c), torch.rand(c), True, 1e-5, mask


def layer_norm(draw):
    x = tensor(draw, drawn_shape(draw, draw.choice((2, 3))))
    shape = list(x.shape[-draw.randint(1, x.dim() - 1):])
    optional = lambda: None if draw.random() < 0.2 else tensor(draw, shape)  # noqa: E731
    return x, shape, optional(), optional(), 1e-5


def layer_norm_gradient(draw):
    x, shape, *_ = layer_norm(draw)
    statistics = [*x.shape[:x.dim() - len(shape)], *[1] * len(shape)]
    return tensor(draw, x.shape), x, shape, torch.rand(statistics), torch.rand(statistics), torch.rand(shape), torch.rand(shape), [True, True, True]


def class_loss(draw):
    n, c = draw.randint(1, 4), draw.randint(1, 4)
    return tensor(draw, [n, c]), torch.randint(0, c, (n,)), None if draw.random() < 0.8 else torch.ones(c), draw.choice((0, 1, 1, 2)), -100


def class_loss_gradient(draw):
    x, target, weight, reduction, ignored = class_loss(draw)
    return torch.rand([x.shape[0]] if reduction == 0 else []), x, target, weight, reduction, ignored, torch.tensor(3.0)


DRAWN = {
    **dict.fromkeys(plain_ops._ELEMENTWISE, one), **dict.fromkeys(plain_ops._WRITTEN, written), **dict.fromkeys(plain_ops._VIEWS, along),
    **dict.fromkeys(("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"), two), "relu_": lambda draw: (torch.rand(drawn_shape(draw)),),
    **dict.fromkeys(("silu_backward", "gelu_backward", "tanh_backward", "sigmoid_backward"), of_one_shape),
    **dict.fromkeys(("pow.Tensor_Scalar", "add.Scalar", "mul.Scalar", "div.Scalar", "mul_.Scalar", "add_.Scalar"),
                    lambda draw: (*one(draw), draw.choice((2, 0.5, True, -1)))),
    "threshold_backward": lambda draw: (*of_one_shape(draw), 0), "mm": product, "bmm": lambda draw: product(draw, (3,)), "addmm": summed_product,
    "sum.dim_IntList": reduced, "mean.dim": reduced, "cat": joined, "clone": one,
    **dict.fromkeys(("_softmax", "_log_softmax"), lambda draw: along(draw, False)),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), lambda draw: (*of_one_shape(draw), 0, torch.float32)),
    "slice_backward": lambda draw: (tensor(draw, [2, 3]), [5, 3], 0, 1, 3, 1), "select_backward": lambda draw: (tensor(draw, [2, 3]), [2, 4, 3], 1, 2),
    "native_batch_norm": batch_norm, "native_batch_norm_backward": batch_norm_gradient,
    "native_layer_norm": layer_norm, "native_layer_norm_backward": layer_norm_gradient,
    "nll_loss_forward": class_loss, "nll_loss_backward": class_loss_gradient,
    **dict.fromkeys(("view", "_unsafe_view"), viewed), **dict.fromkeys(("detach", "alias"), one), "expand": expanded, "permute": permuted,
    "t": lambda draw: (tensor(draw, drawn_shape(draw, draw.choice((1, 2)))),), "transpose.int": lambda draw: (*along(draw), -1),
    "slice.Tensor": lambda draw: draw.choice((along(draw, 0, 2), along(draw, -1), along(draw, 1, 100, 2))), "select.int": lambda draw: along(draw, -1),
    "split.Tensor": split, "split_with_sizes": lambda draw: (tensor(draw, [6, 3]), [1, 2, 3]),
}


def described(made, storages):
    """Geometry, type and memory of results: of which operand, of a result before, or its own."""
    if isinstance(made, (list, tuple)):
        return [described(one, storages) for one in made]
    storage = storages.setdefault(made.untyped_storage()._cdata, len(storages))
    return tuple(made.shape), made.stride(), made.storage_offset(), made.dtype, storage


def tensors_of(values):
    return [t for v in values for t in (tensors_of(v) if isinstance(v, list) else [v]) if isinstance(t, torch.Tensor)]


def run(func, args):
    storages = {}
    for t in tensors_of(args):
        described(t, storages)
    return described(func(*args), storages)


def by_rule(func, args):
    tensors, storages = tensors_of(args), {}
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        told = plain_ops.told(func, args, {}, tensors)
    if told is None:
        return None
    for t in tensors:
        described(t, storages)
    if type(told) is int:
        return described(tensors[told], storages)

    def one(lies):
        of = len(storages) if lies.of is None else storages[tensors[lies.of].untyped_storage()._cdata]
        storages[f"new {len(storages)}"] = of
        return tuple(lies.shape), lies.stride, lies.offset, lies.dtype, of

    return one(told) if type(told) is plain_ops.Lies else [one(lies) for lies in told]


def faked(mode, args):
    """The same tensors faked, each by itself, a list of tensors too."""
    return tuple([mode.from_tensor(t) for t in v] if isinstance(v, list) and v and isinstance(v[0], torch.Tensor) else
                 mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for v in args)


def test_every_rule_has_its_operands():
    assert {plain_ops._overload(name) for name in DRAWN} == set(plain_ops.RULES)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_rule_says_what_kernels_do(name):
    func, draw, said = plain_ops._overload(name), random.Random(name), 0
    torch.manual_seed(0)
    for _ in range(40):
        args = DRAWN[name](draw)
        mode = layouts.Rows().mode()
        fakes = faked(mode, args)
        with torch.no_grad(), mode:
            told = by_rule(func, fakes)
            if told is None:
                continue
            said += 1
            fake = run(func, faked(mode, args))
        with torch.no_grad():
            real = run(func, args)
        assert told == fake == real, f"{name} of {[tuple(t.shape) for t in tensors_of(args)]}, {[t.stride() for t in tensors_of(args)]}"
    assert said >= 8


def test_what_is_wrong_is_declined():
    mode = FakeTensorMode()
    x, y, z = (mode.from_tensor(torch.rand(shape)) for shape in ((2, 3), (2, 4), (3,)))
    for func, args in [(aten.mm.default, (x, y)), (aten.add.Tensor, (x, y)), (aten.cat.default, ([x, y],)), (aten.view.default, (x, [4, 2])),
                       (aten.select.int, (x, 0, 5)), (aten.sum.dim_IntList, (x, [2])), (aten.sum.dim_IntList, (x, [0, 0])), (aten.cat.default, ([x, z],)),
                       (aten.mul_.Tensor, (z, x)), (aten.addmm.default, (y, x, x)), (aten.add.Tensor, (x, 1j)), (aten.split_with_sizes.default, (x, [1, 2]))]:
        assert by_rule(func, args) is None, func


def test_other_places_and_types_are_declined():
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        on_gpu = FakeTensor(mode, torch.empty(2, 3, device="meta"), torch.device("cuda", 0))
        whole, small = torch.arange(6).view(2, 3), torch.rand(2, 3, dtype=torch.complex64)
    for x in (on_gpu, whole):
        assert by_rule(aten.add.Tensor, (x, x)) is None
    assert by_rule(aten.view.default, (small.conj(), [6])) is None
    assert by_rule(aten.view.default, (whole, [6]))[0] == (6,)


def test_ops_of_a_trace_are_made_by_rules(monkeypatch):
    """What is put together by a rule is a fake tensor as PyTorch makes it, in a trace of another geometry than any before."""
    from lowtide.pytorch import planning
    from lowtide.pytorch.options import StepOptions

    told = []
    monkeypatch.setattr(alike_ops, "_kept", {})
    monkeypatch.setattr(plain_ops, "told", lambda func, *more, before=plain_ops.told: told.append(func) or before(func, *more))
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 7, 3), torch.nn.BatchNorm2d(7), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(5))
    x, y = torch.rand(2, 3, 11, 11), torch.tensor([1, 2])
    model(x)
    captured = planning.capture(model, lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]), torch.optim.SGD(model.parameters(), 0.1), (x, y),
                                StepOptions(), None, layouts.Rows())
    values = [node.meta.get("val") for node in captured.trace.module.graph.nodes if node.op == "call_function"]
    assert aten.native_batch_norm_backward.default in told and aten.nll_loss_backward.default in told
    made = [t for v in values for t in (v if isinstance(v, (list, tuple)) else [v]) if t is not None]
    assert len(made) > 15 and all(type(t) is FakeTensor and t.device.type == "cpu" and t.fake_mode is made[0].fake_mode for t in made)
