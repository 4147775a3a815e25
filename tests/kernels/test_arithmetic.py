"""The arithmetic of the kernels against the mathematics library's."""

import math

import numpy as np
import pytest
from resonance.engine.correntropy import bandwidth_factors
from resonance.kernels.arithmetic import exp_minus, jit, log, log1p


@jit
def _exp_minus(t, out):
    for i in range(len(t)):
        out[i] = exp_minus(t[i])


def test_the_exponential_is_right_to_the_last_place():
    t = np.concatenate([np.linspace(0, 1, 100_001), np.linspace(1, 690, 100_001), [0.0, 1e-300, 1e-17]])
    out = np.empty_like(t)
    _exp_minus(t, out)
    np.testing.assert_allclose(out, np.exp(-t), rtol=3e-16)
    assert out[0] == 1.0


def test_the_exponential_ends_far_out_in_something_negligible():
    out = np.empty(3)
    _exp_minus(np.array([701.0, 1e300, np.inf]), out)
    assert (out < 1e-300).all()
    assert (out > 0).all()


@pytest.mark.parametrize("x", [1e-300, 0.1, 0.5, 0.70710678, 1.0, 1.5, math.e, 1e10, 1e300])
def test_the_logarithm(x):
    assert log(x) == pytest.approx(math.log(x), rel=4e-16, abs=1e-16)


@pytest.mark.parametrize("x", [0.0, 1e-300, 1e-17, -1e-9, 1e-9, -0.5, 0.5, 3.0, 1e15])
def test_the_logarithm_of_one_more(x):
    assert log1p(x) == pytest.approx(math.log1p(x), rel=1e-15)


@pytest.mark.parametrize("d", [1, 4, 64])
def test_the_factors_of_the_bandwidth(d):
    factors = bandwidth_factors(d, 25)
    assert factors[0] == pytest.approx((4 / (2 + d)) ** (1 / (4 + d)), rel=1e-15)
    for m in range(1, 26):
        assert factors[m] == pytest.approx(m ** (-1 / (4 + d)), rel=1e-15)
