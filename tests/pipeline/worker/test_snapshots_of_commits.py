"""Snapshots and archives among the outputs of a commit, and how many commits they take."""

import threading
from itertools import pairwise

import pytest
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, OffsetMetadata
from resonance.pipeline.records import Message
from resonance.pipeline.worker import commits
from resonance.pipeline.worker.commits import CommitSize

from tests.pipeline.worker.processor_bench import MEMBER, P0, P1, chunk


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


class Chapters:
    """A snapshot writer with some streams of eight bytes each, as long as there is room."""

    def __init__(self, streams):
        self.streams = streams

    def messages(self, task, position, committed, *, everything=False, go_on):
        while self.streams and go_on():
            self.streams -= 1
            yield Message(b"k", b"snapshot", [])


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


@pytest.mark.parametrize(("seconds", "said"), [(60.0, b" all"), (0.0, b"")])
def test_a_clean_stop_snapshots_everything_for_a_limited_time(bench, monkeypatch, seconds, said):
    monkeypatch.setattr(commits, "CLOSE_SECONDS", seconds)
    b = bench()
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.lines("commit"))
    b.close(everything=True)
    snapshots = [("settle",), ("snapshots", 0, [b"1 of 1" + said]), ("settle",), ("snapshots", 1, [b"0 of 0" + said])]
    assert b.diary.lines[3:] == [*snapshots, ("commit", {0: 1, 1: 0})]
