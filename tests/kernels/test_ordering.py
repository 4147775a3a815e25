"""Kernels sort as numpy's stable sort does."""

import numpy as np
import pytest
from resonance.kernels.ordering import stable_order

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    "values",
    [
        np.empty(0),
        np.array([1.5]),
        RNG.normal(size=3_000),
        np.round(RNG.normal(size=3_000), 1),
        RNG.normal(size=300) * 10.0 ** RNG.integers(-300, 300, 300),
        np.array([0.0, -0.0, np.inf, -np.inf, 5e-324, -5e-324, 0.0, -0.0, 1.0, -1.0]),
        RNG.integers(-5, 5, 1_000),
        RNG.integers(-(2**52), 2**52, 1_000),
        np.empty(0, np.int64),
    ],
)
def test_the_order_is_that_of_numpy(values):
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
