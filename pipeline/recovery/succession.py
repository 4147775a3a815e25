"""Let other models take the place of a partition's, under a version that it has never used.

They come from another deployment, or from an archive of a version that was given up. Every id that they use afterwards
is new. The first record of each stream emits ``version_started``: the clusters that consumers know end, those of the
other model are there, and an ended cluster may name the one that goes on in its place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import orjson
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import RestoredPartition
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.rewrite import Change, StreamChange, StreamPosition, rewrite_models
from resonance.pipeline.task.encode.cluster_description import emitted, present
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.streams import engine_of
from resonance.pipeline.tasks import Task

NO_SUCCESSORS: Final[Mapping[str, str]] = {}


def succession(
    source: DeploymentContext,
    at: TopicPartition,
    old: RestoredPartition[Task],
    state: bytes,
    streams: Iterable[StreamSnapshot],
    position: int,
    alerts: ForgottenAlerts,
    successors: Mapping[str, str] = NO_SUCCESSORS,
) -> Change:
    """Return the change with which other models continue a partition at `position`; `source` is as it is with them.

    The `old` ones, as the group stands, are used up. `state` is what the partition of the other `streams` knows beside
    them; a stream that they lack begins a new model. Of their clusters, by the ids there, `successors` go on in place
    of present ones.
    """
    task = PartitionTask(source.settings, *at, source.task_context)
    # Open alerts are those that the deployment has emitted, not those of the other models.
    task.restore_partition(orjson.dumps({k: value for k, value in orjson.loads(state).items() if k != "alerts"}))
    models = old.task.models
    version = 1 + max([models.new_version, old.writer.archives.used, *(model.version for model in models)])
    task.models.first_version = version
    task.models.used = old.writer.archives.used
    left = dict.fromkeys(models.names)
    changes = []

    def change(name: str, before: StreamSnapshot | None) -> None:
        standing = StreamPosition(int(before.header["version"]), before.next) if before else None
        changes.append(StreamChange(name, standing, StreamPosition(task.models.named(name).version, position)))

    for snapshot in streams:
        name = snapshot.stream
        before = models.snapshot(name) if name in left else None
        left.pop(name, None)
        task.restore(_successor(source.settings, before, snapshot, version, successors))
        change(name, before)
    for name in left:
        before = models.snapshot(name)
        header = {**before.header, "shape": None}
        task.restore(replace(before, next=position, header=header), new_version=True)
        change(name, before)
    task.go_on_at(position)
    made, kept = rewrite_models(source, at, task, position, old.writer, old.committed), task.open_alerts
    return replace(made, streams=changes, outputs=alerts.clear(at, "new_version", lambda found: found.key in kept))


def _successor(
    settings: Settings,
    before: StreamSnapshot | None,
    after: StreamSnapshot,
    version: int,
    successors: Mapping[str, str],
) -> StreamSnapshot:
    """Return the model of `after` as the next version of the stream that stands at `before`; None where it is new."""
    name = after.stream
    model = StreamModel.from_state(engine_of(after.header), name, after.body)
    theirs, ours = f"{name}/{model.version}/", f"{name}/{version}/"

    def renamed(cluster: str) -> str:
        return ours + cluster.removeprefix(theirs)

    begun = {cluster: time for cluster, time in model.lifetimes.since.items() if cluster.startswith(theirs)}
    there = {cluster["id"] for cluster in present(model)}
    old = None if before is None else StreamModel.from_state(engine_of(before.header), name, before.body)
    if old is None:
        # An empty one, which has emitted nothing.
        old = StreamModel(settings, name, model.preparation.features, 0)
    ended = emitted(old)
    heirs = {cluster: renamed(heir) for cluster, heir in successors.items() if heir in there}
    model.listing = [
        {**cluster, "successor": heirs[cluster["id"]]} if cluster["id"] in heirs else cluster for cluster in ended
    ]
    model.ended, model.last = None, None
    # The event with which emission begins has the number before the next one.
    model.version, model.seq, model.drifts = version, old.seq + 1, old.drifts
    model.lifetimes = old.lifetimes
    model.lifetimes.forget_others({cluster["id"] for cluster in ended})
    model.lifetimes.since |= {renamed(cluster): time for cluster, time in begun.items()}
    # Open drifts name earlier events of the other deployment.
    model.drift = None
    model.observe(settings)
    model.alerts = old.alerts.next_version() if old.alerts is not None else None
    return StreamSnapshot(name, after.next, {**after.header, "version": version}, model.state())
