"""The processor's order of things, with a delivery and tasks that write down their calls."""

import functools
import queue
import threading
import time
from itertools import pairwise

import pytest
from faust.types import TP
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, OffsetMetadata
from resonance.pipeline.errors import DeliveryError, MismatchError
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Message, Outputs, Record
from resonance.pipeline.worker import commits
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.commits import Commits, CommitSize
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.chunk import Chunk, Membership
from resonance.pipeline.worker.watchdog import Watchdog

P0, P1 = TP("in", 0), TP("in", 1)
MEMBER = Membership(1, "m", frozenset((P0, P1)))
DESTINATIONS = {"assignments": "answers", "cluster_events": "events", "dead_letters": "dead"}
DESTINATIONS |= {kind: kind for kind in ("clusters", "snapshots")}


class Diary:
    """A delivery that writes down what happens; `gate` holds a commit back."""

    def __init__(self, atomic=True):
        self.atomic, self.size = atomic, 0
        self.lines, self.gate, self.failure = [], threading.Event(), None
        self.gate.set()
        self.committing = threading.Event()

    def start(self):
        pass

    def bind(self, membership):
        self.lines.append(("bind", membership.generation))

    def send(self, batch):
        assert not self.committing.is_set()
        self.lines.append((batch.topic, batch.partition, [message.value for message in batch.messages]))
        self.size += batch.size

    def settle(self):
        self.lines.append(("settle",))

    def commit(self, offsets, notes):
        self.committing.set()
        assert self.gate.wait(5)
        if self.failure:
            raise self.failure
        self.notes = notes
        self.lines.append(("commit", {tp.partition: offset for tp, offset in offsets.items()}))
        self.size = 0
        self.committing.clear()

    def abort(self):
        self.lines.append(("abort",))


class Echo:
    """A task that answers every record with its offset, without a value as a dead letter; `gate` holds it back."""

    def __init__(self):
        self.learned, self.models, self.parts, self.records = [], (), [], 0
        self.learning, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def messages(self, found, start, records):
        return records

    def process(self, records):
        self.learning.set()
        assert self.gate.wait(5)
        self.parts.append(len(records))
        self.records += len(records)
        self.learned += [record.offset for record in records]
        good, bad = ([r for r in records if (r.value is None) is dead] for dead in (False, True))
        return Outputs(*([Message(None, b"%d" % record.offset, []) for record in some] for some in (good, [], bad)))


class Writer:
    """A snapshot writer with one message whenever `due`."""

    def __init__(self):
        self.due = False

    def messages(self, task, position, committed, *, everything=False, go_on):
        if self.due or everything:
            yield Message(b"k", b"%d of %d%s" % (position, committed, b" all" if everything and go_on() else b""), [])


def chunk(tp, first, count, next_offset=None, waiting=0, value=b"", position=None):
    records = [Record(tp.topic, tp.partition, first + n, 0, None, value) for n in range(count)]
    columns = RecordColumns.of(records) if records else ()
    begins = first if position is None else position
    return Chunk(tp, columns, next_offset or first + count, position=begins, seek=1, generation=1, waiting=waiting)


class Bench:
    def __init__(self, interval=30.0, atomic=True, check_topics=lambda _: None):
        self.diary, self.done, self.failures = Diary(atomic), queue.SimpleQueue(), queue.SimpleQueue()
        self.processor = Processor(
            Commits(self.diary, DESTINATIONS, interval=interval, check_topics=check_topics),
            done=self.done.put,
            failed=self.failures.put,
            pauses=DeadLetterBreaker(DESTINATIONS["dead_letters"], window=10),
        )
        self.partitions = {tp: AssignedPartition(Echo(), Writer(), 0, 0) for tp in (P0, P1)}
        self.processor.start()

    def open(self):
        self.processor.open(MEMBER, self.partitions).result(5)

    def close(self, **how):
        self.processor.close(**how).result(5)

    def hold(self, *chunks):
        """Submit chunks of the first partition, and hold the first one back in its task, which is returned."""
        task = self.partitions[P0].task
        task.gate.clear()
        for each in chunks:
            self.processor.submit(each)
        assert task.learning.wait(5)
        return task

    def lines(self, kind):
        return [line for line in self.diary.lines if line[0] == kind]

    def learn_while_committing(self):
        """Hold the commit of a first record back until the next one is learned."""
        self.diary.gate.clear()
        self.processor.submit(chunk(P0, 0, 1))
        self.wait(self.diary.committing.is_set)
        self.processor.submit(chunk(P0, 1, 1))
        self.wait(lambda: self.partitions[P0].task.learned == [0, 1])

    def wait(self, condition):
        end = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.002)


