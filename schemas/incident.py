"""What happened, of one stream or many: ``incident.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.alert import AlertSeverity
from resonance.schemas.common import Count, Natural, StreamId, Text, Time

IncidentKind = Literal["broke", "like_others", "unit", "new_kind", "back", "drifted", "silent", "other"]

Certainty = Literal["sure", "likely"]


class IncidentFeature(TypedDict):
    """What a feature is since an incident began, in the units of the input."""

    feature: str
    """Its name."""
    value: float
    """Its mean since; over several streams the median of their means."""
    usual: float | None
    """Its mean before, or the middle of `low` and `high`; null where nothing says it."""
    low: NotRequired[float]
    """From what it usually is, of one that an alert names."""
    high: NotRequired[float]
    """Up to what it usually is, of one that an alert names."""
    ratio: NotRequired[float]
    """How many times as much it varies since, where its mean hardly moved; at most 0.05 of one that is stuck."""
    steps: NotRequired[bool]
    """True where `ratio` is of how far it goes from record to record."""
    beside: NotRequired[bool]
    """True where usual is what the other features of records, and the hour, say; `ratio` is of how far off it is."""


class Incident(TypedDict):
    """What belongs together by time and by features, in one stream or several, with its cause.

    On their topic `known`, `text` and `since` are as of when something else of it changed.
    """

    key: Text
    """Names the incident by its first sign: an alert's key, a drift's stream, version and number, a cluster's id."""
    kind: IncidentKind
    """``broke``: one of several streams is unlike what it was, in at least half of its records, and no other is so.
    ``like_others``: so, too, but most other streams have had clusters like its new ones. ``unit``: one feature is many
    times what it was, or in Fahrenheit. ``new_kind``: records of a new kind. ``back``: of a rare one that is known.
    ``drifted``: the data moved. ``silent``: no records. ``other``: dead letters, shares,
    missing features, clusters that do not fit."""
    text: str
    """What happened, as a sentence."""
    severity: AlertSeverity
    """That of its most urgent alert that is open; of one stream, or where none is, of all; of drifts ``warning``.
    Of records that hardly differ beside all that their stream has had ``info``; of ``unit`` that of all."""
    certainty: Certainty
    """``sure``: three streams show it, or one in two ways; ``likely``: otherwise."""
    streams: list[StreamId | None]
    """The streams, those first that showed it first; null of a whole partition."""
    known: Count
    """Streams that had outputs, whether they are concerned or not."""
    features: list[IncidentFeature]
    """What changed, the strongest first."""
    factor: NotRequired[float]
    """Of ``unit``: how many times what it was the feature is."""
    alerts: list[Text]
    """Keys of its alerts."""
    drifts: Count
    """Its drifts."""
    signs: Natural
    """Its alerts and drifts together, and new clusters for which no alert could open while one was."""
    is_open: bool
    """Whether one of its alerts or drifts is open."""
    is_learned: NotRequired[bool]
    """Of one that is not: whether what it brought is still in the baseline, a cluster, or usual by now."""
    since: Time
    """When it began: time of a record, in UTC."""
    time: Time
    """Time of the newest record that showed it, in UTC."""
    left_out: NotRequired[Natural]
    """On the topic of incidents: streams and alerts beyond the first hundred of each."""
    within: NotRequired[Text]
    """On the topic of incidents: key of the incident of which more signs have shown this one to be a part."""
