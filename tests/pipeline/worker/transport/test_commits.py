"""What is committed through Faust's client: as which member, and notes as librdkafka reads them."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.types import TP
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.worker.transport import group_member
from resonance.pipeline.worker.transport.chunk import Membership

SIZES = range(40, 140)
NO_MEMBER = Membership(-1, "", frozenset())


async def commit_as(bootstrap, membership):
    """Commit as a worker whose client is no member any more."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="group", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([TopicPartition("in", 0)])
        await group_member.commit(consumer, membership, {TP("in", 0): 7}, {})
    finally:
        await consumer.stop()


def test_a_worker_that_its_group_has_dropped_commits_nothing():
    with EmbeddedBroker({"in"}) as broker:
        with pytest.raises(CommitFailedError):
            asyncio.run(commit_as(broker.bootstrap, Membership(3, "worker-1", frozenset())))
        with LogReader({"bootstrap.servers": broker.bootstrap}, "group", 10) as reader:
            assert reader.committed([("in", 0)]) == {("in", 0): -1}
            asyncio.run(commit_as(broker.bootstrap, NO_MEMBER))
            assert reader.committed([("in", 0)]) == {("in", 0): 7}


async def commit(bootstrap, notes, others):
    """Commit notes as a worker does, and others as another program would."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="group", enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(*tp) for tp in (*notes, *others)])
    await group_member.commit(consumer, NO_MEMBER, dict.fromkeys(notes, 7), notes)
    await consumer.commit({TopicPartition(*tp): OffsetAndMetadata(7, note) for tp, note in others.items()})
    await consumer.stop()


def test_notes_of_any_length_are_read_as_they_were_committed():
    notes = {TP(f"in{size // PARTITIONS}", size % PARTITIONS): "n" * size for size in SIZES}
    others = {TP(f"other{topic}", partition): note for (topic, partition), note in notes.items()}
    with EmbeddedBroker({topic for topic, _ in (*notes, *others)}) as broker:
        asyncio.run(commit(broker.bootstrap, notes, others))
        with LogReader({"bootstrap.servers": broker.bootstrap}, "group", 10) as reader:
            assert reader.committed_with_metadata(notes) == {at: (7, note) for at, note in notes.items()}
            # Behind theirs anything may stand, which need not be text.
            assert set(reader.committed(others).values()) == {7}
