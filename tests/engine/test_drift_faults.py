"""What the drift watch reports of sensors that are stuck, noisy, far away or off, and of waves, which are ordinary."""

import numpy as np
import pytest
from resonance.engine.drift import DriftWatch
from resonance.engine.prepare import REVISION as PREPARATION
from resonance.engine.prepare import Preparation
from resonance.engine.state import unpack
from scipy.signal import lfilter

from tests.engine.watched import clusters, learn, stream, wave


@pytest.mark.parametrize("leaps", [0, 1])
@pytest.mark.parametrize(("height", "most"), [(0.5, 4), (1.0, 4), (3.0, 5), (10.0, 4)])
def test_a_wave_of_a_day_is_soon_ordinary(height, most, leaps):
    episodes = []
    for seed in range(3):
        rng, t = np.random.default_rng(seed), np.arange(20 * 1_440)[:, None]
        X = height * np.sin(2 * np.pi * (t / 1_440 + rng.random(3))) + rng.normal(size=(len(t), 3))
        watch, X = DriftWatch(3, returning=2, leaps=leaps), X / X.std(axis=0)
        changes, _ = learn(watch, X, np.zeros(len(t), np.int64), found=list)
        episodes.append(sum(change.kind == "drift" for change in changes))
        assert all(change.record < 7 * 1_440 for change in changes)
    assert max(episodes) <= most


@pytest.mark.parametrize(("fault", "change"), [("", ""), ("stuck", "narrowed"), ("noisy", "widened")])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_stuck_or_noisy_on_a_wave_is_reported(fault, change, seed):
    rng, t = np.random.default_rng(seed), np.arange(8_000)
    X = 0.2 * np.sin(2 * np.pi * t[:, None] / 1440 + np.arange(3)) + 0.02 * rng.normal(size=(len(t), 3))
    if fault == "stuck":
        X[6_000:, 1] = X[6_000, 1]
    elif fault:
        X[6_000:, 1] += 0.08 * rng.normal(size=2_000)
    changes, _ = learn(DriftWatch(3, leaps=1), X, np.zeros(len(t), int), found=list)
    # It is open as long as it lasts, however much is waited for.
    assert [change.kind for change in changes] == (["drift"] if fault else [])
    if fault:
        [unit] = changes[0].units
        [channel] = unit.channels
        assert (channel.channel, channel.change) == (1, change)
        assert changes[0].record < (6_045 if fault == "stuck" else 6_300)
        assert abs(unit.since.offset / 2 - 6_000) < (8 if fault == "stuck" else 100)
        after = pytest.approx(X[6_000, 1], abs=0.02)
        assert channel.steps is (fault == "noisy")
        assert channel.ratio > 2.5 if fault == "noisy" else (channel.ratio == 0.0 and channel.after == after)


@pytest.mark.parametrize("share", [0.03, 0.6])
@pytest.mark.parametrize("fault", ["", "stuck", "moved"])
def test_a_record_that_lacks_a_feature_says_nothing_of_it(fault, share):
    """A mean in its place would wake what is stuck, hide what moves, and be a change wherever it comes more often."""
    rng, t = np.random.default_rng(2), np.arange(12_000)
    X = 0.2 * np.sin(2 * np.pi * t[:, None] / 1440 + np.arange(3)) + 0.02 * rng.normal(size=(len(t), 3))
    X[rng.random(len(t)) < 0.02, 1] = np.nan
    if fault == "stuck":
        X[6_000:, 1] = X[5_999, 1] = 0.11
    elif fault:
        X[6_000:, 1] += 0.7
    X[6_000:][rng.random(6_000) < share, 1] = X[9_000:9_200, 1] = np.nan
    watch = DriftWatch(3, leaps=1)
    changes, _ = learn(watch, X, np.zeros(len(t), int), found=list)
    assert [change.kind for change in changes if change.record >= 6_000][: 1 + (fault == "moved")] == (
        {"": [], "stuck": ["drift"], "moved": ["drift", "settled"]}[fault]
    )
    if fault:
        change = next(change for change in changes if change.record >= 6_000)
        assert change.record < 6_200 + 300 * (share > 0.5)
        [channel] = (each for each in change.units[0].channels if each.channel == 1)
        assert abs(change.units[0].since.offset / 2 - 6_000) < (16 if fault == "stuck" else 64)
        assert channel.after == pytest.approx(0.11 if fault == "stuck" else 0.7, abs=0.3 * (fault == "moved"))
        assert watch.is_open == (fault == "stuck")


@pytest.mark.parametrize(("events", "kinds"), [((5,), []), (range(5, 3_000, 40), ["drift"])])
def test_a_count_of_rare_events_with_one_early_is_not_stuck_before_several_more_and_one_that_had_them_is(events, kinds):
    X = np.column_stack((np.zeros(9_000), 0.2 * np.random.default_rng(0).normal(size=9_000)))
    X[[*events], 0] = 0.4
    changes, _ = learn(DriftWatch(2, leaps=1), X, np.zeros(len(X), int), found=list)
    assert [change.kind for change in changes] == kinds


