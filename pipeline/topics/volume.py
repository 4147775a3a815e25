"""Estimate the bytes that a deployment writes, from a rate of records and from what its topics hold already.

Everything is counted before compression, so it is the most that the brokers store of one copy.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from resonance.pipeline.checkpoint.archive_records import ArchiveKey, ArchiveManifest
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.topics.topics import TopicStatus, TopicSurvey

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

SECONDS_A_DAY: Final = 86_400
SAMPLE: Final = 100
"""Offsets that are sampled at the end of each partition."""

FRAMING: Final = 12
"""Bytes around a record of a batch: its lengths, offset and time."""

ANSWER_BYTES: Final = 450
"""Bytes of an assignment with its headers, without the record's key, where there is none to measure."""

ROUTE_BYTES: Final = 120
"""Bytes that a route has beside the record, where there is none to measure."""


@dataclass(frozen=True, slots=True)
class VolumeSample:
    """The last records of a topic."""

    record_bytes: float
    """Mean bytes of a record, framing included."""
    records: float
    """Records of the whole topic, estimated from its offsets."""
    archived: float = 0.0
    """Bytes of the last archive of each input partition together; 0 where there are none."""


@dataclass(frozen=True, slots=True)
class Volume:
    """Growth of a topic."""

    day: float | None
    """Bytes a day; None where it depends on the data."""
    kept: float | None
    """Bytes when its retention begins to delete; None where that never happens, or is not known."""


def sample(client: Mapping[str, Any], group: str, found: TopicSurvey, patience: float) -> dict[str, VolumeSample]:
    """Sample the last records of every topic that has some.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    group : str
        Consumer group of the connection; it is not joined.
    patience : float
        Seconds without any progress after which the broker is given up.

    Raises
    ------
    BrokerError
        The broker does not answer, or the user may not read a topic.
    """
    counts = {s.topic.name: s.found.partitions for s in found.all if s.found is not None}
    places = [(name, partition) for name, partitions in counts.items() for partition in range(partitions)]
    sizes: dict[str, list[int]] = {name: [] for name in counts}
    archived = dict.fromkeys(counts, 0.0)
    archive = next((s.topic.name for s in found.all if s.topic.kind.name == "archive"), "")
    last: dict[int, list[Any]] = {}
    with LogReader(client, group, patience) as reader:
        bounds = reader.bounds(places)
        ranges = {at: (max(first, end - SAMPLE), end) for at, (first, end) in bounds.items()}
        for (name, partition), records in reader.read(ranges):
            sizes[name] += [_size(record) for record in records]
            if name == archive:
                last.setdefault(partition, []).extend(records)
    archived[archive] = sum(map(_archived, last.values()))
    samples = {}
    for name, seen in sizes.items():
        if not seen:
            continue
        own = [at for at in places if at[0] == name]
        looked_at = sum(ranges[at][1] - ranges[at][0] for at in own)
        offsets = sum(bounds[at][1] - bounds[at][0] for at in own)
        # Some offsets are markers of transactions; their share at the end stands for the whole.
        samples[name] = VolumeSample(sum(seen) / len(seen), offsets * len(seen) / looked_at, archived[name])
    return samples


def volumes(
    settings: "Settings",
    found: TopicSurvey,
    rate: float,
    record_bytes: float,
    samples: Mapping[str, VolumeSample],
) -> dict[str, Volume]:
    """Return the growth of each topic.

    Parameters
    ----------
    rate : float
        Records a second, of all inputs together.
    record_bytes : float
        Bytes of an input record.
    samples : mapping of str to VolumeSample
        By topic, where there are records to sample.
    """
    records = rate * SECONDS_A_DAY
    seen = [samples[s.topic.name] for s in found.inputs if s.topic.name in samples]
    learned = sum(each.records for each in seen)

    def day(status: TopicStatus) -> float | None:
        kind = status.topic.kind.name
        own = samples.get(status.topic.name)
        if kind == "input":
            return records * record_bytes / len(found.inputs)
        if kind == "assignments":
            if settings.output.assignments == "none":
                return 0.0
            return records * (own.record_bytes if own else ANSWER_BYTES + FRAMING)
        if kind == "snapshots":
            # The most that `snapshots.ratio` allows; small models need far less.
            return records * record_bytes / settings.snapshots.ratio if settings.snapshots.ratio else None
        if kind == "archive" and own is not None and own.archived and settings.snapshots.archive_interval:
            # Each partition writes one an interval, as large as its last.
            return own.archived * SECONDS_A_DAY / settings.snapshots.archive_interval
        if kind == "routes":
            return records * (own.record_bytes if own else record_bytes + ROUTE_BYTES)
        if kind == "archive" or own is None or not learned:
            return None
        return records * own.record_bytes * own.records / learned

    return {status.topic.name: Volume(made := day(status), _kept(status, made)) for status in found.all}


def _kept(status: TopicStatus, day: float | None) -> float | None:
    """Return the bytes of a topic once its retention deletes; None where it never does, or where that is not known."""
    config = status.found.config if status.found is not None else status.made_with
    if day is None or "compact" in config.get("cleanup.policy", "").split(","):
        return None
    milliseconds = int(config.get("retention.ms", -1))
    most = int(config.get("retention.bytes", -1))
    bounds = []
    if milliseconds >= 0:
        bounds.append(day * milliseconds / 1000 / SECONDS_A_DAY)
    if most >= 0 and status.found is not None:
        bounds.append(float(most) * status.found.partitions)
    return min(bounds, default=None)


def _archived(records: Sequence[Any]) -> float:
    """Return the bytes of the last archives, one of each input, from the last records of a partition."""
    sizes: dict[tuple[Any, ...], list[int]] = {}
    wanted: dict[str, tuple[tuple[Any, ...], int]] = {}
    for record in records:
        key = ArchiveKey.of(record.key)
        if key is None:
            continue
        sizes.setdefault(key[1:], []).append(_size(record))
        if key.kind == "archive":
            with suppress(MismatchError, *UNREADABLE):
                wanted[key.topic] = key[1:], ArchiveManifest.parse(record.value or b"", "").records + 1
    # Where an archive has more records than were sampled, the sampled ones stand for all.
    return sum(sum(sizes[own]) / len(sizes[own]) * count for own, count in wanted.values())


def _size(record: Any) -> int:
    headers = sum(len(name) + len(value or b"") + 2 for name, value in record.headers)
    return FRAMING + len(record.key or b"") + len(record.value or b"") + headers
