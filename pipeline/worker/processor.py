"""The thread in which chunks become outputs: learn, send, commit (`commits`), one chunk after the other.

It keeps the event loop free for heartbeats and rebalances, and it decides the order of all steps.
"""

import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final

from faust.types import TP
from resonance.pipeline.crash_points import reach
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.scoring import Scored
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.command_queue import Inbox, Item
from resonance.pipeline.worker.commits import GIVE_UP_SECONDS, Commits
from resonance.pipeline.worker.dead_letter_breaker import DeadLetterBreaker
from resonance.pipeline.worker.transport.chunk import Chunk, Membership

SLICE_SECONDS: Final = 0.25
"""About the longest time between two checks for the event loop's requests, however slow the engine is."""

MANY_STREAMS: Final = 500
"""Streams of a partition from which that is `LONG_SLICE_SECONDS`."""

LONG_SLICE_SECONDS: Final = 1.0
"""The model of each stream has to come into the caches of the processor: the more records it then has, the better."""

SLICE_RECORDS: Final = 16
"""Fewest records learned between two checks."""


Answered = tuple[Scored, int, int | None]
"""An answer, the position of the partition then, and Kafka's time of its last record, where there was one."""


class Processor:
    """Processes the chunks of the owned partitions.

    `done` is called in the processor's thread for each submitted chunk that is processed, held or dropped, `failed`
    once, with the error that ended it; nothing was committed after the error.
    """

    def __init__(
        self,
        commits: Commits,
        *,
        done: Callable[[Chunk], None],
        failed: Callable[[BaseException], None],
        pauses: DeadLetterBreaker | None = None,
    ) -> None:
        self.commits = commits
        self.counters = commits.counters
        self.pauses = pauses or DeadLetterBreaker(commits.topics["dead_letters"])
        self._activity = commits.activity
        self._done = done
        self._failed = failed
        self._inbox = Inbox()
        commits.ended = lambda: self._inbox.put(commits.finish_ended)
        # Assumed slow until measured: the first slice of a slow engine must not be a whole chunk.
        self._record_seconds = SLICE_SECONDS / SLICE_RECORDS
        self._thread = threading.Thread(target=self._run, name="processor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def partitions(self) -> dict[TP, AssignedPartition]:
        """The owned partitions; any thread may iterate over them."""
        return self.commits.partitions

    def submit(self, chunk: Chunk) -> None:
        """Queue a chunk; a closed processor drops it."""
        self._inbox.put(chunk)

    def open(self, membership: Membership, partitions: Mapping[TP, AssignedPartition]) -> "Future[None]":
        """Take over partitions; the result comes when the processor is ready for their chunks, or has failed."""
        closes = self.commits.closes
        return self._inbox.call(lambda: self.commits.open(membership, partitions, closes))

    def close(self, *, everything: bool = False, lost: bool = False) -> "Future[None]":
        """Commit what was processed and give all partitions up; chunks that wait are dropped.

        `everything` snapshots every stream that changed, so that the next start has nothing to learn again. Where the
        partitions are `lost`, others may have them by now: what is open is aborted. The result is the error that ended
        the processor where there was one, before or meanwhile.
        """
        self.commits.closes += 1
        return self._inbox.call(lambda: self._close(everything, lost))

    def resume(self, tps: Collection[TP]) -> "Future[None]":
        """Resume paused partitions at the record behind the last processed one."""
        return self._inbox.call(lambda: self._resume(tps))

    def score(self, tp: TP, record: SourceRecord) -> "Future[Answered | Exception | None]":
        """Answer a record from the models of a partition as they are between two chunks; nothing is learned.

        The result is None where the partition is not owned. An error of the scoring is returned, because nothing has
        changed with which the worker could not go on.
        """

        def answer() -> Answered | Exception | None:
            partition = self.partitions.get(tp)
            if partition is None or not isinstance(partition.task, PartitionTask):
                return None
            try:
                (scored,) = partition.task.score([record]).each()
            except Exception as error:  # as above
                return error
            return scored, partition.position, partition.timestamp

        return self._inbox.call(answer, only_if_wanted=True)

    def stop(self) -> None:
        """End the thread, after `close`."""
        self._inbox.put(None)
        self._thread.join(5.0)
        self.commits.stop()

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
        return self._activity.hang() or self.commits.own_activity.hang()

    def overdue(self) -> str:
        """Return which wait for the broker is overdue; empty while none is. Any thread may call it."""
        return self.commits.own_activity.overdue() or self._activity.overdue()

    def _run(self) -> None:
        try:
            while True:
                self._activity.rest()
                item = self._next()
                self._activity.begin("records have been processed")
                if isinstance(item, Chunk):
                    self._learn_or_hold(item)
                    # Also for a held chunk: the room is for the partitions that continue.
                    self._done(item)
                elif item is None:
                    return
                else:
                    item()
        except BaseException as error:  # whatever it is, nothing after it may be committed
            self._inbox.refuse_all(error)
            self.commits.abort()
            self._failed(error)
        finally:
            self._activity.rest()

    def _next(self) -> Item:
        """Return what to do next: the next item of the queue, or a commit that is due."""
        commits = self.commits
        if commits.since is None or self.commits.is_closing:
            # A close commits what is open, or aborts it.
            return self._inbox.get()
        left = commits.left(self._record_seconds)
        # What is sent at least once counts before its commit, which has time.
        nothing_comes = self._inbox.empty and not any(p.waiting for p in self.partitions.values())
        if left <= 0 or (nothing_comes and commits.delivery.atomic) or commits.is_full:
            return commits.commit
        try:
            return self._inbox.get(timeout=left)
        except queue.Empty:
            return commits.commit

    def _learn_or_hold(self, chunk: Chunk, start: int = 0) -> None:
        partition = self.partitions.get(chunk.tp)
        if partition is None or self.commits.is_closing:
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
        while at < size and not self.commits.is_closing and not paused:
            part = records[at : at + partition.task.messages(records, at, self._slice(chunk.tp, partition))]
            self._activity.begin(f"{chunk.topic}[{chunk.partition}]@{part.offsets[0]} has been learned")
            began = time.monotonic()
            before = partition.task.records
            outputs = partition.task.process(part)
            count = max(partition.task.records - before, len(part))
            spent = time.monotonic() - began
            self._record_seconds += 0.2 * (spent / count - self._record_seconds)
            partition.each = count / len(part)
            self.counters.records += count
            self.counters.routes += len(part) if chunk.topic == self.commits.topics.get("routes") else 0
            self.counters.process_seconds += spent
            self.commits.histograms.batch.observe(spent)
            partition.last_record = began
            at += len(part)
            self.commits.learned(chunk.tp, outputs, count, chunk.size * len(part) // len(whole), spent)
            partition.position = int(part.offsets[-1]) + 1 if at < size else chunk.next_offset
            partition.timestamp = int(part.times[-1])
            paused = self.pauses.note(chunk.tp, count, len(outputs.dead_letters), partition.position)
            if (self.commits.is_full or self.commits.left(self._record_seconds) <= 0) and not self.commits.is_closing:
                self.commits.commit()
        if not records:
            partition.position = chunk.next_offset
            self.commits.touch()
        if paused and at < size:
            self.pauses.hold(chunk, start + at)
        partition.waiting = 0 if paused else max(chunk.waiting, size - at)

    def _slice(self, tp: TP, partition: AssignedPartition) -> int:
        most = self.pauses.most(tp, self.commits.size.records)
        seconds = SLICE_SECONDS if len(partition.task.models) < MANY_STREAMS else LONG_SLICE_SECONDS
        return min(max(SLICE_RECORDS, int(seconds / max(self._record_seconds, 1e-6))), most)

    def _close(self, everything: bool, lost: bool) -> None:
        if not everything:
            reach("in-revoke")
        self.commits.close(everything=everything, lost=lost)
        self.pauses.clear()
