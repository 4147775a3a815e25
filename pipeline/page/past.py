"""A stream as it was at a time: its stored events and drift up to then, folded anew.

They are parsed once: for another time only the last event of each cluster up to then is read again.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import orjson
from resonance.pipeline.page.answers import UnknownNameError, known_stream
from resonance.pipeline.page.timeline import TimelineEntry
from resonance.pipeline.page.view import MOST_ENDED, DeploymentView, moment_of
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
    after: tuple[str, ...]
    """Clusters that are there after the event, as far as it describes them."""
    ended: tuple[str, ...]
    """Clusters that it ended."""
    value: bytes


class StreamPast:
    """The stored events and drift of a stream.

    Parameters
    ----------
    stream : str
        Its name.
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._steps: deque[_Step] = deque(maxlen=MOST_PAST)
        self._since: dict[str, str] = {}
        """When each cluster began."""

    def extend(self, outputs: Iterable[tuple[str, Record]]) -> None:
        """Take outputs in, each with its kind; those of other streams are left out."""
        reader = DeploymentView("")
        read = ((reader.read_output(kind, record, peers=False), record.value) for kind, record in outputs)
        steps = [self._step(entry, value or b"") for entry, value in read if entry and entry.stream == self.stream]
        if steps:
            ordered = sorted((*self._steps, *steps), key=lambda step: step.moment)
            self._steps = deque(ordered, MOST_PAST)

    def _step(self, entry: TimelineEntry, value: bytes) -> _Step:
        moment = moment_of(entry.time) or 0
        if entry.kind != "events":
            return _Step(moment, entry, (), (), value)
        event: ClusterEvent = orjson.loads(value)
        try:
            after, before = ([cluster["id"] for cluster in event[side]] for side in ("after", "before"))
            ended = [name for name, _ in ended_by(event) if name in before]
        except (KeyError, TypeError):
            # No event of a worker.
            return _Step(moment, entry, (), (), value)
        for name in after:
            self._since.setdefault(name, entry.time)
        return _Step(moment, entry, tuple(after), tuple(ended), value)

    def at(self, moment: int, now: DeploymentView) -> DeploymentView:
        """Return what was known of the stream at a time in milliseconds since 1970.

        Names are those of `now`. Raises `UnknownNameError` where the stream was not there, or its events are deleted.
        """
        past = DeploymentView(now.name)
        present: dict[str, _Step] = {}
        ended: dict[str, _Step] = {}
        for step in self._steps:
            if step.moment > moment:
                break
            past.add(step.entry)
            present |= dict.fromkeys(step.after, step)
            for name in step.ended:
                present.pop(name, None)
                ended[name] = step
            if step.entry.what == "stream_ended":
                present.clear()
                ended.clear()
        for name, step in (*list(ended.items())[-MOST_ENDED:], *present.items()):
            past.apply_cluster(name.encode(), self._message(name, orjson.loads(step.value)))
        if self.stream not in past.streams:
            if not self._steps:
                known_stream(now, self.stream)
            stored = f"are stored from {self._steps[0].entry.time} on" if self._steps else "are not stored any more"
            raise UnknownNameError(f"stream {self.stream} had no cluster at {canonical(moment)}; its events {stored}")
        past.names, past.named_streams = now.names, now.named_streams
        if self.stream in now.streams:
            past.streams[self.stream].history = now.streams[self.stream].history.until(moment)
        return past

    def _message(self, name: str, event: ClusterEvent) -> bytes:
        """Return a cluster after an event, as the compacted topic has it."""
        for cluster in event["after"]:
            if cluster["id"] == name:
                return orjson.dumps(describe_cluster(cluster, event, self._since.get(name)))
        gone = next(cluster for cluster in event["before"] if cluster["id"] == name)
        return orjson.dumps(describe_end(gone, event, self._since.get(name)))