@pytest.fixture
def bench():
    made = []

    def make(*, opened=True, **settings):
        made.append(Bench(**settings))
        if opened:
            made[-1].open()
        return made[-1]

    yield make
    for each in made:
        each.diary.gate.set()
        each.processor.stop()


@pytest.fixture
def b(bench):
    """A processor whose partitions are open."""
    return bench()


@pytest.mark.parametrize("committed", [0, -1])
def test_an_offset_behind_the_snapshots_is_committed_at_once(bench, committed):
    b = bench(opened=False, atomic=False)
    b.partitions[P0].position, b.partitions[P0].committed = 7, committed
    b.open()
    b.wait(lambda: b.lines("commit"))
    assert b.lines("commit") == [("commit", {0: 7})]


@pytest.mark.parametrize(("streams", "first"), [(1, 16), (499, 16), (500, 64)])
def test_many_streams_are_learned_in_longer_slices(b, streams, first):
    task = b.partitions[P0].task
    task.models = range(streams)
    b.processor.submit(chunk(P0, 0, 100))
    b.wait(lambda: len(task.learned) == 100)
    assert task.parts[0] == first


def test_everything_is_committed_when_nothing_more_waits(b):
    b.processor.submit(chunk(P0, 0, 2, waiting=1))
    b.processor.submit(chunk(P1, 5, 1, next_offset=9, position=0))
    b.processor.submit(chunk(P0, 2, 1, next_offset=4))
    b.wait(lambda: b.lines("commit"))
    answers = [("answers", 0, [b"0", b"1"]), ("answers", 1, [b"5"]), ("answers", 0, [b"2"])]
    assert b.diary.lines == [("bind", 1), *answers, ("commit", {0: 4, 1: 9})]
    assert b.done.qsize() == 3


def test_a_timer_closes_what_no_further_record_does(bench):
    b = bench(interval=0.05)
    b.processor.submit(chunk(P0, 0, 1, waiting=1))
    b.wait(lambda: b.lines("commit"))


def test_commits_are_rarer_while_much_waits(bench, monkeypatch):
    for limit in ("LONGEST_SECONDS", "TIMEOUT_SHARE"):
        monkeypatch.setattr(commits, limit, 1e9)
    b = bench(interval=0.01)
    b.partitions[P0].waiting = 10**12
    b.processor.submit(chunk(P0, 0, 20, waiting=10**12))
    b.wait(lambda: b.done.qsize() == 1)
    time.sleep(0.05)
    assert b.lines("commit") == []
    b.processor.submit(chunk(P0, 20, 1, waiting=1))
    b.wait(lambda: b.lines("commit") == [("commit", {0: 21})])


def test_at_least_once_commits_at_the_usual_time(bench):
    b = bench(interval=0.01, atomic=False)
    b.partitions[P0].waiting = 10**12
    b.processor.submit(chunk(P0, 0, 20, waiting=10**12))
    b.wait(lambda: b.lines("commit") == [("commit", {0: 20})])


def test_at_least_once_does_not_commit_because_nothing_waits(bench):
    b = bench(atomic=False)
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.lines("answers") and b.processor._inbox.empty)
    time.sleep(0.05)
    assert b.lines("commit") == []
    b.close()
    assert b.lines("commit") == [("commit", {0: 1})]


