"""What a processor sends and commits: outputs, snapshots, archives and offsets.

A commit runs in a thread of its own while the next records are learned; their outputs wait for its end, because a
transaction that is being committed takes no more. What has been learned ahead is bounded by `AHEAD_SECONDS`.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from faust.types import TP
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.records import OUTPUT_KINDS, Outputs
from resonance.pipeline.worker.assignment import AssignedPartition, Counters, Histograms
from resonance.pipeline.worker.delivery.delivery import Delivery
from resonance.pipeline.worker.topic_watch import SEND_AGE
from resonance.pipeline.worker.transport.chunk import Membership
from resonance.pipeline.worker.watchdog import WORK_SECONDS, Watchdog

AHEAD_SECONDS: Final = 0.25
"""Time of learning whose outputs may wait for the end of a commit; then learning waits, too."""

CLOSE_SECONDS: Final = 5.0
"""How long a clean stop writes snapshots; the next start learns again what they lack."""

GIVE_UP_SECONDS: Final = 7.0
"""How long a failing worker waits for its transaction to be aborted."""

_log = logging.getLogger(__name__)


def broker_seconds(patience: float) -> float:
    """Return the limit of a step that waits for the outputs, and then for the offsets: a longer wait is a hang."""
    return 2 * patience + WORK_SECONDS


@dataclass(slots=True)
class _Ahead:
    """What was learned, and not sent while a commit goes on."""

    outputs: list[tuple[TP, Outputs]] = field(default_factory=list)
    seconds: float = 0.0
    bytes: int = 0
    records: int = 0


class Commits:
    """Sends and commits what was learned of the owned partitions; used by the processor's thread.

    The `delivery` must be started before `open`. Outputs wait for the commit that closes them for `interval` seconds at
    most, unless much waits (`commit_seconds`). `check_topics` is called before anything counts, from any thread, with
    the seconds that an answer may be old, and raises an error where the topics are not those of the start.
    `ahead_bytes` are those of records whose outputs may wait for the end of a commit, `commit_bytes` most outputs of
    one.
    """

    def __init__(
        self,
        delivery: Delivery,
        topics: Mapping[str, str],
        *,
        interval: float,
        histograms: Histograms | None = None,
        patience: float = 60.0,
        check_topics: Callable[[float], None] = lambda _: None,
        ahead_bytes: int = 64_000_000,
        commit_bytes: int = 16_000_000,
    ) -> None:
        self.delivery, self.topics = delivery, topics
        self.counters, self.histograms = Counters(), histograms or Histograms()
        # Steps of the processor's thread, and of the one of commits.
        self.activity, self.own_activity = Watchdog(), Watchdog()
        self.ended: Callable[[], None] = lambda: None
        """Called in another thread when a commit has ended: `finish_ended` is then to be called."""
        # Replaced as a whole, so that any thread may iterate over it.
        self.partitions: dict[TP, AssignedPartition] = {}
        # How often the event loop has closed this, and up to which of these times it was opened again.
        self.closes, self._opened = 0, -1
        # Since when something waits for a commit; None when everything is committed or being committed.
        self.since: float | None = None
        self.size = CommitSize(patience, commit_bytes)
        # The commit that goes on, with what follows its end.
        self.running: tuple[Future[float], Callable[[float], None]] | None = None
        self._check_topics = check_topics
        self._interval, self._patience, self._broker_seconds = interval, patience, broker_seconds(patience)
        self._thread = ThreadPoolExecutor(1, "commit")
        self._ahead, self._most_ahead = _Ahead(), ahead_bytes
        self._committed_records = 0

    @property
    def is_closing(self) -> bool:
        """Whether the partitions are to be given up: nothing more is learned, and no archive is written."""
        return self._opened != self.closes

    def open(self, membership: Membership, partitions: Mapping[TP, AssignedPartition], closes: int) -> None:
        """Take over partitions, unless they were closed more often than `closes` by now."""
        self.delivery.bind(membership)
        self.partitions = dict(partitions)
        self._opened = closes
        # Commit at once: a start chosen by the end of the log, or by a time, is another one tomorrow; and a partition
        # whose owner ended before it was archived, or between its snapshots and its offset (at least once), may get no
        # record for a year.
        open_ends = any(not part.pinned or max(part.committed, 0) < part.position for part in partitions.values())
        if open_ends or self._next_archive() is not None:
            self.since = time.monotonic() - self._interval

    def close(self, *, everything: bool, lost: bool) -> None:
        """Commit what was learned, or abort it where the partitions are `lost`, and give all partitions up."""
        if lost:
            self._ahead, self.since = _Ahead(), None
        self.finish()
        if lost:
            self.abort()
        elif self.since is not None or (everything and self.partitions):
            until = time.monotonic() + CLOSE_SECONDS if everything else None
            while self.commit(until) and until is not None and time.monotonic() < until:
                pass
            self.finish()
        self.partitions = {}

    def stop(self) -> None:
        """End the thread of commits."""
        self._thread.shutdown(wait=False)

    def abort(self) -> None:
        """Abort what is open, in the thread of commits: beside a commit it would take away what that sends again."""
        try:
            self._thread.submit(self.delivery.abort).result(GIVE_UP_SECONDS)
        except Exception as error:  # a thread that ended without a report would leave a worker that hangs
            _log.debug("not aborted: %s", error)

    @property
    def is_full(self) -> bool:
        """Whether what was sent since the last commit is enough for one."""
        return self.running is None and self.delivery.size >= self.size.limit

    def left(self, record_seconds: float) -> float:
        """Return how long it is until the next commit is due, where a record takes so many seconds to be learned."""
        if self.since is None:
            return float("inf")
        # What a crash repeats was sent at least once since the last commit: readers look for that among so many.
        seconds = self._interval
        if self.delivery.atomic:
            waiting = int(sum(partition.waiting * partition.each for partition in self.partitions.values()))
            seconds = commit_seconds(self._interval, self._patience, waiting, record_seconds)
        return self.since + seconds - time.monotonic()

    def touch(self) -> None:
        """Note that there is something to commit."""
        self.since = self.since or time.monotonic()

    def learned(self, tp: TP, outputs: Outputs, records: int, size: int, seconds: float) -> None:
        """Send the outputs of records, behind the commit that goes on: these had a size, and took so long."""
        ahead = self._ahead
        ahead.outputs.append((tp, outputs))
        ahead.seconds += seconds
        ahead.bytes += size
        ahead.records += records
        far = ahead.seconds >= AHEAD_SECONDS or ahead.bytes >= self._most_ahead or ahead.records >= self.size.records
        if self.running is None or self.running[0].done() or far:
            self.finish()

    def _send(self, tp: TP, outputs: Outputs) -> None:
        self.activity.begin("outputs have been sent", self._broker_seconds)
        began = time.monotonic()
        if not self.delivery.atomic:
            # What is sent counts at once.
            self._check_topics(SEND_AGE)
        self.since = self.since or began
        for kind in OUTPUT_KINDS:
            if messages := outputs.of(kind):
                self.delivery.send(Batch(self.topics[kind], tp.partition, messages))
                self.counters.outputs += len(messages) if kind != "routes" else 0
        self.counters.dead_letters += len(outputs.dead_letters)
        self.counters.send_seconds += time.monotonic() - began

    def commit(self, until: float | None = None) -> bool:
        """Commit what was learned; steps 5 and 6 come while the next records are learned.

        With a time until when, every stream that changed is snapshotted. Returns whether some of them had no room.
        """
        # 1. The commit before this one ends, and what was learned meanwhile is sent.
        self.finish()
        outputs = self.delivery.size
        # 2. Snapshots that are due, behind the outputs of the records that they cover; in turn, should there be many.
        most, written = outputs + self.size.limit, set()
        for tp, partition in sorted(self.partitions.items(), key=lambda one: one[1].last_snapshot):
            if self.delivery.size < most and self._snapshot(tp, partition, until, most):
                written.add(tp)
        left = self.delivery.size >= most
        # 3. One archive that is due; the others come with later commits. Not while closing: other workers wait for the
        # partitions, and the next owner archives them with its first commit.
        if not self.is_closing and (waiting := self._next_archive()) is not None:
            written.add(waiting[0])
            self._archive(*waiting, written)
        self._begin(written, outputs)
        return left

    def _begin(self, written: Collection[TP], outputs: int = 0) -> None:
        """Begin to commit what was sent, `outputs` bytes of it answers, and the offsets of what was learned."""
        # 4. Offsets: of partitions with something new, and of those that a snapshot or an archive describes there.
        offsets = {tp: p.position for tp, p in self.partitions.items() if tp in written or p.position != p.committed}
        notes = {tp: self._note(tp).at(offset) for tp, offset in offsets.items()}
        began, size = time.monotonic(), self.delivery.size
        first = self.since or began
        records, self._committed_records = self.counters.records - self._committed_records, self.counters.records
        self.since = None if self.is_closing or self._next_archive() is None else time.monotonic()

        # 5. Delivery, in the thread of commits; outputs of the next records wait for its end.
        def deliver() -> float:
            with self.own_activity.around("a commit has gone on", self._broker_seconds):
                self._check_topics(0.0)
                self.delivery.commit(offsets, notes)
            return time.monotonic()

        # 6. After its end, in the processor's thread: only now do the offsets count as committed.
        def after(ended: float) -> None:
            self.histograms.transaction.observe(ended - first)
            self.size.note(size, outputs, records, ended - began)
            self.counters.commits += 1
            for tp, offset in offsets.items():
                if tp in self.partitions:
                    self.partitions[tp].committed, self.partitions[tp].metadata = offset, notes[tp]
                    self.partitions[tp].pinned = True

        self.running = self._thread.submit(deliver), after
        # The processor may be waiting for records when the commit ends; a failure must not wait for the next record.
        self.running[0].add_done_callback(lambda _: self.ended())

    def _note(self, tp: TP) -> OffsetMetadata:
        note = self.partitions[tp].note
        # Behind its last commit a worker leaves nothing open.
        return replace(note, owner="") if self.is_closing else note

    def finish_ended(self) -> None:
        """Finish the commit that has ended, unless that was done, and the next one may be running."""
        if self.running is not None and self.running[0].done():
            self.finish()

    def finish(self) -> None:
        """Wait for the running commit, if there is one, and send what was learned meanwhile."""
        if self.running is not None:
            self.activity.begin("a commit has been waited for", self._broker_seconds)
            began = time.monotonic()
            commit, after = self.running
            ended = commit.result()
            self.counters.wait_seconds += time.monotonic() - began
            self.running = None
            after(ended)
        ahead, self._ahead = self._ahead, _Ahead()
        for tp, outputs in ahead.outputs:
            self._send(tp, outputs)

    def _snapshot(self, tp: TP, partition: AssignedPartition, until: float | None, most: int) -> bool:
        """Send a partition's snapshots that are due, or all until a time; return whether there were any.

        None is begun once `most` bytes were sent since the last commit.
        """
        committed = partition.position if self.delivery.atomic else partition.committed
        written = False
        self.activity.begin("snapshots have been sent", self._broker_seconds)
        for message in partition.writer.messages(
            partition.task,
            partition.position,
            committed,
            everything=until is not None,
            go_on=lambda: self.delivery.size < most and (until is None or time.monotonic() < until),
        ):
            if not written:
                self.delivery.settle()
                written = True
            self.delivery.send(Batch(self.topics["snapshots"], tp.partition, (message,)))
            self.activity.begin("snapshots have been sent", self._broker_seconds)
        if written:
            partition.last_snapshot = time.monotonic()
        return written

    def _archive(self, tp: TP, writer: ArchiveWriter, written: Collection[TP]) -> None:
        """Send the archive of a partition, in as many commits as it needs; a close gives it up."""
        part = self.partitions[tp]
        self.activity.begin("an archive has been sent", self._broker_seconds)
        self.delivery.settle()
        for message in writer.messages(part.task, part.position, -1 if part.timestamp is None else part.timestamp):
            self.delivery.send(Batch(writer.topic, tp.partition, (message,)))
            if self.is_full:
                # An archive counts with its last message, and nothing is learned meanwhile.
                self._begin(written)
                self.finish()
                if self.is_closing:
                    return
        # The list of the archives must never name one that is not stored.
        self.delivery.settle()
        self.delivery.send(Batch(self.topics["snapshots"], tp.partition, (writer.listed(),)))

    def _next_archive(self) -> tuple[TP, ArchiveWriter] | None:
        """Return the partition and the writer of the archive that has been due for longest."""
        writers = ((tp, part, part.archive) for tp, part in self.partitions.items() if part.archive is not None)
        due = [(tp, writer) for tp, part, writer in writers if writer.is_due(part.task, part.position)]
        return min(due, key=lambda one: one[1].due_at, default=None)


BACKLOG_SHARE: Final = 0.1
"""Most time between two commits, in parts of the time that what waits will take: an answer comes so much later."""

LONGEST_SECONDS: Final = 0.5
"""Most time of it. Ten commits a second cost a worker at its limit a tenth of its rate, two next to nothing."""

TIMEOUT_SHARE: Final = 0.1
"""Most time of it, and of a commit, in parts of the time after which brokers abort the transaction."""

FIRST_BYTES: Final = 32_000
"""Outputs of the first commit: where a quota of the broker lets 1 kB/s through, they are stored within a minute."""

LEAST_BYTES: Final = 1_000
"""Outputs that a commit may have in any case: also the slowest cluster stores a few answers in time."""


def commit_seconds(interval: float, timeout: float, waiting: int, record_seconds: float) -> float:
    """Return how long outputs may wait for their commit: always `interval`, and longer where much waits to be learned.

    A transaction may last for `timeout`; each of the `waiting` records takes `record_seconds`.
    """
    return max(interval, min(BACKLOG_SHARE * waiting * record_seconds, LONGEST_SECONDS, TIMEOUT_SHARE * timeout))


class CommitSize:
    """How many bytes of outputs a commit may have, as the commits before it went.

    A worker begins with few and doubles them while commits are quick, up to `most`: one that failed because it was too
    much for the cluster, and ended the worker, is not tried again in that size. From `limit` bytes on a commit is due.
    """

    def __init__(self, timeout: float, most: int) -> None:
        self.limit = min(FIRST_BYTES, most)
        self._good = max(TIMEOUT_SHARE * timeout, LONGEST_SECONDS)
        self._most = most
        # Assumed until measured.
        self._record_bytes = 250.0

    @property
    def records(self) -> int:
        """About the number of records whose outputs are a commit."""
        return max(1, int(self.limit / self._record_bytes))

    def note(self, size: int, outputs: int, records: int, seconds: float) -> None:
        """Note a commit: its bytes, those that are answers to so many records, and the seconds that it took."""
        if records:
            self._record_bytes += 0.2 * (outputs / records - self._record_bytes)
        if seconds > self._good:
            self.limit = max(LEAST_BYTES, int(min(size, self.limit) * self._good / seconds))
        elif size >= self.limit // 2:
            self.limit = min(2 * self.limit, self._most)
