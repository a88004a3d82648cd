#!/usr/bin/env python3
"""The official ONNX node cases (of the onnx wheel) through reading, planning, verifying and running on the CPU kernels.

    .venv/bin/python tests/node_cases.py [--case REGEX] [--refused]

Each case agrees (every output has the model's name, the type, the shape and the values), is refused by name, or is wrong:
another result, a failure that is no refusal, a crash. Prints the counts by op and why cases are refused; exit code 1 where
one is wrong. Inputs that say shapes, axes and the like are initializers here, as in the files that exporters write; a case
that is refused so is tried again with all inputs known, which folds it.

Tolerances are those of the cases' own runner: relative 1e-3, absolute 1e-7; 16-bit floats at their own spacing.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/fuzz_against_onnxruntime"))

# Inputs that must be known when the model is read, by op.
KNOWN = {
    "Reshape": [1], "Squeeze": [1], "Unsqueeze": [1], "Slice": [1, 2, 3, 4], "Split": [1], "Expand": [1], "Tile": [1],
    "Pad": [1, 2, 3], "Trilu": [1], "Clip": [1, 2], "Dropout": [1, 2], "Range": [0, 1, 2], "ConstantOfShape": [0],
    "CumSum": [1], "CumProd": [1], "OneHot": [1], "TopK": [1], "Resize": [1, 2, 3], "Upsample": [1], "If": [0],
    "CenterCropPad": [1], "Col2Im": [1, 2], "Compress": [1], "MaxUnpool": [2], "AffineGrid": [1], "HannWindow": [0], "HammingWindow": [0], "BlackmanWindow": [0],
    "MelWeightMatrix": [0, 1, 2, 3, 4], "DFT": [1, 2],
    **{f"Reduce{name}": [1] for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")},
}
REFUSALS = (4, 5)  # statuses: the file is not taken, a limit
SPACING = {"float16": 2e-3, "bfloat16": 2e-2}


def cases_folder() -> pathlib.Path | None:
    if "LOWTIDE_ONNX_NODE_TESTS" in os.environ:
        return pathlib.Path(os.environ["LOWTIDE_ONNX_NODE_TESTS"])
    found = sorted((ROOT / ".venv/lib").glob("python3*/site-packages/onnx/backend/test/data/node"))
    return found[0] if found else None


def ops_of(model) -> str:
    return model.graph.node[0].op_type if len(model.graph.node) == 1 else "(several ops)"


def tensors(folder: pathlib.Path, infos, role: str):
    """None where one of them is no tensor."""
    import onnx
    if any(not info.type.HasField("tensor_type") for info in infos):
        return None
    return [onnx.load_tensor(str(folder / f"test_data_set_0/{role}_{i}.pb")) for i in range(len(infos))]


def with_constants(model, given: dict, everything: bool):
    """The case's model with some inputs as initializers, the others with numbers for all dims."""
    import onnx
    known = {node.input[i] for node in model.graph.node for i in KNOWN.get(node.op_type, []) if i < len(node.input)}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        tensor = given[info.name]
        if everything or info.name in known:
            constant = copy.graph.initializer.add()
            constant.CopyFrom(tensor)
            constant.name = info.name
        del info.type.tensor_type.shape.dim[:]
        for extent in tensor.dims:
            info.type.tensor_type.shape.dim.add().dim_value = extent
        info.type.tensor_type.shape.SetInParent()
    return copy


def run(library, path: str, given: dict) -> dict[str, np.ndarray]:
    from library import INPUTS, OUTPUTS, Model, Plan, Session
    with Model(library, path) as model, Plan(model, threads=1, effort=0.02) as plan:
        plan.verify()
        with Session(plan, threads=1) as session:
            for name in session.values(INPUTS):
                session.set(name, given[name])
            session.run()
            return session.all(OUTPUTS)


def difference(got: np.ndarray, wanted: np.ndarray) -> str:
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if got.dtype.kind in "biu":
        return "" if np.array_equal(got, wanted) else f"{got.ravel()[:6]} instead of {wanted.ravel()[:6]}"
    tolerance = SPACING.get(str(got.dtype), 1e-3)
    close = np.allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=1e-7, equal_nan=True)
    return "" if close else f"{got.ravel()[:6]} instead of {wanted.ravel()[:6]}"


