"""The thread in which chunks become outputs: learn, send, commit, one chunk after the other.

It keeps the event loop free for heartbeats and rebalances, and it decides the order of all steps. A commit runs in a
thread of its own while the next records are learned; their outputs wait for its end, because a transaction that is
being committed takes no more. What has been learned ahead is bounded by `AHEAD_SECONDS`.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from faust.types import TP
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.offset_note import OffsetNote
from resonance.pipeline.crash_points import reach
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import OUTPUT_KINDS, Outputs
from resonance.pipeline.worker.assignment import AssignedPartition, Counters, Histograms
from resonance.pipeline.worker.command_queue import Inbox, Item
from resonance.pipeline.worker.commit_interval import CommitSize, commit_seconds
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker
from resonance.pipeline.worker.delivery.delivery import Delivery
from resonance.pipeline.worker.topic_watch import SEND_AGE
from resonance.pipeline.worker.transport.chunk import Chunk, Membership
from resonance.pipeline.worker.watchdog import WORK_SECONDS, Watchdog

SLICE_SECONDS: Final = 0.25
"""About the longest time between two checks for the event loop's requests, however slow the engine is."""

MANY_STREAMS: Final = 500
"""Streams of a partition from which that is `LONG_SLICE_SECONDS`."""

LONG_SLICE_SECONDS: Final = 1.0
"""The model of each stream has to come into the caches of the processor: the more records it then has, the better."""

SLICE_RECORDS: Final = 16
"""Fewest records learned between two checks."""

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


