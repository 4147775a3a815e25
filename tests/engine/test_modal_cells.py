"""Cells leave out only what a look at every landmark would not have found."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal.cells import _MOST, CELLS, END, find_nearest
from resonance.engine.modal.model import CLUSTERS, HITS, LANDMARKS, RADIUS2
from resonance.engine.modal.neighbours import squared_distances


def clouds(n, d, count, width, seed):
    rng = np.random.default_rng(seed)
    return rng.random((count, d))[rng.integers(count, size=n)] + rng.normal(size=(n, d)) * width


def with_outliers(n, seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, 1)) < 0.05, rng.standard_t(1, size=(n, 3)), clouds(n, 3, 4, 0.03, seed))


STREAMS = {
    "ten clouds": (clouds(4000, 8, 10, 0.05, 0), {}),
    "clouds that overlap": (clouds(4000, 2, 6, 0.1, 1), {}),
    "outliers": (with_outliers(4000, 2), {}),
    "a grid": (np.round(clouds(4000, 2, 5, 0.05, 3) * 60), {"landmarks": 256}),
    "far from zero": (clouds(4000, 4, 5, 0.01, 4) + 1e6, {}),
    "more clusters than cells": (clouds(8000, 3, 180, 0.003, 5), {"landmarks": 2048, "min_cluster_records": 3}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_found_is_what_a_look_at_all_landmarks_finds(name):
    X, given = STREAMS[name]
    model = Modal(**given)
    parts = np.array_split(X, [len(X) // 2, len(X) // 2 + 330, len(X) // 2 + 999])
    rng = np.random.default_rng(9)
    for part in parts:
        model.learn(part)
        held, cells = model._model, model._cells
        count = int(held.head[LANDMARKS])
        at = held.at[:, :count].T
        # Records, landmarks, halfway between two of them, just inside and outside of a ball, and anywhere.
        one, other = rng.integers(count, size=(2, 300))
        away = rng.normal(size=at[one].shape)
        away *= np.sqrt(held.real[RADIUS2, one])[:, None] / np.linalg.norm(away, axis=1)[:, None]
        middle = (at[one] + at[other]) / 2
        anywhere = rng.uniform(X.min(), X.max(), size=(100, X.shape[1]))
        asked = [X[rng.integers(len(X), size=300)], at[one], middle, at[one] + away, at[one] + 0.999 * away, anywhere]
        out = np.empty(count)
        for x in np.concatenate(asked):
            squared_distances(held.at, 0, count, x, out)
            before = held.real[HITS, :count].copy()
            near, gap = find_nearest(held, cells, x, True)
            assert (near, gap) == (np.argmin(out), out.min())
            np.testing.assert_array_equal(held.real[HITS, :count] - before, out <= held.real[RADIUS2, :count])
            assert find_nearest(held, cells, x, False) == (near, gap)
            held.real[HITS, :count] = before
    assert held.head[CLUSTERS] > (_MOST if name == "more clusters than cells" else 1)
    assert 1 < cells.head[CELLS] <= min(_MOST, held.head[CLUSTERS])


def test_cells_are_filled_anew_once_their_room_for_new_landmarks_is_used():
    model = Modal(landmarks=64)
    ends = set()
    for part in np.array_split(clouds(5000, 2, 3, 0.02, 0), 250):
        model.learn(part)
        ends.add(int(model._cells.head[END]))
    assert max(ends) <= 128
    assert len(ends) > 3
