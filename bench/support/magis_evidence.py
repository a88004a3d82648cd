"""What was seen of the targets of magis_targets.py, by their keys, in the files that the benchmarks'
--json writes.

A key that is not there was not measured: what is said of all seven networks, or of all cells, needs
each of them. Where several files measure the same, the last one counts.
"""

import dataclasses
import json
import math
import pathlib

from magis_outcomes import LIMITS, Outcome, Together, together
from magis_published import PROTOTYPE
from magis_rows import ROWS, points_above_less
from magis_targets import GPT2_EXTRA, SEVEN
from magis_workloads import EVERYTHING


@dataclasses.dataclass(frozen=True)
class Seen:
    value: float  # infinite: there is no plan
    remark: str = ""


Evidence = dict[str, Seen]


def read(paths: list[pathlib.Path]) -> Evidence:
    """A file that is no benchmark's is a ValueError that names it."""
    pieces, searches, seen = [], {}, {}
    for path in paths:
        try:
            content = json.loads(path.read_text())
        except (OSError, json.JSONDecodeError) as wrong:
            raise ValueError(f"{path}: {wrong}") from wrong
        which = content.get("benchmark", "magis") if isinstance(content, dict) else None
        if which == "magis" and "workloads" in content:
            pieces.append(content)
        elif which == "labels":
            searches |= searches_of(content)
        elif which in READERS:
            seen |= READERS[which](content)
        else:
            raise ValueError(f"{path}: no figures of a benchmark that measures targets")
    for found in together(pieces).values():
        seen |= of_magis(found)
    return seen | of_labels(searches)


# Of bench/magis.py.

def of_magis(found: Together) -> Evidence:
    seen = of_least(found)
    if found.cost_model != "roofline":
        return seen
    seen |= of_prototype(found.outcomes)
    for name, outcome in found.outcomes.items():
        seen |= of_waits(name, outcome) | of_less(name, outcome)
    return seen


def of_least(found: Together) -> Evidence:
    """Of all plans: MAGIS moves, too."""
    least = {name: found.outcomes[name].least for name in SEVEN
             if name in found.outcomes and found.outcomes[name].least}
    if len(least) < len(SEVEN):
        return {}
    seen = {}
    for k, limit in enumerate(LIMITS):
        whole, without = (geometric_mean([min(least[name][who][k] for who in whose) for name in SEVEN])
                          for whose in (("", "swap"), ("",)))
        seen[f"{found.cost_model}, +{limit} %"] = Seen(whole, f"{without:.3f} without moves")
    return seen


def of_prototype(outcomes: dict[str, Outcome]) -> Evidence:
    """The best of all rows of ours, cell by cell; and of them together the time of the steps, as
    extra time can be nothing or less."""
    seen: Evidence = {}
    ratios = []
    for name, row in PROTOTYPE.items():
        for ratio, extra in row.items():
            best, without = (outcomes[name].best(ratio, moves) if name in outcomes else None for moves in (True, False))
            if best is not None:
                seen[f"{name} within {ratio:g}"] = Seen(best, without_moves(best, without))
                ratios.append((100 + best) / (100 + extra))
    if len(ratios) == sum(map(len, PROTOTYPE.values())):
        seen["step times over the prototype's, geometric mean"] = Seen(geometric_mean(ratios), f"{len(ratios)} cells")
    known = f"gpt2 within {GPT2_EXTRA[0]:g}"
    if known in seen:
        seen[f"{known}, and by itself"] = seen[known]
    return seen


def without_moves(best: float, without: float | None) -> str:
    """What moves are worth, where they are worth something."""
    if without is None or without <= best:
        return ""
    return f"{without:.1f} % without moves" if without < math.inf else "none without moves"


def of_waits(name: str, outcome: Outcome) -> Evidence:
    """Of plans that the search chooses parts of. One that was killed came no sooner than that."""
    cells = [c for c in outcome.cells if c.split == "auto" and c.ratio is not None]
    planned = [c for c in cells if c.first_seconds is not None]
    late = sum(c.is_late for c in cells)
    if not planned:
        return {}
    remark = f"{len(planned)} plans" + (f", {late} killed" if late else "")
    last = [c.seconds for c in cells if c in planned or c.is_late]
    return {f"{name}: first plan": Seen(max(c.first_seconds for c in planned), remark),
            f"{name}: last plan": Seen(max(last), remark)}


