"""Where a restore begins and ends, and every stop that has a name; without a broker."""

import dataclasses
import logging
import re
import threading

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint import deployment_context as states_source
from resonance.pipeline.checkpoint import restore
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata, is_reproducible
from resonance.pipeline.checkpoint.restore import RestoreProgress, restore_partitions
from resonance.pipeline.config import fields
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import RestoreCancelledError
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Record

from tests.pipeline.toy_task import ToyTask

SNAPSHOTS = "group.snapshots"
IDENTITY = Identity("pipe", ("in",), "in", "id-1", 4, "toy", "1", {"engine.k": 3}, {"limits.streams": 9})
AT = ("in", 0)


class Log:
    """A broker in a few lists: input records with gaps, snapshot messages, one committed offset."""

    def __init__(self, monkeypatch):
        self.first, self.end, self.committed_offset, self.snapshots, self.gaps = 0, 0, -1, [], set()
        self.cancelled, self.reads, self.note = None, [], OffsetMetadata("id-1", reproducible=True)
        monkeypatch.setattr(DeploymentContext, "reader", lambda _, cancelled=None, **__: self.open(cancelled))

    def open(self, cancelled):
        self.cancelled = cancelled
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def has(self, partition):
        return partition[0] in (SNAPSHOTS, "in")

    def committed_with_metadata(self, partitions):
        metadata = self.note.at(self.committed_offset) if self.note else ""
        return dict.fromkeys(partitions, (self.committed_offset, metadata))

    def committed(self, partitions):
        return dict.fromkeys(partitions, self.committed_offset)

    def bounds(self, partitions):
        return {at: (0, len(self.snapshots)) if at[0] == SNAPSHOTS else (self.first, self.end) for at in partitions}

    def settled_bounds(self, partitions, seconds):
        return self.bounds(partitions)

    def record(self, offset):
        return Record("in", 0, offset, 0, b"ab"[offset % 2 :][:1], b"value %d" % offset)

    def read(self, ranges):
        for at, (first, end) in ranges.items():
            if at[0] == SNAPSHOTS:
                yield at, [Record(SNAPSHOTS, 0, n, 0, m.key, m.value) for n, m in enumerate(self.snapshots[:end])]
                continue
            self.reads.append((first, end))
            for offset in range(first, end):
                if self.cancelled and self.cancelled.is_set():
                    raise RestoreCancelledError
                if offset not in self.gaps:
                    yield at, [self.record(offset)]

    def run(self, task, writer, start, end, *, committed=None, everything=False, every=7):
        """Process records as a worker does: a transaction every few of them."""
        answers = []
        for offset in range(start, end):
            if offset not in self.gaps:
                answers += task.process([self.record(offset)])
            if (offset + 1) % every == 0 or offset + 1 == end:
                proven = offset + 1 if committed is None else committed
                last = everything and offset + 1 == end
                self.snapshots += writer.messages(task, offset + 1, proven, everything=last)
                self.committed_offset = offset + 1 if committed is None else committed
        self.end = max(self.end, end)
        return answers


@pytest.fixture
def log(monkeypatch):
    return Log(monkeypatch)


def given(**changes):
    settings = {"name": "group", "input.topics": ["in"], "stream": "key"}
    return Settings.of(settings | {name.replace("__", "."): value for name, value in changes.items()})


def source(**changes):
    identity = dataclasses.replace(IDENTITY, **changes)
    deployment = Deployment(4, {"in": "id-1"})
    return DeploymentContext(given(), {}, deployment, dict.fromkeys(identity.inputs, identity))


def restored(cancelled=None, progress=None, **changes):
    return restore_partitions(source(**changes), [AT], ToyTask, cancelled, progress)[AT]


def uninterrupted(log, end):
    task = ToyTask()
    return task, task.process([log.record(offset) for offset in range(end) if offset not in log.gaps])


