"""What a fetch becomes: chunks of a partition each, which Faust neither tracks nor acks."""

import asyncio
from types import SimpleNamespace

import pytest
from faust.types.tuples import ConsumerMessage
from resonance.pipeline.memory_budget import RECORD
from resonance.pipeline.worker.transport.chunk import Chunk, Fetched, Membership, RawSchema

from tests.pipeline.worker.transport.fakes import P0, P1, columns, offsets


def chunk_of_one():
    return Chunk(P0, columns(P0, [4]), 5, position=4, seek=1, generation=1, waiting=0)


def test_chunks_take_partitions_by_turns_and_keep_their_order():
    taken = {P0: columns(P0, range(5)), P1: columns(P1, [10, 12])}
    fetched = Fetched(3, 7, taken, {P0: 6, P1: 15}, {P0: 0, P1: 8}, {P0: 6, P1: 20})
    chunks = list(fetched.chunks(2))
    assert [(c.partition, c.position, offsets(c), c.next_offset, c.waiting) for c in chunks] == [
        (0, 0, [0, 1], 2, 4),
        (1, 8, [10, 12], 15, 5),
        (0, 2, [2, 3], 4, 2),
        (0, 4, [4], 6, 0),
    ]
    assert {(c.seek, c.generation_id) for c in chunks} == {(3, 7)}


def test_a_position_that_moved_without_records_is_an_empty_chunk():
    (chunk,) = Fetched(1, 1, {}, {P0: 8}, {P0: 5}, {P0: 8}).chunks(100)
    assert (offsets(chunk), chunk.position, chunk.next_offset, chunk.offset, chunk.waiting) == ([], 5, 8, 7, 0)
    assert (len(chunk.value), chunk.size) == (0, 0)


def test_faust_neither_tracks_nor_acks_a_chunk():
    chunk = chunk_of_one()
    assert chunk.tracked
    assert type(chunk).on_final_ack is not ConsumerMessage.on_final_ack
    assert (chunk.timestamp, chunk.size) == (4.0, len(b"v\0") + RECORD)


def test_the_raw_schema_hands_on_what_it_gets():
    made, chunk = [], chunk_of_one()
    app = SimpleNamespace(create_event=lambda *parts: made.append(parts) or "event")
    assert (asyncio.run(RawSchema().compile(app)(chunk)), made) == ("event", [(None, chunk.value, (), chunk)])


@pytest.mark.parametrize(
    ("membership", "fenced"),
    [((3, "m"), True), ((0, "m"), True), ((-1, "m"), False), ((3, ""), False), ((-1, ""), False)],
)
def test_a_membership_that_kafka_would_not_fence_is_known(membership, fenced):
    assert Membership(*membership, frozenset()).fenced is fenced
