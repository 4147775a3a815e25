"""Archives: what they hold, when they are written, and that the right one is found again; without a broker."""

import itertools
from dataclasses import replace
from typing import Any

import orjson
import pytest
from resonance.pipeline.checkpoint.archive_reader import Archives
from resonance.pipeline.checkpoint.archive_records import ArchiveKey
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.changelog_records import MAX_ARCHIVES, ArchiveEntry, ArchiveIndex, archives_key
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message
from resonance.pipeline.task.partition_task import PartitionTask

from tests.pipeline import streams
from tests.pipeline.logs import MemoryReader
from tests.pipeline.streams import STAMP, TOPIC

AT = (TOPIC, 0)
GIVEN = streams.settings(stream="key")
SOURCE = DeploymentContext.of(GIVEN, {}, Deployment(1, {TOPIC: "id-1"}))
ARCHIVE = ("resonance.archive", 0)
SNAPSHOTS = ("resonance.snapshots", 0)
LOG = streams.records(streams.points(600).tolist(), keys=(b"a", b"b", b"a"))


class Shelf(MemoryReader):
    """The topics of snapshots and archives, and a task that is archived every so many records."""

    def __init__(self, source: DeploymentContext = SOURCE) -> None:
        super().__init__()
        self.logs[ARCHIVE], self.logs[SNAPSHOTS] = [], []
        self.seconds = 0.0
        self.changelog = ChangelogWriter(source.identities[TOPIC])
        self.writer = self.new_writer()
        self.task = streams.task(GIVEN)

    def new_writer(self, chunk_bytes: int = 900) -> ArchiveWriter:
        return ArchiveWriter(*ARCHIVE, self.changelog, 0.0, now=lambda: self.seconds, chunk_bytes=chunk_bytes)

    def settled_bounds(self, partitions: list[Any], seconds: float) -> Any:
        return self.bounds(partitions)

    def archive(self, position: int, lost: int | None = None) -> None:
        """Write an archive, or all but one message of it, and list it."""
        self.seconds += 1.0
        messages = list(self.writer.messages(self.task, position, STAMP + position))
        if lost is not None:
            messages.pop(lost)
        for n, message in enumerate(messages):
            self.append(ARCHIVE, message, timestamp=int(self.seconds * 1_000), gap=0 if n else 1)
        for message in self.changelog.messages(self.task, position, position):
            self.append(SNAPSHOTS, message)
        self.append(SNAPSHOTS, self.writer.listed())

    def work(self, every: int = 100, until: int = 600) -> list[int]:
        """Learn and archive; return the positions."""
        positions = []
        for start in range(0, until, every):
            self.task.process(LOG[start : start + every])
            positions.append(LOG[start + every - 1].offset + 1)
            self.archive(positions[-1])
        return positions

    def newest(self, offset: int, source: DeploymentContext = SOURCE) -> PartitionCheckpoint | None:
        return Archives.of(self, source, AT)[0].newest(offset)  # type: ignore[arg-type]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_from_an_archive_everything_goes_on_as_if_it_never_stopped(shelf: Shelf) -> None:
    whole, (position, *_) = streams.run(streams.task(GIVEN), LOG), shelf.work(200)
    found = shelf.newest(position)
    assert found is not None
    assert (found.at, found.position, found.timestamp) == (AT, position, STAMP + position)
    assert found.record.identity == SOURCE.identities[TOPIC]
    fresh = streams.task(GIVEN)
    found.restore(fresh)
    rest = fresh.process([record for record in LOG if record.offset >= position])
    assert rest.assignments == whole.assignments[200:]
    assert rest.cluster_events == whole.cluster_events[-len(rest.cluster_events) :]
    assert streams.states(fresh) == streams.states(shelf.task)


def test_an_archive_leaves_the_books_of_the_snapshots_alone(shelf: Shelf) -> None:
    shelf.task.process(LOG[:300])
    before = shelf.task.pending(everything=True), shelf.task.pending(), shelf.task.recovery_offset
    bodies = {snapshot.stream: snapshot.body for snapshot in shelf.task.states()}
    assert (shelf.task.pending(everything=True), shelf.task.pending(), shelf.task.recovery_offset) == before
    assert {stream: shelf.task.snapshot(stream).body for stream in before[0]} == bodies


def test_it_is_the_newest_one_at_or_before_an_offset(shelf: Shelf) -> None:
    positions = shelf.work(50)
    for offset in range(positions[-1] + 20):
        expected = max((position for position in positions if position <= offset), default=None)
        found = shelf.newest(offset)
        assert (found and found.position) == expected


