"""What the worker is compared with on a broker; each runs as a process of its own until it is ended.

``bare``: a confluent-kafka loop with every knob turned that helps it; it decodes with orjson and writes one answer a
record, and knows neither groups that change hands nor models. ``transactions``: the same, exactly once.
"""

import sys
import time
import uuid
from typing import Any

import orjson
from confluent_kafka import Consumer, Producer

CONSUMER = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.message.max.bytes": 4 << 20,
    "queued.max.messages.kbytes": 200_000,
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
}
PRODUCER = {
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "enable.idempotence": True,
    "compression.type": "lz4",
    "batch.size": 1_000_000,
}
COMMIT_SECONDS = 0.1
UNDELIVERED = 200_000
"""Records that the producer may hold before the loop waits for it."""


def answer(record: dict[str, Any]) -> bytes:
    """Return what a loop without a model says of a record."""
    return orjson.dumps({"id": record["id"], "cluster": 3, "similarity": 0.87, "path": [3, 4], "novel": False})


def bare(bootstrap: str, source: str, target: str, transactions: bool) -> None:
    """Consume, decode, answer, produce."""
    group = f"bench-{uuid.uuid4().hex}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **CONSUMER})
    producer = Producer(
        {"bootstrap.servers": bootstrap, **PRODUCER, **({"transactional.id": group} if transactions else {})}
    )
    if transactions:
        producer.init_transactions(30)
    consumer.subscribe([source])
    began: float | None = None
    while True:
        messages = consumer.consume(1000, 0.02)
        if messages and transactions and began is None:
            producer.begin_transaction()
            began = time.monotonic()
        for message in messages:
            record = orjson.loads(message.value())
            producer.produce(target, answer(record), key=message.key(), partition=message.partition())
        producer.poll(0)
        if began is not None and time.monotonic() - began > COMMIT_SECONDS:
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            began = None
        if len(producer) > UNDELIVERED:
            producer.flush(30)


if __name__ == "__main__":
    kind, *where = sys.argv[1:]
    bare(*where, transactions=kind == "transactions")
