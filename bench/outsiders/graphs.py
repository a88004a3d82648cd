"""Networks on graphs and molecules: torch_geometric's convolutions and models, e3nn's equivariant layers."""

from __future__ import annotations

from typing import Any

import torch
from common import classes, enter, labelled, network
from torch.nn import functional as F  # noqa: N812

# class of torch_geometric.nn, positional arguments, keywords
CONVOLUTIONS: dict[str, tuple[str, tuple, dict[str, Any]]] = {
    "gcn": ("GCNConv", (6, 8), {}), "gcn-cached": ("GCNConv", (6, 8), {"cached": True}), "gat": ("GATConv", (6, 4), {"heads": 2, "dropout": 0.2}),
    "gatv2": ("GATv2Conv", (6, 4), {"heads": 2}), "sage": ("SAGEConv", (6, 8), {}), "sage-max": ("SAGEConv", (6, 8), {"aggr": "max"}),
    "transformer": ("TransformerConv", (6, 4), {"heads": 2, "beta": True}), "tag": ("TAGConv", (6, 8), {"K": 2}),
    "cheb": ("ChebConv", (6, 8), {"K": 3}), "arma": ("ARMAConv", (6, 8), {"num_stacks": 2, "num_layers": 2}),
    "sg": ("SGConv", (6, 8), {"K": 2}), "graph": ("GraphConv", (6, 8), {}), "leconv": ("LEConv", (6, 8), {}), "film": ("FiLMConv", (6, 8), {}),
    "gated": ("GatedGraphConv", (8,), {"num_layers": 2}), "res-gated": ("ResGatedGraphConv", (6, 8), {}),
    "supergat": ("SuperGATConv", (6, 4), {"heads": 2}), "gen": ("GENConv", (6, 8), {"aggr": "softmax", "learn_t": True}),
    "cluster": ("ClusterGCNConv", (6, 8), {}), "mf": ("MFConv", (6, 8), {}), "eg": ("EGConv", (6, 8), {"num_heads": 2}),
}


def _graph(nodes: int = 8, edges: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(nodes, 6), torch.randint(0, nodes, (2, edges))


class _Nodes(torch.nn.Module):
    """A convolution, a norm and another layer."""

    def __init__(self, convolution: torch.nn.Module, width: int = 8):
        super().__init__()
        self.convolution, self.norm, self.head = convolution, torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 3)

    def forward(self, x, edges):
        return self.head(F.relu(self.norm(self.convolution(x, edges))))


def _nodes(head: str, sizes: tuple, given: dict[str, Any]):
    import torch_geometric.nn
    model = _Nodes(getattr(torch_geometric.nn, head)(*sizes, **given))
    fixed = _graph()[1]
    return model, lambda: (_graph()[0], fixed.clone(), classes(3, 8)), lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])


for _name, (_head, _sizes, _given) in CONVOLUTIONS.items():
    enter("torch_geometric", f"torch_geometric/{_name}", lambda h=_head, s=_sizes, g=_given: _nodes(h, s, g))


@network("torch_geometric", "torch_geometric/gin")
def _gin():
    from torch_geometric.nn import GIN, global_add_pool

    class OfGraphs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = GIN(6, 8, 2, dropout=0.1, norm="batch_norm"), torch.nn.Linear(8, 3)

        def forward(self, x, edges, which):
            return self.head(global_add_pool(self.body(x, edges), which, size=2))
    which = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    return OfGraphs(), lambda: (*_graph(), which, classes(3, 2)), labelled


@network("torch_geometric", "torch_geometric/pna")
def _pna():
    from torch_geometric.nn import PNAConv
    model = _Nodes(PNAConv(6, 8, aggregators=["mean", "max", "std"], scalers=["identity", "amplification"], deg=torch.tensor([0, 2, 4, 2])))
    return model, lambda: (*_graph(), classes(3, 8)), lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])


