"""The drift watch: the same changes whatever the batches, and what it reports."""

from types import SimpleNamespace

import numpy as np
import pytest
from resonance.engine import ParameterError
from resonance.engine.drift import DriftWatch
from resonance.kernels.table import packed

from tests.engine.watched import CENTRES, clusters, learn, moved, plain, stream


@pytest.fixture(scope="module")
def whole():
    """The changes and the watch of a stream that moves, in the largest batches."""
    return learn(DriftWatch(2, hold=300, leaps=1), *moved())


@pytest.mark.parametrize(("sizes", "restored"), [((1,), False), ((7, 300, 1, 64), False), ((97,), True)])
def test_batches_and_restarts_change_nothing(whole, sizes, restored):
    changes, watch = learn(DriftWatch(2, hold=300, leaps=1), *moved(), sizes, restored)
    np.testing.assert_equal(plain(changes), plain(whole[0]))
    assert watch.state() == whole[1].state()


def test_the_index_of_a_change_is_its_record_of_the_batch(whole):
    changes, _ = learn(DriftWatch(2, hold=300, leaps=1), *moved(), (100,))
    for change in changes:
        assert change.index == change.record % 512 % 100
    assert [change.index for change in whole[0]] == [change.record % 512 for change in whole[0]]


def test_a_stationary_stream_has_no_change():
    changes, watch = learn(DriftWatch(2), *stream(40_960, seed=1))
    assert changes == []
    assert watch.cells == 4
    assert not watch.is_open


def test_a_rare_flag_may_come_several_times_at_once():
    for seed in (221, 409, 491, 519, 560, 634, 912, 914):  # In each of these some five errors come within a minute.
        rng = np.random.default_rng(seed)
        kind = rng.choice(3, 6_000, p=(0.6, 0.3, 0.1))
        took = np.exp(rng.uniform(1.0, 5.0, 3))[kind] * np.exp(0.3 * rng.normal(size=6_000))
        failed = rng.random(6_000) < 0.01
        X = np.c_[took / np.quantile(took, 0.99), failed]
        assert not learn(DriftWatch(2, leaps=1), X, kind, found=list)[0]
        X[3_000:, 1] = rng.random(3_000) < 0.1
        [first, *_], _ = learn(DriftWatch(2, leaps=1), X, kind, found=list)
        channel = first.units[0].channels[0]
        assert (first.record, channel.channel) in [(at, 1) for at in range(3_000, 3_400)]
        assert channel.before == pytest.approx(X[:3_000, 1].mean(), abs=0.01)


@pytest.mark.parametrize("by", [2.0, -2.0])
def test_values_far_out_do_not_turn_what_moves_round(by):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8_000, 2))
        X[4_000:, 0] += by
        X[32:, 0] += 500.0 * (rng.random(7_968) < 0.01)
        found, _ = learn(DriftWatch(2, leaps=1), X, np.zeros(8_000, int), found=list)
        moves = [each for event in found for each in event.units[0].channels if each.channel == 0]
        assert moves and all((each.after - each.before) * by > 0 and each.before > 1.5 for each in moves)


def test_a_cell_that_moves_is_reported_with_feature_and_since(whole):
    (drift, settled), watch = whole
    assert (drift.kind, settled.kind) == ("drift", "settled")
    assert 3_000 < drift.record < 3_300
    (unit,) = (unit for unit in drift.units if unit.unit)
    # The third largest cluster.
    assert (unit.unit, unit.cluster, unit.was, unit.features, unit.share) == (3, 12, 12, True, False)
    channel = unit.channels[0]
    assert (channel.channel, channel.change) == (1, "moved")
    assert channel.evidence >= 1.0
    assert drift.evidence == pytest.approx(channel.evidence * drift.threshold)
    assert channel.before == pytest.approx(4.0, abs=0.03)
    assert channel.after == pytest.approx(4.3, abs=0.1)
    assert channel.spread == pytest.approx(0.1, rel=0.2)
    assert 2_900 < unit.since.offset / 2 < 3_010
    assert unit.since.time == unit.since.offset * 1_000
    np.testing.assert_allclose(unit.before, [0.0, 4.0], atol=0.03)
    np.testing.assert_allclose(unit.after, [0.0, 4.3], atol=0.1)
    (ended,) = (unit for unit in settled.units if unit.unit)
    assert (ended.settled, ended.since, ended.evidence) == (True, None, 0.0)
    assert ended.channels[0].after == pytest.approx(4.3, abs=0.03)
    assert not watch.is_open


