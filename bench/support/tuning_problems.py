"""Problems that bench/tuning.py draws where none that is captured keeps a planner busy."""

import random


def drawn_order(seed: int, ops: int, window: int, rate: float) -> str:
    """An .order problem: each op makes a value that ops at most `window` later read, each with chance `rate`."""
    rng = random.Random(f"order {seed}")
    lines = []
    for op in range(ops):
        readers = [reader for reader in range(op + 1, min(ops, op + 1 + window)) if rng.random() < rate]
        lines.append(" ".join(map(str, [rng.randrange(1, 1000), op, len(readers), *readers])))
    return f"{ops} {len(lines)}\n" + "\n".join(lines) + "\n"


def drawn_many(seed: int, buffers: int, moments: int) -> str:
    """A packing of many buffers whose sizes are of all magnitudes."""
    rng = random.Random(f"many {seed}")
    rows = ["id,lower,upper,size"]
    for index in range(buffers):
        begin = rng.randrange(moments)
        life = min(moments - begin, 1 + int(rng.expovariate(40 / moments)))
        rows.append(f"{index},{begin},{begin + life},{64 * 2**rng.randrange(10) + 64 * rng.randrange(16)}")
    return "\n".join(rows) + "\n"


def drawn_chain(layers: int) -> str:
    """A .remat problem: a network of so many layers and its way back, each layer's result read by both."""
    rng, last = random.Random("chain"), 2 * layers
    ops = [f"{rng.randrange(5, 30) / 10} 1" for _ in range(layers)] + ["1 1"]
    ops += [f"{rng.randrange(10, 50) / 10} 0" for _ in range(layers)]
    values = [[rng.randrange(2, 9) * 100, op, 2, op + 1, last - op] for op in range(layers)]
    values.append([100, layers, 1, layers + 1])
    values += [[rng.randrange(2, 9) * 100, op, 1, op + 1] for op in range(layers + 1, last)]
    values.append([10, last, 0])
    lines = [f"{len(ops)} {len(values)} 0", *ops, *(" ".join(map(str, value)) for value in values), "0"]
    return "\n".join(lines) + "\n"
