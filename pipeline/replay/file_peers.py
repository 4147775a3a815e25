"""Compare the streams of a file by its last records, as `compare_streams` does those of a deployment."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.peers import profiles
from resonance.pipeline.peers.beginnings import Beginnings
from resonance.pipeline.peers.comparison import Change
from resonance.pipeline.peers.peers import ComparedStreams, UnlikeFeature, compared
from resonance.pipeline.peers.recent import Recent, RecentPlan, columns_of, take, wanted
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.replay.file_partitions import route
from resonance.pipeline.replay.opening import UNBOUNDED
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task
from resonance.schemas import Incident, IncidentFeature


def compare_file(
    settings: Settings,
    paths: Sequence[Path],
    columns: Columns,
    drifts: Iterable[Mapping[str, Any]],
    incidents: Iterable[Incident] = (),
    *,
    partitions: int = 1,
) -> ComparedStreams:
    """Return which streams of the files of a replay are unlike the others; its `drifts` say since when.

    Its `incidents`, the newest first, know that better: those of a few streams in which the feature changed so.

    Nothing is compared but streams of keys, and of records with the same features.
    """
    nothing = ComparedStreams(0, 0, [])
    if settings.stream != "key" or settings.input.sparse is not None:
        return nothing
    topic = settings.input.topics[0]
    logs: list[TopicPartition] = [(topic, number) for number in range(partitions)]
    mappings: dict[TopicPartition, InputMapping] = {
        at: make_task(settings, *at, TaskContext(UNBOUNDED)).mapping for at in logs
    }
    features = columns_of(mappings.values())
    if not features or not all(isinstance(mapping.layout, Layout) for mapping in mappings.values()):
        return nothing
    keys: set[tuple[int, bytes | None]] = set()
    last: deque[list[Record]] = deque()
    length = 0
    for part in route(settings, paths, columns, partitions):
        keys |= {(part[0].partition, record.key) for record in part}
        last.append(part)
        length += len(part)
        while length - len(last[0]) >= wanted(len(keys), len(features)):
            length -= len(last.popleft())
    own = {at: StreamNames.of(settings, *at) for at in logs}
    names = sorted(own[topic, number].name_of(key) for number, key in keys if key is not None)
    if len(names) < profiles.FEWEST_STREAMS:
        return nothing
    records, numbers = Recent(features), {name: number for number, name in enumerate(names)}
    known: dict[TopicPartition, dict[bytes | None, int]] = {at: {} for at in logs}
    for part in last:
        at = part[0].topic, part[0].partition
        take(records, mappings[at], settings, numbers, known[at], at, part)

    def beginnings(newest: Mapping[str, str], _: Mapping[str, TopicPartition]) -> Beginnings:
        found = Beginnings(newest)
        for drift in drifts:
            found.read(orjson.dumps(drift))
        return found

    result = compared(RecentPlan(names, mappings, {}, features, False), records, beginnings)
    return replace(result, unlike=dated(result.unlike, incidents))


def dated(unlike: Sequence[UnlikeFeature], incidents: Iterable[Incident]) -> list[UnlikeFeature]:
    """Return features in which streams are unlike their peers, each since the newest incident of it, where one is."""
    began: dict[tuple[str | None, str, Change], str] = {}
    for incident in incidents:
        few = incident["streams"] if 2 * len(incident["streams"]) <= incident["known"] else []
        for stream, feature in product(few, incident["features"]):
            began.setdefault((stream, feature["feature"], _change(feature)), incident["since"])
    # What is many times what it was varies more, too.
    for (stream, name, change), time in [*began.items()]:
        if change == "high":
            began.setdefault((stream, name, "varies more"), time)
    return [
        replace(each, since=since, by=None) if (since := began.get((each.stream, each.feature, each.change))) else each
        for each in unlike
    ]


def _change(feature: IncidentFeature) -> Change:
    if "ratio" in feature and not feature.get("beside"):
        return "varies more" if feature["ratio"] > 1 else "varies less"
    return "high" if feature["usual"] is None or feature["value"] > feature["usual"] else "low"
