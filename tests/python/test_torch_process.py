"""Settings of the process: loss_fn's changes are put back and refused by name, and what it reads is part of what a plan holds for."""

import abc
import atexit
import contextlib
import datetime
import decimal
import fcntl
import functools
import gc
import locale
import logging
import math
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time
import types
import uuid
import warnings
from datetime import date
from signal import signal as set_handler
from time import perf_counter as now_on_a_clock

import pytest
from torch_models import torch

import lowtide

numpy = pytest.importorskip("numpy")
nn = torch.nn


def net():
    torch.manual_seed(0)
    return nn.Linear(6, 2)


def data():
    return torch.ones(3, 6)


def compiled(loss_fn, **options):
    model = net()
    return lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1, rehearse=False, **options)


def state():
    return (list(sys.path), sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), dict(os.environ), list(warnings.filters),
            locale.setlocale(locale.LC_ALL), numpy.geterr(), decimal.getcontext().prec, socket.getdefaulttimeout(), threading.stack_size(),
            torch.get_num_threads(), torch.get_default_dtype(), torch.backends.cudnn.benchmark, torch.is_warn_always_enabled(), sys.stdout, sys.excepthook,
            signal.getsignal(signal.SIGUSR1), atexit._ncallbacks(), logging.root.level, logging.root.manager.disable, torch.get_default_device(),
            numpy.get_printoptions(), dict(vars(torch._tensor_str.PRINT_OPTS)), os.umask(os.umask(0o022)))


CHANGES = {
    "sys.path": (lambda: sys.path.append("/nowhere"), "sys.path is another one"),
    "sys.path, put anew in place": (lambda: sys.path.insert(0, sys.path.pop()), "sys.path is another one"),
    "recursion": (lambda: sys.setrecursionlimit(4321), "the recursion limit is another one"),
    "switch interval": (lambda: sys.setswitchinterval(0.004), "the switch interval"),
    "collector": (lambda: gc.set_threshold(501, 11, 11), "the collector of cycles"),
    "debugging": (lambda: gc.set_debug(gc.DEBUG_UNCOLLECTABLE), "the collector of cycles"),
    "stack size": (lambda: threading.stack_size(1 << 20), "the stack size of threads"),
    "filters": (lambda: warnings.simplefilter("ignore", BytesWarning), "the filters of warnings"),
    "locale": (lambda: locale.setlocale(locale.LC_NUMERIC, "C" if locale.setlocale(locale.LC_NUMERIC) != "C" else "C.UTF-8"), "the locale"),
    "environment": (lambda: os.environ.__setitem__("LOWTIDE_OF_A_TEST", "1"), "environ|a text"),
    "environment, past Python": (lambda: os.putenv("LOWTIDE_OF_A_TEST", "1"), "os.putenv"),
    "numpy's errors": (lambda: numpy.seterr(divide="ignore", over="raise"), "numpy's way with errors"),
    "numpy's printing": (lambda: numpy.set_printoptions(precision=3), "numpy's print options"),
    "decimal": (lambda: setattr(decimal.getcontext(), "prec", 7), "the context of decimal"),
    "timeout": (lambda: socket.setdefaulttimeout(5.0), "the default timeout of sockets"),
    "threads": (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "the number of threads"),
    "default type": (lambda: torch.set_default_dtype(torch.float64), "the default type"),
    "default device": (lambda: torch.set_default_device("cpu"), "the default device"),
    "benchmark": (lambda: setattr(torch.backends.cudnn, "benchmark", True), "benchmark is another one"),
    "warnings always": (lambda: torch.set_warn_always(True), "torch.set_warn_always"),
    "printing": (lambda: torch.set_printoptions(precision=2), "PyTorch's print options"),
    "output": (lambda: setattr(sys, "stdout", sys.stderr), "sys.stdout is another one"),
    "hook": (lambda: setattr(sys, "excepthook", print), "sys.excepthook is another one"),
    "logging": (lambda: logging.disable(logging.INFO), "the level of logging"),
    "handler": (lambda: signal.signal(signal.SIGUSR1, print), "signal.*is set"),
    "handler, by its own name": (lambda: set_handler(signal.SIGUSR1, print), "signal.*is set"),
    "timer": (lambda: signal.setitimer(signal.ITIMER_REAL, 100.0), "signal.*is set"),
    "exit": (lambda: atexit.register(print), "what runs at the end of the process"),
    "umask": (lambda: os.umask(0o077), "the process is set otherwise .*umask"),
    "descriptor": (lambda: os.write(PIPE[1], b"x"), "a descriptor that is open is written .*write"),
    "socket": (lambda: socket.socketpair(), "a connection is made"),
    "lock": (lambda: fcntl.flock(PIPE[0], fcntl.LOCK_SH), "fcntl.flock"),
}
PIPE = os.pipe()


