"""Both hops of a re-keyed stream in a few lines: the routes are lists."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Outputs, Record
from resonance.pipeline.tasks import Task, make_task

from tests.pipeline import streams
from tests.pipeline.streams import STAMP, points, value_of

ROUTES = "resonance.routes"


def settings(stream: str = "topic", **changes: Any) -> Settings:
    return streams.settings(stream=stream, **changes)


def inputs(
    count: int, partitions: int = 3, topics: Sequence[str] = (streams.TOPIC,), seed: int = 0
) -> dict[tuple[str, int], list[Record]]:
    """Logs of input topics: records of a few countries, with keys and headers of their own."""
    logs: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for i, row in enumerate(points(count, seed).tolist()):
        at = (topics[i % len(topics)], i * 7 % partitions)
        value = value_of(row, id=f"r{i}", country=("DE", "FR", "IT")[i % 5 % 3], n=i % 2)
        headers = (("traceparent", b"00-%d" % i),) if i % 3 == 0 else ()
        logs[at].append(Record(*at, 2 * len(logs[at]), STAMP + 1_000 * i, b"k%d" % (i % 4), value, headers))
    return dict(logs)


class Hops:
    """The tasks of both hops, the routes between them and what they said."""

    def __init__(self, given: Settings, routes: int = 2) -> None:
        self.given = given
        self.count = routes
        self.tasks: dict[tuple[str, int], Task] = {}
        self.routes: dict[int, list[Record]] = defaultdict(list)
        self.read: dict[int, int] = defaultdict(int)
        self.first = Outputs()
        self.second: dict[int, Outputs] = defaultdict(Outputs)

    def task(self, topic: str, partition: int) -> Task:
        at = (topic, partition)
        if at not in self.tasks:
            self.tasks[at] = make_task(self.given, topic, partition, self.count)
        return self.tasks[at]

    def send(self, records: Sequence[Record]) -> Outputs:
        """Send records of one partition on."""
        outputs = self.task(records[0].topic, records[0].partition).process(records)
        self.first.add(outputs)
        for message in outputs.routes:
            self.append(message)
        return outputs

    def append(self, message: Message) -> None:
        """Write a route; every tenth offset is a marker's."""
        assert message.partition is not None
        log = self.routes[message.partition]
        offset = len(log) + len(log) // 10
        log.append(Record(ROUTES, message.partition, offset, STAMP, message.key, message.value, message.headers))

    def learn(self, size: int | None = None) -> None:
        """Learn what was routed and is not learned yet, in batches of a size."""
        for partition, log in self.routes.items():
            while waiting := log[self.read[partition] :][: size or len(log)]:
                self.second[partition].add(self.task(ROUTES, partition).process(waiting))
                self.read[partition] += len(waiting)


def interleaved(logs: dict[tuple[str, int], list[Record]], size: int = 17) -> list[list[Record]]:
    """Batches of the logs, by turns."""
    longest = max(map(len, logs.values()))
    return [log[start : start + size] for start in range(0, longest, size) for log in logs.values() if log[start:]]
