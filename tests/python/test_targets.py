"""bench/targets.py: made-up figures of benchmarks come out as met, missed or not measured, and the exit code says so."""

import dataclasses
import json
import math
import os
import pathlib
import shlex
import subprocess
import sys

import pytest
from forks import Done
from lowtide_cli import ROOT
from test_bench import GOOD_BUDGET_PLAN, GOOD_RUN, TIER, judged, made_program, script

pytest.importorskip("onnx")  # which names networks
sys.path[:0] = [str(ROOT / "bench/support"), str(ROOT / "models")]

STEP = dict(step="gpt2 1800MiB, all", arena_bytes=1800 * 2**20, planned_bytes=1800 * 2**20, whole_arena_bytes=2500 * 2**20,
            measured_percent=3.3, predicted_percent=1.6, predicted_seconds=0.95, measured_seconds=1.0)
STATES = dict(model="/somewhere/magis_vit.onnx", ratio=0.4, judged=300, forecast=900, seconds=1.0, correlation=0.95,
              correlation_of_search=None)


def steps(*changes: dict, broken: tuple[str, ...] = (), **more) -> dict:
    return dict(benchmark="split_steps", steps=[{**STEP, **change} for change in changes], broken=list(broken), **more)


def ways(*found: dict, **more) -> dict:
    return dict(benchmark="chunked_loss", ways=[dict(dict(head="gpt2", way="linear", our_seconds=1.0, their_seconds=2.0), **one) for one in found],
                **more)


def labels(**changes) -> dict:
    return dict(benchmark="labels", models=[{**STATES, **changes}])


def cell(row: str, ratio: float | None, extra: float | None, **more) -> dict:
    from magis_cells import Cell
    known = dict(seconds=5.0, first_seconds=1.0 if row.startswith("auto") and extra is not None else None, peak_before_bytes=1000,
                 arena_bytes=500, once_seconds=1.0, ops=3)
    split = "auto" if row.startswith("auto") else "1"
    return dataclasses.asdict(Cell(row, split, ratio, **{**known, "extra": extra, **more}))


def magis(workloads: dict[str, list[dict]], cost_model: str = "roofline", least: tuple[float, ...] | None = None, **more) -> dict:
    known = {} if least is None else {"": [0.0, 0.0], "swap": [0.0, 0.0]}  # found again of the cells
    content = {name: {"least": known, "cells": [cell("order only", None, 0.0, arena_bytes=990), *cells]} for name, cells in workloads.items()}
    return dict(effort=1, cost_model=cost_model, ratios=[0.4], figures={}, workloads=content, **more)


def run_targets(*arguments, environment: dict | None = None) -> Done:
    return script(ROOT / "bench/targets.py", *arguments, environment=environment)


