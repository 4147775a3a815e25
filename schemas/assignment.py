"""The answer for one record: ``assignment.schema.json``."""

from typing import Any, Literal, NotRequired, TypedDict

from resonance.schemas.common import Source

AssignmentStatus = Literal["warming_up", "assigned"]


class Assignment(TypedDict):
    """Which cluster a record belongs to, as of just before it was learned.

    Attributes
    ----------
    id : str, int, float or None
        What the record calls itself, by ``input.id_path``; None where it has no name. `Subscriber` gives
        a number that no float has as its text.
    source : Source
        Where the record stands in the log.
    stream : str
        The stream whose model answered.
    version : int
        Version of that model, from 1.
    status : {"warming_up", "assigned"}
        ``warming_up``: the record was held back and is learned when the warm-up ends.
    cluster : str or None
        Cluster of the first level; None while there is none.
    clusters : list of str
        One for each level of the path that has a cluster, first level first.
    score : float or None
        1 = typical of `cluster`, 0 = unlike it; None while there is no cluster.
    novel : bool
        The record is unlike what the model knew; as a rule it founded a node.
    path : list of int
        Nodes that learned the record, root first.
    labels : dict of str to float, optional
        Probability of each label.
    include : dict, optional
        Members of the input that ``output.include`` copies, by their path.
    time : str
        Time of the source record, RFC 3339 in UTC.
    """

    id: str | int | float | None
    source: Source
    stream: str
    version: int
    status: AssignmentStatus
    cluster: str | None
    clusters: list[str]
    score: float | None
    novel: bool
    path: list[int]
    labels: NotRequired[dict[str, float]]
    include: NotRequired[dict[str, Any]]
    time: str
