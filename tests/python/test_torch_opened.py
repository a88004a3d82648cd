"""Files, processes and folders that loss_fn would use are refused by name before they are touched; what it asks of paths is held."""

import json
import os
import pathlib
import subprocess
import threading
import warnings

import pytest
from torch_models import torch

import lowtide

nn = torch.nn


def net():
    torch.manual_seed(0)
    return nn.Linear(6, 2)


def data():
    return torch.ones(3, 6)


def compiled(loss_fn, **options):
    model = net()
    return lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), data(), effort=0.1, **options)


def written(file, text):
    with open(file, "a") as at:
        at.write(text)


def caught(file):
    try:
        return json.loads(file.read_text())["rate"]
    except Exception:  # noqa: BLE001: as users do it
        return 1.0


USES = {
    "a log": (lambda d, y: written(d / "log.txt", f"{y.item()}\n"), "log.txt' is opened to be written"),
    "a new file": (lambda d, y: (d / "new.txt").write_text("1"), "new.txt' is opened to be written"),
    "torch.save": (lambda d, y: torch.save(y.detach(), d / "kept.pt"), "kept.pt' is opened to be written"),
    "settings": (lambda d, y: json.loads((d / "settings.json").read_text()), "settings.json' is opened, which"),
    "torch.load": (lambda d, y: torch.load(d / "kept.pt"), "kept.pt' is opened, which"),
    "settings, caught": (lambda d, y: caught(d / "settings.json"), "settings.json' is opened, which"),
    "a process": (lambda d, y: subprocess.run(["true"], check=True), "a process is started"),
    "a folder": (lambda d, y: sorted(d.iterdir()), "is read, which"),
    "a folder that is made": (lambda d, y: (d / "more").mkdir(), "more' is changed on the disk"),
    "another folder to be in": (lambda d, y: os.chdir(d), "the process goes to the folder"),
    "times": (lambda d, y: os.utime(d / "log.txt", (1, 1)), "log.txt' is changed on the disk"),
    "a file that goes": (lambda d, y: (d / "log.txt").unlink(), "log.txt' is changed on the disk"),
}


@pytest.mark.parametrize("kind", USES)
def test_what_is_used_outside_of_the_process_is_refused_before_it_is_touched(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # and back behind the test
    use, said = USES[kind]
    (tmp_path / "log.txt").write_text("first\n")
    (tmp_path / "settings.json").write_text('{"rate": 2.0}')
    torch.save(torch.ones(2), tmp_path / "kept.pt")
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()}

    def loss_fn(model, batch):
        y = model(batch).square().mean()
        use(tmp_path, y)
        return y

    with pytest.raises(lowtide.Unsupported, match=said) as refused:
        compiled(loss_fn)
    assert str(refused.value).startswith(__file__), "the line of the code that does it"
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()} == before
    use(tmp_path, torch.ones(()))  # behind the capture all is allowed


def test_what_python_and_packages_open_for_themselves_is_let_through():
    def loss_fn(model, batch):
        import xml.sax.saxutils  # noqa: F401, PLC0415: whatever was not imported yet

        pathlib.Path("/proc/self/status").read_text()
        pathlib.Path(torch.__file__).parent.joinpath("version.py").read_text()
        return model(batch).square().mean()

    step = compiled(loss_fn)
    assert step(data()) > 0


def test_another_thread_writes_meanwhile(tmp_path):
    from lowtide.pytorch.opened import Paths  # noqa: PLC0415

    def other():
        (tmp_path / "other.txt").write_text("1")

    one = threading.Thread(target=other)
    with Paths().apart():
        one.start()
        one.join()
    assert (tmp_path / "other.txt").read_text() == "1"


ASKS = {
    "exists": lambda file: 2.0 if file.exists() else 1.0,
    "is_dir": lambda file: 2.0 if file.is_dir() else 3.0 if file.is_file() else 1.0,
    "size": lambda file: float(1 + file.stat().st_size) if file.exists() else 1.0,
}


@pytest.mark.parametrize("kind", ASKS)
def test_what_is_asked_of_a_path_is_held(kind, tmp_path):
    ask, model = ASKS[kind], net()

    def loss_fn(model, batch):
        return model(batch).square().mean() * ask(tmp_path / "flag")

    step = lowtide.compile_step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), data(), effort=0.1, rehearse=False)
    before = step(data())
    (tmp_path / "flag").write_text("12")
    with pytest.warns(UserWarning, match="what lies at .*flag"):
        assert torch.equal(step(data()), loss_fn(model, data()).detach())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not torch.equal(step(data()), before)
        if kind != "size":
            (tmp_path / "flag").write_text("longer")
            step(data())  # only its kind was asked for
