"""made_graph.py against PyTorch's own make_fx: the same nodes with the same values, and nothing that nobody reads."""

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from lowtide.pytorch import made_graph  # noqa: E402


def chosen(x, y):
    return (x[y > 0] * 2).sum() + y.nonzero().shape[0]


def unread(x, y):
    x.matmul(y)  # whose result nobody reads: no number, so it stays
    rows = y.nonzero().shape[0]
    torch.ops.aten.sym_size.int(x.t(), 0), rows * 2 + 1  # which go
    return x.relu()


def written(x, y):
    z = x + 1
    z[:2].mul_(y[:2])
    z.unsqueeze_(0)
    return z, torch.rand(3)


def lines(module):
    return [(node.name, node.op, str(node.target), str(node.args), str(node.kwargs), str(getattr(node.meta.get("val"), "shape", node.meta.get("val"))))
            for node in module.graph.nodes]


@pytest.mark.parametrize("function", [chosen, unread, written], ids=lambda f: f.__name__)
def test_graph_is_that_of_make_fx(function):
    given = torch.randn(3, 3), torch.randn(3, 3)
    theirs = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*given)
    mine = made_graph.made_graph(function, *given)
    assert lines(mine) == lines(theirs) and len(lines(mine)) > 4
    assert torch.fx.Graph.eliminate_dead_code.__module__ == "torch.fx.graph"  # it is put back


def drawn_graph(seed):
    """Nodes that read some of those before; the last nodes that read a node may go, or not."""
    numbers, graph = torch.Generator().manual_seed(seed), torch.fx.Graph()
    nodes = [graph.placeholder("x")]
    for k in range(40):
        places = torch.randint(0, len(nodes), (2,), generator=numbers).tolist()
        nodes.append(graph.call_function(torch.add, tuple(nodes[p] for p in places), name=f"n{k}"))
        nodes[-1].meta["pure"] = torch.rand((), generator=numbers).item() < 0.7
    graph.output(nodes[places[0]])
    return graph


@pytest.mark.parametrize("seed", range(8))
def test_the_same_nodes_go(seed):
    def is_impure(node):
        return not node.meta.get("pure")

    theirs, mine = drawn_graph(seed), drawn_graph(seed)
    before = len(mine.nodes)
    assert theirs.eliminate_dead_code(is_impure) == made_graph._without_dead(torch.fx.Graph.eliminate_dead_code, mine, is_impure)
    assert [str(node) for node in mine.nodes] == [str(node) for node in theirs.nodes] and len(mine.nodes) < before


def test_graphs_of_modules_go_pytorchs_way():
    module = torch.fx.GraphModule(torch.nn.Module(), drawn_graph(1))
    asked = []
    made_graph._without_dead(lambda graph, impure: asked.append((graph, impure)), module.graph, len)
    assert asked == [(module.graph, len)]
