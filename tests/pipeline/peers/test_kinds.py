"""Kinds of work are valleys that most streams cross and that explain other features, beside the same in plain words."""

import math
import statistics

import numpy as np
import pytest
from resonance.pipeline.peers.kinds import explained, kinds_of, short_between, splits_of, valleys_of

FEWEST, LEAST = 40, 5


def plain_valleys(values):
    """Each place between two windows of records that are both several times as dense, as the module has it."""
    ordered = sorted(value for value in values if not math.isnan(value))
    window = max(len(ordered) // 128, 16)

    def width(at):
        return ordered[at + window] - ordered[at]

    found, run = [], []
    for at in range(window, len(ordered) - 2 * window):
        left = min(width(before) for before in range(at - window + 1))
        right = min(width(after) for after in range(at + window, len(ordered) - window))
        if width(at) > 0 and width(at) >= 5 * max(left, right):
            run.append(at)
            continue
        found, run = [*found, run] if run else found, []
    widest = [max(each, key=width) for each in ([*found, run] if run else found)]
    valleys = {}
    for at in sorted(widest, key=lambda at: (-width(at), at))[:8]:
        inside = ordered[at : at + window + 1]
        gap = max(range(window), key=lambda place: inside[place + 1] - inside[place])
        valleys.setdefault(short_between(inside[gap], inside[gap + 1]), width(at))
    return valleys


def plain_explained(rows, stream, splits):
    """Mean of all streams of what a split explains of the variance of the records that have the feature."""
    table = []
    for feature, value in splits:
        shares = []
        for other in range(rows.shape[1]):
            of_streams = []
            for own in sorted(set(stream.tolist())):
                mine = [row for row, at in zip(rows.tolist(), stream.tolist(), strict=True) if at == own]
                total = statistics.pvariance([row[other] for row in mine]) * len(mine)
                sides = [
                    [row[other] for row in mine if row[feature] <= value],
                    [row[other] for row in mine if row[feature] > value],
                ]
                within = sum(statistics.pvariance(side) * len(side) for side in sides if side)
                share = 1 - within / total if total else 0.0
                of_streams.append(share if share >= 0.1 else 0.0)
            shares.append(statistics.fmean(of_streams))
        table.append(shares)
    return table


def machines(streams=8, records=200, seed=1):
    """Records, stream by stream, of two kinds of work: two features that know them, and one that does not."""
    rng = np.random.default_rng(seed)
    work = rng.integers(2, size=streams * records)
    noise = rng.normal(size=(3, streams * records))
    rows = np.column_stack([1_000 * work + 30 * noise[0], 5 + 3 * work + noise[1] / 4, noise[2]])
    return rows, np.repeat(np.arange(streams), records), work


def kinds(rows, stream):
    return kinds_of(np.ascontiguousarray(rows.T), stream, int(stream.max()) + 1, FEWEST, LEAST)


@pytest.mark.parametrize("seed", range(4))
def test_valleys_are_those_of_the_plain_search(seed):
    rng = np.random.default_rng(seed)
    modes = np.array([0.0, 3.0, 40.0])[rng.integers(3, size=500)] + rng.normal(size=500) * 0.2
    cases = [modes, rng.integers(4, size=500) * 1.0, rng.normal(size=500), np.exp(modes / 10), np.full(500, 7.0)]
    for values in cases:
        values[rng.random(500) < 0.1] = np.nan
        ordered = np.sort(values[~np.isnan(values)])
        found, plain = valleys_of(values), plain_valleys(values.tolist())
        assert [value for value, _ in found] == [*plain]
        for value, width in found:
            window = max(len(ordered) // 128, 16)
            assert width == pytest.approx(plain[value] / (ordered[-1 - window] - ordered[window]))


def test_what_splits_explain_is_that_of_the_plain_sums():
    rows, stream, _ = machines(streams=5, records=60)
    splits = [(0, 500.0), (1, 6.5), (2, 0.0), (2, 99.0)]
    np.testing.assert_allclose(explained(rows, stream, splits), plain_explained(rows, stream, splits), atol=1e-9)


@pytest.mark.parametrize(
    ("values", "modes"),
    [
        (lambda rng: rng.normal(size=10_000), 1),
        (lambda rng: rng.random(10_000), 1),
        (lambda rng: rng.exponential(size=10_000), 1),
        (lambda rng: np.exp(2 * rng.normal(size=10_000)), 1),
        (lambda rng: rng.standard_t(1, size=10_000), 1),
        (lambda rng: np.arange(10_000.0), 1),
        (lambda rng: np.where(rng.random(10_000) < 0.1, 1_000, 0) + rng.normal(size=10_000), 2),
        (lambda rng: np.where(rng.random(10_000) < 0.5, rng.uniform(300, 1_800, 10_000), rng.normal(size=10_000)), 2),
    ],
)
def test_one_hill_has_no_valley_whatever_its_shape(values, modes):
    assert len(valleys_of(values(np.random.default_rng(1)))) == modes - 1


def test_idle_and_running_are_two_kinds_and_each_record_is_in_its_own():
    rows, stream, work = machines()
    found = kinds(rows, stream)
    below, above = found.parts
    assert (below.where[0][:2], above.where[0][:2]) == ((0, "up to"), (0, "above"))
    assert below.places.tolist() == np.flatnonzero(work == 0).tolist()
    assert above.places.tolist() == np.flatnonzero(work == 1).tolist()
    assert (below.parts, above.parts) == (None, None)


def test_a_slope_is_no_kind_though_it_explains_much():
    rng = np.random.default_rng(1)
    load = rng.random(1_600)
    rows = np.column_stack([load, 3 * load + 0.1 * rng.random(1_600)])
    assert kinds(rows, np.repeat(np.arange(8), 200)).parts is None


def test_a_flag_that_nothing_depends_on_is_no_kind():
    rows, stream, _ = machines()
    rng = np.random.default_rng(2)
    rows[:, 0], rows[:, 1] = rng.integers(2, size=len(rows)), rng.poisson(1.0, size=len(rows))
    assert splits_of(rows, stream) == []


def test_a_broken_stream_and_two_types_of_streams_make_no_kind():
    rows, stream, _ = machines()
    rows[:, :2] = np.random.default_rng(3).normal(size=(len(rows), 2))
    broken = rows.copy()
    broken[(stream == 3) & (np.arange(len(rows)) % 2 == 0)] += 50.0
    assert len(splits_of(broken, stream)) == 0 or kinds(broken, stream).parts is None
    types = rows.copy()
    types[stream >= 4] += 50.0
    assert kinds(types, stream).parts is None


def test_a_kind_that_half_of_the_streams_have_counts_and_one_of_fewer_does_not():
    for having, found in ((4, False), (5, True)):
        rows, stream, work = machines(streams=10)
        idle = (stream >= having) & (work == 1)
        rows[idle] = rows[~idle][: idle.sum()]
        rows[idle, 0] = 10 * np.random.default_rng(1).normal(size=idle.sum())
        rows[idle, 1] = 5 + np.random.default_rng(2).normal(size=idle.sum()) / 4
        assert (kinds(rows, stream).parts is not None) is found


def test_three_kinds_are_found_in_turn():
    rng = np.random.default_rng(1)
    work = rng.integers(3, size=2_400)
    rows = np.column_stack([np.array([0, 1_450, 2_900])[work] + rng.normal(size=2_400), work + rng.random(2_400) / 9])
    found = kinds(rows, np.repeat(np.arange(8), 300))
    leaves = [kind for kind in found.walk() if kind.parts is None]
    assert sorted(sorted(set(work[kind.places].tolist())) for kind in leaves) == [[0], [1], [2]]


def test_records_without_the_feature_of_a_split_are_in_no_kind():
    rows, stream, work = machines()
    rows[::7, 0] = np.nan
    rows[::11, 1] = np.nan
    below, above = kinds(rows, stream).parts
    feature = below.where[0].feature
    known = ~np.isnan(rows[:, feature])
    assert below.places.tolist() == np.flatnonzero(known & (work == 0)).tolist()
    assert above.places.tolist() == np.flatnonzero(known & (work == 1)).tolist()


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**-30, 1 / 3, 1_000.0, 2.0**900])
def test_kinds_are_the_same_in_other_units_and_beside_huge_values(factor):
    rows, stream, _ = machines()
    plain = [kind.places.tolist() for kind in kinds(rows, stream).walk()]
    assert [kind.places.tolist() for kind in kinds(rows * factor, stream).walk()] == plain
    rows[stream == 2, 1] = 1.7e308
    rows[stream == 3, 2] = -1.7e308
    with np.errstate(all="raise", under="ignore"):
        assert [kind.places.tolist() for kind in kinds(rows, stream).walk()] == plain


