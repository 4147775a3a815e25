"""Give a cluster a name, or take it away: a message on the compacted topic of the names."""

import time
from collections.abc import Collection
from typing import Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, counted, nearest
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.positions import partitions_of
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message
from resonance.pipeline.timestamps import canonical
from resonance.pipeline.topics.kinds import NAMES
from resonance.pipeline.topics.topics import ready
from resonance.pipeline.watch.named import read_names
from resonance.pipeline.watch.watch import present_clusters
from resonance.schemas import ClusterName, ClusterNames, ClusterTable
from resonance.schemas.cluster_name import NAME_CHARACTERS, is_name

SECONDS: Final = 30.0
"""How long the broker may take to store a name."""


def check_name(text: str) -> None:
    """Raise `ConfigurationError` where a text cannot be a name."""
    if not is_name(text):
        raise ConfigurationError(
            f"the name {text[:NAME_CHARACTERS]!r} must be one line of 1 to {NAME_CHARACTERS} characters, without "
            "blanks at its ends"
        )


def check_cluster(cluster: str, table: ClusterTable) -> None:
    """Raise `ConfigurationError` where there is no such cluster, with what it became or the nearest ones."""
    there = table.clusters()
    if cluster in there:
        return
    try:
        heir = table.resolve(cluster)
    except KeyError:
        raise ConfigurationError(unknown_cluster(cluster, there)) from None
    goes_on = f"it goes on as {heir}: name that one" if heir else "nothing goes on in its place"
    raise ConfigurationError(f"cluster {cluster} has ended, and {goes_on}")


def unknown_cluster(cluster: str, known: Collection[str]) -> str:
    """Return the sentence about a cluster that is not known, with the nearest ids."""
    stream = cluster.rsplit("/", 2)[0]
    # Among all clusters of many streams a comparison would take long.
    own = [each for each in known if each.rsplit("/", 2)[0] == stream]
    if own:
        return f"there is no cluster {cluster}{nearest(cluster, own, 3)}"
    streams = {each.rsplit("/", 2)[0] for each in known}
    some = f"it has {counted(len(streams), 'stream')} with clusters" if streams else "it has no clusters yet"
    near = nearest(stream, streams, 3)
    return f"there is no cluster {cluster} and no stream {stream} in this deployment, {some}{near}"


def give(settings: Settings, cluster: str, name: str | None) -> None:
    """Write the name of a cluster, or that it has none; the topic is made where it is missing.

    Raises `ConfigurationError` where the cluster or the name cannot be used, and `BrokerError` where the topic cannot.
    """
    if name is not None:
        check_name(name)
    client = clients.librdkafka(settings)
    admin = ClusterAdmin(client, settings.broker.answer_timeout, settings.topics.replication_factor)
    with LogReader(client, f"{settings.name}-watch", SECONDS) as reader:
        if name is not None:
            partitions = partitions_of(admin, settings.topic("clusters"), settings.name)
            check_cluster(cluster, present_clusters(reader, partitions))
        else:
            check_named(cluster, read_names(reader, settings))
    topic = settings.topic("names")
    ready(settings, admin, NAMES)
    value: ClusterName | None = (
        None if name is None else {"cluster": cluster, "name": name, "time": canonical(time.time() * 1000)}
    )
    outlet = Outlet(producer_settings(client), SECONDS, reports=True)
    outlet.send(Batch(topic, 0, [Message(cluster.encode(), None if value is None else orjson.dumps(value), [])]))
    outlet.flush()


def check_named(cluster: str, names: ClusterNames) -> None:
    """Raise `ConfigurationError`, with the nearest ids, where a cluster has no name that could be removed."""
    if cluster not in names.given:
        listed = nearest(cluster, names.given, 3) if names.given else "; no cluster has one"
        raise ConfigurationError(f"cluster {cluster} has no name of its own{listed}")
