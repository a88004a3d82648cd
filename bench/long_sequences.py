#!/usr/bin/env python3
"""Long sequences on paper: how many tokens of one sequence a training step of Llama with 8 billion parameters takes on 80 GB.

    long_sequences.py [--lengths N ...] [--rows N] [--step N] [--effort E] [--network NAME] [--memory BYTES] [--time-limit S] [--no-swap] [--json FILE]

Predicted by the roofline of an H100, f32, SGD without momentum; nothing runs. Two ways:

    by layer     per-layer checkpointing as people write it: `lowtide remat --method chen` on the step as it is, attention and loss whole,
                 the best number of layers to a segment, updates as early as they can be
    in blocks    attention in blocks of --rows queries and the loss in as many parts, without transfers and with them; keys of a block are
                 cut from all keys (`--rewrite direct-slices`)

The longest sequence by layer is found by bisection, in steps of 64 tokens, the longest in blocks by `lowtide plan --split auto --max
dim=seq:STEP`, without a hint: blocks and parts are found. That length is planned by this call, and with the hints above the longest by layer
and the least multiple of --rows that is 5.5 times as long, or --lengths. With transfers the longest is searched for, too.

Attention takes time with the square of the length, so that milliseconds per token of two lengths say little of two ways. Both ways are
compared at one length: at the longest by layer, where both keep the memory, and at each longer one with checkpointing by layer within the
least memory that it was found to need there, which the device does not have. Beside them stands how much more floating-point work a token
of that length is: products with parameters, whose work per token is the same at all lengths, and those of scores and values.

Exit code 1 if an arena is above the memory, a plan is faster than what is proven, a plan with hints takes more time than checkpointing by
layer at the same length, or the longest sequence without transfers is less than 5.5 times that of per-layer checkpointing.
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
from magis_targets import LENGTH_TIMES as TIMES  # noqa: E402

TOKENS = 64  # the bisection's step


TRAIN = ["--train", "--optimizer", "sgd", "--momentum", "0", "--device", "h100"]


class Step:
    def __init__(self, length: int, arguments: argparse.Namespace):
        self.length, self.arguments = length, arguments
        self.path = llama.write(arguments.network, SCRATCH / "llama")
        self.flags = [*TRAIN, "--dim", f"seq={length}"]

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
        """Each op once, without a budget; and the file of its bare problem."""
        folder = SCRATCH / f"llama/{self.length}"
        folder.mkdir(parents=True, exist_ok=True)
        made = self.planned("--dump-problems", folder)
        if made is None:
            sys.exit(f"no plan of {self.length} tokens without a budget")
        return made, folder / "order.txt"

    def by_layer(self, problem: pathlib.Path, memory: str) -> dict:
        """With a "cost", if it keeps the memory."""
        made = lowtide("remat", problem, "--budget", memory, "--method", "chen", "--json", check=False)
        return json.loads(made.stdout) if made.stdout else {}

    def in_blocks(self, *flags) -> dict | None:
        blocks = max(2, -(-self.length // self.arguments.rows))
        return self.planned("--query-blocks", blocks, "--rewrite", "direct-slices", "--split", f"1,{self.last_norm()}:{blocks}", "--budget", self.arguments.memory, "--effort",
                            self.arguments.effort, *flags)

    def last_norm(self) -> str:
        """Behind it are the head and the loss. Nodes are named by their numbers, as the reader of files does it."""
        layers = llama.NETWORKS[self.arguments.network].layers
        return f"node_rmsnormalization_{17 * layers + 2}"


def longest_by_layer(arguments: argparse.Namespace) -> int:
    """In tokens; 0: not even 64."""

    def fits(units: int) -> bool:
        step = Step(units * TOKENS, arguments)
        return "cost" in step.by_layer(step.once()[1], arguments.memory)

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * TOKENS


def longest_in_blocks(arguments: argparse.Namespace, *flags) -> dict | None:
    """The verdict on the longest sequence, with "max"; None: no length has a plan."""
    path = llama.write(arguments.network, SCRATCH / "llama")
    made = lowtide("plan", path, *TRAIN, "--max", f"dim=seq:{arguments.step}", "--split", "auto", "--budget", arguments.memory,
                   "--effort", arguments.effort, "--time-limit", arguments.search_limit, *flags, "--json", check=False)
    if made.returncode not in (0, 3, 5):
        sys.exit(f"lowtide plan --max dim=seq:{arguments.step}: exit code {made.returncode}\n{made.stderr}")
    return json.loads(made.stdout) if made.returncode == 0 else None


def gigaflops_per_token(network: llama.Llama, length: int) -> tuple[float, float]:
    """Of a training step, each op once: products with parameters, and with scores as causality needs them. Backward is twice forward."""
    attention = network.width * (2 * network.heads + 2 * network.shared_heads) * network.head_width
    parameters = network.layers * (attention + 3 * network.width * network.inner) + network.width * network.vocabulary
    scores = network.layers * network.heads * network.head_width * length / 2  # of queries and keys; as many again of values
    return 3 * 2 * parameters / 1e9, 3 * 2 * 2 * scores / 1e9


def seconds_of(made: dict) -> float:
    return made["cost"] if "cost" in made else made["predicted_step_seconds"]


def cells(made: dict | None, once: float, length: int) -> list[str]:
    if made is None:
        return ["none found", "-", "-"]
    seconds = seconds_of(made)
    proven = f"{100 * (made['lower_bound_seconds'] / once - 1):+.1f} %" if "lower_bound_seconds" in made else "-"
    return [f"{100 * (seconds / once - 1):+.1f} %", proven, f"{1e3 * seconds / length:.3f}"]


class Comparison:
    """One length after the other; rows for people, outcomes for --json, and what is broken."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.rows, self.outcomes, self.broken = [], {}, []
        self.found = {False: 0, True: 0}  # the longest in blocks, with transfers or without

    def add(self, length: int, longest: dict[bool, dict] | None = None) -> None:
        """With hints; or plans of this length, with transfers or without, that were found without them."""
        step = Step(length, self.arguments)
        once, problem = step.once()
        seconds = once["predicted_step_seconds"]
        memory = self.arguments.memory
        layered = step.by_layer(problem, memory)
        if "cost" not in layered:
            memory = layered["smallest_peak_bytes"]
            layered = step.by_layer(problem, memory)
        outcome = self.outcomes[length] = {"each op once": once, "by layer": layered}
        needs = self.arguments.memory if memory == self.arguments.memory else f"{memory / 1e9:,.0f} GB"
        gigaflops = gigaflops_per_token(llama.NETWORKS[self.arguments.network], length)
        row = [f"{length:,}", *[f"{flops:.1f}" for flops in gigaflops], f"{once['arena_bytes'] / 1e9:,.0f} GB", f"{1e3 * seconds / length:.3f}",
               needs, *cells(layered, seconds, length)[::2]]
        for swap in [False] if self.arguments.no_swap else [False, True]:
            hinted = longest is None
            made = step.in_blocks(*(["--swap", "host"] if swap else [])) if hinted else longest.get(swap)
            outcome["in blocks, transfers" if swap else "in blocks"] = made
            row += cells(made, seconds, length) if hinted or made else ["-"] * 3
            self.check(length, swap, made, layered if hinted else {})
        self.rows.append(row)

    def check(self, length: int, swap: bool, made: dict | None, layered: dict) -> None:
        if made is None:
            return
        what = f"in blocks{', transfers' if swap else ''}, {length:,} tokens"
        self.found[swap] = max(self.found[swap], length)
        if made["arena_bytes"] > made["budget_bytes"]:
            self.broken.append(f"{what}: an arena of {made['arena_bytes']:,} bytes")
        if made["lower_bound_seconds"] > made["predicted_step_seconds"] * (1 + 1e-9):
            self.broken.append(f"{what}: faster than what is proven")
        if not swap and "cost" in layered and seconds_of(made) > layered["cost"]:
            self.broken.append(f"{what}: {seconds_of(made):.2f} s, by layer {layered['cost']:.2f} s")

    def print(self) -> None:
        header = ["tokens", "GFLOP per token: parameters", "scores", "each op once", "ms per token", "by layer, within", "extra", "ms per token"]
        for swap in [False] if self.arguments.no_swap else [False, True]:
            header += [f"in blocks{', transfers' if swap else ''}", "proven", "ms per token"]
        table(header, self.rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=int, metavar="N", help="tokens of the sequence, to be planned in blocks")
    parser.add_argument("--rows", type=int, default=1024, help="of a block of queries, at most")
    parser.add_argument("--step", type=int, default=8192, help="the longest in blocks is a multiple of it")
    parser.add_argument("--search-limit", type=float, default=1800, help="of the search for the longest, in seconds")
    parser.add_argument("--effort", type=float, default=5, help="of each plan, about in seconds of one core")
    parser.add_argument("--network", choices=list(llama.NETWORKS), default="llama8b")
    parser.add_argument("--memory", default="80GB", help="of the device")
    parser.add_argument("--time-limit", type=float, default=600, help="of each plan, in seconds")
    parser.add_argument("--no-swap", action="store_true", help="no plans with transfers")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures")
    arguments = parser.parse_args()
    layered = longest_by_layer(arguments)
    if layered == 0:
        sys.exit(f"--memory {arguments.memory}: not even {TOKENS} tokens by layer")
    wanted = -(-TIMES * layered // arguments.rows) * arguments.rows
    comparison = Comparison(arguments)
    for length in arguments.lengths or [layered, int(wanted)]:
        comparison.add(length)
    found = {swap: longest_in_blocks(arguments, *(["--swap", "host"] if swap else []))
             for swap in ([False] if arguments.no_swap else [False, True])}
    for length in sorted({made["max"]["size"] for made in found.values() if made}):
        comparison.add(length, {swap: made for swap, made in found.items() if made and made["max"]["size"] == length})
    if comparison.found[False] < TIMES * layered:
        comparison.broken.append(f"{comparison.found[False]:,} tokens are less than {TIMES} times {layered:,}")
    if arguments.json:
        content = dict(benchmark="long_sequences", network=arguments.network, memory=arguments.memory, longest_by_layer=layered,
                       lengths=comparison.outcomes, broken=comparison.broken, finished=True)
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{arguments.network}, {arguments.memory}, predicted by the roofline of an H100; extra time and what is proven of it are over each op once")
    comparison.print()
    print(f"longest by layer: {layered:,} tokens; {layered + TOKENS:,} do not fit")
    for swap, made in found.items():
        if made:
            most = made["max"]
            proven = f"{most['proven_too_large']:,} are proven not to fit" if most["proven_too_large"] else "no length is proven not to fit"
            print(f"--max dim=seq:{arguments.step}{' with transfers' if swap else ''}: {most['size']:,} tokens in {made['query_blocks']} blocks, "
                  f"{most['sizes_planned']} lengths planned; none was found for {most['none_found_for'] or '-'}, {proven}"
                  f"{'; cut short' if most['cut_short'] else ''}")
    for swap, longest in comparison.found.items():
        if longest > 0:
            print(f"longest that was found in blocks{', transfers' if swap else ''}: {longest:,} tokens, {longest / layered:.2f} times that")
    return finish(comparison.broken)


if __name__ == "__main__":
    sys.exit(main())