def test_only_one_archive_is_read(shelf: Shelf) -> None:
    positions = shelf.work(10)
    entry = shelf.changelog.archives.entries[20]
    assert entry.position == positions[20]
    shelf.seen.clear()
    assert shelf.newest(positions[20]) is not None
    # The first record of the topic says what is deleted.
    _, *read = [record for record in shelf.seen if record.topic == ARCHIVE[0]]
    assert read[0].timestamp == entry.written
    assert len(read) < len(shelf.logs[ARCHIVE]) / 4


def test_archives_of_other_inputs_stand_between(shelf: Shelf) -> None:
    kinds = itertools.cycle(("chunk", "chunk", "archive"))
    positions = shelf.work()
    mixed = []
    for record in shelf.logs[ARCHIVE]:
        mixed += [record, record._replace(key=orjson.dumps([next(kinds), "other", 9_000]), value=b"{}")]
    shelf.logs[ARCHIVE] = mixed
    for position in positions:
        found = shelf.newest(position + 3)
        assert found
        assert found.position == position


@pytest.mark.parametrize("lost", [0, 1, -2, -1])
def test_an_archive_that_is_not_whole_gives_way_to_an_older_one(shelf: Shelf, lost: int) -> None:
    (first,) = shelf.work(until=100)
    shelf.task.process(LOG[100:200])
    shelf.archive(LOG[199].offset + 1, lost=lost)
    found = shelf.newest(500)
    assert found
    assert found.position == first


def test_what_is_deleted_is_not_looked_for(shelf: Shelf) -> None:
    positions = shelf.work()
    kept = [record for record in shelf.logs[ARCHIVE] if record.timestamp >= 4_000]
    shelf.logs[ARCHIVE], shelf.firsts[ARCHIVE] = kept, kept[0].offset
    shelf.seen.clear()
    assert shelf.newest(positions[1]) is None
    assert len([record for record in shelf.seen if record.topic == ARCHIVE[0]]) == 1
    assert shelf.newest(positions[2]) is None
    found = shelf.newest(positions[3])
    assert found
    assert found.position == positions[3]


def test_an_archive_is_begun_before_its_first_record_is_written(shelf: Shelf) -> None:
    (position,) = shelf.work(until=100)
    shelf.logs[ARCHIVE] = [record._replace(timestamp=record.timestamp + 3) for record in shelf.logs[ARCHIVE]]
    assert shelf.newest(position) is not None


def test_a_broker_that_writes_times_of_its_own_costs_a_longer_search(shelf: Shelf) -> None:
    positions = shelf.work()
    shelf.logs[ARCHIVE] = [record._replace(timestamp=record.timestamp - 700) for record in shelf.logs[ARCHIVE]]
    for position in positions:
        found = shelf.newest(position)
        assert found
        assert found.position == position


def test_where_positions_went_back_the_archives_behind_are_forgotten(shelf: Shelf) -> None:
    positions = shelf.work()
    shelf.archive(positions[1] + 7)
    assert [entry.position for entry in shelf.changelog.archives.entries] == [*positions[:2], positions[1] + 7]
    found = shelf.newest(9_999)
    assert found
    assert found.position == positions[1] + 7


