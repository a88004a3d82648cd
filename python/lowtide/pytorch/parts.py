"""Calls in parts: what is largest in a step is made, read and forgotten a few rows at a time, by the same ATen ops.

The loss of a language model is the case: logits, their logarithms and gradients are three times rows x vocabulary. A row of
any of them needs that row of the others alone (`_RULES` says so of each op), so all calls around the largest value are cut
along their rows into `count` parts:

    inside      a value that only these calls make and read is there by parts, each a value of its own
    outside     a value that others make lies whole, and parts read their rows of it; one that others read is made whole
                first, and parts write their rows
    summed      what adds up over rows (the weight's gradient, the loss) is made by the first part, the others add to it

Parts run one after the other where their operands allow, so that a part's rows of the logits become its rows of the
gradient before the next part begins. A mean over rows is the sum over parts divided by the count of rows, which depends on
the labels alone and is computed first. Sums over rows add in another order than eager mode; all else keeps its bits.

The gradient of an embedding that adds to another gradient of the same table (tied weights) is added in parts, too, by rows of
the table: there every bit stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from .calls import MADE, Call, Program, Ref
from .units import clone_exactly

aten = torch.ops.aten
CUT, SUM = "cut", "sum"
SHARE = 4  # a value is large if it is at least the largest over this
_SAME_ROWS = {aten.view.default, aten._unsafe_view.default, aten.detach.default, aten.alias.default}


# ---- what the generated code calls


class Named:
    """A function by its name: equal names are one kind of unit (measure.py), whatever rows they work on."""

    def __init__(self, function: Callable, name: str) -> None:
        self.function, self.__name__ = function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return self.__name__


def _rows(part: int, shape: tuple[int, ...], count: int) -> Named:
    """A part of the rows of a tensor without gaps, in that shape."""
    return Named(lambda t: t.view(count, *shape)[part], f"rows {shape} of {count}")


def _lines(begin: int, count: int) -> Named:
    return Named(lambda t: t.narrow(0, begin, count), f"{count} lines")


def all_of() -> Named:
    return Named(lambda t: t, "all")


# Functions that write what `where` shows of a value, and give the value.


def _placed(op: Callable, name: str, where: Named) -> Named:
    def place(into: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if op is aten.mm.default:
            torch.mm(*args, out=where(into))
        else:
            where(into).copy_(op(*args, **kwargs))
        return into

    return Named(place, f"{name} into {where!r}")


def added(op: Callable, name: str, where: Named) -> Named:
    def add(into: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if op is aten.mm.default:
            where(into).addmm_(*args)
        else:
            where(into).add_(op(*args, **kwargs))
        return into

    return Named(add, f"{name} added to {where!r}")


def nll_sum(scores: torch.Tensor, labels: torch.Tensor, ignored: int) -> torch.Tensor:
    op = aten.nll_loss2d_forward if labels.dim() > 1 else aten.nll_loss_forward
    return op.default(scores, labels, None, 2, ignored)[0]


def count_labels(labels: torch.Tensor, ignored: int, dtype: torch.dtype) -> torch.Tensor:
    """The total weight of nll_loss_forward: a whole number, so its bits do not depend on an order."""
    return (labels != ignored).sum().to(dtype)


def _embedding_lines(begin: int, count: int) -> Named:
    """Lines of an embedding's gradient: what belongs to others goes to one that is left away."""

    def gradient(grad: torch.Tensor, indices: torch.Tensor, padding: int) -> torch.Tensor:
        mine = (indices >= begin) & (indices < begin + count) & (indices != padding)
        local = torch.where(mine, indices - begin, count)
        return aten.embedding_dense_backward.default(grad, local, count + 1, count, False)[:count]

    return Named(gradient, f"embedding_dense_backward of {count} lines")


# ---- which ops can run by rows


class _How(NamedTuple):
    """A call in parts: the operands that are cut, and whether its result is cut or summed."""

    operands: tuple[int, ...]
    result: str