def written(tmp_path, *contents: dict) -> list[pathlib.Path]:
    paths = [tmp_path / f"{at}.json" for at in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_text(json.dumps(content))
    return paths


def of_files(tmp_path, *contents: dict, strict: bool = True, complete: bool = False) -> Done:
    return run_targets("--json", *written(tmp_path, *contents), *(["--strict"] if strict else []), *(["--complete"] if complete else []))


def row(result: Done, key: str) -> str:
    """What stands behind a target."""
    (line,) = [line for line in result.stdout.splitlines() if line[2:].startswith(f"{key}  ")]
    return " ".join(line.split(key, 1)[1].split())


def test_every_target_is_one_row_and_has_a_command():
    found = judged("targets", "[[t.key, t.command] for t in judge.targets()]")
    keys = [key for key, _ in found]
    assert len(set(keys)) == len(keys)
    named = judged("targets", "[c.name.split()[0] for c in judge.commands()]")
    assert {command for _, command in found} == set(named)


def test_steps_have_the_names_of_the_benchmark():
    from magis_targets import EXECUTED
    names = judged("split_steps", "[judge.name_of(name, case) for name, _, cases in judge.CASES for case in cases]")
    assert sorted(names) == sorted(EXECUTED)


def test_without_figures_nothing_is_measured(tmp_path):
    result = of_files(tmp_path, labels(model="unknown.onnx"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert row(result, "roofline, +10 %") == "at most 0.16 not measured by roofline"
    assert "0 met, 0 missed" in result.stdout and "MISSED" not in result.stdout
    wanted = judged("targets", "len(judge.targets())")
    result = of_files(tmp_path, labels(model="unknown.onnx"), strict=False, complete=True)
    assert result.returncode == 1 and f"INCOMPLETE  {wanted} targets were not measured" in result.stdout


def test_what_is_met_and_what_is_missed(tmp_path):
    contents = [steps({}, dict(step="gpt2 1800MiB, parts", measured_percent=11.1)), labels()]
    result = of_files(tmp_path, *contents)
    assert result.returncode == 1, result.stderr
    assert row(result, "gpt2 1800MiB, all: extra") == "at most 10.0 % 3.3 % met +1.6 % predicted"
    assert row(result, "gpt2 1800MiB, parts: extra") == "at most 10.0 % 11.1 % MISSED by 1.1 % +1.6 % predicted"
    assert row(result, "gpt2 1800MiB, all: prediction is off by") == "at most 15.0 % 5.0 % met 0.95 of what was measured"
    assert row(result, "vit: states judged with forecasts") == "at least 1,000 a second 1,200 a second met within 0.4"
    assert row(result, "vit: states judged alone") == "at least 1,000 a second 300 a second MISSED by 700 a second within 0.4"
    assert row(result, "bert: states judged alone").endswith("not measured by labels")
    assert row(result, "vit: rank correlation, those that the search keeps").endswith("not measured by labels")
    assert of_files(tmp_path, *contents, strict=False).returncode == 0
    assert of_files(tmp_path, labels(judged=1000)).returncode == 0


@pytest.mark.parametrize("content, key, words", [
    (steps(dict(arena_bytes=1801 * 2**20)), "gpt2 1800MiB, all: arena", "1,801 MiB MISSED by 1 MiB"),
    (steps(dict(arena_bytes=1801 * 2**20)), "gpt2 1800MiB, all: arena beside its plan", "1,048,576 bytes MISSED by 1,048,576 bytes"),
    (steps(dict(predicted_seconds=0.8)), "gpt2 1800MiB, all: prediction is off by", "20.0 % MISSED by 5.0 %"),
    (steps({}, broken=("x: does not verify", "y")), "split_steps: promises broken", "2 MISSED by 2 x: does not verify; 1 more"),
    (ways({}, broken=["an arena"]), "chunked_loss: promises broken", "1 MISSED by 1 an arena"),
    (dict(benchmark="long_sequences", longest_by_layer=1000, lengths={}, broken=["faster than what is proven"]),
     "long_sequences: promises broken", "1 MISSED by 1 faster than what is proven"),
    (magis({"gpt2": []}, "tiles", broken=["gpt2: a bound"]), "tiles: promises broken", "1 MISSED by 1 gpt2: a bound"),
    (labels(judged=99), "vit: states judged with forecasts", "999 a second MISSED by 1 a second"),
    (labels(judged=999), "vit: states judged alone", "999 a second MISSED by 1 a second"),
    (labels(correlation=0.85), "vit: rank correlation, even numbers of parts added", "0.85 MISSED by 0.05 within 0.4"),
    (labels(correlation_of_search=-0.04), "vit: rank correlation, those that the search keeps", "-0.04 MISSED by 0.94 within 0.4"),
    (ways({}, dict(way="hand=4", our_seconds=2.2)), "gpt2: time over PyTorch's", "1.1 MISSED by 0.1 hand=4, the worst of 2 ways"),
    (ways(dict(our_seconds=None)), "gpt2: time over PyTorch's", "no plan MISSED linear"),
    (dict(benchmark="long_sequences", longest_by_layer=1000, lengths={
        "5400": {"by layer": dict(cost=2.0), "in blocks": dict(predicted_step_seconds=2.0)},
        "5600": {"by layer": dict(cost=2.0), "in blocks": dict(predicted_step_seconds=2.1)}, "9000": {"by layer": {}, "in blocks": None}}),
     "as long as by layer, at no more time per token", "5.4 times MISSED by 0.1 times 5,400 tokens for 1,000, at that length"),
    (dict(benchmark="long_sequences", longest_by_layer=1000, lengths={
        "1000": {"by layer": dict(cost=0.5), "in blocks": None},
        "6000": {"by layer": dict(cost=9.0), "in blocks": dict(predicted_step_seconds=6.0)}}),
     "its time per token, over that of the longest by layer", "at most 1 2 MISSED by 1 1 ms at 6,000 tokens, 0.5 ms at 1,000"),
    (magis({"gpt2": [cell("auto", 0.3, 11.0)]}), "gpt2 within 0.3, and by itself", "11.0 % MISSED by 0 %"),
    (magis({"gpt2": [cell("auto", 0.3, None), cell("chen", 0.3, 4.0)]}), "gpt2 within 0.3", "no plan MISSED"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0, first_seconds=3.0)]}), "gpt2: first plan", "3 s MISSED by 1 s 1 plans"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0), cell("auto", 0.2, None, seconds=90.0, is_late=True)]}), "gpt2: last plan",
     "90.0 s MISSED by 30.0 s 1 plans, 1 killed"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0), cell("auto", 0.2, None, seconds=90.0, is_late=True)]}), "gpt2: first plan",
     "90.0 s MISSED by 88.0 s 1 plans, 1 killed"),
    (magis({"gpt2": [cell("auto", 0.2, None, seconds=90.0, is_late=True)]}), "gpt2: last plan", "90.0 s MISSED by 30.0 s 0 plans, 1 killed"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0), cell("n=4, recompute", 0.3, 8.8), cell("chen", 0.3, 1.0)]}),
     "gpt2: slower than with less, or than n=2,3,4,6,8,12,16,32", "0.2 points MISSED by 0.1 points auto at 0.3, n=4, recompute"),
])
def test_each_kind_of_figure(tmp_path, content, key, words):
    result = of_files(tmp_path, content)
    assert result.returncode == 1, result.stdout + result.stderr
    assert words in row(result, key), result.stdout


