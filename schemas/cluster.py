"""A cluster on the compacted topic, under its id: ``cluster.schema.json``."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NotRequired, TypedDict, get_args

from resonance.schemas.cluster_event import (
    Centre,
    ClusterEvent,
    ClusterId,
    ClusterKeywords,
    ClusterNodes,
    ClusterSize,
    ClusterSnapshot,
    Omitted,
    Salient,
    Spread,
)
from resonance.schemas.common import Count, Level, ModelVersion, RecordId, Share, Source, StreamId, Text, Time

ClusterEnd = Literal["absorbed", "vanished", "version_started", "stream_ended"]

_ENDS: Final[Mapping[str, ClusterEnd]] = {kind: kind for kind in get_args(ClusterEnd)}


class ClusterExample(TypedDict):
    """A record that is typical of a cluster."""

    id: RecordId
    """What the record calls itself, by ``input.id_path``; null where it has no name, or one of over 200 bytes."""
    source: Source
    """Where it stands in the log."""
    score: Share
    """Score of its assignment."""


class Cluster(TypedDict):
    """A cluster as of the last event that described it; its id is the key of the message.

    A tombstone follows some time after its end.
    """

    id: ClusterId
    stream: StreamId
    version: ModelVersion
    level: Level
    parent: NotRequired[list[Count]]
    """Nodes of the levels above whose records it parts, root first, as the `path` of an assignment has them; absent on
    the first level."""
    size: ClusterSize
    centre: Centre
    spread: Spread
    nodes: ClusterNodes
    omitted: NotRequired[Omitted]
    salient: NotRequired[Salient]
    keywords: NotRequired[ClusterKeywords]
    examples: NotRequired[Annotated[list[ClusterExample], ("maxItems", 3)]]
    """Its most typical records of late, the most typical first; of the first level only, and absent where there are
    none."""
    since: Time | None
    """Time of the record with which it began, in UTC; null where that is not known any more."""
    seq: Count
    """Number of the stream's event that this follows from."""
    subtree: NotRequired[Count]
    """Root node whose subtree counts its events for itself."""
    time: Time
    """Time of the record that caused it, in UTC."""
    ended: NotRequired[ClusterEnd]
    """How it ended; absent while it is there."""
    successors: NotRequired[list[Text]]
    """Clusters that go on in place of an ended one; absent while it is there."""


def describe_cluster(snapshot: ClusterSnapshot, event: ClusterEvent, since: str | None) -> Cluster:
    """Return a cluster that is there after an event.

    Parameters
    ----------
    snapshot : ClusterSnapshot
        The cluster, one of the event's.
    event : ClusterEvent
        The event.
    since : str or None
        When it began.
    """
    stream, version, place = snapshot["id"].rsplit("/", 2)
    *parent, _ = place.split(".")
    cluster: Cluster = {
        "id": snapshot["id"],
        "stream": stream,
        "version": int(version),
        "level": len(parent) + 1,
        "size": snapshot["size"],
        "centre": snapshot["centre"],
        "spread": snapshot["spread"],
        "nodes": snapshot["nodes"],
        "since": since,
        "seq": event["seq"],
        "time": event["time"],
    }
    if "omitted" in snapshot:
        cluster["omitted"] = snapshot["omitted"]
    if "salient" in snapshot:
        cluster["salient"] = snapshot["salient"]
    if "keywords" in snapshot:
        cluster["keywords"] = snapshot["keywords"]
    if "subtree" in event:
        cluster["subtree"] = event["subtree"]
    if parent:
        cluster["parent"] = [int(node) for node in parent]
    return cluster


def describe_end(snapshot: ClusterSnapshot, event: ClusterEvent, since: str | None) -> Cluster:
    """Return a cluster that an event ended; parameters as in `describe_cluster`."""
    cluster = describe_cluster(snapshot, event, since)
    cluster["ended"] = _ENDS[event["kind"]]
    heir = event.get("other") if event["kind"] == "absorbed" else snapshot.get("successor")
    cluster["successors"] = [] if heir is None else [heir]
    return cluster