@pytest.mark.parametrize("far", [-3.0, -1.0, 2.0])
def test_a_mean_since_a_change_is_one_that_was_seen(far):
    # The first records, which give the range, are of a machine that runs. Then it is off for long, and runs again.
    X = 1.0 + 0.1 * np.random.default_rng(3).standard_normal((2_048, 1))
    X[32:1_500] += far
    changes, _ = learn(DriftWatch(1, cells=0), X, np.zeros(len(X), dtype=np.int64))
    (unit,) = changes[0].units
    (channel,) = unit.channels
    seen = X[1_500 : changes[0].record + 1]
    assert channel.change == "moved"
    assert channel.after == unit.after[0] == pytest.approx(seen.mean(), abs=0.1)


def test_a_mean_since_a_large_change_is_not_held_back_by_the_clipping():
    X = 1.0 + 0.1 * np.random.default_rng(3).standard_normal((2_048, 1))
    X[1_500:] += 3.0
    changes, _ = learn(DriftWatch(1, cells=0), X, np.zeros(len(X), dtype=np.int64))
    assert changes[0].units[0].channels[0].after == pytest.approx(4.0, abs=0.3)


def test_a_cell_that_widens_and_one_that_narrows():
    X, where = stream(8_192)
    for cell, factor in ((0, 3.0), (3, 0.2)):
        late = (np.arange(len(X)) >= 5_000) & (where == cell)
        X[late] = CENTRES[cell] + factor * (X[late] - CENTRES[cell])
    changes, _ = learn(DriftWatch(2), X, where)
    assert [change.kind for change in changes] == ["drift", "settled"]
    found = {unit.unit: {channel.change for channel in unit.channels} for unit in changes[1].units}
    assert "widened" in found[1]
    assert "narrowed" in found[4]


def test_a_share_that_vanishes_is_reported_and_cells_are_taken_anew():
    X, where = stream(20_480)
    gone = (np.arange(len(X)) >= 8_000) & (where == 3)
    where[gone] = np.arange(gone.sum()) % 3
    X[gone] += CENTRES[where[gone]] - CENTRES[3]
    changes, watch = learn(DriftWatch(2), X, where)
    assert [change.kind for change in changes][:2] == ["drift", "settled"]
    shown = {unit.unit: unit for unit in changes[1].units}
    assert shown[4].share
    assert shown[4].share_before == pytest.approx(0.25, abs=0.05)
    assert any(unit.share and unit.share_after < unit.share_before for unit in changes[0].units)
    assert watch._state.seen[1] < 4_000


def test_more_clusters_than_cells_are_cut_to_the_largest():
    watch = DriftWatch(2, cells=3)
    X, where = stream(1_024)
    learn(watch, X, where)
    watch.take_cells(clusters(sizes=(1, 5, 5, 9)))
    assert watch.cells == 3
    assert watch._state.names[1:].tolist() == [13, 11, 12]
    np.testing.assert_array_equal(watch._state.centre, CENTRES[[3, 1, 2]])
    assert DriftWatch.from_state(watch.state()).state() == watch.state()
    assert not watch.take_cells([])
    assert watch.cells == 3


def test_one_cell_or_none_leaves_the_stream_alone():
    for cells in (0, 1):
        changes, watch = learn(DriftWatch(2, cells=cells), *stream(2_048))
        assert watch.cells == cells
        assert changes == []


