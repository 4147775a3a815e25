"""Format of the records on the routes topic.

A route is a feature record on its way to the partition where its stream is learned:

=======================  ==========================================================================================
key                      key of the stream
value                    the record's own value, unchanged
header resonance.source  ``[topic, partition, offset, timestamp]`` of the record, as JSON; behind them which record
                         of its message it is, if it is not the message
header resonance.key     the record's own key
further headers          the record's own, in their order
=======================  ==========================================================================================

The order of a partition of this topic is the order in which its streams learn. Workers make the topic and read it;
other programs should not subscribe to it.
"""

import re
from collections.abc import Sequence
from typing import Final

import orjson
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.records import MOST_ELEMENTS, Message, RoutedRecord, SourceRecord, bytes_beside

SOURCE: Final = "resonance.source"
KEY: Final = "resonance.key"

REST_BYTES: Final = 40_000
"""Most bytes that keys and headers may add to the value of a route, the product's own included."""

OWN_BYTES: Final = 500
"""Most bytes of the header that names the place of a record."""

HEADER_BYTES: Final = 4
"""Bytes that are counted for each header in addition to its name and value."""

TOPIC_BYTES: Final = 249
"""Longest topic name that Kafka allows."""

TOPIC_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_BYTES}}}")

MAX_PARTITIONS: Final = 100_000
"""Most partitions of a topic whose records are routed; no worker writes a route that names a higher one."""

_MAX: Final = 2**63


def route_message(record: SourceRecord, topic: str, partition: int, stream: bytes, to: int) -> Message:
    """Return the route of a feature record that was read from `partition` of `topic` and has a value.

    `to` is the partition of the routes where `stream` is learned.
    """
    element = b"" if record.element is None else b",%d" % record.element
    source = b'["%b",%d,%d,%d%b]' % (topic.encode(), partition, record.offset, record.timestamp, element)
    headers: list[tuple[str, bytes | None]] = [(SOURCE, source), (KEY, record.key)]
    if record.headers:
        headers += record.headers
    return Message(stream, record.value, headers, to)


def source_of(message: Message) -> tuple[str, int, int]:
    """Return topic, partition and offset of the record that was routed."""
    topic, partition, offset, *_ = orjson.loads(message.headers[0][1] or b"")
    return topic, partition, offset


def rest_bytes(record: SourceRecord, stream: bytes) -> int:
    """Return the bytes of a route without the value."""
    return OWN_BYTES + len(stream) + bytes_beside(record) + HEADER_BYTES * len(record.headers or ())


def read_route(record: SourceRecord) -> RoutedRecord | None:
    """Return the record that a route carries, or None where another program wrote it."""
    headers: Sequence[tuple[str, bytes | None]] = record.headers
    try:
        (first, source), (second, key) = headers[0], headers[1]
        topic, partition, offset, timestamp, *rest = orjson.loads(source or b"")
    except (IndexError, TypeError, ValueError):
        return None
    if (first, second) != (SOURCE, KEY) or not record.key or record.value is None:
        return None
    if type(topic) is not str or not (type(partition) is type(offset) is type(timestamp) is int):
        return None
    if not (TOPIC_NAME.fullmatch(topic) and 0 <= partition < MAX_PARTITIONS and 0 <= offset < _MAX):
        return None
    if not -_MAX <= timestamp < _MAX:
        return None
    element = rest[0] if rest else None
    if len(rest) > 1 or (rest and not (type(element) is int and 0 <= element < MOST_ELEMENTS)):
        return None
    place = topic, partition, record.offset, timestamp
    return RoutedRecord(*place, key, record.value, headers[2:], record.key, offset, element)


def no_place(where: str, source: tuple[str, int, int], known: int) -> BrokerError:
    """Return the error for a route whose record has no output partition, as far as is known.

    `where` is the partition and offset of the route, `source` is the topic, partition and offset of its record, and
    `known` is the latest partition count of that topic.
    """
    # Learning is a function of the routes alone. So such a route is never left out: the next start looks again.
    topic, partition, offset = source
    return BrokerError(
        f"{where} names {topic}[{partition}]@{offset}, and that topic had {known} partitions when this program looked; "
        "an output goes to the partition number of its source. If the topic got more, start again: the start looks "
        "again, and says which outputs lack some. If it did not, another program wrote this route: take the right from "
        "it, and begin anew behind it by `resonance worker --reset`"
    )
