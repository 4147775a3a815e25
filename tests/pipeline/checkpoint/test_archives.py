"""Archives: what they hold, when they are written, and that the right one is found again; without a broker."""

import itertools
from dataclasses import replace
from typing import Any

import orjson
import pytest
from resonance.pipeline.checkpoint.archive_reader import Archived, last_manifest, newest_archive, present_line
from resonance.pipeline.checkpoint.archive_records import ArchiveKey
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
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
LOG = streams.records(streams.points(600).tolist(), keys=(b"a", b"b", b"a"))


class Shelf(MemoryReader):
    """An archive topic, and a task that is archived every so many records."""

    def __init__(self, source: DeploymentContext = SOURCE) -> None:
        super().__init__()
        self.logs[ARCHIVE] = []
        self.writer = ArchiveWriter(ARCHIVE[0], 0, source.identities[TOPIC], 0.0, chunk_bytes=900)
        self.task = streams.task(GIVEN)

    def archive(self, position: int, *, leave_out: Any = None) -> None:
        messages = list(self.writer.messages(self.task, position, STAMP + position))
        for n, message in enumerate(messages):
            if leave_out is None or n != leave_out:
                self.append(ARCHIVE, message, timestamp=7_000 + position, gap=0 if n else 1)

    def work(self, every: int = 100, until: int = 600) -> list[int]:
        """Learn and archive; return the positions."""
        positions = []
        for start in range(0, until, every):
            self.task.process(LOG[start : start + every])
            positions.append(LOG[start + every - 1].offset + 1)
            self.archive(positions[-1])
        return positions

    def newest(self, offset: int, source: DeploymentContext = SOURCE) -> Archived | None:
        return newest_archive(self, source, AT, offset)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_from_an_archive_everything_goes_on_as_if_it_never_stopped(shelf: Shelf) -> None:
    whole, (position, *_) = streams.run(streams.task(GIVEN), LOG), shelf.work(200)
    found = shelf.newest(position)
    assert found is not None
    assert (found.at, found.position, found.timestamp) == (AT, position, STAMP + position)
    assert found.identity == SOURCE.identities[TOPIC]
    fresh = streams.task(GIVEN)
    found.restore(fresh)
    rest = fresh.process([record for record in LOG if record.offset >= position])
    assert rest.assignments == whole.assignments[200:]
    assert rest.cluster_events == whole.cluster_events[-len(rest.cluster_events) :]
    assert streams.states(fresh) == streams.states(shelf.task)


def test_an_archive_leaves_the_books_of_the_snapshots_alone(shelf: Shelf) -> None:
    shelf.task.process(LOG[:300])
    before = shelf.task.dirty(), shelf.task.due(), shelf.task.recovery_offset
    bodies = {snapshot.stream: snapshot.body for snapshot in shelf.task.states()}
    assert (shelf.task.dirty(), shelf.task.due(), shelf.task.recovery_offset) == before
    assert {stream: shelf.task.snapshot(stream).body for stream in before[0]} == bodies


def test_it_is_the_newest_one_at_or_before_an_offset(shelf: Shelf) -> None:
    positions = shelf.work(50)
    for offset in range(positions[-1] + 20):
        expected = max((position for position in positions if position <= offset), default=None)
        found = shelf.newest(offset)
        assert (found and found.position) == expected


def test_only_a_part_of_the_topic_is_read(shelf: Shelf) -> None:
    positions = shelf.work(10)
    shelf.newest(positions[20])
    assert len({record.offset for record in shelf.seen}) < len(shelf.logs[ARCHIVE]) / 4


