"""One partition of a replay: silently from where its models start, then with answers to the end of the range."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.jobs import Tell
from resonance.pipeline.replay.opening import open_job
from resonance.pipeline.replay.sinks import FolderSink, Nowhere, Sink, TopicSink
from resonance.pipeline.tasks import Task


@dataclass(slots=True)
class Replayed:
    """What came of a partition.

    Attributes
    ----------
    topic : str
        Where its records came from.
    partition : int
        Which one it is.
    begin, end : int
        Offsets of the first record that was answered, and behind the last.
    start : str
        Where the models came from.
    notes : list of str
        What was left aside on the way.
    silent : int
        Records that were learned before the range.
    records : int
        Records of the range.
    routed : int
        Those of them that were sent on, to be learned elsewhere.
    assignments, events : int
        Outputs.
    dead_letters : dict of str to int
        Dead letters by class.
    """

    topic: str
    partition: int
    begin: int = 0
    end: int = 0
    start: str = ""
    notes: list[str] = field(default_factory=list)
    silent: int = 0
    records: int = 0
    routed: int = 0
    assignments: int = 0
    events: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)


class Answering:
    """A partition that is being replayed.

    Parameters
    ----------
    found : Replayed
        Counts what comes; records below its `begin` are learned silently.
    task : PartitionTask
        The models.
    sink : Sink
        Takes the outputs.
    """

    def __init__(self, found: Replayed, task: Task, sink: Sink) -> None:
        self._found, self._task, self._sink = found, task, sink
        self._before: Counter[str] = task.counts.dead_letters
        self._dead_letters: Counter[str] = Counter()

    def go_on(self, task: Task) -> None:
        """Take the next records with other models."""
        self._dead_letters += self._task.counts.dead_letters - self._before
        self._task, self._before = task, task.counts.dead_letters

    def take(self, batch: Sequence[Record]) -> Outputs:
        """Learn the next records, and answer those of the range; return what is said of them."""
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
            found.events += len(outputs.events)
            self._sink.write(outputs)
        return outputs

    def close(self) -> Replayed:
        """See to it that outputs are stored; return what came of it."""
        self._sink.close()
        self._found.dead_letters = dict(self._dead_letters + (self._task.counts.dead_letters - self._before))
        return self._found


def work(job: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Replay one partition of a topic.

    Parameters
    ----------
    job : mapping
        ``settings``, ``deployment``; ``at``: topic and partition; ``range``; ``fresh``; ``output``.
    tell : callable
        Told how many more records are done.

    Returns
    -------
    dict
        A `Replayed`.
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
                    tell(len(batch))
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
    """Return what takes a partition's outputs: ``{"folder", "part"}``, ``{"topics"}``, or None for nowhere."""
    if output is None:
        return Nowhere()
    if "folder" in output:
        return FolderSink(Path(output["folder"]), output["part"])
    from resonance.pipeline.kafka.clients import librdkafka  # noqa: PLC0415 - a file needs no broker

    return TopicSink(librdkafka(settings), output["topics"], partition, settings.output.compression)
