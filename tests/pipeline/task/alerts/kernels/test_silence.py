"""Streams without records for long, among many others."""

import numpy as np
import pytest
from resonance.pipeline.task.alerts.kernels import silence

GAPS, LEAST = 20.0, 60_000


class Partition:
    def __init__(self, streams, logs=1):
        self.rows, self.means = silence.new_rows(streams)
        self.dues = np.full(logs, silence.NEVER)
        self.offset, self.found, self.lengths = 0, [], []

    def take(self, times, owners, logs=None, cuts=(512,), clocks=None, room=4):
        times, owners = np.asarray(times, np.int64), np.asarray(owners, np.int64)
        logs = np.zeros(len(times), np.int64) if logs is None else np.asarray(logs, np.int64)
        clocks = times if clocks is None else np.asarray(clocks, np.int64)
        offsets = np.arange(self.offset, self.offset + len(times))
        out, fresh = np.zeros((room, 5), np.int64), owners >= 0
        start, turn = 0, 0
        while start < len(times):
            stop = min(start + cuts[turn % len(cuts)], len(times))
            while start < stop:
                count, start = silence.follow(
                    times,
                    clocks,
                    offsets,
                    owners,
                    fresh,
                    logs,
                    start,
                    stop,
                    self.rows,
                    self.means,
                    self.dues,
                    GAPS,
                    LEAST,
                    out,
                )
                self.lengths += out[:count, :4].tolist()
                self.found += [(self.offset + at, row, opened) for at, row, opened, *_ in out[:count].tolist()]
            turn += 1
        self.offset += len(times)
        return self


def rounds(first, last, streams, gap=10_000):
    times = np.arange(first, last, gap)
    return np.repeat(times, len(streams)), np.tile(streams, len(times))


def test_a_stream_is_silent_after_twenty_gaps_and_clears_with_its_next_record():
    part = Partition(3).take(*rounds(0, 1_000_000, [0, 1, 2])).take(*rounds(1_000_000, 2_000_000, [0, 2]))
    ((at, row, opened),) = part.found
    # The last record was at 990 s, and one comes every 10 s.
    assert (at, row, opened) == (300 + 2 * 19, 1, 1)
    part.take(*rounds(2_000_000, 2_100_000, [0, 1, 2]))
    assert part.found[1:] == [(501, 1, 0)]


