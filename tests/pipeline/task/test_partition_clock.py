"""One clock that is wrong among those of the devices: what becomes of the alerts and models of all."""

import random

import orjson
import pytest
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask

from tests.night import seeds
from tests.pipeline.streams import STAMP, TOPIC, alike, payloads, run, settings, states, task, value_of
from tests.pipeline.task.test_stream_ttl import ROWS, Worker, ends

pytestmark = pytest.mark.usefixtures("blocks_of_one")

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
YEARS = 3650 * DAY

WRONG = pytest.mark.parametrize("wrong", [MINUTE, 50 * MINUTE, YEARS])


def given(**changed):
    own = {"stream": "key", "engine__name": "caea", "prepare__warmup_records": 10, "limits__stream_ttl": 1800.0}
    return settings(**{**own, **changed})


class Log(list):
    """The log of a partition; times are in milliseconds after its first record."""

    def rounds(self, first, last, keys=(b"a", b"b", b"c"), gap=10_000, ahead=None):
        """Add a record of each stream every ten seconds; some have a clock that is ahead."""
        for time in range(first, last, gap):
            for key in keys:
                self.one(key, time + (ahead or {}).get(key, 0))
        return self

    def one(self, key, time):
        """Add a record whose producer says the time, in the record and to Kafka."""
        value = orjson.dumps({"at": STAMP + time, **orjson.loads(value_of(ROWS[len(self) % 1000]))})
        self.append(Record(TOPIC, 0, len(self), STAMP + time, key, value))
        return self


def silences(outputs):
    return [
        (alert["kind"], alert["stream"], alert["cause"]["source"]["offset"])
        for alert in payloads(outputs.alerts)
        if alert["rule"] == "silent"
    ]


@pytest.mark.parametrize(("wrong", "time_path"), [(MINUTE, None), (50 * MINUTE, "at"), (YEARS, None), (YEARS, "at")])
def test_one_record_ahead_opens_no_alert_and_ends_no_stream(wrong, time_path):
    log = Log().rounds(0, HOUR)
    log.one(b"b", HOUR + wrong).rounds(HOUR, 2 * HOUR)
    worker = task(given(input__time_path=time_path))
    outputs = run(worker, log)
    assert (silences(outputs), ends(outputs)) == ([], [])
    assert worker.models.names == ["p0:a", "p0:b", "p0:c"]


@WRONG
@pytest.mark.parametrize("key", [b"a", b"b"])
def test_afterwards_silence_is_seen_also_that_of_the_stream_whose_clock_was_wrong(wrong, key):
    log = Log().rounds(0, HOUR)
    log.one(b"b", HOUR + wrong).rounds(HOUR, 2 * HOUR)
    begins = len(log)
    log.rounds(2 * HOUR, 3 * HOUR, sorted({b"a", b"b", b"c"} - {key})).rounds(3 * HOUR, 4 * HOUR)
    outputs = run(task(given(limits__stream_ttl=0.0)), log)
    (opened, stream, offset), (cleared, *_) = silences(outputs)
    assert (opened, stream, cleared) == ("opened", f"p0:{key.decode()}", "cleared")
    # Twenty usual gaps, and the two streams that are left have a record each.
    assert offset - begins <= 2 * 21


@WRONG
def test_a_stream_that_dies_with_a_wrong_record_is_silent_and_ends(wrong):
    log = Log().rounds(0, HOUR)
    log.one(b"b", HOUR + wrong).rounds(HOUR, 2 * HOUR, (b"a", b"c"))
    outputs = run(task(given()), log)
    (opened, cleared) = silences(outputs)
    assert opened[:2] == ("opened", "p0:b")
    (end,) = ends(outputs)
    assert end["stream"] == "p0:b"
    # Its wrong record came with the clock at an hour less ten seconds.
    assert end["cause"]["source"]["offset"] == cleared[2] == 1081 + 2 * 179


def test_a_clock_that_stays_wrong_is_no_silence_and_one_that_is_right_again_neither():
    log = Log().rounds(0, HOUR).rounds(HOUR, 3 * HOUR, ahead={b"c": 50 * MINUTE}).rounds(3 * HOUR, 4 * HOUR)
    outputs = run(task(given()), log)
    assert (silences(outputs), ends(outputs)) == ([], [])


def test_after_a_quiet_week_end_the_streams_of_friday_have_ended_and_silence_is_seen():
    log = Log().rounds(0, HOUR)
    log.rounds(60 * HOUR, 61 * HOUR, (b"a", b"b"))
    worker = task(given())
    outputs = run(worker, log)
    assert {event["stream"] for event in ends(outputs)} >= {"p0:c"}
    assert sorted(worker.models.names) == ["p0:a", "p0:b"]


def test_after_an_outage_of_days_the_backlog_ends_no_stream_that_goes_on():
    log = Log().rounds(0, HOUR).rounds(60 * HOUR, 62 * HOUR)
    begins = len(log)
    log.rounds(62 * HOUR, 63 * HOUR, (b"a", b"b"))
    outputs = run(task(given(limits__stream_ttl=3.0 * 86_400)), log)
    assert not ends(outputs)
    kinds = [(kind, stream) for kind, stream, offset in silences(outputs) if offset < begins]
    assert all(("cleared", stream) in kinds for kind, stream in kinds)
    # The outage is the longest gap of the week.
    assert not [each for each in silences(outputs) if each[2] >= begins]


def test_the_only_stream_of_a_partition_lives_on_with_one_record_ahead_and_ends_after_a_real_pause():
    log = Log().rounds(0, HOUR, [b"a"]).one(b"a", YEARS).rounds(HOUR, 2 * HOUR, [b"a"])
    assert not ends(run(task(given()), log))
    log.rounds(60 * HOUR, 61 * HOUR, [b"a"])
    assert len(ends(run(task(given()), log))) == 1


def _devices(seed, count=1500):
    """A log whose devices come and go, some with clocks that go wrong and right again."""
    rng, log, now, wrong = random.Random(seed), Log(), 0, {}
    keys = [b"k%d" % i for i in range(6)]
    for _ in range(count):
        now += rng.choice((0, 2_000, 10_000))
        if rng.random() < 0.005:
            now += rng.choice((10 * MINUTE, 60 * HOUR))
        if rng.random() < 0.02:
            wrong[rng.choice(keys)] = rng.choice((0, 0, 50 * MINUTE, YEARS, -YEARS))
        key = rng.choice(keys[: 2 + (len(log) // 300) % 5])
        log.one(key, max(now + wrong.get(key, 0) - rng.choice((0, 0, 5_000)), -STAMP))
    return log


@pytest.mark.parametrize("seed", seeds(2, night=4))
def test_a_crash_changes_nothing(seed):
    rng, log = random.Random(seed), _devices(seed)
    own = given(limits__stream_ttl=rng.choice((0.0, 1800.0)), snapshots__records=60, snapshots__ratio=0.0)
    whole, expected = alike(own, log)
    worker = Worker(own, log)
    worker.live_through(rng)
    assert worker.emitted == expected
    assert states(worker.task) == states(whole)
    assert silences(expected)


def test_where_nothing_depends_on_the_time_the_state_has_no_clock():
    worker: PartitionTask = task(given(limits__stream_ttl=0.0, alerts__off=("silent",)))
    run(worker, Log().rounds(0, MINUTE))
    assert "clock" not in orjson.loads(worker.partition_state())
