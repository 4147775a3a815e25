"""Signs of incidents: alerts and drifts of a stream, with the time at which what they show began."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from statistics import median
from typing import Any, Final, NamedTuple

from resonance.pipeline.task.alerts.alert_table import place_of
from resonance.pipeline.timestamps import epoch_ms
from resonance.schemas import AlertSeverity, ClusterSnapshot

FOLLOWED: Final = ("alerts", "drift_events", "cluster_events")
"""Kinds of outputs from which incidents are made."""


_NAMED: Final = itemgetter("feature", "value", "low", "high")
_MOVED: Final = itemgetter("before", "after", "shift", "ratio")


class Move(NamedTuple):
    """How a feature moved by a drift."""

    before: float
    after: float
    shift: float
    """In spreads, with its sign."""
    ratio: float
    """How many times as much it varies."""


class Value(NamedTuple):
    """A feature of a record that is unlike all before, and between which values it usually is."""

    value: float
    low: float
    high: float

    @property
    def usual(self) -> float:
        """The middle of what it usually is."""
        return 0.5 * (self.low + self.high)

    def is_close(self, other: float) -> bool:
        """Whether another value differs by no more than the usual ones from their middle."""
        return abs(other - self.value) <= 0.5 * (self.high - self.low)


@dataclass(slots=True)
class Sign:
    """An alert that opened, or a drift."""

    key: str
    place: str
    """The stream; of an alert of a whole partition its topic and number."""
    stream: str | None
    rule: str
    severity: AlertSeverity
    time: float
    """Seconds of the record that showed it."""
    onset: float
    """Seconds at which what it shows began, about."""
    stamp: str
    text: str = ""
    moves: Mapping[str, Move] = field(default_factory=dict)
    centre: Mapping[str, float] = field(default_factory=dict)
    """Of a new cluster."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Of an alert that names features."""
    unlike: float = 0.0
    """Of an alert `unlike`: the share of the records that were."""
    varies: Mapping[str, Move] = field(default_factory=dict)
    """Features of a drift that vary more or less, and did not move."""
    continues: str = ""
    """Key of the drift that goes on."""
    is_whole: bool = False
    """Of a drift: whether the stream as a whole changed."""
    is_open: bool = False
    until: float = 0.0
    """Of a drift: seconds at which there was a new baseline; infinite while there is none."""


def seconds(time: str) -> float:
    """Return the time of an output in seconds."""
    return epoch_ms(time) / 1000


