"""Slopes of every differentiable row of docs/ops.md at its special points, beside PyTorch's in f64.

The list of rows is the document's, so a new row without a case (or a reason) fails. Each case is one op on operands at zeros, limits,
ties, infinities and NaN; all of them stand in one graph, which is planned and run once: the loss is the sum of all results, each
element with a weight of its own. An operand is a given tensor plus a parameter of (negative) zeros, so that after a step of SGD with
rate 1 the parameter is minus its gradient, whatever the operand is. What the ATen rows make of PyTorch's ops is judged in
test_torch_native_slopes.py.
"""

import base64
import json
import pathlib
import re
import sys
from dataclasses import dataclass, field

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
torch = pytest.importorskip("torch")
library = pytest.importorskip("library")
if library.find_library() is None:
    pytest.skip("there is no liblowtide.so; build first", allow_module_level=True)

from torch.nn import functional as F  # noqa: E402, N812

F64, NAN, INF = torch.float64, float("nan"), float("inf")


def t(*rows):
    return torch.tensor(rows, dtype=F64)


POINTS = t(0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 6, -6, 20, -20, 700, -700, INF, -INF)  # and NaN, where PyTorch passes it on as we do
WITH_NAN = torch.cat([POINTS, t(NAN)])
POSITIVE = t(0, 1, 2, 0.25, 1e-300, 1e300, INF)
LEFT = t(0, 1, 1, -2, 2, -2, 0.5, 7, INF, INF, -INF)
RIGHT = t(0, 1, -1, 2, 2, -2, 0.5, 3, INF, -INF, -INF)
TIES = t([1, 3, 3, 0], [2, 2, 2, 2], [0, 0, 0, 0], [-1, 5, 5, 5])
EQUAL = t([2.5, 2.5, 2.5, 2.5], [0, 0, 0, 0], [1, 2, 3, 4], [-1, -1, -1, 1])
IMAGE = t(1, 1, 2, 2, 1, 1, 2, 3, 0, 0, 0, 0, 5, 0, 0, 0).reshape(1, 1, 4, 4)
LABELS = torch.tensor([0, 3, -100, 1])


@dataclass
class Case:
    kind: str
    function: object  # of the operands of floats
    inputs: list  # tensors; of whole numbers and booleans as they are; None: absent
    attrs: dict = field(default_factory=dict)
    more: list = field(default_factory=list)  # (dtype, dims) of results that the loss does not read
    view: bool = False


CASES: list[Case] = []


def case(kind, function, *inputs, more=(), view=False, **attrs):
    CASES.append(Case(kind, function, list(inputs), attrs, list(more), view))


for _name in "Sigmoid Tanh Erf Exp Sin Cos Tan Sinh Cosh Atan Asinh".split():
    case(_name, getattr(torch, _name.lower()), WITH_NAN)
case("Relu", torch.relu, WITH_NAN)
case("Neg", torch.neg, WITH_NAN)
case("Abs", torch.abs, POINTS)  # of NaN: a NaN; PyTorch's is 0
case("Log", torch.log, POSITIVE)
case("Sqrt", torch.sqrt, POSITIVE)
case("Sqrt", lambda x: _root(x), POSITIVE, norm=1)
case("Reciprocal", torch.reciprocal, POINTS)
for _name in ("Asin", "Acos", "Atanh"):
    case(_name, getattr(torch, _name.lower()), t(0, -0.0, 1, -1, 0.5, 2, NAN))
