"""Format of the routes topic where the models below a root live elsewhere.

A message goes from the root of a stream to the subtree of one of its nodes, because of one record. Several follow one
another where a record has operations for several subtrees, or more for one than a message holds. The key is the
subtree, ``<stream>/<version>/<root node>``; the header ``traceparent`` is the record's own, where it has one. The value
is binary and little endian: a head as in `HEAD`, followed by the parts that the head announces::

    topic | key | id | copied members | preparation | labels (int64) | vectors (float64)

topic, key
    Topic that the record was read from, and its own key.
id, copied members
    JSON, where ``input.id_path`` and ``output.include`` are set; the copied members only where the record is answered.
preparation
    Turns vectors back into the units of the input. The first message of a subtree has it instead of labels and vectors.
labels, vectors
    Learned in order. Without labels no vector has any.

The order of a partition of this topic is the order in which its subtrees learn.
"""

import struct
from collections.abc import Sequence
from math import isnan
from typing import Final, NamedTuple

import numpy as np
from resonance.engine.base import MAGNITUDE
from resonance.engine.errors import ParameterError
from resonance.engine.hcaea.operations import MAX_NODES
from resonance.engine.labels import MAX_CLASSES
from resonance.engine.prepare import Preparation
from resonance.pipeline import mismatches
from resonance.pipeline.bounded_cache import BoundedCache
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.json_paths import is_json
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.repartition.envelope import MAX_PARTITIONS, REST_BYTES, TOPIC_NAME
from resonance.pipeline.task.decode.dense import Layout, Shape
from resonance.pipeline.task.decode.record_batch import trace_of
from resonance.pipeline.task.encode.message_sizes import ANSWER_BYTES, CAUSE_BYTES
from resonance.pipeline.timestamps import is_canonical

VECTORS_BYTES: Final = 100_000
"""Most bytes of vectors and labels in one message, unless one vector alone is longer."""

NUMBER_BYTES: Final = 8
"""Bytes of a number in a vector, and of a label."""

MIN_BYTES: Final = 1_000_000
"""Message size that the topic accepts at least, whatever `limits.record_bytes` is."""

_FRAME: Final = 20_000
"""Bytes of the rest: head, name of the subtree, ``traceparent``, and what Kafka adds."""


