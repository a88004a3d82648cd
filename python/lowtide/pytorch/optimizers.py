"""One update per parameter, bit for bit as the optimizer's own step computes it.

The update is the optimizer's functional form on a single parameter, called with what its group says at that moment,
so learning-rate schedules and changed hyperparameters need no new plan. The state is made before the first step, where
the optimizer looks for it (`optimizer.state[p]`), so saving and resuming are the user's as before. A momentum buffer
that the optimizer would make from the first gradient starts as -0.0, as -0.0 * m + g is g in every bit.

That is of SGD, Adam and AdamW, which the native engine has, too. Any other optimizer's own step() is run for one
parameter at a time (own_step.py).
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from ..errors import Unsupported, Usage
from . import hooks

KNOWN = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def same_objects(found: list[Any], before: list[Any]) -> bool:
    return len(found) == len(before) and all(map(operator.is_, found, before))


def signature(optimizer: torch.optim.Optimizer) -> list[Any]:
    """What of the groups changes which tensors an update touches or makes: a plan holds for it."""
    keys = ("fused", "foreach", "amsgrad", "nesterov", "maximize", "decoupled_weight_decay")
    return [[group.get(k) for k in keys] + [group.get("momentum", 0) != 0, group.get("weight_decay", 0) != 0]
            for group in optimizer.param_groups]


def _same(options: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether the values are equal, and tensors the same ones."""
    return options.keys() == before.keys() and all(
        value is before[key] or (not isinstance(value, torch.Tensor) and not isinstance(before[key], torch.Tensor)
                                 and value == before[key]) for key, value in options.items())


def _one_number(like: torch.Tensor) -> torch.Tensor:
    """Zero, in as many dimensions."""
    return torch.zeros([1] * like.dim(), dtype=like.dtype, device=like.device)


class KeptState:
    """Where a step found the tensors of the state, to find them there in the next one without asking for each. It holds none of the
    entries: an optimizer that exchanges them may have left tensors of the arena in the old ones."""

    def __init__(self, state: Any, entries: list[dict], places: list[int]) -> None:
        self.state, self.of, self.places = state, list(state), places
        self.names, self.kinds = _names(entries), list(map(type, _values(entries)))

    @staticmethod
    def of(state: Any, tensors: list[torch.Tensor]) -> KeptState | None:
        """None where the state is no dictionary of plain ones that hold all the tensors."""
        entries = list(state.values()) if isinstance(state, dict) else [None]
        if not all(type(entry) is dict for entry in entries):
            return None
        places = {id(value): k for k, value in enumerate(_values(entries))}
        return KeptState(state, entries, [places[id(t)] for t in tensors]) if all(id(t) in places for t in tensors) else None

    def now(self, state: Any) -> list[torch.Tensor] | None:
        """The tensors that lie there now; None where there are other entries, names or kinds of values."""
        if state is not self.state or not same_objects(list(state), self.of):
            return None
        entries = list(state.values())
        if not all([type(entry) is dict for entry in entries]) or _names(entries) != self.names:
            return None
        values = _values(entries)
        return [values[k] for k in self.places] if list(map(type, values)) == self.kinds else None


def _names(entries: list[dict]) -> tuple[list[int], list[Any]]:
    return list(map(len, entries)), list(itertools.chain(*entries))


def _values(entries: list[dict]) -> list[Any]:
    return list(itertools.chain.from_iterable(map(dict.values, entries)))


