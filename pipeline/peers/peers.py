"""Compare the streams of a deployment by their recent records, as the logs have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.inspect.listing import StoredPartition, names_of
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.peers import beginnings, comparison, kinds, parts, profiles, recent
from resonance.pipeline.records import TopicPartition

HINT_RECORDS: Final = 40_000
"""Where more records must be read, there is no hint."""

HINT_VALUES: Final = 1_000_000
"""Or more features of all records."""


@dataclass(frozen=True, slots=True)
class FeatureBound:
    """What the records of a kind of work have in common."""

    feature: str
    side: kinds.Side
    value: float


@dataclass(frozen=True, slots=True)
class UnlikeFeature:
    """A feature in which a stream is unlike its peers; members but these as in `comparison.Deviation`."""

    stream: str
    feature: str
    change: comparison.Change
    value: float
    median: float
    low: float
    high: float
    far: float
    since: str | None
    """Of all records the time at which the newest drift of the feature in that direction began, or one of the features
    together; of a kind of work the time from which on its records are so. None where no such event is stored, or all
    records of the kind that were read are so."""
    by: str | None
    """Else a time by which it had begun: that of the first of them, or when the feature last got another range."""
    where: list[FeatureBound]
    """The kind of work that it is so in, by all its conditions; none of all recent records."""


@dataclass(frozen=True, slots=True)
class ComparedStreams:
    """The streams of a deployment beside each other."""

    streams: int
    """Streams that have a snapshot."""
    compared: int
    """Those with records enough among the recent ones."""
    unlike: list[UnlikeFeature]
    """The farthest stream first, and of each stream the farthest feature."""
    records: int = 0
    """Records that were read, at the ends of the logs."""
    cut: bool = False
    """Whether more would be compared, if so many were read."""
    kinds: list[list[FeatureBound]] = field(default_factory=list)
    """The kinds of work that they were compared within, too; none where there is one kind alone."""

    @property
    def names(self) -> list[str]:
        """The streams that are unlike their peers."""
        return list(dict.fromkeys(each.stream for each in self.unlike))

    def as_json(self) -> dict[str, Any]:
        """Return all members as plain values."""
        return asdict(self)


def compare_streams(
    settings: Settings,
    reader: LogReader,
    states: Sequence[StoredPartition],
    read: Callable[[int], None] = lambda _: None,
) -> ComparedStreams:
    """Return which streams are unlike the others, from what the group has processed last.

    Features that are categories are left out. `read` is called with numbers of records. Raises `ConfigurationError`
    where records are sparse.
    """
    if settings.input.sparse is not None:
        raise ConfigurationError("--peers compares features that every record has; sparse records have none")
    names = names_of(states)
    if len(names) < profiles.FEWEST_STREAMS:
        return ComparedStreams(len(names), 0, [])
    plan = recent.plan(settings, reader, states)
    records = recent.read(settings, reader, plan, read)
    began = partial(beginnings.read_beginnings, settings, reader, read=read)
    return compared(plan, records, began)


def compared(
    plan: recent.RecentPlan,
    records: recent.Recent,
    beginnings_of: Callable[[Mapping[str, str], Mapping[str, TopicPartition]], beginnings.Beginnings],
) -> ComparedStreams:
    """Return which streams are unlike the others by the records of a plan.

    `beginnings_of` takes the latest times of some streams, and where their records are.
    """
    names, found = plan.names, _compare(plan, records)
    numbers = {each.stream for each in found.unlike}
    newest = {names[number]: records.newest[number] for number in numbers}
    began = beginnings_of(newest, {names[number]: records.places[number] for number in numbers})
    features, unlike = list(plan.columns), []

    def named(where: Sequence[kinds.Bound]) -> list[FeatureBound]:
        return [FeatureBound(features[each.feature], each.side, each.value) for each in where]

    for each in found.unlike:
        stream, feature = names[each.stream], features[each.feature]
        # Drifts of other kinds, and of how often a stream is in each, say nothing of one.
        since, by = began.of(stream, feature, each.change)
        if each.where:
            time = records.time(each.row)
            since, by = (None, time) if each.is_first else (time, None)
        figures = each.change, each.value, each.median, each.low, each.high, each.far
        unlike.append(UnlikeFeature(stream, feature, *figures, since, by, named(each.where)))
    work = [named(where) for where in found.kinds]
    return ComparedStreams(len(names), found.streams, unlike, plan.records, plan.is_cut, work)


def hint(
    settings: Settings, reader: LogReader, states: Sequence[StoredPartition], read: Callable[[int], None]
) -> tuple[int, int] | None:
    """Return how many streams `compare_streams` finds unlike the others, and compares.

    None where that would read much, and where streams cannot be compared.
    """
    streams = len(names_of(states))
    most = HINT_RECORDS // (profiles.RECENT * profiles.LONGER)
    if settings.input.sparse is not None or not profiles.FEWEST_STREAMS <= streams <= most:
        return None
    plan = recent.plan(settings, reader, states)
    if plan.records > HINT_RECORDS or plan.values > HINT_VALUES:
        return None
    found = _compare(plan, recent.read(settings, reader, plan, read))
    return len({each.stream for each in found.unlike}), found.streams


def _compare(plan: recent.RecentPlan, records: recent.Recent) -> comparison.PeerComparison:
    return parts.compare_within(plan.names, *records.table(), records.milliseconds())
