"""The Python package without PyTorch: its declarations are those of the headers, model files are planned, errors are exceptions
with the line of the command line, Ctrl-C gives the best plan so far, entries of the cache that do not hold are made anew."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib

import pytest
from lowtide_cli import MODELS, ROOT, program, run

import lowtide
from lowtide import _library, cache, plans, searches

TEXT = """graph "small" "by hand"
given "x" f32 [64, 64] input fed
op "Opaque" "a" "" forward v0
  attr "op" word "mylib::a"
  attr "seconds" real 0.001
  out "y" f32 [64, 64] activation own
op "Opaque" "b" "" forward v1
  attr "op" word "mylib::b"
  attr "in_place" list [0, 0]
  out "z" f32 [64, 64] activation own output
"""


@pytest.fixture(autouse=True)
def _library_is_built():
    program()


def declared(header):
    """Functions of a header: name -> number of arguments."""
    text = re.sub(r"//.*", "", (ROOT / f"include/lowtide/{header}.h").read_text())
    found = re.findall(r"LOWTIDE_API\s+[^(;]*?\b(lowtide_\w+)\(([^)]*)\)", text)
    return {name: 0 if arguments.strip() in ("", "void") else arguments.count(",") + 1 for name, arguments in found}


def test_declarations_are_those_of_the_headers():
    functions = {**declared("lowtide"), **declared("steps"), **declared("lending")}
    for name, (_, arguments) in _library.DECLARATIONS.items():
        assert functions[name] == len(arguments), name


def test_structures_are_laid_out_as_in_the_headers(tmp_path):
    names = {"lowtide_step": _library.Step, "lowtide_placement": _library.Placement, "lowtide_progress": _library.Progress,
             "lowtide_plan_op_info": _library.OpInfo, "lowtide_plan_value_info": _library.ValueInfo,
             "lowtide_plan_storage_info": _library.StorageInfo, "lowtide_value": _library.Value,
             "lowtide_update": _library.Update}
    lines = ['#include <stddef.h>', '#include <stdio.h>', '#include "lowtide/steps.h"', '#include "lowtide/lending.h"', "int main(void) {"]
    for name, kind in names.items():
        lines.append(f'  printf("%zu\\n", sizeof({name}));')
        lines += [f'  printf("%zu\\n", offsetof({name}, {field}));' for field, _ in kind._fields_]
    (tmp_path / "sizes.c").write_text("\n".join([*lines, "}"]))
    subprocess.run(["cc", f"-I{ROOT}/include", tmp_path / "sizes.c", "-o", tmp_path / "sizes"], check=True)
    printed = [int(word) for word in subprocess.run([tmp_path / "sizes"], capture_output=True, check=True).stdout.split()]
    wanted = []
    for kind in names.values():
        wanted += [_library.ctypes.sizeof(kind), *(getattr(kind, field).offset for field, _ in kind._fields_)]
    assert printed == wanted


def test_a_model_file_is_planned_without_torch(tmp_path):
    code = (f"import lowtide, sys; p = lowtide.plan({str(MODELS / 'resnet50.onnx')!r}, dims={{'batch': 1}}); "
            f"p.save({str(tmp_path / 'p.lt')!r}); print(p.arena_bytes); assert 'torch' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stderr
    loaded = lowtide.Plan.load(tmp_path / "p.lt")
    assert loaded.arena_bytes == int(done.stdout) and loaded.lower_bound_bytes <= loaded.peak_bytes
    assert run("verify", tmp_path / "p.lt").returncode == 0


def test_the_wheel_is_compiled_as_the_release_is():
    """So that a wheel that is made in the release's folder (scripts/test) compiles nothing anew."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    release = next(preset for preset in presets if preset["name"] == "release")["cacheVariables"]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    of_wheel = wheel["cmake"]["define"] | {"CMAKE_BUILD_TYPE": wheel["cmake"]["build-type"]}
    assert {name: of_wheel.get(name) for name in release} == release


def test_an_opaque_op_takes_the_place_of_what_dies():
    plan = plans.plan_text(TEXT, "small", {})
    assert plan.peak_bytes == 2 * 64 * 64 * 4  # x stays, y becomes z
    assert [reused for step in plan.steps() for _, _, reused in step.makes if reused >= 0] != []


@pytest.mark.parametrize(("kind", "status", "call"), [
    (lowtide.BadInput, 4, lambda: lowtide.plan("no-such-file.onnx")),
    (lowtide.Usage, 2, lambda: plans.plan_text(TEXT, "small", {"bugdet": 1})),
    (lowtide.Infeasible, 3, lambda: plans.plan_text(TEXT, "small", {"budget_bytes": 100})),
    (lowtide.BadInput, 4, lambda: plans.plan_text(TEXT.replace("v1", "v7"), "small", {})),
])
def test_errors_are_exceptions_with_the_line(kind, status, call):
    with pytest.raises(kind) as problem:
        call()
    assert problem.value.status == status and "\n" not in str(problem.value) and str(problem.value)
    assert isinstance(problem.value, lowtide.Error)


def test_the_line_is_that_of_the_program():
    with pytest.raises(lowtide.BadInput) as problem:
        lowtide.plan("no-such-file.onnx")
    assert str(problem.value) in run("plan", "no-such-file.onnx").stderr


def test_ctrl_c_gives_the_best_plan_so_far():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    try:
        threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        plan = lowtide.plan(MODELS / "resnet50.onnx", train=True, dims={"batch": 8}, budget="60%", effort=1000, threads=1,
                            time_limit_seconds=200)
    finally:
        signal.signal(signal.SIGINT, before)
    assert plan.cut_short and plan.arena_bytes > 0 and time.monotonic() - began < 150


def test_a_long_search_is_seen_on_a_terminal_only(capsys):
    plans.plan_text(TEXT, "small", {})
    assert capsys.readouterr().err == ""
    line = searches._Line(True)
    line.began -= 2
    now = _library.Progress(budget_bytes=1, seconds=0.5, share=0.25, lower_bound_seconds=0.4, stage=b"runs")
    line.update(now)
    assert "lowtide: runs  25 %, best 0.5 s (bound 0.4 s)" in capsys.readouterr().err


def test_a_damaged_entry_of_the_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    name, plan = cache.key("a"), plans.plan_text(TEXT, "small", {})
    assert cache.load(name) is None
    cache.store(name, plan, {"graph": "g"})
    assert cache.load(name)[0].arena_bytes == plan.arena_bytes and cache.load(name)[1] == {"graph": "g"}
    path = tmp_path / "plans" / name / "plan.lt"
    whole = path.read_bytes()
    for damaged in (whole[:-20], whole.replace(b"64", b"32", 1), b""):
        path.write_bytes(damaged)
        assert cache.load(name) is None
    other = cache.key("b")
    (tmp_path / "plans" / name).rename(tmp_path / "plans" / other)
    path = tmp_path / "plans" / other / "plan.lt"
    path.write_bytes(whole)
    assert cache.load(other) is None, "an entry of something else"
    cache.store_rows(name, [[1, 2.5, "x"]])
    assert cache.load_rows(name) == [[1, 2.5, "x"]]
    (tmp_path / "measured" / f"{name}.json").write_text("{}")
    assert cache.load_rows(name) is None


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("LOWTIDE_LIBRARY", "/nowhere/liblowtide.so")
    _library.library.cache_clear()
    try:
        with pytest.raises(lowtide.BadInput, match="/nowhere/liblowtide.so cannot be loaded"):
            _library.library()
    finally:
        _library.library.cache_clear()
