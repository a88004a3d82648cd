"""Options of compile_step, plan and the backend: what is wrong is refused in one line before anything
is captured; budgets and speeds have the library's grammar."""

import math
import typing

import numpy
import pytest
from test_package import TEXT
from test_torch_backend import register
from torch_models import OPTIMIZERS, torch, trained

import lowtide
from lowtide import amounts, plans
from lowtide.pytorch import again, backend, engines
from lowtide.pytorch.options import StepKeywords, StepOptions

NO_BUDGET = "is no number of bytes above 0, no size such as '2GiB', no share up to '100%' and not 'floor'"
WRONG = {
    "budget": ([True, 0, -1, 2.5e9, 1 << 63, "lots", "0B", "2 gib", "110%", "%", "-5%", "1.5", "", [1],
                b"2GiB", "9" * 5000], NO_BUDGET),
    "clip_norm": (["1", -1, math.nan, True, torch.tensor(1.0)], "is no number of at least 0"),
    "clip_value": (["1", -1.5, [0.1]], "is no number of at least 0"),
    "accumulate": (["2", 2.0, 0, -1, True, None], "is no whole number of at least 1"),
    "data_parallel": (["no", 1, None], "is neither True nor False"),
    "check_finite": (["yes", 0], "is none of True, False, 'loss'"),
    "cache": (["no", None, 1], "is neither True nor False"),
    "progress": (["no", 1], "is none of True, False, None"), "rehearse": (["no", 1], "is none of True, False, None"),
    "shapes": (["same", None, 3, numpy.zeros(2)], "is none of replan, fixed"),
    "engine": (["cuda", None, ["torch"]], "is none of torch, native, auto"),
    "swap": (["file", True, "host=", "host=0B", "host=much", "hosts"], "is none of 'host', 'host=2GiB'"),
    "split": ([0, -2, 2.0, "2", "some", True, "samples", "samples:0", "samples:-1", "samples:2.5", numpy.zeros(2)],
              "is neither 'auto' nor a number of parts nor 'samples:4'"),
    "effort": (["4", 0, -1, math.inf, math.nan, True, None, 1e7], "is no number above 0 and at most 1e6"),
    "time_limit_seconds": (["60", 0, -1, math.inf, math.nan], "is no number of seconds above 0"),
}
LINKS = ["fast", 0, -1, math.inf, math.nan, True, "12GiB", "0B/s", "12 gib/s", [1]]


def never(model, batch):
    pytest.fail("nothing is to be captured")


@pytest.mark.parametrize("option", StepOptions.__dataclass_fields__)
def test_a_wrong_value_of_an_option_is_refused_before_anything_is_captured(option):
    model, batch = torch.nn.Linear(2, 2), torch.randn(3, 2)
    optimizer = OPTIMIZERS["sgd"](trained(model))
    if option == "link":
        cases = [({"swap": "host", "link": v}, "is no speed above 0, in bytes a second or as '12GiB/s'") for v in LINKS]
        cases.append(({"link": 1e9}, "is the speed of slow memory, which swap='host' asks for"))
    else:
        cases = [({option: value}, WRONG[option][1]) for value in WRONG[option][0]]
    for options, line in cases:
        for split in ({}, {"split": "auto"}) if option == "budget" else ({},):
            with pytest.raises(lowtide.Usage) as refused:
                lowtide.compile_step(model, never, optimizer, batch, **options, **split)
            said = str(refused.value)
            assert said.startswith(f"{option}=") and said.endswith(line), (options, said)
            assert "\n" not in said and len(said) < 250, said


@pytest.mark.parametrize("kind", [numpy.int64, numpy.uint32, numpy.int32])
def test_a_budget_may_be_a_whole_number_of_numpys(kind):
    model, batch = torch.nn.Linear(2, 2), torch.randn(3, 2)
    optimizer = OPTIMIZERS["sgd"](trained(model))
    plan = lowtide.plan(model, lambda m, x: m(x).mean(), optimizer, batch, budget=kind(10**7), effort=0.1)
    assert plan.arena_bytes == lowtide.plan(model, lambda m, x: m(x).mean(), optimizer, batch, budget=10**7, effort=0.1).arena_bytes


def test_what_is_no_step_is_not_measured():
    for wrong in (torch.nn.Linear(2, 2), None, "step"):
        with pytest.raises(lowtide.Usage, match="takes a step that lowtide.compile_step has made; this is a"):
            again.measure(wrong)


@pytest.mark.parametrize("engine", ["torch", "native", "auto"])
def test_ranks_that_are_not_there_are_named(engine):
    model, batch = torch.nn.Linear(2, 2), torch.randn(3, 2)
    for start in (lowtide.plan, lowtide.compile_step):
        with pytest.raises((lowtide.Usage, lowtide.Unsupported), match="process_group|data_parallel"):
            start(model, never, OPTIMIZERS["sgd"](trained(model)), batch, data_parallel=True, engine=engine)