class SignTable:
    """The signs in outputs, which come in any order and as often as they like."""

    def __init__(self) -> None:
        self._alerts: dict[str, Mapping[str, Any]] = {}
        self._cleared: set[str] = set()
        # By stream, version and number.
        self._drifts: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        self._settled: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        self._begun: dict[str, tuple[str, ClusterSnapshot]] = {}
        # Offsets and seconds of the first and the last output of each log, and the streams in it.
        self._spans: dict[tuple[str, int], list[tuple[int, float]]] = {}
        self._streams: dict[str, tuple[str, int]] = {}

    def apply(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Take over an output; one of another kind, or of a later release, changes nothing."""
        try:
            source, time = payload["cause"]["source"], seconds(payload["time"])
            log, at = (source["topic"], source["partition"]), (source["offset"], time)
            if kind == "alerts":
                self._alert(payload)
            elif kind == "drift_events":
                self._drift(payload)
            elif kind == "cluster_events":
                begun = (
                    {each["id"]: each for each in payload["after"]} if payload["kind"] in ("emerged", "split") else {}
                )
                if payload["cluster"] in begun:
                    self._begun[payload["cluster"]] = payload["time"], begun[payload["cluster"]]
            else:
                return
        except (AttributeError, KeyError, TypeError, ValueError):
            return
        if "reason" not in payload:
            span = self._spans.setdefault(log, [at, at])
            span[:] = min(span[0], at), max(span[1], at)
        if payload["stream"] is not None:
            self._streams[payload["stream"]] = log

    def _alert(self, payload: Mapping[str, Any]) -> None:
        if payload["kind"] == "opened":
            self._alerts[payload["key"]] = payload
        else:
            self._cleared.add(payload["key"])

    def _drift(self, payload: Mapping[str, Any]) -> None:
        key = payload["stream"], payload["version"], payload["seq"]
        if payload["kind"] == "drift":
            self._drifts[key] = payload
        elif payload["kind"] in ("settled", "recovered"):
            self._settled[payload["stream"], payload["version"], payload["opened"]] = payload

    @property
    def streams(self) -> list[str]:
        """Every stream that had outputs."""
        return sorted(self._streams)

    def paces(self) -> dict[str, float]:
        """Return about how many seconds there are between two records of each stream."""
        shared = dict.fromkeys(self._spans, 0)
        for log in self._streams.values():
            shared[log] = shared.get(log, 0) + 1
        result = {}
        for stream, log in self._streams.items():
            (first, began), (last, ended) = self._spans.get(log, [(0, 0.0), (0, 0.0)])
            result[stream] = shared[log] * (ended - began) / max(1, last - first)
        return result

    def signs(self) -> list[Sign]:
        """Return the signs, the earliest first."""
        paces = self.paces()
        usual = median(paces.values()) if paces else 0.0
        found = [self._of_alert(each, paces.get(each["stream"], usual)) for each in self._alerts.values()]
        found += [self._of_drift(key, each) for key, each in self._drifts.items()]
        return sorted((sign for sign in found if sign is not None), key=lambda sign: (sign.time, sign.place, sign.key))

    def _of_alert(self, alert: Mapping[str, Any], pace: float) -> Sign | None:
        rule, since = alert["rule"], alert["since"]
        if rule == "drift_open":  # The drift itself says more.
            return None
        time = seconds(since)
        onset, centre, share, evidence = time, {}, 0.0, alert["evidence"]
        records = evidence.get("records", 0.0)
        if rule == "unlike":
            share = evidence.get("unlike", records) / (records or 1.0)
        if rule in ("unlike", "unconfirmed"):
            onset -= pace * records
        elif rule == "silent":
            onset -= evidence.get("seconds", 0.0)
        elif alert.get("cluster") in self._begun:
            began, cluster = self._begun[alert["cluster"]]
            onset, centre = seconds(began) - pace * cluster["size"], dict(cluster["centre"])
        place = place_of(alert)
        is_open = alert["key"] not in self._cleared
        return Sign(
            alert["key"], place, alert["stream"], rule, alert["severity"], time, min(onset, time), since,
            alert["text"], centre=centre, is_open=is_open, unlike=share,
            values={name: Value(*own) for name, *own in map(_NAMED, alert.get("features", ()))},
        )  # fmt: skip

    def _of_drift(self, key: tuple[str, int, int], drift: Mapping[str, Any]) -> Sign:
        stream, version, seq = key
        ended = self._settled.get(key)
        time = seconds(drift["time"])
        onset = seconds(drift["since"]["time"]) if "since" in drift else time
        drifts = f"{stream}/{version}/drift"
        return Sign(
            f"{drifts}/{seq}", stream, stream, "drift", "warning", time, min(onset, time), drift["time"],
            moves=_moves(("moved",), ended, drift), varies=_moves(("widened", "narrowed"), ended, drift),
            continues=f"{drifts}/{drift['continues']}" if "continues" in drift else "",
            is_whole=drift.get("scope") == "stream", is_open=ended is None,
            until=float("inf") if ended is None else seconds(ended["time"]),
        )  # fmt: skip


def _moves(changes: Container[str], *events: Mapping[str, Any] | None) -> dict[str, Move]:
    """Return the features that changed so by a drift; the first event that has one counts, a settled one knows more."""
    found: dict[str, Move] = {}
    for feature in _features(events):
        if feature["change"] in changes and feature["feature"] not in found:
            found[feature["feature"]] = Move(*_MOVED(feature))
    return found


def _features(events: Iterable[Mapping[str, Any] | None]) -> Iterable[Mapping[str, Any]]:
    for event in events:
        for unit in (event or {}).get("units", ()):
            yield from unit["features"]
