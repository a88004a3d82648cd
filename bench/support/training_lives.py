"""Packing problems of training steps at scale, drawn from a seed: many long lives of very different sizes, short ones between them."""

import itertools
import pathlib
import random

Life = tuple[int, int, int]  # lower, upper, size


def write(path: pathlib.Path, lives: list[Life]) -> None:
    """As CSV (id,lower,upper,size)."""
    path.write_text("id,lower,upper,size\n" + "".join(f"{k},{lower},{upper},{size}\n" for k, (lower, upper, size) in enumerate(lives)))


def mixed_training_lives(count: int, seed: int) -> list[Life]:
    """One in twenty is an activation that waits for the backward pass, as many live for some hundreds of steps, the others for one to
    four. Easy: one moment stands out, and first fit by size reaches its load."""
    draw = random.Random(seed)
    end = count // 2
    lives: list[Life] = []
    while len(lives) < count:
        time = draw.randrange(end)
        size = (1 << draw.randint(4, 22)) * draw.randint(2, 3)
        kind = draw.randrange(20)
        if kind == 0:
            lives.append((min(time, end - time - 1), max(time, end - time - 1) + 1, size))
        elif kind == 1:
            lives.append((time, time + draw.randint(20, 400), size))
        else:
            lives.append((time, time + draw.randint(1, 4), 4 * size))
    return lives


def crowded_training_lives(count: int, waiting: int, seed: int) -> list[Life]:
    """As a step planned within a budget is: `waiting` activations wait for the backward pass, one in twenty buffers lives for some
    hundreds of steps, the others for one to four, where the budget of 1.05 times the long ones' load leaves room. So the load is near
    its greatest at many moments. Sizes are widths of layers times small numbers. Hard where the short ones are large beside the
    load, that is where few wait."""
    draw = random.Random(seed)
    end = count // 2

    def size() -> int:
        return 512 * draw.choice([1, 3, 4, 12, 16, 48, 50]) * draw.choice([1, 2, 3, 5, 7])
    lives: list[Life] = []
    for _ in range(waiting):
        time = draw.randrange(end)
        lives.append((min(time, end - time - 1), max(time, end - time - 1) + 1, size()))
    for _ in range(count // 20):
        time = draw.randrange(end)
        lives.append((time, min(end, time + draw.randint(20, 400)), size()))
    changes = [0] * (end + 1)
    for lower, upper, bytes_ in lives:
        changes[lower] += bytes_
        changes[upper] -= bytes_
    load = list(itertools.accumulate(changes))[:end]
    budget = max(load) * 105 // 100
    while len(lives) < count:
        time = draw.randrange(end)
        upper, bytes_ = min(end, time + draw.randint(1, 4)), 4 * size()
        if max(load[time:upper]) + bytes_ > budget:
            continue
        for moment in range(time, upper):
            load[moment] += bytes_
        lives.append((time, upper, bytes_))
    return lives
