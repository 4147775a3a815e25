"""Chooses the recorded outputs that a verification compares for a partition, and maps each to its source record.

For re-keyed streams the verified log is that of the routes, while outputs name the feature record; the routes map one
to the other. Assignments and dead letters about one partition of the routes are spread over all partitions of their
topics, and each of these is compared separately.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Record, TopicPartition, routes_offset_header
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.verify.digests import Assignments, Others, Recorded, Unordered
from resonance.pipeline.verify.output_refs import (
    OutputRef,
    alert_ref,
    assignment_ref,
    dead_letter_history,
    dead_letter_ref,
    event_ref,
    is_of_command,
)

RefOf = Callable[[Message | Record], OutputRef | None]
"""Returns the source record of an output, None for records that are not outputs of the kind."""

ELSEWHERE: Final = ""
"""Topic that stands for source records outside the log that is compared."""


@dataclass(slots=True)
class Compared:
    """Recorded outputs of one kind in one partition of an output topic."""

    name: str
    """Kind of topic."""
    at: TopicPartition
    recorded: Recorded
    ref: RefOf
    """Returns the source record of an output, with its offset in the log that is compared."""
    place: int = 0
    """First offset of the output partition that was read."""
    end: int = 0
    """Offset of the output partition at which reading ended."""
    begin: int = 0
    """Source offset from which on the outputs are compared."""

    def offset(self, message: Message | Record) -> int:
        """Return the offset of the source record of an output, -1 where it has none."""
        ref = self.ref(message)
        return -1 if ref is None else ref.offset


class RecordRange(NamedTuple):
    """The range of a partition of an input or of the routes that is compared."""

    at: TopicPartition
    begin: int
    end: int
    oldest: int
    """Versions below this one were abandoned."""


def compared_of_input(settings: Settings, part: RecordRange) -> list[Compared]:
    """Return the outputs to compare for an input partition that is not re-keyed."""
    at, begin, end, oldest = part

    def place(kind: str) -> TopicPartition:
        return settings.topic(kind), at[1]

    answers: Recorded = Assignments(at, begin, end, oldest)
    if settings.has_many:
        # A message has several.
        answers = Others(at, begin, end, assignment_ref, oldest)
    return [
        Compared("assignments", place("assignments"), answers, assignment_ref),
        *compared_events(settings, part, event_ref),
        _dead_letters(settings, place("dead_letters"), part, dead_letter_ref(settings.name)),
        *compared_alerts(settings, part, alert_ref),
    ]


def compared_events(settings: Settings, part: RecordRange, ref: RefOf) -> list[Compared]:
    """Return the events to compare: those about clusters, and those about drift where there are any."""
    at, begin, end, oldest = part
    kinds = ("cluster_events", "drift_events") if settings.emits_drift else ("cluster_events",)
    return [Compared(kind, (settings.topic(kind), at[1]), Others(at, begin, end, ref, oldest), ref) for kind in kinds]


def compared_alerts(settings: Settings, part: RecordRange, ref: RefOf) -> list[Compared]:
    """Return the alerts to compare, where there are any; those of one record can be of several streams."""
    at, begin, end, oldest = part
    if not settings.raises_alerts:
        return []

    def raised(message: Message | Record) -> OutputRef | None:
        # Commands clear alerts whose state they drop; no record of the log shows that.
        own = ref(message)
        return own._replace(topic=ELSEWHERE) if own is not None and is_of_command(message) else own

    return [Compared("alerts", (settings.topic("alerts"), at[1]), Unordered(at, begin, end, raised, oldest), raised)]


def _dead_letters(settings: Settings, place: TopicPartition, part: RecordRange, ref: RefOf) -> Compared:
    at, begin, end, oldest = part
    return Compared("dead_letters", place, Others(at, begin, end, ref, oldest, dead_letter_history(settings.name)), ref)


def compared_of_router(source: DeploymentContext, part: RecordRange) -> list[Compared]:
    """Return the outputs to compare for the first stage: routes, dead letters about unrouted records, and alerts."""
    settings, (at, begin, end, _) = source.settings, part
    routed: set[int] = set()
    dead_letters = dead_letter_ref(settings.name)

    def route_ref(message: Message | Record) -> OutputRef | None:
        # Offset and time of the route do not matter here.
        route = read_route(Record("", 0, 0, 0, message.key, message.value, message.headers))
        if route is None:
            return None
        if (route.topic, route.partition) != at:
            return OutputRef(ELSEWHERE, -1)
        identity = () if route.element is None else (route.element,)
        ref = OutputRef(route.topic, route.source_offset, 0, identity, route.partition, element=route.element)
        routed.add(ref.place)
        return ref

    def dead_letter_of_router(message: Message | Record) -> OutputRef | None:
        # Routes are read first: a dead letter about a routed record comes from the second stage.
        ref = dead_letters(message)
        if ref is not None and ((ref.topic, ref.partition) != at or ref.place in routed):
            return ref._replace(topic=ELSEWHERE)
        return ref

    def alert_of_router(message: Message | Record) -> OutputRef | None:
        ref = _alert_ref(settings, message, routed=False)
        return ref if ref is None or (ref.topic, ref.partition) == at else ref._replace(topic=ELSEWHERE)

    places = [(source.routes, number) for number in range(source.deployment.routes)]
    return [
        *(Compared("routes", place, Others(at, begin, end, route_ref), route_ref) for place in places),
        _dead_letters(settings, (settings.topic("dead_letters"), at[1]), part, dead_letter_of_router),
        *compared_alerts(settings, part, alert_of_router),
    ]


def compared_of_routes(source: DeploymentContext, part: RecordRange, records: Iterable[Record]) -> list[Compared]:
    """Return the outputs to compare for the second stage.

    `records` are the routes of the range and those before it that the replay needs.
    """
    settings, (at, begin, end, oldest) = source.settings, part
    learned = LearnedAt(at[0], records)
    found = []
    for number in range(source.deployment.partitions):
        place = (settings.topic("assignments"), number)
        answers = RoutedAssignments(at, begin, end, learned.of(assignment_ref), oldest)
        found.append(Compared("assignments", place, answers, answers.ref))
    for number in range(source.deployment.dead_letters):
        place = (settings.topic("dead_letters"), number)
        found.append(_dead_letters(settings, place, part, learned.of(dead_letter_ref(settings.name))))
    events = learned.of(event_ref)
    own_alerts = learned.of(lambda message: _alert_ref(settings, message, routed=True))
    return [*found, *compared_events(settings, part, events), *compared_alerts(settings, part, own_alerts)]


def _alert_ref(settings: Settings, message: Message | Record, *, routed: bool) -> OutputRef | None:
    """Return the source record of an alert of the second stage (`routed`) or the first; else topic `ELSEWHERE`."""
    ref = alert_ref(message)
    header = routes_offset_header(settings.name, 0)[0]
    own = any(name == header for name, _ in message.headers) == routed
    return ref if own or ref is None else ref._replace(topic=ELSEWHERE)


class LearnedAt:
    """Maps the records that outputs name to their offsets among the routes."""

    def __init__(self, topic: str, records: Iterable[Record]) -> None:
        self._topic = topic
        # Both columns ascend: a record takes 16 bytes and is found by binary search.
        self._columns: dict[TopicPartition, tuple[array[int], array[int]]] = {}
        for record in records:
            if (route := read_route(record)) is None:
                continue
            sources, offsets = self._columns.setdefault((route.topic, route.partition), (array("q"), array("q")))
            source = OutputRef(route.topic, route.source_offset, element=route.element)
            sources.append(source.place)
            offsets.append(route.offset)

    def of(self, ref: RefOf) -> RefOf:
        """Return a `RefOf` that replaces the input offsets of `ref` by offsets among the routes."""

        def among_routes(message: Message | Record) -> OutputRef | None:
            source = ref(message)
            if source is None:
                return None
            columns = self._columns.get((source.topic, source.partition))
            if columns is not None:
                sources, offsets = columns
                place = bisect_left(sources, source.place)
                if place < len(sources) and sources[place] == source.place:
                    return source._replace(topic=self._topic, offset=offsets[place])
            return source._replace(topic=ELSEWHERE)

        return among_routes


class RoutedAssignments(Assignments):
    """Digests of the assignments in one partition about a range of the routes.

    `ref` finds the record of an assignment among the routes.
    """

    def __init__(self, at: TopicPartition, first: int, end: int, ref: RefOf, oldest: int = 0) -> None:
        super().__init__(at, first, end, oldest)
        self.ref = ref

    def _place(self, message: Message | Record) -> tuple[int, int] | None:
        ref = self.ref(message)
        if ref is None:
            return None
        return (-1, 0) if ref.topic == ELSEWHERE else (ref.offset, ref.version)
