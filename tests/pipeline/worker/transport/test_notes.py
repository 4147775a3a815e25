"""What is committed beside an offset through Faust's client, as librdkafka's reads it."""

import asyncio
from types import SimpleNamespace

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.types import TP
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.worker.transport.transport import ConsumerThread

SIZES = range(40, 140)


async def commit(bootstrap, notes, others):
    """Commit notes as a worker does, and others as another program would."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="group", enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(*tp) for tp in (*notes, *others)])
    thread = SimpleNamespace(_ensure_consumer=lambda: consumer)
    await ConsumerThread.commit_exactly(thread, dict.fromkeys(notes, 7), notes)
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
