"""Estimate the bytes that a deployment writes, before compression, from a rate of records and what its topics hold."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from resonance.pipeline.checkpoint.archive_records import ArchiveKey, ArchiveManifest
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.topics.topics import TopicSurvey

SECONDS_A_DAY: Final = 86_400
SAMPLE: Final = 100
"""Offsets that are sampled at the end of each partition."""
FRAMING: Final = 12
"""Bytes around a record of a batch: its lengths, offset and time."""


class VolumeSample(NamedTuple):
    """Mean bytes of a topic's last records, how many it has by its offsets, and the bytes of the last archives."""

    record_bytes: float
    records: float
    archived: float


class Volume(NamedTuple):
    """Growth of a topic in bytes: in a day, and until its retention begins to delete; None where it is not known."""

    day: float | None
    kept: float | None


def sample(reader: LogReader, found: TopicSurvey) -> dict[str, VolumeSample]:
    """Sample the last records of every topic that has some."""
    samples = {}
    for status in found.all:
        places = [(status.topic.name, number) for number in range(status.found.partitions if status.found else 0)]
        bounds = reader.bounds(places)
        ranges = {at: (max(first, end - SAMPLE), end) for at, (first, end) in bounds.items()}
        last: dict[tuple[str, int], list[Any]] = {}
        for at, records in reader.read(ranges):
            last.setdefault(at, []).extend(records)
        if sizes := [_size(record) for records in last.values() for record in records]:
            # Some offsets are markers of transactions; their share at the end stands for the whole.
            offsets, looked_at = (sum(end - first for first, end in some.values()) for some in (bounds, ranges))
            count, archived = offsets * len(sizes) / looked_at, sum(map(_archived, last.values()))
            samples[status.topic.name] = VolumeSample(sum(sizes) / len(sizes), count, archived)
    return samples


def volumes(
    settings: Settings, found: TopicSurvey, rate: float, record_bytes: float, samples: Mapping[str, VolumeSample]
) -> dict[str, Volume]:
    """Return the growth of each topic at `rate` records a second, of all inputs together, of `record_bytes` each."""
    records, ratio, interval = rate * SECONDS_A_DAY, settings.snapshots.ratio, settings.snapshots.archive_interval
    learned = sum(samples[status.topic.name].records for status in found.inputs if status.topic.name in samples)
    # Bytes of an assignment and of a route, where there are none to measure.
    guess = {"assignments": 450 + FRAMING, "routes": record_bytes + 120}
    made = {}
    for status in found.all:
        kind, own, day = status.topic.kind.name, samples.get(status.topic.name), None
        if kind == "input":
            day = records * record_bytes / len(found.inputs)
        elif kind == "assignments" and settings.output.assignments == "none":
            day = 0.0
        elif kind in guess:
            day = records * (own.record_bytes if own else guess[kind])
        elif kind == "snapshots":
            # The most that `snapshots.ratio` allows; small models need far less.
            day = records * record_bytes / ratio if ratio else None
        elif own and kind == "archive":
            # Each partition writes one an interval, as large as its last.
            day = own.archived * SECONDS_A_DAY / interval or None if interval else None
        elif own and learned:
            day = records * own.record_bytes * own.records / learned
        config, kept = status.made_with if status.found is None else status.found.config, None
        if day is not None and "compact" not in config.get("cleanup.policy", "").split(","):
            by_time = day * int(config.get("retention.ms", -1)) / 1000 / SECONDS_A_DAY
            by_size = float(config.get("retention.bytes", -1)) * status.partitions
            kept = min((limit for limit in (by_time, by_size) if limit >= 0), default=None)
        made[status.topic.name] = Volume(day, kept)
    return made


def _archived(records: Sequence[Any]) -> float:
    """Return the bytes of the last archives, one of each input, from the last records of a partition."""
    sizes: dict[tuple[Any, ...], list[int]] = {}
    wanted: dict[str, tuple[tuple[Any, ...], int]] = {}
    for record in records:
        if key := ArchiveKey.of(record.key):
            sizes.setdefault(key[1:], []).append(_size(record))
            with suppress(MismatchError, *UNREADABLE):
                if key.kind == "archive":
                    wanted[key.topic] = key[1:], ArchiveManifest.parse(record.value or b"", "").records + 1
    # Where an archive has more records than were sampled, the sampled ones stand for all.
    return sum(sum(sizes[own]) / len(sizes[own]) * count for own, count in wanted.values())


def _size(record: Any) -> int:
    headers = sum(len(name) + len(value or b"") + 2 for name, value in record.headers)
    return FRAMING + len(record.key or b"") + len(record.value or b"") + headers
