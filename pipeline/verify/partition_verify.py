"""One partition of a verification: compares a replay with the recorded outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Final

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.log_search import first_offset
from resonance.pipeline.records import Message, Outputs, Record, TopicPartition
from resonance.pipeline.repartition.keyed.root_task import RootTask
from resonance.pipeline.repartition.keyed.subtree_task import SubtreeTask
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.initial_models import InitialModels
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import OpenedJob, open_job
from resonance.pipeline.verify.differences import OutputDifference, compare
from resonance.pipeline.verify.digests import OutputRef, Recorded, assignment_ref
from resonance.pipeline.verify.expected_outputs import (
    Compared,
    RecordRange,
    compared_of_input,
    compared_of_router,
    compared_of_routes,
)
from resonance.pipeline.verify.expected_outputs_keyed import compared_of_roots, compared_of_subtrees

SETTLE_SECONDS: Final = 10.0
"""Longest wait for transactions that are open when the recorded outputs are read."""


@dataclass(slots=True)
class Verified:
    """Result of one partition, with counts of the recorded outputs about the range; each output counts once."""

    topic: str
    partition: int
    begin: int = 0
    end: int = 0
    """Offset after the last one compared; at most the committed offset."""
    start: str = ""
    """Where the models come from."""
    notes: list[str] = field(default_factory=list)
    """What was left aside, and where new versions began."""
    silent: int = 0
    """Records learned before the range."""
    records: int = 0
    """Records of the range."""
    assignments: int = 0
    events: int = 0
    drift_events: int = 0
    dead_letters: int = 0
    routes: int = 0
    """Routes that the first stage emitted."""
    repeats: int = 0
    """Outputs that were recorded again with the same bytes."""
    older: int = 0
    """Recorded outputs of abandoned versions, which are not compared."""
    compared: bool = False
    """Whether there was anything to compare: records in the range, with outputs that are not deleted."""
    difference: dict[str, Any] | None = None
    """An `OutputDifference` as a dict; None where everything is identical."""


@dataclass(slots=True)
class _Kind:
    """The recorded outputs of a kind in one partition of its topic."""

    name: str
    """Kind of topic."""
    at: TopicPartition
    recorded: Recorded
    ref: Callable[[Message | Record], OutputRef | None]
    """Returns the source record of an output."""
    place: int
    """First offset of the output partition that was read."""
    end: int
    """Offset of the output partition at which reading ended."""
    begin: int
    """Input offset from which on the outputs are compared."""


def work(job: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Verify one partition and return a `Verified` as a dict.

    The job has ``settings``, ``deployment``, ``at`` (topic and partition), ``range``, ``fresh`` and ``whole``: whether
    the range starts where the log does.
    """
    with open_job(job) as opened:
        reader, at, begin = opened.reader, opened.at, opened.begin
        committed = reader.committed([at])[at]
        found = Verified(*at, begin, begin)
        if committed == NO_OFFSET:
            found.notes.append(f"group {opened.source.group} has committed nothing: there is nothing to compare")
            return asdict(found)
        end = min(opened.end, committed)
        if begin >= end:
            return asdict(found)
        # `end` itself is included: models restarted there have learned nothing yet and leave nothing to compare.
        start = opened.find_start(begin, before=end + 1)
        found.start, found.notes = start.text, start.notes
        found.begin, found.end = min(max(begin, start.offset), end), end
        if found.begin == end:
            found.notes.append(f"the models began at offset {start.offset:,}, behind the range: nothing is compared")
            return asdict(found)
        versions = [start.task.first_version, *(start.task.model(stream).version for stream in start.task.streams)]
        compared = _compared(opened, found, start, min(versions))
        kinds = _read(reader, opened.settings, found, compared, whole=job["whole"])
        # Most streams have no drift events, so their absence shows nothing.
        found.compared = any(kind.begin < end for kind in kinds if kind.name != "drift_events")
        for kind in kinds:
            attribute = kind.name.removeprefix("cluster_")
            setattr(found, attribute, getattr(found, attribute) + kind.recorded.count)
        found.repeats = sum(kind.recorded.repeats for kind in kinds)
        found.older = sum(kind.recorded.older for kind in kinds)
        difference = _compare(reader, start, found.begin, found, kinds, report)
        while difference is not None and not opened.fresh:
            later = _begun_anew(opened.find_start, start, difference.offset)
            if later is None:
                break
            found.notes.append(f"a new version of a model began at offset {later.offset:,}: from there on {later.text}")
            start = later
            difference = _compare(reader, start, difference.offset, found, kinds, report)
    if difference is not None:
        found.difference = asdict(difference)
    return asdict(found)


