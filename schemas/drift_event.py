"""A change of the data themselves: ``drift_event.schema.json``."""

from typing import Annotated, Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause, Count, ModelVersion, StreamId, Text, Time

DriftEventKind = Literal["warning", "drift", "settled", "recovered", "regrouped", "rescaled"]

DriftScope = Literal["cluster", "clusters", "stream"]

FeatureChange = Literal["moved", "widened", "narrowed"]

UnitChange = Literal["moved", "widened", "narrowed", "together", "more", "fewer", "unsettled"]


Range = Annotated[list[float], ("minItems", 2), ("maxItems", 2)]


class DriftPlace(TypedDict):
    """The record from which on about a change is seen."""

    offset: Count
    """Its offset in the partition that is learned."""
    time: Time
    """Its own time, in UTC."""


class DriftShare(TypedDict):
    """The share of the stream's records that belongs to a cluster."""

    before: float
    """From 0 to 1, before the change."""
    after: float
    """From 0 to 1, since."""


class DriftFeature(TypedDict):
    """How a feature of a cluster or of the stream changed, in the units of the input."""

    feature: str
    """Its name."""
    change: FeatureChange
    """``moved``: its mean; ``widened``, ``narrowed``: how much it varies."""
    before: float
    """Mean before."""
    after: float
    """Mean since."""
    spread: float
    """Standard deviation before."""
    shift: float
    """``after - before``, in spreads; 0 where the spread is."""
    ratio: float
    """How many times as much the feature varies since."""
    steps: NotRequired[bool]
    """True where `ratio` is of how far it goes from record to record."""
    evidence: NotRequired[float]
    """How far the evidence is beyond its threshold, where 1 is at it; of ``drift`` alone."""


class DriftUnit(TypedDict):
    """A cluster, or the stream as a whole, that changed."""

    cluster: str | None
    """What its records are answered with most; null for the stream as a whole."""
    was: NotRequired[str]
    """The cluster that it was when watching it began, where that is another one."""
    share: NotRequired[DriftShare]
    """Where its share of the stream changed."""
    change: list[UnitChange]
    """``moved``, ``widened``, ``narrowed``: a feature, see `features`; ``together``: the features vary together
    otherwise; ``more``, ``fewer``: its share of the stream; ``unsettled``: still changing, or too few records to
    say."""
    since: NotRequired[DriftPlace]
    """From which record on; of ``drift`` alone."""
    features: list[DriftFeature]
    """At most five, the strongest first."""
    beside: NotRequired[bool]
    """True of the stream with each feature beside what the others of its records, and the hour, say of it: what it was
    and is, is where these are usual."""


class DriftEvent(TypedDict):
    """The distribution of a stream changed, or its features are seen otherwise from now on."""

    kind: DriftEventKind
    """``drift``: the stream's values, their spread, or the shares of its clusters have changed. ``settled``: the change
    that `opened` has ended, and what is there now is the baseline. ``recovered``: it has ended where it began.
    ``regrouped``: an engine that divides the features into groups has more or fewer of them. ``rescaled``: records have
    left the range of a feature for long, or have come back, so that the feature has another one. ``warning`` is
    reserved."""
    stream: StreamId
    version: ModelVersion
    seq: Count
    """Number of the drift event in its stream, from 0 without gaps; those that a bootstrap kept back count."""
    detector: str
    """What watched: ``watch``; of ``regrouped`` the engine, of ``rescaled`` ``prepare``."""
    criterion: str
    """What was measured."""
    value: float
    """The measure; of ``drift``, ``settled`` and ``recovered`` the strongest evidence; of ``regrouped`` how many groups
    there are, of ``rescaled`` the width of the range."""
    threshold: float
    """The bound it passed; of ``regrouped`` how many groups there were, of ``rescaled`` the width before."""
    range: NotRequired[Range]
    """Of ``rescaled``: where the range begins and ends now, in the units of the input."""
    range_before: NotRequired[Range]
    """Of ``rescaled``: where the range began and ended before, in the units of the input."""
    feature: NotRequired[str]
    """The feature concerned: of a drift the one with the strongest evidence."""
    cluster: NotRequired[Text]
    """The cluster concerned: of a drift the one with the strongest evidence."""
    scope: NotRequired[DriftScope]
    """Of ``drift``, ``settled`` and ``recovered``: one cluster, several, or the stream as a whole or at least half of
    its clusters."""
    opened: NotRequired[Count]
    """Of ``settled`` and ``recovered``: `seq` of the drift that they end."""
    continues: NotRequired[Count]
    """Of ``drift``: `seq` of the drift before, when the same features of the same clusters go on moving in the same
    direction."""
    since: NotRequired[DriftPlace]
    """The earliest `since` of the units."""
    units: NotRequired[Annotated[list[DriftUnit], ("maxItems", 32)]]
    """What changed, the strongest first: clusters, and the stream as a whole."""
    cause: Cause
    """The record at which it was seen."""
    time: Time
    """Time of the record at which it was seen, in UTC."""