@network("torch_geometric", "torch_geometric/rgcn")
def _rgcn():
    from torch_geometric.nn import RGCNConv
    model = RGCNConv(6, 3, num_relations=3, num_bases=2)
    return model, lambda: (*_graph(), torch.randint(0, 3, (24,)), classes(3, 8)), lambda m, b: F.cross_entropy(m(*b[:3]), b[3])


@network("torch_geometric", "torch_geometric/schnet")
def _schnet():
    from torch_geometric.nn import SchNet
    from torch_geometric.nn.models import schnet  # noqa: F401
    model = SchNet(hidden_channels=8, num_filters=8, num_interactions=1, num_gaussians=4, interaction_graph=_AllPairs())
    return model, lambda: (torch.randint(1, 9, (6,)), torch.randn(6, 3), torch.tensor([0, 0, 0, 1, 1, 1])), lambda m, b: m(*b).square().mean()


class _AllPairs(torch.nn.Module):
    """Which atoms see each other: all of a molecule, so that the number of edges depends on nothing."""

    def forward(self, pos, batch):
        pairs = torch.tensor([[i, j] for i in range(6) for j in range(6) if i != j and i // 3 == j // 3]).t()
        return pairs, (pos[pairs[0]] - pos[pairs[1]]).norm(dim=-1)


@network("torch_geometric", "torch_geometric/gae")
def _gae():
    from torch_geometric.nn import GCN, VGAE, GCNConv  # noqa: F401

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.mean, self.spread = GCNConv(6, 8), GCNConv(8, 4), GCNConv(8, 4)

        def forward(self, x, edges):
            x = self.body(x, edges).relu()
            return self.mean(x, edges), self.spread(x, edges)
    return VGAE(Encoder()), lambda: (*_graph(), torch.randint(0, 8, (2, 24))), \
        lambda m, b: (lambda z: m.recon_loss(z, b[1], b[2]) + m.kl_loss() / 8)(m.encode(b[0], b[1]))


@network("torch_geometric", "torch_geometric/infomax")
def _infomax():
    from torch_geometric.nn import DeepGraphInfomax, GCNConv

    def corrupted(x, edges):
        return x[torch.randperm(x.shape[0])], edges
    model = DeepGraphInfomax(8, GCNConv(6, 8), lambda z, *_: z.mean(dim=0).sigmoid(), corrupted)
    return model, _graph, lambda m, b: m.loss(*m(*b))


@network("torch_geometric", "torch_geometric/deepgcn")
def _deepgcn():
    from torch_geometric.nn import DeepGCNLayer, GENConv
    model = torch.nn.ModuleList([torch.nn.Linear(6, 8), *(DeepGCNLayer(GENConv(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), block="res+",
                                                                     dropout=0.1, ckpt_grad=k) for k in range(2))])
    return model, lambda: (*_graph(), classes(3, 8)), \
        lambda m, b: F.cross_entropy(m[2](m[1](m[0](b[0]), b[1]), b[1])[:, :3], b[2])


@network("e3nn", "e3nn/tensor_product")
def _tensor_product():
    from e3nn import o3
    model = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", "4x0e + 2x1o")
    return model, lambda: (torch.randn(5, 10), torch.randn(5, 4)), lambda m, b: m(*b).square().mean()


@network("e3nn", "e3nn/gate")
def _gate():
    from e3nn import nn, o3
    act = nn.Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
    model = torch.nn.Sequential(o3.Linear("4x0e + 2x1o", act.irreps_in), act, o3.Linear(act.irreps_out, "1x0e"))
    return model, lambda: torch.randn(5, 10), lambda m, x: m(x).square().mean()


@network("e3nn", "e3nn/batch_norm")
def _norm():
    from e3nn import nn, o3
    model = torch.nn.Sequential(o3.Linear("4x0e + 2x1o", "4x0e + 2x1o"), nn.BatchNorm("4x0e + 2x1o"), o3.Linear("4x0e + 2x1o", "1x0e"))
    return model, lambda: torch.randn(5, 10), lambda m, x: m(x).square().mean()
