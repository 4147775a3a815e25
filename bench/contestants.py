"""What the worker is compared with on a broker; each runs as a process of its own until it is ended.

``bare``: a confluent-kafka loop with every knob turned that helps it; it decodes with orjson and writes one answer a
record, and knows neither groups that change hands nor models. ``transactions``: the same, exactly once. ``stock``: an
agent as Faust's documentation writes it, which does all that the worker does with a record and sends the answers with
``topic.send``. ``stock-idle``: the same agent without a model, only decoding and answering.
"""

import logging
import sys
import tempfile
import time
import uuid
from typing import Any

import faust
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


class Models:
    """The worker's own models, asked record by record."""

    def __init__(self, topic: str) -> None:
        from resonance.pipeline.config.settings import Settings  # noqa: PLC0415 - the bare loops load none of this

        self._settings = Settings.of({"stream": "partition", "input.topics": [topic], "input.id_path": "id"})
        self._tasks: dict[int, Any] = {}

    def answers(self, message: Any) -> list[Any]:
        """Learn a record of Faust's and return what is to be sent."""
        from resonance.pipeline.records import Record  # noqa: PLC0415
        from resonance.pipeline.task.partition_task import PartitionTask  # noqa: PLC0415

        m = message
        if m.partition not in self._tasks:
            self._tasks[m.partition] = PartitionTask(self._settings, m.topic, m.partition)
        record = Record(m.topic, m.partition, m.offset, int(m.timestamp * 1000), m.key, m.value)
        found: list[Any] = self._tasks[m.partition].process([record]).assignments
        return found


def stock(bootstrap: str, source: str, target: str, with_model: bool) -> None:
    """Run a Faust worker with one agent on the source topic."""
    with tempfile.TemporaryDirectory(prefix="resonance-bench-") as folder:
        _run_stock(bootstrap, source, target, with_model, folder)


def _run_stock(bootstrap: str, source: str, target: str, with_model: bool, folder: str) -> None:
    app = faust.App(
        f"bench-{uuid.uuid4().hex}",
        datadir=folder,
        broker=f"kafka://{bootstrap}",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        producer_linger=0.005,
        table_standby_replicas=0,
        worker_redirect_stdouts=False,
    )
    raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    records, answers = app.topic(source, **raw), app.topic(target, **raw)
    models = Models(source) if with_model else None

    @app.agent(records)  # type: ignore[untyped-decorator]
    async def cluster(stream: Any) -> None:
        async for event in stream.events():
            m = event.message
            if models is None:
                await answers.send(key=m.key, value=answer(orjson.loads(m.value)), partition=m.partition)
                continue
            for message in models.answers(m):
                headers = dict(message.headers)
                await answers.send(key=message.key, value=message.value, partition=m.partition, headers=headers)

    app.Worker(loglevel=logging.WARNING).execute_from_commandline()


def main() -> None:
    """Run the contestant that the command line names."""
    kind, bootstrap, source, target = sys.argv[1:]
    sys.argv[1:] = []
    if kind.startswith("stock"):
        stock(bootstrap, source, target, with_model=kind == "stock")
    else:
        bare(bootstrap, source, target, transactions=kind == "transactions")


if __name__ == "__main__":
    main()
