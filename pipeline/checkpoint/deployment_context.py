"""Describe what models are restored from: a deployment according to its settings and to the broker."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson
from resonance.engine.drift.watch import REVISION as DRIFT_REVISION
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import STREAM_BYTES, TopicPartition
from resonance.pipeline.task.decode.json_records import REVISION as DECODE_REVISION
from resonance.pipeline.task.encode.message_sizes import EVENT_BYTES
from resonance.pipeline.task.model.keywords import REVISION as KEYWORDS_REVISION
from resonance.pipeline.task.stream_task import TaskContext

KEY_LIMIT: Final = "limits.key_bytes"
"""What a stored identity calls `STREAM_BYTES`: another release may allow other names of streams."""

UNLESS: Final[Mapping[str, Any]] = {
    "input.records": None,
    "input.format": "json",
    "limits.stream_ttl": 0.0,
    "input.text_path": None,
}
"""Limits that a stored identity has unless they have this value."""

BEYOND_TRANSACTION: Final = 30.0
"""Seconds beyond the time of a transaction in which a dead worker's must have ended, before the broker is given up."""


def program_revision(settings: Settings) -> str:
    """Return the revision of everything in this program that decides the bits of models under some settings."""
    texts = f".{KEYWORDS_REVISION}" if settings.input.text_path else ""
    watch = f".drift{DRIFT_REVISION}" if settings.drift_parameters is not None else ""
    return f"{settings.engine_class.revision}.{settings.preparation_revision}.{DECODE_REVISION}{texts}{watch}"


@dataclass(frozen=True, slots=True)
class DeploymentContext:
    """The deployment that models are restored from, according to its settings and to the broker."""

    settings: Settings
    client: Mapping[str, Any]
    """librdkafka configuration of the connection."""
    deployment: Deployment
    """Partition counts and topic ids."""
    identities: Mapping[str, Identity]
    """Of each topic that workers process, under the present settings."""

    @classmethod
    def of(cls, settings: Settings, client: Mapping[str, Any], deployment: Deployment) -> Self:
        """Return the context that `settings` and the checked `deployment` describe."""
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
            **{f"limits.{name}": getattr(settings.limits, name) for name in ("streams", "record_bytes")},
            KEY_LIMIT: STREAM_BYTES,
            **{f"input.{name}": getattr(settings.input, name) for name in ("time_path", "id_path", "dimension")},
            **{f"output.{name}": getattr(settings.output, name) for name in ("include", "clusters_grace")},
        }
        for name, absent in UNLESS.items():
            section, _, key = name.partition(".")
            if (value := getattr(getattr(settings, section), key)) != absent:
                limits[name] = value
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
                # Through JSON and back, because they are compared with identities that were.
                settings=orjson.loads(orjson.dumps(models)),
                limits=orjson.loads(orjson.dumps(limits)),
            )
            for topic in settings.logs
            # Before the first worker there are no routes.
            if topic != routes or deployment.routes
        }
        return cls(settings, client, deployment, identities)

    @property
    def patience(self) -> float:
        """Seconds without any progress after which the broker is given up.

        A dead worker's transaction holds the committed offsets back until the broker aborts it.
        """
        return self.settings.delivery.transaction_timeout + BEYOND_TRANSACTION

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.settings.group

    @property
    def snapshots(self) -> str:
        """The snapshots topic."""
        return self.settings.topic("snapshots")

    @property
    def archive(self) -> str:
        """The archive topic, ``""`` for none; it need not exist."""
        return "" if self.deployment.embedded else self.settings.topic("archive")

    @property
    def routes(self) -> str:
        """The routes topic; ``""`` if streams are learned in the partition that they are read from."""
        return self.settings.topic("routes") if self.settings.is_routed else ""

    def reader(
        self, cancelled: threading.Event | None = None, *, patience: float | None = None, foreign: bool = False
    ) -> LogReader:
        """Return a reader of the deployment's logs, to be closed; tests put theirs in its place."""
        return LogReader(self.client, self.group, patience or self.patience, cancelled, foreign=foreign)

    @property
    def task_context(self) -> TaskContext:
        """What tasks know of the topics."""
        found = self.deployment
        described = (self.settings.topic("cluster_events"), self.settings.topic("clusters"))
        event_bytes = min(found.message_bytes.get(name, EVENT_BYTES) for name in described)
        return TaskContext(event_bytes, found.topic_ids, **found.counts)

    def is_same_log(self, found: Identity) -> bool:
        """Return whether an identity's log is the present one, with its keys in the same partitions."""
        now = self.identities[found.topic]
        # With re-keyed streams an added partition routes its records to where their models are.
        grown = self.settings.is_rekeyed and found.topic != self.routes
        return found.topic_id == now.topic_id and (grown or found.partitions == now.partitions)

    @property
    def logs(self) -> list[TopicPartition]:
        """Every partition that workers process: those of the inputs, of the labels and of the routes."""
        return [(topic, number) for topic, identity in self.identities.items() for number in range(identity.partitions)]

    def start_of(self, topic: str) -> str:
        """Return where a new group begins in a topic; in the deployment's own routes it is always their beginning."""
        return "earliest" if topic == self.routes else self.settings.start


def settings_then(settings: Settings, identity: Identity) -> Settings:
    """Return the settings under which the models of an identity were learned."""
    values = settings.model_dump()
    for name in ("features", "sparse"):
        # The identity has one of the two, not always the present one.
        values["input"].pop(name, None)
    if "labels.topic" not in identity.limits:
        # Their engine did not learn from labels.
        values.pop("labels", None)
        values["input"].pop("label_path", None)
    for name in UNLESS.keys() - identity.limits.keys():
        section, _, key = name.partition(".")
        values[section].pop(key, None)
    values["engine"] = {"name": identity.engine}
    for name, value in [*identity.settings.items(), *identity.limits.items()]:
        section, _, key = name.rpartition(".")
        if name != KEY_LIMIT:
            (values[section] if section else values)[key] = value
    return Settings.of(values)
