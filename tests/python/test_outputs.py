"""What a command writes: never what it reads or writes already, never in part, and looked at before a search begins."""

import os

import pytest
from lowtide_cli import expect_error, narrow_unet, run

STEP = ["--train", "--dim", "batch=1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return narrow_unet(tmp_path_factory.mktemp("outputs") / "net.onnx")


def test_an_input_is_not_replaced(model, tmp_path):
    before = model.read_bytes()
    link = tmp_path / "link.onnx"
    link.symlink_to(model)
    for flag in ("-o", "--report"):
        for target in (model, link, model.parent / "." / model.name):
            expect_error(2, flag, "is read (the model)", arguments=["plan", model, *STEP, flag, target])
    prefix = model.with_suffix("")
    net = model.with_name("net.txt")
    net.write_bytes(before)  # a model may be called as one likes
    expect_error(2, "-o", "is read", arguments=["sweep", net, *STEP, "-o", prefix, "--points", 2])
    expect_error(2, "--report", "is read", arguments=["sweep", model, *STEP, "--points", 2, "--report", model])
    assert model.read_bytes() == before and net.read_bytes() == before


def test_two_outputs_are_two_files(model, tmp_path):
    target = tmp_path / "p.lt"
    same = f"{tmp_path}/./p.lt"
    expect_error(2, "-o and --report", "the same file", arguments=["plan", model, *STEP, "-o", target, "--report", same])
    prefix = tmp_path / "front"
    expect_error(2, "-o and --report", "the same file",
                 arguments=["sweep", model, *STEP, "--points", 2, "-o", prefix, "--report", tmp_path / "front.lt"])
    assert run("plan", model, *STEP, "--quiet", "-o", target).returncode == 0
    expect_error(2, "-o and --trace", "the same file",
                 arguments=["report", target, "-o", tmp_path / "r.html", "--trace", f"{tmp_path}/../{tmp_path.name}/r.html"])
    assert sorted(tmp_path.iterdir()) == [target]


def test_what_cannot_be_written_is_refused_before_the_search_and_leaves_nothing(model, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    for flag, target, words in [("--report", kept, ["kept", "not a regular file"]), ("--report", "/dev/full", ["not a regular file"]),
                                ("-o", tmp_path / "absent" / "p.lt", ["no folder", "absent"])]:
        other = ["-o", tmp_path / "p.lt"] if flag == "--report" else []
        line = expect_error(4, flag, *words, arguments=["plan", model, *STEP, *other, flag, target, "--budget", "60%", "--effort", 1000])
        assert "\n" not in line
    expect_error(4, "--report", "not a regular file",
                 arguments=["sweep", model, *STEP, "-o", tmp_path / "f", "--report", kept, "--points", 9, "--effort", 1000])
    assert sorted(tmp_path.iterdir()) == [kept] and not list(kept.iterdir())
    if os.geteuid() != 0:  # root may write anywhere
        kept.chmod(0o500)
        expect_error(4, "-o", "nothing can be written", arguments=["plan", model, *STEP, "-o", kept / "p.lt"])
