"""Random programs beside eager mode: the grammar's seeds, and what judges and shrinks them.

By default seeds 0 to 199 run by the torch engine. With LOWTIDE_LONG=1 seeds 0 to 9999 do, each by the torch engine (budgets in turn: six of eight
at none, one in the least arena, one at none and half-way) and by one of native, auto, backend, samples and swap in turn, so that each of these
has 2,000 of them. That takes a core about six hours; LOWTIDE_SEEDS=2000-4000 runs seeds 2000 to 3999 so, a piece at a time.
`random_programs.py --turns` does the same without pytest, each seed in a process of its own, and goes on where it was left.
"""

import collections
import dataclasses
import os
import random
import sys

import eager_judge
import pytest
import random_programs
from forks import forks
from random_parts import ANY, LOSSES, OPEN, PARTS
from torch_models import torch

PIECE = os.environ.get("LOWTIDE_SEEDS", "")
LONG = bool(os.environ.get("LOWTIDE_LONG") or PIECE)
FIRST, END = map(int, PIECE.split("-")) if PIECE else (0, 10_000 if LONG else 200)


@pytest.mark.parametrize("first", range(FIRST, END, 20))
def test_a_random_program_is_eager_modes(first):
    torch.set_num_threads(1)
    failed = []
    for seed in range(first, min(first + 20, END)):
        spec, turns = random_programs.spec_of(seed), random_programs.turns_of(seed)
        for way, more in turns if LONG else turns[:1]:
            found = random_programs.judged(spec, way, **more)
            if found["status"] in ("wrong", "crash"):
                kind = random_programs.kind_of(found)
                least = random_programs.shrink(
                    spec, lambda s, w=way, m=more, k=kind: random_programs.kind_of(random_programs.judged(s, w, **m)) == k)
                failed.append(f"seed {seed}, {way}: {found['status']}: {found['said'][:400]}\nthe smallest program that fails so:\n\n"
                              f"{random_programs.source_of(least, random_programs.keywords(way))}")
    assert not failed, "\n\n".join(failed)


def test_each_seed_has_the_torch_way_and_each_other_way_its_share():
    turns = [random_programs.turns_of(seed) for seed in range(400)]
    assert all(ways[0][0] == "torch" and len(ways) == 2 for ways in turns)
    counted = collections.Counter((ways[1][0], ways[0][1]["budgets"]) for ways in turns)
    assert {way for way, _ in counted} == set(eager_judge.WAYS) - {"torch"}
    assert all(count >= 10 for count in counted.values()) and len(counted) == 15, counted


def test_a_seed_gives_one_program():
    assert random_programs.source_of(random_programs.spec_of(7)) == random_programs.source_of(random_programs.spec_of(7))
    assert len({random_programs.source_of(random_programs.spec_of(seed)) for seed in range(50)}) == 50


def test_every_part_and_loss_is_drawn():
    drawn = [random_programs.spec_of(seed, with_open=True) for seed in range(4000)]
    assert {name for spec in drawn for name, _ in spec.parts} == set(PARTS) and OPEN <= set(PARTS)
    assert {spec.loss for spec in drawn} == set(LOSSES) and {spec.shape for spec in drawn} == set(ANY)


def test_nearly_every_program_is_one_that_eager_mode_runs():
    draw = random.Random(1)
    seeds = [draw.randrange(1 << 30) for _ in range(25)]
    ran = 0
    for seed in seeds:
        try:
            eager_judge.eager(random_programs.program_of(random_programs.source_of(random_programs.spec_of(seed))))
            ran += 1
        except Exception:  # the judge would say so; here they are counted
            continue
    assert ran >= 0.85 * len(seeds), ran


def test_shrinking_leaves_the_part_that_fails():
    parts = tuple((name, 0) for name in ("linear", "dropout", "straight_through", "layer_norm", "gru"))
    spec = random_programs.Spec("sequence", parts, "kl", "adamw", "nested", ("clip_norm", "accumulate"))
    tried = []

    def fails(candidate):
        tried.append(candidate)
        return "straight_through" in [name for name, _ in candidate.parts] and "accumulate" in candidate.options
    least = random_programs.shrink(spec, fails)
    assert least == dataclasses.replace(spec, parts=(("straight_through", 0),), loss="squares", optimizer="sgd", batch="dict", options=("accumulate",))
    assert len(tried) < 60


def test_the_printed_program_runs_by_itself(tmp_path):
    spec = random_programs.Spec("rows", (("linear", 0), ("buffer_in_place", 0)), "cross_entropy_module", "groups", "nested", ("clip_norm",))
    (tmp_path / "alone.py").write_text(random_programs.source_of(spec, "{}"))
    done = forks("torch", "lowtide.pytorch").run([tmp_path / "alone.py"], [{"PYTHONPATH": os.pathsep.join(sys.path), "LOWTIDE_CACHE": str(tmp_path)}], 300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(line.endswith("differ: []") for line in lines), lines
    assert all(line.split()[3] == line.split()[6] for line in lines), lines


def test_a_wrong_step_is_found_and_made_smaller(monkeypatch):
    """A capture that forgets dropout: the smallest program is dropout alone."""
    import lowtide
    honest = lowtide.compile_step

    def forgetful(model, *others, **options):
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        return honest(model, *others, **options)
    monkeypatch.setattr(lowtide, "compile_step", forgetful)
    spec = random_programs.Spec("rows", (("linear", 0), ("dropout", 0), ("layer_norm", 0)), "mse", "sgd", "dict", ())
    failing = random_programs.judged(spec, "torch", budgets=("none",))
    assert failing["status"] == "wrong", failing
    least = random_programs.shrink(spec, lambda s: random_programs.judged(s, "torch", budgets=("none",))["status"] == "wrong")
    assert least.parts == (("dropout", 0),)
