"""Describe the clusters of the streams for users: the newest snapshots, and what was learned since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

from resonance.engine.base import ModelFacts, Path
from resonance.engine.labels import LabelEngine
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.changed_ranges import ChangedRange, changed_ranges, features_of_before, range_hint
from resonance.pipeline.inspect.listing import StoredPartition, empty_task, stream_of
from resonance.pipeline.inspect.stream_outputs import StreamOutputs, recent_shares
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.cluster_description import describe
from resonance.pipeline.task.encode.cluster_events import examples_of
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.tasks import Task
from resonance.pipeline.timestamps import TimeTexts
from resonance.schemas import ClusterEvent, ClusterExample, ClusterSnapshot, SalientFeature

RECENT_OFFSETS: Final = 20_000
"""Offsets at the end of the partitions of answers that are read for the recent shares of a stream's clusters."""


@dataclass(frozen=True, slots=True)
class Emergence:
    """How a cluster began, according to its event."""

    offset: int
    """Offset of the record that caused it."""
    time: str
    """Time of that record."""
    split_from: str | None
    """The cluster that it split from."""


@dataclass(frozen=True, slots=True)
class InspectedCluster:
    """A cluster of a stream; `size`, `nodes` and `salient` are as in a cluster event."""

    id: str
    """As in the outputs."""
    level: int
    """1 for the first level; only trees have deeper ones."""
    parent: str | None
    """Cluster of the level above that contains the node above this cluster."""
    size: int
    nodes: int
    records: int | None
    """Records that its model has learned since the cluster emerged."""
    emerged: Emergence | None
    """None where its event is no longer stored, or was not searched for."""
    centre: Mapping[str, float]
    spread: Mapping[str, float]
    """Like `centre`, in the input's units."""
    recent: float | None
    """Share of the stream's last answers that name it; None where none were read."""
    omitted: int
    """Features of sparse records that `centre` and `spread` leave out because a message has no room for them."""
    salient: Sequence[SalientFeature]
    """Empty for engines that do not weigh features."""
    keywords: Sequence[str] | None
    """None below the first level, and where records have no texts."""
    examples: Sequence[ClusterExample]
    """Its most typical records of late, on the first level."""
    of_before: Sequence[str]
    """Features in which its mean is of before the range changed: it has had hardly a record since."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster as an event describes it."""
        found: ClusterSnapshot = {
            "id": self.id,
            "size": self.size,
            "nodes": self.nodes,
            "centre": dict(self.centre),
            "spread": dict(self.spread),
        }
        if self.salient:
            found["salient"] = list(self.salient)
        if self.keywords is not None:
            found["keywords"] = list(self.keywords)
        return found


class _Known(NamedTuple):
    """What the topics say of a stream beside its models."""

    time: str | None = None
    began: Mapping[str, Emergence] = {}
    splits: int = 0
    taken_back: int = 0
    recent: Mapping[str, float] | None = None
    ranges: Sequence[ChangedRange] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class InspectedLabels:
    """The labels of a stream."""

    known: list[str]
    """Labels that its model has learned, in the order in which they came."""
    records: int
    """Records that were learned with labels."""
    buffered: int
    """Records that late labels can still reach."""
    waiting: int
    """Labels that wait for a record that has not come."""

    @classmethod
    def of(cls, model: StreamModel) -> Self | None:
        """Return the labels of a stream's model; None where its engine does not learn from labels."""
        memory, engine = model.labels, model.engine
        if memory is None or not isinstance(engine, LabelEngine):
            return None
        return cls(list(map(str, engine.labels)), memory.learned, memory.unlabelled, len(memory.waiting))