def test_archives_of_other_inputs_stand_between(shelf: Shelf) -> None:
    other = [
        Message(orjson.dumps([kind, "other", position]), b"{}", [])
        for position in range(9_000, 9_030)
        for kind in ("chunk", "chunk", "archive")
    ]
    given = iter(itertools.cycle(other))
    for start in range(0, 600, 100):
        shelf.task.process(LOG[start : start + 100])
        messages = list(shelf.writer.messages(shelf.task, LOG[start + 99].offset + 1, 0))
        for message in messages:
            shelf.append(ARCHIVE, message)
            for _ in range(start // 100):
                shelf.append(ARCHIVE, next(given))
    position = LOG[399].offset + 1
    found = shelf.newest(position + 3)
    assert found
    assert found.position == position


@pytest.mark.parametrize("lost", [0, 1, -2])
def test_an_archive_that_is_not_whole_gives_way_to_an_older_one(shelf: Shelf, lost: int) -> None:
    (first,) = shelf.work(until=100)
    shelf.task.process(LOG[100:200])
    messages = list(shelf.writer.messages(shelf.task, 204, 0))
    messages.pop(lost)
    for message in messages:
        shelf.append(ARCHIVE, message)
    found = shelf.newest(500)
    assert found
    assert found.position == first


def test_what_has_no_manifest_does_not_count(shelf: Shelf) -> None:
    (first,) = shelf.work(until=100)
    shelf.task.process(LOG[100:200])
    for message in list(shelf.writer.messages(shelf.task, 204, 0))[:-1]:
        shelf.append(ARCHIVE, message)
    found = shelf.newest(500)
    assert found
    assert found.position == first


def resumed(shelf: Shelf) -> ArchiveWriter:
    """A writer as the next owner of the partition makes it."""
    line = present_line(shelf, SOURCE, AT)
    return ArchiveWriter(ARCHIVE[0], 0, SOURCE.identities[TOPIC], 0.0, line=line, chunk_bytes=900)


def test_where_positions_went_back_the_newest_line_counts(shelf: Shelf) -> None:
    first = shelf.work()
    lines = [[(position, 0) for position in first]]
    for until in (250, 300):
        # Back to an early archive, then other models from some place on; the next owner goes on behind it.
        shelf.writer = resumed(shelf)
        begun = first[0] + until // 10
        lines.append([])
        for position in (begun, *(at for at in range(begun + 40, until, 40))):
            shelf.archive(position)
            shelf.writer = resumed(shelf)
            lines[-1].append((position, shelf.writer._line.epoch))
    assert len({epoch for line in lines for _, epoch in line}) == 3
    for offset in range(first[-1] + 5):
        expected = next(
            (max(at) for line in reversed(lines) if (at := [one for one in line if one[0] <= offset])), None
        )
        found = shelf.newest(offset)
        assert (found and found.position) == (expected and expected[0])


def test_archives_without_a_line_are_those_of_the_first(shelf: Shelf) -> None:
    positions = shelf.work(until=200)
    for record in shelf.logs[ARCHIVE]:
        key = ArchiveKey.of(record.key)
        assert key is not None
        assert key.epoch == 0
        assert b"epoch" not in (record.value or b"")
    assert present_line(shelf, SOURCE, AT)[:2] == (0, positions[-1])
    found = shelf.newest(positions[-1])
    assert found
    assert found.position == positions[-1]


@pytest.mark.parametrize("whole", [True, False])
def test_the_last_archive_is_found_behind_long_ones_of_others_which_are_stepped_over(shelf: Shelf, whole: bool) -> None:
    positions = shelf.work(until=200)
    routes = replace(SOURCE.identities[TOPIC], topic="resonance.routes")
    for position in range(50, 55):
        for message in ArchiveWriter(ARCHIVE[0], 0, routes, 0.0, chunk_bytes=20).messages(shelf.task, position, STAMP):
            shelf.append(ARCHIVE, message)
        if not whole:
            shelf.append(ARCHIVE, Message(b"somebody else's", b"", []))
            del shelf.logs[ARCHIVE][-5]
    count = len(shelf.logs[ARCHIVE])
    assert count > 1_000
    assert last_manifest(shelf, SOURCE, AT) == (positions[-1], 7_000 + positions[-1])
    assert len(shelf.seen) < 100 or not whole
    assert present_line(shelf, SOURCE, AT)[:2] == (0, positions[-1])


def test_a_new_line_begins_where_there_is_no_archive_of_the_input(shelf: Shelf) -> None:
    for number in range(7):
        shelf.append(ARCHIVE, Message(orjson.dumps(["archive", "other", number]), b"{}", []))
    shelf.writer = resumed(shelf)
    assert shelf.writer._line == (8, 0, 8)
    position = shelf.work(until=200)[-1]
    found = shelf.newest(position)
    assert found
    assert found.position == position


@pytest.mark.parametrize(
    "change", [{"topic_id": "id-2"}, {"partitions": 2}, {"pipeline": "other"}, {"inputs": ("a", "b")}]
)
def test_archives_of_another_log_or_pipeline_are_not_ours(shelf: Shelf, change: dict[str, Any]) -> None:
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
    shelf.append(ARCHIVE, Message(orjson.dumps(["archive", TOPIC, positions[-1] + 1]), value, []))
    shelf.append(ARCHIVE, Message(b"somebody else's", b"", []))
    found = shelf.newest(9_999)
    assert found
    assert found.position == positions[-1]


def test_without_a_topic_there_is_none(shelf: Shelf) -> None:
    del shelf.logs[ARCHIVE]
    assert shelf.newest(9_999) is None
    assert shelf.newest(9_999, replace(SOURCE, archive="")) is None


def test_the_last_manifest_says_when_the_next_is_due(shelf: Shelf) -> None:
    assert last_manifest(shelf, SOURCE, AT) is None
    positions = shelf.work()
    assert last_manifest(shelf, SOURCE, AT) == (positions[-1], 7_000 + positions[-1])
    for kind in ("chunk", "chunk", "chunk", "chunk", "list", "archive"):
        shelf.append(ARCHIVE, Message(orjson.dumps([kind, "resonance.routes", 7]), b"{}", []))
    assert last_manifest(shelf, SOURCE, AT) == (positions[-1], 7_000 + positions[-1]), "that of the routes is behind it"
    for _ in range(5):
        shelf.append(ARCHIVE, Message(orjson.dumps(["chunk", TOPIC, 9_999, "p0:a", 0]), b"", []))
    assert last_manifest(shelf, SOURCE, AT) is None


def test_the_log_says_of_which_partition_an_archive_is(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "resonance.pipeline.checkpoint.archive_writer")
    list(ArchiveWriter("a", 3, SOURCE.identities[TOPIC], 0.0).messages(shelf.task, 5, STAMP))
    (line,) = caplog.records
    assert line.getMessage().startswith(f"{TOPIC}[3]@5: archived: 0 streams, ")
    assert (line.__dict__["partition"], line.__dict__["offset"]) == (3, 5)


def test_one_is_due_after_the_interval_where_something_was_learned(shelf: Shelf) -> None:
    now = 1_000.0
    writer = ArchiveWriter("a", 0, SOURCE.identities[TOPIC], 60.0, clock=lambda: now)
    assert writer.is_due(shelf.task, 5)
    list(writer.messages(shelf.task, 5, STAMP))
    now += 59
    assert not writer.is_due(shelf.task, 9)
    now += 1
    assert not writer.is_due(shelf.task, 5)
    assert writer.is_due(shelf.task, 9)
    went_on = ArchiveWriter("a", 0, SOURCE.identities[TOPIC], 60.0, (5, 20.0), clock=lambda: now)
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
    writer = ArchiveWriter("a", 0, SOURCE.identities[TOPIC], 0.0)
    messages = list(writer.messages(task, 9_999, STAMP))
    assert len({message.key for message in messages}) == len(messages) > 4_000
    assert max(len(message.value or b"") for message in messages) <= 512_000
    key = ArchiveKey.of(messages[-1].key)
    assert key == ("archive", TOPIC, 9_999, 0)
