"""The loss as dynamo reads it, for what plain tracing cannot follow.

Plain tracing runs the user's Python on tensors without contents, and ends where the Python asks for
contents. Dynamo reads the bytecode instead: an assertion on contents becomes an op that checks them
in every step, code that asks `torch.compiler.is_compiling()` leaves its own checks out, and numpy
becomes torch. What comes out is a graph of the forward pass, which is run in place of the user's
Python and traced as ever, with gradients and all.

It comes second: it takes longer, and libraries may choose another path in it than in eager mode. Its nodes know their module and the line of the
user's code (the stack of frames).
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

import torch
import torch.fx.traceback as noted
from torch._dynamo.functional_export import dynamo_graph_capture_for_export

_SIDE_EFFECTS = "side effects happened"
_PATH = re.compile(r"\bmodel\b\.?(.*)")


class Retraced(torch.nn.Module):
    """The graph of a shell (trace.py) for one batch, called as the shell is. Parameters have the
    shell's names."""

    def __init__(self, shell: torch.nn.Module, batch: Any) -> None:
        super().__init__()
        self.model = shell.model
        with warnings.catch_warnings(record=True) as said, torch._dynamo.config.patch(capture_scalar_outputs=True):
            warnings.simplefilter("always")
            graph = dynamo_graph_capture_for_export(shell)(batch)
        _refuse_state(said)
        # No submodule: it has the model's tensors under the same names.
        self.__dict__["graph"] = graph

    def forward(self, batch: Any) -> Any:
        with noted.preserve_node_meta():
            return torch.fx.Interpreter(self.__dict__["graph"]).run(batch)


def _refuse_state(said: list[warnings.WarningMessage]) -> None:
    """Raises NotImplementedError for what the forward pass keeps: dynamo names what it writes, and leaves it out. Buffers the shell
    writes itself."""
    for line in (str(one.message) for one in said):
        sources = ast.literal_eval(line[line.index("["):]) if _SIDE_EFFECTS in line else []
        kept = [source for source in sources if "_buffers" not in source]
        if kept:
            raise NotImplementedError(f"the forward pass keeps something in {', '.join(kept[:3])}, and looks into tensors, too; with "
                                      "register_buffer, or without the look, it is planned")


def _meta_now() -> dict[str, Any]:
    return noted.get_current_meta() if noted.has_preserved_node_meta() else {}


def stack_now() -> str | None:
    """The stack of frames of the node that is run, as text; None where none is."""
    return _meta_now().get("stack_trace")


def module_now() -> str:
    """Path of the module of the node that is run; "" where there is none."""
    modules = _meta_now().get("nn_module_stack")
    path = str(list(modules.values())[-1][0]) if modules else ""
    found = _PATH.search(path)
    return found[1] if found else ""
