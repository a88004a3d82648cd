"""Whether an optimizer's own step() can be run for one parameter at a time, and what it does then.

That is tried, not assumed: three steps of the whole optimizer on small copies of its parameters, no
side longer than three, beside the same steps of one parameter at a time. Every bit of parameters
and state has to agree. After an op on two parameters, a random number, an attribute or option that
step() changes, it runs for all parameters at once (whole_step.py). What is learnt beside
(own_step.py says what for):

    late    parameters whose first step makes their state of the gradient: it cannot be there before
    looks   whether step() reads numbers off tensors: which ops run may then depend on contents
    spoils  whether step() writes the gradient
    exchanges  whether it puts another tensor into p.data, or lists into its state

Which ops run may also depend on the count of steps (RAdam's first five): `sequences` lists them, on
small copies with the counts as they are now, and a plan holds for them.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import inspect
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import Unsupported
from . import frozen
from .called_step import call_step
from .schemas import schema_writes
from .untouched import optimizer_untouched

SIDE = 3  # the longest of a small copy
SCALES = (1.0, 1e-3, 1e3)  # of the gradients of the rehearsed steps
PLAIN = (int, float, bool, str, type(None))
State = dict[str, Any]


def stand_in(optimizer: torch.optim.Optimizer, groups: list[dict],
             state: dict) -> torch.optim.Optimizer:
    """An optimizer of the same class and attributes, with other parameters."""
    made = object.__new__(type(optimizer))
    made.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    made.param_groups, made.state = groups, collections.defaultdict(dict, state)
    return made


def leaf_like(like: torch.nn.Parameter, data: torch.Tensor,
              gradient: torch.Tensor | None) -> torch.nn.Parameter:
    """A parameter in the place of another, in this memory."""
    made = torch.nn.Parameter(data, requires_grad=True)
    made.__dict__.update(vars(like))
    made.grad = gradient
    return made


def run_alone(optimizer: torch.optim.Optimizer, group: dict[str, Any], leaf: torch.nn.Parameter,
              state: State | None) -> State | None:
    """step() of one parameter; its state then. None: there is none."""
    held = {} if state is None else {leaf: state}
    alone = stand_in(optimizer, [{**group, "params": [leaf]}], held)
    call_step(alone)
    return alone.state.get(leaf)


def tensors_in(state: State | None) -> dict[str, torch.Tensor]:
    """By name, in the order of the state."""
    if state is None or all(isinstance(entry, (torch.Tensor, *PLAIN)) for entry in state.values()):
        return {str(key): entry for key, entry in (state or {}).items()
                if isinstance(entry, torch.Tensor)}  # nearly always; trees take long
    leaves, _ = pytree.tree_flatten_with_path(state or {})
    return {".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path): leaf
            for path, leaf in leaves if isinstance(leaf, torch.Tensor)}


def with_tensors(state: State, tensors: list[torch.Tensor]) -> State:
    """The same state, with these tensors."""
    given = iter(tensors)
    return _map_tensors(lambda _: next(given), state)


def _map_tensors(change: Callable[[torch.Tensor], torch.Tensor], state: Any) -> Any:
    def changed(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(changed, state)


class _Noted(dict):
    """A state that keeps a copy of what is first put under each name."""

    def __init__(self) -> None:
        super().__init__()
        self.first: State = {}

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self.first:
            self.first[key] = _map_tensors(lambda tensor: tensor.detach().clone(), value)
        super().__setitem__(key, value)

    def setdefault(self, key: str, value: Any = None) -> Any:
        if key not in self:
            self[key] = value
        return self[key]

    def update(self, *more: Any, **named: Any) -> None:
        for key, value in dict(*more, **named).items():
            self[key] = value


def first_state(optimizer: torch.optim.Optimizer, group: dict[str, Any],
                leaf: torch.nn.Parameter) -> tuple[State | None, State | None]:
    """What step() puts into an empty state, and what is there behind that step."""
    noted = _Noted()
    after = run_alone(optimizer, group, leaf, noted)
    if after is not noted:
        return None, after
    return (noted.first, dict(noted)) if noted else (None, None)


# ---- small copies


def _small_shape(tensor: torch.Tensor) -> list[int]:
    return [min(extent, SIDE) for extent in tensor.shape]


def _drawn(like: torch.Tensor, seed: int, scale: float = 1.0) -> torch.Tensor:
    drawn, stream = torch.empty(_small_shape(like), dtype=torch.float64), torch.Generator()
    return (drawn.uniform_(-1, 1, generator=stream.manual_seed(seed)) * scale).to(like.dtype)


def _small_state(state: State) -> State:
    """Numbers as they are, all else small, with plain contents."""
    def small(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0:
            return tensor.detach().clone()
        plain = 0.5 if tensor.dtype.is_floating_point or tensor.dtype.is_complex else 0
        return torch.full(_small_shape(tensor), plain, dtype=tensor.dtype)

    return _map_tensors(small, state)


def _bits(tensor: torch.Tensor) -> bytes:
    flat = torch.view_as_real(tensor.resolve_conj()) if tensor.dtype.is_complex else tensor
    return bytes(flat.detach().contiguous().reshape(-1).view(torch.uint8).tolist())


def _print_of(value: Any) -> Any:
    """Equal where nothing has changed: of numbers and words they, of tensors their versions."""
    if isinstance(value, PLAIN):
        return type(value), repr(value)
    if isinstance(value, torch.Tensor):
        return id(value), value._version
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_print_of, value))
    if isinstance(value, dict):
        return type(value), tuple((repr(key), _print_of(entry)) for key, entry in value.items())
    return (type(value), tuple(sorted(map(repr, value)))) if isinstance(value, set) else id(value)


class _Watched(TorchDispatchMode):
    """The ops of step(), and of each storage whose it is: which parameter it belongs to, or its
    gradient, or its state."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []
        self.whose: dict[int, frozenset[int]] = {}
        self.contents: set[int] = set()  # storages that are made of a parameter or a gradient
        self.held: list[torch.Tensor] = []  # so that no storage's address is used again
        self.mixed = ""
        self.looks = False
        self.read: frozenset[int] = frozenset()  # whose numbers were read and who had no op since

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def own(self, number: int, tensor: torch.Tensor, contents: bool) -> None:
        self._mark([tensor], frozenset([number]), contents)

    def _mark(self, tensors: list[torch.Tensor], whose: frozenset[int], contents: bool) -> None:
        for storage in (tensor.untyped_storage()._cdata for tensor in tensors):
            self.whose[storage] = self.whose.get(storage, frozenset()) | whose
            if contents:
                self.contents.add(storage)
        self.held += tensors

    def _together(self, name: str, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        storages = [tensor.untyped_storage()._cdata for tensor in read]
        whose = frozenset().union(*(self.whose.get(storage, ()) for storage in storages))
        contents = any(storage in self.contents for storage in storages)
        if len(whose) > 1:
            self.mixed = self.mixed or name
        if name == "aten::_local_scalar_dense" and contents:
            self.looks, self.read = True, self.read | whose
            if len(self.read) > 1:  # what is done with one may depend on the numbers of another
                self.mixed = self.mixed or name
        else:
            self.read -= whose
        self._mark(made, whose, contents)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.ops.append(str(func))
        name = func._schema.name
        if name.startswith(("aten::_foreach_", "aten::_fused_")):
            self._by_places(name, [*args, *kwargs.values(), out])
        else:
            self._together(name, _tensors((args, kwargs)),
                           [*_tensors(out), *schema_writes(func, args, kwargs)])
        return out

    def _by_places(self, name: str, values: list[Any]) -> None:
        """An op on lists takes the first of each together, the second of each, and so on."""
        lists = [value for value in values if isinstance(value, (list, tuple)) and value
                 and all(isinstance(entry, torch.Tensor) for entry in value)]
        for entries in zip(*(one for one in lists if len(one) == len(lists[0])), strict=True):
            self._together(name, list(entries), list(entries))


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


# ---- the rehearsal


def name_of(optimizer: torch.optim.Optimizer) -> str:
    return f"optimizer {type(optimizer).__module__}.{type(optimizer).__qualname__}"


def trained_in(group: dict[str, Any]) -> list[torch.nn.Parameter]:
    return [p for p in group["params"] if p.requires_grad]


def _refuse(optimizer: torch.optim.Optimizer, why: str) -> None:
    raise Unsupported(f"{name_of(optimizer)} cannot be planned: {why}")


def refuse_by_its_form(optimizer: torch.optim.Optimizer) -> None:
    """Raises Unsupported for a step() that no planned step can call."""
    replaced = vars(optimizer).get("step")
    if replaced is not None and not hasattr(replaced, "_wrapped_by_lr_sched"):
        _refuse(optimizer, "its step() was exchanged on the object, and a planned step calls that "
                "of its class")
    asked = list(inspect.signature(type(optimizer).step).parameters.values())[1:]
    needed = [p.name for p in asked
              if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed:
        _refuse(optimizer, f"its step() needs '{needed[0]}', and in a planned step the loss is "
                "computed once; its loop stays eager, with model compiled by backend='lowtide'")
    for group in optimizer.param_groups:
        for p in trained_in(group):
            if p.device.type != "cpu":
                _refuse(optimizer, f"a parameter is on {p.device}, where the updates of SGD, Adam "
                        "and AdamW are planned")


def _apart(value: Any) -> Any:
    """What a rehearsed step may change of an attribute or option. What objects hold is put back (untouched.py)."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) is dict:
        return {key: _apart(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_apart, value))
    return copy.copy(value) if type(value) is set else value


@contextlib.contextmanager
def streams_as_before() -> Iterator[None]:
    """The random streams of PyTorch, Python and numpy."""
    numpy = sys.modules.get("numpy")
    before, pythons = torch.get_rng_state(), random.getstate()
    numpys = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(before)
        random.setstate(pythons)
        if numpy is not None:
            numpy.random.set_state(numpys)


class Rehearsal:
    """Raises Unsupported."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        refuse_by_its_form(optimizer)
        self.optimizer = optimizer
        self.aside = self._aside()  # what steps of one parameter change of options and attributes
        self.late: set[int] = set()  # ids of parameters
        self.looks = self.spoils = self.exchanges = False
        self.trained = [(g, p) for g, group in enumerate(optimizer.param_groups)
                        for p in trained_in(group)]
        drawn = frozen.Draws()
        try:
            with torch.no_grad(), streams_as_before():
                self._try()
                drawn.check()
        except Unsupported:
            raise
        except frozen.DrawnOnce:
            _refuse(optimizer, "its step() draws random numbers of Python's or numpy's")
        except Exception as problem:  # noqa: BLE001: whatever the user's code raises
            line = (str(problem).strip().splitlines() or [""])[0]
            _refuse(optimizer, f"its step() on small copies of the parameters: {type(problem).__name__}: {line}")
        del self.optimizer, self.aside, self.trained  # who keeps this does not keep them

    def _try(self) -> None:
        states = [self._begun(k) for k in range(len(self.trained))]
        given = [p for _, p in self.trained]
        alone, together = ([leaf_like(p, _drawn(p, k), None) for k, p in enumerate(given)]
                           for _ in range(2))
        whole = self._whole(together)
        kinds = [_kinds(leaf, state) if state else []
                 for leaf, state in zip(alone, states, strict=True)]
        for k, scale in enumerate(SCALES):
            self._whole_step(whole, together, k, scale)
            for n, (g, p) in enumerate(self.trained):
                leaf, group = alone[n], self.aside.param_groups[g]
                leaf.grad = gradient = _drawn(p, 1000 * (k + 1) + n, scale)
                place = leaf.data_ptr()
                states[n] = run_alone(self.aside, group, leaf, states[n])
                self.spoils |= gradient._version > 0
                plain = all(isinstance(entry, (torch.Tensor, *PLAIN)) for entry in (states[n] or {}).values())
                self.exchanges |= not plain or leaf.data_ptr() != place
                self._compare(n, together[n], whole.state.get(together[n]), leaf, states[n])
                now = _kinds(leaf, states[n])
                if (k or kinds[n]) and now != kinds[n]:
                    _refuse(self.optimizer, "its step() puts tensors of other kinds into its state, or more of them, than there were")
                kinds[n] = now
        for n, (g, _) in enumerate(self.trained):
            self._without_gradient(alone[n], self.aside.param_groups[g], states[n])

    def _without_gradient(self, leaf: torch.nn.Parameter, group: dict[str, Any], state: State | None) -> None:
        """An update is run for a parameter that has a gradient, so the others have to stay as they are."""
        leaf.grad, before = None, _all_bits(leaf, state)
        try:
            after = run_alone(self.aside, group, leaf, state)
        except Exception:  # noqa: BLE001: it takes none without a gradient
            return
        if _all_bits(leaf, after) != before:
            _refuse(self.optimizer, "its step() changes parameters that have no gradient")

    def _aside(self) -> torch.optim.Optimizer:
        """The optimizer without parameters, with copies of what it may change."""
        groups = [{"params": [], **{key: _apart(value) for key, value in group.items() if key != "params"}}
                  for group in self.optimizer.param_groups]
        made = stand_in(self.optimizer, groups, {})
        made.__dict__.update({key: _apart(value) for key, value in vars(made).items()
                              if key not in ("state", "param_groups")})
        return made

    def _whole(self, leaves: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer, with small copies of all its parameters and of what it may change."""
        whole = self._aside()
        for (g, _), leaf in zip(self.trained, leaves, strict=True):
            whole.param_groups[g]["params"].append(leaf)
        states = zip(leaves, self._small_states(), strict=True)
        whole.state.update({leaf: state for leaf, state in states if state})
        return whole

    def _small_states(self) -> list[State | None]:
        found = [self.optimizer.state.get(p) for _, p in self.trained]
        return [_small_state(state) if state else None for state in found]

    def _whole_step(self, whole: torch.optim.Optimizer, leaves: list[torch.nn.Parameter], k: int,
                    scale: float) -> None:
        before = self._unchanged(whole)
        watched = _Watched()
        for n, (leaf, (_, p)) in enumerate(zip(leaves, self.trained, strict=True)):
            leaf.grad = _drawn(p, 1000 * (k + 1) + n, scale)
            for tensor in (leaf, leaf.grad):
                watched.own(n, tensor, True)
            for tensor in tensors_in(whole.state.get(leaf)).values():
                watched.own(n, tensor, tensor.dim() > 0)
        stream = torch.get_rng_state()
        with watched:
            call_step(whole)
        self.looks |= watched.looks
        if not torch.equal(stream, torch.get_rng_state()):
            _refuse(self.optimizer, "its step() draws random numbers, whose order would be the plan's")
        if watched.mixed:
            _refuse(self.optimizer, f"its step() takes two parameters together ({watched.mixed})")
        others = [key for key in whole.state if all(key is not leaf for leaf in leaves)]
        if others:
            _refuse(self.optimizer, f"its state has '{others[0]}', which is no parameter's")
        after = self._unchanged(whole)
        for name in after if k else ():  # what a first step sets, each parameter's sets again
            if after[name] != before.get(name):
                _refuse(self.optimizer, f"its step() changes {name}, which all parameters share")

    def _unchanged(self, whole: torch.optim.Optimizer) -> dict[str, Any]:
        found = {f"'{key}' of the optimizer": _print_of(value) for key, value in vars(whole).items()
                 if key not in ("state", "param_groups")}
        for g, group in enumerate(whole.param_groups):
            found.update({f"'{key}' of group {g}": _print_of(value) for key, value in group.items()
                          if key != "params"})
        return found

    def _compare(self, n: int, leaf: torch.Tensor, state: State | None, other: torch.Tensor,
                 others: State | None) -> None:
        for entry in pytree.tree_leaves(state or {}):
            if not isinstance(entry, (torch.Tensor, *PLAIN)):
                _refuse(self.optimizer, f"its state holds a {type(entry).__name__}; tensors and numbers are planned")
        if _all_bits(leaf, state) != _all_bits(other, others):
            g, p = self.trained[n]
            _refuse(self.optimizer, "its step() of one parameter alone is another than of all "
                    f"together (parameter {tuple(p.shape)} of group {g})")

    def _begun(self, n: int) -> State | None:
        """The state of a parameter before its first step; notes where the gradient makes it."""
        (g, p), group = self.trained[n], self.aside.param_groups[self.trained[n][0]]
        there = self.optimizer.state.get(p)
        if there:
            return _small_state(there)

        def leaf(seed: int) -> torch.nn.Parameter:
            return leaf_like(p, _drawn(p, n), _drawn(p, seed))

        first, _ = first_state(self.aside, group, leaf(n + 500))
        plain, given = leaf(n + 1000), leaf(n + 1000)
        after = run_alone(self.aside, group, plain, None)
        if not after:
            return None
        if first is not None and _kinds(plain, first) == _kinds(plain, after):
            begun = copy.copy(first)
            again = run_alone(self.aside, group, given, begun)
            if _all_bits(plain, after) == _all_bits(given, again):
                return first_state(self.aside, group, leaf(n + 500))[0]
        self.late.add(id(p))
        return None


def _all_bits(leaf: torch.Tensor, state: State | None) -> list[Any]:
    entries, spec = pytree.tree_flatten(state or {})
    return [_bits(leaf), str(spec),
            *(_bits(e) if isinstance(e, torch.Tensor) else (type(e), repr(e)) for e in entries)]


def _kinds(leaf: torch.Tensor, state: State | None) -> list[Any]:
    tensors = {"the parameter": leaf, **tensors_in(state)}
    return [(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()]


_rehearsals: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _options_of(group: dict[str, Any]) -> list[Any]:
    """Numbers may change in each step: of them whether they are there at all."""
    def kept(value: Any) -> Any:
        if type(value) in (int, float):
            return value != 0
        return repr(value) if isinstance(value, PLAIN) else None

    return [(key, kept(value)) for key, value in group.items() if key != "params"]


def rehearsal_of(optimizer: torch.optim.Optimizer) -> Rehearsal:
    """Once for the same parameters and options. Raises Unsupported."""
    key = [([id(p) for p in trained_in(group)], _options_of(group))
           for group in optimizer.param_groups]
    kept = _rehearsals.get(optimizer)
    if kept is None or kept[0] != key:
        with optimizer_untouched(optimizer) as note:
            kept = (key, Rehearsal(optimizer))
            note.refuse_moved(optimizer, f"{name_of(optimizer)} cannot be taken apart")
        _rehearsals[optimizer] = kept
    return kept[1]


Kind = tuple[int, int, str]  # group, dimensions, dtype


def kind_of(g: int, parameter: torch.Tensor) -> Kind:
    return g, parameter.dim(), str(parameter.dtype)


def sequences(optimizer: torch.optim.Optimizer, steps: int = 1) -> dict[Kind, tuple[str, ...]]:
    """The ops that the next step() of a parameter of each kind runs, or the next steps. Raises what that raises, with a note."""
    late, found = rehearsal_of(optimizer).late, {}
    for g, group in enumerate(optimizer.param_groups):
        for p in trained_in(group):
            if kind_of(g, p) in found:
                continue
            try:
                with torch.no_grad(), streams_as_before():
                    found[kind_of(g, p)] = _ops_of(optimizer, group, p, id(p) in late, steps)
            except Exception as problem:
                problem.add_note(f"lowtide: the optimizer's group {g} as it is now makes no "
                                 "update; the model is as before the step")
                raise
    return found


AHEAD = 8  # steps of the small copies beyond the next
OFTEN, SELDOM = 64, 4096  # steps after which they are made again: at first, and where nothing has changed for long


class Sequences:
    """The ops of the next step() of each kind, and for how many steps they are known to hold.

    Small copies are not stepped in each step: those that are tried go AHEAD, and where no op changes on the way, and no option
    and no state is exchanged, they are tried again after OFTEN steps, and each time that they are found the same, after twice as
    many. An op that changes meanwhile takes its memory beside the arena, and they are tried again after OFTEN steps (`doubt`)."""

    def __init__(self, optimizer: torch.optim.Optimizer, before: Sequences | None = None) -> None:
        with optimizer_untouched(optimizer):
            self.found, ahead = sequences(optimizer), sequences(optimizer, AHEAD)
        self.steps = OFTEN
        if before is not None and before.left <= 0 and before.found == self.found:
            self.steps = min(2 * before.steps, SELDOM)
        self.left = self.steps
        self.said = sorted(self.found.items())
        late = rehearsal_of(optimizer).late
        if any(id(p) in late and not optimizer.state.get(p) for group in optimizer.param_groups for p in group["params"]):
            self.left = 1
        for kind, ops in ahead.items():
            count = len(self.found[kind])
            for k in range(AHEAD):
                if ops[k * count:(k + 1) * count] != self.found[kind] or len(ops) < AHEAD * count:
                    self.left = min(self.left, max(1, k))
        self.options = [dict(group) for group in optimizer.param_groups]
        self.state, self.count = optimizer.state, len(optimizer.state)

    def hold(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.left <= 0 or self.state is not optimizer.state or self.count != len(optimizer.state):
            return False
        return len(self.options) == len(optimizer.param_groups) and all(
            map(_same_options, optimizer.param_groups, self.options))

    def step_done(self) -> None:
        self.left -= 1
        self.count = len(self.state)

    def doubt(self) -> None:
        """Something lay beside the arena: it may be that other ops run."""
        self.steps = OFTEN // 2  # of which those that are found the same have twice as many
        self.left = min(self.left, OFTEN)


def _alike(value: Any, before: Any) -> bool:
    """Numbers may change in each step, but for their sign: a schedule's, say."""
    if value is before:
        return True
    if type(value) is not type(before):
        return False
    if type(value) in (int, float):
        return (value > 0, value < 0) == (before > 0, before < 0)
    if type(value) in (tuple, list):
        return len(value) == len(before) and all(map(_alike, value, before))
    return isinstance(value, PLAIN) and value == before


def _same_options(group: dict[str, Any], before: dict[str, Any]) -> bool:
    return group.keys() == before.keys() and all(_alike(value, before[key]) for key, value in group.items())


_sequences: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def sequences_hold(optimizer: torch.optim.Optimizer) -> bool:
    kept = _sequences.get(optimizer)
    return kept is not None and kept.hold(optimizer)


def kept_sequences(optimizer: torch.optim.Optimizer) -> Sequences:
    """Raises what `sequences` raises."""
    if not sequences_hold(optimizer):
        before = _sequences.pop(optimizer, None)
        _sequences[optimizer] = Sequences(optimizer, before)
    return _sequences[optimizer]


def _ops_of(optimizer: torch.optim.Optimizer, group: dict[str, Any], p: torch.nn.Parameter,
            late: bool, steps: int) -> tuple[str, ...]:
    def leaf() -> torch.nn.Parameter:
        return leaf_like(p, _drawn(p, 0), _drawn(p, 1))

    state = optimizer.state.get(p)
    begun = (_small_state(state) if state else
             first_state(optimizer, group, leaf())[1 if late else 0])
    watched, small = _Watched(), leaf()
    for _ in range(steps):
        small.grad = _drawn(p, 1)
        with watched:
            begun = run_alone(optimizer, group, small, begun)
    return tuple(watched.ops)
