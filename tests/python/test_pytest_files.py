"""scripts/pytest_files: one process for each file, its report and what it printed, and a failure where one fails or dies."""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/pytest_files"
FILES = {
    "test_right": "import os\ndef test_a(): os.environ['MARK'] = '1'",
    "test_beside": "import os\ndef test_b(): assert 'MARK' not in os.environ and 'test_right' not in __import__('sys').modules",
    "test_wrong": "def test_c(): assert 1 + 1 == 3",
    "test_elsewhere": "import pytest\npytest.skip('no such device', allow_module_level=True)",
    "test_ending": "import atexit\ndef test_e(): atexit.register(print, 'the end')",
    "test_with_the_package": "import atexit, sys\nclass Gone:\n    def __del__(self): print('taken down')\ngone = Gone()\n"
                             "def test_f(): sys.modules['lowtide'] = sys",
    "test_dying": "import os, signal\ndef test_d(): os.kill(os.getpid(), signal.SIGKILL)",
}


def run(folder: pathlib.Path, *names: str) -> subprocess.CompletedProcess:
    paths = [folder / f"{name}.py" for name in names]
    for path in paths:
        path.write_text(FILES[path.stem])
    return subprocess.run([sys.executable, SCRIPT, str(len(names)), folder, *paths], capture_output=True, text=True)


def test_files_that_pass_run_apart_and_leave_a_report_each(tmp_path):
    done = run(tmp_path, "test_right", "test_beside")
    assert done.returncode == 0, done.stdout
    for name in ("test_right", "test_beside"):
        assert re.search(rf"^{name} [\d.]+$", done.stdout, re.MULTILINE), done.stdout
        assert len(list(xml.etree.ElementTree.parse(tmp_path / f"pytest-{name}.xml").iter("testcase"))) == 1


def test_all_end_in_order_and_those_with_the_package_are_taken_down(tmp_path):
    done = run(tmp_path, "test_ending", "test_with_the_package")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("the end\n") == done.stdout.count("taken down\n") == 1, done.stdout


def test_one_that_fails_or_dies_is_said_and_fails_the_run(tmp_path):
    done = run(tmp_path, "test_wrong", "test_dying", "test_right")
    assert done.returncode == 1
    assert "assert (1 + 1) == 3" in done.stdout and "test_dying: ended by signal 9" in done.stdout
    assert (tmp_path / "pytest-test_right.xml").exists()


def test_a_file_that_is_skipped_as_a_whole_fails_nothing_and_is_named(tmp_path):
    done = run(tmp_path, "test_elsewhere", "test_right")
    assert done.returncode == 0, done.stdout
    (case,) = xml.etree.ElementTree.parse(tmp_path / "pytest-test_elsewhere.xml").iter("testcase")
    assert "no such device" in case.find("skipped").text
