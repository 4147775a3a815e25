"""Replay dead letters into their input topics, in the order of the originals, with key, value and headers as they were.

Each step is one transaction of records and of the progress of the group ``<name>.dlq-replay``: an interrupted replay
continues where it stopped, and what was replayed is not replayed again. Brokers without transactions get the records
first, and the progress behind them.
"""

import base64
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import orjson
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Offset
from resonance.pipeline.dead_letters.records import SOURCE_HEADER, Choice, StoredDeadLetter, read_dead_letters
from resonance.pipeline.errors import ConfigurationError, DeliveryError
from resonance.pipeline.kafka.admin import FoundTopic
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import translated
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings, step
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.topics.acls import replay_group, replay_id
from resonance.schemas.common import offset_text

MAX_METADATA: Final = 4_000
"""Most characters of a note: a broker accepts 4,096 (offset.metadata.max.bytes)."""


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """Which dead letters of a partition are done."""

    below: int = 0
    """Every dead letter below this offset is done."""
    ranges: tuple[tuple[int, int], ...] = ()
    """First and last offset of each range of done dead letters above it, ascending."""

    @classmethod
    def read(cls, offset: int, note: str | None, topic_id: str) -> Self:
        """Return what was committed; nothing is done where it was committed for an earlier topic of the same name.

        The offset is negative where none was committed; `topic_id` is Kafka's id of the topic, ``""`` where it has
        none.
        """
        written, _, packed = (note or "").partition(":")
        if offset < 0 or written != topic_id:
            return cls()
        try:
            steps = [int(step) for step in orjson.loads(zlib.decompress(base64.b85decode(packed)))] if packed else []
        except (ValueError, TypeError, zlib.error):
            # The note is another program's: only the dead letters below the offset are certainly done.
            return cls(offset)
        ranges, last = [], offset
        for skip, length in zip(steps[::2], steps[1::2], strict=False):
            ranges.append((last + skip, last + skip + length))
            last += skip + length
        return cls(offset, tuple(ranges))

    def note(self, topic_id: str) -> str:
        """Return the metadata to commit with `below`.

        Raises `ConfigurationError` where it has too many ranges to fit: replay with fewer filters.
        """
        steps, last = list[int](), self.below
        for first, end in self.ranges:
            steps += [first - last, end - first]
            last = end
        packed = base64.b85encode(zlib.compress(orjson.dumps(steps), 9)).decode() if steps else ""
        if len(topic_id) + 1 + len(packed) > MAX_METADATA:
            raise ConfigurationError(
                f"dlq replay: {len(self.ranges):,} separate ranges of dead letters would be done in one partition, "
                "more than can be remembered; replay with fewer filters, such as everything of a partition"
            )
        return f"{topic_id}:{packed}"

    def has(self, offset: int) -> bool:
        """Whether the dead letter at an offset is done."""
        if offset < self.below:
            return True
        place = bisect_right(self.ranges, (offset, offset))
        return any(first <= offset <= last for first, last in self.ranges[max(place - 1, 0) : place + 1])

    def with_done(self, dead_letters: Iterable[int], done: Collection[int]) -> "ReplayProgress":
        """Return the progress after more dead letters are done.

        `dead_letters` are the offsets of all dead letters of the partition that can be replayed, ascending.
        """
        below, ranges = self.below, list[tuple[int, int]]()
        start: int | None = None
        last, prefix = -1, True
        for offset in dead_letters:
            if offset in done or self.has(offset):
                if prefix:
                    below = max(below, offset + 1)
                elif start is None:
                    start = offset
                last = offset
            else:
                prefix = False
                if start is not None:
                    ranges.append((start, last))
                    start = None
        if start is not None:
            ranges.append((start, last))
        return ReplayProgress(below, tuple(ranges))


STEP_RECORDS: Final = 1_000
"""Most dead letters of one transaction."""
STEP_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of one transaction."""

ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The dead letters of a deployment, and the topics that they return to."""

    client: Mapping[str, Any]
    """librdkafka configuration of the connection."""
    name: str
    """Name of the deployment."""
    partitions: Sequence[TopicPartition]
    """Partitions of the dead-letter topic to read."""
    topics: Mapping[str, FoundTopic]
    """That topic, and those of the topics that other programs write which exist."""
    atomic: bool = True
    """Whether the broker has transactions."""
    transaction_timeout: float = 60.0
    """Seconds that a transaction may take, as many as a worker's: librdkafka compares other times with them."""
    wrapped: Callable[[bytes], bytes] | None = bytes
    """Returns the value of a message with one record, which was one of many; None where none can be made."""

    @property
    def group(self) -> str:
        """Consumer group whose offsets are the progress."""
        return replay_group(self.name)

    @property
    def topic_id(self) -> str:
        """Kafka's id of the dead-letter topic; ``""`` where it has none."""
        return self.topics[self.partitions[0][0]].topic_id


