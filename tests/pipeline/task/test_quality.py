"""The quality of clusters as the pipeline gives them live, on a set that every installation has."""

import numpy as np

from bench.quality import through_the_task
from bench.streams import load


def test_digits_are_told_apart_live_with_default_settings():
    found = load("digits")
    assert found is not None
    X, y = found
    order = np.random.default_rng(0).permutation(len(X))
    live = through_the_task(X[order], y[order])
    assert live.ari >= 0.6
    assert live.events <= 16
    assert 9 <= live.clusters <= 11
