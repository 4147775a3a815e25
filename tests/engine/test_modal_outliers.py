"""An outlier is in no cluster, whoever else lies far away from everything."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal.outliers import thinness
from scipy.stats import chi2


@pytest.mark.parametrize("d", [1, 2, 5, 16, 100])
def test_a_place_is_thin_where_one_of_five_hundred_lies_outside(d):
    exact = 0.5 * (chi2.ppf(0.998, d) - chi2.ppf(0.5, d))
    assert abs(thinness(float(d)) - exact) < 0.03 * exact


@pytest.mark.parametrize("width", [2.0, 20.0, 500.0])
def test_outliers_have_no_cluster_however_far_away_they_are(width):
    n, rng = 30_000, np.random.default_rng(1)
    X = rng.random((3, 4))[rng.integers(3, size=n)] + rng.normal(size=(n, 4)) * 0.03
    outlier = rng.random(n) < 0.01
    X[outlier] = 0.5 + rng.uniform(-width, width, size=(outlier.sum(), 4))
    model = Modal()
    model.learn(X[: n // 2])
    step = model.learn(X[n // 2 :])
    found, outlier = step.cluster[:, 0] < 0, outlier[n // 2 :]
    assert len(model.clusters()) == 3
    assert found[outlier].mean() > 0.95
    assert found[~outlier].mean() < 0.001
    # Whoever has no cluster is novel, and says so by the score.
    np.testing.assert_array_equal(step.novel, found)
    np.testing.assert_array_equal(step.score <= 0.5, found)


def test_a_halo_around_a_core_is_a_part_of_its_cluster():
    n, rng = 30_000, np.random.default_rng(2)
    X = rng.normal(size=(n, 2)) * np.where(rng.random((n, 1)) < 0.3, 1.0, 0.02)
    model = Modal()
    model.learn(X[: n // 2])
    assert (model.learn(X[n // 2 :]).cluster >= 0).mean() > 0.97
