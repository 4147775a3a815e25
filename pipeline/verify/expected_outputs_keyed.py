"""Chooses the recorded outputs that a verification compares where the levels of a hierarchy learn separately.

Both stages write to the same partitions of the same topics. Warm-up assignments, events of the first level, dead
letters and the messages on the routes come from the first stage, all other outputs from the second. Outputs of the
second stage name the record and the subtree; the messages map both to an offset among the routes.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.base import IntArray
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.json_paths import json_or_none
from resonance.pipeline.records import Message, Record, TopicPartition, routes_offset_header
from resonance.pipeline.repartition.keyed.operation_records import PLAIN, Reader, SubtreeOperation
from resonance.pipeline.verify.digests import Assignments, Others, RecordRange, Unordered
from resonance.pipeline.verify.expected_outputs import ELSEWHERE, Compared, compared_alerts, compared_events, only
from resonance.pipeline.verify.output_refs import OutputRef, alert_ref, assignment_ref, dead_letter_ref, event_ref


def compared_of_roots(source: DeploymentContext, part: RecordRange) -> list[Compared]:
    """Return the outputs to compare for the first stage: warm-ups, events of roots, dead letters and messages."""
    at, reader = part.at, Reader(source.routes)

    def operation_ref(message: Message | Record) -> OutputRef | None:
        # Offset and time of the message do not matter here.
        operation = reader.read_one(Record("", 0, 0, 0, message.key, message.value, message.headers))
        if operation is None:
            return None
        if (operation.topic, operation.partition) != at:
            return OutputRef(ELSEWHERE, -1)
        stream, version, node = operation.part
        return OutputRef(
            operation.topic, operation.source_offset, version, (node, operation.number, stream), operation.partition
        )

    def place(kind: str) -> TopicPartition:
        return source.settings.topic(kind), at[1]

    warm = only(assignment_ref, lambda ref, message: ref.log == at and _member(message, "status") == "warming_up")
    of_roots = only(event_ref, lambda ref, message: ref.log == at and _subtree(message) is None)
    routes = [(source.routes, number) for number in range(source.deployment.routes)]
    return [
        *(Compared("routes", way, Unordered(part, operation_ref)) for way in routes),
        Compared("assignments", place("assignments"), Assignments(part, warm)),
        *compared_events(source.settings, part, of_roots),
        Compared("dead_letters", place("dead_letters"), Others(part, dead_letter_ref(source.settings.name))),
        *compared_alerts(source.settings, part, alert_ref),
    ]


def compared_of_subtrees(
    source: DeploymentContext,
    part: RecordRange,
    numbers: Mapping[str, int],
    records: Iterable[Record],
) -> list[Compared]:
    """Return the outputs to compare for the second stage.

    `records` are the messages of the range and those before it that the replay needs; `numbers` has the number of
    messages of each subtree before the first of them.
    """
    settings, routed = source.settings, RoutedAt(part.at[0], numbers, records)
    # A repeated message emits its assignments again, with its own offset.
    aside = (routes_offset_header(settings.name, 0)[0],)
    found = []
    for number in range(source.deployment.partitions):
        answers, events = Assignments(part, routed.answer_ref, aside), Others(part, routed.event_ref)
        found.append(Compared("assignments", (settings.topic("assignments"), number), answers))
        found.append(Compared("cluster_events", (settings.topic("cluster_events"), number), events))
    return found


class RoutedAt:
    """Maps outputs to the offsets of the messages on the routes that caused them.

    An assignment belongs to the one message that requests it. An event can come from any message of a record to a
    subtree, and belongs to the last of them. A message sent twice, as under at-least-once delivery, counts where it was
    first carried out. `numbers` has the number of messages of each subtree before the first of `records`.
    """

    def __init__(self, topic: str, numbers: Mapping[str, int], records: Iterable[Record]) -> None:
        self._topic = topic
        # Number of the next message of each subtree; -1 after its removal.
        self._numbers = dict(numbers)
        self._plain: set[tuple[str, int, int]] = set()
        reader = Reader(topic)
        # 25 bytes for each message, found by binary search; few records have several messages in one partition.
        columns: dict[TopicPartition, tuple[array[int], array[int], array[int], array[int]]] = {}
        for record in records:
            if (operation := reader.read_one(record)) is None or not self._is_first(operation):
                continue
            fresh = (array("q"), array("q"), array("q"), array("b"))
            sources, nodes, offsets, ref = columns.setdefault((operation.topic, operation.partition), fresh)
            sources.append(operation.source_offset)
            nodes.append(operation.part.node)
            offsets.append(record.offset)
            ref.append(operation.emitted)
        # Source offsets ascend, except for messages sent again because one before them was missing.
        orders = {place: np.argsort(np.asarray(each[0]), kind="stable") for place, each in columns.items()}
        self._columns = {
            place: _Messages(*[np.asarray(one)[orders[place]] for one in each]) for place, each in columns.items()
        }

    def _is_first(self, operation: SubtreeOperation) -> bool:
        """Return whether a message is carried out, for the first time."""
        if operation.number == PLAIN:
            place = (operation.topic, operation.partition, operation.source_offset)
            known = place in self._plain
            self._plain.add(place)
            return not known
        name = operation.part.name
        if operation.number != self._numbers.get(name, 0):
            return False
        self._numbers[name] = -1 if operation.removed else operation.number + 1
        return True

    def answer_ref(self, message: Message | Record) -> OutputRef | None:
        """Return the message that requested an assignment, with topic `ELSEWHERE` for a warm-up."""
        ref = assignment_ref(message)
        if ref is None or _member(message, "status") == "warming_up":
            return ref and ref._replace(topic=ELSEWHERE)
        path = _member(message, "path") or [-1]
        return self._among(ref, path[0], answer=True)

    def event_ref(self, message: Message | Record) -> OutputRef | None:
        """Return the message to which an event belongs, with topic `ELSEWHERE` for an event of the first level."""
        ref, node = event_ref(message), _subtree(message)
        if ref is None or node is None:
            return ref and ref._replace(topic=ELSEWHERE)
        return self._among(ref, node, answer=False)

    def _among(self, ref: OutputRef, node: int, *, answer: bool) -> OutputRef:
        columns = self._columns.get(ref.log)
        if columns is not None:
            sources, nodes, offsets, answers = columns
            first, behind = np.searchsorted(sources, [ref.offset, ref.offset + 1])
            own = nodes[first:behind] == node
            if answer:
                own &= answers[first:behind] == 1
            if own.any():
                return ref._replace(topic=self._topic, offset=int(offsets[first:behind][own][-1]))
        return ref._replace(topic=ELSEWHERE)


class _Messages(NamedTuple):
    """Messages about the records of one partition, as columns in the order of the records."""

    sources: IntArray
    """Source offset of the record."""
    nodes: IntArray
    """Root node of the subtree."""
    offsets: IntArray
    """Offset among the routes."""
    ref: IntArray
    """1 where the message requests the assignment of the record."""


def _member(message: Message | Record, name: str) -> Any:
    content = json_or_none(message.value)
    return content.get(name) if isinstance(content, dict) else None


def _subtree(message: Message | Record) -> int | None:
    node = _member(message, "subtree")
    return node if isinstance(node, int) else None
