"""A change of the set of clusters: ``cluster_event.schema.json``."""

from typing import Annotated, Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause, Count, Level, ModelVersion, Natural, Share, StreamId, Text, Time

ClusterEventKind = Literal["emerged", "absorbed", "split", "vanished", "described", "version_started", "stream_ended"]


class SalientFeature(TypedDict):
    """What one feature means to a cluster, of an engine that weighs features."""

    feature: str
    """Its name."""
    salience: Share
    """How often the cluster's records have the feature, and how steady its value is."""
    weight: Share
    """Its value in the cluster's template, as the engine sees it."""


ClusterId = Annotated[
    Text, ("description", "Stream, version of its model, and number: <stream>/<version>/<n>; never used again.")
]
ClusterSize = Annotated[Count, ("description", "Records that its nodes had won as of the event.")]
ClusterNodes = Annotated[Natural, ("description", "Nodes that it is made of.")]
Centre = Annotated[
    dict[str, float], ("description", "Mean by feature; of sparse records, of the features that its records have.")
]
Spread = Annotated[
    dict[str, float],
    ("description", "Standard deviation by feature; of sparse records, of the features that its records have."),
]
Omitted = Annotated[
    Natural,
    (
        "description",
        "Features that centre and spread leave out because a message would not hold them all: those with the smallest "
        "means relative to their ranges, or, in a long list of clusters, all.",
    ),
]
Salient = Annotated[
    list[SalientFeature],
    (
        "description",
        "The features that distinguish it: those with the largest product of salience and weight, the largest first.",
    ),
]

ClusterKeywords = Annotated[
    list[str],
    ("maxItems", 3),
    (
        "description",
        "Words, and pairs of words, that stand in its texts much more often than in those of the other clusters, the "
        "most distinctive first; absent below the first level, and where records have no texts (``input.text_path``).",
    ),
]


class ClusterSnapshot(TypedDict):
    """A cluster as it was read, in the units of the input."""

    id: ClusterId
    size: ClusterSize
    centre: Centre
    spread: Spread
    nodes: ClusterNodes
    omitted: NotRequired[Omitted]
    salient: NotRequired[Salient]
    keywords: NotRequired[ClusterKeywords]
    successor: NotRequired[Text]
    """Before a ``version_started``: the cluster of `after` that goes on in its place."""


class EventReason(TypedDict):
    """What decided, where one number did."""

    criterion: str
    """What was measured."""
    value: float | None
    """The measure; null where it is not a finite number."""
    threshold: float | None
    """The bound it met or missed; null where it is not a finite number."""
    further: NotRequired[dict[str, float | None]]
    """Other numbers that decided, by name, such as the ``volume_ratio`` of two clusters and its ``volume_limit``; null
    where one is not a finite number."""


class ClusterEvent(TypedDict):
    """A change of the set of clusters.

    Folding the events of a stream from nothing gives its present clusters at every offset.
    """

    kind: ClusterEventKind
    """``emerged``: `cluster` is new. ``split``: `cluster` is new and came from `other`, which goes on. ``absorbed``:
    `cluster` ended and goes on as `other`. ``vanished``: `cluster` ended. ``described``: the texts of `cluster` have
    other keywords. ``version_started``: every cluster of the stream ended, and those of `after` are there now: none
    where a new model begins, the present ones where emission begins with a model that has learned before.
    ``stream_ended``: the stream ended with all its clusters, because it had no records for long; if one comes again, a
    ``version_started`` with a higher version begins it anew."""
    stream: StreamId
    version: ModelVersion
    level: Level
    seq: Count
    """Number of the event in its stream, from 0 without gaps; where emission begins with a ``version_started``, the
    number of the last event that was not emitted."""
    subtree: NotRequired[Count]
    """Root node below which it happened, where the models there learn apart from the root (``hierarchy = "keyed"``);
    `seq` then counts the events of this subtree."""
    cluster: Text | None
    """The cluster that began, ended or was described; null for ``version_started`` and ``stream_ended``."""
    other: NotRequired[Text]
    """The second cluster concerned."""
    before: list[ClusterSnapshot]
    """The clusters concerned, before the change."""
    after: list[ClusterSnapshot]
    """The clusters concerned, after the change. Where an event lists all clusters, and more than a message holds, their
    `centre` and `spread` are empty."""
    part: NotRequired[Natural]
    """Which part of an event this is that lists all clusters of a stream, and more than a message holds; all parts have
    the same `seq`, and each lists some of the clusters."""
    parts: NotRequired[Annotated[int, ("minimum", 2)]]
    """How many parts there are."""
    reason: NotRequired[EventReason]
    """What decided."""
    cause: Cause
    """The record that caused it."""
    time: Time
    """Time of the record that caused it, in UTC."""


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
