"""Plans and sessions as objects: copied, pickled, shared by threads, used after they are closed."""

import copy
import ctypes
import gc
import multiprocessing
import pickle
import threading

import pytest
from lowtide_cli import MODELS, program

import lowtide
from lowtide import _library, plans
from lowtide.sessions import INPUTS, Session

TEXT = """graph "small" "by hand"
given "x" f32 [64, 64] input fed
op "Relu" "a" "" forward v0
  out "y" f32 [64, 64] activation own
op "Exp" "b" "" forward v1
  out "z" f32 [64, 64] activation own output
"""


@pytest.fixture(autouse=True)
def _library_is_built():
    program()


@pytest.fixture
def plan():
    return plans.plan_text(TEXT, "small", {})


def same(one, other, tmp_path):
    one.save(tmp_path / "one.lt")
    other.save(tmp_path / "other.lt")
    assert (tmp_path / "one.lt").read_bytes() == (tmp_path / "other.lt").read_bytes()
    assert (one.arena_bytes, one.peak_bytes, one.lower_bound_bytes) == (other.arena_bytes, other.peak_bytes, other.lower_bound_bytes)
    assert one.op_names() == other.op_names() and list(one.steps()) == list(other.steps())


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan)),
                                 lambda plan: copy.deepcopy({"plans": [plan, plan]})["plans"][1]])
def test_a_copy_is_of_use_and_lives_by_itself(plan, how, tmp_path):
    plan.communication = {"gather_bytes": 5}
    copied = how(plan)
    same(plan, copied, tmp_path)
    copied.communication["gather_bytes"] = 6
    assert plan.communication == {"gather_bytes": 5}
    del copied
    gc.collect()
    assert plan.arena_bytes > 0
    copied, before = how(plan), repr(plan)
    del plan
    gc.collect()
    assert repr(copied).splitlines()[:2] == before.splitlines()[:2], "a plan file does not say how it was searched"
    assert copied.communication and copied.arena_bytes > 0


def _arena(plan):
    return plan.arena_bytes


def test_a_plan_goes_to_another_process(plan):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_arena, (plan,)) == plan.arena_bytes


def test_a_pickle_that_was_changed_is_refused(plan):
    function, (file, _) = plan.__reduce__()
    with pytest.raises(lowtide.Error):
        function(file.replace(b"Relu", b"Tanh"), {})


def test_texts_of_a_plan_are_read_by_many_threads_at_once(plan):
    found, begin = [], threading.Barrier(8)

    def read():
        begin.wait()
        found.append((repr(plan), str(plan.verdict)))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def opened(plan):
    session, zeros = Session(plan, []), ctypes.create_string_buffer(64 * 64 * 4)
    session.set("x", ctypes.addressof(zeros), len(zeros))
    return session


def test_a_closed_session_says_so(plan):
    session = Session(plan, [])
    assert [value.name for value in session.values(INPUTS)] == ["x"]
    session.close()
    session.close()
    for call in (session.run, session.rehearse, lambda: session.values(INPUTS), lambda: session.set_seed(1),
                 lambda: session.get("z", 0, 0), lambda: session.lent_bytes):
        with pytest.raises(lowtide.Usage, match="closed"):
            call()


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_says_what_to_copy_in_its_place(plan, how):
    with pytest.raises(lowtide.Usage, match="its plan"):
        how(Session(plan, []))


def test_a_session_outlives_its_plan(plan):
    session = opened(plan)
    del plan
    gc.collect()
    session.run()


def test_threads_take_turns_in_a_session_and_one_may_close_it(plan):
    session, problems = opened(plan), []

    def go():
        try:
            for _ in range(300):
                session.run()
        except lowtide.Usage as problem:
            problems.append(str(problem))

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    session.close()
    for thread in threads:
        thread.join()
    assert set(problems) <= {"the session is closed"}


def test_what_the_library_made_is_freed_once():
    freed = []
    handle = object.__new__(_library.Handle)
    handle._free, handle._as_parameter_ = freed.append, _library.c_void_p(7)
    others = [copy.copy(handle), copy.deepcopy([handle])[0]]
    del others
    assert freed == []
    handle.__del__()
    handle.__del__()
    assert [held.value for held in freed] == [7]