class _Region:
    """The calls around one large value, and how each of them runs in parts."""

    def __init__(self, program: Program, count: int, results: int) -> None:
        self.program, self.count = program, count
        self.makers: dict[int, Call] = {}
        self.readers: dict[int, list[Call]] = {}
        for call in program.calls:
            if call.view:
                continue
            for out in program.made_by(call):
                self.makers[self.storage(out)] = call
            for storage in {self.storage(t) for t in call.tensors()}:
                self.readers.setdefault(storage, []).append(call)
        self.written = {self.storage(t) for call in program.calls for t in (*call.writes, *call.hidden)}
        self.outputs = {self.storage(o) for o in program.outputs[:results] if o is not None}
        self.cut: set[int] = set()  # storages whose values are by rows
        self.how: dict[int, _How] = {}  # by the call's id()

    def storage(self, tensor: int) -> int:
        return self.program.tensors[tensor].storage

    # ---- shapes

    def shape(self, tensor: int) -> tuple[int, ...] | None:
        """The shape of a part; None where rows cannot be told apart. A row, which is the last dimension, stays whole."""
        like = self.program.tensors[tensor]
        count, found = self.count, list(like.shape)
        if not _dense(like.shape, like.stride):
            return None
        for i, extent in enumerate(found[:max(1, len(found) - 1)]):
            if extent % count == 0:
                found[i] = extent // count
                return tuple(found)
            if count % max(extent, 1) != 0:
                return None
            found[i], count = 1, count // extent
        return None

    def turned(self, tensor: int) -> int | None:
        """What the tensor is the transpose of."""
        recipe = self.program.tensors[tensor].recipe
        if recipe is None:
            return None
        if recipe.target in _SAME_ROWS:
            source = recipe.args[0].id
            return self.turned(source) if self.program.tensors[source].shape == self.program.tensors[tensor].shape else None
        return recipe.args[0].id if recipe.target is aten.t.default else None

    def by_rows(self, tensor: Any) -> bool:
        return isinstance(tensor, Ref) and self.shape(tensor.id) is not None and self.followed(tensor.id)

    def followed(self, tensor: int) -> bool:
        """Whether the way from its storage to a cut tensor keeps rows together."""
        while self.storage(tensor) in self.cut:
            recipe = self.program.tensors[tensor].recipe
            if recipe is None:
                return True
            if recipe.target not in _SAME_ROWS or self.shape(tensor) is None:
                return False
            tensor = recipe.args[0].id
        return True

    def is_cut(self, tensor: Any) -> bool:
        return isinstance(tensor, Ref) and self.storage(tensor.id) in self.cut

    # ---- rules

    def judge(self, call: Call) -> _How | None:
        """How the call runs by rows of what is cut; None: it does not."""
        if call.writes or call.hidden or call.random or call.view or not isinstance(call.target, torch._ops.OpOverload):
            return None
        rule = _RULES.get(call.target)
        if rule is None and torch.Tag.pointwise in call.target.tags and not call.many:
            rule = _pointwise
        how = rule(self, call) if rule is not None else None
        if how is None or (how.result == CUT and self.shape(call.outs[0]) is None):
            return None
        taken = set(how.operands)
        # A cut operand that the rule leaves whole would be there in parts only.
        return how if all(t in taken for t in call.tensors() if self.storage(t) in self.cut) else None

    def grow(self, seed: int) -> None:
        """From one value to all large ones that calls by rows join to it."""
        least = self.program.storages[seed].bytes // SHARE
        self.cut, waiting = {seed}, [seed]
        while waiting:
            storage = waiting.pop()
            for call in (self.makers[storage], *self.readers.get(storage, ())):
                if self.judge(call) is None:
                    continue
                joined = [t for t in (*call.tensors(), *(o for o in call.outs if o is not None))]
                for other in {self.storage(t) for t in joined} - self.cut:
                    if self.large(other, least) and self.joins(call, other):
                        self.cut.add(other)
                        waiting.append(other)
        self.settle()

    def large(self, storage: int, least: int) -> bool:
        found = self.program.storages[storage]
        return found.role == MADE and found.bytes >= least and storage in self.makers

    def joins(self, call: Call, storage: int) -> bool:
        """Whether the call works on that value by rows if it is cut."""
        self.cut.add(storage)
        how = self.judge(call)
        self.cut.discard(storage)
        if how is None:
            return False
        made = {self.storage(o) for o in call.outs if o is not None}
        return how.result == CUT if storage in made else True

    def settle(self) -> None:
        """The calls that run in parts; what a call needs whole is not cut."""
        calls = {id(c): c for s in self.cut for c in (self.makers[s], *self.readers.get(s, ()))}
        self.how = {}
        for key, call in calls.items():
            how = self.judge(call)
            if how is not None:
                self.how[key] = how

    def inside(self, storage: int) -> bool:
        """Whether only calls in parts know the value."""
        around = (self.makers[storage], *self.readers.get(storage, ()))
        return (storage in self.cut and storage not in self.outputs and storage not in self.written
                and all(id(call) in self.how for call in around) and self.how[id(around[0])].result == CUT)


