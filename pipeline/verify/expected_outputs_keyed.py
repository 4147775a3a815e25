"""Which recorded outputs a verification compares where the levels of a hierarchy learn apart.

Both hops write to the same partitions of the same topics. An answer of a warm-up and an event of the first level are
the first hop's, and so are the messages on the routes; everything else is the second hop's. What that one says names
the record and the subtree; the messages bring both together with a place among the routes.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import orjson
from resonance.engine.base import IntArray
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Record, TopicPartition
from resonance.pipeline.repartition.keyed.operation_records import PLAIN, Reader, SubtreeOperation
from resonance.pipeline.verify.digests import Others, OutputRef, assignment_told, event_told, letter_told
from resonance.pipeline.verify.expected_outputs import ELSEWHERE, Compared, RecordRange, RoutedAssignments


class Unordered(Others):
    """Digests of outputs of which those of one record stand in no order that they tell."""

    @property
    def _disorder(self) -> int | None:
        return None


def compared_of_roots(settings: Settings, source: DeploymentContext, part: RecordRange) -> list[Compared]:
    """Return what is compared of the first hop: warm-ups, events of the first level, dead letters and messages."""
    at, begin, end, oldest = part
    letters, reader = letter_told(settings.name), Reader(source.routes)

    def warm_told(message: Message | Record) -> OutputRef | None:
        told = assignment_told(message)
        own = told is not None and (told.topic, told.partition) == at and _status(message) == "warming_up"
        return told if own or told is None else told._replace(topic=ELSEWHERE)

    def root_told(message: Message | Record) -> OutputRef | None:
        told = event_told(message)
        own = told is not None and (told.topic, told.partition) == at and _subtree(message) is None
        return told if own or told is None else told._replace(topic=ELSEWHERE)

    def ask_told(message: Message | Record) -> OutputRef | None:
        # Offset and time of the message are of no meaning here.
        ask = reader.read_one(Record("", 0, 0, 0, message.key, message.value, message.headers))
        if ask is None:
            return None
        if (ask.topic, ask.partition) != at:
            return OutputRef(ELSEWHERE, -1)
        stream, version, node = ask.part
        return OutputRef(ask.topic, ask.source_offset, version, (node, ask.number, stream), ask.partition)

    def place(kind: str) -> TopicPartition:
        return settings.topic(kind), at[1]

    routes = [(source.routes, number) for number in range(source.deployment.routes)]
    return [
        *(Compared("routes", way, Unordered(at, begin, end, ask_told, oldest), ask_told) for way in routes),
        Compared("assignments", place("assignments"), RoutedAssignments(at, begin, end, warm_told, oldest), warm_told),
        Compared("cluster_events", place("cluster_events"), Others(at, begin, end, root_told, oldest), root_told),
        Compared("dead_letters", place("dead_letters"), Others(at, begin, end, letters, oldest), letters),
    ]


def compared_of_subtrees(
    settings: Settings,
    source: DeploymentContext,
    part: RecordRange,
    numbers: Mapping[str, int],
    records: Iterable[Record],
) -> list[Compared]:
    """Return what is compared of the second hop.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    source : DeploymentContext
        The deployment.
    part : RecordRange
        Of the routes.
    numbers : mapping of str to int
        How many messages each subtree had before the first of `records`.
    records : iterable of Record
        The messages of the range, and those before it that the replay needs.
    """
    at, begin, end, oldest = part
    asked = AskedAt(at[0], numbers, records)
    found = []
    for number in range(source.deployment.partitions):
        place = (settings.topic("assignments"), number)
        answers = RoutedAssignments(at, begin, end, asked.answer_told, oldest)
        found.append(Compared("assignments", place, answers, asked.answer_told))
        place = (settings.topic("cluster_events"), number)
        events = Others(at, begin, end, asked.event_told, oldest)
        found.append(Compared("cluster_events", place, events, asked.event_told))
    return found


class AskedAt:
    """Where among the routes the messages stand that outputs follow from.

    An answer comes with the one message that asks for it, an event with any of those of a record to a subtree: it
    counts with the last of them.

    What was sent twice, as it can be under at least once, counts where it was carried out first.

    Parameters
    ----------
    topic : str
        The topic of the routes.
    numbers : mapping of str to int
        How many messages each subtree had before the first of `records`.
    records : iterable of Record
        The messages.
    """

    def __init__(self, topic: str, numbers: Mapping[str, int], records: Iterable[Record]) -> None:
        self._topic = topic
        # Of each subtree the number of the next message; -1 where it is gone.
        self._numbers = dict(numbers)
        self._plain: set[tuple[str, int, int]] = set()
        reader = Reader(topic)
        # Few records have several messages in one partition: 25 bytes for each, found by halving.
        columns: dict[TopicPartition, tuple[array[int], array[int], array[int], array[int]]] = {}
        for record in records:
            if (ask := reader.read_one(record)) is None or not self._is_first(ask):
                continue
            fresh = (array("q"), array("q"), array("q"), array("b"))
            sources, nodes, offsets, told = columns.setdefault((ask.topic, ask.partition), fresh)
            sources.append(ask.source_offset)
            nodes.append(ask.part.node)
            offsets.append(record.offset)
            told.append(ask.told)
        # Records ascend, but for those that were sent again because one before them had not come.
        orders = {place: np.argsort(np.asarray(each[0]), kind="stable") for place, each in columns.items()}
        self._columns = {
            place: _Messages(*[np.asarray(one)[orders[place]] for one in each]) for place, each in columns.items()
        }

    def _is_first(self, ask: SubtreeOperation) -> bool:
        """Whether a message is carried out, and for the first time."""
        if ask.number == PLAIN:
            place = (ask.topic, ask.partition, ask.source_offset)
            known = place in self._plain
            self._plain.add(place)
            return not known
        name = ask.part.name
        if ask.number != self._numbers.get(name, 0):
            return False
        self._numbers[name] = -1 if ask.removed else ask.number + 1
        return True

    def answer_told(self, message: Message | Record) -> OutputRef | None:
        """Return where the message stands with which a record was answered; elsewhere for an answer of a warm-up."""
        told = assignment_told(message)
        if told is None or _status(message) == "warming_up":
            return told and told._replace(topic=ELSEWHERE)
        path = orjson.loads(message.value or b"null").get("path") or [-1]
        return self._among(told, path[0], answer=True)

    def event_told(self, message: Message | Record) -> OutputRef | None:
        """Return where the message stands that caused an event; elsewhere for one of the first level."""
        told, node = event_told(message), _subtree(message)
        if told is None or node is None:
            return told and told._replace(topic=ELSEWHERE)
        return self._among(told, node, answer=False)

    def _among(self, told: OutputRef, node: int, *, answer: bool) -> OutputRef:
        columns = self._columns.get((told.topic, told.partition))
        if columns is not None:
            sources, nodes, offsets, answers = columns
            first, behind = np.searchsorted(sources, [told.offset, told.offset + 1])
            own = nodes[first:behind] == node
            if answer:
                own &= answers[first:behind] == 1
            if own.any():
                return told._replace(topic=self._topic, offset=int(offsets[first:behind][own][-1]))
        return told._replace(topic=ELSEWHERE)


class _Messages(NamedTuple):
    """Messages about the records of one partition: record, root node, place among the routes, whether it answers."""

    sources: IntArray
    nodes: IntArray
    offsets: IntArray
    told: IntArray


def _status(message: Message | Record) -> str | None:
    content = orjson.loads(message.value or b"null")
    return content.get("status") if isinstance(content, dict) else None


def _subtree(message: Message | Record) -> int | None:
    content = orjson.loads(message.value or b"null")
    node = content.get("subtree") if isinstance(content, dict) else None
    return node if isinstance(node, int) else None
