"""Find deployments by name: the settings with which each learned stand in its snapshots topic."""

from dataclasses import replace

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.checkpoint.newest_records import newest_records
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, nearest
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.topics.topics import read_logs


def named(settings: Settings, name: str) -> Settings:
    """Return the settings for a deployment on the same input, under its own name."""
    if name == settings.name:
        return settings
    return Settings.of({**settings.model_dump(), "name": name, "shadow_of": None})


def find_both(settings: Settings, names: tuple[str, str]) -> tuple[DeploymentContext, DeploymentContext]:
    """Return two deployments on the input of the settings, each with those of its newest models.

    Raises `ConfigurationError` where both are one or read other inputs, and `BrokerError` where the broker has no
    models of one, or does not answer.
    """
    if names[0] == names[1]:
        raise ConfigurationError(f"{names[0]} and {names[1]} are one deployment; name two")
    client = clients.librdkafka(settings)
    here = named(settings, names[0])
    base = DeploymentContext.of(here, client, read_logs(client, here))
    records = [_newest(named(settings, name), base) for name in names]
    inputs = [record.identity.inputs for record in records]
    if inputs[0] != inputs[1]:
        topics = [", ".join(each) for each in inputs]
        raise ConfigurationError(
            f"{names[0]} reads {topics[0]}, and {names[1]} reads {topics[1]}; only deployments on the same input can "
            "be compared"
        )
    first, second = (_found(named(settings, name), record) for name, record in zip(names, records, strict=True))
    return first, second


def _newest(settings: Settings, base: DeploymentContext) -> PartitionRecord:
    """Return the newest record of the snapshots topic about any partition of the input."""
    name, topic = settings.name, settings.topic("snapshots")
    own = replace(base, settings=settings)
    with own.reader(patience=settings.broker.answer_timeout) as reader:
        if not reader.has((topic, 0)):
            counts = ClusterAdmin(base.client, settings.broker.answer_timeout).partition_counts()
            raise BrokerError(
                f"there is no deployment {name} on {settings.broker.bootstrap}: topic {topic}, where its snapshots "
                f"would be, does not exist{nearest(topic, counts)}"
            )
        records = newest_records(reader, own)
    inputs = ", ".join(settings.input.topics)
    record = next((record for at, record in records.items() if at[0] in settings.input.topics), None)
    if record is None:
        raise BrokerError(
            f"{name} has no snapshot of {inputs} yet, or reads another input: topic {topic} on "
            f"{settings.broker.bootstrap} holds none; compare input.topics with its own settings, or wait for the "
            "first snapshot"
        )
    if record.identity.pipeline != name:
        raise mismatches.other_pipeline(topic, record.identity.pipeline, name)
    return record


def _found(settings: Settings, record: PartitionRecord) -> DeploymentContext:
    then = settings_then(settings, record.identity)
    client = clients.librdkafka(then)
    return DeploymentContext.of(then, client, read_logs(client, then))
