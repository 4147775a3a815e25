"""What has happened so far, as far as the outputs tell: counts, present clusters, and a log in sentences."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from resonance.pipeline.demo.telemetry import REGIONS, Incident, Telemetry
from resonance.pipeline.watch.sentences import sentence
from resonance.schemas import Assignment, ClusterEvent, ClusterSnapshot

RATE_SECONDS = 1.0
"""Time between two points of the rate."""


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One line of the log.

    Attributes
    ----------
    seconds : float
        Since the beginning.
    kind : str
        ``incident``, ``worker``, ``note``, or the kind of a cluster event.
    text : str
        What happened.
    """

    seconds: float
    kind: str
    text: str


class Story:
    """The demo as an observer of the bus sees it.

    Parameters
    ----------
    telemetry : Telemetry
        The script.
    clock : callable
        Seconds; of the observer alone, nothing in the outputs depends on it.

    Attributes
    ----------
    fed, answered, novel : list of int
        By partition: records sent, answered, and those of them that were new to the model.
    clusters : list of dict of str to ClusterSnapshot
        Present clusters by partition, folded from the events.
    events : list of list of ClusterEvent
        By partition, in order.
    assigned : list of list of (str or None)
        Cluster of each record by partition; None where it has none, or no answer yet.
    log : list of StoryLine
        Everything said so far.
    rates : list of float
        Answers per second, one for each `RATE_SECONDS`.
    worker : str
        What the worker does.
    """

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        self.telemetry = telemetry
        self._clock = clock
        self._start = clock()
        count = len(REGIONS)
        self.fed, self.answered, self.novel = [0] * count, [0] * count, [0] * count
        self.clusters: list[dict[str, ClusterSnapshot]] = [{} for _ in range(count)]
        self.events: list[list[ClusterEvent]] = [[] for _ in range(count)]
        self.assigned: list[list[str | None]] = [[None] * telemetry.records for _ in range(count)]
        self.log: list[StoryLine] = []
        self.rates: list[float] = []
        self.worker = ""
        self._incidents: list[list[Incident]] = [[] for _ in range(count)]
        for incident in telemetry.incidents:
            self._incidents[incident.partition].append(incident)
        self._ticked, self._ticked_answers = clock(), 0

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._start

    @property
    def waiting(self) -> int:
        """Records that were sent and not answered yet."""
        return sum(self.fed) - sum(self.answered)

    @property
    def rate(self) -> float:
        """Answers per second, of late."""
        return self.rates[-1] if self.rates else 0.0

    def say(self, kind: str, text: str) -> None:
        """Write a line into the log."""
        self.log.append(StoryLine(self.seconds, kind, text))

    def sent(self, partition: int) -> None:
        """Count a record that was sent, and tell the incidents that begin with it."""
        self.fed[partition] += 1
        for incident in self._incidents[partition]:
            if incident.at + 1 == self.fed[partition]:
                self.say("incident", f"{REGIONS[partition]}: {incident.text}")

    def assignment(self, partition: int, value: bytes) -> None:
        """Take an assignment."""
        answer: Assignment = orjson.loads(value)
        self.answered[partition] += 1
        self.novel[partition] += answer["novel"]
        self.assigned[partition][answer["source"]["offset"]] = answer["cluster"]

    def event(self, partition: int, value: bytes) -> None:
        """Take a cluster event: fold it and say it."""
        event: ClusterEvent = orjson.loads(value)
        present = self.clusters[partition]
        self.say(event["kind"], sentence(event, list(present.values())))
        self.events[partition].append(event)
        fold(present, event)

    def tick(self) -> None:
        """Take the rate, when it is time."""
        passed = self._clock() - self._ticked
        if passed >= RATE_SECONDS:
            answers = sum(self.answered)
            self.rates.append((answers - self._ticked_answers) / passed)
            self._ticked, self._ticked_answers = self._clock(), answers


def fold(present: dict[str, ClusterSnapshot], event: ClusterEvent) -> None:
    """Apply an event to the present clusters of its stream."""
    if event["kind"] == "version_started" and event.get("part", 1) == 1:
        present.clear()
    elif event["kind"] in ("absorbed", "vanished"):
        present.pop(event["cluster"] or "", None)
    present.update({cluster["id"]: cluster for cluster in event["after"]})