@pytest.mark.parametrize("gaps", [set(), {0, 5, 6, 20, 21, 22, 40, 41, 69, 70}])
def test_a_run_that_stops_anywhere_goes_on_as_if_it_never_had(log, gaps):
    log.gaps = gaps
    task, expected = uninterrupted(log, 70)
    for stop in range(1, 70):
        log.snapshots, log.committed_offset, log.end = [], -1, 70
        answers = log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, stop)
        part = restored()
        assert part.start == part.committed == stop
        answers += log.run(part.task, part.writer, part.start, 70)
        assert (answers, part.task.models) == (expected, task.models)


def test_a_restore_ends_between_two_streams_when_it_is_cancelled(log):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 33, everything=True)
    cancelled, restored_streams = threading.Event(), []

    class CancelledTask(ToyTask):
        def restore(self, snapshot):
            restored_streams.append(snapshot.stream)
            cancelled.set()

    with pytest.raises(RestoreCancelledError):
        restore_partitions(source(), [AT], CancelledTask, cancelled)
    assert restored_streams == ["p0:a"]


def test_a_restore_can_be_cancelled(log):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 33)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(RestoreCancelledError):
        restored(cancelled)


def test_a_partition_that_does_not_fit_is_read_again_and_no_other(log, monkeypatch):
    log.first, log.end, log.committed_offset, looked = 1, 33, 20, []
    bounds = log.bounds
    monkeypatch.setattr(
        log, "settled_bounds", lambda places, seconds: looked.append((places, seconds)) or bounds(places)
    )
    with pytest.raises(MismatchError, match=r"in\[1\]"):
        restore_partitions(source(), [("in", 1), AT], ToyTask)
    assert looked == [([(SNAPSHOTS, 0), (SNAPSHOTS, 1)], restore.SETTLE_SECONDS), ([(SNAPSHOTS, 1)], source().patience)]


def test_nothing_assigned_reads_nothing():
    assert restore_partitions(source(), [], ToyTask) == {}


def test_a_fresh_group_starts_at_the_beginning_of_a_truncated_topic_and_says_so(log, caplog):
    log.first, log.end = 12, 20
    with caplog.at_level(logging.WARNING):
        part = restored()
    assert (part.start, part.committed, part.replayed) == (12, -1, 0)
    assert "in[0]: the group is new and the log begins at offset 12" in caplog.text


def test_a_restore_says_how_far_it_is(log):
    log.gaps = {3, 4}
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 33)
    log.snapshots = []
    progress = RestoreProgress(1)
    restored(progress=progress)
    assert (progress.wanted, progress.replayed) == (33, 31)


def test_at_least_once_goes_on_where_the_snapshots_prove_that_answers_were_delivered(log):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 30, committed=10, everything=True)
    part = restored()
    assert (part.start, part.committed, part.replayed, log.reads) == (30, 10, 0, [])
    assert part.task.models == uninterrupted(log, 30)[0].models


def test_a_crash_before_the_first_commit_is_no_expired_offset(log):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 20, committed=-1)
    assert restored().start == 20


def test_snapshots_ahead_of_the_partition_record_are_used(log):
    task, writer = ToyTask(), ChangelogWriter(IDENTITY, 0)
    log.run(task, writer, 0, 21)
    log.run(task, writer, 21, 49, committed=21)
    while orjson.loads(log.snapshots[-1].key)[0] == "partition":
        log.snapshots.pop()
    log.committed_offset, log.end = 21, 49
    part = restored()
    answers = part.task.process([log.record(offset) for offset in range(part.start, 49)])
    assert part.task.models == uninterrupted(log, 49)[0].models
    assert {a for a in answers if a} <= set(uninterrupted(log, 49)[1])


def test_offsets_that_another_member_has_moved_meanwhile_are_read_again(log, monkeypatch):
    """As after a freeze of minutes between the reading of the offsets and of the snapshots."""
    writer = ChangelogWriter(IDENTITY, 0)
    log.run(task := ToyTask(), writer, 0, 20)
    old = log.committed_with_metadata([AT])
    log.run(task, writer, 20, 60)
    read = log.committed_with_metadata
    answers = iter([old])
    monkeypatch.setattr(log, "committed_with_metadata", lambda partitions: next(answers, None) or read(partitions))
    assert restored().start == 60


