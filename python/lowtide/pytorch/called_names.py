"""Methods that run without their names in the code, and what the methods of a class name.

Python calls operators and what makes an object, PyTorch calls forward and the methods of an autograd.Function; objects of packages read their own
attributes in methods that the user's code does not show. The walk over values that a plan holds for (guards.py) asks here which methods of a class
may run, and which names they have. Tests: tests/python/test_torch_stale_called.py.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator

import torch

from .reachable import is_packaged, names_of

MANY = 1_000  # functions of a package that are followed
UNREAD = frozenset("""__init__ __new__ __repr__ __str__ __setstate__ __getstate__ __reduce__ __deepcopy__ __del__ __init_subclass__ extra_repr
    reset_parameters _init_weights __dir__ state_dict load_state_dict""".split())
MAKING = frozenset({"__init__", "__new__", "__post_init__"})  # run where a class is called
_OF_FUNCTIONS = frozenset({"forward", "backward", "setup_context", "vmap", "jvp", "vjp"})  # run by autograd


def called_by_itself(name: str, kind: type, called: bool) -> bool:
    """Methods that Python or PyTorch calls without their name in the code. `called`: the code names the class, and may make objects of it."""
    if issubclass(kind, torch.autograd.Function):
        return name in _OF_FUNCTIONS
    if name in MAKING or name == "__del__":
        return called
    return name == "forward" or name.startswith("__") and name.endswith("__") and name not in UNREAD


@functools.lru_cache(maxsize=10_000)
def names_read(kind: type) -> frozenset[str]:
    """What methods of a package's class name, or those that a class of the user's has of a package's."""
    names: set[str] = set()
    waiting = []
    for base in kind.__mro__:
        if base in (torch.nn.Module, object) or not is_packaged(base):
            continue
        for name, method in vars(base).items():
            function = method.fget if isinstance(method, property) else method
            if isinstance(function, types.FunctionType) and name not in UNREAD:
                names |= names_of(function.__code__)
                waiting.append(function)
    for function in _of_functions_called(waiting):
        names |= names_of(function.__code__)
    return frozenset(names)


def _of_functions_called(waiting: list[types.FunctionType]) -> Iterator[types.FunctionType]:
    """The methods of each autograd.Function that a package's code comes to within its own files: they read objects that they are given."""
    seen, package = set(waiting), {function.__module__.partition(".")[0] for function in waiting if function.__module__} - {"torch"}
    while waiting:
        function = waiting.pop()
        for name in function.__code__.co_names:
            found = function.__globals__.get(name)
            if isinstance(found, type) and issubclass(found, torch.autograd.Function) and found is not torch.autograd.Function:
                yield from (m.__func__ for key, m in vars(found).items() if key in _OF_FUNCTIONS and isinstance(m, staticmethod)
                            and isinstance(m.__func__, types.FunctionType))
            elif isinstance(found, types.FunctionType) and found not in seen and len(seen) < MANY and found.__module__ and (
                    found.__module__.partition(".")[0] in package):
                seen.add(found)
                waiting.append(found)


@functools.lru_cache(maxsize=10_000)
def methods_of(kind: type) -> tuple[tuple[str, types.FunctionType], ...]:
    """The functions in a class and those that it is made of, but PyTorch's and those that nobody calls in a step."""
    found = []
    for base in kind.__mro__:
        if base is object or (base.__module__ or "").partition(".")[0] == "torch":
            continue
        for name, method in vars(base).items():
            function = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
            if isinstance(function, types.FunctionType) and name not in UNREAD and name not in MAKING:
                found.append((name, function))
    return tuple(found)
