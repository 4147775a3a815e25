"""Reset one stream: its model is dropped, and its next record starts the stream's next version."""

from dataclasses import replace
from functools import partial

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.listing import check_stream
from resonance.pipeline.recovery.past_models import tasks_of
from resonance.pipeline.recovery.rewrite import Change, Standing, StreamChange, is_stream_of, rewrite_models


def plan_stream_reset(settings: Settings, source: DeploymentContext, stream: str) -> Change:
    """Return the change with which one stream's model is dropped; the other streams of its partition continue.

    Raises `ConfigurationError`, with the nearest names, where there is no such stream, and `MismatchError` where the
    partition cannot be restored.
    """
    # A stream without a snapshot counts too; where its name gives no partition, all of them are restored to find it.
    chosen = [at for at in source.logs if is_stream_of(source, at, stream)] or source.logs
    tasks = tasks_of(source)
    parts = restore_partitions(source, chosen, partial(tasks, settings))
    known = {name: at for at, part in parts.items() for name in part.task.models.names}
    check_stream(stream, known, source.group)
    at = known[stream]
    part, task, start = parts[at], parts[at].task, parts[at].start
    snapshot = next(state for _, state in task.models.changes([stream]) if state is not None)
    before = Standing(task.models.named(stream).version, part.writer.snapshot_at(stream))
    task.models.used = part.writer.archives.used
    task.restore(replace(snapshot, next=start), new_version=True)
    changed = StreamChange(stream, before, Standing(task.models.named(stream).version, start))
    return replace(rewrite_models(source, at, task, start, part.writer, part.committed), streams=[changed])