def test_without_records_with_one_feature_or_with_constants_there_is_one_kind():
    for rows, stream in (
        (np.zeros((0, 3)), np.zeros(0, np.int64)),
        (machines()[0][:, :1], machines()[1]),
        (np.ones((1_600, 3)), machines()[1]),
        (np.full((1_600, 3), np.nan), machines()[1]),
        (machines(streams=4)[0], machines(streams=4)[1]),
        (machines(records=5)[0], machines(records=5)[1]),
    ):
        (found,) = kinds_of(np.ascontiguousarray(rows.T), stream, 8, FEWEST, LEAST).walk()
        assert (found.where, found.places.tolist()) == ((), list(range(len(rows))))


def test_many_streams_are_thinned_and_the_kinds_are_those_of_all():
    rows, stream, work = machines(streams=3_000, records=120)
    below, above = kinds(rows, stream).parts
    assert (len(below.places), len(above.places)) == (np.sum(work == 0), np.sum(work == 1))


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [(0.0, 1_045.0, 500.0), (21.0, 24.0, 22.0), (-3.0, 3.0, 0.0), (0.1, 0.1001, 0.10005), (1.0, 1.0 + 2.0**-52, 1.0)],
)
def test_thresholds_are_short(begin, end, found):
    assert short_between(begin, end) == found
    assert begin <= short_between(begin, end) < end