@pytest.mark.parametrize("kind", CHANGES)
def test_what_loss_fn_changes_of_the_process_is_refused_and_as_before(kind):
    change, said = CHANGES[kind]

    def loss_fn(model, batch):
        change()
        return model(batch).square().mean()

    before = state()
    with pytest.raises(lowtide.Unsupported, match=said):
        compiled(loss_fn)
    assert state() == before and set_handler is signal.signal
    os.write(PIPE[1], b"y")  # behind the capture all is allowed
    assert os.read(PIPE[0], 10) == b"y"


def test_what_is_set_for_a_while_and_what_imports_set_is_let_through():
    sys.modules.pop("this_is_imported_in_a_test", None)

    def loss_fn(model, batch):
        with warnings.catch_warnings(), numpy.errstate(divide="ignore"), decimal.localcontext() as context:
            warnings.simplefilter("ignore")
            context.prec = 5
            enabled = gc.isenabled()
            gc.disable()
            y = model(batch)
            if enabled:
                gc.enable()
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            os.write(1, b"")
            return y.square().mean()
        finally:
            torch.backends.cudnn.benchmark = before

    before = state()
    step = compiled(loss_fn)
    assert state() == before and step(data()) > 0


def test_a_change_that_is_caught_half_way_is_put_back():
    def loss_fn(model, batch):
        sys.setrecursionlimit(4321)
        if model(batch).sum() > 0:
            return model(batch).mean()
        return model(batch).sum()

    before = state()
    with pytest.raises(lowtide.Unsupported):
        compiled(loss_fn)
    assert state() == before


