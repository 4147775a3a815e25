"""Features that are rounded, or count, are seen as the quantities they are, and not as the grid they stand on."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.errors import RecordError, StateError
from resonance.engine.prepare import REVISION, Preparation
from resonance.engine.prepare.scaling import step_of
from resonance.engine.state import pack, unpack
from sklearn.metrics import adjusted_rand_score

RNG = np.random.default_rng


def warmed(X, held=200, robust=True, **parameters):
    """Return a preparation behind its warm-up, and the prepared records of that."""
    preparation = Preparation([f"f{i}" for i in range(X.shape[1])], warmup_records=held, robust=robust, **parameters)
    preparation.hold(X[:held])
    return preparation, preparation.freeze()


def rounded(n, seed=0):
    """One rounded feature, one that counts, and one that does neither."""
    rng = RNG(seed)
    return np.stack([rng.normal(size=n).round(1), rng.poisson(9, n).astype(float), rng.normal(size=n)], axis=1)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        *((RNG(0).normal(size=200).round(1), 0.1), (RNG(0).poisson(4, 200), 1.0)),
        *((np.arange(200) % 24 * 5 + 2.5, 5.0), (np.arange(200) % 7 * 0.1 + 1e6, 0.1)),
        (np.concatenate([np.arange(200) % 20 * 0.1, np.arange(200) % 20 / 10.0]), 0.1),
        ((np.arange(200) % 20 * 0.1 + 1013).astype(np.float32), 0.1),
        (np.concatenate([np.zeros(196), [1e4, 2e4, 3e4, 4e4]]), 0.0),
        (np.concatenate([np.zeros(120), np.arange(80) % 10]), 0.0),
        *((np.concatenate([np.zeros(80), np.arange(120) % 10]), 1.0), (np.arange(200) % 11 * 1e149, 0.0)),
        *((np.rint(RNG(0).lognormal(2, 1, 200)), 1.0), (np.rint(RNG(0).lognormal(8, 1, 200)), 0.0)),
        (np.array([200.0, 201, 204, 301, 302, 404])[RNG(0).poisson(1, 200) % 6], 0.0),
        *((RNG(0).normal(size=200), 0.0), (RNG(0).normal(size=200).round(3), 0.0), (np.arange(200) % 2, 0.0)),
        *((np.arange(200) % 4, 0.0), (np.full(200, 3.0), 0.0)),
        *((2.4 + 0.1 * (np.arange(200) % 3), 0.1), (2.4 + 0.1 * (np.arange(200) % 2), 0.0)),
        (np.array([200.0, 201, 204, 301, 302, 404, 500, 503])[np.arange(200) % 8], 0.0),
        *((np.array([2.0**i for i in range(9)])[np.arange(200) % 9], 0.0), (np.array([]), 0.0)),
        (np.array([1.0]), 0.0),
    ],
)
def test_the_step_of_a_feature(values, step):
    assert step_of(np.asarray(values, float)) == pytest.approx(step, rel=1e-3 if values.dtype == np.float32 else 1e-6)


def test_a_value_is_moved_within_its_step_and_a_feature_without_steps_is_not():
    X = rounded(5000)
    preparation, first = warmed(X)
    plain, _ = warmed(X[:, [2]])
    Z = np.concatenate([first, preparation.apply(X[200:])])
    np.testing.assert_array_equal(Z[200:, 2], plain.apply(X[200:, [2]])[:, 0])
    back = np.array([preparation.to_input_units(z, np.ones(3))[0] for z in Z])
    moved = (back - X)[:, :2] / [0.1, 1.0]
    assert np.all(np.abs(moved) <= 0.5 + 1e-9)
    for column in moved.T:
        # Uniform, whatever the value was.
        assert np.histogram(column, 10, (-0.5, 0.5))[0] == pytest.approx(500, abs=100)
    assert abs(np.corrcoef(moved.T)[0, 1]) < 0.05


def test_a_record_at_fault_moves_no_number_on():
    X = rounded(300)
    preparation, _ = warmed(X)
    expected = Preparation.from_state(preparation.state()).apply(X[200:])
    with pytest.raises(RecordError):
        preparation.apply([[np.nan, 1.0, 1.0]])
    assert preparation.check(np.array([[1e300, 1.0, 1.0], [0.1, 1.0, 1.0]])).keys() == {0}
    np.testing.assert_array_equal(preparation.apply(X[200:]), expected)


def test_what_is_filled_in_stays_where_it_is():
    X = rounded(400)
    X[::3, 1] = np.nan
    preparation, first = warmed(X, missing="mean")
    Z = np.concatenate([first, preparation.apply(X[200:])])[:, 1]
    assert len(np.unique(Z[::3])) == 1
    assert len(np.unique(Z)) == 1 + np.count_nonzero(~np.isnan(X[:, 1]))


def test_a_number_that_is_filled_in_does_not_decide_the_step():
    X = rounded(400)
    X[::3, 1] = np.nan
    assert warmed(X, missing=7.25)[0].state() == warmed(X, missing=7.25)[0].state()
    first = warmed(X, missing=7.25)[1][:, 1]
    assert len(np.unique(first)) == 1 + np.count_nonzero(~np.isnan(X[:200, 1]))


@pytest.mark.parametrize("project", [0, 8])
def test_a_spread_is_that_of_the_rounded_values(project):
    X = rounded(20_000)
    if project:
        X = np.hstack([X, rounded(20_000, 1), rounded(20_000, 2), rounded(20_000, 3)])
    preparation, _ = warmed(X, held=1000, project=project)
    Z = preparation.apply(X[1000:])
    _, spread = preparation.to_input_units(Z.mean(axis=0), Z.std(axis=0))
    assert spread == pytest.approx(X.std(axis=0), rel=0.1 if project else 0.02)
    if not project:
        _, none = preparation.to_input_units(Z[0], np.zeros(3))
        assert none[:2] == pytest.approx(0.0)


def test_a_bent_spread_stays_finite():
    preparation, _ = warmed(np.floor(RNG(0).exponential(20, size=(200, 1))))
    assert unpack(preparation.state(), "prepare", REVISION)[1]["bend"][0] > 0
    centre, spread = preparation.to_input_units(np.array([500.0]), np.array([1.0]))
    assert np.isfinite(centre).all()
    assert np.isfinite(spread).all()


def test_as_many_values_are_outside_the_range_as_of_any_feature():
    X = np.stack([np.arange(4000) % 24, np.arange(4000) % 5], axis=1).astype(float)
    X = RNG(0).permuted(X, axis=0)
    preparation, _ = warmed(X)
    preparation.apply(X[200:])
    assert preparation.outside / preparation.compared < 0.04


@pytest.mark.parametrize("stuck", [[500.0], [500.0, 501.0]])
def test_a_feature_that_is_stuck_gets_no_range_of_its_noise(stuck):
    X = RNG(0).poisson(9, size=(700, 1)).astype(float)
    X[200:, 0] = np.resize(stuck, 500)
    preparation = Preparation(["f0"], robust=True, rescale=True)
    preparation.hold(X[:16])
    preparation.freeze()
    preparation.apply(X[16:200])
    preparation.rescale()
    preparation.apply(X[200:])
    assert (preparation.room, preparation.rescale()) == (0, None)


@pytest.mark.parametrize("number", [-1, 2.9, 2**63])
def test_a_state_with_an_impossible_number_is_refused(number):
    preparation, _ = warmed(rounded(200))
    header, arrays = unpack(preparation.state(), "prepare", REVISION)
    with pytest.raises(StateError):
        Preparation.from_state(pack("prepare", REVISION, {**header, "number": number}, arrays))


def test_a_state_without_steps_goes_on_with_its_bits():
    preparation, _ = warmed(rounded(200))
    header, arrays = unpack(preparation.state(), "prepare", REVISION)
    del header["number"], arrays["step"]
    old = Preparation.from_state(pack("prepare", 2, header, arrays))
    X = rounded(300)[200:]
    assert not unpack(old.state(), "prepare", REVISION)[1]["step"].any()
    np.testing.assert_array_equal(old.apply(X[:, :])[:, 2], preparation.apply(X)[:, 2])


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_are_rounded_coarsely_are_found_and_stay(seed):
    rng = RNG(seed)
    kind = rng.integers(3, size=12_000)
    X = rng.permutation(3)[kind, None] * 8.0 * rng.random(4).round(1) + rng.normal(size=(12_000, 4))
    X = np.round(X / 1.25) * 1.25
    preparation, first = warmed(X)
    model = Modal()
    model.learn(np.concatenate([first, preparation.apply(X[200:6000])]))
    late = model.learn(preparation.apply(X[6000:]))
    assert adjusted_rand_score(kind[6000:], late.cluster[:, 0]) > 0.95
    assert len(np.unique(late.cluster)) == 3
    assert not late.events


def test_counts_of_one_kind_are_one_cluster():
    rng = RNG(0)
    X = np.stack([rng.poisson(3, 8000), rng.normal(size=8000)], axis=1)
    preparation, first = warmed(X)
    model = Modal()
    model.learn(np.concatenate([first, preparation.apply(X[200:])]))
    assert len(model.clusters()) == 1
