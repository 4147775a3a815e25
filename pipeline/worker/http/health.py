"""What the page ``/readyz`` shows of a partition."""

from typing import Any

from resonance.pipeline.worker.assignment import AssignedPartition


def described(partition: AssignedPartition) -> dict[str, Any]:
    """Return where a partition stands and what was seen in it since it was assigned, records learned again included.

    The partition may be at work in another thread.
    """
    counts = partition.task.counts
    share = counts.values_outside / counts.values_compared if counts.values_compared else None
    return {
        "position": partition.position,
        # Where a restart would begin to read; None before the first commit.
        "replay_from": partition.writer.recovery_offset,
        "records": counts.records,
        "skipped": counts.skipped,
        "dead_letters": dict(counts.dead_letters),
        "streams": counts.streams,
        # Share of the values outside their frozen range; None before there is one.
        "outside_range": None if share is None else round(share, 6),
    }
