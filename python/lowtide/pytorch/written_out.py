"""An exported program again, without what the library's door has refused: composite ops by the ops that PyTorch runs for them, and
writes into views as values.

The door reads ops as torch.export names them and refuses those that it has no row for. Some are names alone (subtract, meshgrid, kl_div,
grid_sampler): PyTorch itself runs them as other ops, and so does the program then. Others write into a view whose places the door
does not know (a reshape): without writes it has none. A program that writes buffers stays as it is: its statistics are kept by the ops that
write them.

Tests: tests/python/test_torch_written_out.py.
"""

from __future__ import annotations

import re
import warnings

import torch
from torch.export import ExportedProgram

_OP = re.compile(r"\baten\.(\w+)\.(\w+)")
_VIEW = "a view whose places are not known"


def _composite(refusal: str) -> set[str]:
    """The ops of a refusal that PyTorch runs as others."""
    found = set()
    for packet, overload in _OP.findall(refusal):
        op = getattr(getattr(torch.ops.aten, packet, None), overload, None)
        if op is not None and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"):
            found.add(str(op))
    return found


def helps(refusal: str) -> bool:
    return _VIEW in refusal or bool(_composite(refusal))


def written_out(program: ExportedProgram, refusal: str) -> ExportedProgram:
    """The program for which the refusal does not hold, if that can be."""
    names = _composite(refusal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = {op: formula for op, formula in torch.export.default_decompositions().items() if str(op) in names} if names else {}
        try:
            again = program.run_decompositions(table)
        except Exception:  # noqa: BLE001: what PyTorch cannot write out stays refused
            return program
    return program if again.graph_signature.buffers_to_mutate else again