def _dense(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    expected = 1
    for extent, step in zip(reversed(shape), reversed(stride), strict=True):
        if extent != 1 and step != expected:
            return False
        expected *= extent
    return True


def _mm(region: _Region, call: Call) -> _How | None:
    a, b = call.args
    source = region.turned(a.id)
    if source is not None and (region.is_cut(a) or region.is_cut(b)):
        both = region.by_rows(Ref(source)) and region.by_rows(b)
        return _How((a.id, b.id), SUM) if both else None
    return _How((a.id,), CUT) if region.by_rows(a) and not region.is_cut(b) else None


def _addmm(region: _Region, call: Call) -> _How | None:
    bias, a, b = call.args
    plain = len(region.program.tensors[bias.id].shape) == 1 and not call.kwargs
    return _How((a.id,), CUT) if plain and region.by_rows(a) and not region.is_cut(b) else None


def _last(region: _Region, tensor: Ref, dim: int) -> bool:
    rank = len(region.program.tensors[tensor.id].shape)
    shape = region.shape(tensor.id)
    return rank > 1 and dim in (-1, rank - 1) and shape is not None and shape[-1] == region.program.tensors[tensor.id].shape[-1]


def _softmax(region: _Region, call: Call) -> _How | None:
    x, dim = call.args[0], call.args[1]
    return _How((x.id,), CUT) if region.by_rows(x) and _last(region, x, dim) else None


def _softmax_backward(region: _Region, call: Call) -> _How | None:
    grad, out, dim = call.args[:3]
    good = region.by_rows(grad) and region.by_rows(out) and _last(region, out, dim)
    return _How((grad.id, out.id), CUT) if good else None


def _nll(region: _Region, call: Call) -> _How | None:
    scores, labels, weight, reduction, _ = call.args
    good = weight is None and reduction in (1, 2) and region.by_rows(scores) and region.by_rows(labels)
    whole = len(region.program.tensors[scores.id].shape) == 2 and not {region.storage(o) for o in call.outs} & region.cut
    return _How((scores.id, labels.id), SUM) if good and whole else None


def _nll_backward(region: _Region, call: Call) -> _How | None:
    _, scores, labels, weight, reduction, *_ = call.args
    good = weight is None and reduction in (1, 2) and region.by_rows(scores) and region.by_rows(labels)
    return _How((scores.id, labels.id), CUT) if good and len(region.program.tensors[scores.id].shape) == 2 else None


def _sum(region: _Region, call: Call) -> _How | None:
    x, dims = call.args[0], list(call.args[1])
    return _How((x.id,), SUM) if dims == [0] and not call.kwargs and region.by_rows(x) else None


def _pointwise(region: _Region, call: Call) -> _How | None:
    shape = region.program.tensors[call.outs[0]].shape
    taken = []
    for t in call.tensors():
        mine = region.program.tensors[t].shape
        if mine == shape and region.by_rows(Ref(t)):
            taken.append(t)
        elif not (len(mine) < 2 and len(shape) > 1 and (not mine or mine[0] in (1, shape[-1]))):
            return None
    part = region.shape(call.outs[0])
    return _How(tuple(taken), CUT) if taken and part is not None and part[-1] == shape[-1] else None


_RULES: dict[Any, Callable[[_Region, Call], _How | None]] = {
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten._log_softmax.default: _softmax,
    aten._softmax.default: _softmax,
    aten._log_softmax_backward_data.default: _softmax_backward,
    aten._softmax_backward_data.default: _softmax_backward,
    aten.nll_loss_forward.default: _nll,
    aten.nll_loss_backward.default: _nll_backward,
    aten.sum.dim_IntList: _sum,
    aten._to_copy.default: _pointwise,
}


# ---- the calls in parts


@dataclass
class _Writer:
    """Makes the calls that stand in the place of a region's."""

    region: _Region
    first: list[Call] = field(default_factory=list)  # before all parts
    parts: list[list[Call]] = field(default_factory=list)
    last: list[Call] = field(default_factory=list)
    of: dict[tuple[int, int], int] = field(default_factory=dict)  # (tensor, part) -> tensor

    @property
    def program(self) -> Program:
        return self.region.program

    def part(self, tensor: int, k: int) -> int:
        """The part of a tensor: one of its own, or rows of the whole."""
        if (tensor, k) in self.of:
            return self.of[tensor, k]
        like = self.program.tensors[tensor]
        inside = like.storage in self.region.makers and self.region.inside(like.storage)
        source = self.region.turned(tensor)
        if source is not None:
            rows = self.part(source, k)
            shape = self.program.tensors[rows].shape
            made = add_view(self.program, rows, rows, aten.t.default, (Ref(rows),), shape[::-1])
            self.program.tensors[made].stride = self.program.tensors[rows].stride[::-1]
        elif inside and like.recipe is not None:
            rows, shape = self.part(like.recipe.args[0].id, k), self.region.shape(tensor)
            made = add_view(self.program, rows, rows, aten.view.default, (Ref(rows), list(shape)), shape)
        elif inside:
            made = self.new(tensor, k)
        else:
            made = self.rows(tensor, k)
        self.of[tensor, k] = made
        return made

    def rows(self, tensor: int, k: int) -> int:
        """The part's rows of a value that is there whole."""
        shape = self.region.shape(tensor)
        return add_view(self.program, tensor, tensor, _rows(k, shape, self.region.count), (Ref(tensor),), shape)

    def new(self, tensor: int, k: int) -> int:
        like = self.program.tensors[tensor]
        made = self.program.add_tensor(like, None)
        shape = self.region.shape(tensor)
        self.program.tensors[made].shape, self.program.tensors[made].stride = shape, dense_strides(shape)
        self.program.storages[-1].bytes = self.program.storages[like.storage].bytes // self.region.count
        return made

    def arguments(self, call: Call, k: int) -> tuple[tuple, dict[str, Any]]:
        cut = set(self.region.how[id(call)].operands)
        args, kwargs = call.with_tensors(lambda t: self.part(t, k) if t in cut else t)
        return args, kwargs

    def take(self, call: Call) -> None:
        how = self.region.how[id(call)]
        if call.target is aten.nll_loss_forward.default:
            return self.take_nll(call)
        out = call.outs[0]
        name = call.name.removeprefix("aten.")
        inside = how.result == CUT and self.region.inside(self.region.storage(out))
        count, shape = self.region.count, self.region.shape(out)
        chain = [] if inside else self.chain(out, count if how.result == SUM else count + 1)
        if how.result == CUT and not inside:
            like = self.program.tensors[out]
            made = Named(lambda s=like.shape, d=like.dtype, on=like.device: torch.empty(s, dtype=d, device=on),
                         f"empty {like.shape} on {like.device}")
            self.first.append(Call(made, (), {}, [chain[0]], False, call.phase, call.place))
        for k in range(count):
            args, kwargs = self.arguments(call, k)
            if inside:
                new = Call(call.target, args, kwargs, [self.part(out, k)], call.many, call.phase, call.place)
            elif how.result == CUT:
                function = _placed(call.target, name, _rows(k, shape, count))
                new = written_into(chain[k], chain[k + 1], function, args, kwargs, call)
            elif k == 0:
                new = Call(call.target, args, kwargs, [chain[0]], call.many, call.phase, call.place)
            else:
                new = written_into(chain[k - 1], chain[k], added(call.target, name, all_of()), args, kwargs, call)
            self.parts[k].append(new)
        return None

    def chain(self, out: int, count: int) -> list[int]:
        """A value after each part; the last is what the others know."""
        return [*(self.program.add_tensor(self.program.tensors[out], None) for _ in range(count - 1)), out]

    def take_nll(self, call: Call) -> None:
        loss, weight = call.outs
        labels, reduction, ignored = call.args[1], call.args[3], call.args[4]
        like = self.program.tensors[loss]
        self.first.append(Call(count_labels, (labels, ignored, like.dtype), {}, [weight], False, call.phase, call.place))
        sums = self.chain(self.program.add_tensor(like, None), self.region.count)
        for k in range(self.region.count):
            args = (Ref(self.part(call.args[0].id, k)), Ref(self.part(labels.id, k)), ignored)
            if k == 0:
                self.parts[k].append(Call(nll_sum, args, {}, [sums[0]], False, call.phase, call.place))
            else:
                self.parts[k].append(written_into(sums[k - 1], sums[k], added(nll_sum, "nll", all_of()), args, {}, call))
        end = (aten.div.Tensor, (Ref(sums[-1]), Ref(weight))) if reduction == 1 else (aten.clone.default, (Ref(sums[-1]),))
        self.last.append(Call(*end, {}, [loss], False, call.phase, call.place))


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step)
        step *= extent
    return tuple(reversed(found))


