"""Random graphs through Lowtide and a judge from outside.

    python tests/fuzz_against_onnxruntime inference|training|folding [--seed N] [--count N] [--jobs N] [--keep FOLDER] [--no-budgets]
    python tests/fuzz_against_onnxruntime training --case 4711        # one seed: its graph, and what became of it

inference: forward graphs beside ONNX Runtime's results. training: parameters after a step beside PyTorch's in float64. Both
also under budgets with recompute and swap, which must give the same bits. folding: what is evaluated while a model is
read, beside ONNX Runtime's results. Exit code 1 where anything is wrong; what is
wrong is made smaller and written to --keep. A seed is a graph: the same on every machine.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

CHUNK = 100


def kind_of(name: str):
    import folding
    import inference
    import training
    return {"inference": inference, "training": training, "folding": folding}[name]


def refused_ops(message: str, graph) -> frozenset[str]:
    return frozenset(op for op in graph.ops() if re.search(rf"\b{op}\b", message))


class Worker:
    def __init__(self, kind: str, budgets: bool, library=None):
        from library import Library
        self.module, self.budgets = kind_of(kind), budgets
        self.library = library or Library()
        folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.TemporaryDirectory(prefix="fuzz", dir=folder)
        self.path = os.path.join(self.folder.name, "drawn.onnx")

    def verdict(self, graph, seed: int) -> tuple[str, str]:
        from inference import Invalid, Refused, Wrong
        try:
            self.module.compare(self.library, graph, self.path, self.budgets, seed)
        except (Wrong, Refused, Invalid) as found:
            return type(found).__name__.lower(), str(found)
        return "equal", ""

    def one(self, seed: int):
        """(verdict, message, graph) of a seed. Ops that are refused by name are drawn no more, so that the rest of the seed's
        graph is compared all the same."""
        without = frozenset()
        for _ in range(6):
            graph = self.module.draw(seed, without)
            if not graph.outputs:
                return "invalid", "no outputs", graph, without
            verdict, message = self.verdict(graph, seed)
            named = refused_ops(message, graph) if verdict == "refused" else frozenset()
            if not named:
                return verdict, message, graph, without
            without |= named
        return verdict, message, graph, without


def seeds_of_crash(kind: str, budgets: bool, seeds) -> list[int]:
    """The seeds of a chunk whose process died, found one process each."""
    died = []
    for seed in seeds:
        child = multiprocessing.get_context("fork").Process(target=lambda: Worker(kind, budgets).one(seed))  # noqa: B023
        child.start()
        child.join(120)
        if child.exitcode != 0:
            child.kill()
            died.append(seed)
    return died


def run_chunk(kind: str, budgets: bool, seeds, queue) -> None:
    worker = Worker(kind, budgets)
    for seed in seeds:
        verdict, message, graph, without = worker.one(seed)
        queue.put((seed, verdict, message, graph.text() if verdict == "wrong" else "", sorted(without)))


def all_chunks(kind: str, budgets: bool, first: int, count: int, jobs: int):
    """Yields (seed, verdict, message, text, without) of every seed. A chunk has a process of its own: a crash ends only it."""
    context = multiprocessing.get_context("fork")
    chunks = [range(begin, min(begin + CHUNK, first + count)) for begin in range(first, first + count, CHUNK)][::-1]
    running = []
    while chunks or running:
        while chunks and len(running) < jobs:
            seeds, queue = chunks.pop(), context.SimpleQueue()
            child = context.Process(target=run_chunk, args=(kind, budgets, seeds, queue))
            child.start()
            running.append((child, queue, seeds, set()))
        for entry in list(running):
            child, queue, seeds, seen = entry
            while not queue.empty():
                result = queue.get()
                seen.add(result[0])
                yield result
            if not child.is_alive():
                while not queue.empty():
                    result = queue.get()
                    seen.add(result[0])
                    yield result
                running.remove(entry)
                if child.exitcode != 0:
                    left = [seed for seed in seeds if seed not in seen]
                    for seed in seeds_of_crash(kind, budgets, left[:1]):
                        name = signal.Signals(-child.exitcode).name if child.exitcode < 0 else child.exitcode
                        yield seed, "wrong", f"the process died ({name})", "", []
                    if left[1:]:
                        chunks.append(left[1:])
        time.sleep(0.02)


def keep(kind: str, seed: int, folder: pathlib.Path) -> str:
    from graph import save_case
    from shrink import shrink
    worker = Worker(kind, True)
    verdict, message, graph, _ = worker.one(seed)
    if verdict != "wrong":
        return message
    smaller = shrink(graph, lambda g: worker.verdict(g, seed)[0] == "wrong")
    folder.mkdir(parents=True, exist_ok=True)
    save_case(smaller, str(folder / f"{kind}_{seed}.onnx"))
    verdict, message = worker.verdict(smaller, seed)
    text = f"{message}\n{smaller.text()}\n"
    (folder / f"{kind}_{seed}.txt").write_text(text)
    return text


def keep_apart(kind: str, seed: int, folder: pathlib.Path) -> None:
    """In a process of its own: it may crash."""
    child = multiprocessing.get_context("fork").Process(target=lambda: print(keep(kind, seed, folder), flush=True))
    child.start()
    child.join()


def show(kind: str, seed: int) -> int:
    worker = Worker(kind, True)
    verdict, message, graph, without = worker.one(seed)
    print(graph.text())
    print(f"not drawn: {sorted(without)}\n{verdict}: {message}")
    return verdict == "wrong"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["inference", "training", "folding"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--case", type=int)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--no-budgets", action="store_true")
    arguments = parser.parse_args()
    if arguments.case is not None:
        return show(arguments.kind, arguments.case)
    kind_of(arguments.kind)  # what it imports is there then in every process of a chunk
    start, counts, reasons, missing, wrong = time.monotonic(), collections.Counter(), collections.Counter(), collections.Counter(), []
    for seed, verdict, message, _, without in all_chunks(arguments.kind, not arguments.no_budgets, arguments.seed,
                                                         arguments.count, arguments.jobs):
        counts[verdict] += 1
        if counts.total() % 10000 == 0:
            print(f"{counts.total()} graphs in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        missing.update(without)
        if verdict == "wrong":
            wrong.append(seed)
            print(f"wrong: seed {seed}: {message}", flush=True)
            if arguments.keep and len(wrong) <= 40:
                keep_apart(arguments.kind, seed, arguments.keep)
        elif verdict != "equal":
            reasons[f"{verdict}: {re.sub(r'[0-9]+', 'N', message)[:160]}"] += 1
    for reason, times in reasons.most_common(25):
        print(f"{times:6}  {reason}")
    if missing:
        print("drawn no more where refused: " + ", ".join(f"{op} {times}" for op, times in missing.most_common()))
    print(f"{arguments.kind}: {sum(counts.values())} graphs: {counts['equal']} equal, {counts['wrong']} wrong, "
          f"{counts['refused']} refused, {counts['invalid']} without a judgement; {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