LINES = {
    "a number": lambda log, y: log.info("loss %s", y.item()),
    "a text": lambda log, y: log.warning(f"loss {y.item():.3f}"),
    "an object": lambda log, y: log.error({"loss": y.item()}),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_line_for_a_log_file_that_is_open_is_refused(kind, tmp_path):
    log, file = logging.Logger("of a test"), tmp_path / "log.txt"
    handler = logging.FileHandler(file)
    log.addHandler(handler)

    def loss_fn(model, batch):
        y = model(batch).square().mean()
        LINES[kind](log, y)
        return y

    log.info("before")
    try:
        with pytest.raises(lowtide.Unsupported, match="log.txt' gets a line .*behind step"):
            compiled(loss_fn)
        assert file.read_text() == "before\n"
        LINES[kind](log, torch.ones(()))
        assert "1.0" in file.read_text()
    finally:
        handler.close()


def test_a_line_without_numbers_is_said_when_the_step_is_captured(tmp_path):
    log, file = logging.Logger("of a test"), tmp_path / "log.txt"
    handler = logging.FileHandler(file)
    log.addHandler(handler)

    def loss_fn(model, batch):
        log.info("rows %s", len(batch))
        return model(batch).square().mean()

    try:
        step = compiled(loss_fn)
        assert file.read_text().startswith("rows 3\n") and step(data()) > 0
    finally:
        handler.close()


class Base:
    pass


class Made:
    """What it writes when it goes is read behind it."""

    def __del__(self):
        KEPT.seen = KEPT.rate


class Registry(abc.ABC):
    pass


KEPT = types.SimpleNamespace(rate=1.0, seen=0.0, one=torch.ones(2), other=None, pair=[torch.ones(2), torch.zeros(2)])


def let_go():
    made = Made()
    del made
    seen, KEPT.seen = KEPT.seen, 0.0
    return seen


@contextlib.contextmanager
def opened_by_a_package():
    yield KEPT.rate


def through_a_context():
    with opened_by_a_package() as rate:
        return rate


@torch.no_grad()
def without_gradients():
    return KEPT.rate


@functools.singledispatch
def dispatched(_):
    return KEPT.rate


def new_subclass():
    KEPT.keep = type("Derived", (Base,), {})


def in_the_place_of(name, value):
    return lambda: setattr(KEPT, name, value)


def of_process(folder):
    """By kind: the factor of the loss, what changes what it reads, and what puts that back."""
    KEPT.rate, KEPT.other, KEPT.pair = 1.0, KEPT.one, [torch.ones(2), torch.zeros(2)]
    here, module, handled = os.getcwd(), "module_for_a_test_of_the_process", numpy.geterr()
    sys.modules.pop(module, None)
    back = lambda: None  # noqa: E731
    return {
        "folder": (lambda: float(len(os.getcwd())), lambda: os.chdir(folder), lambda: os.chdir(here)),
        "folder of a path": (lambda: float(len(os.path.abspath("a"))), lambda: os.chdir(folder), lambda: os.chdir(here)),
        "folder, by pathlib": (lambda: float(len(str(pathlib.Path.cwd()))), lambda: os.chdir(folder), lambda: os.chdir(here)),
        "numpy's errors": (lambda: 2.0 if numpy.geterr()["divide"] == "raise" else 1.0, lambda: numpy.seterr(divide="raise"),
                           lambda: numpy.seterr(**handled)),
        "recursion": (lambda: sys.getrecursionlimit() / 1e3, lambda: sys.setrecursionlimit(1234), lambda L=sys.getrecursionlimit(): sys.setrecursionlimit(L)),
        "collector": (lambda: float(gc.get_threshold()[0]), lambda: gc.set_threshold(800, 10, 10), lambda t=gc.get_threshold(): gc.set_threshold(*t)),
        "default device": (lambda: 2.0 if torch.get_default_device().type == "meta" else 1.0, lambda: torch.set_default_device("meta"),
                           lambda: torch.set_default_device(None)),
        "benchmark": (lambda: 2.0 if torch.backends.cudnn.benchmark else 1.0, lambda: setattr(torch.backends.cudnn, "benchmark", True),
                      lambda: setattr(torch.backends.cudnn, "benchmark", False)),
        "warnings": (lambda: 2.0 if torch.is_warn_always_enabled() else 1.0, lambda: torch.set_warn_always(True), lambda: torch.set_warn_always(False)),
        "fill": (lambda: 2.0 if torch.utils.deterministic.fill_uninitialized_memory else 1.0,
                 lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
                 lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)),
        "einsum": (lambda: 2.0 if torch.backends.opt_einsum.strategy == "greedy" else 1.0, lambda: setattr(torch.backends.opt_einsum, "strategy", "greedy"),
                   lambda s=torch.backends.opt_einsum.strategy: setattr(torch.backends.opt_einsum, "strategy", s)),
        "a module that is there": (lambda: 2.0 if "module_for_a_test_of_the_process" in sys.modules else 1.0,
                                   lambda: sys.modules.__setitem__(module, types.ModuleType(module)), lambda: sys.modules.pop(module)),
        "one tensor": (lambda: 2.0 if KEPT.one is KEPT.other else 1.0, in_the_place_of("other", torch.ones(2)), back),
        "two tensors that become one": (lambda: 2.0 if KEPT.pair[0] is KEPT.pair[1] else 1.0, lambda: KEPT.pair.__setitem__(1, KEPT.pair[0]), back),
        "writes of a tensor": (lambda: 1.0 + KEPT.one._version, lambda: KEPT.one.add_(1), back),
        "registered class": (lambda: 2.0 if isinstance(KEPT, Registry) else 1.0, lambda: Registry.register(types.SimpleNamespace), back),
        "subclasses": (lambda: 1.0 + len(Base.__subclasses__()), new_subclass, back),
        "finalizer": (let_go, in_the_place_of("rate", 2.0), back),
        "context manager": (through_a_context, in_the_place_of("rate", 2.0), back),
        "decorated by PyTorch": (without_gradients, in_the_place_of("rate", 2.0), back),
        "dispatched": (lambda: dispatched(1), in_the_place_of("rate", 2.0), back),
        "dispatched to what comes later": (lambda: dispatched(1.0), lambda: dispatched.register(float, lambda _: 3.0), back),
    }


