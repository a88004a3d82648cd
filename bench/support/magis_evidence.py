"""What was seen of the targets of magis_targets.py, by their keys, in the files that the benchmarks'
--json writes.

A key that is not there was not measured: what is said of all seven networks, or of all cells, needs
each of them. Where several files measure the same, the last one counts.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator

from magis_outcomes import LIMITS, Outcome, Together, together
from magis_published import PROTOTYPE
from magis_rows import ROWS, points_above_less
from magis_targets import EVEN_ADDED, GPT2_EXTRA, JUDGED_ALONE, KEPT, PROMISES, SEVEN, SLOWER, WITH_FORECASTS
from magis_workloads import EVERYTHING


@dataclasses.dataclass(frozen=True)
class Seen:
    value: float  # infinite: there is no plan
    remark: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.value, (int, float)):
            raise TypeError(f"{self.value!r} is no number")


Evidence = dict[str, Seen]


def read(paths: list[pathlib.Path]) -> Evidence:
    """A file that is no benchmark's, or not as it writes them, is a ValueError that names it."""
    pieces: dict[pathlib.Path, dict] = {}
    searches: dict[tuple[str, float], dict] = {}
    seen: Evidence = {}
    for path in paths:
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as wrong:
            raise ValueError(f"{path}: {wrong}") from wrong
        which = content.get("benchmark", "magis") if isinstance(content, dict) else None
        with as_written(path):
            if which == "magis" and "workloads" in content:
                of_pieces([content])  # by itself, so that the error names one file
                pieces[path] = content
            elif which == "labels":
                found = searches_of(content)
                of_labels(found)
                searches |= found
            elif isinstance(which, str) and which in READERS:
                seen |= READERS[which](content)
            else:
                raise Unknown(f"{path}: no figures of a benchmark that measures targets")
    with as_written(*pieces):
        seen |= of_pieces(list(pieces.values()))
    return seen | of_labels(searches)


class Unknown(ValueError):
    pass


@contextlib.contextmanager
def as_written(*paths: pathlib.Path) -> Iterator[None]:
    """What goes wrong where a key or a kind of value is not as the benchmark writes it becomes the error of these files."""
    try:
        yield
    except Unknown:
        raise
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as wrong:
        raise ValueError(f"{', '.join(map(str, paths))}: figures are not as the benchmark writes them "
                         f"({type(wrong).__name__}: {wrong})") from wrong


def promises(benchmark: str, broken: list[str], is_told: bool, found: set[str]) -> Evidence:
    """One that is broken is seen in any file; that none is needs all of what is measured, to its end."""
    if not broken and not (is_told and found.issuperset(PROMISES[benchmark])):
        return {}
    more = f"; {len(broken) - 1} more" if len(broken) > 1 else ""
    return {f"{benchmark}: promises broken": Seen(len(broken), f"{broken[0]}{more}" if broken else "")}


def promises_of(content: dict, found: set[str]) -> Evidence:
    return promises(content["benchmark"], content.get("broken", []), "broken" in content and content.get("finished", True), found)


# Of bench/magis.py.

def of_pieces(pieces: list[dict]) -> Evidence:
    seen: Evidence = {}
    for found in together(pieces).values():
        seen |= of_magis(found)
    return seen


def of_magis(found: Together) -> Evidence:
    seen = of_least(found) | promises(found.cost_model, found.broken(), found.is_told(), set(found.outcomes))
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
    """The longest of all, killed ones with the seconds until then."""
    waits = outcome.waits()
    if not waits:
        return {}
    late = sum(c.is_late for c in outcome.cells if c.split == "auto" and c.ratio is not None)
    remark = f"{len(waits) - late} plans" + (f", {late} killed" if late else "")
    first, last = zip(*waits)
    return {f"{name}: first plan": Seen(max(first), remark), f"{name}: last plan": Seen(max(last), remark)}


def of_less(name: str, outcome: Outcome) -> Evidence:
    """The worst of all points: all that the search chooses, beside micro-batches in the numbers of
    PARTS_OF_ROWS, recompute and moves alone. As seen: the tenth of a point that is allowed is the target's."""
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
    return {f"{name}: {SLOWER}": worst} if points else {}


# Of the others.

def of_labels(searches: dict[tuple[str, float], dict]) -> Evidence:
    """Of bench_labels, by network and ratio: the worst of all ratios."""
    by_key: dict[str, list[tuple[float, float]]] = {}
    for (name, ratio), found in searches.items():
        values = {f"states {JUDGED_ALONE}": found["judged"] / found["seconds"],
                  f"states {WITH_FORECASTS}": (found["judged"] + found["forecast"]) / found["seconds"],
                  f"rank correlation, {EVEN_ADDED}": found["correlation"],
                  f"rank correlation, {KEPT}": found["correlation_of_search"]}  # None: too few have plans
        for what, value in values.items():
            if value is not None:
                by_key.setdefault(f"{name}: {what}", []).append((value, ratio))
    return {key: Seen(min(found)[0], f"within {min(found)[1]:g}" + (f", the worst of {len(found)} ratios" if len(found) > 1 else ""))
            for key, found in by_key.items()}


def searches_of(content: dict) -> dict[tuple[str, float], dict]:
    """A network is told by the name of its file."""
    names = {workload.network: name for name, workload in EVERYTHING.items()}
    known = ((names.get(pathlib.Path(found["model"]).stem), found) for found in content["models"])
    return {(name, found["ratio"]): found for name, found in known if name is not None}


def of_steps(content: dict) -> Evidence:
    """Of bench/split_steps.py."""
    seen = promises_of(content, {found["step"] for found in content["steps"]})
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
    seen = {f"{head}: time over PyTorch's": Seen(max(ways)[0], f"{max(ways)[1]}, the worst of {len(ways)} ways")
            for head, ways in by_head.items()}
    return seen | promises_of(content, set(by_head))


def of_lengths(content: dict) -> Evidence:
    """Of bench/long_sequences.py: the longest of those that take no more than checkpointing by layer
    takes at that length, without moves; and across lengths, a token of it beside one of the longest by layer."""
    as_fast = [0]
    for length, found in content["lengths"].items():
        layered, blocks = found["by layer"], found.get("in blocks")
        if blocks and "cost" in layered and blocks["predicted_step_seconds"] <= layered["cost"]:
            as_fast.append(int(length))
    layered, longest = content["longest_by_layer"], max(as_fast)
    seen = {"as long as by layer, at no more time per token": Seen(longest / layered, f"{longest:,} tokens for {layered:,}, at that length")}
    least = content["lengths"].get(str(layered), {}).get("by layer", {})
    if longest > 0 and "cost" in least:
        ours, theirs = (seconds / length for seconds, length in (
            (content["lengths"][str(longest)]["in blocks"]["predicted_step_seconds"], longest), (least["cost"], layered)))
        seen["its time per token, over that of the longest by layer"] = Seen(
            ours / theirs, f"{1e3 * ours:.3g} ms at {longest:,} tokens, {1e3 * theirs:.3g} ms at {layered:,}")
    return seen | promises_of(content, set())


READERS = {"split_steps": of_steps, "chunked_loss": of_chunked, "long_sequences": of_lengths}


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if max(values) < math.inf else math.inf
