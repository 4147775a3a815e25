"""Which streams are unlike their peers: beside the same in plain words, and on fleets whose truth is known."""

import itertools
import math
import statistics

import numpy as np
import pytest
from resonance.pipeline.peers import comparison
from resonance.pipeline.peers.comparison import Deviation, begins_at, compare

from tests.night import at_night


def plain_profile(values):
    """Low, high, mean, inner and outer of one half of a stream's records."""
    ordered = sorted(values)
    out = int(0.05 * len(ordered))
    low, high = ordered[out], ordered[len(ordered) - 1 - out]
    clipped = [min(max(value, low), high) for value in ordered]
    return low, high, statistics.fmean(clipped), statistics.pstdev(clipped), statistics.pstdev(ordered)


def plain_edge(begins, own, strict):
    """Where the ranges of nearly all peers of a stream begin, or of all."""
    peers = sorted(begins[:own] + begins[own + 1 :])
    return peers[0 if strict > 1 else max(int(0.05 * len(peers)), 1 if len(peers) >= 9 else 0)]


def plain_beyond(values, median, lows, highs, least, strict=1, lasting=False):
    """By stream: side, distance and usual range, where both halves are too far."""
    found, limit = {}, strict * 3 * (1 + 4 / len(values))
    for own, halves in enumerate(values):
        begins = plain_edge([min(each) for each in lows], own, strict)
        ends = -plain_edge([-max(each) for each in highs], own, strict)
        for side, edge in (("low", median - begins), ("high", ends - median)):
            distance = min(median - each if side == "low" else each - median for each in halves)
            reach = max(edge, (ends - begins) / 2, least[own])
            first = plain_edge([min(each) for each in values], own, strict)
            last = -plain_edge([-max(each) for each in values], own, strict)
            of_means = max(median - first if side == "low" else last - median, (last - first) / 2, least[own])
            bounds = [limit * reach, *([max(1.5 * reach, 2 * limit * of_means)] if lasting else [])]
            if distance > min(bounds):
                found[own] = side, halves[1], begins, ends, distance / max(reach, distance / 1000)
    return found


