"""What hangs on a model, an optimizer and a loss function, written down: the judge of "nothing was changed".

`note(roots)` walks everything that Python reaches from them (attributes, containers, closures, bound methods, defaults; of an
optimizer its groups and its state by the place of the parameter) and gives a line for each tensor and each plain value, by its
path. Two notes of the same objects, before and after, say what has changed in place, was exchanged, came or went; two notes of twins
that were made alike say where they differ. A tensor's line has its class, type, sizes, strides and bits, whether it asks for a gradient
and with which earlier path it shares its storage, so that a fake tensor, a view in the place of a copy and a NaN with another sign are all
seen. Nothing of Lowtide is used here: a judge that asked the judged one how to walk would share its mistakes.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import inspect
import random
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
DEEPEST = 30
_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, weakref.ReferenceType, weakref.WeakKeyDictionary,
            weakref.WeakValueDictionary)
_OF_AUTOGRAD = ("grad", "grad_fn", "_grad_fn")


def bits(tensor: torch.Tensor) -> bytes:
    """Of the elements in their order, wherever they lie."""
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().contiguous().cpu()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _digest(tensor: torch.Tensor) -> str:
    try:
        return hashlib.sha256(bits(tensor)).hexdigest()[:16]
    except Exception as problem:  # a fake tensor has no bits
        return f"no bits: {type(problem).__name__}"


class Note:
    """Lines by path; `tensors`: copies, where they were asked for; `held`: the objects themselves, by identity."""

    def __init__(self, keep: bool = False) -> None:
        self.lines: dict[str, str] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self.held: dict[str, int] = {}
        self.named: set[str] = set()  # paths of what a module names as its parameters and buffers
        self._keep = keep
        self._seen: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._alive: list[Any] = []  # so that no identity is given out twice

    def take(self, path: str, value: Any, depth: int = 0) -> None:
        """Not by recursion of Python's own walks: each level is one of the user's objects, DEEPEST at most."""
        if isinstance(value, PLAIN):
            self.lines[path] = repr(value)
            return
        if id(value) in self._seen:
            self.lines[path] = f"is {self._seen[id(value)]}"
            return
        self._seen[id(value)] = path
        self._alive.append(value)
        self.held[path] = id(value)
        if isinstance(value, torch.Tensor):
            self._take_tensor(path, value, depth)
        elif isinstance(value, torch.Generator):
            self.lines[path] = hashlib.sha256(bits(value.get_state())).hexdigest()[:16]
        elif isinstance(value, _SKIPPED):
            self.lines[path] = f"a {type(value).__name__}"
        elif depth < DEEPEST:
            self.lines[path] = f"a {type(value).__qualname__}"
            for name, part in _parts(value):
                self.take(f"{path}{name}", part, depth + 1)

    def _take_tensor(self, path: str, tensor: torch.Tensor, depth: int) -> None:
        said = [type(tensor).__name__, str(tensor.dtype), str(tuple(tensor.shape)), f"gradient {tensor.requires_grad}"]
        try:
            first = self._storages.setdefault(tensor.untyped_storage()._cdata, path)
            said += [f"strides {tensor.stride()}", f"storage of {first}" if first != path else "storage of its own"]
        except Exception as problem:  # sparse tensors have none
            said.append(type(problem).__name__)
        self.lines[path] = ", ".join([*said, _digest(tensor)])
        if self._keep:
            self.tensors[path] = tensor.detach().clone()
        for name, part in sorted(getattr(tensor, "__dict__", {}).items()):
            self.take(f"{path}.{name}", part, depth + 1)
        if tensor.is_leaf:
            self.take(f"{path}.grad", tensor.grad, depth + 1)


def _name_of(key: Any, place: int) -> str:
    return f"[{key!r}]" if isinstance(key, PLAIN) else f"[#{place}]"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, each with the end of its path."""
    if isinstance(value, torch.optim.Optimizer):
        yield from _optimizer_parts(value)
        return
    if isinstance(value, collections.abc.Mapping):
        for place, (key, part) in enumerate(list(value.items())):
            yield _name_of(key, place), part
    elif isinstance(value, (list, tuple, collections.deque)):
        for place, part in enumerate(value):
            yield f"[{place}]", part
    elif isinstance(value, (set, frozenset)):
        yield "{}", repr(sorted(map(repr, value))) if all(isinstance(v, PLAIN) for v in value) else len(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield ".__func__", value.__func__
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f"<{name}>", cell.cell_contents
            except ValueError:  # an empty cell
                yield f"<{name}>", None
        yield ".__defaults__", value.__defaults__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    for name, part in list(getattr(value, "__dict__", {}).items()) if not isinstance(value, types.FunctionType) else ():
        if isinstance(value, torch.nn.Module) and name in ("_parameters", "_buffers", "_modules"):
            for key, each in list(part.items()):
                yield f".{key}", each
        else:
            yield f".{name}", part
    for name in _slots(value):
        try:
            yield f".{name}", inspect.getattr_static(value, name).__get__(value)
        except Exception:  # not set
            continue


def _slots(value: Any) -> list[str]:
    found = []
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")] if not isinstance(value, torch.Tensor) else []


def _optimizer_parts(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Any]]:
    for g, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if key != "params":
                yield f".groups[{g}].{key}", value
        for k, parameter in enumerate(group["params"]):
            yield f".groups[{g}].params[{k}]", parameter
            if parameter in optimizer.state:
                yield f".state[{g}, {k}]", optimizer.state[parameter]
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for place, (key, value) in enumerate(list(optimizer.state.items())):
        if id(key) not in known:
            yield f".state{_name_of(key, place)}", value
    for name, value in list(optimizer.__dict__.items()):
        if name not in ("param_groups", "state"):
            yield f".{name}", value


def note(keep: bool = False, **roots: Any) -> Note:
    """Of all that hangs on these, and of the random streams."""
    made = Note(keep)
    for name, root in roots.items():
        made.take(name, root)
    made.lines["torch's random stream"] = hashlib.sha256(bits(torch.get_rng_state())).hexdigest()[:16]
    made.lines["Python's random stream"] = hashlib.sha256(repr(random.getstate()).encode()).hexdigest()[:16]
    return made


def changes(before: Note, after: Note) -> list[str]:
    """Of the same objects: what has another line, another identity, came or went."""
    found = []
    for path, line in before.lines.items():
        now = after.lines.get(path)
        if now is None:
            found.append(f"{path} is gone")
        elif now != line:
            found.append(f"{path} was {line}, is {now}")
        elif before.held.get(path) != after.held.get(path):
            found.append(f"{path} is another object")
    return found + [f"{path} is new: {line}" for path, line in after.lines.items() if path not in before.lines]
