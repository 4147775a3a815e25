"""A stream as it was at a time: its stored events and drift up to then, folded anew."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import orjson
from resonance.pipeline.page.answers import UnknownNameError, known_stream
from resonance.pipeline.page.timeline import TimelineEntry
from resonance.pipeline.page.view import DeploymentView, moment_of
from resonance.pipeline.records import Record
from resonance.pipeline.timestamps import canonical
from resonance.schemas import ClusterEvent, describe_cluster, describe_end
from resonance.schemas.cluster_event import ended_by

MOST_PAST: Final = 20_000
"""Outputs of a stream from which its past is shown, the newest."""


class _Step(NamedTuple):
    """An event or a drift event of the stream."""

    moment: int
    entry: TimelineEntry
    clusters: Mapping[str, bytes]
    """Those that it describes, by id, as the compacted topic has them after it."""


class StreamPast:
    """The stored events and drift of a stream."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._steps: deque[_Step] = deque(maxlen=MOST_PAST)
        self._since: dict[str, str] = {}
        """When each cluster began."""

    def extend(self, outputs: Iterable[tuple[str, Record]]) -> None:
        """Take outputs in, each with its kind; those of other streams are left out."""
        reader = DeploymentView("")
        read = ((reader.read_output(kind, record, peers=False), record.value) for kind, record in outputs)
        steps = [
            _Step(moment_of(entry.time) or 0, entry, self._clusters(entry, value or b""))
            for entry, value in read
            if entry and entry.stream == self.stream
        ]
        if steps:
            ordered = sorted((*self._steps, *steps), key=lambda step: step.moment)
            self._steps = deque(ordered, MOST_PAST)

    def _clusters(self, entry: TimelineEntry, value: bytes) -> dict[str, bytes]:
        if entry.kind != "events":
            return {}
        event: ClusterEvent = orjson.loads(value)
        try:
            for each in event["after"]:
                self._since.setdefault(each["id"], entry.time)
            gone = dict(ended_by(event))
            ended = [each for each in event["before"] if each["id"] in gone]
            described = [describe_end(each, event, self._since.get(each["id"])) for each in ended]
            described += [describe_cluster(each, event, self._since[each["id"]]) for each in event["after"]]
        except (KeyError, TypeError):
            # No event of a worker.
            return {}
        return {cluster["id"]: orjson.dumps(cluster) for cluster in described}

    def at(self, moment: int, now: DeploymentView) -> DeploymentView:
        """Return what was known of the stream at a time in milliseconds since 1970.

        Names are those of `now`. Raises `UnknownNameError` where the stream was not there, or its events are deleted.
        """
        past = DeploymentView(now.name)
        last: dict[str, bytes] = {}
        for step in self._steps:
            if step.moment > moment:
                break
            past.add(step.entry)
            for name, cluster in step.clusters.items():
                # At the end of the order: those that ended last are shown.
                last.pop(name, None)
                last[name] = cluster
            if step.entry.what == "stream_ended":
                last.clear()
        for name, cluster in last.items():
            past.apply_cluster(name.encode(), cluster)
        if self.stream not in past.streams:
            if not self._steps:
                known_stream(now, self.stream)
            stored = f"are stored from {self._steps[0].entry.time} on" if self._steps else "are not stored any more"
            raise UnknownNameError(f"stream {self.stream} had no cluster at {canonical(moment)}; its events {stored}")
        past.names, past.named_streams = now.names, now.named_streams
        if self.stream in now.streams:
            past.streams[self.stream].history = now.streams[self.stream].history.until(moment)
        return past
