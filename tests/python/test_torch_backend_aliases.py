"""torch.compile(backend="lowtide") of pieces that give out values, views of them, inputs and views of inputs, each perhaps twice: outputs,
gradients, what shares memory and what is written in place are those of backend="aot_eager", bit for bit."""

import os
import random
import warnings

import pytest
from torch_models import torch

from lowtide.errors import Internal
from lowtide.pytorch import backend, backend_proof

OPTIONS = {"effort": 0.1}
PIECES = 200 if os.environ.get("LOWTIDE_LONG") else 16  # drawn ones


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backend.last_plans.clear()


def chunk_and_its_view(x, w):
    a, _ = (x * w).chunk(2, -1)
    return a, a.view_as(a)


def split_whole_and_piece(x, w):
    y = (x + w).sin()
    a, b = y.split(2, -1)
    return y, a, b.t()


def unbind_rows_twice(x, w):
    rows = (x * w).unbind(0)
    return rows[0], rows[0], rows[1].expand(2, 4)


def broadcast(x, w):
    v = (x * w).exp()
    return (v, *torch.broadcast_tensors(v, x))


def inputs_and_views_of_them(x, w):
    return x, w.t(), x[:2], (x * w)[1:], w


def written_value_and_view(x, w):
    y = x * w
    a = y[:, :2]
    a.mul_(2.0)
    return y, a, y.transpose(0, 1)


def none_and_the_same(x, w):
    y = x.tanh() * w
    return None, y, y, (y, {"again": y.view(-1)})


def written_input(x, w, note):
    note.add_(x.detach())
    return (note * w).sum(0), note[:1]


PLAIN = [chunk_and_its_view, split_whole_and_piece, unbind_rows_twice, broadcast, inputs_and_views_of_them, written_value_and_view,
         none_and_the_same]


def leaves(tree):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def shares(tensors):
    """Which of them lie in the same memory, and where in it."""
    first = {}
    return [(first.setdefault(t.untyped_storage().data_ptr(), i), t.storage_offset(), t.shape, t.stride()) for i, t in enumerate(tensors)]


