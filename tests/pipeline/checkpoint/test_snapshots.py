"""What stands on the snapshots topic, and what a reader makes of it after any interruption."""

import tracemalloc
from dataclasses import replace

import orjson
import pytest
from resonance.pipeline.checkpoint.changelog_records import Identity, chunk_key, manifest_key
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import Record

from tests.pipeline.toy_task import ToyTask

IDENTITY = Identity("pipe", ("in",), "in", "id-1", 4, "toy", "1", {"engine.k": 3})


def record(offset, key=b"a"):
    return Record("in", 0, offset, 0, key, b"value %d" % offset)


def learn(task, start, end, key=b"a"):
    task.process([record(offset, key) for offset in range(start, end)])


def table_of(messages):
    table = ChangelogTable("snap", 0)
    for message in messages:
        table.apply(message.key, message.value)
    return table


def live(messages):
    """Keys that stay on a compacted topic."""
    values = {message.key: message.value for message in messages}
    return [key for key, value in values.items() if value is not None]


def rounds(count, *, size=0, chunk_bytes=1000):
    """The messages of `count` snapshots of one stream, ten records apart; and the task."""
    task, writer, written = ToyTask(size=size), ChangelogWriter(IDENTITY, 0, chunk_bytes=chunk_bytes), []
    for number in range(count):
        learn(task, number * 10, number * 10 + 10)
        written.append(list(writer.messages(task, number * 10 + 10, number * 10 + 10)))
    return written, task


def test_a_snapshot_comes_back_as_it_was():
    written, task = rounds(1, size=2500)
    table = table_of(written[0])
    assert (table.streams("in"), table.streams("other")) == (["p0:a"], [])
    snapshot = table.newest("p0:a")
    assert (snapshot.next, snapshot.header) == (10, {"version": 1})
    assert orjson.loads(snapshot.body) == task.models["p0:a"]
    found = table.records()["in"]
    assert (found.identity, found.recovery_offset, found.position, found.committed) == (IDENTITY, 10, 10, 10)
    assert found.state == b"state of 0"


def test_chunks_come_first_and_the_partition_record_last():
    written, _ = rounds(1, size=2500)
    kinds = [orjson.loads(message.key)[0] for message in written[0]]
    assert kinds == ["chunk", "chunk", "chunk", "manifest", "partition"]
    assert [len(message.value) <= 1000 for message in written[0][:3]] == [True] * 3


def test_keys_cannot_be_confused():
    keys = {chunk_key('p0:"', 1, 0), chunk_key("p0:", 1, 0), chunk_key("p0:,1", 1, 0), chunk_key("p0", 11, 0)}
    keys |= {chunk_key("p0", 1, 10), chunk_key("p0", 1, 1), manifest_key("p0"), manifest_key('p0"')}
    assert len(keys) == 8


def test_the_first_call_writes_a_record_even_when_nothing_is_due():
    task, writer = ToyTask(), ChangelogWriter(IDENTITY, 0)
    learn(task, 5, 8)
    (first,) = writer.messages(task, 8, 8)
    found = table_of([first]).records()["in"]
    assert (found.recovery_offset, found.position) == (5, 8)
    assert list(writer.messages(task, 8, 8)) == []


def test_replay_begins_at_the_lowest_record_without_a_snapshot():
    task, writer = ToyTask(), ChangelogWriter(IDENTITY, 0)
    learn(task, 0, 3, b"slow")
    learn(task, 3, 14, b"quick")
    table = table_of(writer.messages(task, 14, 14))
    assert table.streams("in") == ["p0:quick"]
    assert table.records()["in"].recovery_offset == writer.recovery_offset == 0
    table = table_of(writer.messages(task, 14, 14, everything=True))
    assert (table.streams("in"), table.records()["in"].recovery_offset) == (["p0:slow"], 14)


