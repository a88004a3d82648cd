"""What is wanted of the evaluation of MAGIS's paper, as data: every number, the command that measures
it, and on which side of it what was seen has to lie.

bench/targets.py measures and prints them in one table; magis_evidence.py finds what was seen, by the
target's key. Benchmarks that hold a number themselves take it from here.
"""

import dataclasses
import math

from magis_published import PROTOTYPE

SEVEN = ("resnet50", "bert", "vit", "unet", "unetpp", "gptneo", "btlm")  # of the paper's table 2
JUDGED = (*SEVEN, "gpt2", "bert_vocabulary")  # whose labels bench_labels judges
PLANNED = (*JUDGED, "resnet50_bn", "unet_bn", "unetpp_bn")

# Least ratios in geometric mean, by cost model: within 10 and within 5 percent of extra time.
LEAST = {"roofline": (0.16, 0.21), "tiles": (0.17, 0.24), "published": (0.29, 0.48)}
GPT2_EXTRA = (0.3, 11)  # a ratio, and the percent that its plan has to be below
STATES_PER_SECOND, CORRELATION = 1000, 0.9  # of one core; of what is estimated and what is planned
FIRST_SECONDS, LAST_SECONDS = 2, 60  # until there is a plan within a budget, and the one handed out
PREDICTION = 0.15     # measured and predicted step time differ at most by this
IN_MIB_EXTRA = 0.10   # of GPT-2 within 1,800 MiB
CHUNKED_TIME = 1.0    # of PyTorch's, at its bytes
LENGTH_TIMES = 5.5    # the longest sequence, of that of per-layer checkpointing
LENGTH_TOKEN = 1.0    # time per token of that sequence, over that of the longest of per-layer checkpointing
SLOWER_POINTS = 0.1   # what more levers may be slower by than fewer, in points of extra time
PARTS_OF_ROWS = (2, 3, 4, 6, 8, 12, 16, 32)  # micro-batches that they are held against, no other numbers

GROUPS = {1: "least memory, geometric mean of seven networks",
          2: "extra time, beside the prototype's best",
          3: "the search for labels, and how long one waits",
          4: "executed within so much memory",
          5: "PyTorch's chunked losses",
          6: "long sequences",
          7: f"more levers are never slower than fewer, or than n micro-batches, n={', '.join(map(str, PARTS_OF_ROWS))}, "
             f"by more than {SLOWER_POINTS:g} points",
          8: "what benchmarks promise"}


@dataclasses.dataclass(frozen=True)
class Target:
    group: int    # of GROUPS
    key: str      # by which magis_evidence knows what was seen
    command: str  # of bench/targets.py's: what measures it
    sense: str    # "at most", "below" or "at least"
    wanted: float
    unit: str = ""
    digits: int | None = None  # to which what is wanted is known; what was seen is rounded alike

    def is_met(self, seen: float) -> bool:
        rounded = seen if self.digits is None or math.isinf(seen) else round(seen, self.digits)
        return {"at most": rounded <= self.wanted, "below": rounded < self.wanted,
                "at least": rounded >= self.wanted}[self.sense]


def least_targets() -> list[Target]:
    return [Target(1, f"{costs}, +{limit} %", costs, "below" if costs == "published" else "at most", ratio)
            for costs, ratios in LEAST.items() for limit, ratio in zip((10, 5), ratios)]


def extra_targets() -> list[Target]:
    """The prototype's are known to a tenth of a percent."""
    cells = [Target(2, f"{name} within {ratio:g}", "roofline", "at most", extra, "%", 1)
             for name, row in PROTOTYPE.items() for ratio, extra in row.items()]
    ratio, extra = GPT2_EXTRA
    return [*cells, Target(2, "step times over the prototype's, geometric mean", "roofline", "below", 1),
            Target(2, f"gpt2 within {ratio:g}, and by itself", "roofline", "below", extra, "%")]


# What counts as a state that is evaluated, and whose ranks are compared.
JUDGED_ALONE, WITH_FORECASTS = "judged alone", "judged with forecasts"
EVEN_ADDED, KEPT = "even numbers of parts added", "those that the search keeps"


def search_targets() -> list[Target]:
    states = [Target(3, f"{name}: states {which}", "labels", "at least", STATES_PER_SECOND, "a second")
              for name in JUDGED for which in (JUDGED_ALONE, WITH_FORECASTS)]
    ranks = [Target(3, f"{name}: rank correlation, {which}", "labels", "at least", CORRELATION)
             for name in JUDGED for which in (EVEN_ADDED, KEPT)]
    waits = [Target(3, f"{name}: {which} plan", "roofline", "at most", seconds, "s")
             for name in PLANNED for which, seconds in (("first", FIRST_SECONDS), ("last", LAST_SECONDS))]
    return [*states, *ranks, *waits]


# Steps that bench/split_steps.py runs, as it names them: what is wanted of each, beside an arena as
# planned and a time as predicted. A share is of the arena that needs no budget.
EXECUTED = {
    "unet 20%, all": [("share", 0.20)],
    "unet 30%, all": [],
    "gpt2 1800MiB, parts": [("extra", 100 * IN_MIB_EXTRA)],
    "gpt2 1800MiB, all": [("arena", 1800), ("extra", 100 * IN_MIB_EXTRA)],
    "gpt2 1500MiB, all": [("arena", 1500)],
    "bert 50%, all": [("share", 0.50)],
    "resnet50 50%, parts": [("share", 0.50)],
    "resnet50 50%, all": [("share", 0.50)],
}
UNITS = {"share": "", "arena": "MiB", "extra": "%"}


def executed_targets() -> list[Target]:
    found = []
    for step, wanted in EXECUTED.items():
        found += [Target(4, f"{step}: {what}", "split_steps", "at most", most, UNITS[what])
                  for what, most in wanted]
        found += [Target(4, f"{step}: arena beside its plan", "split_steps", "at most", 0, "bytes"),
                  Target(4, f"{step}: prediction is off by", "split_steps", "at most", 100 * PREDICTION, "%")]
    return found


# By whom promises are told: networks, steps and heads that have to be there.
PROMISES = {"roofline": PLANNED, "tiles": SEVEN, "published": SEVEN, "split_steps": tuple(EXECUTED), "chunked_loss": ("gpt2", "bert"),
            "long_sequences": ()}
SLOWER = f"slower than with less, or than n={','.join(map(str, PARTS_OF_ROWS))}"


def targets() -> list[Target]:
    chunked = [Target(5, f"{head}: time over PyTorch's", "chunked_loss", "at most", CHUNKED_TIME)
               for head in ("gpt2", "bert")]
    long = [Target(6, "as long as by layer, at no more time per token", "long_sequences", "at least",
                   LENGTH_TIMES, "times"),
            Target(6, "its time per token, over that of the longest by layer", "long_sequences", "at most", LENGTH_TOKEN)]
    levers = [Target(7, f"{name}: {SLOWER}", "roofline", "at most", SLOWER_POINTS, "points")
              for name in PLANNED]
    promises = [Target(8, f"{benchmark}: promises broken", benchmark, "at most", 0) for benchmark in PROMISES]
    return [*least_targets(), *extra_targets(), *search_targets(), *executed_targets(), *chunked,
            *long, *levers, *promises]
