"""When streams need their next snapshots: by the records of the partition, paid for by its input."""

from resonance.pipeline.config.sections import SnapshotsSection
from resonance.pipeline.task.snapshot_schedule import USUAL_BYTES, SnapshotSchedule


def schedule(records=1_000, ratio=2.0):
    return SnapshotSchedule(SnapshotsSection(records=records, ratio=ratio), lambda offset: offset)


def sizes(**known):
    return lambda name: known.get(name, 0)


def test_input_left_over_pays_for_no_burst_later():
    own = schedule(records=1, ratio=1.0)
    own.learned(1, 10**9)
    assert own.due(sizes()) == []
    for place, name in enumerate("abc"):
        own.note(name, place, is_new=False)
    own.learned(1, USUAL_BYTES)
    # A stream of unknown size counts as the last one that was written.
    assert own.due(sizes()) == ["a", "b"]


def test_the_lowest_offset_is_that_of_no_clean_stream():
    own = schedule()
    own.note("a", 7, is_new=False)
    own.note("b", 3, is_new=False)
    assert own.lowest[:3] == (3, 0, "b")
    # A record of another stream changed it earlier in the batch.
    own.note("a", 2, is_new=False)
    own.note("a", 9, is_new=False)
    assert own.lowest == (2, 0, "a", 2)
    assert own.remove("a").offset == 2
    assert own.remove("a") is None
    assert own.lowest.name == "b"
    own.note("a", 1, is_new=False)
    own.go_on_at(20)
    assert {own.lowest.offset, own.remove("a").offset, own.remove("b").offset} == {20}
    assert own.lowest is None
