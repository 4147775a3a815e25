"""A change of the set of clusters: ``cluster_event.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause

ClusterEventKind = Literal["emerged", "absorbed", "split", "vanished", "version_started", "stream_ended"]


class SalientFeature(TypedDict):
    """What one feature means to a cluster, of an engine that weighs features.

    Attributes
    ----------
    feature : str
        Its name.
    salience : float
        From 0 to 1: how often the cluster's records have the feature, and how steady its value is.
    weight : float
        Its value in the cluster's template, from 0 to 1 as the engine sees it.
    """

    feature: str
    salience: float
    weight: float


class ClusterSnapshot(TypedDict):
    """A cluster as it was read, in the units of the input.

    Attributes
    ----------
    id : str
        ``<stream>/<version>/<n>``, never used again.
    size : int
        Records that its nodes have won.
    centre, spread : dict of str to float
        Mean and standard deviation by feature; of sparse records, those of the features that its records have.
    nodes : int
        Nodes that it is made of.
    omitted : int, optional
        Features that `centre` and `spread` leave out because a message would not hold them all: of sparse records those
        with the smallest means relative to their ranges, and in a long list of clusters all.
    salient : list of SalientFeature, optional
        The features that distinguish it: those with the largest product of salience and weight, the largest first.
    successor : str, optional
        Before a ``version_started``: the cluster of `after` that goes on in its place.
    """

    id: str
    size: int
    centre: dict[str, float]
    spread: dict[str, float]
    nodes: int
    omitted: NotRequired[int]
    salient: NotRequired[list[SalientFeature]]
    successor: NotRequired[str]


class EventReason(TypedDict):
    """Why it happened, where one number decided.

    Attributes
    ----------
    criterion : str
        What was measured.
    value, threshold : float or None
        The measure and the bound it met or missed; None where it is not a finite number.
    further : dict of str to float or None, optional
        Other numbers that decided, by name, such as the ``volume_ratio`` of two clusters and its ``volume_limit``.
    """

    criterion: str
    value: float | None
    threshold: float | None
    further: NotRequired[dict[str, float | None]]


class ClusterEvent(TypedDict):
    """One change; folding the events of a stream from nothing gives its present clusters at every offset.

    Attributes
    ----------
    kind : {"emerged", "absorbed", "split", "vanished", "version_started", "stream_ended"}
        ``emerged``: `cluster` is new. ``split``: `cluster` is new and came from `other`, which goes on.
        ``absorbed``: `cluster` ended and goes on as `other`. ``vanished``: `cluster` ended.
        ``version_started``: every cluster of the stream ended, and those of `after` are there now: none where a new
        model begins, the present ones where emission begins with a model that learned silently before.
        ``stream_ended``: the stream ended with all its clusters, because it had no records for long; if one comes
        again, a ``version_started`` with a higher version begins it anew.
    stream : str
        The stream.
    version : int
        Version of its model.
    level : int
        Level of the hierarchy, 1 = root.
    seq : int
        Number of the event in its stream, from 0 without gaps. Events that were not emitted count: the
        ``version_started`` with which emission begins has the number of the last one of them.
    subtree : int, optional
        Root node below which it happened, where the models there learn apart from the root (``hierarchy = "keyed"``):
        `seq` then counts the events of this subtree. Absent for the first level, and where all levels learn together.
    cluster : str or None
        The cluster that began or ended; None for ``version_started`` and ``stream_ended``.
    other : str, optional
        The second cluster concerned.
    before, after : list of ClusterSnapshot
        The clusters concerned before and after the change. Where an event lists all clusters, and more than a message
        holds, `centre` and `spread` of its clusters are empty.
    part, parts : int, optional
        Where even so such an event lists more than a message holds, it comes in parts, one behind the other
        under the same `seq`: which one this is, from 1, and how many there are. Each lists some of the clusters.
    reason : EventReason, optional
        What decided.
    cause : Cause
        The record that caused it.
    time : str
        Time of that record, RFC 3339 in UTC.
    """

    kind: ClusterEventKind
    stream: str
    version: int
    level: int
    seq: int
    subtree: NotRequired[int]
    cluster: str | None
    other: NotRequired[str]
    before: list[ClusterSnapshot]
    after: list[ClusterSnapshot]
    part: NotRequired[int]
    parts: NotRequired[int]
    reason: NotRequired[EventReason]
    cause: Cause
    time: str


def begun_by(event: ClusterEvent) -> list[tuple[str, str | None]]:
    """Return the clusters that an event begins, each with the one that it split from or goes on from."""
    if event["kind"] in ("emerged", "split"):
        return [(event["cluster"] or "", event.get("other"))]
    if event["kind"] != "version_started":
        return []
    origins = {cluster["successor"]: cluster["id"] for cluster in event["before"] if "successor" in cluster}
    return [(cluster["id"], origins.get(cluster["id"])) for cluster in event["after"]]


def ended_by(event: ClusterEvent) -> list[tuple[str, str | None]]:
    """Return the clusters that an event ends, each with the one that it goes on as."""
    if event["kind"] in ("absorbed", "vanished"):
        return [(event["cluster"] or "", event.get("other"))]
    if event["kind"] not in ("version_started", "stream_ended"):
        return []
    after = {cluster["id"] for cluster in event["after"]}
    return [(each["id"], each.get("successor")) for each in event["before"] if each["id"] not in after]
