"""Values that Lowtide and PyTorch both make from a seed, so that results can be compared without sharing weight files.

The value of element i (row-major index) of the tensor with a given name under a given seed, all arithmetic modulo 2^64:

    h     = FNV-1a 64 of the name's UTF-8 bytes          (offset 14695981039346656037, prime 1099511628211)
    state = h xor (seed * 0x9E3779B97F4A7C15)
    z     = state + (i + 1) * 0x9E3779B97F4A7C15
    z     = (z xor (z >> 30)) * 0xBF58476D1CE4E5B9
    z     = (z xor (z >> 27)) * 0x94D049BB133111EB
    z     = z xor (z >> 31)                              (the finalizer of SplitMix64)
    u     = (z >> 11) * 2^-53                            (uniform in [0, 1), exact in a double)

Then, computed in double and rounded once to float32, by the first line that fits:

    name ends in "running_var"         1 + 0.1 u
    name ends in "running_mean"        0.1 (2u - 1)
    one-dimensional, ends in "weight"  1 + 0.1 (2u - 1)                     (gains of normalizations)
    other parameters of dim 0 or 1     0.1 (2u - 1)                         (biases)
    other parameters                   (2u - 1) sqrt(3 / fan_in)            fan_in = product of all dims but the first
    float inputs of the model          2u - 1
    integer inputs and labels          floor(u * limit)                     (int64)
"""

import math

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def fnv1a(name: str) -> int:
    value = 14695981039346656037
    for byte in name.encode():
        value = ((value ^ byte) * 1099511628211) & MASK
    return value


def uniform(seed: int, name: str, count: int) -> np.ndarray:
    """The first count values u of a tensor, as float64."""
    state = fnv1a(name) ^ ((seed * GOLDEN) & MASK)
    with np.errstate(over="ignore"):
        z = np.uint64(state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def parameter(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The float32 values of a parameter or of a buffer of running statistics."""
    u = uniform(seed, name, math.prod(shape))
    signed = 2 * u - 1
    if name.endswith("running_var"):
        values = 1 + 0.1 * u
    elif name.endswith("running_mean"):
        values = 0.1 * signed
    elif len(shape) == 1 and name.endswith("weight"):
        values = 1 + 0.1 * signed
    elif len(shape) <= 1:
        values = 0.1 * signed
    else:
        values = signed * math.sqrt(3 / math.prod(shape[1:]))
    return values.astype(np.float32).reshape(shape)


def float_input(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    return (2 * uniform(seed, name, math.prod(shape)) - 1).astype(np.float32).reshape(shape)


def integer_input(seed: int, name: str, shape: tuple[int, ...], limit: int) -> np.ndarray:
    return np.floor(uniform(seed, name, math.prod(shape)) * limit).astype(np.int64).reshape(shape)