def _compared(opened: OpenedJob, found: Verified, start: InitialModels, oldest: int) -> list[Compared]:
    """Return the outputs to compare, without those of versions below `oldest`."""
    settings, source = opened.settings, opened.source
    part = RecordRange((found.topic, found.partition), found.begin, found.end, oldest)
    if not settings.is_routed:
        return compared_of_input(settings, part)
    if isinstance(start.task, RootTask):
        return compared_of_roots(settings, source, part)
    if isinstance(start.task, SubtreeTask):
        # Outputs of earlier messages count as `ELSEWHERE`, like those of other partitions of the routes.
        messages = sources.of_topic(opened.reader, part.at, start.offset, found.end)
        return compared_of_subtrees(settings, source, part, start.task.numbers, chain.from_iterable(messages))
    if not isinstance(start.task, RoutedTask):
        return compared_of_router(settings, source, part)
    batches = sources.of_topic(opened.reader, part.at, start.offset, found.end)
    return compared_of_routes(settings, source, part, start.task.kept(), chain.from_iterable(batches))


def _read(
    reader: LogReader, settings: Settings, found: Verified, compared: Sequence[Compared], *, whole: bool
) -> list[_Kind]:
    """Read the recorded outputs about a range."""
    for one in compared:
        if not reader.has(one.at):
            raise BrokerError(
                f"topic {one.at[0]} does not exist on {settings.broker.bootstrap}: nothing was recorded there; look at "
                "name and topics.*, or start a worker"
            )
    settled = reader.settled_bounds([one.at for one in compared], SETTLE_SECONDS)
    kinds = []
    for name, place, recorded, ref in compared:
        first, last = settled[place]
        kind = _Kind(name, place, recorded, ref, first, last, found.begin)
        if not whole and not settings.is_routed:
            # Reading goes on to the end of the topic: a worker that rolls back emits the range again, later.
            kind.place = first_offset(reader, place, _behind(ref, found.topic, found.begin))
        for _, records in reader.read({place: (kind.place, kind.end)}):
            recorded.add(records)
        if recorded.foreign:
            found.notes.append(f"{place[0]}: {recorded.foreign:,} records there are no outputs of a worker: left aside")
        if 0 < first == kind.place and (recorded.lowest is None or recorded.lowest > found.begin):
            # Earlier outputs are deleted and cannot be compared.
            kind.begin = found.end if recorded.lowest is None else min(recorded.lowest, found.end)
            found.notes.append(
                f"{place[0]} has lost all that was said about the range: not compared"
                if kind.begin == found.end
                else f"{place[0]} begins with what was said about offset {kind.begin:,}: compared from there on"
            )
        kinds.append(kind)
    return kinds


def _behind(
    ref: Callable[[Message | Record], OutputRef | None], topic: str, offset: int
) -> Callable[[Record], bool | None]:
    """Return a predicate: whether the source record of a recorded output is at or after an offset, None if unknown."""

    def holds(record: Record) -> bool | None:
        one = ref(record)
        return None if one is None or one.topic != topic else one.offset >= offset

    return holds


def _begun_anew(find: Callable[[int], InitialModels], start: InitialModels, offset: int) -> InitialModels | None:
    """Return the models of the newest archive up to an offset, if one of them has a later version than at the start.

    No record of the log shows that a version begins in its middle (`reset --stream`, `--new-version`), but an archive
    does.
    """
    try:
        later = find(offset)
    except MismatchError:
        return None
    if later.offset <= start.offset:
        return None
    before = {name: start.task.model(name).version for name in start.task.streams}
    after = {name: later.task.model(name).version for name in later.task.streams}
    return later if any(version > before.get(name, version) for name, version in after.items()) else None


