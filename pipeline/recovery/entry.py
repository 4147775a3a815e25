"""The deployment that a command inspects or changes, as the broker describes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, nearest
from resonance.pipeline.kafka import clients, log_reader
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.topics.topics import read_logs

DESCRIBED: Final = ("cluster_events", "clusters", "snapshots", "archive")
"""Topics whose largest allowed message matters for a restore."""


def open_source(settings: Settings) -> DeploymentContext:
    """Return the deployment as the broker describes it; no topic is created.

    Raises `BrokerError`, with the nearest topic name, where the broker has no snapshots of this deployment, and
    `ConfigurationError` where `stream` must be set.
    """
    client = clients.librdkafka(settings)
    deployment = read_logs(client, settings)
    cluster = ClusterAdmin(client, settings.broker.answer_timeout)
    counts = cluster.partition_counts()
    snapshots = settings.topic("snapshots")
    if counts.get(snapshots, 0) < deployment.state_partitions:
        cluster.check_seen(snapshots)
        raise BrokerError(
            f"there is no topic {snapshots} with the snapshots of {settings.name} on "
            f"{client['bootstrap.servers']}{nearest(snapshots, counts)}; look at name and topics.pattern, or "
            "start a worker, which makes it"
        )
    if not cluster.embedded:
        there = [topic for kind in DESCRIBED if (topic := settings.topic(kind)) in counts]
        configs = cluster.configs(there).items()
        sizes = {topic: int(config["max.message.bytes"]) for topic, config in configs if "max.message.bytes" in config}
        deployment = replace(deployment, message_bytes=sizes)
    return DeploymentContext.of(settings, client, deployment)


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[DeploymentContext, log_reader.LogReader]]:
    """Open the deployment, as `open_source` returns it, with a reader of its logs."""
    source = open_source(settings)
    with source.reader() as reader:
        yield source, reader
