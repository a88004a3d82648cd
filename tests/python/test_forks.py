"""Scripts in forks begin and end as processes of their own."""

import subprocess

import pytest
from forks import Forks

SAYS = """
import os, sys, threading
print(__name__, sys.argv[1:], os.environ["NAME"], "json.tool" in sys.modules, len(os.listdir("/proc/self/task")), sys.stdin.read())
import atexit
atexit.register(lambda: print("ended", file=sys.stderr))
"""


@pytest.fixture(scope="module")
def server():
    return Forks(("json.tool", "no_such_module"), {})


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(text)
    return path


def test_each_has_its_arguments_its_environment_and_what_was_imported(server, tmp_path):
    (tmp_path / "beside.py").write_text("")
    done = server.run([script(tmp_path, SAYS + "import beside"), "a", 1], [{"NAME": "x"}, {"NAME": "y"}], 60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"__main__ ['a', '1'] {name} True 1 \n" for name in "xy")
    assert done.stderr == "ended\n" * 2


def test_paths_are_searched_and_one_script_leaves_nothing_to_the_next(server, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/elsewhere.py").write_text("")
    path = script(tmp_path, "import elsewhere, os; os.environ['LEFT'] = '1'; os._exit(0)")
    assert server.run([path], [{"PYTHONPATH": str(tmp_path / "more")}], 60).returncode == 0
    done = server.run([script(tmp_path, "import os; assert 'LEFT' not in os.environ; import elsewhere")], [{}], 60)
    assert done.returncode == 1 and "No module named 'elsewhere'" in done.stderr, done.stderr


@pytest.mark.parametrize(("text", "code"), [("raise SystemExit(7)", 7), ("1 / 0", 1), ("import os; os.kill(os.getpid(), 6)", -6)])
def test_one_that_fails_ends_those_beside_it(server, tmp_path, text, code):
    waits = "import os, time\nif os.environ['K'] == '1': time.sleep(100)\n"
    done = server.run([script(tmp_path, waits + text)], [{"K": "0"}, {"K": "1"}], 60)
    assert done.returncode == code
    assert ("ZeroDivisionError" in done.stderr) == (text == "1 / 0")


def test_one_that_does_not_end_is_killed(server, tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        server.run([script(tmp_path, "import time; time.sleep(100)")], [{}], 0.2)
    assert server.run([script(tmp_path, "")], [{}], 60).returncode == 0