def add_view(program: Program, like: int, source: int, target: Any, args: tuple, shape: tuple[int, ...]) -> int:
    """A tensor in the source's storage, made by a view."""
    recipe = Call(target, args, {}, [], False, view=True)
    made = program.add_tensor(program.tensors[like], program.tensors[source].storage, recipe)
    program.tensors[made].shape, program.tensors[made].stride = tuple(shape), dense_strides(tuple(shape))
    recipe.outs = [made]
    return made


def written_into(before: int, after: int, function: Named, args: tuple, kwargs: dict[str, Any], call: Call) -> Call:
    """A value with a part written: in its own place, if the plan ends it there, or in a copy."""
    plain = Named(lambda into, *a, **k: function(clone_exactly(into), *a, **k), f"{function!r} of a copy")
    return Call(plain, (Ref(before), *args), kwargs, [after], False, call.phase, call.place, into=function)


def free_of_contents(program: Program) -> None:
    """ones_like and its kind need no contents: they wait for nobody, and keep nobody alive."""
    values = {aten.ones_like.default: 1, aten.zeros_like.default: 0, aten.new_zeros.default: 0, aten.new_ones.default: 1}
    given = {aten.full_like.default: 1, aten.new_full.default: 2}  # places of the argument
    for call in program.calls:
        if call.target in values or call.target in given:
            like = program.tensors[call.outs[0]]
            value = values[call.target] if call.target in values else call.args[given[call.target]]
            if like.stride == dense_strides(like.shape) and isinstance(value, (int, float)):
                call.target, call.args, call.kwargs = aten.full.default, (list(like.shape), value), {"dtype": like.dtype, "device": like.device}


