"""One partition of a replay: silently from where its models start, then with answers to the end of the range."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from resonance.pipeline.log_reader import LogReader
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.records import Record
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.jobs import Tell, described
from resonance.pipeline.replay.sinks import FolderSink, Nowhere, Sink, TopicSink
from resonance.pipeline.replay.starts import UNBOUNDED, find_start
from resonance.pipeline.settings import Settings


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
    assignments: int = 0
    events: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)


def work(job: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Replay one partition.

    Parameters
    ----------
    job : mapping
        ``settings``; ``at``: topic and partition; ``output``: ``{"folder", "part"}``, ``{"topics"}`` or None; and
        either ``deployment``, ``range``, ``fresh``, or ``file``, ``partitions``.
    tell : callable
        Told how many more records are done.

    Returns
    -------
    dict
        A `Replayed`.
    """
    topic, partition = job["at"]
    found = Replayed(topic, partition)
    if "file" in job:
        settings = Settings.of(job["settings"])
        task = PartitionTask(settings, topic, partition)
        task.event_bytes = UNBOUNDED
        found.start = "empty models"
        given = job["file"]
        columns = sources.columns_of(given)
        batches = sources.of_file(
            Path(given["path"]), columns, (topic, partition), job["partitions"], skip_bad=given["skip_bad"]
        )
        settings.engine_class.compile()
        _answer(found, task, batches, _sink(job, settings, partition), tell)
        found.end = found.records
        return asdict(found)
    settings, source = described(job)
    settings.engine_class.compile()
    begin, end = job["range"]
    with LogReader(source.client, source.group, source.patience) as reader:
        start = find_start(
            reader,
            source,
            (topic, partition),
            begin,
            lambda *at: PartitionTask(settings, *at),
            fresh=job["fresh"],
        )
        found.start, found.notes = start.text, start.notes
        found.begin, found.end = max(begin, start.offset), max(end, start.offset)
        batches = sources.of_topic(reader, (topic, partition), start.offset, end)
        _answer(found, start.task, batches, _sink(job, settings, partition), tell)
    return asdict(found)


def _answer(found: Replayed, task: PartitionTask, batches: Iterator[list[Record]], sink: Sink, tell: Tell) -> None:
    before: Counter[str] = task.counts.dead_letters
    try:
        for batch in batches:
            silent, records = sources.cut(batch, found.begin)
            if silent:
                task.catch_up(silent)
                found.silent += len(silent)
                before = task.counts.dead_letters
            if records:
                outputs = task.process(records)
                found.records += len(records)
                found.assignments += len(outputs.assignments)
                found.events += len(outputs.events)
                sink.write(outputs)
            tell(len(batch))
    finally:
        sink.close()
    found.dead_letters = dict(task.counts.dead_letters - before)


def _sink(job: Mapping[str, Any], settings: Settings, partition: int) -> Sink:
    output = job["output"]
    if output is None:
        return Nowhere()
    if "folder" in output:
        return FolderSink(Path(output["folder"]), output["part"])
    from resonance.pipeline.clients import librdkafka  # noqa: PLC0415 - a file needs no broker

    return TopicSink(librdkafka(settings), output["topics"], partition, settings.output.compression)
