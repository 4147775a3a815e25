"""One partition of a replay: without outputs from where its models start, then with outputs in the range."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import open_job
from resonance.pipeline.replay.sinks import FolderSink, Nowhere, Sink, TopicSink
from resonance.pipeline.tasks import Task


@dataclass(slots=True)
class Replayed:
    """Result of one partition."""

    topic: str
    partition: int
    begin: int = 0
    """First offset with outputs."""
    end: int = 0
    """Offset after the last one of the range."""
    start: str = ""
    """Where the models come from."""
    notes: list[str] = field(default_factory=list)
    """What was left aside, and where new versions began."""
    silent: int = 0
    """Records learned before the range, without outputs."""
    records: int = 0
    """Records of the range."""
    routed: int = 0
    """Routes emitted; their records are learned in another partition."""
    assignments: int = 0
    events: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Dead letters by class."""


class Answering:
    """A partition that is being replayed, with its counts in `found`.

    Records below ``found.begin`` are learned without outputs.
    """

    def __init__(self, found: Replayed, task: Task, sink: Sink) -> None:
        self._found, self._task, self._sink = found, task, sink
        self._before: Counter[str] = task.counts.dead_letters
        self._dead_letters: Counter[str] = Counter()

    def go_on(self, task: Task) -> None:
        """Process the next records with other models."""
        self._dead_letters += self._task.counts.dead_letters - self._before
        self._task, self._before = task, task.counts.dead_letters

    def take(self, batch: Sequence[Record]) -> Outputs:
        """Learn the next records; write and return the outputs of those in the range."""
        found, outputs = self._found, Outputs()
        silent, records = sources.cut(batch, found.begin)
        if silent:
            self._task.catch_up(silent)
            found.silent += len(silent)
            self._before = self._task.counts.dead_letters
        if records:
            outputs = self._task.process(records)
            found.records += len(records)
            found.routed += len(outputs.routes)
            found.assignments += len(outputs.assignments)
            found.events += len(outputs.cluster_events)
            self._sink.write(outputs)
        return outputs

    def close(self) -> Replayed:
        """Ensure that the outputs are stored and return the result."""
        self._sink.close()
        self._found.dead_letters = dict(self._dead_letters + (self._task.counts.dead_letters - self._before))
        return self._found


def work(job: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Replay one partition of a topic and return a `Replayed` as a dict.

    The job has ``settings``, ``deployment``, ``at`` (topic and partition), ``range``, ``fresh`` and ``output``.
    """
    with open_job(job) as opened:
        begin, end = opened.begin, opened.end
        start = opened.find_start(begin)
        found = Replayed(*opened.at, max(begin, start.offset), max(end, start.offset), start.text, start.notes)
        answering = Answering(found, start.task, sink_of(job["output"], opened.settings, opened.at[1]))
        try:
            while True:
                later = opened.later_version(start, end)
                behind = end if later is None else later.offset
                for batch in sources.of_topic(opened.reader, opened.at, start.offset, behind):
                    answering.take(batch)
                    report(len(batch))
                if later is None:
                    break
                found.notes.append(
                    f"a new version of a model began at offset {later.offset:,}: from there on {later.text}"
                )
                answering.go_on(later.task)
                start = later
        finally:
            answering.close()
    return asdict(found)


def sink_of(output: Mapping[str, Any] | None, settings: Settings, partition: int) -> Sink:
    """Return the sink of a partition for an output: ``{"folder", "part"}``, ``{"topics"}``, or None for nowhere."""
    if output is None:
        return Nowhere()
    if "folder" in output:
        return FolderSink(Path(output["folder"]), output["part"])
    from resonance.pipeline.kafka.clients import librdkafka  # noqa: PLC0415 - a file needs no broker

    return TopicSink(librdkafka(settings), output["topics"], partition, settings.output.compression)