def test_extra_times_are_compared_to_a_tenth_as_they_are_known(tmp_path):
    result = of_files(tmp_path, magis({"gpt2": [cell("auto", 0.4, 5.549), cell("auto, swap", 0.6, 1.96)]}))
    assert row(result, "gpt2 within 0.4") == "at most 5.5 % 5.5 % met"
    assert row(result, "gpt2 within 0.6") == "at most 1.9 % 2.0 % MISSED by 0.06 %"
    result = of_files(tmp_path, magis({"gpt2": [cell("auto", 0.4, 6.0), cell("auto, swap", 0.4, 5.0), cell("pofo", 0.4, 1.0)]}))
    assert row(result, "gpt2 within 0.4") == "at most 5.5 % 5.0 % met 6.0 % without moves"


def test_a_geometric_mean_needs_all_of_it(tmp_path):
    from magis_published import PROTOTYPE
    from magis_targets import SEVEN
    cells = {name: [cell("auto", None, 4.0, arena_bytes=100 + 10 * at), cell("auto, swap", None, 4.0, arena_bytes=95)]
             for at, name in enumerate(SEVEN)}
    seven = magis(cells, "tiles", least=())
    result = of_files(tmp_path, seven)
    without = math.prod(0.1 + 0.01 * at for at in range(7)) ** (1 / 7)
    assert row(result, "tiles, +5 %") == f"at most 0.24 0.095 met {without:.3f} without moves"
    assert "not measured" in row(result, "roofline, +5 %")
    del seven["workloads"]["vit"]
    assert "not measured" in row(of_files(tmp_path, seven), "tiles, +5 %")

    cells = {name: [cell("auto", ratio, extra - 1) for ratio, extra in known.items()] for name, known in PROTOTYPE.items()}
    ratios = [(99 + extra) / (100 + extra) for known in PROTOTYPE.values() for extra in known.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    result = of_files(tmp_path, magis(cells))
    assert row(result, "step times over the prototype's, geometric mean").startswith(f"below 1 {mean:.3g} met {len(ratios)} cells")
    cells["bert"].pop()
    assert "not measured" in row(of_files(tmp_path, magis(cells)), "step times over the prototype's, geometric mean")


def test_a_later_file_counts(tmp_path):
    result = of_files(tmp_path, labels(judged=0, forecast=10), labels(judged=1000))
    assert result.returncode == 0 and row(result, "vit: states judged alone").startswith("at least 1,000 a second 1,000 a second met")


def test_the_worst_of_all_ratios_counts(tmp_path):
    result = of_files(tmp_path, labels(ratio=0.3, judged=200, correlation=0.97), labels(), labels(ratio=0.2, correlation=None))
    states = "vit: states judged with forecasts"
    assert row(result, states) == "at least 1,000 a second 1,100 a second met within 0.3, the worst of 3 ratios"
    ranks = "vit: rank correlation, even numbers of parts added"
    assert row(result, ranks) == "at least 0.9 0.95 met within 0.4, the worst of 2 ratios"


def test_no_promise_is_broken_only_where_all_of_them_were_looked_at(tmp_path):
    from magis_evidence import Seen, read
    from magis_targets import EXECUTED, SEVEN
    every = [dict(step=name) for name in EXECUTED]
    some = magis({name: [] for name in SEVEN[:3]}, "tiles", broken=[])
    rest = magis({name: [] for name in SEVEN[3:]}, "tiles", broken=[])
    untold = magis({name: [] for name in SEVEN[3:]}, "tiles")
    for contents, key, is_told in (([steps(*every)], "split_steps", True), ([steps(*every[1:])], "split_steps", False),
                                   ([steps(*every, finished=False)], "split_steps", False),
                                   ([ways({}, dict(head="bert"), broken=[])], "chunked_loss", True), ([ways({}, broken=[])], "chunked_loss", False),
                                   ([some, rest], "tiles", True), ([some], "tiles", False), ([some, untold], "tiles", False),
                                   ([some | dict(broken=["x"]), untold, some, rest], "tiles", True)):  # all of its cells are there again
        seen = read(written(tmp_path, *contents)).get(f"{key}: promises broken")
        assert seen == (Seen(0) if is_told else None), contents


def test_files_of_something_else_are_refused(tmp_path):
    from magis_evidence import read
    for content, words in ((dict(benchmark="kernels"), "0.json: no figures of a benchmark"), ([], "0.json: no figures")):
        result = of_files(tmp_path, content)
        assert result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr
    whole = [cell("order only", None, 0.0)]
    unlike = [dict(benchmark="labels"), labels(seconds=0), labels(judged="many"), dict(benchmark=["labels"]), dict(benchmark="labels", models=7),
              steps(dict(measured_percent=None)), ways(dict(their_seconds=0)), ways(dict(our_seconds="1 s")),
              dict(benchmark="long_sequences", longest_by_layer=0, lengths={}), dict(workloads={}), magis({"vit": [dict(row="auto")]}),
              magis({}) | dict(workloads={"vit": dict(cells=whole)}), magis({}) | dict(workloads={"vit": dict(cells=[], least={"": [0.1, 0.1]})})]
    for content in unlike:
        with pytest.raises(ValueError, match="1.json: .*figures"):
            read(written(tmp_path, labels(), content))
    result = of_files(tmp_path, labels(seconds=0))
    assert result.returncode == 2 and "0.json: figures are not as the benchmark writes them (ZeroDivisionError" in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    (tmp_path / "cut.json").write_text('{"benchmark": ')
    result = run_targets("--json", tmp_path / "cut.json", tmp_path / "none.json")
    assert result.returncode == 2 and "cut.json: Expecting value" in result.stderr
    refused = run_targets("--json", tmp_path / "cut.json", "--only", "labels")
    assert refused.returncode == 2 and "--only and --again have no use" in refused.stderr
    refused = run_targets("--only", "label")
    assert refused.returncode == 2 and "nothing that measures is called label" in refused.stderr


def test_what_measures_runs_once(tmp_path):
    """The benchmark of steps against a program that answers what it wants; then its figures are there."""
    plan = {**GOOD_BUDGET_PLAN, "arena_bytes": 400 * 2**20, "budget_bytes": 400 * 2**20, "split": "1",
            "actions": dict(reruns=1, stores=0)}
    ran = {**GOOD_RUN, "processor_seconds": 1.0, "unplanned_processor_seconds": 0.9}
    made_program(tmp_path / "tools/lowtide", {"calibrate": (0, dict(writes=dict(slow_tiers=[TIER]))), "measure": (0, {}),
                                              "plan": (0, plan), "verify": (0, {}), "run": (0, ran)})
    environment = {"LOWTIDE_BUILD_DIR": str(tmp_path)}
    result = run_targets("--folder", tmp_path / "figures", "--only", "split_steps", "--strict", environment=environment)
    assert result.returncode == 1, result.stdout + result.stderr
    assert row(result, "gpt2 1800MiB, all: extra") == "at most 10.0 % 11.1 % MISSED by 1.1 % +2.0 % predicted"
    assert row(result, "split_steps: promises broken") == "at most 0 0 met"
    assert "INCOMPLETE" not in result.stdout  # only some was asked for
    assert row(result, "unet 20%, all: share") == "at most 0.2 1 MISSED by 0.8"
    again = run_targets("--folder", tmp_path / "figures", "--only", "split_steps", environment=environment)
    assert again.returncode == 0 and "== split_steps" not in again.stdout
    assert again.stdout == result.stdout[result.stdout.index("target  "):]
    missing = run_targets("--folder", tmp_path / "figures", "--only", "labels vit", environment=environment)
    assert missing.returncode == 1 and "BROKEN  labels vit 0.4: [Errno 2] No such file" in missing.stdout


@pytest.mark.parametrize("code, content, words", [
    (0, {}, ""), (1, dict(finished=True), ""), (1, {}, ""), (3, {}, "exit code 3"), (1, dict(finished=False), "exit code 1, broke off; "),
    (1, None, "exit code 1, left no figures"), ("kill -9 $$", {}, "exit code -9")])
def test_a_run_counts_only_if_it_got_to_its_end(tmp_path, code, content, words):
    figures = {} if content is None else labels(judged=1000) | content
    end = code if isinstance(code, str) else f"exit {code}"
    made = tmp_path / "bench/bench_labels"
    made.parent.mkdir()
    for_file = "" if content is None else f"for file; do :; done; printf %s {shlex.quote(json.dumps(figures))} > \"$file\"; "
    made.write_text(f"#!/bin/sh\n{for_file}{end}\n")
    made.chmod(0o755)
    folder = tmp_path / "figures"
    result = run_targets("--folder", folder, "--only", "labels vit 0.2", environment={"LOWTIDE_BUILD_DIR": str(tmp_path)})
    broken = [line for line in result.stdout.splitlines() if line.startswith("BROKEN")]
    assert result.returncode == bool(words) and len(broken) == bool(words), result.stdout + result.stderr
    assert not words or broken[0].startswith(f"BROKEN  labels vit 0.2: {words}"), broken
    left = [] if content is None else ["labels_vit_0.2.json.part" if words else "labels_vit_0.2.json"]
    assert [file.name for file in folder.iterdir()] == left
    assert ("not measured" in row(result, "vit: states judged alone")) == bool(words)


def test_all_that_runs_has_to_be_measured(tmp_path):
    for name in judged("targets", "[c.file(judge.ROOT).name for c in judge.commands()]"):
        (tmp_path / name).write_text(json.dumps(labels(judged=1000)))  # nothing runs
    result = run_targets("--folder", tmp_path, "--strict")
    assert result.returncode == 1 and "INCOMPLETE" in result.stdout and "==" not in result.stdout and "MISSED" not in result.stdout
    assert run_targets("--folder", tmp_path).returncode == 0


@pytest.mark.parametrize("cost_model, code, words", [
    ("tiles", 0, "not measured: bench_labels plans by the roofline, not by --cost-model tiles"),
    ("roofline", 4, "not measured: bench_labels --levels 2 left no figures within 0.8")])
def test_figures_of_programs_that_fail(tmp_path, cost_model, code, words):
    made_program(tmp_path / "tools/lowtide", {"plan": (0, {})})
    made = tmp_path / "bench/bench_labels"
    made.parent.mkdir()
    made.write_text(f"#!/bin/sh\necho first >&2\necho 'no such model' >&2\nexit {code}\n")
    made.chmod(0o755)
    call = ("import json, sys; sys.path[:0] = sys.argv[1:]; import magis_figures as f; broken = []; "
            f"found = f.measure([13, 15], ['bert', 'vit'], [], (10, 5), f.Settings(1, 1, '{cost_model}'), broken); "
            "f.print_all([13], {}, found, (10, 5), {}); print(json.dumps(broken))")
    result = subprocess.run([sys.executable, "-c", call, str(ROOT / "bench/support"), str(ROOT / "models")], capture_output=True, text=True,
                            timeout=60, env={**os.environ, "LOWTIDE_BUILD_DIR": str(tmp_path)})
    assert result.returncode == 0 and words in result.stdout.splitlines(), result.stdout + result.stderr
    broken = json.loads(result.stdout.splitlines()[-1])
    assert len(broken) == (3 if code else 0) and all("exit code 4, no such model" in line for line in (broken[0:1] + broken[2:])), broken


def test_figures_of_chunked_losses_are_what_the_table_reads(tmp_path):
    """PyTorch's ways and the program are made up."""
    plan = {**GOOD_BUDGET_PLAN, "split": "2"}
    made_program(tmp_path / "tools/lowtide", {"calibrate": (0, dict(writes=dict(slow_tiers=[TIER]))), "plan": (0, plan),
                                              "run": (0, {**GOOD_RUN, "step_seconds": 1.5})})
    code = ("import sys; sys.path[:0] = sys.argv.pop(1).split(); import chunked_loss; "
            f"chunked_loss.in_pytorch = lambda name, way, arguments: dict(total_bytes={400 * 2**20}, step_seconds=2.0 if way == 'eager' else 1.4); "
            "sys.exit(chunked_loss.main())")
    folders = f"{ROOT / 'bench'} {ROOT / 'bench/support'}"
    result = subprocess.run([sys.executable, "-c", code, folders, "--only", "bert", "--json", str(tmp_path / "ways.json")],
                            capture_output=True, text=True, timeout=120, env={**os.environ, "LOWTIDE_BUILD_DIR": str(tmp_path)})
    assert result.returncode == 0, result.stdout + result.stderr
    ways = {line.split()[1]: line.split()[-2] for line in result.stdout.splitlines() if line.startswith("bert ")}
    assert len(ways) == 11 and (ways["eager"], ways["linear"]) == ("0.75", "1.07")
    seen = run_targets("--json", tmp_path / "ways.json", "--strict")
    assert seen.returncode == 1 and "1.07 MISSED by 0.0714 linear=64, the worst of 11 ways" in row(seen, "bert: time over PyTorch's"), seen.stdout
