"""`lowtide report`, `explain` and what goes with them, as a user meets them; bad input gets one line and leaves nothing behind.
What is in the data: src/report/data/report_data_test.cc. The page itself: web/report."""

import html.parser
import json
import os
import pathlib
import pty
import re
import resource
import subprocess

import pytest
from lowtide_cli import expect_error, narrow_unet, program, run, run_json
from sealed_plan import change, seal
from trace_format import faults

STEP = ["--train", "--dim", "batch=2", "--effort", "0.1"]
HOSTILE = "</script><script>alert(1)</script><!--"


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> pathlib.Path:
    """The narrow U-Net, and a sweep of it: net.onnx, front.jsonl, front.lt, front-BYTES.lt."""
    folder = tmp_path_factory.mktemp("report")
    model = narrow_unet(folder / "net.onnx")
    result = run("sweep", model, *STEP, "--budgets", "60%..100%:3", "--swap", "host", "--link", "1GiB/s", "--plans",
                 "-o", folder / "front")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="session")
def tight(folder) -> pathlib.Path:
    """The plan with the least memory."""
    return min(folder.glob("front-*.lt"), key=lambda path: int(path.stem.split("-")[1]))


@pytest.fixture(scope="session")
def has_page(tight, folder) -> bool:
    """Whether the program was built with the page."""
    result = run("report", tight, "-o", folder / "probe.html")
    if result.returncode == 0:
        return True
    assert result.returncode == 2 and "built without the page" in result.stderr and result.stderr.count("\n") == 1
    assert not (folder / "probe.html").exists()
    return False


