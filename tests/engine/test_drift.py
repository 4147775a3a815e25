"""The drift watch: the same changes whatever the batches, states that are checked, and what it reports."""

from types import SimpleNamespace

import numpy as np
import pytest
from resonance.engine import ParameterError, StateError
from resonance.engine.drift import DriftWatch, layout
from resonance.engine.drift.watch import KIND, REVISION
from resonance.engine.prepare import REVISION as PREPARATION
from resonance.engine.prepare import Preparation
from resonance.engine.state import pack, unpack
from resonance.kernels.table import packed, stored_fields

CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
COUNTS = "cluster", "was", "unit", "features", "share", "evidence", "share_before", "share_after", "since", "channels"


def clusters(sizes=(4, 3, 2, 1), centres=CENTRES):
    return [
        SimpleNamespace(id=id_, size=size, centre=centre)
        for id_, (size, centre) in enumerate(zip(sizes, centres, strict=True), start=10)
    ]


def stream(n=6_144, seed=0, centres=CENTRES):
    """Return stationary records of equally large clusters, and which cluster each is of."""
    rng = np.random.default_rng(seed)
    where = rng.integers(len(centres), size=n)
    return centres[where] + 0.1 * rng.standard_normal((n, centres.shape[1])), where


def moved(n=6_144, at=3_000, by=0.3):
    """Return a stream of which the third cluster moves along its second feature."""
    X, where = stream(n)
    X[at:, 1] += by * (where[at:] == 2)
    return X, where


def learn(watch, X, where, sizes=(512,), restored=False, found=clusters, grain=None):
    """Return the changes and the watch; batches take the sizes in turn, as far as there is room."""
    changes, done, turn = [], 0, 0
    while done < len(X):
        end = min(done + min(watch.room, sizes[turn % len(sizes)]), len(X))
        turn += 1
        offsets = np.arange(watch.records, watch.records + end - done) * 2
        own = None if grain is None else grain[done:end]
        changes += watch.learn(X[done:end], where[done:end] + 10, offsets, offsets * 1_000, own)
        done = end
        if watch.wants_cells(found):
            watch.take_cells(found())
        if restored:
            watch = DriftWatch.from_state(watch.state())
    return changes, watch


def plain(changes):
    """Return changes as values that can be compared; the index in the batch is not one of them."""
    return [
        (
            *(change.record, change.kind, change.cells, change.evidence, change.threshold),
            [
                (*(getattr(unit, name) for name in COUNTS), *(unit.before, unit.after, unit.spread))
                for unit in change.units
            ],
        )
        for change in changes
    ]


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


def test_a_state_far_along_in_its_log_is_the_same_state():
    watch = DriftWatch(2)
    X, where = stream(1_024)
    far = np.arange(1_024) + 2**40
    for start in (0, 512):
        part = slice(start, start + 512)
        watch.learn(X[part], where[part] + 2**33, far[part], far[part])
        watch.take_cells(clusters())
    assert DriftWatch.from_state(watch.state()).state() == watch.state()
    near = DriftWatch.from_state(pack(KIND, REVISION, *wide(DriftWatch(2))))
    assert near.state() == DriftWatch(2).state()
    for name in ("number", "mark", "mark_time"):
        header, arrays = unpack(DriftWatch(2).state(), KIND, REVISION)
        with pytest.raises(StateError):
            DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, name: arrays[name][..., :-1].copy()}))


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


def wide(watch):
    """Return header and arrays of a watch, all integers of 64 bits, as those of a log that is far along."""
    header, arrays = unpack(watch.state(), KIND, REVISION)
    narrow = {name: arrays[name].view("<i4").astype(np.int64) for name in ("number", "mark", "mark_time")}
    return header, {**arrays, **narrow}


def replaced(array, at, value):
    """Return a copy of an array with another value in one place."""
    other = array.copy()
    other[at] = value
    return other


# Where the fields of a watch are in the arrays of its state.
PLACE = {
    field: place for fields in stored_fields(layout.WatchState).values() for place, (field, _) in enumerate(fields)
}
PARTS = ("channel", "number", "share", "share_time", "mark", "mark_time")

DAMAGED = [
    *((name, lambda a: a[:-1]) for name in (*PARTS, "head", "centre")),
    *((name, lambda a: a[None]) for name in (*PARTS, "head", "names")),
    *(
        (name, lambda a: np.zeros(a.shape, np.int64 if a.dtype == np.float64 else np.float64))
        for name in (*PARTS, "head", "centre", "names")
    ),
    *(("head", lambda a, at=at: replaced(a, at, -1)) for at in range(10)),
    ("head", lambda a: replaced(a, PLACE["cells"], 5)),
    ("head", lambda a: replaced(a, PLACE["cells"], 2**40)),
    ("head", lambda a: replaced(a, PLACE["open"], 2)),
    ("head", lambda a: replaced(a, PLACE["start"], 2**40)),
    ("head", lambda a: replaced(a, PLACE["next_look"], 0)),
    *(
        ("channel", lambda a, f=f, v=v: replaced(a, (1, PLACE[f], 0), v))
        for f in ("middle", "mean", "cusum", "onset", "old", "squares")
        for v in (np.nan, np.inf, -np.inf)
    ),
    *(("channel", lambda a, f=f: replaced(a, (1, PLACE[f], 0), np.nan)) for f in ("threshold", "size_threshold")),
    *(
        ("channel", lambda a, f=f: replaced(a, (1, PLACE[f], 0), 0.0))
        for f in ("threshold", "inverse_spread", "size_inverse_spread", "gain")
    ),
    *(("channel", lambda a, f=f: replaced(a, (1, PLACE[f], 0), -1.0)) for f in ("onset", "size_onset")),
    ("channel", lambda a: replaced(a, (1, PLACE["onset"], 0), 1e9)),
    *(("number", lambda a, f=f: replaced(a, (1, f), -1)) for f in range(12)),
    *(("number", lambda a, f=f: replaced(a, (1, PLACE[f]), 2)) for f in ("watched", "flag", "share_flag")),
    ("number", lambda a: replaced(a, (1, PLACE["seen"]), 10**6)),
    ("number", lambda a: replaced(a, (1, PLACE["check"]), 0)),
    ("number", lambda a: replaced(a, (1, PLACE["share_check"]), 0)),
    *(("share", lambda a, v=v: replaced(a, (1, PLACE["inside"]), v)) for v in (np.nan, np.inf)),
    *(("share", lambda a, v=v: replaced(a, (1, PLACE["share_threshold"]), v)) for v in (np.nan, 0.0, -1.0)),
    *(("centre", lambda a, v=v: replaced(a, (0, 0), v)) for v in (np.nan, np.inf, 1e200)),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGED)
