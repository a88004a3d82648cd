"""A training step of a network of the zoo, planned and run, beside PyTorch's in f64: every gradient, every updated parameter,
the running statistics; by SGD with momentum and weight decay and by AdamW, without a budget and within one.

Inputs and targets come from seeded_values.py, as `lowtide run --seed` draws them; parameters are those in the file. Dropout is
off, batch normalization takes the statistics of the batch.

A gradient is held against PyTorch's own f32 step: nets with batch normalization amplify rounding, so no fixed tolerance is
right. Updates are judged with the gradient that was judged before: AdamW's first step turns the rounding of a tiny gradient
into up to twice the learning rate.
"""

import copy
import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable

import numpy as np
import onnx
import seeded_values
import torch
import zoo_cases
from lowtide_cli import run

SEED = 1
RATE, DECAY = 1e-3, 0.01
OPTIMIZERS = {
    "sgd": (["--momentum", "0.9"], lambda parameters: torch.optim.SGD(parameters, RATE, 0.9, weight_decay=DECAY)),
    "adamw": ([], lambda parameters: torch.optim.AdamW(parameters, RATE, weight_decay=DECAY)),
}
EPSILON = 1e-8
BUDGET_SHARE = 0.7
DRAWS = 6


class Wrong(Exception):
    """A gradient, an update or a plan that does not hold."""


class Refused(Exception):
    """What the program does not take, in its own line."""


@dataclasses.dataclass
class Step:
    loss: float
    gradients: dict[str, np.ndarray]
    after: dict[str, dict[str, np.ndarray]]  # by optimizer: parameters and running statistics after the step
    statistics: frozenset[str]  # the running statistics among them