def of_less(name: str, outcome: Outcome) -> Evidence:
    """The worst of all points: all that the search chooses, beside micro-batches in any number,
    recompute and moves alone."""
    worst, points = Seen(-math.inf), 0
    for ratio in sorted({c.ratio for c in outcome.cells if c.ratio is not None}):
        extras = outcome.extras(ratio)
        for row in ROWS:
            if row.group != "auto" or row.name not in extras:
                continue
            less = [(other, above) for other, above in points_above_less(extras, row) if not other.method]
            points += bool(less)
            for other, above in less:
                if above > worst.value:
                    cut = ", ended by the time limit" if outcome.cell(row.name, ratio).is_cut else ""
                    worst = Seen(above, f"{row.name} at {ratio:g}, {other.name}{cut}")
    return {f"{name}: slower than with less": worst} if points else {}


# Of the others.

def of_labels(searches: dict[tuple[str, float], dict]) -> Evidence:
    """Of bench_labels, by network and ratio: the worst of all ratios."""
    seen: Evidence = {}

    def add(key: str, value: float, remark: str) -> None:
        if key not in seen or value < seen[key].value:
            seen[key] = Seen(value, remark)

    for (name, ratio), found in searches.items():
        others = sorted(other for network, other in searches if network == name and other != ratio)
        remark = f"within {ratio:g}" + (f", the worst of {len(others) + 1} ratios" if others else "")
        add(f"{name}: states evaluated", (found["judged"] + found["forecast"]) / found["seconds"], remark)
        if found["correlation"] is not None:
            of_search = found["correlation_of_search"]
            also = "" if of_search is None else f"; {of_search:.2f} of those it keeps"
            add(f"{name}: rank correlation", found["correlation"], remark + also)
    return seen


def searches_of(content: dict) -> dict[tuple[str, float], dict]:
    """A network is told by the name of its file."""
    names = {workload.network: name for name, workload in EVERYTHING.items()}
    known = ((names.get(pathlib.Path(found["model"]).stem), found) for found in content["models"])
    return {(name, found["ratio"]): found for name, found in known if name is not None}


def of_steps(content: dict) -> Evidence:
    """Of bench/split_steps.py."""
    seen: Evidence = {"promises broken": Seen(len(content["broken"]), "; ".join(content["broken"]))}
    for found in content["steps"]:
        step = found["step"]
        seen[f"{step}: share"] = Seen(found["arena_bytes"] / found["whole_arena_bytes"])
        seen[f"{step}: arena"] = Seen(found["arena_bytes"] / 2**20)
        seen[f"{step}: extra"] = Seen(found["measured_percent"], f"{found['predicted_percent']:+.1f} % predicted")
        seen[f"{step}: arena beside its plan"] = Seen(abs(found["arena_bytes"] - found["planned_bytes"]))
        ratio = found["predicted_seconds"] / found["measured_seconds"]
        seen[f"{step}: prediction is off by"] = Seen(100 * abs(ratio - 1), f"{ratio:.2f} of what was measured")
    return seen


def of_chunked(content: dict) -> Evidence:
    """Of bench/chunked_loss.py: the worst of PyTorch's ways."""
    by_head: dict[str, list[tuple[float, str]]] = {}
    for found in content["ways"]:
        ours = found["our_seconds"]
        ratio = math.inf if ours is None else ours / found["their_seconds"]
        by_head.setdefault(found["head"], []).append((ratio, found["way"]))
    return {f"{head}: time over PyTorch's": Seen(max(ways)[0], f"{max(ways)[1]}, the worst of {len(ways)} ways")
            for head, ways in by_head.items()}


def of_lengths(content: dict) -> Evidence:
    """Of bench/long_sequences.py: the longest of those that take no more than checkpointing by layer
    takes there, without moves."""
    as_fast = [0]
    for length, found in content["lengths"].items():
        layered, blocks = found["by layer"], found.get("in blocks")
        if blocks and "cost" in layered and blocks["predicted_step_seconds"] <= layered["cost"]:
            as_fast.append(int(length))
    layered = content["longest_by_layer"]
    return {"as long as by layer, at no more time per token":
            Seen(max(as_fast) / layered, f"{max(as_fast):,} tokens for {layered:,}")}


READERS = {"split_steps": of_steps, "chunked_loss": of_chunked, "long_sequences": of_lengths}


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if max(values) < math.inf else math.inf
