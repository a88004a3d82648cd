"""The total that scripts/test prints, on reports in the forms that ctest and pytest write."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/count_results.py"
CTEST = """<testsuite name="Linux-c++" tests="4" failures="1" skipped="1">
<testcase name="a" status="run"/><testcase name="b" status="fail"><failure message=""/></testcase>
<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="d" status="run"/></testsuite>"""
PYTEST = """<testsuites><testsuite name="pytest"><testcase name="e"/>
<testcase name="f"><error message="broken fixture"/></testcase>
<testcase name="g"><skipped message="no torch"/></testcase></testsuite></testsuites>"""
NOT_BUILT = '<testsuite><testcase name="x_NOT_BUILT" status="fail"><failure message="Not Run"/></testcase></testsuite>'


def run(folder: pathlib.Path, *arguments: str) -> tuple[int, list[str]]:
    result = subprocess.run([sys.executable, SCRIPT, folder, *arguments], capture_output=True, text=True)
    return result.returncode, result.stdout.splitlines()


def test_both_forms_are_added_up(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    code, lines = run(tmp_path, "--skipped", "1", "--failed", "2")
    assert (code, lines[-1]) == (1, "3 passed, 4 failed, 3 skipped")
    assert "skipped g: no torch" in lines and "failed b" in lines


def test_what_tests_recorded_is_printed_and_not_counted(tmp_path):
    (tmp_path / "ctest.xml").write_text('<testsuite><testcase name="io.Cases.Run" status="run"/></testsuite>')
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded/io.Cases.Run.xml").write_text(
        '<testsuites><testsuite><testcase name="Run" classname="Cases" status="run"><properties>'
        '<property name="run" value="7"/><property name="skipped" value="2 (strings)"/></properties></testcase>'
        '<testcase name="Other" classname="Cases"/></testsuite></testsuites>')
    code, lines = run(tmp_path)
    assert (code, lines) == (0, ["recorded Cases.Run: run 7, skipped 2 (strings)", "1 passed, 0 failed, 0 skipped"])


def test_a_test_that_runs_several_counts_as_they_do(tmp_path):
    (tmp_path / "several/cpu").mkdir(parents=True)
    report = tmp_path / "several/cpu/kernels.1.xml"
    report.write_text('<testsuites><testsuite><testcase name="A" status="run" result="completed"/>'
                      '<testcase name="B" classname="Kernels" status="run"><properties><property name="run" value="7"/></properties></testcase>'
                      '<testcase name="C" status="run" result="skipped"><skipped message="no AVX-512"/></testcase>'
                      '<testcase name="D" status="notrun" result="suppressed"/></testsuite></testsuites>')
    entry = '<testsuite><testcase name="cpu/kernels.1" status="{}"/><testcase name="cpu/kernels.2" status="run"/></testsuite>'
    (tmp_path / "ctest.xml").write_text(entry.format("run"))
    code, lines = run(tmp_path)
    assert (code, lines[-1]) == (0, "3 passed, 0 failed, 2 skipped")
    assert "recorded Kernels.B: run 7" in lines and "skipped C: no AVX-512" in lines
    # It ended badly after a report in which all is well.
    (tmp_path / "ctest.xml").write_text(entry.format("fail"))
    code, lines = run(tmp_path)
    assert (code, lines[-1]) == (1, "3 passed, 1 failed, 2 skipped") and "failed cpu/kernels.1" in lines
    # The test that failed is counted once; without a report, all that did not run is one failure.
    report.write_text('<testsuite><testcase name="A" status="run"><failure message="x"/></testcase></testsuite>')
    assert run(tmp_path)[1][-1] == "1 passed, 1 failed, 0 skipped"
    report.unlink()
    assert run(tmp_path)[1][-1] == "1 passed, 1 failed, 0 skipped"


def test_success_needs_a_test_that_passed(tmp_path):
    assert run(tmp_path) == (1, ["0 passed, 0 failed, 0 skipped"])
    (tmp_path / "ctest.xml").write_text('<testsuite><testcase name="a" status="run"/></testsuite>')
    assert run(tmp_path) == (0, ["1 passed, 0 failed, 0 skipped"])


def test_a_program_that_was_not_built_is_a_failure(tmp_path):
    (tmp_path / "ctest.xml").write_text(NOT_BUILT)
    assert run(tmp_path)[1][-1] == "0 passed, 1 failed, 0 skipped"
