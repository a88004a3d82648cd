"""What the tensors of a file are called, and which names are one tensor.

A weight that is read under other names (Identity, a Reshape to the dims that are there, ...) is one parameter: after a
step of SGD it has moved by the sum of its gradients, as PyTorch in float64 says; drawn, all names have the same values. An output bears
the model's name whatever it is."""

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

ALIASES = {
    "Identity": ([], {}),
    "Reshape": ([np.array([4, 4], np.int64)], {}),
    "Reshape ": ([np.array([0, -1], np.int64)], {}),
    "Squeeze": ([], {}),
    "Flatten": ([], {}),
    "Cast": ([], {"to": 1}),
    "Transpose": ([], {"perm": [0, 1]}),
    "Expand": ([np.array([4, 4], np.int64)], {}),
    "Slice": ([np.array([0], np.int64), np.array([9], np.int64)], {}),
    "Dropout": ([], {}),
}


def library():
    from library import Library, find_library
    if find_library() is None:
        pytest.skip("there is no liblowtide.so; build first")
    return Library()


def tied(alias: str, dims: tuple[int, ...], nodes):
    """(nodes of the graph, its initializers): `nodes` read w and the alias w2."""
    more, attrs = ALIASES[alias]
    names = [f"operand{i}" for i in range(len(more))]
    made = [onnx.helper.make_node(alias.strip(), ["w", *names], ["w2"], **attrs), *nodes]
    w = np.random.default_rng(7).standard_normal(dims).astype(np.float32)
    return made, {"w": w, **dict(zip(names, more))}


def save(path, nodes, initializers, outside=()) -> None:
    info = onnx.helper.make_tensor_value_info
    tensors = []
    for name, array in initializers.items():
        tensor = onnx.numpy_helper.from_array(array, name)
        if name in outside:  # a file that is not there: drawn from the seed
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", "absent.bin"), ("offset", "0"), ("length", str(array.nbytes))):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
        tensors.append(tensor)
    graph = onnx.helper.make_graph(nodes, "tied", [info("x", 1, [2, 4])], [info("y", 1, None)], tensors)
    path.write_bytes(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 20)])
                     .SerializeToString())


def step(path, x: np.ndarray, target: np.ndarray) -> dict[str, np.ndarray]:
    from library import INPUTS, PARAMETERS, Model, Plan, Session
    options = {"train": True, "loss": "mse", "optimizer": "sgd", "learning_rate": 1.0, "weight_decay": 0.0, "momentum": 0.0}
    with Model(library(), str(path), training=True) as model, Plan(model, threads=1, effort=0.02, **options) as plan:
        plan.verify()
        with Session(plan, threads=1, seed=3) as session:
            assert set(session.values(INPUTS)) == {"x", "target"}
            session.set("x", x)
            session.set("target", target)
            session.run()
            return session.all(PARAMETERS)


def twice():
    return [onnx.helper.make_node("MatMul", ["x", "w"], ["p"]), onnx.helper.make_node("MatMul", ["p", "w2"], ["y"])]


@pytest.mark.parametrize("alias", ALIASES)
def test_gradients_of_all_names_add_up(alias, tmp_path):
    nodes, initializers = tied(alias, (4, 4), twice())
    save(tmp_path / "tied.onnx", nodes, initializers)
    rng = np.random.default_rng(5)
    x, target = (rng.standard_normal((2, 4)).astype(np.float32) for _ in range(2))
    after = step(tmp_path / "tied.onnx", x, target)
    assert set(after) == {"w"}
    w = torch.tensor(initializers["w"], dtype=torch.float64, requires_grad=True)
    loss = (torch.tensor(x, dtype=torch.float64) @ w @ w - torch.tensor(target, dtype=torch.float64)).square().mean()
    loss.backward()
    np.testing.assert_allclose(after["w"], (w - w.grad).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_a_drawn_weight_is_the_same_under_all_names(tmp_path):
    from library import OUTPUTS, PARAMETERS, Model, Plan, Session
    nodes, initializers = tied("Identity", (4, 4), twice())
    save(tmp_path / "tied.onnx", nodes, initializers, outside=("w",))
    x = np.random.default_rng(5).standard_normal((2, 4)).astype(np.float32)
    with Model(library(), str(tmp_path / "tied.onnx")) as model, Plan(model, threads=1, effort=0.02) as plan:
        with Session(plan, threads=1, seed=3, seed_missing_weights=True) as session:
            session.set("x", x)
            session.run()
            w, y = session.all(PARAMETERS), session.all(OUTPUTS)["y"]
    assert set(w) == {"w"}
    np.testing.assert_allclose(y, x @ w["w"] @ w["w"], rtol=1e-4, atol=1e-5)


def test_a_weight_in_a_constant_node_is_trained(tmp_path):
    """As PaddlePaddle writes them."""
    rng = np.random.default_rng(9)
    w, bias = rng.standard_normal((4, 4)).astype(np.float32), rng.standard_normal((1, 4)).astype(np.float32)
    constant = lambda name, array: onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array))
    nodes = [constant("w", w), constant("bias", bias), onnx.helper.make_node("MatMul", ["x", "w"], ["p"]),
             onnx.helper.make_node("Add", ["p", "bias"], ["y"])]
    save(tmp_path / "nodes.onnx", nodes, {})
    x, target = (rng.standard_normal((2, 4)).astype(np.float32) for _ in range(2))
    after = step(tmp_path / "nodes.onnx", x, target)
    wanted = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (w, bias)]
    loss = (torch.tensor(x, dtype=torch.float64) @ wanted[0] + wanted[1] - torch.tensor(target, dtype=torch.float64)).square().mean()
    loss.backward()
    for name, tensor in zip(("w", "bias"), wanted):
        np.testing.assert_allclose(after[name], (tensor - tensor.grad).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_outputs_have_the_models_names(tmp_path):
    """A shape, a folded value, an input, an initializer, and one value that is two outputs."""
    from library import OUTPUTS, Model, Plan, Session
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    outputs = ["shape", "twice", "x", "w", "y", "same", "input", "weight"]
    nodes = [make("Shape", ["x"], ["shape"]), make("Add", ["shape", "shape"], ["twice"]), make("MatMul", ["x", "w"], ["y"]),
             make("Identity", ["y"], ["same"]), make("Identity", ["x"], ["input"]), make("Identity", ["w"], ["weight"])]
    w = np.arange(16, dtype=np.float32).reshape(4, 4)
    graph = onnx.helper.make_graph(nodes, "outputs", [info("x", 1, [2, 4])],
                                   [info(name, 7 if name in ("shape", "twice") else 1, None) for name in outputs],
                                   [onnx.numpy_helper.from_array(w, "w")])
    path = tmp_path / "outputs.onnx"
    path.write_bytes(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 20)])
                     .SerializeToString())
    x = np.random.default_rng(5).standard_normal((2, 4)).astype(np.float32)
    with Model(library(), str(path)) as model, Plan(model, threads=1, effort=0.02) as plan:
        plan.verify()
        with Session(plan, threads=1) as session:
            session.set("x", x)
            session.run()
            got = session.all(OUTPUTS)
    wanted = {"shape": np.array([2, 4]), "twice": np.array([4, 8]), "x": x, "w": w, "y": x @ w, "same": x @ w, "input": x,
              "weight": w}
    assert set(got) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5)
