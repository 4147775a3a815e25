"""Clusters under the names that people gave them, as `watch`, `inspect` and others show them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, takewhile
from typing import Any, Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.stream_outputs import stream_marker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition
from resonance.schemas import ClusterNames

_MEMBERS: Final = ("cluster", "other", "clusters", "successors", "units", "id")
"""Members of outputs that are ids of clusters, or have some."""

_BEFORE: Final = re.compile(r"[\w/.:%-]")
_BEHIND: Final = re.compile(r"[\w/:%-]|\.\w")
"""What makes an id part of another one: p0/1/3 is neither in p0/1/31 nor in p0/1/3.2."""


def partitions_there(reader: LogReader, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic; none where it does not exist, or may not be seen."""
    return list(takewhile(reader.has, ((topic, partition) for partition in count())))


def stored_events(
    reader: LogReader, partitions: Sequence[TopicPartition], streams: Iterable[str] = ()
) -> Iterator[Any]:
    """Yield the stored events of some streams, or of all, as they are parsed: they need not be of a worker."""
    markers = [stream_marker(stream) for stream in streams]
    for _, records in reader.read(reader.bounds(partitions)):
        for record in records:
            value = record.value
            if value is not None and (not markers or any(marker in value for marker in markers)):
                with suppress(orjson.JSONDecodeError):
                    yield orjson.loads(value)


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
        for event in stored_events(reader, events, {cluster.rsplit("/", 2)[0] for cluster in names.given}):
            names.table.apply(event)
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
        end = _end_of_mention(text, cluster)
        if end > 0 and (shown := str(names.of(cluster))):
            text = f"{text[:end]} ({shown}){text[end:]}"
    return text


def _end_of_mention(text: str, cluster: str) -> int:
    """Return where the first mention of a cluster ends; -1 without one."""
    # A pattern for each cluster would be compiled for each sentence.
    at = text.find(cluster)
    while at >= 0:
        end = at + len(cluster)
        if not (at and _BEFORE.match(text, at - 1)) and not _BEHIND.match(text, end):
            return end
        at = text.find(cluster, at + 1)
    return -1
