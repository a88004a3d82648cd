"""A captured step as a graph of rows of the op table, in the JSON form of docs/formats.md, and the library's answer in parts.

Each call is the row that it is (rows.py) or an opaque op, each tensor a value; views are ops like others, made where they are
first read. An op "12:mm" is call 12; the last, "results", reads what leaves the step, so that it is there whole. What is
written in place (running statistics) is touched by opaque ops alone, in the order of the step.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .. import _library
from .calls import INPUT, Call, Program
from .graph_text import DTYPES
from .rows import Row, coupled_row, refs, row_of


class Question:
    """The graph as JSON. `calls`: by op, views too."""

    def __init__(self, program: Program, whole: set[int]) -> None:
        self.program, self.whole = program, whole
        self.values: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.calls: list[Call] = []
        self.rows: list[Row | None] = []
        self.value_of: dict[int, int] = {}
        self.touched: dict[int, int] = {}  # a storage that is written -> the last op that had to do with it
        self.last_draw: int | None = None
        self.written = {program.tensors[t].storage for call in program.calls for t in (*call.writes, *call.hidden)}

    def write(self) -> str:
        for tensor in self.program.given:
            if self.program.tensors[tensor].recipe is None:
                input_of = self.program.storage_of(tensor).role == INPUT
                self.add_value(tensor, "input" if input_of else "parameter", {"initial": {"kind": "fed" if input_of else "zero"}})
        for call in self.program.calls:
            if not call.view:
                self.add(call)
        ends = [self.value(o) for o in self.program.outputs if o is not None]
        self.ops.append({"kind": "OpaqueEffect", "name": "results", "attrs": {"op": "results"}, "inputs": ends, "outputs": []})
        return json.dumps({"format": "lowtide-graph", "version": 1, "name": "step", "values": self.values, "ops": self.ops})

    def add_value(self, tensor: int, category: str, more: dict[str, Any]) -> int:
        like = self.program.tensors[tensor]
        plain = like.dtype in DTYPES and 0 not in like.shape
        dims = list(like.shape) if plain else [max(1, self.program.storages[like.storage].bytes)]
        self.value_of[tensor] = len(self.values)
        self.values.append({"name": f"t{tensor}", "dtype": DTYPES[like.dtype] if plain else "u8", "dims": dims,
                            "category": category, **more})
        return self.value_of[tensor]

    def value(self, tensor: int) -> int:
        """The tensor's value; a view is an op where it is first read."""
        waiting = [tensor]
        while tensor not in self.value_of:
            recipe = self.program.tensors[waiting[-1]].recipe
            missing = [t for t in recipe.tensors() if t not in self.value_of]
            if missing:
                waiting += missing
                continue
            self.add(recipe)
            waiting.pop()
            while waiting and waiting[-1] in self.value_of:
                waiting.pop()
        return self.value_of[tensor]

    def add(self, call: Call) -> None:
        inputs = [self.value(t) for t in refs(call)]
        row = None if id(call) in self.whole else coupled_row(self.program, call) if self.has_to_do_with_writes(call) else \
            row_of(self.program, call) or coupled_row(self.program, call)
        new = [o for o in call.outs if o is not None and o not in self.value_of]
        number, name = len(self.ops), re.sub(r"[^\w.]", "_", call.name.removeprefix("aten."))[:60]
        kind = row.kind if row is not None else "Opaque" if new else "OpaqueEffect"
        attrs = {} if row is not None and kind != "Opaque" else {"op": name}
        op = {"kind": kind, "name": f"{number}:{name}", "phase": call.phase, "attrs": {**attrs, **(row.attrs if row is not None else {})},
              "inputs": self.in_order(row, inputs), "outputs": [], "control": self.control(call, number)}
        for out in new:
            op["outputs"].append(self.add_value(out, *self.kind_of_result(kind, inputs, call)))
        self.ops.append(op)
        self.calls.append(call)
        self.rows.append(row)

    @staticmethod
    def in_order(row: Row | None, inputs: list[int]) -> list[int | None]:
        if row is None or row.operands is None:
            return list(inputs)
        return [inputs[place] if place is not None else None for place in row.operands]

    def kind_of_result(self, kind: str, inputs: list[int], call: Call) -> tuple[str, dict[str, Any]]:
        if kind == "Reshape":  # which is a view in the op table, too
            return self.values[inputs[0]]["category"], {"alias": "view", "base": inputs[0]}
        return "activation" if call.phase == "forward" else "temporary", {}

    def storages(self, call: Call) -> set[int]:
        return {self.program.tensors[t].storage for t in (*call.tensors(), *(o for o in call.outs if o is not None))}

    def has_to_do_with_writes(self, call: Call) -> bool:
        return bool(self.storages(call) & self.written)

    def control(self, call: Call, number: int) -> list[int]:
        """What is written keeps the order of all that read and write it; so do calls that draw."""
        if call.view:
            return []
        before = set()
        for storage in self.storages(call) & self.written:
            if storage in self.touched:
                before.add(self.touched[storage])
            self.touched[storage] = number
        if call.random:
            if self.last_draw is not None:
                before.add(self.last_draw)
            self.last_draw = number
        return sorted(before)


def ask(text: str, labels: str) -> dict[str, Any]:
    """The graph in parts. Raises BadInput and Usage."""
    library = _library.library()
    model, parted = (_library.Handle("lowtide_model_free") for _ in range(2))
    _library.check(library.lowtide_model_parse(text.encode(), b"the step's graph of rows", None, model.place))
    _library.check(library.lowtide_model_in_parts(model, labels.encode(), parted.place))
    return json.loads(library.lowtide_model_json(parted))