def verdict(library, folder: pathlib.Path, path: str) -> tuple[str, str, str]:
    """(verdict, op, message)"""
    import onnx
    from library import Failure
    from onnx import numpy_helper
    model = onnx.load(str(folder / "model.onnx"))
    op = ops_of(model)
    inputs, outputs = tensors(folder, model.graph.input, "input"), tensors(folder, model.graph.output, "output")
    if inputs is None or outputs is None:
        return "refused", op, "a value that is no tensor"
    given = {info.name: tensor for info, tensor in zip(model.graph.input, inputs)}
    arrays = {name: numpy_helper.to_array(tensor) for name, tensor in given.items()}
    refusal = ""
    for everything in (False, True):
        onnx.save(with_constants(model, given, everything), path)
        try:
            got = run(library, path, arrays)
        except Failure as failure:
            if failure.status not in REFUSALS:
                return "wrong", op, str(failure)
            refusal = refusal or failure.message
            continue
        for info, tensor in zip(model.graph.output, outputs):
            if info.name not in got:
                return "wrong", op, f"no output '{info.name}', but {sorted(got)}"
            if wrong := difference(got[info.name], numpy_helper.to_array(tensor)):
                return "wrong", op, f"'{info.name}': {wrong}"
        return "agree", op, ""
    return "refused", op, refusal.removeprefix(path + ": ")


def child(library, folders, queue) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as place:
        for folder in folders:
            queue.put((folder.name, "started", "", ""))
            queue.put((folder.name, *verdict(library, folder, os.path.join(place, "case.onnx"))))


def all_verdicts(pattern: str = "") -> dict[str, tuple[str, str, str]]:
    """name -> (verdict, op, message). A crash ends a process of its own and is told as one."""
    from library import Library
    library = Library()
    folders = [folder for folder in sorted(cases_folder().iterdir()) if re.search(pattern, folder.name)]
    found: dict[str, tuple[str, str, str]] = {}
    context = multiprocessing.get_context("fork")
    while folders:
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(library, folders, queue))
        process.start()
        current = folders[0].name
        while process.is_alive() or not queue.empty():
            if queue.empty():
                process.join(0.01)
                continue
            name, *rest = queue.get()
            current = name
            if rest[0] != "started":
                found[name] = tuple(rest)
        if process.exitcode != 0 and current not in found:
            found[current] = ("wrong", "?", f"the process died with {process.exitcode}")
        folders = [folder for folder in folders if folder.name not in found]
    return found


def table(found: dict[str, tuple[str, str, str]]) -> list[str]:
    counts = collections.defaultdict(collections.Counter)
    for kind, op, _ in found.values():
        counts[op][kind] += 1
    kinds = ("agree", "refused", "wrong")
    lines = [f"{'op':28}" + "".join(f"{kind:>9}" for kind in kinds)]
    lines += [f"{op:28}" + "".join(f"{counts[op][kind] or '':>9}" for kind in kinds) for op in sorted(counts)]
    total = collections.Counter(kind for kind, _, _ in found.values())
    return [*lines, f"{'all':28}" + "".join(f"{total[kind]:>9}" for kind in kinds)]


def reasons(found: dict[str, tuple[str, str, str]]) -> list[str]:
    by_reason = collections.defaultdict(list)
    for name, (kind, _, message) in found.items():
        if kind == "refused":
            by_reason[re.sub(r"'[^']*'", "'..'", re.sub(r" \([^()]*\)$", "", message))[:150]].append(name)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return [f"{len(names):5} {reason}: {' '.join(names[:3])}" for reason, names in ordered]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="only cases whose name has this in it")
    parser.add_argument("--refused", action="store_true", help="why cases are refused")
    arguments = parser.parse_args()
    if cases_folder() is None:
        print("no ONNX node cases; set LOWTIDE_ONNX_NODE_TESTS", file=sys.stderr)
        return 2
    found = all_verdicts(arguments.case)
    print("\n".join(table(found)))
    if arguments.refused:
        print("\n".join(reasons(found)))
    wrong = {name: result for name, result in found.items() if result[0] == "wrong"}
    for name, (_, _, message) in wrong.items():
        print(f"wrong: {name}: {message}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
