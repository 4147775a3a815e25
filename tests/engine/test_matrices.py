"""Matrices of any scales are factored, inverted and turned as LAPACK does it; inverses follow a stream for long."""

import numpy as np
import pytest
from resonance.engine import EVQ
from resonance.engine.evq.step import squared_distance
from resonance.engine.matrices import diagonalise, invert, squared_norm


def covariance(d, condition, seed=0):
    """Return a covariance of given condition, its axes in no special direction, and a root of it."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
    deviations = np.sqrt(np.logspace(0, -np.log10(condition), d))
    root = axes * deviations
    return root @ root.T, root


@pytest.mark.parametrize("d", [1, 2, 5, 32])
def test_inverse_determinant_and_axes_are_those_of_lapack(d):
    matrix, _ = covariance(d, 1e4)
    scale, upper, work, inverse = np.empty(d), np.zeros((d, d)), np.empty((d, d)), np.empty((d, d))
    np.testing.assert_allclose(invert(matrix, d, scale, upper, work, inverse), np.linalg.slogdet(matrix)[1], rtol=1e-12)
    assert (inverse == inverse.T).all()
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-10 * np.abs(inverse).max())
    v = np.arange(1.0, d + 1)
    np.testing.assert_allclose(squared_norm(scale, upper, d, v.copy()), v @ np.linalg.solve(matrix, v), rtol=1e-9)
    value, columns = np.empty(d), np.empty((d, d))
    diagonalise(matrix.copy(), columns, value)
    expected, axes = np.linalg.eigh(matrix)
    np.testing.assert_allclose(value, expected[::-1], rtol=1e-9)
    np.testing.assert_allclose(np.abs(columns), np.abs(axes[:, ::-1]), atol=1e-9)


def test_features_of_very_different_scales_are_alike():
    d = 6
    matrix, _ = covariance(d, 100.0)
    unit = 10.0 ** np.array([-60.0, 40.0, 0.0, -9.0, 70.0, 3.0])
    scale, upper, work, inverse = np.empty(d), np.zeros((d, d)), np.empty((d, d)), np.empty((d, d))
    invert(matrix * unit[:, None] * unit, d, scale, upper, work, inverse)
    np.testing.assert_allclose(inverse * unit[:, None] * unit, np.linalg.inv(matrix), rtol=1e-9, atol=1e-9)


def exact_inverse(matrix):
    """Return the inverse in extended precision, by Gauss and Jordan."""
    d = len(matrix)
    table = np.concatenate([matrix, np.eye(d, dtype=np.longdouble)], axis=1)
    for j in range(d):
        table[j] /= table[j, j]
        others = np.arange(d) != j
        table[others] -= table[others, j, None] * table[j]
    return table[:, d:]


@pytest.mark.parametrize(("refresh", "error"), [(100, 1e-5), (10**9, 1e-3)])
@pytest.mark.parametrize("d", [2, 16, 64])
def test_covariance_and_inverse_stay_those_of_the_records_at_condition_1e9(d, refresh, error):
    sig0, n = 1e-5, 1500
    _, root = covariance(d, 1e9)
    X = 0.5 + np.random.default_rng(1).normal(size=(n, d)) @ root.T
    model = EVQ(mode="evq-a", fac=1e6, sig0=sig0, low=0.0, high=1.0, refresh=refresh)
    for start in range(0, n, 500):
        model.learn(X[start : start + 500])
    found = model.arrays()
    assert found["number"][:, 1].tolist() == [n]

    exact = X.astype(np.longdouble)
    centre = exact.mean(axis=0)
    scatter = (exact - centre).T @ (exact - centre)
    C = (scatter + np.eye(d, dtype=np.longdouble) * sig0**2) / n
    np.testing.assert_allclose(found["cov"][0], C.astype(float), atol=1e-12)
    assert np.linalg.cond(C.astype(float)) > 3e8
    P = exact_inverse(C)
    # Rounding of the entries of C alone moves its inverse by condition times 1e-16.
    np.testing.assert_allclose(found["inv"][0], P.astype(float), atol=error * float(np.abs(P).max()))
    V = (exact[:200] - centre).astype(np.longdouble)
    squared = np.einsum("na,ab,nb->n", V, P, V).astype(float)
    slot = model._model.slot[0]
    ours = [squared_distance(model._model, model._rules, slot, x) for x in X[:200]]
    np.testing.assert_allclose(ours, squared, rtol=error, atol=error)
