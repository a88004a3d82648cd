"""bench/targets.py: made-up figures of benchmarks come out as met, missed or not measured, and the exit code says so."""

import dataclasses
import json
import math
import os
import subprocess
import sys

import pytest
from lowtide_cli import ROOT
from test_bench import GOOD_BUDGET_PLAN, GOOD_RUN, TIER, judged, made_program

pytest.importorskip("onnx")  # which names networks
sys.path[:0] = [str(ROOT / "bench/support"), str(ROOT / "models")]

STEP = dict(step="gpt2 1800MiB, all", arena_bytes=1800 * 2**20, planned_bytes=1800 * 2**20, whole_arena_bytes=2500 * 2**20,
            measured_percent=3.3, predicted_percent=1.6, predicted_seconds=0.95, measured_seconds=1.0)
STATES = dict(model="/somewhere/magis_vit.onnx", ratio=0.4, judged=300, forecast=900, seconds=1.0, correlation=0.95,
              correlation_of_search=None)


def steps(*changes: dict, broken: tuple[str, ...] = ()) -> dict:
    return dict(benchmark="split_steps", steps=[{**STEP, **change} for change in changes], broken=list(broken))


def labels(**changes) -> dict:
    return dict(benchmark="labels", models=[{**STATES, **changes}])


def cell(row: str, ratio: float | None, extra: float | None, **more) -> dict:
    from magis_cells import Cell
    known = dict(seconds=5.0, first_seconds=1.0 if row.startswith("auto") and extra is not None else None, peak_before_bytes=1000,
                 arena_bytes=500, once_seconds=1.0, ops=3)
    split = "auto" if row.startswith("auto") else "1"
    return dataclasses.asdict(Cell(row, split, ratio, **{**known, "extra": extra, **more}))


def magis(workloads: dict[str, list[dict]], cost_model: str = "roofline", least: tuple[float, ...] | None = None) -> dict:
    known = {} if least is None else {"": [0.0, 0.0], "swap": [0.0, 0.0]}  # found again of the cells
    content = {name: {"least": known, "cells": [cell("order only", None, 0.0, arena_bytes=990), *cells]} for name, cells in workloads.items()}
    return dict(effort=1, cost_model=cost_model, ratios=[0.4], figures={}, workloads=content)


def run_targets(*arguments, environment: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(ROOT / "bench/targets.py"), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})})


