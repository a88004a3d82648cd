"""Numbers that Python reads off a tensor by int(), float() or '%d', while a step is traced: what they are asked for.

Python's int() and float() give numbers and nothing else, so a number that only a step knows has to be one at once. Where it is used says
which will do. The place of the call in the source is told by the frame (PEP 657):

    in a condition    the smallest comparison, or math.isnan and its kind, that it is part of: computed as an op on the tensor, and
                      asked (decisions.py). The number is then any for which Python comes to the same answer
    in words          of a raise, or of the text that is formatted for one: any number at all; which letters of the words hang on it is found
                      by saying them twice, with other numbers

Else, or without source, there is none, and PyTorch refuses as it does. Beside the number a condition may have numbers that lie in names,
attributes and entries, sizes and len(): nothing that is called twice to another end. Tests: tests/python/test_torch_read_numbers.py.
"""

from __future__ import annotations

import ast
import functools
import linecache
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

_OF_MATH = {math.isnan: torch.isnan, math.isinf: torch.isinf, math.isfinite: torch.isfinite}
_PURE_CALLS = (abs, len, int, float, round, *_OF_MATH)
_PURE_METHODS = ("size", "dim", "numel", "nelement")
_LEAVES = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript)
_PLAIN = (int, float, bool, type(None), str)
_PURE = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, *_LEAVES)
FILLS = (17, 29)  # in the place of numbers in words
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf))")


class Condition:
    """An expression that is true or false, with a hole where the number is."""

    def __init__(self, frame: Any, expression: ast.expr, hole: ast.expr) -> None:
        self.names = {**frame.f_globals, **frame.f_locals}
        self.expression, self.hole = expression, hole

    def of(self, number: Any) -> Any:
        """Its value for a number, or for a tensor of one."""
        return self.value(self.expression, number)

    def value(self, node: ast.expr, number: Any) -> Any:  # recursion: as deep as an expression of the user's
        if node is self.hole:
            return number
        if isinstance(node, ast.Compare):
            found, left = True, self.value(node.left, number)
            for op, right in zip(node.ops, (self.value(c, number) for c in node.comparators), strict=True):
                one = _COMPARED[type(op)](left, right)
                found, left = one if found is True else found & one, right
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.value(node.operand, number)
            return inner.logical_not() if isinstance(inner, torch.Tensor) else not inner
        if isinstance(node, ast.BinOp):
            return self.evaluated(ast.BinOp(_name("left"), node.op, _name("right")), left=self.value(node.left, number),
                                  right=self.value(node.right, number))
        if isinstance(node, ast.UnaryOp):
            return self.evaluated(ast.UnaryOp(node.op, _name("inner")), inner=self.value(node.operand, number))
        if isinstance(node, ast.Call):
            if self.leaf(node) is not ...:
                return self.leaf(node)
            function, given = self.evaluated(node.func), [self.value(a, number) for a in node.args]
            if function is not len and isinstance(given[0], torch.Tensor):
                return _on_tensor(function, given[0])
            return function(*given)
        return self.evaluated(node)

    def evaluated(self, node: ast.expr, **more: Any) -> Any:
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "<lowtide condition>", "eval")
        return eval(code, {**self.names, **more})  # noqa: S307: an expression of the user's own code

    def numbers(self) -> Iterator[float]:
        """Those that it compares with."""
        for node in ast.walk(self.expression):
            found = self.leaf(node) if isinstance(node, (*_LEAVES, ast.Call)) and node is not self.hole else None
            if type(found) in (int, float):
                yield found

    def leaf(self, node: ast.AST) -> Any:
        """What a node is that reads one number; Ellipsis where it does not."""
        if isinstance(node, ast.Call) and (node.keywords or not isinstance(node.func, ast.Attribute) or node.func.attr not in _PURE_METHODS):
            return ...
        try:
            found = self.evaluated(node)
        except Exception:  # noqa: BLE001: what the user's own attributes raise
            return ...
        return found if type(found) in _PLAIN else ...

    def number_with(self, answer: bool, kind: type) -> Any:
        """A number for which it is `answer`; None where none is found."""
        near = [0, *self.numbers()]
        steps = [0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e9, -1e9]
        tried = [n * sign + step for n in near for sign in (1, -1) for step in steps] + [*range(-20, 20), math.inf, -math.inf, math.nan]
        for each in tried:
            if kind is int and not math.isfinite(each):
                continue
            try:
                if bool(self.of(kind(each))) == answer:
                    return kind(each)
            except (ArithmeticError, ValueError):
                continue
        return None


