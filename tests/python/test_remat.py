"""`lowtide remat` as a user meets it: answers checked by a simulation of their own, and what bad input gets."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
from lowtide_cli import ROOT, expect_error, program, run, run_json

# 0 -> x(8) -> 1 -> y(4) -> 2 -> z(8) -> 3, which reads x, too; op 3 runs once.
CHAIN = "4 3 100\n3 1\n1 1\n1 1\n1 0\n8 0 2 1 3\n4 1 1 2\n8 2 1 3\n0\n"


@pytest.fixture
def chain(tmp_path) -> pathlib.Path:
    path = tmp_path / "chain.remat"
    path.write_text(CHAIN)
    return path


class Problem:
    """The .remat form, and peak and cost of a sequence by its definition: reference counts up to the next rerun."""

    def __init__(self, text: str):
        numbers = iter(text.split())
        ops, values, self.resident = (int(next(numbers)) for _ in range(3))
        self.ops = [(float(next(numbers)), next(numbers) == "1") for _ in range(ops)]
        self.values = []
        for _ in range(values):
            size, producer, count = (int(next(numbers)) for _ in range(3))
            self.values.append((size, producer, {int(next(numbers)) for _ in range(count)}))
        edges = int(next(numbers))
        self.edges = [(int(next(numbers)), int(next(numbers))) for _ in range(edges)]

    def simulate(self, sequence: list[int]) -> tuple[int, float]:
        assert set(sequence) == set(range(len(self.ops)))
        for op, (_, may_rerun) in enumerate(self.ops):
            assert may_rerun or sequence.count(op) == 1, op
        positions = {}
        for at, op in enumerate(sequence):
            positions.setdefault(op, []).append(at)
        for before, after in self.edges:
            assert positions[before][-1] < positions[after][0], (before, after)
        change = [0] * (len(sequence) + 1)
        for size, producer, readers in self.values:
            births = positions[producer]
            reads = sorted(at for reader in readers for at in positions[reader])
            assert not reads or reads[0] > births[0]
            for birth, end in zip(births, births[1:] + [len(sequence)]):
                last = max([birth] + [at for at in reads if birth < at < end])
                change[birth] += size
                change[last + 1] -= size
        present, peak = self.resident, self.resident
        for delta in change:
            present += delta
            peak = max(peak, present)
        return peak, sum(self.ops[op][0] for op in sequence) * 1e-6


def check(path: pathlib.Path, budget: int, *flags) -> dict:
    output = path.parent / "out.txt"
    outcome = run_json("remat", path, "--budget", budget, "-o", output, *flags)
    sequence = [int(word) for word in output.read_text().split()]
    peak, cost = Problem(path.read_text()).simulate(sequence)
    assert outcome["peak_bytes"] == peak <= budget
    assert outcome["cost"] == pytest.approx(cost, rel=1e-9)
    assert outcome["lower_bound_cost"] <= cost * (1 + 1e-9)
    assert outcome["extra_percent"] >= outcome["lower_bound_extra_percent"] - 1e-9
    return outcome


def test_what_fits_runs_once_and_what_does_not_runs_again(chain):
    outcome = check(chain, 120)
    assert outcome["status"] == "optimal" and outcome["reruns"] == 0 and outcome["extra_percent"] == 0
    outcome = check(chain, 119)
    assert outcome["reruns"] == 1 and outcome["cost"] == pytest.approx(9e-6)
    assert outcome["extra_percent"] == pytest.approx(50)


def test_the_own_form_brings_its_budget(tmp_path):
    problem = tmp_path / "p.txt"
    problem.write_text('lowtide-schedule 2\nbudget 12\nop 1 0 1 "a"\nop 1 0 1 "b"\nvalue 8 0 0 "x" 1\nvalue 4 1 1 "y"\nend\n')
    outcome = run_json("remat", problem)
    assert outcome["status"] == "optimal" and outcome["budget_bytes"] == 12 and outcome["cost"] == 2
    text = run("remat", problem, "--budget", "1KiB").stdout
    assert text.startswith("optimal: peak 12 bytes of 1024, ")


def test_a_budget_below_the_floor_says_what_stands_in_the_way(chain, tmp_path):
    output = tmp_path / "out.txt"
    result = run("remat", chain, "--budget", "115", "--json", "-o", output)
    assert result.returncode == 3 and not output.exists()
    outcome = json.loads(result.stdout)
    assert outcome["status"] == "infeasible" and "peak_bytes" not in outcome and "cost" not in outcome
    assert outcome["floor_bytes"] == 116 and outcome["smallest_peak_bytes"] == 116
    message = run("remat", chain, "--budget", "115").stderr
    for word in ("chain.remat", "115", "at least 116 bytes", "op 3", "value 0", "smallest peak", "116 bytes"):
        assert word in message, message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("flags, code, words", [
    (["--budget", "450MiBB"], 2, ["--budget", "MiB"]),
    (["--budget", "1.5"], 2, ["--budget", "1.5"]),
    (["--budget", "-1"], 2, ["--budget"]),
    (["--budget", ""], 2, ["--budget"]),
    ([], 2, ["--budget", "chain.remat"]),
    (["--budget", "1KiB", "--without", "luck"], 2, ["--without", "luck", "stretch-moves"]),
    (["--budget", "1KiB", "--seed", "-1"], 2, ["--seed"]),
    (["--budget", "1KiB", "--time-limit", "0"], 2, ["--time-limit"]),
    (["--budget", "1KiB", "--threads", "0"], 2, ["--threads"]),
    (["--budget", "1KiB", "-o", "/no/such/folder/out.txt"], 4, ["/no/such/folder"]),
])
def test_bad_flags_get_one_line(chain, flags, code, words):
    result = run("remat", chain, *flags)
    assert result.returncode == code, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    for word in words:
        assert word in result.stderr, result.stderr


def test_bad_files_are_refused(tmp_path):
    broken = tmp_path / "broken.remat"
    expect_error(4, "broken.remat", arguments=["remat", broken, "--budget", "1KiB"])
    for text, words in [("", ["first line"]), (CHAIN.replace("4 3 100", "5 3 100"), [":6:"]),
                        (CHAIN.replace("8 0 2 1 3", "8 0 2 1 4"), [":6:", "reader"]),
                        ('lowtide-schedule 2\nlink 0 1 0\nend\n', ["link"])]:
        broken.write_text(text)
        expect_error(4, "broken.remat", *words, arguments=["remat", broken, "--budget", "1KiB"])


def captured(name: str, folder: pathlib.Path) -> pathlib.Path:
    """A copy of a captured problem, with room for the answer beside it."""
    copy = folder / f"{name}.remat"
    copy.write_text((ROOT / "tests/data/remat" / copy.name).read_text())
    return copy


MIB = 1 << 20


@pytest.mark.parametrize("name, budget", [("resnet50_8", 600), ("unet_2", 650), ("gpt2_4x256", 2150)])
def test_captured_steps_fit_their_budget(name, budget, tmp_path):
    path = captured(name, tmp_path)
    outcome = check(path, budget * MIB, "--max-units", 100_000_000)
    assert 0 < outcome["lower_bound_extra_percent"] <= outcome["extra_percent"] < 60


def test_the_same_seed_gives_the_same_schedule_at_any_thread_count(tmp_path):
    path = captured("unet_2", tmp_path)
    sequences = []
    for threads in (1, 2, 2):
        check(path, 700 * MIB, "--max-units", 30_000_000, "--threads", threads, "--seed", 5)
        sequences.append((tmp_path / "out.txt").read_text())
    assert sequences[0] == sequences[1] == sequences[2]


def test_every_idea_can_be_switched_off(tmp_path):
    path = captured("unet_2", tmp_path)
    ideas = re.search(r"ideas to switch off: ([^\n]+)", run("remat", "--help").stdout).group(1).split(", ")
    assert len(ideas) > 20
    for idea in ideas:
        if idea != "recompute":  # then there is no schedule
            check(path, 850 * MIB, "--max-units", 20_000_000, "--without", idea)
    plain = check(path, 850 * MIB, "--max-units", 20_000_000, "--without", "cut-bound,cut-start")
    assert plain["lower_bound_extra_percent"] == 0


def test_ctrl_c_gives_the_best_so_far(tmp_path):
    path = captured("resnet50_8", tmp_path)
    command = [str(program()), "remat", str(path), "--budget", "700MiB", "--json", "--max-units", "1000000000000"]
    process = subprocess.Popen([*command, "--progress"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # However busy the machine is: once something fits, it is asked for.
    assert any(": best " in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    outcome = json.loads(output)
    assert outcome["cut_short"] and outcome["peak_bytes"] <= 700 * MIB


def test_a_proof_by_cases_raises_the_bound(tmp_path):
    problem = captured("unet_2", tmp_path)
    quick = ["--budget", "600MiB", "--max-units", 100_000_000]
    plain, proven = (run_json("remat", problem, *quick, *more) for more in ([], ["--prove", 3]))
    assert proven["cost"] == plain["cost"]
    assert plain["lower_bound_cost"] < proven["lower_bound_cost"] <= proven["cost"]


def test_the_program_behind_the_bound_is_written_for_other_solvers(tmp_path):
    problem = [captured("unet_2", tmp_path), "--max-units", 1000]
    for name, first in {"p.lp": "Minimize", "p.mps": "NAME lowtide FREE"}.items():
        found = run_json("remat", *problem, "--budget", "700MiB", "--program", tmp_path / name)
        assert (tmp_path / name).read_text().startswith(first)
        assert found["lower_bound_cost"] > found["once_cost"]
    expect_error(4, "nothing is proven", arguments=["remat", *problem, "--budget", "100GiB", "--program", tmp_path / "none.lp"])
    assert not (tmp_path / "none.lp").exists()


def solved(solver: str, folder: pathlib.Path) -> dict:
    """The answer to the integer program behind a bound of the captured U-Net."""
    outcome = run_json("remat", captured("unet_2", folder), "--budget", "650MiB", "--max-units", 1000, "--solve", solver)
    program = outcome["program"]
    assert program["solver"] == solver and program["status"] == "optimal" and not program["point_refused"]
    assert program["rows"] > 100 and program["columns"] > 100 and program["iterations"] > 0
    assert outcome["once_cost"] < program["own_bound_cost"] <= program["bound_cost"] * (1 + 1e-9)
    assert program["bound_cost"] == pytest.approx(program["incumbent_cost"], rel=1e-6)
    assert program["incumbent_cost"] < outcome["cost"]
    return program


def name_highs(monkeypatch) -> None:
    """The library that the tests' Python environment has, where no other is named."""
    if "LOWTIDE_HIGHS" not in os.environ:
        box = pytest.importorskip("highsbox")
        monkeypatch.setenv("LOWTIDE_HIGHS", str(pathlib.Path(box.__file__).parent / "highs_dist/lib/libhighs.so"))


