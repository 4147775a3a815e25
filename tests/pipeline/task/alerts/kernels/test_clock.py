"""What time it is in a log some of whose streams have wrong clocks."""

import numpy as np
import pytest
from resonance.pipeline.task.alerts.kernels import clock

from tests.engine.plain_clock import DAY, PlainClock

SECOND, MINUTE, HOUR, YEAR = 1_000, 60_000, 3_600_000, 365 * DAY
NOW = 1_700_000_000_000


class Log:
    """The clock of a log, and what it said."""

    def __init__(self):
        self.state = clock.new_state()
        self.clocks, self.own = [], []

    def take(self, times, streams, cuts=(10**9,)):
        times, streams = np.asarray(times, np.int64), np.asarray(streams, np.int64)
        start = turn = 0
        while start < len(times):
            stop = start + cuts[turn % len(cuts)]
            clocks, own = np.empty_like(times[start:stop]), np.empty_like(times[start:stop])
            clock.follow(times[start:stop], streams[start:stop], self.state, clock.LATE_MS, clocks, own)
            self.clocks += clocks.tolist()
            self.own += own.tolist()
            start, turn = stop, turn + 1
        return self

    def rounds(self, first, last, streams=(0, 1, 2), gap=10 * SECOND, ahead=None):
        """Take a record of each stream every so many milliseconds; some are always ahead."""
        ahead = ahead or {}
        times = [t + ahead.get(each, 0) for t in range(NOW + first, NOW + last, gap) for each in streams]
        return self.take(times, list(streams) * (len(times) // len(streams)))

    @property
    def now(self):
        return self.clocks[-1] - NOW


@pytest.mark.parametrize("wrong", [50 * MINUTE, 10 * YEAR])
def test_one_record_of_a_stream_does_not_move_the_clock(wrong):
    log = Log().rounds(0, HOUR).take([NOW + HOUR + wrong], [0])
    assert log.now == HOUR - 10 * SECOND
    assert log.own[-1] == NOW + HOUR + wrong
    assert log.rounds(HOUR, 2 * HOUR).now == 2 * HOUR - 10 * SECOND
    assert log.own[-1] == log.clocks[-1] == NOW + 2 * HOUR - 10 * SECOND


def test_a_stream_whose_clock_stays_wrong_moves_the_clock_by_what_passes_between_its_records():
    log = Log().rounds(0, HOUR).rounds(HOUR, 3 * HOUR, ahead={0: 50 * MINUTE})
    assert log.now == 3 * HOUR - 10 * SECOND
    # The others rest.
    log.rounds(3 * HOUR, 4 * HOUR, [0], ahead={0: 50 * MINUTE})
    assert abs(log.now - 4 * HOUR) <= 30 * SECOND
    log.rounds(4 * HOUR, 5 * HOUR)
    assert abs(log.now - 5 * HOUR) <= 30 * SECOND


def test_many_records_of_one_wrong_clock_in_a_row_are_one_witness():
    log = Log().rounds(0, HOUR).rounds(10 * YEAR + HOUR, 10 * YEAR + HOUR + 500 * SECOND, [2], SECOND)
    assert log.now < HOUR + 500 * SECOND
    assert log.rounds(HOUR, 2 * HOUR).now == 2 * HOUR - 10 * SECOND


@pytest.mark.parametrize("pause", [HOUR, 60 * HOUR, 300 * DAY])
@pytest.mark.parametrize("streams", [(0,), (0, 1), (0, 1, 2), range(100)])
def test_after_a_pause_of_all_streams_the_clock_is_right_again(pause, streams):
    log = Log().rounds(0, HOUR, streams).rounds(HOUR + pause, 2 * HOUR + pause, streams)
    assert log.now == pause + 2 * HOUR - 10 * SECOND
    # Two streams are enough for three.
    if len(streams) == 3:
        log.rounds(0, DAY, streams)
        assert Log().rounds(0, HOUR, streams).rounds(HOUR + pause, HOUR + pause + SECOND, streams).now == HOUR + pause


def test_a_single_stream_has_to_say_it_several_times():
    log = Log().rounds(0, HOUR, [0])
    assert log.rounds(10 * YEAR, 10 * YEAR + 500 * SECOND, [0]).now < 2 * HOUR
    assert log.rounds(10 * YEAR + 500 * SECOND, 10 * YEAR + HOUR, [0]).now > 10 * YEAR


def test_streams_with_few_records_move_the_clock_at_once():
    # Twelve hours between two records, which no stream but one has.
    log = Log().rounds(0, 30 * DAY, [0], 12 * HOUR)
    assert log.now == 29.5 * DAY
    many = Log().take(NOW + 36 * MINUTE * np.arange(400), np.arange(400) % 40)
    assert (np.diff(many.clocks)[20:] == 36 * MINUTE).all()


@pytest.mark.parametrize("streams", [(0, 1, 2), (0, 1)])
@pytest.mark.parametrize("wrong", [10 * YEAR, -56 * YEAR])
def test_a_first_record_with_a_wrong_time_is_known_as_such(wrong, streams):
    log = Log().take([NOW + wrong], [0]).rounds(0, HOUR, streams)
    assert log.state[0, clock.NOW] == NOW + HOUR - 10 * SECOND
    assert log.own[-1] == log.clocks[-1]


def test_where_two_wrong_clocks_agreed_the_clock_comes_back_and_goes_on():
    day, night = range(3, 40), [0, 1]
    log = Log().rounds(0, HOUR, range(40)).rounds(HOUR, 8 * HOUR, night, ahead={0: 10 * YEAR, 1: 11 * YEAR})
    assert log.now > 10 * YEAR
    before = log.clocks[-1]
    log.rounds(8 * HOUR, 9 * HOUR, day)
    assert log.clocks[-1] == before + HOUR - 10 * SECOND


def test_records_of_the_past_do_not_set_the_clock_back():
    log = Log().rounds(0, HOUR)
    before = log.clocks[-1]
    log.rounds(-YEAR, -YEAR + 10 * HOUR, range(10, 20), SECOND)
    assert log.clocks[-1] == before
    assert log.own[-1] == before - DAY
    assert log.rounds(HOUR, 2 * HOUR).now == 2 * HOUR - 10 * SECOND


def test_half_of_a_fleet_in_another_time_zone_does_not_let_the_clock_run_ahead():
    log = Log().rounds(0, 12 * HOUR, range(60), MINUTE, ahead=dict.fromkeys(range(0, 60, 2), 2 * HOUR))
    assert log.now <= 14 * HOUR


def _random_log(seed, count=3_000):
    """Streams with steps of all lengths, with pauses, late records, and clocks that go wrong and right again."""
    rng = np.random.default_rng(seed)
    streams, now = int(rng.choice([1, 2, 3, 12, 30])), NOW
    usual = int(rng.choice([SECOND, 20 * SECOND, HOUR]))
    wrong, times, owners = np.zeros(streams, np.int64), [], []
    awake = np.arange(streams)
    for _ in range(count):
        now += int(rng.integers(0, 2 * usual // streams + 2))
        if rng.random() < 0.002:
            now += int(rng.choice([HOUR, 60 * HOUR, YEAR]))
        if rng.random() < 0.01:
            some = rng.random(streams) < rng.choice([0.1, 0.9])
            wrong[some] = rng.choice([0, 0, MINUTE, 50 * MINUTE, 10 * YEAR, -HOUR, -56 * YEAR])
        if rng.random() < 0.003:
            awake = rng.choice(streams, rng.integers(1, streams + 1), replace=False)
        owner = int(rng.choice(awake))
        for _ in range(int(rng.choice([1, 1, 1, 40]))):
            owners.append(owner)
            once = 10 * YEAR if rng.random() < 0.005 else 0
            times.append(now + int(wrong[owner]) + once - int(rng.choice([0, 0, 0, 5 * SECOND, 3 * HOUR, 3 * DAY])))
    return np.array(times[:count]), np.array(owners[:count])


@pytest.mark.parametrize("seed", range(6))
def test_it_is_that_of_the_plain_version(seed):
    times, owners = _random_log(seed)
    log, plain = Log().take(times, owners, (1, 700, 64)), PlainClock()
    wanted = [plain.take(int(time), int(owner)) for time, owner in zip(times, owners, strict=True)]
    assert list(zip(log.clocks, log.own, strict=True)) == wanted
    assert (np.diff(log.clocks) >= 0).all()
