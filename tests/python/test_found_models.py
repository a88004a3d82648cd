"""Small files that people brought, on which results or updates were once wrong, read in place from `data/found` of the folder
that LOWTIDE_SHARED names (its README says what each was about).

Forward: through the judge of the zoo (plan, budget, sweep; every plan verified), fed with what brings the fault out. What ONNX
Runtime has no kernel for is held against the definition in f64. Training: parameters after one and after three steps against
PyTorch in f64, the networks written out below. The classes that the files stand for have tests of their own
(test_types.py, test_tensor_names.py, test_small_models.py)."""

import functools
import os
import pathlib
import sys

import ml_dtypes  # noqa: F401  (numpy learns the 16-bit and 8-bit floats from it)
import numpy as np
import pytest
import seeded_values
from lowtide_cli import expect_error, run

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
library = pytest.importorskip("library")

import zoo_judge  # noqa: E402

FOLDER = pathlib.Path(os.environ.get("LOWTIDE_SHARED", ROOT.parent / "shared")) / "data/found"
FILES = sorted(path.stem for path in FOLDER.glob("*.onnx")) or ["none"]
SEED = 3


def found(name: str) -> pathlib.Path:
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    return path


@functools.cache
def lowtide():
    if library.find_library() is None:
        pytest.skip("there is no liblowtide.so; build first")
    return library.Library()


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(11).normal(size=shape).astype(np.float32)


# Of each file, what its input x is in turn.
FEEDS = {
    "Clip_int64": [np.array([3, 2**62 + 1, -2**62, 5]), np.array([1, 2, 2**53 + 1, 6])],  # bounds 2 and 5
    "Clip_uint8": [np.array(row, np.uint8) for row in ([1, 2, 3, 255], [0, 5, 6, 128])],
    "clip_u8_large": [(np.arange(6_000_000) * 7 % 256).astype(np.uint8)],
    "LeakyRelu_float16": [np.array(row, np.float16) for row in ([-7, -0.1, 0.1, 65504], [-65504, -0.0, 6e-8, -6e-8])],
    "LeakyRelu_float64": [np.array(row) for row in ([-1 / 3, 1 / 3, -7, 7], [-1e300, 1e300, -1e200, 0.0])],
    "add_scalar_f64": [np.array([2.0**53 - 1, 1 / 3, -1.0]), np.array([1e-13, 1e15 + 0.125, 1e300])],
    "floor_div": [np.array(row, np.float32) for row in ([41, -41, 82, 287], [40.999996, 41.000004, 1e-40, -1e-40])],
    "log_sum_exp": [np.array(row, np.float32) for row in
                    ([1000, 999], [-1000, -1001], [np.inf, 0], [-np.inf, 2], [3e38, -3e38], [88.8, 88.8])],
    "only_views": [drawn(8, 8)],
    "view_of_view": [drawn(4, 6)],
    "shape_output": [drawn(2, 3)],
    "bn_constants": [drawn(2, 2, 4, 4)],
    "positional_map": [drawn(1, 4, 8, 8)],
    "tied_by_identity": [drawn(2, 4)],
    "tied_by_reshape": [drawn(2, 4)],
    "tied_by_identity_drawn": [drawn(2, 4)],
}
REFUSED = {"castlike_float8": ["castlike_float8.onnx", "CastLike", "'t'", "FLOAT8E4M3FN"]}
SLOPE = float(np.float32(0.01))  # LeakyRelu's default is a float
IN_F64 = {name: lambda x: np.where(x < 0, SLOPE * x.astype(np.float64), x) for name in ("LeakyRelu_float16", "LeakyRelu_float64")}
TOLERANCE = {"LeakyRelu_float16": 1e-3, "LeakyRelu_float64": 1e-15, "add_scalar_f64": 1e-15}


