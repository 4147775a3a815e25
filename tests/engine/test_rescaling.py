"""A scale that records have left for long is frozen anew, and an engine goes on in the new units."""

import numpy as np
import pytest
from resonance.engine import CAEA, Modal, ParameterError, StateError
from resonance.engine.prepare import LOOK, Preparation
from resonance.engine.prepare.rescaling import LOOK_BEFORE, RECENT
from resonance.engine.state import pack, unpack

NAMES = ["a", "b", "c"]


def stream(n=6_000, seed=0):
    """Return records of three features about [0, 1], of which the second is a hundredfold in the middle third."""
    X = np.random.default_rng(seed).random((n, 3))
    X[n // 3 : 2 * n // 3, 1] *= 100.0
    return X


def learned(X, **given):
    preparation = Preparation(NAMES, **{"rescale": True, **given})
    preparation.hold(X[: preparation.wanted])
    preparation.freeze()
    if preparation.settling:
        preparation.apply(X[preparation.held : preparation.warmup_records])
        preparation.rescale()
    return preparation


def prepared(preparation, X, size):
    """Return prepared records, and how many came before each change with what it is, as a stream's model does it."""
    found, changes, at = [], [], 0
    while at < len(X):
        if preparation.room == 0 and (change := preparation.rescale()) is not None:
            changes.append((at, change.factor, change.shift))
        taken = min(size, preparation.room, len(X) - at)
        found.append(preparation.apply(X[at : at + taken]))
        at += taken
    return np.concatenate(found), changes


def test_a_range_that_most_records_have_left_is_frozen_anew_and_given_back():
    X = stream()
    preparation = learned(X[:200])
    home = preparation.to_input_units(np.zeros(3), np.ones(3))
    values, changes = prepared(preparation, X, 1_000)
    assert [at for at, _, _ in changes] == [2_500, 4_500]
    for _, factor, shift in changes:
        assert (factor[[0, 2]] == 1.0).all()
        assert (shift[[0, 2]] == 0.0).all()
    assert 80 < values[2_000:2_500, 1].max() < 120
    assert -0.1 < values[2_500:4_000, 1].min() < 0.1
    assert 0.9 < values[2_500:4_000, 1].max() < 1.2
    # The warm-up's own range again, to the last bit.
    np.testing.assert_array_equal(preparation.to_input_units(np.zeros(3), np.ones(3)), home)
    np.testing.assert_array_equal(values[4_500:], learned(X[:200], rescale=False).apply(X[4_500:]))


def seen(columns, watch, a):
    """Let the watch see prepared records whose `a` is 10 to 20, or 10 to 20 times as far."""
    values = np.random.default_rng(1).random((LOOK, 4))
    values[:, 0] = a * values[:, 0]
    watch.see(values, columns.table.low, columns.table.width)
    return values


def test_however_records_come_the_bits_are_the_same_and_a_state_goes_on_with_them():
    X = stream(3_500)
    whole = learned(X[:200])
    expected, changes = prepared(whole, X, 10_000)
    assert changes
    for size in (1, 7, 333):
        other = learned(X[:200])
        values, others = prepared(other, X, size)
        assert values.tobytes() == expected.tobytes()
        assert [at for at, _, _ in others] == [at for at, _, _ in changes]
        assert other.state() == whole.state()
    other = learned(X[:200])
    parts = []
    for at in range(0, len(X), 250):
        other = Preparation.from_state(other.state())
        assert Preparation.from_state(other.state()).state() == other.state()
        parts.append(prepared(other, X[at : at + 250], 250)[0])
    assert (np.concatenate(parts).tobytes(), other.state()) == (expected.tobytes(), whole.state())


def test_what_was_prepared_before_is_where_the_change_puts_it():
    X = np.random.default_rng(0).random((2_000, 3))
    X[1_500:, 1] = X[1_500:, 1] * 40.0 + 7.0
    preparation = learned(X[:200])
    before, _ = prepared(preparation, X, 500)
    centre, spread = preparation.to_input_units(before[5], np.full(3, 0.1))
    factor, shift, _ = preparation.rescale()
    expected = np.concatenate([Preparation.from_state(preparation.state()).apply(part) for part in np.split(X, 4)])
    np.testing.assert_allclose(before * factor + shift, expected, rtol=0, atol=1e-9)
    again = preparation.to_input_units(before[5] * factor + shift, 0.1 * factor)
    np.testing.assert_allclose(again, (centre, spread), rtol=1e-9, atol=1e-9)


def test_the_grain_is_that_of_the_present_scale():
    X = stream().round(1)
    preparation, found = Preparation(NAMES, rescale=True, robust=True), []
    preparation.hold(X[: preparation.wanted])
    found.append(preparation.grain(X[:1])[0])
    preparation.freeze()
    at = preparation.held
    while at < len(X):
        assert preparation.grain(X).tolist() == Preparation.from_state(preparation.state()).grain(X).tolist()
        found.append(preparation.grain(X[:1])[0])
        taken = preparation.room
        preparation.apply(X[at : at + taken])
        preparation.rescale()
        at += taken
    # None until the warm-up is over, then one for each place of the second feature.
    assert len({tuple(grain) for grain in found}) == 3
    assert found[-1][1] > 0.0


@pytest.mark.parametrize(("day", "noise"), [(1_440, 0.1), (1_440, 0.01), (8_640, 0.1), (20_000, 0.1)])
def test_a_daily_wave_soon_has_one_range(day, noise):
    rng, t = np.random.default_rng(0), np.arange(100_000)[:, None]
    X = np.sin(2 * np.pi * (t / day + rng.random(3))) + noise * rng.normal(size=(len(t), 3))
    preparation = learned(X[:200])
    _, changes = prepared(preparation, X, 10_000)
    for feature in range(3):
        assert sum(factor[feature] != 1.0 for _, factor, _ in changes) <= 5
    assert changes[-1][0] <= 4 * day


def test_a_range_that_records_leave_on_one_side_again_and_again_is_no_wider():
    X = np.random.default_rng(0).random((40_000, 3))
    X[:, 1] += np.arange(len(X)) * 0.004
    preparation = learned(X[:200])
    prepared(preparation, X, 10_000)
    low, high = (preparation.to_input_units(np.full(3, end), np.zeros(3))[0] for end in (0.0, 1.0))
    assert high[1] - low[1] < 3.0


@pytest.mark.parametrize("factor", [100.0, 1_000.0])
def test_units_that_take_turns_keep_ranges_of_their_own(factor):
    X = np.random.default_rng(0).random((20_000, 3))
    X[:, 1] *= np.where(np.arange(len(X)) // 2_000 % 2, factor, 1.0)
    preparation = learned(X[:200])
    for at in range(0, len(X), 2_000):
        values, _ = prepared(preparation, X[at : at + 2_000], 1_000)
        assert 0.9 < values[1_000:, 1].max() < 1.2


@pytest.mark.parametrize("share", [0.1, 0.45])
def test_a_range_that_fewer_records_have_left_stays(share):
    X = stream(3_000)
    X[:, 1] = np.random.default_rng(1).random(3_000)
    X[1_000:, 1] += np.where(np.random.default_rng(2).random(2_000) < share, 50.0, 0.0)
    assert prepared(learned(X[:200]), X, 500)[1] == []


def test_flags_categories_and_bent_features_keep_their_ranges():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.random(4_000) < 0.3, rng.integers(2, size=4_000), rng.lognormal(sigma=2.0, size=4_000)])
    X[2_000:, 0] *= 1e6
    X[2_000:, 2] *= 1e4
    assert prepared(learned(X[:200], robust=True, categories={"b": ("x", "y")}), X, 500)[1] == []


