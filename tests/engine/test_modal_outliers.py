"""An outlier is in no cluster, however many others there are."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal.reading import thinness
from scipy.stats import chi2


@pytest.mark.parametrize("d", [1, 2, 5, 16, 100])
def test_a_place_is_thin_where_one_of_five_hundred_lies_outside(d):
    exact = 0.5 * (chi2.ppf(0.998, d) - chi2.ppf(0.5, d))
    assert abs(thinness(float(d)) - exact) < 0.03 * exact


def with_outliers(share, width, seed):
    """Learn three clusters among outliers; return the clusters, the later answers, and which are outliers."""
    n, rng = 30_000, np.random.default_rng(seed)
    X = rng.random((3, 4))[rng.integers(3, size=n)] + rng.normal(size=(n, 4)) * 0.03
    outlier = rng.random(n) < share
    X[outlier] = 0.5 + rng.uniform(-width, width, size=(outlier.sum(), 4))
    model = Modal()
    model.learn(X[: n // 2])
    return len(model.clusters()), model.learn(X[n // 2 :]), outlier[n // 2 :]


@pytest.mark.parametrize("width", [2.0, 20.0, 500.0])
def test_outliers_have_no_cluster_however_far_away_they_are(width):
    clusters, step, outlier = with_outliers(0.01, width, 1)
    found = step.cluster[:, 0] < 0
    # One of outliers for a while, until what it has is halved.
    assert clusters <= 4
    assert found[outlier].mean() > 0.95
    assert found[~outlier].mean() < 0.001
    # A record without a cluster is novel, and its score is low.
    np.testing.assert_array_equal(step.novel, found)
    assert (step.score[found] <= 0.5).all()
    assert (step.score[~found & ~outlier] < 0.5).mean() < 0.001


def test_many_outliers_have_none_either():
    several = [with_outliers(0.04, 20.0, seed) for seed in range(8)]
    assert np.mean([clusters for clusters, *_ in several]) <= 3.5
    assert np.mean([(step.cluster[outlier] < 0).mean() for _, step, outlier in several]) > 0.9


def test_a_halo_around_a_core_is_a_part_of_its_cluster():
    n, inside = 30_000, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2)) * np.where(rng.random((n, 1)) < 0.3, 1.0, 0.02)
        model = Modal()
        model.learn(X[: n // 2])
        inside.append((model.learn(X[n // 2 :]).cluster >= 0).mean())
    assert min(inside) > 0.9
    assert np.mean(inside) > 0.94


def test_a_thin_cluster_beside_a_dense_one_never_vanishes_while_it_has_records():
    # What has no valley of late is absorbed, and is no outlier then.
    for share, width in ((0.05, 0.05), (0.08, 0.05), (0.08, 0.02)):
        n, rng = 40_000, np.random.default_rng(0)
        thin = rng.random(n) < share
        X = rng.normal(size=(n, 2)) * np.where(thin[:, None], 1.0, width)
        X[thin, 0] += 2.7
        model = Modal()
        early, late = model.learn(X[:5_000]), model.learn(X[5_000:])
        assert len(model.clusters()) + len(early.events) > 1
        assert not [event for event in late.events if event.kind == "vanished"]
        assert (late.cluster[thin[5_000:], 0] >= 0).mean() > 0.9


def test_what_is_novel_and_becomes_a_landmark_names_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2)) * 0.05
    X[rng.random(12_000) < 0.03] *= 400.0
    model = Modal(landmarks=256)
    known = set()
    for record in X:
        count = int(model._model.next_id) if model.dimension else 0
        step = model.learn(record[None])
        added = int(model._model.next_id) > count
        if step.novel[0] and added:
            assert step.path[0, 0] == count
        else:
            assert step.path[0, 0] < count
        known.add(bool(step.novel[0] and added))
    assert known == {True, False}
