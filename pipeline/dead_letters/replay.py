"""Dead letters back into their input topic: in the order of the originals, with key, value and headers as they were.

Each step is one transaction, of records and of the progress of the group ``<name>.dlq-replay``: a replay that was
interrupted goes on where it stopped, and what was replayed once is not replayed again. Brokers without transactions
get the records first and the progress behind them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Offset
from resonance.pipeline.dead_letters.letters import SOURCE_HEADER, Choice, StoredDeadLetter, read_letters
from resonance.pipeline.dead_letters.progress import ReplayProgress
from resonance.pipeline.errors import BrokerError, DeliveryError
from resonance.pipeline.kafka.access import right_refused
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.topics.acls import replay_group, replay_id

STEP_LETTERS: Final = 1_000
STEP_BYTES: Final = 16 * 1024 * 1024
"""Letters and bytes of one transaction, at most."""

ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The dead letters of a deployment.

    Attributes
    ----------
    client : mapping
        librdkafka configuration of the connection.
    name : str
        Name of the deployment.
    partitions : sequence of (topic, partition)
        Partitions of the dead letters' topic that are looked at.
    topic_id : str
        Kafka's id of it; ``""`` where it has none.
    inputs : mapping of str to int
        Partitions of each input topic, and of the topic of labels.
    message_bytes : mapping of str to int
        What those take in one message, where the broker tells.
    atomic : bool
        The broker has transactions.
    input_ids : mapping of str to str
        Kafka's id of each input topic, where it has one.
    """

    client: Mapping[str, Any]
    name: str
    partitions: Sequence[TopicPartition]
    topic_id: str
    inputs: Mapping[str, int]
    message_bytes: Mapping[str, int] = field(default_factory=dict)
    atomic: bool = True
    input_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Group whose offsets are the progress."""
        return replay_group(self.name)


class Entry(NamedTuple):
    """A letter without its content.

    Attributes
    ----------
    source : (str, int, int)
        Topic, partition and offset of the original; entries sort by it.
    offset : int
        Offset of the letter.
    kind : str
        Its class.
    size : int
        Bytes of key and value.
    """

    source: tuple[str, int, int]
    offset: int
    kind: str
    size: int


@dataclass(slots=True)
class Plan:
    """What a replay would do.

    Attributes
    ----------
    entries : dict of (topic, partition) to list of Entry
        Letters to replay, in order.
    truncated, foreign : list of Entry
        Letters that were cut, and letters whose topic is no input of the deployment: they cannot be replayed.
    earlier : list of Entry
        Letters whose topic was deleted and made again since: their record belongs to another log.
    done : int
        Letters that were replayed before.
    kinds : Counter of str
        Letters to replay, by class.
    oldest : int or None
        When the oldest one was written of those about whose partition no progress is known, in milliseconds since
        1970. A broker forgets offsets of a group without members after ``offsets.retention.minutes``, a week by
        default: then nobody knows whether an older letter was replayed.
    """

    entries: dict[TopicPartition, list[Entry]] = field(default_factory=dict)
    truncated: list[Entry] = field(default_factory=list)
    foreign: list[Entry] = field(default_factory=list)
    earlier: list[Entry] = field(default_factory=list)
    done: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    oldest: int | None = None
    _progress: dict[TopicPartition, ReplayProgress] = field(default_factory=dict)
    _letters: dict[TopicPartition, list[int]] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Number of letters to replay."""
        return sum(map(len, self.entries.values()))

    def limited(self, count: int) -> None:
        """Keep the first letters of each partition, `count` altogether."""
        for at, entries in self.entries.items():
            self.entries[at] = entries[:count]
            count -= len(self.entries[at])
        self.kinds = Counter(entry.kind for entries in self.entries.values() for entry in entries)


def plan(source: ReplaySource, choice: Choice, limit: int | None = None) -> Plan:
    """Return what a replay would do now.

    Parameters
    ----------
    source : ReplaySource
        The letters.
    choice : Choice
        Which of them.
    limit : int, optional
        Letters, at most.
    """
    made = Plan()
    made._progress = _read_progress(source)
    replayed: set[tuple[str, int, int]] = set()
    with LogReader(source.client, source.group, ANSWER_SECONDS) as reader:
        for at, letters in read_letters(reader, reader.bounds(source.partitions), source.name):
            progress = made._progress[at]
            for letter in letters:
                _sort_in(made, at, letter, progress, choice, replayed, source)
    for at, entries in made.entries.items():
        # Letters of one original, of a delivery at least once: the first of them stands for all.
        firsts: dict[tuple[str, int, int], Entry] = {}
        for entry in sorted(entries):
            firsts.setdefault(entry.source, entry)
        made.entries[at] = [entry for where, entry in firsts.items() if where not in replayed]
        made.done += len(entries) - len(made.entries[at])
    made.kinds = Counter(entry.kind for entries in made.entries.values() for entry in entries)
    if limit is not None:
        made.limited(limit)
    return made