def _compare(
    reader: LogReader, start: InitialModels, begin: int, found: Verified, kinds: list[_Kind], report: Report
) -> OutputDifference | None:
    """Replay the range from an offset on and return the first difference."""
    place, task = begin, start.task
    held: list[tuple[int, Message]] = []
    for batch in sources.of_topic(reader, (found.topic, found.partition), start.offset, found.end):
        silent, records = sources.cut(batch, begin)
        if silent and isinstance(task, SubtreeTask):
            # Events belong to the last message of their record, which can be in the range for the last record here.
            held += _placed(kinds, "cluster_events", task.process(silent).cluster_events, begin)
        elif silent:
            task.catch_up(silent)
        found.silent += len(silent)
        if records:
            outputs = task.process(records)
            behind = records[-1].offset + 1
            if isinstance(task, SubtreeTask):
                # A record can send several messages to a subtree; its events belong to the last one. Outputs repeated
                # because a message was sent again belong to its first occurrence.
                held += _placed(kinds, "cluster_events", outputs.cluster_events, place)
                outputs.cluster_events = [message for offset, message in held if offset < behind]
                held = [(offset, message) for offset, message in held if offset >= behind]
                outputs.assignments = [m for _, m in _placed(kinds, "assignments", outputs.assignments, place)]
            if difference := _first(reader, outputs, place, behind, found, kinds):
                found.records += len(sources.cut(records, difference.offset)[0])
                return difference
            found.records += len(records)
            place = behind
        report(len(batch))
    # Outputs may be recorded about offsets that have no record.
    return _first(reader, Outputs(cluster_events=[message for _, message in held]), place, found.end, found, kinds)


def _placed(kinds: Sequence[_Kind], name: str, messages: Sequence[Message], first: int) -> list[tuple[int, Message]]:
    """Return outputs with the offsets of their source records, without those before `first`."""
    kind = next(kind for kind in kinds if kind.name == name)
    placed = [(_offset(kind, message), message) for message in messages]
    return [entry for entry in placed if entry[0] >= first]


def _first(
    reader: LogReader, outputs: Outputs, first: int, end: int, found: Verified, kinds: list[_Kind]
) -> OutputDifference | None:
    """Return the first difference in a part of the range."""
    places: list[tuple[int, _Kind]] = []
    for kind in kinds:
        begin = max(first, kind.begin)
        if begin >= end:
            continue
        messages = _messages(outputs, kind, found)
        if begin > first:
            messages = [message for message in messages if _offset(kind, message) >= begin]
        offset = kind.recorded.first_difference(messages, begin, end)
        if offset is not None:
            places.append((offset, kind))
    if not places:
        return None
    offset, kind = min(places, key=lambda place: place[0])
    messages = _messages(outputs, kind, found)
    replayed = [kind.recorded.bare(message) for message in messages if _offset(kind, message) == offset]
    recorded = list(map(kind.recorded.bare, _recorded_about(reader, kind, found.topic, offset)))
    what, members = compare(recorded, replayed)
    if what == "surplus" and len(set(map(kind.ref, recorded))) < len(recorded):
        what, (_, members) = "repeated", compare(recorded[len(replayed) :], replayed[-1:])
    return OutputDifference(
        kind.name, kind.at[0], kind.at[1], offset, what, members, _about(found, [*recorded, *replayed])
    )


def _messages(outputs: Outputs, kind: _Kind, found: Verified) -> list[Message]:
    """Return the replayed outputs of a kind in the output partition that is compared."""
    messages = outputs.of(kind.name)
    own = found.partition
    if all(message.partition is None for message in messages):
        return messages if kind.at[1] == own else []
    return [message for message in messages if (own if message.partition is None else message.partition) == kind.at[1]]


def _about(found: Verified, outputs: Sequence[Message | Record]) -> str:
    """Return the record that outputs name, as text, where it is not in the log that is compared; else ``""``."""
    for ref in map(assignment_ref, outputs):
        if ref is not None and (ref.topic, ref.partition) != (found.topic, found.partition):
            return f"{ref.topic}[{ref.partition}]@{ref.offset}"
    return ""


def _offset(kind: _Kind, message: Message) -> int:
    ref = kind.ref(message)
    return -1 if ref is None else ref.offset


def _recorded_about(reader: LogReader, kind: _Kind, topic: str, offset: int) -> list[Record]:
    """Read the recorded outputs about a record again: those of the newest version, each once."""
    found: list[tuple[OutputRef, Record]] = []
    for _, records in reader.read({kind.at: (kind.place, kind.end)}):
        for record in records:
            ref = kind.ref(record)
            if ref is not None and (ref.topic, ref.offset) == (topic, offset):
                found.append((ref, record))
    newest = max((ref.version for ref, _ in found), default=0)
    once = {(record.key, record.value, tuple(record.headers)): record for ref, record in found if ref.version == newest}
    return list(once.values())