def of_files(tmp_path, *contents: dict, strict: bool = True) -> subprocess.CompletedProcess:
    paths = [tmp_path / f"{at}.json" for at in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_text(json.dumps(content))
    return run_targets("--json", *paths, *(["--strict"] if strict else []))


def row(result: subprocess.CompletedProcess, key: str) -> str:
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


def test_what_is_met_and_what_is_missed(tmp_path):
    contents = [steps({}, dict(step="gpt2 1800MiB, parts", measured_percent=11.1)), labels()]
    result = of_files(tmp_path, *contents)
    assert result.returncode == 1, result.stderr
    assert row(result, "gpt2 1800MiB, all: extra") == "at most 10.0 % 3.3 % met +1.6 % predicted"
    assert row(result, "gpt2 1800MiB, parts: extra") == "at most 10.0 % 11.1 % MISSED by 1.1 % +1.6 % predicted"
    assert row(result, "gpt2 1800MiB, all: prediction is off by") == "at most 15.0 % 5.0 % met 0.95 of what was measured"
    assert row(result, "vit: states evaluated") == "at least 1,000 a second 1,200 a second met within 0.4"
    assert row(result, "bert: states evaluated").endswith("not measured by labels")
    assert of_files(tmp_path, *contents, strict=False).returncode == 0
    assert of_files(tmp_path, labels()).returncode == 0


@pytest.mark.parametrize("content, key, words", [
    (steps(dict(arena_bytes=1801 * 2**20)), "gpt2 1800MiB, all: arena", "1,801 MiB MISSED by 1 MiB"),
    (steps(dict(arena_bytes=1801 * 2**20)), "gpt2 1800MiB, all: arena beside its plan", "1,048,576 bytes MISSED by 1,048,576 bytes"),
    (steps(dict(predicted_seconds=0.8)), "gpt2 1800MiB, all: prediction is off by", "20.0 % MISSED by 5.0 %"),
    (steps({}, broken=("x: does not verify",)), "promises broken", "1 MISSED by 1 x: does not verify"),
    (labels(judged=99), "vit: states evaluated", "999 a second MISSED by 1 a second"),
    (labels(correlation=0.85, correlation_of_search=-0.04), "vit: rank correlation", "0.85 MISSED by 0.05 within 0.4; -0.04 of those"),
    (dict(benchmark="chunked_loss", ways=[dict(head="gpt2", way="linear", our_seconds=1.0, their_seconds=2.0),
                                          dict(head="gpt2", way="hand=4", our_seconds=2.2, their_seconds=2.0)]),
     "gpt2: time over PyTorch's", "1.1 MISSED by 0.1 hand=4, the worst of 2 ways"),
    (dict(benchmark="chunked_loss", ways=[dict(head="gpt2", way="linear", our_seconds=None, their_seconds=2.0)]),
     "gpt2: time over PyTorch's", "no plan MISSED linear"),
    (dict(benchmark="long_sequences", longest_by_layer=1000, lengths={
        "5400": {"by layer": dict(cost=2.0), "in blocks": dict(predicted_step_seconds=2.0)},
        "5600": {"by layer": dict(cost=2.0), "in blocks": dict(predicted_step_seconds=2.1)}, "9000": {"by layer": {}, "in blocks": None}}),
     "as long as by layer, at no more time per token", "5.4 times MISSED by 0.1 times 5,400 tokens for 1,000"),
    (magis({"gpt2": [cell("auto", 0.3, 11.0)]}), "gpt2 within 0.3, and by itself", "11.0 % MISSED by 0 %"),
    (magis({"gpt2": [cell("auto", 0.3, None), cell("chen", 0.3, 4.0)]}), "gpt2 within 0.3", "no plan MISSED"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0, first_seconds=3.0)]}), "gpt2: first plan", "3 s MISSED by 1 s 1 plans"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0), cell("auto", 0.2, None, seconds=90.0, is_late=True)]}), "gpt2: last plan",
     "90.0 s MISSED by 30.0 s 1 plans, 1 killed"),
    (magis({"gpt2": [cell("auto", 0.3, 9.0), cell("n=4, recompute", 0.3, 8.8), cell("chen", 0.3, 1.0)]}),
     "gpt2: slower than with less", "0.2 points MISSED by 0.1 points auto at 0.3, n=4, recompute"),
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
    result = of_files(tmp_path, labels(judged=0, forecast=10), labels())
    assert result.returncode == 0 and row(result, "vit: states evaluated").startswith("at least 1,000 a second 1,200 a second met")


def test_the_worst_of_all_ratios_counts(tmp_path):
    result = of_files(tmp_path, labels(ratio=0.3, judged=200, correlation=0.97), labels())
    assert row(result, "vit: states evaluated") == "at least 1,000 a second 1,100 a second met within 0.3, the worst of 2 ratios"
    assert row(result, "vit: rank correlation") == "at least 0.9 0.95 met within 0.4, the worst of 2 ratios"


def test_files_of_something_else_are_refused(tmp_path):
    for content, words in ((dict(benchmark="kernels"), "0.json: no figures of a benchmark"), ([], "0.json: no figures")):
        result = of_files(tmp_path, content)
        assert result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr
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
    assert row(result, "promises broken") == "at most 0 0 met"
    assert row(result, "unet 20%, all: share") == "at most 0.2 1 MISSED by 0.8"
    again = run_targets("--folder", tmp_path / "figures", "--only", "split_steps", environment=environment)
    assert again.returncode == 0 and "== split_steps" not in again.stdout
    assert again.stdout == result.stdout[result.stdout.index("target  "):]
    missing = run_targets("--folder", tmp_path / "figures", "--only", "labels vit", environment=environment)
    assert missing.returncode == 1 and "BROKEN  labels vit 0.4: left no figures" in missing.stdout


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
