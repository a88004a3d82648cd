"""Draws packing problems that are hard and known to fit: what is cut from a rectangle of time x capacity fits into it again.

The kinds. `full`: all boxes, so that nothing is free at any moment. `left out`: a tenth of the boxes is not there. `pinwheel`: cuts
that go through no whole box (five boxes around the middle one), too. `long`: cuts across memory come more often, so that lives are
long and many buffers alive at once, and up to a fifth is left out, as in minimalloc's A to E. `even`: boxes of much the same size, a
third of them left out, as in its F to H.
"""

import random

SIDE = 1024  # of the rectangle, in units of time and of memory
UNIT = 1024
CAPACITY = SIDE * UNIT
KINDS = ["full", "left out", "pinwheel", "long", "even"]

Box = tuple[int, int, int, int]  # begin, end, low, high


def area(box: Box) -> int:
    begin, end, low, high = box
    return (end - begin) * (high - low)


def cut(box: Box, rng: random.Random, kind: str) -> list[Box]:
    """Two boxes, cut across the longer side as a rule."""
    begin, end, low, high = box
    width, height = end - begin, high - low
    middle = kind == "even"
    if kind == "long":
        across_time = rng.random() < 0.4
    else:
        across_time = width > height if middle else rng.randrange(width + height) < width
    length = width if across_time else height
    if length < 2:
        return [box]
    at = rng.randrange(length // 3 + 1, max(2 * length // 3, length // 3 + 2)) if middle else rng.randrange(1, length)
    if across_time:
        return [(begin, begin + at, low, high), (begin + at, end, low, high)]
    return [(begin, end, low, low + at), (begin, end, low + at, high)]


def pinwheel(box: Box, rng: random.Random) -> list[Box]:
    begin, end, low, high = box
    if end - begin < 3 or high - low < 3:
        return [box]
    left, right = sorted(rng.sample(range(begin + 1, end), 2))
    below, above = sorted(rng.sample(range(low + 1, high), 2))
    around = [(begin, right, low, below), (right, end, low, above), (left, end, above, high), (begin, left, below, high)]
    return [*around, (left, right, below, above)]


def draw(kind: str, seed: int) -> list[tuple[int, int, int]]:
    """Buffers as (lower, upper, size), in an order that says nothing of where they lay."""
    rng = random.Random(f"{kind} {seed}")
    count = rng.randrange(150, 421)
    boxes: list[Box] = [(0, SIDE, 0, SIDE)]
    while len(boxes) < count:
        tries = len(boxes) if kind == "even" else 3  # the largest of so many is cut
        index = max((rng.randrange(len(boxes)) for _ in range(tries)), key=lambda k: area(boxes[k]))
        box = boxes.pop(index)
        boxes += pinwheel(box, rng) if kind == "pinwheel" and rng.random() < 0.3 else cut(box, rng, kind)
    left_out = {"left out": 0.1, "long": rng.random() / 5, "even": 0.33}.get(kind, 0)
    boxes = [box for box in boxes if rng.random() >= left_out]
    rng.shuffle(boxes)
    return [(begin * UNIT, end * UNIT, (high - low) * UNIT) for begin, end, low, high in boxes]


def as_csv(buffers: list[tuple[int, int, int]]) -> str:
    return "id,lower,upper,size\n" + "".join(f"{k},{lower},{upper},{size}\n" for k, (lower, upper, size) in enumerate(buffers))