@pytest.mark.parametrize(
    ("interval", "timeout", "waiting", "expected"),
    [
        (0.1, 60.0, 0, 0.1),
        (0.1, 60.0, 100_000, 0.1),
        (0.1, 60.0, 300_000, 0.3),
        (0.1, 60.0, 10**9, 0.5),
        (0.1, 2.0, 10**9, 0.2),
        (0.4, 1.0, 10**9, 0.4),
        (20.0, 60.0, 10**9, 20.0),
    ],
)
def test_a_commit_waits_for_a_part_of_what_a_backlog_takes(interval, timeout, waiting, expected):
    assert commits.commit_seconds(interval, timeout, waiting, 1e-5) == pytest.approx(expected)


def test_commits_begin_small_double_while_they_are_quick_and_shrink_to_what_is_stored_in_time():
    size = CommitSize(60.0, 1_000_000)
    limits = []
    for _ in range(7):
        limits.append(size.limit)
        size.note(size.limit, 2_500, 10, 0.1)
    assert limits == [32_000, 64_000, 128_000, 256_000, 512_000, 1_000_000, 1_000_000]
    size.note(1_000_000, 2_500, 10, 24.0)
    assert size.limit == 250_000
    # A small one says nothing of large ones, unless it was slow.
    size.note(100, 100, 1, 0.1)
    assert size.limit == 250_000
    size.note(100, 100, 1, 24.0)
    assert size.limit == 1_000


def test_a_commit_has_no_more_outputs_than_the_broker_stores_soon(b):
    b.processor.commits.size = size = CommitSize(60.0, 10)
    size._record_bytes = 1.0
    b.processor.submit(chunk(P0, 0, 35, waiting=10**12))
    b.wait(lambda: b.done.qsize() == 1)
    b.wait(lambda: len(b.lines("commit")) >= 4)
    ends = [0, *(commit[1][0] for commit in b.lines("commit"))]
    assert max(after - before for before, after in pairwise(ends)) <= 10
    assert max(b.partitions[P0].task.parts) <= 10


def test_only_positions_that_changed_are_committed_by_markers_alone_as_well(b):
    b.processor.submit(chunk(P0, 7, 0, next_offset=7, position=0))
    b.wait(lambda: b.lines("commit") == [("commit", {0: 7})])
    b.processor.submit(chunk(P1, 0, 1))
    b.wait(lambda: b.lines("commit") == [("commit", {0: 7}), ("commit", {1: 1})])


class Shelf:
    """An archive writer that is due until it has written."""

    topic = "archive"

    def __init__(self, due_at=0.0):
        self.positions, self.due_at = [], due_at

    def is_due(self, task, position):
        return position > 0 and not self.positions

    def messages(self, task, position, timestamp):
        self.positions.append(position)
        yield Message(b"k", b"%d at %d" % (position, timestamp), [])

    def listed(self):
        return Message(b"l", b"listed %d" % self.positions[-1], [])


def test_an_archive_stands_at_the_position_that_is_committed_with_it(bench):
    b = bench(opened=False)
    for partition in b.partitions.values():
        partition.archive = Shelf()
    b.open()
    b.processor.submit(chunk(P0, 0, 1, waiting=1))
    b.processor.submit(chunk(P1, 5, 2, waiting=1, position=0))
    b.processor.submit(chunk(P1, 7, 1))
    b.processor.submit(chunk(P0, 1, 1))
    b.wait(lambda: len(b.lines("commit")) == 2)
    first = [("settle",), ("archive", 0, [b"2 at 0"]), ("settle",), ("snapshots", 0, [b"listed 2"])]
    # The other one waits for no record.
    second = [("settle",), ("archive", 1, [b"8 at 0"]), ("settle",), ("snapshots", 1, [b"listed 8"])]
    assert b.diary.lines[-10:] == [*first, ("commit", {0: 2, 1: 8}), *second, ("commit", {1: 8})]


