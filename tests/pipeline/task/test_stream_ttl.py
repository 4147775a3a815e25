"""Streams that end because they had no record for long: a function of the log, whatever happens to the worker."""

import random

import numpy as np
import orjson
import pytest
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task import expiry
from resonance.pipeline.task.alerts import rules as alert_rules
from resonance.schemas import ClusterTable

from tests.night import seeds
from tests.pipeline.streams import (
    STAMP,
    TOPIC,
    alike,
    payloads,
    restored,
    run,
    settings,
    states,
    stored,
    task,
    value_of,
)
from tests.pipeline.task.alerts.devices import CAREFUL, devices

pytestmark = pytest.mark.usefixtures("blocks_of_one")

OWN = {
    "engine__name": "caea",
    "limits__stream_ttl": 1.0,
    "prepare__warmup_records": 10,
    "snapshots__records": 60,
    "snapshots__ratio": 0.0,
}
"""Settings with which streams end after a second."""
IDENTITY = Identity("resonance", (TOPIC,), TOPIC, "id-1", 1, "modal", "1")
_RNG = np.random.default_rng(4)
ROWS = (_RNG.choice([[0.2, 40.0, 1.0], [0.7, 300.0, 6.0]], 1000) * (1 + 0.03 * _RNG.normal(size=(1000, 3)))).tolist()
"""Two groups, which soon are clusters."""


def given(**changed):
    return settings(**{"stream": "key", **OWN, **changed})


