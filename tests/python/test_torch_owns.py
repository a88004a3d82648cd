"""A step owns what it uses: whoever else allocates meanwhile gets memory elsewhere, one thread at a time is inside, no signal handler
runs in the middle, and a step is not copied."""

import contextlib
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest
from lowtide_cli import ROOT
from torch_models import OPTIMIZERS, assert_equal_steps, eager_step, torch, twin

import lowtide
from lowtide.pytorch import addresses, engines, entering
from lowtide.pytorch import measure as measuring

SIZES = ((64, 128), (128, 128), (128,), (64, 8), (8, 128), ())  # of what a step of `net` makes and updates


def net():
    torch.manual_seed(1)
    linear = [part for _ in range(3) for part in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
    return torch.nn.Sequential(*linear, torch.nn.BatchNorm1d(128), torch.nn.Linear(128, 8))


def loss_fn(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def data(seed=0):
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(64, 128, generator=stream), torch.randint(0, 8, (64,), generator=stream)


def compiled(name="adamw", **options):
    model = net()
    other, mine, its = twin(model, OPTIMIZERS[name])
    step = lowtide.compile_step(model, loss_fn, mine, data(), effort=0.1, **options)
    if step.engine == "torch" and not step.addresses:
        pytest.skip("no C++ compiler")
    return step, model, mine, other, its


class Others:
    """Tensors that somebody makes in the middle, and what was written into them."""

    def __init__(self):
        self.kept, self.busy = [], False

    def make(self, *_):
        if self.busy:
            return
        self.busy = True
        value = float(len(self.kept) + 1)
        self.kept.append((value, [torch.full(size, value) for size in SIZES]))
        self.busy = False

    def check(self, arena=None):
        assert self.kept, "nobody made anything"
        for value, tensors in self.kept:
            assert all((tensor == value).all() for tensor in tensors)
        if arena is not None:
            base = arena.allocator.library.lt_arena_base(arena.handle)
            assert not any(base <= t.data_ptr() < base + arena.bytes for _, tensors in self.kept for t in tensors)


def in_pieces(step, instead):
    """The step's code with a call of `instead` between all of its lines."""
    code = step._now.code
    head, *lines = [line for line in code.source.splitlines() if line]
    scope = {**code.run.__globals__, "instead": instead}
    body = lines[:2] + [part for line in lines[2:-1] for part in (line, "    instead()")]
    exec(compile("\n".join([head, *body, lines[-1]]), "<lowtide step>", "exec"), scope)
    code.unit_of_line[:] = [-1] * (len(body) + 2)
    code.run = scope["run"]


@contextlib.contextmanager
def a_timer(number, timer, handler):
    before = signal.signal(number, handler)
    signal.setitimer(timer, 0.0003, 0.0003)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def is_inside(frame):
    """In the step's own code and its updates: elsewhere CPython 3.11.2 fails by itself where such a function collects garbage."""
    return frame.f_code.co_filename.startswith("<lowtide") or "optim" in frame.f_code.co_filename


@contextlib.contextmanager
def a_profile(handler):
    sys.setprofile(lambda frame, *_: handler() if is_inside(frame) else None)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def a_trace(handler):
    before = sys.gettrace()

    def trace(frame, *_):
        if is_inside(frame):
            handler()
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


class Cycle:
    def __init__(self, other):
        self.other, self.me = other, self

    def __del__(self):
        self.other()


@contextlib.contextmanager
def a_collector(handler, how):
    """The collector runs at every few allocations of Python's, and has something to call."""
    before = gc.get_threshold()
    gc.set_threshold(9, 10**6, 10**6)
    if how == "callback":
        gc.callbacks.append(handler)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if how == "callback":
            gc.callbacks.remove(handler)


class Watching(torch.utils._python_dispatch.TorchDispatchMode):
    """A mode of somebody who makes a tensor before and behind each op."""

    def __init__(self, handler):
        super().__init__()
        self.handler = handler

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.handler()
        result = func(*args, **(kwargs or {}))
        self.handler()
        return result


def around(kind, others):
    return {
        "SIGALRM": lambda: a_timer(signal.SIGALRM, signal.ITIMER_REAL, others.make),
        "SIGPROF": lambda: a_timer(signal.SIGPROF, signal.ITIMER_PROF, others.make),
        "setprofile": lambda: a_profile(others.make),
        "settrace": lambda: a_trace(others.make),
        "gc callback": lambda: a_collector(others.make, "callback"),
        "dispatch mode": lambda: Watching(others.make),
    }[kind]()


def run_beside_eager_mode(kind, name, others, steps=4):
    step, model, mine, other, its = compiled(name)
    for k in range(steps):
        with around(kind, others):
            begin = time.monotonic()
            loss = step(data(k))
            while not others.kept and time.monotonic() < begin + 5:
                loss = loss if others.kept else loss.clone()
        assert torch.equal(loss, eager_step(other, loss_fn, its, data(k))), (kind, k)
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    others.check(step._now.arena)
    return step


@pytest.mark.parametrize("name", ["adamw", "sgd"])
@pytest.mark.parametrize("kind", ["SIGALRM", "SIGPROF", "setprofile", "settrace", "gc callback", "dispatch mode"])
def test_who_else_allocates_gets_memory_elsewhere(kind, name):
    run_beside_eager_mode(kind, name, Others())


@pytest.mark.parametrize("how", ["finalize", "__del__", "weakref callback", "finalizer of a cycle", "a call"])
def test_what_dies_in_the_middle_may_allocate(how):
    """Between any two lines of the step something of somebody else's ends, and makes tensors of the sizes that come next."""
    others = Others()

    class Thing:
        pass

    def end():
        if how == "finalize":
            thing = Thing()
            weakref.finalize(thing, others.make)
        elif how == "__del__":
            Cycle(others.make).me = None
        elif how == "weakref callback":
            thing = Thing()
            end.kept = weakref.ref(thing, others.make)
            del thing
        elif how == "finalizer of a cycle":
            Cycle(others.make)
            gc.collect(0)
        else:
            others.make()

    step, model, mine, other, its = compiled()
    in_pieces(step, end)
    for k in range(2):
        assert torch.equal(step(data(k)), eager_step(other, loss_fn, its, data(k))), k
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
        others.check(step._now.arena)
    assert step.memory.planned > 0


class Own(torch.optim.Optimizer):
    """Temporaries of the parameter's size, between which `between` runs."""

    between = None

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    half = scaled(p.grad)
                    Own.between and Own.between()
                    whole = half + scaled(p)
                    Own.between and Own.between()
                    p.sub_(whole * (half.abs() + 1), alpha=group["lr"])


def scaled(tensor):
    return tensor * 0.5


@pytest.mark.parametrize("how", ["finalizer", "__del__", "weakref callback", "what calls the optimizer's own functions"])
def test_what_dies_within_an_update_may_allocate(how):
    """It runs in the middle of the optimizer's functions, and makes tensors of the sizes that come next."""
    if not addresses.allocator().knows_functions:
        pytest.skip("this version of Python's frames is not known")
    model, kept = net(), []
    others = Others()
    other, mine, its = twin(model, Own)
    step = lowtide.compile_step(model, loss_fn, mine, data(), effort=0.1)

    class Thing:
        pass

    def own_functions(*_):
        kept.append(scaled(torch.full((128, 128), 14.0)))

    def between():
        thing = Thing()
        if how == "finalizer":
            weakref.finalize(thing, others.make)
        elif how == "weakref callback":
            between.kept = weakref.ref(thing, others.make)
        elif how == "__del__":
            Cycle(others.make).me = None
        else:
            weakref.finalize(thing, own_functions)

    for k in range(3):
        Own.between = between
        loss = step(data(k))
        Own.between = None
        assert torch.equal(loss, eager_step(other, loss_fn, its, data(k))), k
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    if how == "what calls the optimizer's own functions":
        others.kept = [(7.0, kept)]
    others.check(step._now.arena)


@pytest.mark.parametrize("kind", ["SIGALRM", "setprofile", "gc callback"])
def test_who_allocates_while_a_kind_is_measured_does_not_spoil_its_list(kind):
    others = Others()
    model = net()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    plain = lowtide.compile_step(model, loss_fn, mine, data(), effort=0.1, cache=False)
    timed = addresses.Allocator.record_begin

    def begin(self):
        if kind != "SIGALRM":
            stack.enter_context(around(kind, others))
        timed(self)

    ended = addresses.Allocator.record_end

    def end(self):
        found = ended(self)
        stack.close()
        return found

    stack = contextlib.ExitStack()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addresses.Allocator, "record_begin", begin)
        patch.setattr(addresses.Allocator, "record_end", end)
        if kind == "SIGALRM":
            patch.setattr(entering, "_NUMBERS", [*entering._NUMBERS])
            timer = threading.Thread(target=lambda: None)
            timer.start()
            pressed = type(plain._now.planned.captured.program.device).timed

            def press(self, function, given):
                return pressed(self, lambda held: (os.kill(os.getpid(), signal.SIGALRM), function(held))[1], given)

            patch.setattr(type(plain._now.planned.captured.program.device), "timed", press)
            before = signal.signal(signal.SIGALRM, others.make)
        step = lowtide.compile_step(model, loss_fn, mine, data(), effort=0.1, cache=False)
        if kind == "SIGALRM":
            signal.signal(signal.SIGALRM, before)
    others.check()

    def sizes(of):
        return sorted(tuple(place[::2]) for part in of._now.code.parts for place in part)

    assert sizes(step) == sizes(plain)
    assert torch.equal(step(data()), eager_step(other, loss_fn, its, data())) and step.memory.beside == 0


def test_an_address_is_not_given_while_something_lies_there():
    """Whatever takes it: what comes next lies beside."""
    step, model, mine, other, its = compiled()
    held, library, run = [], step._now.arena.allocator.library, step._now.code.run
    places = [(k, part[0]) for k, part in enumerate(step._now.code.parts) if part and part[0].caller == addresses.OWN]

    def thief(given):
        for number, place in places[:3]:
            library.lt_mark(number)
            held.append(torch.empty(place.bytes, dtype=torch.uint8).fill_(7))
        return run(given)

    step._now.code.run = thief
    loss = step(data())
    assert torch.equal(loss, eager_step(other, loss_fn, its, data()))
    assert step.memory.beside > 0 and all(bool((t == 7).all()) for t in held)
    arena = step._now.arena.handle
    step._now.code.run = run
    assert torch.equal(step(data(1)), eager_step(other, loss_fn, its, data(1)))
    assert all(bool((t == 7).all()) for t in held)
    assert step._now.arena.handle != arena and step.memory.beside == 0, "another arena, as somebody holds the first"
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_threads_take_turns_in_a_step(engine):
    step, model, mine, other, its = compiled(engine=engine)
    losses = []

    def go():
        for _ in range(10):
            losses.append(step(data()))

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = [eager_step(other, loss_fn, its, data()) for _ in range(30)]
    pairs = zip(sorted(losses, reverse=True), sorted(wanted, reverse=True), strict=True)
    if engine == "torch":
        assert all(torch.equal(a, b) for a, b in pairs)
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    else:
        assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)


