"""Training steps: every parameter after one step of plain SGD beside PyTorch's in float64, without a budget and under one;
every plan through the verifier.

The learning rate is 1, so that a gradient is what the parameter moved by. The loss is the mean squared difference from a
target.
"""

import os

import numpy as np
import torch

import judge
from generate import draw_graph
from graph import Graph, Node, to_model
from inference import Invalid, Refused, Wrong, equal_bits
from library import INFEASIBLE, INPUT, LIMIT, PARAMETERS, Failure, Library, Model, Plan, Session
from torch_ops import ROWS

torch.set_num_threads(1)
# Of each op, the first input that is a setting of it, or a running statistic.
SETTINGS_FROM = {"Attention": 3, "BatchNormalization": 3, "Clip": 1, "DequantizeLinear": 1, "Dropout": 1, "NegativeLogLikelihoodLoss": 2,
                 "OneHot": 1, "Pad": 1, "QuantizeLinear": 1, "Resize": 1, "RotaryEmbedding": 1, "SoftmaxCrossEntropyLoss": 2,
                 "Upsample": 1}


def as_written(node: Node) -> Node:
    """Real attributes as a file holds them: rounded to f32."""
    return Node(node.op, node.inputs, node.outputs, {key: float(np.float32(value)) if isinstance(value, float) else value
                                                     for key, value in node.attrs.items()})


def shaken(made: torch.Tensor, noise: float, rng: np.random.Generator) -> torch.Tensor:
    """A result, and the gradient that comes back to it, moved as rounding would: by an ulp of each element and of the largest."""
    def move(x):
        factor, shift = (torch.from_numpy(np.array(noise * rng.standard_normal(x.shape))).to(x.dtype) for _ in range(2))
        finite = x.detach()[torch.isfinite(x.detach())]
        return x * (1 + factor) + shift * (finite.abs().max() if finite.numel() else 0)

    moved = move(made)
    if moved.requires_grad:
        moved.register_hook(move)
    return moved


def torch_step(graph: Graph, inputs: dict, constants: dict, target: np.ndarray, dtype,
               shake=None) -> tuple[float, dict[str, np.ndarray], bool]:
    """The loss, every float constant after the step, and whether the loss depends on one that is no scalar. What an op computes
    with rounding goes through `shake` where there is one."""
    def tensor(array):
        made = torch.from_numpy(np.array(array))
        return made.to(dtype) if made.is_floating_point() else made

    values = {name: tensor(array) for name, array in inputs.items()}
    for name, array in constants.items():
        values[name] = tensor(array)
        if values[name].is_floating_point():
            values[name].requires_grad_(True)
    statistics = {name for node in graph.nodes if node.op == "BatchNormalization" for name in node.inputs[3:]}
    for name in statistics:
        values[name] = values[name].detach()
    still = graph.shaping() if shake else ()
    for node in graph.nodes:
        result = ROWS[node.op](as_written(node), *[values[name] if name else None for name in node.inputs])
        results = result if isinstance(result, tuple) else (result,)
        for name, made in zip(node.outputs, results):
            made = made.to(dtype) if made.is_floating_point() else made
            rounds = made.is_floating_point() and node.op not in judge.EXACT and name not in still
            values[name] = shake(made) if shake and rounds else made
    loss = (values[graph.outputs[0]] - tensor(target)).square().mean()
    if loss.requires_grad:
        loss.backward()
    after, depends = {}, False
    for name in constants:
        if values[name].is_floating_point():
            grad = values[name].grad if values[name].requires_grad else None
            moved = values[name].detach() if grad is None else values[name].detach() - grad
            after[name] = moved.numpy()
            depends |= grad is not None and values[name].dim() > 0
    return float(loss.detach()), after, depends


def our_step(plan: Plan, graph: Graph, target: np.ndarray) -> dict[str, np.ndarray]:
    plan.verify()
    with Session(plan, threads=1) as session:
        for name, (dtype, dims) in session.values(0).items():
            if name == "target":
                session.set(name, target)
            elif name in graph.inputs:
                session.set(name, graph.inputs[name])
        session.run()
        return session.all(PARAMETERS)


def run_ours(library: Library, path: str, graph: Graph, target, rng) -> dict[str, np.ndarray]:
    with Model(library, path, training=True) as model:
        options = {"train": True, "loss": "mse", "optimizer": "sgd", "learning_rate": 1.0, "weight_decay": 0.0,
                   "momentum": 0.0, "threads": 1, "effort": 0.02}
        with Plan(model, **options) as plan:
            after, arena = our_step(plan, graph, target), plan.arena_bytes
        if rng.random() < 0.5:
            return after
        share = float(rng.uniform(0.3, 1.0))
        swap = {"swap": "host"} if rng.random() < 0.5 else {}
        try:
            with Plan(model, budget_bytes=int(arena * share), more_levers=False, **options, **swap) as plan:
                if plan.arena_bytes > int(arena * share):
                    raise Wrong(f"an arena of {plan.arena_bytes} bytes within a budget of {int(arena * share)}")
                if not equal_bits(our_step(plan, graph, target), after):
                    raise Wrong(f"other bits under {share:.2f} of {arena} bytes ({swap})")
        except Failure as failure:
            if failure.status not in (INFEASIBLE, LIMIT):
                raise
        return after


