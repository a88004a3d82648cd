"""Operands for the kinds of ops that look at what they get.

Each kind of op runs alone on plain numbers before a step is planned (measure.py). A kernel that checks its operands raises on
them: pivots of an LU factorisation are at least 1, a matrix is to have a factor, an index is below a length. What
such a unit reads is then made as the step makes it: the units that it depends on run before it, once, in the order of the
graph, and every such unit is measured on the way, on what is there at that moment. Nothing needs to be known of any op.

The first values are the user's own: parameters, buffers, state, batch, read where they lie. What a unit writes in place is
a copy. Where they are not at hand (torch.compile gives shapes alone) they are drawn numbers. A value goes when the last unit
has read it that the pass needs, so the pass takes about what a forward pass without gradients takes.

A unit that raises on these, too, would raise in a step with this batch (a sample batch of zeros, say, whose labels are
none). It gets an estimate: seconds by the bytes that it touches; its allocations are not known and lie beside the arena.

Tests: tests/python/test_torch_measured_kinds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from .calls import Program
from .units import Unit

BYTES_A_SECOND = 4e9  # of an estimate
LEAST_SECONDS = 5e-6

Values = dict[int, torch.Tensor]  # by storage: the tensor that brings it


def _reads(unit: Unit) -> list[int]:
    return [*unit.reads, *([unit.state_in] if unit.state_in is not None else [])]


def _makes(unit: Unit) -> list[int]:
    return [*unit.makes, *([unit.state_out] if unit.state_out is not None else [])]


def _touched(unit: Unit) -> set[int]:
    """But for the random stream's state: any will do."""
    return {*unit.reads, *unit.updates, *unit.statistics}


def _depended_on(units: list[Unit], targets: set[int]) -> list[Unit]:
    """The units that are to run so that the targets can, and the targets, in the order of the graph. A unit that writes what
    a later one reads is one of them."""
    wanted: set[int] = set()
    found = []
    for unit in reversed(units):
        written = {*unit.makes, *unit.updates, *unit.statistics}
        if unit.number in targets or (wanted & written and unit.update is None):
            wanted |= _touched(unit)
            found.append(unit)
    return found[::-1]


def stopping_at(units: list[Unit], targets: set[int], first: Callable[[int], torch.Tensor],
                run: Callable[[Unit, list[torch.Tensor]], list[torch.Tensor]]) -> Iterator[tuple[Unit, Callable[[], list[torch.Tensor]]]]:
    """Gives each target, with a function that makes its operands: what it only reads as it is, what it writes as a copy.

    `first`: of a storage that is there before the step, or that nothing has made. `run`: makes a unit's results of its operands.
    What cannot run leaves its results to `first`.
    """
    needed = _depended_on(units, targets)
    last = {storage: unit.number for unit in needed for storage in _touched(unit)}
    now: Values = {}

    def value(storage: int) -> torch.Tensor:
        if storage not in now:
            now[storage] = first(storage)
        return now[storage]

    def operands(unit: Unit) -> list[torch.Tensor]:
        written = {*unit.updates, *unit.statistics}
        return [value(s).clone() if s in written else value(s) for s in _reads(unit)]

    for unit in needed:
        if unit.number in targets:
            yield unit, lambda unit=unit: operands(unit)
        if unit.update is None and any(last.get(s, -1) > unit.number for s in (*_makes(unit), *unit.updates, *unit.statistics)):
            given = operands(unit)
            written = {s: tensor for s, tensor in zip(_reads(unit), given, strict=True) if s in {*unit.updates, *unit.statistics}}
            try:
                now.update(zip(_makes(unit), run(unit, given), strict=True))
                now.update(written)
            except Exception:  # noqa: BLE001: whatever a kernel raises; the target is estimated if it needs this
                pass
        for storage in [s for s in now if last.get(s, -1) <= unit.number]:
            del now[storage]


def estimated_seconds(program: Program, unit: Unit) -> float:
    touched = sum(program.storages[s].bytes for s in {*_touched(unit), *_makes(unit)})
    return LEAST_SECONDS + touched / BYTES_A_SECOND