def test_a_damaged_state_is_refused(whole, name, damage):
    header, arrays = wide(whole[1])
    with pytest.raises(StateError):
        DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, name: damage(arrays[name])}))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("dimension", value) for value in (0, -1, 1, 3, 2.0, "2", None, True, 10**9)),
        *(("parameters", value) for value in (None, [], "step", {"none": 1}, {"step": 0}, {"step": "x"}, {"cells": 2})),
        ("parameters", {"rarity": 1e30}),
        ("parameters", {"hold": 1.5}),
    ],
)
def test_a_header_of_no_watch_is_refused(whole, member, value):
    header, arrays = unpack(whole[1].state(), KIND, REVISION)
    with pytest.raises(StateError):
        DriftWatch.from_state(pack(KIND, REVISION, {**header, member: value}, arrays))


def test_an_older_state_of_far_too_many_cells_is_refused():
    header, arrays = unpack(DriftWatch(2).state(), KIND, REVISION)
    del header["parameters"]["leaps"]
    with pytest.raises(StateError, match="1000000000000 cells"):
        DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, "centre": np.zeros((10**12, 0))}))


def test_any_member_may_be_missing_only_in_a_damaged_state(whole):
    header, arrays = unpack(whole[1].state(), KIND, REVISION)
    for name in arrays:
        with pytest.raises(StateError):
            DriftWatch.from_state(pack(KIND, REVISION, header, {key: arrays[key] for key in arrays if key != name}))
    for name in header:
        with pytest.raises(StateError):
            DriftWatch.from_state(pack(KIND, REVISION, {key: header[key] for key in header if key != name}, arrays))


def test_a_state_with_other_numbers_is_refused_or_goes_on():
    """Whatever a checksum calls whole: nothing is read or written beyond an array, and the state is kept."""
    # In the middle of an outage.
    X, where = stream(4_000)
    X[3_900:] += 2.0
    header, arrays = wide(learn(DriftWatch(2, hold=300, leaps=1), X, where)[1])
    assert len(arrays["home"]) > 0
    rng = np.random.default_rng(3)
    X, where = stream(600, seed=4)
    values = {np.dtype("f8"): (-1.0, 0.0, 0.3, 1e9, 1e-300, 1e300), np.dtype("i8"): (0, -1, 1, 3, 2**31, 2**62)}
    taken = 0
    for _ in range(300):
        name = str(rng.choice([name for name in arrays if arrays[name].size]))
        place = tuple(int(rng.integers(size)) for size in arrays[name].shape)
        value = rng.choice(values[arrays[name].dtype])
        other = {**arrays, name: replaced(arrays[name], place, value)}
        try:
            watch = DriftWatch.from_state(pack(KIND, REVISION, header, other))
        except StateError:
            continue
        taken += 1
        learn(watch, X, where)
    assert 50 < taken < 300


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


def wave(n, seed=0, day=1_440):
    """Return records of two features that go on a wave."""
    rng = np.random.default_rng(seed)
    return 0.3 * np.sin(2 * np.pi * (np.arange(n)[:, None] / day + rng.random(2))) + 0.03 * rng.normal(size=(n, 2))


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


def test_a_cluster_of_few_records_is_no_reason_for_other_cells():
    watch = learn(DriftWatch(2, leaps=1), *stream(512))[1]
    X, where = stream(512)
    watch.learn(X, where, where, where)
    for size, wanted in ((40, False), (120, True)):
        found = [*clusters((250,) * 4), SimpleNamespace(id=1, size=size, centre=CENTRES[0])]
        assert DriftWatch.from_state(watch.state()).wants_cells(lambda found=found: found) is wanted


def test_a_state_that_knows_no_places_learns_them_first():
    X = wave(8_000)
    _, watch = learn(DriftWatch(2, leaps=1), X[:4_000], np.zeros(4_000, int), found=list)
    header, arrays = unpack(watch.state(), KIND, REVISION)
    old = {"steps": arrays["steps"][:, :10].copy(), "plain": arrays["plain"][:, :6].copy()}
    watch = DriftWatch.from_state(pack(KIND, 3, header, {**arrays, **old}))
    X[6_000:, 0] += 2.0
    changes, _ = learn(watch, X[4_000:], np.zeros(4_000, int), found=list)
    assert 6_000 <= changes[0].record < 6_048


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
