"""Two ranks on the CPU: a planned step is DDP's, blocks under FSDP2 are eager FSDP2's, and ranks that captured different graphs refuse."""

import os
import subprocess
import sys

import pytest
from lowtide_cli import ROOT, program

torch = pytest.importorskip("torch")


def torchrun(script, **environment):
    program()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    more = {"PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **more})


RUN = """
import os, sys
sys.path.insert(0, {folder!r})
import {name}
{name}.main()
threads = [open(f"/proc/self/task/{{t}}/comm").read().strip() for t in os.listdir("/proc/self/task")]
sys.stdout.write(f"gloo's: {{sum('gloo' in name for name in threads)}}\\n")
"""


@pytest.mark.parametrize(("name", "words"), [("ddp", "equal to DDP"), ("fsdp2", "equal to eager FSDP2")])
def test_two_ranks_are_as_in_eager_mode_and_end_with_their_threads(name, words, tmp_path):
    """A thread of the group's that is left at exit may abort the process. (Before 2.13 something in
    PyTorch goes on to hold FSDP2's group.)"""
    script = tmp_path / "run.py"
    script.write_text(RUN.format(folder=str(ROOT / "examples/pytorch"), name=name))
    done = torchrun(script)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(words) == 2, done.stdout
    old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
    assert (name == "fsdp2" and old) or done.stdout.count("gloo's: 0") == 2, done.stdout


def test_ranks_with_different_graphs_refuse_to_go_on(tmp_path):
    script = tmp_path / "different.py"
    script.write_text("""
import sys
import torch, lowtide
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.Linear(4, 4)
try:
    lowtide.plan(model, lambda m, x: m(x).sum(), torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(3 + rank, 4),
                 data_parallel=True)
except lowtide.Usage as problem:
    sys.stdout.write(f"refused: {problem}\\n")  # in one piece: the other rank writes at the same time
    sys.stdout.flush()
torch.distributed.destroy_process_group()
""")
    done = torchrun(script)
    assert done.stdout.count("refused: rank 1 captured another graph than rank 0") == 2, done.stderr[-3000:]


FAILURES = """
import os, sys, time
import torch, lowtide
from torch import nn
from torch.nn import functional as F
dist = torch.distributed
dist.init_process_group("gloo")
rank = dist.get_rank()

def say(what):
    sys.stdout.write(f"{what} on {rank}\\n")
    sys.stdout.flush()

def batch(count=4, worst=3):
    return torch.randn(count, 8), torch.randint(0, worst, (count,))

def refused(run, kind, words):
    try:
        run()
    except kind as problem:
        assert words[rank] in str(problem), problem
        return problem
    raise AssertionError(f"{words} was not refused")

def loss_fn(model, b):
    return F.cross_entropy(model(b[0]), b[1])

torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
options = dict(data_parallel=True, effort=0.1, check_finite="loss")

def there(model, b):
    if rank == 1:
        raise KeyError("nobody")
    return loss_fn(model, b)

refused(lambda: lowtide.plan(model, there, optimizer, batch(), **options), lowtide.BadInput,
        ["rank 1: Unsupported", "nobody"])
wider = nn.Linear(8, 3 + rank)
refused(lambda: lowtide.plan(wider, loss_fn, torch.optim.SGD(wider.parameters(), lr=1), batch(), **options), lowtide.Usage,
        ["rank 1 has 2 parameters and buffers, of 36 numbers, rank 0 2 parameters and buffers, of 27 numbers"] * 2)
step = lowtide.compile_step(model, loss_fn, optimizer, batch(), **options)
assert len(step._now.code.averages) > 0, "reductions before the step is judged, which a failed rank has to join"
step(batch())
before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

def unchanged(case):
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), (case, name)
    say(case)

refused(lambda: step(batch(4 - rank)), lowtide.Usage,
        ["rank 1 has a batch of shapes [(3, 8), (3,)], rank 0 one of [(4, 8), (4,)]"] * 2)
unchanged("another shape")
refused(lambda: step((batch(), 0.5) if rank == 1 else batch()), lowtide.Usage, ["rank 1: Usage: the batch's", "number 0.5"])
unchanged("no batch")
x, y = batch()
refused(lambda: step((x * float("nan") if rank == 1 else x, y)), FloatingPointError,
        ["rank 1: FloatingPointError: the loss is nan", "the loss is nan"])
unchanged("not finite")
failure = refused(lambda: step((x, y + 7 * rank)), (lowtide.Error, IndexError), ["rank 1: IndexError", "out of bounds"])
assert "the model is as before the step" in failure.__notes__[-1]
unchanged("a wrong label")
held = model[2].weight
if rank == 1:
    model[2].weight = nn.Parameter(held.detach().clone())
refused(lambda: step((x, y)), lowtide.Usage, ["rank 1: Usage: '2.weight' is another tensor", "'2.weight' is another tensor"])
model[2].weight = held
unchanged("an exchanged tensor")
step(batch())
assert step.memory.beside == 0, "agreeing takes no memory beside the arena"
every = [None, None]
dist.all_gather_object(every, [p.tolist() for p in model.parameters()])
assert every[0] == every[1] and not torch.equal(held, before["2.weight"])
say("goes on")
dist.destroy_process_group()
"""


def test_what_fails_on_one_rank_is_refused_on_all_and_the_next_step_runs(tmp_path):
    """The other would stand in a reduction until the group's time is over: 30 minutes."""
    script = tmp_path / "failures.py"
    script.write_text(FAILURES)
    done = torchrun(script)
    assert done.returncode == 0, done.stderr[-3000:]
    for case in ("another shape", "no batch", "not finite", "a wrong label", "an exchanged tensor", "goes on"):
        for rank in (0, 1):
            assert f"{case} on {rank}" in done.stdout, done.stdout
