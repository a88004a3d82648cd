"""The vectorised recipe against the recipe in plain integers, and its fixed values, which other languages must repeat."""

import math

import numpy as np
import pytest
import seeded_values

MASK = (1 << 64) - 1


def plain_uniform(seed: int, name: str, index: int) -> float:
    state = 14695981039346656037
    for byte in name.encode():
        state = ((state ^ byte) * 1099511628211) & MASK
    state ^= (seed * 0x9E3779B97F4A7C15) & MASK
    z = (state + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


@pytest.mark.parametrize("seed", [0, 1, 12345, MASK])
@pytest.mark.parametrize("name", ["", "x", "conv1.weight", "transformer.h.11.mlp.c_proj.bias"])
def test_uniform_equals_plain_integer_arithmetic(seed, name):
    values = seeded_values.uniform(seed, name, 50)
    assert values.tolist() == [plain_uniform(seed, name, i) for i in range(50)]


def test_fnv1a_published_vectors():
    assert seeded_values.fnv1a("") == 0xCBF29CE484222325
    assert seeded_values.fnv1a("a") == 0xAF63DC4C8601EC8C
    assert seeded_values.fnv1a("foobar") == 0x85944171F73967E8


def test_fixed_values():
    assert seeded_values.uniform(1, "conv1.weight", 3).tolist() == [0.005962594926373854, 0.7417888835086188, 0.7067998582792212]
    assert seeded_values.integer_input(1, "labels", (4,), 1000).tolist() == [860, 309, 933, 552]


def test_rules_by_name_and_rank():
    u = seeded_values.uniform(7, "n.weight", 6)
    assert np.array_equal(seeded_values.parameter(7, "n.weight", (6,)), (1 + 0.1 * (2 * u - 1)).astype(np.float32))
    matrix = seeded_values.parameter(7, "n.weight", (2, 3))
    assert np.array_equal(matrix.ravel(), ((2 * u - 1) * math.sqrt(3 / 3)).astype(np.float32))
    variance = seeded_values.parameter(7, "bn.running_var", (100,))
    assert variance.min() >= 1 and variance.max() <= 1.1
    for name in ("bn.running_mean", "fc.bias"):
        assert 0.05 < np.abs(seeded_values.parameter(7, name, (100,))).max() <= 0.1


def test_weights_keep_the_variance_of_what_passes_through():
    weight = seeded_values.parameter(1, "conv.weight", (64, 32, 3, 3)).astype(np.float64)
    assert weight.var() * 32 * 9 == pytest.approx(1, rel=0.02)


def test_integers_stay_below_the_limit():
    tokens = seeded_values.integer_input(3, "input_ids", (4, 256), 50257)
    assert tokens.dtype == np.int64 and tokens.min() >= 0 and tokens.max() < 50257
