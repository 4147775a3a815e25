"""Whole batches: the same records as aiokafka's own way gives, whatever a fetch holds."""

import asyncio
import gc
import struct
import weakref
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.codec import snappy_encode, zstd_encode
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from resonance.pipeline.errors import ResourceError
from resonance.pipeline.memory_budget import MIB, MemoryBudget
from resonance.pipeline.worker.transport.unpack import FetchedBatches, Unpacker, WholeBatches

from tests.brokers.raw import raw_batch

TP = TopicPartition("in", 0)
LARGE = MemoryBudget(1024 * MIB)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(first, count, *, producer=-1, transactional=False, compression=0):
    builder = DefaultRecordBatchBuilder(2, compression, transactional, producer, 0, 0, 1 << 20)
    for n in range(count):
        headers = [("h", b"%d" % n), ("none", None)] if n % 2 else []
        builder.append(n, 1000 + n, None if n % 3 == 0 else b"k%d" % n, None if n % 5 == 4 else b"v" * 50, headers)
    data = builder.build()
    # The base offset is not part of what the checksum covers.
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def unpack(parts, memory=LARGE):
    return [record for piece in Unpacker(memory).pieces(parts) for record in piece.records]


def legacy(first, count):
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    for n in range(count):
        builder.append(first + n, timestamp=1000, key=b"k", value=b"v%d" % n)
    return bytes(builder.build())


def fetched(data, *, start=0, aborted=(), committed=True, check=True):
    level = fetcher.READ_COMMITTED if committed else fetcher.READ_UNCOMMITTED
    return fetcher.PartitionRecords(TP, FetchedBatches(data), list(aborted), start, None, None, check, level)


def hold(waiting, states, tp, data):
    """Let a part of a fetch wait for a partition whose position is its beginning."""
    states[tp] = state = SimpleNamespace(paused=False, position=0)
    state.consumed_to = lambda offset: setattr(state, "position", offset)
    part = fetched(data)
    part._tp = tp
    assignment = SimpleNamespace(active=True, state_value=states.get)
    waiting[tp] = fetcher.FetchResult(tp, assignment=assignment, partition_records=part, backoff=0)


def columns(records):
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


FETCHES = {
    "one batch": (batch(0, 10), {}),
    "several": (batch(0, 3) + batch(3, 4) + batch(20, 2), {}),
    "from the middle of a batch": (batch(0, 10) + batch(10, 3), {"start": 4}),
    "aborted": (
        batch(0, 3, producer=7, transactional=True) + batch(3, 2) + batch(5, 4, producer=8, transactional=True),
        {"aborted": [(7, 0)]},
    ),
    "aborted, uncommitted read": (
        batch(0, 3, producer=7, transactional=True) + batch(3, 2),
        {"aborted": [(7, 0)], "committed": False},
    ),
    "nothing but aborted": (batch(0, 3, producer=7, transactional=True), {"aborted": [(7, 0)]}),
    "old format": (legacy(5, 4), {"start": 5}),
    **{name: (batch(0, 50, compression=codec), {}) for name, codec in CODECS.items()},
}


@pytest.mark.parametrize("fetch", FETCHES)
def test_the_records_are_aiokafkas(fetch):
    data, how = FETCHES[fetch]
    theirs, ours = fetched(data, **how), fetched(data, **how)
    expected = columns(list(theirs))
    assert columns(unpack(ours)) == expected
    assert ours.next_fetch_offset == theirs.next_fetch_offset > 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_that_is_not_utf_8_harms_no_record(codec):
    headers = [[("a", b"1")], [(b"a", b"1"), (b"\xff\xfe", b"2"), (b"none", None)], [("\u00e4", b"3")], []]
    rows = [(b"k%d" % n, b"v%d" % n, own) for n, own in enumerate(headers)]
    data = batch(0, 2) + raw_batch(rows, first=2, compression=CODECS[codec]) + batch(6, 1)
    ours = fetched(data, start=1)
    records = unpack(ours)
    assert [(record.offset, record.key, record.value) for record in records[1:-1]] == [
        (2 + n, b"k%d" % n, b"v%d" % n) for n in range(4)
    ]
    assert [list(record.headers) for record in records[1:-1]] == [headers[0], [], headers[2], []]
    assert (records[0].offset, records[-1].offset, ours.next_fetch_offset) == (1, 6, 7)


def test_a_wrong_checksum_is_an_error():
    data = bytearray(batch(0, 5))
    data[-3] ^= 1
    with pytest.raises(CorruptRecordException, match="Invalid CRC"):
        unpack(fetched(bytes(data)))
    unpack(fetched(bytes(data), check=False))


