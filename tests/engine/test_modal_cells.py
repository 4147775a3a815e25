"""Cells leave out only what a look at every landmark would not have found."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal import engine
from resonance.engine.modal.nearest import _MAX, NOWHERE, find_nearest, squared_distances

from tests.engine.streams import clouds


def with_outliers(n, seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, 1)) < 0.05, rng.standard_t(1, size=(n, 3)), clouds(n, 3, 4, 0.03, seed))


STREAMS = {
    "ten clouds": (clouds(4000, 8, 10, 0.05, 0), {}),
    "clouds that overlap": (clouds(4000, 2, 6, 0.1, 1), {}),
    "outliers": (with_outliers(4000, 2), {}),
    "a grid": (np.round(clouds(4000, 2, 5, 0.05, 3) * 60), {"landmarks": 256}),
    "far from zero": (clouds(4000, 4, 5, 0.01, 4) + 1e6, {}),
    "close to the smallest floats": (clouds(4000, 2, 5, 0.03, 6) * 1e-154, {}),
    "as large as they may be": (clouds(4000, 2, 5, 0.03, 7) * 2e149, {}),
    "more clusters than cells": (clouds(28_000, 8, 600, 0.003, 5), {"landmarks": 4096, "min_cluster_records": 3}),
}


def queries(model, X, rng):
    """Return records, landmarks, points halfway between two, inside and outside of a ball, and anywhere."""
    held = model._model
    at = held.at[:, : held.landmarks].T
    one, other = rng.integers(len(at), size=(2, 100))
    away = rng.normal(size=at[one].shape)
    away *= (np.sqrt(held.radius2[one]) / np.linalg.norm(away, axis=1))[:, None]
    middle, anywhere = (at[one] + at[other]) / 2, rng.uniform(X.min(), X.max(), size=(50, X.shape[1]))
    return np.concatenate(
        [X[rng.integers(len(X), size=100)], at[one], middle, at[one] + away, at[one] + 0.99 * away, anywhere]
    )


def check(model, points):
    """Compare what is found and counted with a look at all landmarks."""
    held, cells = model._model, model._cells
    count = held.landmarks
    out = np.empty(count)
    for x in points:
        squared_distances(held.at, 0, count, x, out)
        before = held.hits[:count].copy()
        near, gap = find_nearest(held, cells, x, True)
        assert (near, gap) == (np.argmin(out), out.min())
        np.testing.assert_array_equal(held.hits[:count], before + (out <= held.radius2[:count]))
        assert find_nearest(held, cells, x, False) == (near, gap)
        held.hits[:count] = before


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_found_is_what_a_look_at_all_landmarks_finds(name):
    X, given = STREAMS[name]
    model, rng, d = Modal(**given), np.random.default_rng(9), X.shape[1]
    # Before the first reading, with landmarks that have come since the last one, and in other units.
    for part in np.split(X, [90, len(X) // 2, len(X) // 2 + 330, len(X) // 2 + 999]):
        model.learn(part)
        check(model, queries(model, X, rng))
    held, cells = model._model, model._cells
    assert held.clusters > (_MAX if name == "more clusters than cells" else 1)
    assert 1 < cells.cells <= min(_MAX, held.clusters)
    factor, shift = np.linspace(0.5, 1.5, d), np.full(d, np.abs(X).max() / 8)
    model.rescale(factor, shift)
    model.learn(X[:50] * factor + shift)
    check(model, queries(model, X * factor + shift, rng))


def test_cells_that_are_far_away_are_left_out():
    X, _ = STREAMS["ten clouds"]
    model = Modal()
    model.learn(X)
    held, cells = model._model, model._cells
    # Not a number is nearer than nothing, and spoils what is found, were it looked at.
    cells.at[:, cells.start[1] : cells.start[cells.cells]] = np.nan
    inside = X[np.linalg.norm(X - cells.middle[:, 0], axis=1) < 0.1]
    assert len(inside) > 20
    for x in inside:
        near, gap = find_nearest(held, cells, x, False)
        assert gap < 0.1
        assert cells.position[near] < cells.start[1] or cells.position[near] >= cells.start[cells.cells]


def test_cells_are_filled_anew_once_their_room_for_new_landmarks_is_used():
    X = clouds(13_000, 2, 3, 0.02, 0)
    model, rng, before, filled = Modal(memory=500), np.random.default_rng(9), 0, 0
    model.learn(X[:11_000])
    for record in X[11_000:]:
        model.learn(record[None])
        held, end = model._model, model._cells.end
        if end < before and held.read != held.learned:
            filled += 1
            assert end == held.landmarks
            assert not (model._cells.at[:, :end] == NOWHERE).any()
            check(model, queries(model, X, rng)[:200])
        before = end
    assert filled > 1


@pytest.mark.parametrize("where", ["resized", "measure_anew"])
def test_what_is_interrupted_leaves_no_cells_of_another_model(where, monkeypatch):
    X = clouds(3000, 2, 3, 0.02, 0)
    model = Modal(landmarks=256)
    model.learn(X[:60])

    def interrupted(*given, **sizes):
        found = actual(*given, **sizes)
        if "classes" in sizes:
            return found
        raise KeyboardInterrupt

    actual = getattr(engine, where)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine, where, interrupted)
        if where == "resized":
            model.learn(X[60:200])
        else:
            model.rescale(np.full(2, 3.0), np.ones(2))
    model.learn(X[200:2000])
    check(model, queries(model, X, np.random.default_rng(0))[::5])
