"""Holds that lowtide.plan and compile_step leave the caller's objects as they were, in every test that calls them.

A walk of its own, on purpose without anything of the product's: what Python's garbage collector says an object refers to, from model, loss
function and optimizer on, and the globals that functions of the tests name. Of each object its entries by identity (plain values by
value), of each tensor type, version, flags, gradient and a checksum of its contents, and the random streams. Before and after have
to be equal, and no FakeTensor may be left.
"""

import functools
import gc
import random
import sys
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


def _referred(thing):
    """What an object refers to, with a word for each."""
    if isinstance(thing, types.FunctionType):
        cells = [cell for cell in thing.__closure__ or ()]
        return [*zip(thing.__code__.co_freevars, cells, strict=True), *_globals_named(thing).items(), ("defaults", thing.__defaults__)]
    if isinstance(thing, dict):
        return [(repr(key)[:60] if isinstance(key, PLAIN) else f"{type(key).__name__}", value) for key, value in dict.items(thing)]
    has_own = any("__dict__" in vars(base) for base in type(thing).__mro__)
    own = object.__getattribute__(thing, "__dict__") if has_own else None
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
        if type(thing).__module__.split(".")[0] in ("_pytest", "pytest", "threading", "_thread", "logging", "weakref"):
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


def watched(function):
    """`function(model, loss_fn, optimizer, ...)`, which has to leave all these as they are."""

    @functools.wraps(function)
    def called(model, *args, **options):
        if not isinstance(model, torch.nn.Module) or len(args) < 2 or not callable(args[0]):
            return function(model, *args, **options)
        roots = {"model": model, "loss_fn": args[0], "optimizer": args[1]}
        before, streams = look(roots), _streams()
        try:
            return function(model, *args, **options)
        finally:
            changed = differences(before, look(roots))
            assert changed == [], f"capture has changed the caller's objects: {changed[:5]}"
            assert streams == _streams(), "capture has changed a random stream"

    return called
