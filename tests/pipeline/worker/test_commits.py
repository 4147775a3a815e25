"""When a commit begins, how much is in it, and what is learned meanwhile."""

import time
from itertools import pairwise

import pytest
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, OffsetMetadata
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.worker import commits
from resonance.pipeline.worker.commits import CommitSize

from tests.pipeline.worker.processor_bench import P0, P1, chunk


@pytest.mark.parametrize("committed", [0, -1])
def test_an_offset_behind_the_snapshots_is_committed_at_once(bench, committed):
    b = bench(opened=False, atomic=False)
    b.partitions[P0].position, b.partitions[P0].committed = 7, committed
    b.open()
    b.wait(lambda: b.lines("commit"))
    assert b.lines("commit") == [("commit", {0: 7})]


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


@pytest.mark.parametrize(("streams", "first"), [(1, 16), (499, 16), (500, 64)])
def test_many_streams_are_learned_in_longer_slices(b, streams, first):
    task = b.partitions[P0].task
    task.models = range(streams)
    b.processor.submit(chunk(P0, 0, 100))
    b.wait(lambda: len(task.learned) == 100)
    assert task.parts[0] == first


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


def test_a_new_group_commits_where_it_begins(bench):
    b = bench(opened=False)
    b.partitions[P1].committed = -1
    b.open()
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.lines("commit") == [("commit", {0: 1, 1: 0})])


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
