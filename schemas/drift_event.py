"""A change of the data themselves: ``drift_event.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause

DriftEventKind = Literal["warning", "drift", "regrouped"]


class DriftEvent(TypedDict):
    """A detector saw the distribution of a stream change, or an engine sees its features otherwise.

    Attributes
    ----------
    kind : {"warning", "drift", "regrouped"}
        ``warning``: the detector's lower bound was passed. ``drift``: the upper one. ``regrouped``: an engine that
        divides the features into groups has more or fewer of them.
    stream : str
        The stream.
    version : int
        Version of its model.
    seq : int
        Number of the drift event in its stream, from 0 without gaps.
    detector : str
        What watched; of ``regrouped`` the engine.
    criterion : str
        What was measured.
    value, threshold : float
        The measure and the bound it passed; of ``regrouped`` how many groups there are, and how many there were.
    feature : str, optional
        The feature concerned, where the detector watches one.
    cluster : str, optional
        The cluster concerned, where the detector watches one.
    cause : Cause
        The record at which it was seen.
    time : str
        Time of that record, RFC 3339 in UTC.
    """

    kind: DriftEventKind
    stream: str
    version: int
    seq: int
    detector: str
    criterion: str
    value: float
    threshold: float
    feature: NotRequired[str]
    cluster: NotRequired[str]
    cause: Cause
    time: str
