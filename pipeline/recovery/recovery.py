"""Recovery from a startup mismatch: each way gives something up, so it runs only when a user requests it.

`resume_from_snapshots`, `reset` and `begin_versions` are the three ways that `mismatches` names. `recover` carries one
out before the worker joins its group, on a group without members. Where the broker has transactions, one of them holds
everything: offsets, tombstones and new snapshots take effect together. Where nothing is broken, recovery changes
nothing and does not wait, so the flag may stay on the command line of several workers; only `reset` starts over at
every start.
"""

import logging
import threading
from collections.abc import Callable

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.compatibility import check_log
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, is_proved
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.new_version import begin_versions
from resonance.pipeline.recovery.reset import reset
from resonance.pipeline.recovery.rewrite import Change, wait_for_empty_group
from resonance.pipeline.recovery.routes import check_not_routed

_log = logging.getLogger(__name__)


def recover(command: str, source: DeploymentContext, cancelled: threading.Event | None = None) -> int:
    """Carry out `mismatches.RESUME`, `RESET` or `NEW_VERSION`, and return how many partitions that changed.

    The wait for an empty group ends with `RestoreCancelledError` once `cancelled` is set; where nothing is broken there
    is no wait. Raises `MismatchError` for a mismatch that this command does not resolve, and `BrokerError` where the
    group has members, or the broker does not accept the change.
    """

    def alone() -> None:
        wait_for_empty_group(source, cancelled or threading.Event())

    if command == mismatches.RESUME:
        return resume_from_snapshots(source, alone)
    if command == mismatches.RESET:
        alone()
        return reset(source)
    return begin_versions(source, alone)


def resume_from_snapshots(source: DeploymentContext, alone: Callable[[], None] = lambda: None) -> int:
    """Set lost offsets, and those that another program set, to where the snapshots end, and return how many were set.

    `alone` returns once the group has no members; it is called only where an offset is to be set.
    """
    if not _offsets_lost(source):
        return 0
    alone()
    # A worker that was still running may have committed meanwhile.
    changes = []
    for at, (committed, position) in _offsets_lost(source).items():
        changes.append(Change(at, [], position))
        was = "had no offset" if committed == NO_OFFSET else f"was at offset {committed}"
        _log.warning("%s[%d]: group %s %s, goes on at %d", *at, source.group, was, position)
    rewrite.write(source, changes)
    return len(changes)


def _offsets_lost(source: DeploymentContext) -> dict[TopicPartition, tuple[int, int]]:
    """Return committed offset and snapshot position of each partition whose offset no worker can have committed.

    Raises MismatchError where the snapshots are of another log than the present one, or records would be routed twice.
    """
    inputs = source.logs
    with source.reader() as reader:
        # Read in this order, the offset of a group that works meanwhile is never behind.
        tables = read_tables(reader, source, range(source.deployment.state_partitions), settle=source.patience)
        committed = {at: CommittedOffset(*one) for at, one in reader.committed_with_metadata(inputs).items()}
        lost = {}
        for at in inputs:
            record, found = tables[at[1]].records().get(at[0]), committed[at]
            if record is None:
                continue
            # Offsets of another log would be written into the group.
            check_log(source, record.identity)
            if found.offset < record.committed or not (found.offset == NO_OFFSET or is_proved(found, record)):
                lost[at] = found.offset, record.position
        check_not_routed(reader, source, {at: position for at, (_, position) in lost.items()}, tables)
    return lost