def test_one_snapshot_stays_and_older_chunks_get_tombstones():
    written, _ = rounds(5, size=2500)
    keys = live(message for messages in written for message in messages)
    chunks = sorted(key for key in keys if b"chunk" in key)
    assert chunks == sorted(chunk_key("p0:a", next_, number) for next_ in (50,) for number in range(3))
    assert len(keys) == len(chunks) + 2


def test_a_version_that_shrinks_leaves_no_chunk_behind():
    task, writer, written = ToyTask(size=5000), ChangelogWriter(IDENTITY, 0, chunk_bytes=1000), []
    for number in range(4):
        learn(task, number * 10, number * 10 + 10)
        written += writer.messages(task, number * 10 + 10, 0)
        task.models.size = 0
    assert sum(b"chunk" in key for key in live(written)) == 1


@pytest.mark.parametrize("size", [0, 2500])
def test_a_write_that_stops_anywhere_leaves_a_usable_snapshot(size):
    written, _ = rounds(4, size=size)
    flat = [(number, message) for number, messages in enumerate(written) for message in messages]
    for stop in range(len(written[0]), len(flat) + 1):
        table = table_of(message for _, message in flat[:stop])
        snapshot = table.newest("p0:a")
        whole = sum(messages[-1] in [m for _, m in flat[:stop]] for messages in written)
        assert snapshot.next in (whole * 10, whole * 10 + 10)
        assert snapshot.next >= table.records()["in"].recovery_offset


@pytest.mark.parametrize(
    ("damage", "problem"), [(None, "1 of its 3 chunks are missing"), (b"x" * 1000, "its checksum is wrong")]
)
def test_a_damaged_snapshot_is_named_with_what_goes_back_before_it(damage, problem):
    written, _ = rounds(3, size=2500)
    table = table_of(message for messages in written for message in messages)
    table.apply(chunk_key("p0:a", 30, 1), damage)
    text = rf"snap\[0\]: the snapshot of stream p0:a at offset 30 cannot .*{problem}.*--to-archive.*--reset"
    with pytest.raises(MismatchError, match=text):
        table.newest("p0:a")


@pytest.mark.parametrize("other", [1, 4])
@pytest.mark.parametrize("kind", ["manifest", "partition"])
def test_another_format_is_refused(kind, other):
    written, _ = rounds(1)
    message = next(m for m in written[0] if orjson.loads(m.key)[0] == kind)
    newer = orjson.dumps(orjson.loads(message.value) | {"format": other})
    table = table_of([message._replace(value=newer)])
    with pytest.raises(MismatchError, match=f"format {other}, this release reads format 3: another release wrote it"):
        table.check()


@pytest.mark.parametrize("value", [b"", b"{}", b'{"format": 3}', b"\xff", b"[]"])
def test_what_another_program_wrote_under_our_keys_is_named_until_it_is_gone(value):
    written, _ = rounds(1)
    table = table_of(written[0])
    table.apply(manifest_key("p0:a"), value)
    with pytest.raises(MismatchError, match=r"snap\[0\]: the manifest of stream p0:a cannot be read"):
        table.check()
    assert table.streams("in") == []
    table.apply(manifest_key("p0:a"), None)
    table.check()


@pytest.mark.parametrize(
    "key", [None, b"", b"hello", b"[]", b'["x"]', b"1", b'{"a": 1, "b": 2}', b'["later", "p0", 1]', b'["manifest", 5]']
)
def test_keys_that_are_not_ours_are_passed_over(key):
    table = ChangelogTable("snap", 0)
    table.apply(key, b"x")
    assert (table.streams("in"), table.records()) == ([], {})