def plain_late(values):
    """Means and standard deviations of the halves of the last quarter, within the range of the newer half."""
    recent = values[-400:]
    low, high, *_ = plain_profile(recent[len(recent) - len(recent) // 2 :])
    half = len(recent) // 8
    parts = recent[-2 * half : -half], recent[-half:]
    clipped = [[min(max(value, low), high) for value in part] for part in parts]
    return [statistics.fmean(part) for part in clipped], [statistics.pstdev(part) for part in clipped]


def plain_compare(streams):
    """Everything as the module's docstring has it, one feature, streams as lists of values."""
    halves = []
    for values in streams:
        recent = values[-400:]
        cut = len(recent) - len(recent) // 2
        halves.append((plain_profile(recent[:cut]), plain_profile(recent[cut:])))
    low, high, mean, inner, outer = ([[half[at] for half in each] for each in halves] for at in range(5))
    median = statistics.median(each[1] for each in mean)
    digit = 0.001 * abs(median) if median else 1e-9
    least = [max(0.3 * max(each), digit) for each in inner]
    newest = [plain_late(values) for values in streams]
    sudden = [max(0.3 * max(each[0], *own), digit) for each, (_, own) in zip(inner, newest, strict=True)]
    late = plain_beyond([means for means, _ in newest], median, low, high, sudden, strict=2)
    moved = late | plain_beyond(mean, median, low, high, least, lasting=True)
    found = {own: (side, value, median, *rest) for own, (side, value, *rest) in moved.items()}
    different = sorted({value for values in streams for value in values[-400:]})
    gaps = [after - before for before, after in itertools.pairwise(different)]
    width = (statistics.median(gaps) if gaps else 0.0) / math.sqrt(12)
    if statistics.median(each[1] for each in inner) == 0:
        width = max(width, digit)
    inner, outer = ([[math.sqrt(half**2 + width**2) for half in each] for each in own] for own in (inner, outer))
    middle = statistics.median(each[1] for each in inner)
    own, peers = ([[math.log(half / middle) for half in each] for each in widths] for widths in (inner, outer))
    least = [math.log(1.5)] * len(own)
    for values, side, change in ((own, "high", "varies more"), (peers, "low", "varies less")):
        for at, (where, _, begins, ends, far) in plain_beyond(values, 0.0, own, peers, least).items():
            if where == side and at not in moved:
                found[at] = change, inner[at][1], middle, middle * math.exp(begins), middle * math.exp(ends), far
    return found


def fleet(streams, seed, records=400):
    """Devices that are alike: three modes, a little apart from device to device."""
    rng = np.random.default_rng(seed)
    modes = rng.integers(3, size=(streams, records)) * 2.0
    return 20 + modes + rng.normal(size=(streams, 1)) * 0.3 + rng.normal(size=(streams, records)) * 0.2


def compared(rows):
    """Compare streams of one feature, each a row, whose records come in turns."""
    streams, records = rows.shape
    return compare(rows.T.reshape(-1, 1), np.tile(np.arange(streams), records), streams)[:2]


BREAKS = {
    "none": lambda row: row,
    "another unit": lambda row: row * 1.8 + 32,
    "a factor": lambda row: row * 0.15,
    "beyond the records": lambda row: row + 9.0,
    "of late": lambda row: np.concatenate([row[:-100], row[-100:] * 1.8 + 32]),
    "stuck": lambda row: row * 0 + row[0],
    "noise": lambda row: row + 40 * np.random.default_rng(1).normal(size=len(row)),
}


@pytest.mark.parametrize("streams", [5, at_night(12), 40])
@pytest.mark.parametrize("broken", BREAKS)
def test_one_broken_device_is_named_and_the_plain_comparison_says_the_same(streams, broken):
    for seed in range(3):
        rows = fleet(streams, seed, records=450 - 40 * seed)
        rows[3] = BREAKS[broken](rows[3])
        found, count = compared(rows)
        assert count == streams
        assert {each.stream for each in found} == (set() if broken == "none" else {3})
        plain = plain_compare([row.tolist() for row in rows])
        assert {each.stream: each.change for each in found} == {own: each[0] for own, each in plain.items()}
        for each in found:
            np.testing.assert_allclose([*each[3:8]], plain[each.stream][1:], rtol=1e-9)


def test_two_kinds_of_devices_are_no_news_and_one_device_of_its_own_is():
    for others in (1, 2, 3, 6, 12):
        rows = fleet(12, others)
        rows[:others] += 100.0
        assert {each.stream for each in compared(rows)[0]} == (set(range(others)) if others <= 2 else set())


def test_where_all_agree_a_digit_is_no_difference_and_another_value_is():
    rows = np.full((12, 100), 24.0)
    assert compared(rows)[0] == []
    rows[2] = 24.0 + 1e-9
    rows[3] = 24.02
    assert compared(rows)[0] == []
    rows[4] = 26.0
    (found,) = compared(rows)[0]
    assert (found.stream, found.change, found.value, found.median) == (4, "high", 26.0, 24.0)


def test_where_all_agree_noise_within_a_digit_is_no_difference_and_more_of_it_is():
    for value, noise, found in (
        (24.0, 1e-9, []),
        (24.0, 1.0, ["varies more"]),
        (0.0, 1e-12, []),
        (0.0, 5.0, ["varies more"]),
    ):
        rows = np.full((12, 400), value)
        rows[4] += noise * np.random.default_rng(1).normal(size=400)
        assert [each.change for each in compared(rows)[0]] == found
        plain = plain_compare([row.tolist() for row in rows])
        assert [each[0] for each in plain.values()] == found


def test_beside_zeros_rounding_is_no_difference_and_a_value_is():
    rows = np.zeros((12, 400))
    rows[2] = 1e-12
    assert compared(rows)[0] == []
    rows[5] = 1e-3
    assert [(each.stream, each.change, each.far) for each in compared(rows)[0]] == [(5, "high", comparison.FARTHEST)]


@pytest.mark.parametrize("huge", [1e160, 1e200, 1.7e308])
def test_huge_values_are_finite_and_hide_nothing(huge):
    constant, turning = fleet(12, 1), fleet(12, 1)
    constant[3] *= 8
    constant[8] = huge
    turning[5] = np.where(np.arange(400) % 2, huge, -huge)
    turning[6, 7] = huge
    for rows, expected in ((constant, {3: "high", 8: "high"}), (turning, {5: "varies more"})):
        found, count = compared(rows)
        assert count == 12
        assert {each.stream: each.change for each in found} == expected
        assert np.isfinite([each[3:8] for each in found]).all()
        assert 500 < found[0].far <= comparison.FARTHEST


@pytest.mark.parametrize("exponent", [-900, -30, 0, 30, 900])
def test_the_unit_of_a_feature_makes_no_difference(exponent):
    rows = fleet(12, 1)
    rows[3] *= 8
    rows[7] = rows[7, 0]
    for own, other in zip(compared(rows)[0], compared(np.ldexp(rows, exponent))[0], strict=True):
        assert own[:3] == other[:3]
        assert own.far == other.far
        assert np.ldexp([own.value, own.median, own.low, own.high], exponent).tolist() == [*other[3:7]]


def test_a_state_that_lasts_for_less_than_half_of_the_records_is_news_only_where_it_is_very_far():
    rows = fleet(12, 1)
    # Beside the usual range of 2.6 the limit is 4 times as far, of late 8 times.
    rows[3, 210:] += 16.0
    assert compared(rows)[0] == []
    rows[3, 50:210] += 16.0
    assert [each.stream for each in compared(rows)[0]] == [3]
    rows = fleet(12, 1)
    rows[3, 300:] += 100.0
    ((stream, _, change, value, *_),) = compared(rows)[0]
    assert (stream, change, value > 100.0) == (3, "high", True)
    rows[3, 300:350] -= 100.0
    assert compared(rows)[0] == []


def test_rare_events_and_flags_are_no_news():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for share in (0.001, 0.02, 0.05, 0.1, 0.5):
            assert compared((rng.random((12, 400)) < share) * 1.0)[0] == []


def test_streams_with_few_records_or_without_a_feature_are_left_out():
    rows = fleet(12, 1)
    rows[3] *= 10
    rows[3, 39:] = np.nan
    assert compared(rows) == ([], 11)
    rows[5:] = np.nan
    assert compared(rows) == ([], 4)
    both = np.stack([fleet(12, 1).T.ravel(), fleet(12, 2).T.ravel()], axis=1)
    stream = np.tile(np.arange(12), 400)
    both[stream == 2, 0] = np.nan
    both[stream == 2, 1] *= 5
    both[stream == 7, 0] *= 5
    found, count, _ = compare(both, stream, 12)
    assert count == 12
    assert {(each.stream, each.feature) for each in found} == {(2, 1), (7, 0)}


def test_without_streams_or_features_there_is_nothing():
    assert compare(np.empty((0, 3)), np.zeros(0, np.int64), 7) == ([], 0, [])
    assert compare(np.empty((9, 0)), np.zeros(9, np.int64), 7) == ([], 0, [])


def test_ten_thousand_streams_are_compared_at_once():
    rows = fleet(10_000, 1, records=50)
    rows[77] *= 3
    found, count = compared(rows)
    assert ({each.stream for each in found}, count) == ({77}, 10_000)


def test_the_farthest_stream_comes_first_and_its_farthest_feature():
    parts = [fleet(12, seed) for seed in range(3)]
    for feature, factor in enumerate((2.0, 8.0, 4.0)):
        parts[feature][5] *= factor
    parts[1][8] *= 20.0
    rows = np.stack([part.T.ravel() for part in parts], axis=1)
    found = compare(rows, np.tile(np.arange(12), 400), 12).unlike
    assert [(each.stream, each.feature) for each in found] == [(8, 1), (5, 1), (5, 2), (5, 0)]
    assert found[0].far <= comparison.FARTHEST


@pytest.mark.parametrize("begin", [0, 7, 60, 133])
@pytest.mark.parametrize("records", [145, 160])
def test_when_a_stream_began_to_be_so_is_known_to_a_block(begin, records):
    usual = np.random.default_rng(records + begin).normal(size=records)
    for change, values, figures in (
        ("high", usual + 12, (12.0, 0.0, -2.0, 2.0)),
        ("low", usual - 12, (-12.0, 0.0, -2.0, 2.0)),
        ("high", np.where(np.arange(records) % 10 == 9, 90.0, usual), (9.0, 0.0, -2.0, 2.0)),
        ("varies more", 9 * usual, (9.0, 1.0, 0.8, 1.2)),
        ("varies less", usual / 9, (0.1, 1.0, 0.8, 1.2)),
        ("varies less", 0 * usual, (0.0, 1.0, 0.8, 1.2)),
    ):
        values[:begin] = usual[:begin]
        found = begins_at(values, Deviation(0, 0, change, *figures, 9.0))
        assert abs(found - begin) <= comparison.BLOCK
        assert found == 0 if begin < 8 else found > 0


def test_where_all_peers_agree_rounding_is_no_beginning():
    values = np.full(145, 0.1)
    values[70:] = 0.2
    assert begins_at(values, Deviation(0, 0, "high", 0.2, 0.1, 0.1, 0.1, 1_000.0)) == 70
