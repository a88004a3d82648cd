"""Holds that captures leave the caller's objects as they were, in every test: lowtide.plan, compile_step and measure, and a new shape.

A walk of its own, on purpose without anything of the product's: what Python's garbage collector says an object refers to, from model, loss
function and optimizer on, and the globals that functions of the tests name. Of each object its entries by identity (plain values by
value), of each tensor type, version, flags, gradient and a checksum of its contents, and the random streams. Before and after have
to be equal, and no FakeTensor may be left.

A step that meets a new shape captures and then runs. The capture in it is watched as the others are. Behind the step a walk holds that
it left what a step of eager mode leaves and no more: contents and versions of tensors, the optimizer's state, and entries of the objects
that the plan says the forward pass writes (carried.py); types, sizes, flags, hooks, gradients and all other entries are what they were.
"""

import contextlib
import functools
import gc
import random
import sys
import threading
import types
import zlib

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

PLAIN = (int, float, bool, str, bytes, complex, type(None))
CODE = (types.ModuleType, type, types.CodeType, types.BuiltinFunctionType, types.FrameType, types.GetSetDescriptorType,
        types.MemberDescriptorType, types.GeneratorType, torch.dtype, torch.device)
MOST = 100_000


def _of_tensor(tensor):
    if isinstance(tensor, FakeTensor):
        return "a FakeTensor"
    if is_lazy(tensor):
        return "lazy"
    whole = tensor.detach()
    dense = whole.layout is torch.strided and whole.device.type == "cpu" and not whole.is_quantized
    bits = zlib.crc32(whole.contiguous().view(-1).view(torch.uint8).numpy()) if dense and whole.numel() else 0
    grad = id(tensor.grad) if tensor.is_leaf else None
    hooks = tuple(tuple(hooks or ()) for hooks in (tensor._backward_hooks, tensor._post_accumulate_grad_hooks))
    version = None if tensor.is_inference() else tensor._version
    return type(tensor).__name__, tuple(tensor.shape), tensor.stride(), version, tensor.requires_grad, grad, hooks, bits


def _globals_named(function):
    if "tests" not in function.__code__.co_filename:
        return {}
    found, names = [function.__code__], set()
    for code in found:
        names |= set(code.co_names)
        found += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _own(thing):
    """An object's attributes, if it has a dictionary of them."""
    return object.__getattribute__(thing, "__dict__") if any("__dict__" in vars(base) for base in type(thing).__mro__) else None


def _referred(thing):
    """What an object refers to, with a word for each."""
    if isinstance(thing, types.FunctionType):
        cells = [cell for cell in thing.__closure__ or ()]
        return [*zip(thing.__code__.co_freevars, cells, strict=True), *_globals_named(thing).items(), ("defaults", thing.__defaults__)]
    if isinstance(thing, dict):
        return [(repr(key)[:60] if isinstance(key, PLAIN) else f"{type(key).__name__}", value) for key, value in dict.items(thing)]
    own = _own(thing)
    if isinstance(own, dict):
        rest = [] if not isinstance(thing, (list, tuple, set)) else list(thing)
        return [*((f".{key}", value) for key, value in own.items()), *((f"[{k}]", value) for k, value in enumerate(rest))]
    return [(f"[{k}]", value) for k, value in enumerate(gc.get_referents(thing)) if value is not type(thing)]


def look(roots):
    """By id: the object, where it was found, what it is."""
    found, waiting = {}, [(root, name) for name, root in roots.items()]
    while waiting and len(found) < MOST:
        thing, path = waiting.pop()
        if id(thing) in found or isinstance(thing, (*PLAIN, *CODE)) or "weakref" in type(thing).__name__.lower():
            continue
        if type(thing).__module__.split(".")[0] in ("lowtide", "_pytest", "pytest", "threading", "_thread", "logging", "weakref"):
            continue
        if isinstance(thing, torch.Tensor):
            found[id(thing)] = thing, path, _of_tensor(thing)
            more = [(".grad", thing.grad)] if thing.is_leaf else []
            waiting += [(value, path + word) for word, value in [*more, *vars(thing).items()]]
            continue
        entries = _referred(thing)
        said = [(word, value if isinstance(value, PLAIN) else id(value)) for word, value in entries]
        found[id(thing)] = thing, path, (type(thing).__name__, sorted(said, key=repr) if isinstance(thing, (set, frozenset)) else said)
        waiting += [(value, f"{path}{word if word[:1] in '.[' else '.' + word}") for word, value in entries]
    return found


def _streams():
    numpy = sys.modules.get("numpy")
    return (bytes(torch.random.default_generator.get_state().numpy()), random.getstate(),
            repr(numpy.random.get_state()) if numpy is not None else "")