def test_other_solvers_give_a_second_opinion_on_the_bound(tmp_path, monkeypatch):
    relaxed, whole = solved("clp", tmp_path), solved("cbc", tmp_path)
    assert relaxed["nodes"] == 0 and relaxed["version"] == whole["version"]
    assert relaxed["incumbent_cost"] < whole["incumbent_cost"] * (1 - 1e-4)
    name_highs(monkeypatch)
    other = solved("highs", tmp_path)
    assert other["version"].startswith("HiGHS ")
    assert other["incumbent_cost"] == pytest.approx(whole["incumbent_cost"], rel=1e-6)


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_the_program_is_solved_within_limits_and_said_in_a_line(tmp_path):
    problem = ["remat", captured("gpt24_4x256", tmp_path), "--budget", "3362MiB", "--max-units", 1000]
    program = run_json(*problem, "--solve", "cbc", "--solve-for", 0.2)["program"]
    assert program["status"] == "limit" and not program["cut_short"]
    assert program["bound_cost"] < program.get("incumbent_cost", float("inf"))
    first, second = run(*problem, "--solve", "clp").stdout.splitlines()
    assert first.startswith("feasible: ") and second.startswith("clp: optimal, at least ")
    assert "our bound" in second


def test_what_cannot_be_solved_gets_one_line(chain, monkeypatch):
    budget = ["remat", chain, "--budget", "119", "--solve"]
    expect_error(2, "--solve", "glpk", "cbc", arguments=[*budget, "glpk"])
    expect_error(2, "--solve-for", arguments=["remat", chain, "--budget", "119", "--solve-for", 3])
    expect_error(4, "--solve", "nothing is proven", arguments=["remat", chain, "--budget", "100GiB", "--solve", "clp"])
    monkeypatch.setenv("LOWTIDE_HIGHS", "/nowhere/libhighs.so")
    expect_error(2, "/nowhere/libhighs.so", "LOWTIDE_HIGHS", "highsbox", arguments=[*budget, "highs"])


