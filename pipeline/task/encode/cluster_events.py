"""From changes of clusters to messages: the event, and the clusters concerned for the compacted topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from resonance.engine.base import Cluster, Event
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Outputs, TopicPartition, routes_offset_header
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode import message_sizes
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.cluster_description import describe
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.schemas import (
    Alert,
    CloudEvents,
    ClusterEvent,
    ClusterEventKind,
    ClusterExample,
    ClusterSnapshot,
    Header,
    SchemaName,
    Source,
    describe_cluster,
    describe_end,
    source_uri,
)
from resonance.schemas import Cause as NamedCause
from resonance.schemas.common import offset_text, place_of

_MAX_PARTS: Final = 10**9
"""Upper bound on the parts of an event, to reserve room for their numbers."""


@dataclass(slots=True, eq=False)
class EventCause:
    """The record of a batch that caused an event, and where the messages about that go."""

    batch: RecordBatch
    position: int
    outputs: Outputs | None
    """None: they were written before."""

    def source(self, own: TopicPartition) -> Source:
        """Return the position of the record; `own` is the task's partition, for records that were not routed."""
        sources = self.batch.sources
        topic, partition = own if sources is None else sources.places[self.position]
        offsets = self.batch.offsets if sources is None else sources.offsets
        elements = self.batch.elements
        return place_of(topic, partition, offsets[self.position], None if elements is None else elements[self.position])

    def named(self, own: TopicPartition) -> NamedCause:
        """Return the id and the position of the record; `own` as in `source`."""
        ids = self.batch.ids
        name: Any = None if ids is None else orjson.Fragment(ids[self.position])
        return {"id": name, "source": self.source(own)}

    def put(self, kind: str, messages: Sequence[Message]) -> None:
        """Write messages to the topics of a kind."""
        if self.outputs is not None:
            self.outputs.put(kind, [self.offset] * len(messages), messages)

    @property
    def key(self) -> bytes | None:
        """The record's key."""
        return self.batch.keys[self.position]

    @property
    def offset(self) -> int:
        """The record's offset in the log that is learned."""
        return self.batch.offsets[self.position]

    @property
    def time(self) -> str:
        """The record's own time."""
        return self.batch.times[self.position]


