#!/usr/bin/env python3
"""Programs drawn from a grammar, each a model, a loss and an optimizer of somebody's who uses all of PyTorch, held against eager mode.

    random_programs.py [--first SEED] [--count N] [--ways LIST | --turns] [--minutes N] [--jobs N] [--seconds N] [--folder FOLDER] [--open]
    random_programs.py --show SEED        the program's source

A seed gives a `Spec`: a shape of x, some parts (random_parts.py), a loss, an optimizer, options. Its source is a program that runs by itself;
`program_of` executes it, and eager_judge.py judges it. A program that fails is made smaller: parts are taken out, then loss, optimizer and
options become the plainest, as long as it still fails in the same way (`shrink`). The smallest is printed as source.

`--turns` tries each seed by the torch engine at one of its budgets, and by one of the other ways in turn (`turns_of`).
What is refused is counted by its reason, as a refusal is an answer. With --folder each seed leaves a line there and is not tried again;
programs that fail lie beside it. Each seed runs in a process of its own, so that a crash or a hang is that seed's. Tests: test_random_programs.py.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    BUILD = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
    os.environ.setdefault("LOWTIDE_LIBRARY", str(BUILD / "liblowtide.so"))
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/python")]

from random_parts import ANY, LOSSES, OPEN, OPTIMIZERS, PARTS  # noqa: E402

MOST_PARTS = 5
SIZES = {"rows": "8", "sequence": "6, 8", "image": "8, 6, 6"}
ROWS_OF = {"rows": "x", "sequence": "x.flatten(0, 1)", "image": "x.mean((2, 3))"}
LABELS_OF = {"rows": 1, "sequence": 6, "image": 1}
BATCHES = ("dict", "tuple", "list", "nested")
PLAIN = {"loss": "squares", "optimizer": "sgd", "batch": "dict", "options": ()}
OPTIONS = ("clip_norm", "clip_value", "accumulate", "eval_later", "other_shape", "channels_last", "f64")


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a seed has drawn. `parts`: (name, seed of its own choices)."""

    shape: str
    parts: tuple[tuple[str, int], ...]
    loss: str
    optimizer: str
    batch: str
    options: tuple[str, ...]


def spec_of(seed: int, with_open: bool = False) -> Spec:
    draw = random.Random(seed)
    shape = draw.choice(ANY)
    fitting = sorted(name for name, (shapes, _) in PARTS.items() if shape in shapes and (with_open or name not in OPEN))
    parts = tuple((draw.choice(fitting), draw.randrange(1 << 20)) for _ in range(draw.randint(1, MOST_PARTS)))
    options = tuple(o for o in OPTIONS if draw.random() < 0.08 and (o != "channels_last" or shape == "image"))
    if "accumulate" in options:  # a list of batches has one form here
        options = tuple(o for o in options if o != "other_shape")
    return Spec(shape, parts, draw.choice(sorted(LOSSES)), draw.choice(sorted(OPTIMIZERS)), draw.choice(BATCHES), options)


BUDGETS = (*[("none",)] * 6, ("tight",), ("none", "half"))  # of the torch engine, in turn
OTHERS = ("native", "auto", "backend", "samples", "swap")


def turns_of(seed: int) -> list[tuple[str, dict[str, Any]]]:
    """The ways in which a long run tries a seed, with the judge's keywords: the numbers of budgets and of other ways have no divisor in
    common, so that each pair comes about."""
    return [("torch", {"budgets": BUDGETS[seed % len(BUDGETS)]}), (OTHERS[seed % len(OTHERS)], {})]


# ---- source

_BATCH = {
    "dict": ("{'x': x, 'ids': ids, 'mask': mask, 'labels': labels, 'targets': targets}", "batch['{0}']"),
    "tuple": ("(x, ids, mask, labels, targets)", "batch[{1}]"), "list": ("[x, ids, mask, labels, targets]", "batch[{1}]"),
    "nested": ("{'inputs': [x, (ids, mask)], 'wanted': {'labels': labels, 'targets': targets}}", "{2}"),
}
_NESTED = ("batch['inputs'][0]", "batch['inputs'][1][0]", "batch['inputs'][1][1]", "batch['wanted']['labels']", "batch['wanted']['targets']")
_FIELDS = ("x", "ids", "mask", "labels", "targets")

