"""Draws graphs. A drawer (draw_*.py) takes the state below, picks operands among the values made so far (or makes new
inputs and constants), and adds one or a few nodes; it answers False where nothing fits. All choices come from one seeded
generator, so a seed is a graph.

Shapes are small and odd, extents of 1 common: broadcasting, views and layouts go wrong there first. Views of views,
values read twice, outputs that others read too come by themselves from picking at random.
"""

import numpy as np

from graph import Graph, Node

MOST_ELEMENTS = 3000
EXTENTS = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8]


class State:
    def __init__(self, seed: int, opset: int, real: type, differentiable: bool, exact: bool):
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(opset)
        self.real = np.dtype(real)  # of floats in this graph
        self.differentiable = differentiable  # only what training can pass
        self.exact = exact  # floats are small whole numbers
        self.count = 0

    # ---- chance

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0

    def choose(self, items):
        return items[self.below(len(items))]

    def extent(self) -> int:
        return self.choose(EXTENTS)

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        while True:
            shape = tuple(self.extent() for _ in range(low + self.below(high - low + 1)))
            if np.prod(shape, dtype=np.int64) <= MOST_ELEMENTS:
                return shape

    # ---- contents

    def contents(self, dtype, shape) -> np.ndarray:
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "u":
            return self.rng.integers(0, 7, shape).astype(dtype)
        if dtype.kind == "i":
            return self.rng.integers(-5, 6, shape).astype(dtype)
        if self.exact:
            return self.rng.integers(-4, 5, shape).astype(dtype)
        return self.rng.uniform(-2, 2, shape).astype(np.float32).astype(dtype)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def input(self, dtype, shape) -> str:
        name = self.name("x")
        self.graph.inputs[name] = self.contents(dtype, shape)
        self.graph.types[name] = (np.dtype(dtype), tuple(shape))
        return name

    def constant(self, array) -> str:
        """As an initializer, or made by a Constant node."""
        array = np.asarray(array)
        name = self.name("w" if array.dtype.kind == "f" else "c")
        self.graph.types[name] = (array.dtype, array.shape)
        if self.chance(6) and not self.differentiable:
            self.graph.nodes.append(Node("Constant", [], [name], {"value": array}))
        else:
            self.graph.constants[name] = array
        return name

    def ints(self, values) -> str:
        return self.constant(np.asarray(values, np.int64))

    def weight(self, shape, dtype=None) -> str:
        dtype = dtype or self.real
        fan_in = max(1, int(np.prod(shape[1:])))
        return self.constant((self.contents(dtype, shape) if self.exact
                              else self.contents(np.float32, shape) / np.sqrt(fan_in)).astype(dtype))

    # ---- values

    def type(self, name: str):
        return self.graph.types[name]

    def dims(self, name: str) -> tuple[int, ...]:
        return self.graph.types[name][1]

    def values(self, fits) -> list[str]:
        """Of a fit type and shape; what was made last stands there more often."""
        found = [name for name, (dtype, shape) in self.graph.types.items() if fits(dtype, shape)]
        return found + [name for name in found[-4:] for _ in range(2)]

    def pick(self, dtype=None, low: int = 0, high: int = 6, fits=None) -> str | None:
        """A value of the type and a rank in range, or now and then a new input. None where there is none and none can be
        made (a condition of the caller's own)."""
        dtype = np.dtype(dtype or self.real)
        found = self.values(lambda d, s: d == dtype and low <= len(s) <= high and (fits is None or fits(s)))
        if found and not self.chance(10):
            return self.choose(found)
        if fits is not None:
            return self.choose(found) if found else None
        shape = self.shape(low, min(high, 4) if low <= 4 else low)
        return self.weight(shape) if self.chance(2 if self.differentiable else 4) and dtype == self.real else self.input(dtype, shape)

    def like(self, dtype, shape) -> str:
        """A value of exactly this type and shape: one that is there, an input, or a constant."""
        found = self.values(lambda d, s: d == np.dtype(dtype) and s == tuple(shape))
        if found and not self.chance(3):
            return self.choose(found)
        return self.input(dtype, shape) if self.chance(2) else self.constant(self.contents(dtype, shape))

    def partner(self, name: str) -> str:
        """An operand that broadcasts with `name`."""
        dtype, shape = self.type(name)
        def fits(d, s):
            joined = broadcast(shape, s)
            return d == dtype and joined is not None and np.prod(joined, dtype=np.int64) <= MOST_ELEMENTS
        found = self.values(fits)
        if found and not self.chance(3):
            return self.choose(found)
        narrow = [1 if self.chance(3) else extent for extent in shape]
        narrow = narrow[self.below(len(narrow) + 1):] if narrow else []
        return self.input(dtype, narrow) if self.chance(2) else self.constant(self.contents(dtype, narrow))

    # ---- nodes

    def node(self, op: str, inputs: list[str], outputs: list[tuple], **attrs) -> list[str]:
        """Adds a node; outputs are (dtype, shape) or None for one that is left out."""
        names = []
        for made in outputs:
            name = "" if made is None else self.name("v")
            if made is not None:
                self.graph.types[name] = (np.dtype(made[0]), tuple(int(d) for d in made[1]))
            names.append(name)
        self.graph.nodes.append(Node(op, list(inputs), names, attrs))
        return names

    def same(self, op: str, x: str, *more: str, **attrs) -> str:
        """A node whose result has the type and shape of its first operand."""
        return self.node(op, [x, *more], [self.type(x)], **attrs)[0]


def broadcast(a, b):
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None