def log_of(seed, count=900, keys=12):
    """Records of keys that come and go; some late, some unusable, and now and then a pause of the whole log."""
    rng, log, now = random.Random(seed), [], STAMP
    awake = rng.sample(range(keys), 4)
    for i in range(count):
        now += rng.choice((0, 3, 20, 20, 40))
        if rng.random() < 0.005:
            now += rng.choice((300, 900, 1500))
        if rng.random() < 0.03:
            awake[rng.randrange(4)] = rng.randrange(keys)
        key = b"k%d" % rng.choice(awake)
        time = now - rng.choice((0, 0, 0, 0, 50, 2500))
        value = value_of(ROWS[i], id=f"r{i}") if rng.random() < 0.96 else rng.choice((b"{}", b"no", None))
        log.append(Record(TOPIC, 0, i + i // 50, time, rng.choice((key,) * 60 + (None,)), value))
    return log


def ends(outputs):
    return [event for event in payloads(outputs.cluster_events) if event["kind"] == "stream_ended"]


def silence(key, at, count=1, first=0):
    """Records of a key, 4 ms apart, from some milliseconds on."""
    rows = ROWS[first : first + count]
    return [(key, STAMP + at + 4 * i, row) for i, row in enumerate(rows)]


def log_from(*parts):
    whole = [one for part in parts for one in part]
    return [Record(TOPIC, 0, i, time, key, value_of(row)) for i, (key, time, row) in enumerate(whole)]


class Worker:
    """A worker with its topics, which can die before each commit; a commit is a transaction."""

    def __init__(self, given, log):
        self.given, self.log = given, log
        self.live, self.emitted = {}, Outputs()
        self.start()

    def start(self):
        """Start with what is committed."""
        table = ChangelogTable("snapshots", 0)
        for key, value in self.live.items():
            table.apply(key, value)
        self.task, self.place, recovery = task(self.given), 0, 0
        if (checkpoint := table.checkpoint(TOPIC)) is not None:
            checkpoint.restore(self.task)
            self.place, recovery = checkpoint.record.position, checkpoint.record.recovery_offset
        self.writer, self.waiting = table.writer(IDENTITY), Outputs()
        again = [record for record in self.log if recovery <= record.offset < self.place]
        for begin in range(0, len(again), 41):
            self.task.catch_up(again[begin : begin + 41])

    @property
    def rest(self):
        return [record for record in self.log if record.offset >= self.place]

    def process(self, count):
        batch = self.rest[:count]
        self.waiting.add(self.task.process(batch))
        self.place = batch[-1].offset + 1

    def commit(self, *, everything=False):
        for message in self.writer.messages(self.task, self.place, self.place, everything=everything):
            self.live.pop(message.key, None)
            if message.value is not None:
                self.live[message.key] = message.value
        self.emitted.add(self.waiting)
        self.waiting = Outputs()

    def work(self, size, **how):
        """Process the log in batches of a size, each with a commit."""
        while self.rest:
            self.process(size)
            self.writer.recovery_offset = None
            self.commit(**how)

    def live_through(self, rng):
        """Process the log in batches of any size, with commits and crashes now and then."""
        while self.rest:
            self.process(rng.choice((3, 17, 60)))
            if rng.random() < 0.4:
                # The position of the group is that of the record: it is written with each commit that has one.
                self.writer.recovery_offset = None
                self.commit(everything=rng.random() < 0.1)
            if rng.random() < 0.1:
                self.start()
        self.commit(everything=True)


def test_a_stream_without_records_ends_with_an_event_and_tombstones():
    log = log_from(silence(b"gone", 0, 150), silence(b"there", 600, 100, 200), silence(b"there", 1588, 4, 300))
    worker = task(given())
    outputs = run(worker, log)
    (end,) = ends(outputs)
    before = [event for event in payloads(outputs.cluster_events) if event["stream"] == "p0:gone"]
    # Its last record stands at 596 ms: the first one from 1,596 ms on ends it.
    assert (end["stream"], end["version"], end["cluster"], end["after"]) == ("p0:gone", 1, None, [])
    assert (end["cause"]["source"]["offset"], end["seq"]) == (252, len(before) - 1)
    assert [message.key for message in outputs.cluster_events if ends_of(message)] == [b"gone"]
    assert worker.models.names == ["p0:there"]
    gone = [cluster["id"] for cluster in end["before"]]
    assert gone
    last = {message.key.decode(): message.value for message in outputs.clusters}
    assert {name: last[name] for name in gone} == dict.fromkeys(gone)
    values = payloads(m for m in outputs.clusters if m.value)
    assert {value["id"] for value in values if value.get("ended") == "stream_ended"} == {*gone}
    assert (worker.health.events["stream_ended"], len(worker.models)) == (1, 1)
    assert worker.health.clusters == len(worker.models.clusters("p0:there"))


def ends_of(message):
    return orjson.loads(message.value)["kind"] == "stream_ended"


def test_a_key_that_comes_back_begins_a_new_version():
    log = log_from(
        *(silence(key, at, 150, at // 10) for key, at in ((b"a", 0), (b"a", 3000), (b"b", 6000), (b"a", 6600)))
    )
    outputs = run(task(given()), log)
    found = [(e["kind"], e["stream"], e["version"]) for e in payloads(outputs.cluster_events) if e["cluster"] is None]
    assert found == [
        ("stream_ended", "p0:a", 1),
        ("version_started", "p0:a", 2),
        ("stream_ended", "p0:a", 2),
        ("version_started", "p0:b", 3),
        ("version_started", "p0:a", 3),
    ]
    ids = [event["cluster"] for event in payloads(outputs.cluster_events) if event["kind"] == "emerged"]
    assert len(ids) == len({*ids}) > 2


def test_after_a_pause_each_record_ends_a_few_streams(monkeypatch):
    monkeypatch.setattr(expiry, "MOST", 2)
    log = log_from(*(silence(b"k%d" % i, 4 * i, 1) for i in range(6)), silence(b"k4", 9000, 1), silence(b"z", 9004, 4))
    whole, outputs = alike(given(), log, stops=(6, 7, 8))
    found = [(event["stream"], event["cause"]["source"]["offset"]) for event in ends(outputs)]
    # The record of k4 comes before its turn.
    assert found == [("p0:k0", 6), ("p0:k1", 6), ("p0:k2", 7), ("p0:k3", 7), ("p0:k5", 8)]
    assert whole.models.names == ["p0:k4", "p0:z"]
    assert whole.models.named("p0:k4").version == 1


def test_streams_end_where_a_block_begins_and_one_that_comes_back_before_lives_on(monkeypatch):
    monkeypatch.setattr(expiry, "BLOCK", 8)
    log = log_from(
        [(b"gone", STAMP, ROWS[0]), (b"back", STAMP, ROWS[1])],
        *(silence(b"there", 2000 * i, 1) for i in range(4)),
        silence(b"back", 7000, 1),
        *(silence(b"there", 7010 + i, 1) for i in range(20)),
    )
    whole, outputs = alike(given(), log, stops=(5, 7, 8, 9))
    assert [(event["stream"], event["cause"]["source"]["offset"]) for event in ends(outputs)] == [("p0:gone", 8)]
    assert whole.models.named("p0:back").version == whole.models.named("p0:there").version == 1


def test_a_late_record_keeps_its_stream_alive():
    late = [(b"late", STAMP + 500 * i - 90_000, ROWS[i]) for i in range(8)]
    log = [one for i in range(8) for one in (silence(b"there", 500 * i, 1)[0], late[i])]
    worker = task(given())
    assert not ends(run(worker, log_from(log)))
    assert worker.models.names == ["p0:there", "p0:late"]


def test_a_time_beyond_that_of_kafka_ends_no_stream():
    log = log_from(silence(b"a", 0, 3), silence(b"b", 30, 3))
    wrong = orjson.loads(log[4].value) | {"at": STAMP + 10**9}
    log = [record._replace(value=orjson.dumps({"at": STAMP, **orjson.loads(record.value)})) for record in log]
    log[4] = log[4]._replace(value=orjson.dumps(wrong))
    assert not ends(run(task(given(input__time_path="at")), log))


@pytest.mark.parametrize("seed", [*seeds(3, night=15), 33])
def test_a_crash_decides_nothing(monkeypatch, seed):
    rng = random.Random(seed)
    monkeypatch.setattr(expiry, "MOST", rng.choice((1, 2, 16)))
    monkeypatch.setattr(expiry, "BLOCK", rng.choice((1, 2, 5, 16)))
    log = log_of(seed + 100)
    own = given(
        engine__name=("caea", "modal", "hcaea")[seed % 3],
        limits__streams_in_memory=rng.choice((0, 2)),
        limits__streams=rng.choice((4, 6, 100)),
        snapshots__records=rng.choice((20, 60, 200, 10_000)),
        snapshots__ratio=rng.choice((0.0, 2.0)),
    )
    whole = task(own)
    expected = run(whole, log)
    assert len(ends(expected)) > 5
    worker = Worker(own, log)
    worker.live_through(rng)
    assert worker.emitted == expected
    assert states(worker.task) == states(whole)
    worker.start()
    assert states(worker.task) == states(whole)
    # Nothing stays of streams that have ended.
    named = {orjson.loads(key)[1] for key in worker.live if orjson.loads(key)[0] in ("chunk", "manifest")}
    assert named == set(whole.models.names)


def test_the_alerts_of_a_stream_end_with_it():
    own = {"limits__stream_ttl": 80.0, "engine__name": "modal", "prepare__warmup_records": 60, **CAREFUL}
    whole, outputs = alike(given(**own), devices(), stops=(1100, 1340, 1400))
    silent = [alert for alert in payloads(outputs.alerts) if alert["rule"] == "silent"]
    assert [(alert["kind"], alert["stream"]) for alert in silent] == [("opened", "p0:d1"), ("cleared", "p0:d1")]
    (end,) = ends(outputs)
    assert (silent[1]["evidence"], silent[1]["cause"]) == ({"ended": 1.0}, end["cause"])
    assert whole.models.named("p0:d1").version == 2
    # Its silences are known by its later life alone.
    assert whole.models.named("p0:d1").alerts.gaps()["count"] == 350


def test_a_stream_that_fell_silent_in_its_earlier_life_does_so_again(monkeypatch):
    monkeypatch.setattr(alert_rules, "SILENT_SECONDS", 1.0)
    own = {"limits__stream_ttl": 200.0, "engine__name": "modal"}

    log = []
    for turn in range(1200):
        log += [(b"there", 1000 * turn), (b"there", 1000 * turn + 1)]
        if turn % 600 < 150:
            log.append((b"gone", 1000 * turn + 2))
    _, outputs = alike(
        given(**own),
        [Record(TOPIC, 0, i, STAMP + at, key, value_of(ROWS[i % 1000])) for i, (key, at) in enumerate(log)],
    )
    found = [(a["kind"], a["stream"], a["version"]) for a in payloads(outputs.alerts) if a["rule"] == "silent"]
    assert found == [(kind, "p0:gone", version) for version in (1, 2) for kind in ("opened", "cleared")]
    assert [event["version"] for event in ends(outputs)] == [1, 2]


def test_ended_streams_leave_no_memory():
    log = log_from(*(silence(b"key %d" % i, 100 * i, 2) for i in range(300)))
    worker = task(given(limits__streams_in_memory=3, snapshots__records=5))
    held = Worker(worker._settings, log)
    held.work(50)
    models, silent = held.task.models, held.task._alerts._silent
    assert len(models) < 15
    assert len(models._ended) < 15
    assert len(models.expiry._due) < 15
    assert len(models._lives) < 15
    assert len(silent._streams) < 60
    assert len(held.live) < 120


def test_versions_that_are_over_leave_no_memory():
    held = Worker(given(snapshots__records=1), log_from(*(silence(b"a", 2000 * i, 2) for i in range(250))))
    held.work(2, everything=True)
    assert held.task.models.named("p0:a").version == 250
    assert len(held.task.models._headers) < 110


@pytest.mark.parametrize("seed", range(3))
def test_what_was_learned_from_a_file_goes_on_at_another_offset_and_its_streams_have_ended_in_silence(seed):
    log, found = log_of(seed + 50), []
    for size in (7, 1000):
        worker = task(given())
        for start in range(0, 500, size):
            worker.catch_up(log[start : min(start + size, 500)])
        worker.announce()
        assert not any(worker.health.events.values())
        worker.go_on_at(40)
        later = [record._replace(offset=record.offset - log[500].offset + 40) for record in log[500:]]
        outputs = run(worker, later[:100], size)
        fresh = restored(given(), *stored(worker))
        outputs.add(run(fresh, later[100:], size))
        found.append((outputs, states(fresh)))
    assert found[0] == found[1]
    assert ends(found[0][0])
    table = ClusterTable()
    for event in payloads(outputs.cluster_events):
        assert table.apply(event)
        assert event["cause"]["source"]["offset"] >= 40
    assert {*table.clusters()} == {each["id"] for name in fresh.models.names for each in fresh.models.clusters(name)}
