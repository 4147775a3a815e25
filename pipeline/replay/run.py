"""One partition of a replay: without outputs from where its models start, then with outputs in the range."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from typing import Final

import orjson
from resonance.engine.drift.layout import RANGE, STREAM_BASE
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.replay.initial_models import find_start, later_version
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.replay.sinks import Sink
from resonance.pipeline.task.alerts.kernels import cusum, stream_rules
from resonance.pipeline.task.counts import DeadLetterExample
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.range_changes import RestlessRanges
from resonance.pipeline.tasks import Task

WATCHED_FROM: Final = RANGE + STREAM_BASE
"""Records of a stream from which on its drift is seen."""

ANSWERS: Final = stream_rules.SETTLE + cusum.FIRST_BLOCKS * cusum.BLOCK
"""Answers behind the warm-up from which on records unlike all before are."""

ALERTS_FROM: Final = 400
"""About how many records these are with the usual warm-up."""

LOOKED_AT: Final = 1_000
"""Streams of a partition that are looked at for this: each may have to be read from disk."""

_offset = attrgetter("offset")


def cut(records: Sequence[Record], offset: int) -> tuple[Sequence[Record], Sequence[Record]]:
    """Split records at an offset: those below it, and the others."""
    if records[0].offset >= offset:
        return (), records
    place = bisect_left(records, offset, key=_offset)
    return records[:place], records[place:]


def is_watched(model: StreamModel) -> bool:
    """Whether what is unlike in a stream is seen, and its drift, as far as these are wanted."""
    if model.root_node is not None:
        return True
    watch = None if model.drift is None else model.drift.watch
    is_seen = model.alerts is None or model.alerts.integers[stream_rules.N] >= ANSWERS
    return is_seen and (model.drift is None or (watch is not None and watch.records >= WATCHED_FROM))


@dataclass(slots=True)
class PartitionResult:
    """What a replay or a verification of one partition reads, and from which models."""

    topic: str
    partition: int
    begin: int = 0
    """First offset with outputs that count."""
    end: int = 0
    """Offset after the last one of the range; a verification ends at the committed offset."""
    start: str = ""
    """Where the models come from."""
    notes: list[str] = field(default_factory=list)
    """What was left aside, and where new versions began."""
    silent: int = 0
    """Records learned before the range, without outputs."""
    records: int = 0
    """Records of the range."""


@dataclass(slots=True)
class Replayed(PartitionResult):
    """Result of replaying one partition."""

    routed: int = 0
    """Routes emitted; their records are learned in another partition."""
    assignments: int = 0
    events: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Dead letters by class."""
    examples: list[DeadLetterExample] = field(default_factory=list)
    """The first dead letters of each class."""
    alerts: dict[str, int] = field(default_factory=dict)
    """Alerts that opened, by rule."""
    open_alerts: dict[str, int] = field(default_factory=dict)
    """Alerts that are open at the end, by rule."""
    ranges: RestlessRanges = field(default_factory=RestlessRanges)
    """Features that left their range often."""
    warm_up: str = ""
    """How far the warm-ups are that last at the end."""
    now: int = 0
    """The time that the records have come to, in milliseconds since 1970; 0 where nothing depends on it."""
    unwatched: list[str] = field(default_factory=list)
    """Of the first streams those with too few records for alerts on answers, or for a drift to be seen."""


class Answering:
    """A partition that is being replayed, with its counts in `found`.

    Records below ``found.begin`` are learned without outputs.
    """

    def __init__(self, found: Replayed, task: Task, sink: Sink) -> None:
        self._found, self.task, self._sink = found, task, sink
        self._before: Counter[str] = task.counts.dead_letters
        self._dead_letters: Counter[str] = Counter()

    def go_on(self, task: Task) -> None:
        """Process the next records with other models."""
        self._count()
        self.task, self._before = task, task.counts.dead_letters

    def _count(self) -> None:
        counts = self.task.counts
        self._dead_letters += counts.dead_letters - self._before
        self._found.examples += chain.from_iterable(counts.dead_letter_examples.values())

    def take(self, batch: Sequence[Record]) -> Outputs:
        """Learn the next records; write and return the outputs of those in the range."""
        found, outputs = self._found, Outputs()
        silent, records = cut(batch, found.begin)
        if silent:
            self.task.catch_up(silent)
            found.silent += len(silent)
            self._before = self.task.counts.dead_letters
        if records:
            outputs = self.task.process(records)
            found.records += len(records)
            found.routed += len(outputs.routes)
            found.assignments += len(outputs.assignments)
            found.events += len(outputs.cluster_events)
            for message in outputs.alerts:
                alert = orjson.loads(message.value or b"")
                if alert["kind"] == "opened":
                    found.alerts[alert["rule"]] = found.alerts.get(alert["rule"], 0) + 1
            self._sink.write(outputs)
        return outputs

    def close(self) -> Replayed:
        """Ensure that the outputs are stored and return the result."""
        self._sink.close(self.task.models)
        # Some may have opened before the range.
        self._found.open_alerts = dict(Counter(key.split("/")[1] for key in self.task.open_alerts))
        self._found.warm_up = self.task.counts.totals.warm_up_text
        self._found.unwatched = [model.name for model in islice(self.task.models, LOOKED_AT) if not is_watched(model)]
        self._found.now = self.task.models.clock.now
        self._found.ranges = self.task.health.ranges.found()
        self._count()
        self._found.dead_letters = dict(self._dead_letters)
        return self._found


def replay_partition(part: PartitionRange, make_sink: Callable[[], Sink], report: Report) -> Replayed:
    """Replay one partition of a topic."""
    with part.source.reader() as reader:
        start = find_start(reader, part, part.begin)
        begin, end = max(part.begin, start.offset), max(part.end, start.offset)
        found = Replayed(*part.at, begin, end, start.text, start.notes)
        answering = Answering(found, start.task, make_sink())
        try:
            while True:
                later = later_version(reader, part, start)
                for batch in part.records(reader, start.offset, part.end if later is None else later.offset):
                    answering.take(batch)
                    report(len(batch))
                if later is None:
                    break
                found.notes.append(later.new_version)
                answering.go_on(later.task)
                start = later
        finally:
            answering.close()
    return found