class Chapters:
    """A snapshot writer with some streams of eight bytes each, as long as there is room."""

    def __init__(self, streams):
        self.streams = streams

    def messages(self, task, position, committed, *, everything=False, go_on):
        while self.streams and go_on():
            self.streams -= 1
            yield Message(b"k", b"snapshot", [])


def test_snapshots_of_a_commit_are_bounded_together_and_come_in_turn(b):
    b.processor.commits.size = CommitSize(60.0, 32)
    for partition in b.partitions.values():
        partition.writer = Chapters(6)
    for offset in range(4):
        b.processor.submit(chunk(P0, offset, 1))
        b.wait(lambda offset=offset: len(b.lines("commit")) == offset + 1)
    ends = [at for at, line in enumerate(b.diary.lines) if line[0] == "commit"]
    parts = [b.diary.lines[first:end] for first, end in pairwise([0, *ends])]
    sent = [[line[1] for line in part if line[0] == "snapshots"] for part in parts]
    assert sent == [[0] * 4, [1] * 4, [0] * 2 + [1] * 2, []]


def test_a_clean_stop_writes_all_snapshots_in_as_many_commits_as_they_need(b):
    b.processor.commits.size = CommitSize(60.0, 16)
    b.partitions[P0].writer, b.partitions[P1].writer = Chapters(5), Chapters(2)
    b.close(everything=True)
    assert len(b.lines("snapshots")) == 7
    assert len(b.lines("commit")) == 4


def test_a_close_gives_an_archive_up_that_takes_several_commits(bench):
    b = bench(opened=False)
    b.open()
    b.processor.commits.size = CommitSize(60.0, 8)
    shelf = b.partitions[P0].archive = Shelf()

    def endless(*_):
        while True:
            yield Message(b"k", b"12345678", [])

    shelf.messages = endless
    b.processor.submit(chunk(P0, 0, 2))
    b.wait(lambda: len(b.lines("commit")) >= 3)
    b.close()
    assert b.lines("snapshots") == []
    assert {line[1].get(0) for line in b.lines("commit")} == {2}


def test_a_large_archive_takes_several_commits_and_counts_with_the_last(bench):
    b = bench(opened=False)
    shelf = b.partitions[P0].archive = Shelf()
    shelf.messages = lambda *_: (shelf.positions.append(2), *(Message(b"k", b"12345678", []) for _ in range(3)))[1:]
    b.open()
    b.processor.commits.size = CommitSize(60.0, 16)
    b.processor.submit(chunk(P0, 0, 2))
    b.wait(lambda: len(b.lines("commit")) == 2)
    part, done = ("archive", 0, [b"12345678"]), ("commit", {0: 2})
    listed = [("settle",), ("snapshots", 0, [b"listed 2"])]
    assert b.diary.lines[-7:] == [part, part, done, part, *listed, done]


def test_the_partition_that_has_waited_longest_is_archived_first(bench):
    b = bench(opened=False)
    b.partitions[P0].archive, b.partitions[P1].archive = Shelf(7.0), Shelf(6.0)
    b.open()
    b.processor.submit(chunk(P0, 0, 1, waiting=1))
    b.processor.submit(chunk(P1, 5, 2, position=0))
    b.processor.submit(chunk(P0, 1, 1))
    b.wait(lambda: len(b.lines("archive")) == 2)
    assert b.lines("archive") == [("archive", 1, [b"7 at 0"]), ("archive", 0, [b"2 at 0"])]


def test_a_close_that_comes_before_its_opening_is_carried_out_stands(bench):
    b = bench(opened=False)
    part = b.partitions[P0]
    part.note, part.position, part.archive = OffsetMetadata("id", True, owner="me"), 7, Shelf()
    gate = threading.Event()
    b.processor._inbox.call(gate.wait)
    b.processor.open(MEMBER, b.partitions)
    b.processor.submit(chunk(P0, 7, 1))
    closed = b.processor.close()
    gate.set()
    closed.result(5)
    # What is left open has no owner: the note of the last commit names no owner, and no archive is begun.
    assert b.diary.lines == [("bind", 1), ("commit", {0: 7})]
    assert OffsetMetadata.read(CommittedOffset(7, b.diary.notes[P0])).owner == ""


