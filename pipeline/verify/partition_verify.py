"""One partition of a verification: compares a replay with the recorded outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.positions import first_offset
from resonance.pipeline.records import Message, Messages, Outputs, Record
from resonance.pipeline.repartition.keyed.subtree_task import SubtreeTask
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.replay.initial_models import InitialModels, find_start
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.replay.run import PartitionResult, cut
from resonance.pipeline.verify.differences import OutputDifference, compare
from resonance.pipeline.verify.digests import RecordRange, RefOf, is_behind
from resonance.pipeline.verify.expected_outputs import (
    Compared,
    compared_of_input,
    compared_of_router,
    compared_of_routes,
)
from resonance.pipeline.verify.expected_outputs_keyed import compared_of_roots, compared_of_subtrees
from resonance.pipeline.verify.output_refs import OutputRef, assignment_ref
from resonance.schemas import without_envelope
from resonance.schemas.common import place_of, place_text

SETTLE_SECONDS: Final = 10.0
"""Longest wait for transactions that are open when the recorded outputs are read."""


@dataclass(slots=True)
class Verified(PartitionResult):
    """Result of one partition, with counts of the recorded outputs about the range; each output counts once."""

    assignments: int = 0
    events: int = 0
    drift_events: int = 0
    alerts: int = 0
    dead_letters: int = 0
    routes: int = 0
    """Routes that the first stage emitted."""
    repeats: int = 0
    """Outputs that were recorded again with the same bytes."""
    older: int = 0
    """Recorded outputs of abandoned versions, which are not compared."""
    compared: bool = False
    """Whether there was anything to compare: records in the range, with outputs that are not deleted."""
    difference: OutputDifference | None = None
    """The first one; None where everything is identical."""


def verify_partition(part: PartitionRange, report: Report, *, whole: bool) -> Verified:
    """Verify one partition; `whole` says whether the range starts where the log does."""
    with part.source.reader() as reader:
        at, begin = part.at, part.begin
        committed = reader.committed([at])[at]
        found = Verified(*at, begin, begin)
        if committed == NO_OFFSET:
            found.notes.append(f"group {part.source.group} has committed nothing: there is nothing to compare")
            return found
        end = min(part.end, committed)
        if begin >= end:
            return found
        # `end` itself is included: models restarted there have learned nothing yet and leave nothing to compare.
        start = find_start(reader, part, begin, before=end + 1)
        found.start, found.notes = start.text, start.notes
        found.begin, found.end = min(max(begin, start.offset), end), end
        if found.begin == end:
            found.notes.append(f"the models began at offset {start.offset:,}, behind the range: nothing is compared")
            return found
        oldest = _oldest(start)
        kinds = _compared(reader, part, found, start, oldest)
        _read(reader, part, found, kinds, whole=whole)
        # Most streams have no drift events and no alerts, so their absence shows nothing.
        found.compared = any(kind.begin < end for kind in kinds if kind.name not in ("drift_events", "alerts"))
        for kind in kinds:
            attribute = kind.name.removeprefix("cluster_")
            setattr(found, attribute, getattr(found, attribute) + kind.recorded.count)
        found.repeats = sum(kind.recorded.repeats for kind in kinds)
        found.older = sum(kind.recorded.older for kind in kinds)
        comparison = _Comparison(reader, part, found, kinds, report)
        found.difference = comparison.first_difference(start, found.begin)
        while found.difference is not None and not part.fresh:
            later = _begun_anew(reader, part, start, found.difference.offset)
            if later is None:
                break
            found.notes.append(later.new_version)
            start, begin = later, found.difference.offset
            if (newer := _oldest(start)) > oldest:
                # Versions between the two were given up, where these models are from before their beginning.
                oldest, rest = newer, replace(found, begin=begin, notes=[])
                kinds = _compared(reader, part, rest, start, oldest)
                _read(reader, part, rest, kinds, whole=False)
                comparison = _Comparison(reader, part, found, kinds, report)
            found.difference = comparison.first_difference(start, begin)
    return found


def _oldest(start: InitialModels) -> int:
    """Return the lowest version of the models; outputs of those below it were given up."""
    models = start.task.models
    return min([models.first_version, *(model.version for model in models)])


def _compared(
    reader: LogReader, part: PartitionRange, found: Verified, start: InitialModels, oldest: int
) -> list[Compared]:
    """Return the outputs to compare, without those of versions below `oldest`."""
    source = part.source
    settings = source.settings
    compared = RecordRange(part.at, found.begin, found.end, oldest)
    if not settings.is_routed:
        return compared_of_input(settings, compared)
    records = chain.from_iterable(part.records(reader, start.offset, found.end))
    if isinstance(start.task, SubtreeTask):
        # Outputs of earlier messages count as `ELSEWHERE`, like those of other partitions of the routes.
        return compared_of_subtrees(source, compared, start.task.numbers, records)
    if isinstance(start.task, RoutedTask):
        return compared_of_routes(source, compared, records)
    if settings.is_keyed and part.at[0] != settings.labels.topic:
        return compared_of_roots(source, compared)
    return compared_of_router(source, compared)


def _read(
    reader: LogReader, part: PartitionRange, found: Verified, compared: Sequence[Compared], *, whole: bool
) -> None:
    """Read the recorded outputs about a range."""
    settings = part.source.settings
    for one in compared:
        if not reader.has(one.at):
            raise BrokerError(
                f"topic {one.at[0]} does not exist on {settings.broker.bootstrap}: nothing was recorded there; look at "
                "name and topics.*, or start a worker"
            )
    settled = reader.settled_bounds([one.at for one in compared], SETTLE_SECONDS)
    for one in compared:
        topic, recorded = one.at[0], one.recorded
        (first, one.end), one.begin = settled[one.at], found.begin
        one.place = first
        if not whole and not settings.is_routed:
            # Reading goes on to the end of the topic: a worker that rolls back emits the range again, later.
            one.place = first_offset(reader, one.at, partial(is_behind, one.recorded.ref, part.at[0], found.begin))
        for _, records in reader.read({one.at: (one.place, one.end)}):
            recorded.add(records)
        if recorded.foreign:
            found.notes.append(f"{topic}: {recorded.foreign:,} records there are no outputs of a worker: left aside")
        if 0 < first == one.place and (recorded.lowest is None or recorded.lowest > found.begin):
            # Earlier outputs are deleted and cannot be compared.
            one.begin = found.end if recorded.lowest is None else min(recorded.lowest, found.end)
            found.notes.append(
                f"{topic} has lost all outputs of the range: not compared"
                if one.begin == found.end
                else f"{topic} begins with the outputs of offset {one.begin:,}: compared from there on"
            )


def _begun_anew(reader: LogReader, part: PartitionRange, start: InitialModels, offset: int) -> InitialModels | None:
    """Return the models of the newest archive up to an offset, if one of them has a later version than at the start.

    No record of the log shows that a version begins in its middle (`reset --stream`, `--new-version`), but an archive
    does.
    """
    try:
        later = find_start(reader, part, offset)
    except MismatchError:
        return None
    if later.offset <= start.offset:
        return None
    before = {model.name: model.version for model in start.task.models}
    after = {model.name: model.version for model in later.task.models}
    return later if any(version > before.get(name, version) for name, version in after.items()) else None


def _of_first(ref: RefOf, recorded: list[Message], replayed: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return, of the outputs about a message, those about the first of its records where they differ."""
    of_each: dict[int | None, tuple[list[Message], list[Message]]] = {}
    for side, outputs in enumerate((recorded, replayed)):
        for one in outputs:
            own = ref(one)
            of_each.setdefault(None if own is None else own.element, ([], []))[side].append(one)
    ordered = sorted(of_each.items(), key=lambda item: -1 if item[0] is None else item[0])
    return next((pair for _, pair in ordered if compare(*pair)[0] != "reordered"), (recorded, replayed))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares a replay with the recorded outputs, and counts records in `found`."""

    reader: LogReader
    part: PartitionRange
    found: Verified
    kinds: Sequence[Compared]
    report: Report

    def first_difference(self, start: InitialModels, begin: int) -> OutputDifference | None:
        """Replay the range from an offset on and return the first difference."""
        found, place, task = self.found, begin, start.task
        held: list[tuple[int, Message]] = []
        for batch in self.part.records(self.reader, start.offset, found.end):
            silent, records = cut(batch, begin)
            if silent and isinstance(task, SubtreeTask):
                # Events belong to the last message of their record, which can be in the range for the last record here.
                held += self._placed("cluster_events", task.process(silent).cluster_events, begin)
            elif silent:
                task.catch_up(silent)
            found.silent += len(silent)
            if records:
                outputs = task.process(records)
                behind = records[-1].offset + 1
                if isinstance(task, SubtreeTask):
                    # A record can send several messages to a subtree; its events belong to the last one. Outputs
                    # repeated because a message was sent again belong to its first occurrence.
                    held += self._placed("cluster_events", outputs.cluster_events, place)
                    outputs.cluster_events = [message for offset, message in held if offset < behind]
                    held = [(offset, message) for offset, message in held if offset >= behind]
                    answers = self._placed("assignments", outputs.assignments, place)
                    outputs.assignments = Messages.of(message for _, message in answers)
                if difference := self._difference(outputs, place, behind):
                    found.records += len(cut(records, difference.offset)[0])
                    return difference
                found.records += len(records)
                place = behind
            self.report(len(batch))
        # Outputs may be recorded about offsets that have no record.
        return self._difference(Outputs(cluster_events=[message for _, message in held]), place, found.end)

    def _placed(self, name: str, messages: Sequence[Message], first: int) -> list[tuple[int, Message]]:
        """Return outputs with the offsets of their source records, without those before `first`."""
        kind = next(kind for kind in self.kinds if kind.name == name)
        placed = [(kind.offset(message), message) for message in messages]
        return [entry for entry in placed if entry[0] >= first]

    def _difference(self, outputs: Outputs, first: int, end: int) -> OutputDifference | None:
        """Return the first difference in a part of the range."""
        places: list[tuple[int, Compared]] = []
        for kind in self.kinds:
            begin = max(first, kind.begin)
            if begin >= end:
                continue
            messages = self._messages(outputs, kind)
            if begin > first:
                messages = [message for message in messages if kind.offset(message) >= begin]
            offset = kind.recorded.first_difference(messages, begin, end)
            if offset is not None:
                places.append((offset, kind))
        if not places:
            return None
        offset, kind = min(places, key=lambda place: place[0])
        bare = kind.recorded.bare
        replayed = [bare(message) for message in self._messages(outputs, kind) if kind.offset(message) == offset]
        recorded = list(map(bare, self._recorded_about(kind, offset)))
        recorded, replayed = _of_first(kind.recorded.ref, recorded, replayed)
        what, members = compare(recorded, replayed)
        if what == "surplus" and len(set(map(kind.recorded.ref, recorded))) < len(recorded):
            what, (_, members) = "repeated", compare(recorded[len(replayed) :], replayed[-1:])
        about = self._about([*recorded, *replayed])
        return OutputDifference(kind.name, *kind.at, offset, what, members, about)

    def _messages(self, outputs: Outputs, kind: Compared) -> list[Message]:
        """Return the replayed outputs of a kind in the output partition that is compared."""
        messages = list(outputs.of(kind.name))
        own = self.part.at[1]
        if all(message.partition is None for message in messages):
            return messages if kind.at[1] == own else []
        return [one for one in messages if (own if one.partition is None else one.partition) == kind.at[1]]

    def _about(self, outputs: Sequence[Message | Record]) -> str:
        """Return the record that outputs name, as text, where it is not in the log that is compared; else ``""``."""
        for ref in map(assignment_ref, outputs):
            if ref is not None and (ref.log != self.part.at or ref.element is not None):
                return place_text(place_of(ref.topic, ref.partition, ref.offset, ref.element))
        return ""

    def _recorded_about(self, kind: Compared, offset: int) -> list[Record]:
        """Read the recorded outputs about a record again: those of the newest version, each once."""
        found: list[tuple[OutputRef, Record]] = []
        for _, records in self.reader.read({kind.at: (kind.place, kind.end)}):
            for record in records:
                ref = kind.recorded.ref(record)
                if ref is not None and (ref.topic, ref.offset) == (self.part.at[0], offset):
                    found.append((ref, record))
        newest: dict[tuple[str, ...], int] = {}
        for ref, _ in found:
            newest[ref.subject] = max(ref.version, newest.get(ref.subject, 0))
        copies: dict[Any, dict[Any, Record]] = {}
        for ref, one in found:
            if ref.version == newest[ref.subject]:
                bare = without_envelope(one.headers)
                copies.setdefault((one.key, one.value, bare), {})[tuple(one.headers)] = one
        # A copy without envelope is no other output than one with it.
        return [
            one
            for (*_, bare), own in copies.items()
            for headers, one in own.items()
            if len(own) == 1 or headers != bare
        ]
