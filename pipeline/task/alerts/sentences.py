"""What an alert says: severity, the setting to look at, and one plain sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from resonance.engine.base import Engine
from resonance.pipeline.errors import number, rounded
from resonance.schemas import AlertFeature, AlertRule, AlertSeverity

SEVERITIES: Final[Mapping[AlertRule, AlertSeverity]] = {
    "unlike": "critical",
    "dead_letters": "critical",
    "silent": "warning",
    "missing": "warning",
    "share": "warning",
    "drift_open": "warning",
    "unconfirmed": "warning",
    "new_cluster": "info",
    "one_cluster": "info",
}


def severity_of(rule: AlertRule, evidence: Mapping[str, float]) -> AlertSeverity:
    """Return the severity of an alert: what a model knows, as a job at night, is no more than a warning."""
    return "warning" if rule == "unlike" and evidence.get("known") else SEVERITIES[rule]


_WIDTHS: Final = ("valley", "reach", "vig", "rho", "rho0", "vigilance", "lambda", "sigma")
"""Parameters that decide how different two clusters must be; the first that an engine has."""


def setting_of(rule: AlertRule, engine: type[Engine]) -> str | None:
    """Return the setting to look at where the model does not fit the data; None for other rules."""
    if rule not in ("one_cluster", "unconfirmed"):
        return None
    names = {parameter.name for parameter in engine.parameters}
    wanted = (*(("min_cluster_records",) if rule == "unconfirmed" else ()), *_WIDTHS)
    return next((f"engine.{name}" for name in wanted if name in names), "prepare.scale")


def sentence(
    rule: AlertRule,
    opened: bool,
    about: str,
    evidence: Mapping[str, Any],
    setting: str | None,
    features: Sequence[AlertFeature] = (),
) -> str:
    """Describe an alert in one sentence without a full stop; `about` is the stream, cluster or partition."""
    if not opened and evidence.get("ended"):
        began = "model or watch" if rule in ("drift_open", "share") else "model"
        return f"{about}: the alert ended, because a new {began} began or the rule was switched off"
    shown = _shown(evidence)
    of = f"of {shown['records']} records" if "records" in shown else "records in a row"
    said = (_OPENED if opened else _CLEARED)[rule].format(about=about, setting=setting, of=of, **shown)
    said += ", of a kind that is known" if opened and rule == "unlike" and evidence.get("known") else ""
    return f"{said}; {_named(features)}" if opened and features else said


_OPENED: Final[Mapping[AlertRule, str]] = {
    "unlike": "{about} is unlike what is usual: {unlike} of {records} records were, usually {usual}",
    "new_cluster": "{about} is new: {records} records after it emerged it held {share} of the recent ones",
    "share": "{about} has another share of its stream: it went from {before} to {after}",
    "one_cluster": "{about} has taken nearly all of {records} records or more: the model separates little; "
    "look at {setting}",
    "unconfirmed": "{about} has had no confirmed cluster for {records} records or more; look at {setting}",
    "drift_open": "{about} has drifted, and that is not over yet",
    "dead_letters": "{dead_letters} of {records} records of {about} were dead letters",
    "silent": "{about} has had no record for {seconds} or more; usually one comes every {usual_seconds}",
    "missing": "{about}: {missing} {of} came without it, usually {usual}",
}
"""An alert may be open for days: the numbers are those with which it opened, and the sentence has to stay true."""

_CLEARED: Final[Mapping[AlertRule, str]] = {
    "unlike": "{about} is as usual: as before, or as the model has learned since",
    "new_cluster": "{about} is no longer a new cluster with many records",
    "share": "{about} has its share of the stream as its baseline now",
    "one_cluster": "{about} no longer takes nearly all records",
    "unconfirmed": "{about} has confirmed clusters",
    "drift_open": "{about} is as before its drift, or has a new baseline",
    "dead_letters": "{dead_letters} of {records} records of {about} were dead letters",
    "silent": "{about} has a record again, after {seconds}",
    "missing": "{about} no more: {missing} {of} had come without it",
}


def _named(features: Sequence[AlertFeature]) -> str:
    """Return what a record had in the features that were far off."""
    first, *others = (valued(each["feature"], each["value"], each["low"], each["high"]) for each in features)
    return f"{first}; also: {', '.join(others)}" if others else first


def valued(feature: str, value: float, low: float, high: float) -> str:
    """Say what a feature is, and between which values it usually is; what is dust beside these is 0."""
    most = max((value, low, high), key=abs)
    shown, *usual = (number(rounded(each, most)) for each in (value, low, high))
    return f"{feature} {shown}, usually {' to '.join(dict.fromkeys(usual))}"


def _shown(evidence: Mapping[str, Any]) -> dict[str, str]:
    return {name: _number(name, value) for name, value in evidence.items()}


def _number(name: str, value: float) -> str:
    if name.endswith("seconds"):
        return length(value)
    if name == "usual":
        return one_of(value)
    if name in ("share", "before", "after"):
        return percent(value)
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """Return a share as people say it."""
    return "less than 0.01 %" if 0.0 < share < 1e-4 else f"{100 * share:.3g} %"


def one_of(share: float, of: str = "") -> str:
    """Return how often something is as people say it: 1 of 257 where it is seldom, else percent `of` something."""
    return f"1 of {float(f'{1 / share:.3g}'):,.0f}" if 0.0 < share < 0.01 else percent(share) + of


def length(seconds: float) -> str:
    """Return a length of time as people say it: 5.2 s, 4 min, 3.5 h, 2 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