case("Acosh", torch.acosh, t(1, 2, 0.5, INF, NAN))
case("Softplus", F.softplus, t(0, -0.0, 1, -1, 19, -20, 700, -700, NAN))
case("HardSwish", F.hardswish, WITH_NAN)
case("Mish", F.mish, t(0, -0.0, 1, -1, 19, -19, NAN))
case("Silu", F.silu, t(0, -0.0, 1, -1, 20, -20, NAN))
case("LeakyRelu", lambda x: F.leaky_relu(x, 0.25), WITH_NAN, alpha=0.25)
case("Elu", lambda x: F.elu(x, 2.0), WITH_NAN, alpha=2.0)
case("HardSigmoid", lambda x: torch.where((x > -2.5) & (x < 2.5), x * 0.2, 0.0), t(0, 1, -1, 2.5, -2.5, 3, -3), alpha=0.2, beta=0.5)
case("Gelu", F.gelu, t(0, -0.0, 1, -1, 20, -20, NAN), approximate="none")
case("Gelu", lambda x: F.gelu(x, approximate="tanh"), t(0, -0.0, 1, -1, 20, -20, NAN), approximate="tanh")
case("Clip", lambda x: x.clamp(-1, 2), WITH_NAN, min=-1.0, max=2.0)
case("Clip", lambda x: x.clamp(min=0), WITH_NAN, min=0.0)
case("Clip", F.relu6, WITH_NAN, min=0.0, max=6.0, open=1)
case("Clip", F.hardtanh, WITH_NAN, min=-1.0, max=1.0, open=1)
for _power in (0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 1.5):
    case("PowScalar", lambda x, p=_power: x.pow(p), POINTS, exponent=_power)
case("AffineScalar", lambda x: 2 * x + 1, WITH_NAN, scale=2.0, shift=1.0)
case("Cast", lambda x: x.float(), t(0, 1, -1, 3e38), to="f32")
case("Copy", torch.clone, WITH_NAN)
for _name in ("add", "sub", "mul", "div"):
    case(_name.capitalize(), getattr(torch, _name), LEFT, RIGHT)
case("Max", torch.maximum, LEFT, RIGHT)
case("Min", torch.minimum, LEFT, RIGHT)
case("Max", lambda x, low: torch.clamp(x, min=low), torch.cat([LEFT, t(NAN, 1)]), torch.cat([RIGHT, t(1, NAN)]), first=1)
case("Min", lambda x, high: torch.clamp(x, max=high), torch.cat([LEFT, t(NAN, 1)]), torch.cat([RIGHT, t(1, NAN)]), first=1)
case("Pow", torch.pow, t(0, 0, 0, 2, 3, 1, 0, 0.5), t(0, 1, 2, 2, 3, 0, -1, 0.5))
case("Where", lambda a, b: torch.where(torch.tensor([True, False, True]), a, b), torch.tensor([True, False, True]), t(0, INF, NAN), t(NAN, 0, INF))

case("MatMul", torch.matmul, TIES, EQUAL)
case("Conv", lambda x, w: F.conv2d(x, w, padding=1), IMAGE, t(0, 1, -1, 0).reshape(1, 1, 2, 2), pads=[1, 1, 1, 1], strides=[1, 1])
case("ConvDataGrad", F.conv_transpose2d, IMAGE, t(0, 1, -1, 0).reshape(1, 1, 2, 2), strides=[1, 1], pads=[0, 0, 0, 0], output_spatial=[5, 5])


def _root(x):
    """The root of a sum of squares: no slope at 0."""
    return torch.where(x == 0, x * 0, torch.where(x == 0, 1.0, x).sqrt())


def _norm(x, scale, bias):
    return F.batch_norm(x, None, None, scale, bias, training=True, eps=1e-5)


_CHANNELS = EQUAL.t().contiguous()
case("BatchNormTrain", _norm, _CHANNELS, t(1, 0, -1, 2), t(0, 1, 0, 1), more=[("f64", [4]), ("f64", [4])], epsilon=1e-5)
case("BatchNormInference", lambda x, s, b: F.batch_norm(x, t(0, 1, 2, 3), t(0, 1, 0, 4), s, b, eps=1e-5), _CHANNELS, t(1, 0, -1, 2), t(0, 1, 0, 1),
     ("fixed", t(0, 1, 2, 3)), ("fixed", t(0, 1, 0, 4)), epsilon=1e-5)
