"""What the health page says of a partition."""

from typing import Any

from resonance.pipeline.worker.assignment import AssignedPartition


def described(partition: AssignedPartition) -> dict[str, Any]:
    """Return where a partition stands and what was seen in it since it was assigned, records learned again included.

    Parameters
    ----------
    partition : AssignedPartition
        May be at work in another thread.

    Returns
    -------
    dict
        ``position``: offset of the next record. ``replay_from``: where a restart would begin to read, None before the
        first commit. ``records``, ``skipped`` (null values), ``dead_letters`` by class, ``outvoted``, ``streams`` as
        in `Counts`. ``outside_range``: share of the values outside their frozen range, None before there is one.
    """
    counts = partition.task.counts
    share = counts.values_outside / counts.values_compared if counts.values_compared else None
    return {
        "position": partition.position,
        "replay_from": partition.writer.recovery_offset,
        "records": counts.records,
        "skipped": counts.skipped,
        "dead_letters": dict(counts.dead_letters),
        "outvoted": counts.outvoted,
        "streams": counts.streams,
        "outside_range": None if share is None else round(share, 6),
    }
