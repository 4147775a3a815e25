"""What must not change clusters: units, zeros, the order of features, a feature that says nothing.

Each stream goes through the preparation that a deployment gives the default engine, on to its clusters.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some
from resonance.engine import Modal
from resonance.engine.prepare import Preparation
from sklearn.metrics import adjusted_rand_score

RECORDS, FEATURES = 1500, 3
few = settings(max_examples=8, deadline=None, derandomize=True, database=None)
seeds = some.integers(0, 2**16)
exponents = some.lists(some.integers(-30, 30), min_size=FEATURES, max_size=FEATURES)


def stream(seed):
    """Four blobs of which one comes late, all on a fine binary grid: to shift and to scale them rounds nothing."""
    rng = np.random.default_rng(seed)
    own = np.where(np.arange(RECORDS) < RECORDS // 2, rng.integers(3, size=RECORDS), rng.integers(4, size=RECORDS))
    X = 2.0 * rng.random((4, FEATURES))[own] + 0.05 * rng.normal(size=(RECORDS, FEATURES))
    return np.round(X * 2.0**30) / 2.0**30


def prepared(X):
    """What the engine gets: the records of the warm-up, and the others."""
    names = [f"f{number}" for number in range(X.shape[1])]
    preparation = Preparation(names, robust=True)
    wanted = preparation.wanted
    preparation.hold(X[:wanted])
    return [preparation.freeze(), preparation.apply(X[wanted:])]


def learned(X):
    """The cluster of every record, what happened to clusters, and what the model says of all records at the end."""
    model, parts = Modal(), prepared(X)
    steps = [model.learn(part) for part in parts]
    events = [(event.kind, event.cluster) for step in steps for event in step.events]
    return np.concatenate([step.cluster[:, 0] for step in steps]), events, model.predict(np.concatenate(parts))


def same(one, other):
    """Every record in the same cluster, and every answer with the same bits."""
    (cluster, events, answer), (expected, text, as_before) = learned(one), learned(other)
    assert (cluster.tobytes(), events) == (expected.tobytes(), text)
    assert answer.score.tobytes() == as_before.score.tobytes()


def agreement(one, other):
    """Adjusted Rand index of what is known of all records at the end."""
    found, expected = (learned(X)[2].cluster[:, 0] for X in (one, other))
    assert len(set(expected.tolist()) - {-1}) > 1
    return float(adjusted_rand_score(found, expected))


@few
@given(seeds, exponents)
def test_other_units_change_nothing(seed, powers):
    X = stream(seed)
    same(X * 2.0 ** np.array(powers), X)


@few
@given(seeds, some.integers(-(2**20), 2**20))
def test_another_zero_changes_nothing(seed, shift):
    X = stream(seed)
    same(X + shift, X)


@few
@given(seeds, some.permutations(range(FEATURES)))
def test_the_order_of_features_changes_nothing(seed, order):
    X = stream(seed)
    # But for sums of distances that round in another order.
    assert agreement(X[:, order], X) > 0.99


@few
@given(seeds, some.floats(-1e6, 1e6), some.integers(0, FEATURES))
def test_a_feature_that_never_changes_changes_nothing(seed, value, at):
    X = stream(seed)
    assert agreement(np.insert(X, at, value, axis=1), X) > 0.99
