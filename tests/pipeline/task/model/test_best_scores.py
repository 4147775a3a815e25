"""The best records of every cluster are chosen."""

import numpy as np
import pytest
from resonance.pipeline.task.model.examples import best_of


@pytest.mark.parametrize(("clusters", "levels"), [(1, 1_000), (6, 4), (40, 1_000), (400, 2)])
def test_the_best_are_chosen(clusters, levels):
    rng = np.random.default_rng(clusters)
    for _ in range(20):
        cluster = rng.integers(-1, clusters, 600)
        score = rng.integers(0, levels, 600) / levels
        numbers = np.flatnonzero(rng.random(clusters) < 0.5)
        least = rng.random(len(numbers))
        chosen = best_of(cluster, score, numbers, least)
        bounds = dict(zip(numbers.tolist(), least.tolist(), strict=True))
        expected = []
        for number in range(clusters):
            wanted = [at for at in np.flatnonzero(cluster == number) if score[at] > bounds.get(number, -1)]
            expected += sorted(wanted, key=lambda at: (-score[at], at))[:3]
        assert chosen == sorted(expected)
