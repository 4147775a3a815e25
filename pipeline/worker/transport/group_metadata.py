"""A group membership as librdkafka's transactions take it: what its bytes say."""

import re
import struct
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer
from faust.types import TP
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker.transport.chunk import Membership

# librdkafka's own, undocumented serialisation (version 2): generation, group, member id, and a static member's name.
_FORMAT: Final = re.compile(rb"CGMDv2:(.{4})[^\0]*\0([^\0]*)\0(?:\x01|\0[^\0]*\0)", re.DOTALL)


def membership_of(metadata: bytes, partitions: Iterable[TP]) -> Membership:
    """Return the membership that `Consumer.consumer_group_metadata` describes, with the partitions assigned to it.

    Raises `ConfigurationError` where the installed confluent-kafka writes them in another way.
    """
    found = _FORMAT.fullmatch(metadata)
    if found is None:
        raise ConfigurationError(
            "the installed confluent-kafka writes group metadata in a way that this version does not know, so that "
            "transactions could not be fenced; install the version of requirements/lock.txt"
        )
    (generation,) = struct.unpack("<i", found[1])
    return Membership(generation, found[2].decode(), frozenset(partitions), metadata)


def of_no_member(group: str) -> bytes:
    """Return the metadata of a consumer that has not joined its group: Kafka accepts what comes with them unfenced."""
    # Never connects: they come from its configuration alone.
    consumer = Consumer({"group.id": group, "bootstrap.servers": "127.0.0.1:9", "log_level": 0})
    try:
        return bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
