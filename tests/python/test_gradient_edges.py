"""Gradients at corners, ties and poles, through a planned step on the CPU beside PyTorch's in f64: what the kernels make of
the rules (src/autodiff/rules_edges_test.cc judges the rules alone). The loss is the mean squared distance to a target that lies
beside the result, and after a step of SGD with rate 1 a parameter has moved by minus its gradient."""

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
library = pytest.importorskip("library")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

if library.find_library() is None:
    pytest.skip("there is no liblowtide.so; build first", allow_module_level=True)

NUMBERS = np.array([0, -0.0, 1, -1, 2, -2, 0.5, 3])
TIES = np.array([0, 1, 1, -2, 2, -2, 0.5, 7])  # beside NUMBERS: equal at 0, 2, 5, 6
CASES = {
    **{f"x^{power}": ("Pow", [NUMBERS], [np.array(float(power))], {}, lambda x, power=power: x.pow(power))
       for power in (0, 1, 2, 3)},
    "x^y": ("Pow", [np.abs(NUMBERS), np.array([0, 1, 2, 0, 3, 1, 0, 2.0])], [], {}, torch.pow),
    "max": ("Max", [NUMBERS, TIES], [], {}, torch.maximum),
    "min": ("Min", [NUMBERS, TIES], [], {}, torch.minimum),
    "max of a constant": ("Max", [NUMBERS], [TIES], {}, lambda x: torch.maximum(x, torch.tensor(TIES))),
    "sqrt": ("Sqrt", [np.array([4, 1, 0.25, 9.0])], [], {}, torch.sqrt),
    "relu": ("Relu", [NUMBERS], [], {}, torch.relu),
    "abs": ("Abs", [NUMBERS], [], {}, torch.abs),
    "leaky": ("LeakyRelu", [NUMBERS], [], {"alpha": 0.25}, lambda x: torch.nn.functional.leaky_relu(x, 0.25)),
    "clip": ("Clip", [NUMBERS], [np.array(-1.0), np.array(2.0)], {}, lambda x: x.clamp(-1, 2)),
    "largest": ("ReduceMax", [np.array([[1, 3, 3, 0], [2, 2, 2, 2.0]])], [np.array([1])], {"keepdims": 0}, lambda x: x.amax(1)),
    **{f"scattered {reduction}": (
        "ScatterElements", [TIES, np.array([3, -2, 1, 1, 9, -9, 2, 0.5])], [np.array([0, 1, 1, 2, 3, 3, 4, 0])],
        {"axis": 0, "reduction": reduction},
        lambda x, y, reduction=reduction: x.scatter_reduce(0, torch.tensor([0, 1, 1, 2, 3, 3, 4, 0]), y, f"a{reduction}"))
       for reduction in ("max", "min")},
    "a masked score": ("Softmax", [np.array([[1, -np.inf, 2, 0.5]])], [], {"axis": 1}, lambda x: x.softmax(1)),
    "product": ("ReduceProd", [np.array([[2, 0, 3], [0, 0, 4], [1, 2, 3.0]])], [np.array([1])], {"keepdims": 0},
                lambda x: x.prod(1)),
    "norm": ("ReduceL2", [np.array([[3, 4.0], [0, 0.0], [0, -2.0]])], [np.array([1])], {"keepdims": 0}, lambda x: x.norm(dim=1)),
    "log of a sum": ("ReduceLogSumExp", [np.array([[100, 99.0], [-200, -200.0]])], [np.array([1])], {"keepdims": 0},
                     lambda x: x.logsumexp(1)),
}


def write(path, op, parameters, constants, attributes, kind):
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    names = [f"w{i}" for i in range(len(parameters))]
    made = {f"c{i}": c if c.dtype.kind == "i" else c.astype(kind) for i, c in enumerate(constants)}
    tensors = [numpy_helper.from_array(w.astype(kind), name) for name, w in zip(names, parameters)]
    inputs = [names[0], *made, *names[1:]] if op == "ScatterElements" else [*names, *made]
    nodes = [helper.make_node(op, inputs, ["y"], **attributes)]
    graph = helper.make_graph(nodes, "edges", [], [onnx.ValueInfoProto(name="y")],
                              tensors + [numpy_helper.from_array(c, name) for name, c in made.items()],
                              value_info=[marked(name, dtype, w.shape, "PARAMETER") for name, w in zip(names, parameters)]
                              + [marked(name, helper.np_dtype_to_tensor_dtype(c.dtype), c.shape, "CONSTANT_TENSOR")
                                 for name, c in made.items()])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString())


def marked(name, dtype, shape, kind):
    """As PyTorch's exporter says what an initializer is."""
    info = helper.make_tensor_value_info(name, dtype, shape)
    info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    return info


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_step_moves_by_pytorch_s_gradient(name, kind, tmp_path):
    op, parameters, constants, attributes, function = CASES[name]
    wanted = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in parameters]
    result = function(*wanted)
    slope = np.arange(1, result.numel() + 1).reshape(result.shape) / 4
    target = (result.detach().numpy() - slope).astype(kind)
    torch.nn.functional.mse_loss(result, torch.tensor(target).double()).backward()
    path = tmp_path / "edges.onnx"
    write(path, op, parameters, constants, attributes, kind)
    options = dict(train=True, loss="mse", optimizer="sgd", learning_rate=1.0, momentum=0.0, weight_decay=0.0)
    with library.Model(library.Library(), str(path), training=True) as model, \
            library.Plan(model, threads=1, effort=0.02, **options) as plan:
        plan.verify()
        with library.Session(plan, threads=1) as session:
            session.set("target", target)
            session.run()
            after = session.all(library.PARAMETERS)
    for i, (w, tensor) in enumerate(zip(parameters, wanted, strict=True)):
        before, size = w.astype(kind).astype(np.float64), 1e-5 if kind is np.float32 else 1e-12
        given, largest = after[f"w{i}"].astype(np.float64), np.abs(before[np.isfinite(before)]).max()
        np.testing.assert_allclose(given, before - tensor.grad.numpy(), rtol=size, atol=size * largest, err_msg=f"{name}, w{i}")
