"""How long a record waits for its assignment, at a steady rate.

From the broker's own append time of the record, which the assignment carries, to the moment at which a reader of
committed records holds the assignment.
"""

import datetime
import itertools
import math
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

STEP_SECONDS = 0.002
"""The producer sends the records that have come due this often."""

CATCH_UP_SECONDS = 300.0
"""How long a worker may take to start and to work off what has come meanwhile."""

READER = {
    "group.id": "bench-latency",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 1,
}
"""A reader of committed records that adds little to the wait."""


def produce_steadily(bootstrap: str, topic: str, partitions: int, rate: float, keys: int) -> None:
    """Produce records at a steady rate until the process is ended; the records come as JSON lines on stdin."""
    lines = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    began = time.monotonic()
    for number in itertools.count():
        due = began + number / rate
        while (now := time.monotonic()) < due:
            producer.poll(0)
            time.sleep(max(STEP_SECONDS, due - now))
        key = b"k%d" % (number % keys)
        while True:
            try:
                producer.produce(topic, lines[number % len(lines)], key=key, partition=number % partitions)
                break
            except BufferError:
                producer.poll(STEP_SECONDS)


@contextmanager
def steady_load(
    bootstrap: str, topic: str, values: Iterable[bytes], rate: float, partitions: int = 1, keys: int = 1
) -> Iterator[None]:
    """Produce values at a steady rate meanwhile, over and over, with keys in turn: a multiple of the partitions.

    They come from a process of their own.
    """
    command = [sys.executable, "-m", "bench.latency", bootstrap, topic, str(partitions), str(rate), str(keys)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(b"\n".join(values))
            process.stdin.close()
            yield
            if process.poll() is not None:
                raise RuntimeError(f"the load has ended with {process.returncode}: there is no figure")
        finally:
            process.kill()


class SteadyState:
    """Collects latencies once the worker has caught up with what came before its first answer.

    The records that waited for the start of the worker tell how long it takes to start, and no latency. `skip` seconds
    after the first record that came later, the answers of `seconds` are collected.
    """

    def __init__(self, skip: float, seconds: float) -> None:
        self.milliseconds: list[float] = []
        self._skip = skip
        self._seconds = seconds
        self._answered = math.inf
        self._begin = math.inf

    def add(self, now: float, appended: float) -> None:
        """Take an answer that is read now, to a record that was appended at a time."""
        self._answered = min(self._answered, now)
        if appended >= self._answered:
            self._begin = min(self._begin, now + self._skip)
        if appended >= self._begin:
            self.milliseconds.append(1000 * (now - appended))

    def is_over(self, now: float) -> bool:
        """Return whether everything is collected."""
        return now >= self._begin + self._seconds


def latencies(bootstrap: str, topic: str, partitions: int, skip: float, seconds: float) -> list[float]:
    """Return the milliseconds that assignments took in `seconds` of a steady state, `skip` seconds after it began."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **READER})
    state = SteadyState(skip, seconds)
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        end = time.monotonic() + CATCH_UP_SECONDS + skip + seconds
        while not state.is_over(time.time()):
            if time.monotonic() > end:
                raise TimeoutError(f"the worker did not catch up within {CATCH_UP_SECONDS:g} s; lower the rate")
            messages = consumer.consume(1000, 0.005)
            now = time.time()
            for message in messages:
                state.add(now, _appended(message.value()))
    finally:
        consumer.close()
    return state.milliseconds


def _appended(assignment: bytes) -> float:
    return datetime.datetime.fromisoformat(orjson.loads(assignment)["time"]).timestamp()


if __name__ == "__main__":
    produce_steadily(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
