"""What the processor works on: the partitions that the worker owns, and what it counts while it does."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from resonance.pipeline.checkpoint import archive_writer
from resonance.pipeline.checkpoint import changelog_writer as snapshots
from resonance.pipeline.records import Counts, Outputs, SourceRecord
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.worker.http.metrics import Durations


class AssignedTask(snapshots.SnapshottedTask, archive_writer.ArchivedTask, Protocol):
    """What the processor needs of a partition task."""

    health: ModelHealth
    """Whether its models are still any good."""

    @property
    def dead_letter_run(self) -> tuple[str, int]:
        """Class and number of the dead letters in a row at the end of what was seen."""

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Learn records in offset order and return their outputs."""


@dataclass(slots=True)
class AssignedPartition:
    """An input partition that this worker owns.

    Attributes
    ----------
    task : PartitionTask
        Has learned every record below `position`.
    writer : SnapshotWriter
        Writes its snapshots.
    position : int
        Where its log goes on.
    committed : int
        The group's committed offset, -1 when there is none.
    behind : bool
        More records were known to wait when the last ones were fetched.
    pinned : bool
        A crash before the next commit would not change where the log goes on.
    archive : ArchiveWriter or None
        Writes its archives; None where there are none.
    timestamp : int or None
        Kafka timestamp of the last record that was processed, in milliseconds.
    note : str
        What is committed beside its offset.
    learned_again : Counts or None
        What the restore had seen of it, which counts for no metric.
    last_record, last_snapshot : float
        When there was one last, by the monotonic clock; when it was assigned while there was none.
    """

    task: AssignedTask
    writer: snapshots.ChangelogWriter
    position: int
    committed: int
    behind: bool = False
    pinned: bool = True
    archive: archive_writer.ArchiveWriter | None = None
    timestamp: int | None = None
    note: str = ""
    learned_again: Counts | None = None
    last_record: float = field(default_factory=time.monotonic)
    last_snapshot: float = field(default_factory=time.monotonic)


class Destinations(NamedTuple):
    """Names of the output topics."""

    assignments: str
    events: str
    dead_letters: str
    clusters: str
    snapshots: str
    routes: str = ""
    drift_events: str = ""


@dataclass(slots=True)
class Counters:
    """What the processor did since its start; seconds are of its own thread."""

    records: int = 0
    outputs: int = 0
    dead_letters: int = 0
    commits: int = 0
    process_seconds: float = 0.0
    send_seconds: float = 0.0
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Histograms:
    """How long things took: the learning of a batch, and a transaction from its first output to its commit's end."""

    batch: Durations = field(default_factory=Durations)
    transaction: Durations = field(default_factory=Durations)
