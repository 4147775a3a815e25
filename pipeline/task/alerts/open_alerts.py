"""The open alerts of a stream, or of a partition, and the state of the rules that watch a stream's answers."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.pipeline.task.alerts.kernels import stream_rules
from resonance.pipeline.task.alerts.missing_features import MissingFeatures
from resonance.schemas import AlertFeature, AlertRule


@dataclass(frozen=True, slots=True)
class Transition:
    """An alert opens or clears."""

    rule: AlertRule
    opened: bool
    evidence: dict[str, float]
    cluster: str | None = None
    """The cluster that it is about; of `missing` the feature."""
    features: list[AlertFeature] = field(default_factory=list)
    """Of the record with which it opens, those that are far off."""
    began: int | None = None
    """Time of the first record that it is about, in milliseconds since 1970, where that is known."""


@dataclass(slots=True)
class OpenAlert:
    """An alert that is open."""

    rule: AlertRule
    cluster: str | None
    """The cluster that it is about; of `missing` the feature."""
    version: int
    """Version of the stream's model when it opened."""
    number: int
    """Number of the alert in its stream."""
    since: str
    """Time of the record with which it opened."""
    evidence: dict[str, float]
    features: list[AlertFeature] = field(default_factory=list)
    began: int | None = None
    """Time of the first record that it is about, in milliseconds since 1970, where that is known."""
    owed: bool = False
    """Whether it opened in a bootstrap: it is emitted with the first record behind that."""
    ended: bool = False
    """Whether what it was about ended, a version or a rule: it clears with the partition's next record."""


@dataclass(slots=True)
class OpenAlerts:
    """The open alerts of a stream or of a partition, by rule and what they are about."""

    open: dict[tuple[AlertRule, str | None], OpenAlert] = field(default_factory=dict)
    seq: int = 0
    """Number of the next message."""
    number: int = 0
    """Number of the next alert."""

    @property
    def owed(self) -> list[OpenAlert]:
        """The alerts of which a message is still to be emitted."""
        return [alert for alert in self.open.values() if alert.owed or alert.ended]

    def end(self, rules: Callable[[AlertRule], bool]) -> bool:
        """Let the open alerts of some rules clear with the next record; return whether one of them had not ended."""
        found = [alert for alert in self.open.values() if not alert.ended and rules(alert.rule)]
        for alert in found:
            alert.ended = True
        return bool(found)

    def state(self) -> dict[str, Any]:
        """Return the alerts for JSON."""
        return {"open": [asdict(alert) for alert in self.open.values()], "seq": self.seq, "number": self.number}

    def go_on(self, content: Mapping[str, Any]) -> None:
        """Continue from a `state`; any other content is a `KeyError`, `TypeError` or `ValueError`."""
        self.open = {}
        for each in content["open"]:
            alert = OpenAlert(**each)
            if alert.rule not in get_args(AlertRule):
                raise ValueError(f"there is no rule {alert.rule!r}")
            alert.began = None if alert.began is None else operator.index(alert.began)
            alert.evidence = {str(name): float(value) for name, value in alert.evidence.items()}
            alert.features = [
                {"feature": str(one["feature"]), "value": float(one["value"]), "low": float(one["low"]),
                 "high": float(one["high"])}
                for one in alert.features
            ]  # fmt: skip
            self.open[alert.rule, alert.cluster] = alert
        self.seq, self.number = int(content["seq"]), int(content["number"])


@dataclass(slots=True)
class StreamAlerts(OpenAlerts):
    """The alerts of a stream, with the state of the rules on its answers."""

    integers: IntArray = field(default_factory=lambda: stream_rules.new_state()[0])
    floats: FloatArray = field(default_factory=lambda: stream_rules.new_state()[1])
    gaps: Callable[[], dict[str, Any] | None] = lambda: None
    """Returns what is known of the gaps between the stream's records."""
    missing: MissingFeatures | None = None
    """How often its features are missing; None where the rule is off, or before its first record."""

    def next_version(self) -> "StreamAlerts":
        """Return the alerts for the next version of the model: what was open of its answers has ended."""
        made = StreamAlerts(self.open, self.seq, self.number, gaps=self.gaps)
        made.end(lambda rule: rule != "silent")
        return made

    def state(self) -> dict[str, Any]:
        """Return the alerts for JSON."""
        rules = {"integers": self.integers.tolist(), "floats": self.floats.tolist(), "gaps": self.gaps()}
        # Spelled out, because dataclasses with slots have no class cell.
        return OpenAlerts.state(self) | rules

    @classmethod
    def from_state(cls, content: Mapping[str, Any]) -> "StreamAlerts":
        """Continue from a `state`; any other content is a `KeyError`, `TypeError` or `ValueError`."""
        made = cls()
        made.go_on(content)
        integers, floats = np.array(content["integers"], np.int64), np.array(content["floats"], np.float64)
        made.integers, made.floats = stream_rules.of_earlier(integers, floats)
        if not np.isfinite(floats).all():
            raise ValueError("rules with a float that is not finite")
        gaps = None if content["gaps"] is None else dict(content["gaps"])
        made.gaps = lambda: gaps
        return made