@pytest.mark.parametrize("position", [0, 1])
def test_results_are_taken_whole_unless_a_seek_came_meanwhile(position):
    async def take():
        waiting, states = WholeBatches(LARGE), {}
        hold(waiting, states, TP, batch(0, 4))
        state = states[TP]
        waiting.begin([TP])
        waiting[TopicPartition("in", 1)] = error = fetcher.FetchError(error=ValueError(), backoff=0)
        state.position = position
        records = waiting[TP].getall()
        assert not waiting[TP].has_more()
        assert waiting[TopicPartition("in", 1)] is error
        return [record.offset for record in records], state.position

    assert asyncio.run(take()) == (([0, 1, 2, 3], 4) if position == 0 else ([], 1))


SMALL = MemoryBudget(32 * 1000)
"""Pieces of 1,000 bytes, batches of at most 8,000."""


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_a_batch_that_becomes_large_comes_in_pieces(codec):
    data = batch(0, 100, compression=CODECS[codec]) + batch(100, 3)
    pieces = list(Unpacker(SMALL).pieces(fetched(data, start=7)))
    assert columns(record for piece in pieces for record in piece.records) == columns(fetched(data, start=7))
    assert [piece.ends_batch for piece in pieces] == [*[False] * (len(pieces) - 2), True, True]
    assert len(pieces) > 5
    assert max(piece.size for piece in pieces) <= 1000


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_a_batch_that_becomes_too_large_is_named_and_not_unpacked(codec):
    data = batch(0, 5) + batch(5, 1000, compression=CODECS[codec])
    pieces = Unpacker(SMALL).pieces(fetched(data))
    assert len(next(pieces).records) == 5
    with pytest.raises(ResourceError, match=r"in\[0\]@5: .*more than 8,000 .*limits\.memory = 32,000 .*batch\.size"):
        next(pieces)


def test_snappy_in_the_blocks_of_javas_clients_is_read():
    plain = batch(0, 100)
    packed = snappy_encode(plain[61:], xerial_blocksize=500)
    data = bytearray(plain[:61] + packed)
    data[22] |= CODECS["snappy"]
    struct.pack_into(">i", data, 8, len(data) - 12)
    for memory in (SMALL, LARGE):
        assert columns(unpack(fetched(bytes(data), check=False), memory)) == columns(fetched(plain))


@pytest.mark.parametrize("memory", [SMALL, LARGE], ids=["in pieces", "as a whole"])
@pytest.mark.parametrize("damage", ["cut", "length"])
def test_a_batch_that_cannot_be_unpacked_is_an_error(memory, damage):
    plain = bytearray(batch(0, 100))
    if damage == "length":
        # The first record says that it is a gigabyte long.
        plain[61:66] = b"\xff\xff\xff\xff\x07"
    packed = zstd_encode(bytes(plain[61:]))
    data = plain[:61] + (packed[: len(packed) // 2] if damage == "cut" else packed)
    data[22] |= CODECS["zstd"]
    struct.pack_into(">i", data, 8, len(data) - 12)
    with pytest.raises(CorruptRecordException):
        unpack(fetched(bytes(data), check=False), memory)


def test_partitions_take_turns_and_a_fetch_takes_what_has_room():
    waiting, states = WholeBatches(SMALL), {}
    partitions = [TopicPartition("in", number) for number in range(8)]
    for tp in partitions:
        hold(waiting, states, tp, b"".join(batch(10 * n, 10) for n in range(5)))
    found, turns = {tp: [] for tp in partitions}, []
    while waiting:
        waiting.begin(partitions)
        taken = {tp: waiting[tp].getall() for tp in list(waiting)}
        for tp in [tp for tp in waiting if not waiting[tp].has_more()]:
            del waiting[tp]
        assert 0 < sum(own.size for own in taken.values()) <= SMALL.taken + 4000
        turns.append({tp for tp in taken if taken[tp]})
        for tp, own in taken.items():
            found[tp] += [record.offset for record in own]
    assert turns[0] & turns[1] == set()
    assert found == {tp: list(range(50)) for tp in partitions}


def test_one_large_batch_is_open_at_a_time():
    waiting, states = WholeBatches(SMALL), {}
    first, second = TP, TopicPartition("in", 1)
    for tp in (first, second):
        hold(waiting, states, tp, batch(0, 100, compression=CODECS["zstd"]))

    def take(*active):
        waiting.begin(active)
        return [len(waiting[tp].getall()) if tp in waiting else None for tp in (first, second)]

    begun, other = take(first, second)
    assert begun > 0 == other
    # A rebalance or a seek drops it, and so does a pause.
    assert take(second)[0] is None
    assert take(second)[1] > 0
    for tp in (first, second):
        hold(waiting, states, tp, batch(0, 100, compression=CODECS["zstd"]))
    begun, other = take(first, second)
    assert begun > 0 == other


def test_what_is_dropped_is_gone_at_once():
    waiting, states = WholeBatches(SMALL), {}
    hold(waiting, states, TP, batch(0, 100, compression=CODECS["zstd"]))
    gone = weakref.ref(waiting[TP])
    waiting.begin([TP])
    assert waiting[TP].getall()
    gc.disable()
    try:
        waiting.clear()
        waiting.begin([TP])
        assert gone() is None
    finally:
        gc.enable()
