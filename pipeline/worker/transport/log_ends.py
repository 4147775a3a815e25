"""Where the logs of the assigned partitions end: as far as they can be read, and behind their last records.

Fetches bring both ends. Of a partition that is not fetched at present, because it is paused or much of it waits
already, its leader is queried; and so it is for the producer of an open transaction.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.offset import OffsetRequest, OffsetResetStrategy
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from faust.types import TP

QUERY_SECONDS: Final = 3.0
"""Age of a partition's ends from which its leader is queried, and about the time between two queries."""

KNOWN_SECONDS: Final = 10.0
"""Age above which they are unknown: its leader answers neither fetches nor queries."""

ANSWER_SECONDS: Final = 2.0
"""How long a broker may take to answer a query."""

# An old broker lacks some requests, and a connection can be closed meanwhile.
_UNANSWERED: Final = (KafkaError, OSError, NotImplementedError, TimeoutError)


class LogEnd(NamedTuple):
    """Both ends of a log."""

    stable: int
    """Offset up to which records can be read, the last stable offset: there the first open transaction begins."""
    high: int
    """Offset behind the last record, the high watermark."""


class OpenTransaction(NamedTuple):
    """Who has a transaction open."""

    producer_id: int
    transactional_id: str = ""
    """Empty where the brokers do not show it to this user."""


async def query(client: Any, places: Iterable[TP]) -> dict[TP, LogEnd]:
    """Return the ends of some logs as their leaders report them, without those that no leader reports.

    Runs in the thread of the consumer to whose aiokafka client this is.
    """
    by_leader = defaultdict(list)
    for place in places:
        by_leader[client.cluster.leader_for_partition(place)].append(place)
    queries = (_ends(client, leader, own) for leader, own in by_leader.items() if leader is not None and leader >= 0)
    return {place: end for found in await asyncio.gather(*queries) for place, end in found.items()}


async def _ends(client: Any, leader: int, places: Iterable[TP]) -> dict[TP, LogEnd]:
    topics = defaultdict(list)
    for topic, partition in places:
        topics[topic].append((partition, OffsetResetStrategy.LATEST))
    with suppress(*_UNANSWERED):
        async with asyncio.timeout(ANSWER_SECONDS):
            # In this order, so that the second is never the lower one.
            stable, high = [
                _offsets(await client.send(leader, OffsetRequest(-1, level, list(topics.items()))))
                for level in (READ_COMMITTED, READ_UNCOMMITTED)
            ]
            return {place: LogEnd(offset, high[place]) for place, offset in stable.items() if place in high}
    return {}


def _offsets(response: Any) -> Mapping[TP, int]:
    return {
        TP(topic, partition): offset
        for topic, rows in response.topics
        for partition, problem, _, offset, *_ in rows
        if not problem
    }


async def open_transaction(client: Any, place: TP, offset: int) -> OpenTransaction | None:
    """Return whose transaction begins at an offset; None where that is not known. Runs where `query` does."""
    with suppress(*_UNANSWERED):
        async with asyncio.timeout(ANSWER_SECONDS):
            leader = client.cluster.leader_for_partition(place)
            described = await client.send(leader, _DescribeProducers(place))
            producers = (each for _, rows, _ in described.topics for row in rows for each in row[3])
            producer = next((each[0] for each in producers if each[5] == offset), None)
            if producer is None:
                return None
            with suppress(*_UNANSWERED):
                for broker in client.cluster.brokers():
                    listed = await client.send(broker.nodeId, _ListTransactions(producer))
                    for transactional_id, *_ in listed.transactions:
                        return OpenTransaction(producer, transactional_id)
            return OpenTransaction(producer)
    return None


# What aiokafka has no classes for, two requests of Kafka 3.0; its modules are untyped for mypy.

_TAGS = ("tags", TaggedFields)


class _Producers(Response):  # type: ignore[misc]
    API_KEY = 61
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", CompactString("utf-8")),
                        (
                            "producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("producer_epoch", Int32),
                                ("last_sequence", Int32),
                                ("last_timestamp", Int64),
                                ("coordinator_epoch", Int32),
                                ("transaction_start_offset", Int64),
                                _TAGS,
                            ),
                        ),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _DescribeProducers_v0(RequestStruct):  # type: ignore[misc] # noqa: N801 - as aiokafka names them
    FLEXIBLE_VERSION = True
    API_KEY = 61
    API_VERSION = 0
    RESPONSE_TYPE = _Producers
    SCHEMA = Schema(
        ("topics", CompactArray(("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), _TAGS)), _TAGS
    )


class _DescribeProducers(Request[_DescribeProducers_v0]):  # type: ignore[misc]
    API_KEY = 61

    def __init__(self, place: TP) -> None:
        self._place = place

    def build(self, request_struct_class: type[_DescribeProducers_v0]) -> _DescribeProducers_v0:
        return request_struct_class([(self._place.topic, [self._place.partition], {})], {})


class _Transactions(Response):  # type: ignore[misc]
    API_KEY = 66
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_states", CompactArray(CompactString("utf-8"))),
        (
            "transactions",
            CompactArray(
                ("transactional_id", CompactString("utf-8")),
                ("producer_id", Int64),
                ("state", CompactString("utf-8")),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _ListTransactions_v0(RequestStruct):  # type: ignore[misc] # noqa: N801
    FLEXIBLE_VERSION = True
    API_KEY = 66
    API_VERSION = 0
    RESPONSE_TYPE = _Transactions
    SCHEMA = Schema(("states", CompactArray(CompactString("utf-8"))), ("producer_ids", CompactArray(Int64)), _TAGS)


class _ListTransactions(Request[_ListTransactions_v0]):  # type: ignore[misc]
    API_KEY = 66

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id

    def build(self, request_struct_class: type[_ListTransactions_v0]) -> _ListTransactions_v0:
        return request_struct_class([], [self._producer_id], {})