def ran(function, name, options, draw, more=0):
    """Two calls with their gradients: all that can be seen of them."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=name, fullgraph=True, dynamic=False, **({"options": options} if options is not None else {}))
    said = []
    for call in range(2):
        torch.manual_seed(call)
        x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        notes = [torch.randn(4, 4) for _ in range(more)]
        outs = leaves(compiled(x, w, *notes))
        given = [x, w, *notes]
        said += [shares([*given, *outs]), [o.requires_grad for o in outs], *(o.detach().clone() for o in (*outs, *notes))]
        weights = random.Random(draw)
        total = sum((o.square() * weights.randint(1, 5)).sum() for o in outs if o.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
        said += [x.grad, w.grad]
    return said


def same(mine, its):
    assert len(mine) == len(its)
    for a, b in zip(mine, its, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_outputs_that_share_memory_have_the_gradients_of_each(function):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = ran(function, backend.lowtide, OPTIONS, 1)
    assert backend.last_plans, "planned"
    same(mine, ran(function, "aot_eager", None, 1))


def test_an_input_that_is_written_in_place_is_planned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = ran(written_input, backend.lowtide, OPTIONS, 1, more=1)
    assert backend.last_plans
    same(mine, ran(written_input, "aot_eager", None, 1, more=1))


def drawn(seed):
    """A function of ops, views and writes; any of its values may come out, some twice."""
    rng = random.Random(seed)
    unary = [torch.sin, torch.exp, torch.tanh, lambda v: v * 2.0, lambda v: v.clone()]
    views = [lambda v: v.t() if v.dim() == 2 else v.view(-1), lambda v: v[1:] if v.shape[0] > 1 else v, lambda v: v.chunk(2, -1)[0],
             lambda v: v.split(1, 0)[0], lambda v: v.unbind(0)[-1] if v.dim() > 1 else v, lambda v: v.unsqueeze(0), lambda v: v.view_as(v),
             lambda v: v.expand(3, *v.shape), lambda v: v.detach(), lambda v: v.transpose(0, -1), lambda v: v.diagonal() if v.dim() == 2 else v]
    steps = [rng.choice(["unary", "view", "view", "view", "binary", "write"]) for _ in range(rng.randint(3, 9))]
    numbers = [rng.random() for _ in range(100)]

    def function(x, w):
        waiting = iter(numbers)
        pick = lambda them: them[int(next(waiting) * len(them))]  # noqa: E731
        values = [x, w, x * w]
        for step in steps:
            a = pick(values[2:] if step == "write" else values)
            if step == "unary":
                values.append(pick(unary)(a))
            elif step == "view":
                values.append(pick(views)(a))
            elif step == "binary":
                values.append(a * a.sum())
            elif a._base is not None or len(values) > 3:
                values.append(values[2].mul_(1.5) if a is values[2] else a + 1.0)
        return [pick(values) for _ in range(4)]

    return function


@pytest.mark.parametrize("seed", range(PIECES))
def test_drawn_pieces_are_aot_eagers(seed):
    function = drawn(seed)
    try:
        its = ran(function, "aot_eager", None, seed)
    except RuntimeError as problem:
        pytest.skip(f"PyTorch itself refuses it: {str(problem).splitlines()[0][:80]}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = ran(function, backend.lowtide, OPTIONS, seed)
    same(mine, its)


def test_inputs_that_share_memory_once_need_not_share_it_later():
    def f(x, y):
        return (x.sin() * y.cos()).sum(0)

    run = torch.compile(f, backend=backend.lowtide, fullgraph=True, dynamic=False, options=OPTIONS)
    whole = torch.randn(4, 3, requires_grad=True)
    torch.testing.assert_close(run(whole, whole.view(4, 3)), f(whole, whole), rtol=0, atol=0)
    x, y = (torch.randn(4, 3, requires_grad=True) for _ in range(2))
    got = run(x, y)
    assert torch.equal(got, f(x, y))
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(got.sum(), (x, y)), torch.autograd.grad(f(x, y).sum(), (x, y)), strict=True))


def graph_of(function, *names):
    graph = torch.fx.Graph()
    out = function(graph, *[graph.placeholder(name) for name in names])
    graph.output(out)
    return graph


def test_halves_that_read_one_gradient_for_another_are_not_the_joint_graph():
    aten = torch.ops.aten

    def joint(g, x, s, t):
        y = g.call_function(aten.sin.default, (x,))
        return y, g.call_function(aten.add.Tensor, (s, t))

    whole = graph_of(joint, "primals_1", "tangents_1", "tangents_2")
    first = graph_of(lambda g, x: (g.call_function(aten.sin.default, (x,)),), "primals_1")

    def later(swap):
        return graph_of(lambda g, s, t: (g.call_function(aten.add.Tensor, (s, s if swap else t)),), "tangents_1", "tangents_2")

    backend_proof.check(whole, first, later(swap=False), 1)
    with pytest.raises(Internal, match="output 0 of the backward pass is not what the joint graph computes"):
        backend_proof.check(whole, first, later(swap=True), 1)


@pytest.mark.parametrize("wrong", ["order", "twice", "unwritten"])
def test_halves_that_draw_or_write_otherwise_are_not_the_joint_graph(wrong):
    aten = torch.ops.aten

    def half(g, x, n, change=""):
        a, b = (g.call_function(aten.bernoulli.p, (x, p)) for p in ((0.2, 0.5) if change == "order" else (0.5, 0.2)))
        if change == "twice":
            g.call_function(aten.bernoulli.p, (x, 0.5))
        if change != "unwritten":
            g.call_function(aten.copy_.default, (n, x))
        return g.call_function(aten.add.Tensor, (b, a) if change == "order" else (a, b))

    def joint(g, x, n, t):
        return half(g, x, n), g.call_function(aten.mul.Tensor, (t, x))

    whole = graph_of(joint, "primals_1", "primals_2", "tangents_1")
    second = graph_of(lambda g, x, t: (g.call_function(aten.mul.Tensor, (t, x)),), "primals_1", "tangents_1")
    right, bad = (graph_of(lambda g, x, n, how=how: (half(g, x, n, how), x), "primals_1", "primals_2") for how in ("", wrong))
    backend_proof.check(whole, right, second, 1)
    with pytest.raises(Internal):
        backend_proof.check(whole, bad, second, 1)
