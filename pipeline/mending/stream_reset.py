"""The model of one stream is forgotten: its next record begins the stream's next version."""

from dataclasses import replace

from resonance.pipeline.broker.log_reader import NO_OFFSET
from resonance.pipeline.mending.changes import (
    Change,
    Standing,
    StreamChange,
    acknowledged,
    inputs_of,
    is_stream_of,
)
from resonance.pipeline.states.archives import archive_of
from resonance.pipeline.states.restore import restore_partitions
from resonance.pipeline.states.source import Source
from resonance.pipeline.states.stored_states import check_stream
from resonance.pipeline.tasks import MakeTask


def plan_stream_reset(source: Source, make_task: MakeTask, stream: str) -> Change:
    """Return what changes when a stream's model is forgotten; the others of its partition go on as they are.

    Parameters
    ----------
    source : Source
        The deployment.
    make_task : callable
        Makes an empty task for an input partition.
    stream : str
        Its name.

    Raises
    ------
    ConfigurationError
        There is no such stream; the nearest names are offered.
    MismatchError
        The partition cannot be restored: a named stop.
    """
    # Also one that has no snapshot yet; where the name says no partition, all of them tell what there is.
    inputs = inputs_of(source)
    parts = restore_partitions(source, [at for at in inputs if is_stream_of(source, at, stream)] or inputs, make_task)
    known = {name: at for at, part in parts.items() for name in part.task.streams}
    check_stream(stream, known, source.group)
    at = known[stream]
    part, task, start = parts[at], parts[at].task, parts[at].start
    snapshot = task.snapshot(stream)
    before = Standing(task.model(stream).version, part.writer.snapshot_at(stream))
    task.restore(replace(snapshot, next=start), new_version=True)
    part.writer.began = NO_OFFSET
    messages = list(part.writer.messages(task, start, acknowledged(part.committed, start), everything=True))
    after = Standing(task.model(stream).version, start)
    archive = archive_of(source, at, task, start)
    return Change(at, messages, start, archive, part.committed, [StreamChange(stream, before, after)])
