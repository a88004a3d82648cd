"""A program outside the tree, built against an installed copy of the library, plans and runs a training step."""

import os
import re
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


@pytest.fixture(scope="module")
def flags(prefix) -> list[str]:
    """What pkg-config says, and where the library is found at run time."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folders = [str(path.parent) for path in prefix.rglob("lowtide.pc")]
    assert len(folders) == 1
    environment = {**os.environ, "PKG_CONFIG_PATH": folders[0]}
    found = call("pkg-config", "--cflags", "--libs", "lowtide", env=environment).stdout.split()
    library = next(path for path in prefix.rglob("liblowtide.so"))
    return [*found, f"-Wl,-rpath,{library.parent}"]


def test_pkg_config_finds_the_installed_library(flags, tmp_path):
    source = tmp_path / "version.cpp"
    source.write_text('#include <cstdio>\n#include "lowtide/api.h"\n'
                      'int main() { std::puts(lowtide::version().data()); }\n')
    call("g++", "-std=c++20", source, "-o", tmp_path / "version", *flags)
    assert call(tmp_path / "version").stdout.strip() == "0.1.0"


def test_a_c11_program_trains_through_the_c_abi(flags, tmp_path):
    program_file = tmp_path / "train_step"
    call("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror",
         ROOT / "tests/install/train_step.c", "-o", program_file, *flags)
    result = call(program_file, MODELS / "resnet50.onnx", tmp_path / "plan.lt")
    assert "loss" in result.stdout and result.stdout.endswith("lowtide 0.1.0\n")


def test_only_marked_symbols_leave_the_library(prefix):
    library = next(path for path in prefix.rglob("liblowtide.so"))
    names = [line.split()[-1] for line in call("nm", "-D", "--defined-only", library).stdout.splitlines()]
    headers = "".join((ROOT / f"include/lowtide/{name}.h").read_text() for name in ("lowtide", "steps", "lending"))
    declared = set(re.findall(r"^LOWTIDE_API [^(]*\b(lowtide_\w+)\(", headers, re.MULTILINE))
    assert {name for name in names if name.startswith("lowtide_")} == declared


def test_the_installed_program_runs(prefix):
    result = call(prefix / "bin/lowtide", "inspect", MODELS / "unet.onnx")
    assert "Conv" in result.stdout
