"""A contestant's process, watched from outside: the records it has answered and the CPU time it has used."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

POLL_SECONDS = 0.03
STALLED_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Pace:
    """What a process did between its first and its last answers.

    Attributes
    ----------
    rate : float
        Records a second.
    cpu : float
        Microseconds of CPU time a record, all threads.
    """

    rate: float
    cpu: float


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python module as a process that is ended at the end; what it said is added to an error in between."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=output, stderr=output)
        try:
            yield process
        except Exception as error:
            output.seek(0)
            error.add_note(f"{' '.join(command)} said: {output.read().decode(errors='replace').strip()[-3000:]}")
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of those that it started."""
    children = [
        int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
    ]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(cpu_of, children)) + (int(fields[11]) + int(fields[12])) / TICKS


class Answers:
    """The records of a topic that a reader of committed records can see."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._wanted = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
        self._last = 0
        # A topic that was made just now has moments without a leader: a contestant must not run in them unseen.
        end = time.monotonic() + STALLED_SECONDS
        while not self._ask() and time.monotonic() < end:
            time.sleep(POLL_SECONDS)

    def count(self) -> int:
        """Return how many there are, give or take the markers of transactions."""
        self._ask()
        return self._last

    def _ask(self) -> bool:
        found = self._admin.list_offsets(self._wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            self._last = sum(max(0, future.result(10).offset) for future in found.values())
        except KafkaException:
            return False
        return True


def pace(process: subprocess.Popen[bytes], count: Callable[[], int], last: int) -> Pace:
    """Watch a process from its first answers to its answer number `last`.

    Not from later on: a consumer that reads far ahead has then done much of the work for what is still to come.
    """
    begin: tuple[int, float, float] | None = None
    changed, seen = time.monotonic(), 0
    while process.poll() is None:
        answered = count()
        now = time.monotonic()
        if answered != seen:
            changed, seen = now, answered
        if begin is None and answered > 0:
            begin = (answered, now, cpu_of(process.pid))
        if begin is not None and answered >= last and answered > begin[0]:
            records, cpu = answered - begin[0], cpu_of(process.pid)
            return Pace(records / (now - begin[1]), 1e6 * (cpu - begin[2]) / records)
        if now - changed > STALLED_SECONDS:
            raise RuntimeError(f"no new answers for {STALLED_SECONDS} s: {seen:,} of {last:,}")
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the process ended with {process.returncode} after {seen:,} of {last:,} answers")
