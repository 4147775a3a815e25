"""Archives: what they hold, when they are written, and that the right one is found again; without a broker."""

from dataclasses import replace

import orjson
import pytest
from resonance.pipeline.checkpoint.archive_reader import Archives
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter, archive_key
from resonance.pipeline.checkpoint.changelog_records import MAX_ARCHIVES, ArchiveEntry, ArchiveIndex, archives_key
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message

from tests.pipeline import streams
from tests.pipeline.logs import MemoryReader
from tests.pipeline.streams import STAMP, TOPIC

AT = (TOPIC, 0)
GIVEN = streams.settings(stream="key")
SOURCE = DeploymentContext.of(GIVEN, {}, Deployment(1, {TOPIC: "id-1"}))
ARCHIVE = ("resonance.archive", 0)
SNAPSHOTS = ("resonance.snapshots", 0)
LOG = streams.records(streams.points(600).tolist(), keys=(b"a", b"b", b"a"))


class Topics(MemoryReader):
    """The topics of snapshots and archives, and a task that is archived every so many records."""

    def __init__(self, source=SOURCE):
        super().__init__()
        self.logs[ARCHIVE], self.logs[SNAPSHOTS] = [], []
        self.seconds = 0.0
        self.changelog = ChangelogWriter(source.identities[TOPIC], 0)
        self.writer = self.new_writer()
        self.task = streams.task(GIVEN)

    def new_writer(self, chunk_bytes=900):
        return ArchiveWriter(*ARCHIVE, self.changelog, 0.0, now=lambda: self.seconds, chunk_bytes=chunk_bytes)

    def settled_bounds(self, partitions, seconds):
        return self.bounds(partitions)

    def archive(self, position, lost=None):
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

    def work(self, every=100, until=600):
        """Learn and archive; return the positions."""
        positions = []
        for start in range(0, until, every):
            self.task.process(LOG[start : start + every])
            positions.append(LOG[start + every - 1].offset + 1)
            self.archive(positions[-1])
        return positions

    def newest(self, offset, source=SOURCE):
        return Archives.of(self, source, AT)[0].newest(offset)


@pytest.fixture
def topics():
    return Topics()


def test_from_an_archive_everything_goes_on_as_if_it_never_stopped(topics):
    whole, (position, *_) = streams.run(streams.task(GIVEN), LOG), topics.work(200)
    found = topics.newest(position)
    assert (found.at, found.position, found.timestamp) == (AT, position, STAMP + position)
    assert found.record.identity == SOURCE.identities[TOPIC]
    fresh = streams.task(GIVEN)
    found.restore(fresh)
    rest = fresh.process([record for record in LOG if record.offset >= position])
    assert rest.assignments == whole.assignments[200:]
    assert rest.cluster_events == whole.cluster_events[-len(rest.cluster_events) :]
    assert streams.states(fresh) == streams.states(topics.task)


def test_it_is_the_newest_one_at_or_before_an_offset(topics):
    positions = topics.work(50)
    for offset in range(positions[-1] + 20):
        expected = max((position for position in positions if position <= offset), default=None)
        found = topics.newest(offset)
        assert (found and found.position) == expected


def test_only_one_archive_is_read(topics):
    positions = topics.work(10)
    entry = topics.changelog.archives.entries[20]
    assert entry.position == positions[20]
    topics.seen.clear()
    assert topics.newest(positions[20]) is not None
    # The first record of the topic says what is deleted.
    _, *read = [record for record in topics.seen if record.topic == ARCHIVE[0]]
    assert read[0].timestamp == entry.written
    assert len(read) < len(topics.logs[ARCHIVE]) / 4


def test_archives_of_other_inputs_stand_between(topics):
    positions = topics.work()
    mixed = []
    for record in topics.logs[ARCHIVE]:
        _, _, *place = orjson.loads(record.key)
        mixed += [record, record._replace(key=archive_key("other", *place)), record._replace(key=b"?")]
    topics.logs[ARCHIVE] = mixed
    assert [topics.newest(position + 3).position for position in positions] == positions


@pytest.mark.parametrize("lost", [0, 1, -2, -1])
def test_an_archive_that_is_not_whole_gives_way_to_an_older_one(topics, lost):
    (first,) = topics.work(until=100)
    topics.task.process(LOG[100:200])
    topics.archive(LOG[199].offset + 1, lost=lost)
    assert topics.newest(500).position == first


def test_what_is_deleted_is_not_looked_for(topics):
    positions = topics.work()
    kept = [record for record in topics.logs[ARCHIVE] if record.timestamp >= 4_000]
    topics.logs[ARCHIVE], topics.firsts[ARCHIVE] = kept, kept[0].offset
    topics.seen.clear()
    assert topics.newest(positions[1]) is None
    assert len([record for record in topics.seen if record.topic == ARCHIVE[0]]) == 1
    assert (topics.newest(positions[2]), topics.newest(positions[3]).position) == (None, positions[3])


def test_an_archive_is_begun_before_its_first_record_is_written(topics):
    (position,) = topics.work(until=100)
    topics.logs[ARCHIVE] = [record._replace(timestamp=record.timestamp + 3) for record in topics.logs[ARCHIVE]]
    assert topics.newest(position) is not None