case("LayerNorm", lambda x, s, b: F.layer_norm(x, (4,), s, b), EQUAL, t(1, 0, -1, 2), t(0, 0, 0, 1), more=[("f64", [4]), ("f64", [4])], axis=1, epsilon=1e-5)
case("RmsNorm", lambda x, s: F.rms_norm(x, (4,), s, 1e-5), EQUAL, t(1, 0, -1, 2), more=[("f64", [4])], axis=1, epsilon=1e-5)
_SCORES = t([0, 0, 0, 0], [1, -INF, 2, 0.5], [700, -700, 0, 0], [1, 2, 3, 3])
case("Softmax", lambda x: x.softmax(1), _SCORES, axis=1)
case("LogSoftmax", lambda x: x.log_softmax(1), TIES, axis=1)
case("Lrn", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 2.0), IMAGE.reshape(1, 4, 2, 2), size=3, alpha=0.5, beta=0.75, bias=2.0)
case("LpNormalize", lambda x: F.normalize(x, dim=1), t([3, 4], [1, -2]), axis=1, p=2)
case("CrossEntropy", lambda x: F.cross_entropy(x, LABELS), _SCORES.clamp(min=-700), LABELS, more=[("f64", [4])], axis=1, ignore_index=-100)
case("MseLoss", lambda x: F.mse_loss(x, EQUAL), TIES, ("fixed", EQUAL))
case("MaxPool", lambda x: F.max_pool2d(x, 2), IMAGE, more=[("u8", [1, 1, 2, 2])], kernel=[2, 2], strides=[2, 2])
case("MaxPool", lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE, more=[("u8", [1, 1, 4, 4])], kernel=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
case("AvgPool", lambda x: F.avg_pool2d(x, 3, 1, 1), IMAGE, kernel=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], count_include_pad=1)
case("Col2Im", lambda x: F.fold(x.reshape(1, 4, 4), (3, 3), (2, 2)), TIES.reshape(1, 1, 2, 2, 2, 2), strides=[1, 1], spatial=2, output_spatial=[3, 3])
for _name in ("sum", "mean", "amax", "amin", "prod"):
    _kind = {"amax": "Max", "amin": "Min"}.get(_name, _name.capitalize())
    case(f"Reduce{_kind}", lambda x, f=_name: getattr(x, f)(1), TIES, axes=[1], keepdims=0)
case("ReduceProd", lambda x: x.prod(1), t([2, 0, 3], [0, 0, 4], [1, 2, 3]), axes=[1], keepdims=0)
case("ReduceLogSumExp", lambda x: x.logsumexp(1), t([0, 0], [700, 699], [-700, -700], [1, -INF]), axes=[1], keepdims=0)
case("TopK", lambda x: x.topk(2, 1)[0], t([1, 3, 2, 0], [INF, 2, -INF, 1]), more=[("i64", [2, 2])], axis=1, count=2, smallest=0)
case("CumSum", lambda x: x.cumsum(1), TIES, axis=1, exclusive=0, reverse=0)

case("Reshape", lambda x: x.reshape(16), TIES, view=True, shape=[16])
case("Transpose", lambda x: x.t(), TIES, perm=[1, 0])
case("Slice", lambda x: x[:, 1:3], TIES, starts=[0, 1], sizes=[4, 2], steps=[1, 1])
case("Pad", lambda x: F.pad(x, (1, 1), value=INF), TIES, begins=[0, 1], ends=[0, 1], value=INF)
case("Concat", lambda a, b: torch.cat([a, b], 1), TIES, EQUAL, axis=1)
case("Expand", lambda x: x.expand(3, 4), t([0, INF, NAN, 1]), shape=[3, 4])
case("Gather", lambda x: x[torch.tensor([0, 0, -1])], TIES, torch.tensor([0, 0, -1]), axis=0)
_PLACES = torch.tensor([[0, 0], [3, 1], [2, 2], [1, 1]])
case("GatherElements", lambda x: x.gather(1, _PLACES), TIES, _PLACES, axis=1)
_LINE = torch.tensor([0, 1, 1, 2, 2, 2])
for _how, _torch in (("add", "sum"), ("max", "amax"), ("min", "amin")):
    case("ScatterElements", lambda a, b, how=_torch: a.scatter_reduce(0, _LINE, b, how), t(0, 2, 1, 7), _LINE, t(0, 2, 2, 1, 1, -3), axis=0, reduction=_how)