class Processor:
    """Processes the chunks of the owned partitions.

    Parameters
    ----------
    delivery : Delivery
        Must be started before `open`.
    topics : mapping of str to str
        Names of the topics of the outputs and of the snapshots, by kind.
    commit_interval : float
        Seconds between the first output and the commit that closes it, at most, unless much waits (`commit_seconds`).
    done : callable
        Called in the processor's thread for each submitted chunk that is processed, held or dropped.
    failed : callable
        Called once in the processor's thread, with the error that ended it; nothing was committed after the error.
    patience : float
        Seconds after which the delivery gives up waiting for the broker.
    check_topics : callable
        Called before anything counts, from any thread, with the seconds that an answer may be old: raises an error
        where the topics are not those of the start.
    ahead_bytes : int
        Records whose outputs may wait for the end of a commit.
    commit_bytes : int
        Most outputs of a commit.
    """

    def __init__(
        self,
        delivery: Delivery,
        topics: Mapping[str, str],
        *,
        commit_interval: float,
        done: Callable[[Chunk], None],
        failed: Callable[[BaseException], None],
        pauses: DeadLetterBreaker | None = None,
        histograms: Histograms | None = None,
        patience: float = 60.0,
        check_topics: Callable[[float], None] = lambda _: None,
        ahead_bytes: int = 64_000_000,
        commit_bytes: int = 16_000_000,
    ) -> None:
        self.counters = Counters()
        self.histograms = histograms or Histograms()
        self.pauses = pauses or DeadLetterBreaker(topics["dead_letters"])
        self._delivery = delivery
        self._topics = topics
        self._check_topics = check_topics
        self._interval = commit_interval
        self._patience = patience
        self._broker_seconds = broker_seconds(patience)
        self._activity = Watchdog()
        self._commit_activity = Watchdog()
        self._done = done
        self._failed = failed
        self._inbox = Inbox()
        self._committer = ThreadPoolExecutor(1, "commit")
        # Replaced as a whole, so that any thread may iterate over it.
        self.partitions: dict[TP, AssignedPartition] = {}
        # How often the event loop has closed this processor, and up to which of these times it was opened again.
        self._closes, self._opened = 0, -1
        # Since when something waits for a commit; None when everything is committed or being committed.
        self._since: float | None = None
        # Learned, but not sent while a commit goes on, and how long it took to learn.
        self._unsent: list[tuple[TP, Outputs]] = []
        self._ahead = 0.0
        self._ahead_bytes, self._most_ahead = 0, ahead_bytes
        self._ahead_records = self._committed_records = 0
        self._size = CommitSize(patience, commit_bytes)
        # The commit that goes on, with what follows its end.
        self._running: tuple[Future[float], Callable[[float], None]] | None = None
        # Assumed slow until measured: the first slice of a slow engine must not be a whole chunk.
        self._record_seconds = SLICE_SECONDS / SLICE_RECORDS
        self._thread = threading.Thread(target=self._run, name="processor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, chunk: Chunk) -> None:
        """Queue a chunk; a closed processor drops it."""
        self._inbox.put(chunk)

    def open(self, membership: Membership, partitions: Mapping[TP, AssignedPartition]) -> "Future[None]":
        """Take over partitions; the result comes when the processor is ready for their chunks, or has failed."""
        closes = self._closes

        def take() -> None:
            self._delivery.bind(membership)
            self.partitions = dict(partitions)
            self._opened = closes
            # Commit at once: a start chosen by the end of the log, or by a time, is another one tomorrow; and a
            # partition whose owner ended before it was archived, or between its snapshots and its offset (at least
            # once), may get no record for a year.
            open_ends = any(not part.pinned or max(part.committed, 0) < part.position for part in partitions.values())
            if open_ends or self._next_archive() is not None:
                self._since = time.monotonic() - self._interval

        return self._inbox.call(take)

    def close(self, *, everything: bool = False, lost: bool = False) -> "Future[None]":
        """Commit what was processed and give all partitions up; chunks that wait are dropped.

        `everything` snapshots every stream that changed, so that the next start has nothing to learn again. Where the
        partitions are `lost`, others may have them by now: what is open is aborted. The result is the error that ended
        the processor where there was one, before or meanwhile.
        """
        self._closes += 1
        return self._inbox.call(lambda: self._close(everything, lost))

    def resume(self, tps: Collection[TP]) -> "Future[None]":
        """Resume paused partitions at the record behind the last processed one."""
        return self._inbox.call(lambda: self._resume(tps))

    def stop(self) -> None:
        """End the thread, after `close`."""
        self._inbox.put(None)
        self._thread.join(5.0)
        self._committer.shutdown(wait=False)

    def give_up(self, error: BaseException) -> None:
        """End the thread for an error from elsewhere: what is open is aborted, not left to time out."""

        def fail() -> None:
            raise error

        self._inbox.put(fail)
        self._thread.join(GIVE_UP_SECONDS + 1.0)

    def hang(self) -> str:
        """Return which step exceeds its limit; empty while all is well. Any thread may call it.

        A wait for an absent broker is no hang: it ends by itself.
        """
        return self._activity.hang() or self._commit_activity.hang()

    def overdue(self) -> str:
        """Return which wait for the broker is overdue; empty while none is. Any thread may call it."""
        return self._commit_activity.overdue() or self._activity.overdue()

    def _run(self) -> None:
        try:
            while True:
                self._activity.rest()
                item = self._next()
                self._activity.begin("records have been processed")
                if isinstance(item, Chunk):
                    self._chunk(item)
                elif item is None:
                    return
                else:
                    item()
        except BaseException as error:  # whatever it is, nothing after it may be committed
            self._inbox.refuse_all(error)
            self._abort()
            self._failed(error)
        finally:
            self._activity.rest()

    def _abort(self) -> None:
        """Abort what is open, in the committer's thread: beside a commit it would take away what that sends again."""
        try:
            self._committer.submit(self._delivery.abort).result(GIVE_UP_SECONDS)
        except Exception as error:  # a thread that ended without a report would leave a worker that hangs
            _log.debug("not aborted: %s", error)

    def _next(self) -> Item:
        """Return what to do next: the next item of the queue, or a commit that is due."""
        if self._since is None or self._closing:
            # A close commits what is open, or aborts it.
            return self._inbox.get()
        left = self._since + self._commit_seconds() - time.monotonic()
        # What is sent at least once counts before its commit, which has time.
        nothing_comes = self._inbox.empty and not any(p.waiting for p in self.partitions.values())
        if left <= 0 or (nothing_comes and self._delivery.atomic) or self._full:
            return self._commit
        try:
            return self._inbox.get(timeout=left)
        except queue.Empty:
            return self._commit

    def _commit_seconds(self) -> float:
        """Return how long outputs may wait for their commit."""
        if not self._delivery.atomic:
            # What a crash repeats is what was sent since the last commit: readers look for that among so many.
            return self._interval
        waiting = sum(partition.waiting for partition in self.partitions.values())
        return commit_seconds(self._interval, self._patience, waiting, self._record_seconds)

    @property
    def _closing(self) -> bool:
        return self._opened != self._closes

    @property
    def _full(self) -> bool:
        """Whether what was sent since the last commit is enough for one."""
        return self._running is None and self._delivery.size >= self._size.limit

    def _chunk(self, chunk: Chunk) -> None:
        self._learn_or_hold(chunk)
        # Also for a held chunk: the room is for the partitions that continue.
        self._done(chunk)

    def _learn_or_hold(self, chunk: Chunk, start: int = 0) -> None:
        partition = self.partitions.get(chunk.tp)
        if partition is None or self._closing:
            return
        if chunk.tp in self.pauses.paused:
            self.pauses.hold(chunk, start)
        else:
            self._learn(chunk, partition, start)

    def _resume(self, tps: Collection[TP]) -> None:
        for chunk, start in self.pauses.resume(tps):
            self._learn_or_hold(chunk, start)

    def _learn(self, chunk: Chunk, partition: AssignedPartition, start: int) -> None:
        whole = RecordColumns.of(chunk.value)
        records = whole[start:]
        begins = int(whole.offsets[start - 1]) + 1 if start else chunk.position
        if begins != partition.position:
            what = "was read again" if begins < partition.position else "was read, and not what comes"
            raise DeliveryError(
                f"{chunk.topic}[{chunk.partition}]@{begins} {what} behind {partition.position}: nothing was committed, "
                "start again; if it happens twice it is an error of this program"
            )
        at, size, paused = 0, len(records), False
        while at < size and not self._closing and not paused:
            part = records[at : at + self._slice(chunk.tp, partition)]
            self._activity.begin(f"{chunk.topic}[{chunk.partition}]@{part.offsets[0]} has been learned")
            began = time.monotonic()
            outputs = partition.task.process(part)
            spent = time.monotonic() - began
            self._record_seconds += 0.2 * (spent / len(part) - self._record_seconds)
            self.counters.records += len(part)
            self.counters.routes += len(part) if chunk.topic == self._topics.get("routes") else 0
            self.counters.process_seconds += spent
            self.histograms.batch.observe(spent)
            partition.last_record = began
            at += len(part)
            self._unsent.append((chunk.tp, outputs))
            self._ahead += spent
            self._ahead_bytes += chunk.size * len(part) // len(whole)
            self._ahead_records += len(part)
            far = (
                self._ahead >= AHEAD_SECONDS
                or self._ahead_bytes >= self._most_ahead
                or self._ahead_records >= self._size.records
            )
            if self._running is None or self._running[0].done() or far:
                self._finish_commit()
            partition.position = int(part.offsets[-1]) + 1 if at < size else chunk.next_offset
            partition.timestamp = int(part.times[-1])
            paused = self.pauses.note(chunk.tp, len(part), len(outputs.dead_letters), partition.position)
            due = self._since is not None and time.monotonic() - self._since >= self._commit_seconds()
            if (self._full or due) and not self._closing:
                self._commit()
        if not records:
            partition.position = chunk.next_offset
            self._since = self._since or time.monotonic()
        if paused and at < size:
            self.pauses.hold(chunk, start + at)
        partition.waiting = 0 if paused else max(chunk.waiting, size - at)

    def _slice(self, tp: TP, partition: AssignedPartition) -> int:
        most = self.pauses.most(tp, self._size.records)
        seconds = SLICE_SECONDS if len(partition.task.models) < MANY_STREAMS else LONG_SLICE_SECONDS
        return min(max(SLICE_RECORDS, int(seconds / max(self._record_seconds, 1e-6))), most)

    def _send(self, tp: TP, outputs: Outputs) -> None:
        self._activity.begin("outputs have been sent", self._broker_seconds)
        began = time.monotonic()
        if not self._delivery.atomic:
            # What is sent counts at once.
            self._check_topics(SEND_AGE)
        self._since = self._since or began
        for kind in OUTPUT_KINDS:
            if messages := outputs.of(kind):
                self._delivery.send(Batch(self._topics[kind], tp.partition, messages))
                self.counters.outputs += len(messages) if kind != "routes" else 0
        self.counters.dead_letters += len(outputs.dead_letters)
        self.counters.send_seconds += time.monotonic() - began

    def _commit(self, until: float | None = None) -> bool:
        """Commit what was processed; steps 5 and 6 come while the next records are learned.

        With a time until when, every stream that changed is snapshotted. Returns whether some of them had no room.
        """
        # 1. The commit before this one ends, and what was learned meanwhile is sent.
        self._finish_commit()
        outputs = self._delivery.size
        # 2. Snapshots that are due, behind the outputs of the records that they cover; in turn, should there be many.
        most, written = outputs + self._size.limit, set()
        for tp, partition in sorted(self.partitions.items(), key=lambda one: one[1].last_snapshot):
            if self._delivery.size < most and self._snapshot(tp, partition, until, most):
                written.add(tp)
        left = self._delivery.size >= most
        # 3. One archive that is due; the others come with later commits. Not while closing: other workers wait for the
        # partitions, and the next owner archives them with its first commit.
        if not self._closing and (waiting := self._next_archive()) is not None:
            written.add(waiting[0])
            self._archive(*waiting, written)
        self._begin_commit(written, outputs)
        return left

    def _begin_commit(self, written: Collection[TP], outputs: int = 0) -> None:
        """Begin to commit what was sent, `outputs` bytes of it answers, and the offsets of what was learned."""
        # 4. Offsets: of partitions with something new, and of those that a snapshot or an archive describes there.
        offsets = {tp: p.position for tp, p in self.partitions.items() if tp in written or p.position != p.committed}
        notes = {tp: self._note(tp).at(offset) for tp, offset in offsets.items()}
        began, size = time.monotonic(), self._delivery.size
        first = self._since or began
        records, self._committed_records = self.counters.records - self._committed_records, self.counters.records
        self._since = None if self._closing or self._next_archive() is None else time.monotonic()

        # 5. Delivery, in the committer's thread; outputs of the next records wait for its end.
        def deliver() -> float:
            with self._commit_activity.around("a commit has gone on", self._broker_seconds):
                self._check_topics(0.0)
                self._delivery.commit(offsets, notes)
            return time.monotonic()

        # 6. After its end, in the processor's thread: only now do the offsets count as committed.
        def after(ended: float) -> None:
            self.histograms.transaction.observe(ended - first)
            self._size.note(size, outputs, records, ended - began)
            self.counters.commits += 1
            for tp, offset in offsets.items():
                if tp in self.partitions:
                    self.partitions[tp].committed, self.partitions[tp].metadata = offset, notes[tp]
                    self.partitions[tp].pinned = True

        self._running = self._committer.submit(deliver), after
        # The thread may be waiting for records when the commit ends; a failure must not wait for the next record.
        self._running[0].add_done_callback(lambda _: self._inbox.put(self._finish_ended))

    def _note(self, tp: TP) -> OffsetNote:
        note = self.partitions[tp].note
        # Behind its last commit a worker leaves nothing open.
        return replace(note, owner="") if self._closing else note

    def _finish_ended(self) -> None:
        """Finish the commit that has ended, unless that was done, and the next one may be running."""
        if self._running is not None and self._running[0].done():
            self._finish_commit()

    def _finish_commit(self) -> None:
        """Wait for the running commit, if there is one, and send what was learned meanwhile."""
        if self._running is not None:
            self._activity.begin("a commit has been waited for", self._broker_seconds)
            began = time.monotonic()
            commit, after = self._running
            ended = commit.result()
            self.counters.wait_seconds += time.monotonic() - began
            self._running = None
            after(ended)
        unsent, self._unsent, self._ahead, self._ahead_bytes, self._ahead_records = self._unsent, [], 0.0, 0, 0
        for tp, outputs in unsent:
            self._send(tp, outputs)

    def _snapshot(self, tp: TP, partition: AssignedPartition, until: float | None, most: int) -> bool:
        """Send a partition's snapshots that are due, or all until a time; return whether there were any.

        None is begun once `most` bytes were sent since the last commit.
        """
        committed = partition.position if self._delivery.atomic else partition.committed
        everything = until is not None
        written = False
        self._activity.begin("snapshots have been sent", self._broker_seconds)
        for message in partition.writer.messages(
            partition.task,
            partition.position,
            committed,
            everything=everything,
            go_on=lambda: self._delivery.size < most and (until is None or time.monotonic() < until),
        ):
            if not written:
                self._delivery.settle()
                written = True
            self._delivery.send(Batch(self._topics["snapshots"], tp.partition, (message,)))
            self._activity.begin("snapshots have been sent", self._broker_seconds)
        if written:
            partition.last_snapshot = time.monotonic()
        return written

    def _archive(self, tp: TP, writer: ArchiveWriter, written: Collection[TP]) -> None:
        """Send the archive of a partition, in as many commits as it needs; a close gives it up."""
        part = self.partitions[tp]
        self._activity.begin("an archive has been sent", self._broker_seconds)
        self._delivery.settle()
        for message in writer.messages(part.task, part.position, -1 if part.timestamp is None else part.timestamp):
            self._delivery.send(Batch(writer.topic, tp.partition, (message,)))
            if self._full:
                # An archive counts with its last message, and nothing is learned meanwhile.
                self._begin_commit(written)
                self._finish_commit()
                if self._closing:
                    return
        # The list of the archives must never name one that is not stored.
        self._delivery.settle()
        self._delivery.send(Batch(self._topics["snapshots"], tp.partition, (writer.listed(),)))

    def _next_archive(self) -> tuple[TP, ArchiveWriter] | None:
        """Return the partition and the writer of the archive that has been due for longest."""
        writers = ((tp, part, part.archive) for tp, part in self.partitions.items() if part.archive is not None)
        due = [(tp, writer) for tp, part, writer in writers if writer.is_due(part.task, part.position)]
        return min(due, key=lambda one: one[1].due_at, default=None)

    def _close(self, everything: bool, lost: bool) -> None:
        if not everything:
            reach("in-revoke")
        if lost:
            self._unsent, self._since = [], None
        self._finish_commit()
        if lost:
            self._abort()
        elif self._since is not None or (everything and self.partitions):
            until = time.monotonic() + CLOSE_SECONDS if everything else None
            while self._commit(until) and until is not None and time.monotonic() < until:
                pass
            self._finish_commit()
        self.partitions = {}
        self.pauses.clear()
