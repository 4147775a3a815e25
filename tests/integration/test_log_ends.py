"""What a broker says of the ends of logs, and of the transaction that holds records back."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer
from faust.types import TP
from resonance.pipeline.worker.transport import log_ends
from resonance.pipeline.worker.transport.log_ends import LogEnd, OpenTransaction

from tests.brokers import create_topic, topic_name

pytestmark = pytest.mark.broker


def test_both_ends_and_the_producer_of_an_open_transaction_are_known(broker):
    topic, identity = create_topic(broker, "held", partitions=3), topic_name("upstream")
    upstream = Producer({"bootstrap.servers": broker, "transactional.id": identity})
    plain = Producer({"bootstrap.servers": broker})

    def write(producer, partition, count):
        for _ in range(count):
            producer.produce(topic, b"{}", partition=partition)
        producer.flush(10)

    upstream.init_transactions(20)
    # An aborted transaction, whose marker ends the log.
    upstream.begin_transaction()
    write(upstream, 1, 2)
    upstream.abort_transaction(20)
    write(plain, 0, 5)
    upstream.begin_transaction()
    write(upstream, 0, 1)
    write(plain, 0, 30)

    async def look():
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker)
        await consumer.start()
        try:
            client = consumer._client
            ends = await log_ends.query(client, [TP(topic, number) for number in range(4)])
            return ends, [await log_ends.open_transaction(client, TP(topic, 0), offset) for offset in (5, 4)]
        finally:
            await consumer.stop()

    ends, (found, none) = asyncio.run(look())
    assert ends == {TP(topic, 0): LogEnd(5, 36), TP(topic, 1): LogEnd(3, 3), TP(topic, 2): LogEnd(0, 0)}
    assert isinstance(found, OpenTransaction)
    assert (found.transactional_id, none) == (identity, None)
    upstream.abort_transaction(20)
    assert asyncio.run(look()) == (ends | {TP(topic, 0): LogEnd(37, 37)}, [None, None])