METHODS = ("chen", "dtr", "xla", "pofo")


@pytest.mark.parametrize("method", METHODS)
def test_published_methods_keep_the_budget_and_prove_nothing(tmp_path, method):
    path = tmp_path / "unet.remat"
    path.write_text((ROOT / "tests/data/remat/unet_2.remat").read_text())
    outcome = check(path, 1000 * MIB, "--method", method)
    ours = check(path, 1000 * MIB, "--max-units", 20_000_000)
    assert (outcome["method"], ours["method"]) == (method, "search")
    assert outcome["lower_bound_extra_percent"] == 0 and outcome["reruns"] > 0
    assert outcome["cost"] >= ours["cost"] * (1 - 1e-9)
    roomy = check(path, 100_000 * MIB, "--method", method)
    assert (roomy["status"], roomy["reruns"]) == ("optimal", 0)


def test_a_published_method_that_finds_nothing_says_so(chain):
    result = run("remat", chain, "--budget", 117, "--method", "pofo", "--json")
    assert result.returncode == 5 and json.loads(result.stdout)["status"] == "limit"
    assert "--method pofo finds no schedule within --budget 117 bytes" in result.stderr
    assert run("remat", chain, "--budget", 115, "--method", "pofo").returncode == 3  # below the floor


def test_published_methods_move_over_a_link_or_do_without(tmp_path):
    problem = tmp_path / "linked.txt"
    ops = "".join(f'op {seconds} 0 1 "{name}"\n' for name, seconds in zip("abcdef", (3, 1, 4, 4, 4, 1)))
    values = [(8, 0, "1 5"), (4, 1, "2"), (4, 2, "3"), (12, 3, "4"), (3, 4, "5")]
    problem.write_text("lowtide-schedule 2\nbudget 23\nlink 2 2 0 0\n" + ops
                       + "".join(f'value {size} {op} 0 "" {readers}\n' for size, op, readers in values) + "end\n")
    moving = run_json("remat", problem, "--method", "xla", "-o", tmp_path / "out.txt")
    assert (moving["extra_percent"], moving["stored_bytes"]) == (0, 8)
    assert (tmp_path / "out.txt").read_text() == "0 1 store:0 2 drop:0 3 load:0 4 5\n"
    alone = run_json("remat", problem, "--method", "xla", "--without", "transfers")
    assert (alone["reruns"], alone["cost"]) == (1, 20)


@pytest.mark.parametrize("flag", ["--prove 1", "--seed 2", "--threads 2", "--program p.lp", "--progress", "--without recompute"])
def test_what_a_published_method_has_not_is_refused(chain, flag):
    expect_error(2, *flag.split()[:1], "--method dtr", arguments=["remat", chain, "--budget", "1KiB", "--method", "dtr", *flag.split()])
