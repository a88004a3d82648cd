"""The committed model files: what they promise, and that the exporter still writes them."""

import collections
import hashlib
import math
import os
import pathlib
import re

import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
import magis_networks  # noqa: E402
import nasnet  # noqa: E402
import small_networks  # noqa: E402
from lowtide_cli import run, run_json  # noqa: E402
from networks import NETWORKS  # noqa: E402

MODELS = pathlib.Path(__file__).parents[2] / "models"
KIND_KEY = "pkg.torch.export.graph_signature.InputSpec.kind"
PARAMETER_ELEMENTS = {"resnet50": 25_557_032, "gpt2": 124_439_808, "bert": 109_514_298,
                      "unet": 31_037_698}


@pytest.fixture(params=sorted(NETWORKS))
def name(request):
    return request.param


@pytest.fixture
def graph(name):
    return onnx.load(MODELS / f"{name}.onnx", load_external_data=False).graph


def kinds(graph) -> dict[str, str]:
    return {v.name: p.value for v in graph.value_info for p in v.metadata_props if p.key == KIND_KEY}


def test_parameters_are_those_of_the_module(name, graph):
    kind = kinds(graph)
    stored = {t.name: tuple(t.dims) for t in graph.initializer if kind.get(t.name) == "PARAMETER"}
    assert stored == {key: tuple(p.shape) for key, p in NETWORKS[name].build().named_parameters()}
    assert sum(math.prod(shape) for shape in stored.values()) == PARAMETER_ELEMENTS[name]


def test_files_are_small_and_hold_no_weights(name, graph):
    data = (MODELS / f"{name}.onnx").read_bytes()
    assert len(data) < 400_000
    kind = kinds(graph)
    for tensor in graph.initializer:
        is_weight = kind.get(tensor.name) in ("PARAMETER", "BUFFER") and tensor.data_type == onnx.TensorProto.FLOAT
        assert (tensor.data_location == onnx.TensorProto.EXTERNAL) == is_weight, tensor.name
        assert not (is_weight and tensor.raw_data), tensor.name


def test_files_hold_no_paths(name):
    data = (MODELS / f"{name}.onnx").read_bytes()
    assert not re.search(rb"\.py\b|/usr/|/home/|site-packages|stack_trace", data)


def test_the_graph_can_be_trained(name, graph):
    ops = collections.Counter(node.op_type for node in graph.node)
    expected = {
        "resnet50": {"Conv": 53, "BatchNormalization": 53},
        "gpt2": {"Dropout": 37, "LayerNormalization": 25, "Softmax": 12},
        "bert": {"Dropout": 37, "LayerNormalization": 26, "Softmax": 12, "Gelu": 13},
        "unet": {"Conv": 19, "BatchNormalization": 18, "ConvTranspose": 4},
    }[name]
    assert {op: ops[op] for op in expected} == expected
    inputs = NETWORKS[name].inputs
    assert [value.name for value in graph.input] == [entry.name for entry in inputs]
    for value, entry in zip(graph.input, inputs):
        dims = {d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim}
        assert set(entry.dynamic_dims.values()) <= dims
    assert [v.name for v in graph.output] == ["logits"]


def test_resnet50_halves_the_image_five_times():
    model = NETWORKS["resnet50"].build().eval()
    with torch.no_grad():
        features = model.maxpool(model.relu(model.bn1(model.conv1(torch.zeros(1, 3, 64, 64)))))
        for stage, channels, extent in ((1, 256, 16), (2, 512, 8), (3, 1024, 4), (4, 2048, 2)):
            features = getattr(model, f"layer{stage}")(features)
            assert features.shape == (1, channels, extent, extent)


def test_tied_parameters_are_stored_once(name, graph):
    """A tied parameter has the name that named_parameters() gives it, and every reader reads that one."""
    module = NETWORKS[name].build()
    first = {key for key, _ in module.named_parameters()}
    second = {key for key, _ in module.named_parameters(remove_duplicate=False)} - first
    read = {key for node in graph.node for key in node.input}
    assert first <= read and not second & (read | {t.name for t in graph.initializer})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exported", ["bert", "unet"] if "LOWTIDE_LONG" in os.environ else ["unet"])
def test_exporting_again_gives_the_same_bytes(exported):
    pytest.importorskip("onnxscript")
    import export

    committed = (MODELS / f"{exported}.onnx").read_bytes()
    assert hashlib.sha256(export.export(exported)).digest() == hashlib.sha256(committed).digest()


# Trained elements of the networks of MAGIS's evaluation (models/magis_networks.py).
MAGIS_ELEMENTS = {"resnet50": 25_503_912, "bert": 84_934_656, "vit": 85_702_656, "unet": 31_025_922, "unetpp": 19_449_664,
                  "gptneo": 1_207_959_552, "btlm": 2_516_582_400}


@pytest.mark.parametrize("network", sorted(MAGIS_ELEMENTS))
def test_magis_networks_are_small_weight_free_files_that_train(network, tmp_path):
    path = magis_networks.write(f"magis_{network}", tmp_path)
    assert path.read_bytes() == magis_networks.write(f"magis_{network}", tmp_path / "again").read_bytes()
    assert path.stat().st_size < 200_000
    elements = MAGIS_ELEMENTS[network]
    inspected = run("inspect", path).stdout
    assert f"{elements} elements ({elements} trained)" in inspected and "unsupported none" in inspected


@pytest.mark.parametrize("network, channels", [("resnet50", 26_560), ("unet", 5_888), ("unetpp", 3_648)])
def test_magis_networks_with_batch_normalization(network, channels, tmp_path):
    """Their normalized channels: each has two parameters and two buffers."""
    graph = onnx.load(magis_networks.write(f"magis_{network}_bn", tmp_path), load_external_data=False).graph
    kind = kinds(graph)
    elements = collections.Counter()
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            elements[kind[tensor.name]] += math.prod(tensor.dims)
    assert elements == {"PARAMETER": MAGIS_ELEMENTS[network] + 2 * channels, "BUFFER": 2 * channels}


@pytest.mark.parametrize("seed", nasnet.SEEDS)
def test_random_cells_are_valid_networks_that_train(seed, tmp_path):
    path = nasnet.write(seed, tmp_path)
    assert path.read_bytes() == nasnet.write(seed, tmp_path / "again").read_bytes()
    model = onnx.load(path, load_external_data=False)
    for tensor in [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]:
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        model.graph.initializer.remove(tensor)  # the file of weights does not exist
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True))
    assert 250 <= len(model.graph.node) <= 450 and path.stat().st_size < 200_000
    assert "unsupported none" in run("inspect", path).stdout
    plan = run_json("plan", path, "--train", "--loss", "mse", "--dim", "batch=4")
    assert plan["ops"] > 2 * len(model.graph.node) and plan["arena_bytes"] > 0


def test_random_cells_differ_by_seed():
    structures = {tuple((node.op_type, len(node.input)) for node in nasnet.network(seed).graph.node) for seed in nasnet.SEEDS}
    assert len(structures) == len(nasnet.SEEDS)
    kinds_of_ops = {kind for structure in structures for kind, _ in structure}
    assert {"Conv", "Concat", "AveragePool", "MaxPool", "Add"} <= kinds_of_ops


@pytest.mark.parametrize("network", sorted(small_networks.NETWORKS))
def test_small_networks_are_those_that_are_committed(network):
    committed = (small_networks.FOLDER / f"{network}.onnx").read_bytes()
    assert small_networks.NETWORKS[network]().SerializeToString(deterministic=True) == committed
    assert len(committed) < 50_000
