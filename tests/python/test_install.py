"""A program outside the tree, built against an installed copy of the library, plans and runs a training step."""

import os
import shutil
import subprocess

import pytest
from lowtide_cli import MODELS, ROOT, program


def call(*command, **more) -> subprocess.CompletedProcess:
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900, **more)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    build = program().parents[1]
    folder = tmp_path_factory.mktemp("installed")
    call("cmake", "--install", build, "--prefix", folder)
    return folder


def test_example_builds_and_trains_with_the_installed_library(prefix, tmp_path):
    call("cmake", "-S", ROOT / "examples/train_step", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    call("cmake", "--build", tmp_path)
    result = call(tmp_path / "train_step", MODELS / "resnet50.onnx", "batch=1")
    assert "peak" in result.stdout and "loss" in result.stdout


def test_pkg_config_finds_the_installed_library(prefix, tmp_path):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folders = [str(path.parent) for path in prefix.rglob("lowtide.pc")]
    assert len(folders) == 1
    environment = {**os.environ, "PKG_CONFIG_PATH": folders[0]}
    flags = call("pkg-config", "--cflags", "--libs", "lowtide", env=environment).stdout.split()
    source = tmp_path / "version.cpp"
    source.write_text('#include <cstdio>\n#include "lowtide/api.h"\n'
                      'int main() { std::puts(lowtide::version().data()); }\n')
    library = next(path for path in prefix.rglob("liblowtide.so"))
    call("g++", "-std=c++20", source, "-o", tmp_path / "version", *flags, f"-Wl,-rpath,{library.parent}")
    assert call(tmp_path / "version").stdout.strip() == "0.1.0"


def test_the_installed_program_runs(prefix):
    result = call(prefix / "bin/lowtide", "inspect", MODELS / "unet.onnx")
    assert "Conv" in result.stdout
