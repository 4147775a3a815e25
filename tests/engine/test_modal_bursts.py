"""Records that stay at a place, go, and come back: counts of them are less evidence than their number."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal.counts import variation
from scipy.signal import lfilter

DAY = 1440


def gaussian(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


def days(n, seed, d=4):
    """Return meters with a wave a day, half of it on weekends, and noise."""
    rng, t = np.random.default_rng(seed), np.arange(n)[:, None]
    first, second = rng.uniform(0.5, 1.5, d), rng.uniform(0, 0.5, d)
    X = first * np.sin(2 * np.pi * t / DAY) + second * np.sin(4 * np.pi * t / DAY + rng.uniform(0, 6, d))
    return X * np.where(t // DAY % 7 >= 5, 0.5, 1.0) + rng.normal(0, 0.15, (n, d))


def wandering(n, seed, d=3, records=200):
    """Return a Gaussian that forgets where it was within some records."""
    keep = np.exp(-1 / records)
    noise = np.random.default_rng(seed).normal(size=(n, d))
    return lfilter([np.sqrt(1 - keep * keep)], [1, -keep], noise, axis=0)


def dispersion(X):
    model = Modal()
    model.learn(X)
    return model._model.dispersion[0]


@pytest.mark.parametrize("d", [1, 4, 16])
def test_independent_records_count_as_what_they_are(d):
    assert 1.0 <= dispersion(gaussian(20_000, d, 3)) < 1.1


def test_records_that_come_in_bursts_count_less():
    assert dispersion(days(20_000, 0)) > 5.0
    assert dispersion(wandering(20_000, 0)) > 1.2


@pytest.mark.parametrize("seed", range(3))
def test_what_clusters_leave_behind_for_good_does_not_join_them(seed):
    X = gaussian(30_000, 3, seed)
    X[:, 0] += 7.0 * np.random.default_rng(seed + 10).integers(2, size=30_000)
    X[:, 1] += np.linspace(0.0, 30.0, 30_000)
    model = Modal()
    step = model.learn(X)
    assert len(model.clusters()) == 2
    assert len(step.events) <= 4


def test_places_that_a_walk_comes_back_to_stay_clusters():
    # Before: one or two were left of them.
    left, joined = [], 0
    for seed in range(2, 8):
        rng = np.random.default_rng(seed)
        stays = np.repeat(rng.permuted(np.tile(range(3), (9, 1)), axis=1).ravel(), 1_500)
        model = Modal()
        step = model.learn(3.25 * np.eye(3)[stays] + wandering(len(stays), seed))
        left.append(len(model.clusters()))
        joined += "absorbed" in [event.kind for event in step.events]
    assert min(left) >= 3
    assert joined <= 4


@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_the_day_is_no_cluster(seed):
    # Before: 2 to 12 clusters, most of which were absorbed again.
    step = Modal().learn(days(30_000, seed))
    assert [event.kind for event in step.events] == ["emerged"]


@pytest.mark.parametrize("seed", range(3))
def test_two_places_between_which_a_stream_jumps_are_two_clusters(seed):
    rng = np.random.default_rng(seed)
    stays = np.repeat(rng.integers(2, size=2000), rng.integers(100, 400, size=2000))[:30_000]
    model = Modal()
    step = model.learn(gaussian(30_000, 3, seed) + 8.0 * stays[:, None])
    assert len(model.clusters()) == 2
    assert len(step.events) <= 3


def variations(model):
    return np.array([variation.py_func(model, i, model.clock) for i in range(model.landmarks)])


def test_pauses_are_kept_where_units_change():
    model = Modal()
    model.learn(days(8_000, 1))
    before = variations(model._model)
    model.rescale(np.full(4, 2.0), np.ones(4))
    kept = model._model.squares[: model._model.landmarks] > 0.0
    assert kept.mean() > 0.5
    np.testing.assert_allclose(variations(model._model)[kept], before[kept], rtol=1e-9)
