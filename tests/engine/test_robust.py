"""Flags and counters of rare things count little beside other features, and skewed features are bent."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.prepare import REVISION, Preparation
from resonance.engine.prepare.scaling import is_flag, is_steady
from resonance.engine.state import unpack
from sklearn.metrics import adjusted_rand_score

from tests.engine.test_steps import warmed

RNG = np.random.default_rng


@pytest.mark.parametrize(
    ("values", "flag", "steady"),
    [
        *(([], True, True), ([3.0] * 200, True, True), ([0.0, 1.0] * 100, True, True)),
        *(([0.0, 1.0, 2.0] * 70, False, False), ([0.0] * 180 + [1.0] * 10 + [2.0] * 10, False, True)),
        *(([0.0] * 179 + [1.0] * 11 + [2.0] * 10, False, False), (range(200), False, False)),
    ],
)
def test_two_values_or_one_in_nearly_all_records(values, flag, steady):
    assert is_flag(np.array(values, np.float64)) is flag
    assert is_steady(np.array(values, np.float64)) is steady


def groups(rng, n):
    """Return n records of three groups far apart in three features, and which group each is of."""
    kind = rng.integers(3, size=n)
    centres = np.array([[20.0, 40.0, 101.0], [55.0, 200.0, 140.0], [75.0, 90.0, 120.0]])
    return centres[kind] + rng.normal(size=(n, 3)) * [2.0, 5.0, 1.0], kind


def far_counter(rng, n):
    """Return a column that is 0 but in four records of the warm-up, where it is far away."""
    column = np.zeros(n)
    column[[20, 90, 160, 190]] = [4096.0, 8192.0, 12288.0, 16384.0]
    return column


@pytest.mark.parametrize(
    "rare",
    [
        lambda rng, n: np.where(rng.random(n) < 0.03, rng.integers(1, 6, n), 0),
        lambda rng, n: np.where(rng.random(n) < 0.06, rng.normal(size=n) * 30.0, 0.0),
        lambda rng, n: np.where(rng.random(n) < 0.08, rng.integers(-3, 9, n), 7.5),
        far_counter,
    ],
    ids=["counter", "correction", "around a default", "far"],
)
@pytest.mark.parametrize("seed", range(2))
def test_a_feature_that_is_rarely_not_its_usual_value_makes_no_groups(rare, seed):
    rng = RNG(seed)
    X, kind = groups(rng, 12_000)
    X = np.column_stack([X, rare(rng, 12_000)])
    preparation, first = warmed(X)
    model = Modal()
    model.learn(np.concatenate([first, preparation.apply(X[200:6000])]))
    late = model.learn(preparation.apply(X[6000:]))
    assert adjusted_rand_score(kind[6000:], late.cluster[:, 0]) > 0.99
    assert len(model.clusters()) == 3


def test_a_flag_is_not_bent_and_comes_back_in_its_own_units():
    rare = RNG(0).permuted([-1.0] * 8 + [0.0] * 184 + [90.0] * 8)
    X = np.column_stack([groups(RNG(0), 200)[0], rare])
    preparation, first = warmed(X)
    assert not unpack(preparation.state(), "prepare", REVISION)[1]["bend"].any()
    assert np.ptp(first[:, 3]) == pytest.approx(1 / 50)
    centre, _ = preparation.to_input_units(first[0], np.zeros(4))
    assert centre == pytest.approx(X[0])


def test_where_every_feature_is_a_flag_each_keeps_its_width():
    X = (RNG(0).random((300, 3)) < [0.5, 0.05, 0.2]).astype(np.float64)
    preparation = Preparation(["a", "b", "c"], warmup_records=200, robust=True)
    preparation.hold(X[:200])
    # They are spread a little.
    assert np.ptp(preparation.freeze(), axis=0) == pytest.approx(1.0, abs=2e-4)
