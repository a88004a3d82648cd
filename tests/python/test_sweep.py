"""`lowtide sweep` as a user meets it: the front, the files it leaves, and what bad input gets."""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import xml.etree.ElementTree
import zlib

import pytest
from lowtide_cli import MODELS, expect_error, program, run, run_json

UNET = [MODELS / "unet.onnx", "--train", "--dim", "batch=1", "--effort", "0.2"]
POINT_KEYS = [
    "budget_bytes", "status", "found", "arena_bytes", "peak_bytes", "predicted_step_seconds", "lower_bound_seconds",
    "extra_percent", "lower_bound_extra_percent", "gap_percent", "reruns", "stored_bytes", "loaded_bytes",
    "exposed_seconds", "split", "knee", "chosen", "reason", "model", "dims",
]
SWEEPS = {
    "recompute": ["--budgets", "30%..100%:6"],
    "swap": ["--budgets", "60%..100%:4", "--no-recompute", "--swap", "host", "--link", "8GiB/s"],
    "both": ["--budgets", "floor..100%:5", "--swap", "host", "--link", "2GiB/s"],
}


@pytest.fixture(scope="session", params=SWEEPS)
def sweep(request, tmp_path_factory) -> pathlib.Path:
    """The prefix of a sweep's files."""
    prefix = tmp_path_factory.mktemp("sweep") / request.param
    result = run("sweep", *UNET, *SWEEPS[request.param], "--plans", "-o", prefix)
    assert result.returncode == 0, result.stderr
    assert pathlib.Path(f"{prefix}.txt").read_text() == result.stdout
    return prefix


def points_of(prefix: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in pathlib.Path(f"{prefix}.jsonl").read_text().splitlines()]


def test_the_front_is_monotone_and_above_its_bound(sweep):
    points = points_of(sweep)
    assert len(points) >= 3
    budgets = [point["budget_bytes"] for point in points]
    assert budgets == sorted(budgets, reverse=True) and len(set(budgets)) == len(budgets)
    found = [point for point in points if point["found"]]
    assert len(found) >= 3
    for point in found:
        assert point["peak_bytes"] <= point["arena_bytes"] <= point["budget_bytes"]
        assert point["lower_bound_seconds"] <= point["predicted_step_seconds"]
        assert point["gap_percent"] == pytest.approx(
            100 * (point["predicted_step_seconds"] / point["lower_bound_seconds"] - 1), abs=1e-6)
        assert point["reason"] is None
    for more, less in zip(found, found[1:]):
        assert less["arena_bytes"] <= more["arena_bytes"]
        assert less["predicted_step_seconds"] >= more["predicted_step_seconds"]
        assert less["lower_bound_seconds"] >= more["lower_bound_seconds"]
    assert found[0]["extra_percent"] == 0 and found[0]["status"] == "optimal"
    assert found[-1]["extra_percent"] > 0


def test_a_line_has_every_key_in_the_same_order(sweep):
    for point in points_of(sweep):
        assert list(point) == POINT_KEYS
        if not point["found"]:
            assert point["status"] in ("infeasible", "limit") and point["reason"]
            assert point["arena_bytes"] is point["predicted_step_seconds"] is None


def test_every_plan_is_there_and_verifies(sweep):
    points = [point for point in points_of(sweep) if point["found"]]
    plans = {int(path.stem.rsplit("-", 1)[1]) for path in sweep.parent.glob(f"{sweep.name}-*.lt")}
    assert plans == {point["budget_bytes"] for point in points}
    for point in points:
        report = run_json("verify", f"{sweep}-{point['budget_bytes']}.lt")
        assert report["ok"]
        assert report["arena_bytes"] == point["arena_bytes"]
        assert report["peak_bytes"] == point["peak_bytes"]


def test_the_chosen_plan_is_the_knee(sweep):
    chosen = [point for point in points_of(sweep) if point["chosen"]]
    assert len(chosen) == 1
    knees = [point for point in points_of(sweep) if point["knee"]]
    assert knees in ([], chosen)
    plan = pathlib.Path(f"{sweep}.lt").read_bytes()
    assert plan == pathlib.Path(f"{sweep}-{chosen[0]['budget_bytes']}.lt").read_bytes()


