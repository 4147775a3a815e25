"""When streams need their next snapshots: by the records of the partition, paid for by its input."""

from resonance.pipeline.config.sections import SnapshotsSection
from resonance.pipeline.task.snapshot_schedule import FIRST_RECORDS, USUAL_BYTES, SnapshotSchedule


def schedule(records=1_000, ratio=2.0):
    return SnapshotSchedule(SnapshotsSection(records=records, ratio=ratio), lambda offset: offset)


def sizes(**known):
    return lambda name: known.get(name, 0)


def test_a_turn_comes_by_the_records_of_the_partition():
    own = schedule()
    own.note("a", 0, is_new=False)
    own.learned(600, 10**9)
    own.note("b", 600, is_new=False)
    assert own.due(sizes(a=10, b=10)) == []
    own.learned(400, 10**9)
    assert own.due(sizes(a=10, b=10)) == ["a"]
    own.learned(600, 10**9)
    assert own.due(sizes(a=10, b=10)) == ["a", "b"]
    assert own.everything() == ["a", "b"]


def test_a_stream_without_a_snapshot_gets_its_first_one_earlier():
    own = schedule(records=10 * FIRST_RECORDS)
    own.note("old", 0, is_new=False)
    own.note("new", 1, is_new=True)
    own.learned(FIRST_RECORDS - 1, 10**9)
    assert own.due(sizes(old=10)) == []
    own.learned(1, 10**9)
    assert own.due(sizes(old=10)) == ["new"]
    own.written("new", 10)
    assert (own.due(sizes(old=10)), own.everything()) == ([], ["old"])


def test_snapshots_are_paid_for_by_the_input_that_comes():
    own = schedule(records=1_000, ratio=2.0)
    for place, name in enumerate("abc"):
        own.note(name, place, is_new=False)
    own.learned(1_000, 0)
    # What is due is written, and then as much is owed as it is worth.
    assert own.due(sizes(a=100, b=100, c=100)) == ["a"]
    own.written("a", 100)
    assert own.due(sizes(b=100, c=100)) == []
    own.learned(0, 199)
    assert own.due(sizes(b=100, c=100)) == []
    own.learned(0, 1)
    assert own.due(sizes(b=100, c=100)) == ["b"]


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
