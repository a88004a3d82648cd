"""Drawers of elementwise ops."""

import numpy as np

from draw import MOST_ELEMENTS, State, broadcast
from graph import element_type

SMOOTH = ["Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Sin", "Cos", "Softplus", "Softsign", "HardSwish",
          "HardSigmoid", "Mish", "LeakyRelu", "Elu", "Selu", "Celu", "Identity", "Gelu", "ThresholdedRelu", "Atan", "Asinh"]
STEPS = ["Floor", "Ceil", "Round", "Sign"]
FROM_OPSET = {"HardSwish": 14, "Mish": 18, "Gelu": 20}
ATTRIBUTES = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Celu": ["alpha"],
              "ThresholdedRelu": ["alpha"]}
SIGNED = [np.dtype(t) for t in (np.int64, np.int32, np.float32, np.float64)]


def unary(s: State) -> bool:
    op = s.choose(SMOOTH if s.differentiable else SMOOTH + STEPS)
    if s.graph.opset < FROM_OPSET.get(op, 0):
        return False
    x = s.pick()
    in_float = s.real == np.float64 and not s.differentiable  # constants of ONNX Runtime's own, like the sixth of HardSwish
    if op == "HardSwish" and in_float:
        return False
    attrs = {key: round(float(s.rng.uniform(0.1, 1.5)), 3) for key in ATTRIBUTES.get(op, []) if s.chance(2)}
    if op == "Gelu" and s.chance(2) and not in_float:
        attrs["approximate"] = "tanh"
    s.same(op, x, **attrs)
    return True


def positive(s: State) -> bool:
    """Ops that are defined above zero, behind one that brings their operand there."""
    x = s.pick()
    base = s.same("Abs", x) if s.chance(2) else s.same("Mul", x, x)
    lifted = s.node("Add", [base, s.constant(np.asarray(0.5, s.real))], [s.type(x)])[0]
    s.same(s.choose(["Log", "Sqrt", "Reciprocal"]), lifted)
    return True


def integer_unary(s: State) -> bool:
    x = s.pick(s.choose([np.int64, np.int32]))
    s.same(s.choose(["Neg", "Abs", "Sign", "Identity"]), x)
    return True


def binary(s: State) -> bool:
    a = s.pick()
    b = s.partner(a)
    return add_binary(s, s.choose(["Add", "Sub", "Mul", "Add", "Mul", "Max", "Min"]), a, b)


def add_binary(s: State, op: str, a: str, b: str, dtype=None) -> bool:
    joined = broadcast(s.dims(a), s.dims(b))
    if joined is None or np.prod(joined, dtype=np.int64) > MOST_ELEMENTS:
        return False
    if s.chance(2):
        a, b = b, a
    s.node(op, [a, b], [(dtype or s.type(a)[0], joined)])
    return True


def divide(s: State) -> bool:
    x = s.pick()
    if s.chance(2):  # by a constant
        divisor = s.constant(np.asarray(s.choose([3, 7, 41, 10, 0.1, 49, -6]), s.real))
    else:
        y = s.partner(x)
        squared = s.same("Mul", y, y)
        divisor = s.node("Add", [squared, s.constant(np.asarray(1, s.real))], [s.type(y)])[0]
    s.node("Div", [x, divisor], [(s.real, broadcast(s.dims(x), s.dims(divisor)))])
    return True


def with_scalar(s: State) -> bool:
    x = s.pick()
    scalar = s.constant(np.full((1,) * s.below(2), s.choose([0.5, 2, -1.5, 3, 0, 1]), s.real))
    op = s.choose(["Add", "Sub", "Mul"])
    operands = [x, scalar] if s.chance(2) else [scalar, x]
    s.node(op, operands, [(s.real, broadcast(s.dims(x), s.dims(scalar)))])
    return True


def power(s: State) -> bool:
    x = s.pick()
    exponent = s.choose([2, 3, 2, 0, 1, 0.5, -1, 1.5])
    if exponent not in (0, 1, 2, 3):
        x = s.same("Abs", x)
        x = s.node("Add", [x, s.constant(np.asarray(0.5, s.real))], [s.type(x)])[0]
    s.same("Pow", x, s.constant(np.asarray(exponent, s.real)))
    return True


