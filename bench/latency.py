"""How long a record waits for its assignment, at a steady rate.

From the broker's own append time of the record, which the assignment carries, to the moment at which a reader of
committed records holds the assignment.
"""

import datetime
import itertools
import sys
import time

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

STEP_SECONDS = 0.002
"""The producer sends the records that have come due this often."""


def feed(bootstrap: str, topic: str, partitions: int, rate: float) -> None:
    """Produce records at a steady rate until the process is ended; the records come as JSON lines on stdin."""
    lines = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    began = time.monotonic()
    for number in itertools.count():
        due = began + number / rate
        while (now := time.monotonic()) < due:
            producer.poll(0)
            time.sleep(max(STEP_SECONDS, due - now))
        producer.produce(topic, lines[number % len(lines)], key=b"k", partition=number % partitions)


def latencies(bootstrap: str, topic: str, partitions: int, skip: float, seconds: float) -> list[float]:
    """Return the milliseconds that each assignment took, of those that come `skip` to `skip + seconds` from now on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-latency",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
        }
    )
    found: list[float] = []
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        began = time.monotonic()
        while (past := time.monotonic() - began) < skip + seconds:
            messages = consumer.consume(1000, 0.005)
            now = time.time()
            if past >= skip:
                found += [1000 * (now - _appended(message.value())) for message in messages]
    finally:
        consumer.close()
    return found


def _appended(assignment: bytes) -> float:
    return datetime.datetime.fromisoformat(orjson.loads(assignment)["time"]).timestamp()


if __name__ == "__main__":
    feed(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