_SOURCE = '''\
import types
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
{outside}

TARGET, RATE = torch.linspace(-1, 1, 8), 0.5
LOSS = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 1.5, 8), ignore_index=3, label_smoothing=0.05)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.{head}
{init}

    def forward(self, x, batch_ids, batch_mask):
        aux, extra = [], x.new_zeros(())
{forward}
        return self.head(x), aux, extra


def loss_fn(model, batch):
    x, ids, mask, labels, targets = {fields}
    x, aux, extra = model(x, ids, mask)
    out, weights = {rows}, torch.linspace(0.5, 1.5, 8, dtype=x.dtype)
    loss = {loss} + extra
    return (loss, aux) if aux else loss


def batch_of(rows={rows_count}):
    x, ids, mask = torch.randn(rows, {sizes}), torch.randint(0, 12, (rows, 6)), torch.rand(rows, 6) > 0.3
    labels, targets = torch.randint(0, 8, (rows * {labels},)), torch.randn(rows * {labels}, 8)
    return {batch}


def optimizer_of(ps):
    return {optimizer}


def between(model, step):
{between}


OPTIONS = {step_options}


def make():
    torch.manual_seed(0)
    model = Model(){model_more}
    batches = {batches}
    return model, batches
'''

_ALONE = '''

if __name__ == "__main__":  # eager mode beside planned steps
    import copy, warnings, lowtide
    warnings.simplefilter("ignore")
    (mine, batches), (its, others) = make(), make()
    optimizers = [optimizer_of([p for p in m.parameters() if p.requires_grad]) for m in (mine, its)]
    between(mine, 0)
    step = lowtide.compile_step(mine, loss_fn, optimizers[0], copy.deepcopy(batches[0]), effort=0.2, cache=False, **OPTIONS, **{more})
    for k, (batch, other) in enumerate(zip(batches, others)):
        between(mine, k), between(its, k)
        torch.manual_seed(k)
        loss = step(batch)
        torch.manual_seed(k)
        optimizers[1].zero_grad()
        total = 0
        for each in other if OPTIONS.get("accumulate", 1) > 1 else [other]:
            wanted = loss_fn(its, each)
            wanted = wanted[0] if isinstance(wanted, tuple) else wanted
            wanted.backward()
            total = total + wanted.detach()
        ps = [p for p in its.parameters() if p.requires_grad]
        if "clip_value" in OPTIONS:
            nn.utils.clip_grad_value_(ps, OPTIONS["clip_value"])
        if "clip_norm" in OPTIONS:
            nn.utils.clip_grad_norm_(ps, OPTIONS["clip_norm"])
        optimizers[1].step()
        print("step", k, "loss", float(loss[0] if isinstance(loss, tuple) else loss), "eager mode", float(total),
              "differ:", [n for (n, a), (_, b) in zip(mine.state_dict().items(), its.state_dict().items()) if not torch.equal(a, b)])
'''


def _indented(text: str, columns: int) -> str:
    return textwrap.indent(text, " " * columns) if text else ""


def source_of(spec: Spec, alone: str | None = None) -> str:
    """`alone`: keywords of compile_step, for a program that runs by itself."""
    written = [PARTS[name][1](random.Random(chosen), k, spec.shape) for k, (name, chosen) in enumerate(spec.parts)]
    between = [w.between for w in written if w.between]
    if "eval_later" in spec.options:
        between.append("model.train(step != 1)")
    made, field = _BATCH[spec.batch]
    fields = ", ".join(field.format(name, place, _NESTED[place]) for place, name in enumerate(_FIELDS))
    batches = "[batch_of() for _ in range(3)]"
    if "other_shape" in spec.options:
        batches = "[batch_of(), batch_of(5), batch_of()]"
    if "accumulate" in spec.options:
        batches = "[[batch_of(), batch_of()] for _ in range(3)]"
    options = {"clip_norm": 0.05, "clip_value": 0.01, "accumulate": 2}
    model_more = (".double()" if "f64" in spec.options else "") + \
        (".to(memory_format=torch.channels_last)" if "channels_last" in spec.options else "")
    text = _SOURCE.format(
        outside="".join(f"\n\n{o}" for o in dict.fromkeys(w.outside for w in written if w.outside)), head="Conv2d(8, 8, 1)" if spec.shape == "image" else "Linear(8, 8)",
        init=_indented("\n".join(w.init for w in written if w.init), 8), forward=_indented("\n".join(w.forward for w in written if w.forward), 8), fields=fields,
        rows=ROWS_OF[spec.shape], loss=LOSSES[spec.loss], sizes=SIZES[spec.shape], labels=LABELS_OF[spec.shape], batch=made, optimizer=OPTIMIZERS[spec.optimizer],
        between=_indented("\n".join(between) or "pass", 4), step_options={o: options[o] for o in spec.options if o in options}, batches=batches, rows_count=4,
        model_more=model_more)
    if "f64" in spec.options:
        text = text.replace("torch.randn(rows", "torch.randn(rows").replace("    return {", "    x, targets = x.double(), targets.double()\n    return {", 1) \
            if made.startswith("{") else text.replace(f"    return {made}", f"    x, targets = x.double(), targets.double()\n    return {made}")
    if "channels_last" in spec.options:
        text = text.replace(f"    return {made}", f"    x = x.to(memory_format=torch.channels_last)\n    return {made}")
    return text + (_ALONE.replace("{more}", alone) if alone is not None else "")