class EventEncoder:
    """Writes the messages about events and clusters of one input partition, each where its cause wants it."""

    def __init__(self, settings: Settings, topic: str, partition: int, *, to_source: bool = False) -> None:
        self._to_source = to_source
        self._plain = settings.output.envelope == "plain"
        self._name = settings.name
        self._place = (topic, partition)
        self._envelopes: dict[tuple[SchemaName, str, int], CloudEvents] = {}

    def event(self, model: StreamModel, texts: StreamTexts, event: Event, cause: EventCause) -> None:
        """Write the messages of an event, whose number is `model.seq`."""
        if cause.outputs is None:
            return
        payload: ClusterEvent = {
            "kind": event.kind,
            "stream": model.stream,
            "version": model.version,
            "level": len(event.path) + 1,
            "seq": model.seq,
            "cluster": texts.cluster_id(event.path, event.cluster),
        }  # type: ignore[typeddict-item]
        if model.root_node is not None:
            payload["subtree"] = model.root_node
        if event.other is not None:
            payload["other"] = texts.cluster_id(event.path, event.other)
        payload["before"] = [describe(model, texts, cluster) for cluster in event.before]
        payload["after"] = [describe(model, texts, cluster) for cluster in event.after]
        if event.reason is not None:
            reason = event.reason
            payload["reason"] = {"criterion": reason.criterion, "value": reason.value, "threshold": reason.threshold}
            if reason.further:
                payload["reason"]["further"] = dict(reason.further)
        path = ".".join(map(str, event.path)) or "root"
        name = f"{path}/{event.number}"
        cause.put("cluster_events", [self._event_message(payload, cause, name, cause.key)])
        self._clusters(model, payload, cause, name)

    def described(
        self,
        model: StreamModel,
        texts: StreamTexts,
        cluster: Cluster,
        keywords: tuple[list[str], list[str]],
        cause: EventCause,
    ) -> None:
        """Write that a cluster has other `keywords`, those before and those from this record on."""
        if cause.outputs is None:
            return
        after = describe(model, texts, cluster)
        old, after["keywords"] = keywords
        payload = _of_all(model, "described", model.seq, [{**after, "keywords": old}], [after])
        payload["cluster"] = after["id"]
        name = f"described/{after['id']}"
        cause.put("cluster_events", [self._event_message(payload, cause, name, cause.key)])
        self._clusters(model, payload, cause, name)

    def version_started(
        self,
        model: StreamModel,
        seq: int,
        before: Sequence[ClusterSnapshot],
        after: Sequence[ClusterSnapshot],
        cause: EventCause,
    ) -> None:
        """Write that from this record on a stream has the clusters `after` instead of `before`; `seq` numbers it."""
        payload = _of_all(model, "version_started", seq, before, after)
        self._whole(model, payload, cause, cause.key, f"version/{model.version}")

    def stream_ended(
        self, model: StreamModel, key: bytes | None, before: Sequence[ClusterSnapshot], cause: EventCause
    ) -> None:
        """Write that a stream has ended with its clusters `before`; `key` is that of its records, not of the cause."""
        payload = _of_all(model, "stream_ended", model.seq, before, ())
        self._whole(model, payload, cause, key, f"ended/{model.stream}/{model.version}")

    def _whole(
        self, model: StreamModel, payload: ClusterEvent, cause: EventCause, key: bytes | None, name: str
    ) -> None:
        """Write the event about all clusters of a stream, in parts where one message does not hold them."""
        if cause.outputs is None:
            return
        messages = [self._event_message(payload, cause, name, key)]
        most = message_sizes.event_bytes_of(model)
        if len(messages[0].value or b"") > most:
            # The topic is known to take ordinary events, which are bounded; a list of all clusters is not.
            brief: ClusterEvent = {**payload, "before": _brief(payload["before"]), "after": _brief(payload["after"])}
            frame: ClusterEvent = {**payload, "before": [], "after": [], "part": _MAX_PARTS, "parts": _MAX_PARTS}
            room = most - len(self._event_message(frame, cause, name, key).value or b"")
            messages = [
                self._event_message(part, cause, name if number == 1 else f"{name}/{number}", key)
                for number, part in enumerate(_parts(brief, room), start=1)
            ]
        cause.put("cluster_events", messages)
        self._clusters(model, payload, cause, name)

    def tombstone(self, cluster: str, cause: EventCause) -> None:
        """Write the message that removes an ended cluster from the compacted topic."""
        cause.put("clusters", [self._cluster_message(cluster, None, cause, "removed")])

    def drift(self, model: StreamModel, kind: str, members: dict[str, Any], cause: EventCause) -> None:
        """Write a drift event, whose number is `model.drifts`; `members` are those that follow from its kind."""
        payload = {
            "kind": kind,
            "stream": model.stream,
            "version": model.version,
            "seq": model.drifts,
            **members,
            "cause": cause.named(self._place),
            "time": cause.time,
        }
        headers = self._headers("drift_event", cause, f"drift/{model.drifts}")
        cause.put("drift_events", [self._message(cause, cause.key, orjson.dumps(payload), headers)])

    def alert(self, payload: Alert, cause: EventCause) -> None:
        """Write the message that an alert opened or cleared; its key names the alert."""
        payload["cause"] = cause.named(self._place)
        payload["time"] = cause.time
        headers = self._headers("alert", cause, f"alert/{payload['key']}/{payload['kind']}")
        cause.put("alerts", [self._message(cause, payload["key"].encode(), orjson.dumps(payload), headers)])

    def _event_message(self, payload: ClusterEvent, cause: EventCause, name: str, key: bytes | None) -> Message:
        payload["cause"] = cause.named(self._place)
        payload["time"] = cause.time
        return self._message(cause, key, orjson.dumps(payload), self._headers("cluster_event", cause, name))

    def _clusters(self, model: StreamModel, payload: ClusterEvent, cause: EventCause, name: str) -> None:
        """Write the messages about the clusters of an event: first those that ended, then the present ones."""
        since, about = model.lifetimes.since, payload["cluster"]
        kept = {cluster["id"] for cluster in payload["after"]}
        values = [
            describe_end(cluster, payload, since.get(cluster["id"]))
            for cluster in payload["before"]
            if cluster["id"] not in kept and about in (None, cluster["id"])
        ]
        for cluster in payload["after"]:
            value = describe_cluster(cluster, payload, since.get(cluster["id"]))
            if found := examples_of(model, cluster["id"], self._place):
                value["examples"] = found
            values.append(value)
        cause.put(
            "clusters", [self._cluster_message(value["id"], exact_json.dumps(value), cause, name) for value in values]
        )

    def _cluster_message(self, cluster: str, value: bytes | None, cause: EventCause, name: str) -> Message:
        return self._message(cause, cluster.encode(), value, self._headers("cluster", cause, f"{name}/{cluster}"))

    def _message(self, cause: EventCause, key: bytes | None, value: bytes | None, headers: list[Header]) -> Message:
        return Message(key, value, headers, cause.source(self._place)["partition"] if self._to_source else None)

    def _headers(self, kind: SchemaName, cause: EventCause, name: str) -> list[Header]:
        source = cause.source(self._place)
        topic, partition = source["topic"], source["partition"]
        headers: list[Header] = []
        if not self._plain:
            envelope = self._envelopes.get((kind, topic, partition))
            if envelope is None:
                envelope = CloudEvents(kind, source_uri(self._name, topic, partition))
                self._envelopes[kind, topic, partition] = envelope
            place = offset_text(source["offset"], source.get("index"))
            headers = envelope.headers(f"{topic}-{partition}-{place}/{name}", cause.time)
        if cause.batch.sources is not None:
            headers.append(routes_offset_header(self._name, cause.offset))
        traces = cause.batch.traces
        if traces is not None and (trace := traces[cause.position]) is not None:
            headers.append(("traceparent", trace))
        return headers


