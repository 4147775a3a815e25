"""What the processor works on: the partitions assigned to the worker, and its counters."""

import time
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, Self

from resonance.pipeline.checkpoint.archive_writer import ArchiveWriter
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.offset_note import OffsetNote, is_reproducible
from resonance.pipeline.checkpoint.restore import RestoredPartition
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
    """About how many records were known to wait when the last ones were fetched."""
    pinned: bool = True
    """A crash before the next commit would not change where the partition resumes."""
    archive: ArchiveWriter | None = None
    """None where no archives are written."""
    timestamp: int | None = None
    """Kafka timestamp of the last processed record, in milliseconds."""
    note: OffsetNote = field(default_factory=lambda: OffsetNote("", reproducible=False))
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
        self.note = OffsetNote(self.writer.identity.topic_id, reproducible, transactional_id, membership)
        self.waiting = 0


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


class Durations:
    """Seconds that something took, counted in buckets; observed by one thread, read by any."""

    def __init__(self) -> None:
        # Observations up to each of `BOUNDS` and above the bound before, then those above the last one.
        self.counts = [0] * (len(BOUNDS) + 1)
        # Sum of the observations.
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative buckets as Prometheus writes them."""
        result, sum_so_far = [], 0
        for bound, count in zip([*map(str, BOUNDS), "+Inf"], self.counts.copy(), strict=True):
            sum_so_far += count
            result.append((bound, float(sum_so_far)))
        return result


@dataclass(frozen=True, slots=True)
class Histograms:
    """Durations of learning a batch, and of a transaction from its first output to the end of its commit."""

    batch: Durations = field(default_factory=Durations)
    transaction: Durations = field(default_factory=Durations)
