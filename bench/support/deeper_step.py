"""Makes a captured GPT-2 training step deeper: the .remat problem of the same model with more layers.

A captured step is ops before the layers, the layers forward, ops between, the layers backward and ops after them. One layer in the
middle (both ways) is repeated. What an op of a layer makes is read by ops of its own layer, of neighbours or of the same layer
backward; so readers are kept relative to the layer, and those of ops outside the layers gain the copies of a reader that is
repeated. Resident bytes grow by what a layer has: parameters, gradients kept for it and optimizer state.
"""

import dataclasses
from collections.abc import Iterator

Place = tuple[str, int, int]  # section, layer (0 outside the layers), index within


@dataclasses.dataclass
class Step:
    """A problem as its file has it: (cost, may_rerun), (bytes, producer, readers), (before, after)."""
    resident: int
    ops: list[tuple[str, str]]
    values: list[tuple[int, int, list[int]]]
    edges: list[tuple[int, int]]

    @staticmethod
    def parse(text: str) -> "Step":
        words = iter(text.split())
        ops, values, resident = (int(next(words)) for _ in range(3))
        step = Step(resident, [(next(words), next(words)) for _ in range(ops)], [], [])
        for _ in range(values):
            size, producer, count = (int(next(words)) for _ in range(3))
            step.values.append((size, producer, [int(next(words)) for _ in range(count)]))
        step.edges = [(int(next(words)), int(next(words))) for _ in range(int(next(words)))]
        return step

    def text(self) -> str:
        lines = [f"{len(self.ops)} {len(self.values)} {self.resident}"]
        lines += [" ".join(op) for op in self.ops]
        lines += [" ".join(map(str, [size, producer, len(readers), *readers])) for size, producer, readers in self.values]
        lines += [str(len(self.edges))] + [f"{a} {b}" for a, b in self.edges]
        return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Shape:
    """Ops before the layers, per layer forward, between, per layer backward; the number of layers."""
    before: int
    forward: int
    between: int
    backward: int
    layers: int

    def starts(self) -> dict[str, int]:
        forward = self.before
        between = forward + self.forward * self.layers
        backward = between + self.between
        return {"before": 0, "forward": forward, "between": between, "backward": backward,
                "after": backward + self.backward * self.layers}

    def place(self, op: int) -> Place:
        section = [name for name, start in self.starts().items() if start <= op][-1]
        offset = op - self.starts()[section]
        length = {"forward": self.forward, "backward": self.backward}.get(section)
        return (section, 0, offset) if length is None else (section, offset // length, offset % length)

    def op(self, place: Place) -> int:
        section, layer, index = place
        return self.starts()[section] + {"forward": self.forward, "backward": self.backward}.get(section, 0) * layer + index


GPT2 = Shape(before=25, forward=20, between=16, backward=53, layers=12)


class Deeper:
    def __init__(self, step: Step, shape: Shape, layers: int):
        self.step, self.old = step, shape
        self.new = dataclasses.replace(shape, layers=layers)
        self.extra = layers - shape.layers
        # Backward layers are counted in the order they run.
        self.repeated = {"forward": shape.layers // 2, "backward": shape.layers - 1 - shape.layers // 2}

    def moved(self, place: Place) -> Place:
        section, layer, index = place
        return (section, layer + self.extra * (layer > self.repeated.get(section, 0)), index)

    def copies(self, place: Place) -> Iterator[Place]:
        """Where an op of the old step stands in the new one."""
        section, layer, index = place
        more = self.extra if layer == self.repeated.get(section, -1) else 0
        return iter([self.moved(place)] + [(section, layer + k, index) for k in range(1, more + 1)])

    def related(self, old: Place, new: Place, other: Place) -> list[Place]:
        """What `other`, related to `old`, is to `new`, a copy of it."""
        section, layer, index = other
        if section not in self.repeated:
            return [other]
        if old[0] not in self.repeated:
            return list(self.copies(other))
        if old[0] == section:
            return [(section, new[1] + layer - old[1], index)]
        return [(section, self.new.layers - 1 - new[1] + layer - (self.old.layers - 1 - old[1]), index)]

    def pairs(self, first: int, others: list[int]) -> Iterator[tuple[int, list[int]]]:
        old = self.old.place(first)
        for new in self.copies(old):
            found = {self.new.op(place) for other in others for place in self.related(old, new, self.old.place(other))}
            yield self.new.op(new), sorted(found)

    def result(self, bytes_per_layer: int) -> Step:
        ops: dict[int, tuple[str, str]] = {}
        for number, op in enumerate(self.step.ops):
            ops |= {self.new.op(place): op for place in self.copies(self.old.place(number))}
        values = [(size, at, found) for size, producer, readers in self.step.values for at, found in self.pairs(producer, readers)]
        edges = {(at, b) for first, second in self.step.edges for at, found in self.pairs(first, [second]) for b in found}
        return Step(self.step.resident + self.extra * bytes_per_layer, [ops[k] for k in range(len(ops))],
                    sorted(values, key=lambda value: value[1]), sorted(edges))


def deeper_gpt2(step: Step, layers: int, bytes_per_layer: int) -> Step:
    return Deeper(step, GPT2, layers).result(bytes_per_layer)
