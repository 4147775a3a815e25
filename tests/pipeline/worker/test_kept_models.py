"""Which partitions go on with the models in memory when they come back to their worker."""

import threading

import pytest
from faust.types import TP
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata
from resonance.pipeline.worker.assignment import AssignedPartition, unchanged

from tests.pipeline.memory_deployment import MemoryDeployment

AT, OTHER = ("in", 0), ("in", 1)
MINE = OffsetMetadata("id-1", reproducible=True, membership="5 me")


class Reader:
    """The group's offset of each partition, and the bounds of its log."""

    offset, metadata, bounds_of = 40, MINE.at(40), (3, 90)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def committed_with_metadata(self, places):
        return dict.fromkeys(places, (self.offset, self.metadata))

    def bounds(self, places):
        return dict.fromkeys(places, self.bounds_of)


@pytest.fixture
def reader(monkeypatch, source):
    made = Reader()
    monkeypatch.setattr(type(source), "reader", lambda *_: made)
    return made


@pytest.fixture
def source(monkeypatch):
    return MemoryDeployment(monkeypatch).source


def part(position=40, committed=40, note=MINE):
    return AssignedPartition(None, None, position, committed, note.at(committed))


def goes_on(source, kept):
    return AT in unchanged(source, {TP(*AT): kept}, [AT, OTHER], threading.Event())


def test_where_nothing_was_committed_meanwhile_the_models_stay(source, reader):
    kept = part()
    assert unchanged(source, {TP(*AT): kept}, [AT, OTHER], threading.Event()) == {AT: kept}
    assert unchanged(source, {TP(*AT): kept}, [OTHER], threading.Event()) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": 41, "metadata": MINE.at(41)},
        {"offset": 40, "metadata": ""},
        # Another worker has archived the partition, and so committed the same offset.
        {"metadata": OffsetMetadata("id-1", reproducible=True, membership="6 you").at(40)},
        {"metadata": OffsetMetadata("id-1", reproducible=True, membership="7 me").at(40)},
        # A command has, or an earlier release.
        {"metadata": OffsetMetadata("id-1", reproducible=True).at(40)},
        # What the models need was deleted, or the log was cut.
        {"bounds_of": (41, 90)},
        {"bounds_of": (3, 39)},
    ],
)
def test_whatever_else_was_committed_is_restored(source, reader, changed):
    for name, value in changed.items():
        setattr(reader, name, value)
    assert not goes_on(source, part())


def test_what_proves_nothing_is_restored(source, reader):
    # Learned and not committed.
    assert not goes_on(source, part(position=41))
    # Committed by an earlier release, by a command, or without a transaction.
    anyone = OffsetMetadata("id-1", reproducible=True)
    reader.metadata = anyone.at(40)
    assert not goes_on(source, part(note=anyone))
