"""A steady load of records, from a process of its own."""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

STEP_SECONDS = 0.002
"""The producer sends the records that have come due this often."""


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
    command = [sys.executable, "-m", "bench.load", bootstrap, topic, str(partitions), str(rate), str(keys)]
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


if __name__ == "__main__":
    produce_steadily(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