def _in_order(program: Program, region: _Region, writer: _Writer) -> bool:
    """Puts the parts where the first of the region's calls stands; what they need in between comes before them. False:
    that cannot be, and nothing has changed."""
    places = [i for i, call in enumerate(program.calls) if id(call) in region.how]
    begin, end = places[0], places[-1]
    made = {region.storage(o): call for call in program.calls[begin:end + 1] if id(call) not in region.how
            for o in call.outs if o is not None and not call.view}
    early: dict[int, Call] = {}
    own = {program.tensors[o].storage for c in (*writer.first, *sum(writer.parts, []), *writer.last) for o in c.outs}
    waiting = [t for c in (*writer.first, *sum(writer.parts, [])) for t in c.tensors()]
    own_last = {program.tensors[o].storage for c in writer.last for o in c.outs}
    while waiting:
        storage = program.tensors[waiting.pop()].storage
        if storage in own_last:
            return False  # a part needs what only all parts together make
        call = made.get(storage)
        if call is None or id(call) in early:
            continue
        if call.random or call.writes or call.hidden or storage in region.written:
            return False
        early[id(call)] = call
        waiting += call.tensors()
    between = [c for c in program.calls[begin:end + 1] if id(c) not in region.how]
    read = {program.tensors[t].storage for c in sum(writer.parts, []) for t in c.tensors()} - own
    if any(program.tensors[t].storage in read for c in between for t in (*c.writes, *c.hidden)):
        return False
    if any(program.tensors[t].storage in own for c in early.values() for t in c.tensors()):
        return False
    program.calls = [*program.calls[:begin], *(c for c in between if id(c) in early), *writer.first,
                     *sum(writer.parts, []), *writer.last, *(c for c in between if id(c) not in early),
                     *program.calls[end + 1:]]
    return True


