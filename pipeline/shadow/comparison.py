"""How far two deployments agree, and which of their clusters are one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.evaluate import dataset
from resonance.pipeline.evaluate.dataset import Dataset
from resonance.pipeline.evaluate.run import NO_ANSWER, Run, run_candidate
from resonance.pipeline.evaluate.source import TopicSource
from resonance.pipeline.kafka.log_reader import OffsetRange
from resonance.pipeline.kafka.positions import Span, choose, first_offset, resolve
from resonance.pipeline.records import Message, Record, TopicPartition
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange, open_ranges
from resonance.pipeline.shadow.answers import RecordedAnswers, together
from resonance.pipeline.task.decode.unpacking import Unpacker, of_single_records
from resonance.pipeline.verify.output_refs import OutputRef, assignment_ref, event_ref

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
                    first = first_offset(reader, place, partial(_is_behind, ref, at, begin))  # noqa: PLW2901
                wanted[place] = first, end
            for _, records in reader.read(wanted):
                add(records)
                report(len(records))
    return found


def _is_behind(ref: Any, at: TopicPartition, begin: int, record: Record | Message) -> bool | None:
    """Whether the source record of an output is at or after an offset; None if unknown."""
    found: OutputRef | None = ref(record)
    return None if found is None or found.topic != at[0] else found.offset >= begin


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


def learn_again(both: tuple[DeploymentContext, DeploymentContext], found: RecordedBoth, report: Report) -> list[Run]:
    """Learn the compared records with the settings of each deployment, one after the other, and return the runs."""
    return [_learn(one, found, report) for one in both]


def _learn(one: DeploymentContext, found: RecordedBoth, report: Report) -> Run:
    settings = of_single_records(one.settings)
    ranges = [PartitionRange(one, at, *bounds) for at, bounds in found.ranges.items()]
    if settings.labels.topic is not None:
        with open_ranges(settings, [settings.labels.topic], Span(), or_unrouted=True) as (_, late):
            ranges += late
    source = TopicSource(tuple(ranges), unpacker=Unpacker.of(one.settings))
    return run_candidate(settings, source, dataset.read(settings, source, None), None, report)
