"""Packing problems of training steps at scale, drawn from a seed: many long lives of very different sizes, short ones between them."""

import pathlib
import random


def mixed_training_lives(path: pathlib.Path, count: int, seed: int) -> None:
    """Writes `count` buffers as CSV (id,lower,upper,size). One in twenty is an activation that waits for the backward pass, as many
    live for some hundreds of steps, the others for one to three."""
    draw = random.Random(seed)
    end = count // 2
    rows = ["id,lower,upper,size"]
    while len(rows) <= count:
        time = draw.randrange(end)
        size = (1 << draw.randint(4, 22)) * draw.randint(2, 3)
        kind = draw.randrange(20)
        if kind == 0:
            lower, upper = min(time, end - time - 1), max(time, end - time - 1) + 1
        elif kind == 1:
            lower, upper = time, time + draw.randint(20, 400)
        else:
            lower, upper, size = time, time + draw.randint(1, 4), 4 * size
        rows.append(f"{len(rows) - 1},{lower},{upper},{size}")
    path.write_text("\n".join(rows) + "\n")
