"""Partitions that come back to the worker that had them, and go on with the models in its memory.

A rebalance takes all partitions from all workers, and gives most of them back. A model in memory is what a restore
would give where no other commit came into its partition meanwhile: each transaction with snapshots commits an offset
too, and beside the offset is noted in which membership that was done (`OffsetNote`).
"""

import threading
from collections.abc import Collection, Mapping

from faust.types import TP
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_note import CommittedOffset, OffsetNote
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.worker.assignment import AssignedPartition


def unchanged(
    source: DeploymentContext,
    kept: Mapping[TP, AssignedPartition],
    assigned: Collection[TopicPartition],
    cancelled: threading.Event,
) -> dict[TopicPartition, AssignedPartition]:
    """Return the assigned partitions in whose place nothing has changed since this worker gave them up.

    The broker answers once the transactions that were open have ended; only the owner begins others.
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
    note = OffsetNote.read(CommittedOffset(part.committed, part.metadata))
    return part.position == part.committed and note is not None and note.membership != ""
