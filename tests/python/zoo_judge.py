#!/usr/bin/env python3
"""One file through Lowtide and through ONNX Runtime, in a process of its own, so that a crash is a finding and not an end.

    .venv/bin/python tests/python/zoo_judge.py CASE.npz        prints a verdict as one line of JSON

The case holds the path, the sizes of named dims, what is fed, and where there is one the exact result (the network in PyTorch
in f64). The file is planned without a budget, within 70 % of that arena by recompute, and in the least arena that a sweep down
to the proven floor found by recompute and swap; each plan is verified and runs once. Errors are the largest difference over
the largest value of an output; integers and booleans must be equal. What is held against: the exact result, else ONNX
Runtime's. A right program rounds too, so the limit is that of the type below, or four times ONNX Runtime's own distance from
the exact result.

Memory: Lowtide's arena holds everything (weights, inputs, workspace). ONNX Runtime's figure is what its arena says it took
from the system ("Total allocated bytes" in its log, growing by what is asked for), and the weights and inputs that lie outside.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fuzz_against_onnxruntime"))
import library as c_abi  # noqa: E402  (a path of the repository, not a package)

LIMITS = {"f32": 5e-5, "f64": 1e-11, "f16": 2e-2, "bf16": 8e-2}
AS_PRECISE = 4.0  # times ONNX Runtime's own distance from the exact result
DISAGREE = 10.0   # times the limit: so far apart the judges may not be
ELEMENTS = {onnx.TensorProto.FLOAT16: "f16", onnx.TensorProto.BFLOAT16: "bf16", onnx.TensorProto.DOUBLE: "f64"}
BUDGET_SHARE = 0.7
SWEEP = dict(budgets="floor..100%", points=5)


class Wrong(Exception):
    """A result, a plan or a promise that does not hold."""


def error(ours: np.ndarray, reference: np.ndarray) -> float:
    """The largest difference over the largest value; 1 or more where kinds, shapes or what is finite differ."""
    if ours.shape != reference.shape:
        return float("inf")
    if ours.dtype.kind not in "fV" or reference.dtype.kind not in "f":
        return 0.0 if np.array_equal(ours, reference) else float("inf")
    ours, reference = ours.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(reference)
    if not np.array_equal(finite, np.isfinite(ours)) or not np.array_equal(ours[~finite], reference[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = np.abs(reference[finite]).max()
    return float(np.abs(ours[finite] - reference[finite]).max() / (largest or 1.0))


def element_type(path: str) -> str:
    """The coarsest float type that the file computes in."""
    graph = onnx.load(path, load_external_data=False).graph
    kinds = {ELEMENTS.get(tensor.data_type) for tensor in graph.initializer}
    kinds |= {ELEMENTS.get(a.t.data_type) for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR}
    return next((kind for kind in ("bf16", "f16") if kind in kinds), "f32" if None in kinds or not kinds else "f64")


@contextlib.contextmanager
def captured_stderr():
    """What is written to the descriptor, by any language."""
    text: list[str] = []
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))


class Judge:
    """ONNX Runtime's session, and the bytes that it needs."""

    def __init__(self, path: str, feeds: dict[str, np.ndarray], threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        onnxruntime.set_default_logger_severity(3)
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.feeds, self.names = feeds, [output.name for output in self.session.get_outputs()]

    def run(self) -> list[np.ndarray]:
        return self.session.run(None, self.feeds)


def judge_bytes(path: str, feeds: dict[str, np.ndarray]) -> int:
    """In a session of its own, whose arena grows by what is asked for."""
    import onnxruntime

    info = onnxruntime.OrtMemoryInfo("Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT)
    onnxruntime.set_default_logger_severity(1)
    with captured_stderr() as log:
        onnxruntime.create_and_register_allocator(info, onnxruntime.OrtArenaCfg({"arena_extend_strategy": 1}))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.use_env_allocators", "1")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        session.run(None, feeds)
        session.run(None, feeds)
    onnxruntime.set_default_logger_severity(3)
    totals = [int(number) for number in re.findall(r"Total allocated bytes: (\d+)", log[0])]
    weights = sum(int(np.prod(t.dims)) * onnx.helper.tensor_dtype_to_np_dtype(t.data_type).itemsize
                  for t in onnx.load(path, load_external_data=False).graph.initializer)
    return max(totals, default=0) + weights + sum(array.nbytes for array in feeds.values())


class Front(c_abi.Handle):
    """Plans for several budgets at once; library.py needs only single ones."""

    free = "lowtide_front_free"

    def __init__(self, model: c_abi.Model, sweep: dict, **options):
        c = model.library.c
        c.lowtide_front_point_count.restype = ctypes.c_size_t
        c.lowtide_front_free.argtypes = [ctypes.c_void_p]
        super().__init__(model.library, model.library.make("front_make", model.handle, c_abi.as_json(options),
                                                           c_abi.as_json(sweep), None, None, None))

    def least(self) -> "PlanOfFront | None":
        """The plan with the smallest budget that has one."""
        for index in reversed(range(self.library.c.lowtide_front_point_count(self.handle))):
            with contextlib.suppress(c_abi.Failure):
                return PlanOfFront(self, index)
        return None


class PlanOfFront(c_abi.Plan):
    def __init__(self, front: Front, index: int):
        c_abi.Handle.__init__(self, front.library,
                              front.library.make("front_plan", front.handle, ctypes.c_size_t(index)))


class Trial:
    """One file, what it is fed, and what is right."""

    def __init__(self, path: str, sizes: dict[str, int], feeds: dict[str, np.ndarray], exact: dict[str, np.ndarray],
                 threads: int, effort: float, tolerance: float | None):
        self.path, self.sizes, self.feeds, self.exact = path, sizes, feeds, exact
        self.threads, self.effort = threads, effort
        self.limit = tolerance or LIMITS[element_type(path)]
        self.verdict: dict = {}

    def run_plan(self, plan: c_abi.Plan, what: str) -> c_abi.Session:
        """Verifies the plan and runs it; its outputs are held against what is right."""
        try:
            plan.verify()
        except c_abi.Failure as failure:
            raise Wrong(f"{what}: verify refuses the plan: {failure.message.splitlines()[0]}") from None
        session = c_abi.Session(plan, threads=self.threads, model_folder=str(pathlib.Path(self.path).parent))
        for name, (dtype, _) in session.values(c_abi.INPUTS).items():
            if name in self.feeds:
                session.set(name, self.feeds[name].astype(dtype))
        session.run()
        self.compare(session.all(c_abi.OUTPUTS), what)
        return session

    def compare(self, ours: dict[str, np.ndarray], what: str) -> None:
        worst, worst_judge = 0.0, 0.0
        if sorted(ours) != sorted(self.expected):
            raise Wrong(f"{what}: outputs {sorted(ours)}, the file has {sorted(self.expected)}")
        for name, theirs in self.expected.items():
            reference = self.exact.get(name, theirs)
            if self.judge and ours[name].dtype != theirs.dtype:
                raise Wrong(f"{what}: output '{name}' is {ours[name].dtype}, ONNX Runtime's is {theirs.dtype}")
            mine, its_own = error(ours[name], reference), error(theirs, reference)
            if its_own > DISAGREE * self.limit:
                raise Wrong(f"{what}: of output '{name}' the judges say different things, {its_own:.2g} of its largest value apart")
            worst, worst_judge = max(worst, mine), max(worst_judge, its_own)
            if mine > max(self.limit, AS_PRECISE * its_own):
                raise Wrong(f"{what}: output '{name}' is {mine:.2g} of its largest value away, ONNX Runtime {its_own:.2g}")
        self.verdict["error"] = max(worst, self.verdict.get("error", 0.0))
        if self.judge:
            self.verdict["judge_error"] = worst_judge

    def budgets(self, model: c_abi.Model, arena: int) -> None:
        options = dict(threads=self.threads, effort=self.effort)
        try:
            with c_abi.Plan(model, budget_bytes=int(BUDGET_SHARE * arena), more_levers=False, **options) as plan:
                self.run_plan(plan, f"within {BUDGET_SHARE:.0%}").__exit__()
                self.verdict["share_kept"] = plan.arena_bytes / arena
                if plan.arena_bytes > BUDGET_SHARE * arena:
                    raise Wrong(f"an arena of {plan.arena_bytes} bytes, the budget is {int(BUDGET_SHARE * arena)}")
        except c_abi.Failure as failure:
            if failure.status not in (c_abi.INFEASIBLE, c_abi.LIMIT):
                raise
        try:
            with Front(model, SWEEP, swap="host", **options) as front:
                plan = front.least()
                if plan is not None:
                    with plan:
                        self.run_plan(plan, "least arena").__exit__()
                        self.verdict["least_share"] = plan.arena_bytes / arena
        except c_abi.Failure as failure:
            if failure.status not in (c_abi.INFEASIBLE, c_abi.LIMIT):
                raise

    def time_beside(self, session: c_abi.Session, rounds: int) -> None:
        """Runs in turn; each sample lasts some milliseconds. ONNX Runtime's threads spin, so it has to be the same number."""
        def seconds(run, count: int) -> float:
            begin = time.perf_counter()
            for _ in range(count):
                run()
            return (time.perf_counter() - begin) / count

        count = max(1, int(0.01 / max(seconds(self.judge.run, 2), 1e-6)))
        samples = [(seconds(session.run, count), seconds(self.judge.run, count)) for _ in range(rounds)]
        self.verdict["seconds"] = statistics.median(ours for ours, _ in samples)
        self.verdict["judge_seconds"] = statistics.median(theirs for _, theirs in samples)
        self.verdict["time_ratio"] = statistics.median(ours / theirs for ours, theirs in samples)

    def run(self, rounds: int) -> dict:
        try:
            self.judge = Judge(self.path, self.feeds, self.threads)
            self.expected = dict(zip(self.judge.names, self.judge.run()))
        except Exception as failure:  # whatever its C++ throws
            if not self.exact:
                return {"status": "unjudged", "reason": f"ONNX Runtime: {str(failure).splitlines()[0][:300]}"}
            self.judge, self.expected = None, self.exact
        library = c_abi.Library()
        try:
            with c_abi.Model(library, self.path, dims=self.sizes) as model, c_abi.Plan(model, threads=self.threads) as plan:
                self.verdict["arena_bytes"] = arena = plan.arena_bytes
                with self.run_plan(plan, "without a budget") as session:
                    if self.judge and rounds:
                        self.time_beside(session, rounds)
                self.budgets(model, arena)
            if self.judge and rounds:
                self.verdict["judge_bytes"] = judge_bytes(self.path, self.feeds)
        except c_abi.Failure as failure:
            status = "refused" if failure.status == c_abi.INPUT else "wrong"
            return self.verdict | {"status": status, "reason": failure.message.splitlines()[0]}
        except Wrong as wrong:
            return self.verdict | {"status": "wrong", "reason": str(wrong)}
        return self.verdict | {"status": "taken"}


def write_case(path: pathlib.Path, model: pathlib.Path, sizes: dict[str, int], feeds: dict[str, np.ndarray],
               exact: dict[str, np.ndarray], **settings) -> None:
    """Settings: threads, rounds (of timing; 0: neither time nor ONNX Runtime's memory), effort (of each search, about in
    seconds), tolerance (or None)."""
    settings |= dict(path=str(model), sizes=sizes)
    np.savez(path, settings=np.array(json.dumps(settings)), **{f"feed/{name}": array for name, array in feeds.items()},
             **{f"exact/{name}": array for name, array in exact.items()})


def main() -> None:
    with np.load(sys.argv[1]) as case:
        settings = json.loads(str(case["settings"]))
        parts = {kind: {key.partition("/")[2]: case[key] for key in case.files if key.startswith(f"{kind}/")}
                 for kind in ("feed", "exact")}
    trial = Trial(settings["path"], settings["sizes"], parts["feed"], parts["exact"], settings["threads"], settings["effort"],
                  settings["tolerance"])
    print(json.dumps(trial.run(settings["rounds"])))


if __name__ == "__main__":
    main()
