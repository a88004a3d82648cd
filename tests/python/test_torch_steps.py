"""Planned training steps of thirteen kinds of networks are equal to eager mode bit for bit, in their budget, at their addresses."""

import itertools
import json
import os
import re

import pytest
import torch
from torch_models import NAMES, OPTIMIZERS, assert_equal_steps, build, twin

import lowtide
from lowtide.pytorch.trace import module_and_source, place_of_stack

# Every second network once, within a tight budget, with dropout; all of them, optimizers, budgets and dropouts with LOWTIDE_LONG.
if os.environ.get("LOWTIDE_LONG"):
    CASES = list(itertools.product(NAMES, OPTIMIZERS, (None, "middle", "tight"), (0.0, 0.1)))
else:
    CASES = [(name, ("adamw", "sgd")[i % 2], "tight", 0.1) for i, name in enumerate(NAMES[:12:2])]


def limit_of(budget, model, loss_fn, optimizer, batch):
    """A budget between what the best order needs and the floor, with which a budget of nothing is refused."""
    if budget is None:
        return None
    best = lowtide.plan(model, loss_fn, optimizer, batch).arena_bytes
    with pytest.raises(lowtide.Infeasible) as refused:
        lowtide.plan(model, loss_fn, optimizer, batch, budget=1)
    floor = int(str(refused.value).split("needs at least ")[1].split(" bytes")[0])
    return best if best - floor < 1024 else best - (best - floor) // (3 if budget == "tight" else 10)


@pytest.mark.parametrize(("name", "optimizer", "budget", "dropout"), CASES)
def test_three_steps_are_equal_to_eager_mode(name, optimizer, budget, dropout):
    model, batch, loss_fn = build(name, dropout)
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    limit = limit_of(budget, model, loss_fn, mine, batch)
    step = lowtide.compile_step(model, loss_fn, mine, batch, budget=limit, effort=0.2)
    assert_equal_steps(step, model, mine, other, its, loss_fn, batch)
    assert step.memory.beside == 0 and step.memory.planned > 0
    assert step.memory.top_bytes <= step.memory.arena_bytes
    assert step.memory.arena_bytes + step.memory.resident_bytes == step.plan.arena_bytes
    if limit is not None:
        assert step.plan.arena_bytes <= limit


def test_the_plan_says_from_which_line_each_op_comes(tmp_path):
    model, batch, loss_fn = build("fno", 0.0)
    _, mine, _ = twin(model, OPTIMIZERS["sgd"])
    path = tmp_path / "step.lt"
    lowtide.plan(model, loss_fn, mine, batch).save(path)
    ops = json.loads(path.read_text())["ops"]
    sources = {op.get("source", "") for op in ops if op["phase"] != "update"}
    assert any(re.fullmatch(r"python/torch_models\.py:\d+", source) for source in sources), sources
    assert all(re.fullmatch(r"(|.+\.py:\d+)", source) for source in sources), sources
    # A gradient comes from the line that it is a gradient of (whose op may be a view); a module is a path, no file or node.
    forward, backward = ({op["source"].split(":")[0] for op in ops if op["phase"] == phase and "source" in op}
                         for phase in ("forward", "backward"))
    assert backward and backward <= forward
    modules = {name for name, _ in model.named_modules()}
    assert {op.get("module", "") for op in ops} <= modules


@pytest.mark.parametrize(("place", "module", "source"), [
    ("", "", ""),
    ("h.0.attn", "h.0.attn", ""),
    ("the update of h.0.weight", "", ""),
    ("node 'mul_3'", "", ""),
    ("h.0: /users/me/net/model.py:12: x = self.fc(x)", "h.0", "net/model.py:12"),
    ("/users/me/net/train.py:3: loss = f(y): g", "", "net/train.py:3"),
    ("fc: /usr/lib/site-packages/transformers/models/gpt2/modeling.py:7: a", "fc", "transformers/models/gpt2/modeling.py:7"),
    ("model.py:7: a", "", "model.py:7"),
])
def test_places_as_module_and_line(place, module, source):
    assert module_and_source(place) == (module, source)


def test_stack_traces_of_compiled_graphs_name_the_users_line():
    trace = ('  File "/users/me/net/train.py", line 3, in step\n    y = model(x)\n'
             '  File "/users/me/net/model.py", line 12, in forward\n    return self.fc(x)\n'
             f'  File "{torch.nn.__file__}", line 9, in forward\n    return F.linear(x)\n')
    assert place_of_stack(trace) == "/users/me/net/model.py:12: return self.fc(x)"
    assert place_of_stack("") == ""
