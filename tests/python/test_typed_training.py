"""Training in other element types than f32: three steps of a small network beside PyTorch.

f64 agrees with PyTorch's own f64 to its rounding. f16 and bf16 are stored in 16 bits and computed as the device says; what
they are held against is PyTorch's f64 from the same 16-bit weights, within the rounding of 16 bits, and PyTorch's own step in
16 bits is no nearer than that either. The optimizer's state is f32 there, f64 for f64 (the plan's bytes say so).
"""

import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fuzz_against_onnxruntime"))
from library import PARAMETERS, Library, Model, Plan, Session, find_library  # noqa: E402  (a path of the repository)

if find_library() is None:
    pytest.skip("liblowtide.so is not built", allow_module_level=True)

NUMPY = {"f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
ONNX = {"f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
STEPS = 3
ADAMW = dict(learning_rate=0.01, weight_decay=0.01)
SGD = dict(learning_rate=0.05, momentum=0.9, weight_decay=0.0)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"conv.weight": (4, 3, 3, 3), "norm.weight": (4,), "norm.bias": (4,),
              "up.weight": (4, 4, 2, 2), "mean.weight": (4,), "mean.bias": (4,), "table": (6, 4), "out.weight": (4, 5),
              "out.bias": (5,)}
    return {name: rng.normal(size=shape) * 0.5 + (name in ("norm.weight", "mean.weight")) for name, shape in shapes.items()}


def as_onnx(path: pathlib.Path, kind: str, start: dict[str, np.ndarray]) -> None:
    """Convolution, batch statistics, pooling, transposed convolution, layer norm, embedding, softmax, reductions."""
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("InstanceNormalization", ["a", "norm.weight", "norm.bias"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ConvTranspose", ["d", "up.weight"], ["e"], strides=[2, 2]),
        helper.make_node("AveragePool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceMean", ["f", "spatial"], ["g"], keepdims=0),
        helper.make_node("Gather", ["table", "token"], ["h"]),
        helper.make_node("Add", ["g", "h"], ["i"]),
        helper.make_node("LayerNormalization", ["i", "mean.weight", "mean.bias"], ["j"]),
        helper.make_node("Softmax", ["j"], ["k"], axis=-1),
        helper.make_node("Add", ["j", "k"], ["l"]),
        helper.make_node("MatMul", ["l", "out.weight"], ["m"]),
        helper.make_node("Add", ["m", "out.bias"], ["y"]),
    ]
    initializers = [helper.make_tensor(name, ONNX[kind], array.shape, array.astype(NUMPY[kind]).tobytes(), raw=True)
                    for name, array in start.items()]
    initializers.append(helper.make_tensor("spatial", TensorProto.INT64, [2], [2, 3]))
    graph = helper.make_graph(
        nodes, "typed", [helper.make_tensor_value_info("x", ONNX[kind], [2, 3, 6, 6]),
                         helper.make_tensor_value_info("token", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", ONNX[kind], [2, 5])], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)


def torch_logits(p: dict[str, torch.Tensor], x: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    f = torch.nn.functional
    a = f.conv2d(x, p["conv.weight"], padding=1)
    d = f.max_pool2d(f.instance_norm(a, weight=p["norm.weight"], bias=p["norm.bias"]).relu(), 2)
    g = f.avg_pool2d(f.conv_transpose2d(d, p["up.weight"], stride=2), 2).mean((2, 3))
    j = f.layer_norm(g + p["table"][token], (4,), p["mean.weight"], p["mean.bias"])
    return (j + j.softmax(-1)) @ p["out.weight"] + p["out.bias"]


def torch_steps(start: dict[str, np.ndarray], inputs: dict[str, np.ndarray], optimizer: str) -> dict[str, np.ndarray]:
    """The weights after STEPS steps in f64."""
    p = {name: torch.from_numpy(array.astype(np.float64)).requires_grad_() for name, array in start.items()}
    made = (torch.optim.AdamW(p.values(), lr=0.01, weight_decay=0.01) if optimizer == "adamw"
            else torch.optim.SGD(p.values(), lr=0.05, momentum=0.9))
    x, token, labels = (torch.from_numpy(np.array(inputs[name])) for name in ("x", "token", "labels"))
    for _ in range(STEPS):
        made.zero_grad()
        torch.nn.functional.cross_entropy(torch_logits(p, x.double(), token), labels).backward()
        made.step()
    return {name: tensor.detach().numpy() for name, tensor in p.items()}


def our_steps(path: pathlib.Path, kind: str, inputs: dict[str, np.ndarray], optimizer: str, threads: int) -> dict[str, np.ndarray]:
    options = ADAMW if optimizer == "adamw" else SGD
    with Model(Library(), str(path), training=True) as model, \
            Plan(model, train=True, loss="cross-entropy", optimizer=optimizer, threads=threads, effort=0.05, **options) as plan:
        plan.verify()
        with Session(plan, threads=threads) as session:
            for name, array in inputs.items():
                session.set(name, array.astype(NUMPY[kind]) if name == "x" else array)
            session.run(STEPS)
            return session.all(PARAMETERS)


@pytest.fixture(scope="module", params=["f64", "bf16", "f16"])
def case(request, tmp_path_factory):
    kind = request.param
    start = {name: array.astype(NUMPY[kind]) for name, array in weights().items()}
    rng = np.random.default_rng(8)
    inputs = {"x": rng.normal(size=(2, 3, 6, 6)).astype(NUMPY[kind]).astype(np.float64),
              "token": np.array([4, 4], np.int64), "labels": np.array([1, 3], np.int64)}
    path = tmp_path_factory.mktemp("typed") / f"{kind}.onnx"
    as_onnx(path, kind, start)
    return kind, path, start, inputs


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_steps_are_pytorch_s(case, optimizer):
    kind, path, start, inputs = case
    ours = our_steps(path, kind, inputs, optimizer, threads=1)
    theirs = torch_steps(start, inputs, optimizer)
    for name, array in theirs.items():
        assert ours[name].dtype == NUMPY[kind], name
        moved = np.abs(ours[name].astype(np.float64) - start[name].astype(np.float64)).max()
        assert moved > 0, f"{name} did not move"
        error = np.abs(ours[name].astype(np.float64) - array).max()
        bound = 1e-12 if kind == "f64" else (0.03 if kind == "bf16" else 0.006)
        assert error <= bound * (1 + np.abs(array).max()), f"{name}: {error}"


def test_threads_do_not_change_f64(case):
    kind, path, _, inputs = case
    if kind != "f64":
        pytest.skip("oneDNN's products of f32 depend on threads")
    one, two = (our_steps(path, kind, inputs, "adamw", threads) for threads in (1, 2))
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)
