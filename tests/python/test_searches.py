"""A search that somebody interrupts: whatever is raised in the waiting thread, it has ended before that goes on, and what goes
wrong in its own thread comes out as it is."""

import ctypes
import io
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from lowtide_cli import MODELS, ROOT, program

import lowtide
from lowtide import plans, searches

LONG = {"train": True, "dims": {"batch": 8}, "budget": "60%", "effort": 1000.0, "threads": 1, "time_limit_seconds": 60}
MODEL = MODELS / "resnet50.onnx"


@pytest.fixture(autouse=True)
def _library_is_built():
    program()


def planning_threads():
    return [thread for thread in threading.enumerate() if thread.name == "lowtide-plan"]


class Late(Exception):
    pass


class Ended(BaseException):
    pass


@pytest.fixture
def raising():
    """Raises in the main thread what the test says, once, by a timer's signal."""
    before = signal.getsignal(signal.SIGALRM)

    def begin(kind, seconds=0.3):
        def handler(*_):
            raise kind

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield begin
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [Late, TimeoutError, SystemExit, GeneratorExit, Ended, MemoryError, lowtide.Usage])
def test_what_is_raised_while_a_search_runs_waits_for_its_end(raising, kind):
    raising(kind)
    began = time.monotonic()
    with pytest.raises(kind):
        lowtide.plan(MODEL, **LONG)
    assert not planning_threads() and not searches._running, "nothing searches any more"
    assert time.monotonic() - began < 50, "it was stopped"


def test_what_is_raised_again_and_again_waits_too():
    """In a process of its own: what is raised while pytest looks at exceptions that Python ignored is a fault of the test."""
    code = f"""
import signal, threading, time, lowtide
from lowtide import searches
class Late(Exception): pass
def handler(_, frame):
    while frame is not None and frame.f_code.co_filename != searches.__file__:
        frame = frame.f_back
    if frame is not None:
        raise Late
signal.signal(signal.SIGALRM, handler)
planning = lambda: [t for t in threading.enumerate() if t.name == "lowtide-plan"]
late = 0
for _ in range(3):
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.005)
    try:
        lowtide.plan({str(MODEL)!r}, **{LONG!r})
    except Late:
        late += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    end = time.monotonic() + 20
    while planning() and time.monotonic() < end:  # one of the many may have come between two lines
        time.sleep(0.01)
    assert not planning()
print(late, lowtide.plan({str(MODEL)!r}, dims={{"batch": 1}}).arena_bytes > 0)
"""
    assert in_a_process(code) == "3 True"


def test_what_another_thread_raises_in_the_one_that_waits_waits_too():
    found = []

    def go():
        try:
            lowtide.plan(MODEL, **LONG)
        except BaseException as problem:  # noqa: BLE001: that is the question
            found.append((type(problem), bool(planning_threads())))

    waiting = threading.Thread(target=go)
    waiting.start()
    time.sleep(0.5)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(waiting.ident), ctypes.py_object(Late)) == 1
    waiting.join(50)
    assert found == [(Late, False)]


@pytest.mark.parametrize("count", [2, 3])
def test_the_second_ctrl_c_is_raised_when_the_search_has_ended(count):
    code = f"""
import os, signal, threading, time, lowtide
signal.signal(signal.SIGINT, signal.default_int_handler)
def press():
    time.sleep(0.6)
    for _ in range({count}):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.0005)
class Slow:  # so that the search, which ends in a moment, has not ended when the next one comes
    def __init__(self, event): self.event, self.times = event, 0
    def is_set(self): return self.event.is_set() and time.monotonic() > end
    def wait(self, seconds=None): time.sleep(0.05); return self.is_set()
    def set(self): self.event.set()
end = time.monotonic() + 2
from lowtide import searches
plain = searches.threading.Event
threading.Thread(target=press, daemon=True).start()
made = searches._Search.__init__
def patched(self, *given):
    made(self, *given)
    self.ended = Slow(self.ended)
searches._Search.__init__ = patched
try:
    lowtide.plan({str(MODEL)!r}, **{LONG!r})
except KeyboardInterrupt:
    print("interrupted", [t.name for t in threading.enumerate() if t.name == "lowtide-plan"])
"""
    assert in_a_process(code) == "interrupted []"


def in_a_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.strip()


def test_a_process_ends_while_a_daemon_thread_plans():
    code = f"""
import threading, time, lowtide
threading.Thread(target=lambda: lowtide.plan({str(MODEL)!r}, **{LONG!r}), daemon=True).start()
time.sleep(0.7)
print("end")
"""
    assert in_a_process(code) == "end"


def test_a_fork_of_a_process_that_plans_ends_by_itself():
    code = f"""
import os, sys, threading, time, lowtide
waiting = threading.Thread(target=lambda: lowtide.plan({str(MODEL)!r}, **{LONG!r}), daemon=True)
waiting.start()
time.sleep(0.5)
child = os.fork()
if child == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert in_a_process(code) == "7"


@pytest.mark.parametrize("value", [object(), [object()], {"a": (1, {2})}, {1 + 2j}])
def test_options_that_are_no_numbers_are_refused_by_name(value):
    with pytest.raises(lowtide.Usage, match="cuts"):
        lowtide.plan(MODEL, dims={"batch": 1}, cuts=value)
    with pytest.raises(lowtide.Usage, match="dims"):
        lowtide.plan(MODEL, dims={"batch": value})


def test_an_option_that_holds_itself_is_refused_by_name():
    value = []
    value.append(value)
    with pytest.raises(lowtide.Usage, match="cuts"):
        lowtide.plan(MODEL, dims={"batch": 1}, cuts=value)


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, SystemExit, Ended])
def test_what_goes_wrong_in_the_thread_comes_out_as_it_is(monkeypatch, kind):
    problem = kind("of the thread")

    def check(status):
        if threading.current_thread().name == "lowtide-plan":
            raise problem

    monkeypatch.setattr(searches._library, "check", check)
    with pytest.raises(kind) as raised:
        lowtide.plan(MODEL, dims={"batch": 1})
    assert raised.value is problem


def test_a_terminal_that_is_gone_does_not_end_a_search(monkeypatch):
    gone = io.StringIO()
    gone.close()
    for terminal in (gone, None):
        monkeypatch.setattr(sys, "stderr", terminal)
        line = searches._Line(True)
        line.began = -1e9
        progress = searches._library.Progress(stage=b"runs")
        line.update(progress)
        assert not line.wanted
        assert lowtide.plan(MODEL, dims={"batch": 1}, progress=True).arena_bytes > 0


def test_where_no_thread_can_be_started_the_search_runs_in_this_one(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert lowtide.plan(MODEL, dims={"batch": 1}).arena_bytes > 0


def test_a_search_holds_what_it_uses():
    """So that nothing is freed below it, wherever an exception comes from."""
    model = plans._read(lambda out: lowtide._library.library().lowtide_model_read(
        os.fsencode(MODEL), b'{"dims": {"batch": 8}, "training": true}', out))
    search = searches._Search(model, {key: value for key, value in LONG.items() if key != "dims"}, None)
    search.start()
    ended, plan, flag = search.ended, search.plan, search.flag
    time.sleep(0.2)
    del model, search
    lowtide._library.library().lowtide_cancel_raise(flag)
    assert ended.wait(50)
    assert lowtide.Plan(plan).arena_bytes > 0
    assert pathlib.Path(MODEL).exists()