def test_projected_records_have_no_range_of_their_own():
    rows = np.random.default_rng(0).random((200, 3))
    assert learned(rows, project=2, warmup_records=200).room is None
    assert (learned(rows, rescale=False).room, learned(rows, rescale=False).rescale()) == (None, None)


def test_more_records_than_until_the_next_look_are_a_fault_of_the_caller():
    preparation = learned(stream()[:200])
    preparation.apply(stream()[: LOOK - 1])
    assert preparation.rescale() is None
    preparation = learned(stream()[:200])
    with pytest.raises(ValueError, match="501 records to prepare, 500 until the scale is looked at"):
        preparation.apply(stream()[: LOOK + 1])


@pytest.mark.parametrize("given", [{"scale": "none"}, {"clip": True}])
def test_only_the_scale_of_a_warm_up_is_frozen_anew(given):
    with pytest.raises(ParameterError, match="rescale = True: must be false or auto"):
        Preparation(NAMES, rescale=True, **given)


@pytest.mark.parametrize("name", ["far", "back", "recent", "home_low", "home_width", "restless", "seen"])
def test_a_crafted_state_is_refused(name):
    preparation = learned(stream()[:200])
    preparation.apply(stream()[:450])
    header, arrays = unpack(preparation.state(), "prepare", 9)
    assert Preparation.from_state(pack("prepare", 2, header, arrays)).state() == preparation.state()
    if name == "seen":
        with pytest.raises(StateError):
            Preparation.from_state(pack("prepare", 2, {**header, name: LOOK_BEFORE + 1}, arrays))
        return
    for wrong in (arrays[name][:-1], -arrays[name] - 1e200 if arrays[name].dtype == float else arrays[name] + 2**40):
        with pytest.raises(StateError):
            Preparation.from_state(pack("prepare", 2, header, {**arrays, name: wrong}))


