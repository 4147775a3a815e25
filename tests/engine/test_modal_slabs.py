"""What balls cannot see with many features: valleys along the line between two hills."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal.slabs import group_means, join_means, measure_slabs
from sklearn.metrics import adjusted_rand_score


@pytest.mark.parametrize("seed", [0, 1])
def test_clouds_that_fill_the_valleys_between_them_are_told_apart(seed):
    # Five standard deviations from each other: a ball with eight landmarks of a cloud reaches halfway to the next.
    rng = np.random.default_rng(seed)
    kind = rng.integers(8, size=16_000)
    X = np.eye(8)[kind] * 3.5 + rng.normal(size=(16_000, 8))
    model = Modal()
    model.learn(X[:8_000])
    step = model.learn(X[8_000:])
    assert len(model.clusters()) == 8
    assert adjusted_rand_score(kind[8_000:], step.cluster[:, 0]) > 0.8


def halves(X, group):
    """Return depth and error of the valley between two groups of the landmarks of a model that has seen only them."""
    model = Modal(landmarks=1024)
    model.learn(X)
    mean, mass = group_means(model._model, group, 2)
    return measure_slabs(model._model, group, mean, mass, 0, 1), (model, mean, mass)


@pytest.mark.parametrize("d", [2, 16, 64])
@pytest.mark.parametrize("count", [20, 400])
def test_halves_of_one_cloud_have_no_valley(d, count):
    # At random, where the means differ by chance alone, and on both sides of a plane.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(count, d))
        for group in (rng.permutation(count) % 2, (X[:, 0] > 0).astype(np.int64)):
            (depth, error2), _ = halves(X, group)
            assert count == 20 or error2 > 0.0
            assert depth < 0.25 + 3.0 * np.sqrt(error2)


def test_a_valley_is_as_deep_as_its_records_say():
    rng = np.random.default_rng(0)
    group = np.arange(1000) % 2
    X = rng.normal(size=(1000, 16))
    X[:, 0] += 5.0 * group
    (depth, error2), (model, mean, mass) = halves(X, group)
    # Slabs of a sixth of the way on each side; landmarks are the records.
    t = X[:, 0] / 5.0
    inside = [(np.abs(t - at) <= 1 / 6).sum() for at in (0.0, 0.5, 1.0)]
    expected = np.log(min(inside[0], inside[2]) / inside[1])
    assert abs(depth - expected) < np.sqrt(error2) < 0.3
    assert model._model.mass[:1000].tolist() == [1.0] * 1000

    # Halves of one of them, joined again, are what they were.
    parts = np.where(group == 1, 1, (np.arange(1000) // 2) % 2 * 2)
    means, masses = group_means(model._model, parts, 3)
    join_means(parts, means, masses, 0, 2)
    np.testing.assert_array_equal(parts, group)
    np.testing.assert_allclose(means[:2], mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(masses[:2], mass)


def test_groups_of_few_landmarks_are_not_measured():
    group = (np.arange(40) < 4).astype(np.int64)
    assert halves(np.random.default_rng(0).normal(size=(40, 3)) + 9.0 * group[:, None], group)[0] == (0.0, 0.0)


def test_landmarks_whose_records_are_long_forgotten_say_nothing():
    X = np.random.default_rng(0).normal(size=(400, 3))
    group = (X[:, 0] > 0).astype(np.int64)
    _, (model, mean, mass) = halves(X, group)
    model._model.mass[:] = 1e-290
    assert measure_slabs(model._model, group, mean, mass * 1e-290, 0, 1) == (0.0, 0.0)


@pytest.mark.parametrize("shape", ["H", "U"])
def test_arms_that_a_bridge_joins_are_one_cluster_though_the_line_between_them_is_thin(shape):
    n, rng = 40_000, np.random.default_rng(0)
    part, along, noise = rng.choice(3, size=n, p=[5 / 12, 5 / 12, 2 / 12]), rng.random(n), rng.normal(size=(n, 2)) * 0.1
    bridge = np.stack([2.0 * along - 1.0, np.full(n, 0.0 if shape == "H" else -2.5)], axis=1)
    arms = np.stack([np.where(part == 0, -1.0, 1.0), 5.0 * along - 2.5], axis=1)
    model = Modal()
    model.learn(np.where((part == 2)[:, None], bridge, arms) + noise)
    assert len(model.clusters()) == 1
