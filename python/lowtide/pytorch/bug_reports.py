"""A folder for the report of a planned step that is not eager mode's: what differs, graph, plan, code, versions."""

from __future__ import annotations

import json
import pathlib
import platform
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from .. import cache
from .._library import version
from ..errors import Internal

if TYPE_CHECKING:
    from .step import Step


def of(step: Step, found: list[str], lost: Sequence[str] = ()) -> Internal:
    """The error. `found`: what differs; `lost`: names of tensors that the user's code wrote and that could not be put back."""
    folder = _folder(step, found)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    after = f"{', '.join(lost[:3])} is as eager mode's step left it, all else as before" if lost else "Nothing was changed"
    return Internal(f"the planned step is not eager mode's: {'; '.join(found[:3])}{more}. {after}. This is a bug of Lowtide's, and "
                    f"rehearse=False goes on without the comparison; what the report needs is in {folder}")


def _folder(step: Step, found: list[str]) -> str:
    try:
        place = cache.folder() / "reports"
        place.mkdir(exist_ok=True)
    except OSError:
        place = pathlib.Path(tempfile.gettempdir())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rehearsal-", dir=place))
    (folder / "differences.txt").write_text("\n".join(found) + "\n")
    (folder / "graph.txt").write_text(step.plan.text if step.engine == "native" else step.planned.graph.text)
    (folder / "step.py.txt").write_text(step.source)
    said = {"lowtide": str(version()), "torch": torch.__version__, "python": platform.python_version(), "machine": platform.machine(),
            "threads": torch.get_num_threads(), "engine": step.engine, "options": repr(step._options)}
    (folder / "versions.json").write_text(json.dumps(said, indent=1) + "\n")
    step.plan.save(folder / "plan.lt")
    return str(folder)
