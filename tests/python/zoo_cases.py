"""What the zoo's comparisons run: files, what they are fed, and what is right. The files are made on first use and kept in the
build folder, under a name that the sources decide."""

import dataclasses
import functools
import hashlib
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import warnings
import zlib

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).parents[2]
MODELS = ROOT / "models"
sys.path.insert(0, str(MODELS))
WEIGHT_FILE = "weights.bin"


@dataclasses.dataclass
class Case:
    name: str
    path: pathlib.Path
    sizes: dict[str, int]
    feeds: dict[str, np.ndarray]
    exact: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # of the network in f64, where there is one
    tolerance: float | None = None


@functools.cache
def folder() -> pathlib.Path:
    import torch

    build = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
    digest = hashlib.sha256(f"{torch.__version__} {onnx.__version__}".encode())
    for source in sorted([MODELS / "export.py", *(MODELS / "zoo").glob("*.py")]):
        digest.update(source.read_bytes())
    path = build / "zoo" / digest.hexdigest()[:12]
    path.mkdir(parents=True, exist_ok=True)
    return path


def draw(name: str, shape: tuple[int, ...], limit: int | None, dtype=np.float32) -> np.ndarray:
    """Floats in [-1, 1), or integers below the limit."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if limit is not None:
        return random.integers(0, limit, shape).astype(dtype)
    return random.uniform(-1, 1, shape).astype(dtype)


def zoo_path(name: str, training: bool = False) -> pathlib.Path:
    """The network's file, written if it is not there yet."""
    path = folder() / f"{name}{'.training' if training else ''}.onnx"
    if not path.exists():
        import export

        warnings.filterwarnings("ignore")
        logging.disable(logging.WARNING)
        try:
            data = export.zoo_file(name, training).SerializeToString()
        finally:
            logging.disable(logging.NOTSET)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(data)
        part.rename(path)
    return path


def input_types(path: pathlib.Path) -> dict[str, np.dtype]:
    graph = onnx.load(str(path), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    return {value.name: onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            for value in graph.input if value.name not in weights}


def exact_outputs(name: str, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The network of PyTorch that the file was made from, in f64."""
    import export
    import torch
    from zoo import ZOO

    entry = ZOO[name]
    if entry.build is None:
        return {}
    model = export.zoo_module(name).double()
    with torch.no_grad():
        made = model(*(torch.from_numpy(feeds[feed.name]).double() if feed.limit is None else torch.from_numpy(feeds[feed.name])
                       for feed in entry.feeds))
    made = made if isinstance(made, tuple) else (made,)
    return {output: tensor.numpy() for output, tensor in zip(entry.outputs, made, strict=True)}


def zoo_case(name: str) -> Case:
    from zoo import ZOO

    entry, path = ZOO[name], zoo_path(name)
    types = input_types(path)
    feeds = {feed.name: draw(feed.name, feed.shape, feed.limit, types[feed.name]) for feed in entry.feeds if feed.name in types}
    return Case(name, path, entry.sizes, feeds, exact_outputs(name, feeds), entry.tolerance)


def model_case(name: str, batch: int = 1, seq: int = 32) -> Case:
    """A weight-free file of models/, with drawn weights in a file beside a copy of it."""
    import seeded_values
    from networks import NETWORKS

    target = folder() / name
    target.mkdir(exist_ok=True)
    path, proto = target / f"{name}.onnx", onnx.load(str(MODELS / f"{name}.onnx"), load_external_data=False)
    path.write_bytes((MODELS / f"{name}.onnx").read_bytes())
    end = 0
    with open(target / WEIGHT_FILE, "wb") as file:
        for tensor in proto.graph.initializer:
            place = {entry.key: entry.value for entry in tensor.external_data}
            if place:
                file.seek(int(place["offset"]))
                file.write(seeded_values.parameter(1, tensor.name, tuple(tensor.dims)).tobytes())
                end = max(end, file.tell())
        file.truncate(end)
    network, feeds = NETWORKS[name], {}
    for entry in network.inputs:
        shape = (batch, seq) if "seq" in entry.dynamic_dims.values() else (batch, *entry.example_shape[1:])
        feeds[entry.name] = draw(entry.name, shape, entry.limit, np.float32 if entry.limit is None else np.int64)
    sizes = {"batch": batch} | ({"seq": seq} if any("seq" in entry.dynamic_dims.values() for entry in network.inputs) else {})
    return Case(name, path, sizes, feeds)


LARGEST_DRAWN = 2**28  # elements of weights that are worth drawing: a file of 1 GiB


def with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The official light networks make each weight by a ConstantOfShape, all elements alike: drawn ones tell more. A scale or
    a variance of a normalization is near 1."""
    graph = model.graph
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {node.output[0]: tuple(known[node.input[0]]) for node in graph.node
            if node.op_type == "ConstantOfShape" and node.input[0] in known}
    positive = {name for node in graph.node if node.op_type == "BatchNormalization" for name in (node.input[1], node.input[4])}
    if sum(map(math.prod, made.values())) > LARGEST_DRAWN:
        return model
    for name, shape in made.items():
        values = draw(name, shape, None)
        values = 1 + values / 10 if name in positive else values * math.sqrt(3 / max(math.prod(shape[1:]), 100 / len(shape)))
        graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
    nodes = [node for node in graph.node if node.output[0] not in made]
    graph.ClearField("node")
    graph.node.extend(nodes)
    return model


def official_case(path: pathlib.Path) -> Case:
    """One of the light networks of onnx's own tests."""
    model = with_weights(onnx.load(str(path)))
    graph, target = model.graph, folder() / path.name
    target.write_bytes(model.SerializeToString())
    weights = {tensor.name for tensor in graph.initializer}
    feeds = {value.name: draw(value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim), None)
             for value in graph.input if value.name not in weights}
    return Case(path.stem, target, {}, feeds)


def official_paths() -> list[pathlib.Path]:
    return sorted((pathlib.Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))


def judged(case: Case, threads: int = 1, rounds: int = 3, effort: float = 0.3, timeout: float = 600) -> dict:
    """The verdict of zoo_judge.py on the case, by a process of its own."""
    import zoo_judge

    written = folder() / f"{case.name}.{os.getpid()}.case.npz"
    zoo_judge.write_case(written, case.path, case.sizes, case.feeds, case.exact, threads=threads, rounds=rounds,
                         effort=effort, tolerance=case.tolerance)
    command = [sys.executable, str(pathlib.Path(__file__).parent / "zoo_judge.py"), str(written)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        return {"status": "wrong", "reason": f"no answer within {timeout:g} s"}
    finally:
        written.unlink()
    lines = result.stdout.splitlines()
    if result.returncode != 0 or not lines:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return {"status": "wrong", "reason": f"the process ended with {result.returncode}: {last[:300]}"}
    return json.loads(lines[-1])
