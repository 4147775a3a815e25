"""Outputs of a deployment for a person to follow: one line each, filtered by stream and kind."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

from resonance.pipeline import exact_json
from resonance.pipeline.dead_letters.records import StoredDeadLetter
from resonance.pipeline.errors import BrokerError, ConfigurationError, counted, nearest, number, second, unnamed_streams
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.watch.alike_alerts import summary
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.pipeline.watch.named import mentioned, with_names
from resonance.pipeline.watch.outputs import DeploymentOutputs, record_of
from resonance.pipeline.watch.sentences import portrait, sentence
from resonance.schemas import ClusterEvent, ClusterEventKind, ClusterNames, ClusterSnapshot, ClusterTable, Output
from resonance.schemas.common import place_text

OUTPUTS: Final[Mapping[str, str]] = {
    "assignments": "assignments",
    "events": "cluster_events",
    "drift": "drift_events",
    "alerts": "alerts",
    "dead-letters": "dead_letters",
    "clusters": "clusters",
}
"""What can be watched, and the kind of topic that holds it."""

KIND_OF: Final[Mapping[str, str]] = {topic.replace("_", "-"): kind for kind, topic in OUTPUTS.items()}
"""What is watched of each kind of output."""

USUAL: Final = ("events", "drift", "alerts", "dead-letters")
"""What is watched by default: what happens, and not the answer to every record."""

EVENT_KINDS: Final[tuple[str, ...]] = get_args(ClusterEventKind)

RESCALED: Final = "rescaled"
"""The kind of drift event that is watched by its own name alone: of a fleet on a daily wave there are many."""

SEEN_STREAMS: Final = 10_000
"""Most names of streams that are remembered, to offer the nearest of them."""

LIKELY: Final = 0.5
"""Probability above which a label counts as predicted."""

LOOK_SECONDS: Final = 0.2

SORTED: Final = 20_000
"""Outputs of a read with an end that are sorted by their times at once."""

PATIENCE: Final = 30.0
"""Seconds without a record after which a read with an end gives up."""


class WatchedOutput(NamedTuple):
    """An output that was read."""

    kind: str
    """One of `OUTPUTS`."""
    record: Record
    payload: Any
    """The parsed value, a dict or a `StoredDeadLetter`; None for a cluster that is forgotten."""
    peers: Sequence[ClusterSnapshot] = ()
    """Of an event: the clusters that its stream had before it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which outputs are wanted."""

    kinds: tuple[str, ...] = USUAL
    """Kinds of outputs (`OUTPUTS`)."""
    events: frozenset[str] = field(default_factory=frozenset)
    """Kinds of events; empty for all."""
    streams: frozenset[str] = field(default_factory=frozenset)
    """Empty for all."""
    drifts: frozenset[str] = frozenset({"drift"})
    """Drift events: `RESCALED`, and "drift" for all others."""
    drift_once: bool = False
    """Whether alerts that say no more than the drift events beside them are left out."""

    @classmethod
    def of(cls, kinds: Sequence[str], streams: Sequence[str]) -> "Filter":
        """Return the filter that the words of a command line mean; a kind of event implies its output.

        Raises `ConfigurationError`, with the nearest known word, for an unknown one.
        """
        known = [*OUTPUTS, *EVENT_KINDS, RESCALED]
        # A topic is named after its kind, too.
        kinds = [KIND_OF.get(word, word) for word in kinds]
        for word in kinds:
            if word not in known:
                raise ConfigurationError(f"--kind {word}: must be one of {', '.join(known)}{nearest(word, known)}")
        events = frozenset(word for word in kinds if word in EVENT_KINDS)
        drifts = frozenset({"drift", RESCALED}.intersection(kinds) or {"drift"})
        outputs = [
            word
            for word in OUTPUTS
            if word in kinds or (word == "events" and events) or (word == "drift" and RESCALED in drifts)
        ]
        # "events" beside "emerged" means all events.
        return cls(tuple(outputs) or USUAL, frozenset() if "events" in kinds else events, frozenset(streams), drifts)

    def wants(self, output: WatchedOutput) -> bool:
        """Whether an output is wanted; a dead letter belongs to no stream."""
        if self.streams and stream_of(output) not in self.streams:
            return False
        if output.kind == "drift":
            return (RESCALED if (output.payload or {}).get("kind") == RESCALED else "drift") in self.drifts
        if self.drift_once and "drift" in self.kinds and "drift" in self.drifts and output.kind == "alerts":
            alert = output.payload or {}
            # One that ends without an event says why.
            if alert.get("rule") == "drift_open" and not ("reason" in alert or alert.get("evidence", {}).get("ended")):
                return False
        return not (self.events and output.kind == "events") or output.payload.get("kind") in self.events


def present_clusters(reader: LogReader, partitions: Sequence[TopicPartition]) -> ClusterTable:
    """Return the clusters that partitions of the clusters topic hold: new ones are described beside them."""
    table = ClusterTable(strict=False)
    for _, records in reader.read(reader.bounds(partitions)):
        for record in records:
            if record.key is not None:
                table.apply_cluster(record.key, record.value)
    return table


def clusters_before(reader: LogReader, starts: Mapping[TopicPartition, int]) -> ClusterTable:
    """Return the clusters that there were before some offsets of the events, as far as events are stored."""
    table = ClusterTable(strict=False)
    bounds = reader.bounds(list(starts))
    for _, records in reader.read({at: (bounds[at][0], start) for at, start in starts.items()}):
        for record in records:
            table.apply(record.value or b"")
    return table


def stream_of(output: WatchedOutput) -> str | None:
    """Return the stream that an output is about; None where there is none."""
    payload = output.payload
    if isinstance(payload, dict):
        name = payload.get("stream")
        return name if isinstance(name, str) else None
    if output.kind == "clusters" and output.record.key:
        # A tombstone has only its key: <stream>/<version>/<n>.
        return output.record.key.decode(errors="replace").rsplit("/", 2)[0]
    return None


class Watch:
    """Follows the outputs of a deployment.

    `report` is called with a sentence about anything that is no output: that none arrive, to which `hint` is appended,
    or that the broker cannot be reached. `table` has the clusters of before, by which new ones are described, and
    `names` what clusters are called; it takes in what comes on the topic of the names, if that is read.
    """

    def __init__(
        self,
        reader: DeploymentOutputs,
        wanted: Filter,
        report: Callable[[str], None] = lambda _: None,
        hint: str = "",
        table: ClusterTable | None = None,
        names: ClusterNames | None = None,
    ) -> None:
        self._names = ClusterNames() if names is None else names
        self._table = ClusterTable(strict=False) if table is None else table
        self._reader = reader
        self._wanted = wanted
        self._report = report
        self._hint = hint
        self._reported: set[str] = set()
        self.streams: set[str] = set()
        """Streams that were seen."""
        self.matched = 0
        """Outputs that were wanted."""

    def batches(self, ends: Mapping[tuple[str, int], int], *, follow: bool = False) -> Iterator[list[WatchedOutput]]:
        """Yield the wanted outputs in batches until the offsets `ends` are reached; with `follow` go on without end.

        With `follow` they come as they are read, else `SORTED` at a time by their times.
        Raises `ConfigurationError` at the end, with the nearest names, where the wanted streams had no output, and
        `BrokerError` where a topic cannot be read.
        """
        moved = time.monotonic()
        found: list[WatchedOutput] = []
        while follow or not self._reader.has_reached(ends):
            outputs = self._reader.poll(LOOK_SECONDS)
            now = time.monotonic()
            if outputs:
                moved = now
            elif not follow and now - moved > PATIENCE:
                reason = self._reader.trouble or "no outputs came"
                raise BrokerError(f"the broker gave nothing for {PATIENCE:g} s ({reason}); look at it, and start again")
            for output in outputs:
                # Names have no end: whatever is given meanwhile counts.
                if not follow and output.offset >= ends.get((output.topic, output.partition), math.inf):
                    continue
                watched = self._read(output)
                if watched is not None and self._wanted.wants(watched):
                    found.append(watched)
                    self.matched += 1
            if found and (follow or len(found) >= SORTED):
                yield found if follow else _by_time(found)
                found = []
            elif follow and not outputs:
                self._idle()
        if found:
            yield _by_time(found)
        if not self.matched and (missing := sorted(self._wanted.streams - self.streams)):
            raise ConfigurationError(f"--stream: {unnamed_streams(missing, self.streams)}")

    def _read(self, output: Output) -> WatchedOutput | None:
        if output.kind == "names":
            self._names.apply(output.key, output.value)
            return None
        kind, record = KIND_OF[output.kind], record_of(output)
        if kind == "dead-letters":
            dead_letter = StoredDeadLetter.of(record, self._reader.deployment)
            return None if dead_letter is None else WatchedOutput(kind, record, dead_letter)
        watched = WatchedOutput(kind, record, output.value)
        if kind == "events":
            watched = watched._replace(peers=self._peers(output.value))
        if (stream := stream_of(watched)) and len(self.streams) < SEEN_STREAMS:
            self.streams.add(stream)
        return watched

    def _peers(self, event: ClusterEvent) -> Sequence[ClusterSnapshot]:
        """Return the clusters that a stream had before an event, and apply the event."""
        self._names.table.apply(event)
        peers = self._table.present(event["stream"])
        self._table.apply(event)
        return peers

    def _idle(self) -> None:
        if self._reader.trouble:
            self._say_once(f"the broker cannot be reached ({self._reader.trouble}); waiting for it")
        elif not self.matched:
            if self.streams and (missing := sorted(self._wanted.streams - self.streams)):
                self._say_once(f"{unnamed_streams(missing, self.streams)}; waiting for some")
            else:
                topics = ", ".join(self._reader.topics("names"))
                self._say_once(f"nothing yet; waiting for outputs on {topics} (Ctrl-C ends it){self._hint}")

    def _say_once(self, text: str) -> None:
        if text not in self._reported and len(self._reported) < 100:
            self._reported.add(text)
            self._report(text)


def alert_of(output: WatchedOutput) -> Mapping[str, Any] | None:
    """Return the alert that an output is."""
    return output.payload if output.kind == "alerts" else None


def as_line(output: WatchedOutput, *alike: WatchedOutput, names: ClusterNames | None = None) -> str:
    """Return an output as a sentence, with the names of its clusters; of `alike` alerts there is only the number."""
    payload = output.payload
    text = payload["text"] if alike else _sentence(output)
    called = text if names is None else with_names(text, mentioned(payload), names)
    if not alike:
        return called
    return f"{_alert_head(payload)}: {summary([payload, *(each.payload for each in alike)], called)}"


def _sentence(output: WatchedOutput) -> str:
    kind, record, payload, peers = output
    if isinstance(payload, StoredDeadLetter):
        cut = f"; {payload.truncated} cut" if payload.truncated else ""
        return f"{payload.where} was not used ({payload.stage}, {payload.kind}): {payload.message}{cut}"
    if payload is None:
        return f"{(record.key or b'').decode(errors='replace')} is forgotten"
    try:
        return _event(payload, peers) if kind == "events" else _SENTENCES[kind](payload)
    except (KeyError, TypeError, AttributeError):
        # A later release may write other members: then the value is shown as it is.
        return exact_json.dumps(payload).decode()


def time_of(output: WatchedOutput) -> str:
    """Return the time of an output as people read it; empty where it has none."""
    return second(_time(output)).removesuffix("Z")


def _time(output: WatchedOutput) -> str:
    return str(output.payload.get("time", "")) if isinstance(output.payload, dict) else ""


def _by_time(outputs: Sequence[WatchedOutput]) -> list[WatchedOutput]:
    """Return outputs by their times, each partition in its own order; one without a time follows the one before it."""
    last: dict[TopicPartition, str] = {}

    def moment(output: WatchedOutput) -> str:
        at = output.record[:2]
        last[at] = max(_time(output), last.get(at, ""))
        return last[at]

    return sorted(outputs, key=moment)


def as_json(output: WatchedOutput, names: ClusterNames | None = None) -> dict[str, Any]:
    """Return an output as JSON values: where it stands, its content, and names of its clusters."""
    kind, record, payload, _ = output
    clusters = mentioned(payload) if names is not None and names.given else ()
    called = {name: str(found) for name in clusters if names is not None and (found := names.of(name))}
    return {
        "kind": kind,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": None if record.key is None else record.key.decode(errors="replace"),
        "value": payload.as_json(content=True) if isinstance(payload, StoredDeadLetter) else payload,
        **({"names": called} if called else {}),
    }


def _assignment(payload: Mapping[str, Any]) -> str:
    source = payload["source"]
    name = "" if payload["id"] is None else f" {payload['id']}"
    where = f"{place_text(source)}{name}"
    if payload["status"] == "warming_up":
        return f"{where} is kept for the warm-up of {payload['stream']}"
    novel = ", like nothing known" if payload["novel"] else ""
    likely = [f"{label} {number(share)}" for label, share in payload.get("labels", {}).items() if share > LIKELY]
    labels = f", labelled {', '.join(likely)}" if likely else ""
    if payload["cluster"] is None:
        return f"{where} is in no cluster of {payload['stream']} yet{novel}{labels}"
    deeper = "".join(f" > {name}" for name in payload["clusters"] if name != payload["cluster"])
    return f"{where} is in {payload['cluster']}{deeper} ({number(payload['score'])}{novel}){labels}"


def _event(payload: Any, peers: Sequence[ClusterSnapshot]) -> str:
    described = sentence(payload, peers)
    return described if payload["cluster"] is None else f"cluster {described}"


def _alert(payload: Mapping[str, Any]) -> str:
    return f"{_alert_head(payload)}: {payload['text']}"


def _alert_head(payload: Mapping[str, Any]) -> str:
    return f"{payload['severity']} alert {payload['kind']} ({payload['rule']})"


def _cluster(payload: Any) -> str:
    size = counted(payload["size"], "record")
    if payload.get("ended"):
        heirs = " and ".join(payload.get("successors") or ())
        goes_on = f"; it goes on as {heirs}" if heirs else ""
        return f"{payload['id']} ended ({payload['ended']}) with {size}{goes_on}"
    return f"{payload['id']} has {size}: {portrait(payload)}"


_SENTENCES: Final[Mapping[str, Callable[[Any], str]]] = {
    "assignments": _assignment,
    "drift": drift_sentence,
    "alerts": _alert,
    "clusters": _cluster,
}
