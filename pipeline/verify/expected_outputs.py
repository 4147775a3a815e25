"""Chooses the recorded outputs that a verification compares for a partition, and maps each to its source record.

For re-keyed streams the verified log is that of the routes, while outputs name the feature record; the routes map one
to the other. Assignments and dead letters about one partition of the routes are spread over all partitions of their
topics, and each of these is compared separately.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Record, TopicPartition, routes_offset_header
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.verify.digests import Assignments, Others, Recorded, RecordRange, RefOf, Unordered
from resonance.pipeline.verify.output_refs import (
    OutputRef,
    alert_ref,
    assignment_ref,
    dead_letter_history,
    dead_letter_ref,
    event_ref,
    is_of_command,
)

ELSEWHERE: Final = ""
"""Topic that stands for source records outside the log that is compared."""


@dataclass(slots=True)
class Compared:
    """Recorded outputs of one kind in one partition of an output topic."""

    name: str
    """Kind of topic."""
    at: TopicPartition
    recorded: Recorded
    place: int = 0
    """First offset of the output partition that was read."""
    end: int = 0
    """Offset of the output partition at which reading ended."""
    begin: int = 0
    """Source offset from which on the outputs are compared."""

    def offset(self, message: Message | Record) -> int:
        """Return the offset of the source record of an output, -1 where it has none."""
        ref = self.recorded.ref(message)
        return -1 if ref is None else ref.offset


def only(ref: RefOf, is_own: Callable[[OutputRef, Message | Record], bool]) -> RefOf:
    """Return a `RefOf` of those outputs that are compared: the others have their source record `ELSEWHERE`."""

    def own(message: Message | Record) -> OutputRef | None:
        found = ref(message)
        return found if found is None or is_own(found, message) else found._replace(topic=ELSEWHERE)

    return own


def compared_of_input(settings: Settings, part: RecordRange) -> list[Compared]:
    """Return the outputs to compare for an input partition that is not re-keyed."""
    # A message can have several.
    answers = Others(part, assignment_ref) if settings.has_many else Assignments(part)
    return [
        Compared("assignments", (settings.topic("assignments"), part.at[1]), answers),
        *compared_events(settings, part, event_ref),
        _dead_letters(settings, part.at[1], part, dead_letter_ref(settings.name)),
        *compared_alerts(settings, part, alert_ref),
    ]


def compared_events(settings: Settings, part: RecordRange, ref: RefOf) -> list[Compared]:
    """Return the events to compare: those about clusters, and those about drift where there are any."""
    kinds = ("cluster_events", "drift_events") if settings.emits_drift else ("cluster_events",)
    return [Compared(kind, (settings.topic(kind), part.at[1]), Others(part, ref)) for kind in kinds]


def compared_alerts(settings: Settings, part: RecordRange, ref: RefOf) -> list[Compared]:
    """Return the alerts to compare, where there are any; those of one record can be of several streams."""
    if not settings.raises_alerts:
        return []
    # Commands clear alerts whose state they drop; no record of the log shows that.
    raised = only(ref, lambda _, message: not is_of_command(message))
    return [Compared("alerts", (settings.topic("alerts"), part.at[1]), Unordered(part, raised))]


def _dead_letters(settings: Settings, number: int, part: RecordRange, ref: RefOf) -> Compared:
    others = Others(part, ref, dead_letter_history(settings.name))
    return Compared("dead_letters", (settings.topic("dead_letters"), number), others)


def compared_of_router(source: DeploymentContext, part: RecordRange) -> list[Compared]:
    """Return the outputs to compare for the first stage: routes, dead letters about unrouted records, and alerts."""
    settings, at, routed = source.settings, part.at, set[int]()

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

    # Routes are read first: a dead letter about a routed record comes from the second stage.
    unrouted = only(dead_letter_ref(settings.name), lambda ref, _: ref.log == at and ref.place not in routed)
    alerts = only(_alert_ref(settings, routed=False), lambda ref, _: ref.log == at)
    places = [(source.routes, number) for number in range(source.deployment.routes)]
    return [
        *(Compared("routes", place, Others(part, route_ref)) for place in places),
        _dead_letters(settings, at[1], part, unrouted),
        *compared_alerts(settings, part, alerts),
    ]


def compared_of_routes(source: DeploymentContext, part: RecordRange, records: Iterable[Record]) -> list[Compared]:
    """Return the outputs to compare for the second stage.

    `records` are the routes of the range and those before it that the replay needs.
    """
    settings, learned = source.settings, among_routes(part.at[0], records)
    answers, dead_letters = learned(assignment_ref), learned(dead_letter_ref(settings.name))
    places = [(settings.topic("assignments"), number) for number in range(source.deployment.partitions)]
    return [
        *(Compared("assignments", place, Assignments(part, answers)) for place in places),
        *(_dead_letters(settings, number, part, dead_letters) for number in range(source.deployment.dead_letters)),
        *compared_events(settings, part, learned(event_ref)),
        *compared_alerts(settings, part, learned(_alert_ref(settings, routed=True))),
    ]


def _alert_ref(settings: Settings, *, routed: bool) -> RefOf:
    """Return a `RefOf` of the alerts of the second stage (`routed`) or the first."""
    header = routes_offset_header(settings.name, 0)[0]
    return only(alert_ref, lambda _, message: any(name == header for name, _ in message.headers) == routed)


def among_routes(topic: str, records: Iterable[Record]) -> Callable[[RefOf], RefOf]:
    """Return what replaces the input offsets of a `RefOf` by those of the routes, which the records are."""
    # Both columns ascend: a record takes 16 bytes and is found by binary search.
    columns: dict[TopicPartition, tuple[array[int], array[int]]] = {}
    for record in records:
        if (route := read_route(record)) is None:
            continue
        sources, offsets = columns.setdefault((route.topic, route.partition), (array("q"), array("q")))
        sources.append(OutputRef(route.topic, route.source_offset, element=route.element).place)
        offsets.append(route.offset)

    def learned(ref: RefOf, message: Message | Record) -> OutputRef | None:
        source = ref(message)
        if source is None:
            return None
        if (known := columns.get(source.log)) is not None:
            sources, offsets = known
            place = bisect_left(sources, source.place)
            if place < len(sources) and sources[place] == source.place:
                return source._replace(topic=topic, offset=offsets[place])
        return source._replace(topic=ELSEWHERE)

    return lambda ref: partial(learned, ref)