def program_of(source: str) -> Callable[[], Any]:
    """What makes the Program of eager_judge, all anew each time."""
    from eager_judge import Program

    def make() -> Program:
        found: dict[str, Any] = {"__name__": "drawn"}
        exec(compile(source, "<string>", "exec"), found)
        model, batches = found["make"]()
        model.train()
        return Program(model, batches, found["loss_fn"], found["optimizer_of"], found["OPTIONS"], found["between"])
    return make


# ---- judged, and made smaller


def judged(spec: Spec, way: str, effort: float = 0.1, **more: Any) -> dict:
    import eager_judge
    try:
        verdict = eager_judge.Judge(program_of(source_of(spec)), effort=effort, cache=False).verdict(way, **more)
    except eager_judge.NotJudged as problem:
        return {"status": "not judged", "said": str(problem)}
    return {"status": verdict.status, "said": verdict.said, "details": verdict.details}


def kind_of(found: dict) -> str:
    """What a smaller program has to repeat: the status and the beginning of what is said, without names and numbers."""
    return found["status"] + " " + re.sub(r"'[^']*'|[\d.e+-]*\d|\S*\.\S*", "..", found["said"])[:40] if found["status"] == "crash" else found["status"]


def smaller(spec: Spec) -> Iterator[Spec]:
    for k in range(len(spec.parts)):
        yield dataclasses.replace(spec, parts=spec.parts[:k] + spec.parts[k + 1:])
    for option in spec.options:
        yield dataclasses.replace(spec, options=tuple(o for o in spec.options if o != option))
    for name in ("loss", "optimizer", "batch"):
        if getattr(spec, name) != PLAIN[name]:
            yield dataclasses.replace(spec, **{name: PLAIN[name]})


def shrink(spec: Spec, fails: Callable[[Spec], bool]) -> Spec:
    """The smallest that fails, of those that one change after another leads to."""
    found = True
    while found:
        found = False
        for candidate in smaller(spec):
            if fails(candidate):
                spec, found = candidate, True
                break
    return spec


# ---- many


class Running:
    """One piece of work in a process of its own: it answers with JSON."""

    def __init__(self, work: Callable[[], Any]):
        self.began, self.answer, self.output = time.monotonic(), tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = os.fork()
        if self.process == 0:
            os.setsid()
            for stream in (1, 2):
                os.dup2(self.output.fileno(), stream)
            try:
                os.write(self.answer.fileno(), json.dumps(work()).encode())
            finally:
                os._exit(0)

    def result(self, status: int) -> Any:
        self.answer.seek(0)
        line = self.answer.read()
        said = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended without an answer"
        return json.loads(line) if line else {"status": "crash", "said": said}


def alone(work: Callable[[], Any], seconds: float) -> Any:
    """The same, waited for."""
    running = Running(work)
    while True:
        process, status = os.waitpid(running.process, os.WNOHANG)
        if process:
            return running.result(status)
        if time.monotonic() - running.began > seconds:
            os.killpg(running.process, signal.SIGKILL)
            os.waitpid(running.process, 0)
            return {"status": "crash", "said": "no end in time"}
        time.sleep(0.01)


def of_seed(spec: Spec, turns: list[tuple[str, dict[str, Any]]], seconds: float) -> dict:
    """Judges a program in each way; what fails is made smaller, each try in a process of its own."""
    found: dict[str, dict] = {}
    for way, more in turns:
        found[way] = alone(lambda way=way, more=more: judged(spec, way, **more), seconds)
        if found[way]["status"] in ("wrong", "crash"):
            kind = kind_of(found[way])
            least = shrink(spec, lambda s, way=way, more=more, kind=kind: kind_of(alone(lambda: judged(s, way, **more), seconds)) == kind)
            found[way] |= {"spec": dataclasses.asdict(least), "source": source_of(least, keywords(way))}
            found[way]["smallest"] = alone(lambda way=way, more=more, least=least: judged(least, way, **more), seconds)["said"]
    return found


