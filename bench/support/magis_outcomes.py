"""What is known of the workloads of bench/magis.py: from plans, or put together from pieces, which
are what its --json writes.
"""

import dataclasses
import math

import magis_commands
from magis_cells import Cell, is_method, least_found, least_of_method, may_move
from magis_rows import BY_NAME, METHODS

LIMITS = (10, 5)  # percent of extra time, of the least ratios


@dataclasses.dataclass
class Outcome:
    """Of one workload."""
    cells: list[Cell]
    least: dict[str, list[float]]  # by who: "", "swap", or a published method; one for each of LIMITS

    def whole(self) -> Cell:
        return next(c for c in self.cells if c.ratio is None and c.split == "1")

    def cell(self, row: str, ratio: float) -> Cell | None:
        return next((c for c in self.cells if c.row == row and c.ratio == ratio), None)

    def extras(self, ratio: float) -> dict[str, float | None]:
        return {c.row: c.extra for c in self.cells if c.ratio == ratio}

    def waits(self) -> list[tuple[float, float]]:
        """Seconds until the first and until the last plan within a budget, of each that the search chooses parts of. One that was
        killed came no sooner than that."""
        cells = [c for c in self.cells if c.split == "auto" and c.ratio is not None]
        return [(c.seconds if c.first_seconds is None else c.first_seconds, c.seconds) for c in cells
                if c.is_late or c.first_seconds is not None]

    def find_least(self, who: str) -> None:
        """Of all plans that are here, whoever asked for them."""
        if who in METHODS:
            self.least[who] = [least_of_method(self.cells, BY_NAME[who], limit) for limit in LIMITS]
        else:
            self.least[who] = [least_found(self.cells, limit, swap=who == "swap")
                               for limit in LIMITS]

    def best(self, ratio: float, moves: bool = True) -> float | None:
        """Of ours, or of those of ours that move nothing; None: none was asked for."""
        ours = [c for c in self.cells if c.ratio == ratio and not is_method(c) and (moves or not may_move(c))]
        if not ours:
            return None
        return min((c.extra for c in ours if c.extra is not None), default=math.inf)


@dataclasses.dataclass
class Promises:
    """Of a piece."""
    cells: set[tuple]  # workload, row, ratio: those that no later piece has
    broken: list[str]
    is_told: bool      # an unfinished piece may break more


@dataclasses.dataclass
class Together:
    """Pieces of one cost model."""
    cost_model: str
    effort: float = 0
    ratios: list[float] = dataclasses.field(default_factory=list)
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    figures: dict = dataclasses.field(default_factory=dict)
    commands: magis_commands.Commands = dataclasses.field(default_factory=dict)
    promises: list[Promises] = dataclasses.field(default_factory=list)

    def broken(self) -> list[str]:
        """What pieces say of cells that are here."""
        return list(dict.fromkeys(line for piece in self.promises for line in piece.broken))

    def is_told(self) -> bool:
        """Whether all of them say what is broken."""
        return all(piece.is_told for piece in self.promises)

    def add(self, piece: dict) -> None:
        """Cells of one workload from several pieces stand together, a later one's in place of an
        earlier one's."""
        self.effort = piece["effort"]
        self.ratios = sorted({*self.ratios, *piece["ratios"]}, reverse=True)
        self.figures.update(piece["figures"])
        magis_commands.add(self.commands, piece.get("commands", {}))
        cells = {(name, c["row"], c["ratio"]) for name, content in piece["workloads"].items() for c in content["cells"]}
        for former in self.promises:
            former.cells -= cells
        self.promises = [former for former in self.promises if former.cells]
        self.promises.append(Promises(cells, piece.get("broken", []), "broken" in piece and piece.get("finished", True)))
        for name, content in piece["workloads"].items():
            outcome = self.outcomes.setdefault(name, Outcome([], {}))
            cells = [Cell(**c) for c in content["cells"]]
            new = {(c.row, c.ratio) for c in cells}
            outcome.cells = [c for c in outcome.cells if (c.row, c.ratio) not in new] + cells
            outcome.least.update(content["least"])


def together(pieces: list[dict]) -> dict[str, Together]:
    """By cost model. What was bisected in some pieces is found again among the plans of all."""
    found: dict[str, Together] = {}
    for piece in pieces:
        found.setdefault(piece["cost_model"], Together(piece["cost_model"])).add(piece)
    for all_pieces in found.values():
        for outcome in all_pieces.outcomes.values():
            for who in outcome.least:
                outcome.find_least(who)
    return found