@pytest.mark.parametrize("kind", of_process("."))
def test_what_loss_fn_reads_of_the_process_is_part_of_what_a_plan_holds_for(kind, tmp_path):
    factor, change, back = of_process(tmp_path)[kind]
    model, given = net(), data()

    def loss_fn(m, b):
        return m(b).square().mean() * factor()

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), given, effort=0.1, rehearse=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = step(given)
        assert torch.equal(before, step(given)) and torch.equal(before, loss_fn(model, given).detach())
    try:
        change()
        with contextlib.nullcontext() if kind == "default device" else pytest.warns(UserWarning, match="a plan holds for Python's values"):
            after = step(given)
        assert torch.equal(after, loss_fn(model, given).detach()) and not torch.equal(before, after)
    finally:
        back()


TIMES = {
    "a factor": lambda y: y * (time.time() % 1),
    "a difference": lambda y: y * (now_on_a_clock() - time.perf_counter()),
    "a term in front": lambda y: time.monotonic() + y,
    "a tensor": lambda y: y * torch.tensor([1.0, time.time()]).mean(),
    "a comparison": lambda y: y * 2 if time.monotonic() > 5 else y,
    "a seed": lambda y: (torch.manual_seed(time.time_ns()), y)[1],
    "a function of math": lambda y: y * math.sin(time.time()),
    "a number of numpy": lambda y: y * float(numpy.float64(time.process_time())),
    "kept": lambda y: (KEPT.times.append(time.time()), y)[1],
    "kept as a difference": lambda y: (setattr(KEPT, "took", time.time() - time.time()), y)[1],
    "given back": lambda y: (y, {"at": time.time()}),
    "a date": lambda y: y * datetime.datetime.now().microsecond,
    "a date by its own name": lambda y: y * date.today().day,
    "fields of a time": lambda y: y * time.localtime().tm_sec,
    "bytes of the system": lambda y: y * os.urandom(1)[0],
    "random numbers of the system": lambda y: y * (uuid.uuid4().int % 7),
    "random numbers by a class": lambda y: y * random.SystemRandom().random(),
}
KEPT.times = []


@pytest.mark.parametrize("kind", TIMES)
def test_a_clock_that_decides_something_is_refused(kind):
    with pytest.raises(lowtide.Unsupported, match="test_torch_process.py:.*(once, while|for all steps)"):
        compiled(lambda model, batch: TIMES[kind](model(batch).square().mean()))
    assert KEPT.times == [] and not hasattr(KEPT, "took") and now_on_a_clock is time.perf_counter and date is datetime.date


def test_a_clock_that_is_only_said_is_let_through(capsys):
    def loss_fn(model, batch):
        began = now_on_a_clock()
        y = model(batch)
        print(f"took {now_on_a_clock() - began:.3f} s, {round(time.time(), 2)}")
        assert isinstance(datetime.datetime(2020, 1, 1), datetime.datetime) and date.fromtimestamp(0)
        return y.square().mean()

    step = compiled(loss_fn)
    assert step(data()) > 0 and "took 0." in capsys.readouterr().out


def test_folders_that_packages_put_into_the_path_for_their_own_stay():
    folder = "/nowhere/site-packages/of_a_package"

    def loss_fn(model, batch):
        if folder not in sys.path:
            sys.path.append(folder)
        return model(batch).square().mean()

    try:
        assert compiled(loss_fn)(data()) > 0 and folder in sys.path
    finally:
        sys.path.remove(folder)
