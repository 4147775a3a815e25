"""Let the models of a deployment take the place of those of another one on the same input, at one offset."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.checkpoint.restore import RestoredPartition, restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.mismatches import differences
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.recovery import entry
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.models import tasks_of
from resonance.pipeline.recovery.rewrite import Change
from resonance.pipeline.recovery.succession import succession
from resonance.pipeline.replay.initial_models import find_start
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.shadow.comparison import agreeing, pairs_of, read
from resonance.pipeline.task.encode.cluster_description import emitted, present
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.tasks import Task

LOOK: Final = 10_000
"""Offsets of each partition, up to where the deployment stands, in which clusters of both are compared."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a promotion changes."""

    source: DeploymentContext
    """The deployment as it is afterwards."""
    changes: list[Change]
    settings: list[str]
    """A phrase for each setting with which its workers must then be started."""
    successors: Mapping[str, str]
    """The cluster of the other deployment that goes on in place of one that agrees with it."""


def plan_promotion(new: DeploymentContext, live: DeploymentContext) -> Promotion:
    """Return what changes where the models of `new` take the place of those of `live`.

    Every partition keeps the offset of `live`; the other models are taken as they are there. A partition whose models
    are those already is left as it is. Raises `ConfigurationError` where `check` does, and `MismatchError` where models
    cannot be restored at that offset.
    """
    check(new, live)
    before = entry.open_source(live.settings)
    # What decides no model, such as the names of topics, is that of the deployment itself.
    after = settings_then(live.settings, next(iter(new.identities.values())))
    source = DeploymentContext.of(after, before.client, before.deployment)
    with before.reader() as reader:
        alerts = ForgottenAlerts.read(reader, before)
        committed = reader.committed(before.logs)
        bounds = reader.bounds(before.logs)
    ranges = {at: (max(bounds[at][0], end - LOOK), end) for at, end in committed.items()}
    runs = read((live, new), ranges, events=False, apart=True).runs
    successors = agreeing(pairs_of(*runs), *runs)
    changes: list[Change] = []
    named: dict[str, str] = {}
    for at in before.logs:
        old = _restored(before, at)
        task = _models_at(new, at, old.start, live.settings.name)
        # After the same command these are the models that are there.
        ours, theirs = (_learned(after, one.models) for one in (old.task, task))
        if source.identities != before.identities or ours != theirs:
            known = {cluster["id"] for model in old.task.models for cluster in emitted(model)}
            there = {cluster["id"] for model in task.models for cluster in present(model)}
            named |= {one: heir for one, heir in successors.items() if one in known and heir in there}
            own = task.partition_state(), task.models.states()
            changes.append(succession(source, at, old, *own, old.start, alerts, named))
    topic = next(iter(source.identities))
    changed = differences(before.identities[topic].values, source.identities[topic].values)
    return Promotion(source, changes, changed, named)


def check(found: DeploymentContext, over: DeploymentContext) -> None:
    """Raise `ConfigurationError` for deployments whose streams are not the same, or that are learned in two stages."""
    new, live = found.settings, over.settings
    for one in (new, live):
        if one.is_routed:
            raise ConfigurationError(
                f"{one.name} learns behind routes of its own (stream = {one.stream}, hierarchy = {one.hierarchy}), and "
                "models that have learned one order of records cannot go on in another; promote needs stream = "
                "partition or key, and hierarchy = local"
            )
    if new.stream != live.stream:
        raise ConfigurationError(
            f"{new.name} has learned with stream = {new.stream}, {live.name} with stream = {live.stream}: these are "
            "other streams, and none of them could go on"
        )
    if live.delivery.mode != "exactly_once":
        raise ConfigurationError(
            "promote needs delivery.mode = exactly_once, with which the models of all partitions change together"
        )


def _restored(source: DeploymentContext, at: TopicPartition) -> RestoredPartition[Task]:
    """Return the models of a deployment as its workers would find them, or raise `MismatchError` without their ways."""
    try:
        return restore_partitions(source, [at], tasks_of(source))[at]
    except MismatchError as error:
        raise MismatchError(
            f"{error.problem}; promote needs the models of {source.settings.name} as they are: use the release of its "
            "workers, or start one of them first, which says what helps"
        ) from None


def _models_at(one: DeploymentContext, at: TopicPartition, offset: int, live: str) -> Task:
    """Return the models of a deployment as they are at an offset of a partition."""
    part = PartitionRange(one, at, offset, offset)
    with part.source.reader() as reader:
        stands = reader.committed([at])[at]
        if stands <= offset:
            restored = _restored(one, at)
            task, start = restored.task, restored.start
        else:
            try:
                found = find_start(reader, part, offset)
            except MismatchError:
                raise _not_known(one, at, offset, stands, live) from None
            task, start = found.task, found.offset
            if start > offset:
                raise _not_known(one, at, offset, stands, live)
        for records in part.records(reader, start, offset):
            task.catch_up(records)
    return task


def _not_known(one: DeploymentContext, at: TopicPartition, offset: int, stands: int, live: str) -> MismatchError:
    name = one.settings.name
    return MismatchError(
        f"{at[0]}[{at[1]}]: {name} stands at offset {stands}, and its models at offset {offset}, where {live} stands, "
        f"are in no archive; let a worker of {live} go on to offset {stands}, and stop it there"
    )


def _learned(settings: Settings, models: Iterable[StreamModel]) -> dict[str, tuple[bytes, bytes]]:
    """Return what each stream has learned, without its version and its numbers.

    A stream that has learned nothing is left out: one that the other deployment lacks begins as such.
    """
    found = {}
    for model in models:
        empty = StreamModel(settings, model.name, model.preparation.features)
        own, nothing = ((one.preparation.state(), one.engine.state()) for one in (model, empty))
        if own != nothing:
            found[model.name] = own
    return found