def test_snapshots_that_can_be_read_long_after_their_offsets_are_waited_for(log, monkeypatch):
    """A broker ends a transaction in each partition by itself; here retention has deleted what older ones need."""
    writer = ChangelogWriter(IDENTITY, 0)
    log.run(task := ToyTask(), writer, 0, 20)
    early = len(log.snapshots)
    log.run(task, writer, 20, 60, everything=True)
    log.first, waited = 50, []

    def settled(partitions, seconds):
        waited.append(seconds)
        return {at: (0, early if len(waited) == 1 else len(log.snapshots)) for at in partitions}

    monkeypatch.setattr(log, "settled_bounds", settled)
    assert (restored().start, waited) == (60, [restore.SETTLE_SECONDS, 90.0])


def stopped(log, **changes):
    with pytest.raises(MismatchError) as caught:
        restored(**changes)
    assert log.reads == []
    return str(caught.value)


NOTHING_KNOWN = r"in\[0\]: offset 50 is committed, but the snapshots topic knows nothing.*--new-version"
OTHERS = ("in", "more")


@pytest.mark.parametrize(
    ("found", "changes", "text"),
    [
        ({"first": 32}, {}, r"begins at offset 32, but the models must be rebuilt from.*--new-version.*--reset"),
        ({"snapshots": [], "committed_offset": 50, "first": 20, "end": 60}, {}, NOTHING_KNOWN),
        (
            {"committed_offset": -1},
            {},
            "has no committed offset, but its snapshots reach.*--resume-from-snapshot.*--reset",
        ),
        ({"committed_offset": 4}, {}, "is at offset 4, but its snapshots prove that it had.*--resume-from-snapshot"),
        ({"end": 20}, {}, "the log ends at 20"),
        ({"snapshots": [], "committed_offset": 99, "end": 20}, {}, "group is at offset 99, but the log ends at 20"),
        ({}, {"partitions": 8}, "has 8 partitions, the snapshots were written when it had 4.*--new-version"),
        ({}, {"topic_id": "id-2"}, r"made again \(its id is id-2, the snapshots were written for id-1\).*--reset"),
        ({}, {"pipeline": "other"}, "topic group.snapshots belongs to pipeline pipe, this one is other: set topics"),
        ({}, {"inputs": OTHERS}, "were written for input.topics = in, now they are in, more"),
        ({}, {"inputs": ("else",), "topic": "else"}, "were written for input.topics = in, now they are else"),
        ({}, {"engine": "other"}, 'engine was "toy", is "other".*--new-version'),
        ({}, {"settings": {"engine.k": 4, "x": "none"}}, 'engine.k was 3, is 4; x was not there, is "none"'),
    ],
)
def test_what_cannot_be_restored_is_a_stop_that_names_its_remedy(log, found, changes, text):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 33, everything="engine" in text)
    vars(log).update(found)
    assert re.search(text, stopped(log, **changes))


def test_an_input_truncated_above_the_commit_is_a_stop_even_after_a_clean_stop(log):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 33, everything=True)
    log.first, log.end = 33, 40
    assert restored().start == 33
    log.first, log.reads = 34, []
    assert "from offset 33 on: the topic's retention has deleted 1 of these offsets" in stopped(log)


def test_a_log_that_alone_does_not_give_the_models_is_not_learned_in_their_place(log):
    log.committed_offset, log.end = 50, 60
    assert restored().start == 50
    log.note, log.reads = OffsetMetadata("id-1", reproducible=False), []
    text = stopped(log)
    assert re.search(NOTHING_KNOWN, text)
    assert "did not come from this log alone (a file, a new version, a reset, other settings)" in text
    assert [is_reproducible(*other) for other in ((0, 1), (0, 2), (7, 1), (-1, 1))] == [True, False, False, False]
    log.note = OffsetMetadata("id-2", reproducible=True)
    assert "was deleted and made again (its id is id-1, the snapshots were written for id-2)" in stopped(log)


OTHER_NOTES = [OffsetMetadata("id-1", True).at(40), OffsetMetadata("id-2", True).at(43)]
"""Of another offset, and of another topic."""


