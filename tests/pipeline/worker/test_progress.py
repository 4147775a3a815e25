"""What a worker says of its work while it runs."""

import asyncio
import logging
from collections import Counter
from types import SimpleNamespace

import pytest
from faust.types import TP
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.counts import Counts, DeadLetterExample, Totals
from resonance.pipeline.task.range_changes import RangeChanges
from resonance.pipeline.worker import progress
from resonance.pipeline.worker.assignment import Counters
from resonance.pipeline.worker.progress import Progress, models_of
from resonance.pipeline.worker.transport.log_ends import LogEnd

AT = TP("in", 0)
CAUGHT_UP = "caught up: every record of the assigned partitions is answered"
MISSING = ("validate", "missing_feature")


class Work:
    """A running worker with one partition, its clock, and what its progress logged."""

    def __init__(self, caplog):
        caplog.set_level(logging.INFO)
        self._log = caplog
        self.now = 0.0
        self.end = None
        self.dead = Counter()
        self.examples = {}
        self.ranges = RangeChanges()
        self.totals = Totals()
        task = SimpleNamespace(health=SimpleNamespace(clusters=3, ranges=self.ranges))
        self.partition = SimpleNamespace(task=task, answered=0, learned_again=None)
        self.processor = SimpleNamespace(partitions={AT: self.partition}, counters=Counters())
        consumer = SimpleNamespace(ends=lambda: {} if self.end is None else {AT: self.end})
        self.status = SimpleNamespace(phase="running", processor=self.processor, consumer=consumer, held_back={})
        self.progress = Progress(self.status, ["temp", "net.in"], lambda: self.now, session_timeout=45.0)

    def step(self, seconds, records, dead=0, end=None, routes=0, committed=None):
        """Let some seconds pass, and return what is said then; all records are committed, or as many as given."""
        self.now += seconds
        self.partition.answered += records if committed is None else committed
        self.processor.counters.records += records + routes
        self.processor.counters.routes += routes
        end = self.partition.answered if end is None else end
        self.end = LogEnd(end, end) if isinstance(end, int) else end
        self.dead = self.dead + Counter({MISSING: dead})
        self.partition.task.counts = Counts(
            dead_letters_by_stage=self.dead, dead_letter_examples=self.examples, totals=self.totals
        )
        self._log.clear()
        self.progress.look()
        return [record.getMessage() for record in self.said()]

    def said(self):
        return self._log.records


@pytest.fixture
def work(caplog):
    return Work(caplog)


def test_a_line_every_ten_seconds(work):
    assert work.step(4, 1_000, end=60_000) == []
    assert work.step(6, 4_000, 250, end=60_000) == [
        "5,000 records (500/s); 250 dead letters (250 missing_feature); 3 clusters; 55,000 records behind"
    ]
    assert work.step(9, 1_000, end=60_000) == []
    assert work.step(1, 1_000, end=60_000) == [
        "2,000 records (200/s); 0 dead letters; 3 clusters; 53,000 records behind"
    ]


def test_a_record_that_is_routed_and_then_learned_counts_once(work):
    assert work.step(10, 5_000, end=9_000, routes=4_000) == [
        "5,000 records (500/s); 0 dead letters; 3 clusters; 4,000 records behind"
    ]
    assert work.step(10, 0, end=9_000, routes=1_000) == [
        "0 records (0/s), 1,000 routes; 0 dead letters; 3 clusters; 4,000 records behind"
    ]


def test_streams_without_clusters_because_of_their_warm_up_are_counted(work):
    work.totals = Totals(warming_up=2, held=150, warm_up=400)
    assert work.step(10, 150) == [
        CAUGHT_UP,
        "150 records (15/s); 0 dead letters; 3 clusters; 2 streams in the warm-up (150 of 400 records); nothing waits",
    ]


def test_what_a_group_waits_for_is_said_once_in_each_join(work):
    def join(seconds):
        work.status.phase = "joining"
        return work.step(seconds, 0)

    waits = "no partition yet: after a worker was killed, its group waits until its session ends, at most 45 s"
    assert [join(seconds) for seconds in (1, 4, 2, 60)] == [[], [], [waits], []]
    work.status.phase = "running"
    assert work.step(1, 0) == []
    assert [join(seconds) for seconds in (1, 6)] == [[], [waits]]


def test_caught_up_is_said_once_and_silence_once(work):
    assert work.step(5, 100, end=200) == []
    assert work.step(1, 100) == [CAUGHT_UP]
    assert work.step(4, 100) == ["300 records (30/s); 0 dead letters; 3 clusters; nothing waits"]
    assert work.step(10, 0) == ["0 records (0/s); 0 dead letters; 3 clusters; nothing waits"]
    assert work.step(10, 0) == []
    # A backlog of more than it works off between two lines.
    assert work.step(1, 10, end=50_000) == []
    assert work.step(1, 10, end=50_000) == []
    assert work.step(1, 49_680) == [CAUGHT_UP]