def with_weights(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The file itself, or where its weights lie in a file that is not there, a copy beside such a file."""
    outside = [tensor for tensor in onnx.load(str(path), load_external_data=False).graph.initializer if tensor.external_data]
    for tensor in outside:
        place = {entry.key: entry.value for entry in tensor.external_data}
        assert int(place.get("offset", 0)) == 0
        (folder / place["location"]).write_bytes(seeded_values.parameter(SEED, tensor.name, tuple(tensor.dims)).tobytes())
    if outside:
        (folder / path.name).write_bytes(path.read_bytes())
    return folder / path.name if outside else path


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_judged_or_refused(name):
    found(name)
    assert name in FEEDS or name in REFUSED, f"data/found has a new file, {name}: give it inputs"


@pytest.mark.parametrize("name", FEEDS)
def test_results_are_those_of_onnx_runtime(name, tmp_path):
    path = with_weights(found(name), tmp_path)
    lowtide()
    for x in FEEDS[name]:
        exact = {"y": IN_F64[name](x)} if name in IN_F64 else {}
        trial = zoo_judge.Trial(str(path), {}, {"x": x}, exact, threads=1, effort=0.02, tolerance=TOLERANCE.get(name))
        verdict = trial.run(rounds=0)
        assert verdict["status"] == "taken", (verdict, x)
        assert verdict["arena_bytes"] > 0 and "error" in verdict
        names = [value.name for value in onnx.load(str(path), load_external_data=False).graph.output]
        assert sorted(trial.expected) == sorted(names)  # and those of the plans are the same, or the judge would have said so
        assert (trial.judge is None) == (name == "LeakyRelu_float64")  # which ONNX Runtime has no kernel for


@pytest.mark.parametrize("name", FEEDS)
def test_inspect_finds_nothing_that_is_not_taken(name):
    result = run("inspect", found(name))
    assert result.returncode == 0 and "unsupported none" in result.stdout


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_is_missing(name, tmp_path):
    path = found(name)
    for command in (["plan", path], ["plan", path, "--train"], ["sweep", path], ["plan", path, "-o", tmp_path / "plan.lt"]):
        expect_error(4, *REFUSED[name], arguments=command)
    assert not any(tmp_path.iterdir())
    listed = next(line for line in run("inspect", path).stdout.splitlines() if line.startswith("unsupported"))
    for words in REFUSED[name][1:]:
        assert words in listed


def tied(p, x):
    return x @ p["w"] @ p["w"]


# Parameters in the order of the file and the output, in f64.
NETWORKS = {
    "tied_by_identity": tied,
    "tied_by_reshape": tied,
    "tied_by_identity_drawn": lambda p, x: x @ p["w"] - x @ p["w"],
    "positional_map": lambda p, x: torch.nn.functional.conv2d(x + p["pos"], p["w"]),
    "bn_constants": lambda p, x: torch.nn.functional.batch_norm(
        torch.nn.functional.conv2d(x, p["w"]), p["m"], p["v"], p["s"], p["b"], training=True, momentum=0.1),
}
STATISTICS = {"m", "v"}  # Constant nodes, which are running statistics by what reads them
RATE = 0.05
OPTIMIZERS = {
    "sgd": (dict(optimizer="sgd", momentum=0.0, weight_decay=0.0), lambda p: torch.optim.SGD(p, RATE)),
    "momentum": (dict(optimizer="sgd", momentum=0.9, weight_decay=0.02),
                 lambda p: torch.optim.SGD(p, RATE, momentum=0.9, weight_decay=0.02)),
    "adamw": (dict(optimizer="adamw", weight_decay=0.02), lambda p: torch.optim.AdamW(p, RATE, weight_decay=0.02)),
    "adam": (dict(optimizer="adamw", weight_decay=0.0), lambda p: torch.optim.AdamW(p, RATE, weight_decay=0.0)),
}


def weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Of the file, Constant nodes too; where they lie outside, as the seed draws them."""
    graph = onnx.load(str(path), load_external_data=False).graph
    tensors = [*graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant":
            tensors.append(node.attribute[0].t)
            tensors[-1].name = node.output[0]
    return {tensor.name: seeded_values.parameter(SEED, tensor.name, tuple(tensor.dims)) if tensor.external_data
            else onnx.numpy_helper.to_array(tensor) for tensor in tensors if tensor.data_type == onnx.TensorProto.FLOAT}


def pytorch_steps(network, make, start, x, target, steps: int) -> dict[str, np.ndarray]:
    p = {name: torch.tensor(array, dtype=torch.float64, requires_grad=name not in STATISTICS) for name, array in start.items()}
    optimizer = make([tensor for tensor in p.values() if tensor.requires_grad])
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(p, torch.tensor(x).double()), torch.tensor(target).double()).backward()
        optimizer.step()
    return {name: tensor.detach().numpy() for name, tensor in p.items()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_updates_are_those_of_pytorch(name, optimizer):
    path, (options, make), x = found(name), OPTIMIZERS[optimizer], FEEDS[name][0]
    start = weights(path)
    with torch.no_grad():
        shape = NETWORKS[name]({key: torch.tensor(np.array(w)) for key, w in start.items()}, torch.tensor(x)).shape
    target = np.random.default_rng(12).normal(size=shape).astype(np.float32)
    with library.Model(lowtide(), str(path), training=True) as model, \
            library.Plan(model, train=True, loss="mse", learning_rate=RATE, threads=1, effort=0.02, **options) as plan:
        plan.verify()
        with library.Session(plan, threads=1, seed=SEED, seed_missing_weights=True) as session:
            assert set(session.values(library.INPUTS)) == {"x", "target"}  # no statistics are fed
            before = session.all(library.PARAMETERS)
            assert set(before) == set(start)  # a weight under two names is one parameter
            for key, array in start.items():
                np.testing.assert_array_equal(before[key], array)
            for key, array in {"x": x, "target": target}.items():
                session.set(key, array)
            for done, more in ((1, 1), (3, 2)):
                session.run(more)
                after = session.all(library.PARAMETERS)
                expected = pytorch_steps(NETWORKS[name], make, start, x, target, done)
                for key, array in expected.items():
                    np.testing.assert_allclose(after[key], array, rtol=2e-5, atol=2e-5, err_msg=f"{key} after {done} steps")
                    still = name == "tied_by_identity_drawn" and not options["weight_decay"]  # whose gradient is zero
                    assert np.array_equal(after[key], start[key]) == still, f"{key} has moved: {not still}"


def test_a_weight_is_drawn_once_whatever_names_it_has():
    """Its file has it under two names and subtracts the products with them."""
    path = found("tied_by_identity_drawn")
    with library.Model(lowtide(), str(path)) as model, library.Plan(model, threads=1, effort=0.02) as plan:
        plan.verify()
        with library.Session(plan, threads=1, seed=SEED, seed_missing_weights=True) as session:
            session.set("x", FEEDS["tied_by_identity_drawn"][0])
            session.run()
            w, y = session.all(library.PARAMETERS), session.all(library.OUTPUTS)
    assert set(w) == {"w"}
    np.testing.assert_array_equal(w["w"], seeded_values.parameter(SEED, "w", (4, 4)))
    np.testing.assert_array_equal(y["y"], np.zeros((2, 4), np.float32))
