"""When streams need their next snapshots; what follows from it is in `test_partition_snapshots.py`."""

from resonance.pipeline.config.sections import SnapshotsSection
from resonance.pipeline.task.snapshot_schedule import SnapshotSchedule


def test_a_stream_is_dirty_from_the_earliest_record_on_that_changed_it():
    own = SnapshotSchedule(SnapshotsSection(), lambda offset: offset)
    for offset in (7, 2, 9):
        # A record of another stream changed it earlier in the batch.
        own.note("a", offset, is_new=False)
    assert own.lowest == (2, 0, "a", 2)
