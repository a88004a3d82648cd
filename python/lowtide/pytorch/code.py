"""Units as Python source over local names: what is measured alone and what a plan strings together are the same lines.

Tensor 5 is the name `t5`, the random stream's state in storage 7 is `s7`. A view is made where it is first needed and
goes with the memory that it shows. Nothing here allocates but the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import first_run
from .calls import Call, Number, Program, Ref
from .one_name import OneName
from .units import Unit

PLAIN = (int, bool, str, type(None))


class Source:
    """Lines, the names that they need, and which tensors are there. `by_strides`: as OneName takes it."""

    def __init__(self, program: Program, by_strides: bool = False) -> None:
        self.program, self.one_name = program, OneName(program, by_strides)
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"get_state": program.device.get_state,
                                      "set_state": program.device.set_state, "clone": torch.clone}
        self.live: dict[int, set[int]] = {}  # storage -> its tensors that have names now
        self.renamed: dict[int, str] = {}  # tensors that go by another name in this unit
        self.constants: dict[Any, str] = {}
        self.looks = False  # whether there are lines that look at each result (first_run.py)

    def look(self, tensor: int, taken: int | None = None) -> None:
        if self.looks:
            self.emit(f"{first_run.NAME}({tensor}, {self.name(tensor)}{'' if taken is None else f', {taken}'})")

    def emit(self, line: str) -> None:
        self.lines.append(line)

    # ---- expressions

    def constant(self, value: Any) -> str:
        try:
            key = (type(value), repr(value)) if not callable(value) else (type(value), id(value))
        except Exception:  # noqa: BLE001: a value without repr is its own
            key = id(value)
        if key not in self.constants:
            self.constants[key] = f"c{len(self.constants)}"
            self.names[self.constants[key]] = value
        return self.constants[key]

    def name(self, tensor: int) -> str:
        return f"t{self.one_name.of(tensor)}"

    def expression(self, value: Any) -> str:
        if isinstance(value, Ref):
            return self.renamed.get(value.id) or self.name(value.id)
        if isinstance(value, Number):
            return f"{self.constant(value.function)}({', '.join(map(self.expression, value.args))})"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.expression, value)) + "]"
        if isinstance(value, tuple):
            return "(" + "".join(self.expression(v) + ", " for v in value) + ")"
        return repr(value) if type(value) in PLAIN else self.constant(value)

    def invocation(self, call: Call) -> str:
        arguments = [self.expression(a) for a in call.args]
        arguments += [f"{key}={self.expression(a)}" for key, a in call.kwargs.items()]
        return f"{self.kernel(call.target)}({', '.join(arguments)})"

    def kernel(self, target: Callable) -> str:
        """An op by its kernels, without the Python function around them: what it allocates is then allocated by these lines
        (planned_addresses.h)."""
        name = self.constant(target)
        if type(target) is torch._ops.OpOverload:
            self.names[name] = target._op
        return name

    # ---- tensors

    def there(self, tensor: int) -> None:
        self.live.setdefault(self.program.tensors[tensor].storage, set()).add(self.one_name.of(tensor))

    def is_there(self, tensor: int) -> bool:
        return self.one_name.of(tensor) in self.live.get(self.program.tensors[tensor].storage, ())

    def need(self, tensor: int) -> None:
        """Makes a view, and those that it is a view of, unless they are there."""
        waiting = [tensor]
        while waiting:
            now = self.one_name.of(waiting[-1])
            recipe = self.program.tensors[now].recipe
            if self.is_there(now):
                waiting.pop()
                continue
            if recipe is None:
                raise AssertionError(f"tensor {now} is read and not there")
            missing = [t for t in recipe.tensors() if not self.is_there(t)]
            if missing:
                waiting += missing
                continue
            made = [o for o in recipe.outs if o is not None]
            self.assign(recipe, made)
            for tensor in made:
                self.look(tensor)
            waiting.pop()

    def assign(self, call: Call, kept: list[int]) -> None:
        """The call, and names for the outputs that are kept."""
        text = self.invocation(call)
        if not kept:
            return self.emit(text)
        if not call.many:
            self.emit(f"t{kept[0]} = {text}")
        elif len(kept) == 1:
            self.emit(f"t{kept[0]} = {text}[{call.outs.index(kept[0])}]")
        else:
            names = [f"t{o}" if o in kept else "_" for o in call.outs]
            self.emit(f"{', '.join(names)}, = {text}" if len(names) == 1 else f"{', '.join(names)} = {text}")
            if "_" in names:
                self.emit("_ = None")
        for tensor in kept:
            self.there(tensor)
        return None

    def drop(self, storage: int) -> None:
        """The storage's memory goes: no name shows it any more."""
        if self.program.storages[storage].base < 0:
            return self.emit(f"s{storage} = None")
        names = sorted(f"t{t}" for t in self.live.pop(storage, ()))
        if names:
            self.emit(" = ".join(names) + " = None")
            if self.looks:
                self.emit(f"{first_run.NAME}_gone({storage})")
        return None

    # ---- units

    def unit(self, unit: Unit, again: bool, taken: int | None = None) -> None:
        """The unit's lines. `again`: it has run in this step before, so nothing but its results may change. `taken`:
        the operand's storage whose place its result takes."""
        if taken is not None:
            return self.in_place(unit, taken)
        if unit.update is not None and not unit.update_tensors:
            return None  # a later unit updates this parameter with all others
        if unit.update is not None:
            arguments = ", ".join(map(self.name, unit.update_tensors))
            for tensor in unit.update_tensors:
                self.need(tensor)
            return self.emit(f"{self.constant(unit.update)}({arguments})")
        if unit.random and again:
            self.emit("state = get_state()")
            self.emit(f"set_state(s{unit.state_in})")
        hidden = sorted({t for call in unit.calls for t in call.hidden}) if again else []
        for tensor in hidden:
            self.need(tensor)
            self.emit(f"h{tensor} = clone({self.name(tensor)})")
        self.renamed = {t: f"h{t}" for t in hidden}
        self.calls(unit)
        self.renamed = {}
        if hidden:
            self.emit(" = ".join(f"h{t}" for t in hidden) + " = None")
        if unit.state_out is not None:
            self.emit(f"s{unit.state_out} = get_state()")
        if unit.random and again:
            self.emit("set_state(state)")
            self.emit("state = None")
        return None

    def in_place(self, unit: Unit, taken: int) -> None:
        form = unit.in_place[taken]
        for tensor in form.tensors():
            self.need(tensor)
        made = self.program.storages[unit.makes[0]].base
        self.emit(f"t{made} = {self.invocation(form)}")
        self.look(made, taken)
        self.drop(taken)
        self.there(made)

    def calls(self, unit: Unit) -> None:
        own: set[int] = set()
        used = {t for call in unit.calls for t in call.tensors()}
        for call in unit.calls:
            for tensor in call.tensors():
                if tensor not in self.renamed:
                    self.need(tensor)
            outs = self.program.made_by(call)
            own |= {self.program.tensors[o].storage for o in outs}
            self.assign(call, [o for o in outs if o in used or self.program.tensors[o].storage in unit.makes])
        for storage in own - set(unit.makes):
            self.drop(storage)
        for storage in unit.makes:
            self.look(self.program.storages[storage].base)


def compiled(lines: list[str], names: dict[str, Any], given: list[str], result: str, name: str) -> Callable:
    """A function of a list, which it empties."""
    head = [f"    {', '.join(given)}, = given", "    given.clear()"] if given else []
    text = "\n".join(["def run(given):", *head, *(f"    {line}" for line in lines), f"    return {result}"])
    scope = dict(names)
    exec(compile(text, f"<lowtide {name}>", "exec"), scope)  # noqa: S102: our own lines
    return scope["run"]
