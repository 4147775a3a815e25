"""The stored outputs of one stream."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, takewhile
from operator import itemgetter
from typing import Any, Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition, routes_offset_header

DRAWN: Final = 300_000
"""Offsets at the end of the answers that a picture shows, in all partitions that have some of the stream."""

RECENT: Final = 1_000
"""Last answers of a stream in which the recent shares of its clusters are counted."""

_NEEDED: Final = ("stream", "source", "clusters", "time")


def recent_shares(answers: Iterable[Sequence[str | None]]) -> dict[str, float] | None:
    """Return the share of the last `RECENT` answers that name each cluster; None of no answer.

    An answer is the clusters of its record by level.
    """
    last = deque(answers, maxlen=RECENT)
    counts = Counter(cluster for clusters in last for cluster in clusters if cluster is not None)
    return {cluster: count / len(last) for cluster, count in counts.items()} if last else None


def stream_marker(stream: str) -> bytes:
    """Return bytes that every output of a stream contains: the others need not be parsed."""
    return orjson.dumps({"stream": stream})[1:-1]


class StreamOutputs:
    """Reads what the topics have of the outputs of a stream, whose records are read from the partition `at`.

    Those from the offset `next_` on are left out.
    """

    def __init__(self, settings: Settings, reader: LogReader, at: TopicPartition, stream: str, next_: int) -> None:
        self._settings, self._reader, self._at, self._next = settings, reader, at, next_
        self._marker = stream_marker(stream)
        # Offsets of routes differ from those of the records that cause events: a header has them.
        self._header, _ = routes_offset_header(settings.name, 0)
        self._routed = at[0] == settings.topic("routes")

    def values(self, kind: str, last: int | None = None) -> Iterator[Any]:
        """Yield the outputs of a kind, of the `last` offsets of its partition or of all; none where it is missing."""
        return self._of((self._settings.topic(kind), self._at[1]), last)

    def answers(self, last: int) -> Iterator[Any]:
        """Yield the assignments of the last offsets, in the order of the stream; none unless all are stored.

        Where records are re-keyed these have only the members that say which cluster a record belongs to, and when.
        """
        if self._settings.output.assignments != "all":
            return iter(())
        if not self._settings.is_routed:
            return self.values("assignments", last)
        # They are in the partitions of their records, of which the time alone gives the order.
        topic = self._settings.topic("assignments")
        places = list(takewhile(self._reader.has, ((topic, partition) for partition in count())))
        found = [
            {name: value[name] for name in _NEEDED}
            for place in places
            for value in self._of(place, max(last // len(places), 1))
        ]
        return iter(sorted(found, key=itemgetter("time")))

    def _of(self, place: TopicPartition, last: int | None) -> Iterator[Any]:
        if not self._reader.has(place):
            return
        first, end = self._reader.bounds([place])[place]
        begin = first if last is None else max(first, end - last)
        for _, records in self._reader.read({place: (begin, end)}):
            for record in records:
                if record.value is None or self._marker not in record.value:
                    continue
                value = orjson.loads(record.value)
                source = value["cause"]["source"] if "cause" in value else value["source"]
                offset = source["offset"]
                if self._routed:
                    # Where a command is the cause there is no route.
                    offset = int(dict(record.headers).get(self._header) or -1)
                # Subtrees have snapshots of their own, which may be newer than the root's.
                if "subtree" in value or offset < self._next:
                    yield value
