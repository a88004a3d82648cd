"""Figures 9 to 15 of MAGIS's paper as pictures for bench/magis.py: what magis_figures.py measures and
prints, drawn by magis_pictures.py.
"""

import math
import pathlib
import re

from magis_figures import ABLATED, MEMORY_LIMITS, STAGES_OF, curves_of, overheads, with_auto
from magis_pictures import RATIO, Axis, Curves, bars, lines, shares
from magis_published import ABLATION, BASELINES_LEAST, MAGIS_LEAST, STAGE_SECONDS
from magis_rows import METHODS

CHANGES = Axis("changes, from the least on, as a share of all", 1, 1)
FASTER = Axis("times", math.inf, 10, is_logarithmic=True)
ABOVE = Axis("percent", math.inf, 1)
IN_SECONDS = re.compile(r"forecast in ([\d.]+) s of cores, ")


def draw_all(folder: pathlib.Path, figures: list[int], outcomes: dict, measured: dict, limits: tuple[int, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    if 9 in figures:
        drawn |= least_memory(outcomes, limits)
    for ratio in MEMORY_LIMITS if 10 in figures else ():
        names, rows = overheads(outcomes, ratio)
        if names:
            drawn[f"figure_10_{100 * ratio:g}"] = bars(f"extra time within {100 * ratio:g} % of memory", names, rows)
    for name, outcome in outcomes.items() if 11 in figures else ():
        drawn[f"figure_11_{name}"] = lines(f"{name}: memory against time", curves_of(name, outcome))
    if 12 in figures and "12" in measured:
        drawn["figure_12"] = lines("ViT: POFO on micro-batches", measured["12"] | with_auto(outcomes))
    if 13 in figures and "extra" in measured.get("13", {}):
        drawn |= ablation(measured["13"], limits)
    if 14 in figures and "schedules" in measured.get("14", {}):
        drawn |= edits(measured["14"])
    if 15 in figures and "15" in measured:
        drawn |= stages(measured["15"])
    for name, picture in drawn.items():
        (folder / f"{name}.svg").write_text(picture)


def least_memory(outcomes: dict, limits: tuple[int, ...]) -> dict[str, str]:
    names = [name for name, outcome in outcomes.items() if outcome.least]
    drawn = {}
    for k, limit in enumerate(limits if names else ()):
        rows: dict[str, list[float | None]] = {}
        for who, title in (("", "Lowtide"), ("swap", "Lowtide with moves"), *((method, method) for method in METHODS)):
            rows[title] = [outcomes[n].least[who][k] if who in outcomes[n].least else math.nan for n in names]
        for who, known in (("MAGIS", MAGIS_LEAST), *BASELINES_LEAST.items()):
            rows[f"paper: {who}"] = [known[n][k] if n in known else math.nan for n in names]
        asked = {who: row for who, row in rows.items() if not all(map(math.isnan, row))}
        drawn[f"figure_9_{limit}"] = bars(f"least memory within {limit} % of extra time, of the peak in program order", names, asked, RATIO)
    return drawn


def ablation(found: dict, limits: tuple[int, ...]) -> dict[str, str]:
    paper_least = {f"paper: {who}": list(row[:2]) for who, row in ABLATION.items()}
    paper_extra = {f"paper: {who}": list(row[2:]) for who, row in ABLATION.items()}
    return {"figure_13_least": bars(f"{ABLATED}: least memory by how labels are found", [f"within +{limit} %" for limit in limits],
                                    found["least"] | paper_least, RATIO),
            "figure_13_extra": bars(f"{ABLATED}: extra time by how labels are found",
                                    [f"within {100 * ratio:g} % of memory" for ratio in MEMORY_LIMITS], found["extra"] | paper_extra)}


def edits(found: dict) -> dict[str, str]:
    """Of all changes, from the least number to the greatest: an upper curve is better for how much
    faster, a lower one for peaks."""
    faster = {"views that follow": found["views"]}
    above: dict[str, list[float]] = {}
    for one in found["schedules"]:
        title = one["what"].removeprefix("that ").removeprefix("whose ")
        faster.setdefault(title, []).append(one["full_seconds"] / one["incremental_seconds"])
        above.setdefault(title, []).append(100 * (one["incremental_bytes"] / one["full_bytes"] - 1))
    return {"figure_14_faster": lines("incremental scheduling and views: how much faster than from nothing", distributions(faster), CHANGES, FASTER),
            "figure_14_peaks": lines("incremental scheduling: peak above that of full scheduling", distributions(above), CHANGES, ABOVE)}


def distributions(rows: dict[str, list[float]]) -> Curves:
    return {who: [((at + 0.5) / len(row), value) for at, value in enumerate(sorted(row))] for who, row in rows.items()}


def stages(told: list[str]) -> dict[str, str]:
    """Of the lines of bench_labels --stages: the first is of the search itself, then one of labels alone without retention searches
    and one with them."""
    seconds = [float(match[1]) for line in told if (match := IN_SECONDS.search(line))]
    if len(seconds) != 3:
        return {}
    whole, without, labels = seconds
    ours = {"scaled problems, orders, cuts": without, "retention searches": max(0.0, labels - without),
            "rewrites, blocks, cuts": max(0.0, whole - labels)}
    title = f"{STAGES_OF}: time of the search by stage"
    return {"figure_15": shares(title, {f"Lowtide, {whole:.2f} s": ours, f"paper, {sum(STAGE_SECONDS.values()):.0f} s": STAGE_SECONDS})}
