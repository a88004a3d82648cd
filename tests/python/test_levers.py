"""plan --allow and --forbid: which levers may be used, and what a missing one would have bought."""

import re

import pytest
from lowtide_cli import MODELS, expect_error, run_json

GPT2 = [MODELS / "gpt2.onnx", "--train", "--dim", "batch=8", "--dim", "seq=256", "--device", "rtx3090", "--optimizer", "sgd"]
QUICK = ["--effort", "0.2"]


@pytest.fixture(scope="module")
def once():
    """The step without a budget: in its best order, and in the given one."""
    return run_json("plan", *GPT2), run_json("plan", *GPT2, "--forbid", "reorder")


def test_the_given_order_needs_more(once):
    best, given = once
    assert best["arena_bytes"] < given["arena_bytes"] <= given["peak_before_bytes"]
    assert given["lower_bound_bytes"] <= best["peak_bytes"], "what is proven holds for all orders"


def test_only_what_is_allowed_is_used(once):
    best, _ = once
    budget = ["--budget", int(0.85 * best["arena_bytes"]), *QUICK]
    recompute = run_json("plan", *GPT2, *budget, "--allow", "recompute,reorder")
    assert recompute["actions"]["reruns"] > 0 and recompute["actions"]["stores"] == 0 and "split" not in recompute
    swap = run_json("plan", *GPT2, *budget, "--allow", "swap,reorder")
    assert swap["actions"]["reruns"] == 0 and swap["actions"]["stores"] > 0
    split = run_json("plan", *GPT2, *budget, "--allow", "split,reorder")
    assert split["actions"]["reruns"] == 0 and re.search(r"[2-9]", split["split"])
    assert split["arena_bytes"] <= budget[1]


def test_a_budget_that_is_missed_names_what_would_help(once):
    best, _ = once
    budget = int(0.85 * best["arena_bytes"])
    line = expect_error(3, arguments=["plan", *GPT2, *QUICK, "--budget", budget, "--allow", "reorder"])
    offers = dict(re.findall(r"with (\w+) at least (\d+) bytes", line))
    assert {"recompute", "split", "swap"} <= set(offers)
    assert all(int(least) <= budget for least in offers.values())


def test_contradictions_are_one_line_each():
    expect_error(2, "'fission' is no lever", arguments=["plan", *GPT2, "--allow", "fission"])
    expect_error(2, "--split 4 asks for it", arguments=["plan", *GPT2, "--forbid", "split", "--split", "4"])
    expect_error(2, "--allow", "--forbid", arguments=["plan", *GPT2, "--forbid", "split", "--allow", "swap"])
