"""What the processor works on: the partitions assigned to the worker, and its counters."""

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from faust.types import TP
from prometheus_client import Histogram
from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, OffsetMetadata, is_reproducible
from resonance.pipeline.checkpoint.restore import RestoredPartition
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.task.counts import Counts
from resonance.pipeline.tasks import Task


@dataclass(slots=True)
class AssignedPartition:
    """An input partition that this worker owns."""

    task: Task
    """Has learned every record below `position`."""
    writer: ChangelogWriter
    position: int
    """Offset of the next record."""
    committed: int
    """The group's committed offset; -1 when there is none."""
    metadata: str = ""
    """What is committed beside it."""
    waiting: int = 0
    """About how many messages were known to wait when the last ones were fetched."""
    each: float = 1.0
    """Records that a message had of late."""
    pinned: bool = True
    """A crash before the next commit would not change where the partition resumes."""
    archive: ArchiveWriter | None = None
    """None where no archives are written."""
    timestamp: int | None = None
    """Kafka timestamp of the last processed record, in milliseconds."""
    note: OffsetMetadata = field(default_factory=lambda: OffsetMetadata("", reproducible=False))
    """Committed beside its offset."""
    learned_again: Counts | None = None
    """Counts of the restore, which the metrics leave out."""
    last_record: float = field(default_factory=time.monotonic)
    """Monotonic time of the last record, or of the assignment before the first one."""
    last_snapshot: float = field(default_factory=time.monotonic)
    """Monotonic time of the last snapshot, or of the assignment before the first one."""
    start: int = field(init=False)
    """Offset from which this worker answers records."""

    def __post_init__(self) -> None:
        self.start = self.position

    @property
    def answered(self) -> int:
        """Offset below which every record is answered, and the answers are committed."""
        return max(self.committed, self.start)

    @classmethod
    def of(cls, part: RestoredPartition[Task], archive: ArchiveWriter | None) -> Self:
        """Return a partition that was restored."""
        return cls(
            part.task,
            part.writer,
            part.start,
            part.committed,
            part.metadata,
            pinned=part.pinned,
            archive=archive,
            learned_again=part.task.counts,
        )

    def begin(self, transactional_id: str, membership: str) -> None:
        """Set what is noted beside its offsets; both are empty where the worker commits without transactions."""
        reproducible = is_reproducible(self.writer.began, self.task.models.first_version)
        self.note = OffsetMetadata(self.writer.identity.topic_id, reproducible, transactional_id, membership)
        self.waiting = 0


def unchanged(
    source: DeploymentContext,
    kept: Mapping[TP, AssignedPartition],
    assigned: Collection[TopicPartition],
    cancelled: threading.Event,
) -> dict[TopicPartition, AssignedPartition]:
    """Return the assigned partitions that go on with the models in memory: in whose place nothing has changed since.

    A rebalance takes all partitions from all workers, and gives most of them back. A model in memory is what a restore
    would give where no other commit came into its partition meanwhile: each transaction with snapshots commits an
    offset too, and beside the offset is noted in which membership that was done. The broker answers once the
    transactions that were open have ended; only the owner begins others.
    """
    wanted = {at: part for at in assigned if (part := kept.get(TP(*at))) is not None and _is_proof(part)}
    if not wanted:
        return {}
    with source.reader(cancelled) as reader:
        committed = reader.committed_with_metadata(list(wanted))
        # A log that was cut is for the restore to explain.
        bounds = reader.bounds(list(wanted))
    return {
        at: part
        for at, part in wanted.items()
        if committed[at] == (part.committed, part.metadata) and bounds[at][0] <= part.position <= bounds[at][1]
    }


def _is_proof(part: AssignedPartition) -> bool:
    """Whether everything is committed, and no other commit looks the same."""
    note = OffsetMetadata.read(CommittedOffset(part.committed, part.metadata))
    return part.position == part.committed and note is not None and note.membership != ""


@dataclass(slots=True)
class Counters:
    """Totals of the processor since its start; seconds are of its own thread."""

    records: int = 0
    routes: int = 0
    """Those of them that were routes: records that counted when they were routed."""
    outputs: int = 0
    dead_letters: int = 0
    commits: int = 0
    process_seconds: float = 0.0
    send_seconds: float = 0.0
    wait_seconds: float = 0.0


BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of both histograms, in seconds."""


class Histograms:
    """Durations that the processor observes, as metrics."""

    def __init__(self) -> None:
        batch = "Seconds that a batch of records took to be learned."
        transaction = "Seconds from a first output to its commit's end."
        self.batch = Histogram("resonance_batch_seconds", batch, buckets=BOUNDS, registry=None)
        self.transaction = Histogram("resonance_transaction_seconds", transaction, buckets=BOUNDS, registry=None)
