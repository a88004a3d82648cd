#!/usr/bin/env python3
"""Long sequences on paper: how many tokens of one sequence a training step of Llama with 8 billion parameters takes on 80 GB.

    long_sequences.py [--lengths N ...] [--effort E] [--network NAME] [--memory BYTES] [--time-limit S] [--json FILE]

Predicted by the roofline of an H100, f32, SGD without momentum; nothing runs. For each length: the step with each op once; per-layer
checkpointing as people write it (`lowtide remat --method chen` on the step as it is, attention and loss whole, the best number of
layers to a segment, updates as early as they can be); and plans with attention in blocks of 1,024 queries and the loss in as many
parts, without transfers and with them. Within the memory: extra time over each op once, what is proven of it, and milliseconds per
token. Exit code 1 if an arena is above the memory, a plan is faster than what is proven, or the longest sequence without transfers is
less than 5.5 times that of per-layer checkpointing.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[1:1] = [str(ROOT / "bench/support"), str(ROOT / "models")]
import llama  # noqa: E402
from lowtide import SCRATCH, finish, lowtide, table  # noqa: E402

LENGTHS = [2048, 4096, 6144, 8128, 8160, 16384, 32768, 45056]  # by layer 8,128 is the longest of multiples of 32
ROWS = 1024  # of a block of queries
TIMES = 5.5  # the longest sequence, of that of per-layer checkpointing


class Step:
    def __init__(self, length: int, arguments: argparse.Namespace):
        self.length, self.arguments = length, arguments
        self.path = llama.write(arguments.network, SCRATCH / "llama")
        self.flags = ["--train", "--optimizer", "sgd", "--momentum", "0", "--device", "h100", "--dim", f"seq={length}"]

    def planned(self, *flags) -> dict | None:
        """The verdict; None: no plan within the memory, or not in time."""
        limit = self.arguments.time_limit
        try:
            made = lowtide("plan", self.path, *self.flags, *flags, "--time-limit", limit, "--json", check=False, timeout=2 * limit)
        except subprocess.TimeoutExpired:
            return None
        if made.returncode not in (0, 3, 5):
            sys.exit(f"lowtide plan with {self.length} tokens: exit code {made.returncode}\n{made.stderr}")
        return json.loads(made.stdout) if made.returncode == 0 else None

    def once(self) -> tuple[dict, pathlib.Path]:
        """Each op once, without a budget; and the folder of its bare problem."""
        folder = SCRATCH / f"llama/{self.length}"
        folder.mkdir(parents=True, exist_ok=True)
        made = self.planned("--dump-problems", folder)
        if made is None:
            sys.exit(f"no plan of {self.length} tokens without a budget")
        return made, folder / "order.txt"

    def checkpointed(self, problem: pathlib.Path) -> dict | None:
        made = lowtide("remat", problem, "--budget", self.arguments.memory, "--method", "chen", "--json", check=False)
        outcome = json.loads(made.stdout) if made.stdout else {}
        return outcome if "cost" in outcome else None

    def in_blocks(self, *flags) -> dict | None:
        blocks = max(2, self.length // ROWS)
        return self.planned("--query-blocks", blocks, "--split", f"1,{self.last_norm()}:{blocks}", "--budget", self.arguments.memory, "--effort",
                            self.arguments.effort, *flags)

    def last_norm(self) -> str:
        """Behind it are the head and the loss. Nodes are named by their numbers, as the reader of files does it."""
        layers = llama.NETWORKS[self.arguments.network].layers
        return f"node_rmsnormalization_{17 * layers + 2}"


def cell(made: dict | None, once: float, length: int) -> list[str]:
    if made is None:
        return ["-", "-", "-"]
    seconds = made["cost"] if "cost" in made else made["predicted_step_seconds"]
    proven = made.get("lower_bound_seconds", once)
    return [f"{100 * (seconds / once - 1):+.1f} %", f"{100 * (proven / once - 1):+.1f} %", f"{1e3 * seconds / length:.3f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="N", help="tokens of the sequence")
    parser.add_argument("--effort", type=float, default=5, help="of each plan, about in seconds of one core")
    parser.add_argument("--network", choices=list(llama.NETWORKS), default="llama8b")
    parser.add_argument("--memory", default="80GB", help="of the device")
    parser.add_argument("--time-limit", type=float, default=300, help="of each plan, in seconds")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures")
    arguments = parser.parse_args()
    ways = ["per-layer checkpointing", "in blocks", "in blocks, swap"]
    rows, found, broken = [], {way: 0 for way in ways}, []
    outcomes = {}
    for length in arguments.lengths:
        step = Step(length, arguments)
        once, problem = step.once()
        seconds = once["predicted_step_seconds"]
        made = dict(zip(ways, [step.checkpointed(problem), step.in_blocks(), step.in_blocks("--swap", "host")]))
        outcomes[length] = {"each op once": once, **made}
        row = [f"{length:,}", f"{once['arena_bytes'] / 2**30:,.0f}", f"{1e3 * seconds / length:.3f}"]
        for way, outcome in made.items():
            row += cell(outcome, seconds, length)
            if outcome is None:
                continue
            found[way] = max(found[way], length)
            if "arena_bytes" in outcome and outcome["arena_bytes"] > outcome["budget_bytes"]:
                broken.append(f"{way}, {length} tokens: an arena of {outcome['arena_bytes']:,} bytes")
            if "predicted_step_seconds" in outcome and outcome["lower_bound_seconds"] > outcome["predicted_step_seconds"] * (1 + 1e-9):
                broken.append(f"{way}, {length} tokens: faster than what is proven")
        rows.append(row)
        if arguments.json:
            arguments.json.write_text(json.dumps(outcomes, indent=1))
    print(f"{arguments.network}, {arguments.memory}, predicted by the roofline of an H100; of each way extra time, proven, ms per token")
    table(["tokens", "each op once, GiB", "ms per token", *[f"{way}{what}" for way in ways for what in ("", ": proven", ": ms per token")]],
          rows)
    for way, length in found.items():
        print(f"longest that was found {way}: {length:,} tokens")
    least = found[ways[0]]
    if least and found[ways[1]] < TIMES * least:
        broken.append(f"{found[ways[1]]:,} tokens are less than {TIMES} times {least:,}")
    return finish(broken)


if __name__ == "__main__":
    sys.exit(main())