def test_new_shapes_rehearsals_and_measurements_take_turns_too():
    step, model, *_ = compiled()
    problems = []

    def go(call):
        try:
            for _ in range(3):
                call()
        except BaseException as problem:  # noqa: BLE001: that is the question
            problems.append(problem)

    half = (data()[0][:32], data()[1][:32])
    calls = (lambda: step(data()), lambda: step(half), lambda: step.rehearse(data()), lambda: lowtide.measure(step, 1), lambda: repr(step))
    threads = [threading.Thread(target=go, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and all(bool(torch.isfinite(p).all()) for p in model.parameters())


@pytest.mark.parametrize("call", ["step", "rehearse", "measure"])
def test_a_step_within_itself_is_refused_before_anything_is_written(call):
    step, model, mine, other, its = compiled()
    refused = []

    def within():
        with pytest.raises(lowtide.Usage, match="from within"):
            {"step": lambda: step(data()), "rehearse": lambda: step.rehearse(data()), "measure": lambda: lowtide.measure(step)}[call]()
        refused.append(repr(step))

    in_pieces(step, within)
    loss = step(data())
    assert refused and torch.equal(loss, eager_step(other, loss_fn, its, data()))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_another_step_within_a_step_has_its_own_addresses():
    step, model, mine, other, its = compiled()
    inner, inner_model, _, inner_other, inner_its = compiled("sgd")
    made = []
    in_pieces(step, lambda: made.append(inner(data(3))) if len(made) < 2 else None)
    for k in range(2):
        assert torch.equal(step(data(k)), eager_step(other, loss_fn, its, data(k)))
    assert len(made) == 2
    for loss in made:
        assert torch.equal(loss, eager_step(inner_other, loss_fn, inner_its, data(3)))


def test_a_step_within_a_capture_is_refused():
    inner, outer = net(), net()
    mine, its = (torch.optim.SGD(model.parameters(), 0.1) for model in (inner, outer))

    def nested(model, batch):
        engines.plan_step(inner, loss_fn, mine, batch)
        return loss_fn(model, batch)

    with pytest.raises(lowtide.Usage, match="within the capture"):
        lowtide.plan(outer, nested, its, data(), effort=0.1)
    assert not entering.CAPTURE.inside
    assert lowtide.plan(outer, loss_fn, its, data(), effort=0.1).arena_bytes > 0


def test_captures_of_two_threads_take_turns():
    plans, problems, models = [], [], [net() for _ in range(2)]

    def go(model):
        try:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            plans.append(engines.plan_step(model, loss_fn, optimizer, data(), effort=0.1, cache=False))
        except BaseException as problem:  # noqa: BLE001: that is the question
            problems.append(problem)

    threads = [threading.Thread(target=go, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and len({plan.arena_bytes for plan in plans}) == 1


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGUSR1])
def test_what_a_handler_makes_while_a_step_is_captured_is_no_part_of_it(number):
    others, model = Others(), net()
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    plain = lowtide.compile_step(model, loss_fn, mine, data(), effort=0.1)

    def pressing(model, batch):
        os.kill(os.getpid(), number)
        value = model(batch[0])
        os.kill(os.getpid(), number)
        return torch.nn.functional.cross_entropy(value, batch[1])

    before = signal.signal(number, others.make)
    try:
        step = lowtide.compile_step(model, pressing, mine, data(), effort=0.1)
        assert signal.getsignal(number) == others.make
    finally:
        signal.signal(number, before)
    others.check()
    assert all(type(t) is torch.Tensor for _, tensors in others.kept for t in tensors)
    assert len(step.source.splitlines()) == len(plain.source.splitlines())
    assert torch.equal(step(data()), eager_step(other, loss_fn, its, data()))


class Late(Exception):
    pass


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_what_a_handler_raises_is_raised_when_the_step_is_done(number, engine):
    step, model, mine, other, its = compiled("sgd", engine=engine)

    def late(*_):
        raise Late

    before = signal.signal(number, late)
    try:
        if engine == "torch":
            in_pieces(step, lambda: os.kill(os.getpid(), number))
        else:
            feed = step._feed
            step._feed = lambda *given: (os.kill(os.getpid(), number), feed(*given))[1]
        with pytest.raises(Late) as raised:
            step(data())
        assert signal.getsignal(number) is late and not hasattr(raised.value, "__notes__")
    finally:
        signal.signal(number, before)
    eager_step(other, loss_fn, its, data())
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b) if engine == "torch" else torch.allclose(a, b, rtol=1e-3, atol=1e-3)


def test_each_handler_that_waited_is_called_once_and_all_are_put_back():
    called = []

    def handler(number, frame):
        called.append((number, frame is not None))
        if number == signal.SIGUSR1:
            raise Late

    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        with pytest.raises(Late), entering.handlers_wait():
            for number in numbers * 3:
                os.kill(os.getpid(), number)
            assert called == []
        assert called == [(number, True) for number in numbers]
        assert all(signal.getsignal(number) is handler for number in numbers)
    finally:
        for number, was in before.items():
            signal.signal(number, was)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_step_says_what_to_copy_in_its_place(how, engine):
    step, model, *_ = compiled(engine=engine)
    with pytest.raises(lowtide.Usage, match=r"lowtide\.compile_step.*step\.plan"):
        how(step)
    assert how(step.plan) is not None


def test_a_model_that_holds_its_step_says_what_to_do_when_it_is_copied(tmp_path):
    step, model, *_ = compiled()
    model.planned = step
    for call in (lambda: copy.deepcopy(model), lambda: torch.save(model, tmp_path / "model.pt")):
        with pytest.raises(lowtide.Usage, match="take that attribute out"):
            call()
    del model.planned
    assert copy.deepcopy(model) is not model


class Fails(torch.optim.Optimizer):
    """Draws a number and raises, at a rate that it does not take."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            if group["lr"] < 0:
                raise Late(f"{torch.rand(())}")
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"])


@pytest.mark.parametrize("where", ["optimizer", "rehearsal of native", "measuring"])
def test_what_raises_leaves_the_random_stream_alone(where):
    model = net()
    mine = Fails(model.parameters()) if where == "optimizer" else torch.optim.SGD(model.parameters(), 0.1)

    kind = KeyboardInterrupt if where == "measuring" else Late  # what a kernel raises may only be of its stand-ins' contents

    def draws(*_):
        raise kind(f"{torch.rand(())}")

    with pytest.MonkeyPatch.context() as patch:
        if where == "measuring":
            patch.setattr(measuring, "measure", draws)
            call = lambda: lowtide.compile_step(model, loss_fn, mine, data(), cache=False)  # noqa: E731
        else:
            step = lowtide.compile_step(model, loss_fn, mine, data(), effort=0.1, engine="native" if "native" in where else "torch")
            step(data())
            mine.param_groups[0]["lr"] = -2.0
            call = lambda: step(data())  # noqa: E731
            if "native" in where:
                step._feed = draws
                call = lambda: step.rehearse(data())  # noqa: E731
        before = torch.get_rng_state(), [p.detach().clone() for p in model.parameters()]
        with pytest.raises(kind):
            call()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert all(torch.equal(p, was) for p, was in zip(model.parameters(), before[1], strict=True))


SCRIPT = """
import os, sys, threading, time, torch, lowtide
sys.path.insert(0, "tests/python")
from test_torch_owns import compiled, data, eager_step, loss_fn, in_pieces
torch.set_num_threads(1)
step, model, mine, other, its = compiled()
def same(k):
    assert torch.equal(step(data(k)), eager_step(other, loss_fn, its, data(k)))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
def end(code):
    sys.stdout.flush()
    os._exit(code)
def forked(call):
    child = os.fork()
    if child == 0:
        try:
            call()
            end(7)
        except BaseException as problem:
            print(type(problem).__name__, problem)
            end(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def in_a_process(code):
    done = subprocess.run([sys.executable, "-c", SCRIPT + code], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return done.stdout.strip()


def test_forks_have_their_own_step_and_are_refused_where_another_thread_was_inside():
    """Before a step, in the middle of one, and while another thread is in the middle of one."""
    out = in_a_process("""
same(0)
print(forked(lambda: [same(k) for k in range(1, 3)]))
same(1)
plain, codes = step._now.code.run, []
in_pieces(step, lambda: codes or codes.append(os.fork()))
same(2)
if codes[0] == 0:
    end(7)
print(os.waitstatus_to_exitcode(os.waitpid(codes[0], 0)[1]))
inside, go_on = threading.Event(), threading.Event()
step._now.code.run = lambda given: (inside.set(), go_on.wait(20), plain(given))[2]
other_thread = threading.Thread(target=lambda: step(data(0)))
other_thread.start()
inside.wait(20)
print(forked(lambda: step(data(0))))
go_on.set()
other_thread.join()
""")
    lines = out.splitlines()
    assert lines[:2] == ["7", "7"] and "forked while another thread" in lines[2] and lines[3] == "1"


def test_steps_of_shared_threads_still_equal_eager_mode():
    step, model, mine, other, its = compiled()
    assert_equal_steps(step, model, mine, other, its, loss_fn, data())
    assert step.memory.beside == 0
