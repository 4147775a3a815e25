"""What models are restored from: a deployment as its settings and the broker describe it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.task.decode.json_records import REVISION as DECODE_REVISION
from resonance.pipeline.task.encode.message_sizes import EVENT_BYTES
from resonance.pipeline.task.model.preparations import revision_of


def program_revision(settings: Settings) -> str:
    """Return the revision of all in this program that decides the bits of models under some settings."""
    return f"{settings.engine_class.revision}.{revision_of(settings)}.{DECODE_REVISION}"


@dataclass(frozen=True, slots=True)
class DeploymentContext:
    """What is restored from: the deployment as settings and broker describe it.

    Attributes
    ----------
    client : mapping
        librdkafka configuration of the connection.
    group : str
        The consumer group.
    snapshots : str
        The snapshots topic.
    deployment : Deployment
        Partition count and topic ids.
    identities : mapping of str to Identity
        Of each input topic, under the present settings.
    patience : float
        Seconds without any progress after which the broker is given up.
    session_timeout : float
        Seconds after which the group forgets a member that is gone.
    event_bytes : int
        What the topics of the events and of the clusters take in one message.
    archive : str
        The archive topic, ``""`` for none; it need not be there.
    start : str
        Where a new group begins: ``earliest``, ``latest`` or a time.
    clusters : str
        The topic of the clusters, ``""`` for none; it need not be there.
    routes : str
        The topic of the routes, ``""`` where streams are learned where they are read.
    """

    client: Mapping[str, Any]
    group: str
    snapshots: str
    deployment: Deployment
    identities: Mapping[str, Identity]
    patience: float = 90.0
    session_timeout: float = 45.0
    event_bytes: int = EVENT_BYTES
    archive: str = ""
    start: str = "earliest"
    clusters: str = ""
    routes: str = ""

    @classmethod
    def of(cls, settings: Settings, client: Mapping[str, Any], deployment: Deployment) -> Self:
        """Return the source that `settings` and the checked `deployment` describe."""
        models = {
            "stream": settings.check_stream(deployment.partitions),
            **({"hierarchy": settings.hierarchy} if settings.is_keyed else {}),
            **(
                {"input.features": settings.input.features}
                if settings.input.sparse is None
                else {"input.sparse": settings.input.sparse}
            ),
            **{f"prepare.{name}": value for name, value in settings.preparing.items()},
            **{f"engine.{name}": value for name, value in settings.engine_parameters.items()},
        }
        limits = {
            **{f"limits.{name}": getattr(settings.limits, name) for name in ("streams", "record_bytes", "key_bytes")},
            **{f"input.{name}": getattr(settings.input, name) for name in ("time_path", "id_path", "dimension")},
            **{f"output.{name}": getattr(settings.output, name) for name in ("include", "clusters_grace")},
        }
        if settings.takes_labels:
            limits |= {"input.label_path": settings.input.label_path}
            limits |= {f"labels.{name}": value for name, value in settings.labels.model_dump(mode="json").items()}
        routes = settings.topic("routes") if settings.is_routed else ""
        counts = {routes: deployment.routes, settings.labels.topic: deployment.labels}
        identities = {
            topic: Identity(
                pipeline=settings.name,
                inputs=settings.input.topics,
                topic=topic,
                topic_id=deployment.topic_ids[topic],
                partitions=counts.get(topic, deployment.partitions),
                engine=settings.engine.name,
                revision=program_revision(settings),
                # As they come back from the bus: what is compared must have gone through the same mill.
                settings=orjson.loads(orjson.dumps(models)),
                limits=orjson.loads(orjson.dumps(limits)),
            )
            for topic in settings.logs
        }
        # A dead worker's transaction holds the committed offsets back until the broker aborts it.
        patience = settings.delivery.transaction_timeout + 30
        described = (settings.topic("cluster_events"), settings.topic("clusters"))
        return cls(
            client,
            settings.group,
            settings.topic("snapshots"),
            deployment,
            identities,
            patience,
            settings.broker.session_timeout,
            min(deployment.message_bytes.get(name, EVENT_BYTES) for name in described),
            "" if deployment.embedded else settings.topic("archive"),
            settings.start,
            settings.topic("clusters"),
            routes,
        )

    @property
    def is_rekeyed(self) -> bool:
        """Whether no stream is learned where the inputs are read, but all of them where the routes lead."""
        return bool(self.routes) and "hierarchy" not in next(iter(self.identities.values())).settings

    def is_same_log(self, found: Identity) -> bool:
        """Whether somebody's log is the one that is there now, with its keys in the same partitions."""
        now = self.identities[found.topic]
        # Where streams are re-keyed a partition that was added routes its records to where their models are.
        grown = self.is_rekeyed and found.topic != self.routes
        return found.topic_id == now.topic_id and (grown or found.partitions == now.partitions)

    @property
    def logs(self) -> list[TopicPartition]:
        """Every partition that workers process: those of the inputs, of the labels and of the routes."""
        return [(topic, number) for topic, identity in self.identities.items() for number in range(identity.partitions)]

    def start_of(self, topic: str) -> str:
        """Return where a new group begins in a topic: the routes, which are its own, count from their beginning."""
        return "earliest" if topic == self.routes else self.start


def settings_then(settings: Settings, identity: Identity) -> Settings:
    """Return the settings under which models were learned."""
    values = settings.model_dump()
    for name in ("features", "sparse"):
        # One of them stands there, not always the one of now.
        values["input"].pop(name, None)
    if "labels.topic" not in identity.limits:
        # Their engine was not taught by labels.
        values.pop("labels", None)
        values["input"].pop("label_path", None)
    values["engine"] = {"name": identity.engine}
    for name, value in [*identity.settings.items(), *identity.limits.items()]:
        section, _, key = name.rpartition(".")
        (values[section] if section else values)[key] = value
    return Settings.of(values)