_NOTHING = t(1, 1, 1, 1)
case("GatherND", lambda x: x[_PLACES[:, 0], _PLACES[:, 1]], TIES, _PLACES)
case("ScatterND", lambda a, b: a.index_put((torch.tensor([3, 0]),), b), _NOTHING, torch.tensor([[3], [0]]), t(INF, NAN), reduction="none")
case("ReverseSequence", lambda x: torch.stack([x[:, 0].flip(0), x[:, 1], x[:, 2], x[:, 3]], 1), TIES, torch.tensor([4, 1, 1, 0]), time_axis=0, batch_axis=1)
case("Trilu", torch.triu, TIES, upper=1, k=0)
case("Resize", lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), IMAGE, axes=[2, 3], sizes=[8, 8], mode="nearest", coordinates="asymmetric", nearest="floor",
     exclude_outside=0, antialias=0)
case("PadRepeat", lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), IMAGE, begins=[0, 0, 1, 1], ends=[0, 0, 1, 1], mode="reflect")
_GRID = t([-1, -1], [1, 1], [0.1, -0.3], [0.5, 0.7]).reshape(1, 2, 2, 2)
case("GridSample", lambda x, g: F.grid_sample(x, g, padding_mode="zeros", align_corners=True), IMAGE, _GRID, mode="linear", padding="zeros", align_corners=1)

# Kinds of the document that have no gradient, and those with one that have no special points beyond those of their parts.
FLAT = set("""Floor Ceil Round Sign Not IsNaN LogAddExp Mod Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor
    ShiftLeft ShiftRight BitCast RandomUniform RunningUpdate ConvWgtGrad LabelLogits CrossEntropyMean LabelCount BatchMean BatchVariance BatchNormGradSums
    BatchNormGradData MaxPoolPositions ArgMax ArgMin CumProd Join OneHot Fill RoiAlign SgdUpdate AdamWUpdate Opaque OpaqueRandom OpaqueEffect""".split())
ELSEWHERE = {"Dropout": "its mask is drawn", "Lstm": "recurrent_test.cc", "LstmTrain": "recurrent_test.cc", "Gru": "recurrent_test.cc",
             "GruTrain": "recurrent_test.cc", "Rnn": "recurrent_test.cc", "Reorder": "made by plans alone"}


def rows_of_the_document():
    kinds = set()
    for line in (ROOT / "docs/ops.md").read_text().split("## What follows from a row")[0].splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") and line.count("|") > 2 else ""
        if first and all(re.fullmatch(r"[A-Z][A-Za-z0-9]+", word) for word in first.split()):
            kinds |= set(first.split())
    return kinds


def test_every_differentiable_row_has_a_case():
    kinds = rows_of_the_document()
    assert len(kinds) > 100
    gradients = {kind for kind in kinds if kind.endswith("Grad") and kind != "ConvDataGrad"}
    assert kinds - gradients - FLAT - set(ELSEWHERE) == {each.kind for each in CASES}


class Writer:
    """A graph as JSON (docs/formats.md, "Graph JSON")."""

    def __init__(self):
        self.values, self.ops = [], []

    def given(self, name, tensor, category):
        words = {F64: "f64", torch.int64: "i64", torch.bool: "bool"}
        raw = base64.b64encode(tensor.contiguous().numpy().tobytes()).decode()
        self.values.append({"name": name, "dtype": words[tensor.dtype], "dims": list(tensor.shape), "category": category,
                            "initial": {"kind": "inline", "base64": raw}})
        return len(self.values) - 1

    def op(self, kind, inputs, outs, name, view=False, **attrs):
        made = []
        for k, (dtype, dims) in enumerate(outs):
            self.values.append({"name": f"{name}/{k}", "dtype": dtype, "dims": list(dims), "category": "activation",
                                **({"alias": "view", "base": inputs[0]} if view else {})})
            made.append(len(self.values) - 1)
        special = {INF: "inf", -INF: "-inf"}
        said = {key: {"real": special.get(value, value)} if isinstance(value, float) else value for key, value in attrs.items()}
        self.ops.append({"kind": kind, "name": name, "inputs": inputs, "outputs": made, "attrs": said})
        return made[0]


