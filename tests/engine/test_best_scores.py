"""The best records of every cluster are among the chosen, which are few."""

import numpy as np
import pytest
from resonance.engine.best_scores import may_be_best


@pytest.mark.parametrize(("clusters", "levels"), [(1, 1_000), (6, 4), (40, 1_000), (400, 2)])
def test_the_best_are_chosen(clusters, levels):
    rng = np.random.default_rng(clusters)
    for _ in range(20):
        cluster = rng.integers(-1, clusters, 600)
        score = rng.integers(0, levels, 600) / levels
        numbers = np.flatnonzero(rng.random(clusters) < 0.5)
        least = rng.random(len(numbers))
        chosen = may_be_best(cluster, score, numbers, least, 3)
        assert chosen == sorted(set(chosen))
        bounds = dict(zip(numbers.tolist(), least.tolist(), strict=True))
        for number in range(clusters):
            wanted = [at for at in np.flatnonzero(cluster == number) if score[at] > bounds.get(number, -1)]
            best = sorted(wanted, key=lambda at: (-score[at], at))[:3]
            assert set(best) <= set(chosen)
        assert all(cluster[at] >= 0 and score[at] > bounds.get(cluster[at], -1) for at in chosen)


def test_few_others_are_chosen():
    rng = np.random.default_rng(1)
    chosen = may_be_best(np.zeros(10_000, np.int64), rng.random(10_000), np.empty(0, np.int64), np.empty(0), 3)
    assert len(chosen) < 60


def literal(cluster, score, most):
    """Return a record unless as many of its cluster before it are as good, looking at all of them."""
    chosen = []
    for t, number in enumerate(cluster):
        if number >= 0 and sum(cluster[at] == number and score[at] >= score[t] for at in chosen) < most:
            chosen.append(t)
    return chosen


@pytest.mark.parametrize("most", [1, 2, 5])
def test_they_are_those_of_a_look_at_all_records_before(most):
    rng = np.random.default_rng(most)
    for levels in (3, 10**6):
        cluster, score = rng.integers(-1, 4, 400), rng.integers(0, levels, 400) / levels
        for scores in (score, np.sort(score), np.sort(score)[::-1].copy()):
            found = may_be_best(cluster, scores, np.empty(0, np.int64), np.empty(0), most)
            assert found == literal(cluster.tolist(), scores.tolist(), most)
