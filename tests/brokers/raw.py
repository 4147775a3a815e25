"""Batches of records that no client would make, as they are on the wire."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

Name = str | bytes
Row = tuple[bytes | None, bytes | None, Sequence[tuple[Name, bytes | None]]]


class _AnyName(str):
    """The name of a header, which is encoded to whatever bytes it was given."""

    __slots__ = ("raw",)

    def __new__(cls, raw):
        made = super().__new__(cls, "?" * len(raw))
        made.raw = raw
        return made

    def encode(self, encoding="utf-8", errors="strict"):
        return self.raw


def raw_batch(rows, *, first=0, compression=0):
    """A batch of (key, value, headers), beginning at an offset; names of headers may be any bytes."""
    builder = _DefaultRecordBatchBuilderPy(2, compression, False, -1, -1, -1, 1 << 20)
    for number, (key, value, headers) in enumerate(rows):
        named = [(_AnyName(name) if isinstance(name, bytes) else name, content) for name, content in headers]
        builder.append(number, 1_700_000_000_000 + number, key, value, named)
    data = builder.build()
    # The base offset is not part of what the checksum covers.
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def produce_raw(bootstrap, topic, partition, rows):
    """Append a `raw_batch` to a partition and wait until the broker has it."""

    async def send():
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        try:
            batch = producer.create_batch()
            for _ in rows:
                batch.append(timestamp=1, key=b"", value=b"")
            batch.close()
            batch._buffer = bytearray(raw_batch(rows))
            await (await producer.send_batch(batch, topic, partition=partition))
        finally:
            await producer.stop()

    asyncio.run(send())


def leave_open(bootstrap, transactional_id, topic, partition, value):
    """Write a record of a transaction that its coordinator has never heard of, as if it had lost it.

    The broker must not verify partitions (``transaction.partition.verification.enable``).
    """

    async def send(producer, known):
        known._txn_partitions.add(TopicPartition(topic, partition))
        await producer.send_and_wait(topic, value, key=b"k", partition=partition)

    _unheard(bootstrap, transactional_id, send)


def leave_offset_open(bootstrap, transactional_id, group, topic, partition, offset):
    """Send an offset of a group in a transaction that its coordinator has never heard of, as `leave_open` a record."""

    async def send(producer, known):
        known._txn_consumer_group = group
        await producer.send_offsets_to_transaction({TopicPartition(topic, partition): offset}, group)

    _unheard(bootstrap, transactional_id, send)


def _unheard(bootstrap, transactional_id, send):
    """Let a transactional producer send what it believes to be part of its transaction already; then abort."""

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        await producer.start()
        known = producer._txn_manager
        try:
            await producer.begin_transaction()
            await send(producer, known)
            known._txn_partitions.clear()
            known._txn_consumer_group = None
            await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(run())