def test_no_archive_is_waited_for_to_take_partitions_over(bench):
    b = bench(interval=60.0)
    b.processor.submit(chunk(P0, 0, 2, waiting=1))
    b.wait(lambda: b.done.qsize() == 1)
    b.partitions[P0].archive = Shelf()
    b.close()
    assert b.lines("commit") == [("commit", {0: 2})]
    assert not b.lines("archive")


def test_what_the_last_owner_did_not_archive_is_archived_although_no_record_comes(bench):
    b = bench(interval=60.0, opened=False)
    for partition in b.partitions.values():
        partition.archive, partition.position = Shelf(), 7
    b.open()
    b.wait(lambda: len(b.lines("commit")) == 2)
    assert sorted(b.lines("archive")) == [("archive", 0, [b"7 at -1"]), ("archive", 1, [b"7 at -1"])]


@pytest.mark.parametrize(("atomic", "committed"), [(True, b"1 of 1"), (False, b"1 of 0")])
def test_snapshots_follow_outputs_that_are_settled(bench, atomic, committed):
    b = bench(interval=0.01, atomic=atomic, opened=False)
    b.partitions[P0].writer.due = True
    b.open()
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.lines("commit"))
    snapshot = [("settle",), ("snapshots", 0, [committed])]
    assert b.diary.lines[1:] == [("answers", 0, [b"0"]), *snapshot, ("commit", {0: 1})]


def test_learning_goes_on_for_a_while_while_a_commit_runs(b, monkeypatch):
    b.learn_while_committing()
    task = b.partitions[P0].task
    b.processor.submit(chunk(P0, 2, 3, waiting=1))
    b.wait(lambda: task.learned == [0, 1, 2, 3, 4])
    monkeypatch.setattr(commits, "AHEAD_SECONDS", 0.0)
    b.processor.submit(chunk(P0, 5, 1, waiting=1))
    b.processor.submit(chunk(P0, 6, 1))
    b.wait(lambda: task.learned == [0, 1, 2, 3, 4, 5])
    time.sleep(0.05)
    assert task.learned[-1] == 5
    b.diary.gate.set()
    b.wait(lambda: b.lines("commit")[-1:] == [("commit", {0: 7})])
    sent = [value for _, _, values in b.lines("answers") for value in values]
    assert sent == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]


def test_learning_does_not_wait_for_a_commit_because_the_one_before_has_ended(bench):
    b = bench(interval=1e-9)
    task = b.partitions[P0].task
    b.diary.gate.clear()
    b.processor.submit(chunk(P0, 0, 1, waiting=1))
    b.wait(b.diary.committing.is_set)
    task.learning.clear()
    b.hold(chunk(P0, 1, 1, waiting=1))
    b.diary.gate.set()
    b.wait(lambda: b.lines("commit") == [("commit", {0: 1})])
    b.diary.gate.clear()
    task.gate.set()
    b.wait(b.diary.committing.is_set)
    b.processor.submit(chunk(P0, 2, 1, waiting=1))
    b.wait(lambda: task.learned == [0, 1, 2])
    assert b.lines("commit") == [("commit", {0: 1})]
    b.diary.gate.set()
    b.wait(lambda: b.lines("commit")[-1:] == [("commit", {0: 3})])


def test_closing_commits_what_was_learned_and_drops_what_waits(b):
    task = b.hold(*(chunk(P0, first, 100, waiting=1) for first in range(0, 5000, 100)))
    closing = b.processor.close()
    task.gate.set()
    closing.result(5)
    # The piece that was in work, and no further one.
    assert (task.learned, b.lines("commit")) == (list(range(16)), [("commit", {0: 16})])
    b.wait(lambda: b.done.qsize() == 50)
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.done.qsize() == 51)
    assert len(task.learned) == 16


