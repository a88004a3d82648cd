"""A step in parts along its samples, by the planner's own fission (src/fission).

    captured calls -> a graph of rows -> the library cuts it -> calls in parts

Each call goes over as the row of the op table that it is (rows.py), each tensor as a value; views are ops like others. What comes
back is that graph with ops cut, "12:mm/part3" the fourth part of call 12, and what joins parts: Slice, Concat, Add. Read in
order, it becomes calls of the same ATen ops again:

    Slice     a view on the whole
    Concat    the parts are copied into the whole as they are made; who reads a part after that reads it there
    Add       the first part makes the sum, the others add to it

This graph says what may be cut, the one that is planned (graph_text.py) what lies where: its values are storages, its ops the
units that these calls become, each measured at its own shape. So a step that nothing cuts is planned as ever.

Before they go over, writes in place become values of their own, and means become sums that are divided. A call whose parts make other
shapes than its row promises stays whole, as calls without rows do; the library is then asked again. So any labels are right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses import FakeTensorMode

from ..errors import BadInput
from .calls import Call, Program, Ref, instead_of
from .masks import draws_of_bytes
from .means import sums_for_means
from .norms import in_passes
from .parts import Named, added, all_of, free_of_contents, written_into
from .row_graph import Question, ask
from .rows import refs, sized
from .units import without_writes

aten = torch.ops.aten
LITTLE = 16  # what is no more than the largest value over this is not worth waiting for
FIXED = {"pads", "strides", "dilations", "group", "output_spatial"}  # attributes of rows that a part has as its whole


@dataclass
class InParts:
    """`parts`: the most that a call runs in; 1: nothing is cut. `coupled`: calls that need all parts of an operand at once, and
    where they stand."""

    parts: int = 1
    coupled: list[str] = field(default_factory=list)


class _Whole(Exception):  # noqa: N818: no error, an answer
    """A call that cannot run in parts."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.name)
        self.call = call


@dataclass(frozen=True)
class _Piece:
    """What a part makes of the result `out` of op `op`."""

    op: int
    out: int
    part: int


_RESHAPING = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unflatten.int, aten.flatten.using_ints)
_NAME = re.compile(r"(\d+):[^/]*(?:/part(\d+))?(?:#\d+)?$")


def _rows_of(dim: int, begin: int, size: int) -> Named:
    return Named(lambda t: t.narrow(dim, begin, size), f"{size} along {dim}")


def _lying(strides: tuple[int | None, ...]) -> Named:
    """The same with other strides along axes that are 1 long."""
    return Named(lambda t: t.as_strided(t.shape, [a if b is None else b for a, b in zip(t.stride(), strides, strict=True)]), f"lying {strides}")