def _sort_in(
    made: Plan,
    at: TopicPartition,
    letter: StoredDeadLetter,
    progress: ReplayProgress,
    choice: Choice,
    replayed: set[tuple[str, int, int]],
    source: ReplaySource,
) -> None:
    entry = Entry(letter.source, letter.at[2], letter.kind, len(letter.key or b"") + len(letter.value or b""))
    topic, partition, _ = letter.source
    refused = None
    if letter.truncated:
        refused = made.truncated
    elif partition >= source.inputs.get(topic, 0):
        refused = made.foreign
    elif letter.topic_id and source.input_ids.get(topic, letter.topic_id) != letter.topic_id:
        refused = made.earlier
    if refused is not None:
        if choice.has(letter):
            refused.append(entry)
        return
    made._letters.setdefault(at, []).append(entry.offset)
    if progress.has(entry.offset):
        replayed.add(entry.source)
        made.done += choice.has(letter)
    elif choice.has(letter):
        made.entries.setdefault(at, []).append(entry)
        if progress == ReplayProgress():
            made.oldest = min(letter.timestamp, letter.timestamp if made.oldest is None else made.oldest)


def _read_progress(source: ReplaySource) -> dict[TopicPartition, ReplayProgress]:
    # librdkafka waits for a group that it may not ask, to the end of its time.
    ClusterAdmin(source.client, ANSWER_SECONDS).check_group(source.group)
    consumer = Consumer(
        {
            "log_level": 0,
            **source.client,
            "group.id": source.group,
            "enable.auto.commit": False,
            # Asks with "require stable": an offset of a transaction that is being ended is waited for.
            "isolation.level": "read_committed",
        }
    )
    try:
        answers = consumer.committed([Offset(*at) for at in source.partitions], timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerError(
            f"the offsets of group {source.group} cannot be read ({error.args[0].str()}); look at the brokers, and at "
            "the rights of this user on the group"
        ) from error
    finally:
        consumer.close()
    return {
        (place.topic, place.partition): ReplayProgress.read(place.offset, place.metadata, source.topic_id)
        for place in answers
    }


def replay(
    source: ReplaySource,
    choice: Choice,
    limit: int | None = None,
    advanced: Callable[[int], None] = lambda _: None,
) -> Plan:
    """Replay dead letters, and return what was done.

    Parameters
    ----------
    source, choice, limit
        As in `plan`.
    advanced : callable
        Told how many were replayed, now and then.

    Raises
    ------
    DeliveryError
        A step failed; the steps before it count, and the next replay goes on behind them.
    BrokerError
        The broker does not answer.
    """
    # What matters of librdkafka's own words is in our errors.
    settings: dict[str, Any] = {
        "log_level": 0,
        **producer_settings(source.client, message_bytes=source.message_bytes),
    }
    if source.atomic:
        settings["transactional.id"] = replay_id(source.name)
    outlet = Outlet(settings, ANSWER_SECONDS, reports=True)
    consumer = Consumer({"log_level": 0, **source.client, "group.id": source.group, "enable.auto.commit": False})
    try:
        if source.atomic:
            # Ends what an interrupted replay left open, and shuts out one that still runs: the progress is final then.
            outlet.producer.init_transactions(ANSWER_SECONDS)
        made = plan(source, choice, limit)
        count = 0
        for at, step in _steps(made):
            _replay_step(source, outlet, consumer, made, at, step)
            count += len(step)
            advanced(count)
        return made
    except KafkaException as error:
        if denied := right_refused(source.client, error.args[0]):
            raise denied from error
        raise DeliveryError(
            f"dlq replay: {error.args[0].str()}; what was committed before counts: run the same command again, and it "
            "goes on there"
        ) from error
    finally:
        consumer.close()


def _steps(made: Plan) -> Iterator[tuple[TopicPartition, list[Entry]]]:
    for at, entries in made.entries.items():
        step: list[Entry] = []
        size = 0
        for entry in entries:
            if step and (len(step) == STEP_LETTERS or size + entry.size > STEP_BYTES):
                yield at, step
                step, size = [], 0
            step.append(entry)
            size += entry.size
        if step:
            yield at, step


def _replay_step(
    source: ReplaySource, outlet: Outlet, consumer: Consumer, made: Plan, at: TopicPartition, step: list[Entry]
) -> None:
    wanted = {entry.offset for entry in step}
    letters: dict[int, StoredDeadLetter] = {}
    with LogReader(source.client, source.group, ANSWER_SECONDS) as reader:
        for _, found in read_letters(reader, {at: (min(wanted), max(wanted) + 1)}, source.name):
            letters |= {letter.at[2]: letter for letter in found if letter.at[2] in wanted}
    progress = made._progress[at].with_done(made._letters[at], wanted)
    offset = Offset(*at, progress.below, progress.note(source.topic_id))
    producer = outlet.producer
    try:
        if source.atomic:
            producer.begin_transaction()
        for entry in step:
            topic, partition, _ = entry.source
            outlet.send(Batch(topic, partition, [original(letters[entry.offset], source.name)]))
        outlet.flush()
        if source.atomic:
            producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), ANSWER_SECONDS)
            producer.commit_transaction(ANSWER_SECONDS)
        else:
            consumer.commit(offsets=[offset], asynchronous=False)
    except BaseException:
        if source.atomic:
            with suppress(KafkaException):
                producer.abort_transaction(ANSWER_SECONDS)
        raise
    made._progress[at] = progress


def original(letter: StoredDeadLetter, name: str) -> Message:
    """Return the record that a letter was, with a header that says where it stands.

    A letter of a record that was itself replayed keeps the header that says where the first one stands.
    """
    mark = f"{name}.{SOURCE_HEADER}"
    headers = list(letter.headers)
    if not any(header == mark for header, _ in headers):
        topic, partition, offset = letter.source
        headers.append((mark, f"{topic}-{partition}-{offset}".encode()))
    return Message(letter.key, letter.value, headers)