def test_a_pause_that_was_there_in_the_last_week_is_usual():
    day = 86_400_000
    part = Partition(2)
    for number in range(20):
        # The second stream rests at night.
        part.take(*rounds(number * day, number * day + day // 2, [0, 1], 60_000))
        part.take(*rounds(number * day + day // 2, (number + 1) * day, [0], 60_000))
    assert [(row, opened) for _, row, opened in part.found] == [(1, 1), (1, 0)]


def test_a_stream_whose_records_come_late_opens_one_alert():
    times, owners = rounds(1_000_000, 4_000_000, [0, 1, 2])
    # One stream's records are ten minutes old when they come.
    part = Partition(3).take(times - 600_000 * (owners == 1), owners)
    assert [(row, opened) for _, row, opened in part.found] == [(1, 1), (1, 0)]


def test_a_stream_that_sends_what_it_has_kept_does_not_flap():
    part = Partition(3).take(*rounds(0, 1_000_000, [0, 1, 2])).take(*rounds(1_000_000, 4_000_000, [0, 2]))
    # The records of fifty minutes come in fifty seconds, between those of the others.
    kept = np.arange(1_000_000, 4_000_000, 10_000)
    times, owners = rounds(4_000_000, 4_050_000, [0, 2], 1_000)
    at = np.sort(np.random.default_rng(0).integers(len(times), size=len(kept)))
    part.take(np.insert(times, at, kept), np.insert(owners, at, 1))
    part.take(*rounds(4_050_000, 4_500_000, [0, 1, 2]))
    assert len(part.found) <= 4
    assert part.found[-1][2] == 0


def test_streams_that_come_at_random_are_not_silent():
    rng = np.random.default_rng(0)
    owners = rng.integers(0, 50, 200_000)
    assert Partition(50).take(np.cumsum(rng.integers(0, 2_000, 200_000)), owners).found == []


def test_a_stream_with_few_records_has_no_usual_gap():
    part = Partition(2).take(*rounds(0, 10_000 * (silence.FEWEST - 1), [0, 1]))
    assert part.take(*rounds(10**6, 10**7, [0])).found == []


def test_the_clock_of_a_stream_is_its_own_log():
    times, owners = rounds(0, 1_000_000, [0, 1, 2])
    part = Partition(3, 2).take(times, owners, owners == 2)
    # The other log is far ahead, after a pause.
    part.take(*rounds(10**7, 10**7 + 10**6, [2]), np.ones(100))
    assert [(row, opened) for _, row, opened in part.found] == [(2, 1), (2, 0)]
    part.take(*rounds(1_000_000, 2_000_000, [0]))
    assert [(row, opened) for _, row, opened in part.found[2:]] == [(1, 1)]


def test_a_record_that_the_clock_follows_is_no_silence_and_one_that_it_does_not_is():
    part = Partition(3).take(*rounds(0, 1_000_000, [0, 1, 2]))
    # After ten minutes without any record the second one confirms the first; a third stream has none.
    at = 1_600_000
    part.take([at, at + 10], [0, 1], clocks=[990_000, at + 10])
    # Its own record shows that the second one was silent.
    assert [(row, opened) for _, row, opened in part.found] == [(1, 1), (1, 0), (2, 1)]
    # The first one is silent twenty gaps after that record, not after the one before it.
    part.take(*rounds(at + 10_000, at + 190_000, [1, 2]))
    assert [(row, opened) for _, row, opened in part.found[3:]] == [(2, 0)]
    part.take(*rounds(at + 190_000, at + 220_000, [1, 2]))
    assert [(row, opened) for _, row, opened in part.found[4:]] == [(0, 1)]
    # A time that nothing confirms is none.
    wrong = Partition(2).take(*rounds(0, 1_000_000, [0, 1])).take([10**12], [0], clocks=[990_000])
    wrong.take(*rounds(1_000_000, 1_300_000, [1]))
    assert [(row, opened) for _, row, opened in wrong.found] == [(0, 1)]


@pytest.mark.parametrize("waits", [0, 6])
def test_an_outage_of_all_streams_is_a_silence_of_each_whichever_comes_back_first(waits):
    before, (times, owners) = rounds(0, 1_000_000, range(10)), rounds(1_600_000, 1_700_000, range(10))
    # The clock may wait until most of them are back.
    part = Partition(10).take(*before).take(times, owners, clocks=np.where(np.arange(100) < waits, 990_000, times))
    for row in range(10):
        assert [(each[2], each[3]) for each in part.lengths if each[1] == row] == [
            (1, pytest.approx(610_000, abs=10_000)),
            (0, 610_000),
        ]


def test_a_silence_that_the_clock_follows_later_began_with_the_last_record_before_it():
    times = np.cumsum([*[10_000] * 100, 900_000, *[10_000] * 99])
    # The clock goes on from before, until the records behind the silence are enough.
    clocks = np.where(np.arange(200) < 163, np.minimum(times, times - 900_000 * (np.arange(200) >= 100)), times)
    part = Partition(1).take(times, np.zeros(200), clocks=clocks)
    (at, _, opened, ago), (_, _, ended, length) = part.lengths
    assert (opened, times[at] - ago, ended, length) == (1, times[99], 0, 900_000)


@pytest.mark.parametrize("gap", [100_000, 300_000])
def test_records_that_are_ahead_of_the_clock_for_long_are_a_silence_only_by_a_gap_between_two(gap):
    times = np.cumsum([*[10_000] * 100, *[gap] * 8, *[10_000] * 100])
    # The clock follows the slow ones when the last of them has come.
    clocks = np.where(np.arange(208) < 107, np.minimum(times, 1_000_000), times)
    part = Partition(1).take(times, np.zeros(208), clocks=clocks)
    assert [each[2:] for each in part.lengths] == ([] if gap == 100_000 else [[1, gap], [0, gap]])


@pytest.mark.parametrize("cuts", [(1,), (5, 300, 2)])
def test_cuts_change_nothing(cuts):
    rng = np.random.default_rng(1)
    times, owners = np.cumsum(rng.integers(0, 500, 30_000)), rng.integers(0, 40, 30_000)
    for row, begin in enumerate(range(5_000, 25_000, 500)):
        gone = (np.arange(30_000) >= begin) & (np.arange(30_000) < begin + 9_000)
        owners[gone & (owners == row)] = 39 if row < 39 else 38
    whole, cut = Partition(40).take(times, owners), Partition(40).take(times, owners, cuts=cuts)
    assert cut.found == whole.found != []
    assert (cut.rows[:, : silence.STATE] == whole.rows[:, : silence.STATE]).all()
    assert cut.means.tobytes() == whole.means.tobytes()


def test_deadlines_that_are_computed_anew_change_nothing():
    rng = np.random.default_rng(3)
    times, owners = rounds(0, 4_000_000, np.arange(20), 10_000)
    counts = np.ones(len(times), np.int64)
    for row in range(1, 20):
        # Many records at once let the usual gap become short, so the deadline comes nearer; then the stream rests.
        first = rng.integers(1_000_000, 3_000_000)
        counts[(owners == row) & (times > first) & (times < first + 10_000)] = 40
        counts[(owners == row) & (times > first + 10_000) & (times < first + 400_000)] = 0
    times, owners = np.repeat(times, counts), np.repeat(owners, counts)
    whole, cut = Partition(20).take(times, owners), Partition(20)
    for first in range(0, len(times), 37):
        rows, _ = silence.new_rows(20)
        rows[:, : silence.STATE] = cut.rows[:, : silence.STATE]
        cut.rows, cut.dues = rows, np.full(1, silence.NEVER)
        for row in range(20):
            silence.watch(rows, cut.means, cut.dues, row, GAPS, LEAST)
        cut.take(times[first : first + 37], owners[first : first + 37])
    assert cut.found == whole.found
    assert {row for _, row, _ in whole.found} == {*range(1, 20)}
    assert (cut.rows[:, : silence.STATE] == whole.rows[:, : silence.STATE]).all()


@pytest.mark.parametrize("apart", [0, 1])
def test_a_hundred_thousand_streams_that_fall_silent_at_once_or_one_after_the_other(apart):
    count = 100_000
    times, owners = rounds(0, 3_300_000, np.arange(count), 100_000)
    part = Partition(count + 1)
    # Each has its own moment in a round, and so its own deadline: a minute of records passes one after the other.
    part.take(times + apart * owners, owners)
    part.take(np.arange(3_400_000, 9_000_000, 1_000), np.full(5_600, count), room=256)
    assert {row for _, row, _ in part.found} == set(range(count))