class Entry(NamedTuple):
    """A dead letter without its content."""

    source: tuple[str, int, int]
    """Topic, partition and offset of the original; entries sort by it."""
    offset: int
    """Offset of the dead letter."""
    kind: str
    """Its class."""
    size: int
    """Bytes of key and value."""
    element: int | None = None
    """Which record of the original message it is; None where it is the message."""


@dataclass(slots=True)
class Plan:
    """What a replay would do."""

    entries: dict[TopicPartition, list[Entry]] = field(default_factory=dict)
    """Dead letters to replay, in order."""
    truncated: list[Entry] = field(default_factory=list)
    """Dead letters that were cut: they cannot be replayed."""
    foreign: list[Entry] = field(default_factory=list)
    """Dead letters whose topic or partition is no input of the deployment: they cannot be replayed."""
    earlier: list[Entry] = field(default_factory=list)
    """Dead letters whose topic was deleted and created again since: their record belongs to another log."""
    parts: list[Entry] = field(default_factory=list)
    """Records of messages with a schema, without which they cannot be replayed."""
    done: int = 0
    """Dead letters that were replayed before."""
    oldest: int | None = None
    """When the oldest one of a partition without known progress was written, in milliseconds since 1970. A broker
    forgets the offsets of a group without members after ``offsets.retention.minutes``, a week by default; then it is
    unknown whether an older one was replayed."""
    _progress: dict[TopicPartition, ReplayProgress] = field(default_factory=dict)
    _dead_letters: dict[TopicPartition, list[int]] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Number of dead letters to replay."""
        return sum(map(len, self.entries.values()))

    @property
    def kinds(self) -> Counter[str]:
        """Dead letters to replay, by class."""
        return Counter(entry.kind for entries in self.entries.values() for entry in entries)


def plan(source: ReplaySource, choice: Choice, limit: int | None = None) -> Plan:
    """Return what a replay would do now, with at most `limit` dead letters."""
    made = Plan(_progress=_read_progress(source))
    replayed: set[tuple[Any, ...]] = set()
    with LogReader(source.client, source.group, ANSWER_SECONDS) as reader:
        for at, dead_letters in read_dead_letters(reader, reader.bounds(source.partitions), source.name):
            progress = made._progress[at]
            for one in dead_letters:
                size = len(one.key or b"") + len(one.value or b"")
                entry = Entry(one.source, one.at[2], one.kind, size, one.index)
                refused, is_chosen = _refused(made, source, one), choice.has(one)
                if refused is not None:
                    if is_chosen:
                        refused.append(entry)
                    continue
                made._dead_letters.setdefault(at, []).append(entry.offset)
                if progress.has(entry.offset):
                    replayed.add((*entry.source, entry.element))
                    made.done += is_chosen
                elif is_chosen:
                    made.entries.setdefault(at, []).append(entry)
                    if progress == ReplayProgress():
                        made.oldest = min(one.timestamp, one.timestamp if made.oldest is None else made.oldest)
    for at, entries in made.entries.items():
        # At-least-once delivery can write several dead letters for one original: the first stands for all.
        firsts: dict[tuple[Any, ...], Entry] = {}
        for entry in sorted(entries):
            firsts.setdefault((*entry.source, entry.element), entry)
        kept = [entry for where, entry in firsts.items() if where not in replayed]
        made.done += len(entries) - len(kept)
        made.entries[at] = kept[:limit]
        limit = None if limit is None else limit - len(made.entries[at])
    return made


def _refused(made: Plan, source: ReplaySource, dead_letter: StoredDeadLetter) -> list[Entry] | None:
    """Return where a dead letter belongs that cannot be replayed; None where it can be."""
    topic, partition, _ = dead_letter.source
    if dead_letter.truncated:
        return made.truncated
    if dead_letter.index is not None and source.wrapped is None:
        return made.parts
    found = source.topics.get(topic)
    if found is None or topic == dead_letter.at[0] or partition >= found.partitions:
        return made.foreign
    return made.earlier if dead_letter.topic_id and found.topic_id not in ("", dead_letter.topic_id) else None


def _read_progress(source: ReplaySource) -> dict[TopicPartition, ReplayProgress]:
    with LogReader(source.client, source.group, ANSWER_SECONDS) as reader:
        found = reader.committed_with_metadata(source.partitions)
    return {at: ReplayProgress.read(*progress, source.topic_id) for at, progress in found.items()}


def replay(
    source: ReplaySource,
    choice: Choice,
    limit: int | None = None,
    advanced: Callable[[int], None] = lambda _: None,
) -> Plan:
    """Replay dead letters, and return what was done; `advanced` is called after each step with their number so far.

    Raises `DeliveryError` where a step fails: those before it count, and the next replay continues behind them.
    """
    # Our errors carry what matters of librdkafka's own log.
    configs = {name: topic.config for name, topic in source.topics.items() if name != source.partitions[0][0]}
    sizes = {name: int(config["max.message.bytes"]) for name, config in configs.items() if config}
    settings: dict[str, Any] = {"log_level": 0, **producer_settings(source.client, message_bytes=sizes)}
    if source.atomic:
        settings["transactional.id"] = replay_id(source.name)
        settings["transaction.timeout.ms"] = round(1000 * source.transaction_timeout)
    outlet = Outlet(settings, ANSWER_SECONDS, reports=True)
    consumer = new_client(
        Consumer, {"log_level": 0, **source.client, "group.id": source.group, "enable.auto.commit": False}
    )
    text = "dlq replay: {reason}; what was committed before counts: run the same command again, and it goes on there"
    try:
        with translated(source.client, text, kind=DeliveryError):
            if source.atomic:
                # Ends the open transaction of an interrupted replay and fences one that still runs: then the progress
                # is final.
                outlet.producer.init_transactions(ANSWER_SECONDS)
            made = plan(source, choice, limit)
            count = 0
            for at, entries in _steps(made):
                _replay_step(source, outlet, consumer, made, at, entries)
                count += len(entries)
                advanced(count)
            return made
    finally:
        consumer.close()


def _steps(made: Plan) -> Iterator[tuple[TopicPartition, list[Entry]]]:
    for at, entries in made.entries.items():
        taken: list[Entry] = []
        size = 0
        for entry in entries:
            if taken and (len(taken) == STEP_RECORDS or size + entry.size > STEP_BYTES):
                yield at, taken
                taken, size = [], 0
            taken.append(entry)
            size += entry.size
        if taken:
            yield at, taken


def _replay_step(
    source: ReplaySource, outlet: Outlet, consumer: Consumer, made: Plan, at: TopicPartition, entries: list[Entry]
) -> None:
    wanted = {entry.offset for entry in entries}
    dead_letters: dict[int, StoredDeadLetter] = {}
    with LogReader(source.client, source.group, ANSWER_SECONDS) as reader:
        for _, found in read_dead_letters(reader, {at: (min(wanted), max(wanted) + 1)}, source.name):
            dead_letters |= {each.at[2]: each for each in found if each.at[2] in wanted}
    progress = made._progress[at].with_done(made._dead_letters[at], wanted)
    offset = Offset(*at, progress.below, progress.note(source.topic_id))
    with step(outlet, consumer, [offset], atomic=source.atomic):
        for entry in entries:
            topic, partition, _ = entry.source
            outlet.send(Batch(topic, partition, [original(dead_letters[entry.offset], source)]))
    made._progress[at] = progress


def original(dead_letter: StoredDeadLetter, source: ReplaySource) -> Message:
    """Return the original record of a dead letter, with a header that says where it stands.

    The dead letter of a record that was itself replayed keeps the header that says where the first original stands.
    """
    mark, value = f"{source.name}.{SOURCE_HEADER}", dead_letter.value
    headers = list(dead_letter.headers)
    if not any(header == mark for header, _ in headers):
        topic, partition, offset = dead_letter.source
        headers.append((mark, f"{topic}-{partition}-{offset_text(offset, dead_letter.index)}".encode()))
    if dead_letter.index is not None and value is not None and source.wrapped is not None:
        value = source.wrapped(value)
    return Message(dead_letter.key, value, headers)