@pytest.mark.parametrize("metadata", [None, "", "mine", "{}", '{"resonance": 1}', *OTHER_NOTES])
def test_an_offset_that_no_worker_committed_is_a_stop(log, metadata, monkeypatch):
    log.run(ToyTask(), ChangelogWriter(IDENTITY, 0), 0, 33)
    log.end = 60
    assert restored().start == 33
    # Another tool moves the group forward, with or without the metadata that was there.
    monkeypatch.setattr(log, "committed_with_metadata", lambda partitions: dict.fromkeys(partitions, (43, metadata)))
    log.reads = []
    text = stopped(log)
    assert "group is at offset 43, which no worker committed, and its snapshots reach offset 21" in text
    assert re.search("--resume-from-snapshot.*--reset", text)
    log.snapshots = []
    text = stopped(log)
    assert "no worker committed that offset" in text or "made again" in text


def test_one_more_input_beside_several_is_none(log):
    log.run(ToyTask(), ChangelogWriter(dataclasses.replace(IDENTITY, inputs=OTHERS), 0), 0, 33)
    assert restored(inputs=(*OTHERS, "third")).start == 33


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"revision": "2"}, 'revision of the engine was "1", is "2"'),
        ({"limits": {"limits.streams": 10}}, "limits.streams was 9, is 10"),
    ],
)
def test_another_release_or_limit_is_a_stop_where_records_must_be_learned_again(log, changes, shown):
    task, writer = ToyTask(), ChangelogWriter(IDENTITY, 0)
    log.run(task, writer, 0, 33)
    text = stopped(log, **changes)
    assert shown in text
    assert "stop every worker with SIGTERM" in text
    log.run(task, writer, 33, 36, everything=True)
    part = restored(**changes)
    assert part.start == 36
    log.run(part.task, part.writer, 36, 39)
    assert restored(**changes).replayed == 3


def described(**changes):
    return DeploymentContext.of(given(**changes), {}, Deployment(4, {"in": "id-1"}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"input__time_path": "t"}, 'input.time_path was null, is "t"'),
        ({"input__id_path": "id"}, 'input.id_path was null, is "id"'),
        ({"input__dimension": 3}, "input.dimension was null, is 3"),
        ({"output__include": ["a"]}, 'output.include was [], is ["a"]'),
        ({"output__clusters_grace": 9}, "output.clusters_grace was 604800.0, is 9.0"),
        ({"limits__streams": 9}, "limits.streams was 10000, is 9"),
        ({"limits__record_bytes": 9}, "limits.record_bytes was 1000000, is 9"),
    ],
)
def test_every_setting_that_decides_over_dead_letters_is_one_of_these_stops(log, changes, text):
    before, now = described(), described(**changes)
    task, writer = ToyTask(), ChangelogWriter(before.identities["in"], 0)
    log.run(task, writer, 0, 33)
    with pytest.raises(MismatchError, match="must be learned again and would now give other models") as caught:
        restore_partitions(now, [AT], ToyTask)
    assert text in str(caught.value)
    log.run(task, writer, 33, 36, everything=True)
    assert restore_partitions(now, [AT], ToyTask)[AT].start == 36


def test_tasks_know_what_the_topics_of_events_and_clusters_take():
    both = {"resonance.cluster-events": 6_000_000, "resonance.clusters": 5_000_000}
    deployment = Deployment(4, {"in": "id-1"}, both)
    given = Settings.of({"input.topics": ["in"], "stream": "key"})
    for described, taken in ((deployment, 5_000_000), (Deployment(4, {"in": "id-1"}), 1_000_000)):
        assert DeploymentContext.of(given, {}, described).task_context.event_bytes == taken


def test_differences_are_those_of_values_not_of_how_they_are_written():
    before = {"a": 1, "b": ("x",), "c": None, "gone": 2}
    now = {"a": 1.0, "b": ["x"], "c": 3, "new": [4]}
    text = ["c was null, is 3", "gone was 2, is not there", "new was not there, is [4]"]
    assert mismatches.differences(before, now) == text


def test_the_revision_counts_engine_preparation_and_decoding(monkeypatch):
    before = described().identities["in"].revision
    for module, name in ((fields, "REVISION"), (states_source, "DECODE_REVISION")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, 99)
            assert described().identities["in"].revision != before