@dataclass(frozen=True, slots=True)
class InspectedStream:
    """A stream, as of an offset."""

    stream: str
    topic: str
    """Topic that its records are read from: an input, or the routes."""
    partition: int
    engine: str
    version: int
    next: int
    """Offset behind the last record that is contained."""
    stored: int
    """Offset behind the last record that its snapshot contains; those up to `next` were learned again."""
    time: str | None
    """Kafka timestamp of that record; None where it is deleted, or was not read."""
    written: str
    """Time at which the snapshot was written."""
    splits: int
    """Splits of its clusters, as far as their events are stored and were read."""
    taken_back: int
    """Those after which one of the two was absorbed by the other."""
    committed: int
    """The group's committed offset in the partition; -1 where it has none."""
    records: int
    """Records that its model has learned; those of a warm-up are learned at its end."""
    features: Sequence[str]
    """Names, in the order of dense records or of a sparse stream's dictionary; empty where records have indices."""
    clusters: list[InspectedCluster]
    """By level, in the order of their ids; in a tree each below its parent."""
    labels: InspectedLabels | None = None
    """None where its engine does not learn from labels."""
    open_drift: int | None = None
    """Number of the drift event whose change has not settled; None where there is none."""
    ranges: Sequence[ChangedRange] = ()
    """Features whose range has changed, as far as drift events are stored and were read."""
    hint: str = ""
    """A sentence on features whose range changed often, on the warm-up, or on clusters that are too many."""

    @property
    def behind(self) -> int:
        """Offsets of its partition that the group has processed since."""
        return max(self.committed - self.next, 0)

    def as_json(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        values = asdict(self)
        for each in values["clusters"]:
            if each["keywords"] is None:
                del each["keywords"]
        return values


def inspect(
    settings: Settings,
    reader: LogReader,
    states: Sequence[StoredPartition],
    stream: str | None = None,
    *,
    stored: bool = False,
    learned: Callable[[int], None] = lambda _: None,
    read: Callable[[ClusterEvent], None] = lambda _: None,
) -> list[InspectedStream]:
    """Return one stream, with its times and how its clusters began, or all streams without these.

    One stream learns what the group has processed since its snapshot, without output, unless `stored`; `learned` is
    called with numbers of records, and `read` with each stored event of the stream. Snapshots that were made under
    other settings are read under those. Raises MismatchError or ConfigurationError where this release cannot read one.
    """
    roots: list[tuple[StoredPartition, StreamSnapshot, StreamModel]] = []
    below: dict[str, list[StreamModel]] = {}
    found: list[InspectedStream] = []

    def describe_stream(state: StoredPartition, snapshot: StreamSnapshot, model: StreamModel) -> None:
        # For many streams this would take long.
        known = _Known()
        if stream is not None:
            outputs = StreamOutputs(settings, reader, state.at, model.name, model.next)
            drifts = [event for event in outputs.values("drift_events") if event["kind"] == "rescaled"]
            ranges = changed_ranges(drifts, model.version)
            hint = range_hint(model.name, drifts, model.version)
            history, recent = _history(outputs, read), _recent(outputs)
            known = _Known(time_before(reader, state.at, model.next), *history, recent, ranges, hint)
        subtrees = [tree for tree in below.get(model.name, ()) if tree.version == model.version]
        # A root that learns apart still belongs to the tree: users know it by the name in the settings.
        engine = settings.engine.name if settings.hierarchy == "keyed" else model.engine.name
        found.append(_inspected([model, *subtrees], engine, state, snapshot, known))

    for state in states:
        snapshots = [one for one in state.streams if stream in (None, stream_of(one.stream))]
        if not snapshots or state.checkpoint is None:
            continue
        task = empty_task(settings, state.checkpoint)
        # Whether a stream has ended is shown by the records of others.
        alone = settings.hierarchy != "keyed" and not settings.limits.stream_ttl
        learns = stream is not None and not stored and alone
        # Of routes the order of all streams' records is checked, so all have to be there.
        for snapshot in state.streams if learns and settings.is_routed else snapshots:
            task.restore(snapshot)
        if learns:
            _catch_up(settings, reader, state, task, snapshots[0], learned)
        for snapshot in snapshots:
            model = task.models.named(snapshot.stream)
            if model.root_node is not None:
                below.setdefault(model.stream, []).append(model)
            elif settings.hierarchy == "keyed":
                roots.append((state, snapshot, model))
            else:
                describe_stream(state, snapshot, model)
                task.models.evict()
    for root in roots:
        describe_stream(*root)
    return found


def _catch_up(
    settings: Settings,
    reader: LogReader,
    state: StoredPartition,
    task: Task,
    snapshot: StreamSnapshot,
    learned: Callable[[int], None],
) -> None:
    """Learn what the group has processed since a snapshot, where the log still has it."""
    first, end = reader.bounds([state.at])[state.at]
    begin = snapshot.next
    if settings.is_routed:
        begin = min(one.next for one in state.streams)
    end = min(end, state.committed)
    if not first <= begin < end:
        return
    names = StreamNames.of(settings, *state.at)
    only = names.by_key and not settings.is_routed
    key = names.key_of(snapshot.stream)
    for _, records in reader.read({state.at: (begin, end)}):
        task.catch_up([record for record in records if record.key == key] if only else records)
        learned(len(records))


def _inspected(
    parts: Sequence[StreamModel],
    engine: str,
    state: StoredPartition,
    snapshot: StreamSnapshot,
    known: _Known,
) -> InspectedStream:
    """Describe a stream by its model, which comes first, and by the models of its subtrees where these learn apart."""
    model = parts[0]
    name = model.name
    texts = StreamTexts(name, model.version, model.engine.depth)
    models = {path: facts for part in parts for path, facts in part.engine.models().items()}
    clusters = []
    present = [cluster for part in parts for cluster in part.engine.clusters()]
    for cluster in sorted(present, key=lambda cluster: (cluster.path, cluster.id)):
        emitted = describe(model, texts, cluster)
        own = models.get(cluster.path)
        above = parent_of(models, cluster.path)
        clusters.append(
            InspectedCluster(
                id=emitted["id"],
                level=len(cluster.path) + 1,
                parent=None if above is None else texts.cluster_id(cluster.path[:-1], above),
                size=emitted["size"],
                nodes=emitted["nodes"],
                records=own.records - own.since[cluster.id] if own and cluster.id in own.since else None,
                emerged=known.began.get(emitted["id"]),
                centre=emitted["centre"],
                spread=emitted["spread"],
                recent=None if known.recent is None else known.recent.get(emitted["id"], 0.0),
                omitted=emitted.get("omitted", 0),
                salient=emitted.get("salient", ()),
                keywords=emitted.get("keywords"),
                examples=examples_of(model, emitted["id"], state.at),
                of_before=features_of_before(emitted["centre"], known.ranges),
            )
        )
    return InspectedStream(
        stream=name,
        topic=state.at[0],
        partition=state.at[1],
        engine=engine,
        version=model.version,
        next=model.next,
        stored=snapshot.next,
        time=known.time,
        written=TimeTexts()[state.written[snapshot.stream]],
        splits=known.splits,
        taken_back=known.taken_back,
        committed=state.committed,
        records=models[()].records if () in models else 0,
        features=model.preparation.known_features,
        clusters=_as_tree(clusters),
        labels=InspectedLabels.of(model),
        open_drift=None if model.drift is None else model.drift.open_since,
        ranges=known.ranges,
        hint=known.hint or _warm_up(model) or _crowded(model),
    )


def _warm_up(model: StreamModel) -> str:
    """Return how far the warm-up is; empty behind it."""
    held, wanted = model.preparation.held, model.preparation.wanted
    text = (
        f"{held:,} of {held + wanted:,} records of the warm-up have come (prepare.warmup_records): none is learned yet"
    )
    return "" if model.preparation.ready else text


def _crowded(model: StreamModel) -> str:
    """Return that there are more clusters than the nodes can show; empty where there are not."""
    text = "there are more clusters than its landmarks can separate: raise engine.max_landmarks"
    return text if model.engine.crowded else ""


def _as_tree(clusters: Sequence[InspectedCluster]) -> list[InspectedCluster]:
    """Return each cluster followed by those below it; those whose parent is in no cluster come last."""
    below: dict[str | None, list[InspectedCluster]] = {}
    for cluster in clusters:
        below.setdefault(cluster.parent if cluster.level > 1 else "", []).append(cluster)
    ordered: list[InspectedCluster] = []

    def add(some: Sequence[InspectedCluster]) -> None:
        for cluster in some:
            ordered.append(cluster)
            add(below.get(cluster.id, ()))

    add(below.get("", ()))
    add(below.get(None, ()))
    return ordered


def time_before(reader: LogReader, at: TopicPartition, next_: int) -> str | None:
    """Return the time of the record before an offset; None where it is deleted."""
    first, _ = reader.bounds([at])[at]
    if next_ > first:
        for _, records in reader.read({at: (next_ - 1, next_)}, 1):
            route = read_route(records[-1])
            return TimeTexts()[records[-1].timestamp if route is None else route.timestamp]
    return None


def _history(
    outputs: StreamOutputs, read: Callable[[ClusterEvent], None] = lambda _: None
) -> tuple[dict[str, Emergence], int, int]:
    """Return how the clusters of a stream began, its splits, and how many were taken back, from the stored events."""
    found: dict[str, Emergence] = {}
    splits: set[frozenset[str]] = set()
    back: set[frozenset[str]] = set()
    for event in outputs.values("cluster_events"):
        read(event)
        kind, pair = event["kind"], frozenset((event["cluster"], event.get("other")))
        if kind in ("emerged", "split"):
            # The first one counts: delivered at least once, it can come again.
            begun = Emergence(event["cause"]["source"]["offset"], event["time"], event.get("other"))
            found.setdefault(event["cluster"], begun)
        if kind == "split":
            splits.add(pair)
        elif kind == "absorbed" and pair in splits:
            back.add(pair)
    return found, len(splits), len(back)


def _recent(outputs: StreamOutputs) -> dict[str, float] | None:
    """Return the share of the last answers that name each cluster; None where none are stored."""
    return recent_shares(value["clusters"] for value in outputs.answers(RECENT_OFFSETS))


def overview(streams: Sequence[InspectedStream]) -> list[dict[str, Any]]:
    """Return one row for each stream."""
    return [
        {
            "stream": stream.stream,
            "topic": stream.topic,
            "partition": stream.partition,
            "version": stream.version,
            "next": stream.next,
            "behind": stream.behind,
            "written": stream.written,
            "records": stream.records,
            "clusters": len(stream.clusters),
        }
        for stream in streams
    ]


def parent_of(models: dict[Path, ModelFacts], path: Path) -> int | None:
    """Return the cluster, one level up, of the node whose model has this path; None where it is in none."""
    above = models.get(path[:-1]) if path else None
    return None if above is None else above.cluster_of.get(path[-1])
