"""A change of the data themselves: ``drift_event.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause

DriftEventKind = Literal["warning", "drift", "regrouped", "rescaled"]


class DriftEvent(TypedDict):
    """A detector saw the distribution of a stream change, or its features are seen otherwise from now on.

    Attributes
    ----------
    kind : {"warning", "drift", "regrouped", "rescaled"}
        ``warning``: the detector's lower bound was passed. ``drift``: the upper one. ``regrouped``: an engine that
        divides the features into groups has more or fewer of them. ``rescaled``: records have left the range of a
        feature for long, or have come back, so that the feature has another one.
    stream : str
        The stream.
    version : int
        Version of its model.
    seq : int
        Number of the drift event in its stream, from 0 without gaps; those that ``emit_from`` kept back count.
    detector : str
        What watched; of ``regrouped`` the engine, of ``rescaled`` ``prepare``.
    criterion : str
        What was measured.
    value, threshold : float
        The measure and the bound it passed; of ``regrouped`` how many groups there are, and how many there were; of
        ``rescaled`` the width of the range and the one before.
    range, range_before : list of float, optional
        Of ``rescaled``: where the range begins and ends now, and before, in the units of the input.
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
    range: NotRequired[list[float]]
    range_before: NotRequired[list[float]]
    feature: NotRequired[str]
    cluster: NotRequired[str]
    cause: Cause
    time: str
