"""What the features of a stream say of each other, and which of them no longer follows."""

import numpy as np
import pytest
from resonance.engine.drift import BESIDE, DriftWatch
from resonance.engine.drift.watch import KIND, REVISION
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.kernels.table import packed

from tests.engine.watched import learn, plain

FOLLOWED = {"returning": 2, "leaps": 1, "relations": 1}


def machine(seed, n=6_000, day=288):
    """Return load, temperature that follows it and the air, vibration that follows the load, and the air."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    load = 0.5 + 0.3 * np.sin(2 * np.pi * t / day + 7.0 * rng.random()) + 0.08 * rng.normal(size=n)
    air = 0.3 + 0.2 * np.sin(2 * np.pi * t / day + 7.0 * rng.random()) + 0.02 * rng.normal(size=n)
    warm = 0.4 * load + 0.5 * air + 0.02 * rng.normal(size=n)
    return np.column_stack((load, warm, 0.2 * load + 0.008 * rng.normal(size=n), air))


def walks(seed, n=20_000, d=4):
    """Return features that go slowly each its own way, so that they seem to follow each other for long."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    for i in range(1, n):
        X[i] += 0.99 * X[i - 1]
    return 0.03 * X


def seen(X, **given):
    return learn(DriftWatch(X.shape[1], **{**FOLLOWED, **given}), X, np.zeros(len(X), int), found=list)[0]


def beside(changes):
    """Return the record, feature and means of the changes beside the others that changes name."""
    units = [(change.record, unit) for change in changes for unit in change.units if unit.unit == BESIDE]
    return [(record, each.channel, each.before, each.after) for record, unit in units for each in unit.channels]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slowly", [1, 600])
def test_what_is_warmer_at_the_same_load_is_named(seed, slowly):
    X = machine(seed)
    X[4_000:, 1] += 0.12 * np.minimum(np.arange(1, 2_001) / slowly, 1.0)
    changes = seen(X)
    assert 4_000 < changes[0].record < 5_000
    named = beside(changes)
    assert {channel for _, channel, *_ in named} == {1}
    assert all(before == pytest.approx(X[:4_000, 1].mean(), abs=0.05) for *_, before, _ in named)
    *_, before, after = named[-1]
    assert after - before == pytest.approx(0.12, abs=0.02)


def test_a_slight_change_of_what_follows_is_seen_where_no_feature_shows_it():
    X = machine(2)
    X[4_000:, 1] += 0.08
    assert not seen(X, relations=0)
    first, *_ = seen(X)
    [unit] = first.units
    assert (first.kind, unit.unit, unit.cluster, unit.channels[0].change) == ("drift", BESIDE, -1, "moved")
    assert 4_256 < first.record < 4_400
    # An offset is twice the number of a record.
    assert 7_800 <= unit.since.offset <= 8_000


@pytest.mark.parametrize("seed", range(4))
def test_what_no_longer_follows_is_named(seed):
    """One of three phases goes its own way, as far and as often as before."""
    rng, load = np.random.default_rng(seed), machine(seed)[:, :1]
    X = load + 0.02 * rng.normal(size=(len(load), 4))
    X[4_000:, 2] = rng.permutation(X[4_000:, 2])
    changes = seen(X)
    assert {channel for _, channel, *_ in beside(changes)} == {2}
    assert 4_000 < changes[0].record < 4_700


@pytest.mark.parametrize("seed", range(4))
def test_what_is_less_at_each_hour_of_a_day_is_seen(seed):
    """One feature, of which two thirds are what other hours have: a record each five minutes, 288 a day."""
    rng, t = np.random.default_rng(seed), np.arange(6_000)
    X = 0.6 + 0.3 * np.sin(2 * np.pi * t / 288 + seed) + 0.05 * rng.normal(size=len(t))
    X[4_000:] *= 0.65
    parts = np.split(t, range(512, len(t), 512))
    watch, other = DriftWatch(1, **FOLLOWED), DriftWatch(1, **{**FOLLOWED, "relations": 0})
    found, none = (
        [change for own in parts for change in each.learn(X[own, None], 0 * own, own, 300_000 * own)]
        for each in (watch, other)
    )
    assert not none
    [channel] = found[0].units[0].channels
    assert (found[0].kind, found[0].units[0].unit, channel.change) == ("drift", BESIDE, "moved")
    assert 4_000 < found[0].record < 4_800
    assert channel.after < 0.85 * channel.before


