"""What the page knows of a deployment: its streams, clusters, events and alerts, folded from the output topics.

The room does not grow with time: a cluster is a few figures, its description lies in a temporary file, and streams,
ended clusters and events beyond a number are forgotten.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from resonance.pipeline import exact_json
from resonance.pipeline.dead_letters.records import StoredDeadLetter
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.json_paths import json_or_none
from resonance.pipeline.kafka.positions import AHEAD
from resonance.pipeline.page.share_history import ShareHistory
from resonance.pipeline.page.timeline import Timeline, TimelineEntry, entry_of
from resonance.pipeline.records import Record
from resonance.pipeline.task.alerts.alert_table import OpenAlertTable
from resonance.pipeline.timestamps import canonical, epoch_ms, is_canonical
from resonance.pipeline.watch.watch import WatchedOutput
from resonance.schemas import ClusterNames, ClusterTable, Incident

MOST_STREAMS: Final = 50_000
"""Streams that are shown; of further ones only the number is known."""

MOST_CLUSTERS: Final = 1_000
"""Present clusters of a stream that are described."""

MOST_ENDED: Final = 40
"""Ended clusters of a stream that its life-lines show, and changes of its data."""

MOST_LIVES: Final = 200_000
"""Ended clusters of which it is known what they became; only those of streams with names."""

PEERS: Final = 20
"""Clusters beside which a new one is described."""

QUICK, PATIENCE = 0.05, 20.0
"""Seconds beyond which making incidents took long, and how many times as long they are then shown as they are."""

OUTPUTS: Final = {"events": "cluster_events", "drift": "drift_events", "alerts": "alerts"}
"""Kinds of entries, and the kind of topic of each."""

SMOOTHING: Final = 10.0
"""Seconds over which rates are averaged."""


class Present(NamedTuple):
    """A cluster that is there."""

    size: int
    since: str
    seen: str
    """Time of the last event that described it."""
    level: int


class Ended(NamedTuple):
    """A cluster that is gone."""

    id: str
    since: str
    time: str
    how: str
    size: int
    heir: str | None
    level: int


@dataclass(slots=True, eq=False)
class StreamView:
    """What is known of a stream."""

    name: str
    version: int = 0
    clusters: dict[str, Present] = field(default_factory=dict)
    ended: deque[Ended] = field(default_factory=lambda: deque(maxlen=MOST_ENDED))
    parents: dict[str, str] = field(default_factory=dict)
    drift: str | None = None
    """Describes the change of its data that has not settled."""
    drift_version: int = 0
    """Version whose drift that is: a later one ends it."""
    drifts: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=MOST_ENDED))
    """Time, cluster and sentence of each change."""
    history: ShareHistory = field(default_factory=ShareHistory)
    last: str = ""
    """Time of its newest answer."""
    rate: float = 0.0
    """Records a second."""
    novel: float = 0.0
    """Novel ones a second."""
    pending: float = 0.0
    pending_novel: float = 0.0


class DeploymentView:
    """Folds outputs; every method may be called from any thread, with `lock` held."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.streams: dict[str, StreamView] = {}
        self.left_out: set[str] = set()
        """Some streams beyond the most that are kept."""
        self.timeline = Timeline()
        self.names = ClusterNames(ClusterTable(MOST_LIVES, strict=False))
        self.named_streams: set[str] = set()
        """Streams that have a cluster with a name."""
        self.alerts = OpenAlertTable()
        self.alerts_by_stream: Counter[str] = Counter()
        self.happened = IncidentTable()
        self._incidents: list[Incident] = []
        self._incidents_until = 0.0
        self.dead_letters: dict[tuple[str, str, str], dict[str, Any]] = {}
        """By topic and partition, stage and class: how many, the newest time, an example."""
        self.rates: deque[tuple[int, float]] = deque(maxlen=600)
        """Seconds since 1970, and the records a second then."""
        self._details = DiskMap()
        self._ticked = time.monotonic()
        self._by_name: list[StreamView] | None = None
        # Figures of all streams together: many streams are gone through once a second, not with each answer.
        self._clusters = 0
        self._changing: set[str] = set()
        """Streams whose data change."""
        self._rate = self._novel = 0.0

    # Folding

    def apply_cluster(self, key: bytes, value: bytes | None) -> None:
        """Take a message of the clusters topic in."""
        name = key.decode(errors="replace")
        if value is None:
            stream = self.streams.get(name.rsplit("/", 2)[0])
            if stream is not None and name in stream.clusters:
                del stream.clusters[name]
                self._clusters -= 1
                self._details.pop(key)
            return
        parsed = _parsed(value)
        try:
            cluster = Present(parsed["size"], parsed["since"] or "", parsed["time"], parsed["level"])
            version, ended = parsed["version"], parsed.get("ended")
            heir = next(iter(parsed.get("successors", ())), None)
            stream = self._stream(parsed["stream"])
        except (KeyError, TypeError):
            # No cluster of a worker.
            return
        if stream is None:
            return
        self._take_version(stream, version)
        if ended is not None:
            self._clusters -= stream.clusters.pop(name, None) is not None
            stream.ended = deque([each for each in stream.ended if each.id != name], MOST_ENDED)
            stream.ended.append(Ended(name, cluster.since, cluster.seen, ended, cluster.size, heir, cluster.level))
            self._details.pop(key)
        elif name in stream.clusters or len(stream.clusters) < MOST_CLUSTERS:
            self._clusters += name not in stream.clusters
            stream.clusters[name] = cluster
            self._details.put(key, value)

    def apply_name(self, key: bytes | None, value: bytes | None) -> str | None:
        """Take a message of the names in; return its stream where no cluster of it had a name before."""
        if not self.names.apply(key, value) or value is None:
            return None
        stream = (key or b"").decode().rsplit("/", 2)[0]
        if stream in self.named_streams:
            return None
        self.named_streams.add(stream)
        return stream

    def read_output(self, kind: str, record: Record, *, peers: bool) -> TimelineEntry | None:
        """Return an event, a drift event or an alert as the entry that `add` takes in; None for what is no output.

        With `peers` a new cluster is described beside the others of its stream.
        """
        payload = _parsed(record.value)
        stream = payload.get("stream", ...)
        if not isinstance(payload.get("kind"), str) or not (stream is None or isinstance(stream, str)):
            return None
        if kind == "alerts":
            self.alerts.apply([record])
            # Only open ones are shown.
            self.alerts.cleared.clear()
        elif stream is None:
            return None
        elif kind == "events" and stream in self.named_streams:
            self.names.table.apply(payload)
        self.happened.apply(OUTPUTS[kind], payload)
        near = self.details(stream or "", PEERS) if peers and payload["kind"] == "emerged" else []
        return entry_of(WatchedOutput(kind, record, payload, near))  # type: ignore[arg-type]

    def add(self, entry: TimelineEntry) -> TimelineEntry:
        """Take an entry in, and return it with its number in the timeline."""
        if entry.kind == "drift":
            self._drift(entry)
        elif entry.kind == "events":
            self._event(entry)
        return self.timeline.add(entry)

    def apply_answer(self, value: bytes | None, weight: float, *, counts: bool) -> None:
        """Take an assignment in, which stands for `weight` records; without `counts` it is not counted in the rate."""
        answer = _parsed(value)
        try:
            time_text, clusters, novel = answer["time"], answer["clusters"], bool(answer["novel"])
            # A clock years ahead must not be the end of the history.
            moment = epoch_ms(time_text)
            if moment > (latest := time.time_ns() // 1_000_000 + AHEAD):
                moment, time_text = latest, canonical(latest)
            stream = self._stream(answer["stream"])
        except (KeyError, TypeError, ValueError):
            return
        if stream is None:
            return
        stream.last = max(stream.last, time_text)
        stream.history.add(moment, clusters, weight)
        if counts:
            stream.pending += weight
            stream.pending_novel += weight * novel

    def apply_dead_letter(self, record: Record, weight: float) -> None:
        """Take a dead letter in, which stands for `weight` of them."""
        found = StoredDeadLetter.of(record, self.name)
        if found is None:
            return
        topic, partition, _ = found.source
        reason = (f"{topic}[{partition}]", found.stage, found.kind)
        known = self.dead_letters.setdefault(reason, {"count": 0.0})
        known["count"] += weight
        known |= {"time": found.timestamp, "example": found.where, "message": found.message[:300]}

    def tick(self) -> None:
        """Average the rates and count the alerts; called about once a second."""
        self.alerts_by_stream = Counter(each.stream or "" for each in self.alerts.opened.values())
        now = time.monotonic()
        seconds, self._ticked = max(now - self._ticked, 1e-3), now
        part = min(seconds / SMOOTHING, 1.0)
        rate = novel = 0.0
        for stream in self.streams.values():
            if stream.pending or stream.rate:
                stream.rate += part * (stream.pending / seconds - stream.rate)
                stream.novel += part * (stream.pending_novel / seconds - stream.novel)
                stream.pending = stream.pending_novel = 0.0
                if stream.rate < 1e-3:
                    stream.rate = stream.novel = 0.0
                rate += stream.rate
                novel += stream.novel
        self._rate, self._novel = rate, novel
        self.rates.append((int(time.time()), round(rate, 2)))

    def take_samples_of(self, before: "DeploymentView") -> None:
        """Take over what an earlier view has counted."""
        for name, stream in before.streams.items():
            if (mine := self.streams.get(name)) is not None:
                mine.history, mine.last, mine.rate, mine.novel = stream.history, stream.last, stream.rate, stream.novel
        self.dead_letters, self.rates = before.dead_letters, before.rates
        self._rate, self._novel = before._rate, before._novel

    def _stream(self, name: Any) -> StreamView | None:
        found = self.streams.get(name)
        if found is None:
            if not isinstance(name, str):
                raise TypeError(name)
            if len(self.streams) >= MOST_STREAMS:
                if len(self.left_out) < MOST_STREAMS:
                    self.left_out.add(name)
                return None
            found = self.streams[name] = StreamView(name)
            self._by_name = None
        return found

    def _event(self, entry: TimelineEntry) -> None:
        stream = self._stream(entry.stream)
        if stream is None:
            return
        if entry.what == "split" and len(stream.parents) < MOST_CLUSTERS:
            stream.parents[entry.cluster] = entry.other
        if entry.what == "version_started":
            self._take_version(stream, entry.version)
        # The clusters of its next life may be here before the end of this one.
        if entry.what == "stream_ended" and stream.version <= entry.version:
            for name in stream.clusters:
                self._details.pop(name.encode())
            self._clusters -= len(stream.clusters)
            self._changing.discard(stream.name)
            self._by_name = None
            self.streams.pop(stream.name, None)

    def _drift(self, entry: TimelineEntry) -> None:
        stream = self._stream(entry.stream)
        if stream is None:
            return
        if entry.what == "drift":
            stream.drift, stream.drift_version = entry.text, entry.version
            self._take_version(stream, entry.version)
            stream.drifts.append((entry.time, entry.cluster, entry.text))
        elif entry.what in ("settled", "recovered") and entry.version >= stream.drift_version:
            stream.drift = None
            self._note_drift(stream)

    def _take_version(self, stream: StreamView, version: int) -> None:
        """Note that an output is of a version. Topics are not read in one order: it need not be the newest."""
        stream.version = max(stream.version, version)
        if stream.drift_version < stream.version:
            stream.drift = None
        self._note_drift(stream)

    def _note_drift(self, stream: StreamView) -> None:
        (self._changing.discard if stream.drift is None else self._changing.add)(stream.name)

    # Reading

    def by_name(self) -> Sequence[StreamView]:
        """Return the streams in the order of their names."""
        if self._by_name is None:
            self._by_name = [self.streams[name] for name in sorted(self.streams)]
        return self._by_name

    def incidents(self) -> list[Incident]:
        """Return what happened, the newest first; where many outputs come, as of a while ago."""
        began = time.monotonic()
        if began >= self._incidents_until:
            self._incidents = self.happened.incidents(len(self.streams) + len(self.left_out))
            took = time.monotonic() - began
            self._incidents_until = began + PATIENCE * took if took > QUICK else began
        return self._incidents

    def detail(self, cluster: str) -> dict[str, Any] | None:
        """Return a present cluster as the topic has it; None where it is not known."""
        found = self._details.get(cluster.encode())
        return None if found is None else _parsed(found)

    def examples(self, cluster: str) -> list[dict[str, Any]]:
        """Return the typical records of a present cluster; their ids keep all digits."""
        return list(exact_json.loads(self._details.get(cluster.encode()) or b"{}").get("examples", ()))

    def details(self, stream: str, most: int) -> list[dict[str, Any]]:
        """Return the largest present clusters of a stream, the largest first."""
        known = self.streams.get(stream)
        names = sorted(known.clusters, key=lambda name: -known.clusters[name].size)[:most] if known else []
        return [found for name in names if (found := self.detail(name)) is not None]

    def headline(self) -> dict[str, Any]:
        """Return the figures of the whole deployment."""
        return {
            "rate": self._rate,
            "novelty": self._novel / self._rate if self._rate else None,
            "streams": len(self.streams) + len(self.left_out),
            "left_out": len(self.left_out),
            "clusters": self._clusters,
            "drifts": len(self._changing),
            "alerts": len(self.alerts.opened),
            "dead_letters": round(sum(each["count"] for each in self.dead_letters.values())),
            "newest": self.timeline.newest,
        }


def _parsed(value: bytes | None) -> dict[str, Any]:
    found = json_or_none(value)
    return found if isinstance(found, dict) else {}


def moment_of(text: str) -> int | None:
    """Return a time of an output in milliseconds since 1970; None where there is none."""
    return epoch_ms(text) if text and is_canonical(text) else None
