"""Training through QuantizeLinear and DequantizeLinear beside PyTorch's fake_quantize in f64: rounding passes the gradient
straight on, saturation stops it. And what of such files trains: weights, never scales, zero points or integers."""

import json
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
library = pytest.importorskip("library")

from onnx import helper, numpy_helper  # noqa: E402

if library.find_library() is None:
    pytest.skip("there is no liblowtide.so; build first", allow_module_level=True)

RNG = np.random.default_rng(7)
OPTIONS = dict(train=True, loss="mse", optimizer="sgd", learning_rate=1.0, momentum=0.0, weight_decay=0.0, threads=1, effort=0.02)


def pair(source, target, scale, zero, **attrs):
    """QuantizeLinear and DequantizeLinear."""
    return [helper.make_node("QuantizeLinear", [source, scale, zero], [f"{target}_q"], **attrs),
            helper.make_node("DequantizeLinear", [f"{target}_q", scale, zero], [target], **attrs)]


def write(path, nodes, feeds, tensors, opset=13):
    graph = helper.make_graph(
        nodes, "quantised", [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name, x in feeds.items()],
        [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.asarray(x), name) for name, x in tensors.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def step(path, feeds, target):
    """Parameters before and after a step of SGD with rate 1."""
    with library.Model(library.Library(), str(path), training=True) as model, library.Plan(model, **OPTIONS) as plan:
        plan.verify()
        with library.Session(plan, threads=1) as session:
            for name, x in {**feeds, "target": target}.items():
                session.set(name, x)
            before = session.all(library.PARAMETERS)
            session.run()
            return before, session.all(library.PARAMETERS)


def judge(path, feeds, parameters, function):
    """Every parameter moves by PyTorch's gradient in f64, and nothing else is one."""
    leaves = {name: torch.tensor(w, dtype=torch.float64, requires_grad=True) for name, w in parameters.items()}
    result = function({name: torch.tensor(x, dtype=torch.float64) for name, x in feeds.items()}, leaves)
    target = RNG.standard_normal(result.shape).astype(np.float32)
    torch.nn.functional.mse_loss(result, torch.tensor(target).double()).backward()
    before, after = step(path, feeds, target)
    assert sorted(before) == sorted(parameters)
    for name, leaf in leaves.items():
        moved = before[name].astype(np.float64) - after[name]
        np.testing.assert_allclose(moved, leaf.grad.numpy(), rtol=1e-4, atol=1e-5 * np.abs(leaf.grad.numpy()).max(), err_msg=name)
        assert np.abs(moved).max() > 0, f"{name} does not move"


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("zero", [np.int8(0), np.int8(3), np.uint8(128)])
def test_a_network_as_pytorch_trains_it(zero, tmp_path):
    """Weights and activations go through QDQ pairs; some of both saturate."""
    scales = {"sx": np.float32(0.03), "sw": np.float32(0.01), "sh": np.float32(0.01)}
    low, high = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max

    def fake(x, scale):
        return torch.fake_quantize_per_tensor_affine(x, float(scales[scale]), int(zero), int(low), int(high))

    nodes = [*pair("x", "xd", "sx", "z"), *pair("w", "wd", "sw", "z"), helper.make_node("MatMul", ["xd", "wd"], ["a"]),
             helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Relu", ["s"], ["r"]), *pair("r", "rd", "sh", "z"),
             *pair("v", "vd", "sw", "z"), helper.make_node("MatMul", ["rd", "vd"], ["y"])]
    feeds, parameters = {"x": normal(6, 5)}, {"w": normal(5, 4), "b": normal(4), "v": normal(4, 3)}
    path = tmp_path / "qat.onnx"
    write(path, nodes, feeds, {**parameters, **scales, "z": zero})
    judge(path, feeds, parameters, lambda f, p: fake(torch.relu(fake(f["x"], "sx") @ fake(p["w"], "sw") + p["b"]), "sh")
          @ fake(p["v"], "sw"))


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_for_each_channel(axis, tmp_path):
    scales = np.linspace(0.005, 0.03, 4, dtype=np.float32)
    zeros = np.array([0, 3, -5, 1], np.int8)
    nodes = [*pair("w", "wd", "s", "z", axis=axis), helper.make_node("MatMul", ["x", "wd"], ["y"])]
    feeds, parameters = {"x": normal(6, 4)}, {"w": normal(4, 4)}
    path = tmp_path / "channels.onnx"
    write(path, nodes, feeds, {**parameters, "s": scales, "z": zeros})
    judge(path, feeds, parameters, lambda f, p: f["x"] @ torch.fake_quantize_per_channel_affine(
        p["w"], torch.tensor(scales), torch.tensor(zeros, dtype=torch.int32), axis, -128, 127))


def test_integer_weights_and_their_scales_stay(tmp_path):
    """As ONNX Runtime's static quantiser writes them: only the bias beside them is a float that trains."""
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"], axis=1), helper.make_node("MatMul", ["x", "wd"], ["a"]),
             helper.make_node("Add", ["a", "b"], ["y"])]
    scales, weights = np.linspace(0.005, 0.03, 4, dtype=np.float32), RNG.integers(-128, 128, (5, 4)).astype(np.int8)
    feeds, parameters = {"x": normal(6, 5)}, {"b": normal(4)}
    path = tmp_path / "static.onnx"
    write(path, nodes, feeds, {"w": weights, "s": scales, "z": np.zeros(4, np.int8), **parameters})
    judge(path, feeds, parameters, lambda f, p: f["x"] @ (torch.tensor(weights).double() * torch.tensor(scales)) + p["b"])


def test_the_same_result_as_without_training(tmp_path):
    """The float that training hands over is the integer that is stored, also where it saturates."""
    nodes = [*pair("x", "xd", "s", "z"), helper.make_node("Mul", ["xd", "w"], ["y"])]
    x = np.array([[-1e9, -1.5, -0.25, 0.25, 0.75, 1.25, 127.4, 1e9]], np.float32)
    path = tmp_path / "same.onnx"
    write(path, nodes, {"x": x}, {"s": np.float32(0.5), "z": np.int8(2), "w": np.full(8, 2, np.float32)})
    with library.Model(library.Library(), str(path)) as model, library.Plan(model, threads=1) as plan, \
            library.Session(plan, threads=1) as session:
        session.set("x", x)
        session.run()
        y = session.all(library.OUTPUTS)["y"]
    target = y + np.arange(8, dtype=np.float32)
    with library.Model(library.Library(), str(path), training=True) as model, library.Plan(model, **OPTIONS) as plan, \
            library.Session(plan, threads=1) as session:
        session.set("x", x)
        session.set("target", target)
        session.run()
        assert session.all(library.OUTPUTS)["loss"] == np.mean((y - target) ** 2)


def test_what_no_gradient_reaches_is_told(tmp_path):
    """Nothing flows back through numbers that are quantised as the data decides."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("DynamicQuantizeLinear", ["h"], ["q", "s", "z"]),
             helper.make_node("Cast", ["q"], ["f"], to=onnx.TensorProto.FLOAT), helper.make_node("Add", ["f", "b"], ["y"])]
    feeds, path = {"x": normal(6, 5)}, tmp_path / "dynamic.onnx"
    write(path, nodes, feeds, {"w": normal(5, 4), "b": normal(4)})
    lowtide = library.Library()
    with library.Model(lowtide, str(path), training=True) as model, library.Plan(model, **OPTIONS) as plan:
        notes = json.loads(lowtide.c.lowtide_plan_json(plan.handle))["notes"]
    assert notes == ["1 of 2 parameters stay as they are, because no gradient leads from the loss to them: 'w'"]