_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b}


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _on_tensor(function: Any, tensor: torch.Tensor) -> torch.Tensor:
    if function in _OF_MATH:
        return _OF_MATH[function](tensor)
    return {abs: torch.abs, round: torch.round, int: lambda t: t.to(torch.int64), float: lambda t: t.to(torch.float64)}[function](tensor)


@functools.lru_cache(maxsize=64)
def _parents(source: str) -> dict[tuple, list[ast.AST]]:
    """The nodes by their place, each with all that it lies in, from the inside."""
    found: dict[tuple, list[ast.AST]] = {}
    waiting: list[list[ast.AST]] = [[ast.parse(source)]]
    while waiting:
        chain = waiting.pop()
        if hasattr(chain[0], "lineno"):
            place = chain[0].lineno, chain[0].end_lineno, chain[0].col_offset, chain[0].end_col_offset
            found.setdefault(place, chain)
        waiting += [[inner, *chain] for inner in ast.iter_child_nodes(chain[0])]
    return found


def _chain(frame: Any) -> list[ast.AST]:
    """The expression that a frame is at, and all that it lies in; [] where that is not known."""
    places = list(frame.f_code.co_positions())
    place = places[frame.f_lasti // 2]
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    if not source or None in place:
        return []
    try:
        return _parents(source).get(place, [])
    except (SyntaxError, ValueError):
        return []


def is_in_words(frame: Any) -> bool:
    """Whether the number that is read goes into what is raised."""
    return any(isinstance(node, ast.Raise) for node in _chain(frame)) or any(
        isinstance(outer, ast.Assert) and inner is outer.msg for inner, outer in zip(_chain(frame), _chain(frame)[1:], strict=False))


def condition(frame: Any) -> Condition | None:
    """What the number that is read decides; None where that is not known."""
    chain = _chain(frame)
    if not chain or not isinstance(chain[0], ast.Call):
        return None
    call, found = chain[0], None
    own = call if call.args and isinstance(call.func, ast.Name) and call.func.id in ("int", "float") else call.args[0] if call.args else None
    for node in chain:
        if not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call)):
            break
        made = Condition(frame, node, own)
        if not _is_pure(made, node):
            break
        if isinstance(node, ast.Compare) or isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) or (
                isinstance(node, ast.Call) and _function(made, node) in _OF_MATH):
            found = made
    return found


def _function(made: Condition, call: ast.Call) -> Any:
    try:
        return made.evaluated(call.func)
    except Exception:  # noqa: BLE001: an attribute of the user's may raise what it likes
        return None


def _is_pure(made: Condition, node: ast.AST) -> bool:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one is made.hole:
            continue
        if not isinstance(one, _PURE) or isinstance(one, ast.Compare) and not all(type(op) in _COMPARED for op in one.ops):
            return False
        if isinstance(one, ast.Call) and not one.keywords and _function(made, one) in _PURE_CALLS:
            waiting += [] if _function(made, one) is len else one.args
        elif isinstance(one, (*_LEAVES, ast.Call)):
            if made.leaf(one) is ...:
                return False
        else:
            waiting += [inner for inner in ast.iter_child_nodes(one) if isinstance(inner, ast.expr)]
    return True


def in_words(first: Exception, second: Exception) -> Exception:
    """The first, with a question mark for each number that is another one in the second."""
    if type(first) is type(second) and len(first.args) == len(second.args):
        first.args = tuple(map(_merged, first.args, second.args))
    return first


def _merged(a: Any, b: Any) -> Any:
    if not isinstance(a, str) or not isinstance(b, str):
        return a if a == b else "?"
    mine, its = _NUMBER.split(a), _NUMBER.split(b)
    return "".join(x if x == y else "?" for x, y in zip(mine, its, strict=True)) if len(mine) == len(its) else a
