"""Whole batches: the same records as aiokafka's own way gives, whatever a fetch holds."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from resonance.pipeline.worker.transport.unpack import FetchedBatches, WholeBatches, unpack

from tests.brokers.raw import raw_batch

TP = TopicPartition("in", 0)
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


def legacy(first, count):
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    for n in range(count):
        builder.append(first + n, timestamp=1000, key=b"k", value=b"v%d" % n)
    return bytes(builder.build())


def fetched(data, *, start=0, aborted=(), committed=True, check=True):
    level = fetcher.READ_COMMITTED if committed else fetcher.READ_UNCOMMITTED
    return fetcher.PartitionRecords(TP, FetchedBatches(data), list(aborted), start, None, None, check, level)


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
        state = SimpleNamespace(paused=False, position=0)
        state.consumed_to = lambda offset: setattr(state, "position", offset)
        assignment = SimpleNamespace(active=True, state_value=lambda tp: state)
        waiting = WholeBatches()
        waiting[TP] = fetcher.FetchResult(TP, assignment=assignment, partition_records=fetched(batch(0, 4)), backoff=0)
        waiting[TopicPartition("in", 1)] = error = fetcher.FetchError(error=ValueError(), backoff=0)
        state.position = position
        records = waiting[TP].getall()
        assert not waiting[TP].has_more()
        assert waiting[TopicPartition("in", 1)] is error
        return [record.offset for record in records], state.position

    assert asyncio.run(take()) == (([0, 1, 2, 3], 4) if position == 0 else ([], 1))
