"""Two ranks on the CPU: a planned step is DDP's, blocks under FSDP2 are eager FSDP2's, and ranks that captured different graphs refuse."""

import os
import subprocess
import sys

import pytest
from lowtide_cli import ROOT, program

pytest.importorskip("torch")


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
    """A thread of the group's that is left at exit may abort the process."""
    script = tmp_path / "run.py"
    script.write_text(RUN.format(folder=str(ROOT / "examples/pytorch"), name=name))
    done = torchrun(script)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(words) == 2 and done.stdout.count("gloo's: 0") == 2, done.stdout


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