def in_type(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def loss_of(kind: str, output: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if kind == "mse":
        target = in_type(seeded_values.float_input(SEED, "target", tuple(output.shape)), dtype)
        return torch.nn.functional.mse_loss(output, target)
    axis = 2 if output.dim() == 3 else 1
    shape = tuple(extent for dim, extent in enumerate(output.shape) if dim != axis)
    labels = torch.from_numpy(seeded_values.integer_input(SEED, "labels", shape, output.shape[axis]))
    return torch.nn.functional.cross_entropy(output.movedim(axis, 1), labels)


@dataclasses.dataclass
class Network:
    """What a step is of, and PyTorch's own, in f64 or f32."""

    path: pathlib.Path
    sizes: dict[str, int]
    loss: str
    judge: Callable[[torch.dtype], Step]
    noisy: Callable[[int], Step] | None = None  # in f64, moved as rounding to f32 would: another draw for each number
    flags: tuple[str, ...] = ()  # of plan
    statistics: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None  # by name; none: as its ONNX nodes say


def of_the_zoo(name: str) -> Network:
    from zoo import ZOO

    if ZOO[name].build is None:
        return of_a_file(zoo_cases.zoo_case(name))
    return Network(zoo_cases.zoo_path(name, training=True), ZOO[name].sizes, ZOO[name].loss,
                   lambda dtype: pytorch_step(name, dtype))


def of_a_file(case: zoo_cases.Case) -> Network:
    """A network of which there is only a file, with the statistics of the batch and no dropout; the loss is the mean squared
    distance of its first output, or what a Softmax makes it of: through that next to nothing flows back."""
    path = case.path.with_suffix(".training.onnx")
    model = onnx.load(str(case.path), load_external_data=False)
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output[0].name = last.input[0]
        model.graph.output[0].type.tensor_type.ClearField("shape")
        del model.graph.node[-1]
    path.write_bytes(model.SerializeToString())
    return Network(path, case.sizes, "mse", lambda dtype: file_step(path, case, dtype),
                   lambda draw: file_step(path, case, torch.float64, np.random.default_rng(draw)))


@functools.cache
def drawn_below(path: pathlib.Path, sizes: tuple[tuple[str, int], ...], loss: str) -> dict[str, int]:
    """By name, below what `run` draws fed integers, as the plan notes it: 1 where nothing bounds them."""
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.lt"
        dims = [part for key, size in sizes for part in ("--dim", f"{key}={size}")]
        call("plan", path, "--train", "--loss", loss, "--dropout", "off", "--threads", 1, *dims, "-o", plan)
        return {value["name"]: value["initial"].get("limit", 1) for value in json.loads(plan.read_text())["values"]
                if value.get("initial", {}).get("kind") == "fed"}


def file_step(path: pathlib.Path, case: zoo_cases.Case, dtype: torch.dtype, noise: np.random.Generator | None = None) -> Step:
    import onnx_in_torch

    limits = drawn_below(path, tuple(case.sizes.items()), "mse")
    fed = {name: seeded_values.integer_input(SEED, name, array.shape, limits[name]) if array.dtype.kind == "i"
           else seeded_values.float_input(SEED, name, array.shape) for name, array in case.feeds.items()}
    loss, parameters, statistics = onnx_in_torch.step(path, fed, lambda output: loss_of("mse", output, dtype), dtype, noise)
    gradients = {name: leaf.grad.numpy() for name, leaf in parameters.items() if leaf.grad is not None}
    after = {}
    for optimizer, (_, make) in OPTIMIZERS.items():
        leaves = {name: leaf.detach().clone() for name, leaf in parameters.items() if name in gradients}
        for name, leaf in leaves.items():
            leaf.grad = parameters[name].grad
        make(list(leaves.values())).step()
        after[optimizer] = {name: leaf.numpy() for name, leaf in (leaves | statistics).items()}
    return Step(loss, gradients, after, frozenset(statistics))


def pytorch_step(name: str, dtype: torch.dtype) -> Step:
    import export
    from zoo import ZOO

    entry = ZOO[name]
    model = export.zoo_module(name).to(dtype).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "drop_prob"):  # whole paths
            module.drop_prob = 0.0
    old, counts = {key: b.clone() for key, b in model.named_buffers()}, {}
    for key, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.register_forward_hook(lambda _, given, made, key=key: counts.update({key: made.numel() // made.shape[1]}))
    limits = drawn_below(zoo_cases.zoo_path(name, training=True), tuple(entry.sizes.items()), entry.loss)
    feeds = [in_type(seeded_values.float_input(SEED, feed.name, feed.shape) if feed.limit is None
                     else seeded_values.integer_input(SEED, feed.name, feed.shape, limits[feed.name]), dtype) for feed in entry.feeds]
    output = model(*feeds)
    loss = loss_of(entry.loss, output[0] if isinstance(output, tuple) else output, dtype)
    loss.backward()
    after = {}
    for optimizer, (_, make) in OPTIMIZERS.items():
        stepped = copy.deepcopy(model)
        for mine, theirs in zip(stepped.parameters(), model.parameters(), strict=True):
            mine.grad = theirs.grad
        make(stepped.parameters()).step()
        values = dict(stepped.named_parameters()) | {key: b for key, b in stepped.named_buffers() if "running_" in key}
        for key, n in counts.items() if entry.route == "script" else ():
            name = f"{key}.running_var"
            values[name] = 0.9 * old[name] + (values[name] - 0.9 * old[name]) * (n - 1) / n
        after[optimizer] = {key: value.detach().numpy() for key, value in values.items()}
    gradients = {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}
    return Step(loss.item(), gradients, after, frozenset(key for key in old if "running_" in key))


def call(*arguments) -> str:
    result = run(*arguments)
    if result.returncode == 0:
        return result.stdout
    line = (result.stderr.strip().splitlines() or ["no message"])[0]
    raise (Refused if result.returncode == 4 else Wrong)(f"{arguments[0]}: {line}"[:400])


def lowtide_step(network: Network, optimizer: str, budget: int | None) -> tuple[dict[str, np.ndarray], int]:
    """Everything that a step leaves by its name, and the arena."""
    path = network.path
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.lt"
        dims = [part for key, size in network.sizes.items() for part in ("--dim", f"{key}={size}")]
        limits = ["--budget", budget, "--swap", "host", "--effort", 0.3] if budget else []
        verdict = json.loads(call("plan", path, "--train", "--loss", network.loss, "--optimizer", optimizer,
                                  "--learning-rate", RATE, "--weight-decay", DECAY, *OPTIMIZERS[optimizer][0], "--dropout", "off",
                                  "--threads", 1, *dims, *limits, *network.flags, "--json", "-o", plan))
        call("verify", plan)
        call("run", plan, "--steps", 1, "--seed", SEED, "--threads", 1, "--model-folder", path.parent, "--dump", f"{folder}/step")
        manifest = json.loads(pathlib.Path(folder, "step/manifest.json").read_text())
        values = {entry["name"]: np.load(pathlib.Path(folder, "step", entry["file"])) for entry in manifest}
        named = network.statistics(values) if network.statistics else statistics_by_name(path, values)
        return values | named, verdict["arena_bytes"]


def norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(array.astype(np.float64)))


def find(values: dict[str, np.ndarray], key: str, shape: tuple[int, ...]) -> np.ndarray:
    for name in (f"{key}/row_major", key):
        if name in values:
            return values[name].astype(np.float64).reshape(shape)
    raise Wrong(f"there is no '{key}' in what the step left")


def judge_gradients(values: dict[str, np.ndarray], exact: Step, single: Step, noisy: Callable[[int], Step] | None) -> float:
    """The worst distance over the norm of the largest gradient."""
    largest, worst = max(map(norm, exact.gradients.values())), 0.0
    others = [single]
    for key, gradient in exact.gradients.items():
        mine = norm(find(values, f"grad/{key}", gradient.shape) - gradient)
        worst = max(worst, mine / largest)

        def wrong() -> bool:
            theirs = max(norm(other.gradients[key].astype(np.float64) - gradient) for other in others)
            # One that is zero but for rounding (a bias before a normalization) is held against the largest.
            return not mine <= 8 * theirs + 1e-4 * norm(gradient) + 2e-6 * largest

        # Rounding moves numbers over the corner of a ReLU, a few of millions: not in every draw.
        while wrong() and noisy is not None and len(others) <= DRAWS:
            others.append(noisy(len(others)))
        if wrong():
            theirs = max(norm(other.gradients[key].astype(np.float64) - gradient) for other in others)
            raise Wrong(f"the gradient of '{key}' is {mine:.3g} away (norm {norm(gradient):.3g}; PyTorch in f32 {theirs:.3g})")
    return worst


def statistics_by_name(path: pathlib.Path, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The new contents of running statistics: outputs of their nodes, or updates that are named after the nodes."""
    found = {}
    for node in onnx.load(str(path)).graph.node:
        if node.op_type == "BatchNormalization":
            for buffer, output, update in zip(node.input[3:5], [*node.output, "", ""][1:3], ("RunningUpdate", "RunningUpdate.1")):
                for name in (f"{node.name}/{update}", output):
                    if name in values:
                        found.setdefault(f"new/{buffer}", values[name])
    return found


def judge_updates(values: dict[str, np.ndarray], optimizer: str, exact: Step, single: Step) -> None:
    for key, weight in exact.after[optimizer].items():
        if key not in exact.gradients and key not in exact.statistics:
            continue  # the loss does not depend on it
        mine = find(values, f"new/{key}", weight.shape)
        expected = weight.astype(np.float64)
        if key in exact.gradients:
            own, theirs = find(values, f"grad/{key}", weight.shape), exact.gradients[key]
            if optimizer == "sgd":
                expected = expected - RATE * (own - theirs)
            else:
                expected = expected - RATE * (own / (np.abs(own) + EPSILON) - theirs / (np.abs(theirs) + EPSILON))
        else:  # a running statistic: rounding as for gradients
            theirs = np.abs(single.after[optimizer][key] - expected).max(initial=0.0)
            expected = np.clip(mine, expected - 8 * theirs, expected + 8 * theirs)
        gap = np.max(np.abs(mine - expected) - 1e-5 * np.abs(expected), initial=0.0)
        if not gap <= 0.01 * RATE:
            raise Wrong(f"{optimizer}: '{key}' is {gap:.3g} away after the step, whose rate is {RATE:g}")


def judged(network: Network) -> dict:
    """A verdict like that of zoo_judge.py: status, reason, error."""
    try:
        values, arena = lowtide_step(network, "adamw", None)
        exact, single = network.judge(torch.float64), network.judge(torch.float32)
        if not abs(float(values["loss"]) - exact.loss) <= 1e-4 * abs(exact.loss):
            raise Wrong(f"the loss is {float(values['loss']):.7g}, in f64 {exact.loss:.7g}")
        error = judge_gradients(values, exact, single, network.noisy)
        judge_updates(values, "adamw", exact, single)
        again, kept = within_budget(network, arena)
        for key in values if again else ():
            if not np.array_equal(values[key], again[key], equal_nan=True):
                raise Wrong(f"within {BUDGET_SHARE:.0%} of its arena '{key}' has other bits")
        judge_updates(lowtide_step(network, "sgd", None)[0], "sgd", exact, single)
    except Refused as refused:
        return {"status": "refused", "reason": str(refused)}
    except Wrong as wrong:
        return {"status": "wrong", "reason": str(wrong)}
    return {"status": "taken", "error": error, "arena_bytes": arena, "share": kept, "parameters": len(exact.gradients)}


def within_budget(network: Network, arena: int) -> tuple[dict[str, np.ndarray], float | None]:
    """The same step with less memory; nothing where no schedule was found."""
    budget = int(BUDGET_SHARE * arena)
    result = None
    try:
        result = lowtide_step(network, "adamw", budget)
    except Wrong as wrong:
        if "verif" in str(wrong) or not any(word in str(wrong) for word in ("budget", "infeasible")):
            raise
    if result is None:
        return {}, None
    if result[1] > budget:
        raise Wrong(f"an arena of {result[1]} bytes within a budget of {budget}")
    return result[0], result[1] / arena