def weights(result):
    return (torch.arange(1, result.numel() + 1, dtype=F64) / 4).reshape(result.shape)


def leaves_of(each):
    return [x for x in each.inputs if isinstance(x, torch.Tensor) and x.dtype == F64]


def graph_of(cases):
    """The names of parameters by case, and the graph's text."""
    writer, names, total = Writer(), [], None
    for number, each in enumerate(cases):
        operands, own = [], []
        for k, x in enumerate(each.inputs):
            if not isinstance(x, torch.Tensor) or x.dtype != F64:
                operands.append(writer.given(f"g{number}.{k}", x[1] if isinstance(x, tuple) else x, "input"))
                continue
            base = writer.given(f"x{number}.{k}", x, "input")
            own.append(f"p{number}.{k}")
            delta = writer.given(own[-1], torch.full_like(x, -0.0), "parameter")
            operands.append(writer.op("Add", [base, delta], [("f64", x.shape)], f"sum{number}.{k}"))
        result = each.function(*leaves_of(each))
        dtype = "f32" if result.dtype == torch.float32 else "f64"
        made = writer.op(each.kind, operands, [(dtype, result.shape), *each.more], f"op{number}", each.view, **each.attrs)
        if dtype == "f32":
            made = writer.op("Cast", [made], [("f64", result.shape)], f"wide{number}", to="f64")
        factor = writer.given(f"c{number}", weights(result), "input")
        made = writer.op("Mul", [made, factor], [("f64", result.shape)], f"weighted{number}")
        if result.dim():
            made = writer.op("ReduceSum", [made], [("f64", [])], f"total{number}", axes=list(range(result.dim())), keepdims=0)
        total = made if total is None else writer.op("Add", [total, made], [("f64", [])], f"so_far{number}")
        names.append(own)
    writer.values[total]["is_output"] = True
    return names, json.dumps({"format": "lowtide-graph", "version": 1, "name": "slopes", "values": writer.values, "ops": writer.ops})


def gradients_of(cases, folder):
    names, text = graph_of(cases)
    path = folder / "slopes.json"
    path.write_text(text)
    options = dict(train=True, loss="model", optimizer="sgd", learning_rate=1.0, momentum=0.0, weight_decay=0.0)
    with library.Model(library.Library(), str(path), training=True) as model, library.Plan(model, threads=1, effort=0.01, **options) as plan:
        plan.verify()
        with library.Session(plan, threads=1) as session:
            session.run()
            after = session.all(library.PARAMETERS)
    return [[torch.from_numpy(-after[name]) for name in own] for own in names]


def pytorchs(each):
    leaves = [x.clone().requires_grad_() for x in leaves_of(each)]
    result = each.function(*leaves)
    (result.double() * weights(result)).sum().backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def test_slopes_at_special_points_are_pytorchs(tmp_path):
    wrong = []
    for each, ours in zip(CASES, gradients_of(CASES, tmp_path), strict=True):
        size = 1e-6 if each.kind == "Cast" else 1e-10
        for x, mine, its in zip(leaves_of(each), ours, pytorchs(each), strict=True):
            far = ~torch.isclose(mine.reshape(its.shape), its, rtol=size, atol=1e-13, equal_nan=True)
            wrong += [f"{each.kind} {each.attrs} at {v}: {a}, PyTorch {b}" for v, a, b in
                      zip(x[far].tolist(), mine.reshape(its.shape)[far].tolist(), its[far].tolist(), strict=True)]
    assert not wrong, "\n".join(wrong)