def test_the_pictures_are_whole(sweep):
    root = xml.etree.ElementTree.parse(f"{sweep}.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert [root.get("width"), root.get("height")] == ["820pt", "520pt"]
    contents = pathlib.Path(f"{sweep}.png").read_bytes()
    assert contents[:8] == b"\x89PNG\r\n\x1a\n"
    at, pixels, size = 8, b"", None
    while at < len(contents):
        length, kind = struct.unpack(">I4s", contents[at : at + 8])
        body = contents[at + 8 : at + 8 + length]
        assert struct.unpack(">I", contents[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        if kind == b"IDAT":
            pixels += body
        at += 12 + length
    assert size == (1640, 1040)
    assert len(set(zlib.decompress(pixels))) > 20


def test_nothing_else_is_left(sweep):
    names = {re.sub(r"-\d+\.lt$", "-N.lt", path.name) for path in sweep.parent.iterdir()}
    assert names == {sweep.name + end for end in (".txt", ".jsonl", ".svg", ".png", ".lt", "-N.lt")}


def test_a_swept_plan_runs_bit_for_bit(sweep):
    if "LOWTIDE_LONG" not in os.environ:
        pytest.skip("a long check (LOWTIDE_LONG); test_budgets runs the plans of smaller fronts")
    least = [point for point in points_of(sweep) if point["found"]][-1]
    report = run_json("run", f"{sweep}-{least['budget_bytes']}.lt", "--steps", "1", "--compare")
    assert report["values_different"] == 0
    assert report["arena_measured_bytes"] == report["arena_planned_bytes"] == least["arena_bytes"]


def test_json_tells_the_whole_front_and_chooses_as_told(tmp_path):
    front = run_json("sweep", *UNET, "--budgets", "80%..100%:3,1MiB", "--choose", "85%", "-o", tmp_path / "s")
    assert len(front["points"]) == 5
    chosen = front["points"][front["chosen"]]
    assert chosen["budget_bytes"] == int(0.85 * front["unlimited_bytes"]) and chosen["chosen"]
    assert front["floor_bytes"] < front["unlimited_bytes"] <= front["peak_before_bytes"]
    refused = front["points"][-1]
    assert refused["budget_bytes"] == 1 << 20 and refused["status"] == "infeasible"
    assert str(front["floor_bytes"]) in refused["reason"]
    of = {"model": front["model"], "dims": front["dims"]}
    assert [point | of for point in front["points"]] == points_of(tmp_path / "s")
    assert not list(tmp_path.glob("s-*.lt"))


def test_the_same_sweep_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        assert run("sweep", *UNET, "--budgets", "70%..100%:3", "-o", tmp_path / name).returncode == 0
    for end in (".jsonl", ".svg", ".png", ".lt"):
        assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / f"b{end}").read_bytes(), end


def test_a_range_below_the_floor_spends_one_budget_there():
    front = run_json("sweep", *UNET, "--budgets", "1MiB..100%:4")
    below = [point for point in front["points"] if point["budget_bytes"] < front["floor_bytes"]]
    assert [point["budget_bytes"] for point in below] == [1 << 20]
    assert len(front["points"]) == 4


@pytest.mark.parametrize("flags, code, words", [
    (["--budgets", "600MiBB..1GiB"], 2, ["--budgets", "600MiBB", "MiB", "60%"]),
    (["--budgets", "40%..1GiG"], 2, ["--budgets", "1GiG", "GiB"]),
    (["--budgets", "100%..40%"], 2, ["--budgets", "100%..40%", "smaller budget first"]),
    (["--budgets", "120%"], 2, ["--budgets", "120%", "at most 100%"]),
    (["--budgets", "40%..100%:0"], 2, ["--budgets", "40%..100%:0", "from 2"]),
    (["--budgets", ""], 2, ["--budgets"]),
    (["--points", "1"], 2, ["--points", "1", "from 2"]),
    (["--choose", "lots"], 2, ["--choose", "lots", "MiB", "floor"]),
    (["--plans"], 2, ["--plans", "--output"]),
    (["--link", "2GiB/s"], 2, ["--link", "--swap"]),
    (["--swap", "host", "--link", "0GiB/s"], 2, ["--link", "0GiB/s"]),
    (["--budget", "1GiB"], 2, ["--budget"]),
    (["--budgets", "1MiB,2MiB"], 3, ["unet.onnx", "none of 2 budgets", "2097152 bytes", "at least"]),
    (["-o", "no-such-folder/sweep"], 4, ["no-such-folder"]),
    (["-o", "/"], 2, ["-o", "'/'"]),
])
def test_bad_input_gets_one_line_and_an_exit_code(flags, code, words):
    expect_error(code, *words, arguments=["sweep", *UNET, *flags])


def test_a_chosen_budget_that_was_missed_loses_nothing(tmp_path):
    result = run("sweep", *UNET, "--budgets", "90%,100%", "--choose", "1MiB", "-o", tmp_path / "s")
    assert result.returncode == 3
    assert "--choose" in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert len(points_of(tmp_path / "s")) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.jsonl", "s.png", "s.svg", "s.txt"]


def test_an_interrupt_keeps_what_was_found(tmp_path):
    command = [program(), "sweep", *UNET[:-1], 1000, "--budgets", "65%..100%:5", "--progress", "-o", tmp_path / "s"]
    search = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "budget" in search.stderr.readline()
    search.send_signal(signal.SIGINT)
    said, _ = search.communicate(timeout=120)
    assert search.returncode == 0
    assert said == (tmp_path / "s.txt").read_text()
    points = points_of(tmp_path / "s")
    assert points[0]["found"] and not points[-1]["found"]
    assert {point["status"] for point in points[1:]} == {"limit"}
    assert "not tried" in points[-1]["reason"]
    assert run("verify", tmp_path / "s.lt").returncode == 0