def test_what_an_open_transaction_holds_back_waits(work):
    assert work.step(1, 100, end=LogEnd(100, 3_101)) == []
    assert work.step(9, 0, end=LogEnd(100, 3_101)) == [
        "100 records (10/s); 0 dead letters; 3 clusters; 3,001 records behind, 3,001 of them wait for an open "
        "transaction"
    ]
    # Markers at its end are no records, but they were read like them.
    assert work.step(1, 3_000, committed=3_002, end=3_102) == [CAUGHT_UP]


def test_nothing_is_answered_before_it_is_committed(work):
    assert work.step(1, 100, committed=0, end=100) == []
    assert work.step(9, 0, end=100) == ["100 records (10/s); 0 dead letters; 3 clusters; 100 records behind"]
    assert work.step(1, 0, committed=100, end=100) == [CAUGHT_UP]


def test_records_of_the_last_second_do_not_count_as_waiting(work):
    assert work.step(1, 100, end=150) == []
    assert work.step(1, 50, end=190) == [CAUGHT_UP]
    assert work.step(8, 40, end=230) == ["190 records (19/s); 0 dead letters; 3 clusters; nothing waits"]


def test_where_the_end_of_a_log_is_unknown_nobody_has_caught_up(work):
    work.step(1, 100, end=1_000)
    ends = work.status.consumer.ends
    work.status.consumer.ends = dict
    assert work.step(9, 900) == ["1,000 records (100/s); 0 dead letters; 3 clusters; how many wait is not known"]
    work.status.consumer.ends = ends
    assert work.step(1, 0) == [CAUGHT_UP]


def test_a_look_that_fails_is_logged_and_is_not_the_last(work, monkeypatch):
    monkeypatch.setattr(progress, "LOOK", 0)
    monkeypatch.setattr(progress, "AFTER_ERROR", 0)
    looks = []

    async def look():
        looks.append(work.status.phase)
        if len(looks) == 3:
            raise asyncio.CancelledError
        raise KeyError("x")

    work.status.consumer.query_ends = look
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(progress.report(work.status, Settings.of({"input.topics": ["in"]})))
    assert [record.levelname for record in work.said()] == ["ERROR", "ERROR"]


def test_dead_letters_that_dominate_are_a_warning_with_the_nearest_name(work):
    content = "temp is missing; send it", b'{"tmp": 1, "net": {"in": 2}}'
    work.examples[MISSING] = [DeadLetterExample("missing_feature", at, ("in", 0, at, None), *content) for at in (9, 7)]
    assert work.step(1, 19, 19, end=1_000) == []
    assert work.step(1, 21, 21) == [
        "40 of the last 40 records are dead letters of class missing_feature; the first one, in[0]@7: temp is "
        "missing; send it. The record has tmp, net.in (did you mean tmp?)",
        CAUGHT_UP,
    ]
    assert work.step(1, 100, 100) == []


def test_a_feature_that_leaves_its_range_again_and_again_is_a_warning_at_most_hourly(work):
    def leave(days):
        for day in days:
            work.ranges.looked("p0")
            work.ranges.changed("p0", "ambient_c", f"2026-01-{day:02}T00:00:00.000Z")

    def said(step):
        return [line.split(":")[0] for line in step if "ambient_c" in line]

    leave(range(1, 8))
    assert said(work.step(1, 100, end=900)) == []
    assert said(work.step(1, 800)) == ["ambient_c left its range 7 times in 1 of 1 stream with many records"]
    leave(range(8, 10))
    assert said(work.step(60, 100)) == []
    assert said(work.step(3_600, 100)) == ["ambient_c left its range 9 times in 1 of 1 stream with many records"]
    assert said(work.step(3_600, 100)) == []


def test_some_dead_letters_and_those_of_a_restore_are_no_warning(work):
    work.partition.learned_again = Counts(dead_letters_by_stage=Counter({MISSING: 500}))
    assert work.step(1, 100, 540, end=1_000) == []


def test_nothing_is_said_before_it_runs(work):
    work.status.phase = "restoring"
    assert work.step(60, 500, 500) == []


@pytest.mark.parametrize(
    ("stream", "topics", "said"),
    [
        ("partition", ["a"], "a model for each of 4 input partitions"),
        ("topic", ["a"], "one model for all records"),
        ("topic", ["a", "b"], "a model for each of 2 topics"),
        ("key", ["a"], "a model for each key of the records, at most 10,000 in a partition"),
        ("field:device.id", ["a"], "a model for each value of device.id in the records"),
    ],
)
def test_the_start_says_how_many_models_there_will_be(stream, topics, said):
    given = Settings.of({"input.topics": topics, "stream": stream})
    assert f"stream = {stream}: {said}" in models_of(given, 4)
