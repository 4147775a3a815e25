"""What stands on the topic of the routes.

A route is a feature record on its way to the partition where its stream is learned:

=======================  ==========================================================================================
key                      key of the stream
value                    the record's own value, untouched
header resonance.source  ``[topic, partition, offset, timestamp, before]`` of the record, as JSON; `before` is the
                         offset of the record that went from the same partition to the same partition of the routes
                         before it, -1 for the first
header resonance.key     the record's own key
further headers          the record's own, in their order
=======================  ==========================================================================================

The order of a partition of this topic is the order in which its streams learn. The topic is made by workers and read
by workers; for others it is no place to subscribe to.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.records import Message, RoutedRecord, SourceRecord, bytes_beside

SOURCE: Final = "resonance.source"
KEY: Final = "resonance.key"

FIRST: Final = -1
"""What stands for `before` where nothing went before."""

REST_BYTES: Final = 40_000
"""What keys and headers may bring into a route beside the value, ours included."""

OWN_BYTES: Final = 500
"""Bytes of the header that says where a record stands, at most."""

HEADER_BYTES: Final = 4
"""Bytes that a header takes beside its name and its value, as they are counted here."""

TOPIC_BYTES: Final = 249
"""Longest name of a topic that Kafka takes."""

TOPIC_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_BYTES}}}")

MAX_PARTITIONS: Final = 100_000
"""Partitions of a topic whose records are routed: who names one behind them is no worker."""

_MAX: Final = 2**63


class Route(NamedTuple):
    """A route that was read.

    Attributes
    ----------
    record : RoutedRecord
        The record on it.
    before : int
        Offset of the record before it on this way.
    """

    record: RoutedRecord
    before: int


def route_message(record: SourceRecord, topic: str, partition: int, stream: bytes, to: int, before: int) -> Message:
    """Return a record on its way.

    Parameters
    ----------
    record : SourceRecord
        The feature record; it has a value.
    topic, partition : str, int
        Where it was read.
    stream : bytes
        Key of its stream.
    to : int
        Partition of the routes where the stream is learned.
    before : int
        Offset of the record that took the same way before it, `FIRST` for none.
    """
    source = b'["%b",%d,%d,%d,%d]' % (topic.encode(), partition, record.offset, record.timestamp, before)
    headers: list[tuple[str, bytes | None]] = [(SOURCE, source), (KEY, record.key)]
    if record.headers:
        headers += record.headers
    return Message(stream, record.value, headers, to)


def rest_bytes(record: SourceRecord, stream: bytes) -> int:
    """Return what a route has beside the value, in bytes."""
    return OWN_BYTES + len(stream) + bytes_beside(record) + HEADER_BYTES * len(record.headers or ())


def read_route(record: SourceRecord) -> Route | None:
    """Return what stands on a route; None where another program wrote it."""
    headers: Sequence[tuple[str, bytes | None]] = record.headers
    try:
        (first, source), (second, key) = headers[0], headers[1]
        topic, partition, offset, timestamp, before = orjson.loads(source or b"")
    except (IndexError, TypeError, ValueError):
        return None
    if (first, second) != (SOURCE, KEY) or not record.key or record.value is None:
        return None
    if type(topic) is not str or not (type(partition) is type(offset) is type(timestamp) is type(before) is int):
        return None
    if not (TOPIC_NAME.fullmatch(topic) and 0 <= partition < MAX_PARTITIONS and FIRST <= before < offset < _MAX):
        return None
    routed = RoutedRecord(
        topic, partition, record.offset, timestamp, key, record.value, headers[2:], record.key, offset
    )
    return Route(routed, before)


def no_place(where: str, source: tuple[str, int, int], known: int) -> BrokerError:
    """Return the error for a route whose record no output has a place for, as far as is known.

    What is learned is a function of the routes alone, so that such a route is never left out: a start looks again.

    Parameters
    ----------
    where : str
        The partition of the routes, and the offset there.
    source : (topic, partition, offset)
        Where the record stands.
    known : int
        Partitions of that topic, as they were seen last.
    """
    topic, partition, offset = source
    return BrokerError(
        f"{where} names {topic}[{partition}]@{offset}, and that topic had {known} partitions when this program looked; "
        "an output goes to the partition number of its source. If the topic got more, start again: the start looks "
        "again, and says which outputs lack some. If it did not, another program wrote this route: take the right from "
        "it, and begin anew behind it by `resonance worker --reset`"
    )
