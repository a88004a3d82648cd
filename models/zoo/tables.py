"""Networks on graphs, points, tables and clicks.

Graph convolution (Kipf and Welling 2017) with a dense adjacency and with a list of edges, graph attention (Velickovic et al.
2018), PointNet (Qi et al. 2017), DLRM (Naumov et al. 2019), Deep & Cross (Wang et al. 2021), TabTransformer (Huang et al.
2020), and a small policy with two heads.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .spec import Entry, Feed

NODES, EDGES = 14, 40


class GraphConvolution(nn.Module):
    """The adjacency is given; its rows and columns are scaled by the roots of the degrees here."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16, bias=False), nn.Linear(16, 4)

    def forward(self, features, adjacency):
        linked = (adjacency > 0.2).to(features.dtype) + torch.eye(NODES)
        roots = linked.sum(1).clamp(min=1).rsqrt()
        passed = roots[:, None] * linked * roots[None, :]
        return self.second(passed @ F.relu(passed @ self.first(features))).log_softmax(-1)


class EdgeConvolution(nn.Module):
    """Messages go along a list of edges and are added up where they arrive."""

    def __init__(self):
        super().__init__()
        self.message, self.own, self.out = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, features, sender, receiver):
        sent = F.relu(self.message(features))[sender]
        return self.out(F.relu(self.add_up(sent, receiver) + self.own(features)))

    def add_up(self, sent, receiver):
        return torch.zeros(NODES, 16, dtype=sent.dtype).index_add(0, receiver, sent)


class ScatteredEdges(EdgeConvolution):
    """The exporter of old writes index_add as a ScatterElements that keeps one of equal places; scatter_add it writes rightly."""

    def add_up(self, sent, receiver):
        return torch.zeros(NODES, 16, dtype=sent.dtype).scatter_add(0, receiver[:, None].expand(-1, 16), sent)


class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16, bias=False)
        self.left, self.right, self.out = nn.Linear(16, 1), nn.Linear(16, 1), nn.Linear(16, 4)

    def forward(self, features, adjacency):
        x = self.embed(features)
        scores = F.leaky_relu(self.left(x) + self.right(x).t(), 0.2)
        weights = scores.masked_fill(adjacency < -0.3, -1e9).softmax(-1)
        return self.out(F.elu(weights @ x))


class PointNet(nn.Module):
    """Each point by itself, then the largest of each feature; a small network of the same kind turns the points first."""

    def __init__(self):
        super().__init__()

        def each(*widths: int) -> nn.Sequential:
            layers = []
            for i, o in zip(widths, widths[1:]):
                layers += [nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()]
            return nn.Sequential(*layers)

        self.turn, self.turn_out = each(3, 16, 32), nn.Linear(32, 9)
        self.first, self.second = each(3, 16), each(16, 32, 64)
        self.out = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 5))

    def forward(self, points):
        turned = self.turn_out(self.turn(points).max(2)[0]).view(-1, 3, 3) + torch.eye(3)
        points = torch.bmm(points.transpose(2, 1), turned).transpose(2, 1)
        return self.out(torch.amax(self.second(self.first(points)), 2))


class ClickModel(nn.Module):
    """DLRM: embeddings and a bottom network meet in all their inner products."""

    def __init__(self, tables: int = 3, width: int = 8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20 + 7 * index, width) for index in range(tables))
        self.bottom = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 6, 16), nn.ReLU(), nn.Linear(16, 1))
        rows, columns = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense, category):
        x = self.bottom(dense)
        found = [table(category[:, index]) for index, table in enumerate(self.tables)]
        together = torch.stack([x, *found], 1)
        products = torch.bmm(together, together.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([x, products], 1)).sigmoid()


class DeepAndCross(nn.Module):
    def __init__(self, width: int = 22):
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.deep = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU())
        self.out = nn.Linear(width + 12, 1)

    def forward(self, dense, category):
        start = torch.cat([dense, self.table(category).flatten(1)], 1)
        x = start
        for layer in self.cross:
            x = start * layer(x) + x
        return self.out(torch.cat([x, self.deep(start)], 1))


class TableTransformer(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.table, self.column = nn.Embedding(24, width), nn.Parameter(torch.zeros(4, width))
        layer = nn.TransformerEncoderLayer(width, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(4 * width + 5), nn.Linear(4 * width + 5, 16), nn.SELU(), nn.Linear(16, 3))

    def forward(self, category, dense):
        x = self.encoder(self.table(category) + self.column)
        return self.out(torch.cat([x.flatten(1), dense], 1))


class Policy(nn.Module):
    """What to do, and how good the state is; the action is read with ArgMax."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(11, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.advantage, self.value = nn.Linear(32, 5), nn.Linear(32, 1)

    def forward(self, state):
        x = self.body(state)
        advantage = self.advantage(x)
        quality = self.value(x) + advantage - advantage.mean(1, keepdim=True)
        return quality, quality.argmax(1)


def rows(**widths: int) -> tuple[Feed, ...]:
    return tuple(Feed(name, (5, width), ((0, "batch"),)) for name, width in widths.items())


GRAPH = (Feed("features", (NODES, 8)), Feed("adjacency", (NODES, NODES)))
LIST = (Feed("features", (NODES, 8)), Feed("sender", (EDGES,), ((0, "edges"),), NODES),
        Feed("receiver", (EDGES,), ((0, "edges"),), NODES))

NETWORKS = {
    "graph_convolution": Entry(GRAPH, ("scores",), build=GraphConvolution, loss="mse"),
    "edge_convolution": Entry(LIST, ("scores",), build=EdgeConvolution, loss="mse"),
    "edge_convolution_script": Entry(LIST, ("scores",), build=ScatteredEdges, route="script", opset=16, loss="mse"),
    "graph_attention": Entry(GRAPH, ("scores",), build=GraphAttention, loss="mse"),
    "pointnet": Entry((Feed("points", (2, 3, 40), ((0, "batch"),)),), ("logits",), build=PointNet, loss="cross-entropy"),
    "click_model": Entry((*rows(dense=6), Feed("category", (5, 3), ((0, "batch"),), 20)), ("click",), build=ClickModel,
                         loss="mse"),
    "deep_and_cross": Entry((*rows(dense=6), Feed("category", (5, 2), ((0, "batch"),), 30)), ("score",), build=DeepAndCross,
                            loss="mse", opset=18),
    "table_transformer": Entry((Feed("category", (5, 4), ((0, "batch"),), 24), *rows(dense=5)), ("logits",),
                               build=TableTransformer, loss="cross-entropy"),
    "policy": Entry(rows(state=11), ("quality", "action"), build=Policy, loss="mse", opset=18),
}
