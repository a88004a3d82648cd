"""A rehearsal on fewer rows: where eager mode's step on the whole batch takes more memory than there is.

The tensors of the batch that are as long as the first of them along their first dimension are cut to so many rows, and the step is compiled
for that batch as for any other, at the same share of what its best order needs, so that it runs as much again. That is a second compile,
which is why only `rehearse=True` asks for it. What holds for the part is the same code, the same kernels and rules of planning; not the very plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import Error, Internal
from .batches import tensors_of

if TYPE_CHECKING:
    from .step import Step

LEAST = 2  # rows: a batch norm takes no fewer


def compiled(step: Step, batch: Any, fixed: int, of_batch: int, there: int) -> tuple[Step, Any, str] | None:
    """The step for as many rows as there is memory for, those, and what to say of it; None where it cannot be.
    `fixed`: bytes that do not depend on rows."""
    leaves, spec = tensors_of(batch)
    count = next((leaf.shape[0] for leaf in leaves if leaf.dim()), 0)
    rows = int((there - fixed) / max(1, of_batch) * count) if there > fixed else 0
    if not LEAST <= rows < count:
        return None
    part = spec.batch_of([leaf[:rows] if leaf.dim() and leaf.shape[0] == count else leaf for leaf in leaves])
    plan, options = step.plan, replace(step._options, rehearse=False, budget=None)
    share = plan.arena_bytes / max(1, plan.verdict["peak_before_bytes"])
    for budget in ([f"{100 * share:.1f}%"] if share < 1 else []) + [None]:
        try:
            made = type(step)(step._model, step._loss_fn, step._optimizer, part, replace(options, budget=budget))
            return made, part, f", on {rows} of {count} rows"
        except Internal:
            raise
        except Error:
            continue
    return None
