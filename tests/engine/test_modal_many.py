"""Modal with many clusters: evidence where the stream stands still, landmarks by need."""

import numpy as np
import pytest
from resonance.engine import Modal
from sklearn.metrics import adjusted_rand_score

SMALL = {"landmarks": 64, "memory": 400, "min_cluster_records": 4}


def blobs(n, count, d, width, seed=0):
    """Return Gaussians around random places of the unit cube, and the one of each record."""
    rng = np.random.default_rng(seed)
    y = rng.integers(count, size=n)
    return rng.random((count, d))[y] + rng.normal(size=(n, d)) * width, y


def grid(n, side, pitch, seed=0):
    """Return Gaussians on a grid, so many standard deviations from each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(side * side, size=n)
    return np.stack([y % side, y // side], axis=1) * pitch + rng.normal(size=(n, 2)), y


def test_clusters_far_apart_that_have_few_landmarks_get_more():
    X, y = blobs(20_000, 200, 16, 0.03)
    model = Modal()
    model.learn(X[:15_000])
    step = model.learn(X[15_000:])
    assert len(model.clusters()) == 200
    assert adjusted_rand_score(y[15_000:], step.cluster[:, 0]) > 0.99
    assert model._model.landmarks > 1024
    assert not model.crowded


def test_clusters_far_apart_are_found_as_soon_as_each_has_the_records_of_a_cluster():
    X, y = blobs(6_000, 200, 16, 0.03, seed=3)  # Of each about 25 in the first 5,000.
    model = Modal()
    model.learn(X[:5_000])
    step = model.learn(X[5_000:])
    assert len(model.clusters()) >= 190
    assert adjusted_rand_score(y[5_000:], step.cluster[:, 0]) > 0.9


def test_clusters_that_touch_get_landmarks_for_the_valleys_between_them():
    events = 0
    for seed in range(3):
        X, y = grid(40_000, 7, 5.0, seed)
        model = Modal()
        model.learn(X[:30_000])
        step = model.learn(X[30_000:])
        assert abs(len(model.clusters()) - 49) <= 1
        assert adjusted_rand_score(y[30_000:], step.cluster[:, 0]) > 0.9
        events += len(step.events)
    assert events <= 3 * 3


def test_most_of_many_clusters_that_touch_in_space_are_divided():
    found = []
    for seed in (1, 5):
        X, y = blobs(60_000, 60, 3, 0.03, seed)
        model = Modal()
        model.learn(X[:40_000])
        found.append(adjusted_rand_score(y[40_000:], model.learn(X[40_000:]).cluster[:, 0]))
    # Known means and spreads give .93.
    assert np.mean(found) > 0.86


@pytest.mark.parametrize("d", [2, 8])
def test_few_clusters_keep_their_landmarks(d):
    model = Modal()
    model.learn(blobs(20_000, 10, d, 0.02)[0])
    assert model._model.landmarks == 1024


def test_a_model_says_when_it_may_have_no_more_landmarks():
    model = Modal(**SMALL, max_landmarks=128)
    model.learn(blobs(8_000, 60, 8, 0.02)[0])
    assert model._model.landmarks == 128
    assert model.crowded
    assert Modal.from_state(model.state()).crowded


def test_a_ball_counts_on_while_its_rate_stays_and_forgets_when_it_changes():
    model = Modal(**SMALL, max_landmarks=64)
    model.learn(blobs(20_000, 1, 2, 0.1)[0])
    held = model._model
    assert np.median(held.past_span[:64]) > 8 * SMALL["memory"]
    assert held.past_span[:64].max() <= 16 * SMALL["memory"]
    # The same cluster, and as many records of another one: each ball gets half of what it got.
    other = np.concatenate([blobs(1_600, 1, 2, 0.1)[0], blobs(1_600, 1, 2, 0.1, seed=1)[0] + 5.0])
    model.learn(np.random.default_rng(0).permutation(other))
    old = held.at[0, :64] < 2.0
    # Nothing is left of what was before.
    assert held.past_span[:64][old].max() <= 8 * SMALL["memory"]


@pytest.mark.parametrize("cut", [1, 7, 500])
def test_a_model_that_grows_and_shrinks_is_a_function_of_its_records(cut):
    given = {**SMALL, "max_landmarks": 512, "expire_records": 400}
    whole = Modal(**given)
    whole.learn(blobs(2_000, 40, 8, 0.01)[0])
    assert whole._model.budget == 512
    X = np.concatenate([blobs(2_000, 40, 8, 0.01)[0], blobs(2_500, 2, 8, 0.01)[0]])
    whole.learn(X[2_000:])
    assert whole._model.budget == whole._model.landmarks == len(whole._model.id) == 256
    assert len(whole.clusters()) == 2
    model = Modal(**given)
    for begin in range(0, len(X), 500):
        part = X[begin : begin + 500]
        model.learn(part[:cut])
        model = Modal.from_state(model.state())
        if cut < len(part):
            model.learn(part[cut:])
    assert model.state() == whole.state()
