#!/usr/bin/env python3
"""Exported programs (.pt2) beside PyTorch: results, and a whole training step in f64 (zoo_training.py); and beside the ONNX
door, which is to plan the same network alike.

    LOWTIDE_BUILD_DIR=build/release .venv/bin/python tests/python/pt2_judge.py [NETWORK ...]        all without a name
"""

import json
import pathlib
import re
import sys
import tempfile
import zipfile

import numpy as np
import pt2_networks
import seeded_values
import torch
import zoo_training
from lowtide_cli import run

SEED = zoo_training.SEED
TOLERANCE = dict(rtol=1e-4, atol=1e-5)  # of results in f32


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    return model


def feeds(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    return [zoo_training.in_type(seeded_values.float_input(SEED, key, shape) if limit is None
                                 else seeded_values.integer_input(SEED, key, shape, limit), dtype)
            for key, (shape, limit) in pt2_networks.NETWORKS[name].inputs.items()]


def symbols(path: pathlib.Path) -> list[str]:
    line = next(line for line in run("inspect", path).stdout.splitlines() if line.startswith("symbols "))
    return re.findall(r"\b(s\d+)\b", line)


def sizes(name: str, path: pathlib.Path) -> dict[str, int]:
    """All dynamic dims of these networks are the batch."""
    return {symbol: next(iter(pt2_networks.NETWORKS[name].inputs.values()))[0][0] for symbol in symbols(path)}


def step(name: str, dtype: torch.dtype) -> zoo_training.Step:
    """PyTorch's own, with gradients of what is trained alone."""
    model = without_dropout(pt2_networks.build(name)).to(dtype)
    kept = {key: value.detach().clone() for key, value in model.named_buffers()}
    loss = model(*feeds(name, dtype))
    loss.backward()
    gradients = {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}
    after = {}
    for optimizer, (_, make) in zoo_training.OPTIMIZERS.items():
        leaves = {key: p.detach().clone() for key, p in model.named_parameters() if p.grad is not None}
        for key, leaf in leaves.items():
            leaf.grad = torch.from_numpy(gradients[key])
        make(list(leaves.values())).step()
        statistics = {key: value for key, value in model.named_buffers() if "running_" in key}
        after[optimizer] = {key: value.detach().numpy() for key, value in (leaves | statistics).items()}
    return zoo_training.Step(loss.item(), gradients, after, frozenset(key for key in kept if "running_" in key))


def program_of(path: pathlib.Path) -> dict:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("models/model.json"))))


def statistics(path: pathlib.Path, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The new contents of running statistics, by the nodes of the program that keep them."""
    module = program_of(path)["graph_module"]
    names = {spec["buffer"]["arg"]["name"]: spec["buffer"]["buffer_name"]
             for spec in module["signature"]["input_specs"] if "buffer" in spec}
    found = {}
    for node in module["graph"]["nodes"]:
        if "batch_norm" in node["target"]:
            arguments = {entry["name"]: entry["arg"] for entry in node["inputs"]}
            for argument, update in (("running_mean", "RunningUpdate"), ("running_var", "RunningUpdate.1")):
                if f"{node['name']}/{update}" in values:
                    found[f"new/{names[arguments[argument]['as_tensor']['name']]}"] = values[f"{node['name']}/{update}"]
    return found


def network(name: str, path: pathlib.Path) -> zoo_training.Network:
    return zoo_training.Network(path, sizes(name, path), "model", lambda dtype: step(name, dtype),
                                flags=("--no-pieces",),  # gradients in pieces are not kept as a whole
                                statistics=lambda values: statistics(path, values))


def forward(name: str, path: pathlib.Path) -> tuple[float, float]:
    """What a planned run without training gives, and what PyTorch gives in eval mode."""
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.lt"
        dims = [part for key, size in sizes(name, path).items() for part in ("--dim", f"{key}={size}")]
        zoo_training.call("plan", path, *dims, "--threads", 1, "-o", plan)
        zoo_training.call("verify", plan)
        limits = {value["name"]: value["initial"].get("limit") for value in json.loads(plan.read_text())["values"]
                  if value.get("initial", {}).get("kind") == "fed"}
        for key, (_, limit) in pt2_networks.NETWORKS[name].inputs.items():
            if key in limits and limit is not None and limits[key] != limit:
                raise zoo_training.Wrong(f"'{key}' is drawn below {limits[key]}, and is below {limit}")
        zoo_training.call("run", plan, "--seed", SEED, "--threads", 1, "--model-folder", path.parent, "--dump", f"{folder}/run")
        ours = float(np.load(f"{folder}/run/00000.npy"))
    with torch.no_grad():
        return ours, float(pt2_networks.build(name).eval()(*feeds(name, torch.float32)))


def onnx_file(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The same network by PyTorch's ONNX exporter, in training form."""
    import export
    import onnxscript.optimizer

    entry, model = pt2_networks.NETWORKS[name], pt2_networks.build(name)
    export.make_parameters_distinct(model)
    loss = pt2_networks.program(name).graph_signature.user_outputs[0]  # called as the program calls it
    program = torch.onnx.export(model, pt2_networks.examples(name), input_names=list(entry.inputs), output_names=[loss],
                                optimize=False, verbose=False)
    with export.training_passes():
        onnxscript.optimizer.optimize_ir(program.model, should_fold=export.keep_parameters)
    proto = program.model_proto
    export.name_tied_parameters(proto, model)
    path = folder / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def plan_of(path: pathlib.Path, *flags) -> dict:
    return json.loads(zoo_training.call("plan", path, "--train", "--loss", "model", "--dropout", "off", "--threads", 1, *flags,
                                        "--json"))


def judged(name: str, folder: pathlib.Path) -> dict:
    path = pt2_networks.save(name, folder)
    ours, theirs = forward(name, path)
    if not np.isclose(ours, theirs, **TOLERANCE):
        return {"status": "wrong", "reason": f"the result is {ours:.7g}, in PyTorch {theirs:.7g}"}
    return zoo_training.judged(network(name, path))


def main(names: list[str]) -> int:
    wrong = 0
    for name in names or list(pt2_networks.NETWORKS):
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict = judged(name, pathlib.Path(folder))
            except (zoo_training.Wrong, zoo_training.Refused) as refused:
                verdict = {"status": "wrong", "reason": str(refused)}
        wrong += verdict["status"] != "taken"
        print(f"{name:12} {verdict}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