def slow_machine(seed, n=12_000):
    """Return load, two temperatures that follow it by some twenty records and wander themselves, and the air."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(5, n)) * np.array([0.17, 0.02, 0.02, 0.04, 0.0])[:, None]
    load, mass, oil, air, slow = (np.zeros(n) for _ in range(5))
    for i in range(1, n):
        load[i], air[i] = 0.985 * load[i - 1] + noise[0, i], 0.998 * air[i - 1] + noise[3, i]
        mass[i], oil[i] = 0.8 * mass[i - 1] + noise[1, i], 0.8 * oil[i - 1] + noise[2, i]
        slow[i] = slow[i - 1] + 0.05 * (load[i] - slow[i - 1])
    return np.column_stack((load, slow + 0.2 * air + mass, 0.6 * slow + 0.1 * air + oil, air))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_slow_is_compared_too_and_by_itself_is_no_change(seed):
    """What is left of a temperature that follows late depends on itself for longer than a clean sensor."""
    X = slow_machine(seed)
    assert not beside(seen(X))
    X[6_000:, 1] += 0.8
    found = beside(seen(X))
    assert found and 6_000 < found[0][0] < 8_500
    assert {channel for _, channel, *_ in found} == {1}
    assert found[-1][3] - found[-1][2] == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_what_follows_late_for_a_while_is_no_change(seed):
    X, rng = machine(seed, n=12_000), np.random.default_rng(seed)
    for at in rng.integers(2_000, 12_000, size=8):
        X[at : at + 40, 1] -= 0.2 * np.exp(-np.arange(len(X[at : at + 40])) / 15.0)
    assert not seen(X)


@pytest.mark.parametrize("seed", range(6))
def test_what_only_seems_to_follow_is_no_news(seed):
    X = walks(seed)
    assert len(seen(X)) <= len(seen(X, relations=0))


@pytest.mark.parametrize(("sizes", "restored"), [((1,), False), ((7, 300, 1, 64), False), ((97,), True)])
def test_batches_and_restarts_change_nothing(sizes, restored):
    X = machine(1)
    X[2_500:, 1] += 0.12
    where = np.zeros(len(X), int)
    changes, watch = learn(DriftWatch(4, **FOLLOWED), X, where, sizes, restored, found=list)
    expected, whole = learn(DriftWatch(4, **FOLLOWED), X, where, found=list)
    assert [change.kind for change in expected] == ["drift", "settled"]
    np.testing.assert_equal(plain(changes), plain(expected))
    assert watch.state() == whole.state()


@pytest.mark.parametrize("at", [16, 512, 700, 1_024, 3_200, 4_100, 4_600])
def test_a_watch_that_is_rescaled_goes_on_as_one_of_the_other_units(at):
    factor, shift, X = np.array([0.5, 4.0, 1.0, 0.1]), np.array([1.0, -2.0, 0.0, 3.0]), machine(2)
    X[4_000:, 1] += 0.12
    where = np.zeros(len(X), int)
    before, one = learn(DriftWatch(4, **FOLLOWED), X[:at], where[:at], found=list)
    one.rescale(factor, shift)
    after, one = learn(one, X[at:] * factor + shift, where[at:], found=list)
    expected, other = learn(DriftWatch(4, **FOLLOWED), X * factor + shift, where, found=list)
    assert [(each.record, each.kind) for each in [*before, *after]] == [(each.record, each.kind) for each in expected]
    for name, array in packed(other._state).items():
        if name in {"weight", "products", "relation", "channel"}:
            np.testing.assert_allclose(packed(one._state)[name], array, rtol=1e-6, atol=1e-6, err_msg=name)


def test_a_watch_of_before_goes_on_without_relations():
    X = machine(3)
    _, watch = learn(DriftWatch(4, returning=2, leaps=1), X[:3_000], np.zeros(3_000, int), found=list)
    header, arrays = unpack(watch.state(), KIND, REVISION)
    del header["parameters"]["relations"]
    older = {name: array for name, array in arrays.items() if name not in {"weight", "products", "relation"}}
    older["head"] = arrays["head"][:-6]
    read = DriftWatch.from_state(pack(KIND, 7, header, older))
    assert read.state() == watch.state()


def test_relations_with_other_numbers_are_refused_or_go_on():
    X = machine(4)
    _, watch = learn(DriftWatch(4, **FOLLOWED), X[:3_000], np.zeros(3_000, int), found=list)
    header, arrays = unpack(watch.state(), KIND, REVISION)
    rng, taken = np.random.default_rng(1), 0
    for _ in range(200):
        name = str(rng.choice(["weight", "products", "relation"]))
        other = arrays[name].copy()
        other[tuple(int(rng.integers(size)) for size in other.shape)] = rng.choice([0.0, -1.0, 1e9, 1e300, np.nan])
        try:
            read = DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, name: other}))
        except StateError:
            continue
        taken += 1
        learn(read, X[3_000:4_200], np.zeros(1_200, int), found=list)
        read.state()
    assert 50 < taken < 200


@pytest.mark.parametrize("seed", range(4))
def test_what_a_machine_says_that_is_off_hides_nothing_of_its_days(seed):
    """A panel whose power and current are a quarter less at the same sun; by night all are 0."""
    rng, t = np.random.default_rng(seed), np.arange(6_000)
    sun = np.maximum(np.sin(2 * np.pi * t / 144), 0.0) * (0.6 + 0.4 * rng.random(len(t)))
    power = sun * np.where(t < 4_000, 1.0, 0.75)
    X = 0.2 * np.column_stack((sun, power, power)) + 0.002 * rng.normal(size=(len(t), 3)) * (sun > 0.0)[:, None]
    changes = seen(X)
    assert changes[0].kind == "drift" and 4_000 < changes[0].record < 5_000
    assert beside(changes)