@pytest.mark.parametrize(("rounded", "noise"), [(0.1, 0.5), (0.1, 0.2), (1.0, 1.0)])
def test_a_rounded_sensor_is_stuck_whenever_it_is(rounded, noise):
    """Values are spread over their rounding, so that no record is the same as the one before."""
    rng, t = np.random.default_rng(3), np.arange(16_000)
    raw = 61 + 3 * np.sin(2 * np.pi * t / 1440) + noise * rng.normal(size=len(t))
    raw[6_000:6_700], raw[12_000:12_900] = raw[6_000], raw[12_000]
    preparation = Preparation(["temp"], robust=True)
    preparation.hold(np.round(raw / rounded)[: preparation.wanted, None] * rounded)
    X = [preparation.freeze()]
    assert preparation.grain(X[0])[0, 0] > 0.0
    for row in np.split(np.round(raw / rounded)[len(X[0]) :, None] * rounded, 100):
        X.append(preparation.apply(row))
    X = np.concatenate(X)
    changes, _ = learn(
        DriftWatch(1, leaps=1),
        X,
        np.zeros(len(t), int),
        found=list,
        grain=np.repeat(preparation.grain(X), len(X), axis=0),
    )
    assert [change.kind for change in changes] == ["drift", "recovered"] * 2
    for change, began in zip(changes[::2], (6_000, 12_000), strict=True):
        [channel] = change.units[0].channels
        assert channel.ratio == 0.0
        assert abs(change.units[0].since.offset / 2 - began) < 64


def test_what_is_stuck_waits_until_what_changed_has_a_baseline():
    rng = np.random.default_rng(5)
    X = 0.02 * rng.normal(size=(8_000, 2))
    X[3_000:, 0] += 0.1
    X[3_200:, 1] = X[3_200, 1]
    changes, _ = learn(DriftWatch(2, leaps=1), X, np.zeros(len(X), int), found=list)
    assert [change.kind for change in changes] == ["drift", "settled", "drift"]
    [channel] = changes[2].units[0].channels
    assert (channel.channel, channel.ratio) == (1, 0.0)
    assert abs(changes[2].units[0].since.offset / 2 - 3_200) < 64


def test_a_logger_that_repeats_its_record_is_one_change():
    X = 0.02 * np.random.default_rng(1).normal(size=(4_000, 12))
    X[3_000:] = X[3_000]
    changes, _ = learn(DriftWatch(12, leaps=1), X, np.zeros(len(X), int), found=list)
    assert [change.kind for change in changes] == ["drift"]
    assert "narrowed" in {channel.change for channel in changes[0].units[0].channels}


@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("at", [0.0, 2.0, 4.0, 8.0])
def test_what_is_stuck_is_one_change_wherever_it_is(at, kinds):
    """It has moved, too, and so have the sums that hold it, and records are nearer to other cells."""
    centres = np.array([[0.0, 0.0, 0.0], [8.0, 0.0, 4.0], [16.0, 0.0, 8.0]])[:kinds]
    X, where = stream(9_000, seed=2, centres=10.0 * centres)
    X *= 0.1
    for feature in (0, 1):
        rows = X.copy()
        rows[4_000:6_000, feature] = 0.01 * at if feature else -0.05 * at
        changes, _ = learn(DriftWatch(3, leaps=1), rows, where, found=lambda: clusters(range(kinds, 0, -1), centres))
        assert [change.kind for change in changes] == ["drift", "recovered"]
        [unit] = changes[0].units
        assert [(channel.channel, channel.ratio) for channel in unit.channels] == [(feature, 0.0)]
        assert changes[0].record < 4_100
        assert abs(changes[1].record - 6_000) < 64


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("at", "by"), [(700, 2.0), (3_000, -2.0), (8_000, 2.0), (8_000, -2.0)])
def test_what_goes_far_away_is_seen_at_once_there_and_back_whatever_the_wave(seed, at, by):
    X = wave(at + 6_000, seed)
    X[at : at + 3_000, 1] += by
    changes, _ = learn(DriftWatch(2, returning=2, leaps=1), X, np.zeros(len(X), int), found=list)
    for began, after in ((at, by), (at + 3_000, 0.0)):
        [drift] = [one for one in changes if one.kind == "drift" and began <= one.record < began + 48]
        [channel] = drift.units[0].channels
        assert (channel.channel, channel.change) == (1, "moved")
        assert channel.after == pytest.approx(after, abs=0.5)
        assert abs(drift.units[0].since.offset / 2 - began) < 16