def test_options_of_the_backend_are_those_of_compile_step_that_a_loop_of_ones_own_can_have():
    wrong = {name: values for name, (values, *_) in WRONG.items()} | {"link": LINKS, "strict": [1, "yes", None]}
    for name in backend.KNOWN:
        for value in wrong[name]:
            with pytest.raises(lowtide.Usage, match=f"^{name}="):
                backend._options({name: value, **({"swap": "host"} if name == "link" else {})})
    for name in set(StepOptions.__dataclass_fields__) - set(backend.KNOWN):
        with pytest.raises(lowtide.Usage, match=f"option '{name}' is not there in backend lowtide.*compile_step has it"):
            backend._options({name: 1})


@pytest.mark.parametrize(("options", "line"), [
    ({"split": "samples:2"}, "option 'split' is not there in backend lowtide"),
    ({"budget": "much"}, f"budget='much' {NO_BUDGET}")])
def test_a_compiled_model_refuses_wrong_options_in_one_line(options, line):
    register()
    with pytest.raises(lowtide.Usage) as refused:
        torch.compile(torch.nn.Linear(2, 2), backend="lowtide", options=options)(torch.randn(3, 2))
    assert line in str(refused.value)


BUDGETS = ["2GiB", "1.5 MiB", "60%", "7kB", "3MB", "0.1%", "1e1%", ".5%", "5.%", "floor", " floor ",
           " 60 % ", "12", "12B", "1.5B", "1.5", "1.GiB", ".5GiB", "2  GiB", "2GiB ", "100.0%", "100.1%",
           "inf%", "nan%", "+5%", "1e-1%", "5PB", "5000PB", "2gib", "2 G", "1e3", "0x10", "%", "GiB",
           "1TiB", "1_000", "99999999999999999999"]


def accepted(text):
    """By the library."""
    try:
        plans.plan_text(TEXT, "small", {"budget": text, "effort": 0.001})
    except lowtide.Infeasible:
        pass
    except lowtide.Usage:
        return False
    return True


def test_budgets_are_read_as_the_library_reads_them():
    mine = [amounts.amount_of(text) is not None for text in BUDGETS]
    assert list(zip(BUDGETS, mine, strict=True)) == [(text, accepted(text)) for text in BUDGETS]
    assert 10 < sum(mine) < len(BUDGETS) - 10


@pytest.mark.parametrize(("budget", "count"), [
    ("2GiB", 2 << 30), ("1.5 MiB", 3 << 19), ("60%", 600), ("7kB", 7000), ("floor", None),
    ("3MB", 3_000_000), (5, 5), ("1.0000001KiB", 1024), ("99.99%", 999)])
def test_bytes_of_budgets(budget, count):
    assert amounts.amount_of(budget).limit(1000) == count


def test_speeds_of_links():
    assert [amounts.speed_of(link) for link in ("12GiB/s", "1.5 GB/s", 7, 2.5)] == [12 * 2**30, 1.5e9, 7, 2.5]


def test_the_native_engine_has_no_moves_and_no_parts():
    model = torch.nn.Linear(2, 2)
    for option, value in (("swap", "host"), ("split", "auto"), ("clip_norm", 1.0)):
        line = f"^{option} is not there in the native engine; engine='torch' has it$"
        with pytest.raises(lowtide.Unsupported, match=line):
            lowtide.plan(model, never, OPTIMIZERS["sgd"](trained(model)), torch.randn(3, 2), engine="native",
                         **{option: value})


def test_a_budget_of_a_model_file_may_be_a_number_and_what_is_neither_number_nor_text_is_refused(tmp_path):
    (tmp_path / "small.graph").write_text(TEXT)
    assert lowtide.plan(tmp_path / "small.graph", budget=1 << 20).arena_bytes == 2 * 64 * 64 * 4
    with pytest.raises(lowtide.Infeasible, match="100"):
        lowtide.plan(tmp_path / "small.graph", budget=100)
    for options, line in [
            ({"budget": torch.tensor(3)}, "budget holds something of type Tensor, which is neither a number nor a text"),
            ({"dims": {"batch": object()}}, "dims holds something of type object"), ({"dims": 3}, "dims=3 is no dict")]:
        with pytest.raises(lowtide.Usage, match=line):
            lowtide.plan(tmp_path / "none.onnx", **options)


def test_type_checkers_know_the_options():
    fields = typing.get_type_hints(StepOptions)
    assert typing.get_type_hints(StepKeywords) == fields and not StepKeywords.__required_keys__
    assert typing.get_type_hints(engines.compile_step)["options"] == typing.Unpack[StepKeywords]