def test_a_long_list_is_thinned_where_it_is_old() -> None:
    index = ArchiveIndex()
    for position in range(1, MAX_ARCHIVES + 2):
        index = index.plus(ArchiveEntry(position, position, "d"), 1)
    positions = [entry.position for entry in index.entries]
    assert positions == [*range(1, MAX_ARCHIVES // 2, 2), *range(MAX_ARCHIVES // 2 + 1, MAX_ARCHIVES + 2)]


def test_an_owner_that_was_taken_for_dead_lists_nothing(shelf: Shelf) -> None:
    positions = shelf.work(until=200)
    newer = replace(shelf.changelog.archives, epoch=5)
    shelf.append(SNAPSHOTS, Message(archives_key(TOPIC), newer.value(), []))
    shelf.append(SNAPSHOTS, Message(archives_key(TOPIC), ArchiveIndex(epoch=4).value(), []))
    found = shelf.newest(9_999)
    assert found
    assert found.position == positions[-1]


@pytest.mark.parametrize("value", [b"?", b"{}", b'{"format": 1, "epoch": 1, "archives": [[1, "x", "d"]]}'])
def test_a_list_that_cannot_be_read_stops_no_worker(
    shelf: Shelf, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.work()
    shelf.append(SNAPSHOTS, Message(archives_key(TOPIC), value, []))
    assert shelf.newest(9_999) is None
    assert "the list of the archives of input topic features cannot be read" in caplog.text


def test_of_two_archives_at_one_position_it_is_the_listed_one(shelf: Shelf) -> None:
    (position,) = shelf.work(until=100)
    other = streams.task(GIVEN)
    other.process(LOG[:90])
    for task in (other, shelf.task, other):
        shelf.task = task
        shelf.archive(position)
    # A broker that writes times of its own: the topic is searched from its beginning.
    shelf.logs[ARCHIVE] = [record._replace(timestamp=0) for record in shelf.logs[ARCHIVE]]
    found = shelf.newest(position)
    assert found
    assert {one.stream: one.body for one in found.streams} == {one.stream: one.body for one in other.states()}


@pytest.mark.parametrize("change", [{"topic_id": "id-2"}, {"partitions": 2}])
def test_archives_of_another_log_are_not_ours(shelf: Shelf, change: dict[str, Any]) -> None:
    shelf.work()
    identity = replace(SOURCE.identities[TOPIC], **change)
    assert shelf.newest(9_999, replace(SOURCE, identities={TOPIC: identity})) is None


def test_other_settings_are_told_when_it_is_restored(shelf: Shelf) -> None:
    shelf.work()
    found = shelf.newest(9_999)
    assert found
    with pytest.raises(MismatchError, match=r"engine\.memory was 100, is 300"):
        found.restore(PartitionTask(streams.settings(stream="key", engine__memory=300), *AT))


@pytest.mark.parametrize("value", [b"?", b'{"format": 99}', b"{}", None])
def test_manifests_that_cannot_be_read_are_left_out(shelf: Shelf, value: bytes | None) -> None:
    positions = shelf.work()
    shelf.logs[ARCHIVE][-1] = shelf.logs[ARCHIVE][-1]._replace(value=value)
    shelf.append(ARCHIVE, Message(b"somebody else's", b"", []))
    found = shelf.newest(9_999)
    assert found
    assert found.position == positions[-2]


def test_without_a_topic_there_is_none(shelf: Shelf) -> None:
    shelf.work()
    assert shelf.newest(9_999, replace(SOURCE, archive="")) is None
    del shelf.logs[ARCHIVE]
    assert shelf.newest(9_999) is None
    del shelf.logs[SNAPSHOTS]
    assert shelf.newest(9_999) is None


def test_the_log_says_of_which_partition_an_archive_is(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "resonance.pipeline.checkpoint.archive_writer")
    list(ArchiveWriter("a", 3, shelf.changelog, 0.0).messages(shelf.task, 5, STAMP))
    (line,) = caplog.records
    assert line.getMessage().startswith(f"{TOPIC}[3]@5: archived: 0 streams, ")
    assert (line.__dict__["partition"], line.__dict__["offset"]) == (3, 5)


def test_one_is_due_after_the_interval_where_something_was_learned(shelf: Shelf) -> None:
    now = 1_000.0
    writer = ArchiveWriter("a", 0, shelf.changelog, 60.0, clock=lambda: now, now=lambda: now)
    assert writer.is_due(shelf.task, 5)
    list(writer.messages(shelf.task, 5, STAMP))
    writer.listed()
    now += 59
    assert not writer.is_due(shelf.task, 9)
    now += 1
    assert not writer.is_due(shelf.task, 5)
    assert writer.is_due(shelf.task, 9)
    now -= 40
    last = shelf.changelog.archives.entries[-1]
    went_on = ArchiveWriter("a", 0, shelf.changelog, 60.0, last, clock=lambda: now, now=lambda: now)
    now += 39
    assert not went_on.is_due(shelf.task, 9)
    now += 1
    assert went_on.is_due(shelf.task, 9)


def test_nothing_is_archived_while_a_stream_is_ahead(shelf: Shelf) -> None:
    shelf.task.process(LOG[:100])
    assert not shelf.writer.is_due(shelf.task, LOG[98].offset)
    assert shelf.writer.is_due(shelf.task, LOG[99].offset + 1)


def test_ten_thousand_streams_fit_into_messages(shelf: Shelf) -> None:
    task = streams.task(GIVEN)
    task.process(streams.records(streams.points(4_000).tolist(), keys=[b"%0250d" % n for n in range(4_000)]))
    writer = ArchiveWriter("a", 0, shelf.changelog, 0.0)
    messages = list(writer.messages(task, 9_999, STAMP))
    assert len({message.key for message in messages}) == len(messages) > 4_000
    assert max(len(message.value or b"") for message in messages) <= 512_000
    key = ArchiveKey.of(messages[-1].key)
    assert key == ("archive", TOPIC, 9_999)
