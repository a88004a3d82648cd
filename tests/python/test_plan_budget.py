"""plan --budget as people meet it: what the verdict says, stopping a long search, the largest batch, and bad input."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from lowtide_cli import MODELS, expect_error, narrow_unet, program, run, run_json, tiny_transformer

UNET = [MODELS / "unet.onnx", "--train", "--dim", "batch=1"]
QUICK = ["--effort", "0.2"]
RECOMPUTE = ["--allow", "recompute,reorder,rewrite"]  # and no more, where the budget is missed


@pytest.fixture(scope="module")
def once():
    """The step without a budget."""
    return run_json("plan", *UNET)


@pytest.fixture(scope="module")
def tight(once, tmp_path_factory):
    """A plan that has to run ops again: the file, what was printed as JSON, and its budget."""
    budget = int(once["arena_bytes"] * 0.93)
    path = tmp_path_factory.mktemp("tight") / "unet.lt"
    return path, run_json("plan", *UNET, *QUICK, "--budget", budget, "-o", path), budget


def test_the_verdict_names_time_bound_and_floor(tight, once):
    _, verdict, budget = tight
    assert verdict["budget_bytes"] == budget
    assert verdict["floor_bytes"] <= verdict["peak_bytes"] <= verdict["arena_bytes"] <= budget
    assert verdict["lower_bound_bytes"] == once["lower_bound_bytes"] > verdict["peak_bytes"]
    assert verdict["gap"] is None and not verdict["order_proven"]
    assert verdict["once_seconds"] < verdict["lower_bound_seconds"] <= verdict["predicted_step_seconds"]
    extra = 100 * (verdict["predicted_step_seconds"] / verdict["once_seconds"] - 1)
    assert verdict["extra_percent"] == pytest.approx(extra)
    gap = verdict["extra_percent"] - verdict["lower_bound_extra_percent"]
    assert verdict["gap_points"] == pytest.approx(gap)
    assert verdict["schedule_status"] in ("optimal", "feasible")
    assert verdict["cut_short"] is False


def test_floor_is_the_least_arena_that_is_found(once):
    """The proven floor of this step lies below every arena that is found, so as a budget it would be refused."""
    least = run_json("plan", *UNET, *QUICK, *RECOMPUTE, "--budget", "floor")
    assert least["floor_bytes"] < least["arena_bytes"] < 0.93 * once["arena_bytes"]
    refused = run("plan", *UNET, *QUICK, *RECOMPUTE, "--budget", least["floor_bytes"])
    assert refused.returncode in (3, 5), "proven, or not found"
    named = re.search(r"smallest arena found has (\d+)", refused.stderr)
    assert named is None or least["arena_bytes"] <= int(named[1]) * 1.01


def test_the_actions_add_up(tight):
    _, verdict, _ = tight
    actions = verdict["actions"]
    paid = actions["rerun_seconds"] + actions["waited_seconds"] + actions["copying_seconds"]
    assert verdict["once_seconds"] + paid == pytest.approx(verdict["predicted_step_seconds"])
    assert actions["reruns"] > 0 and actions["stores"] == actions["loads"] == 0
    assert actions["reruns"] == sum(group["reruns"] for group in actions["modules"])
    benefits = [group["benefit_bytes"] for group in actions["modules"]]
    assert benefits == sorted(benefits, reverse=True)
    assert 0 < benefits[0] <= actions["benefit_bytes"]


def test_a_proof_by_cases_goes_into_the_plan_and_is_checked(once, tmp_path):
    budget = int(once["arena_bytes"] * 0.7)
    path = tmp_path / "proven.lt"
    plain = run_json("plan", *UNET, *QUICK, "--budget", budget)
    proven = run_json("plan", *UNET, *QUICK, "--budget", budget, "--prove", 0.2, "-o", path)
    assert proven["predicted_step_seconds"] == plain["predicted_step_seconds"]
    assert plain["lower_bound_seconds"] < proven["lower_bound_seconds"] <= proven["predicted_step_seconds"]
    assert run("verify", path).returncode == 0
    claims = json.loads(path.read_text())["claims"]
    assert len(claims["branch_certificate"]["nodes"]) > 2
    again = tmp_path / "again.lt"
    run_json("plan", *UNET, *QUICK, "--budget", budget, "--prove", 0.2, "-o", again)
    assert again.read_bytes() == path.read_bytes()


def test_a_proof_with_rounded_capacities_is_checked(tmp_path):
    path = tmp_path / "rounded.lt"
    told = run("plan", MODELS / "resnet50.onnx", "--train", "--dim", "batch=8", "--budget", "450MiB", *QUICK, "--prove", 2,
               "--progress", "-o", path).stderr.splitlines()
    assert any(line.endswith("(proof)") and "at least" in line for line in told), told
    root = json.loads(path.read_text())["claims"]["branch_certificate"]["nodes"][0]
    assert any(divisor > 1 for divisor in root["capacity"][1::3])
    assert run("verify", path).returncode == 0


def test_a_time_limit_ends_the_proof_and_says_so(once, tmp_path):
    budget = int(once["arena_bytes"] * 0.7)
    path = tmp_path / "stopped.lt"
    begun = time.monotonic()
    verdict = run_json("plan", *UNET, *QUICK, "--budget", budget, "--prove", 1000, "--time-limit", 4, "-o", path)
    assert verdict["cut_short"] and time.monotonic() - begun < 60
    assert run("verify", path).returncode == 0


def test_moves_are_in_the_verdict(tight, tmp_path):
    path, budget = tmp_path / "moving.lt", tight[2]
    verdict = run_json("plan", *UNET, *QUICK, "--budget", budget, "--no-recompute", "--swap", "host", "-o", path)
    actions = verdict["actions"]
    assert actions["reruns"] == 0 and actions["loads"] > 0 < actions["stored_bytes"]
    added = actions["waited_seconds"] + actions["copying_seconds"]
    assert verdict["once_seconds"] + added == pytest.approx(verdict["predicted_step_seconds"])
    assert added == pytest.approx(verdict["exposed_seconds"])
    assert verdict["after"]["peak_bytes"] == verdict["peak_bytes"]
    assert sum(verdict["after"]["by_category"].values()) == verdict["peak_bytes"]
    assert verdict["floor_bytes"] < tight[1]["floor_bytes"], "what moves need not be kept"
    assert "bytes stored" in run("verify", path).stdout


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_what_the_first_slow_tier_has_no_room_for_goes_to_the_next(tmp_path):
    path = tmp_path / "tiers.lt"
    flags = [MODELS / "resnet50.onnx", "--train", "--loss", "cross-entropy", "--optimizer", "adamw", "--dim", "batch=2",
             "--effort", "0.1", "--budget", "100MiB"]
    verdict = run_json("plan", *flags, "--swap", "host=64MiB,file", "-o", path)
    assert verdict["arena_bytes"] <= 100 << 20
    plan = json.loads(path.read_text())
    host, file = plan["slow_tiers"]
    assert (host["name"], file["name"]) == ("host", "file")
    assert 0 < host["bytes"] <= 64 << 20 and file["bytes"] > 0
    assert {storage.get("slow_tier", -1) for storage in plan["storages"]} == {-1, 0, 1}
    assert run("verify", path).returncode == 0
    for place in ("memory", f"file={tmp_path}"):
        report = run_json("run", path, "--steps", "2", "--compare", "--slow-tier", place)
        assert report["arena_measured_bytes"] == verdict["arena_bytes"]
        assert report["max_abs_difference"] == 0


def overwrite_slow_tier(process: subprocess.Popen, folder: pathlib.Path) -> None:
    """Spoils what the process has in its files below the folder, which have no name, until it ends."""
    while process.poll() is None:
        for handle in pathlib.Path(f"/proc/{process.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # it may be closed by now
                if not os.readlink(handle).startswith(str(folder)):
                    continue
                with open(handle, "r+b") as file:
                    for at in range(0, os.fstat(file.fileno()).st_size, 1 << 16):
                        file.seek(at)
                        file.write(b"\x3f" * 256)
        time.sleep(0.02)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files of another process cannot be found")
def test_values_that_were_spoilt_on_the_way_are_noticed(tmp_path):
    path, folder = tmp_path / "moving.lt", tmp_path / "slow"
    folder.mkdir()
    model = [narrow_unet(tmp_path / "net.onnx", part=4, side=64), "--train", "--dim", "batch=2"]
    budget = int(run_json("plan", *model)["arena_bytes"] * 0.9)
    run("plan", *model, *QUICK, "--budget", budget, "--no-recompute", "--swap", "host", "-o", path)
    flags = ["--compare", "--slow-tier", folder, "--link-throttle", "4MiB/s"]  # for seconds
    command = [program(), "run", path, "--steps", 1, *flags, "--json"]
    step = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    overwrite_slow_tier(step, folder)
    said, complaint = step.communicate(timeout=120)
    assert step.returncode == 1
    report = json.loads(said)
    assert 0 < report["values_different"] <= report["values_compared"]
    assert f"values differ from the unplanned step, first '{report['first_different']}'" in complaint


def test_slow_tiers_without_enough_room_are_named(tight):
    expect_error(5, "--budget", "slow tier 'host' has room for 65536 bytes", "were needed",
                 arguments=["plan", *UNET, *QUICK, "--budget", tight[2], "--no-recompute", "--swap", "host=64KiB"])


def test_more_memory_saves_no_more_than_its_bound_allows(tight):
    _, verdict, budget = tight
    more = verdict["more_memory"]
    assert more["budget_bytes"] == budget + budget // 10
    assert "op '" in verdict["floor_set_by"]
    assert 0 <= more["saved_seconds"] <= more["most_saved_seconds"] * (1 + 1e-9)


def test_without_a_budget_there_is_nothing_to_say_of_one(once):
    assert once["budget_bytes"] is once["floor_bytes"] is once["more_memory"] is None
    assert once["actions"]["reruns"] == 0
    text = run("plan", *UNET).stdout
    assert "budget" not in text and "reruns" not in text


def test_text_and_verify_speak_of_the_bounds_that_hold(tight):
    path, verdict, budget = tight
    text = run("plan", *UNET, *QUICK, "--budget", budget).stdout
    for line in (r"^once +[\d.]+ MiB: proven", r"^budget [\d.]+ MiB  arena [\d.]+ MiB \(\d+ bytes\), .* below it$",
                 r"^time +[\d.]+ ms predicted, \+[\d.]+ % \(\+[\d.]+ ms\) over each op once$",
                 r"^proven \+[\d.]+ % at least .* gap [\d.]+ points  \(schedule \w+\)$", r"^floor +[\d.]+ MiB: proven",
                 r"^more +10 % more budget", r"^what made it fit ", r"^all \d+ "):
        assert re.search(line, text, re.MULTILINE), line
    assert not re.search(r"^bound ", text, re.MULTILINE) and "not proven optimal" not in text
    line = run("verify", path).stdout
    for words in (f"budget {budget} bytes", f"floor {verdict['floor_bytes']} bytes", "reruns", "at least"):
        assert words in line
    assert "lower bound" not in line
    report = run_json("verify", path)
    assert report["reruns"] == verdict["actions"]["reruns"]
    assert report["predicted_seconds"] == pytest.approx(verdict["predicted_step_seconds"])
    assert report["floor_bytes"] >= verdict["floor_bytes"]


def test_progress_is_only_told_where_it_is_wanted(tight):
    _, _, budget = tight
    assert run("plan", *UNET, *QUICK, "--budget", budget, "--quiet").stderr == ""
    told = run("plan", *UNET, *QUICK, "--budget", budget, "--quiet", "--progress").stderr
    assert re.match(r"lowtide: \d+ s, \d+ % of the work, budget [\d.]+ MiB: ", told)


def test_the_first_interrupt_gives_the_best_plan_so_far(tight, tmp_path):
    path, budget = tmp_path / "stopped.lt", tight[2]
    command = [program(), "plan", *UNET, "--budget", budget, "--effort", 1000, "--progress", "--json", "-o", path]
    search = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "budget" in search.stderr.readline()
    start = time.monotonic()
    search.send_signal(signal.SIGINT)
    said, _ = search.communicate(timeout=120)
    assert search.returncode == 0
    assert time.monotonic() - start < 60, "the whole search takes far longer"
    verdict = json.loads(said)
    assert verdict["cut_short"] is True
    assert verdict["schedule_status"] in ("limit", "optimal")
    assert verdict["arena_bytes"] <= budget
    assert run("verify", path).returncode == 0


def test_a_second_interrupt_ends_the_program(tight, tmp_path):
    path = tmp_path / "none.lt"
    command = [program(), "plan", *UNET, "--budget", tight[2], "--effort", 1000, "--progress", "-o", path]
    search = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    search.stderr.readline()
    for _ in range(200):
        if search.poll() is not None:
            break
        search.send_signal(signal.SIGINT)
        time.sleep(0.001)
    search.communicate(timeout=120)
    if search.returncode == 0:
        pytest.skip("it ended before the second signal came")
    assert search.returncode == -signal.SIGINT and not path.exists()


def test_a_time_limit_gives_the_best_plan_so_far_and_says_so(tight, tmp_path):
    path, budget = tmp_path / "short.lt", tight[2]
    for seconds in (1, 5, 25):  # a busy machine may need longer for its first plan
        said = run("plan", *UNET, "--budget", budget, "--effort", 1000, "--time-limit", seconds, "-o", path)
        assert said.returncode in (0, 5), said.stderr
        if said.returncode == 0:
            break
    assert said.returncode == 0, said.stderr
    assert re.search(r"^cut short: ", said.stdout, re.MULTILINE)
    assert run("verify", path).returncode == 0


def test_a_stopped_search_without_a_plan_exits_with_5(tight):
    floor = tight[1]["floor_bytes"]
    expect_error(5, "stopped", str(floor),
                 arguments=["plan", *UNET, "--budget", floor + 64, "--effort", 1000, "--time-limit", 0.5])


def test_a_budget_below_the_floor_exits_with_3_and_names_what_sets_it(tight):
    floor = tight[1]["floor_bytes"]
    line = expect_error(3, "--budget", "every schedule needs at least", "op '", "MiB)", "smallest arena found", "in one part",
                        arguments=["plan", *UNET, *QUICK, *RECOMPUTE, "--budget", floor - 64])
    assert int(re.search(r"at least (\d+) bytes", line)[1]) == floor
    smallest = int(re.search(r"arena found has (\d+) bytes", line)[1])
    assert smallest >= floor
    # What is named there can be had.
    assert run_json("plan", *UNET, *QUICK, *RECOMPUTE, "--budget", smallest)["arena_bytes"] <= smallest


def test_orders_alone_are_refused_by_their_bound(once):
    least = once["lower_bound_bytes"]
    expect_error(3, "each op once", str(least),
                 arguments=["plan", *UNET, "--no-recompute", "--budget", least - 64])


@pytest.mark.parametrize("flags, words", [
    (["--budget", "600MiBs"], ["--budget", "600MiBs", "KiB"]),
    (["--budget", "600mib"], ["--budget", "600mib", "MiB"]),
    (["--budget", "600 megs"], ["--budget", "600 megs"]),
    (["--budget", "-5MiB"], ["--budget", "-5MiB"]),
    (["--budget", "1,5GiB"], ["--budget", "1,5GiB"]),
    (["--budget", ""], ["--budget"]),
    (["--budget", "9e9GiB"], ["--budget"]),
    (["--budget", "1GiB", "--swap", "host", "--link", "0GiB/s"], ["--link", "0GiB/s", "more than 0"]),
    (["--budget", "1GiB", "--swap", "host", "--link", "3GiB"], ["--link", "3GiB", "/s"]),
    (["--budget", "1GiB", "--swap", "tape"], ["--swap", "tape"]),
    (["--budget", "1GiB", "--swap", "host=2GiB,tape"], ["--swap", "tape", "known: host, file"]),
    (["--budget", "1GiB", "--swap", "host=2GiBs,file"], ["--swap", "host", "2GiBs"]),
    (["--budget", "1GiB", "--swap", "host=0,file"], ["--swap", "host", "0 bytes"]),
    (["--budget", "1GiB", "--swap", "host,file,host"], ["--swap", "host", "twice"]),
    (["--budget", "1GiB", "--swap", "host,"], ["--swap", "no name"]),
    (["--budget", "1GiB", "--swap", "=1GiB"], ["--swap", "no name"]),
    (["--budget", "1GiB", "--swap", "host,file", "--link", "1GiB/s"], ["--link", "--swap", "host,file"]),
    (["--budget", "1GiB", "--time-limit", "0"], ["--time-limit", "above 0"]),
    (["--budget", "1GiB", "--effort", "0"], ["--effort", "above 0"]),
    (["--budget", "1GiB", "--prove", "-1"], ["--prove", "-1"]),
    (["--budget", "1GiB", "--swap", "host", "--prove", "1"], ["--prove", "--swap"]),
    (["--budget", "1GiB", "--max", "depth"], ["--max", "depth", "batch"]),
    (["--budget", "1GiB", "--max", "dim=batch"], ["--max", "batch", "size already"]),
    (["--max", "dim=batch"], ["--max needs --budget"]),
])
def test_bad_flags_get_one_line(flags, words):
    expect_error(2, *words, arguments=["plan", *UNET, *flags])


@pytest.mark.parametrize("member", ["out_bytes_per_second", "in_bytes_per_second"])
def test_a_device_whose_link_moves_nothing_is_refused(member, tmp_path):
    device = json.loads((MODELS.parent / "devices/cpu.json").read_text())
    device["slow_tiers"][0][member] = 0
    path = tmp_path / "stuck.json"
    path.write_text(json.dumps(device))
    expect_error(4, "stuck.json", member,
                 arguments=["plan", *UNET, "--budget", "1GiB", "--swap", "host", "--device", path])


def largest(*flags, **more) -> dict:
    return run_json("plan", MODELS / "unet.onnx", "--train", *flags, **more)["max"]


def test_the_largest_batch_that_fits(tmp_path, once):
    path = tmp_path / "most.lt"
    budget = int(once["arena_bytes"] * 1.2)
    flags = ["--budget", budget, "--effort", "0.05"]
    most = largest(*flags, "--max", "dim=batch", "-o", path)
    assert most["dim"] == "batch" and most["size"] >= 1
    assert run("verify", path).returncode == 0
    assert f'"batch": {most["size"]}' in path.read_text()
    assert most["next_is_infeasible"] == (most["proven_too_large"] == most["size"] + 1)
    assert most["proven_too_large_floor_bytes"] > budget
    model = [MODELS / "unet.onnx", "--train"]
    expect_error(3, str(most["proven_too_large_floor_bytes"]),
                 arguments=["plan", *model, "--dim", f"batch={most['proven_too_large']}", *flags, *RECOMPUTE])
    # One less is not proven too large.
    before = run("plan", *model, "--dim", f"batch={most['proven_too_large'] - 1}", *flags, *RECOMPUTE, "--quiet")
    assert before.returncode != 3 or before.stderr == ""
    assert largest(*flags, "--max", "batch") == most


def test_the_largest_batch_by_order_alone_is_exact(once):
    budget = int(once["arena_bytes"] * 1.6)
    flags = ["--budget", budget, "--no-recompute"]
    most = largest(*flags, "--max", "batch")
    model = [MODELS / "unet.onnx", "--train"]
    sizes = [size for size in range(1, most["size"] + 3)
             if run("plan", *model, "--dim", f"batch={size}", *flags, "--quiet").returncode == 0]
    assert sizes == list(range(1, most["size"] + 1))
    assert most["next_is_infeasible"] is True
    said = run("plan", *model, *flags, "--max", "dim=batch").stdout.splitlines()
    assert said[-1].startswith(f"largest batch with a plan: {most['size']}; {most['size'] + 1} is proven not to fit, ")


def test_a_budget_in_which_no_batch_fits_is_refused():
    expect_error(3, "--budget", "at least", "op '",
                 arguments=["plan", MODELS / "unet.onnx", "--train", *QUICK, "--budget", "10MiB", "--max", "batch"])


def test_a_step_in_parts_says_so(tmp_path):
    """GPT-2 of 8 samples."""
    step = ["plan", MODELS / "gpt2.onnx", "--train", "--dim", "batch=8", "--dim", "seq=256"]
    whole = run_json(*step)
    halves = run_json(*step, "--split", 2, "-o", tmp_path / "halves.lt")
    assert whole["parts"] == 1 and "whole_once_seconds" not in whole
    assert halves["parts"] == 2 and halves["ops_in_parts"] > 500
    assert halves["whole_once_seconds"] == pytest.approx(whole["once_seconds"])
    assert halves["arena_bytes"] < whole["arena_bytes"]
    run("verify", tmp_path / "halves.lt")
    loss = run_json(*step, "--split", "1,node_layer_norm_24:8", "-o", tmp_path / "loss.lt")
    assert loss["split"] == "1,node_layer_norm_24:8" and 0 < loss["ops_in_parts"] < 20
    run("verify", tmp_path / "loss.lt")
    wrong = "is neither a number of parts, as in 4, nor 'auto', nor a number and, for ops behind others, larger ones, as in '2,norm:8'"
    for split in ("many", "2,", "2,norm", "0"):
        expect_error(2, f"--split: '{split}' {wrong}", arguments=[*step, "--split", split])
    expect_error(4, "--split: 'none' is no op that runs in parts", arguments=[*step, "--split", "2,none:8"])
    expect_error(4, "--split: 9 parts are asked for, and 'i0' of op 'node_embedding' (Gather), which is in the largest class of axes, "
                 "has 8 elements: at most 8", arguments=[*step, "--split", 9])


def test_a_step_in_parts_is_judged_beside_the_whole_one(tmp_path):
    """Split by the budget it is faster than whole."""
    step = ["plan", *tiny_transformer(tmp_path)]
    budget = run_json(*step, "--split", 2)["arena_bytes"] * 98 // 100
    within = run_json(*step, *QUICK, "--budget", budget)
    chosen = run_json(*step, *QUICK, "--budget", budget, "--split", "auto")
    assert chosen["split"] and chosen["ops_in_parts"] > 0 and chosen["arena_bytes"] <= budget
    assert chosen["predicted_step_seconds"] < within["predicted_step_seconds"]
    # What it says of its parts makes them again: rewrites and blocks of queries may go with them.
    asked = [flag for name in chosen.get("rewrites", {}) for flag in ("--rewrite", name)]
    asked += ["--query-blocks", chosen["query_blocks"]] if "query_blocks" in chosen else []
    again = run_json(*step, *QUICK, "--budget", budget, "--split", chosen["split"], *asked)
    assert again["split"] == chosen["split"] and again["ops_in_parts"] == chosen["ops_in_parts"]


def test_a_budget_in_per_cent_is_of_the_arena_that_needs_none():
    whole = run_json("plan", *UNET)
    some = run_json("plan", *UNET, *QUICK, "--budget", "70%")
    assert some["budget_bytes"] == pytest.approx(0.7 * whole["arena_bytes"], abs=1)
    all_of_it = run_json("plan", *UNET, *QUICK, "--budget", "100%")
    assert all_of_it["predicted_step_seconds"] == pytest.approx(whole["predicted_step_seconds"])
    free = [*UNET[:UNET.index("--dim")], *UNET[UNET.index("--dim") + 2:]]
    expect_error(2, "--budget: '70%' is another one for each size; --max needs bytes, as in 2GiB",
                 arguments=["plan", *free, "--budget", "70%", "--max", "batch"])


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_the_least_memory_within_a_time():
    """More time, less memory, and never more time than allowed."""
    arena = None
    for percent in (0, 5, 20):
        made = run_json("plan", *UNET, *QUICK, *RECOMPUTE, "--slowdown", f"{percent}%")
        assert made["predicted_step_seconds"] <= made["once_seconds"] * (1 + percent / 100) * (1 + 1e-9)
        assert arena is None or made["arena_bytes"] < arena
        arena = made["arena_bytes"]
    expect_error(2, "--slowdown: 'x' is no number of per cent, as in 10%", arguments=["plan", *UNET, "--slowdown", "x"])
