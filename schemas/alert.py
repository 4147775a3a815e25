"""Something that needs a look: ``alert.schema.json``."""

from typing import Literal, NotRequired, TypedDict

from resonance.schemas.common import Cause

AlertKind = Literal["opened", "cleared"]

AlertRule = Literal[
    "unlike", "new_cluster", "share", "one_cluster", "unconfirmed", "drift_open", "dead_letters", "silent"
]

AlertSeverity = Literal["info", "warning", "critical"]

AlertReason = Literal["reset", "rollback", "new_version"]


class Alert(TypedDict):
    """An alert opened or cleared: of each rule at most one is open for a stream, or for a cluster of it.

    Attributes
    ----------
    kind : {"opened", "cleared"}
        Whether it opened or cleared with this message.
    rule : str
        The rule; its switch and its thresholds are settings of that name (``alerts.<rule>``).
    key : str
        Names the alert: the same in both messages, and in no other alert. It is the key of the message too.
    severity : {"info", "warning", "critical"}
        How urgent it is.
    stream : str or None
        The stream; None of a whole partition (``dead_letters``).
    version : int
        Version of the stream's model.
    seq : int
        Number of the message in its stream, from 0 without gaps; those that a bootstrap kept back count.
    cluster : str, optional
        The cluster concerned, of rules about one.
    text : str
        What happened, as a sentence.
    evidence : dict of str to float
        The numbers that decided.
    setting : str, optional
        The setting to look at, where the model does not fit the data.
    reason : {"reset", "rollback", "new_version"}, optional
        The command that cleared it, because it dropped what was known of it.
    since : str
        Time of the record with which the alert opened, RFC 3339 in UTC.
    cause : Cause
        The record with which it opened or cleared; with a ``reason`` the one with which it opened.
    time : str
        Time of that record, RFC 3339 in UTC; with a ``reason`` when the command ran.
    """

    kind: AlertKind
    rule: AlertRule
    key: str
    severity: AlertSeverity
    stream: str | None
    version: int
    seq: int
    cluster: NotRequired[str]
    text: str
    evidence: dict[str, float]
    setting: NotRequired[str]
    reason: NotRequired[AlertReason]
    since: str
    cause: Cause
    time: str