def test_a_broker_that_writes_times_of_its_own_costs_a_longer_search(topics):
    positions = topics.work()
    topics.logs[ARCHIVE] = [record._replace(timestamp=record.timestamp - 700) for record in topics.logs[ARCHIVE]]
    assert [topics.newest(position).position for position in positions] == positions


def test_where_positions_went_back_the_archives_behind_are_forgotten(topics):
    positions = topics.work()
    topics.archive(positions[1] + 7)
    assert [entry.position for entry in topics.changelog.archives.entries] == [*positions[:2], positions[1] + 7]
    assert topics.newest(9_999).position == positions[1] + 7


def test_a_long_list_is_thinned_where_it_is_old():
    index = ArchiveIndex("id-1", 0)
    for position in range(1, MAX_ARCHIVES + 2):
        index = index.plus(ArchiveEntry(position, position, "d"))
    positions = [entry.position for entry in index.entries]
    assert positions == [*range(1, MAX_ARCHIVES // 2, 2), *range(MAX_ARCHIVES // 2 + 1, MAX_ARCHIVES + 2)]


@pytest.mark.parametrize("value", [b"?", b"{}", b'{"format": 3, "archives": [[1, "x", "d"]]}'])
def test_a_list_that_cannot_be_read_stops_no_worker(topics, value, caplog):
    topics.work()
    topics.append(SNAPSHOTS, Message(archives_key(TOPIC), value, []))
    assert topics.newest(9_999) is None
    assert "the list of the archives of input topic features cannot be read" in caplog.text


def test_of_two_archives_at_one_position_it_is_the_listed_one(topics):
    (position,) = topics.work(until=100)
    other = streams.task(GIVEN)
    other.process(LOG[:90])
    for task in (other, topics.task, other):
        topics.task = task
        topics.archive(position)
    # A broker that writes times of its own: the topic is searched from its beginning.
    topics.logs[ARCHIVE] = [record._replace(timestamp=0) for record in topics.logs[ARCHIVE]]
    found = topics.newest(position)
    assert {one.stream: one.body for one in found.streams} == {one.stream: one.body for one in other.models.states()}


@pytest.mark.parametrize("change", [{"topic_id": "id-2"}, {"partitions": 2}])
def test_archives_of_another_log_are_not_ours(topics, change):
    topics.work()
    identity = replace(SOURCE.identities[TOPIC], **change)
    assert topics.newest(9_999, replace(SOURCE, identities={TOPIC: identity})) is None


@pytest.mark.parametrize("value", [b"?", b'{"kind":"resonance-snapshots","format":99}\n', b"{}", None])
def test_archives_that_cannot_be_read_are_left_out(topics, value):
    positions = topics.work()
    place = next(
        n for n, record in enumerate(topics.logs[ARCHIVE]) if b'"archive","features",%d,' % positions[-1] in record.key
    )
    topics.logs[ARCHIVE][place] = topics.logs[ARCHIVE][place]._replace(value=value)
    assert topics.newest(9_999).position == positions[-2]


def test_without_a_topic_there_is_none(topics):
    topics.work()
    assert topics.newest(9_999, replace(SOURCE, deployment=replace(SOURCE.deployment, embedded=True))) is None
    del topics.logs[ARCHIVE]
    assert topics.newest(9_999) is None
    del topics.logs[SNAPSHOTS]
    assert topics.newest(9_999) is None


def test_one_is_due_after_the_interval_where_something_was_learned(topics):
    now = 1_000.0
    writer = ArchiveWriter("a", 0, topics.changelog, 60.0, clock=lambda: now, now=lambda: now)
    assert writer.is_due(topics.task, 5)
    list(writer.messages(topics.task, 5, STAMP))
    writer.listed()
    now += 59
    assert not writer.is_due(topics.task, 9)
    now += 1
    assert not writer.is_due(topics.task, 5)
    assert writer.is_due(topics.task, 9)
    now -= 40
    last = topics.changelog.archives.entries[-1]
    went_on = ArchiveWriter("a", 0, topics.changelog, 60.0, last, clock=lambda: now, now=lambda: now)
    now += 39
    assert not went_on.is_due(topics.task, 9)
    now += 1
    assert went_on.is_due(topics.task, 9)


def test_nothing_is_archived_while_a_stream_is_ahead(topics):
    topics.task.process(LOG[:100])
    assert not topics.writer.is_due(topics.task, LOG[98].offset)
    assert topics.writer.is_due(topics.task, LOG[99].offset + 1)


def test_ten_thousand_streams_fit_into_messages(topics):
    task = streams.task(GIVEN)
    task.process(streams.records(streams.points(4_000).tolist(), keys=[b"%0250d" % n for n in range(4_000)]))
    messages = list(ArchiveWriter("a", 0, topics.changelog, 0.0).messages(task, 9_999, STAMP))
    assert len({message.key for message in messages}) == len(messages) > 10
    assert {len(message.value or b"") for message in messages[:-1]} == {512_000}
