#!/usr/bin/env python3
"""The loss of a large vocabulary in little memory, really run on this CPU: PyTorch's ways to cut it into chunks, and Lowtide at their bytes.

    chunked_loss.py [--steps N] [--threads N] [--rounds N] [--only NAME] [--json FILE]

The heads of GPT-2 (1,024 rows, 768 wide, 50,257 classes) and BERT (1,024 rows, 30,522 classes): a hidden layer, the layer that makes
the logits, and the cross-entropy; forward, backward and SGD. PyTorch's ways are those of pytorch/chunked_loss.py; each runs in a
process of its own. For each, Lowtide plans the same step from an ONNX file within the bytes that PyTorch took, by `--split auto` and
with no hint what to cut, and runs it: after each of PyTorch's runs, so that a busy spell falls on both. Medians of the rounds. A way
whose bytes are below what every schedule needs is printed so.

Wanted: at most PyTorch's time at each way's bytes. That depends on the machine, so it decides nothing here, but in bench/targets.py,
which reads what --json writes; exit code 1 if an arena is above its budget or not as planned.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from lowtide import ROOT, SCRATCH, finish, lowtide, mib, table  # noqa: E402
from measured import calibrated  # noqa: E402

HEADS = {"gpt2": (1024, 768, 50257), "bert": (1024, 768, 30522)}  # rows, width, classes
WAYS = ["eager", "compile", "chunker=4", "chunker=16", "chunker=64", "linear", "linear=256", "linear=64", "hand=4", "hand=16", "hand=64"]
STEP = ("--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.01")


def write_head(name: str) -> pathlib.Path:
    rows, width, classes = HEADS[name]

    def weight(called: str, *dims: int) -> TensorProto:
        tensor = TensorProto(name=called, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=f"{name}_head.weights")
        return tensor

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "hidden"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
         helper.make_node("MatMul", ["t", "vocabulary"], ["logits"])],
        f"{name}_head", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, width])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [rows, classes])],
        [weight("hidden", width, width), weight("vocabulary", width, classes)])
    path = SCRATCH / f"{name}_head.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


def in_pytorch(name: str, way: str, arguments: argparse.Namespace) -> dict:
    rows, width, classes = HEADS[name]
    command = [sys.executable, ROOT / "bench/pytorch/chunked_loss.py", way, "--rows", rows, "--width", width, "--classes", classes,
               "--steps", arguments.steps, "--threads", arguments.threads]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr.strip().splitlines()[-1]}")
    return json.loads(result.stdout.splitlines()[-1])


def planned(model: pathlib.Path, path: pathlib.Path, flags: list) -> tuple[dict | None, str]:
    result = lowtide("plan", model, *STEP, *flags, "--json", "-o", path, check=False)
    return (json.loads(result.stdout), "") if result.returncode == 0 else (None, result.stderr.strip())


def heads_of(name: str, device: pathlib.Path, arguments: argparse.Namespace, broken: list[str]) -> list[dict]:
    """What each of PyTorch's ways takes, and ours at its bytes."""
    model = write_head(name)
    common = ["--device", device, "--threads", arguments.threads]
    costs = SCRATCH / f"{name}_head.costs.json"
    costs.unlink(missing_ok=True)
    for parts in (1, 2, 8, 32):  # kernels at part shapes, too
        path = SCRATCH / f"{name}_head_{parts}.lt"
        lowtide("plan", model, *STEP, *common, "--split", parts, "-o", path)
        lowtide("run", path, "--steps", 3, "--measure", costs)
    found = []
    for way in WAYS:
        theirs = [in_pytorch(name, way, arguments)]
        path = SCRATCH / f"{name}_{way.replace('=', '_')}.lt"
        budget = theirs[0]["total_bytes"]
        verdict, why = planned(model, path, [*common, "--costs", costs, "--budget", budget, "--split", "auto"])
        one = dict(head=name, way=way, budget_bytes=budget, their_seconds=theirs[0]["step_seconds"], our_seconds=None)
        found.append(one)
        if verdict is None:
            print(f"{name} {way}: {why}", file=sys.stderr)
            continue
        ours = []
        for turn in range(arguments.rounds):
            if turn > 0:
                theirs.append(in_pytorch(name, way, arguments))
            report = json.loads(lowtide("run", path, "--steps", arguments.steps, "--json", check=False).stdout)
            ours.append(report["step_seconds"])
            if report["arena_measured_bytes"] != verdict["arena_bytes"] or verdict["arena_bytes"] > budget:
                broken.append(f"{name} {way}: arena of {report['arena_measured_bytes']} bytes, planned {verdict['arena_bytes']}")
        one.update(our_seconds=statistics.median(ours), their_seconds=statistics.median(run["step_seconds"] for run in theirs),
                   arena_bytes=verdict["arena_bytes"], split=verdict.get("split", "-") or "-",
                   planning_seconds=verdict["planning_seconds"])
    return found


def write_json(arguments: argparse.Namespace, found: list[dict], broken: list[str], finished: bool) -> None:
    if arguments.json:
        content = dict(benchmark="chunked_loss", ways=found, broken=broken, finished=finished)
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def row_of(found: dict) -> list[str]:
    theirs, ours = found["their_seconds"], found["our_seconds"]
    cells = [found["head"], found["way"], mib(found["budget_bytes"])]
    if ours is None:
        return [*cells, "-", "-", f"{1e3 * theirs:,.0f}", "-", "-", "-"]
    return [*cells, mib(found["arena_bytes"]), found["split"], f"{1e3 * theirs:,.0f}", f"{1e3 * ours:,.0f}", f"{ours / theirs:.2f}",
            f"{found['planning_seconds']:.1f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=HEADS)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures, written after each head")
    arguments = parser.parse_args()
    device = calibrated("chunked_loss", arguments.threads)
    broken: list[str] = []
    found: list[dict] = []
    for name in HEADS:
        if arguments.only not in (None, name):
            continue
        found += heads_of(name, device, arguments, broken)
        write_json(arguments, found, broken, finished=False)
    write_json(arguments, found, broken, finished=True)
    table(["head", "PyTorch's way", "its MiB", "our arena", "parts", "its ms", "our ms", "ratio", "planned s"],
          [row_of(one) for one in found])
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
