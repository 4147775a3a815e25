"""A cluster on the compacted topic, under its id: ``cluster.schema.json``."""

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, TypedDict, get_args

from resonance.schemas.cluster_event import ClusterEvent, ClusterSnapshot, SalientFeature
from resonance.schemas.common import Source

ClusterEnd = Literal["absorbed", "vanished", "version_started", "stream_ended"]

_ENDS: Final[Mapping[str, ClusterEnd]] = {kind: kind for kind in get_args(ClusterEnd)}


class ClusterExample(TypedDict):
    """A record that is typical of a cluster.

    Attributes
    ----------
    id : str, int, float or None
        What the record calls itself, by ``input.id_path``; None where it has no name, or one of over 200 bytes.
    source : Source
        Where it stands in the log.
    score : float
        Score of its assignment.
    """

    id: str | int | float | None
    source: Source
    score: float


class Cluster(TypedDict):
    """A cluster as of the last event that described it; its id is the key of the message.

    An ended cluster says how it ended and what goes on in its place; a tombstone follows after a grace period, measured
    in the records' own time.

    Attributes
    ----------
    id : str
        ``<stream>/<version>/<n>``, never used again.
    stream : str
        The stream.
    version : int
        Version of its model.
    level : int
        Level of the hierarchy, 1 = root.
    parent : list of int, optional
        Nodes of the levels above whose records it parts, root first, as an `Assignment` has them in its path; absent on
        the first level.
    size : int
        Records that its nodes have won.
    centre, spread : dict of str to float
        Mean and standard deviation by feature, in the units of the input.
    nodes : int
        Nodes that it is made of.
    omitted : int, optional
    salient : list of SalientFeature, optional
        As in a `ClusterSnapshot`.
    examples : list of ClusterExample, optional
        At most three of its most typical records of late, the most typical first; of the first level only, and absent
        where there are none.
    since : str or None
        Time of the record with which it began; None where an earlier release, which did not keep it, saw that.
    seq : int
        Number of the stream's event that this follows from.
    subtree : int, optional
        Subtree whose event it is, as in `ClusterEvent`.
    time : str
        Time of the record that caused it, RFC 3339 in UTC.
    ended : {"absorbed", "vanished", "version_started", "stream_ended"}, optional
        How it ended; absent while it is there.
    successors : list of str, optional
        Clusters that go on in place of an ended one; absent while it is there.
    """

    id: str
    stream: str
    version: int
    level: int
    parent: NotRequired[list[int]]
    size: int
    centre: dict[str, float]
    spread: dict[str, float]
    nodes: int
    omitted: NotRequired[int]
    salient: NotRequired[list[SalientFeature]]
    examples: NotRequired[list[ClusterExample]]
    since: str | None
    seq: int
    subtree: NotRequired[int]
    time: str
    ended: NotRequired[ClusterEnd]
    successors: NotRequired[list[str]]


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