def test_of_lost_partitions_everything_open_is_aborted_and_the_next_assignment_is_processed(b):
    b.processor.submit(chunk(P0, 0, 2, waiting=1))
    b.wait(lambda: b.lines("answers"))
    b.close(lost=True)
    assert b.diary.lines[1:] == [("answers", 0, [b"0", b"1"]), ("abort",)]
    assert (b.processor.partitions, b.failures.empty()) == ({}, True)
    b.processor.submit(chunk(P0, 2, 1))
    b.partitions = {P0: AssignedPartition(Echo(), Writer(), 0, 0)}
    b.open()
    b.processor.submit(chunk(P0, 0, 3))
    b.wait(lambda: b.lines("commit"))
    again = [("bind", 1), ("answers", 0, [b"0", b"1", b"2"]), ("commit", {0: 3})]
    assert b.diary.lines[3:] == again
    assert b.done.qsize() == 3


def test_no_commit_is_begun_once_partitions_are_lost(bench):
    b = bench(interval=0.0)
    task = b.hold(chunk(P0, 0, 1, waiting=1), chunk(P0, 1, 1))
    closed = b.processor.close(lost=True)
    task.gate.set()
    closed.result(5)
    assert b.diary.lines[1:] == [("answers", 0, [b"0"]), ("abort",)]


def test_of_lost_partitions_a_commit_that_runs_ends_before_what_is_open_is_aborted(b):
    b.learn_while_committing()
    closed = b.processor.close(lost=True)
    time.sleep(0.05)
    assert not closed.done()
    b.diary.gate.set()
    closed.result(5)
    # What was learned beside it is not sent.
    assert b.diary.lines[1:] == [("answers", 0, [b"0"]), ("commit", {0: 1}), ("abort",)]


def test_a_commit_that_is_refused_because_partitions_are_lost_ends_the_worker(b):
    b.diary.failure = DeliveryError("no member")
    b.learn_while_committing()
    closed = b.processor.close(lost=True)
    b.diary.gate.set()
    with pytest.raises(DeliveryError, match="no member"):
        closed.result(5)
    assert str(b.failures.get(timeout=5)) == "no member"
    assert b.diary.lines[-1] == ("abort",)


@pytest.mark.parametrize(("seconds", "said"), [(60.0, b" all"), (0.0, b"")])
def test_a_clean_stop_snapshots_everything_for_a_limited_time(bench, monkeypatch, seconds, said):
    monkeypatch.setattr(commits, "CLOSE_SECONDS", seconds)
    b = bench()
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.lines("commit"))
    b.close(everything=True)
    snapshots = [("settle",), ("snapshots", 0, [b"1 of 1" + said]), ("settle",), ("snapshots", 1, [b"0 of 0" + said])]
    assert b.diary.lines[3:] == [*snapshots, ("commit", {0: 1, 1: 0})]


def test_a_new_group_commits_where_it_begins(bench):
    b = bench(opened=False)
    b.partitions[P1].committed = -1
    b.open()
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.lines("commit") == [("commit", {0: 1, 1: 0})])


def test_closing_twice_and_without_partitions_does_nothing(bench):
    b = bench(opened=False)
    b.close()
    b.close(everything=True)
    assert b.diary.lines == []


def test_a_failed_commit_ends_everything_at_once(b):
    b.diary.failure = DeliveryError("no")
    b.processor.submit(chunk(P0, 0, 1))
    assert b.failures.get(timeout=5) is b.diary.failure
    assert b.diary.lines[-1] == ("abort",)
    with pytest.raises(DeliveryError, match="no"):
        b.close()
    assert b.lines("commit") == []


def test_a_failure_is_reported_even_where_nothing_can_be_aborted(b):
    b.diary.failure, b.diary.abort = DeliveryError("no"), lambda: 1 / 0
    b.processor.submit(chunk(P0, 0, 1))
    assert b.failures.get(timeout=5) is b.diary.failure


