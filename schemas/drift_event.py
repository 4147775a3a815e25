"""A change of the data themselves: ``drift_event.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause

DriftEventKind = Literal["warning", "drift", "settled", "recovered", "regrouped", "rescaled"]

DriftScope = Literal["cluster", "clusters", "stream"]

FeatureChange = Literal["moved", "widened", "narrowed"]

UnitChange = Literal["moved", "widened", "narrowed", "together", "more", "fewer", "unsettled"]


class DriftPlace(TypedDict):
    """The record from which on about a change is seen.

    Attributes
    ----------
    offset : int
        Its offset in the partition that is learned.
    time : str
        Its own time, RFC 3339 in UTC.
    """

    offset: int
    time: str


class DriftShare(TypedDict):
    """The share of the stream's records that belongs to a cluster.

    Attributes
    ----------
    before, after : float
        From 0 to 1, before the change and since.
    """

    before: float
    after: float


class DriftFeature(TypedDict):
    """How a feature of a cluster or of the stream changed, in the units of the input.

    Attributes
    ----------
    feature : str
        Its name.
    change : {"moved", "widened", "narrowed"}
        ``moved``: its mean; ``widened``, ``narrowed``: how much it varies.
    before, after : float
        Mean before and since.
    spread : float
        Standard deviation before.
    shift : float
        ``after - before`` in spreads; 0 where the spread is.
    ratio : float
        How many times as much the feature varies since.
    evidence : float, optional
        How far the evidence is beyond its threshold, where 1 is at it; of ``drift`` alone.
    """

    feature: str
    change: FeatureChange
    before: float
    after: float
    spread: float
    shift: float
    ratio: float
    evidence: NotRequired[float]


class DriftUnit(TypedDict):
    """A cluster, or the stream as a whole, that changed.

    Attributes
    ----------
    cluster : str or None
        What its records are answered with most; None for the stream as a whole.
    was : str, optional
        The cluster that it was when watching it began, where that is another one.
    share : DriftShare, optional
        Where its share of the stream changed.
    change : list of str
        ``moved``, ``widened``, ``narrowed``: a feature, see `features`; ``together``: the features vary together
        otherwise; ``more``, ``fewer``: its share; ``unsettled``: still changing, or too few records to say.
    since : DriftPlace, optional
        From which record on; of ``drift`` alone.
    features : list of DriftFeature
        At most five, the strongest first.
    """

    cluster: str | None
    was: NotRequired[str]
    share: NotRequired[DriftShare]
    change: list[UnitChange]
    since: NotRequired[DriftPlace]
    features: list[DriftFeature]


class DriftEvent(TypedDict):
    """The distribution of a stream changed, or its features are seen otherwise from now on.

    Attributes
    ----------
    kind : {"warning", "drift", "settled", "recovered", "regrouped", "rescaled"}
        ``drift``: the stream's values, their spread, or the shares of its clusters have changed. ``settled``: the
        change that `opened` has ended, and what is there now is the baseline. ``recovered``: it has ended where it
        began. ``regrouped``: an engine that divides the features into groups has more or fewer of them. ``rescaled``:
        records have left the range of a feature for long, or have come back, so that the feature has another one.
        ``warning`` is reserved.
    stream : str
        The stream.
    version : int
        Version of its model.
    seq : int
        Number of the drift event in its stream, from 0 without gaps; those that a bootstrap kept back count.
    detector : str
        What watched: ``watch``; of ``regrouped`` the engine, of ``rescaled`` ``prepare``.
    criterion : str
        What was measured.
    value, threshold : float
        The measure and the bound it passed; of ``drift``, ``settled`` and ``recovered`` the strongest evidence; of
        ``regrouped`` how many groups there are, and how many there were; of ``rescaled`` the width of the range and the
        one before.
    range, range_before : list of float, optional
        Of ``rescaled``: where the range begins and ends now, and before, in the units of the input.
    feature : str, optional
        The feature concerned: of a drift the one with the strongest evidence.
    cluster : str, optional
        The cluster concerned: of a drift the one with the strongest evidence.
    scope : {"cluster", "clusters", "stream"}, optional
        Of ``drift``, ``settled``, ``recovered``: one cluster, several, or the stream as a whole or at least half of its
        clusters.
    opened : int, optional
        Of ``settled`` and ``recovered``: `seq` of the drift that they end.
    continues : int, optional
        Of ``drift``: `seq` of the drift before, when the same features of the same clusters go on moving in the same
        direction.
    since : DriftPlace, optional
        The earliest `since` of the units.
    units : list of DriftUnit, optional
        What changed, the strongest first; at most 32.
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
    scope: NotRequired[DriftScope]
    opened: NotRequired[int]
    continues: NotRequired[int]
    since: NotRequired[DriftPlace]
    units: NotRequired[list[DriftUnit]]
    cause: Cause
    time: str