@pytest.mark.parametrize("seen", [400, 900])
def test_an_older_state_which_looked_less_often_begins_to_count_anew(seen):
    preparation = learned(stream()[:200])
    header, arrays = unpack(preparation.state(), "prepare", 9)
    recent = np.zeros((max(seen - (LOOK_BEFORE - RECENT), 0), 3))
    counts = {"far": np.full(3, seen), "back": np.full(3, seen), "recent": recent}
    older = pack("prepare", 5, {**header, "seen": seen}, {**arrays, **counts})
    assert Preparation.from_state(older).state() == preparation.state()


def blobs(n, seed=0):
    rng = np.random.default_rng(seed)
    own = rng.integers(4, size=n)
    return rng.random((4, 3))[own] + 0.03 * rng.normal(size=(n, 3)), own


def test_modal_goes_on_in_other_units():
    X, _ = blobs(6_000)
    factor, shift = np.array([1.0, 0.01, 3.0]), np.array([0.0, 0.4, -1.0])
    model = Modal()
    model.learn(X[:3_000])
    assert len(model.clusters()) == 4
    before = {cluster.id: cluster for cluster in model.clusters()}
    ids = model.predict(X[:500]).cluster
    model.rescale(factor, shift)
    for cluster in model.clusters():
        np.testing.assert_allclose(cluster.centre, before[cluster.id].centre * factor + shift, atol=1e-9)
        np.testing.assert_allclose(cluster.spread, before[cluster.id].spread * factor, atol=1e-9)
    assert (model.predict(X[:500] * factor + shift).cluster == ids).mean() > 0.99
    twin = Modal.from_state(model.state())
    step, other = (each.learn(X[3_000:] * factor + shift) for each in (model, twin))
    assert (step.cluster.tobytes(), twin.state()) == (other.cluster.tobytes(), model.state())
    assert {cluster.id for cluster in model.clusters()} == set(before)


@pytest.mark.parametrize("factor", [np.full(3, 4.0), np.array([1.0, 0.2, 3.0])])
def test_densities_that_were_counted_go_on_in_other_units(factor):
    X, _ = blobs(6_000)
    model = Modal()
    model.learn(X)
    held = model._model
    used = held.landmarks

    def measured():
        span, hits = held.past_span + held.span + (held.clock - held.since), held.past_hits + held.hits
        volume = 0.5 * held.dimension[0] * np.log(held.radius2)
        return (np.log(hits) - np.log(span) - volume)[:used], hits[:used].copy()

    counting = held.span[:used] >= 0.0
    (before, hits), _ = measured(), model.rescale(factor, np.zeros(3))
    after, same_hits = measured()
    change = (after - before)[counting]
    assert counting.mean() > 0.9
    np.testing.assert_allclose(change, change[0], atol=1e-9)
    np.testing.assert_array_equal(hits, same_hits)


def test_values_that_new_units_put_too_far_away_stay_numbers():
    model = Modal()
    model.learn(np.array([[1e150], [-1e150], [0.0]]))
    model.rescale(np.array([1e3]), np.zeros(1))
    assert Modal.from_state(model.state()).state() == model.state()


def test_an_engine_before_its_first_record_and_one_that_cannot():
    model = Modal()
    model.rescale(np.ones(2), np.zeros(2))
    assert model.state() == Modal().state()
    with pytest.raises(NotImplementedError, match="caea cannot be rescaled"):
        CAEA().rescale(np.ones(2), np.zeros(2))
