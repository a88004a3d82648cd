"""plan --allow and --forbid: which levers may be used, and what a missing one would have bought."""

import os
import re

import pytest
from lowtide_cli import MODELS, expect_error, run, run_json, tiny_transformer
from sealed_plan import change

GPT2 = [MODELS / "gpt2.onnx", "--train", "--dim", "batch=8", "--dim", "seq=256", "--device", "rtx3090", "--optimizer", "sgd"]
QUICK = ["--effort", "0.2"]
RECOMPUTE = ["--allow", "recompute,reorder,rewrite"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return [*tiny_transformer(tmp_path_factory.mktemp("tiny")), "--effort", "0.02"]


@pytest.fixture(scope="module")
def once():
    """The step without a budget: in its best order, and in the given one."""
    return run_json("plan", *GPT2), run_json("plan", *GPT2, "--forbid", "reorder")


def test_the_given_order_needs_more(once):
    best, given = once
    assert best["arena_bytes"] < given["arena_bytes"] <= given["peak_before_bytes"]
    assert given["lower_bound_bytes"] <= best["peak_bytes"], "what is proven holds for all orders"


def test_only_what_is_allowed_is_used(tiny):
    step = ["plan", *tiny[:tiny.index("--effort")]]
    budget = ["--budget", int(0.85 * run_json(*step)["arena_bytes"]), *QUICK]
    recompute = run_json(*step, *budget, "--allow", "recompute,reorder")
    assert recompute["actions"]["reruns"] > 0 and recompute["actions"]["stores"] == 0 and "split" not in recompute
    swap = run_json(*step, *budget, "--allow", "swap,reorder")
    assert swap["actions"]["reruns"] == 0 and swap["actions"]["stores"] > 0
    split = run_json(*step, *budget, "--allow", "split,reorder")
    assert split["actions"]["reruns"] == 0 and re.search(r"[2-9]", split["split"])
    assert split["arena_bytes"] <= budget[1]


def test_a_budget_that_is_missed_names_what_would_help(once):
    best, _ = once
    budget = int(0.85 * best["arena_bytes"])
    line = expect_error(3, arguments=["plan", *GPT2, *QUICK, "--budget", budget, "--allow", "reorder"])
    offers = dict(re.findall(r"with (\w+) at least (\d+) bytes", line))
    assert {"recompute", "split", "swap"} <= set(offers)
    for lever, least in offers.items():
        assert (f"with {lever} at least {least} bytes" in line) and (int(least) <= budget) == bool(
            re.search(rf"with {lever} at least {least} bytes \([^)]*\) would be needed", line))
    bought = r" bytes \([^)]*\) would be needed and (at least|about) ([\d.]+) % more time( in \d+ parts)?"
    times = {lever: how + (parts and " in parts")
             for lever, how, _, parts in re.findall(r"with (\w+) at least \d+" + bought, line)}
    assert times["recompute"] == times["swap"] == "at least" and times["split"] == "about in parts"


def test_contradictions_are_one_line_each():
    expect_error(2, "'fission' is no lever", arguments=["plan", *GPT2, "--allow", "fission"])
    expect_error(2, "--split 4 asks for it", arguments=["plan", *GPT2, "--forbid", "split", "--split", "4"])
    expect_error(2, "--allow", "--forbid", arguments=["plan", *GPT2, "--forbid", "split", "--allow", "swap"])


def test_flags_that_would_do_nothing_are_refused(tiny):
    limit, step = "needs --budget or --slowdown", tiny[:-2]
    for flags in (["--split", "auto"], ["--allow", "split"], ["--allow", "reorder,swap"], ["--without", "waist"], ["--swap", "host"],
                  ["--effort", "1"]):
        line = expect_error(2, limit, arguments=["plan", *step, *flags])
        assert flags[0] in line
    for flags in ([], ["--budget", "60%", "--split", "2"], ["--budget", "60%", "--allow", "recompute"]):
        expect_error(2, "--no-mutation needs --split auto", arguments=["plan", *step, *flags, "--no-mutation", "lift"])
    expect_error(2, "--allow: lever 'swap' is named twice", arguments=["plan", *tiny, "--budget", "60%", "--allow", "swap,swap"])
    expect_error(2, "--slowdown: '-5%' is below the least, 0%", arguments=["plan", *tiny, "--slowdown", "-5%"])
    expect_error(2, "--slowdown: 'x' is no number of per cent, as in 10%", arguments=["plan", *tiny, "--slowdown", "x"])
    # Where no flag speaks of levers, parts are found if others miss the budget.
    assert run("plan", *tiny, "--budget", "90%", "--no-mutation", "lift").returncode == 0


def test_levers_that_a_model_has_nothing_for_are_told(tiny):
    unet = ["plan", MODELS / "unet.onnx", "--train", "--loss", "mse", "--dim", "batch=1"]
    notes = run_json(*unet, "--query-blocks", "4", "--rewrite", "chunked-loss")["notes"]
    assert [note for note in notes if "--query-blocks 4: no attention was found" in note]
    assert [note for note in notes if "--rewrite chunked-loss: it found nothing to change" in note]
    assert "no attention was found" in run(*unet, "--query-blocks", "4").stdout
    assert not [note for note in run_json(*unet)["notes"] if note.startswith("--")]


def test_mutations_of_labels_are_switched_off_by_name(tiny):
    step = ["plan", *tiny, "--split", "auto", "--budget", "60%"]
    names = ["outer", "enable", "disable", "lift", "mutate"]
    line = expect_error(2, arguments=[*step, "--no-mutation", "fission"])
    assert line.endswith(f"there is no mutation of labels 'fission' (known: {', '.join(names)})")
    every = [word for name in names for word in ("--no-mutation", name)]
    split = run_json(*step, *every)["split"]
    assert "," not in split, "without mutations there are even parts alone"


def test_ideas_of_the_searches_are_switched_off_by_name(tiny, tmp_path):
    step = ["plan", *tiny, "--split", "auto", "--swap", "host", "--budget", "60%"]
    names = ["forecast", "waist", "more-cuts", "windows", "de-remat", "de-swap"]
    line = expect_error(2, arguments=[*step, "--without", "hope"])
    assert f"there is no idea 'hope' of the searches (known: {', '.join(names)}; `lowtide remat" in line
    described = run("plan", "--help").stdout
    assert all(name in described for name in names)
    path = tmp_path / "plan.lt"
    for name in [*names, ",".join(names)]:
        run_json(*step, "--without", name, "-o", path)
        assert run("verify", path, "--against", tiny[0]).returncode == 0
        assert f'"without": "{name.replace(",", " ")}"' in path.read_text()


def test_a_refusal_names_levers_after_any_flag(tiny):
    floor = run_json("plan", *tiny, "--budget", "90%")["floor_bytes"]
    line = expect_error(3, "in one part every order that runs each op once", arguments=["plan", *tiny, "--no-recompute", "--budget", floor - 64])
    assert {"recompute", "split", "swap"} <= set(re.findall(r"with (\w+) at least \d+ bytes \([^)]*\)", line))
    # No lever can do with a byte: what each of them would need is said all the same.
    line = expect_error(3, "; not used: ", arguments=["plan", *tiny, "--allow", "recompute", "--budget", 1])
    assert line.count(", too many") >= 2 and "would be needed" not in line
    assert re.search(r"with all of them at least \d+ bytes \([^)]*\), too many", line)


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_what_recompute_misses_is_tried_with_all_levers(tiny, tmp_path):
    path = tmp_path / "plan.lt"
    within = run_json("plan", *tiny, "--budget", "80%")
    assert "split" not in within and within["actions"]["stores"] == 0 and not any("levers" in note for note in within["notes"])
    assert within["predicted_step_seconds"] == run_json("plan", *tiny, "--budget", "80%", *RECOMPUTE)["predicted_step_seconds"]
    budget = within["floor_bytes"] - 4096
    expect_error(3, "is too small: in one part every schedule needs at least", arguments=["plan", *tiny, *RECOMPUTE, "--budget", budget])
    more = run_json("plan", *tiny, "--budget", budget, "-o", path)
    assert more["arena_bytes"] <= budget and (more.get("split") or more["actions"]["stores"])
    notes = [note for note in more["notes"] if note.startswith("recompute alone did not keep the budget: ")]
    assert len(notes) == 1 and "so all levers were used, as with --allow split,recompute,swap,reorder,rewrite" in notes[0]
    assert run("verify", path, "--against", tiny[0]).returncode == 0
    same = tmp_path / "same.lt"
    run_json("plan", *tiny, "--budget", budget, "--allow", "split,recompute,swap,reorder,rewrite", "-o", same)
    assert same.read_bytes() == path.read_bytes()


def test_a_slowdown_without_a_word_on_levers_splits(tiny):
    free = run_json("plan", *tiny, "--slowdown", "10%")
    assert free["split"] and free["actions"]["stores"] == 0
    assert free["predicted_step_seconds"] <= 1.1 * free["whole_once_seconds"] * (1 + 1e-9)
    assert free["arena_bytes"] < run_json("plan", *tiny, "--slowdown", "10%", *RECOMPUTE)["arena_bytes"]


def test_a_loose_plan_names_the_levers_that_it_did_not_use(tiny):
    loose = run_json("plan", *tiny, *RECOMPUTE, "--budget", "60%")
    assert loose["levers_not_used"] == ["split", "swap"]
    assert loose["extra_percent"] > 5
    line = "not used: split, swap (--allow split,recompute,swap,reorder,rewrite)"
    assert line in run("plan", *tiny, *RECOMPUTE, "--budget", "60%").stdout.splitlines()
    near = run("plan", *tiny, "--budget", "97%").stdout
    assert "over each op once" in near and "not used" not in near


def test_rewrites_are_offered_where_they_would_lower_the_floor(tmp_path):
    """The same op twice is one by a rewrite."""
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "twice.onnx"
    text = "g (float[32,32] x) => (float[32,32] z) { a = Exp(x)  b = Exp(x)  z = MatMul(a, b) }"
    onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(text), opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
    least = run_json("plan", path)["arena_bytes"]
    assert least < run_json("plan", path, "--forbid", "rewrite")["arena_bytes"]
    line = expect_error(3, arguments=["plan", path, "--forbid", "rewrite", "--budget", least])
    assert int(re.search(r"with rewrite at least (\d+) bytes \([^)]*\) would be needed", line)[1]) == least


def test_a_rewrite_that_nobody_asked_for_is_offered_by_its_name(tmp_path):
    """Logits of many words, which chunks of rows would keep small."""
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "words.onnx"
    weights = ",".join(str((7 * k % 23 - 11) / 8) for k in range(4 * 96))
    text = f"""g (float[64,4] x, int64[64] labels) => (float loss) <float[4,96] w = {{{weights}}}>
        {{ h = Tanh(x)  logits = MatMul(h, w)  loss = SoftmaxCrossEntropyLoss(logits, labels) }}"""
    onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(text), opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
    step = ["plan", path, "--train", "--loss", "model", "--threads", 1]
    least = run_json(*step, "--rewrite", "chunked-loss")["arena_bytes"]
    line = expect_error(3, arguments=[*step, *RECOMPUTE, "--budget", least])
    assert int(re.search(r"with rewrite \(--rewrite chunked-loss\) at least (\d+) bytes \([^)]*\) would be needed", line)[1]) <= least
    assert run_json(*step, *RECOMPUTE, "--budget", least, "--rewrite", "chunked-loss")["arena_bytes"] <= least
    # Where parts are to be found, too: what is offered keeps the budget, and what would be too much in some parts says nothing of others.
    in_parts = run_json(*step, "--split", "4", "--rewrite", "chunked-loss")["arena_bytes"]
    refused = [*step, "--split", "auto", "--forbid", "rewrite", "--effort", 1, "--budget"]
    line = expect_error(5, arguments=[*refused, in_parts])
    found = re.search(r"with rewrite \(all, and chunked-loss\) in (\d+) parts at least (\d+) bytes", line)
    assert int(found[2]) <= in_parts
    assert run_json(*step, "--split", found[1], "--rewrite", "chunked-loss", "--budget", in_parts)["arena_bytes"] <= in_parts
    assert "with rewrite" not in expect_error(5, arguments=[*refused, 6500])


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_parts_that_take_longer_than_the_slowdown_are_refused(tiny):
    line = expect_error(3, "--slowdown: in 8 parts the step takes at least ", "give --slowdown ", "or fewer parts",
                        arguments=["plan", *tiny, "--split", "8", "--slowdown", "1%"])
    needed = re.search(r"give --slowdown ([\d.]+%)", line)[1]
    made = run_json("plan", *tiny, "--split", "8", "--slowdown", needed)
    assert made["split"] == "8"
    assert made["predicted_step_seconds"] <= made["whole_once_seconds"] * (1 + float(needed[:-1]) / 100)


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_the_floor_of_any_parts_is_claimed_and_checked(tiny, tmp_path):
    path, wrong = tmp_path / "parts.lt", tmp_path / "wrong.lt"
    made = run_json("plan", *tiny, "--budget", "50%", "--split", "auto", "-o", path)
    floor = made["any_parts_floor"]
    assert floor["bytes"] < made["floor_bytes"] and made["bounds_are_of"] == "in these parts"
    said = run("plan", *tiny, "--budget", "50%", "--split", "auto").stdout
    assert re.search(r"^floor  .*: proven, no schedule in these parts needs less", said, re.MULTILINE)
    assert re.search(rf"^any parts  at least .* of op '{re.escape(floor['op'])}' in {floor['parts']} part", said, re.MULTILINE)
    alone = run("verify", path)
    assert alone.returncode == 0 and "checked beside the model only (--against MODEL)" in alone.stdout
    beside = run("verify", path, "--against", tiny[0])
    assert beside.returncode == 0 and "note" not in beside.stdout and "run in" in beside.stdout
    change(path, wrong, "part_bytes", lambda was: str(int(was) + 1), inside="parts_floor")
    beside_model = run("verify", wrong, "--against", tiny[0])
    assert beside_model.returncode == 6 and f"in any parts: op '{floor['op']}'" in beside_model.stderr
    fewer = ["parts", lambda was: str(int(was) - 1)]
    change(path, wrong, *fewer, inside="parts_floor")
    beside_model = run("verify", wrong, "--against", tiny[0])
    assert beside_model.returncode == 6
    assert re.search(rf"op '{re.escape(floor['op'])}' is claimed to run in at most {floor['parts'] - 1}, .* in {floor['parts']}",
                     beside_model.stderr)
    change(path, wrong, "op", lambda was: '"none"', inside="parts_floor")
    beside_model = run("verify", wrong, "--against", tiny[0])
    assert beside_model.returncode == 6 and "the step in one part has no op 'none'" in beside_model.stderr
    # Of an op that the plan runs in parts, its bytes as if it could run in one only.
    plan = path.read_text()
    cut = re.search(r'"kind": "MatMul", "name": "([^"]+)/part0"', plan)[1]
    change(path, wrong, "op", lambda was: f'"{cut}"', inside="parts_floor")
    change(wrong, wrong, "parts", lambda was: "1", inside="parts_floor")
    by_itself = run("verify", wrong)
    assert by_itself.returncode == 6
    assert re.search(rf"op '{re.escape(cut)}' is claimed to run in at most 1, and runs in \d+ in this plan", by_itself.stderr)
    change(path, wrong, "bytes", lambda was: str(int(was) + 1), inside="parts_floor")
    by_itself = run("verify", wrong)
    assert by_itself.returncode == 6 and "in any parts: a floor of" in by_itself.stderr


def test_a_budget_below_any_parts_is_refused_at_once(tiny):
    line = expect_error(3, "is too small: in whatever parts every schedule needs at least", "that stay and", "of op '",
                        arguments=["plan", *tiny, "--budget", 1000, "--split", "auto"])
    least = int(re.search(r"at least (\d+) bytes", line)[1])
    open_levers = expect_error(3, "in whatever parts", "recompute alone: ", arguments=["plan", *tiny, "--budget", 1])
    assert int(re.search(r"at least (\d+) bytes", open_levers)[1]) <= least, "what moves need not stay"


def test_a_split_that_is_not_of_samples_says_what_it_cuts():
    """Of one image its rows are the largest class."""
    step = ["plan", MODELS / "unet.onnx", "--train", "--loss", "mse", "--device", "rtx3090", "--split", "4", "--dim"]
    one, eight = ([note for note in run_json(*step, f"batch={batch}")["notes"] if note.startswith("--split: ")] for batch in (1, 8))
    assert len(one) == 1 and re.search(r"the largest class of axes is '\w+' of op '\w+' \(\w+\), 256 elements, and what \d+ more ops", one[0])
    assert one[0].endswith("it is not the first dimension of what is fed") and not eight


def test_a_class_of_which_little_can_be_cut_names_the_op(tmp_path):
    step = ["plan", MODELS / "resnet50.onnx", "--train", "--dim", "batch=8", "--device", "rtx3090", "--split", "4"]
    assert not any("--split" in note for note in run_json(*step)["notes"])
    notes = [note for note in run_json(*step, "--no-rewrite", "batch-norm-in-two-passes")["notes"] if note.startswith("--split: only ")]
    assert len(notes) == 1 and "(BatchNormTrain) needs all of 'n' at once" in notes[0]
    assert notes[0].endswith("; leave the rewrite batch-norm-in-two-passes on")
    expect_error(4, "--split: 40 parts are asked for, and 'n' of op ", "has 8 elements: at most 8",
                 arguments=[*step[:-1], "40"])


def test_an_op_is_cut_along_two_axes(tiny, tmp_path):
    onnx = pytest.importorskip("onnx")
    model, step = tiny[0], [argument for argument in tiny if argument not in ("--effort", "0.02")]
    name = next(node.name for node in onnx.load(model, load_external_data=False).graph.node if node.op_type == "MatMul")
    path = tmp_path / "parts.lt"
    rows, columns = ["--cut", f"{name}:m:4"], ["--cut", f"{name}:n:2"]
    run_json("plan", *step, *rows, *columns, "-o", path)
    assert f'"{name}/part3/part1"' in path.read_text()
    beside = run("verify", path, "--against", model)
    assert beside.returncode == 0 and "1 of its ops run in 8 parts" in beside.stdout
    compared = run("run", path, "--steps", "1", "--against", model)
    assert compared.returncode == 0 and "0 beyond a relative difference" in compared.stdout
    run_json("plan", *step, *rows, "--cut", f"{name}:n:2!", "-o", path)
    assert f'"{name}/part1"' in path.read_text() and f'"{name}/part2"' not in path.read_text()
    expect_error(4, f"op '{name}'", "is cut along 2 axes already", arguments=["plan", *step, *rows, *columns, "--cut", f"{name}:k:2"])
