"""A stream answers from its 16th record on, by a first scale, and keeps its clusters under the one that stays."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tests.pipeline.streams import payloads, plain_settings, records, run, task


def made():
    return task(plain_settings(input__features=["cpu", "latency_ms", "net.in"]))


def kinds(n=600, seed=0):
    """Records of three kinds, in other units each, of which the first 16 show half of the range."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    kind[:16] = rng.integers(2, size=16)
    return rng.uniform(1.0, 9.0, (3, 3))[kind] * (1.0 + 0.05 * rng.normal(size=(n, 3))) * [1.0, 100.0, 1e-3], kind


@pytest.mark.parametrize("seed", range(3))
def test_records_are_told_apart_long_before_the_warm_up_is_over(seed):
    X, kind = kinds(seed=seed)
    outputs = run(made(), records(X.tolist()))
    answers = payloads(outputs.assignments)
    assert [each["status"] for each in answers] == ["warming_up"] * 16 + ["assigned"] * 584
    found = [each["cluster"] or "" for each in answers]
    assert adjusted_rand_score(kind[100:200], found[100:200]) > 0.8
    assert adjusted_rand_score(kind[200:], found[200:]) > 0.9
    # The scale that stays makes no cluster anew.
    assert not [event for event in payloads(outputs.cluster_events) if event["kind"] == "vanished"]
    assert not outputs.alerts


def test_records_that_repeat_give_no_first_scale():
    X = np.repeat(kinds(60)[0], 10, axis=0)
    answers = payloads(run(made(), records(X.tolist())).assignments)
    assert [each["status"] for each in answers] == ["warming_up"] * 200 + ["assigned"] * 400


def test_a_value_that_is_too_far_away_for_the_scale_that_stays_stays_where_it_was():
    X = np.random.default_rng(0).normal(size=(300, 3))
    # A first scale as wide as the numbers are large.
    X[:16, 0] *= 1e150
    outputs = run(made(), records(X.tolist()))
    assert len(outputs.assignments) + len(outputs.dead_letters) == 300
