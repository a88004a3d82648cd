"""Tensors without contents that a traced step has left somewhere that no walk over the user's objects comes to.

What can be reached is put back (untouched.py). Beside that the user's code may put a tensor anywhere: on a package's module, into an object of
C, into a cache in a package's closure. All tensors of the trace that still live are known to the garbage collector; those that the graph does
not hold are looked up by what refers to them, up to the first place that can be written and is neither PyTorch's nor ours. There the tensor is taken out,
and the step is refused with that place's name, as no step would put it there again.

Most captures leave some in cycles that nobody holds, and a process with PyTorch has a million objects, which a collection walks in .3 s. So all
objects that are there before a capture are frozen (`new_objects_apart`), and the collector looks at the capture's own. Only where a tensor outlives
that, a collection of all objects is made, and a pass over them for each level up to its holder.
A cache of functools has no place that can be written: it is emptied, as it makes anew what is asked for.
Tests: tests/python/test_torch_left_behind.py.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..errors import Unsupported
from .reachable import attributes_of

LEVELS = 8  # from a tensor up to what holds it
WIDEST = 50  # objects of a level
MOST = 8  # places
_OURS = ("torch.fx", "torch._", "torch.autograd", "torch.utils", "lowtide", "sympy", "weakref", "_weakref")  # whose objects hold tensors of a trace for a while
_CONTAINERS = (dict, list, set, frozenset, tuple, collections.deque)


class Left:
    """The tensors of some traces. `modes`: those that the traces made them in."""

    def __init__(self) -> None:
        self.modes: list[FakeTensorMode] = []
        self.clean = False  # none is anywhere

    def check(self, module: torch.fx.GraphModule, known: Iterable[Any]) -> None:
        """Raises Unsupported where one of them is left, and takes it out. `known`: what else holds some of them for us."""
        mine = {id(leaf) for leaf in pytree.tree_leaves([*(node.meta.get("val") for node in module.graph.nodes), *known])}
        if self.alive(mine):
            gc.collect()  # of the capture's own objects
        self.clean = not self.alive(mine)
        if self.clean:
            return
        with _thawed():
            empty_caches_of_fakes()
            gc.collect()
            place = next(iter(list(_taken_out(self.alive(mine)))), None)
        if place:
            raise Unsupported(f"the step cannot be captured: loss_fn leaves a tensor in {place}, and no planned step puts it there again; as an attribute "
                              "of the model, or in a list or dict that loss_fn names, it is put there in each step")

    def alive(self, mine: set[int]) -> list[torch.Tensor]:
        return [found for found in gc.get_referrers(FakeTensor) if type(found) is FakeTensor and id(found) not in mine
                and any(getattr(found, "fake_mode", None) is mode for mode in self.modes)]


@contextlib.contextmanager
def new_objects_apart() -> Iterator[None]:
    """Within, the collector looks at objects only that are made within. Where the user's code has called gc.freeze(), it is left as it is."""
    if gc.get_freeze_count() > 0:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _thawed() -> Iterator[None]:
    """Within, the collector looks at objects that gc.freeze() has hidden from it: holders may be among them."""
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    try:
        yield
    finally:
        if frozen:
            gc.freeze()


def _taken_out(tensors: list[torch.Tensor]) -> Iterator[str]:
    """The names of the places that held some of them, but for those where PyTorch and we do."""
    for _ in range(MOST):
        chain = _holders(tensors)
        if not chain:
            break
        root, where = chain[-1], None
        for held, holder, outer in zip(chain, chain[1:], [*chain[2:], None], strict=False):
            where = _drop(outer if issubclass(type(outer), type) and type(holder) is dict else holder, held)
            if where is not None:
                break
        named = issubclass(type(root), (types.ModuleType, type, types.FunctionType))
        name = getattr(root, "__qualname__", None) or root.__name__ if named else f"a {type(root).__qualname__}"
        yield f"{name}{where or ''}"
        if where is None:
            break