def test_a_change_on_a_wave_is_one_event_and_a_moment_is_none():
    for seed in range(4):
        for length, drifts in ((20, 0), (6_000, 1)):
            X = wave(14_000, seed)
            X[8_000 : 8_000 + length, 0] += 1.5
            changes, _ = learn(DriftWatch(2, returning=2, leaps=1), X, np.zeros(len(X), int), found=list)
            assert sum(change.kind == "drift" for change in changes) == drifts


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [40, 150])
@pytest.mark.parametrize("how", ["off", "far", "elsewhere"])
def test_what_follows_an_outage_is_seen_as_if_there_had_been_none(how, length, seed):
    """Learned as a state of the stream, or into its baselines, an outage would hide it for thousands of records."""
    rng, (X, where) = np.random.default_rng(seed), stream(5_000, seed)
    at, change = 1_100 + 200 * seed, 1_600 + 200 * seed
    noise = 0.1 * rng.standard_normal((length, 2))
    X[at : at + length] = {
        "off": np.column_stack((np.full(length, -9.0), X[at : at + length, 1])),
        "far": X[at : at + length] - [9.0, 0.0],
        "elsewhere": noise + np.array([2.0, 1.0]),
    }[how]
    X[change:, 1] += 0.2 * (where[change:] == 2)
    changes, _ = learn(DriftWatch(2, returning=2, leaps=1), X, where)
    [there, back, drift] = changes[:3]
    assert (there.kind, back.kind, drift.kind) == ("drift", "recovered", "drift")
    assert at <= there.record < at + length and back.record < at + length + 160
    assert change <= drift.record < change + 400
    assert [unit.cluster for unit in drift.units] == [12]


def test_what_comes_often_is_a_state_of_the_stream_and_no_outage():
    X, where = stream(40_000)
    for at in range(2_000, 40_000, 1_000):
        X[at : at + 40] -= 2.0
    changes, _ = learn(DriftWatch(2, returning=2, leaps=1), X, where)
    assert max(change.record for change in changes) < 16_000


def test_a_rounded_feature_that_is_skewed_is_stuck_too():
    rng = np.random.default_rng(4)
    X = np.rint(np.exp(3.0 + 0.8 * rng.normal(size=8_000)))[:, None]
    X[6_000:] = 20.0
    preparation = Preparation(["queue"], robust=True)
    preparation.hold(X[: preparation.wanted])
    first = preparation.freeze()
    rows = np.concatenate([first, preparation.apply(X[len(first) :])])
    assert unpack(preparation.state(), "prepare", PREPARATION)[1]["bend"][0] > 0.0
    grain = preparation.grain(rows)
    # Two that were one value before are never further apart, wherever that is.
    order = np.lexsort((rows[:, 0], X[:, 0]))
    same = np.diff(X[order, 0]) == 0.0
    assert (np.diff(rows[order, 0]) <= np.minimum(grain[order[1:], 0], grain[order[:-1], 0]))[same].all()
    changes, _ = learn(DriftWatch(1, leaps=1), rows, np.zeros(len(rows), int), found=list, grain=grain)
    [channel] = changes[0].units[0].channels
    assert (len(changes), channel.ratio) == (1, 0.0)
    assert changes[0].record < 6_100


@pytest.mark.parametrize("seed", range(3))
def test_what_is_off_each_weekend_is_known_after_two(seed):
    rng, t = np.random.default_rng(seed), np.arange(8 * 2_016)[:, None]
    X = 1.0 + 0.1 * np.sin(2 * np.pi * (t / 288 + rng.random(2)))
    X = np.where(t // 288 % 7 >= 5, 0.0, X) + 0.02 * rng.normal(size=(len(t), 2))
    changes, _ = learn(DriftWatch(2, returning=2, leaps=1), X, np.zeros(len(X), int), found=list)
    drifts = [change.record for change in changes if change.kind == "drift"]
    assert len(drifts) <= 3 and max(drifts) < 2 * 2_016


@pytest.mark.parametrize("creeps", [True, False])
def test_a_creep_on_a_wave_is_seen_beside_a_feature_that_wanders(creeps):
    found, n = 0, 5_760
    for seed in range(8):
        rng = np.random.default_rng(seed)
        day = np.exp(-(((np.arange(n) % 288) / 12 - 14) ** 2) / 25)
        weekend = np.where(np.arange(n) // 288 % 7 >= 5, 0.55, 1.0)
        own, other = (lfilter([1.0], [1.0, -phi], rng.standard_normal(n)) for phi in (0.9, 0.99))
        load = 7.0 * day * weekend + own / own.std() + creeps * 24.0 * np.clip((np.arange(n) - 1_440) / 3_456, 0.0, 1.0)
        X, at = np.column_stack((load, other / other.std())), np.arange(n)
        watch, changes = DriftWatch(2, returning=2, leaps=1, relations=1), []
        while watch.records < n:
            part = slice(watch.records, min(watch.records + min(watch.room, 512), n))
            changes += watch.learn(X[part], np.zeros(len(at[part]), np.int64), at[part], at[part] * 300_000, None)
            if watch.wants_cells(list):
                watch.take_cells([])
        drifts = [change.record for change in changes if change.kind == "drift"]
        assert all(record > 1_440 for record in drifts)
        found += bool(drifts)
    # The first weekend may be one.
    assert found >= 6 if creeps else found <= 1