def differences(before, after):
    said = []
    for number, (_, path, what) in before.items():
        now = after.get(number)
        if now is not None and repr(now[2]) != repr(what):
            said.append(f"{path}: {_short(what, now[2])}")
    said += [f"{path}: a FakeTensor" for number, (_, path, what) in after.items() if what == "a FakeTensor" and number not in before]
    return said


def _short(before, after):
    if isinstance(before, tuple) and len(before) == 2 and isinstance(before[1], list):
        gone, new = ([e for e in one if e not in other] for one, other in ((before[1], after[1]), (after[1], before[1])))
        return f"{gone[:4]} -> {new[:4]}"
    return f"{before} -> {after}"


def more_than_a_step(before, after, written):
    """What a step of eager mode would not have changed. `written`: entries that the forward pass writes, by the object's identity and their
    word; "" for all of an object."""
    said = []
    for number, (thing, path, what) in before.items():
        now = after.get(number)
        if now is None or repr(now[2]) == repr(what):
            continue
        if isinstance(thing, torch.Tensor):
            kept = [(a, b) for k, (a, b) in enumerate(zip(what, now[2], strict=True)) if k not in (3, 7) and a != b] if len(what) == 8 else [what]
            said += [f"{path}: {kept}"] if kept else []
        elif not path.startswith("optimizer"):
            owners = (number, id(_own(thing)), id(getattr(thing, "__globals__", None)) if isinstance(thing, types.FunctionType) else number)
            free = {word for of, word in written if of in owners}
            old, new = ([entry for entry in one[2][1] if entry[0] not in free] for one in (before[number], now))
            said += [] if old == new or "" in free else [f"{path}: {_short(('', old), ('', new))}"]
    return said + [f"{path}: a FakeTensor" for number, (_, path, what) in after.items() if what == "a FakeTensor" and number not in before]


class Watch:
    """The captures of one test. `within`: one is watched now. `steps`: these run; `captured`: what there was before the capture in one."""

    def __init__(self):
        self.within, self.steps, self.captured = False, 0, None

    @contextlib.contextmanager
    def nothing_changes(self, roots):
        if self.within or threading.current_thread() is not threading.main_thread():  # other threads' steps take turns with it
            yield
            return
        before, streams, self.within = look(roots), _streams(), True
        try:
            yield
        finally:
            self.within = False
            changed = differences(before, look(roots))
            assert changed == [], f"capture has changed the caller's objects: {changed[:5]}"
            assert streams == _streams(), "capture has changed a random stream"
        self.captured = before if self.steps else None

    def function(self, function):
        """`function(model, loss_fn, optimizer, ...)`, which has to leave all these as they are."""

        @functools.wraps(function)
        def called(model, *args, **options):
            if not isinstance(model, torch.nn.Module) or len(args) < 2 or not callable(args[0]):
                return function(model, *args, **options)
            with self.nothing_changes({"model": model, "loss_fn": args[0], "optimizer": args[1]}):
                return function(model, *args, **options)

        return called

    def of_step(self, function):
        """`function(step, ...)`, which has to leave the step's model, loss function and optimizer as they are."""

        @functools.wraps(function)
        def called(step, *args, **options):
            with self.nothing_changes(_roots(step)):
                return function(step, *args, **options)

        return called

    def context(self, untouched):
        """The context in which a step captures."""

        @contextlib.contextmanager
        def called(model, loss_fn, optimizer=None):
            with self.nothing_changes({"model": model, "loss_fn": loss_fn, "optimizer": optimizer}), untouched(model, loss_fn, optimizer) as note:
                yield note

        return called

    def step(self, call):
        """A step's `__call__`."""

        @functools.wraps(call)
        def called(step, batch):
            self.steps += 1
            try:
                result, before = call(step, batch), self.captured
            finally:
                self.steps, self.captured = self.steps - 1, None
            if before is not None:
                changed = more_than_a_step(before, look(_roots(step)), _written(step))
                assert changed == [], f"a step with a new shape has changed more than a step of eager mode: {changed[:5]}"
            return result

        return called


def _roots(step):
    return {"model": step._model, "loss_fn": step._loss_fn, "optimizer": step._optimizer}


def _written(step):
    """Entries that the forward pass writes, by the plan."""
    trace = getattr(step._now, "planned", None) and step._now.planned.captured.trace
    carried = getattr(trace or getattr(step._now, "exported", None), "carried", None)
    if carried is None:
        return set()
    entries = [*((one.room.owner, one.key) for one in carried.writes), *((room.owner, key) for room, key in carried.gone)]
    words = {(id(owner), word) for owner, key in entries for word in (f".{key}", f"[{key}]", str(key), repr(key))}
    whole = [one.room.owner for one in carried.growths] + [owner for owner, _ in entries if isinstance(owner, set)]
    return words | {(id(owner), "") for owner in whole}
