"""The command line as a user meets it: the main job on a small model, and what bad input gets."""

import json
import pathlib
import subprocess

import pytest
import sealed_plan
from lowtide_cli import MODELS, ROOT, expect_error, narrow_unet, program, run, run_json

UNET = [MODELS / "unet.onnx", "--train", "--dim", "batch=1"]


@pytest.fixture(scope="session")
def unet_plan(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("plans") / "unet.lt"
    result = run("plan", *UNET, "-o", path)
    assert result.returncode == 0, result.stderr
    return path


@pytest.fixture(scope="session")
def narrow(tmp_path_factory) -> list:
    """As UNET, for what is run."""
    return [narrow_unet(tmp_path_factory.mktemp("models") / "unet.onnx"), *UNET[1:]]


@pytest.fixture(scope="session")
def narrow_plan(narrow, tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("plans") / "narrow.lt"
    result = run("plan", *narrow, "-o", path)
    assert result.returncode == 0, result.stderr
    return path


def test_plan_prints_a_verdict_with_stable_keys():
    verdict = run_json("plan", *UNET)
    for key in ("peak_before_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes", "order_proven", "ops", "values",
                "planning_seconds"):
        assert key in verdict
    assert verdict["lower_bound_bytes"] <= verdict["peak_bytes"] <= verdict["peak_before_bytes"]
    assert verdict["arena_bytes"] >= verdict["peak_bytes"]
    assert sum(verdict["after"]["by_category"].values()) == verdict["peak_bytes"]
    assert sum(verdict["before"]["by_category"].values()) == verdict["peak_before_bytes"]
    assert verdict["before"]["peak_bytes"] == verdict["peak_before_bytes"]
    assert verdict["after"]["peak_bytes"] == verdict["peak_bytes"]


def test_the_verdict_names_the_largest_tensors_at_the_peak_and_the_time_of_each_stage():
    verdict = run_json("plan", *UNET)
    for side in ("before", "after"):
        tensors = verdict[side]["tensors"]
        sizes = [tensor["bytes"] for tensor in tensors]
        assert len(tensors) == 10 and sizes == sorted(sizes, reverse=True) and sizes[-1] > 0
        assert len({tensor["name"] for tensor in tensors}) == 10
        assert sum(sizes) <= verdict[side]["peak_bytes"] and verdict[side]["op"]
        assert all(tensor["category"] in verdict[side]["by_category"] for tensor in tensors)
    assert any(tensor["module"].startswith("down.") for tensor in verdict["after"]["tensors"])
    stages = verdict["stage_seconds"]
    assert {"autodiff", "layouts", "costs", "order", "addresses", "plan"} <= stages.keys()
    assert 0 < sum(stages.values()) <= verdict["planning_seconds"]


def test_every_key_that_is_printed_is_documented(unet_plan, narrow_plan, tmp_path):
    sections = dict(section.split("\n", 1) for section in (ROOT / "docs/formats.md").read_text().split("\n## ")[1:])
    problem = tmp_path / "p.order"
    problem.write_text("3 3\n64 0 1 2\n32 1 1 2\n8 2 0\n")
    budgeted = tmp_path / "p.remat"
    budgeted.write_text("2 2 0\n5 1\n5 1\n64 0 1 1\n8 1 0\n0\n")
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,3,4\n")
    printed = {"plan --json": ["plan", *UNET], "verify --json": ["verify", unet_plan],
               "run --json": ["run", narrow_plan, "--steps", 1, "--compare"],
               "order --json, pack --json": ["order", problem], "remat --json": ["remat", budgeted, "--budget", 1000]}
    for title, arguments in printed.items():
        missing = [key for key in run_json(*arguments) if f"`{key}`" not in sections[title]]
        assert not missing, (title, missing)
    missing = [key for key in run_json("pack", csv) if f"`{key}`" not in sections["order --json, pack --json"]]
    assert not missing


def test_the_same_input_gives_the_same_bytes(unet_plan, tmp_path):
    again = tmp_path / "again.lt"
    assert run("plan", *UNET, "-o", again).returncode == 0
    assert again.read_bytes() == unet_plan.read_bytes()


def test_ops_run_in_parts_by_rule(narrow, tmp_path):
    path = tmp_path / "parts.lt"
    two = [narrow[0], "--train", "--dim", "batch=2"]
    rule = ["--cut", "node_Conv_22?:n:2"]
    whole = run_json("plan", *two)
    parts = run_json("plan", *two, *rule, "-o", path)
    assert parts["ops"] >= whole["ops"] + 8
    assert run("verify", path).returncode == 0
    step = run("run", path, "--steps", "1", "--compare")
    assert step.returncode == 0, step.stderr
    expect_error(2, "OPS:AXIS:PARTS", arguments=["plan", *two, "--cut", "layer"])
    expect_error(4, "no op has a name like 'layer*'", arguments=["plan", *two, "--cut", "layer*:n:2"])


def test_verify_accepts_the_plan_and_refuses_changed_bytes(unet_plan, tmp_path):
    assert run("verify", unet_plan).returncode == 0
    contents = unet_plan.read_bytes()
    changed = tmp_path / "changed.lt"
    for position in range(0, len(contents), max(1, len(contents) // 40)):
        changed.write_bytes(contents[:position] + bytes([contents[position] ^ 1]) + contents[position + 1 :])
        result = run("verify", changed)
        assert result.returncode == 4, (position, result.stderr)
        assert len(result.stderr.strip().splitlines()) == 1


def test_sealing_an_unchanged_plan_gives_the_same_file(unet_plan):
    assert sealed_plan.seal(unet_plan.read_text()) == unet_plan.read_text()


@pytest.mark.parametrize("member, value, words", [
    ("peak_bytes", lambda text: str(int(text) - 64), "peak"),
    ("peak_before_bytes", lambda text: str(int(text) + 64), "peak"),
    ("lower_bound_bytes", lambda text: str(int(text) + 64), "bound"),
    ("order_proven", lambda text: {"true": "false", "false": "true"}[text], "proven"),
    ("predicted_seconds", lambda text: str(float(text) * 2), "seconds"),
])
def test_claims_that_do_not_hold_exit_with_6(unet_plan, tmp_path, member, value, words):
    wrong = tmp_path / "wrong.lt"
    sealed_plan.change(unet_plan, wrong, member, value, inside="claims")
    result = run("verify", wrong)
    assert result.returncode == 6, result.stderr
    assert result.stdout == "" and "wrong.lt" in result.stderr.splitlines()[0]
    assert words in result.stderr
    findings = json.loads(run("verify", wrong, "--json").stdout)
    assert findings["ok"] is False
    assert len(findings["findings"]) == len(result.stderr.splitlines()) - 1
    line = expect_error(6, "wrong.lt", "not verified", words, "lowtide verify", arguments=["run", wrong])
    assert findings["findings"][0] in line


def test_a_moved_buffer_exits_with_6(unet_plan, tmp_path):
    moved = tmp_path / "moved.lt"
    sealed_plan.change(unet_plan, moved, "workspace_address", lambda text: "0")
    assert "workspace" in run("verify", moved).stderr
    assert run("verify", moved).returncode == run("run", moved).returncode == 6


def test_inspect_says_what_the_file_holds():
    result = run("inspect", MODELS / "gpt2.onnx")
    assert result.returncode == 0, result.stderr
    for word in ("MatMul", "batch", "seq"):
        assert word in result.stdout


def test_order_and_pack_on_bare_problems(tmp_path):
    problem = tmp_path / "p.order"
    problem.write_text("3 3\n64 0 1 2\n32 1 1 2\n8 2 0\n")
    outcome = run_json("order", problem)
    assert outcome["status"] == "optimal"
    assert outcome["peak_bytes"] == outcome["lower_bound_bytes"] == 104
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,3,4\nb,1,5,2\nc,3,5,4\n")
    packed = tmp_path / "out.csv"
    outcome = run_json("pack", csv, "--capacity", "6", "-o", packed)
    assert outcome["height_bytes"] == 6
    assert packed.read_text().splitlines()[0].split(",").count("offset") == 1


OPTIMA = {"resnet_b1_s1": 87440800, "bert_b1_s1": 281290752, "gpt2_s1": 2212648960, "unet_s1": 751876096}


@pytest.mark.parametrize("name", OPTIMA)
def test_captured_steps_reach_their_optimum_with_proof(name):
    outcome = run_json("order", ROOT / "tests/data/order" / f"{name}.order")
    assert outcome["status"] == "optimal"
    assert outcome["peak_bytes"] == outcome["lower_bound_bytes"] == OPTIMA[name]


@pytest.mark.parametrize("arguments, code, words", [
    (["plan", "no-such-file.onnx"], 4, ["no-such-file.onnx"]),
    (["plan", MODELS / "gpt2.onnx", "--train"], 2, ["gpt2", "batch", "--dim"]),
    (["plan", *UNET, "--dim", "batch=2"], 2, ["--dim", "batch"]),
    (["plan", MODELS / "unet.onnx", "--dim", "batch=zero"], 2, ["--dim", "batch=zero"]),
    (["plan", *UNET, "--loss", "hinge"], 2, ["--loss", "hinge", "cross-entropy"]),
    (["plan", *UNET, "--optimizer", "lion"], 2, ["--optimizer", "lion", "adamw"]),
    (["plan", *UNET, "--device", "abacus"], 2, ["--device", "abacus", "h100"]),
    (["plan", *UNET, "--budget", "3MiBB"], 2, ["--budget", "MiB"]),
    (["plan", *UNET, "--budget", "3.5B"], 2, ["--budget", "3.5B", "whole number of bytes"]),
    (["plan", *UNET, "--budget", "3MiB", "--allow", "recompute"], 3, ["--budget", "3145728", "at least", "smallest arena"]),
    (["verify", MODELS / "unet.onnx"], 4, ["unet.onnx"]),
    (["run", MODELS / "unet.onnx"], 4, ["unet.onnx"]),
    (["order", MODELS / "unet.onnx"], 4, ["unet.onnx"]),
    (["pack", MODELS / "unet.onnx"], 4, ["unet.onnx"]),
])
def test_bad_input_gets_one_line_and_an_exit_code(arguments, code, words):
    expect_error(code, *words, arguments=arguments)


def test_usage_errors_exit_with_2():
    for arguments in ([], ["frobnicate"], ["plan"], ["pack", "x.csv", "--nope"]):
        assert run(*arguments).returncode == 2


def test_packing_that_cannot_fit_is_infeasible(tmp_path):
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,3,4\nb,1,5,2\n")
    packed = tmp_path / "out.csv"
    result = run("pack", csv, "--capacity", "5", "-o", packed)
    assert result.returncode == 3
    assert not packed.exists()


def test_a_plan_that_cannot_be_written_leaves_nothing(tmp_path):
    result = run("plan", *UNET, "-o", tmp_path / "no-such-folder" / "unet.lt")
    assert result.returncode == 4
    assert list(tmp_path.iterdir()) == []


def test_truncated_models_are_refused(tmp_path):
    contents = (MODELS / "unet.onnx").read_bytes()
    broken = tmp_path / "broken.onnx"
    for length in (0, 1, 100, len(contents) // 2, len(contents) - 1):
        broken.write_bytes(contents[:length])
        expect_error(4, "broken.onnx", arguments=["plan", broken, "--train", "--dim", "batch=1"])


def test_json_of_verify_lists_findings(unet_plan):
    report = json.loads(run("verify", unet_plan, "--json").stdout)
    assert report["ok"] is True and report["findings"] == []


def test_full_stdout_is_noticed():
    for arguments in (["plan", *UNET, "--json"], ["plan", *UNET], ["--help"], ["plan", "--help"], ["--version"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([str(program()), *map(str, arguments)], stdout=full, stderr=subprocess.PIPE,
                                    text=True)
        assert result.returncode == 1, arguments
        assert result.stderr == "lowtide: cannot write to standard output\n"


def test_only_regular_files_are_replaced(tmp_path):
    device = tmp_path / "device"
    device.symlink_to("/dev/null")
    for target in (device, tmp_path):
        expect_error(4, str(target), "regular file", arguments=["plan", *UNET, "--quiet", "-o", target])
    assert device.is_symlink() and pathlib.Path("/dev/null").is_char_device()
    link = tmp_path / "link.lt"
    link.symlink_to("real.lt")
    assert run("plan", *UNET, "--quiet", "-o", link).returncode == 0
    assert link.is_symlink() and (tmp_path / "real.lt").is_file()
    expect_error(2, "--output", "empty", arguments=["plan", *UNET, "-o", ""])


@pytest.mark.parametrize("arguments, words", [
    (["plan", "--nope"], ["plan", "--nope"]),
    (["plan"], ["model", "required"]),
    (["frobnicate"], ["frobnicate", "plan", "pack"]),
    ([], ["command", "plan", "pack"]),
    (["run", "x.lt", "--steps", "0"], ["--steps", "'0'", "whole number from 1"]),
    (["run", "x.lt", "--steps", "many"], ["--steps", "many", "whole number"]),
    (["plan", *UNET, "--seed", "-1"], ["--seed", "-1"]),
    (["plan", *UNET, "--learning-rate", "nan"], ["--learning-rate", "nan", "above 0"]),
    (["plan", *UNET, "--learning-rate", "inf"], ["--learning-rate", "inf"]),
    (["plan", *UNET, "--optimizer", "sgd", "--momentum", "2"], ["--momentum", "'2'", "below 1"]),
    (["plan", *UNET, "--momentum", "0.5"], ["--momentum", "--optimizer sgd"]),
    (["plan", MODELS / "unet.onnx", "--loss", "hinge"], ["--loss", "hinge"]),
    (["plan", MODELS / "unet.onnx", "--loss", "mse"], ["--loss needs --train"]),
    (["plan", MODELS / "unet.onnx", "--weight-decay", "0"], ["--weight-decay needs --train"]),
    (["plan", MODELS / "unet.onnx", "--ignore-index", "-100"], ["--ignore-index needs --train"]),
    (["plan", *UNET, "--ignore-index", "none"], ["--ignore-index", "'none'", "whole number"]),
    (["plan", *UNET, "--loss", "mse", "--ignore-index", "-100"], ["--ignore-index", "--loss cross-entropy", "mse"]),
    (["plan", MODELS / "unet.onnx", "--dropout", "off"], ["--dropout needs --train"]),
])
def test_usage_errors_name_the_flag_in_one_short_line(arguments, words):
    assert len(expect_error(2, *words, arguments=arguments)) < 250


def test_names_cannot_write_lines_or_steer_the_terminal(tmp_path):
    evil = "evil\nlowtide: fake line\x1b[31m"
    line = expect_error(4, "evil\\nlowtide: fake line\\x1B[31m", arguments=["plan", tmp_path / evil])
    assert "\x1b" not in line
    line = expect_error(2, "bytes left out", arguments=["plan", "x.onnx", "--" + "y" * 5000])
    assert len(line) < 1500


def test_a_plan_says_how_many_threads_it_is_for(narrow, tmp_path):
    text = {}
    for threads in (1, 2):
        path = tmp_path / f"{threads}.lt"
        assert run("plan", *narrow, "--quiet", "--threads", threads, "-o", path).returncode == 0
        text[threads] = path.read_text()
        assert json.loads(text[threads])["provenance"]["threads"] == str(threads)
        assert run("run", path, "--steps", 1).returncode == 0
    other = tmp_path / "other.lt"
    assert run("plan", *narrow, "--quiet", "--device", "h100", "-o", other).returncode == 0
    expect_error(4, "H100", "workspace", arguments=["run", other])


def test_a_limit_without_an_answer_exits_with_5(tmp_path):
    csv = tmp_path / "tight.csv"
    rows = [(f"b{i}", (i * 7) % 31, (i * 7) % 31 + 5 + i % 9, 17 + (i * 37) % 101) for i in range(90)]
    csv.write_text("id,lower,upper,size\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    bound = run_json("pack", csv, "--max-units", 1)["lower_bound_bytes"]
    result = run("pack", csv, "--capacity", bound, "--max-units", 1)
    assert result.returncode == 5, result.stderr
    assert "tight.csv" in result.stderr and "--max-units" in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_batch_beyond_64_bits_is_called_too_large():
    line = expect_error(4, "unet.onnx", "'x'", "larger than",
                        arguments=["plan", MODELS / "unet.onnx", "--dim", "batch=4000000000000000000"])
    assert "symbol" not in line


def test_the_last_step_is_compared_and_the_arena_measured(narrow_plan):
    report = run_json("run", narrow_plan, "--steps", 1, "--compare", "--poison")
    refused = run("run", narrow_plan, "--steps", 1, "--poison")
    assert refused.returncode == 2 and "--poison needs --compare" in refused.stderr
    results = report["values_compared"]
    assert results % 2 == 0 and report["values_different"] == 0
    assert report["max_abs_difference"] == 0
    assert report["step_seconds"] > 0 and report["unplanned_step_seconds"] > 0
    assert report["arena_measured_bytes"] == report["arena_planned_bytes"]
    assert 0.9 * report["arena_planned_bytes"] < report["arena_touched_bytes"] <= report["arena_planned_bytes"]


def test_sizes_with_a_fraction_of_a_byte_are_refused(tmp_path):
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,3,1\nb,3,5,1\n")
    for size in ("1.5B", "1.5", "0.9999 B"):
        expect_error(2, "--capacity", size, "whole number of bytes", arguments=["pack", csv, "--capacity", size])
    assert run_json("pack", csv, "--capacity", "0.5KiB")["height_bytes"] == 1


def test_ids_of_a_packing_stand_once(tmp_path):
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,3,4\nb,1,5,2\na,4,5,2\n")
    expect_error(4, "p.csv:4", "'a'", "line 2", arguments=["pack", csv])


def test_dumped_problems_read_back(tmp_path):
    verdict = run_json("plan", *UNET, "--dump-problems", tmp_path)
    outcome = run_json("order", tmp_path / "order.txt")
    assert outcome["peak_bytes"] <= verdict["peak_bytes"]
    ids = [line.split(",")[0] for line in (tmp_path / "pack.csv").read_text().splitlines()[1:]]
    assert len(ids) == len(set(ids)) > 100
    assert run("pack", tmp_path / "pack.csv").returncode == 0


def test_verdicts_count_weights_that_no_file_has():
    verdict = run_json("plan", *UNET)
    assert verdict["missing_weights"] > 10 and verdict["external_weights"] == 0
    assert f"{verdict['missing_weights']} weights are missing" in run("plan", *UNET).stdout


def test_help_shows_defaults_that_people_can_read():
    for command in ("plan", "verify", "run", "inspect", "sweep", "order", "pack", "remat", "calibrate"):
        text = run(command, "--help").stdout
        assert "[]" not in text and "e+0" not in text and "{" not in text, text
    assert "--dim NAME=SIZE ..." in run("plan", "--help").stdout
    assert "--time-limit SECONDS=none" in run("order", "--help").stdout


def test_infeasible_problems_print_no_height_and_write_no_file(tmp_path):
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,3,4\nb,1,5,2\n")
    result = run("pack", csv, "--capacity", "5", "--json")
    assert result.returncode == 3 and "height_bytes" not in json.loads(result.stdout)
    result = run("pack", csv, "--capacity", "5")
    assert "gap" not in result.stdout and "height" not in result.stdout
