"""First fit in a plain order, to hold the packer's heights against: each buffer in turn gets the lowest place that is free for its
whole life. Quadratic in the buffers, with numpy: a few seconds for 62,000."""

import pathlib

import numpy as np

ORDERS = ["size", "area", "start"]  # largest first, size x life largest first, earliest first; of equals the larger, then the earlier


def buffers_of(path: pathlib.Path) -> np.ndarray:
    """Rows of lower, upper and size, from CSV (id,lower,upper,size)."""
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=(1, 2, 3), dtype=np.int64, ndmin=2)


def load(buffers: np.ndarray) -> int:
    """The most bytes alive at a moment, which no packing is lower than."""
    lower, upper, size = buffers.T
    changes = np.zeros(upper.max() + 1, np.int64)
    np.add.at(changes, lower, size)
    np.add.at(changes, upper, -size)
    return int(changes.cumsum().max())


def in_order(buffers: np.ndarray, order: str) -> np.ndarray:
    lower, upper, size = buffers.T
    key = {"size": -size, "area": -size * (upper - lower), "start": lower}[order]
    return buffers[np.lexsort((lower, -size, key))]


def first_fit(buffers: np.ndarray, order: str) -> int:
    """The height."""
    lower, upper, size = np.ascontiguousarray(in_order(buffers, order).T)
    low, high = np.zeros_like(size), np.zeros_like(size)
    for k in range(len(size)):
        near = np.flatnonzero((lower[:k] < upper[k]) & (upper[:k] > lower[k]))
        near = near[np.argsort(low[near])]
        free = np.concatenate(([0], np.maximum.accumulate(high[near])))  # from here on to the next one's low
        fits = np.flatnonzero(low[near] - free[:-1] >= size[k])
        low[k] = free[fits[0]] if len(fits) else free[-1]
        high[k] = low[k] + size[k]
    return int(high.max())
