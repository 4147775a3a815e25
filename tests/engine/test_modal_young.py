"""A model of few records: a few that are far from all others are a cluster, and a lone one is not divided."""

import numpy as np
import pytest
from resonance.engine import Modal
from sklearn.metrics import adjusted_rand_score


def clusters_by_record(X):
    """Return how many clusters there are after every eighth record, and the answers."""
    model, found, answers = Modal(), [], []
    for begin in range(0, len(X), 8):
        answers.append(model.learn(X[begin : begin + 8]).cluster[:, 0])
        found.append(len(model.clusters()))
    return found, np.concatenate(answers)


@pytest.mark.parametrize(("clusters", "least"), [(3, 0.75), (6, 0.65)])
def test_the_first_records_are_told_apart(clusters, least):
    score = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = rng.integers(clusters, size=200)
        _, answers = clusters_by_record(rng.random((clusters, 4))[y] + 0.04 * rng.normal(size=(200, 4)))
        score.append(adjusted_rand_score(y, answers))
    assert np.mean(score) > least


@pytest.mark.parametrize("d", [1, 2, 4, 24])
@pytest.mark.parametrize("shape", ["normal", "random", "exponential"])
def test_a_lone_cluster_is_hardly_ever_divided(shape, d):
    most = [max(clusters_by_record(0.2 * getattr(np.random.default_rng(s), shape)(size=(200, d)))[0]) for s in range(8)]
    assert np.mean(most) < 2.2


def test_clusters_of_other_widths_are_not_broken():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = rng.integers(2, size=200)
        found, _ = clusters_by_record(0.05 * rng.normal(size=(200, 4)) * np.where(y, 1.0, 4.0)[:, None] + y[:, None])
        assert found[-1] == 2
        assert max(found) <= 3