def examples_of(model: StreamModel, cluster: str, own: TopicPartition) -> list[ClusterExample]:
    """Return the examples of a cluster by its id; none below the first level."""
    number = cluster.rpartition("/")[2]
    return [] if model.examples is None or "." in number else model.examples.of(int(number), own)


def _of_all(
    model: StreamModel,
    kind: ClusterEventKind,
    seq: int,
    before: Sequence[ClusterSnapshot],
    after: Sequence[ClusterSnapshot],
) -> ClusterEvent:
    """Return an event about all clusters of a stream."""
    return {
        "kind": kind,
        "stream": model.name,
        "version": model.version,
        "level": 1,
        "seq": seq,
        "cluster": None,
        "before": list(before),
        "after": list(after),
    }  # type: ignore[typeddict-item]


def _brief(clusters: Sequence[ClusterSnapshot]) -> list[ClusterSnapshot]:
    brief: list[ClusterSnapshot] = []
    for cluster in clusters:
        brief.append({**cluster, "centre": {}, "spread": {}})
        if omitted := cluster.get("omitted", 0) + len(cluster["centre"]):
            brief[-1]["omitted"] = omitted
    return brief


def _parts(event: ClusterEvent, most: int) -> list[ClusterEvent]:
    """Split an event into parts whose clusters have at most `most` bytes; an event that fits stays whole."""
    parts: list[ClusterEvent] = []
    room = 0
    for side in ("before", "after"):
        for cluster in event[side]:
            size = len(orjson.dumps(cluster)) + 1
            if not parts or size > room:
                parts.append({**event, "before": [], "after": []})
                room = most
            room -= size
            parts[-1][side].append(cluster)
    if len(parts) > 1:
        for number, part in enumerate(parts, start=1):
            part["part"], part["parts"] = number, len(parts)
    return parts