@contextlib.contextmanager
def state_as_before(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Behind it the state has the entries that it had: what was put there to plan goes."""
    before = {p: dict(entry) if isinstance(entry, dict) else entry for p, entry in optimizer.state.items()}
    try:
        yield
    finally:
        _put_back(optimizer.state, before)


def _put_back(state: Any, before: dict[Any, Any]) -> None:
    for p in [p for p in state if p not in before]:
        del state[p]
    for p, entries in before.items():
        if isinstance(entries, dict) and isinstance(state.get(p), dict):
            for key in [key for key in state[p] if key not in entries]:
                del state[p][key]
            state[p].update(entries)


class Updates:
    """The updates of an optimizer's parameters, by name, in the order of its groups."""

    whole = False  # whether one update is that of all parameters
    state_bytes = 0  # of state that is no operand of an update

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: dict[str, torch.nn.Parameter]) -> None:
        hooks.check_optimizer(optimizer)
        self.optimizer = optimizer
        self.live = False  # a step runs, and what an update does is the optimizer's
        self.kept: KeptState | None = None
        self.fresh = True  # whether the state may have been made, or put there, since the last step
        self.aside: Callable[[], None] = lambda: None  # behind it memory is taken beside the arena, until the next unit
        names = {id(p): name for name, p in parameters.items()}
        self.updated: list[str] = []  # parameters that get a gradient: no other gets a state, as in eager mode
        self.begun: list[torch.nn.Parameter] = []  # that have got a state since the last step has ended
        self.groups: dict[str, tuple[int, int]] = {}  # name -> group, place in the group
        for g, group in enumerate(optimizer.param_groups):
            self.check_group(group)
            for i, p in enumerate(group["params"]):
                if id(p) not in names:
                    raise Usage(f"parameter {i} of the optimizer's group {g} {tuple(p.shape)} is none of the model's; where a module that "
                                "loss_fn uses has it (a loss that learns), one module of both is planned: torch.nn.ModuleDict({'model': model, 'loss': criterion})")
                if p.requires_grad:
                    self.groups[names[id(p)]] = (g, i)
        if not self.groups:
            raise Usage("the optimizer has no parameter that requires a gradient")
        self.parameters = parameters

    @staticmethod
    def check_group(group: dict[str, Any]) -> None:
        for option in ("differentiable", "capturable"):
            if group.get(option):
                raise Unsupported(f"an optimizer with {option}=True is not planned")

    def group(self, name: str) -> dict[str, Any]:
        return self.optimizer.param_groups[self.groups[name][0]]

    def kind(self, name: str) -> Any:
        """Updates of the same kind, on the same shapes, do the same."""
        return self.groups[name][0]

    def make_state(self, names: list[str]) -> None:
        """What the optimizer would make in its first step."""
        raise NotImplementedError

    def state(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors that the update writes beside the parameter, as the optimizer holds them now; made anew where they
        are gone (`optimizer.state.clear()`, the state_dict of an optimizer that has not run), as its own step would."""
        raise NotImplementedError

    def states(self, names: list[str]) -> list[torch.Tensor]:
        """The same of all these, in this order."""
        found = self.kept.now(self.optimizer.state) if self.kept is not None else None
        if found is None:
            found, self.fresh = [tensor for name in names for tensor in self.state(name).values()], True
            self.kept = KeptState.of(self.optimizer.state, found)
        return found

    def try_groups(self) -> None:
        """Each group's update on one number, if its options have changed since the last time: what it raises for a wrong
        option is raised before the step has changed anything, not between two groups."""
        raise NotImplementedError

    def function(self, name: str) -> Callable[..., None]:
        """update(parameter, gradient, *state): writes parameter and state."""
        raise NotImplementedError

    @contextlib.contextmanager
    def running(self, aside: Callable[[], None]) -> Iterator[None]:
        """A step runs: updates are the optimizer's own."""
        self.live, self.aside = True, aside
        self.now: dict[int, Any] = {}
        try:
            yield
            self.begun.clear()
            self.fresh = False
        finally:
            self.live = False

    def took_beside(self) -> None:
        """Something in the last step lay beside the arena."""

    def forget_begun(self) -> None:
        """The step has failed before its updates: no parameter keeps a state that was made for it."""
        self.kept = None
        for p in self.begun:
            self.optimizer.state.pop(p, None)
        self.begun.clear()


def _count_type(group: dict[str, Any]) -> torch.dtype:
    """The type of Adam's count of steps: f64 under that default type, but for the fused form."""
    return torch.float64 if torch.get_default_dtype() is torch.float64 and not group["fused"] else torch.float32


class KnownUpdates(Updates):
    """By the functional forms of SGD, Adam and AdamW."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: dict[str, torch.nn.Parameter]) -> None:
        if type(optimizer) not in KNOWN:
            raise Unsupported(f"optimizer {type(optimizer).__module__}.{type(optimizer).__qualname__} has no update in the "
                              "native engine; engine='torch' runs its own step()")
        super().__init__(optimizer, parameters)
        self.momentum = type(optimizer) is torch.optim.SGD
        self.tried: dict[int, dict[str, Any]] = {}  # group -> its options when its update was tried

    def make_state(self, names: list[str]) -> None:
        for name in names:
            group, p = self.group(name), self.parameters[name]
            if self.momentum and group["momentum"] == 0:
                continue  # not even an entry, as in eager mode
            if not self.optimizer.state.get(p):
                self.begun.append(p)
            state = self.optimizer.state[p]
            if self.momentum:
                if state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = torch.full_like(p, -0.0, memory_format=torch.preserve_format)
                    state["momentum_buffer"].requires_grad_(False)
                    state["lowtide_first"] = True
            elif not state:
                state["step"] = torch.zeros((), dtype=_count_type(group), device=p.device if group["fused"] else "cpu")
                for key in self.moments(group):
                    state[key] = torch.zeros_like(p, memory_format=torch.preserve_format, requires_grad=False)

    @staticmethod
    def moments(group: dict[str, Any]) -> list[str]:
        return ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]

    def state(self, name: str) -> dict[str, torch.Tensor]:
        group, p = self.group(name), self.parameters[name]
        if self.momentum:
            keys = ["momentum_buffer"] if group["momentum"] != 0 else []
        else:
            keys = [*self.moments(group), "step"]
        there = self.optimizer.state.get(p)
        if keys and (not there or any(there.get(key) is None for key in keys)):
            self.make_state([name])
            there = self.optimizer.state[p]
        return {key: there[key] for key in keys}

    def try_groups(self) -> None:
        firsts: dict[int, str] = {}
        for name in self.updated:
            firsts.setdefault(self.groups[name][0], name)
        for g, name in firsts.items():
            options = {key: value for key, value in self.optimizer.param_groups[g].items() if key != "params"}
            if g in self.tried and _same(options, self.tried[g]):
                continue
            try:
                p = self.parameters[name].detach()
                self.function(name)(*(_one_number(t) for t in (p, p, *self.state(name).values())))
            except Exception as problem:
                problem.add_note(f"lowtide: the optimizer's group {g} as it is now makes no update; the model is as before the step")
                raise
            self.tried[g] = options

    @staticmethod
    def foreach(group: dict[str, Any], parameter: torch.Tensor) -> bool:
        """Which of its forms the optimizer takes: on a GPU, if nobody says otherwise, that on lists, whose kernels round
        otherwise."""
        said = group["foreach"]
        return parameter.is_cuda and not group["fused"] and (said is None or said)

    def function(self, name: str) -> Callable[..., None]:
        return self.sgd_of(name) if self.momentum else self.adam_of(name)

    def options_now(self, g: int) -> Any:
        """What the updates of a group are called with, read once in a step; None where they take the optimizer's
        functional form."""
        if not self.live:
            return self._options(self.optimizer.param_groups[g])
        if g not in self.now:
            self.now[g] = self._options(self.optimizer.param_groups[g])
        return self.now[g]

    def _options(self, group: dict[str, Any]) -> Any:
        names = ("lr", "weight_decay", "momentum", "dampening") if self.momentum else ("lr", "weight_decay", "eps")
        numbers = [group[name] for name in names] + ([] if self.momentum else [*group["betas"]])
        if group["fused"] or group["foreach"] or any(type(number) not in (int, float) for number in numbers):
            return None
        if self.momentum:
            return (*numbers, group["nesterov"], group["maximize"])
        lr, decay, eps, beta1, beta2 = numbers
        decoupled = group.get("decoupled_weight_decay", isinstance(self.optimizer, torch.optim.AdamW))
        return lr, decay, 1 - lr * decay, eps, beta1, beta2, 1 - beta1, 1 - beta2, decoupled, group["maximize"]

    def sgd_of(self, name: str) -> Callable[..., None]:
        optimizer, (g, _), p = self.optimizer, self.groups[name], self.parameters[name]
        plain = not p.is_cuda

        def update(parameter: torch.Tensor, gradient: torch.Tensor, *state: torch.Tensor) -> None:
            first = bool(state) and self.live and optimizer.state[p].pop("lowtide_first", False)
            options = self.options_now(g) if plain else None
            if options is not None:
                return sgd_plain(parameter, gradient, state, options, first)
            group = optimizer.param_groups[g]
            sgd([parameter], [gradient], list(state) or [None], foreach=self.foreach(group, parameter), fused=bool(group["fused"]),
                weight_decay=group["weight_decay"], momentum=group["momentum"], lr=group["lr"],
                dampening=0.0 if first else group["dampening"], nesterov=group["nesterov"],
                maximize=group["maximize"])
            return None

        return update

    def adam_of(self, name: str) -> Callable[..., None]:
        optimizer, (g, _), p = self.optimizer, self.groups[name], self.parameters[name]
        plain = not p.is_cuda and not p.is_complex()

        def update(parameter: torch.Tensor, gradient: torch.Tensor, *state: torch.Tensor) -> None:
            options = self.options_now(g) if plain else None
            if options is not None:
                return adam_plain(parameter, gradient, state, options)
            return self.adam_by_form(g, parameter, gradient, state)

        return update

    def adam_by_form(self, g: int, parameter: torch.Tensor, gradient: torch.Tensor, state: tuple[torch.Tensor, ...]) -> None:
        group = self.optimizer.param_groups[g]
        beta1, beta2 = group["betas"]
        decoupled = group.get("decoupled_weight_decay", isinstance(self.optimizer, torch.optim.AdamW))
        average, squares, *most, count = state
        if group["fused"] and not isinstance(group["lr"], torch.Tensor):
            count.add_(1)
            (torch._fused_adamw_ if decoupled else torch._fused_adam_)(
                [parameter], [gradient], [average], [squares], most, [count], lr=group["lr"], beta1=beta1,
                beta2=beta2, weight_decay=group["weight_decay"], eps=group["eps"], amsgrad=group["amsgrad"],
                maximize=group["maximize"])
            return
        adam([parameter], [gradient], [average], [squares], most, [count], foreach=self.foreach(group, parameter),
             fused=bool(group["fused"]), decoupled_weight_decay=decoupled, amsgrad=group["amsgrad"], beta1=beta1,
             beta2=beta2, lr=group["lr"], weight_decay=group["weight_decay"], eps=group["eps"],
             maximize=group["maximize"])


def sgd_plain(parameter: torch.Tensor, gradient: torch.Tensor, state: tuple[torch.Tensor, ...], options: tuple, first: bool) -> None:
    """SGD on one parameter, op for op as PyTorch's form for single tensors; `first`: the momentum begins as the gradient."""
    lr, decay, momentum, dampening, nesterov, maximize = options
    if maximize:
        gradient = -gradient
    if decay != 0:
        gradient = gradient.add(parameter, alpha=decay)
    if momentum != 0:
        state[0].mul_(momentum).add_(gradient, alpha=1 if first else 1 - dampening)
        gradient = gradient.add(state[0], alpha=momentum) if nesterov else state[0]
    parameter.add_(gradient, alpha=-lr)


def adam_plain(parameter: torch.Tensor, gradient: torch.Tensor, state: tuple[torch.Tensor, ...], options: tuple) -> None:
    """Adam and AdamW on one parameter, as PyTorch's form for single tensors computes every bit, with one temporary less."""
    lr, decay, kept, eps, beta1, beta2, less1, less2, decoupled, maximize = options
    average, squares, count = state[0], state[1], state[-1]
    if maximize:
        gradient = -gradient
    count += 1
    if decay != 0:
        if decoupled:
            parameter.mul_(kept)
        else:
            gradient = gradient.add(parameter, alpha=decay)
    average.lerp_(gradient, less1)
    squares.mul_(beta2).addcmul_(gradient, gradient, value=less2)
    done = count.item()
    if len(state) == 4:
        squares = torch.maximum(state[2], squares, out=state[2])
    root = squares.sqrt().div_((1 - beta2 ** done) ** 0.5).add_(eps)
    parameter.addcdiv_(average, root, value=-(lr / (1 - beta1 ** done)))
