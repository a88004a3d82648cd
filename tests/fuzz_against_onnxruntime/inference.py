"""Forward graphs: Lowtide's results beside ONNX Runtime's; the same bits under budgets with recompute and swap; every plan
through the verifier."""

import os

import numpy as np
import onnxruntime

import judge
from generate import draw_graph
from graph import Graph, save_case, to_model
from library import INFEASIBLE, INPUT, LIMIT, OUTPUTS, Failure, Library, Model, Plan, Session

onnxruntime.set_default_logger_severity(4)

class Wrong(Exception):
    """A difference, or a failure that is not a refusal."""


class Refused(Exception):
    """What the library said it does not take."""


class Invalid(Exception):
    """The judge does not take the graph: the generator's fault, or the judge's limit."""


def judge_session(data: bytes):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def expected(graph: Graph):
    try:
        session = judge_session(to_model(graph).SerializeToString())
        return dict(zip(graph.outputs, session.run(graph.outputs, graph.inputs)))
    except Exception as problem:  # the binding raises many kinds
        raise Invalid(str(problem).splitlines()[0]) from None


def run_plan(plan: Plan, graph: Graph) -> dict[str, np.ndarray]:
    plan.verify()
    with Session(plan, threads=1) as session:
        fed = session.values(0)
        for name, array in graph.inputs.items():
            if name in fed:
                session.set(name, array)
        session.run()
        return session.all(OUTPUTS)


def equal_bits(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(a[key].tobytes() == b[key].tobytes() for key in a)


def run_ours(library: Library, path: str, graph: Graph, budgets: bool, rng) -> dict[str, np.ndarray]:
    with Model(library, path) as model:
        options = {"threads": 1, "effort": 0.02}
        with Plan(model, **options) as plan:
            results, arena = run_plan(plan, graph), plan.arena_bytes
        if not budgets or rng.random() < 0.5:
            return results
        share = float(rng.uniform(0.3, 1.0))
        swap = {"swap": "host"} if rng.random() < 0.5 else {}
        try:
            with Plan(model, budget_bytes=int(arena * share), more_levers=False, **options, **swap) as plan:
                if plan.arena_bytes > int(arena * share):
                    raise Wrong(f"an arena of {plan.arena_bytes} bytes within a budget of {int(arena * share)}")
                if not equal_bits(run_plan(plan, graph), results):
                    raise Wrong(f"other bits under {share:.2f} of {arena} bytes ({swap})")
        except Failure as failure:
            if failure.status not in (INFEASIBLE, LIMIT):
                raise
        return results


def compare(library: Library, graph: Graph, path: str, budgets: bool = True, seed: int = 0) -> None:
    """Raises Wrong, Refused or Invalid."""
    theirs = expected(graph)
    with open(path, "wb") as file:
        file.write(to_model(graph).SerializeToString())
    rng = np.random.default_rng([seed, 2])
    try:
        ours = run_ours(library, path, graph, budgets, rng)
    except Failure as failure:
        if failure.status == INPUT:
            raise Refused(failure.message) from None
        raise Wrong(str(failure)) from None
    finally:
        os.unlink(path)
    if ours.keys() != theirs.keys():
        raise Wrong(f"outputs are called {sorted(ours)}, not {sorted(theirs)}")
    doubtful = [name for name in theirs if not judge.plainly_equal(ours[name], theirs[name])]
    if not doubtful:
        return
    samples = []
    for _ in range(judge.SAMPLES):
        noisy = judge.with_noise(graph, rng)
        session = judge_session(to_model(noisy).SerializeToString())
        samples.append(dict(zip(graph.outputs, session.run(graph.outputs, noisy.inputs))))
    for name in doubtful:
        if not judge.within_noise(ours[name], theirs[name], [sample[name] for sample in samples]):
            worst = np.argmax(judge.difference(ours[name], theirs[name])) if ours[name].shape == theirs[name].shape else 0
            raise Wrong(f"'{name}' {ours[name].dtype}{list(ours[name].shape)}: element {worst} is {ours[name].flat[worst]}, "
                        f"not {theirs[name].flat[worst]}" if ours[name].size and theirs[name].size else f"'{name}' differs")


def draw(seed: int, without: frozenset[str]) -> Graph:
    return draw_graph(seed, differentiable=False, without=without)