def keywords(way: str) -> str:
    return {"torch": "{}", "native": "{'engine': 'native'}", "auto": "{'engine': 'auto'}", "samples": "{'split': 'samples:2'}",
            "swap": "{'budget': '80%', 'swap': 'host'}"}.get(way, "{}")


def line_of(seed: int, way: str, found: dict) -> str:
    said = " ".join(str(found["said"]).split())
    parts = "+".join(name for name, _ in found.get("spec", {}).get("parts", ()))
    return f"{seed:6} {way:8} {found['status']:10} {parts:30} {said[:200]}"


def tell(seed: int, found: dict, folder: pathlib.Path | None, counted: collections.Counter, reasons: collections.Counter) -> None:
    for way, each in found.items():
        counted[way, each["status"]] += 1
        if each["status"] in ("refused", "not judged"):
            reasons[way, each["status"], re.sub(r"'[^']*'|\d+|\([^()]*\)", "..", " ".join(each["said"].split()))[:140]] += 1
        if each["status"] in ("wrong", "crash"):
            print(line_of(seed, way, each), flush=True)
            if folder is not None:
                (folder / f"{seed}_{way}.py").write_text(f"# seed {seed}, {way}: {each['status']}: {' '.join(each['said'].split())[:300]}\n"
                                                         f"# smallest: {' '.join(each.get('smallest', '').split())[:300]}\n{each['source']}")
    if folder is not None:
        with (folder / "seeds.jsonl").open("a") as lines:
            lines.write(json.dumps({"seed": seed, **{way: [each["status"], each["said"][:300]] for way, each in found.items()}}) + "\n")


def run_all(seeds: list[int], arguments: argparse.Namespace) -> bool:
    """Whether none failed."""
    counted, reasons = collections.Counter(), collections.Counter()
    waiting, running = list(seeds), {}
    until = time.monotonic() + 60 * arguments.minutes
    chosen = {"budgets": tuple(arguments.budgets.split(","))} if arguments.budgets else {}
    asked = [(way, chosen if way == "torch" else {}) for way in arguments.ways]
    while waiting or running:
        while waiting and len(running) < arguments.jobs:
            if time.monotonic() > until:
                print(f"time is up: seeds from {waiting[0]} on were not begun")
                waiting = []
                break
            seed = waiting.pop(0)
            turns = turns_of(seed) if arguments.turns else asked
            one = Running(lambda seed=seed, turns=turns: of_seed(spec_of(seed, arguments.open), turns, arguments.seconds))
            running[one.process] = (seed, one)
        if not running:
            break
        process, status = os.waitpid(-1, 0)
        seed, one = running.pop(process)
        found = one.result(status)
        found = found if "status" not in found else {arguments.ways[0]: {**found, "source": source_of(spec_of(seed, arguments.open))}}
        tell(seed, found, arguments.folder, counted, reasons)
    print(f"\n{'way':8} " + " ".join(f"{s:>10}" for s in ("right", "refused", "wrong", "crash", "not judged")))
    for way in arguments.ways:
        print(f"{way:8} " + " ".join(f"{counted[way, s]:10}" for s in ("right", "refused", "wrong", "crash", "not judged")))
    for (way, status, reason), count in reasons.most_common():
        print(f"{count:5} {way} {status}: {reason}")
    return not any(counted[way, s] for way in arguments.ways for s in ("wrong", "crash"))


def import_once() -> None:
    import torch
    torch.set_num_threads(1)
    import torch._dynamo  # noqa: F401
    import torch.export  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    import eager_judge  # noqa: F401
    import lowtide.pytorch  # noqa: F401


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--ways", default="torch", help="of torch, native, auto, backend, samples, swap, comma-separated; or all")
    parser.add_argument("--turns", action="store_true", help="by torch and one of the others in turn, in the place of --ways")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="no seed begins later")
    parser.add_argument("--budgets", default="", help="of the torch way: none,half,tight")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("LOWTIDE_JOBS", os.cpu_count() or 1)))
    parser.add_argument("--seconds", type=float, default=120, help="that one try may take")
    parser.add_argument("--open", action="store_true", help="draws what is known to differ, too")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--show", type=int, metavar="SEED")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.show is not None:
        print(source_of(spec_of(arguments.show, arguments.open), "{}"))
        return 0
    import_once()
    from eager_judge import WAYS
    arguments.ways = list(WAYS) if arguments.ways == "all" or arguments.turns else arguments.ways.split(",")
    done = set()
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        if (arguments.folder / "seeds.jsonl").exists():
            done = {json.loads(line)["seed"] for line in (arguments.folder / "seeds.jsonl").read_text().splitlines()}
    return 0 if run_all([s for s in range(arguments.first, arguments.first + arguments.count) if s not in done], arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
