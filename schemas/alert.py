"""Something that needs a look: ``alert.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause, Count, ModelVersion, StreamId, Text, Time

AlertKind = Literal["opened", "cleared"]

AlertRule = Literal[
    "unlike", "new_cluster", "share", "one_cluster", "unconfirmed", "drift_open", "dead_letters", "silent", "missing"
]

AlertSeverity = Literal["info", "warning", "critical"]

AlertReason = Literal["reset", "rollback", "new_version"]


class AlertFeature(TypedDict):
    """A feature of the record with which an alert opened, and what it usually is, in the units of the input."""

    feature: str
    """Its name."""
    value: float
    """What it was."""
    low: float
    """From what it usually is in the cluster that the record is most like."""
    high: float
    """To what it usually is."""


class Alert(TypedDict):
    """An alert opened or cleared: of each rule at most one is open for a stream, or for a cluster or feature."""

    kind: AlertKind
    """Whether the alert opened or cleared with this message."""
    rule: AlertRule
    """The rule."""
    key: Text
    """Names the alert: the same in both messages, and in no other alert. It is the key of the message too."""
    severity: AlertSeverity
    """How urgent it is."""
    stream: StreamId | None
    """The stream; null of a whole partition (``dead_letters``)."""
    version: ModelVersion
    seq: Count
    """Number of the message in its stream, from 0 without gaps; those that a bootstrap kept back count."""
    cluster: NotRequired[Text]
    """The cluster concerned, of rules about one."""
    feature: NotRequired[str]
    """Of ``missing``: the feature."""
    text: str
    """What happened, as a sentence."""
    evidence: dict[str, float]
    """The numbers that decided; of `unlike`, when it clears, in how many features its record is still `outside`."""
    features: NotRequired[list[AlertFeature]]
    """Of ``unlike``: up to three features of the record with which it opened that were far off, the farthest first."""
    setting: NotRequired[str]
    """The setting to look at, where the model does not fit the data."""
    reason: NotRequired[AlertReason]
    """The command that cleared it, because it dropped what was known of it."""
    began: NotRequired[Time]
    """Of ``unlike``, ``new_cluster``, ``missing``: time of the first record of those with which it opened, in UTC."""
    since: Time
    """Time of the record with which the alert opened, in UTC."""
    cause: Cause
    """The record with which it opened or cleared; with a `reason` the one with which it opened."""
    time: Time
    """Time of that record, in UTC; with a `reason` when the command ran."""