def test_who_waits_is_reported_of_a_failure_at_once(b):
    b.learn_while_committing()
    closing = b.processor.close(everything=True)
    b.diary.failure = DeliveryError("no")
    b.diary.gate.set()
    assert closing.exception(timeout=1) is b.diary.failure
    assert b.failures.get(timeout=5) is b.diary.failure


def test_a_cancelled_close_does_not_harm_the_processor(b):
    task = b.hold(chunk(P0, 0, 1))
    assert b.processor.close().cancel()
    task.gate.set()
    b.open()
    assert b.failures.empty()


def test_an_error_from_elsewhere_aborts_what_is_open(b):
    b.processor.submit(chunk(P0, 0, 1, waiting=1))
    b.wait(lambda: b.lines("answers"))
    b.processor.give_up(DeliveryError("a named stop"))
    assert b.diary.lines[-1] == ("abort",)
    assert b.lines("commit") == []
    b.processor.give_up(DeliveryError("again"))


def test_a_failing_task_commits_nothing(bench):
    b = bench(opened=False)
    b.partitions[P0].task.process = lambda records: 1 / 0
    b.open()
    b.processor.submit(chunk(P0, 0, 1))
    assert isinstance(b.failures.get(timeout=5), ZeroDivisionError)
    assert b.lines("commit") == []


@pytest.mark.parametrize(
    ("first", "said"), [(2, "in[0]@2 was read again behind 3"), (5, "in[0]@5 was read, and not what comes behind 3")]
)
def test_records_that_are_not_the_next_ones_are_refused(b, first, said):
    b.processor.submit(chunk(P0, 0, 3, waiting=1))
    b.processor.submit(chunk(P0, first, 1))
    assert said in str(b.failures.get(timeout=5))
    assert b.lines("commit") == []


def test_too_many_dead_letters_pause_a_partition_and_it_goes_on_at_the_next_record(b, caplog):
    learned = [b.partitions[tp].task.learned for tp in (P0, P1)]
    # A slice has 16 records: the chunk is left in its middle. All are there before the commit that the pause begins.
    of_first = (chunk(P0, 0, 20, waiting=1, value=None), chunk(P0, 20, 5, next_offset=26, waiting=1))
    b.hold(*of_first, chunk(P1, 0, 3), chunk(P0, 26, 0, next_offset=30)).gate.set()
    b.wait(lambda: b.lines("commit") == [("commit", {0: 16, 1: 3})])
    assert (learned, b.done.qsize(), list(b.processor.pauses.paused)) == ([list(range(16)), [0, 1, 2]], 4, [P0])
    why = b.processor.pauses.paused[P0]
    assert why.startswith("in[0] is paused before offset 16: 16 dead letters among its last 16 records are more than ")
    assert "resonance dlq resume --worker http://127.0.0.1:6066 --partition 'in[0]'" in why
    assert caplog.messages.count(why) == 1
    b.processor.resume([P0, P1]).result(5)
    b.wait(lambda: b.lines("commit")[1:] == [("commit", {0: 30})])
    assert learned[0] == list(range(25))
    assert not b.processor.pauses.paused


def test_what_waits_is_held_back_again_where_it_is_no_better(b):
    for first in range(0, 48, 8):
        b.processor.submit(chunk(P0, first, 8, value=None))
    for rounds in (1, 2, 3):
        b.wait(lambda rounds=rounds: b.partitions[P0].task.learned == list(range(8 * rounds)))
        b.wait(lambda: P0 in b.processor.pauses.paused)
        b.processor.resume([P0]).result(5)
    b.close()
    assert b.lines("commit")[-1] == ("commit", {0: 32})