def test_a_snapshot_that_an_earlier_one_has_replaced_is_named_until_its_stream_has_another():
    written, old_task = rounds(1)
    table = table_of(written[0])
    old_owner, new_owner = (table_of(written[0]).writer(IDENTITY) for _ in range(2))
    new_task = ToyTask()
    new_task.restore(table.newest("p0:a"))
    learn(new_task, 10, 40)
    learn(old_task, 10, 25)
    for message in [*new_owner.messages(new_task, 40, 40), *old_owner.messages(old_task, 25, 10)]:
        table.apply(message.key, message.value)
    text = r"snap\[0\]: the snapshot of stream p0:a at offset 40 was replaced by one at 25.*--to-archive.*--reset"
    with pytest.raises(MismatchError, match=text):
        table.check()
    learn(new_task, 40, 50)
    for message in new_owner.messages(new_task, 50, 50):
        table.apply(message.key, message.value)
    table.check()
    assert (table.newest("p0:a").next, table.checkpoint("in").record.recovery_offset) == (50, 50)


@pytest.mark.parametrize(
    ("kind", "what"), [("manifest", "the snapshot of stream p0:a"), ("partition", "the record of")]
)
def test_a_record_of_another_partition_is_never_taken_for_ones_own(kind, what):
    written, _ = rounds(2)
    task, writer = ToyTask(), ChangelogWriter(IDENTITY, 3)
    learn(task, 0, 20)
    others = [message for message in writer.messages(task, 20, 20) if orjson.loads(message.key)[0] == kind]
    table = table_of([*written[0], *others])
    with pytest.raises(MismatchError, match=rf"snap\[0\]: {what}.* was written for partition 3: another.*--reset"):
        table.check()
    # One's own behind it, or a tombstone as of a reset.
    for message in written[1]:
        table.apply(message.key, message.value)
    table.check()
    assert table.newest("p0:a").next == 20


def test_a_snapshot_under_another_streams_key_is_not_used():
    written, _ = rounds(1)
    table = table_of(written[0])
    table.apply(manifest_key("p0:b"), next(m.value for m in written[0] if m.key == manifest_key("p0:a")))
    with pytest.raises(MismatchError, match="the snapshot of stream p0:b was written for p0:a"):
        table.check()


def test_a_snapshot_of_an_earlier_topic_of_the_same_name_is_not_used():
    written, _ = rounds(2)
    table = table_of(written[1])
    writer, task = ChangelogWriter(replace(IDENTITY, topic_id="id-0"), 0), ToyTask()
    learn(task, 0, 20)
    old = {message.key: message.value for message in writer.messages(task, 20, 20)}
    table.apply(manifest_key("p0:a"), old[manifest_key("p0:a")])
    with pytest.raises(MismatchError, match="was written for the topic with id id-0"):
        table.check()


def test_a_list_of_archives_of_another_partition_is_a_stop():
    written, _ = rounds(1)
    table = table_of(written[0])
    message = ChangelogWriter(IDENTITY, 1).archived(10, 1_000)
    table.apply(message.key, message.value)
    with pytest.raises(MismatchError, match="the list of the archives of input topic in was written for partition 1"):
        table.check()


def test_what_is_read_does_not_stay_in_memory():
    task, writer = ToyTask(size=20_000), ChangelogWriter(IDENTITY, 0)
    task.process([record(number, b"%04d" % number) for number in range(1_000)])
    messages = writer.messages(task, 1_000, 1_000, everything=True)
    tracemalloc.start()
    table = table_of(messages)
    checkpoint = table.checkpoint("in")
    fresh = ToyTask()
    checkpoint.restore(fresh)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5_000_000
    assert (fresh.models, len(checkpoint.streams)) == (task.models, 1_000)
    assert [one.stream for one in checkpoint.streams[1:3]] == ["p0:0001", "p0:0002"]
    assert checkpoint.streams[-1].next == 1_000


def test_streams_that_there_is_no_time_for_stay_dirty():
    task, writer, left = ToyTask(), ChangelogWriter(IDENTITY, 0), iter([True, True, False])
    task.process([record(number, b"%d" % number) for number in range(4)])
    table = table_of(writer.messages(task, 4, 4, everything=True, go_on=lambda: next(left)))
    assert table.streams("in") == ["p0:0", "p0:1"]
    assert table.records()["in"].recovery_offset == 2
    assert task.models.pending(everything=True) == ["p0:2", "p0:3"]