def _seed(region: _Region) -> int | None:
    """The largest value that calls by rows make and read."""
    best = None
    for storage in region.makers:
        found = region.program.storages[storage]
        if found.role != MADE or (best is not None and found.bytes <= region.program.storages[best].bytes):
            continue
        region.cut = {storage}
        around = (region.makers[storage], *region.readers.get(storage, ()))
        if all(region.judge(call) is not None for call in around) and len(around) > 1:
            best = storage
    return best


def _lines_of_embeddings(program: Program, count: int, results: int, least: int) -> int:
    """Gradients of embeddings that add to another gradient of the table: by lines of the table, in its place."""
    region, done = _Region(program, count, results), 0
    for call in list(program.calls):
        if call.target is not aten.add.Tensor or call.kwargs or not all(isinstance(a, Ref) for a in call.args):
            continue
        for mine, other in (call.args, call.args[::-1]):
            made = region.makers.get(region.storage(mine.id))
            whole, table = program.tensors[other.id], program.storages[region.storage(other.id)]
            if made is None or made.target is not aten.embedding_dense_backward.default or made.args[4]:
                continue
            if (region.readers[region.storage(mine.id)] != [call] or program.storages[region.storage(mine.id)].bytes < least
                    or table.role != MADE or table.id in region.outputs or not _dense(whole.shape, whole.stride)
                    or not whole.shape == program.tensors[mine.id].shape == program.tensors[table.base].shape
                    or not _dense(program.tensors[table.base].shape, program.tensors[table.base].stride)
                    or table.bytes != program.storages[region.storage(mine.id)].bytes
                    or region.readers[table.id][-1] is not call or table.id not in region.makers):
                continue
            _add_lines(program, count, call, made, table.base)
            region, done = _Region(program, count, results), done + 1
            break
    return done


def _add_lines(program: Program, count: int, call: Call, made: Call, table: int) -> None:
    grad, indices, lines, padding, _ = made.args
    step, parts, before = -(-lines // count), [], table
    for begin in range(0, lines, step):
        size = min(step, lines - begin)
        after = call.outs[0] if begin + size == lines else program.add_tensor(program.tensors[table], None)
        function = added(_embedding_lines(begin, size), "embedding_dense_backward", _lines(begin, size))
        parts.append(written_into(before, after, function, (grad, indices, padding), {}, made))
        before = after
    place = program.calls.index(call)
    program.calls[place:place + 1] = parts
    program.calls.remove(made)


def cut(program: Program, count: int, results: int) -> int:
    """Cuts what is largest into `count` parts; how many calls are in parts now. `results`: so many outputs leave the step,
    the others are gradients."""
    free_of_contents(program)
    region = _Region(program, count, results)
    seed = _seed(region)
    done = 0
    least = max((s.bytes for s in program.storages if s.role == MADE), default=0) // SHARE
    if seed is not None and program.storages[seed].bytes >= least:
        region.grow(seed)
        whole = {region.storage(c.outs[0]) for key, c in _calls(region) if region.how[key].result == SUM
                 or not region.inside(region.storage(c.outs[0]))}
        if region.inside(seed) and not whole & (region.written | region.outputs - _losses(region)):
            writer = _Writer(region, parts=[[] for _ in range(count)])
            for _, call in _calls(region):
                writer.take(call)
            done += len(region.how) if _in_order(program, region, writer) else 0
    return done + _lines_of_embeddings(program, count, results, least)


def _calls(region: _Region) -> list[tuple[int, Call]]:
    return [(id(call), call) for call in region.program.calls if id(call) in region.how]


def _losses(region: _Region) -> set[int]:
    """What a division behind all parts makes."""
    return {region.storage(c.outs[0]) for _, c in _calls(region) if c.target is aten.nll_loss_forward.default}