def most_vectors(dimension: int) -> int:
    """Return the largest number of vectors of a dimension in one message."""
    return max(1, VECTORS_BYTES // (NUMBER_BYTES * (dimension + 1)))


def operation_bytes(settings: Settings) -> int:
    """Return the message size that the routes topic must accept, as far as the settings determine it."""
    usual, features = max(settings.limits.record_bytes, MIN_BYTES) + REST_BYTES, settings.features
    if features is None and settings.input.dimension is not None:
        features = Layout(settings, Shape(settings.input.dimension, ())).features
    if features is None:
        return usual
    try:
        return max(usual, _needed(settings.preparation(features)))
    except ParameterError:
        # Settings and features do not fit together; the error of the first record names them.
        return usual


def check_room(settings: Settings, features: Sequence[str], where: str) -> None:
    """Refuse a stream whose messages to subtrees could be longer than the routes topic accepts.

    `where` is the input partition. The `ConfigurationError` names the settings that make the topic large enough.
    """
    needed, taken = _needed(settings.preparation(features)), operation_bytes(settings)
    if needed > taken:
        raise ConfigurationError(
            f"{where}: with hierarchy = keyed a record of {len(features):,} features can have {needed:,} bytes on "
            f"{settings.topic('routes')}, where the settings allow {taken:,}; say in them what a record has "
            f"(input.dimension = {len(features)}, or a list as input.features), and the start requires a topic that "
            "takes it; or use fewer features, or choose hierarchy = local. Where models have learned already, "
            "choose another name, too: they go on under the settings that they had alone"
        )


def _needed(preparation: Preparation) -> int:
    """Return the bytes of the longest message to a subtree of a stream with this initial preparation."""
    vectors = max(VECTORS_BYTES, NUMBER_BYTES * (preparation.dimension + 1))
    # What is learned of the features later has as many bytes as its placeholder has now.
    return max(vectors + ANSWER_BYTES, len(preparation.state()) + CAUSE_BYTES) + _FRAME


FORMAT: Final = 1
"""Format of a message; a newer one is a startup mismatch, because its operations would be missing in the models."""

MARK: Final = b"RA"

HEAD: Final = struct.Struct("<2sBBqqqqdi24sIIIIIII")
"""Mark, format, flags; partition and offset of the record; number of the message in its subtree, `PLAIN` where that has
none yet; cluster and score that the root answered; position of the vector that is the answered record, -1 for none;
time of the record; lengths of topic, key, id, copied members and preparation; number of vectors, and their
dimension."""

EMITTED, NOVEL, REMOVED, LABELLED, KEYED, NAMED, COPIED, FIRST = 1, 2, 4, 8, 16, 32, 64, 128
"""Flags: the message answers its record; the record founded a node; after the vectors the node is removed, and the
subtree with it; there are labels, a key, an id, copied members, a preparation."""

PLAIN: Final = -1
"""Number of a message to a node that has no models below it yet: it only answers the record."""

_KEY_BYTES: Final = 16_000
"""Longest name of a subtree; `message_sizes.CAUSE_BYTES` bounds a key that names a stream in every output."""


class Part(NamedTuple):
    """A subtree: the name of its stream, the version of the model, and the root node."""

    stream: str
    version: int
    node: int

    @property
    def name(self) -> str:
        """Name of the subtree, unique in the deployment."""
        return part_name(*self)


class SubtreeOperation(NamedTuple):
    """A message that was read: the operations of one subtree that one record caused."""

    part: Part
    offset: int
    """Offset of the message among the routes."""
    topic: str
    """With `partition` and `source_offset` the place of the record."""
    partition: int
    source_offset: int
    key: bytes | None
    """The record's own key."""
    trace: bytes | None
    """The record's ``traceparent``."""
    time: str
    id: bytes | None
    """The record's own id as JSON, where ``input.id_path`` is set."""
    included: bytes | None
    """Copied members as a JSON object, where ``output.include`` is set."""
    number: int
    """Messages of the subtree before this one; `PLAIN` while there is no subtree."""
    emitted: bool
    """The record is answered here, with `cluster`, `score` and `novel`."""
    cluster: int
    """-1 for none."""
    score: float
    """NaN for none."""
    novel: bool
    removed: bool
    """After the vectors the node is removed, and the subtree with it."""
    answered: int
    """Position of the vector that is the answered record itself, -1 for none."""
    rows: int
    """Number of vectors."""
    dimension: int
    """Numbers in each vector."""
    labels: bytes
    """Empty where no vector has one."""
    vectors: bytes
    preparation: bytes | None
    """Only in the first message of a subtree."""
    size: int
    """Bytes of the value."""


def part_name(stream: str, version: int, node: int) -> str:
    """Return the name of a subtree, unique in the deployment."""
    return f"{stream}/{version}/{node}"


class Reader:
    """Reads the messages of one partition of the routes.

    It leaves out what no worker wrote, as far as a message alone shows that, so that no message can stop the task.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._parts, self._topics, self._times = BoundedCache(_part_of), BoundedCache(_topic_of), BoundedCache(_time_of)

    def read(self, records: Sequence[SourceRecord]) -> list[SubtreeOperation]:
        """Return the content of messages, in order.

        A message that a newer release wrote is a `MismatchError`.
        """
        messages = [message for record in records if (message := self.read_one(record)) is not None]
        if not _can_be_learned(b"".join([message.vectors for message in messages])):
            messages = [message for message in messages if _can_be_learned(message.vectors)]
        return messages

    def read_one(self, record: SourceRecord) -> SubtreeOperation | None:
        """Return the content of a message without checking its vectors, or None where no worker wrote it."""
        key, value = record.key, record.value
        if key is None or value is None or len(value) < HEAD.size:
            return None
        (
            mark, form, flags, partition, source_offset, number, cluster, score, answered, raw_time,
            of_topic, of_key, of_id, of_included, of_preparation, count, dimension,
        ) = HEAD.unpack_from(value)  # fmt: skip
        if mark != MARK:
            return None
        if form > FORMAT:
            raise mismatches.other_format(self._where, form, FORMAT)
        to_key = HEAD.size + of_topic
        to_id = to_key + of_key
        to_included = to_id + of_id
        to_preparation = to_included + of_included
        to_labels = to_preparation + of_preparation
        to_vectors = to_labels + NUMBER_BYTES * count if flags & LABELLED else to_labels
        # No length is negative, so all parts lie within the value if their sum is its length.
        if to_vectors + NUMBER_BYTES * count * dimension != len(value):
            return None
        raw_topic = value[HEAD.size : to_key]
        part = self._parts[key]
        topic = self._topics[raw_topic]
        time = self._times[raw_time]
        if part is None or topic is None or time is None:
            return None
        message = SubtreeOperation(
            part,
            record.offset,
            topic,
            partition,
            source_offset,
            value[to_key:to_id] if flags & KEYED else None,
            trace_of(record.headers) if record.headers else None,
            time,
            value[to_id:to_included] if flags & NAMED else None,
            value[to_included:to_preparation] if flags & COPIED else None,
            number,
            flags & EMITTED == EMITTED,
            cluster,
            score,
            flags & NOVEL == NOVEL,
            flags & REMOVED == REMOVED,
            answered,
            count,
            dimension,
            value[to_labels:to_vectors] if flags & LABELLED else b"",
            value[to_vectors:],
            value[to_preparation:to_labels] if flags & FIRST else None,
            len(value),
        )
        return message if _makes_sense(message) else None


def _topic_of(raw: bytes) -> str | None:
    text = raw.decode("ascii", "replace")
    return text if TOPIC_NAME.fullmatch(text) else None


def _time_of(raw: bytes) -> str | None:
    text = raw.decode("ascii", "replace")
    return text if is_canonical(text) else None


def _part_of(key: bytes) -> Part | None:
    if len(key) > _KEY_BYTES:
        return None
    try:
        stream, version, node = key.decode().rsplit("/", 2)
        part = Part(stream, int(version), int(node))
    except ValueError:
        return None
    canonical_name = part.name.encode() == key and bool(stream) and stream.isascii() and stream.isprintable()
    there = canonical_name and not set(stream) & {'"', "\\"} and 1 <= part.version < MAX_NODES
    return part if there and 0 <= part.node < MAX_NODES else None


def _makes_sense(message: SubtreeOperation) -> bool:
    """Return whether a worker could have written a message with this content."""
    count, number, emitted, answered = message.rows, message.number, message.emitted, message.answered
    if not 0 <= message.partition < MAX_PARTITIONS or message.source_offset < 0:
        return False
    if count and (number <= 0 or not message.dimension):
        return False
    if emitted:
        score = message.score
        if message.cluster < -1 or not (0.0 <= score <= 1.0 or isnan(score)) or not -1 <= answered < count:
            return False
    elif answered != -1 or message.included is not None:
        return False
    if number > 0:
        is_request = (count > 0 or message.removed) and message.preparation is None
    elif number == 0:
        is_request = message.preparation is not None and not message.removed and not emitted
    else:
        is_request = number == PLAIN and emitted and not message.removed and message.preparation is None
    return (
        is_request
        and (message.size < CAUSE_BYTES or _fits(message))
        and (message.id is None or is_json(message.id))
        and (message.included is None or is_json(message.included, dict))
        and (not message.labels or _are_classes(message.labels))
    )


def _fits(message: SubtreeOperation) -> bool:
    """Return whether what a long message adds to outputs is as short as `message_sizes.too_long` requires."""
    cause = len(message.key or b"") + len(message.id or b"")
    return cause <= CAUSE_BYTES and cause + len(message.included or b"") <= ANSWER_BYTES


def _are_classes(labels: bytes) -> bool:
    found = np.frombuffer(labels, "<i8")
    return bool(((found >= -1) & (found < MAX_CLASSES)).all())


def _can_be_learned(vectors: bytes) -> bool:
    """Return whether all numbers are finite, and no larger than an engine accepts."""
    return bool((np.abs(np.frombuffer(vectors, "<f8")) <= MAGNITUDE).all())