def test_a_partition_that_is_given_up_begins_with_a_fresh_window(b):
    b.processor.submit(chunk(P0, 0, 8, value=None))
    b.processor.submit(chunk(P0, 8, 8))
    b.wait(lambda: P0 in b.processor.pauses.paused)
    b.close()
    assert b.lines("commit")[-1] == ("commit", {0: 8})
    assert not b.processor.pauses.paused
    b.open()
    b.processor.submit(chunk(P0, 8, 8))
    b.wait(lambda: b.partitions[P0].task.learned == list(range(16)))
    b.processor.resume([P0]).result(5)
    assert b.partitions[P0].task.learned == list(range(16))


def test_what_was_done_is_measured(b):
    task = b.hold(chunk(P0, 0, 2))
    time.sleep(0.02)
    task.gate.set()
    b.wait(lambda: b.processor.counters.commits)
    batch, transaction = b.processor.commits.histograms.batch, b.processor.commits.histograms.transaction
    (batch,), (transaction,) = batch.collect(), transaction.collect()
    found = [{each.name: each.value for each in one.samples} for one in (batch, transaction)]
    assert [one[f"{name}_count"] for one, name in zip(found, (batch.name, transaction.name), strict=True)] == [1, 1]
    assert found[0]["resonance_batch_seconds_sum"] >= 0.02


@pytest.fixture
def clock(monkeypatch):
    """Return the seconds that the watch over the processor's threads reads; a test moves them."""
    now = [1000.0]
    watch = functools.partial(Watchdog, lambda: now[0])
    monkeypatch.setattr("resonance.pipeline.worker.commits.Watchdog", watch)
    return now


def test_a_kernel_that_never_returns_is_a_hang_and_a_thread_without_work_is_none(clock):
    bench = Bench()
    bench.open()
    task = bench.hold(chunk(P0, 7, 3, position=0))
    clock[0] += 60
    assert bench.processor.hang() == ""
    clock[0] += 1
    assert bench.processor.hang() == "in[0]@7 has been learned for 61 s (at most 60 s are fine)"
    task.gate.set()
    bench.close()
    clock[0] += 10_000
    bench.wait(lambda: not bench.processor.hang())


def test_a_commit_that_waits_for_the_broker_is_a_hang_only_when_it_should_have_given_up(clock):
    bench = Bench(interval=0)
    bench.open()
    bench.diary.gate.clear()
    bench.processor.submit(chunk(P0, 0, 1))
    bench.wait(bench.diary.committing.is_set)
    # The processor's own thread still has to come to rest.
    bench.wait(lambda: bench.processor._activity._step is None)
    # A commit is given up after 60 s, for the outputs and for the offsets each: 120 s are waiting.
    clock[0] += 9
    assert bench.processor.overdue() == ""
    clock[0] += 2
    assert bench.processor.hang() == ""
    assert bench.processor.overdue() == "a commit has gone on for 11 s; look at the brokers"
    clock[0] += 170
    assert bench.processor.hang() == "a commit has gone on for 181 s (at most 180 s are fine)"
    bench.diary.gate.set()
    bench.close()
    bench.wait(lambda: not bench.processor.hang())


@pytest.mark.parametrize("atomic", [True, False])
def test_nothing_counts_of_a_topic_that_changed(bench, atomic):
    def changed(_):
        raise MismatchError("made again")

    b = bench(atomic=atomic, check_topics=changed)
    b.processor.submit(chunk(P0, 0, 2))
    assert "made again" in str(b.failures.get(timeout=5))
    assert b.lines("commit") == []
    # In a transaction outputs count with the commit, else as soon as they are sent.
    assert len(b.lines("answers")) == int(atomic)
    assert b.diary.lines[-1] == ("abort",)


def test_the_note_beside_an_offset_names_topic_and_offset(bench):
    b = bench(opened=False)
    b.partitions[P0].note = OffsetMetadata("id-1", reproducible=True)
    b.open()
    b.processor.submit(chunk(P0, 0, 2))
    b.wait(lambda: b.lines("commit"))
    assert OffsetMetadata.read(CommittedOffset(2, b.diary.notes[P0])) == b.partitions[P0].note
    assert OffsetMetadata.read(CommittedOffset(3, b.diary.notes[P0])) is None
