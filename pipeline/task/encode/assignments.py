"""Payloads and headers of assignments, a batch at a time, and of dead letters; `cluster_events` writes the events.

Assignments are pasted from columns of text, most of it cached, because it repeats: a record adds only offset, id, score
and time. A test holds that the bytes equal those of orjson for a `schemas.Assignment`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine.base import IntArray, LabelAnswers, Step
from resonance.pipeline.bounded_cache import BoundedCache
from resonance.pipeline.columns import Texts, Times
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import (
    Message,
    Messages,
    RoutedRecord,
    SourceRecord,
    TopicPartition,
    routes_offset_header,
)
from resonance.pipeline.task.decode.faults import Fault
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.text import times
from resonance.pipeline.text.paste import paste
from resonance.schemas import CloudEvents, DeadLetter, Header, dead_letter_headers, source_uri
from resonance.schemas.common import offset_text

DEAD_LETTER_BYTES: Final = 900_000
"""Bytes of a dead letter; longer values are cut."""

_WARMING = '"status":"warming_up","cluster":null,"clusters":[],"score":'


class StreamTexts:
    """The texts of one version of a stream that repeat from record to record; its engine has `depth` levels."""

    __slots__ = ("_clusters", "_head", "prefix", "version", "warming")

    def __init__(self, stream: str, version: int, depth: int) -> None:
        self.version = version
        self.prefix = f"{stream}/{version}/"
        self._head = f'}},"stream":"{stream}","version":{version},'
        self.warming = f"{self._head}{_WARMING}".encode()
        self._clusters = BoundedCache(self._flat_text if depth == 1 else self._deep_text)

    def cluster_id(self, path: Sequence[int], number: int) -> str:
        """Return the id of a cluster as messages have it."""
        return self.prefix + "".join(f"{node}." for node in path) + str(number)

    def clusters(self, step: Step) -> Iterable[bytes]:
        """Return for each record the text before its score."""
        if step.cluster.shape[1] == 1:
            return map(self._clusters.__getitem__, step.cluster[:, 0].tolist())
        # A node of the path matters only with a cluster below it; leaving out the others keeps the texts few.
        below = np.logical_or.accumulate(step.cluster[:, :0:-1] >= 0, axis=1)[:, ::-1]
        parents = np.where(below, step.path[:, :-1], -1)
        return map(self._clusters.__getitem__, map(tuple, np.hstack((step.cluster, parents)).tolist()))

    def _flat_text(self, cluster: int) -> bytes:
        return self._text([self.cluster_id((), cluster)] if cluster >= 0 else [], cluster >= 0)

    def _deep_text(self, place: tuple[int, ...]) -> bytes:
        depth = (len(place) + 1) // 2
        clusters, path = place[:depth], place[depth:]
        ids = [self.cluster_id(path[:level], number) for level, number in enumerate(clusters) if number >= 0]
        return self._text(ids, clusters[0] >= 0)

    def _text(self, ids: list[str], has_root: bool) -> bytes:
        listed = ",".join(f'"{text}"' for text in ids)
        first = f'"{ids[0]}"' if has_root else "null"
        return f'{self._head}"status":"assigned","cluster":{first},"clusters":[{listed}],"score":'.encode()


class _PlaceTexts(NamedTuple):
    """The texts that repeat in the assignments of one input partition."""

    source: bytes
    ce_id: bytes
    shared: tuple[Header, ...]

    @classmethod
    def of(cls, name: str, place: TopicPartition) -> Self:
        topic, partition = place
        source = f',"source":{{"topic":"{topic}","partition":{partition},"offset":'
        shared = CloudEvents("assignment", source_uri(name, topic, partition)).shared
        return cls(source.encode(), f"{topic}-{partition}-".encode(), shared)


class Encoder:
    """Writes the outputs of one input partition; those of routed records name the partition of their source."""

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self._name = settings.name
        self._plain = settings.output.envelope != "cloudevents"
        self._place = (topic, partition)
        self._texts = BoundedCache(partial(_PlaceTexts.of, settings.name))
        self._ce_times = BoundedCache(lambda text: ("ce_time", text.encode()))

    def assignments(
        self,
        held: Sequence[tuple[StreamTexts, int]],
        learned: Sequence[tuple[StreamTexts, Step]],
        batch: RecordBatch,
        order: IntArray | None = None,
    ) -> Messages:
        """Return the assignments of the records of a batch.

        The streams whose records are `held` back come with how many are, the `learned` ones with the answers. `order`
        says which of all these each record has; without it they are in the order of the batch.
        """
        steps = [step for _, step in learned]
        texts_of_held = [repeat(texts.warming, count) for texts, count in held]
        clusters = [*chain(*texts_of_held, *(texts.clusters(step) for texts, step in learned))]
        if held:
            depth = steps[0].path.shape[1] if steps else 1
            steps.insert(0, _held_back(sum(count for _, count in held), depth))
        score, novel, path = steps[0].score, steps[0].novel, steps[0].path
        if len(steps) > 1:
            score, novel, path = map(np.concatenate, zip(*((s.score, s.novel, s.path) for s in steps), strict=True))
        labels: list[bytes] = []
        if any(step.labels is not None for step in steps):
            labels = list(
                chain.from_iterable(
                    repeat(b"", len(step.score)) if step.labels is None else _label_texts(step.labels) for step in steps
                )
            )
        if order is not None:
            score, novel, path = score[order], novel[order], path[order]
            rows = order.tolist()
            clusters = [clusters[row] for row in rows]
            labels = labels and [labels[row] for row in rows]
        routed = batch.sources
        texts = [self._texts[place] for place in ((self._place,) if routed is None else routed.places)]
        joined = orjson.dumps(batch.offsets if routed is None else routed.offsets)[1:-1]
        columns = [
            b'{"id":',
            b"null" if batch.ids is None else Texts.of(batch.ids).pieces(),
            texts[0].source if routed is None else _column(text.source for text in texts),
            joined.replace(b",", b"\0") + b"\0",
            *_index_columns(batch.elements),
            _column(clusters),
            _numbers(score),
            b',"novel":',
            _numbers(novel),
            b',"path":[',
            _path_column(path),
            b"],",
        ]
        if labels:
            columns.append(_column(labels))
        if batch.included is not None:
            columns += [b'"include":', _column(map(str.encode, batch.included)), b","]
        columns += [b'"time":"', times.pieces_of(Times.of(batch.times).milliseconds), b'"}']
        return Messages(
            *paste(len(batch), columns),
            batch.keys,
            self._assignment_headers(batch, joined, texts),
            None if routed is None else [number for _, number in routed.places],
        )

    def _assignment_headers(
        self, batch: RecordBatch, offsets: bytes, texts: list[_PlaceTexts]
    ) -> list[list[Header]] | None:
        if self._plain and batch.sources is None and batch.traces is None:
            return None
        places = _place_texts(offsets, batch.elements)
        named = map(self._ce_times.__getitem__, batch.times)
        if self._plain:
            headers: list[list[Header]] = [[] for _ in batch.offsets]
        elif batch.sources is None:
            _, prefix, (version, kind, source, schema) = texts[0]
            headers = [
                [version, ("ce_id", prefix + place), kind, source, time, schema]
                for place, time in zip(places, named, strict=True)
            ]
        else:
            headers = [
                [version, ("ce_id", prefix + place), kind, source, time, schema]
                for (_, prefix, (version, kind, source, schema)), place, time in zip(texts, places, named, strict=True)
            ]
        if batch.sources is not None:
            for own, offset in zip(headers, batch.offsets, strict=True):
                own.append(routes_offset_header(self._name, offset))
        if batch.traces is not None:
            for own, trace in zip(headers, batch.traces, strict=True):
                if trace is not None:
                    own.append(("traceparent", trace))
        return headers

    def dead_letter(
        self,
        record: SourceRecord,
        fault: Fault,
        version: int,
        topic_ids: Mapping[str, str] = {},
        decided_by: SourceRecord | None = None,
    ) -> Message:
        """Return a record that cannot be used as a dead letter: unchanged, with the reason in its headers.

        What its topic would not take is cut: the value; also the original headers, and the key, where these alone are
        too long. The models of new streams begin with `version`; `decided_by` is the record that decided it, where that
        is a later one.
        """
        (topic, partition, offset, element), to = self.source(record), None
        if isinstance(record, RoutedRecord):
            to = partition
        dead_letter: DeadLetter = {
            "topic": topic,
            "partition": str(partition),
            "offset": str(offset),
            "stage": fault.stage,
            "class": fault.kind,
            "message": fault.message,
            "version": str(version),
        }
        if element is not None:
            dead_letter["index"] = str(element)
        if topic_id := topic_ids.get(topic):
            dead_letter["topic_id"] = topic_id
        if isinstance(record, RoutedRecord):
            dead_letter["routes_offset"] = str((decided_by or record).offset)
        if decided_by is not None:
            of, number, at, its = self.source(decided_by)
            dead_letter["decided_by"] = f"{of}-{number}-{offset_text(at, its)}"
        headers = [*(record.headers or ()), *dead_letter_headers(self._name, dead_letter)]
        if len(record.key or b"") + len(record.value or b"") + _size(headers) <= DEAD_LETTER_BYTES:
            return Message(record.key, record.value, headers, to)
        return self._cut(record, dead_letter)._replace(partition=to)

    def _cut(self, record: SourceRecord, dead_letter: DeadLetter) -> Message:
        """Return a dead letter whose record is cut to what the topic takes."""
        key, value, headers = record.key or b"", record.value or b"", list(record.headers or ())
        cut: list[str] = []
        dead_letter |= {"truncated": "value, headers, key", "length": str(len(value)), "sha256": "0" * 64}
        room = DEAD_LETTER_BYTES - _size(dead_letter_headers(self._name, dead_letter))
        if len(key) + _size(headers) > room:
            headers = []
            cut.append("headers")
        if len(key) > room:
            key = key[:room]
            cut.append("key")
        room -= len(key) + _size(headers)
        if len(value) > room:
            dead_letter["sha256"] = hashlib.sha256(value).hexdigest()
            value = value[:room]
            cut.insert(0, "value")
        else:
            del dead_letter["length"], dead_letter["sha256"]
        dead_letter["truncated"] = ", ".join(cut)
        text = dead_letter_headers(self._name, dead_letter)
        return Message(None if record.key is None else key, None if record.value is None else value, headers + text)

    def source(self, record: SourceRecord) -> tuple[str, int, int, int | None]:
        """Return topic, partition and offset at which a record was read first, and which of its message it is."""
        if isinstance(record, RoutedRecord):
            return record.topic, record.partition, record.source_offset, record.element
        return (*self._place, record.offset, record.element)


def _held_back(count: int, depth: int) -> Step:
    """Return what the assignments of records that are held back have in the place of answers."""
    none = np.full((count, depth), -1)
    return Step(none, np.full(count, np.nan), np.zeros(count, np.bool_), none)


def _label_texts(answers: LabelAnswers) -> list[bytes]:
    """Return for each record the JSON member with its probabilities; empty where no label was known."""
    names = [orjson.dumps(str(label)) + b":" for label in answers.labels]
    texts = []
    for row in np.ascontiguousarray(answers.probabilities):
        numbers = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        known = b",".join([name + number for name, number in zip(names, numbers, strict=False) if number != b"null"])
        texts.append(b'"labels":{%b},' % known if known else b"")
    return texts


def _index_columns(elements: Sequence[int | None] | None) -> list[bytes]:
    """Return which record of its message each is, as columns to `paste`."""
    if elements is None:
        return []
    if None in elements:
        return [_column(b"" if each is None else b',"index":%d' % each for each in elements)]
    return [b',"index":', orjson.dumps(elements)[1:-1].replace(b",", b"\0") + b"\0"]


def _place_texts(offsets: bytes, elements: Sequence[int | None] | None) -> list[bytes]:
    """Return the places of records in their partitions as text; `offsets` are joined by commas."""
    places = offsets.split(b",")
    if elements is None:
        return places
    return [
        place if element is None else b"%b.%d" % (place, element)
        for place, element in zip(places, elements, strict=True)
    ]


def _path_column(path: IntArray) -> bytes:
    """Return the nodes of each record as a column to `paste`."""
    if path.max(initial=-1) < 0:
        # None has learned any of them, as where nothing is learned.
        return b""
    # One call of orjson writes many numbers.
    nodes = orjson.dumps(np.ascontiguousarray(path), option=orjson.OPT_SERIALIZE_NUMPY)[2:-2]
    # A record with nothing in common with others and nothing to found a node with: no node learned it.
    return nodes.replace(b",-1", b"").replace(b"-1", b"").replace(b"],[", b"\0") + b"\0"


def _column(pieces: Iterable[bytes]) -> bytes:
    """Return pieces as a column to `paste`."""
    return b"\0".join((*pieces, b""))


def _numbers(column: NDArray[Any]) -> bytes:
    """Return numbers as a column to `paste`; NaN becomes null."""
    return orjson.dumps(column, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].replace(b",", b"\0") + b"\0"


def _size(headers: Sequence[Header]) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)
