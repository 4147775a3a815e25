"""What the processor works on: the partitions assigned to the worker, and its counters."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from resonance.pipeline.checkpoint import archive_writer
from resonance.pipeline.checkpoint import changelog_writer as snapshots
from resonance.pipeline.records import Counts, Outputs, SourceRecord
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.worker.http.metrics import Durations


class AssignedTask(snapshots.SnapshottedTask, archive_writer.ArchivedTask, Protocol):
    """What the processor needs of a partition task."""

    health: ModelHealth
    """Figures that show whether its models are still of use."""

    @property
    def dead_letter_run(self) -> tuple[str, int]:
        """Class and number of the dead letters in a row at the end of the processed records."""

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Learn records in offset order and return their outputs."""


@dataclass(slots=True)
class AssignedPartition:
    """An input partition that this worker owns."""

    task: AssignedTask
    """Has learned every record below `position`."""
    writer: snapshots.ChangelogWriter
    position: int
    """Offset of the next record."""
    committed: int
    """The group's committed offset; -1 when there is none."""
    behind: bool = False
    """More records were known to wait when the last ones were fetched."""
    pinned: bool = True
    """A crash before the next commit would not change where the partition resumes."""
    archive: archive_writer.ArchiveWriter | None = None
    """None where no archives are written."""
    timestamp: int | None = None
    """Kafka timestamp of the last processed record, in milliseconds."""
    note: str = ""
    """Metadata committed beside its offset."""
    learned_again: Counts | None = None
    """Counts of the restore, which the metrics leave out."""
    last_record: float = field(default_factory=time.monotonic)
    """Monotonic time of the last record, or of the assignment before the first one."""
    last_snapshot: float = field(default_factory=time.monotonic)
    """Monotonic time of the last snapshot, or of the assignment before the first one."""


@dataclass(slots=True)
class Counters:
    """Totals of the processor since its start; seconds are of its own thread."""

    records: int = 0
    outputs: int = 0
    dead_letters: int = 0
    commits: int = 0
    process_seconds: float = 0.0
    send_seconds: float = 0.0
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Histograms:
    """Durations of learning a batch, and of a transaction from its first output to the end of its commit."""

    batch: Durations = field(default_factory=Durations)
    transaction: Durations = field(default_factory=Durations)