def compare(library: Library, graph: Graph, path: str, budgets: bool = True, seed: int = 0) -> None:
    """Raises Wrong, Refused or Invalid."""
    rng = np.random.default_rng([seed, 3])
    if not graph.outputs or not any(trains(array) for array in graph.constants.values()):
        raise Invalid("nothing to train")
    dtype, shape = graph.types[graph.outputs[0]]
    target = rng.uniform(-1, 1, shape).astype(dtype)
    try:
        loss, theirs, depends = torch_step(graph, graph.inputs, graph.constants, target, torch.float64)
    except Exception as problem:  # PyTorch raises many kinds
        raise Invalid(f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}") from None
    if not np.isfinite(loss) or abs(loss) > 1e12 or not all(np.isfinite(array).all() for array in theirs.values()):
        raise Invalid("not finite")
    model = to_model(graph)
    # In a file of PyTorch's every float with a name of its own is a parameter, in others one of one element is a constant.
    if seed % 2 or not any(trains(array) and array.size > 1 for array in graph.constants.values()):
        model.producer_name = "pytorch"
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    try:
        ours = run_ours(library, path, graph, target, rng)
    except Failure as failure:
        if failure.status == INPUT and not depends and "depends on no parameter" in failure.message:
            return  # rightly refused
        if failure.status == INPUT:
            raise Refused(failure.message) from None
        raise Wrong(str(failure)) from None
    finally:
        os.unlink(path)
    hold(graph, ours, theirs, target, rng)


def hold(graph: Graph, ours: dict, theirs: dict, target, rng) -> None:
    trained = {name: array for name, array in ours.items() if name in theirs}
    unknown = [name for name in ours if name not in graph.constants]
    if unknown:
        raise Wrong(f"parameters that the file does not have: {unknown}")
    left_out = [name for name in theirs if name not in ours and trains(graph.constants[name]) and name not in settings(graph)
                and graph.constants[name].size > 1 and (theirs[name] != graph.constants[name]).any()]
    if left_out:
        raise Wrong(f"parameters that are not trained: {left_out}")
    doubtful = [name for name, array in trained.items() if not close(graph, name, array, theirs[name], 0)]
    if not doubtful:
        return
    spread = dict.fromkeys(doubtful, 0.0)
    real = graph.types[graph.outputs[0]][0]
    still = graph.shaping()
    for sample in range(judge.SAMPLES):
        noise = {np.dtype(np.float32): judge.NOISE[np.dtype(np.float32)]}.get(real, 1e-15)
        moved = [{name: array * (1 + noise * rng.standard_normal(array.shape)) if array.dtype.kind == "f" and name not in still
                  else array for name, array in group.items()} for group in (graph.inputs, graph.constants)]
        single = sample == 0 and real == np.float32
        shake = None if single else lambda made: shaken(made, noise, rng)
        _, noisy, _ = torch_step(graph, *([graph.inputs, graph.constants] if single else moved), target,
                                 torch.float32 if single else torch.float64, shake)
        for name in doubtful:
            spread[name] = max(spread[name], float(judge.difference(noisy[name], theirs[name]).max()))
    for name in doubtful:
        if not close(graph, name, trained[name], theirs[name], spread[name]):
            gap = judge.difference(trained[name], theirs[name])
            worst = int(np.argmax(gap))
            raise Wrong(f"parameter '{name}' {list(theirs[name].shape)}: element {worst} moved by "
                        f"{trained[name].flat[worst] - graph.constants[name].flat[worst]}, not by "
                        f"{theirs[name].flat[worst] - graph.constants[name].flat[worst]}")


def settings(graph: Graph) -> set[str]:
    """What ops read as a number that they are set to, not as a weight."""
    return {name for node in graph.nodes for name in node.inputs[SETTINGS_FROM.get(node.op, len(node.inputs)):]}


def close(graph: Graph, name: str, ours, theirs, spread: float) -> bool:
    if ours.shape != theirs.shape:
        return False
    before = graph.constants[name].astype(np.float64)
    plain = judge.PLAIN[graph.constants[name].dtype]
    scale = plain * (5 * np.abs(theirs - before).max(initial=0) + np.abs(before).max(initial=0) + 0.1)
    return bool(np.all(judge.difference(ours, theirs) <= scale + judge.FACTOR * spread))


def draw(seed: int, without: frozenset[str]) -> Graph:
    """Where nothing can be trained, the first floats that are fed are parameters instead."""
    graph = draw_graph(seed, differentiable=True, without=without)
    if not any(trains(array) for array in graph.constants.values()):
        name = next((name for name, array in graph.inputs.items() if trains(array)), None)
        if name is not None:
            graph.constants[name] = graph.inputs.pop(name)
    return graph


def trains(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and array.ndim > 0
