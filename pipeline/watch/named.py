"""Clusters under the names that people gave them, as `watch`, `inspect` and others show them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, takewhile
from typing import Any, Final

import orjson
from resonance.pipeline.checkpoint.stream_outputs import stream_marker
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition
from resonance.schemas import ClusterNames, Lineage
from resonance.schemas.lineage import take_event

_MEMBERS: Final = ("cluster", "other", "clusters", "successors", "units", "id")
"""Members of outputs that are ids of clusters, or have some."""


def partitions_there(reader: LogReader, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic; none where it does not exist, or may not be seen."""
    return list(takewhile(reader.has, ((topic, partition) for partition in count())))


def lives_of(
    reader: LogReader,
    partitions: Sequence[TopicPartition],
    streams: Iterable[str] = (),
    read: Callable[[Any], None] = lambda _: None,
) -> Lineage:
    """Return what became of the clusters of some streams, or of all, from the partitions of the stored events.

    `read` is called with each event. What no worker of this release wrote is left out.
    """
    lineage = Lineage()
    markers = [stream_marker(stream) for stream in streams]
    for _, records in reader.read(reader.bounds(partitions)):
        for record in records:
            value = record.value
            if value is not None and (not markers or any(marker in value for marker in markers)):
                with suppress(orjson.JSONDecodeError):
                    event = orjson.loads(value)
                    if take_event(lineage, event):
                        read(event)
    return lineage


def read_names(reader: LogReader, settings: Settings) -> ClusterNames:
    """Return the names of the clusters of a deployment, and of those that came from them; none without a topic.

    What became of the named clusters is read only where there are names.
    """
    names = ClusterNames()
    for _, records in reader.read(reader.bounds(partitions_there(reader, settings.topic("names")))):
        for record in records:
            names.apply(record.key, record.value)
    if names.given:
        events = partitions_there(reader, settings.topic("cluster_events"))
        names.lineage = lives_of(reader, events, {cluster.rsplit("/", 2)[0] for cluster in names.given})
    return names


def mentioned(payload: Any) -> Iterator[str]:
    """Yield the ids of the clusters that an output names in its sentence."""
    if isinstance(payload, Mapping):
        for member in _MEMBERS:
            found = payload.get(member)
            for each in found if isinstance(found, list) else [found]:
                if isinstance(each, str):
                    yield each
                else:
                    yield from mentioned(each)


def with_names(text: str, clusters: Iterable[str], names: ClusterNames) -> str:
    """Return a sentence with the name of each cluster behind the first mention of its id: ``p0/1/3 (night batch)``."""
    if not names.given:
        return text
    for cluster in dict.fromkeys(clusters):
        if shown := str(names.of(cluster)):
            # p0/1/3 is neither in p0/1/31 nor in p0/1/3.2.
            whole = rf"(?<![\w/.:%-]){re.escape(cluster)}(?![\w/:%-]|\.\w)"
            text = re.sub(whole, lambda found, shown=shown: f"{found[0]} ({shown})", text, count=1)  # type: ignore[misc]
    return text
