"""How long records wait when a worker goes: killed, stopped, or killed and started again by a supervisor.

Four partitions with a steady load on a real Kafka on the same machine, exactly once. Seconds from the signal to the
first new answer in a partition that the worker had.
"""

import os
import re
import signal
import statistics
import time
from datetime import datetime
from itertools import pairwise

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from bench.pipeline import Bench
from bench.report import Row, arguments, show
from tests.brokers import running_broker
from tests.integration.workers import Deployment, WorkerProcess

RATE = 400.0
POLL_SECONDS = 0.01
SESSION = 6
"""``broker.session_timeout``; the broker finds a killed worker missing only then."""
PARTS = (
    ("interpreter, imports and settings", r"a model for each|made topic"),
    ("kernels, client, and its place in the group", r"assigned:"),
    ("restore", r"restored"),
)
"""What a new process does until its first answer, and the line of its log with which each part ends."""


class Answers:
    """A reader of committed assignments."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-takeover",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )

    def wait(self, partitions: list[int], since: float) -> float:
        """Return once an answer is read that was written after a time, in one of the partitions; return its time."""
        self._consumer.assign([TopicPartition(self._topic, partition, OFFSET_END) for partition in partitions])
        self._consumer.poll(0)
        while True:
            for message in self._consumer.consume(1_000, POLL_SECONDS):
                if message.error() is None and message.timestamp()[1] >= 1000 * since:
                    return time.time()

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def partitions_of(worker: WorkerProcess) -> list[int]:
    """Return the partitions that a worker has."""
    return [int(name.rpartition("[")[2][:-1]) for name in worker.health()["partitions"]]


class Takeover:
    """A deployment under load."""

    def __init__(self, bootstrap: str) -> None:
        self.deployment = Deployment(bootstrap, settings={"broker.session_timeout": SESSION, "prepare.scale": "warmup"})
        self.answers = Answers(bootstrap, f"{self.deployment.name}.assignments")

    def worker(self, name: str) -> WorkerProcess:
        """Start a worker as a supervisor does: a new interpreter."""
        return self.deployment.worker(settings={"worker.id": name}, forked=False)

    def lost(self, how: signal.Signals) -> float:
        """Two workers, one of them ends: the seconds until the other one answers for it."""
        with self.worker("stays") as stays, self.worker("goes") as goes:
            for each in (stays, goes):
                each.wait_for(lambda health: health["ready"] and len(health["partitions"]) == 2, 120)
            mine = partitions_of(goes)
            time.sleep(2.0)
            began = time.time()
            goes.process.send_signal(how)
            goes.ended(30)
            # Not before its end: until then answers may be its own.
            found = self.answers.wait(mine, time.time()) - began
            stays.terminate()
        return found

    def restarted(self) -> tuple[float, dict[str, float]]:
        """One worker, killed and started again at once: the seconds until its first answer, and their parts."""
        with self.worker("only") as killed:
            killed.ready(120)
            time.sleep(2.0)
            began = time.time()
            killed.kill()
        with self.worker("only") as again:
            ended = self.answers.wait([0, 1, 2, 3], began)
            parts = parts_of(again.log(), began, ended)
            again.terminate()
        return ended - began, parts


def parts_of(log: str, began: float, ended: float) -> dict[str, float]:
    """Return the seconds of each part of a start by the times of its log's lines."""
    at = [began]
    for _, pattern in PARTS:
        line = next(line for line in log.splitlines() if re.search(pattern, line))
        at.append(datetime.fromisoformat(line.split()[0]).timestamp())
    names = [*(name for name, _ in PARTS), "first answer"]
    return dict(zip(names, (b - a for a, b in pairwise([*at, ended])), strict=True))


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How long records wait when a worker goes.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is done; medians are shown")
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    with running_broker() as bootstrap:
        takeover = Takeover(bootstrap)
        with Bench(bootstrap).steady_load(takeover.deployment.input, RATE):
            for _ in range(given.rounds):
                found.setdefault(f"killed, of two (session {SESSION} s)", []).append(takeover.lost(signal.SIGKILL))
                found.setdefault("stopped, of two", []).append(takeover.lost(signal.SIGTERM))
                whole, parts = takeover.restarted()
                found.setdefault("killed and started again, the only one", []).append(whole)
                for name, seconds in parts.items():
                    found.setdefault(f"- {name}", []).append(seconds)
    takeover.answers.close()
    bars = {f"killed, of two (session {SESSION} s)": SESSION + 3.0, "stopped, of two": 1.0}
    bars["killed and started again, the only one"] = SESSION + 3.0
    rows = [
        Row(name, "s", statistics.median(values), "bar" if name in bars else None, bars.get(name))
        for name, values in found.items()
    ]
    show(f"From a worker's end to the first new answer, load {os.getloadavg()[0]:.1f}", rows, given.json)


if __name__ == "__main__":
    main()
