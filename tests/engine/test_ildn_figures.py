"""The figures of ILDN's specification, as far as they are quick."""

import numpy as np
import pytest
from resonance.engine import ILDN
from sklearn.metrics import adjusted_rand_score

from bench.quality.papers import of_segment, segment
from bench.streams import parts


def belts(seed, n=10_000):
    """Return two parallel belts across the unit square, in random order."""
    rng = np.random.default_rng(seed)
    along, across = rng.random(n), 0.1 * rng.random(n)
    upper = np.where(rng.random(n) < 0.5, 0.4, 0.0)
    return np.stack([0.05 + 0.9 * along, 0.05 + 0.4 * along + upper + across], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_two_belts_end_in_two_nodes(seed):
    model = ILDN(sigma=1e-3, min_cluster_records=1)
    model.learn(belts(seed))
    assert model.arrays()["nodes"].shape[1] == 2


@pytest.mark.parametrize(
    ("open_ended", "nodes", "components", "least"), [(False, (19, 22), (5, 7), 0.91), (True, (15, 20), (5, 8), 0.88)]
)
def test_five_parts_among_noise_are_found_at_once_and_one_after_the_other(open_ended, nodes, components, least):
    X, y = parts(open_ended=open_ended)
    model = ILDN(sigma=3e-5, k=0.5, min_cluster_records=1)
    model.learn(X)
    assert nodes[0] <= model.arrays()["nodes"].shape[1] <= nodes[1]
    assert components[0] <= len(model.clusters()) <= components[1]
    clean = y >= 0
    assert adjusted_rand_score(y[clean], model.predict(X).cluster[clean, 0]) >= least


@pytest.mark.golden
@pytest.mark.skipif(segment(0) is None, reason="Segment does not lie beside this checkout")
def test_segment_takes_as_many_nodes_as_the_specification_says_and_is_told_apart_as_well():
    nodes, accuracy = of_segment(0)
    assert 402 <= nodes <= 451
    assert accuracy >= 0.92
