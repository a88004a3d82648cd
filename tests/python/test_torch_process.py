"""Settings of the process: loss_fn's changes are put back and refused by name, and what it reads is part of what a plan holds for."""

import atexit
import decimal
import fcntl
import gc
import locale
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from signal import signal as set_handler

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