def _holders(tensors: list[torch.Tensor]) -> list[Any]:
    """A tensor, and what holds it, one in the other, up to an object that is no container; [] where that is PyTorch's, ours, too far or too much."""
    level: dict[int, Any] = {id(tensor): tensor for tensor in tensors[:WIDEST]}
    inner: dict[int, Any] = dict.fromkeys(level)
    for _ in range(LEVELS):
        found = gc.get_referrers(*level.values())
        above = {}
        for holder in found:
            if id(holder) in inner or any(holder is own for own in (level, inner, tensors)) or type(holder) is types.FrameType or _is_ours(holder):
                continue
            inner[id(holder)] = next((level[id(held)] for held in gc.get_referents(holder) if id(held) in level), None)
            if _is_root(holder):
                chain = [holder]
                while (held := inner[id(chain[-1])]) is not None:
                    chain.append(held)
                return chain[::-1]
            above[id(holder)] = holder
        level = above
        if not 0 < len(level) <= WIDEST:
            break
    return []


def _is_ours(thing: Any) -> bool:
    kind = type(thing)
    if kind is types.ModuleType:
        return thing.__name__.startswith(_OURS)
    of = thing if issubclass(kind, (type, types.FunctionType)) else kind
    return kind is Left or isinstance(of.__module__, str) and of.__module__.startswith(_OURS) and of not in (weakref.finalize, weakref.finalize._Info)


def _is_root(thing: Any) -> bool:
    kind = type(thing)
    return issubclass(kind, (types.ModuleType, type, types.FunctionType)) or not issubclass(kind, (*_CONTAINERS, weakref.finalize._Info)) and (
        kind.__module__ != "builtins")


def _drop(holder: Any, held: Any) -> str | None:
    """Takes something out of what holds it: under which name it lay there, if under any; None where it cannot be taken out."""
    if issubclass(type(holder), set):
        set.discard(holder, held)
        return ""
    if issubclass(type(holder), (list, collections.deque)):
        for place in [k for k, value in enumerate(list(holder)) if value is held][::-1]:
            del holder[place]
        return ""
    if issubclass(type(holder), types.CellType):
        holder.cell_contents = None
        return ""
    if issubclass(type(holder), type):
        places = [key for key, value in vars(holder).items() if value is held]
        for key in places:
            type.__delattr__(holder, key)
        return f".{places[0]}" if places else None
    entries = holder if issubclass(type(holder), dict) else attributes_of(holder)
    places = [key for key, value in dict.items(entries) if value is held] if isinstance(entries, dict) else []
    for key in places:
        if not isinstance(key, str) or "__builtins__" in entries or "__spec__" in entries:  # the second: names of a module
            del entries[key]
        else:
            entries[key] = None
    return None if not places else f".{places[0]}" if isinstance(places[0], str) else ""


def empty_caches_of_fakes() -> None:
    """Empties caches of functools.lru_cache that hold tensors without contents. Nobody can take one entry out of such a cache, and what it
    had before is made anew when it is asked for. Those of PyTorch and its libraries are its own."""
    kind = functools._lru_cache_wrapper  # an object refers to its type; get_referrers looks in C, twice as fast as a loop here
    with _thawed():
        caches = [thing for thing in gc.get_referrers(kind) if type(thing) is kind]
    for cache in caches:
        if not (cache.__module__ or "").startswith(("torch", "sympy", "lowtide")) and cache.cache_info().currsize and _has_fakes(cache):
            cache.cache_clear()


def _has_fakes(thing: Any) -> bool:
    """Whether a fake tensor lies in it, some containers deep."""
    level, seen = [thing], set()
    for _ in range(5):
        level = [inner for outer in level for inner in gc.get_referents(outer) if id(inner) not in seen
                 and (isinstance(inner, FakeTensor) or type(inner) in (tuple, list, dict) or type(inner).__name__ == "_lru_list_elem")]
        seen |= set(map(id, level))
        if any(isinstance(inner, FakeTensor) for inner in level):
            return True
    return False