def clip(s: State) -> bool:
    x = s.pick(None if s.differentiable else s.choose([s.real, s.real, np.int64, np.int32]))
    dtype = s.type(x)[0]
    low = s.constant(np.asarray(-1, dtype)) if s.chance(2) else ""
    high = s.constant(np.asarray(1, dtype)) if s.chance(2) else ""
    inputs = [x, low, high] if high else ([x, low] if low else [x])
    s.node("Clip", inputs, [s.type(x)])
    return True


def many(s: State) -> bool:
    """Sum, Mean, Max and Min take any number of operands."""
    a = s.pick()
    operands = [a] + [s.partner(a) for _ in range(s.below(3))]
    joined = s.dims(a)
    for operand in operands:
        joined = broadcast(joined, s.dims(operand)) if joined is not None else None
    if joined is None or np.prod(joined, dtype=np.int64) > MOST_ELEMENTS:
        return False
    s.node(s.choose(["Sum", "Mean", "Max", "Min"]), operands, [(s.real, joined)])
    return True


def integer_binary(s: State) -> bool:
    a = s.pick(s.choose([np.int64, np.int32]))
    b = s.partner(a)
    op = s.choose(["Add", "Sub", "Mul", "Max", "Min", "Div", "Mod"])
    if op in ("Div", "Mod"):  # never by zero
        squared = s.same("Mul", b, b)
        b = s.node("Add", [squared, s.constant(np.asarray(1, s.type(b)[0]))], [s.type(b)])[0]
        joined = broadcast(s.dims(a), s.dims(b))
        s.node(op, [a, b], [(s.type(a)[0], joined)])
        return True
    return add_binary(s, op, a, b)


def compare(s: State) -> bool:
    a = s.pick(s.choose([s.real, s.real, np.int64, np.int32]))
    op = s.choose(["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
    return add_binary(s, op, a, s.partner(a), np.bool_)


def logic(s: State) -> bool:
    a = s.pick(np.bool_)
    if s.chance(3):
        s.same("Not", a)
        return True
    return add_binary(s, s.choose(["And", "Or", "Xor"]), a, s.partner(a), np.bool_)


def where(s: State) -> bool:
    a = s.pick(None if s.differentiable else s.choose([s.real, s.real, np.int64]))
    b = s.partner(a)
    joined = broadcast(s.dims(a), s.dims(b))
    if joined is None or np.prod(joined, dtype=np.int64) > MOST_ELEMENTS:
        return False
    narrow = [1 if s.chance(3) else extent for extent in joined]
    condition = s.input(np.bool_, narrow) if s.chance(2) else s.constant(s.contents(np.bool_, narrow))
    s.node("Where", [condition, a, b], [(s.type(a)[0], joined)])
    return True


def cast(s: State) -> bool:
    found = s.values(lambda d, shape: d in SIGNED or d == np.bool_)
    if not found:
        return False
    x = s.choose(found)
    to = s.choose([s.real, s.real, np.dtype(np.int64), np.dtype(np.int32)])
    if s.type(x)[0].kind == "f" and to.kind == "i":
        x = s.same("Clip", x, s.constant(np.asarray(-100, s.type(x)[0])), s.constant(np.asarray(100, s.type(x)[0])))
    if to == np.float64:
        to = s.real
    s.node("Cast", [x], [(to, s.dims(x))], to=element_type(to))
    return True


def prelu(s: State) -> bool:
    x = s.pick(low=1)
    shape = s.dims(x)
    slope = [1 if s.chance(2) else extent for extent in shape][s.below(len(shape)):]
    s.same("PRelu", x, s.weight(tuple(slope)))
    return True


def checks(s: State) -> bool:
    x = s.pick()
    s.node(s.choose(["IsNaN", "IsInf"]), [x], [(np.bool_, s.dims(x))])
    return True


def bits(s: State) -> bool:
    if s.graph.opset < 18:
        return False
    a = s.pick(s.choose([np.int64, np.int32]))
    if s.chance(4):
        s.same("BitwiseNot", a)
        return True
    return add_binary(s, s.choose(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), a, s.partner(a))


# (drawer, weight, whether training can pass)
DRAWERS = [(unary, 8, True), (positive, 3, True), (binary, 8, True), (divide, 3, True), (with_scalar, 3, True),
           (power, 2, True), (clip, 2, True), (many, 2, True), (where, 2, True), (prelu, 1, True),
           (integer_unary, 1, False), (integer_binary, 2, False), (compare, 2, False), (logic, 1, False),
           (cast, 2, False), (checks, 1, False), (bits, 1, False)]