def hostile_plan(source: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """The plan with HTML for the name of an op."""
    plan = json.loads(source.read_text())
    name = plan["ops"][-1]["name"]
    target.write_text(seal(source.read_text().replace(json.dumps(name), json.dumps(HOSTILE))))
    assert run("verify", target).returncode == 0
    return target


class Scripts(html.parser.HTMLParser):
    """The contents of script elements, by their id."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.contents: dict[str | None, str] = {}
        self.open: str | None = None
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.open, self.inside = dict(attrs).get("id"), True
            self.contents.setdefault(self.open, "")

    def handle_data(self, data):
        if self.inside:
            self.contents[self.open] += data

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "script"


def test_the_data_is_what_the_plan_says_and_always_the_same(tight):
    data = run_json("report", tight)
    assert data == run_json("report", tight)
    assert (data["format"], data["version"], data["verified"], data["findings"]) == ("lowtide-report", 1, True, [])
    told, claims = data["plans"][0], json.loads(tight.read_text())["claims"]
    assert told["file"] == tight.name
    for key in ("peak_bytes", "budget_bytes", "floor_bytes", "predicted_seconds", "lower_bound_seconds"):
        assert told["summary"][key] == claims[key]
    report = run_json("verify", tight)
    for key in ("reruns", "stored_bytes", "loaded_bytes"):
        assert told["summary"][key] == report[key]
    assert told["summary"]["timeline_seconds"] + told["summary"]["copying_seconds"] == pytest.approx(report["predicted_seconds"])
    peak = told["steps"]["bytes"][told["summary"]["peak_step"]]
    assert peak == report["peak_bytes"] == sum(entry["bytes"] for entry in told["peak"])
    assert set(told["transfers"]["out"]) == {0, 1}
    for tensor, address, begin, end in zip(*(told["stays"][key] for key in ("tensor", "address", "begin", "end"))):
        assert begin < end <= len(told["steps"]["kind"])
        assert address + told["tensors"]["bytes"][tensor] <= told["summary"]["arena_bytes"]


def test_the_page_has_the_data_and_names_never_run(tight, folder, has_page):
    if not has_page:
        pytest.skip("built without the page")
    plan = hostile_plan(tight, folder / "hostile.lt")
    assert run("report", plan, "-o", folder / "r.html").returncode == 0
    text = (folder / "r.html").read_text()
    assert HOSTILE not in text and len(text) < 3_000_000
    scripts = Scripts(text).contents
    assert not any("alert(1)" in script for name, script in scripts.items() if name != "lowtide-report")
    data = json.loads(scripts["lowtide-report"])
    assert data == run_json("report", plan)
    assert HOSTILE in data["plans"][0]["ops"]["name"]


def test_plan_and_sweep_write_reports_too(folder, has_page):
    target = folder / "made.html"
    result = run("plan", folder / "net.onnx", *STEP, "--budget", "80%", "--report", target, "--quiet")
    if not has_page:
        assert result.returncode == 2 and "built without the page" in result.stderr
        return
    assert result.returncode == 0, result.stderr
    data = json.loads(Scripts(target.read_text()).contents["lowtide-report"])
    assert data["plans"][0]["summary"]["budget_bytes"] > 0
    result = run("sweep", folder / "net.onnx", *STEP, "--budgets", "80%,100%", "--report", target, "--quiet")
    assert result.returncode == 0, result.stderr
    data = json.loads(Scripts(target.read_text()).contents["lowtide-report"])
    assert len(data["front"]["points"]) == 2
    assert sum(point["plan"] == 0 for point in data["front"]["points"]) == 1


def test_beside_another_plan_and_with_its_front(tight, folder):
    loose = max(folder.glob("front-*.lt"), key=lambda path: int(path.stem.split("-")[1]))
    data = run_json("report", tight, "--beside", loose, "--front", folder / "front.jsonl")
    assert [plan["file"] for plan in data["plans"][:2]] == [tight.name, loose.name]
    rows = data["beside"]["rows"]
    assert rows["name"] and all(ours != other for ours, other in zip(*rows["policy"]))
    for point in data["front"]["points"]:
        assert not point["found"] or data["plans"][point["plan"]]["summary"]["arena_bytes"] == point["arena_bytes"]


def test_the_trace_counts_what_the_profile_says(tight, folder):
    assert run("report", tight, "--trace", folder / "t.json").returncode == 0
    told, trace = run_json("report", tight)["plans"][0], json.loads((folder / "t.json").read_text())
    counters = [event["args"] for event in trace["traceEvents"] if event["ph"] == "C"]
    assert counters == [dict(zip(told["categories"], bytes_of)) for bytes_of in zip(*told["curve"]["planned"])]
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X" and event.get("cat") in ("store", "load")]
    assert len(slices) == len(told["transfers"]["tensor"])
    runs = [event["args"]["step"] for event in trace["traceEvents"] if event["ph"] == "X" and "run" in event.get("args", {})]
    assert runs == told["curve"]["steps"]


def spoil(trace: dict, kind: str, **members) -> dict:
    """The trace with other members in the second event of a kind; None: without that member."""
    changed = json.loads(json.dumps(trace))
    event = [event for event in changed["traceEvents"] if event["ph"] == kind][1]
    event.update(members)
    for key in [key for key, value in members.items() if value is None]:
        del event[key]
    return changed


def test_the_trace_is_of_the_documented_format(tight, folder):
    assert run("report", tight, "--trace", folder / "t.json").returncode == 0
    trace = json.loads((folder / "t.json").read_text())
    assert faults(trace) == []
    assert {event["ph"] for event in trace["traceEvents"]} == set("MXCsf")
    earlier = [event for event in trace["traceEvents"] if event["ph"] == "X"][1]["ts"] - 0.5  # than the end of the first
    for kind, members in [("X", {"dur": None}), ("X", {"ts": -1.0}), ("X", {"ts": earlier}), ("X", {"tid": 99}),
                          ("X", {"ph": "Z"}), ("C", {"args": {"parameter": "much"}}), ("C", {"ts": 1e12}), ("s", {"id": 10**9}),
                          ("f", {"bp": None}), ("f", {"ts": 0.0}), ("M", {"args": {}}), ("M", {"name": 3})]:
        assert faults(spoil(trace, kind, **members)), (kind, members)


def test_measured_times_stand_beside_predicted_ones(tight, folder):
    profile = folder / "profile.json"
    result = run("run", tight, "--steps", "2", "--seed-weights", "--profile-out", profile)
    assert result.returncode == 0, result.stderr
    measured = run_json("report", tight, "--profile", profile)["plans"][0]["measured"]
    told = run_json("report", tight)["plans"][0]
    runs = [0] * len(measured["op_runs"])
    for op in told["steps"]["op"]:
        if op >= 0 and not told["ops"]["view"][op]:
            runs[op] += 1
    assert measured["op_runs"] == runs
    assert all((seconds is None) == (count == 0) for seconds, count in zip(measured["op_seconds"], runs))
    in_kernels = sum(count * (seconds or 0) for seconds, count in zip(measured["op_seconds"], runs))
    assert 0 < in_kernels < 2 * measured["step_seconds"]
    assert measured["hidden_seconds"] + measured["exposed_seconds"] >= measured["transfer_seconds"] * 0.999
    other = [plan for plan in folder.glob("front-*.lt") if plan != tight][0]
    expect_error(4, "profile.json: measured with budget", "that of the plan is", arguments=["report", other, "--profile", profile])
    batch = folder / "batch.lt"
    assert run("plan", folder / "net.onnx", "--train", "--dim", "batch=1", "-o", batch).returncode == 0
    expect_error(4, "measured for batch=2, the plan is for batch=1", arguments=["report", batch, "--profile", profile])
    json_of = json.loads(profile.read_text())
    json_of["model"] = "another"
    (folder / "other.json").write_text(json.dumps(json_of))
    expect_error(4, "other.json", "measured of model", arguments=["report", other, "--profile", folder / "other.json"])


def test_a_plan_that_does_not_verify_is_refused_unless_asked_for(tight, folder):
    wrong = folder / "wrong.lt"
    change(tight, wrong, "peak_bytes", lambda text: str(int(text) - 64), inside="claims")
    for command in (["report", wrong, "--json"], ["explain", wrong, "--module", "down"],
                    ["report", tight, "--beside", wrong, "--json"]):
        result = run(*command)
        assert (result.returncode, result.stdout) == (6, "")
        assert "1 finding" in result.stderr and "peak" in result.stderr
    data = run_json("report", wrong, "--unverified")
    assert data["verified"] is False and "peak" in data["findings"][0]
    told = run_json("explain", wrong, "--unverified", "--module", "down")
    assert told["verified"] is False and told["findings"] == data["findings"]
    assert run_json("explain", tight, "--module", "down")["verified"] is True
    assert run("report", wrong, "--unverified", "--trace", folder / "wrong.json").returncode == 0
    other = json.loads((folder / "wrong.json").read_text())["otherData"]
    assert other["verified"] is False and other["findings"] == data["findings"]
    assert run("report", wrong, "--unverified").stdout.startswith("not verified: ")


def test_parts_are_priced_and_compared_with_the_step_in_one_part(folder, tmp_path):
    step = ["plan", folder / "net.onnx", "--train", "--dim", "batch=4", "--split", "2", "-o", tmp_path / "parts.lt"]
    whole = run_json(*step)["whole_once_seconds"]
    told = run_json("report", tmp_path / "parts.lt")["plans"][0]
    summary, split = told["summary"], told["actions"]["split"]
    assert summary["bounds_are_of"] == "in these parts"
    assert summary["whole_once_seconds"] == pytest.approx(whole, rel=1e-9)
    assert split["seconds"] == pytest.approx(summary["once_seconds"] - whole, abs=1e-12)
    assert summary["extra_over_whole_percent"] == pytest.approx(100 * (summary["predicted_seconds"] / whole - 1), abs=1e-6)
    groups = [group for group in told["actions"]["groups"] if group["kind"] == "split"]
    assert groups and sum(group["count"] for group in groups) == split["count"] == summary["ops_in_parts"]
    assert all(group["bytes"] is not None and group["freed_bytes"] >= group["bytes"] >= 0 for group in [*groups, split])
    assert split["freed_bytes"] > 0
    assert "% time over each op once and whole" in run("report", tmp_path / "parts.lt").stdout


def test_explain_answers_for_tensors_ops_and_modules(tight):
    told = run_json("report", tight)["plans"][0]
    moved = told["transfers"]["tensor"][0]
    name = told["tensors"]["name"][moved]
    story = run_json("explain", tight, "--tensor", name)
    stays = [i for i, tensor in enumerate(told["stays"]["tensor"]) if tensor == moved]
    assert [stay["address"] for stay in story["stays"]] == [told["stays"]["address"][i] for i in stays]
    assert "moved" in story["policy"] and story["worth"]["peak_bytes"] == told["summary"]["peak_bytes"]
    op = run_json("explain", tight, "--op", told["ops"]["name"][0])
    assert op["runs"] and op["kind"] == told["kinds"][told["ops"]["kind"][0]]
    module = run_json("explain", tight, "--module", "down")
    assert module["modules"] > 1 and 0 < module["bytes_at_peak"] <= told["summary"]["peak_bytes"]
    verdict = run("report", tight).stdout
    at_peak = next(told["tensors"]["name"][entry["tensor"]] for entry in told["peak"] if entry["tensor"] >= 0)
    of_peak = run("explain", tight, "--tensor", at_peak).stdout
    number = re.search(r"there at the peak, (step \d+ of \d+) \(plan step (\d+)\)", of_peak)
    assert f": {number[1]}, op" in verdict
    assert int(number[2]) == told["summary"]["peak_step"]
    text = run("explain", tight, "--tensor", name).stdout
    assert text.startswith(f"tensor '{name}': ") and " at " in text
    expect_error(2, "--tensor", "names like it", arguments=["explain", tight, "--tensor", name[:-1] + "~"])
    expect_error(2, "one of --tensor", arguments=["explain", tight])


def test_bad_input_gets_one_line_and_leaves_nothing(tight, folder, tmp_path):
    before = sorted(folder.iterdir())
    lines = (folder / "front.jsonl").read_text()
    (tmp_path / "other.jsonl").write_text(lines.replace('"model":"', '"model":"not '))
    expect_error(4, "other.jsonl, line 1", "not ", arguments=["report", tight, "--front", tmp_path / "other.jsonl", "--json"])
    expect_error(4, "absent.lt", arguments=["report", folder / "absent.lt", "--json"])
    expect_error(4, "--trace", "no folder", "absent", arguments=["report", tight, "--trace", folder / "absent/trace.json"])
    expect_error(2, "--trace", "is read (PLAN)", arguments=["report", tight, "--trace", tight])
    assert run("report", tight, "-o", folder / "absent/r.html").returncode in (2, 4)
    assert sorted(folder.iterdir()) == before


def other_sizes(folder, target) -> pathlib.Path:
    assert run("plan", folder / "net.onnx", "--train", "--dim", "batch=1", "-o", target).returncode == 0
    return target


def test_plans_of_other_sizes_do_not_stand_beside_each_other(tight, folder, tmp_path):
    expect_error(4, "--beside", "batch=1", "batch=2", arguments=["report", tight, "--beside", other_sizes(folder, tmp_path / "one.lt")])


def test_plans_that_are_not_of_the_front_are_named(tight, folder, tmp_path):
    (tmp_path / "f.jsonl").write_text((folder / "front.jsonl").read_text())
    name = next(path for path in folder.glob("front-*.lt") if path != tight).name.replace("front", "f")
    other_sizes(folder, tmp_path / name)
    result = run("report", tight, "--front", tmp_path / "f.jsonl", "--json")
    assert result.returncode == 0 and result.stderr.count("\n") == 1 and name in result.stderr
    assert len(json.loads(result.stdout)["plans"]) == 1
    assert run("report", tight, "--front", folder / "front.jsonl", "--json").stderr == ""


def test_of_two_outputs_both_are_written_or_none(tight, tmp_path, has_page):
    (tmp_path / "folder").mkdir()
    result = run("report", tight, "--trace", tmp_path / "t.json", "-o", tmp_path / "folder")
    assert result.returncode == (4 if has_page else 2) and result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_full_quota_is_an_error_line_and_leaves_nothing(tight, tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [program(), "report", tight, "--trace", tmp_path / "t.json"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, preexec_fn=limited)
    assert result.returncode == 4 and "t.json: cannot write" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def on_terminal(*arguments, **variables) -> str:
    """What the program writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG")}
    with subprocess.Popen([program(), *map(str, arguments)], stdout=theirs, env=environment | variables) as process:
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:  # the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


def test_a_terminal_gets_a_curve_as_it_takes_it(tight):
    blocks = on_terminal("report", tight, LANG="C.UTF-8", TERM="xterm")
    assert "memory over the step" in blocks and "█" in blocks and "\x1b[33m" in blocks
    plain = on_terminal("report", tight, LANG="C.UTF-8", TERM="xterm", NO_COLOR="1")
    assert "█" in plain and "\x1b" not in plain
    ascii_only = on_terminal("report", tight, LANG="C", TERM="xterm")
    assert "#" in ascii_only and ascii_only.isascii()
    assert "memory over the step" not in run("report", tight).stdout


def test_plan_draws_its_curve_on_a_terminal_only(folder):
    step = ["plan", folder / "net.onnx", "--train", "--dim", "batch=2"]
    blocks = on_terminal(*step, LANG="C.UTF-8", TERM="xterm")
    assert "memory over the step" in blocks and "█" in blocks and "\x1b[33m" in blocks
    plain = on_terminal(*step, LANG="C.UTF-8", TERM="xterm", NO_COLOR="1")
    assert "█" in plain and "\x1b" not in plain
    assert "memory over the step" not in run(*step).stdout
