"""What has happened so far, as the outputs show it: counts, present clusters, and a log in sentences."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from resonance.pipeline.demo.telemetry import REGIONS, DemoIncident, Telemetry
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.pipeline.watch.sentences import sentence
from resonance.schemas import Alert, Assignment, ClusterEvent, ClusterSnapshot, ClusterTable, DriftEvent

RATE_SECONDS = 1.0
"""Time between two points of the rate."""


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One line of the log."""

    seconds: float
    """Time since the beginning."""
    kind: str
    """``incident``, ``worker``, ``note``, ``change``, ``alert``, or the kind of a cluster event."""
    text: str


class Story:
    """The demo as an observer of the bus sees it; `clock` is the observer's, and no output depends on it."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        self.telemetry = telemetry
        self._clock = clock
        self._start = clock()
        count = len(REGIONS)
        # By partition: records sent, records answered, and those of the latter that were new to the model.
        self.delivered, self.answered, self.novel = [0] * count, [0] * count, [0] * count
        self._table = ClusterTable(strict=False)
        self.events: list[list[ClusterEvent]] = [[] for _ in range(count)]
        self.drifts: list[list[DriftEvent]] = [[] for _ in range(count)]
        self.happened = IncidentTable()
        # Cluster of each record by partition; None where it has none, or no answer yet.
        self.assigned: list[list[str | None]] = [[None] * telemetry.records for _ in range(count)]
        self.log: list[StoryLine] = []
        # Answers per second, one value for each `RATE_SECONDS`.
        self.rates: list[float] = []
        # What the worker is doing, in words.
        self.worker = ""
        self._incidents: list[list[DemoIncident]] = [[] for _ in range(count)]
        for incident in telemetry.incidents:
            self._incidents[incident.partition].append(incident)
        self._ticked, self._ticked_answers = clock(), 0

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._start

    @property
    def waiting(self) -> int:
        """Number of records that were sent but not answered yet."""
        return sum(self.delivered) - sum(self.answered)

    @property
    def rate(self) -> float:
        """Answers per second at the latest point of the rate."""
        return self.rates[-1] if self.rates else 0.0

    def present(self, partition: int) -> list[ClusterSnapshot]:
        """Return the clusters that a region has."""
        return self._table.present(f"p{partition}")

    def say(self, kind: str, text: str) -> None:
        """Append a line to the log."""
        self.log.append(StoryLine(self.seconds, kind, text))

    def sent(self, partition: int) -> None:
        """Count a record that was sent, and log the incidents that begin with it."""
        self.delivered[partition] += 1
        for incident in self._incidents[partition]:
            if incident.at + 1 == self.delivered[partition]:
                self.say("incident", f"{REGIONS[partition]}: {incident.text}")

    def assignment(self, partition: int, value: bytes) -> None:
        """Count an answer, and keep the cluster of its record."""
        answer: Assignment = orjson.loads(value)
        self.answered[partition] += 1
        self.novel[partition] += answer["novel"]
        self.assigned[partition][answer["source"]["offset"]] = answer["cluster"]

    def event(self, partition: int, value: bytes) -> None:
        """Log a cluster event, and apply it to the present clusters."""
        event: ClusterEvent = orjson.loads(value)
        self.say(event["kind"], sentence(event, self.present(partition)))
        self.events[partition].append(event)
        self._table.apply(event)
        self.happened.apply("cluster_events", event)

    def drift(self, partition: int, value: bytes) -> None:
        """Log a drift event."""
        event: DriftEvent = orjson.loads(value)
        self.say("change", drift_sentence(event))
        self.drifts[partition].append(event)
        self.happened.apply("drift_events", event)

    def alert(self, partition: int, value: bytes) -> None:
        """Log an alert that opens."""
        alert: Alert = orjson.loads(value)
        if alert["kind"] == "opened":
            self.say("alert", f"{REGIONS[partition]}: {alert['severity']} alert: {alert['text']}")
        self.happened.apply("alerts", alert)

    def tick(self) -> None:
        """Append a point to the rate once `RATE_SECONDS` have passed."""
        passed = self._clock() - self._ticked
        if passed >= RATE_SECONDS:
            answers = sum(self.answered)
            self.rates.append((answers - self._ticked_answers) / passed)
            self._ticked, self._ticked_answers = self._clock(), answers
