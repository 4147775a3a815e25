"""The answer for one record: ``assignment.schema.json``."""

from typing import Any, Literal, NotRequired, TypedDict

from resonance.schemas.common import Count, ModelVersion, RecordId, Share, Source, StreamId, Text, Time

AssignmentStatus = Literal["warming_up", "assigned"]


class Assignment(TypedDict):
    """Which cluster a record belongs to, as of just before it was learned."""

    id: RecordId
    source: Source
    """Where the record stands in the log."""
    stream: StreamId
    version: ModelVersion
    status: AssignmentStatus
    """``warming_up``: the record was held back and is learned when the warm-up ends."""
    cluster: Text | None
    """Cluster of the first level; null while there is none."""
    clusters: list[Text]
    """One for each level of the path that has a cluster, first level first."""
    score: Share | None
    """1 = typical of `cluster`, 0 = unlike it; null while there is no cluster."""
    novel: bool
    """The record is unlike what the model knew; as a rule it founded a node."""
    path: list[Count]
    """Nodes that learned the record, root first."""
    labels: NotRequired[dict[str, Share]]
    """Probability of each label."""
    include: NotRequired[dict[str, Any]]
    """Members of the input that ``output.include`` copies, by their path."""
    time: Time
    """Time of the source record, in UTC."""
