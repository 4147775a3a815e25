"""The recorded answers of two deployments about the same records."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.pipeline.evaluate.dataset import UNKNOWN, Dataset
from resonance.pipeline.evaluate.run import NO_ANSWER, NO_CLUSTER, Numbers, Run
from resonance.pipeline.evaluate.source import merged
from resonance.pipeline.kafka.log_reader import OffsetRange
from resonance.pipeline.records import MOST_ELEMENTS, Record, TopicPartition
from resonance.pipeline.text import times as time_texts

_PLACE: Final = 48
"""Bits of the place of a record in a key; those above have the number of its partition."""

_OFFSET: Final = (1 << _PLACE) - 1

Keys = NDArray[np.int64]


class RecordedAnswers:
    """What a deployment has recorded about ranges of the input; the last answer of a record counts."""

    def __init__(self, ranges: Mapping[TopicPartition, OffsetRange], *, many: bool) -> None:
        self.each = MOST_ELEMENTS if many else 1
        """Places that an offset has."""
        self._ranges = {at: (number << _PLACE, *bounds) for number, (at, bounds) in enumerate(ranges.items())}
        self._keys, self._times = array("q"), array("q")
        self._cluster, self._stream = Numbers(0), Numbers(0)
        self._columns = array("i"), array("i"), array("b")
        self._events: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}

    def add(self, assignments: Sequence[Record]) -> None:
        """Take recorded assignments; other records are left aside."""
        clusters, streams, novel = self._columns
        times = []
        for record in assignments:
            if (found := self._content(record, "source")) is None:
                continue
            key, answer = found
            try:
                name, stream, is_novel, time = (answer[part] for part in ("cluster", "stream", "novel", "time"))
            except KeyError:
                continue
            self._keys.append(key)
            clusters.append(NO_CLUSTER if name is None else self._cluster[name])
            streams.append(self._stream[stream])
            novel.append(bool(is_novel))
            times.append(time)
        self._times.extend(time_texts.times_of(times).tolist())

    def add_events(self, events: Sequence[Record]) -> None:
        """Take recorded cluster events, each once."""
        for record in events:
            if (found := self._content(record, "cause")) is not None:
                event = found[1]
                name = tuple(event.get(part) for part in ("stream", "version", "seq", "subtree"))
                # One that is listed in parts is one.
                if name not in self._events and event.get("part", 1) == 1:
                    self._events[name] = found

    def _content(self, record: Record, member: str) -> tuple[int, dict[str, Any]] | None:
        """Return the key of the record that an output is about, and the output; None for one about others."""
        try:
            content = orjson.loads(record.value or b"null")
            source = content[member] if member == "source" else content[member]["source"]
            number, begin, end = self._ranges[source["topic"], source["partition"]]
            offset = source["offset"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None
        place = offset * self.each + source.get("index", 0)
        return (number + place, content) if begin <= offset < end else None

    def newest(self) -> tuple[Keys, Keys]:
        """Return the keys of the records that were answered, and where in the columns the last answer of each is."""
        keys = np.asarray(self._keys)
        found, place = np.unique(keys[::-1], return_index=True)
        return found, len(keys) - 1 - place

    def times(self, rows: Keys) -> Keys:
        """Return the times of some answers."""
        found: Keys = np.asarray(self._times)[rows]
        return found

    def run(self, newest: tuple[Keys, Keys], keys: Keys, order: Keys) -> Run:
        """Return the `newest` answers about the records with some keys, which are sorted, in an order."""
        place = np.empty(len(keys), dtype=np.int64)
        place[order] = np.arange(len(keys))
        own, rows = newest
        inside = np.isin(own, keys)
        at, rows = place[np.searchsorted(keys, own[inside])], rows[inside]
        columns: list[NDArray[Any]] = []
        for column, kind, empty in zip(self._columns, (np.int32, np.int32, np.int8), (NO_ANSWER, -1, 0), strict=True):
            made: NDArray[Any] = np.full(len(keys), empty, dtype=kind)
            made[at] = np.asarray(column)[rows]
            columns.append(made)
        cluster, stream, novel = columns
        nothing = np.full(len(keys), -1, dtype=np.int32)
        run = Run(
            *(cluster, list(self._cluster.found), stream, list(self._stream.found), nothing, []),
            *(novel.astype(np.bool_), nothing, []),
        )
        logs = keys >> _PLACE
        for key, event in self._events.values():
            first, end = np.searchsorted(logs, [key >> _PLACE, (key >> _PLACE) + 1]).tolist()
            if first < end and keys[first] <= key <= keys[end - 1]:
                run.events.append((int(place[np.searchsorted(keys, key)]), event))
        run.events.sort(key=lambda each: each[0])
        return run


def together(
    logs: Sequence[TopicPartition], first: RecordedAnswers, second: RecordedAnswers
) -> tuple[Dataset, Run, Run, dict[TopicPartition, OffsetRange]]:
    """Return the records that either has answered, where both have answers, with the answers of each.

    The true class of a record in the data set is the cluster of the first. Last come the offsets of each partition; one
    without common answers is not among them.
    """
    found = [answers.newest() for answers in (first, second)]
    keys = np.union1d(found[0][0], found[1][0])
    inside = np.zeros(len(keys), dtype=np.bool_)
    ranges = {}
    for number, at in enumerate(logs):
        parts = [each[each >> _PLACE == number] for each, _ in found]
        if not all(map(len, parts)):
            continue
        begin, last = max(int(each[0]) for each in parts), min(int(each[-1]) for each in parts)
        if begin <= last:
            inside |= (keys >= begin) & (keys <= last)
            ranges[at] = (begin & _OFFSET) // first.each, (last & _OFFSET) // first.each + 1
    keys = keys[inside]
    times = np.empty(len(keys), dtype=np.int64)
    for answers, (own, rows) in zip((second, first), reversed(found), strict=True):
        known = np.isin(own, keys)
        times[np.searchsorted(keys, own[known])] = answers.times(rows[known])
    order = merged(times, (keys >> _PLACE).astype(np.int32))
    ours, theirs = first.run(found[0], keys, order), second.run(found[1], keys, order)
    arranged = keys[order]
    data = Dataset(
        list(logs),
        (arranged >> _PLACE).astype(np.int32),
        arranged & _OFFSET,
        (),
        np.empty((len(keys), 0)),
        np.where(ours.cluster == NO_ANSWER, UNKNOWN, np.where(ours.cluster < 0, len(ours.names), ours.cluster)),
        [*ours.names, "none"],
        [],
        many=first.each > 1,
    )
    return data, ours, theirs, ranges