def test_a_watch_that_is_rescaled_goes_on_as_one_of_the_other_units():
    factor, shift = np.array([0.5, 4.0]), np.array([1.0, -2.0])
    X, where = moved()
    X[5_000:5_100] += 9.0 * np.random.default_rng(1).random((100, 2))
    for at in (16, 512, 1_024, 3_200, 5_060, 6_000):
        one, other = DriftWatch(2, hold=300, leaps=1), DriftWatch(2, hold=300, leaps=1)
        before, one = learn(one, X[:at], where[:at])
        one.rescale(factor, shift)

        def scaled():
            return clusters(centres=CENTRES * factor + shift)

        after, one = learn(one, X[at:] * factor + shift, where[at:], found=scaled)
        # The nearest cell is another one's in other units; here the clusters are far from each other.
        expected, other = learn(other, X * factor + shift, where, found=scaled)
        assert [(c.record, c.kind, len(c.units)) for c in [*before, *after]] == [
            (c.record, c.kind, len(c.units)) for c in expected
        ]
        ours, theirs = (packed(watch._state, units=watch.cells + 1) for watch in (one, other))
        np.testing.assert_array_equal(ours["number"], theirs["number"])
        np.testing.assert_allclose(ours["channel"], theirs["channel"], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(one._state.centre, other._state.centre, rtol=1e-12, atol=1e-12)


def test_memory_is_bounded_whatever_the_features():
    X, where = stream(1_024)
    wide = np.pad(X, ((0, 0), (0, 6)))

    def eight():
        return clusters(sizes=range(8), centres=np.pad(np.resize(CENTRES, (8, 2)), ((0, 0), (0, 6))))

    _, watch = learn(DriftWatch(8), wide, where, found=eight)
    assert watch.cells == 8
    assert len(watch.state()) < 60_000
    most = DriftWatch(4_096, cells=64)
    most.learn(np.zeros((1, 4_096)), *(np.zeros(1, dtype=np.int64) for _ in range(3)))
    assert len(most.state()) < 2_600_000
    with pytest.raises(ParameterError, match="from 1 to 8,190 features"):
        DriftWatch(8_191)
    with pytest.raises(ParameterError, match="features"):
        DriftWatch(0)


def test_a_batch_beyond_the_room_or_of_other_features_is_refused():
    watch, none = DriftWatch(2), np.zeros(513, dtype=np.int64)
    with pytest.raises(ValueError, match="at most 512 records of 2 features"):
        watch.learn(np.zeros((513, 2)), none, none, none)
    with pytest.raises(ValueError, match="at most 512 records of 2 features"):
        watch.learn(np.zeros((3, 3)), none[:3], none[:3], none[:3])
    for short in range(3):
        with pytest.raises(ValueError, match="3 records"):
            watch.learn(np.zeros((3, 2)), *(none[: 2 if at == short else 3] for at in range(3)))


def test_a_change_that_goes_back_has_recovered():
    X, where = stream(12_288)
    there = (np.arange(len(X)) >= 4_000) & (np.arange(len(X)) < 7_000) & (where == 2)
    X[there, 1] += 0.3
    changes, watch = learn(DriftWatch(2), X, where)
    assert [change.kind for change in changes] == ["drift", "settled", "drift", "recovered"]
    (ended,) = (unit for unit in changes[3].units if unit.unit)
    assert (ended.unit, ended.settled, ended.share) == (3, True, False)
    assert ended.channels[0].after == pytest.approx(4.0, abs=0.03)
    assert not watch.is_open


def test_offsets_are_exact_as_far_as_a_state_counts():
    """The offsets of Kafka: a topic with a million records a second reaches 2**53 after 285 years."""
    X, where = moved(at=3_000)
    far, found = 2**53 - 20_000, []
    for first in (0, far):
        watch, changes, done = DriftWatch(2), [], 0
        while done < len(X):
            end = min(done + watch.room, len(X))
            offsets = np.arange(first + done, first + end)
            changes += watch.learn(X[done:end], where[done:end] + 10, offsets, offsets)
            watch = DriftWatch.from_state(watch.state())
            done = end
            if watch.wants_cells(clusters):
                watch.take_cells(clusters())
        found.append([[unit.since.offset for unit in change.units if unit.since is not None] for change in changes])
    assert found[0] != []
    assert found[1] == [[offset + far for offset in offsets] for offsets in found[0]]


@pytest.mark.parametrize("constant", [0, 40])
def test_a_range_that_does_not_hold_is_measured_anew(constant):
    """The first records may be those of a device that starts, or of some minutes of a wave."""
    rng, t = np.random.default_rng(4), np.arange(8_000)
    X = 0.5 + 0.2 * np.sin(2 * np.pi * t / 500) * (constant == 0) + 0.02 * rng.normal(size=len(t))
    X[:constant] = 0.2
    X[6_000:] += 0.06 if constant else 5.0
    changes, _ = learn(DriftWatch(1, leaps=1), X[:, None], np.zeros(len(t), int), found=list)
    [channel] = changes[0].units[0].channels
    assert changes[0].record - 6_000 < (50 if constant else 2_000)
    assert channel.before == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_a_rate_that_falls_back_by_few_of_its_spreads_is_seen(seed):
    rng, t = np.random.default_rng(seed), np.arange(24_000)
    X = (rng.random(len(t)) < np.where((t >= 12_000) & (t < 16_000), 0.08, 0.01)).astype(float)[:, None]
    changes, _ = learn(DriftWatch(1, leaps=1), X, np.zeros(len(t), int), found=list)
    [there, _, back, ended] = changes
    assert (there.kind, back.kind) == ("drift", "drift") and 16_000 < back.record < 19_000
    [channel] = back.units[0].channels
    assert (channel.change, channel.before) == ("moved", pytest.approx(0.08, abs=0.02))
    assert channel.after < channel.before
    assert ended.units[0].channels[0].after < 0.02


def test_a_cluster_of_few_records_is_no_reason_for_other_cells():
    watch = learn(DriftWatch(2, leaps=1), *stream(512))[1]
    X, where = stream(512)
    watch.learn(X, where, where, where)
    for size, wanted in ((40, False), (120, True)):
        found = [*clusters((250,) * 4), SimpleNamespace(id=1, size=size, centre=CENTRES[0])]
        assert DriftWatch.from_state(watch.state()).wants_cells(lambda found=found: found) is wanted