def _copied_into(where: Named) -> Named:
    def copy(into: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        where(into).copy_(part)
        return into

    return Named(copy, f"copied into {where!r}")


class _Trial:
    """Shapes and strides of what a call makes, by PyTorch's own shape functions; nothing is computed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.mode = program.layouts.mode() if program.layouts is not None else FakeTensorMode()  # as the step was traced
        self.known: dict[str, list[tuple]] = {}

    def results(self, target: Callable, args: tuple, kwargs: dict[str, Any]) -> list[tuple]:
        """(shape, stride, dtype, bytes, device) of each result. Raises what PyTorch raises."""
        def stand(leaf: Any) -> Any:
            if not isinstance(leaf, Ref):
                return leaf
            like = self.program.tensors[leaf.id]
            return (like.shape, like.stride, like.dtype, like.device)

        def fake(leaf: Any) -> Any:
            if not isinstance(leaf, Ref):
                return leaf
            like = self.program.tensors[leaf.id]
            return torch.empty_strided(like.shape, like.stride, dtype=like.dtype, device=like.device)

        key = repr((target, pytree.tree_map(stand, (args, kwargs), is_leaf=lambda x: isinstance(x, Ref))))
        if key not in self.known:
            with self.mode, torch.no_grad():
                given, named = pytree.tree_map(fake, (args, kwargs), is_leaf=lambda x: isinstance(x, Ref))
                made = target(*given, **named)
            found = list(made) if isinstance(made, (list, tuple)) else [made]
            self.known[key] = [(tuple(t.shape), tuple(t.stride()), t.dtype, t.untyped_storage().nbytes(), t.device)
                               if isinstance(t, torch.Tensor) else None for t in found]
        return self.known[key]


class _Lowering:
    """Reads the graph in parts, in order."""

    def __init__(self, program: Program, question: Question, graph: dict[str, Any]) -> None:
        self.program, self.question = program, question
        self.values, self.ops = graph["values"], graph["ops"]
        self.trial = _Trial(program)
        self.calls: list[Call] = []
        self.tensors = {k: int(value["name"][1:]) for k, value in enumerate(self.values) if "initial" in value}  # value -> tensor
        self.pieces: dict[int, _Piece] = {}  # value -> what it is
        self.sums: dict[int, tuple[int, int, int]] = {}  # value -> op, result, how many parts are in it
        self.waiting: dict[int, tuple[Call, tuple, dict[str, Any]]] = {}  # a share that its Add will make
        self.views: dict[tuple, int] = {}
        self.count: dict[int, int] = {}  # op -> parts
        self.at: dict[tuple[int, int], list[int]] = {}  # op, result -> where its pieces begin, and the end
        self.chains: dict[tuple[int, int], list[int]] = {}  # op, result -> the whole after each part
        self.wanted: set[int] = set()  # tensors that are wanted whole and made in parts
        self.readers: dict[int, list[dict[str, Any]]] = {}
        self.coupled: dict[int, None] = {}  # ops

        self.look_ahead()

    def run(self) -> InParts:
        for op in self.ops:
            found = _NAME.match(op["name"])
            if op["name"] == "results":
                continue
            if found is None:
                self.join(op)
            elif found[2] is None:
                self.take_whole(int(found[1]), op)
            else:
                self.take_part(int(found[1]), int(found[2]), op)
        return InParts(max(self.count.values(), default=1), [self.said(k) for k in self.coupled])

    def waited_for(self) -> set[int]:
        """Calls in parts that make little, for calls that wait for all of their parts (a loss that counts its labels): whole,
        they are there before the first part begins, and nothing waits."""
        most = max((s.bytes for s in self.program.storages), default=0) // LITTLE
        maker = {value: k for k, op in enumerate(self.question.ops) for value in op["outputs"]}
        found: set[int] = set()
        for coupled in self.coupled:
            before: set[int] = set()
            waiting = [coupled]
            while waiting:
                makers = {maker[v] for v in self.question.ops[waiting.pop()]["inputs"] if v in maker}
                waiting += [k for k in makers if k in self.count and k not in before]
                before |= {k for k in makers if k in self.count}
            calls = [self.question.calls[k] for k in before]
            made = {self.program.tensors[o].storage for c in calls if not c.view for o in c.outs if o is not None}
            if sum(self.program.storages[s].bytes for s in made) <= most:
                found |= {id(call) for call in calls}
        return found

    def said(self, number: int) -> str:
        call = self.question.calls[number]
        return f"{call.name} ({call.place})" if call.place else call.name

    # ---- what is wanted whole

    def look_ahead(self) -> None:
        made: dict[int, tuple[int, int]] = {}
        for op in self.ops:
            found = _NAME.match(op["name"])
            for value in op["inputs"]:
                if value is not None:
                    self.readers.setdefault(value, []).append(op)
            if found is not None and found[2] is not None:
                self.count[int(found[1])] = self.count.get(int(found[1]), 0) + 1
                made.update({value: (int(found[1]), o) for o, value in enumerate(op["outputs"])})
        for op in self.ops:
            if op["kind"] == "Concat" and _NAME.match(op["name"]) is None and self.is_all(op, made):
                self.want(self.result(*made[op["inputs"][0]]))
                for reader in self.readers.get(op["outputs"][0], ()):
                    found = _NAME.match(reader["name"])
                    if found is not None and found[2] is None and not self.question.calls[int(found[1])].view:
                        self.coupled[int(found[1])] = None

    def is_all(self, op: dict[str, Any], made: dict[int, tuple[int, int]]) -> bool:
        of = {made.get(value) for value in op["inputs"]}
        return len(of) == 1 and None not in of and len(op["inputs"]) == self.count[next(iter(of))[0]]

    def result(self, number: int, out: int) -> int:
        """The tensor in the captured step."""
        return [o for o in self.question.calls[number].outs if o is not None][out]

    def want(self, tensor: int) -> None:
        """What a view shows."""
        while self.program.tensors[tensor].recipe is not None:
            tensor = self.program.tensors[tensor].recipe.tensors()[0]
        self.wanted.add(tensor)

    # ---- ops that stay whole, and what joins parts

    def take_whole(self, number: int, op: dict[str, Any]) -> None:
        call = self.question.calls[number]
        new = [o for o in call.outs if o is not None][-len(op["outputs"]):] if op["outputs"] else []
        self.tensors.update(zip(op["outputs"], new, strict=True))
        if not call.view:
            self.calls.append(call)

    def join(self, op: dict[str, Any]) -> None:
        value, inputs = op["outputs"][0], op["inputs"]
        if op["kind"] == "Slice":
            sizes = op["attrs"]["sizes"]
            dims = [d for d, n in enumerate(self.values[inputs[0]]["dims"]) if n != sizes[d]]
            if len(dims) > 1:
                raise _Whole(self.question.calls[self.owner(inputs)])
            dim = dims[0] if dims else 0
            self.tensors[value] = self.narrowed(self.tensor(inputs[0]), dim, op["attrs"]["starts"][dim], sizes[dim])
        elif op["kind"] == "Concat":
            self.concat(op)
        elif op["kind"] == "Add" and inputs[0] in self.sums:
            self.add_share(value, inputs[0], inputs[1])
        else:
            raise _Whole(self.question.calls[self.owner(inputs)])

    def owner(self, inputs: list[int]) -> int:
        """The op in parts that a helper serves."""
        waiting = list(inputs)
        while waiting:
            value = waiting.pop()
            if value in self.sums:
                return self.sums[value][0]
            if value in self.pieces:
                return self.pieces[value].op
            maker = next((op for op in self.ops if value in op["outputs"]), None)
            waiting += [v for v in (maker["inputs"] if maker is not None else ()) if v is not None]
        raise AssertionError("a helper joins parts")

    def concat(self, op: dict[str, Any]) -> None:
        value, inputs = op["outputs"][0], op["inputs"]
        found = [self.pieces.get(v) for v in inputs]
        first = found[0]
        if first is not None and len(found) == self.count[first.op] and all(p is not None and p.op == first.op for p in found):
            self.tensors[value] = self.result(first.op, first.out)
            return
        call = self.question.calls[self.owner(inputs)]
        made = self.made(call, aten.cat.default, ([Ref(self.tensor(v)) for v in inputs], op["attrs"]["axis"]), {})
        self.calls.append(made)
        self.tensors[value] = made.outs[0]

    # ---- parts

    def tensor(self, value: int) -> int:
        """What the value is now: a piece of a whole that is there lies in it."""
        piece = self.pieces.get(value)
        if piece is None or (piece.op, piece.out) not in self.chains or not self.is_complete(piece):
            return self.tensors[value]
        begins = self.at[piece.op, piece.out]
        whole = self.result(piece.op, piece.out)
        dim = self.dim_of(value, whole)
        return self.narrowed(whole, dim, begins[piece.part], begins[piece.part + 1] - begins[piece.part])

    def is_complete(self, piece: _Piece) -> bool:
        return len(self.at[piece.op, piece.out]) == self.count[piece.op] + 1

    def dim_of(self, value: int, whole: int) -> int:
        """Along which the value is a piece."""
        shape = self.program.tensors[whole].shape
        return next(d for d, n in enumerate(self.values[value]["dims"]) if n != shape[d])

    def narrowed(self, tensor: int, dim: int, begin: int, size: int) -> int:
        key = (tensor, dim, begin, size)
        if key not in self.views:
            like = self.program.tensors[tensor]
            recipe = Call(aten.slice.Tensor, (Ref(tensor), dim, begin, begin + size), {}, [], False, view=True)
            made = self.program.add_tensor(like, like.storage, recipe)
            self.program.tensors[made].shape = (*like.shape[:dim], size, *like.shape[dim + 1:])
            recipe.outs = [made]
            self.views[key] = made
        return self.views[key]

    def arguments(self, number: int, op: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The operands of a part in the places of the call's."""
        call, row = self.question.calls[number], self.question.rows[number]
        # A part of rows of pixels has other pads than the whole, which PyTorch's call would not know.
        if any(op["attrs"].get(name) != value for name, value in row.attrs.items() if name in FIXED):
            raise _Whole(call)
        count = len(refs(call))
        places = row.operands if row.operands is not None else list(range(count))
        given: dict[int, int] = {}
        for place, value in zip(places, op["inputs"], strict=False):
            if place is None:
                continue
            if value is None:
                raise _Whole(call)
            given[place] = self.tensor(value)
        operands: Iterator[int] = iter(range(count))
        shapes = [tuple(self.values[v]["dims"]) for v in op["outputs"]]
        inputs = [self.program.tensors[given[k]].shape for k in range(count)]
        args, kwargs = sized(call, shapes, inputs)
        return pytree.tree_map(lambda leaf: Ref(given[next(operands)]) if isinstance(leaf, Ref) else leaf, (args, kwargs),
                               is_leaf=lambda x: isinstance(x, Ref))

    def made(self, call: Call, target: Callable, args: tuple, kwargs: dict[str, Any], kept: list[bool] | None = None) -> Call:
        """The call with new tensors for its results."""
        results = self.trial.results(target, args, kwargs)
        many = isinstance(target, torch._ops.OpOverload) and (len(target._schema.returns) > 1 or call.many and call.target is target)
        new = Call(target, args, kwargs, [], many, call.phase, call.place, view=call.view and call.target is target)
        for k, result in enumerate(results):
            if result is None or (kept is not None and not kept[k]):
                new.outs.append(None)
                continue
            shape, stride, dtype, size, device = result
            source = self.program.tensors[new.tensors()[0]].storage if new.view else None
            tensor = self.program.add_tensor(torch.empty(0, dtype=dtype), source, new if new.view else None, k)
            self.program.tensors[tensor].shape, self.program.tensors[tensor].stride = shape, stride
            self.program.tensors[tensor].device = device
            if source is None:
                self.program.storages[-1].bytes = size
            new.outs.append(tensor)
        return new

    def lying_as(self, view: int, call: Call, whole: int) -> int:
        """A view of a part with the strides of the whole's view along axes that are 1 long now. PyTorch's reshaping gives those any stride, whatever
        its shape functions say, and some of its kernels (the gradient of batch norm) then take channels that lie last for ones that do not."""
        part, like = self.program.tensors[view], self.program.tensors[whole]
        kept = len(part.shape) != len(like.shape) or not any(n == 1 < m for n, m in zip(part.shape, like.shape, strict=True))
        if kept or call.target not in _RESHAPING:
            return view
        stride = tuple(b if n == 1 < m else a for a, b, n, m in zip(part.stride, like.stride, part.shape, like.shape, strict=True))
        recipe = Call(_lying(tuple(b if n == 1 < m else None for b, n, m in zip(like.stride, part.shape, like.shape, strict=True))), (Ref(view),), {},
                      [], False, view=True)
        made = self.program.add_tensor(part, part.storage, recipe)
        self.program.tensors[made].stride = stride
        recipe.outs = [made]
        return made

    def take_part(self, number: int, part: int, op: dict[str, Any]) -> None:
        call = self.question.calls[number]
        args, kwargs = self.arguments(number, op)
        own = len(refs(call))
        sums = [tuple(self.values[v]["dims"]) == self.program.tensors[self.result(number, o)].shape
                for o, v in enumerate(op["outputs"])]
        before = next((v for v in op["inputs"][own:] if v is not None), None)
        if before is not None:  # an accumulator
            self.write_sum(op["outputs"][0], number, 0, self.sums[before][2] + 1, before, call, args, kwargs)
            return
        if all(sums) and len(sums) == 1 and part > 0 and self.goes_into_sum(op["outputs"][0]):
            self.waiting[op["outputs"][0]] = (call, args, kwargs)
            return
        new = self.new_call(call, args, kwargs)
        outs = [self.lying_as(o, call, k) if new.view else o for o, k in zip(new.outs, call.outs, strict=True) if o is not None]
        for o, value in enumerate(op["outputs"]):
            shape = self.program.tensors[outs[o]].shape
            if shape != tuple(self.values[value]["dims"]):
                raise _Whole(call)
            self.tensors[value] = outs[o]
            if sums[o]:
                self.sums[value] = (number, o, 1)
            else:
                self.pieces[value] = _Piece(number, o, part)
        if not new.view:
            self.calls.append(new)
        self.copy_pieces(number, op, call)

    def new_call(self, call: Call, args: tuple, kwargs: dict[str, Any]) -> Call:
        kept = [o is not None for o in call.outs]
        try:
            return self.made(call, call.target, args, kwargs, kept)
        except Exception:
            if not call.view:
                raise _Whole(call) from None
        # A piece of a whole has gaps that such a view cannot skip: a copy of it has none.
        copy = self.made(call, aten.clone.default, (args[0],), {"memory_format": torch.contiguous_format})
        self.calls.append(copy)
        try:
            return self.made(call, call.target, (Ref(copy.outs[0]), *args[1:]), kwargs, kept)
        except Exception:
            raise _Whole(call) from None

    def goes_into_sum(self, value: int) -> bool:
        readers = self.readers.get(value, ())
        return len(readers) == 1 and readers[0]["kind"] == "Add" and readers[0]["inputs"][1] == value \
            and _NAME.match(readers[0]["name"]) is None

    def copy_pieces(self, number: int, op: dict[str, Any], call: Call) -> None:
        """Into the wholes that are wanted."""
        for o, value in enumerate(op["outputs"]):
            if value not in self.pieces:
                continue
            whole = self.result(number, o)
            like, dim = self.program.tensors[whole], self.dim_of(value, whole)
            begins = self.at.setdefault((number, o), [0])
            begins.append(begins[-1] + self.values[value]["dims"][dim])
            if whole not in self.wanted or like.recipe is not None:
                continue
            if (number, o) not in self.chains:
                count = self.count[number]
                self.chains[number, o] = [*(self.program.add_tensor(like, None) for _ in range(count)), whole]
                empty = Named(lambda s=like.shape, d=like.stride, t=like.dtype, on=like.device: torch.empty_strided(s, d, dtype=t, device=on),
                              f"empty {like.shape} {like.stride} {like.dtype} {like.device}")
                self.calls.append(Call(empty, (), {}, [self.chains[number, o][0]], False, call.phase, call.place))
            chain, part = self.chains[number, o], len(begins) - 2
            function = _copied_into(_rows_of(dim, begins[part], begins[part + 1] - begins[part]))
            self.calls.append(written_into(chain[part], chain[part + 1], function, (Ref(self.tensors[value]),), {}, call))

    # ---- sums

    def add_share(self, value: int, before: int, share: int) -> None:
        number, out, so_far = self.sums[before]
        if share in self.waiting:
            call, args, kwargs = self.waiting.pop(share)
            self.write_sum(value, number, out, so_far + 1, before, call, args, kwargs)
            return
        call, after = self.question.calls[number], self.after(number, out, so_far + 1)
        self.calls.append(instead_of(call, aten.add.Tensor, (Ref(self.tensors[before]), Ref(self.tensors[share])), after))
        self.tensors[value], self.sums[value] = after, (number, out, so_far + 1)

    def after(self, number: int, out: int, parts: int) -> int:
        whole = self.result(number, out)
        return whole if parts == self.count[number] else self.program.add_tensor(self.program.tensors[whole], None)

    def write_sum(self, value: int, number: int, out: int, parts: int, before: int, call: Call, args: tuple,
                  kwargs: dict[str, Any]) -> None:
        target = call.target
        if call.many:
            place = next(k for k, o in enumerate(call.outs) if o is not None)
            target = Named(lambda *a, f=call.target, p=place, **k: f(*a, **k)[p], f"{call.name}[{place}]")
        if self.shape_of_share(call, args, kwargs) != tuple(self.values[value]["dims"]):
            raise _Whole(call)
        after = self.after(number, out, parts)
        self.calls.append(written_into(self.tensors[before], after, added(target, call.name.removeprefix("aten."), all_of()),
                                       args, kwargs, call))
        self.tensors[value], self.sums[value] = after, (number, out, parts)

    def shape_of_share(self, call: Call, args: tuple, kwargs: dict[str, Any]) -> tuple[int, ...]:
        try:
            results = self.trial.results(call.target, args, kwargs)
        except Exception:
            raise _Whole(call) from None
        return next(r for r, o in zip(results, call.outs, strict=True) if o is not None)[0]


def _alike(program: Program, one: Call, other: Call) -> bool:
    """Whether what holds of the parts of one holds of the other's."""
    def shapes(call: Call) -> list[tuple]:
        return [(program.tensors[t].shape, program.tensors[t].dtype) for t in refs(call)]

    return one is other or (one.target is other.target and shapes(one) == shapes(other))


def _refused(question: Question, line: str) -> Call | None:
    """The call whose row or axes the op table refuses; None: the line is about labels."""
    named = None if line.startswith("--split") else re.search(r"ops\[(\d+)\]|'(\d+):", line)
    number = int(named[1] or named[2]) if named is not None else len(question.rows)
    return question.calls[number] if number < len(question.rows) and question.rows[number] is not None else None


def _drop_unread(program: Program) -> None:
    """Calls whose results nobody reads wait for nobody."""
    wanted = {program.tensors[o].storage for o in program.outputs if o is not None}
    kept = []
    for call in reversed(program.calls):
        made = {program.tensors[o].storage for o in call.outs if o is not None}
        if call.view or call.writes or call.hidden or call.random or not made or made & wanted:
            kept.append(call)
            wanted |= set() if call.view else {program.tensors[t].storage for t in call.tensors()}
    program.calls = kept[::-1]


def _forget_empty_statistics(program: Program) -> None:
    """A batch norm in evaluation hands no statistics to its gradient: two tensors without elements."""
    for call in program.calls:
        if call.target is aten.native_batch_norm_backward.default and not call.args[7]:
            call.args = (*call.args[:5], None, None, *call.args[7:])
    read = {t for call in program.calls for t in call.tensors()} | set(program.outputs)
    for call in program.calls:
        if call.target is aten.native_batch_norm.default and not call.args[5]:
            call.outs = [call.outs[0], *(o if o in read else None for o in call.outs[1:])]


def prepare(program: Program) -> None:
    """Makes of the calls what parts of them can do."""
    _forget_empty_statistics(program)
    in_passes(program)
    _drop_unread(program)
    draws_of_bytes(program)
    without_writes(program)
    sums_for_means(program)
    free_of_contents(program)


def cut(program: Program, labels: str) -> InParts:
    """Cuts the step as labels say, which are those of `--split` ("4"; "2,HEAD:8", too, which no option asks for). Changes nothing but writes in place and means where nothing
    can be cut. Raises Usage and BadInput for labels that the library refuses."""
    prepare(program)
    whole: set[int] = set()
    while True:
        question = Question(program, whole)
        text = question.write()
        try:
            lowering = _Lowering(program, question, ask(text, labels))
            if waited_for := lowering.waited_for() - whole:
                whole |= waited_for
                continue
            found = lowering.run()
        except _Whole as answer:
            whole |= {id(call) for call in question.calls if _alike(program, call, answer.call)}
            continue
        except BadInput as refusal:
            call = _refused(question, str(refusal))
            if call is None or id(call) in whole:
                raise
            whole.add(id(call))
            continue
        program.calls = lowering.calls
        return found

