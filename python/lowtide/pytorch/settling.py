"""What becomes of the state that the forward pass keeps (carried.py): whether the captured step depends on it, found out by tracing again.

    numbers that move   one trace with objects in their place that note what is asked of them (moving.py). The plan holds while the answers are
                        the same; where the code takes a number that is another one in each step, it is refused by name
    lists that grow     one with copies in their place that note whether they are used; one that is gets a plan for each length, if these have
                        an end, else it is refused by name
    all else            one from the state behind the step (`needs_again`). Where the graph is the same, plans hold for the kind of the state, and
                        for the words and flags of both traces; where it is another one, for the state that the first began with

Nothing is taken not to matter because one more trace did not show that it does. Tests: tests/python/test_torch_moving.py, test_torch_state.py.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree

from ..errors import Unsupported, Usage
from .carried import Carried, Growth, Held, Moving, Number, Opaque, Output, View, Write, made
from .externals import geometry_of
from .held_places import kind_of
from .moving import Of, Record, Watch, evaluate, numbers_in
from .reachable import MISSING, Dictionary, Place, Room, Set
from .step_numbers import stand_in
from .tables import Table, Word, folded, where
from .untouched import PLAIN, Note, same

if TYPE_CHECKING:
    from .trace import Trace

MOST_LENGTHS = 8  # of a list with an end, each of which may ask for a plan


class Settled(Exception):
    """The cause of a refusal that no other way of tracing mends."""


def settle_kept(trace: Trace, note: Note, run: Callable[..., None], new: Callable[[], tuple[Trace, Note]]) -> None:
    """`run(trace, note, entering)` traces the step; `new`: another trace, with a note of what there is now."""
    try:
        _read_numbers_before(trace, note, run)
        told = _settle_numbers(trace, note, run)
        first = trace.carried
        if needs_again(first):
            second, equal = _from_the_state_behind(trace, note, run, new)
            settle_state(first, second, equal)
            told += _settle_growths(trace, second, note, run, new)
    except Unsupported as refused:
        raise refused from Settled()
    if told:
        warnings.warn(f"lowtide: the forward pass itself moves {', '.join(told)}; the captured step does not depend on it, so it is moved on "
                      "behind each step, and where a comparison of it comes out otherwise, the step is captured anew", stacklevel=6)


def _read_numbers_before(trace: Trace, note: Note, run: Callable[..., None]) -> None:
    """Traces once more with numbers read in each step in the place of those that the step exchanges for numbers of its own: it may be that it
    has added to them."""
    with_numbers = dataclasses.replace(trace, numbers=[Place(write.room, write.key) for write in trace.carried.writes if type(write.before) in (int, float)
                                                       and len(write.sources) == 1 and _is_step_number(write.sources[0])])
    if with_numbers.numbers:
        try:
            run(with_numbers, note, None)
        except (Unsupported, Usage):
            return  # they are asked for at once: the plan holds for them, or is refused
        vars(trace).update(vars(with_numbers))


def _is_step_number(source: Any) -> bool:
    return isinstance(source, Number) and source.kind is not bool


def _settle_numbers(trace: Trace, note: Note, run: Callable[..., None]) -> list[str]:
    """Traces once more with a record of the numbers that move, if there are any: their names, with their values."""
    roots, lines = _numbers(trace), list(graph_of(trace.module, trace.externals))
    if not roots:
        return []
    record = Record([])
    while len(record.roots) < len(roots):  # a number that stays by chance is found by what it is made of
        record = Record(roots)
        try:
            run(trace, note, record)
            why = "" if list(graph_of(trace.module, trace.externals)) == lines else "the step is another one where it is followed"
        except (Unsupported, Usage) as problem:
            why = str(problem)
        if why:
            raise Unsupported(_NOT_FOLLOWED.format(roots[0].room.named(roots[0].key), record.before[0], why))
        roots = list(dict.fromkeys([*roots, *_numbers(trace)]))
    trace.carried.record = record
    states = [record.before]
    for _ in range(3):
        states.append(_numbers_behind(trace.carried, record, states[-1]))
    always = record.moves_always(states[:3])
    if always is not None:
        k = record.roots.index(always)
        raise Unsupported(_MOVING.format(always.room.named(always.key), *(repr(numbers[k]) for numbers in states[:3])))
    return [f"{root.room.named(root.key)} ({', '.join(repr(numbers[k]) for numbers in states[:3])})" for k, root in enumerate(roots)
            if not same(states[0][k], states[1][k])]


def _numbers(trace: Trace) -> list[Of]:
    """Those in entries that the step writes, and does not read as tensors."""
    read = {(id(place.room.owner), place.key) for place in trace.numbers}
    return [of for write in trace.carried.writes if write.before is not MISSING and (id(write.room.owner), write.key) not in read for of in numbers_in(write.room, write.key, write.before)]


def _numbers_behind(carried: Carried, record: Record, numbers: list[Any]) -> list[Any]:
    """The numbers behind a step that begins with these; what no number follows stays."""
    sources = {(id(write.room.owner), write.key): write.sources for write in carried.writes}
    found = []
    for root, now in zip(record.roots, numbers, strict=True):
        of = sources.get((id(root.room.owner), root.key), [])
        source = of[root.leaf] if root.leaf < len(of) else None
        try:
            found.append(evaluate(source.of, numbers) if isinstance(source, Moving) else stand_in(source.kind, now) if _is_step_number(source) else now)
        except ArithmeticError:
            found.append(now)
    return found


def _from_the_state_behind(trace: Trace, note: Note, run: Callable[..., None], new: Callable[[], tuple[Trace, Note]]) -> tuple[Carried, bool]:
    """What a second step carries, and whether its graph is the same."""
    second, equal = Carried(), False
    try:
        enter_state_behind(trace.carried)
        again, behind = new()
        run(again, behind, None)
        second = again.carried
        equal = list(graph_of(trace.module, trace.externals)) == list(graph_of(again.module, again.externals))
        tables = {(id(write.room.owner), write.key) for write in trace.carried.writes if _is_table(write)}
        if tables and not equal:
            lines = folded(trace.module, trace.externals, ())
            equal = lines is not None and lines == folded(again.module, again.externals, tables)
    except Unsupported:
        pass  # the next step says so
    finally:
        note.put_back()
    return second, equal


def needs_again(carried: Carried) -> bool:
    """Whether the graph may depend on what changed: a tensor in the place of a tensor of the same kind changes nothing."""
    return bool(carried.gone or carried.growths) or any(
        _plain(write) or kind_of(write.before) != kind_of(_stand_in(write)) for write in carried.writes)


def _is_table(write: Write) -> bool:
    return bool(write.sources) and all(isinstance(source, Held) for source in write.sources)


def _plain(write: Write) -> bool:
    return not all(isinstance(source, (Output, View, Held, Moving)) for source in write.sources)


def _stand_in(write: Write) -> Any:
    """A value like the one that the step would leave."""
    def like(source: Any) -> Any:
        if isinstance(source, Output):
            shape, stride, dtype, device = source.geometry
            return torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()
        if isinstance(source, View):
            return _stand_in_of_view(source)
        if isinstance(source, Number):
            return stand_in(source.kind, write.before)
        return source.value if isinstance(source, (Opaque, Moving)) else made(source, [], [], [])

    return pytree.tree_unflatten(list(map(like, write.sources)), write.tree)


def _stand_in_of_view(view: View) -> torch.Tensor:
    try:
        return view.make([])
    except IndexError:  # of the batch or the model, which is as good as any
        return torch.zeros(view.part[0] if view.part is not None else ())


def enter_state_behind(carried: Carried) -> None:
    for write in carried.writes:
        write.room.put(write.key, _stand_in(write))
    for growth in carried.growths:
        growth.room.grow(growth.dropped, [_stand_in(write) for write in growth.added])
    for room, key in carried.gone:
        room.write({name: value for name, value in room.read().items() if name != key})


def settle_state(first: Carried, second: Carried, equal: bool) -> None:
    """What the second trace says of the first. Raises Unsupported for a word in a tuple that is another one in each step."""
    first.steady = equal
    _refuse_wandering(first, second)
    later = {(id(write.room.owner), write.key): write for write in second.writes}
    for write in first.writes:
        after = later.get((id(write.room.owner), write.key))
        if _is_table(write) and equal:
            leaves = [source.tensor for source in write.sources]
            write.table = Table(Place(write.room, write.key), write.before, leaves, write.tree, serves=True)
            write.table.serves = after is None or _is_table(after) and write.table.lies(
                pytree.tree_unflatten([source.tensor for source in after.sources], after.tree))
        then = after.sources if after is not None else write.sources
        plain = [k for k, source in enumerate(write.sources) if type(source) in PLAIN or source is None]
        if any(k >= len(then) or not same(write.sources[k], then[k]) for k in plain):  # it goes on and on
            if len(write.sources) > 1 and equal:
                k = next(k for k in plain if k >= len(then) or not same(write.sources[k], then[k]))
                raise Unsupported(_MOVING.format(write.name, "nothing", repr(write.sources[k]), repr(then[k]) if k < len(then) else "nothing"))
            write.held = True
        elif plain and len(write.sources) == 1:
            write.values = (write.before, write.sources[0])


def _settle_growths(trace: Trace, second: Carried, note: Note, run: Callable[..., None], new: Callable[[], tuple[Trace, Note]]) -> list[str]:
    """Lists that are longer behind the step. Raises Unsupported for one that the step uses and that has no end."""
    growing = [growth for growth in trace.carried.growths if growth.grows or not all(isinstance(value, torch.Tensor) for value in growth.room.seen.values())]
    if not growing:
        return []
    used = _used(growing, note, run, new)
    later = {id(growth.room.owner): (growth.dropped, len(growth.added)) for growth in second.growths}
    told = []
    for growth in growing:
        owner = growth.room.owner
        longest = getattr(owner, "maxlen", None)
        if id(owner) not in used:
            growth.unread = True
            told += [f"the length of {growth.name}"] if growth.grows else []
        elif growth.grows and later.get(id(owner)) == (growth.dropped, len(growth.added)) and (longest is None or longest - len(owner) > MOST_LENGTHS):
            raise Unsupported(_GROWING.format(growth.name))
        else:
            growth.held = True
    return told


def _used(growing: list[Growth], note: Note, run: Callable[..., None], new: Callable[[], tuple[Trace, Note]]) -> set[int]:
    """Of which lists something is read, by id."""
    watch = Watch([(growth.room.owner, note.reachable.containers.get(id(growth.room.owner))) for growth in growing])
    try:
        run(new()[0], note, watch)
    except (Unsupported, Usage):
        return {id(growth.room.owner) for growth in growing}
    return watch.in_the_end()


def _refuse_wandering(first: Carried, second: Carried) -> None:
    """Raises Unsupported where the second step writes an entry of a dict or a set that the first does not: each step would write another
    one. A tensor in a set is another entry in each step, as in eager mode. Entries that come or go elsewhere make another plan."""
    def places(carried: Carried) -> dict[tuple[int, Any], Room]:
        return {(id(room.owner), key): room for room, key in [*((write.room, write.key) for write in carried.writes if not _of_tensor_in_set(write)),
                                                              *carried.gone]}

    before = places(first)
    rooms = {of for of, _ in before}
    for (of, key), room in places(second).items():
        if (of, key) in before:
            continue
        if of in rooms and (isinstance(room, Set) or type(room) is Dictionary and not room.of_object):
            raise Unsupported(_WANDERING.format(room.path, _said(room.seen.get(key, room.get(key)) if isinstance(room, Set) else key)))
        first.steady = False


def _of_tensor_in_set(write: Write) -> bool:
    return isinstance(write.room, Set) and not _plain(write)


_WANDERING = ("the forward pass changes '{}' elsewhere in each step ({} in the second), and a planned step writes the same entries each time; a "
              "list that is appended to, or a tensor, is carried from step to step")
_MOVING = ("the forward pass moves '{}' ({}, {}, {}), and the step depends on it, so each step would be another one; as a tensor "
           "(register_buffer, and torch's ops in the place of Python's) it is read in each step")
_GROWING = ("the forward pass makes '{}' longer, and the step depends on it, so each step would be another one; a tensor of a fixed size, or a "
            "count in a buffer, is read in each step")
_NOT_FOLLOWED = ("the forward pass moves '{}' (from {}), and what the step makes of it cannot be followed: {}; as a tensor (register_buffer, and torch's "
                 "ops in the place of Python's) it is read in each step")


def _said(value: Any) -> str:
    return "nothing" if value is MISSING else repr(value)


def graph_of(module: torch.fx.GraphModule, externals: Mapping[str, Any]) -> Iterator[str]:
    """The graph as lines: equal where two traces are the same step."""
    numbers: dict[torch.fx.Node, str] = {}
    for number, node in enumerate(module.graph.nodes):
        numbers[node] = f"n{number}"
        target: Any = node.target
        if node.op == "get_attr":
            external = externals.get(node.target)
            value = getattr(module, node.target)
            if external is not None and external.place is not None:
                target = where(external)
            elif isinstance(value, torch.Tensor):
                target = (geometry_of(value), value.flatten().tolist() if value.numel() <= 4096 else id(value))
        elif node.op == "placeholder":
            target = node.meta["val"].shape
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: Word(numbers[n]))
        yield f"{node.op} {target} {args!r} {kwargs!r}"
