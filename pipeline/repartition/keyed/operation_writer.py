"""Messages on the routes, from the operations of a root for the models below its nodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from resonance.engine import Operations
from resonance.engine.base import BoolArray, IntArray
from resonance.pipeline.bounded_cache import KEPT, BoundedCache
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Message, Outputs
from resonance.pipeline.repartition.keyed.operation_records import (
    COPIED,
    EMITTED,
    FIRST,
    FORMAT,
    HEAD,
    KEYED,
    LABELLED,
    MARK,
    NAMED,
    NOVEL,
    NUMBER_BYTES,
    PLAIN,
    REMOVED,
    check_room,
    most_vectors,
    part_name,
)
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel


class _Way(NamedTuple):
    """Address of a subtree: the key of its messages, and their partition."""

    key: bytes
    partition: int


_NO_ANSWER: Final = (0, -1, math.nan, -1)


_RootAnswers = tuple[list[int], list[float], list[bool]]
"""Cluster, score and novelty of some records, as lists, because single elements of these are read quickly."""


class _SubtreeGroup(NamedTuple):
    """Operations of one record for one subtree."""

    record: int
    """As in `Operations.record`."""
    node: int
    """As in `Operations.node`."""
    start: int
    """First operation; equal to `stop` where the record is only answered."""
    stop: int
    answered: int
    """Operation that is the record itself, -1 for none."""
    emitted: bool
    """The record is answered here."""
    removed: bool
    """The last operation removes the node."""
    labelled: bool
    """At least one operation has a label."""


@dataclass(slots=True, eq=False)
class _SubtreeGroups:
    """Operations in the order of their messages: those of one record for one node are together."""

    groups: list[_SubtreeGroup]
    """Of the groups of a record, that of its own node comes first."""
    vectors: bytes
    """Of all operations; a removal has zeros."""
    labels: bytes
    """Of all operations."""
    dimension: int

    @classmethod
    def of(cls, operations: Operations, record: IntArray, own: IntArray, wanted: BoolArray) -> Self:
        """Group ordered operations, whose records in `record` ascend.

        `own` is the node that each record was given to, -1 where none precedes the others. `wanted` marks the records
        that are answered at their own node, with or without operations for it.
        """
        foreign = operations.node != own[record]
        if foreign.any():
            order = np.lexsort((operations.node, foreign, record))
            operations, record, foreign = operations.take(order), record[order], foreign[order]
        node = operations.node
        begins = np.ones(len(node), dtype=np.bool_)
        begins[1:] = (record[1:] != record[:-1]) | (node[1:] != node[:-1])
        starts = np.flatnonzero(begins)
        stops = np.append(starts[1:], len(node))[: len(starts)]
        answered = np.full(len(starts), -1, dtype=np.int64)
        itself = np.flatnonzero(operations.answered)
        answered[np.cumsum(begins)[itself] - 1] = itself
        labelled = np.zeros(len(starts), dtype=np.bool_)
        labelled[np.cumsum(begins)[operations.label >= 0] - 1] = True
        removed = operations.removed[stops - 1]
        emitted = (wanted[record] & ~foreign)[starts]
        columns: list[Any] = [record[starts], node[starts], starts, stops, answered, emitted, removed, labelled]
        is_requested = np.zeros(len(own), dtype=np.bool_)
        is_requested[record[~foreign]] = True
        if len(alone := np.flatnonzero(wanted & ~is_requested)):
            # The nodes of these records have no models below them yet.
            none, no = np.zeros(len(alone), dtype=np.int64), np.zeros(len(alone), dtype=np.bool_)
            added = [alone, own[alone], none, none, none - 1, ~no, no, no]
            columns = [np.concatenate(pair) for pair in zip(added, columns, strict=True)]
            # The sort is stable: the answer of a record comes before its operations for other nodes.
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        vectors = np.ascontiguousarray(operations.vector, dtype="<f8")
        labels = operations.label.astype("<i8").tobytes()
        groups = list(map(_SubtreeGroup._make, zip(*[column.tolist() for column in columns], strict=True)))
        return cls(groups, vectors.tobytes(), labels, vectors.shape[1])


class OperationWriter:
    """Writes the messages of the roots of one input partition to `routes` partitions."""

    def __init__(self, settings: Settings, topic: str, partition: int, routes: int) -> None:
        self._settings = settings
        self._topic, self._partition = topic.encode(), partition
        self._where = f"{topic}[{partition}]"
        self._ways = BoundedCache(lambda part: _Way(key := part_name(*part).encode(), partition_of(key, routes)))
        # Per model, its version and what its subtrees need to describe clusters in the units of the input.
        self._preparations: dict[str, tuple[int, bytes]] = {}

    def check_room(self, model: StreamModel) -> None:
        """Refuse a stream whose messages could be too long, as `operation_records.check_room` does."""
        check_room(self._settings, model.preparation.features, self._where)

    def send(
        self, model: StreamModel, own: RecordBatch, result: LearnResult, wanted: Sequence[bool], outputs: Outputs | None
    ) -> None:
        """Write the messages that follow from rows; see `Downstream.send`."""
        for children in result.child_operations:
            operations, places = children.operations, children.places
            if children.answered and result.step is not None:
                step = result.step
                found = step.cluster[:, 0].tolist(), step.score.tolist(), step.novel.tolist()
                # Where messages are only counted, records without operations need no group.
                chosen = np.array(wanted, dtype=np.bool_) & (outputs is not None)
                groups = _SubtreeGroups.of(operations, operations.record, step.path[:, 0], chosen)
                self._messages(model, own, groups, found, places, outputs)
            elif len(operations):
                # One record causes all of it: the one that released those held back.
                record = np.zeros(len(operations), dtype=np.int64)
                groups = _SubtreeGroups.of(operations, record, np.array([-1]), np.zeros(1, dtype=np.bool_))
                self._messages(model, own, groups, ([], [], []), places[-1:], outputs)

    def _messages(
        self,
        model: StreamModel,
        own: RecordBatch,
        groups: _SubtreeGroups,
        answers: _RootAnswers,
        places: Sequence[int],
        outputs: Outputs | None,
    ) -> None:
        """Write the messages of groups; `places` maps each record to its row."""
        messages: list[Message] = []
        offsets: list[int] = []
        sent, d, most = model.sent, groups.dimension, most_vectors(groups.dimension)
        vectors, labels = groups.vectors, groups.labels
        clusters, scores, novel = answers
        for record, node, start, stop, itself, answers_it, removed, labelled in groups.groups:
            place = places[record]
            written = len(messages)
            number = PLAIN if stop == start else sent.get(node, 0)
            if number == 0:
                # The first message of a new subtree has the preparation and no vectors.
                if outputs is not None:
                    known = self._preparation(model)
                    messages.append(self._message(model, own, place, node, 0, _NO_ANSWER, 0, 0, b"", known))
                number = 1
            # A removal has no vector.
            last = stop - 1 if removed else stop
            for first in range(start, stop, most) if stop > start else (start,):
                end = min(first + most, stop)
                if outputs is not None:
                    answer = _NO_ANSWER
                    # The answer goes with the vector that it belongs to.
                    if answers_it and (first <= itself < end or (itself < 0 and end == stop)):
                        flags = EMITTED | NOVEL if novel[record] else EMITTED
                        answer = flags, clusters[record], scores[record], itself - first if itself >= 0 else -1
                    upto = min(end, last)
                    content = vectors[NUMBER_BYTES * d * first : NUMBER_BYTES * d * upto]
                    flags = REMOVED if removed and end == stop else 0
                    if labelled:
                        flags |= LABELLED
                        content = labels[NUMBER_BYTES * first : NUMBER_BYTES * upto] + content
                    count = upto - first
                    messages.append(self._message(model, own, place, node, number, answer, flags, count, content))
                number += 1
            if removed:
                sent.pop(node, None)
            elif stop > start:
                sent[node] = number
            offsets += [own.offsets[place]] * (len(messages) - written)
        if outputs is not None:
            outputs.put("routes", offsets, messages)

    def _message(
        self,
        model: StreamModel,
        own: RecordBatch,
        place: int,
        node: int,
        number: int,
        answer: tuple[int, int, float, int],
        flags: int,
        count: int,
        content: bytes,
        preparation: bytes = b"",
    ) -> Message:
        """Write one message; `content` is labels, if any, and vectors."""
        emitted, cluster, score, answered = answer
        flags |= emitted
        key, name, included = own.keys[place], b"", b""
        if key is not None:
            flags |= KEYED
        else:
            key = b""
        if own.ids is not None:
            flags, name = flags | NAMED, own.ids[place]
        if emitted and own.included is not None:
            flags, included = flags | COPIED, own.included[place].encode()
        if preparation:
            flags |= FIRST
        head = HEAD.pack(
            MARK,
            FORMAT,
            flags,
            self._partition,
            own.offsets[place],
            number,
            cluster,
            score,
            answered,
            own.times[place].encode(),
            len(self._topic),
            len(key),
            len(name),
            len(included),
            len(preparation),
            count,
            model.engine.dimension,
        )
        value = b"".join((head, self._topic, key, name, included, preparation, content))
        headers: list[tuple[str, bytes | None]] = []
        if own.traces is not None and (trace := own.traces[place]) is not None:
            headers.append(("traceparent", trace))
        way = self._ways[model.stream, model.version, node]
        return Message(way.key, value, headers, way.partition)

    def _preparation(self, model: StreamModel) -> bytes:
        """Return the preparation that a new subtree of a stream needs."""
        known = self._preparations.get(model.name)
        if known is None or known[0] != model.version:
            if len(self._preparations) >= KEPT:
                self._preparations.clear()
            preparation: Any = model.preparation
            known = self._preparations[model.name] = (model.version, preparation.frozen_state())
        return known[1]
