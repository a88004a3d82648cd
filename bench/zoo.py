#!/usr/bin/env python3
"""Files that people bring, beside ONNX Runtime: the zoo of models/zoo, the official light networks, the four of models/.

    zoo.py [--threads N] [--rounds N] [--only NAME ...] [--part forward|training] [--strict]

For each file: taken or refused and why, the error (largest difference over largest value, from the network in f64 where there is
one), the arena beside what ONNX Runtime holds, the least arena that recompute and swap reach, the time of a run beside ONNX
Runtime's in turn with it. Each plan is verified, without a budget and within two (tests/python/zoo_judge.py). Then the gradients
and one update by SGD and by AdamW of what trains, beside PyTorch in f64 (tests/python/zoo_training.py): the network that a file
was made from, or where there is only the file, its nodes one by one.
Exit code 1 where a result, a gradient, an update or a plan is wrong; with --strict also where a file is refused.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/python"))
import zoo_cases  # noqa: E402
from lowtide import finish, table  # noqa: E402


def cases(only: list[str]):
    """Names, and what makes each case; a file that cannot be made ends nothing but its own row."""
    from networks import NETWORKS
    from zoo import ZOO

    every = {name: lambda name=name: zoo_cases.zoo_case(name) for name in ZOO}
    every |= {path.stem: lambda path=path: zoo_cases.official_case(path) for path in zoo_cases.official_paths()}
    every |= {f"models/{name}": lambda name=name: zoo_cases.model_case(name) for name in NETWORKS}
    return {name: make for name, make in every.items() if not only or name in only}


def cell(verdict: dict, key: str, form: str = ".2f", scale: float = 1.0) -> str:
    return format(scale * verdict[key], form) if verdict.get(key) is not None else "-"


def forward_row(name: str, verdict: dict) -> list[str]:
    kib = 2.0**-10
    if "judge_bytes" in verdict:
        verdict["memory_ratio"] = verdict["arena_bytes"] / verdict["judge_bytes"]
    return [name, verdict["status"], cell(verdict, "error", ".1e"), cell(verdict, "judge_error", ".1e"),
            cell(verdict, "arena_bytes", ",.0f", kib), cell(verdict, "judge_bytes", ",.0f", kib), cell(verdict, "memory_ratio"),
            cell(verdict, "least_share"), cell(verdict, "seconds", ".3f", 1e3), cell(verdict, "judge_seconds", ".3f", 1e3),
            cell(verdict, "time_ratio")]


def note(name: str, verdict: dict, broken: list[str], refused: list[str]) -> None:
    if verdict["status"] == "refused":
        refused.append(f"{name}: {verdict['reason']}")
    elif verdict["status"] != "taken":
        broken.append(f"{name}: {verdict['reason']}")


def forward(arguments: argparse.Namespace, broken: list[str], refused: list[str]) -> None:
    rows = []
    for name, make in cases(arguments.only).items():
        verdict = zoo_cases.judged(make(), arguments.threads, arguments.rounds)
        note(name, verdict, broken, refused)
        rows.append(forward_row(name, verdict))
    table(["forward", "", "error", "ORT's", "arena KiB", "ORT KiB", "ratio", "least", "ms", "ORT ms", "ratio"], rows)
    print(f"\n{sum(row[1] == 'taken' for row in rows)} of {len(rows)} files taken\n")


def training(arguments: argparse.Namespace, broken: list[str], refused: list[str]) -> None:
    import zoo_training
    from zoo import ZOO

    networks = {name: lambda name=name: zoo_training.of_the_zoo(name) for name, entry in ZOO.items() if entry.loss}
    networks |= {name: lambda make=make: zoo_training.of_a_file(make()) for name, make in cases([]).items() if name not in ZOO}
    rows = []
    for name in arguments.only or networks:
        if name not in networks:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            verdict = zoo_training.judged(networks[name]())
        except Exception as failure:  # of the judge: one row, and the table goes on
            verdict = {"status": "not judged", "reason": f"not judged: {type(failure).__name__}: {failure}"}
        note(f"{name}, training", verdict, broken, refused)
        rows.append([name, verdict["status"], cell(verdict, "parameters", "d", 1), cell(verdict, "error", ".1e"),
                     cell(verdict, "arena_bytes", ",.0f", 2.0**-10), cell(verdict, "share")])
    table(["training step", "", "parameters", "gradients' error", "arena KiB", "within a budget"], rows)
    print(f"\n{sum(row[1] == 'taken' for row in rows)} of {len(rows)} networks train\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="of Lowtide and of ONNX Runtime")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--part", choices=["forward", "training"], help="only this")
    parser.add_argument("--strict", action="store_true", help="fail where a file is refused")
    arguments = parser.parse_args()
    broken, refused = [], []
    for part in (forward, training):
        if arguments.part in (None, part.__name__):
            part(arguments, broken, refused)
    for line in refused:
        print(f"REFUSED  {line}")
    return finish(broken + refused if arguments.strict else broken)


if __name__ == "__main__":
    sys.exit(main())
