"""Units as the text form of a graph (docs/formats.md, "Graph text"): opaque ops with their bytes, seconds and scratch.

Values are storages, so views and strides stay on this side; what an op overwrites is an `update`. Categories are what
the library asks for: the first that an op overwrites is a parameter, others are optimizer state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from . import kept
from .calls import INPUT, MADE, Program
from .measure import Measured, operands, results
from .trace import BACKWARD, FORWARD, module_and_source
from .units import UPDATE, Unit

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
          torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool", torch.int8: "i8", torch.int16: "i16"}


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable():
        plain = text
    else:
        plain = "".join(c if 32 <= ord(c) < 127 else "?" for c in text)
    if '"' not in plain and "\\" not in plain:
        return f'"{plain}"'
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


_SOURCE = "  source "
WHOLE_STATE = "state of the optimizer"  # that its own step() alone reads (whole_step.py)


@dataclass
class GraphText:
    """`ops` and `values` say what the names of the text stand for: indices of units, storages."""

    text: str = ""
    ops: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)

    def question(self) -> str:
        """The text without lines of code, which may move while the step stays what it is: plans are kept by it."""
        return "".join(line for line in self.text.splitlines(keepends=True) if not line.startswith(_SOURCE))


class _Writer:
    def __init__(self, program: Program, units: list[Unit], measured: list[Measured] | None) -> None:
        self.program, self.units, self.measured = program, units, measured
        self.places = {unit.number: i for i, unit in enumerate(units)}
        self.graph = GraphText()
        self.lines: list[str] = []
        self.value: dict[int, int] = {}  # storage -> its newest value
        self.count = 0
        self.state: int | None = None  # the value of the optimizer's state, where that is one
        self.taken: set[str] = set()
        self.first = {unit.updates[0] for unit in units if unit.updates}
        self.beside = {s for unit in units for s in unit.updates[1:]}
        self.gradients = {s for unit in units for s in unit.gradients}
        self.outputs = {program.tensors[o].storage for o in program.outputs if o is not None}
        self.bytes = {s.id: s.bytes for s in program.storages}
        for unit, found in zip(units, measured or (), strict=bool(measured)):
            for s, size in zip(results(unit), found.result_bytes, strict=False):
                self.bytes[s] = max(self.bytes[s], size)

    def type_of(self, storage: int) -> str:
        found = self.program.storages[storage]
        if found.base >= 0:
            tensor = self.program.tensors[found.base]
            dense, count = True, 1
            for n, stride in zip(reversed(tensor.shape), reversed(tensor.stride), strict=True):
                dense, count = dense and (n == 1 or stride == count), count * n
            whole = count * tensor.dtype.itemsize == self.bytes[storage]
            if dense and whole and count > 0 and tensor.dtype in DTYPES:
                return f"{DTYPES[tensor.dtype]} [{', '.join(map(str, tensor.shape))}]"
        return f"u8 [{max(1, self.bytes[storage])}]"

    def name(self, wanted: str, storage: int) -> str:
        name, k = wanted, 1
        while name in self.taken:
            k += 1
            name = f"{wanted}#{k}"
        self.taken.add(name)
        self.graph.values[name] = storage
        return _quoted(name)

    def category(self, storage: int, phase: str = "") -> str:
        if self.program.storages[storage].role != MADE:
            if storage in self.first:
                return "parameter"
            if storage in self.beside:
                return "optimizer_state"
            return "input" if self.program.storages[storage].role == INPUT else "parameter"
        if phase == FORWARD:
            return "activation"
        return "gradient" if phase == BACKWARD and storage in self.gradients else "temporary"

    def add_value(self, storage: int) -> None:
        self.value[storage] = self.count
        self.count += 1

    def given(self) -> None:
        for storage in self.program.storages:
            if storage.role == MADE:
                continue
            contents = "fed" if storage.role == INPUT else "zero"
            self.lines.append(f"given {self.name(storage.name, storage.id)} {self.type_of(storage.id)} "
                              f"{self.category(storage.id)} {contents}")
            self.add_value(storage.id)

    def unit(self, index: int) -> None:
        unit = self.units[index]
        name = f"{index}:{unit.name[:80]}" + (f" {unit.what}" if unit.what else "")
        self.graph.ops[name] = index
        kind = "OpaqueEffect" if not results(unit) and not unit.updates else "Opaque"
        if unit.once or (unit.random and unit.state_in is None):
            kind = "OpaqueRandom"
        module, source = module_and_source(unit.place)
        whole = self.state if unit.update_tensors and not unit.runs_alone else None  # an update that overwrites the state
        read = [self.value[s] for s in dict.fromkeys(operands(unit))] + ([whole] if whole is not None else [])
        reads = " ".join(f"v{value}" for value in read)
        self.lines.append(f"op \"{kind}\" {_quoted(name)} {_quoted(module[:80])} {unit.phase}"
                          + (f" {reads}" if reads else ""))
        if source:
            self.lines.append(f"{_SOURCE}{_quoted(source)}")
        self.lines.append(f"  attr \"op\" word {_quoted(unit.name[:80])}")
        if self.measured is not None:
            found = self.measured[index]
            self.lines.append(f"  attr \"seconds\" real {max(found.seconds, 1e-7):.6g}")
            if found.workspace > 0:
                self.lines.append(f"  attr \"workspace\" int {found.workspace}")
        order = list(dict.fromkeys(operands(unit)))
        if unit.in_place:
            pairs = ", ".join(f"{order.index(s)}, 0" for s in unit.in_place)
            self.lines.append(f"  attr \"in_place\" list [{pairs}]")
        self.lines += [f"  control n{place}" for place in sorted(self.places[before] for before in unit.after)]
        for k, storage in enumerate(results(unit)):
            text = self.name(f"{index}:{unit.name[:60]}.{k}", storage)
            self.lines.append(f"  out {text} {self.type_of(storage)} {self.category(storage, unit.phase)} own"
                              + (" output" if storage in self.outputs else ""))
            self.add_value(storage)
        for storage in unit.updates:
            text = _quoted(f"{self.program.storages[storage].name}'{index}")
            self.lines.append(f"  out {text} {self.type_of(storage)} {self.category(storage)} "
                              f"update v{self.value[storage]} [0]")
            self.add_value(storage)

        if whole is not None:
            self.lines.append(f"  out {_quoted(WHOLE_STATE + chr(39))} u8 [{self.program.state_bytes}] optimizer_state update v{whole} [0]")
            self.count += 1

    def write(self, title: str, kept_bytes: int) -> GraphText:
        self.lines.append(f"graph {_quoted(title)} \"captured from PyTorch\"")
        self.given()
        if kept_bytes > 0:
            self.lines.append(f"given {_quoted(kept.NAME)} u8 [{kept_bytes}] parameter zero")
            self.count += 1
        if self.program.state_bytes > 0:
            self.lines.append(f"given {_quoted(WHOLE_STATE)} u8 [{self.program.state_bytes}] optimizer_state zero")
            self.state, self.count = self.count, self.count + 1
        for index in range(len(self.units)):
            self.unit(index)
        self.graph.text = "\n".join(self.lines) + "\n"
        return self.graph


def write_graph(program: Program, units: list[Unit], measured: list[Measured] | None, title: str,
                kept_bytes: int = 0) -> GraphText:
    """The text. Without measurements neither seconds nor scratch: what a plan is kept by. `kept_bytes`: of what the step
    keeps beside all this (kept.py)."""
    return _Writer(program, units, measured).write(title, kept_bytes)


assert UPDATE == "update", "phases are the words of the text form"
