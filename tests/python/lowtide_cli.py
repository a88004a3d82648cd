"""Calls the lowtide program that the tests were built with."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MODELS = ROOT / "models"


def program() -> pathlib.Path:
    folder = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
    path = folder / "tools/lowtide"
    if not path.exists():
        pytest.skip(f"there is no {path}; build first")
    return path


def narrow_unet(path: pathlib.Path, part: int = 8, side: int = 32) -> pathlib.Path:
    """models/unet.onnx with a part of its channels, on images of `side` x `side`: the same ops, by default in milliseconds."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(MODELS / "unet.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.dims[:] = [dim // part if dim >= 64 else dim for dim in tensor.dims]
        for entry in [entry for entry in tensor.external_data if entry.key in ("offset", "length")]:
            tensor.external_data.remove(entry)
    for info in model.graph.value_info:
        info.type.tensor_type.ClearField("shape")
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = side
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    path.write_bytes(model.SerializeToString())
    return path


def tiny_transformer(folder: pathlib.Path) -> list:
    """A transformer of two layers, written to the folder: its file and what is planned of it."""
    pytest.importorskip("onnx")
    import magis_networks
    return [magis_networks.write("magis_tiny", folder), "--train", "--loss", "mse", "--optimizer", "sgd",
            "--dim", "batch=16", "--dim", "seq=64", "--device", "cpu", "--threads", "1"]


def run(*arguments, timeout: float = 600) -> subprocess.CompletedProcess:
    command = [str(program()), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def run_json(*arguments, timeout: float = 600) -> dict:
    result = run(*arguments, "--json", timeout=timeout)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def expect_error(code: int, *words: str, arguments) -> str:
    """The program fails with this exit code and one line that has all the words in it; nothing on stdout."""
    result = run(*arguments)
    assert result.returncode == code, (result.returncode, result.stderr)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0], lines[0]
    assert result.stdout == ""
    return lines[0]
