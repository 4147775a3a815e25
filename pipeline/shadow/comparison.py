"""The recorded answers of two deployments about the same records: how far they agree, which clusters are one."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.evaluate import dataset
from resonance.pipeline.evaluate.dataset import UNKNOWN, Dataset
from resonance.pipeline.evaluate.run import NO_ANSWER, NO_CLUSTER, Numbers, Run, run_candidate
from resonance.pipeline.evaluate.source import TopicSource, merged
from resonance.pipeline.kafka.log_reader import OffsetRange
from resonance.pipeline.kafka.positions import Span, choose, first_offset, resolve
from resonance.pipeline.records import MOST_ELEMENTS, Record, TopicPartition
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange, open_ranges
from resonance.pipeline.task.decode.unpacking import Unpacker, of_single_records
from resonance.pipeline.text import times as time_texts
from resonance.pipeline.verify.digests import is_behind
from resonance.pipeline.verify.output_refs import assignment_ref, event_ref

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


SETTLE_SECONDS: Final = 10.0
"""Longest wait for transactions that are open when the outputs are read."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of clusters that records are in, one of each deployment; arrays have an entry for each pair."""

    first: NDArray[np.int64]
    """Number of the cluster of the first; from the number of its clusters on, records of a stream without one."""
    second: NDArray[np.int64]
    both: NDArray[np.int64]
    """Records in both clusters."""
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Records of either cluster."""
    records: NDArray[np.int64]
    """Places of the records that both have answered."""
    of: NDArray[np.int64]
    """The pair of each of these records."""

    @property
    def overlap(self) -> NDArray[np.float64]:
        """Records in both clusters for each record in either."""
        found: NDArray[np.float64] = self.both / (self.sizes[0] + self.sizes[1] - self.both)
        return found

    @property
    def agree(self) -> NDArray[np.bool_]:
        """Whether more than half of the records of each cluster are in the other; no cluster agrees with two."""
        found: NDArray[np.bool_] = (2 * self.both > self.sizes[0]) & (2 * self.both > self.sizes[1])
        return found


def pairs_of(first: Run, second: Run) -> Pairs:
    """Count the records of each pair of clusters, of those that both deployments have answered."""
    records = np.flatnonzero((first.cluster != NO_ANSWER) & (second.cluster != NO_ANSWER))
    # In each stream those without a cluster are a group of their own.
    groups = [
        np.where(run.cluster >= 0, run.cluster, len(run.names) + run.stream)[records].astype(np.int64)
        for run in (first, second)
    ]
    width = int(groups[1].max(initial=0)) + 1
    codes, of, both = np.unique(groups[0] * width + groups[1], return_inverse=True, return_counts=True)
    ours, theirs = codes // width, codes % width
    sizes = np.bincount(groups[0])[ours], np.bincount(groups[1])[theirs]
    return Pairs(ours, theirs, both, sizes, records, of)


def agreeing(pairs: Pairs, first: Run, second: Run) -> dict[str, str]:
    """Return the cluster of the second deployment that agrees with each cluster of the first that has one."""
    chosen = pairs.agree & (pairs.first < len(first.names)) & (pairs.second < len(second.names))
    return {
        first.names[ours]: second.names[theirs]
        for ours, theirs in zip(pairs.first[chosen].tolist(), pairs.second[chosen].tolist(), strict=True)
    }


@dataclass(frozen=True, slots=True)
class RecordedBoth:
    """What two deployments have recorded about the same records."""

    data: Dataset
    """Its true classes are the clusters of the first."""
    runs: tuple[Run, Run]
    ranges: Mapping[TopicPartition, OffsetRange]
    """Where both have answers."""


def read(
    both: tuple[DeploymentContext, DeploymentContext],
    ranges: Mapping[TopicPartition, OffsetRange],
    *,
    events: bool = True,
    apart: bool = False,
    report: Report = lambda _: None,
) -> RecordedBoth:
    """Read what two deployments have recorded about ranges of their input.

    Raises `BrokerError` where they have no answers about the same records, unless they may be so far `apart`.
    """
    many = any(one.settings.has_many for one in both)
    answers = tuple(_read(one, ranges, many, events=events, report=report) for one in both)
    data, first, second, common = together(list(ranges), *answers)
    if not common and not apart:
        names = [one.settings.name for one in both]
        counts = " and ".join(f"{len(one.newest()[0]):,} of {name}" for one, name in zip(answers, names, strict=True))
        raise BrokerError(
            f"{names[0]} and {names[1]} have no answers in common in that range: it has {counts}; choose another "
            "range, wait until both have been there, or look at output.assignments"
        )
    return RecordedBoth(data, (first, second), common)


def _read(
    one: DeploymentContext, ranges: Mapping[TopicPartition, OffsetRange], many: bool, *, events: bool, report: Report
) -> RecordedAnswers:
    settings = one.settings
    found = RecordedAnswers(ranges, many=many)
    kinds = (
        ("assignments", found.add, assignment_ref),
        *((("cluster_events", found.add_events, event_ref),) if events else ()),
    )
    with one.reader(patience=settings.broker.answer_timeout) as reader:
        for kind, add, ref in kinds:
            topic = settings.topic(kind)
            places = [(topic, number) for number in sorted({number for _, number in ranges})]
            if missing := next((place for place in places if not reader.has(place)), None):
                raise BrokerError(
                    f"topic {topic} of {settings.name} has no partition {missing[1]} on {settings.broker.bootstrap}; "
                    "`resonance topics check` shows what is missing"
                )
            bounds = reader.settled_bounds(places, SETTLE_SECONDS)
            wanted = {}
            for place, (first, end) in bounds.items():
                inputs = {at: begin for at, (begin, _) in ranges.items() if at[1] == place[1]}
                # Those of several inputs, and those that were routed, are not in the order of one log.
                if len(inputs) == 1 and not settings.is_routed:
                    (at, begin), *_ = inputs.items()
                    first = first_offset(reader, place, partial(is_behind, ref, at[0], begin))  # noqa: PLW2901
                wanted[place] = first, end
            for _, records in reader.read(wanted):
                add(records)
                report(len(records))
    return found


def ranges_of(one: DeploymentContext, span: Span) -> dict[TopicPartition, OffsetRange]:
    """Return the offsets of a span in each partition of the input.

    Raises `BrokerError` where the input has no record there.
    """
    with one.reader(patience=one.settings.broker.answer_timeout) as reader:
        found = resolve(reader, span, choose(span, one.settings.input.topics, one.deployment.partitions))
    if all(begin >= end for begin, end in found.values()):
        where = f"{', '.join(one.settings.input.topics)} on {one.settings.broker.bootstrap}"
        raise BrokerError(f"{where} has no committed records in that range; choose another one")
    return found


def learn_again(one: DeploymentContext, found: RecordedBoth, report: Report) -> Run:
    """Learn the compared records with the settings of a deployment, and return the run."""
    settings = of_single_records(one.settings)
    ranges = [PartitionRange(one, at, *bounds) for at, bounds in found.ranges.items()]
    if settings.labels.topic is not None:
        with open_ranges(settings, [settings.labels.topic], Span(), or_unrouted=True) as (_, late):
            ranges += late
    source = TopicSource(tuple(ranges), unpacker=Unpacker.of(one.settings))
    return run_candidate(settings, source, dataset.read(settings, source, None), None, report)
